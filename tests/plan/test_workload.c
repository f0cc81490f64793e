/* Statistics files: what is read, what is refused and with which words. */
#include "support/test.h"

#include "base/context.h"

static plim_status parse(plim_ctx *c, const char *text, plim_workload *out)
{
    return plim_workload_parse(c, "data.json", text, strlen(text), out);
}

TEST(reads_tokens_alone)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_workload w;
    CHECK_OK(c, parse(c, "{\"schema_version\":1,\"tokens\":3300000,\"made_by\":{\"any\":[1,null]}}", &w));
    assert_true(w.tokens == 3300000 && w.labelled_share < 0);
    assert_int_equal(w.longest_tokens, 0);
    assert_int_equal(w.lengths, 0);
    test_ctx_close(c);
}

TEST(reads_a_whole_file)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("workload"), "statistics.json");
    static const char text[] =
        "{\"schema_version\":1,\"tokens\":3300000,\"labelled_tokens\":825000,\"rows\":150,"
        "\"lengths\":[{\"seq_tokens\":16000,\"rows\":100},{\"seq_tokens\":90000,\"rows\":0},"
        "{\"seq_tokens\":34000,\"rows\":50}]}";
    plim_workload w;
    test_write(path, text, strlen(text));
    CHECK_OK(c, plim_workload_load(c, path, &w));
    assert_true(w.tokens == 3300000 && w.labelled_share == 0.25);
    assert_int_equal(w.lengths, 3);
    assert_int_equal(w.longest_tokens, 34000); /* the empty bucket holds no sample */
    assert_int_equal(w.bucket_tokens[1], 90000);
    assert_true(w.bucket_rows[0] == 100 && w.bucket_rows[1] == 0 && w.bucket_rows[2] == 50);
    test_ctx_close(c);
}

TEST(holds_64_buckets_and_refuses_65)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (int buckets = PLIM_MAX_LENGTHS; buckets <= PLIM_MAX_LENGTHS + 1; buckets++) {
        char text[8192];
        plim_workload w;
        int at =
            snprintf(text, sizeof text, "{\"schema_version\":1,\"tokens\":%d,\"lengths\":[", buckets * 10);
        for (int i = 0; i < buckets; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s{\"seq_tokens\":10,\"rows\":1}",
                           i ? "," : "");
        snprintf(text + at, sizeof text - (size_t)at, "]}");
        if (buckets <= PLIM_MAX_LENGTHS) {
            CHECK_OK(c, parse(c, text, &w));
            assert_int_equal(w.lengths, PLIM_MAX_LENGTHS);
        } else {
            CHECK_FAILS(c, PLIM_E_RANGE, parse(c, text, &w), "data.json:1:", "lengths", "65", "64");
        }
    }
    test_ctx_close(c);
}

/* The sum of the buckets against tokens: half and double are the last that are accepted. */
TEST(sums_must_agree_within_a_factor_of_two)
{
    UNUSED_STATE;
    static const struct {
        int tokens;
        bool fine;
    } cases[] = {{1000, true}, {500, true}, {2000, true}, {499, false}, {2001, false}};
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], number[16];
        plim_workload w;
        snprintf(text, sizeof text,
                 "{\"schema_version\":1,\"tokens\":%d,\"lengths\":[{\"seq_tokens\":100,\"rows\":10}]}",
                 cases[i].tokens);
        snprintf(number, sizeof number, "%d", cases[i].tokens);
        if (cases[i].fine) CHECK_OK(c, parse(c, text, &w));
        else CHECK_FAILS(c, PLIM_E_RANGE, parse(c, text, &w), "lengths", "1000", number);
    }
    test_ctx_close(c);
}

TEST(refuses_with_place_and_reason)
{
    UNUSED_STATE;
    static const struct {
        plim_status status;
        const char *text, *place, *word;
    } cases[] = {
        {PLIM_E_FORMAT, "", "data.json:1:1", ""},
        {PLIM_E_FORMAT, "[]", "data.json", "schema_version"},
        {PLIM_E_FORMAT, "{\"tokens\":1}", "schema_version", "missing"},
        {PLIM_E_RANGE, "{\"schema_version\":2,\"tokens\":1}", "schema_version", "version 1"},
        {PLIM_E_FORMAT, "{\"schema_version\":1}", "tokens", "missing"},
        {PLIM_E_FORMAT, "{\"schema_version\":1,\"tokens\":1.5}", "tokens", "integer"},
        {PLIM_E_RANGE, "{\"schema_version\":1,\"tokens\":0}", "tokens", "0 is out of range"},
        {PLIM_E_RANGE, "{\"schema_version\":1,\"tokens\":1000000000000001}", "tokens", "out of range"},
        {PLIM_E_RANGE, "{\"schema_version\":1,\"tokens\":10,\"labelled_tokens\":11}", "labelled_tokens",
         "11"},
        {PLIM_E_RANGE, "{\"schema_version\":1,\"tokens\":10,\"rows\":11}", "rows", "11"},
        {PLIM_E_FORMAT, "{\"schema_version\":1,\"tokens\":10,\"tokens\":10}", "tokens", ""},
        {PLIM_E_FORMAT, "{\"schema_version\":1,\"tokens\":10,\"lengths\":{}}", "lengths", "array"},
        {PLIM_E_FORMAT, "{\"schema_version\":1,\"tokens\":10,\"lengths\":[3]}", "lengths[0]", "object"},
        {PLIM_E_FORMAT, "{\"schema_version\":1,\"tokens\":10,\"lengths\":[{\"rows\":1}]}",
         "lengths[0].seq_tokens", "missing"},
        {PLIM_E_FORMAT,
         "{\"schema_version\":1,\"tokens\":10,\"lengths\":[{\"seq_tokens\":10,\"rows\":1,\"row\":1}]}",
         "lengths[0].row", "unknown"},
        {PLIM_E_RANGE, "{\"schema_version\":1,\"tokens\":10,\"lengths\":[{\"seq_tokens\":0,\"rows\":1}]}",
         "lengths[0].seq_tokens", "0"},
        {PLIM_E_RANGE, "{\"schema_version\":1,\"tokens\":10,\"lengths\":[{\"seq_tokens\":10,\"rows\":-1}]}",
         "lengths[0].rows", "-1"},
        {PLIM_E_RANGE, "{\"schema_version\":1,\"tokens\":10,\"lengths\":[]}", "lengths", "add up to 0"},
        {PLIM_E_RANGE,
         "{\"schema_version\":1,\"tokens\":10,\"rows\":2,\"lengths\":[{\"seq_tokens\":10,\"rows\":1}]}",
         "lengths", "hold 1 rows"},
    };
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_workload w;
        memset(&w, 0x5a, sizeof w);
        CHECK_FAILS(c, cases[i].status, parse(c, cases[i].text, &w), cases[i].place, cases[i].word);
        assert_int_equal(w.lengths, INT64_C(0x5a5a5a5a5a5a5a5a)); /* written only on success */
        assert_int_equal(test_live_allocations(), 1);             /* the context */
    }
    plim_workload w;
    CHECK_FAILS(c, PLIM_E_IO, plim_workload_load(c, test_path(test_folder("workload-none"), "x.json"), &w),
                "x.json");
    test_ctx_close(c);
}

static plim_status open_and_drop(plim_ctx *c, void *user)
{
    plim_workload w;
    return parse(c, user, &w);
}

TEST(survives_every_failing_allocation)
{
    UNUSED_STATE;
    char text[] =
        "{\"schema_version\":1,\"tokens\":10,\"lengths\":[{\"seq_tokens\":10,\"rows\":1}],\"more\":[1,2.5]}";
    plim_ctx *c = test_ctx_open();
    assert_true(test_every_allocation(c, open_and_drop, text) > 5);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(reads_tokens_alone),
        cmocka_unit_test(reads_a_whole_file),
        cmocka_unit_test(holds_64_buckets_and_refuses_65),
        cmocka_unit_test(sums_must_agree_within_a_factor_of_two),
        cmocka_unit_test(refuses_with_place_and_reason),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return RUN_TESTS(table);
}
