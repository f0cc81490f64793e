/* progress.c - decides when a progress line is drawn and what it says. */
#include "base/progress.h"

#include <string.h>
#include <sys/ioctl.h>

#include "base/units.h"

#define QUIET_S    2.0
#define INTERVAL_S 0.1
#define LINE_BYTES 256
#define WIPE       "\r\033[K"

void plim_progress_open(plim_progress *p, plim_log *log, plim_clock clock, const char *what, const char *unit,
                        int64_t first, int64_t total)
{
    double now_s = plim_clock_now_s(clock);
    *p = (plim_progress){log, clock, what, unit, first, total, now_s, now_s};
}

static bool drawable(const plim_progress *p)
{
    return p->log && p->log->terminal && p->log->level >= PLIM_LOG_INFO;
}

/* Tenths below 100, whole numbers above. */
static const char *format_rate(char buf[PLIM_NUMBER_BYTES], double per_s)
{
    if (per_s >= 100) return plim_format_thousands(buf, per_s < 1e18 ? (int64_t)(per_s + 0.5) : INT64_MAX);
    unsigned tenths = (unsigned)(per_s * 10 + 0.5);
    snprintf(buf, PLIM_NUMBER_BYTES, "%u.%u", tenths / 10, tenths % 10);
    return buf;
}

static size_t terminal_columns(FILE *to)
{
    struct winsize size;
    int fd = fileno(to);
    if (fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 10) return size.ws_col;
    return 80;
}

static void append(char line[LINE_BYTES], const char *a, const char *b, const char *c)
{
    size_t used = strlen(line);
    snprintf(line + used, LINE_BYTES - used, "%s%s%s", a, b, c);
}

static void describe(const plim_progress *p, int64_t done, double elapsed_s, char line[LINE_BYTES])
{
    char number[PLIM_NUMBER_BYTES];
    line[0] = 0;
    append(line, p->what, ": ", plim_format_thousands(number, done));
    if (p->total > 0) append(line, "/", plim_format_thousands(number, p->total), "");
    append(line, " ", p->unit, "");
    if (p->total > 0) {
        double part = done <= 0 ? 0 : done >= p->total ? 1 : (double)done / (double)p->total;
        append(line, ", ", plim_format_thousands(number, (int64_t)(part * 100)), " %");
    }
    double per_s = elapsed_s > 0 && done > p->first ? (double)(done - p->first) / elapsed_s : 0;
    if (!(per_s > 0)) return;
    append(line, ", ", format_rate(number, per_s), " ");
    append(line, p->unit, "/s", "");
    if (done < p->total)
        append(line, ", ", plim_format_duration(number, (double)(p->total - done) / per_s), " left");
}

void plim_progress_update(plim_progress *p, int64_t done)
{
    char line[LINE_BYTES];
    if (!drawable(p)) return;
    double now_s = plim_clock_now_s(p->clock);
    if (now_s - p->start_s < QUIET_S || now_s - p->drawn_s < INTERVAL_S) return;
    p->drawn_s = now_s;
    describe(p, done, now_s - p->start_s, line);
    size_t n = strlen(line), columns = terminal_columns(p->log->to);
    if (n >= columns) n = columns - 1; /* a full line would wrap, and could not be wiped */
    fputs(WIPE, p->log->to);
    fwrite(line, 1, n, p->log->to);
    fflush(p->log->to);
    p->log->drawn = true;
}

void plim_progress_close(plim_progress *p)
{
    if (!p->log || !p->log->drawn) return;
    fputs(WIPE, p->log->to);
    fflush(p->log->to);
    p->log->drawn = false;
}
