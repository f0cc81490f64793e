/* Layer types, sliding windows and delta-net sizes of a config. */
#include "support/config_text.h"

#define LEN(a)  (sizeof(a) / sizeof *(a))
#define REFUSED PLIM_E_UNSUPPORTED
#define THETA   ", \"rope_theta\": 10000.0"
#define FULL    "\"full_attention\""
#define LINEAR  "\"linear_attention\""

static const char hybrid[] =
    ", \"rope_theta\": 1e7, \"partial_rotary_factor\": 0.25, \"linear_conv_kernel_dim\": 4,\n"
    "\"linear_key_head_dim\": 16, \"linear_value_head_dim\": 24, \"linear_num_key_heads\": 2,\n"
    "\"linear_num_value_heads\": 6";

/* A flat hybrid config of so many layers, and more fields. */
static char *hybrid_config(int layers, const char *more)
{
    char fields[2048], count[64];
    snprintf(fields, sizeof fields, "%s%s", hybrid, more);
    snprintf(count, sizeof count, "\"num_hidden_layers\": %d", layers);
    char *base = config_dense("qwen3_5_text", fields),
         *text = config_edit(base, "\"num_hidden_layers\": 2", count);
    free(base);
    return text;
}

TEST(layer_types_win_over_the_interval)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s;
    /* C6: twelve layers, full attention at 3, 6 and 11; the interval would say 3, 7, 11 */
    char *text = hybrid_config(12, ",\n\"full_attention_interval\": 4, \"layer_types\": [" LINEAR "," LINEAR
                                   "," LINEAR "," FULL "," LINEAR "," LINEAR "," FULL "," LINEAR "," LINEAR
                                   "," LINEAR "," LINEAR "," FULL "]");
    CHECK_OK(c, config_parse(c, text, &s));
    for (int i = 0; i < 12; i++)
        assert_int_equal(s.layer_type[i],
                         i == 3 || i == 6 || i == 11 ? PLIM_LAYER_ATTENTION : PLIM_LAYER_DELTA);
    assert_int_equal(plim_spec_layers_of(&s, PLIM_LAYER_ATTENTION), 3);
    free(text);
    text = hybrid_config(7, ", \"full_attention_interval\": 3");
    CHECK_OK(c, config_parse(c, text, &s));
    for (int i = 0; i < 7; i++)
        assert_int_equal(s.layer_type[i], i == 2 || i == 5 ? PLIM_LAYER_ATTENTION : PLIM_LAYER_DELTA);
    assert_int_equal(s.value_dim, 24);
    free(text);
    text = hybrid_config(3, ", \"full_attention_interval\": 1");
    CHECK_OK(c, config_parse(c, text, &s));
    assert_int_equal(plim_spec_layers_of(&s, PLIM_LAYER_DELTA), 0);
    assert_int_equal(s.value_heads, 0); /* unread: no layer needs them */
    free(text);
    test_ctx_close(c);
}

TEST(refuses_bad_layer_types)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *more;
        plim_status status;
        const char *words[3];
    } cases[] = {
        {"", PLIM_E_FORMAT, {"full_attention_interval:", "missing"}},
        {", \"full_attention_interval\": 0", PLIM_E_RANGE, {"full_attention_interval:", "0 is out of range"}},
        {", \"full_attention_interval\": -4", PLIM_E_RANGE, {"full_attention_interval:", "-4"}},
        {", \"full_attention_interval\": 4.0", PLIM_E_FORMAT, {"full_attention_interval:", "an integer"}},
        {", \"full_attention_interval\": 0, \"layer_types\": [" FULL "," FULL "," FULL "," FULL "]",
         PLIM_E_RANGE,
         {"full_attention_interval:"}},
        {", \"layer_types\": [" FULL "," LINEAR "]", PLIM_E_FORMAT, {"layer_types:", "2 entries", "is 4"}},
        {", \"layer_types\": []", PLIM_E_FORMAT, {"layer_types:", "0 entries"}},
        {", \"layer_types\": \"full_attention\"", PLIM_E_FORMAT, {"layer_types:", "an array"}},
        {",\n\"layer_types\": [" FULL "," FULL ", 3," FULL "]",
         PLIM_E_FORMAT,
         {"config.json:7:52: layer_types[2]:", "a string"}},
        {",\n\"layer_types\": [" FULL "," FULL "," FULL ",\"mamba\"]",
         REFUSED,
         {"config.json:7:68: layer_types[3]:", "\"mamba\"", "linear_attention"}},
        {", \"layer_types\": [" FULL "," FULL "," FULL ",\"sliding_attention\"]",
         REFUSED,
         {"layer_types[3]:", "\"sliding_attention\""}},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        char *text = hybrid_config(4, cases[i].more);
        plim_spec s;
        const char *const words[] = {cases[i].words[0], cases[i].words[1], cases[i].words[2], NULL};
        test_check_fails(c, cases[i].status, config_parse(c, text, &s), cases[i].more, words);
        free(text);
    }
    char *base = config_dense("qwen3", THETA ", \"layer_types\": [" FULL ", " FULL "]");
    static const config_case dense[] = {
        {", " FULL "]", ", " LINEAR "]", REFUSED, {"layer_types[1]:", "\"linear_attention\"", "qwen3"}},
        {", " FULL "]", ", \"sliding_attention\"]", REFUSED, {"layer_types[1]:", "\"sliding_attention\""}},
        {", " FULL "]", "]", PLIM_E_FORMAT, {"layer_types:", "1 entries", "is 2"}},
        {", " FULL "]", "," FULL "]", PLIM_OK, {0}},
    };
    config_check_cases(c, base, dense, LEN(dense));
    free(base);
    test_ctx_close(c);
}

/* C8: a missing size of the delta-net is an error, never the size of some other model. */
TEST(delta_sizes_are_never_guessed)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const config_case cases[] = {
        {",\n\"linear_num_value_heads\": 6", "", PLIM_E_FORMAT, {"linear_num_value_heads:", "missing"}},
        {"\"linear_num_key_heads\": 2,", "", PLIM_E_FORMAT, {"linear_num_key_heads:", "missing"}},
        {"\"linear_key_head_dim\": 16,", "", PLIM_E_FORMAT, {"linear_key_head_dim:", "missing"}},
        {"\"linear_value_head_dim\": 24,", "", PLIM_E_FORMAT, {"linear_value_head_dim:", "missing"}},
        {"\"linear_conv_kernel_dim\": 4,", "", PLIM_E_FORMAT, {"linear_conv_kernel_dim:", "missing"}},
        {"\"linear_num_value_heads\": 6",
         "\"linear_num_value_heads\": 5",
         PLIM_E_SHAPE,
         {"config.json:5:81: linear_num_key_heads:", "2 key heads", "5 value heads"}},
        {"\"linear_num_value_heads\": 6",
         "\"linear_num_value_heads\": 0",
         PLIM_E_RANGE,
         {"config.json:6:27: linear_num_value_heads:", "0 is out of range"}},
        {"\"linear_value_head_dim\": 24",
         "\"linear_value_head_dim\": 24.0",
         PLIM_E_FORMAT,
         {"linear_value_head_dim:", "24"}},
        {"24, \"linear_num_key_heads\": 2,\n\"linear_num_value_heads\": 6",
         "65536, \"linear_num_key_heads\": 2,\n\"linear_num_value_heads\": 600",
         PLIM_E_RANGE,
         {"linear_num_value_heads:", "channels"}},
    };
    char *base = hybrid_config(4, ", \"full_attention_interval\": 4");
    config_check_cases(c, base, cases, LEN(cases));
    free(base);
    base = test_read(CONFIG_27B, NULL);
    static const config_case large[] = {
        {"\"linear_num_value_heads\": 48,",
         "",
         PLIM_E_FORMAT,
         {"text_config.linear_num_value_heads:", "missing"}},
    };
    config_check_cases(c, base, large, LEN(large));
    free(base);
    test_ctx_close(c);
}

TEST(sliding_windows)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *type, *more;
        bool fine;
    } cases[] = {
        {"mistral", ", \"sliding_window\": null", true},
        {"mistral", ", \"sliding_window\": 4096", false},
        {"mistral", "", false}, /* the format's own default is a window */
        {"llama", "", true},
        {"llama", ", \"sliding_window\": 4096", false},
        {"qwen2", ", \"sliding_window\": 4096", true},
        {"qwen2", ", \"sliding_window\": 4096, \"use_sliding_window\": false", true},
        {"qwen2", ", \"sliding_window\": null, \"use_sliding_window\": true", true},
        {"qwen2", ", \"sliding_window\": 4096, \"use_sliding_window\": true", false},
        {"qwen2", ", \"use_sliding_window\": true", false},
        {"qwen2", ", \"sliding_window\": 4096, \"use_sliding_window\": true, \"max_window_layers\": 2", true},
        {"qwen3", ", \"sliding_window\": 4096, \"use_sliding_window\": true, \"max_window_layers\": 1",
         false},
        {"qwen3",
         ", \"sliding_window\": 4096, \"use_sliding_window\": true, \"max_window_layers\": 1, "
         "\"layer_types\": [" FULL "," FULL "]",
         true},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        char more[512];
        plim_spec s;
        snprintf(more, sizeof more, THETA "%s", cases[i].more);
        char *text = config_dense(cases[i].type, more);
        plim_status st = config_parse(c, text, &s);
        if (cases[i].fine) CHECK_OK(c, st);
        else CHECK_FAILS(c, REFUSED, st, "sliding_window:", "sliding window", "not supported");
        free(text);
    }
    char *text = config_dense("qwen2", THETA ", \"use_sliding_window\": 1");
    plim_spec s;
    CHECK_FAILS(c, PLIM_E_FORMAT, config_parse(c, text, &s), "use_sliding_window:", "true or false");
    free(text);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(layer_types_win_over_the_interval),
        cmocka_unit_test(refuses_bad_layer_types),
        cmocka_unit_test(delta_sizes_are_never_guessed),
        cmocka_unit_test(sliding_windows),
    };
    return RUN_TESTS(table);
}
