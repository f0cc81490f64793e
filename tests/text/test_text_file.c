/* Reading texts: marks and line ends, places, the borders of the window, every refusal. */
#include "support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/text_file.h"

#define WINDOW_BYTES (1 << 20)

/* Reads path to its end into out, which is large enough. */
static plim_status read_all(plim_ctx *c, const char *path, char *out, size_t *bytes, plim_text_place *end)
{
    plim_text_file *f = NULL;
    plim_text_place at;
    int byte = 0;
    size_t n = 0;
    plim_status st = plim_text_open(c, path, &f, &at);
    if (st) return st;
    while (!st && !(st = plim_text_next(f, &at, &byte)) && byte >= 0) out[n++] = (char)byte;
    plim_text_close(f);
    if (st) return st;
    *bytes = n;
    *end = at;
    return PLIM_OK;
}

TEST(marks_and_line_ends)
{
    UNUSED_STATE;
    static const struct {
        const char *text, *want;
        uint64_t line; /* at the end */
    } cases[] = {
        {"", "", 1},
        {"a", "a", 1},
        {"a\n", "a\n", 2},
        {"a\r\nb\r\n", "a\nb\n", 3},
        {"\xef\xbb\xbf"
         "a",
         "a", 1},
        {"\xef\xbb\xbf", "", 1},
        {"a\xef\xbb\xbf", "a\xef\xbb\xbf", 1}, /* a mark inside is a character */
        {"\xef\xbb\xbf\xef\xbb\xbf", "\xef\xbb\xbf", 1},
        {"\r", "\r", 1},
        {"\r\r\n\n\r", "\r\n\n\r", 3},
        {"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
         "\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
         1},
        {"\x01\x7f", "\x01\x7f", 1},
    };
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("text_ends"), "t.txt");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        size_t n = 99;
        plim_text_place end;
        test_write(path, cases[i].text, strlen(cases[i].text));
        CHECK_OK(c, read_all(c, path, out, &n, &end));
        assert_int_equal(n, strlen(cases[i].want));
        assert_memory_equal(out, cases[i].want, n);
        assert_int_equal(end.line, cases[i].line);
    }
    test_ctx_close(c);
}

TEST(refuses_what_is_no_text)
{
    UNUSED_STATE;
    static const struct {
        const char *text;
        size_t bytes;
        const char *words[3];
    } cases[] = {
        {"ab\ncd\x80", 6, {":2: byte 3 of the line (0x80, byte 6", "begins no character", "iconv"}},
        {"\xef\xbb\xbf\xff", 4, {":1: byte 1 of the line (0xff, byte 4", "begins no character", "UTF-8"}},
        {"\xff\xfe"
         "a",
         3,
         {":1: byte 1 of the line (0xff, byte 1", "begins no character", ""}},
        {"a\0b", 3, {":1: byte 2 of the line (0x00, byte 2", "is NUL", ""}},
        {"\xc0\xaf", 2, {"(0xc0, byte 1", "begins no character", ""}},
        {"\xc1\xbf", 2, {"(0xc1, byte 1", "begins no character", ""}},
        {"\xf5\x80\x80\x80", 4, {"(0xf5, byte 1", "begins no character", ""}},
        {"\xe0\x9f\xbf", 3, {"(0x9f, byte 2", "does not belong", ""}},
        {"\xed\xa0\x80", 3, {"(0xa0, byte 2", "does not belong", ""}}, /* a surrogate */
        {"\xf0\x8f\xbf\xbf", 4, {"(0x8f, byte 2", "does not belong", ""}},
        {"\xf4\x90\x80\x80", 4, {"(0x90, byte 2", "does not belong", ""}},
        {"\r\n\xe2\x82\n", 5, {":2: byte 3 of the line (0x0a, byte 5", "does not belong", ""}},
        {"a\xe2\x82", 3, {":1: the file ends inside a character", "byte 2", ""}},
        {"\xf0\x9f\x98", 3, {"the file ends inside a character", "byte 1", ""}},
    };
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("text_bad"), "t.txt");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        size_t n;
        plim_text_place end;
        test_write(path, cases[i].text, cases[i].bytes);
        CHECK_FAILS(c, PLIM_E_FORMAT, read_all(c, path, out, &n, &end), path, cases[i].words[0],
                    cases[i].words[1], cases[i].words[2]);
    }
    test_ctx_close(c);
}

TEST(refuses_files_it_cannot_come_back_to)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("text_files"), *path = test_path(folder, "t.txt");
    const char *pipe = test_path(folder, "pipe");
    plim_text_file *f = NULL;
    plim_text_place at;
    int byte = 0;
    CHECK_FAILS(c, PLIM_E_IO, plim_text_open(c, path, &f, &at), path, "No such file");
    CHECK_FAILS(c, PLIM_E_IO, plim_text_open(c, folder, &f, &at), folder, "a folder");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    CHECK_FAILS(c, PLIM_E_IO, plim_text_open(c, pipe, &f, &at), pipe, "regular file");
    assert_null(f);
    test_write(path, "abc", 3);
    CHECK_OK(c, plim_text_open(c, path, &f, &at));
    CHECK_OK(c, plim_text_unchanged(f));
    assert_int_equal(plim_text_size_bytes(f), 3);
    assert_int_equal(truncate(path, 1), 0);
    CHECK_FAILS(c, PLIM_E_IO, plim_text_unchanged(f), path, "changed");
    plim_text_close(f);
    char *large = calloc(1, WINDOW_BYTES + 2);
    assert_non_null(large);
    memset(large, 'a', WINDOW_BYTES + 2);
    test_write(path, large, WINDOW_BYTES + 2);
    free(large);
    CHECK_OK(c, plim_text_open(c, path, &f, &at));
    assert_int_equal(truncate(path, 1), 0);
    plim_status st = PLIM_OK;
    while (!st && byte >= 0) st = plim_text_next(f, &at, &byte);
    CHECK_FAILS(c, PLIM_E_IO, st, path, "became shorter");
    plim_text_close(f);
    plim_text_close(NULL);
    test_ctx_close(c);
}

/* Characters of every width and CRLF lie across the window's border at every phase; places lead back. */
TEST(the_window_does_not_show)
{
    UNUSED_STATE;
    static const char unit[] = "a\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x98\x80\r\n"; /* 12 bytes, 11 of text */
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("text_window"), "t.txt");
    size_t cap = 2 * WINDOW_BYTES + 100, n = 0;
    char *text = malloc(cap), *out = malloc(cap);
    assert_true(text && out);
    for (size_t phase = 0; phase < 12; phase++) {
        size_t bytes = phase;
        memset(text, 'x', phase);
        while (bytes + 12 <= 2 * WINDOW_BYTES + 60) {
            memcpy(text + bytes, unit, 12);
            bytes += 12;
        }
        test_write(path, text, bytes);
        plim_text_place end;
        CHECK_OK(c, read_all(c, path, out, &n, &end));
        assert_int_equal(end.line, 1 + (bytes - phase) / 12);
        assert_int_equal(n, phase + (bytes - phase) / 12 * 11);
        for (size_t i = phase; i < n; i += 11)
            if (memcmp(out + i, unit, 10) != 0 || out[i + 10] != '\n')
                fail_msg("phase %zu, byte %zu", phase, i);
    }
    plim_text_file *f = NULL;
    plim_text_place start, at;
    int first = 0, again = 0;
    CHECK_OK(c, plim_text_open(c, path, &f, &start));
    at = start;
    for (size_t i = 0; i < WINDOW_BYTES + 5; i++) CHECK_OK(c, plim_text_next(f, &at, &first));
    plim_text_place far = at;
    CHECK_OK(c, plim_text_next(f, &far, &first));
    at = start;
    CHECK_OK(c, plim_text_next(f, &at, &again));
    assert_int_equal(again, out[0]);
    at = far;
    CHECK_OK(c, plim_text_next(f, &at, &again));
    assert_int_equal((char)again, out[WINDOW_BYTES + 6]);
    plim_text_close(f);
    free(text);
    free(out);
    test_ctx_close(c);
}

static plim_status open_and_close(plim_ctx *c, void *user)
{
    plim_text_file *f = NULL;
    plim_text_place at;
    plim_status st = plim_text_open(c, user, &f, &at);
    plim_text_close(f);
    return st;
}

TEST(every_allocation)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("text_memory"), "t.txt");
    test_write(path, "abc", 3);
    assert_int_equal(test_every_allocation(c, open_and_close, (void *)(uintptr_t)path), 1);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(marks_and_line_ends),
        cmocka_unit_test(refuses_what_is_no_text),
        cmocka_unit_test(refuses_files_it_cannot_come_back_to),
        cmocka_unit_test(the_window_does_not_show),
        cmocka_unit_test(every_allocation),
    };
    return RUN_TESTS(table);
}
