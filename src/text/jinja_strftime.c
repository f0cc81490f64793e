/* jinja_strftime.c - decides how strftime_now writes the date: in UTC and in English, whatever the host's
 * locale. */
#include "text/jinja_machine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

/* Writes what one letter after % stands for; false: not known. */
static bool piece(char letter, const struct tm *t, int64_t epoch_s, char out[64])
{
    int hour12 = t->tm_hour % 12 ? t->tm_hour % 12 : 12;
    switch (letter) {
    case 'Y': snprintf(out, 64, "%d", t->tm_year + 1900); return true;
    case 'y': snprintf(out, 64, "%02d", t->tm_year % 100); return true;
    case 'm': snprintf(out, 64, "%02d", t->tm_mon + 1); return true;
    case 'd': snprintf(out, 64, "%02d", t->tm_mday); return true;
    case 'e': snprintf(out, 64, "%2d", t->tm_mday); return true;
    case 'H': snprintf(out, 64, "%02d", t->tm_hour); return true;
    case 'I': snprintf(out, 64, "%02d", hour12); return true;
    case 'M': snprintf(out, 64, "%02d", t->tm_min); return true;
    case 'S': snprintf(out, 64, "%02d", t->tm_sec); return true;
    case 'f': snprintf(out, 64, "000000"); return true;
    case 'j': snprintf(out, 64, "%03d", t->tm_yday + 1); return true;
    case 'p': snprintf(out, 64, "%s", t->tm_hour < 12 ? "AM" : "PM"); return true;
    case 'a': snprintf(out, 64, "%.3s", days[t->tm_wday]); return true;
    case 'A': snprintf(out, 64, "%s", days[t->tm_wday]); return true;
    case 'b':
    case 'h': snprintf(out, 64, "%.3s", months[t->tm_mon]); return true;
    case 'B': snprintf(out, 64, "%s", months[t->tm_mon]); return true;
    case 'w': snprintf(out, 64, "%d", t->tm_wday); return true;
    case 'u': snprintf(out, 64, "%d", t->tm_wday ? t->tm_wday : 7); return true;
    case 'U': snprintf(out, 64, "%02d", (t->tm_yday + 7 - t->tm_wday) / 7); return true;
    case 'W': snprintf(out, 64, "%02d", (t->tm_yday + 7 - (t->tm_wday + 6) % 7) / 7); return true;
    case 'F': snprintf(out, 64, "%d-%02d-%02d", t->tm_year + 1900, t->tm_mon + 1, t->tm_mday); return true;
    case 'T': snprintf(out, 64, "%02d:%02d:%02d", t->tm_hour, t->tm_min, t->tm_sec); return true;
    case 'R': snprintf(out, 64, "%02d:%02d", t->tm_hour, t->tm_min); return true;
    case 'D':
    case 'x': snprintf(out, 64, "%02d/%02d/%02d", t->tm_mon + 1, t->tm_mday, t->tm_year % 100); return true;
    case 'X': snprintf(out, 64, "%02d:%02d:%02d", t->tm_hour, t->tm_min, t->tm_sec); return true;
    case 'c':
        snprintf(out, 64, "%.3s %.3s %2d %02d:%02d:%02d %d", days[t->tm_wday], months[t->tm_mon], t->tm_mday,
                 t->tm_hour, t->tm_min, t->tm_sec, t->tm_year + 1900);
        return true;
    case 's': snprintf(out, 64, "%lld", (long long)epoch_s); return true;
    case 'Z':
    case 'z': out[0] = 0; return true; /* Python's now() has no zone */
    case 'n': snprintf(out, 64, "\n"); return true;
    case 't': snprintf(out, 64, "\t"); return true;
    case '%': snprintf(out, 64, "%%"); return true;
    default: return false;
    }
}

plim_status plim_jm_strftime(plim_jm *m, const plim_js *format, plim_jv *out)
{
    int64_t epoch_s = 0;
    struct tm parts;
    char text[64];
    plim_jbuilder b = {.pool = m->pool};
    TRY(plim_date_s(m->ctx, &epoch_s));
    time_t when = (time_t)epoch_s;
    if (!gmtime_r(&when, &parts)) return plim_jm_fail(m, PLIM_E_RANGE, "the date does not fit a calendar");
    for (size_t at = 0; at < format->bytes; at++) {
        plim_jrun run = plim_js_run_at(format, at);
        char letter = at + 1 < format->bytes ? format->text[at + 1] : 0;
        bool bare = letter == '-' && at + 2 < format->bytes; /* %-d: without the zero before */
        if (format->text[at] != '%' || !letter) {
            TRY(plim_jbuilder_add(&b, format->text + at, 1, run));
            continue;
        }
        if (bare) letter = format->text[at + 2];
        if (!piece(letter, &parts, epoch_s, text))
            return plim_jm_fail(m, PLIM_E_UNSUPPORTED, "strftime_now: %%%c is not known",
                                letter > 0x20 ? letter : '?');
        const char *shown = text;
        while (bare && (*shown == '0' || *shown == ' ') && shown[1]) shown++;
        TRY(plim_jbuilder_add(&b, shown, strlen(shown), run));
        at += bare ? 2 : 1;
    }
    return plim_jbuilder_done(&b, false, out);
}
