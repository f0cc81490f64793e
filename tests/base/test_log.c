/* Log and progress: levels, colour and when not, what is wiped; the line's text and its timing by a set
 * clock. */
#include "support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/progress.h"

/* A stream whose content can be looked at, piece by piece. */
typedef struct sheet {
    FILE *f;
    char *text;
    size_t bytes, taken;
} sheet;

static void sheet_open(sheet *s)
{
    *s = (sheet){NULL, NULL, 0, 0};
    s->f = open_memstream(&s->text, &s->bytes);
    if (!s->f) fail_msg("no stream");
}

static void check_sheet(sheet *s, const char *want)
{
    fflush(s->f);
    assert_string_equal(s->text + s->taken, want);
    s->taken = s->bytes;
}

static void sheet_close(sheet *s)
{
    fclose(s->f);
    free(s->text);
}

TEST(levels)
{
    UNUSED_STATE;
    sheet s;
    plim_log l;
    sheet_open(&s);
    plim_log_open(&l, s.f, PLIM_LOG_INFO);
    assert_false(l.terminal || l.colour);
    plim_log_write(&l, PLIM_LOG_ERROR, "no %s", "model");
    plim_log_write(&l, PLIM_LOG_WARN, "slow");
    plim_log_write(&l, PLIM_LOG_INFO, "%d layers", 64);
    plim_log_write(&l, PLIM_LOG_DEBUG, "never seen");
    plim_log_write(NULL, PLIM_LOG_ERROR, "nowhere");
    check_sheet(&s, "error: no model\nwarning: slow\n64 layers\n");
    l.level = PLIM_LOG_ERROR;
    plim_log_write(&l, PLIM_LOG_WARN, "never seen");
    check_sheet(&s, "");
    l.level = PLIM_LOG_DEBUG;
    plim_log_write(&l, PLIM_LOG_DEBUG, "seen");
    check_sheet(&s, "debug: seen\n");
    sheet_close(&s);
}

TEST(level_names)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const char *const name[] = {"error", "warn", "info", "debug"};
    plim_log_level level = PLIM_LOG_LEVEL_COUNT;
    for (int i = 0; i < 4; i++) {
        CHECK_OK(c, plim_log_level_parse(c, "--log-level", name[i], &level));
        assert_int_equal(level, i);
    }
    CHECK_FAILS(c, PLIM_E_USAGE, plim_log_level_parse(c, "--log-level", "loud", &level), "--log-level",
                "loud", "debug");
    CHECK_FAILS(c, PLIM_E_USAGE, plim_log_level_parse(c, "--log-level", "", &level), "error, warn");
    assert_int_equal(level, PLIM_LOG_DEBUG);
    test_ctx_close(c);
}

TEST(colour_and_strange_bytes)
{
    UNUSED_STATE;
    sheet s;
    plim_log l;
    sheet_open(&s);
    plim_log_open(&l, s.f, PLIM_LOG_INFO);
    l.colour = true;
    plim_log_write(&l, PLIM_LOG_ERROR, "bad");
    plim_log_write(&l, PLIM_LOG_INFO, "plain");
    check_sheet(&s, "\033[1;31merror: \033[0mbad\nplain\n");
    l.colour = false;
    plim_log_write(&l, PLIM_LOG_WARN, "file \033[2Jx\r\x7f\ta\nb \xc3\xa4");
    check_sheet(&s, "warning: file ?[2Jx??\ta\nb \xc3\xa4\n");
    char long_text[9000];
    memset(long_text, 'y', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    plim_log_write(&l, PLIM_LOG_INFO, "%s", long_text);
    fflush(s.f);
    assert_int_equal(s.bytes - s.taken, 4096);
    assert_string_equal(s.text + s.bytes - 5, "y...\n");
    sheet_close(&s);
}

TEST(a_terminal_is_noticed)
{
    UNUSED_STATE;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) skip();
    FILE *f = fopen(ptsname(master), "r+");
    if (!f) skip();
    plim_log l;
    static const struct {
        const char *no_color, *term;
        bool terminal, colour;
    } row[] = {
        {NULL, "xterm", true, true}, {"", "xterm", true, true},    {"1", "xterm", true, false},
        {"0", "xterm", true, false}, {NULL, "dumb", false, false}, {NULL, NULL, false, false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        unsetenv("NO_COLOR");
        unsetenv("TERM");
        if (row[i].no_color) setenv("NO_COLOR", row[i].no_color, 1);
        if (row[i].term) setenv("TERM", row[i].term, 1);
        plim_log_open(&l, f, PLIM_LOG_INFO);
        assert_int_equal(l.terminal, row[i].terminal);
        assert_int_equal(l.colour, row[i].colour);
    }
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    FILE *plain = tmpfile();
    plim_log_open(&l, plain, PLIM_LOG_INFO);
    assert_false(l.terminal || l.colour);
    fclose(plain);
    fclose(f);
    close(master);
}

static double set_clock(void *user)
{
    return *(double *)user;
}

TEST(progress_tells_rate_and_time_left)
{
    UNUSED_STATE;
    sheet s;
    plim_log l;
    plim_progress p;
    double now_s = 1000;
    sheet_open(&s);
    plim_log_open(&l, s.f, PLIM_LOG_INFO);
    l.terminal = true;
    plim_progress_open(&p, &l, (plim_clock){set_clock, &now_s}, "loading", "MiB", 0, 55000);
    now_s = 1001.99;
    plim_progress_update(&p, 500);
    check_sheet(&s, ""); /* not yet */
    now_s = 1002;
    plim_progress_update(&p, 1000);
    check_sheet(&s, "\r\033[Kloading: 1,000/55,000 MiB, 1 %, 500 MiB/s, 1.8 min left");
    now_s = 1002.05;
    plim_progress_update(&p, 1050);
    check_sheet(&s, ""); /* too soon */
    now_s = 1010;
    plim_progress_update(&p, 100);
    check_sheet(&s, "\r\033[Kloading: 100/55,000 MiB, 0 %, 10.0 MiB/s, 1.5 h left");
    plim_log_write(&l, PLIM_LOG_INFO, "note");
    check_sheet(&s, "\r\033[Knote\n");
    now_s = 1020;
    plim_progress_update(&p, 55000);
    check_sheet(&s, "\r\033[Kloading: 55,000/55,000 MiB, 100 %, 2,750 MiB/s");
    plim_progress_close(&p);
    check_sheet(&s, "\r\033[K");
    plim_progress_close(&p);
    plim_log_write(&l, PLIM_LOG_INFO, "done");
    check_sheet(&s, "done\n");
    sheet_close(&s);
}

TEST(progress_at_its_edges)
{
    UNUSED_STATE;
    sheet s;
    plim_log l;
    plim_progress p;
    double now_s = 0;
    plim_clock clock = {set_clock, &now_s};
    sheet_open(&s);
    plim_log_open(&l, s.f, PLIM_LOG_INFO);
    l.terminal = true;
    plim_progress_open(&p, &l, clock, "step", "steps", 500,
                       1000); /* resumed: 500 do not count for the rate */
    now_s = 10;
    plim_progress_update(&p, 500);
    check_sheet(&s, "\r\033[Kstep: 500/1,000 steps, 50 %");
    now_s = 20;
    plim_progress_update(&p, 510);
    check_sheet(&s, "\r\033[Kstep: 510/1,000 steps, 51 %, 0.5 steps/s, 16 min left");
    plim_progress_open(&p, &l, clock, "reading", "lines", 0, 0); /* no total */
    now_s = 30;
    plim_progress_update(&p, 1234567);
    check_sheet(&s, "\r\033[Kreading: 1,234,567 lines, 123,457 lines/s");
    plim_progress_open(&p, &l, clock, "counting", "x", 0, INT64_MAX);
    now_s = 40;
    plim_progress_update(&p, INT64_MAX);
    fflush(s.f);
    assert_int_equal(strlen(s.text + s.taken), strlen("\r\033[K") + 79); /* cut before it wraps */
    s.taken = s.bytes;
    plim_progress_close(&p);
    check_sheet(&s, "\r\033[K");
    sheet_close(&s);
}

TEST(progress_stays_silent)
{
    UNUSED_STATE;
    sheet s;
    plim_log l;
    plim_progress p;
    double now_s = 0;
    plim_clock clock = {set_clock, &now_s};
    sheet_open(&s);
    plim_log_open(&l, s.f, PLIM_LOG_INFO);
    for (int i = 0; i < 3; i++) {
        l.terminal = i == 1;
        l.level = i == 1 ? PLIM_LOG_WARN : PLIM_LOG_INFO;
        plim_progress_open(&p, i == 2 ? NULL : &l, clock, "x", "y", 0, 10);
        now_s += 100;
        plim_progress_update(&p, 5);
        plim_progress_close(&p);
    }
    check_sheet(&s, "");
    sheet_close(&s);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(levels),
        cmocka_unit_test(level_names),
        cmocka_unit_test(colour_and_strange_bytes),
        cmocka_unit_test(a_terminal_is_noticed),
        cmocka_unit_test(progress_tells_rate_and_time_left),
        cmocka_unit_test(progress_at_its_edges),
        cmocka_unit_test(progress_stays_silent),
    };
    return RUN_TESTS(table);
}
