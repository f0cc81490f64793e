/* The file of a memory test: what is written is read back, whatever names hold; every key is needed, no other
 * is taken, and numbers that contradict each other are refused. */
#include "support/config_text.h"

#include <math.h>

#include "base/context.h"
#include "formats/memtest_result.h"

static plim_memtest_result r, back;

static void put_length(int64_t i, int64_t tokens, plim_verdict verdict)
{
    plim_memtest_length *l = &r.length[i];
    *l = (plim_memtest_length){.seq_tokens = tokens,
                               .verdict = verdict,
                               .options = r.options,
                               .planned_peak_bytes = 3000000001 + i,
                               .host_peak_bytes = 12345,
                               .measured_peak_bytes = verdict == PLIM_NO ? -1 : 3000000001 + i,
                               .arena_peak_bytes = verdict == PLIM_NO ? -1 : 2900000001 + i,
                               .process_before_bytes = -1,
                               .process_peak_bytes = verdict == PLIM_NO ? -1 : 4000000000,
                               .process_peak_reset = true,
                               .expected_step_s = verdict == PLIM_NO ? -1 : 0.1,
                               .setup_s = verdict == PLIM_NO ? -1 : 1.0 / 3,
                               .evaluation_s = -1,
                               .tokens_per_s = -1,
                               .loss = verdict == PLIM_NO ? NAN : 6.2,
                               .evaluation_loss = NAN};
    l->options.seq_tokens = tokens;
    l->options.host_checkpoints = 3;
    l->component_bytes[PLIM_MEM_WEIGHTS] = 3000000000;
    l->component_bytes[PLIM_MEM_LOSS] = 1 + i;
    if (verdict == PLIM_NO) return;
    l->steps = 2;
    l->step_s[0] = 0.1;
    l->step_s[1] = 1e-7;
}

static void fill(void)
{
    plim_memtest_result_clear(&r);
    strcpy(r.created, "2026-12-01T18:00:00Z");
    strcpy(r.model, "a \"quoted\\ name\n\x01 \xc3\xa9");
    strcpy(r.card, "cpu");
    strcpy(r.device, "CPU");
    strcpy(r.plimsoll, PLIM_VERSION);
    strcpy(r.compiler, "gcc");
    strcpy(r.libraries, "");
    r.options = plim_options_defaults();
    r.options.attention = PLIM_ATTENTION_CPU;
    r.options.labelled_share = 0.32;
    r.config_hash = UINT64_C(0xfedcba9876543210);
    r.parameters = INT64_C(26895998464);
    r.steps_wanted = 2;
    r.seed = INT64_MAX;
    r.budget_bytes = 3400000000;
    put_length(0, 16000, PLIM_FITS);
    put_length(1, 32000, PLIM_TIGHT);
    put_length(2, 64000, PLIM_NO);
    r.length_count = 3;
    r.stopped = PLIM_MEMTEST_STOPPED_MEMORY;
    r.failure = (plim_memtest_failure){.present = true,
                                       .seq_tokens = 64000,
                                       .status = PLIM_E_NOFIT,
                                       .component = PLIM_MEM_LOSS,
                                       .bytes = 3,
                                       .cure = "--loss chunked",
                                       .error = "too long"};
    r.seconds = 12.5;
    plim_memtest_result_judge(&r);
}

static char *text_of(plim_ctx *c)
{
    static char *text;
    CHECK_OK(c, plim_memtest_result_json(c, &r, &text));
    return text;
}

TEST(what_is_written_is_read_back)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    fill();
    assert_int_equal(r.limit_tokens, 16000);
    assert_int_equal(r.first_failing_tokens, 64000);
    const char *path = test_path(test_folder("memtest-result"), "r.json");
    CHECK_OK(c, plim_memtest_result_write(c, &r, path));
    CHECK_OK(c, plim_memtest_result_read(c, path, &back));
    assert_string_equal(back.model, r.model);
    assert_true(back.config_hash == r.config_hash && back.seed == r.seed && back.parameters == r.parameters);
    assert_int_equal(back.length_count, 3);
    assert_int_equal(back.limit_tokens, 16000);
    assert_int_equal(back.first_failing_tokens, 64000);
    assert_int_equal(back.available_bytes, PLIM_MEMTEST_UNKNOWN);
    assert_true(back.usd < 0 && back.usd_per_h < 0);
    assert_int_equal(back.stopped, PLIM_MEMTEST_STOPPED_MEMORY);
    assert_int_equal(back.failure.component, PLIM_MEM_LOSS);
    assert_string_equal(back.failure.cure, "--loss chunked");
    const plim_memtest_length *l = &back.length[0];
    assert_true(l->setup_s == 1.0 / 3 && l->step_s[0] == 0.1 && l->step_s[1] == 1e-7 && l->loss == 6.2);
    assert_int_equal(l->planned_peak_bytes, 3000000001);
    assert_int_equal(l->options.host_checkpoints, 3);
    assert_true(isnan(back.length[2].loss) && back.length[2].steps == 0);
    assert_int_equal(back.options.lora_targets, r.options.lora_targets);
    char *first = text_of(c), *second = NULL;
    CHECK_OK(c, plim_memtest_result_json(c, &back, &second));
    assert_string_equal(first, second);
    plim_release(c, first);
    plim_release(c, second);
    test_ctx_close(c);
}

/* Names that are not UTF-8 become ones that are. */
TEST(bytes_that_are_no_text)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    fill();
    strcpy(r.model, "a\xff\xc3");
    char *text = text_of(c);
    CHECK_OK(c, plim_memtest_result_parse(c, "r", text, strlen(text), &back));
    assert_string_equal(back.model, "a\xef\xbf\xbd\xef\xbf\xbd");
    plim_release(c, text);
    test_ctx_close(c);
}

TEST(what_is_wrong_is_refused)
{
    UNUSED_STATE;
    static const struct {
        const char *from, *to;
        plim_status status;
        const char *word;
    } cases[] = {
        {"\"schema_version\": 1", "\"schema_version\": 2", PLIM_E_RANGE, "version 1"},
        {"\"limit_tokens\": 16000", "\"limit_tokens\": 32000", PLIM_E_RANGE, "limit_tokens"},
        {"\"limit_tokens\": 16000,", "", PLIM_E_FORMAT, "limit_tokens"},
        {"\"first_failing_tokens\": 64000", "\"first_failing_tokens\": null", PLIM_E_RANGE, "says no"},
        {"\"seq_tokens\": 32000", "\"seq_tokens\": 16000", PLIM_E_RANGE, "ascend"},
        {"\"verdict\": \"fits\"", "\"verdict\": \"no\"", PLIM_E_RANGE, "stops there"},
        {"\"verdict\": \"no\"", "\"verdict\": \"tight\"", PLIM_E_RANGE, "steps"},
        {"\"verdict\": \"fits\"", "\"verdict\": \"perhaps\"", PLIM_E_RANGE, "perhaps"},
        {"\"planned_peak_bytes\": 3000000001", "\"planned_peak_bytes\": 3000000009", PLIM_E_RANGE,
         "planned_peak_gib"},
        {"\"weights\": 3000000000", "\"weights\": 2000000000", PLIM_E_RANGE, "add up"},
        {"\"weights\": 3000000000", "\"feathers\": 3000000000", PLIM_E_FORMAT, "feathers"},
        {"\"running_tokens\": null,", "", PLIM_E_FORMAT, "running_tokens"},
        {"\"seconds\": 12.5", "\"seconds\": 12.5, \"more\": 1", PLIM_E_FORMAT, "more"},
        {"\"seconds\": 12.5", "\"seconds\": -1", PLIM_E_RANGE, "seconds"},
        {"\"steps\": 2", "\"steps\": 1", PLIM_E_RANGE, "step_seconds"},
        {"\"steps\": 2", "\"steps\": 65", PLIM_E_RANGE, "steps"},
        {"\"stopped_by\": \"memory\"", "\"stopped_by\": \"\"", PLIM_E_RANGE, "stopped_by"},
        {"\"status\": \"E_NOFIT\"", "\"status\": \"OK\"", PLIM_E_RANGE, "status"},
        {"\"bytes\": 3,", "\"bytes\": null,", PLIM_E_RANGE, "component"},
        {"fedcba9876543210", "fedcba987654321", PLIM_E_FORMAT, "hexadecimal"},
        {"\"q_proj\"", "\"k_proj\"", PLIM_E_RANGE, "twice"},
        {"\"attention\": \"cpu\"", "\"attention\": 1", PLIM_E_FORMAT, "attention"},
        {"\"device\": \"CPU\"", "\"device\": null", PLIM_E_FORMAT, "device"},
        {"\"available_gib\": null", "\"available_gib\": 1.5", PLIM_E_RANGE, "available_bytes"},
        {"{", "[", PLIM_E_FORMAT, ":"},
    };
    plim_ctx *c = test_ctx_open();
    fill();
    char *text = text_of(c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *changed = config_edit(text, cases[i].from, cases[i].to), what[64];
        const char *const words[] = {cases[i].word, NULL};
        snprintf(what, sizeof what, "case %zu: %.40s", i, cases[i].to);
        memset(&back, 0x5a, sizeof back);
        plim_status st = plim_memtest_result_parse(c, "r.json", changed, strlen(changed), &back);
        test_check_fails(c, cases[i].status, st, what, words);
        for (size_t b = 0; b < sizeof back; b++)
            if (((unsigned char *)&back)[b] != 0x5a) fail_msg("%s: the output was written", what);
        free(changed);
    }
    plim_release(c, text);
    test_ctx_close(c);
}

/* A file cut anywhere is no file. */
TEST(a_cut_file_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    fill();
    char *text = text_of(c);
    for (size_t n = 0; n + 2 < strlen(text); n++) {
        assert_int_equal(plim_memtest_result_parse(c, "r", text, n, &back), PLIM_E_FORMAT);
        plim_ctx_clear(c);
    }
    plim_release(c, text);
    test_ctx_close(c);
}

static plim_status write_and_read(plim_ctx *c, void *path)
{
    plim_status st = plim_memtest_result_write(c, &r, path);
    return st ? st : plim_memtest_result_read(c, path, &back);
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    fill();
    char path[256];
    snprintf(path, sizeof path, "%s", test_path(test_folder("memtest-result-alloc"), "r.json"));
    assert_true(test_every_allocation(c, write_and_read, path) > 50);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(what_is_written_is_read_back), cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(what_is_wrong_is_refused),     cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
