/* The map from checkpoint tensors to the weights: complete, disjoint, of the right shapes, with its
 * padding. */
#include "support/laid_weights.h"

static laid w;

typedef struct tally {
    int64_t tensors, parameters;
} tally;

static plim_status count(void *user, const plim_tensor_place *p)
{
    tally *t = user;
    int64_t n = 1;
    for (int32_t i = 0; i < p->decl.dims; i++) n *= p->decl.shape[i];
    if (n != p->to.rows * p->to.cols)
        fail_msg("%s: %lld elements, a place of %lld x %lld", p->decl.name, (long long)n,
                 (long long)p->to.rows, (long long)p->to.cols);
    if (p->decl.dims == 2) assert_int_equal(p->to.rows, p->decl.shape[0]);
    if (p->decl.dims == 3) assert_int_equal(p->to.cols, p->decl.shape[2]);
    if (p->decl.dims == 1) assert_int_equal(p->to.rows, 1);
    bool matrix = p->role == PLIM_ROLE_EMBEDDING || p->role == PLIM_ROLE_HEAD || p->role == PLIM_ROLE_WEIGHT;
    assert_int_equal(p->to.dtype, matrix ? PLIM_BF16 : PLIM_F32);
    t->tensors++;
    t->parameters += n;
    return PLIM_OK;
}

TEST(every_tensor_of_27b_has_one_place_of_its_size)
{
    UNUSED_STATE;
    static plim_spec spec;
    static plim_layer_weights layers[64];
    plim_shape sh;
    plim_arena a;
    plim_model_weights model;
    plim_ctx *c = test_ctx_open();
    plim_options o = plim_options_defaults();
    CHECK_OK(c, plim_spec_load(c, PLIM_SHARE_SOURCE "/models/qwen3.8-27b/config.json", &spec));
    CHECK_OK(c, plim_shape_init(c, &spec, &o, &sh));
    plim_arena_dry(&a);
    plim_weights_layout(&a, &a, &sh, &model, layers);
    tally t = {0};
    CHECK_OK(c, plim_tensor_map_walk(&sh, &model, layers, count, &t));
    assert_int_equal(t.tensors, 851);
    assert_int_equal(t.parameters, INT64_C(26895998464));
    test_ctx_close(c);
}

/* ---- painting: every byte of every entry is one tensor's or padding ------------------------------------ */

static plim_status paint(void *user, plim_tensor view)
{
    size_t size = plim_dtype_bytes(view.dtype);
    for (int64_t i = 0; i < view.rows; i++) {
        unsigned char *row = plim_tensor_rows(view, i, 1).data;
        for (size_t b = 0; b < (size_t)view.cols * size; b++) {
            if (row[b] != 0xFF) fail_msg("a byte has two owners");
            row[b] = *(unsigned char *)user;
        }
    }
    return PLIM_OK;
}

static plim_status paint_place(void *user, const plim_tensor_place *p)
{
    return paint(user, p->to);
}

static void check_painted(void *user, const plim_arena_entry *e)
{
    const laid *l = user;
    const unsigned char *at = (const unsigned char *)l->memory + e->offset_bytes;
    for (size_t b = 0; b < e->size_bytes; b++)
        if (at[b] == 0xFF) fail_msg("%s: byte %zu belongs to no tensor", e->name, b);
}

static void check_partition(plim_ctx *c)
{
    unsigned char tensor = 1, padding = 2;
    CHECK_OK(c, plim_tensor_map_walk(&w.sh, &w.model, w.layers, paint_place, &tensor));
    CHECK_OK(c, plim_padding_walk(&w.sh, &w.model, w.layers, paint, &padding));
    plim_arena a;
    plim_arena_dry(&a);
    a.visit = check_painted;
    a.visit_user = &w;
    plim_weights_layout(&a, &a, &w.sh, &w.model, w.layers);
    laid_close(&w);
}

TEST(tensors_and_padding_divide_the_memory)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const char *const golden[] = {GOLDEN("qwen3_5-tiny"), GOLDEN("qwen3_5-tied"), GOLDEN("qwen3-tiny"),
                                         GOLDEN("qwen2-tiny"), GOLDEN("llama-tiny")};
    static const plim_dtype act[] = {PLIM_F32, PLIM_BF16, PLIM_F64};
    static const uint32_t targets[] = {PLIM_TARGETS_DEFAULT, PLIM_TARGET_BIT(PLIM_TARGET_K),
                                       PLIM_TARGETS_DEFAULT | PLIM_TARGET_BIT(PLIM_TARGET_IN_A)};
    for (size_t m = 0; m < 5; m++) {
        for (size_t i = 0; i < 3; i++) {
            plim_options o = laid_options(act[i], 3);
            o.lora_targets = targets[i];
            laid_open(c, &w, golden[m], o);
            check_partition(c);
        }
    }
    test_ctx_close(c);
}

TEST(cards_divide_the_model)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const int64_t cuts[][2] = {{0, 1}, {1, 3}, {3, 4}};
    CHECK_OK(c, plim_spec_load(c, GOLDEN("qwen3_5-tiny"), &w.spec));
    int64_t parameters = 0, tensors = 0;
    for (size_t i = 0; i < 3; i++) {
        laid_place(c, &w, laid_options(PLIM_BF16, 4), cuts[i][0], cuts[i][1]);
        tally t = {0};
        CHECK_OK(c, plim_tensor_map_walk(&w.sh, &w.model, w.layers, count, &t));
        parameters += t.parameters;
        tensors += t.tensors;
        plim_spec keep = w.spec;
        check_partition(c);
        w.spec = keep;
    }
    plim_counts all = plim_spec_counts(&w.spec);
    assert_int_equal(parameters, all.parameters);
    assert_int_equal(tensors, all.tensors);
    laid_close(&w);
    test_ctx_close(c);
}

/* ---- names --------------------------------------------------------------------------------------------- */

TEST(names_have_roles)
{
    UNUSED_STATE;
    static const struct {
        const char *name;
        plim_tensor_role role;
        plim_target target;
    } cases[] = {
        {"model.embed_tokens.weight", PLIM_ROLE_EMBEDDING, 0},
        {"model.norm.weight", PLIM_ROLE_NORM, 0},
        {"lm_head.weight", PLIM_ROLE_HEAD, 0},
        {"model.layers.0.linear_attn.norm.weight", PLIM_ROLE_GATED_NORM, 0},
        {"model.language_model.layers.10.self_attn.q_norm.weight", PLIM_ROLE_NORM, 0},
        {"model.layers.10.self_attn.k_proj.bias", PLIM_ROLE_BIAS, PLIM_TARGET_K},
        {"model.layers.10.linear_attn.in_proj_a.weight", PLIM_ROLE_WEIGHT, PLIM_TARGET_IN_A},
        {"model.layers.10.linear_attn.out_proj.weight", PLIM_ROLE_WEIGHT, PLIM_TARGET_OUT},
        {"model.layers.10.linear_attn.conv1d.weight", PLIM_ROLE_CONV, 0},
        {"model.layers.10.linear_attn.A_log", PLIM_ROLE_A_LOG, 0},
        {"model.layers.10.linear_attn.dt_bias", PLIM_ROLE_DT_BIAS, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_target target = 0;
        assert_int_equal(plim_tensor_role_of(cases[i].name, &target), cases[i].role);
        assert_int_equal(target, cases[i].target);
    }
}

TEST(targets_are_those_a_model_has)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    CHECK_OK(c, plim_spec_load(c, GOLDEN("llama-tiny"), &w.spec));
    uint32_t dense = plim_model_targets(&w.spec, UINT32_MAX);
    assert_int_equal(dense, (1u << PLIM_TARGET_IN_QKV) - 1);
    assert_int_equal(plim_model_targets(&w.spec, PLIM_TARGET_BIT(PLIM_TARGET_OUT)), 0);
    CHECK_OK(c, plim_spec_load(c, GOLDEN("qwen3_5-tiny"), &w.spec));
    assert_int_equal(plim_model_targets(&w.spec, UINT32_MAX), (1u << PLIM_TARGET_COUNT) - 1);
    test_ctx_close(c);
}

static plim_status stop(void *user, const plim_tensor_place *p)
{
    (void)p;
    return --*(int *)user ? PLIM_OK : PLIM_E_NUMERIC;
}

TEST(a_failing_visit_ends_the_walk)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    laid_open(c, &w, GOLDEN("qwen3_5-tiny"), laid_options(PLIM_F32, 4));
    int left = 5;
    assert_int_equal(plim_tensor_map_walk(&w.sh, &w.model, w.layers, stop, &left), PLIM_E_NUMERIC);
    assert_int_equal(left, 0);
    laid_close(&w);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(every_tensor_of_27b_has_one_place_of_its_size),
        cmocka_unit_test(tensors_and_padding_divide_the_memory),
        cmocka_unit_test(cards_divide_the_model),
        cmocka_unit_test(names_have_roles),
        cmocka_unit_test(targets_are_those_a_model_has),
        cmocka_unit_test(a_failing_visit_ends_the_walk),
    };
    return RUN_TESTS(table);
}
