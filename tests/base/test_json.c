/* Strict JSON: what is refused and where, typed members, positions, out of memory. */
#include "support/test.h"

#include <locale.h>
#include <stdlib.h>

#include "base/json.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

static plim_status parse(plim_ctx *c, const char *text, size_t bytes)
{
    plim_json j;
    plim_status st = plim_json_parse(c, "t.json", text, bytes, PLIM_JSON_CAP_BYTES, &j);
    if (st == PLIM_OK) plim_json_close(&j);
    return st;
}

TEST(refuses_what_is_not_json)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *text;
        size_t bytes; /* 0: strlen */
        const char *where, *what;
    } bad[] = {
        {"", 0, "t.json:1:1:", "empty"},
        {" \n\t ", 0, "t.json:1:1:", "empty"},
        {"\xEF\xBB\xBF{}", 0, "t.json:1:1:", "byte-order mark"},
        {"\xFF\xFE{\0}\0", 6, "t.json:1:1:", "UTF-16"},
        {"{", 0, "t.json:1:2:", "ends inside an object"},
        {"{\"a\"", 0, "t.json:1:5:", "ends inside an object"},
        {"{\"a\":", 0, "t.json:1:6:", "ends inside"},
        {"{\"a\":1", 0, "t.json:1:7:", "ends inside an object"},
        {"[1,\n 2", 0, "t.json:2:3:", "ends inside an array"},
        {"{\"ab", 0, "t.json:1:5:", "ends inside a string"},
        {"{\"ab\\", 0, "t.json:1:6:", "ends inside a string"},
        {"{\"ab\\u12", 0, "t.json:1:9:", "ends inside a string"},
        {"[tru", 0, "t.json:1:5:", "ends inside a word"},
        {"[-", 0, "t.json:1:3:", "ends inside a number"},
        {"[1.", 0, "t.json:1:4:", "ends inside a number"},
        {"[1e", 0, "t.json:1:4:", "ends inside a number"},
        {"{\"a\": 1,\n  \"a\": 2}", 0, "t.json:2:3:", "duplicate key \"a\""},
        {"{\"a\": 1, \"\\u0061\": 2}", 0, "t.json:1:10:", "duplicate key \"a\""},
        {"{\"a\": null, \"a\": null}", 0, "t.json:1:13:", "duplicate key"},
        {"{} x", 0, "t.json:1:4:", "'x' follows"},
        {"{}\0", 3, "t.json:1:3:", "byte 0x00 follows"},
        {"{\"a\0b\": 1}", 10, "t.json:1:4:", "control byte 0x00"},
        {"[\"\\u0000\"]", 0, "t.json:1:3:", "\\u0000"},
        {"[\"a\nb\"]", 0, "t.json:1:4:", "control byte 0x0A"},
        {"[\"\xC0\x80\"]", 0, "t.json:1:3:", "not UTF-8"},
        {"[\"\xED\xA0\x80\"]", 0, "t.json:1:3:", "not UTF-8"},
        {"[\"\xE0\x80\x80\"]", 0, "t.json:1:3:", "not UTF-8"},
        {"[\"\xF0\x80\x80\x80\"]", 0, "t.json:1:3:", "not UTF-8"},
        {"[\"\xF4\x90\x80\x80\"]", 0, "t.json:1:3:", "not UTF-8"},
        {"[\"\xC3", 0, "t.json:1:3:", "not UTF-8"},
        {"[\"\xC3\xA4\xC3\"]", 0, "t.json:1:4:", "not UTF-8"}, /* a column is a character */
        {"[\"\\ud800\"]", 0, "t.json:1:3:", "surrogate"},
        {"[\"\\ud800\\u0041\"]", 0, "t.json:1:3:", "surrogate"},
        {"[\"\\udc00\"]", 0, "t.json:1:3:", "surrogate"},
        {"[\"\\x\"]", 0, "t.json:1:3:", "escape"},
        {"[\"\\u00g0\"]", 0, "t.json:1:7:", "hexadecimal"},
        {"[01]", 0, "t.json:1:2:", "leading zeros"},
        {"[.5]", 0, "t.json:1:2:", "value was expected"},
        {"[+1]", 0, "t.json:1:2:", "value was expected"},
        {"[1.x]", 0, "t.json:1:2:", "decimal point"},
        {"[-x]", 0, "t.json:1:2:", "minus"},
        {"[1e+]", 0, "t.json:1:2:", "exponent"},
        {"[NaN]", 0, "t.json:1:2:", "NaN"},
        {"[Infinity]", 0, "t.json:1:2:", "Infinity"},
        {"[9223372036854775808]", 0, "t.json:1:2:", "64-bit integer"},
        {"[-9223372036854775809]", 0, "t.json:1:2:", "64-bit integer"},
        {"[1e400]", 0, "t.json:1:2:", "double"},
        {"[1,]", 0, "t.json:1:4:", "value was expected"},
        {"{\"a\":1,}", 0, "t.json:1:8:", "double quotes"},
        {"{a:1}", 0, "t.json:1:2:", "double quotes"},
        {"{\"a\" 1}", 0, "t.json:1:6:", "':'"},
        {"[1 2]", 0, "t.json:1:4:", "',' or ']'"},
        {"{\"a\":1]", 0, "t.json:1:7:", "',' or '}'"},
        {"// x\n{}", 0, "t.json:1:1:", "comments"},
    };
    for (size_t i = 0; i < LEN(bad); i++) {
        size_t n = bad[i].bytes ? bad[i].bytes : strlen(bad[i].text);
        char *exact = malloc(n ? n : 1); /* so that a read behind the end is seen */
        memcpy(exact, bad[i].text, n);
        CHECK_FAILS(c, PLIM_E_FORMAT, parse(c, exact, n), bad[i].where, bad[i].what);
        free(exact);
    }
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

TEST(refuses_depth_size_and_long_numbers)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    size_t n = 1 << 20;
    char *text = malloc(n);
    plim_json j;
    memset(text, '[', n);
    CHECK_FAILS(c, PLIM_E_FORMAT, parse(c, text, n), "t.json:1:257:", "256 levels");
    for (size_t i = 0; i + 5 <= n; i += 5) memcpy(text + i, "{\"a\":", 5);
    CHECK_FAILS(c, PLIM_E_FORMAT, parse(c, text, n), "256 levels");
    memset(text, '[', PLIM_JSON_MAX_DEPTH);
    memset(text + PLIM_JSON_MAX_DEPTH, ']', PLIM_JSON_MAX_DEPTH);
    CHECK_OK(c, parse(c, text, 2 * PLIM_JSON_MAX_DEPTH));
    memset(text, '1', 300);
    CHECK_FAILS(c, PLIM_E_FORMAT, parse(c, text, 300), "t.json:1:1:", "300 characters");
    CHECK_OK(c, plim_json_parse(c, "t.json", "[1]", 3, 3, &j));
    plim_json_close(&j);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_parse(c, "t.json", "[1]", 3, 2, &j), "t.json", "3 bytes",
                "at most 2 bytes");
    free(text);
    test_ctx_close(c);
}

static const char sample[] =
    "{\"i\": [0, -0, 9223372036854775807, -9223372036854775808],\n"
    " \"r\": [1.5, -2e-3, 1E2, 0.1, 1e-400, 123456789012345678901.0],\n"
    " \"s\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\ud83d\\ude00\\uFFFF\xC3\xA4\",\n"
    " \"a key longer than any small buffer would hold\": [true, false, null, {}, []]}\n";

TEST(reads_every_kind_of_value)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_json j;
    CHECK_OK(c, plim_json_parse(c, "t.json", sample, sizeof sample - 1, PLIM_JSON_CAP_BYTES, &j));
    json_t *want = json_loads(sample, JSON_REJECT_DUPLICATES, NULL); /* the other reader of the same text */
    assert_non_null(want);
    assert_true(json_equal(want, j.root));
    json_decref(want);
    const char *s = NULL;
    CHECK_OK(c, plim_json_string(&j, j.root, "", "s", &s));
    assert_string_equal(s, "\"\\/\b\f\n\r\t\xC3\xA4\xF0\x9F\x98\x80\xEF\xBF\xBF\xC3\xA4");
    plim_json_close(&j);
    plim_json_close(&j);
    plim_json_close(NULL);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

TEST(reads_reals_in_any_locale)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const char *const comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    plim_json j;
    double v = 0;
    for (size_t i = 0; i < LEN(comma); i++) {
        setlocale(LC_NUMERIC, comma[i]); /* stays C where the locale is not installed */
        CHECK_OK(c, plim_json_parse(c, "t.json", "[{\"x\": 1.25e1}]", 15, 100, &j));
        CHECK_OK(c, plim_json_double(&j, json_array_get(j.root, 0), "[0]", "x", 0, 100, &v));
        assert_true(v == 12.5);
        plim_json_close(&j);
    }
    setlocale(LC_NUMERIC, "C");
    test_ctx_close(c);
}

static const char members[] =
    "{\n"
    "  \"n\": 7, \"big\": 5120.0, \"neg\": -3, \"x\": 0.5, \"b\": true, \"z\": null,\n"
    "  \"s\": \"w\\\"ord\", \"o\": {\"p.q\": {\"r\": [10, {\"t\": \"u\"}, 30]}},\n"
    "  \"p\": {\"p\": 1}\n"
    "}\n";

TEST(typed_members_and_positions)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_json j;
    CHECK_OK(c, plim_json_parse(c, "m.json", members, sizeof members - 1, PLIM_JSON_CAP_BYTES, &j));
    int64_t n = -1;
    double x = -1;
    bool b = false;
    const char *s = NULL;
    const json_t *o = NULL, *a = NULL, *none = NULL;
    CHECK_OK(c, plim_json_i64(&j, j.root, "", "n", 7, 7, &n));
    CHECK_OK(c, plim_json_double(&j, j.root, "", "n", 7, 7, &x));
    assert_int_equal(n, 7);
    assert_true(x == 7.0);
    CHECK_OK(c, plim_json_double(&j, j.root, "", "x", 0, 1, &x));
    CHECK_OK(c, plim_json_bool(&j, j.root, "", "b", &b));
    assert_true(b && x == 0.5);
    CHECK_OK(c, plim_json_object(&j, j.root, "", "o", &o));
    CHECK_OK(c, plim_json_object(&j, o, "o", "p.q", &o));
    CHECK_OK(c, plim_json_array(&j, o, "o.p.q", "r", &a));
    CHECK_OK(c, plim_json_at_i64(&j, a, "o.p.q.r", 2, 0, 100, &n));
    assert_int_equal(n, 30);
    CHECK_OK(c, plim_json_at_object(&j, a, "o.p.q.r", 1, &o));
    CHECK_OK(c, plim_json_string(&j, o, "o.p.q.r[1]", "t", &s));
    assert_string_equal(s, "u");

    n = 42, x = 4.5, b = true, s = "kept";
    CHECK_OK(c, plim_json_i64_opt(&j, j.root, "", "z", 0, 1, &n));
    CHECK_OK(c, plim_json_i64_opt(&j, j.root, "", "absent", 0, 1, &n));
    CHECK_OK(c, plim_json_double_opt(&j, j.root, "", "z", 0, 1, &x));
    CHECK_OK(c, plim_json_bool_opt(&j, j.root, "", "z", &b));
    CHECK_OK(c, plim_json_string_opt(&j, j.root, "", "z", &s));
    CHECK_OK(c, plim_json_object_opt(&j, j.root, "", "z", &none));
    CHECK_OK(c, plim_json_array_opt(&j, j.root, "", "absent", &none));
    assert_true(n == 42 && x == 4.5 && b && !none);
    assert_string_equal(s, "kept");

    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_i64(&j, j.root, "", "big", 0, 9999, &n),
                "m.json:2:18: big:", "an integer", "real number 5120");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_i64_opt(&j, j.root, "", "s", 0, 9, &n),
                "m.json:3:8: s:", "w\"ord");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_json_i64(&j, j.root, "", "neg", 1, 9, &n), "m.json:2:33: neg:", "-3",
                "1 to 9");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_json_double(&j, j.root, "", "x", 1, 2, &x), "m.json:2:42: x:", "0.5");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_double(&j, j.root, "", "b", 1, 2, &x), "b:", "found true");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_bool(&j, j.root, "", "n", &b), "n:", "true or false",
                "integer 7");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_string(&j, j.root, "", "o", &s), "o:", "a string", "an object");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_object(&j, j.root, "", "s", &none), "s:", "an object",
                "the string");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_array(&j, j.root, "", "o", &none), "o:", "an array", "an object");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_i64(&j, j.root, "", "z", 0, 1, &n), "m.json:2:63: z:", "null");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_i64(&j, j.root, "", "absent", 0, 1, &n),
                "m.json:1:1: absent:", "missing");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_i64(&j, o, "o.p.q.r[1]", "k", 0, 1, &n),
                "m.json:3:42: o.p.q.r[1].k:", "missing");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_at_i64(&j, a, "o.p.q.r", 1, 0, 1, &n),
                "m.json:3:42: o.p.q.r[1]:");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_json_at_i64(&j, a, "o.p.q.r", 2, 0, 1, &n), "m.json:3:54: o.p.q.r[2]:");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_at_string(&j, a, "o.p.q.r", 0, &s), "m.json:3:38: o.p.q.r[0]:");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_i64(&j, a, "o.p.q.r", "k", 0, 1, &n),
                "m.json:3:37: o.p.q.r:", "must be an object");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_json_bool(&j, json_object_get(j.root, "p"), "p", "p", &b),
                "m.json:4:14: p.p:");
    CHECK_FAILS(c, PLIM_E_SHAPE, plim_json_fail(&j, "", PLIM_E_SHAPE, "no %d", 3), "m.json:1:1: no 3");
    assert_true(n == 42 && x == 4.5 && b && !none);
    plim_json_close(&j);
    test_ctx_close(c);
}

static plim_status open_sample(plim_ctx *c, void *user)
{
    (void)user;
    return parse(c, sample, sizeof sample - 1);
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    assert_true(test_every_allocation(c, open_sample, NULL) > 20);
    test_ctx_close(c);
}

TEST(every_cut_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (size_t n = 0; n < sizeof sample - 2; n++) { /* the last byte is a line end */
        char *exact = malloc(n ? n : 1);
        memcpy(exact, sample, n);
        CHECK_FAILS(c, PLIM_E_FORMAT, parse(c, exact, n), "t.json:");
        free(exact);
    }
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(refuses_what_is_not_json),    cmocka_unit_test(refuses_depth_size_and_long_numbers),
        cmocka_unit_test(reads_every_kind_of_value),   cmocka_unit_test(reads_reals_in_any_locale),
        cmocka_unit_test(typed_members_and_positions), cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_cut_is_refused),
    };
    return RUN_TESTS(table);
}
