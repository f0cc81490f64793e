/* A device whose memory the host cannot touch: what is loaded, trained, evaluated and saved there is, bit for
 * bit, what it is where the two share memory. */
#include "support/test.h"
#include "support/walled_machine.h"

#include "model/tensor_map.h"
#include "train/evaluate.h"
#include "train/memtest.h"
#include "train/session.h"

#define MODEL(name) PLIM_TEST_DATA "/models/" name

enum { TOKENS = 96, STEPS = 2 };

typedef struct batch {
    int32_t ids[TOKENS];
    float weights[TOKENS];
    int64_t start[3];
} batch;

static plim_session_config config_of(const char *model, plim_dtype act)
{
    plim_session_config g = plim_session_defaults();
    g.model = model;
    g.seed = 5;
    g.options.act = act;
    g.options.seq_tokens = TOKENS;
    g.options.documents = 2;
    g.options.lora_rank = 4;
    g.options.attention = PLIM_ATTENTION_CPU;
    g.options.labelled_share = 0.5;
    g.options.tile_tokens = 40;
    g.options.gemm_workspace_bytes = 0;
    g.options.staging_bytes = (size_t)64 << 10; /* many blocks */
    g.options.host_checkpoints = 0;
    return g;
}

static plim_sample sample_of(const plim_session *s, batch *b, int64_t step)
{
    plim_memtest_sequence(&s->spec, &s->training.engine->sh->o, 9, step, b->ids, b->weights, b->start);
    return (plim_sample){{b->ids, b->weights, b->start, 2}, step + 1};
}

/* ---- weights --------------------------------------------------------------------------------------- */

typedef struct reading {
    plim_engine *engine;
    FILE *to;
} reading;

/* Rows with what lies beside them up to the pitch, when the view is a product's. */
static plim_status dump_view(void *user, plim_tensor t)
{
    reading *r = user;
    plim_engine *e = r->engine;
    size_t bytes = (size_t)t.cols * plim_dtype_bytes(t.dtype);
    char *row = malloc(bytes + 1);
    if (!row) abort();
    bool host = t.data && (char *)t.data >= e->memory.host.base &&
                (char *)t.data < e->memory.host.base + e->planned_host_bytes;
    for (int64_t i = 0; i < t.rows; i++) {
        const void *at = plim_tensor_rows(t, i, 1).data;
        if (host) memcpy(row, at, bytes);
        else TRY(e->ops->read(e->device, at, row, bytes));
        fwrite(row, 1, bytes, r->to);
    }
    free(row);
    return PLIM_OK;
}

static plim_status dump_place(void *user, const plim_tensor_place *p)
{
    return dump_view(user, p->to);
}

/* Every weight, the padding with the adapters' working copies, and the masters. */
static char *dump(plim_ctx *c, plim_session *s, size_t *bytes)
{
    plim_engine *e = s->training.engine;
    char *text = NULL;
    reading r = {e, open_memstream(&text, bytes)};
    if (!r.to) abort();
    CHECK_OK(c, plim_tensor_map_walk(e->sh, &e->step->model, e->step->weights, dump_place, &r));
    CHECK_OK(c, plim_padding_walk(e->sh, &e->step->model, e->step->weights, dump_view, &r));
    CHECK_OK(c, dump_view(&r, e->step->adapters.master));
    fclose(r.to);
    return text;
}

/* ---- a run ------------------------------------------------------------------------------------------ */

typedef struct outcome {
    char *loaded, *trained, *adapter, *logits;
    size_t loaded_bytes, trained_bytes, adapter_bytes, logits_bytes;
    double loss[STEPS], norm[STEPS], evaluated;
} outcome;

static outcome run(plim_ctx *c, const plim_machine *m, const plim_session_config *g, const char *folder)
{
    outcome r = {0};
    plim_session *s;
    batch b;
    double weight;
    CHECK_OK(c, plim_session_open(c, m, g, &s));
    r.loaded = dump(c, s, &r.loaded_bytes);
    for (int64_t i = 0; i < STEPS; i++) {
        plim_step_result step;
        plim_sample sample = sample_of(s, &b, i);
        CHECK_OK(c, plim_training_step(&s->training, &sample, 1, &step));
        r.loss[i] = step.loss;
        r.norm[i] = step.gradient_norm;
    }
    plim_sample sample = sample_of(s, &b, STEPS);
    CHECK_OK(c, plim_training_evaluate(&s->training, &sample, 1, &r.evaluated, &weight));
    r.trained = dump(c, s, &r.trained_bytes);
    CHECK_OK(c, plim_session_save_adapter(s, test_path(folder, "adapter"), PLIM_F32));
    r.adapter = test_read(test_path(folder, "adapter/adapter_model.safetensors"), &r.adapter_bytes);
    CHECK_OK(c, plim_evaluate_logits(&s->training, &sample, 3, test_path(folder, "logits.safetensors")));
    r.logits = test_read(test_path(folder, "logits.safetensors"), &r.logits_bytes);
    plim_session_close(s);
    return r;
}

static void check_same(const char *what, const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    if (a_bytes != b_bytes || !a_bytes || memcmp(a, b, a_bytes) != 0) fail_msg("%s differ", what);
}

static void compare(plim_ctx *c, plim_session_config g, const char *name)
{
    char folder[64];
    plim_machine cpu, walled;
    CHECK_OK(c, plim_machine_cpu(c, 2, &cpu));
    snprintf(folder, sizeof folder, "walled-%s-a", name);
    outcome a = run(c, &cpu, &g, test_folder(folder));
    plim_machine_close(&cpu);
    CHECK_OK(c, walled_open(c, (size_t)1 << 30, &walled));
    snprintf(folder, sizeof folder, "walled-%s-b", name);
    outcome b = run(c, &walled, &g, test_folder(folder));
    plim_machine_close(&walled);
    check_same("loaded weights", a.loaded, a.loaded_bytes, b.loaded, b.loaded_bytes);
    check_same("trained weights", a.trained, a.trained_bytes, b.trained, b.trained_bytes);
    check_same("adapters", a.adapter, a.adapter_bytes, b.adapter, b.adapter_bytes);
    check_same("logits", a.logits, a.logits_bytes, b.logits, b.logits_bytes);
    assert_memory_equal(a.loss, b.loss, sizeof a.loss);
    assert_memory_equal(a.norm, b.norm, sizeof a.norm);
    assert_true(a.evaluated == b.evaluated && a.loss[0] > 0 && a.norm[0] > 0);
    assert_true(memcmp(a.loaded, a.trained, a.loaded_bytes) != 0); /* training moved something */
    char *const all[] = {a.loaded, a.trained, a.adapter, a.logits, b.loaded, b.trained, b.adapter, b.logits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

TEST(random_weights)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const plim_dtype act[] = {PLIM_F32, PLIM_BF16};
    for (size_t i = 0; i < 2; i++) {
        plim_session_config g = config_of(MODEL("qwen3_5-tiny"), act[i]);
        g.random_weights = true;
        compare(c, g, "random");
    }
    test_ctx_close(c);
}

TEST(weights_and_an_adapter_from_files)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_session_config g = config_of(MODEL("qwen3_5-tiny"), PLIM_BF16);
    g.adapter = MODEL("qwen3_5-tiny/adapter");
    compare(c, g, "files");
    g.model = MODEL("qwen3_5-tied");
    g.adapter = MODEL("qwen3_5-tied/adapter");
    compare(c, g, "tied");
    test_ctx_close(c);
}

TEST(inputs_outputs_and_the_embedding_on_the_host)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_session_config g = config_of(MODEL("qwen3_5-tiny"), PLIM_BF16);
    g.random_weights = true;
    g.options.host_checkpoints = PLIM_ALL_LAYERS;
    g.options.keep_attention_output = true;
    g.options.embedding_on_host = true;
    compare(c, g, "host");
    test_ctx_close(c);
}

TEST(staging_that_holds_no_row_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_machine walled;
    plim_session *s;
    plim_session_config g = config_of(MODEL("qwen3_5-tiny"), PLIM_BF16);
    g.options.staging_bytes = 64;
    CHECK_OK(c, walled_open(c, (size_t)1 << 30, &walled));
    CHECK_FAILS(c, PLIM_E_RANGE, plim_session_open(c, &walled, &g, &s), "half the staging");
    assert_int_equal(walled_used, 0);
    plim_machine_close(&walled);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(random_weights),
        cmocka_unit_test(weights_and_an_adapter_from_files),
        cmocka_unit_test(inputs_outputs_and_the_embedding_on_the_host),
        cmocka_unit_test(staging_that_holds_no_row_is_refused),
    };
    return RUN_TESTS(table);
}
