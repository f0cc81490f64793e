/* progress.h - one line that tells how far a long piece of work is:
 *     loading weights: 1,234/55,000 MiB, 2 %, 812.4 MiB/s, 1.1 min left
 * Drawn only on a terminal, only after 2 s, at most 10 times a second, and wiped by the next message or by
 * close. */
#ifndef PLIM_BASE_PROGRESS_H
#define PLIM_BASE_PROGRESS_H

#include "base/clock.h"
#include "base/log.h"

typedef struct plim_progress {
    plim_log *log;
    plim_clock clock;
    const char *what, *unit;
    int64_t first, total;
    double start_s, drawn_s;
} plim_progress;

/* Work from first (0, or where a resumed run starts; it does not count for the rate) to total; total 0:
 * unknown. what ("loading weights") and unit ("MiB", "steps") must stay alive.  log NULL: silent. */
void plim_progress_open(plim_progress *p, plim_log *log, plim_clock clock, const char *what, const char *unit,
                        int64_t first, int64_t total);

/* done: counted like first and total.  Cheap enough for every step. */
void plim_progress_update(plim_progress *p, int64_t done);

void plim_progress_close(plim_progress *p);

#endif
