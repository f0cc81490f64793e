/* log.h - messages for people, on a stream the program chooses.  Results never go here. */
#ifndef PLIM_BASE_LOG_H
#define PLIM_BASE_LOG_H

#include <stdio.h>

#include "base/context.h"

/* Name for --log-level, what a line starts with, colour of that start. */
#define PLIM_LOG_LEVEL_MAP(X)                                                                                \
    X(ERROR, "error", "error: ", "1;31")                                                                     \
    X(WARN, "warn", "warning: ", "1;33")                                                                     \
    X(INFO, "info", "", "")                                                                                  \
    X(DEBUG, "debug", "debug: ", "2")

typedef enum plim_log_level {
#define PLIM_LOG_ENUM(name, key, start, colour) PLIM_LOG_##name,
    PLIM_LOG_LEVEL_MAP(PLIM_LOG_ENUM)
#undef PLIM_LOG_ENUM
        PLIM_LOG_LEVEL_COUNT
} plim_log_level;

typedef struct plim_log {
    FILE *to;
    plim_log_level level; /* the last one shown */
    bool terminal;        /* progress may be drawn */
    bool colour;
    bool drawn; /* a progress line stands there unfinished; the next message wipes it */
} plim_log;

/* Colour on a terminal, unless NO_COLOR is set and not empty (no-color.org); TERM absent or "dumb" is no
 * terminal. */
void plim_log_open(plim_log *l, FILE *to, plim_log_level level);

/* One message, one write, with a line end; cut at 4 KiB.  Control characters from file names and the like are
 * shown as '?'; line ends and tabs are kept.  l NULL: silent.  A stream that cannot be written is not an
 * error. */
void plim_log_write(plim_log *l, plim_log_level level, const char *fmt, ...) PLIM_PRINTF(3, 4);

/* "error", "warn", "info" or "debug".  Errors: PLIM_E_USAGE. */
plim_status plim_log_level_parse(plim_ctx *c, const char *what, const char *text, plim_log_level *out);

#endif
