/* Weights from files: every member, every dtype, padding, tied heads, and what is refused. */
#include "support/laid_weights.h"

#include <math.h>

#include "base/bf16.h"
#include "base/context.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"

static laid w;

static void load(plim_ctx *c, const char *folder)
{
    plim_model_files *files = NULL;
    CHECK_OK(c, plim_model_files_check(c, folder, &w.spec, &files));
    plim_load l = laid_load(&w);
    CHECK_OK(c, plim_weights_load(c, folder, files, &l));
    plim_model_files_close(files);
}

/* ---- where values go ----------------------------------------------------------------------------------- */

/* The tensor's elements, rounded to the dtype of view, are those of view from [row, col] on. */
static void check_view(const plim_safetensors *s, const char *name, plim_tensor view, int64_t row,
                       int64_t col)
{
    const plim_safetensors_tensor *t = plim_safetensors_find(s, name);
    if (!t) fail_msg("%s is not in the file", name);
    int64_t cols = t->dims == 1 ? t->elements : t->shape[t->dims - 1];
    for (int64_t i = 0; i < t->elements; i++) {
        double want;
        float x, stored;
        memcpy(&x, (const char *)plim_safetensors_data(s, t) + (size_t)i * sizeof x, sizeof x);
        stored = view.dtype == PLIM_BF16 ? plim_bf16_load(plim_bf16_round(x)) : x;
        want = stored;
        double got = laid_at(view, row + i / cols, col + i % cols);
        if (got != want) fail_msg("%s: element %lld: %g, wanted %g", name, (long long)i, got, want);
    }
}

#define L "model.layers."

/* Written out by hand from the shapes of the config, not from the map. */
static void check_hybrid(const plim_safetensors *s)
{
    const plim_layer_weights *delta = &w.layers[0], *attention = &w.layers[3];
    check_view(s, "model.embed_tokens.weight", w.model.embedding, 0, 0);
    check_view(s, "lm_head.weight", w.model.head, 0, 0);
    check_view(s, "model.norm.weight", w.model.final_norm, 0, 0);
    check_view(s, L "0.input_layernorm.weight", delta->input_norm, 0, 0);
    check_view(s, L "0.post_attention_layernorm.weight", delta->post_norm, 0, 0);
    check_view(s, L "0.linear_attn.in_proj_qkv.weight", delta->in.weight, 0, 0);
    check_view(s, L "0.linear_attn.in_proj_z.weight", delta->in.weight, 208, 0);
    check_view(s, L "0.linear_attn.in_proj_b.weight", delta->ba.weight, 0, 0);
    check_view(s, L "0.linear_attn.in_proj_a.weight", delta->ba.weight, 6, 0);
    check_view(s, L "0.linear_attn.conv1d.weight", delta->conv, 0, 0);
    check_view(s, L "0.linear_attn.A_log", delta->a_log, 0, 0);
    check_view(s, L "0.linear_attn.dt_bias", delta->dt_bias, 0, 0);
    check_view(s, L "0.linear_attn.norm.weight", delta->gated_norm, 0, 0);
    check_view(s, L "0.linear_attn.out_proj.weight", delta->out.weight, 0, 0);
    check_view(s, L "0.mlp.gate_proj.weight", delta->gate_up.weight, 0, 0);
    check_view(s, L "0.mlp.up_proj.weight", delta->gate_up.weight, 160, 0);
    check_view(s, L "0.mlp.down_proj.weight", delta->down.weight, 0, 0);
    check_view(s, L "3.self_attn.q_proj.weight", attention->in.weight, 0, 0);
    check_view(s, L "3.self_attn.k_proj.weight", attention->in.weight, 256, 0);
    check_view(s, L "3.self_attn.v_proj.weight", attention->in.weight, 320, 0);
    check_view(s, L "3.self_attn.o_proj.weight", attention->out.weight, 0, 0);
    check_view(s, L "3.self_attn.q_norm.weight", attention->q_norm, 0, 0);
    check_view(s, L "3.self_attn.k_norm.weight", attention->k_norm, 0, 0);
    check_view(s, L "3.mlp.up_proj.weight", attention->gate_up.weight, 160, 0);
}

TEST(every_member_is_filled_in_every_dtype)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const plim_dtype act[] = {PLIM_F32, PLIM_BF16, PLIM_F64};
    plim_safetensors *s = NULL;
    CHECK_OK(c, plim_safetensors_open(c, GOLDEN("qwen3_5-tiny/model.safetensors"), &s));
    for (size_t i = 0; i < 3; i++) {
        laid_open(c, &w, GOLDEN("qwen3_5-tiny"), laid_options(act[i], 4));
        load(c, GOLDEN("qwen3_5-tiny"));
        check_hybrid(s);
        laid_close(&w);
    }
    plim_safetensors_close(s);
    test_ctx_close(c);
}

TEST(biases_lie_side_by_side)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    CHECK_OK(c, plim_safetensors_open(c, GOLDEN("qwen2-tiny/model.safetensors"), &s));
    laid_open(c, &w, GOLDEN("qwen2-tiny"), laid_options(PLIM_BF16, 4));
    load(c, GOLDEN("qwen2-tiny"));
    for (int layer = 0; layer < 2; layer++) {
        char name[96];
        static const struct {
            const char *projection;
            int64_t first;
        } parts[] = {{"q_proj", 0}, {"k_proj", 64}, {"v_proj", 96}};
        for (size_t i = 0; i < 3; i++) {
            snprintf(name, sizeof name, L "%d.self_attn.%s.bias", layer, parts[i].projection);
            check_view(s, name, w.layers[layer].in.bias, 0, parts[i].first);
            snprintf(name, sizeof name, L "%d.self_attn.%s.weight", layer, parts[i].projection);
            check_view(s, name, w.layers[layer].in.weight, parts[i].first, 0);
        }
    }
    assert_null(w.layers[0].out.bias.data);
    laid_close(&w);
    plim_safetensors_close(s);
    test_ctx_close(c);
}

/* ---- padding ------------------------------------------------------------------------------------------- */

static void check_zero_around(plim_tensor t, int64_t pad_rows)
{
    for (int64_t i = 0; i < t.rows + pad_rows; i++)
        for (int64_t j = i < t.rows ? t.cols : 0; j < t.pitch; j++)
            if (laid_at(t, i, j) != 0)
                fail_msg("padding [%lld, %lld] is not zero", (long long)i, (long long)j);
}

TEST(padding_is_zero)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    laid_open(c, &w, GOLDEN("qwen3_5-tiny"), laid_options(PLIM_BF16, 5));
    load(c, GOLDEN("qwen3_5-tiny"));
    assert_int_equal(plim_shape_linears(&w.sh, 3)->in.pad, 24); /* q, k, v of rank 5, padded to 8 */
    for (int64_t i = 0; i < w.spec.layers; i++) {
        const plim_layer_linears *l = plim_shape_linears(&w.sh, i);
        check_zero_around(w.layers[i].in.weight, l->in.pad);
        check_zero_around(w.layers[i].out.weight, l->out.pad);
        check_zero_around(w.layers[i].gate_up.weight, l->gate_up.pad);
        check_zero_around(w.layers[i].down.weight, l->down.pad);
        check_zero_around(w.layers[i].a_log, 0);
        check_zero_around(w.layers[i].conv, 0);
    }
    laid_close(&w);
    test_ctx_close(c);
}

/* ---- changed files ------------------------------------------------------------------------------------- */

/* Copies a golden model into a folder of this test. */
static const char *copy_model(const char *name, const char *golden)
{
    char *out;
    const char *folder = test_folder(name);
    if (test_command(&out, "cp '%s/config.json' '%s/model.safetensors' '%s' && chmod u+w '%s'/*", golden,
                     golden, folder, folder))
        fail_msg("%s", out);
    free(out);
    return folder;
}

static void poke(plim_ctx *c, const char *folder, const char *tensor, int64_t element, float value)
{
    plim_safetensors *s = NULL;
    const char *path = test_path(folder, "model.safetensors");
    CHECK_OK(c, plim_safetensors_open(c, path, &s));
    const plim_safetensors_tensor *t = plim_safetensors_find(s, tensor);
    assert_non_null(t);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(t->offset_bytes + (uint64_t)element * 4), SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, f), 1);
    fclose(f);
    plim_safetensors_close(s);
}

static plim_status try_load(plim_ctx *c, const char *folder)
{
    plim_model_files *files = NULL;
    plim_load l = laid_load(&w);
    TRY(plim_model_files_check(c, folder, &w.spec, &files));
    plim_status st = plim_weights_load(c, folder, files, &l);
    plim_model_files_close(files);
    return st;
}

TEST(numbers_that_are_none_are_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = copy_model("load-nan", GOLDEN("qwen3_5-tiny"));
    laid_open(c, &w, folder, laid_options(PLIM_BF16, 4));
    poke(c, folder, L "2.mlp.up_proj.weight", 4711, NAN);
    CHECK_FAILS(c, PLIM_E_NUMERIC, try_load(c, folder), "load-nan/model.safetensors",
                L "2.mlp.up_proj.weight", "element 4711", "nan");
    poke(c, folder, L "2.mlp.up_proj.weight", 4711, 0);
    poke(c, folder, L "0.linear_attn.A_log", 5, -INFINITY);
    CHECK_FAILS(c, PLIM_E_NUMERIC, try_load(c, folder), L "0.linear_attn.A_log", "element 5", "-inf");
    poke(c, folder, L "0.linear_attn.A_log", 5, 0);
    poke(c, folder, "lm_head.weight", 100, 3.4e38f);
    CHECK_FAILS(c, PLIM_E_NUMERIC, try_load(c, folder), "lm_head.weight", "element 100", "too large for BF16",
                "F32");
    laid_close(&w);
    laid_open(c, &w, folder, laid_options(PLIM_F32, 4));
    CHECK_OK(c, try_load(c, folder));
    laid_close(&w);
    test_ctx_close(c);
}

TEST(a_file_that_changed_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *files = NULL;
    char *out;
    const char *folder = copy_model("load-changed", GOLDEN("qwen3-tiny"));
    laid_open(c, &w, folder, laid_options(PLIM_BF16, 4));
    CHECK_OK(c, plim_model_files_check(c, folder, &w.spec, &files));
    plim_load l = laid_load(&w);
    assert_int_equal(test_command(&out, "truncate -s -1000 '%s/model.safetensors'", folder), 0);
    free(out);
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_weights_load(c, folder, files, &l), "model.safetensors", "bytes",
                "checked");
    assert_int_equal(test_command(&out, "rm '%s/model.safetensors'", folder), 0);
    free(out);
    CHECK_FAILS(c, PLIM_E_IO, plim_weights_load(c, folder, files, &l), "model.safetensors");
    plim_model_files_close(files);
    laid_close(&w);
    test_ctx_close(c);
}

TEST(files_of_another_model_are_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *files = NULL;
    static plim_spec other;
    CHECK_OK(c, plim_spec_load(c, GOLDEN("llama-tiny"), &other));
    CHECK_OK(c, plim_model_files_check(c, GOLDEN("llama-tiny"), &other, &files));
    laid_open(c, &w, GOLDEN("qwen3-tiny"), laid_options(PLIM_BF16, 4));
    plim_load l = laid_load(&w);
    CHECK_FAILS(c, PLIM_E_MISMATCH, plim_weights_load(c, GOLDEN("llama-tiny"), files, &l), "q_norm");
    plim_model_files_close(files);
    laid_close(&w);
    test_ctx_close(c);
}

/* ---- tied heads ---------------------------------------------------------------------------------------- */

/* The tied golden model with a head in the file: the embedding in dtype, one element changed by delta. */
static const char *write_tied(plim_ctx *c, const char *name, plim_dtype dtype, float delta)
{
    plim_safetensors *s = NULL;
    plim_safetensors_writer *out = NULL;
    const char *folder = copy_model(name, GOLDEN("qwen3_5-tied"));
    CHECK_OK(c, plim_safetensors_open(c, GOLDEN("qwen3_5-tied/model.safetensors"), &s));
    CHECK_OK(c, plim_safetensors_writer_open(c, test_path(folder, "model.safetensors"), &out));
    size_t count = plim_safetensors_count(s);
    const plim_safetensors_tensor *e = plim_safetensors_find(s, "model.embed_tokens.weight");
    for (size_t i = 0; i < count; i++) {
        const plim_safetensors_tensor *t = plim_safetensors_at(s, i);
        plim_dtype d = t == e ? dtype : t->dtype;
        CHECK_OK(c, plim_safetensors_writer_tensor(out, t->name, d, t->dims, t->shape));
    }
    CHECK_OK(c, plim_safetensors_writer_tensor(out, "lm_head.weight", PLIM_F32, e->dims, e->shape));
    float *head = malloc(e->size_bytes);
    char *embedding = malloc(e->size_bytes);
    if (!head || !embedding) abort();
    plim_floats_convert(PLIM_F32, plim_safetensors_data(s, e), e->elements, dtype, embedding);
    plim_floats_convert(dtype, embedding, e->elements, PLIM_F32, head);
    head[e->elements - 1] += delta;
    for (size_t i = 0; i < count; i++) {
        const plim_safetensors_tensor *t = plim_safetensors_at(s, i);
        if (t == e)
            CHECK_OK(c, plim_safetensors_writer_data(out, embedding,
                                                     (size_t)e->elements * plim_dtype_bytes(dtype)));
        else CHECK_OK(c, plim_safetensors_writer_data(out, plim_safetensors_data(s, t), t->size_bytes));
    }
    CHECK_OK(c, plim_safetensors_writer_data(out, head, e->size_bytes));
    CHECK_OK(c, plim_safetensors_writer_commit(out));
    free(head);
    free(embedding);
    plim_safetensors_close(s);
    return folder;
}

TEST(a_tied_head_is_the_embedding)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_safetensors *s = NULL;
    CHECK_OK(c, plim_safetensors_open(c, GOLDEN("qwen3_5-tied/model.safetensors"), &s));
    laid_open(c, &w, GOLDEN("qwen3_5-tied"), laid_options(PLIM_F32, 4));
    load(c, GOLDEN("qwen3_5-tied"));
    assert_ptr_equal(w.model.head.data, w.model.embedding.data);
    check_view(s, "model.embed_tokens.weight", w.model.head, 0, 0);
    CHECK_OK(c, try_load(c, write_tied(c, "tied-same", PLIM_F32, 0)));
    CHECK_OK(c, try_load(c, write_tied(c, "tied-narrow", PLIM_BF16, 0)));
    CHECK_FAILS(c, PLIM_E_MISMATCH, try_load(c, write_tied(c, "tied-other", PLIM_F32, 0.5f)),
                "lm_head.weight", "tie_word_embeddings", "model.embed_tokens.weight");
    laid_close(&w);
    plim_safetensors_close(s);
    test_ctx_close(c);
}

/* ---- a card's share, the sink, progress ---------------------------------------------------------------- */

TEST(a_card_reads_only_its_layers)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static laid whole;
    laid_open(c, &whole, GOLDEN("qwen3_5-tiny"), laid_options(PLIM_BF16, 4));
    plim_model_files *files = NULL;
    CHECK_OK(c, plim_model_files_check(c, GOLDEN("qwen3_5-tiny"), &whole.spec, &files));
    plim_load l = laid_load(&whole);
    CHECK_OK(c, plim_weights_load(c, GOLDEN("qwen3_5-tiny"), files, &l));
    w.spec = whole.spec;
    laid_place(c, &w, laid_options(PLIM_BF16, 4), 2, 4);
    l = laid_load(&w);
    CHECK_OK(c, plim_weights_load(c, GOLDEN("qwen3_5-tiny"), files, &l));
    plim_tensor a = w.layers[1].in.weight, b = whole.layers[3].in.weight;
    assert_int_equal(a.rows, b.rows);
    assert_memory_equal(a.data, b.data, (size_t)(a.rows * a.pitch) * 2);
    assert_null(w.model.embedding.data);
    assert_memory_equal(w.model.head.data, whole.model.head.data,
                        (size_t)(w.model.head.rows * w.model.head.pitch) * 2);
    plim_model_files_close(files);
    laid_close(&w);
    laid_close(&whole);
    test_ctx_close(c);
}

typedef struct watch {
    int64_t put, done, total, calls;
    int64_t fail_after;
} watch;

static plim_status count_rows(void *user, plim_tensor to, const void *rows)
{
    watch *k = user;
    if (k->fail_after-- == 0) return PLIM_E_OOM_DEVICE;
    k->put += to.rows * to.cols;
    return plim_weight_sink_host().put_rows(NULL, to, rows);
}

static void see(void *user, int64_t done, int64_t total)
{
    watch *k = user;
    if (done <= k->done) fail_msg("progress stands still");
    k->done = done;
    k->total = total;
    k->calls++;
}

TEST(everything_passes_the_sink_and_is_counted)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *files = NULL;
    laid_open(c, &w, GOLDEN("qwen3-tiny"), laid_options(PLIM_BF16, 4));
    CHECK_OK(c, plim_model_files_check(c, GOLDEN("qwen3-tiny"), &w.spec, &files));
    watch k = {.fail_after = -1};
    plim_load l = laid_load(&w);
    l.sink = (plim_weight_sink){.put_rows = count_rows, .user = &k};
    l.progress = see;
    l.progress_user = &k;
    CHECK_OK(c, plim_weights_load(c, GOLDEN("qwen3-tiny"), files, &l));
    assert_int_equal(k.total, plim_spec_counts(&w.spec).parameters);
    assert_int_equal(k.done, k.total);
    assert_true(k.put > k.total && k.calls >= plim_spec_counts(&w.spec).tensors);
    l.progress = NULL;
    for (int64_t n = 0; n < 60; n += 7) { /* in the padding, and among the tensors */
        k.fail_after = n;
        assert_int_equal(plim_weights_load(c, GOLDEN("qwen3-tiny"), files, &l), PLIM_E_OOM_DEVICE);
    }
    plim_model_files_close(files);
    laid_close(&w);
    test_ctx_close(c);
}

static plim_status load_once(plim_ctx *c, void *user)
{
    plim_load l = laid_load(&w);
    return plim_weights_load(c, GOLDEN("qwen3_5-tied"), user, &l);
}

static plim_status draw_once(plim_ctx *c, void *user)
{
    (void)user;
    plim_load l = laid_load(&w);
    return plim_weights_random(c, 1, PLIM_F16, &l);
}

TEST(no_memory_is_an_ordinary_error)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *files = NULL;
    laid_open(c, &w, GOLDEN("qwen3_5-tied"), laid_options(PLIM_BF16, 4));
    CHECK_OK(c, plim_model_files_check(c, GOLDEN("qwen3_5-tied"), &w.spec, &files));
    assert_int_equal(test_every_allocation(c, load_once, files), 1);
    assert_int_equal(test_every_allocation(c, draw_once, NULL), 3);
    plim_model_files_close(files);
    laid_close(&w);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(every_member_is_filled_in_every_dtype),
        cmocka_unit_test(biases_lie_side_by_side),
        cmocka_unit_test(padding_is_zero),
        cmocka_unit_test(numbers_that_are_none_are_refused),
        cmocka_unit_test(a_file_that_changed_is_refused),
        cmocka_unit_test(files_of_another_model_are_refused),
        cmocka_unit_test(a_tied_head_is_the_embedding),
        cmocka_unit_test(a_card_reads_only_its_layers),
        cmocka_unit_test(everything_passes_the_sink_and_is_counted),
        cmocka_unit_test(no_memory_is_an_ordinary_error),
    };
    return RUN_TESTS(table);
}
