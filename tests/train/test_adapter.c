/* Adapters in: PEFT's files and their way back, bent files and what is said of them, new adapters. */
#include "base/fnv.h"
#include "base/random.h"

#include "train/adapter_support.h"

#include <math.h>

#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"

static const char *const models[] = {"qwen3_5-tiny", "qwen3_5-tied", "qwen2-tiny", "qwen3-tiny",
                                     "llama-tiny"};

/* ---- in and out ---------------------------------------------------------------------------------------- */

static void check_same_file(plim_ctx *c, const char *a_path, const char *b_path)
{
    plim_safetensors *a = NULL, *b = NULL;
    CHECK_OK(c, plim_safetensors_open(c, a_path, &a));
    CHECK_OK(c, plim_safetensors_open(c, b_path, &b));
    assert_int_equal(plim_safetensors_count(a), plim_safetensors_count(b));
    for (size_t i = 0; i < plim_safetensors_count(a); i++) {
        const plim_safetensors_tensor *s = plim_safetensors_at(a, i), *t = plim_safetensors_at(b, i);
        assert_string_equal(s->name, t->name); /* the same order too */
        assert_int_equal(s->dtype, t->dtype);
        assert_int_equal(s->dims, t->dims);
        assert_memory_equal(s->shape, t->shape, sizeof s->shape);
        assert_memory_equal(plim_safetensors_data(a, s), plim_safetensors_data(b, t), s->size_bytes);
    }
    assert_string_equal(plim_safetensors_metadata(b, "format"), "pt");
    plim_safetensors_close(a);
    plim_safetensors_close(b);
}

TEST(pefts_adapters_come_back_byte_for_byte)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const plim_dtype act[] = {PLIM_BF16, PLIM_F64}; /* masters in F32 and in F64 */
    for (size_t i = 0; i < 5; i++) {
        for (size_t d = 0; d < 2; d++) {
            const char *adapter = golden(models[i], "adapter");
            const char *out = test_path(test_folder("adapter-back"), "saved/");
            plim_adapter_config g = open_for(c, golden(models[i], ""), adapter, act[d]), back;
            CHECK_OK(c, plim_adapter_load(c, adapter, &w.sh, w.adapters.master));
            plim_adapter_save_args a = save_of(out, g);
            CHECK_OK(c, plim_adapter_save(c, &a));
            check_same_file(c, test_path(adapter, "adapter_model.safetensors"),
                            test_path(out, "adapter_model.safetensors"));
            CHECK_OK(c, plim_adapter_survey(c, out, &w.spec, &back));
            assert_memory_equal(&back, &g, sizeof g);
            assert_int_equal(entries(test_path("test-tmp", "adapter-back")), 1);
            assert_int_equal(entries(out), 2);
            laid_close(&w);
        }
    }
    test_ctx_close(c);
}

typedef struct check {
    plim_safetensors *file;
    int64_t seen;
} check;

static void check_master(void *user, const plim_adapter_tensor *t)
{
    check *k = user;
    plim_adapter_key key;
    plim_adapter_key_of(&w.spec, w.sh.o.lora_rank, t, &key);
    const plim_safetensors_tensor *s = plim_safetensors_find(k->file, key.name);
    if (!s) fail_msg("%s is not in the file", key.name);
    const float *master = (const float *)w.adapters.master.data + t->offset;
    for (int64_t i = 0; i < t->rows; i++) {
        for (int64_t j = 0; j < t->cols; j++) {
            float want = 0; /* the padding of the rank */
            if (i < s->shape[0] && j < s->shape[1])
                memcpy(&want,
                       (const char *)plim_safetensors_data(k->file, s) + (size_t)(i * s->shape[1] + j) * 4,
                       sizeof want);
            if (memcmp(&want, &master[i * t->cols + j], sizeof want) != 0)
                fail_msg("%s: [%lld, %lld]", key.name, (long long)i, (long long)j);
        }
    }
    k->seen++;
}

TEST(the_rank_is_padded_with_zeros)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *adapter = golden("qwen3_5-tiny", "adapter");
    check k = {0};
    CHECK_OK(c, plim_safetensors_open(c, test_path(adapter, "adapter_model.safetensors"), &k.file));
    open_for(c, golden("qwen3_5-tiny", ""), adapter, PLIM_F32);
    CHECK_OK(c, plim_adapter_load(c, adapter, &w.sh, w.adapters.master));
    plim_adapters_walk(&w.spec, 4, w.sh.o.lora_targets, 8, 0, 4, check_master, &k);
    assert_int_equal(k.seen, 50);
    for (int64_t i = 0; i < w.adapters.master.cols; i++) /* also between the tensors */
        assert_true(isfinite(((float *)w.adapters.master.data)[i]));
    plim_safetensors_close(k.file);
    laid_close(&w);
    test_ctx_close(c);
}

TEST(a_card_reads_only_its_layers)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static laid whole;
    const char *adapter = golden("qwen3_5-tiny", "adapter");
    open_for(c, golden("qwen3_5-tiny", ""), adapter, PLIM_F32);
    CHECK_OK(c, plim_adapter_load(c, adapter, &w.sh, w.adapters.master));
    whole = w;
    laid_place(c, &w, whole.sh.o, 2, 4);
    CHECK_OK(c, plim_adapter_load(c, adapter, &w.sh, w.adapters.master));
    int64_t first = whole.adapters.master.cols - w.adapters.master.cols;
    assert_memory_equal(w.adapters.master.data, (float *)whole.adapters.master.data + first,
                        (size_t)w.adapters.master.cols * 4);
    laid_close(&w);
    laid_close(&whole);
    test_ctx_close(c);
}

/* ---- bent files ---------------------------------------------------------------------------------------- */

/* One change while an adapter is copied; what is not set is copied. */
typedef struct bend {
    const char *drop, *rename, *to; /* whole keys */
    const char *prefix;             /* in place of "model.layers." */
    plim_dtype dtype;               /* of all; 0 (F64): as it is */
    const char *reshape;            /* key whose shape becomes [1, all] */
    const char *twice;              /* key written once more as to */
    const char *poke;               /* key whose element 3 becomes NaN */
    const char *from_config, *to_config;
    bool empty;
} bend;

static void new_key(const bend *b, const char *key, char out[300])
{
    static const char old[] = "base_model.model.model.layers.";
    snprintf(out, 300, "%s", key);
    if (b->rename && !strcmp(key, b->rename)) snprintf(out, 300, "%s", b->to);
    else if (b->prefix) snprintf(out, 300, "base_model.model.%s%s", b->prefix, key + strlen(old));
}

static void bend_data(plim_ctx *c, plim_safetensors_writer *out, const bend *b, plim_safetensors *s,
                      const plim_safetensors_tensor *t)
{
    float *x = malloc(t->size_bytes);
    char *y = malloc(t->size_bytes);
    if (!x || !y) abort();
    memcpy(x, plim_safetensors_data(s, t), t->size_bytes);
    if (b->poke && !strcmp(t->name, b->poke)) x[3] = NAN;
    if (b->dtype && plim_floats_are(b->dtype)) {
        plim_floats_convert(PLIM_F32, x, t->elements, b->dtype, y);
        CHECK_OK(c, plim_safetensors_writer_data(out, y, (size_t)t->elements * plim_dtype_bytes(b->dtype)));
    } else {
        CHECK_OK(c, plim_safetensors_writer_data(out, x, t->size_bytes));
    }
    free(x);
    free(y);
}

static const char *bent(plim_ctx *c, const char *model, const bend *b)
{
    plim_safetensors *s = NULL;
    plim_safetensors_writer *out = NULL;
    char key[300];
    const char *folder = test_folder("adapter-bent"), *adapter = golden(model, "adapter");
    CHECK_OK(c, plim_safetensors_open(c, test_path(adapter, "adapter_model.safetensors"), &s));
    CHECK_OK(c, plim_safetensors_writer_open(c, test_path(folder, "adapter_model.safetensors"), &out));
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < plim_safetensors_count(s) && !b->empty; i++) {
            const plim_safetensors_tensor *t = plim_safetensors_at(s, i);
            if (b->drop && !strcmp(t->name, b->drop)) continue;
            int times = b->twice && !strcmp(t->name, b->twice) ? 2 : 1;
            for (int n = 0; n < times; n++) {
                bool flat = b->reshape && !strcmp(t->name, b->reshape);
                const int64_t row[] = {1, t->elements};
                new_key(b, t->name, key);
                if (pass) bend_data(c, out, b, s, t);
                else
                    CHECK_OK(c, plim_safetensors_writer_tensor(out, n ? b->to : key,
                                                               b->dtype ? b->dtype : t->dtype, t->dims,
                                                               flat ? row : t->shape));
            }
        }
    }
    CHECK_OK(c, plim_safetensors_writer_commit(out));
    plim_safetensors_close(s);
    char *text = test_read(test_path(adapter, "adapter_config.json"), NULL);
    const char *at = b->from_config ? strstr(text, b->from_config) : text;
    assert_non_null(at);
    FILE *f = fopen(test_path(folder, "adapter_config.json"), "w");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, b->to_config ? b->to_config : "",
            at + (b->from_config ? strlen(b->from_config) : 0));
    fclose(f);
    free(text);
    return folder;
}

TEST(either_prefix_and_every_float_is_read)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const bend bends[] = {{.prefix = "model.language_model.layers."},
                                 {.prefix = "model.layers.", .dtype = PLIM_BF16},
                                 {.dtype = PLIM_F16}};
    const char *adapter = golden("qwen3_5-tiny", "adapter");
    static laid plain;
    open_for(c, golden("qwen3_5-tiny", ""), adapter, PLIM_F32);
    CHECK_OK(c, plim_adapter_load(c, adapter, &w.sh, w.adapters.master));
    plain = w;
    for (size_t i = 0; i < 3; i++) {
        const char *folder = bent(c, "qwen3_5-tiny", &bends[i]);
        open_for(c, golden("qwen3_5-tiny", ""), folder, PLIM_F32);
        CHECK_OK(c, plim_adapter_load(c, folder, &w.sh, w.adapters.master));
        plim_dtype d = bends[i].dtype ? bends[i].dtype : PLIM_F32;
        for (int64_t k = 0; k < w.adapters.master.cols; k++) {
            float want = ((float *)plain.adapters.master.data)[k], narrow;
            plim_floats_convert(PLIM_F32, &want, 1, d, &narrow);
            plim_floats_convert(d, &narrow, 1, PLIM_F32, &want);
            assert_true(((float *)w.adapters.master.data)[k] == want);
        }
        laid_close(&w);
    }
    laid_close(&plain);
    test_ctx_close(c);
}

TEST(a_pattern_leaves_the_targets_to_the_tensors)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char *text = test_read(golden("llama-tiny", "adapter/adapter_config.json"), NULL);
    char *from = strstr(text, "\"target_modules\": "), *end = strchr(from, ']');
    from = strndup(from, (size_t)(end + 1 - from));
    plim_adapter_config g;
    const bend b = {.from_config = from, .to_config = "\"target_modules\": \".*layers.*(attn|mlp).*\""};
    CHECK_OK(c, plim_spec_load(c, golden("llama-tiny", ""), &w.spec));
    CHECK_OK(c, plim_adapter_survey(c, bent(c, "llama-tiny", &b), &w.spec, &g));
    assert_int_equal(g.targets, (1u << PLIM_TARGET_IN_QKV) - 1);
    free(from);
    free(text);
    test_ctx_close(c);
}

TEST(what_does_not_fit_the_base_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const char down[] = KEY "1.mlp.down_proj.lora_A.weight";
    static const struct {
        bend b;
        plim_status status;
        const char *words[3];
    } cases[] = {
        {{.drop = down}, PLIM_E_MISMATCH, {down, "missing"}},
        {{.rename = down, .to = KEY "4.mlp.down_proj.lora_A.weight"},
         PLIM_E_MISMATCH,
         {KEY "4.mlp", "layers 0 to 3"}},
        {{.rename = down, .to = KEY "01.mlp.down_proj.lora_A.weight"}, PLIM_E_MISMATCH, {KEY "01.mlp"}},
        {{.rename = down, .to = KEY "1.mlp.down_proj.lora_A.default.weight"},
         PLIM_E_MISMATCH,
         {"lora_A.default"}},
        {{.rename = down, .to = KEY "1.mlp.down_proj.lora_magnitude_vector"}, PLIM_E_MISMATCH, {"magnitude"}},
        {{.rename = down, .to = "base_model.model.lm_head.lora_A.weight"}, PLIM_E_MISMATCH, {"lm_head", KEY}},
        {{.rename = down, .to = KEY "1.self_attn.q_proj.lora_A.weight"},
         PLIM_E_MISMATCH,
         {KEY "1.self_attn", "layer 1", "no q_proj"}},
        {{.prefix = "layers."}, PLIM_E_MISMATCH, {"base_model.model.layers.0", KEY}},
        {{.twice = down, .to = "base_model.model.model.language_model.layers.1.mlp.down_proj.lora_A.weight"},
         PLIM_E_MISMATCH,
         {"twice", down, "language_model"}},
        {{.reshape = down}, PLIM_E_MISMATCH, {down, "[1, 640]", "[4, 160]"}},
        {{.dtype = PLIM_I32}, PLIM_E_UNSUPPORTED, {"I32", "BF16"}},
        {{.empty = true}, PLIM_E_MISMATCH, {"no tensors"}},
        {{.from_config = "\"r\": 4", .to_config = "\"r\": 8"}, PLIM_E_MISMATCH, {"wanted [8,"}},
        {{.from_config = "\"out_proj\",", .to_config = ""},
         PLIM_E_MISMATCH,
         {"out_proj", "does not name it"}},
        {{.from_config = "\"out_proj\",", .to_config = "\"out_proj\", \"in_proj_a\","},
         PLIM_E_MISMATCH,
         {"in_proj_a", "no tensor"}},
        {{.from_config = "\"use_dora\": false", .to_config = "\"use_dora\": true"},
         PLIM_E_UNSUPPORTED,
         {"use_dora"}},
    };
    CHECK_OK(c, plim_spec_load(c, golden("qwen3_5-tiny", ""), &w.spec));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_adapter_config out;
        char what[64];
        const char *folder = bent(c, "qwen3_5-tiny", &cases[i].b);
        const char *const words[] = {"adapter-bent/adapter_", cases[i].words[0],
                                     cases[i].words[1] ? cases[i].words[1] : "",
                                     cases[i].words[1] && cases[i].words[2] ? cases[i].words[2] : "", NULL};
        memset(&out, 0x5A, sizeof out);
        snprintf(what, sizeof what, "case %zu", i);
        test_check_fails(c, cases[i].status, plim_adapter_survey(c, folder, &w.spec, &out), what, words);
        for (size_t b = 0; b < sizeof out; b++) assert_int_equal(((unsigned char *)&out)[b], 0x5A);
    }
    test_ctx_close(c);
}

TEST(an_adapter_of_another_model_or_run_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_adapter_config g;
    const char *adapter = golden("qwen3_5-tiny", "adapter");
    CHECK_OK(c, plim_spec_load(c, golden("llama-tiny", ""), &w.spec));
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_survey(c, adapter, &w.spec, &g), "linear_attn", "layer 0");
    open_for(c, golden("qwen3_5-tiny", ""), adapter, PLIM_F32);
    w.sh.o.lora_rank = 5; /* padded as 4 is, so the block has the same size */
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_load(c, adapter, &w.sh, w.adapters.master), "rank 4", "5");
    w.sh.o.lora_rank = 4;
    w.sh.o.lora_targets |= PLIM_TARGET_BIT(PLIM_TARGET_IN_B);
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_load(c, adapter, &w.sh, w.adapters.master), "in_proj_b",
                "run");
    w.sh.o.lora_targets = PLIM_TARGET_BIT(PLIM_TARGET_Q);
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_adapter_load(c, adapter, &w.sh, w.adapters.master), "k_proj",
                "adapter");
    laid_close(&w);
    const bend nan = {.poke = KEY "2.mlp.up_proj.lora_B.weight"};
    const char *folder = bent(c, "qwen3_5-tiny", &nan);
    open_for(c, golden("qwen3_5-tiny", ""), folder, PLIM_BF16);
    CHECK_FAILS(c, PLIM_E_NUMERIC, plim_adapter_load(c, folder, &w.sh, w.adapters.master), nan.poke,
                "[0, 3]");
    laid_close(&w);
    CHECK_FAILS(c, PLIM_E_IO, plim_adapter_survey(c, "no/such", &w.spec, &g), "no/such/adapter_config.json");
    test_ctx_close(c);
}

/* ---- fresh --------------------------------------------------------------------------------------------- */

static void check_fresh(void *user, const plim_adapter_tensor *t)
{
    int64_t *most = user;
    const double *x = (const double *)w.adapters.master.data + t->offset;
    plim_adapter_key key;
    plim_adapter_key_of(&w.spec, w.sh.o.lora_rank, t, &key);
    const plim_random r = {11, plim_fnv1a64(key.name)};
    for (int64_t i = 0; i < t->rows * t->cols; i++) {
        if (t->is_b || i >= 5 * t->cols) {
            assert_true(x[i] == 0);
            continue;
        }
        int64_t step = (int64_t)(plim_random_u32(r, (uint64_t)i) >> 8) - (1 << 23);
        double want = (double)step / (1 << 23) / sqrt((double)t->cols);
        assert_true(fabs(x[i] - want) <= 0x1p-22 * fabs(want));
        if (llabs(step) > *most) *most = llabs(step);
    }
}

TEST(a_new_adapter_is_pefts)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    int64_t most = 0;
    laid_open(c, &w, golden("qwen3_5-tiny", ""), laid_options(PLIM_F64, 5));
    plim_adapter_fresh(&w.sh, 11, w.adapters.master);
    plim_adapters_walk(&w.spec, 5, w.sh.o.lora_targets, 32, 0, 4, check_fresh, &most);
    assert_true(most > (1 << 23) - (1 << 13)); /* of some 12,000 draws */
    size_t bytes = (size_t)w.adapters.master.cols * 8;
    char *first = malloc(bytes);
    if (!first) abort();
    memcpy(first, w.adapters.master.data, bytes);
    plim_adapter_fresh(&w.sh, 12, w.adapters.master);
    assert_true(memcmp(first, w.adapters.master.data, bytes) != 0);
    plim_adapter_fresh(&w.sh, 11, w.adapters.master);
    assert_memory_equal(first, w.adapters.master.data, bytes);
    /* a card's share is the same numbers */
    static laid part;
    part.spec = w.spec;
    laid_place(c, &part, laid_options(PLIM_F64, 5), 1, 4);
    plim_adapter_fresh(&part.sh, 11, part.adapters.master);
    size_t share = (size_t)part.adapters.master.cols * 8;
    assert_memory_equal(first + bytes - share, part.adapters.master.data, share);
    free(first);
    laid_close(&part);
    laid_close(&w);
    test_ctx_close(c);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static plim_status survey_once(plim_ctx *c, void *user)
{
    plim_adapter_config g;
    return plim_adapter_survey(c, user, &w.spec, &g);
}

static plim_status load_once(plim_ctx *c, void *user)
{
    return plim_adapter_load(c, user, &w.sh, w.adapters.master);
}

TEST(no_memory_is_an_ordinary_error)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *adapter = golden("llama-tiny", "adapter");
    open_for(c, golden("llama-tiny", ""), adapter, PLIM_F32);
    void *user = (void *)(uintptr_t)adapter;
    assert_true(test_every_allocation(c, survey_once, user) > 5);
    assert_true(test_every_allocation(c, load_once, user) > 5);
    laid_close(&w);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(pefts_adapters_come_back_byte_for_byte),
        cmocka_unit_test(the_rank_is_padded_with_zeros),
        cmocka_unit_test(a_card_reads_only_its_layers),
        cmocka_unit_test(either_prefix_and_every_float_is_read),
        cmocka_unit_test(a_pattern_leaves_the_targets_to_the_tensors),
        cmocka_unit_test(what_does_not_fit_the_base_is_refused),
        cmocka_unit_test(an_adapter_of_another_model_or_run_is_refused),
        cmocka_unit_test(a_new_adapter_is_pefts),
        cmocka_unit_test(no_memory_is_an_ordinary_error),
    };
    return RUN_TESTS(table);
}
