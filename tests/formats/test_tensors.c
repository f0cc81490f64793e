/* What a spec promises: counts of the 27B by hand, and the names and shapes of real checkpoints. */
#include "support/config_text.h"

#include "base/json.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

TEST(counts_of_the_27b)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s;
    CHECK_OK(c, plim_spec_load(c, CONFIG_27B, &s));
    plim_counts n = plim_spec_counts(&s);
    assert_int_equal(n.tensors, 48 * 14 + 16 * 11 + 3);
    assert_int_equal(n.parameters, INT64_C(26895998464));
    assert_int_equal(n.vision_tensors, 3 + 27 * 12 + 6);
    assert_int_equal(n.vision_parameters, 460730096);
    assert_int_equal(n.mtp_tensors, 4 + 11);
    assert_int_equal(n.mtp_parameters, 424699392);
    s.tied = true; /* the head is the embedding: one tensor and its parameters less */
    plim_counts tied = plim_spec_counts(&s);
    assert_int_equal(n.tensors - tied.tensors, 1);
    assert_int_equal(n.parameters - tied.parameters, INT64_C(248320) * 5120);
    s.vision.present = false;
    s.mtp_layers = 0;
    n = plim_spec_counts(&s);
    assert_int_equal(n.vision_tensors + n.vision_parameters + n.mtp_tensors + n.mtp_parameters, 0);
    test_ctx_close(c);
}

typedef struct find {
    const char *name;
    plim_tensor_decl decl;
    int64_t seen, stop_after;
} find;

static bool look(void *user, const plim_tensor_decl *d)
{
    find *f = user;
    f->seen++;
    if (f->name && strcmp(d->name, f->name) == 0) {
        f->decl = *d;
        return false;
    }
    return f->seen != f->stop_after;
}

TEST(names_and_shapes_of_the_27b)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s;
    CHECK_OK(c, plim_spec_load(c, CONFIG_27B, &s));
    static const struct {
        const char *name;
        plim_tensor_group group;
        int32_t layer, dims;
        int64_t shape[5];
    } want[] = {
        {"model.language_model.embed_tokens.weight", PLIM_GROUP_TEXT, -1, 2, {248320, 5120}},
        {"model.language_model.layers.0.linear_attn.in_proj_qkv.weight",
         PLIM_GROUP_TEXT,
         0,
         2,
         {10240, 5120}},
        {"model.language_model.layers.62.linear_attn.conv1d.weight", PLIM_GROUP_TEXT, 62, 3, {10240, 1, 4}},
        {"model.language_model.layers.62.linear_attn.A_log", PLIM_GROUP_TEXT, 62, 1, {48}},
        {"model.language_model.layers.63.self_attn.q_proj.weight", PLIM_GROUP_TEXT, 63, 2, {12288, 5120}},
        {"model.language_model.layers.63.self_attn.o_proj.weight", PLIM_GROUP_TEXT, 63, 2, {5120, 6144}},
        {"model.language_model.norm.weight", PLIM_GROUP_TEXT, -1, 1, {5120}},
        {"lm_head.weight", PLIM_GROUP_TEXT, -1, 2, {248320, 5120}},
        {"model.visual.patch_embed.proj.weight", PLIM_GROUP_VISION, -1, 5, {1152, 3, 2, 16, 16}},
        {"model.visual.pos_embed.weight", PLIM_GROUP_VISION, -1, 2, {2304, 1152}},
        {"model.visual.blocks.26.attn.qkv.bias", PLIM_GROUP_VISION, 26, 1, {3456}},
        {"model.visual.blocks.0.mlp.linear_fc2.weight", PLIM_GROUP_VISION, 0, 2, {1152, 4304}},
        {"model.visual.merger.norm.bias", PLIM_GROUP_VISION, -1, 1, {1152}},
        {"model.visual.merger.linear_fc1.weight", PLIM_GROUP_VISION, -1, 2, {4608, 4608}},
        {"model.visual.merger.linear_fc2.weight", PLIM_GROUP_VISION, -1, 2, {5120, 4608}},
        {"mtp.fc.weight", PLIM_GROUP_MTP, -1, 2, {5120, 10240}},
        {"mtp.pre_fc_norm_hidden.weight", PLIM_GROUP_MTP, -1, 1, {5120}},
        {"mtp.layers.0.self_attn.q_proj.weight", PLIM_GROUP_MTP, 0, 2, {12288, 5120}},
    };
    for (size_t i = 0; i < LEN(want); i++) {
        find f = {.name = want[i].name};
        plim_spec_tensors(&s, want[i].group, look, &f);
        if (strcmp(f.decl.name, want[i].name) != 0) fail_msg("no tensor %s", want[i].name);
        assert_int_equal(f.decl.group, want[i].group);
        assert_int_equal(f.decl.layer, want[i].layer);
        assert_int_equal(f.decl.dims, want[i].dims);
        assert_false(f.decl.optional);
        for (int d = 0; d < 5; d++) assert_int_equal(f.decl.shape[d], want[i].shape[d]);
    }
    static const int64_t totals[] = {851, 333, 15};
    for (int group = 0; group < 3; group++)
        for (int64_t stop = 1; stop <= totals[group]; stop++) { /* a visit that stops is not called again */
            find f = {.stop_after = stop};
            plim_spec_tensors(&s, (plim_tensor_group)group, look, &f);
            assert_int_equal(f.seen, stop);
        }
    test_ctx_close(c);
}

typedef struct compare {
    const json_t *header;
    int64_t found, absent;
} compare;

static bool compare_one(void *user, const plim_tensor_decl *d)
{
    compare *x = user;
    const json_t *shape = json_object_get(json_object_get(x->header, d->name), "shape");
    if (!shape) {
        if (!d->optional) fail_msg("the checkpoint has no %s", d->name);
        x->absent++;
        return true;
    }
    assert_int_equal(json_array_size(shape), d->dims);
    for (int32_t i = 0; i < d->dims; i++)
        if (json_integer_value(json_array_get(shape, (size_t)i)) != d->shape[i])
            fail_msg("%s: axis %d", d->name, i);
    x->found++;
    return true;
}

TEST(checkpoints_hold_exactly_these)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const char *const models[] = {"llama-tiny", "qwen2-tiny", "qwen3-tiny", "qwen3_5-tied",
                                         "qwen3_5-tiny"};
    for (size_t i = 0; i < LEN(models); i++) {
        char path[512];
        size_t bytes;
        plim_spec s;
        plim_json j;
        snprintf(path, sizeof path, "%s/models/%s/config.json", PLIM_TEST_DATA, models[i]);
        CHECK_OK(c, plim_spec_load(c, path, &s));
        snprintf(path, sizeof path, "%s/models/%s/model.safetensors.header.json", PLIM_TEST_DATA, models[i]);
        char *text = test_read(path, &bytes);
        CHECK_OK(c, plim_json_parse(c, path, text, bytes, PLIM_JSON_CAP_BYTES, &j));
        int64_t in_file =
            (int64_t)json_object_size(j.root) - (json_object_get(j.root, "__metadata__") != NULL);
        compare x = {j.root, 0, 0};
        plim_spec_tensors(&s, PLIM_GROUP_TEXT, compare_one, &x);
        assert_int_equal(x.found, in_file); /* names differ, so equal counts mean equal sets */
        assert_int_equal(x.absent, s.tied);
        assert_int_equal(plim_spec_counts(&s).tensors, in_file);
        plim_json_close(&j);
        free(text);
    }
    test_ctx_close(c);
}

static bool sum_biases(void *user, const plim_tensor_decl *d)
{
    int64_t *n = user;
    size_t len = strlen(d->name);
    if (len > 5 && strcmp(d->name + len - 5, ".bias") == 0) *n += d->shape[0];
    return true;
}

TEST(biases_follow_their_weights)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    /* 2 layers, hidden 64, q 64, k and v 32 each, mlp 160 */
    static const struct {
        const char *type, *more;
        int64_t bias_elements;
    } cases[] = {
        {"llama", ", \"rope_theta\": 1e4", 0},
        {"llama", ", \"rope_theta\": 1e4, \"attention_bias\": true", 2 * (64 + 32 + 32 + 64)},
        {"llama", ", \"rope_theta\": 1e4, \"mlp_bias\": true", 2 * (160 + 160 + 64)},
        {"qwen2", ", \"rope_theta\": 1e4", 2 * (64 + 32 + 32)},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        plim_spec s;
        int64_t n = 0;
        char *text = config_dense(cases[i].type, cases[i].more);
        CHECK_OK(c, config_parse(c, text, &s));
        plim_spec_tensors(&s, PLIM_GROUP_TEXT, sum_biases, &n);
        assert_int_equal(n, cases[i].bias_elements);
        free(text);
    }
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(counts_of_the_27b),
        cmocka_unit_test(names_and_shapes_of_the_27b),
        cmocka_unit_test(checkpoints_hold_exactly_these),
        cmocka_unit_test(biases_follow_their_weights),
    };
    return RUN_TESTS(table);
}
