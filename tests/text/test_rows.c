/* Rows of files: lines and arrays, marks and line ends, packing, the border of the window, every refusal. */
#include "support/test.h"

#include <stdlib.h>

#include "data/rows.h"

#define BOM "\xef\xbb\xbf"

/* The rows of a file as one text: "line:byte:text|"; for plim_release of nobody, free() it. */
static plim_status read_rows(plim_ctx *c, const char *path, char **out)
{
    plim_rows *r = NULL;
    plim_row row;
    bool found = true;
    size_t bytes = 0;
    char *text = NULL;
    FILE *to = open_memstream(&text, &bytes);
    plim_status st = plim_rows_open(c, path, &r);
    while (!st && found) {
        st = plim_rows_next(r, &row, &found);
        if (!st && found)
            fprintf(to, "%d:%d:%.*s|", (int)row.line, (int)row.byte, row.text ? (int)row.bytes : 4,
                    row.text ? row.text : "LONG");
    }
    if (!st) {
        st = plim_rows_next(r, &row, &found); /* the end stays the end */
        assert_false(found);
    }
    plim_rows_close(r);
    fclose(to);
    *out = text;
    return st;
}

static const char *write_text(const char *text)
{
    const char *path = test_path(test_folder("rows_case"), "in.jsonl");
    test_write(path, text, strlen(text));
    return path;
}

TEST(lines_and_arrays)
{
    UNUSED_STATE;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {BOM, ""},
        {"\n \n\t\r\n", ""},
        {"{}", "1:1:{}|"},
        {"{\"a\":1}\n{\"b\":2}\n", "1:1:{\"a\":1}|2:1:{\"b\":2}|"},
        {BOM "{}\r\n\r\n  {}  \r\n", "1:4:{}|3:3:{}|"},
        {"{}\n" BOM "{}\n", "1:1:{}|2:1:" BOM "{}|"}, /* a mark inside is the reader's to refuse */
        {"\n\n{}\n\n\nnull\n3\n", "3:1:{}|6:1:null|7:1:3|"},
        {"{\"a\":\"\xe2\x80\xa8\xc2\x85\x0b\x0c\"}\n{}\n",
         "1:1:{\"a\":\"\xe2\x80\xa8\xc2\x85\x0b\x0c\"}|2:1:{}|"},
        {"{\r}\n", "1:1:{\r}|"}, /* CR alone ends no line */
        {"[]", ""},
        {"\n [ ]\n", ""},
        {"[]\n{}\n", "1:1:[]|2:1:{}|"}, /* a row that is an array */
        {"\n[]\n[1]\n", "2:1:[]|3:1:[1]|"},
        {"[{}]", "1:2:{}|"},
        {BOM "[\n  {\"a\": [1, 2]},\n  {\"b\": \"],\\\"}\"}\n]\n",
         "2:3:{\"a\": [1, 2]}|3:3:{\"b\": \"],\\\"}\"}|"},
        {"[1,null , \"x\",{\n\"a\"\n:\n1},2]", "1:2:1|1:4:null|1:11:\"x\"|1:15:{\n\"a\"\n:\n1}|4:4:2|"},
        {"[}]", "1:2:}|"}, /* no JSON, but its end is plain */
    };
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = NULL;
        CHECK_OK(c, read_rows(c, write_text(cases[i].text), &got));
        if (strcmp(got, cases[i].want) != 0) fail_msg("case %zu: '%s', wanted '%s'", i, got, cases[i].want);
        free(got);
    }
    test_ctx_close(c);
}

TEST(broken_arrays_are_refused)
{
    UNUSED_STATE;
    static const struct {
        const char *text, *place, *word;
    } cases[] = {
        {"[", ":1: byte 2", "ends within"},
        {"[{}", ":1: byte 2", "ends within"},
        {"[\n{\"a\": \"]", ":2: byte 1", "ends within"},
        {"[{},", ":1: byte 5", "ends within"},
        {"[{},]", ":1: byte 5", "a row is missing"},
        {"[,{}]", ":1: byte 2", "a row is missing"},
        {"[{}]\n{}", ":2: byte 1", "text behind the array"},
        {"[{}]]", ":1: byte 5", "text behind the array"},
    };
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = NULL;
        CHECK_FAILS(c, PLIM_E_FORMAT, read_rows(c, write_text(cases[i].text), &got), "in.jsonl",
                    cases[i].place, cases[i].word);
        free(got);
    }
    test_ctx_close(c);
}

/* Rows of many lengths around the window and the blocks of the stream, plain and packed, as lines and as an
 * array. */
TEST(long_rows_and_packing)
{
    UNUSED_STATE;
    static const size_t bytes[] = {1, 262143, 262144, 262145, 1048575, 1048576, 1048577, 20000000, 3};
    enum { ROWS = sizeof bytes / sizeof *bytes };
    static const char *const kinds[] = {"lines", "array"}, *const packs[] = {"", ".gz", ".two.gz", ".zst",
                                                                             ".two.zst"};
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("rows_long");
    char *out;
    for (int k = 0; k < 2; k++) {
        FILE *to = fopen(test_path(folder, kinds[k]), "w");
        for (int i = 0; i < ROWS; i++) {
            fputs(k ? i ? ",\n" : "[" : "", to);
            fputc('"', to);
            for (size_t n = 0; n < bytes[i]; n++) fputc("abcdefghijk"[(n + (size_t)i) % 11], to);
            fputs(k ? "\"" : "\"\r\n", to);
        }
        if (k) fputs("]", to);
        fclose(to);
    }
    int code = test_command(
        &out,
        "cd '%s' && for f in lines array; do gzip -k1 $f && zstd -q1 $f && head -c 3000000 $f > a && "
        "tail -c +3000001 $f > b && (gzip -c1 a; gzip -c1 b) > $f.two.gz && "
        "(zstd -qc1 a; zstd -qc1 b) > $f.two.zst || exit 9; done",
        folder);
    if (code) {
        print_message("gzip or zstd is not here: %s", out);
        free(out);
        test_ctx_close(c);
        skip();
    }
    free(out);
    for (int k = 0; k < 2; k++) {
        for (size_t p = 0; p < sizeof packs / sizeof *packs; p++) {
            char name[32];
            plim_rows *r = NULL;
            plim_row row;
            bool found = false;
            snprintf(name, sizeof name, "%s%s", kinds[k], packs[p]);
            CHECK_OK(c, plim_rows_open(c, test_path(folder, name), &r));
            for (int i = 0; i < ROWS; i++) {
                CHECK_OK(c, plim_rows_next(r, &row, &found));
                if (!found || row.bytes != bytes[i] + 2) fail_msg("%s: row %d", name, i);
                assert_int_equal(row.line, i + 1);
                assert_int_equal(row.text[1], "abcdefghijk"[i % 11]);
                assert_int_equal(row.text[bytes[i]], "abcdefghijk"[(bytes[i] - 1 + (size_t)i) % 11]);
            }
            CHECK_OK(c, plim_rows_next(r, &row, &found));
            assert_false(found);
            assert_int_equal(plim_rows_done_bytes(r), plim_rows_size_bytes(r));
            plim_rows_close(r);
        }
    }
    test_ctx_close(c);
}

TEST(damaged_packing_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("rows_damaged");
    static const char *const names[] = {"cut.gz", "cut.zst", "flip.gz", "flip.zst", "tail.gz", "tail.zst"};
    static const char *const words[] = {"cut off", "cut off", "damaged", "damaged", "damaged", "damaged"};
    char *out, *got = NULL;
    int code =
        test_command(&out,
                     "cd '%s' && seq 1 90000 > f && gzip -k f && zstd -q --check f && for p in gz zst; do "
                     "head -c 9000 f.$p > cut.$p; (head -c 9000 f.$p; printf XXXXXXXXXXXXXXXXXXXX; tail -c "
                     "+9021 f.$p) > flip.$p; "
                     "(cat f.$p; echo rubbish) > tail.$p; done",
                     folder);
    if (code) {
        free(out);
        test_ctx_close(c);
        skip();
    }
    free(out);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_FAILS(c, PLIM_E_FORMAT, read_rows(c, test_path(folder, names[i]), &got), names[i], words[i]);
        free(got);
    }
    CHECK_FAILS(c, PLIM_E_IO, read_rows(c, test_path(folder, "none"), &got), "none", "No such file");
    free(got);
    CHECK_FAILS(c, PLIM_E_IO, read_rows(c, folder, &got), "is a folder");
    free(got);
    CHECK_FAILS(c, PLIM_E_IO, read_rows(c, "/dev/null", &got), "not a regular file");
    free(got);
    test_ctx_close(c);
}

/* A line above the limit is told and passed over, without holding it. */
TEST(too_long_a_row_is_passed_over)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("rows_too_long");
    char *out, *got = NULL;
    int code = test_command(
        &out,
        "cd '%s' && (echo 1; head -c 280000000 /dev/zero | tr '\\0' x; echo; echo 2) | gzip -1 > l && "
        "(echo '[1,'; head -c 280000000 /dev/zero | tr '\\0' x; echo ',2]') | gzip -1 > a",
        folder);
    if (code) {
        free(out);
        test_ctx_close(c);
        skip();
    }
    free(out);
    CHECK_OK(c, read_rows(c, test_path(folder, "l"), &got));
    assert_string_equal(got, "1:1:1|2:1:LONG|3:1:2|");
    free(got);
    CHECK_OK(c, read_rows(c, test_path(folder, "a"), &got));
    assert_string_equal(got, "1:2:1|2:1:LONG|2:280000002:2|");
    free(got);
    test_ctx_close(c);
}

static plim_status open_and_read(plim_ctx *c, void *path)
{
    char *got = NULL;
    plim_status st = read_rows(c, path, &got);
    free(got);
    return st;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char path[3][4096], *out;
    const char *folder = test_folder("rows_memory");
    int code = test_command(&out, "cd '%s' && seq 1 900 > f && gzip -k f && zstd -q f", folder);
    free(out);
    static const char *const names[] = {"f", "f.gz", "f.zst"};
    for (int i = 0; i < (code ? 1 : 3); i++) {
        snprintf(path[i], sizeof path[i], "%s", test_path(folder, names[i]));
        assert_true(test_every_allocation(c, open_and_read, path[i]) >= 3);
    }
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(lines_and_arrays),
        cmocka_unit_test(broken_arrays_are_refused),
        cmocka_unit_test(long_rows_and_packing),
        cmocka_unit_test(damaged_packing_is_refused),
        cmocka_unit_test(too_long_a_row_is_passed_over),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
