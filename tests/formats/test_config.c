/* plim_spec_load: families, dimensions, conventions, refusals, positions, damaged files, out of memory. */
#include "support/config_text.h"

#include "base/json.h"

#define LEN(a)  (sizeof(a) / sizeof *(a))
#define THETA   ", \"rope_theta\": 10000.0"
#define MODELS  PLIM_TEST_DATA "/models/"
#define REFUSED PLIM_E_UNSUPPORTED

TEST(reads_the_27b)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s, folder;
    CHECK_OK(c, plim_spec_load(c, CONFIG_27B, &s));
    CHECK_OK(c, plim_spec_load(c, PLIM_SHARE_SOURCE "/models/qwen3.8-27b", &folder));
    assert_memory_equal(&s, &folder, sizeof s);
    assert_int_equal(s.family, PLIM_FAMILY_QWEN3_5);
    assert_string_equal(s.model_type, "qwen3_5_text");
    assert_string_equal(s.dtype_name, "bfloat16");
    assert_true(s.multimodal && s.unit_offset_norm && s.attention_gate && s.qk_norm);
    assert_false(s.tied || s.qkv_bias || s.o_bias || s.mlp_bias);
    assert_int_equal(s.layers, 64);
    assert_int_equal(s.hidden, 5120);
    assert_int_equal(s.mlp, 17408);
    assert_int_equal(s.vocab, 248320);
    assert_int_equal(s.heads, 24);
    assert_int_equal(s.kv_heads, 4);
    assert_int_equal(s.head_dim, 256);
    assert_int_equal(s.key_heads, 16);
    assert_int_equal(s.value_heads, 48);
    assert_int_equal(s.key_dim, 128);
    assert_int_equal(s.value_dim, 128);
    assert_int_equal(s.conv_taps, 4);
    assert_true(s.rms_eps == 1e-6 && s.initializer_range == 0.02);
    assert_int_equal(s.max_position, 262144);
    assert_int_equal(s.rope.type, PLIM_ROPE_DEFAULT);
    assert_true(s.rope.theta == 1e7);
    assert_int_equal(s.rope.rotary_dim, 64);
    assert_int_equal(s.mtp_layers, 1);
    assert_true(s.vision.present);
    assert_int_equal(s.vision.depth, 27);
    assert_int_equal(s.vision.positions, 2304);
    assert_int_equal(plim_spec_layers_of(&s, PLIM_LAYER_DELTA), 48);
    assert_int_equal(plim_spec_layers_of(&s, PLIM_LAYER_ATTENTION), 16);
    for (int i = 0; i < 64; i++)
        assert_int_equal(s.layer_type[i], i % 4 == 3 ? PLIM_LAYER_ATTENTION : PLIM_LAYER_DELTA);
    test_ctx_close(c);
}

TEST(reads_every_family)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *path;
        plim_family family;
        int64_t layers, heads, kv_heads, head_dim, rotary_dim;
        bool tied, qk_norm, qkv_bias;
    } want[] = {
        {MODELS "llama-tiny", PLIM_FAMILY_LLAMA, 2, 4, 2, 16, 16, false, false, false},
        {MODELS "qwen2-tiny", PLIM_FAMILY_QWEN2, 2, 4, 2, 16, 16, false, false, true},
        {MODELS "qwen3-tiny", PLIM_FAMILY_QWEN3, 3, 4, 2, 32, 32, true, true, false},
        {MODELS "qwen3_5-tied", PLIM_FAMILY_QWEN3_5, 8, 4, 2, 32, 8, true, true, false},
        {MODELS "qwen3_5-tiny", PLIM_FAMILY_QWEN3_5, 4, 4, 2, 32, 8, false, true, false},
    };
    for (size_t i = 0; i < LEN(want); i++) {
        plim_spec s;
        CHECK_OK(c, plim_spec_load(c, want[i].path, &s));
        assert_int_equal(s.family, want[i].family);
        assert_int_equal(s.layers, want[i].layers);
        assert_int_equal(s.heads, want[i].heads);
        assert_int_equal(s.kv_heads, want[i].kv_heads);
        assert_int_equal(s.head_dim, want[i].head_dim);
        assert_int_equal(s.rope.rotary_dim, want[i].rotary_dim);
        assert_int_equal(s.tied, want[i].tied);
        assert_int_equal(s.qk_norm, want[i].qk_norm);
        assert_int_equal(s.qkv_bias, want[i].qkv_bias);
        assert_false(s.multimodal || s.o_bias || s.mlp_bias || s.vision.present || s.mtp_layers);
        assert_string_equal(s.dtype_name, "float32");
    }
    char *text = config_dense("mistral", THETA ", \"sliding_window\": null");
    plim_spec s;
    CHECK_OK(c, config_parse(c, text, &s));
    assert_int_equal(s.family, PLIM_FAMILY_MISTRAL);
    assert_false(s.qkv_bias || s.o_bias || s.qk_norm || s.unit_offset_norm || s.attention_gate);
    free(text);
    test_ctx_close(c);
}

TEST(refuses_other_models_by_name)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const config_case cases[] = {
        {"\"llama\"",
         "\"gemma3\"",
         REFUSED,
         {"config.json:1:16: model_type:", "\"gemma3\"", "qwen3_5, ", "mistral"}},
        {"\"llama\"", "\"qwen3_moe\"", REFUSED, {"\"qwen3_moe\"", "mixture of experts", "are supported"}},
        {"\"llama\"", "\"qwen3_5_moe\"", REFUSED, {"\"qwen3_5_moe\"", "mixture of experts"}},
        {"\"llama\"", "\"mixtral\"", REFUSED, {"\"mixtral\"", "mixture of experts"}},
        {"\"llama\"", "\"\"", REFUSED, {"model_type:", "\"\""}},
        {"\"llama\"", "7", PLIM_E_FORMAT, {"model_type:", "a string"}},
        {"\"model_type\": \"llama\",", "", PLIM_E_FORMAT, {"config.json:1:1: model_type:", "missing"}},
        {"\"head_dim\": 16",
         "\"head_dim\": 16, \"num_experts\": 8",
         REFUSED,
         {"config.json:4:", "num_experts:", "8 experts"}},
        {"\"head_dim\": 16",
         "\"head_dim\": 16, \"num_local_experts\": 4",
         REFUSED,
         {"num_local_experts:", "4 experts"}},
        {"\"head_dim\": 16",
         "\"head_dim\": 16, \"n_routed_experts\": 64",
         REFUSED,
         {"n_routed_experts:", "64 experts"}},
        {"\"head_dim\": 16", "\"head_dim\": 16, \"num_experts\": 0", PLIM_OK, {0}},
        {"\"head_dim\": 16", "\"head_dim\": 16, \"num_experts\": null", PLIM_OK, {0}},
        {"\"head_dim\": 16",
         "\"head_dim\": 16, \"quantization_config\": {\"quant_method\": \"fp8\"}",
         REFUSED,
         {"config.json:4:", " quantization_config:", "fp8", "bf16"}},
        {"\"head_dim\": 16",
         "\"head_dim\": 16, \"quantization_config\": 3",
         REFUSED,
         {"quantization_config:", "unnamed"}},
        {"\"head_dim\": 16",
         "\"head_dim\": 16, \"compression_config\": {}",
         REFUSED,
         {"compression_config:"}},
        {"\"head_dim\": 16", "\"head_dim\": 16, \"quantization_config\": null", PLIM_OK, {0}},
    };
    char *base = config_dense("llama", THETA);
    config_check_cases(c, base, cases, LEN(cases));
    free(base);
    test_ctx_close(c);
}

TEST(refuses_absurd_dimensions)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const config_case cases[] = {
        {"\"num_hidden_layers\": 2",
         "\"num_hidden_layers\": 0",
         PLIM_E_RANGE,
         {"config.json:2:22: num_hidden_layers:", "1 to 1024"}},
        {"\"num_hidden_layers\": 2",
         "\"num_hidden_layers\": 1025",
         PLIM_E_RANGE,
         {"num_hidden_layers:", "1025"}},
        {"\"num_hidden_layers\": 2",
         "\"num_hidden_layers\": 2.0",
         PLIM_E_FORMAT,
         {"num_hidden_layers:", "integer"}},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": \"2\"", PLIM_E_FORMAT, {"num_hidden_layers:"}},
        {"\"hidden_size\": 64",
         "\"hidden_size\": -64",
         PLIM_E_RANGE,
         {"config.json:2:40: hidden_size:", "-64"}},
        {"\"hidden_size\": 64", "\"hidden_size\": 16777217", PLIM_E_RANGE, {"hidden_size:"}},
        {"\"intermediate_size\": 160",
         "\"intermediate_size\": null",
         PLIM_E_FORMAT,
         {"intermediate_size:", "null"}},
        {"\"vocab_size\": 512", "\"vocab_size\": 134217729", PLIM_E_RANGE, {"vocab_size:"}},
        {"\"max_position_embeddings\": 512,", "", PLIM_E_FORMAT, {"max_position_embeddings:", "missing"}},
        {"\"rms_norm_eps\": 1e-6", "\"rms_norm_eps\": 0", PLIM_E_RANGE, {"rms_norm_eps:"}},
        {"\"rms_norm_eps\": 1e-6,", "", PLIM_E_FORMAT, {"rms_norm_eps:", "missing"}},
        {"\"num_attention_heads\": 4",
         "\"num_attention_heads\": 3",
         PLIM_E_SHAPE,
         {"config.json:4:24: num_key_value_heads:", "2 key/value heads", "3 query heads"}},
        {"\"head_dim\": 16", "\"head_dim\": 15", PLIM_E_SHAPE, {"head_dim:", "even"}},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": 65536", PLIM_OK, {0}},
        {"\"num_attention_heads\": 4,\n\"num_key_value_heads\": 2, \"head_dim\": 16",
         "\"num_attention_heads\": 65536, \"num_key_value_heads\": 2, \"head_dim\": 258",
         PLIM_E_RANGE,
         {"num_attention_heads:", "65536 heads of 258"}},
        {"\"num_hidden_layers\": 2, \"hidden_size\": 64, \"intermediate_size\": 160",
         "\"num_hidden_layers\": 1024, \"hidden_size\": 16777216, \"intermediate_size\": 16777216",
         PLIM_E_RANGE,
         {"hidden_size:", "parameters"}},
        {"\"head_dim\": 16",
         "\"head_dim\": 16, \"initializer_range\": -1",
         PLIM_E_RANGE,
         {"initializer_range:"}},
    };
    char *base = config_dense("llama", THETA);
    config_check_cases(c, base, cases, LEN(cases));
    free(base);
    test_ctx_close(c);
}

TEST(derives_heads_only_where_the_family_does)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s;
    static const char no_kv[] = "\"num_key_value_heads\": 2, ", no_dim[] = ", \"head_dim\": 16";
    static const char *const derive[] = {"llama", "qwen2"};
    for (size_t i = 0; i < LEN(derive); i++) {
        char *base = config_dense(derive[i], THETA), *text = config_edit(base, no_dim, "");
        CHECK_OK(c, config_parse(c, text, &s));
        assert_int_equal(s.head_dim, 16);
        free(text);
        text = config_edit(base, no_dim, ", \"head_dim\": null");
        CHECK_OK(c, config_parse(c, text, &s));
        assert_int_equal(s.head_dim, 16);
        free(text);
        text = config_edit(base, "\"num_attention_heads\": 4,\n\"num_key_value_heads\": 2, \"head_dim\": 16",
                           "\"num_attention_heads\": 6, \"num_key_value_heads\": 2");
        CHECK_FAILS(c, PLIM_E_SHAPE, config_parse(c, text, &s), "num_attention_heads:", "6 heads", "64");
        free(text);
        free(base);
    }
    char *base = config_dense("llama", THETA), *text = config_edit(base, no_kv, "");
    CHECK_OK(c, config_parse(c, text, &s));
    assert_int_equal(s.kv_heads, 4);
    free(text);
    free(base);
    base = config_dense("qwen3", THETA);
    static const config_case cases[] = {
        {no_dim, "", PLIM_E_FORMAT, {"head_dim:", "missing"}},
        {no_kv, "", PLIM_E_FORMAT, {"num_key_value_heads:", "missing"}},
    };
    config_check_cases(c, base, cases, LEN(cases));
    free(base);
    test_ctx_close(c);
}

TEST(biases_and_activations)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *type, *more;
        plim_status status;
        bool qkv, o, mlp;
        const char *word;
    } cases[] = {
        {"llama", ", \"attention_bias\": true", PLIM_OK, true, true, false, NULL},
        {"llama", ", \"mlp_bias\": true", PLIM_OK, false, false, true, NULL},
        {"qwen3", ", \"attention_bias\": true", PLIM_OK, true, true, false, NULL},
        {"qwen3", ", \"mlp_bias\": true", REFUSED, 0, 0, 0, "mlp_bias:"},
        {"qwen2", "", PLIM_OK, true, false, false, NULL},
        {"qwen2", ", \"attention_bias\": true", PLIM_OK, true, false, false, NULL},
        {"qwen2", ", \"attention_bias\": false", REFUSED, 0, 0, 0, "attention_bias:"},
        {"mistral", ", \"sliding_window\": null, \"attention_bias\": true", REFUSED, 0, 0, 0,
         "attention_bias:"},
        {"llama", ", \"attention_bias\": 1", PLIM_E_FORMAT, 0, 0, 0, "true or false"},
        {"llama", ", \"hidden_act\": \"gelu\"", REFUSED, 0, 0, 0, "hidden_act: \"gelu\""},
        {"llama", ", \"hidden_act\": \"swish\"", PLIM_OK, false, false, false, NULL},
        {"llama", ", \"dtype\": \"int4\"", REFUSED, 0, 0, 0, "dtype: weights of type \"int4\""},
        {"llama", ", \"torch_dtype\": \"int8\", \"dtype\": null", REFUSED, 0, 0, 0, "torch_dtype: "},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        char more[256];
        plim_spec s;
        snprintf(more, sizeof more, THETA "%s", cases[i].more);
        char *text = config_dense(cases[i].type, more);
        plim_status st = config_parse(c, text, &s);
        if (cases[i].status)
            test_check_fails(c, cases[i].status, st, text, (const char *[]){cases[i].word, NULL});
        else {
            CHECK_OK(c, st);
            assert_int_equal(s.qkv_bias, cases[i].qkv);
            assert_int_equal(s.o_bias, cases[i].o);
            assert_int_equal(s.mlp_bias, cases[i].mlp);
        }
        free(text);
    }
    test_ctx_close(c);
}

TEST(hybrid_refusals)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const config_case cases[] = {
        {"\"attention_bias\": false",
         "\"attention_bias\": true",
         REFUSED,
         {"config.json:9:23: text_config.attention_bias:", "qwen3_5_text"}},
        {"\"hidden_act\": \"silu\"",
         "\"hidden_act\": \"gelu\"",
         REFUSED,
         {"text_config.hidden_act:", "gelu"}},
        {"\"output_gate_type\": \"swish\"",
         "\"output_gate_type\": \"sigmoid\"",
         REFUSED,
         {"text_config.output_gate_type:", "sigmoid"}},
        {"\"output_gate_type\": \"swish\"", "\"output_gate_type\": \"silu\"", PLIM_OK, {0}},
        {"\"attn_output_gate\": true",
         "\"attn_output_gate\": false",
         REFUSED,
         {"text_config.attn_output_gate:"}},
        {"\"model_type\": \"qwen3_5_text\"",
         "\"model_type\": \"qwen3_next\"",
         REFUSED,
         {"text_config.model_type:", "qwen3_next", "qwen3_5_text"}},
        {"\"text_config\"", "\"text\"", PLIM_E_FORMAT, {"text_config:", "missing"}},
        {"\"mtp_use_dedicated_embeddings\": false",
         "\"mtp_use_dedicated_embeddings\": true",
         REFUSED,
         {"text_config.mtp_use_dedicated_embeddings:"}},
        {"\"mtp_num_hidden_layers\": 1",
         "\"mtp_num_hidden_layers\": -1",
         PLIM_E_RANGE,
         {"text_config.mtp_num_hidden_layers:"}},
        {"\"deepstack_visual_indexes\": []",
         "\"deepstack_visual_indexes\": [5, 11]",
         REFUSED,
         {"vision_config.deepstack_visual_indexes:", "2 entries"}},
        {"\"depth\": 27", "\"depth\": 27.5", PLIM_E_FORMAT, {"vision_config.depth:", "27.5"}},
        {"\"num_heads\": 16", "\"num_heads\": 17", PLIM_E_SHAPE, {"vision_config.num_heads:"}},
        {"\"out_hidden_size\": 5120",
         "\"out_hidden_size\": 4096",
         PLIM_E_SHAPE,
         {"vision_config.out_hidden_size:"}},
        {"\"in_channels\": 3,", "", PLIM_E_FORMAT, {"vision_config.in_channels:", "missing"}},
        /* C11: a quantisation block at the top holds for the text model too */
        {"\"image_token_id\"",
         "\"quantization_config\": {\"quant_method\": \"fp8\"}, \"image_token_id\"",
         REFUSED,
         {"config.json:5:26: quantization_config:", "fp8"}},
        {"\"attention_bias\"",
         "\"quantization_config\": {}, \"attention_bias\"",
         REFUSED,
         {"text_config.quantization_config:"}},
    };
    char *base = test_read(CONFIG_27B, NULL);
    config_check_cases(c, base, cases, LEN(cases));
    free(base);
    test_ctx_close(c);
}

TEST(stored_dtype_has_four_places)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *inner, *outer, *want;
    } cases[] = {
        {"\"dtype\": \"float16\"", "", "float16"},
        {"\"torch_dtype\": \"float16\"", "\"dtype\": \"float32\",", "float16"},
        {"\"x\": 1", "\"torch_dtype\": \"float32\",", "float32"},
        {"\"torch_dtype\": \"float16\", \"dtype\": \"bfloat16\"", "", "bfloat16"},
        {"\"x\": 1", "", ""},
    };
    char *base = test_read(CONFIG_27B, NULL);
    for (size_t i = 0; i < LEN(cases); i++) {
        char outer[64];
        plim_spec s;
        snprintf(outer, sizeof outer, "%s \"image_token_id\"", cases[i].outer);
        char *half = config_edit(base, "\"dtype\": \"bfloat16\"", cases[i].inner);
        char *text = config_edit(half, "\"image_token_id\"", outer);
        CHECK_OK(c, config_parse(c, text, &s));
        assert_string_equal(s.dtype_name, cases[i].want);
        free(half);
        free(text);
    }
    free(base);
    test_ctx_close(c);
}

TEST(tie_flags)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const char inner[] = "    \"tie_word_embeddings\": false,\n    \"use_cache\"";
    static const char outer[] = "  \"tie_word_embeddings\": false,\n  \"transformers";
    static const struct {
        const char *inner, *outer;
        int tied; /* -1: refused */
    } cases[] = {
        {"false", "false", 0}, {"true", "true", 1}, {"false", "true", -1},
        {"true", "false", -1}, {NULL, "true", 1},   {"true", NULL, 1},
        {NULL, "false", 0},    {NULL, NULL, 0},     {"null", "true", 1},
    };
    char *base = test_read(CONFIG_27B, NULL);
    for (size_t i = 0; i < LEN(cases); i++) {
        char a[128], b[128];
        plim_spec s;
        snprintf(a, sizeof a, cases[i].inner ? "\"tie_word_embeddings\": %s, \"use_cache\"" : "\"use_cache\"",
                 cases[i].inner);
        snprintf(b, sizeof b,
                 cases[i].outer ? "\"tie_word_embeddings\": %s, \"transformers" : "\"transformers",
                 cases[i].outer);
        char *half = config_edit(base, inner, a), *text = config_edit(half, outer, b);
        plim_status st = config_parse(c, text, &s);
        if (cases[i].tied < 0) {
            CHECK_FAILS(c, REFUSED, st, "text_config.tie_word_embeddings:", "top level", "lm_head.weight");
        } else {
            CHECK_OK(c, st);
            assert_int_equal(s.tied, cases[i].tied);
        }
        free(half);
        free(text);
    }
    free(base);
    test_ctx_close(c);
}

TEST(damaged_files)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s;
    size_t bytes;
    char *base = test_read(CONFIG_27B, &bytes);
    size_t whole = bytes;
    while (base[whole - 1] != '}') whole--;
    for (size_t n = 0; n < bytes; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, base, n);
        plim_status st = plim_spec_parse(c, "config.json", cut, n, &s);
        if (n < whole) CHECK_FAILS(c, PLIM_E_FORMAT, st, "config.json:");
        else CHECK_OK(c, st);
        free(cut);
    }
    const char *folder = test_folder("config_damaged");
    const char *path = test_path(folder, "other.json"), *big = test_path(folder, "big.json");
    test_write(path, "\xEF\xBB\xBF{}", 5);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_spec_load(c, path, &s), "other.json:1:1:", "byte-order mark");
    test_write(path, "", 0);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_spec_load(c, path, &s), "other.json:1:1:", "empty");
    test_write(path, "[]", 2);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_spec_load(c, path, &s), "other.json:1:1:", "object", "model_type");
    test_write(path, base, bytes);
    CHECK_OK(c, plim_spec_load(c, path, &s));
    char *twice = config_edit(base, "\"head_dim\": 256,", "\"head_dim\": 256,\n    \"head_dim\": 128,");
    CHECK_FAILS(c, PLIM_E_FORMAT, config_parse(c, twice, &s),
                "config.json:17:5:", "duplicate key \"head_dim\"");
    free(twice);
    char *bomb = malloc(1 << 20);
    memset(bomb, '[', 1 << 20);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_spec_parse(c, "config.json", bomb, 1 << 20, &s), "config.json:1:257:");
    free(bomb);
    char *spaces = calloc(1, PLIM_JSON_CAP_BYTES + 1);
    test_write(big, spaces, PLIM_JSON_CAP_BYTES + 1);
    free(spaces);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_spec_load(c, big, &s), "big.json", "67108865", "67108864");
    CHECK_FAILS(c, PLIM_E_IO, plim_spec_load(c, folder, &s), folder, "no config.json");
    CHECK_FAILS(c, PLIM_E_IO, plim_spec_load(c, test_path(folder, "absent.json"), &s), "absent.json");
    remove(big);
    free(base);
    test_ctx_close(c);
}

static plim_status open_config(plim_ctx *c, void *user)
{
    plim_spec s;
    return plim_spec_load(c, user, &s);
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char path[] = CONFIG_27B, tiny[] = MODELS "llama-tiny";
    assert_true(test_every_allocation(c, open_config, path) > 100);
    assert_true(test_every_allocation(c, open_config, tiny) > 30);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(reads_the_27b),
        cmocka_unit_test(reads_every_family),
        cmocka_unit_test(refuses_other_models_by_name),
        cmocka_unit_test(refuses_absurd_dimensions),
        cmocka_unit_test(derives_heads_only_where_the_family_does),
        cmocka_unit_test(biases_and_activations),
        cmocka_unit_test(hybrid_refusals),
        cmocka_unit_test(stored_dtype_has_four_places),
        cmocka_unit_test(tie_flags),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
