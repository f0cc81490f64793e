/* Safetensors: every refusal by name, truncation at every byte, the writer read back, many tensors. */
#include "support/test.h"

#include <stdlib.h>

#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"

/* A file in memory: 8 bytes of length, the header as given, data_bytes counting bytes. */
static char *image(const char *header, size_t data_bytes, size_t *bytes)
{
    size_t length = strlen(header);
    char *p = malloc(8 + length + data_bytes);
    for (int i = 0; i < 8; i++) p[i] = (char)(length >> (8 * i));
    memcpy(p + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) p[8 + length + i] = (char)i;
    *bytes = 8 + length + data_bytes;
    return p;
}

static plim_status parse(plim_ctx *c, const char *header, size_t data_bytes, plim_safetensors **out)
{
    size_t bytes;
    char *p = image(header, data_bytes, &bytes);
    plim_status st = plim_safetensors_parse(c, "mem", p, bytes, bytes, out);
    free(p);
    return st;
}

static const char *write_image(const char *folder, const char *name, const char *header, size_t data_bytes)
{
    size_t bytes;
    char *p = image(header, data_bytes, &bytes);
    const char *path = test_path(folder, name);
    test_write(path, p, bytes);
    free(p);
    return path;
}

#define SMALL                                                                                                \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                                 \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]},"                                     \
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"                                       \
    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[12,12]},"                                 \
    "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[12,13]}}"

TEST(reads_what_is_there)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    const char *path = write_image(test_folder("safetensors-read"), "small.safetensors", SMALL, 13);
    CHECK_OK(c, plim_safetensors_open(c, path, &s));
    assert_int_equal(plim_safetensors_count(s), 4);
    assert_string_equal(plim_safetensors_at(s, 0)->name, "a");
    assert_string_equal(plim_safetensors_at(s, 1)->name, "b");
    assert_string_equal(plim_safetensors_metadata(s, "format"), "pt");
    assert_null(plim_safetensors_metadata(s, "other"));
    assert_int_equal(plim_safetensors_metadata_count(s), 1);
    assert_int_equal(plim_safetensors_data_start_bytes(s), 8 + strlen(SMALL));
    assert_int_equal(plim_safetensors_file_bytes(s), 8 + strlen(SMALL) + 13);

    const plim_safetensors_tensor *b = plim_safetensors_find(s, "b");
    assert_int_equal(b->dtype, PLIM_F32);
    assert_int_equal(b->dims, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->elements, 2);
    assert_int_equal(b->size_bytes, 8);
    assert_int_equal(b->offset_bytes, 8 + strlen(SMALL) + 4);
    assert_memory_equal(plim_safetensors_data(s, b), "\x04\x05\x06\x07\x08\x09\x0a\x0b", 8);
    const plim_safetensors_tensor *one = plim_safetensors_find(s, "one");
    assert_int_equal(one->dims, 0);
    assert_int_equal(one->elements, 1);
    assert_memory_equal(plim_safetensors_data(s, one), "\x0c", 1);
    assert_int_equal(plim_safetensors_find(s, "none")->elements, 0);
    assert_null(plim_safetensors_find(s, "aa"));
    assert_null(plim_safetensors_find(s, "__metadata__"));
    plim_safetensors_close(s);
    test_ctx_close(c);
}

TEST(an_empty_file_of_tensors_is_fine)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    CHECK_OK(c, parse(c, "{}", 0, &s));
    assert_int_equal(plim_safetensors_count(s), 0);
    assert_null(plim_safetensors_find(s, "x"));
    plim_safetensors_close(s);
    CHECK_OK(c, parse(c, "{\"__metadata__\":{\"a\":\"\"}}   ", 0, &s));
    assert_string_equal(plim_safetensors_metadata(s, "a"), "");
    plim_safetensors_close(s);
    test_ctx_close(c);
}

TEST(every_dtype_of_ours_is_read)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (int d = 0; d < PLIM_DTYPE_COUNT; d++) {
        char header[256];
        plim_safetensors *s = NULL;
        size_t bytes = 3 * plim_dtype_bytes((plim_dtype)d);
        snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}",
                 plim_dtype_name((plim_dtype)d), bytes);
        CHECK_OK(c, parse(c, header, bytes, &s));
        assert_int_equal(plim_safetensors_at(s, 0)->dtype, d);
        plim_safetensors_close(s);
    }
    test_ctx_close(c);
}

#define X(fields)     "{\"x\":{" fields "}}"
#define OFFSETS(b, e) "\"data_offsets\":[" #b "," #e "]"
#define SHAPED(shape) "\"dtype\":\"U8\",\"shape\":" shape ","
#define TWO(b0, e0, b1, e1)                                                                                  \
    "{\"x\":{\"dtype\":\"U8\",\"shape\":[" #e0 "],\"data_offsets\":[" #b0 "," #e0 "]},"                      \
    "\"y\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" #b1 "," #e1 "]}}"

TEST(refuses_what_does_not_hold_together)
{
    UNUSED_STATE;
    static const struct {
        const char *header;
        size_t data_bytes;
        plim_status st;
        const char *words[3];
    } bad[] = {
        {"", 4, PLIM_E_FORMAT, {"start with '{'"}},
        {" {}", 0, PLIM_E_FORMAT, {"start with '{'"}},
        {"[]", 0, PLIM_E_FORMAT, {"start with '{'"}},
        {"{", 0, PLIM_E_FORMAT, {"mem: header:1:2", "not valid JSON"}},
        {"{}x", 0, PLIM_E_FORMAT, {"header:1:3"}},
        {"{\"x\":1}", 0, PLIM_E_FORMAT, {"tensor x", "found nothing"}},
        {"{\"x\":{}}", 0, PLIM_E_FORMAT, {"tensor x", "data_offsets"}},
        {"{\"\xC3(\":{}}", 0, PLIM_E_FORMAT, {"UTF-8"}},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2,
         PLIM_E_FORMAT,
         {"duplicate", "x"}},
        {"{\"__metadata__\":3}", 0, PLIM_E_FORMAT, {"__metadata__"}},
        {"{\"__metadata__\":{\"k\":1}}", 0, PLIM_E_FORMAT, {"__metadata__", "'k'"}},
        {X(SHAPED("[1]") "\"data_offsets\":[0]"), 1, PLIM_E_FORMAT, {"data_offsets", "[0]"}},
        {X(SHAPED("[1]") "\"data_offsets\":[0,1.0]"), 1, PLIM_E_FORMAT, {"data_offsets", "1.0"}},
        {X(SHAPED("[1]") OFFSETS(-1, 0)), 1, PLIM_E_FORMAT, {"0 <= begin", "-1"}},
        {X(SHAPED("[1]") OFFSETS(2, 1)), 1, PLIM_E_FORMAT, {"begin <= end", "[2,1]"}},
        {X(SHAPED("[1]") OFFSETS(0, 99999999999999999999)), 1, PLIM_E_FORMAT, {"JSON"}},
        {X("\"dtype\":\"U8\"," OFFSETS(0, 1)), 1, PLIM_E_FORMAT, {"shape", "nothing"}},
        {X(SHAPED("3") OFFSETS(0, 3)), 3, PLIM_E_FORMAT, {"shape", "found 3"}},
        {X(SHAPED("[-1]") OFFSETS(0, 1)), 1, PLIM_E_FORMAT, {"shape", "[-1]"}},
        {X(SHAPED("[1.0]") OFFSETS(0, 1)), 1, PLIM_E_FORMAT, {"shape"}},
        {X(SHAPED("[4294967296,4294967296]") OFFSETS(0, 0)), 0, PLIM_E_FORMAT, {"shape", "2^63"}},
        {X(SHAPED("[1,1,1,1,1,1,1,1,1]") OFFSETS(0, 1)), 1, PLIM_E_FORMAT, {"at most 8"}},
        {X("\"dtype\":\"F64\",\"shape\":[4611686018427387904]," OFFSETS(0, 0)),
         0,
         PLIM_E_FORMAT,
         {"2^63 bytes"}},
        {X("\"dtype\":7,\"shape\":[1]," OFFSETS(0, 1)), 1, PLIM_E_FORMAT, {"dtype", "found 7"}},
        {X("\"dtype\":\"U8\",\"shape\":[1],\"more\":0," OFFSETS(0, 1)), 1, PLIM_E_FORMAT, {"4 members"}},
        {X("\"dtype\":\"F4\",\"shape\":[2]," OFFSETS(0, 1)), 1, PLIM_E_UNSUPPORTED, {"tensor x", "F4"}},
        {X("\"dtype\":\"F8_E8M0\",\"shape\":[1]," OFFSETS(0, 1)), 1, PLIM_E_UNSUPPORTED, {"F8_E8M0"}},
        {X("\"dtype\":\"bf16\",\"shape\":[1]," OFFSETS(0, 2)), 2, PLIM_E_UNSUPPORTED, {"bf16"}},
        {X(SHAPED("[3]") OFFSETS(0, 4)), 4, PLIM_E_FORMAT, {"3 elements of U8 are 3 bytes", "span 4"}},
        {X(SHAPED("[0]") OFFSETS(0, 4)), 4, PLIM_E_FORMAT, {"0 bytes", "span 4"}},
        {TWO(0, 4, 3, 7), 7, PLIM_E_FORMAT, {"tensor y", "inside tensor x", "ends at byte 4"}},
        {TWO(0, 4, 0, 4), 4, PLIM_E_FORMAT, {"tensor y", "inside tensor x"}},
        {TWO(0, 4, 6, 10), 10, PLIM_E_FORMAT, {"tensor y", "2 bytes before", "byte 4"}},
        {TWO(0, 4, 4, 8), 7, PLIM_E_FORMAT, {"8 bytes of data expected, 7 present: 1 missing", "first is y"}},
        {TWO(0, 4, 4, 8), 24, PLIM_E_FORMAT, {"8 bytes of data expected, 24 present: 16 trailing"}},
        {"{}", 1, PLIM_E_FORMAT, {"1 trailing"}},
    };
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plim_safetensors *s = NULL;
        plim_status st = parse(c, bad[i].header, bad[i].data_bytes, &s);
        for (size_t w = 0; w < 3 && bad[i].words[w]; w++)
            if (!strstr(plim_ctx_message(c), bad[i].words[w]))
                fail_msg("%s: no '%s' in: %s", bad[i].header, bad[i].words[w], plim_ctx_message(c));
        CHECK_FAILS(c, bad[i].st, st, "mem: ");
        assert_null(s);
    }
    /* an offset whose sum with the header would pass 2^63 is out of range like any other */
    plim_safetensors *s = NULL;
    CHECK_FAILS(c, PLIM_E_FORMAT,
                parse(c, X(SHAPED("[9223372036854775807]") OFFSETS(0, 9223372036854775807)), 4, &s),
                "9223372036854775807 bytes of data expected, 4 present");
    test_ctx_close(c);
}

TEST(header_length_is_held_against_the_file)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    unsigned char head[16] = {9, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_parse(c, "mem", head, 10, 10, &s),
                "9 bytes expected, 2 present");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_parse(c, "mem", head, 10, 1000, &s),
                "9 bytes expected, 2 present");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_parse(c, "mem", head, 7, 7, &s), "8 bytes",
                "7 bytes are present");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_parse(c, "mem", "", 0, 0, &s), "0 bytes are present");
    /* 132,095,296, a length that a writer without the cap has produced; and one past 2^63 */
    static const unsigned char above[8] = {0x40, 0x9d, 0xdf, 0x07};
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_parse(c, "mem", above, 8, UINT64_C(1) << 40, &s),
                "132095296 bytes", "100000000", "1099511627776");
    memset(head, 0xff, 8);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_parse(c, "mem", head, 10, 10, &s), "18446744073709551615",
                "100000000");
    assert_null(s);
    test_ctx_close(c);
}

/* A header of exactly 100,000 bytes is a header like any other. */
TEST(no_fixed_prefix_is_assumed)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    char *header = malloc(100001);
    memset(header, ' ', 100000);
    header[100000] = 0;
    memcpy(header, SMALL, strlen(SMALL));
    const char *path = write_image(test_folder("safetensors-prefix"), "long.safetensors", header, 13);
    CHECK_OK(c, plim_safetensors_open(c, path, &s));
    assert_int_equal(plim_safetensors_data_start_bytes(s), 100008);
    assert_memory_equal(plim_safetensors_data(s, plim_safetensors_find(s, "one")), "\x0c", 1);
    plim_safetensors_close(s);
    free(header);
    test_ctx_close(c);
}

TEST(truncation_at_every_byte_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    size_t bytes;
    char *whole = image(SMALL, 13, &bytes);
    const char *path = test_path(test_folder("safetensors-cut"), "cut.safetensors");
    for (size_t cut = 0; cut < bytes; cut++) {
        plim_safetensors *s = NULL;
        test_write(path, whole, cut);
        CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_open(c, path, &s), "cut.safetensors: ", "present");
        assert_null(s);
    }
    free(whole);
    test_ctx_close(c);
}

TEST(a_pointer_file_gets_its_own_sentence)
{
    UNUSED_STATE;
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:0000000000000000000000000000000000000000000000000000000000000000\n"
        "size 3958745088\n";
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    const char *path = test_path(test_folder("safetensors-lfs"), "model.safetensors");
    test_write(path, pointer, sizeof pointer - 1);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_open(c, path, &s), "git-lfs pointer", "3958745088 bytes",
                "git lfs pull");
    test_write(path, pointer, 30);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_open(c, path, &s), "git-lfs pointer");
    CHECK_FAILS(c, PLIM_E_IO, plim_safetensors_open(c, "test-tmp/no-such-file", &s), "no-such-file");
    test_ctx_close(c);
}

/* ---- survey -------------------------------------------------------------------------------------------- */

typedef struct survey {
    size_t count[PLIM_SAFETENSORS_FAULT_COUNT];
    char last[512];
} survey;

static plim_status note(void *user, plim_safetensors_fault fault, const char *tensor, const char *text)
{
    survey *v = user;
    v->count[fault]++;
    snprintf(v->last, sizeof v->last, "%s|%s", tensor, text);
    return PLIM_OK;
}

TEST(a_survey_reports_every_fault)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    const char *folder = test_folder("safetensors-survey");
    const char *path = write_image(folder, "many.safetensors",
                                   "{\"f4\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]},"
                                   "\"size\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,8]},"
                                   "\"over\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[6,10]},"
                                   "\"hole\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[12,13]},"
                                   "\"good\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[13,14]},"
                                   "\"far\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[14,23]}}",
                                   20);
    survey v = {0};
    CHECK_OK(c, plim_safetensors_survey(c, path, note, &v, &s));
    assert_int_equal(plim_safetensors_count(s), 6);
    assert_int_equal(v.count[PLIM_SAFETENSORS_DTYPE_UNKNOWN], 1);
    assert_int_equal(v.count[PLIM_SAFETENSORS_SIZE], 1);
    assert_int_equal(v.count[PLIM_SAFETENSORS_OVERLAP], 1);
    assert_int_equal(v.count[PLIM_SAFETENSORS_HOLE], 1);
    assert_int_equal(v.count[PLIM_SAFETENSORS_TRUNCATED], 1);
    assert_int_equal(v.count[PLIM_SAFETENSORS_TRAILING], 0);
    assert_false(plim_safetensors_find(s, "good")->faulty);
    assert_non_null(plim_safetensors_data(s, plim_safetensors_find(s, "good")));
    static const char *const faulty[] = {"f4", "size", "over", "far"};
    for (size_t i = 0; i < 4; i++) {
        assert_true(plim_safetensors_find(s, faulty[i])->faulty);
        assert_null(plim_safetensors_data(s, plim_safetensors_find(s, faulty[i])));
    }
    plim_safetensors_close(s);

    /* without usable offsets of one tensor, holes and trailing bytes would be guesses */
    path = write_image(folder, "unsure.safetensors",
                       "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]},"
                       "\"y\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                       20);
    v = (survey){0};
    CHECK_OK(c, plim_safetensors_survey(c, path, note, &v, &s));
    assert_int_equal(v.count[PLIM_SAFETENSORS_ENTRY], 1);
    assert_int_equal(v.count[PLIM_SAFETENSORS_HOLE] + v.count[PLIM_SAFETENSORS_TRAILING], 0);
    plim_safetensors_close(s);

    /* no header to go on with: a report, no message left in the context, no file */
    v = (survey){0};
    path = write_image(folder, "json.safetensors", "{\"x\":}", 0);
    CHECK_OK(c, plim_safetensors_survey(c, path, note, &v, &s));
    assert_null(s);
    assert_int_equal(v.count[PLIM_SAFETENSORS_HEADER], 1);
    assert_non_null(strstr(v.last, "|header:1:6: not valid JSON"));
    assert_string_equal(plim_ctx_message(c), "");
    test_write(path, "123", 3);
    CHECK_OK(c, plim_safetensors_survey(c, path, note, &v, &s));
    assert_null(s);
    assert_int_equal(v.count[PLIM_SAFETENSORS_HEADER_LENGTH], 1);
    test_ctx_close(c);
}

/* ---- many ---------------------------------------------------------------------------------------------- */

TEST(a_hundred_thousand_tensors)
{
    UNUSED_STATE;
    enum { N = 100000 };
    plim_ctx *c = test_ctx_open();
    char *header = malloc((size_t)N * 100), name[40];
    size_t at = (size_t)sprintf(header, "{");
    for (int i = 0; i < N; i++) /* backwards, so that the order of the data is not that of the header */
        at += (size_t)sprintf(header + at,
                              "%s\"layer.%d.w\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                              i ? "," : "", i, 2 * (N - 1 - i), 2 * (N - i));
    sprintf(header + at, "}");
    plim_safetensors *s = NULL;
    CHECK_OK(c, parse(c, header, 2 * N, &s));
    assert_int_equal(plim_safetensors_count(s), N);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "layer.%d.w", i);
        const plim_safetensors_tensor *t = plim_safetensors_find(s, name);
        assert_non_null(t);
        assert_ptr_equal(t, plim_safetensors_at(s, (size_t)(N - 1 - i)));
    }
    plim_safetensors_close(s);
    free(header);
    test_ctx_close(c);
}

/* ---- writer -------------------------------------------------------------------------------------------- */

static plim_status write_two(plim_ctx *c, void *user)
{
    plim_safetensors_writer *w = NULL;
    plim_status st = plim_safetensors_writer_open(c, user, &w);
    if (st) return st;
    plim_safetensors_writer_metadata(w, "format", "pt");
    plim_safetensors_writer_metadata(w, "quo\"te\\", "line\n\x01 Kant\xc5\x8d");
    plim_safetensors_writer_tensor(w, "x.weight", PLIM_F32, 2, (const int64_t[]){3, 2});
    plim_safetensors_writer_tensor(w, "empty", PLIM_I64, 3, (const int64_t[]){0, 5, 9});
    plim_safetensors_writer_tensor(w, "y\"", PLIM_U8, 0, NULL);
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    plim_safetensors_writer_data(w, x, 5);
    plim_safetensors_writer_data(w, (const char *)x + 5, sizeof x - 5);
    plim_safetensors_writer_data(w, "!", 1);
    return plim_safetensors_writer_commit(w);
}

TEST(what_is_written_is_read)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    const char *path = test_path(test_folder("safetensors-write"), "two.safetensors");
    CHECK_OK(c, write_two(c, (void *)(uintptr_t)path));
    CHECK_OK(c, plim_safetensors_open(c, path, &s));
    assert_int_equal(plim_safetensors_count(s), 3);
    assert_int_equal(plim_safetensors_data_start_bytes(s) % 64, 0);
    assert_string_equal(plim_safetensors_metadata(s, "format"), "pt");
    assert_string_equal(plim_safetensors_metadata(s, "quo\"te\\"), "line\n\x01 Kant\xc5\x8d");
    const plim_safetensors_tensor *x = plim_safetensors_find(s, "x.weight");
    assert_int_equal(x->dims, 2);
    assert_int_equal(x->shape[0], 3);
    static const float want[6] = {1, 2, 3, 4, 5, 6};
    assert_memory_equal(plim_safetensors_data(s, x), want, sizeof want);
    assert_int_equal(plim_safetensors_find(s, "empty")->elements, 0);
    assert_memory_equal(plim_safetensors_data(s, plim_safetensors_find(s, "y\"")), "!", 1);
    plim_safetensors_close(s);
    test_ctx_close(c);
}

TEST(a_writer_refuses_and_leaves_the_old_file)
{
    UNUSED_STATE;
    static const int64_t one[] = {1}, negative[] = {-1}, huge[] = {INT64_MAX / 2};
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("safetensors-refuse"), *path = test_path(folder, "old.safetensors");
    test_write(path, "old", 3);
    for (int what = 0; what < 11; what++) {
        plim_safetensors_writer *w = NULL;
        const char *word = "?";
        plim_status want = PLIM_E_RANGE;
        CHECK_OK(c, plim_safetensors_writer_open(c, path, &w));
        if (what == 10) {
            plim_safetensors_writer_abort(w);
            plim_safetensors_writer_abort(NULL);
            continue;
        }
        plim_safetensors_writer_tensor(w, "x", PLIM_U8, 1, one);
        switch (what) {
        case 0: word = "negative", plim_safetensors_writer_tensor(w, "y", PLIM_U8, 1, negative); break;
        case 1: word = "too many", plim_safetensors_writer_tensor(w, "y", PLIM_U8, 9, one); break;
        case 2: word = "2^63", plim_safetensors_writer_tensor(w, "y", PLIM_F32, 1, huge); break;
        case 3:
            word = "not a name", plim_safetensors_writer_tensor(w, "__metadata__", PLIM_U8, 1, one);
            break;
        case 4: word = "only 0 given"; break;
        case 5:
            word = "1 bytes of data declared, 0 and 2 more", plim_safetensors_writer_data(w, "ab", 2);
            break;
        case 6:
            word = "after the first byte", plim_safetensors_writer_data(w, "a", 1);
            plim_safetensors_writer_tensor(w, "y", PLIM_U8, 1, one);
            break;
        case 7:
            word = "after the first byte", plim_safetensors_writer_data(w, "a", 1);
            plim_safetensors_writer_metadata(w, "k", "v");
            break;
        case 8:
            word = "duplicate", want = PLIM_E_FORMAT, plim_safetensors_writer_tensor(w, "x", PLIM_U8, 1, one);
            plim_safetensors_writer_data(w, "ab", 2);
            break;
        default:
            word = "UTF-8", want = PLIM_E_FORMAT, plim_safetensors_writer_metadata(w, "k", "\xff");
            plim_safetensors_writer_data(w, "a", 1);
        }
        CHECK_FAILS(c, want, plim_safetensors_writer_commit(w), word, "old.safetensors");
    }
    char *out;
    assert_int_equal(test_command(&out, "cat '%s'; ls -A '%s' | wc -l", path, folder), 0);
    assert_string_equal(out, "old1\n");
    free(out);
    test_ctx_close(c);
}

/* A header above the cap is refused before anything is written. */
TEST(a_writer_keeps_the_cap)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors_writer *w = NULL;
    const char *path = test_path(test_folder("safetensors-cap"), "big.safetensors");
    char *value = malloc(25000001);
    memset(value, 'x', 25000000);
    value[25000000] = 0;
    CHECK_OK(c, plim_safetensors_writer_open(c, path, &w));
    for (int i = 0; i < 4; i++)
        CHECK_OK(c, plim_safetensors_writer_metadata(w, (const char[]){(char)('a' + i), 0}, value));
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_safetensors_writer_commit(w), "at most 100000000");
    free(value);
    test_ctx_close(c);
}

/* ---- allocations --------------------------------------------------------------------------------------- */

static plim_status open_and_close(plim_ctx *c, void *user)
{
    plim_safetensors *s = NULL;
    plim_status st = plim_safetensors_open(c, user, &s);
    plim_safetensors_close(s);
    return st;
}

static plim_status survey_and_close(plim_ctx *c, void *user)
{
    plim_safetensors *s = NULL;
    survey v = {0};
    plim_status st = plim_safetensors_survey(c, user, note, &v, &s);
    plim_safetensors_close(s);
    return st;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("safetensors-oom");
    const char *path = write_image(folder, "small.safetensors", SMALL, 13);
    assert_true(test_every_allocation(c, open_and_close, (void *)(uintptr_t)path) > 10);
    path = write_image(folder, "faulty.safetensors", TWO(0, 4, 3, 7), 6);
    assert_true(test_every_allocation(c, survey_and_close, (void *)(uintptr_t)path) > 10);
    path = test_path(folder, "written.safetensors");
    assert_true(test_every_allocation(c, write_two, (void *)(uintptr_t)path) > 10);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(reads_what_is_there),
        cmocka_unit_test(an_empty_file_of_tensors_is_fine),
        cmocka_unit_test(every_dtype_of_ours_is_read),
        cmocka_unit_test(refuses_what_does_not_hold_together),
        cmocka_unit_test(header_length_is_held_against_the_file),
        cmocka_unit_test(no_fixed_prefix_is_assumed),
        cmocka_unit_test(truncation_at_every_byte_is_refused),
        cmocka_unit_test(a_pointer_file_gets_its_own_sentence),
        cmocka_unit_test(a_survey_reports_every_fault),
        cmocka_unit_test(a_hundred_thousand_tensors),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_writer_refuses_and_leaves_the_old_file),
        cmocka_unit_test(a_writer_keeps_the_cap),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
