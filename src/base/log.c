/* log.c - decides how a message looks. */
#include "base/log.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 4096
#define CUT_MARK   "..."

static const struct {
    const char *key, *start, *colour;
} level_table[PLIM_LOG_LEVEL_COUNT] = {
#define ROW(name, key, start, colour) {key, start, colour},
    PLIM_LOG_LEVEL_MAP(ROW)
#undef ROW
};

void plim_log_open(plim_log *l, FILE *to, plim_log_level level)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    int fd = fileno(to);
    bool dumb = !term || strcmp(term, "dumb") == 0;
    bool terminal = fd >= 0 && isatty(fd) && !dumb;
    *l = (plim_log){.to = to, .level = level, .terminal = terminal};
    l->colour = terminal && !(no_colour && no_colour[0]);
}

void plim_log_write(plim_log *l, plim_log_level level, const char *fmt, ...)
{
    char text[LINE_BYTES], line[LINE_BYTES + 64];
    if (!l || (unsigned)level >= PLIM_LOG_LEVEL_COUNT || level > l->level) return;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    if ((size_t)n >= sizeof text) memcpy(text + sizeof text - sizeof CUT_MARK, CUT_MARK, sizeof CUT_MARK);
    for (char *p = text; *p; p++)
        if (((unsigned char)*p < ' ' && *p != '\n' && *p != '\t') || *p == 127) *p = '?';
    bool colour = l->colour && level_table[level].colour[0];
    n = snprintf(line, sizeof line, "%s%s%s%s%s%s%s\n", l->drawn ? "\r\033[K" : "", colour ? "\033[" : "",
                 colour ? level_table[level].colour : "", colour ? "m" : "", level_table[level].start,
                 colour ? "\033[0m" : "", text);
    l->drawn = false;
    fwrite(line, 1, (size_t)n, l->to);
    fflush(l->to);
}

plim_status plim_log_level_parse(plim_ctx *c, const char *what, const char *text, plim_log_level *out)
{
    for (int i = 0; i < PLIM_LOG_LEVEL_COUNT; i++)
        if (strcmp(level_table[i].key, text) == 0) {
            *out = (plim_log_level)i;
            return PLIM_OK;
        }
    return plim_fail(c, PLIM_E_USAGE, "%s: '%.40s' is not a level; write error, warn, info or debug", what,
                     text);
}
