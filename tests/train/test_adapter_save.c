/* Adapters out: what a saved folder holds, and what must not be saved. */
#include "train/adapter_support.h"

#include <math.h>

#include "formats/safetensors.h"

static const plim_adapter_config some = {.alpha = 8, .dropout = 0.05, .base_model = "base"};

TEST(a_new_adapter_may_be_saved_but_not_as_trained)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *parent = test_folder("adapter-new"), *out = test_path(parent, "a");
    plim_adapter_config g;
    laid_open(c, &w, golden("qwen3_5-tiny", ""), laid_options(PLIM_F32, 4));
    plim_adapter_fresh(&w.sh, 1, w.adapters.master);
    plim_adapter_save_args a = save_of(out, some);
    CHECK_FAILS(c, PLIM_E_RANGE, plim_adapter_save(c, &a), KEY "0.linear_attn.in_proj_qkv.lora_B.weight",
                "zero", "25 of the 25");
    assert_int_equal(entries(parent), 0);
    a.trained = false;
    CHECK_OK(c, plim_adapter_save(c, &a));
    CHECK_OK(c, plim_adapter_survey(c, out, &w.spec, &g));
    assert_true(g.rank == 4 && g.alpha == 8 && g.dropout == 0.05 && g.targets == PLIM_TARGETS_DEFAULT);
    assert_string_equal(g.base_model, "base");
    laid_close(&w);
    test_ctx_close(c);
}

TEST(keys_follow_the_base)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *config = test_path(test_folder("adapter-multimodal"), "config.json");
    plim_safetensors *s = NULL;
    test_write(config, CONFIG_MULTIMODAL, strlen(CONFIG_MULTIMODAL));
    laid_open(c, &w, config, laid_options(PLIM_BF16, 4));
    plim_adapter_fresh(&w.sh, 1, w.adapters.master);
    plim_adapter_save_args a = save_of(test_path("test-tmp/adapter-multimodal", "a"), some);
    a.trained = false;
    a.dtype = PLIM_BF16;
    CHECK_OK(c, plim_adapter_save(c, &a));
    CHECK_OK(c, plim_safetensors_open(c, test_path(a.folder, "adapter_model.safetensors"), &s));
    const plim_safetensors_tensor *t = plim_safetensors_find(
        s, "base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_B.weight");
    assert_non_null(t);
    assert_true(t->dtype == PLIM_BF16 && t->shape[0] == 128 && t->shape[1] == 4);
    assert_int_equal(plim_safetensors_count(s), w.sh.adapters.tensors);
    plim_safetensors_close(s);
    laid_close(&w);
    test_ctx_close(c);
}

static void collect(void *user, const plim_adapter_tensor *t)
{
    plim_adapter_key **next = user;
    plim_adapter_key_of(&w.spec, 4, t, (*next)++);
}

TEST(keys_the_base_does_not_have_are_found)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static plim_adapter_key keys[50];
    plim_adapter_key *next = keys;
    CHECK_OK(c, plim_spec_load(c, golden("qwen3_5-tiny", ""), &w.spec));
    plim_adapters_walk(&w.spec, 4, PLIM_TARGETS_DEFAULT, 8, 0, 4, collect, &next);
    assert_int_equal(next - keys, 50);
    CHECK_OK(c, plim_adapter_keys_check(c, &w.spec, keys, 50));
    w.spec.multimodal = true; /* the same layers under other names */
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_keys_check(c, &w.spec, keys, 50),
                KEY "0.linear_attn.in_proj_qkv", "model.language_model.layers");
    w.spec.multimodal = false;
    keys[49].rows++;
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_keys_check(c, &w.spec, keys, 50),
                KEY "3.mlp.down_proj.lora_B");
    keys[49].rows--;
    keys[20].cols++;
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_keys_check(c, &w.spec, keys, 50), keys[20].name);
    keys[20].cols--;
    snprintf(keys[3].name, sizeof keys[3].name, KEY "0.linear_attn.in_proj_z.lora_C.weight");
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_keys_check(c, &w.spec, keys, 50), "lora_C");
    test_ctx_close(c);
}

/* The master element of [row, col] of one tensor. */
typedef struct spot {
    plim_target target;
    bool is_b;
    int64_t layer, row, col;
    float *at;
} spot;

static void find_spot(void *user, const plim_adapter_tensor *t)
{
    spot *s = user;
    if (t->target == s->target && t->is_b == s->is_b && t->layer == s->layer)
        s->at = (float *)w.adapters.master.data + t->offset + s->row * t->cols + s->col;
}

static float *at_spot(spot s)
{
    plim_adapters_walk(&w.spec, 4, w.sh.o.lora_targets, 8, 0, w.spec.layers, find_spot, &s);
    assert_non_null(s.at);
    return s.at;
}

TEST(what_must_not_be_saved_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *adapter = golden("qwen3_5-tiny", "adapter"), *parent = test_folder("adapter-refused");
    plim_adapter_config g = open_for(c, golden("qwen3_5-tiny", ""), adapter, PLIM_F32);
    CHECK_OK(c, plim_adapter_load(c, adapter, &w.sh, w.adapters.master));
    plim_adapter_save_args a = save_of(test_path(parent, "a"), g);
    static const struct {
        spot s;
        float value;
        plim_dtype dtype;
        plim_status status;
        const char *words[2];
    } cases[] = {
        {{PLIM_TARGET_UP, true, 2, 7, 3, NULL},
         NAN,
         PLIM_F32,
         PLIM_E_NUMERIC,
         {"2.mlp.up_proj.lora_B", "[7, 3]"}},
        {{PLIM_TARGET_UP, false, 1, 3, 63, NULL}, INFINITY, PLIM_BF16, PLIM_E_NUMERIC, {"lora_A", "[3, 63]"}},
        {{PLIM_TARGET_UP, false, 1, 3, 63, NULL}, 70000, PLIM_F16, PLIM_E_NUMERIC, {"[3, 63]", "F16"}},
        {{PLIM_TARGET_K, false, 3, 4, 0, NULL},
         1,
         PLIM_F32,
         PLIM_E_RANGE,
         {"3.self_attn.k_proj.lora_A", "padding"}},
        {{PLIM_TARGET_K, true, 3, 63, 7, NULL},
         NAN,
         PLIM_F32,
         PLIM_E_RANGE,
         {"3.self_attn.k_proj.lora_B", "padding"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *x = at_spot(cases[i].s), keep = *x;
        char what[32];
        const char *const words[] = {cases[i].words[0], cases[i].words[1], NULL};
        *x = cases[i].value;
        a.dtype = cases[i].dtype;
        snprintf(what, sizeof what, "case %zu", i);
        test_check_fails(c, cases[i].status, plim_adapter_save(c, &a), what, words);
        assert_int_equal(entries(parent), 0);
        *x = keep;
    }
    a.dtype = PLIM_F32;
    float *b = at_spot((spot){PLIM_TARGET_K, true, 3, 0, 0, NULL});
    memset(b, 0, 64 * 8 * sizeof *b);
    CHECK_FAILS(c, PLIM_E_RANGE, plim_adapter_save(c, &a), KEY "3.self_attn.k_proj.lora_B.weight",
                "1 of the 25");
    *b = 1;
    CHECK_OK(c, plim_adapter_save(c, &a));
    CHECK_FAILS(c, PLIM_E_IO, plim_adapter_save(c, &a), "adapter-refused/a", "already holds", "new folder");
    assert_int_equal(entries(parent), 1);
    a.folder = test_path(parent, "no/such");
    CHECK_FAILS(c, PLIM_E_IO, plim_adapter_save(c, &a), "no/such");
    a.folder = "";
    CHECK_FAILS(c, PLIM_E_RANGE, plim_adapter_save(c, &a), "no adapter folder");
    laid_close(&w);
    test_ctx_close(c);
}

TEST(an_adapter_without_tensors_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_options o = laid_options(PLIM_F32, 4);
    o.lora_targets = PLIM_TARGET_BIT(PLIM_TARGET_OUT);
    laid_open(c, &w, golden("llama-tiny", ""), o);
    plim_adapter_save_args a = save_of(test_path(test_folder("adapter-none"), "a"), some);
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_save(c, &a), "no tensors");
    laid_close(&w);
    test_ctx_close(c);
}

static plim_status save_once(plim_ctx *c, void *user)
{
    const char *parent = test_folder("adapter-oom");
    plim_adapter_save_args a = save_of(test_path(parent, "a"), *(plim_adapter_config *)user);
    plim_status st = plim_adapter_save(c, &a);
    if (entries(parent) != (st ? 0 : 1)) fail_msg("a failure left files");
    return st;
}

TEST(no_memory_leaves_nothing)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *adapter = golden("llama-tiny", "adapter");
    plim_adapter_config g = open_for(c, golden("llama-tiny", ""), adapter, PLIM_F32);
    CHECK_OK(c, plim_adapter_load(c, adapter, &w.sh, w.adapters.master));
    assert_true(test_every_allocation(c, save_once, &g) > 5);
    laid_close(&w);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(a_new_adapter_may_be_saved_but_not_as_trained),
        cmocka_unit_test(keys_follow_the_base),
        cmocka_unit_test(keys_the_base_does_not_have_are_found),
        cmocka_unit_test(what_must_not_be_saved_is_refused),
        cmocka_unit_test(an_adapter_without_tensors_is_refused),
        cmocka_unit_test(no_memory_leaves_nothing),
    };
    return RUN_TESTS(table);
}
