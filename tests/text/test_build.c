/* Files of rows to samples, from the inside: every allocation may fail, and nothing is left behind. */
#include "support/test.h"

#include <stdlib.h>

#include "chat_folder.h"
#include "data/build.h"
#include "formats/samples.h"

#define ROW_A                                                                                                \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": "     \
    "\"a\"}]}\n"
#define ROW_B "{\"text\": \"b<|im_end|>\", \"class\": \"x\", \"weight\": 0.5}\n"
#define ROW_C "{\"text\": \"b\", \"weight\": 0}\n"

typedef struct paths {
    char folder[4096], in[4096], validation[4096], out[4096], val_out[4096], left_out[4096];
    const char *inputs[2];
} paths;

static plim_build_config config_of(paths *p, const char *folder)
{
    static const char rows[] = ROW_A "null\n" ROW_B ROW_C;
    snprintf(p->folder, sizeof p->folder, "%s", folder);
    snprintf(p->in, sizeof p->in, "%s", test_path(folder, "in"));
    snprintf(p->validation, sizeof p->validation, "%s", test_path(folder, "validation"));
    snprintf(p->out, sizeof p->out, "%s", test_path(folder, "out"));
    snprintf(p->val_out, sizeof p->val_out, "%s", test_path(folder, "val_out"));
    snprintf(p->left_out, sizeof p->left_out, "%s", test_path(folder, "left_out"));
    test_write(p->in, rows, strlen(rows));
    test_write(p->validation, ROW_A, strlen(ROW_A));
    p->inputs[0] = p->in;
    p->inputs[1] = p->validation;
    return (plim_build_config){.inputs = p->inputs,
                               .input_count = 1,
                               .val_input_count = 1,
                               .out = p->out,
                               .val_out = p->val_out,
                               .left_out = p->left_out,
                               .model = p->folder,
                               .max_bad = 1,
                               .threads = 1};
}

TEST(counts_what_it_finds)
{
    UNUSED_STATE;
    static paths p;
    plim_ctx *c = test_ctx_open();
    plim_build_config g = config_of(&p, chat_folder("build_counts", CHAT_TEMPLATE));
    plim_build_result r = {0};
    CHECK_OK(c, plim_build(c, &g, &r));
    assert_int_equal(r.rows, 5);
    assert_int_equal(r.left_out[PLIM_LEFT_OUT_BAD], 1);
    assert_int_equal(r.left_out[PLIM_LEFT_OUT_WEIGHT], 1);
    assert_int_equal(r.left_out[PLIM_LEFT_OUT_LONG], 0);
    assert_int_equal(r.train.rows, 2);
    assert_int_equal(r.validation.rows, 1);
    assert_int_equal(r.class_count, 2);
    assert_string_equal(r.classes[0].name, "default");
    assert_int_equal(r.classes[0].rows, 2);
    assert_string_equal(r.classes[1].name, "x");
    assert_int_equal(r.ended_rows, 2);
    assert_int_equal(r.typed_tokens, 1);
    assert_int_equal(r.typed[0].line, 3);
    assert_string_equal(r.typed[0].where, "text: <|im_end|>");
    assert_string_equal(r.end, "<|endoftext|>");
    plim_build_result_close(&r);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

TEST(configs_that_make_no_sense_are_refused)
{
    UNUSED_STATE;
    static paths p;
    plim_ctx *c = test_ctx_open();
    const plim_build_config good = config_of(&p, chat_folder("build_refuses", CHAT_TEMPLATE));
    plim_build_result r = {0};
    plim_build_config g = good;
    g.max_tokens = 1;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_build(c, &g, &r), "a limit of 1 tokens");
    g = good;
    g.val_share = 1;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_build(c, &g, &r), "validation share of 1");
    g = good;
    g.val_out = NULL;
    CHECK_FAILS(c, PLIM_E_USAGE, plim_build(c, &g, &r), "go together");
    g = good;
    g.input_count = 0;
    CHECK_FAILS(c, PLIM_E_USAGE, plim_build(c, &g, &r), "no file of rows");
    g = good;
    g.out = p.in;
    CHECK_FAILS(c, PLIM_E_USAGE, plim_build(c, &g, &r), "would be replaced");
    g = good;
    g.max_bad = 0;
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_build(c, &g, &r), "1 of 5 rows is bad", "in:2: byte 1 of the line");
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

static plim_status build(plim_ctx *c, void *config)
{
    plim_build_result r = {0};
    plim_status st = plim_build(c, config, &r);
    plim_build_result_close(&r);
    return st;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    static paths p;
    plim_ctx *c = test_ctx_open();
    plim_build_config g =
        config_of(&p, chat_folder("build_memory", "{% for m in messages %}{{ m.content }}{% endfor %}"));
    assert_true(test_every_allocation(c, build, &g) > 100);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(counts_what_it_finds),
        cmocka_unit_test(configs_that_make_no_sense_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
