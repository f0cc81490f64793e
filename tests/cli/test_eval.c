/* `plimsoll eval` from outside: against the golden models, and what it refuses. */
#include "cli/run_support.h"

#include <math.h>
#include <unistd.h>

#include "formats/safetensors.h"

#define EVAL PLIM_PROGRAM " eval "

/* Relative to the norm of what is wanted: the cases were computed in float32 by another program. */
#define BOUND 2e-5

static const char *const models[] = {"qwen3_5-tiny", "qwen3_5-tied", "qwen3-tiny", "qwen2-tiny",
                                     "llama-tiny"};

/* The golden sequence as a samples file, and its logits and loss. */
typedef struct wanted {
    int64_t T, vocab;
    float *logits, loss;
} wanted;

static const float *values(const plim_safetensors *s, const char *name)
{
    const plim_safetensors_tensor *t = plim_safetensors_find(s, name);
    if (!t || t->dtype != PLIM_F32) fail_msg("no %s in F32", name);
    return plim_safetensors_data(s, t);
}

static wanted put_golden(plim_ctx *c, const char *model, const char *data)
{
    static const char *const classes[] = {"text"}, *const files[] = {"golden"};
    plim_samples_about about = {.tokenizer = "none",
                                .chat_template = "",
                                .classes = classes,
                                .class_count = 1,
                                .files = files,
                                .file_count = 1};
    plim_samples_writer *w = NULL;
    plim_safetensors *s = NULL;
    wanted out = {0};
    CHECK_OK(c, plim_safetensors_open(c, command_of(MODELS "%s/golden.safetensors", model), &s));
    const plim_safetensors_tensor *t = plim_safetensors_find(s, "input_ids"),
                                  *l = plim_safetensors_find(s, "logits");
    assert_true(t && l && l->dims >= 2);
    out.T = t->elements;
    out.vocab = l->shape[l->dims - 1];
    const int32_t *ids = plim_safetensors_data(s, t);
    const int32_t *labels = plim_safetensors_data(s, plim_safetensors_find(s, "labels"));
    float *weights = calloc((size_t)out.T, sizeof *weights);
    out.logits = malloc((size_t)(out.T * out.vocab) * sizeof *out.logits);
    assert_true(weights && out.logits);
    for (int64_t i = 0; i < out.T; i++) weights[i] = labels[i] == -100 ? 0.0f : 1.0f;
    memcpy(out.logits, values(s, "logits"), (size_t)(out.T * out.vocab) * sizeof *out.logits);
    out.loss = values(s, "loss")[0];
    CHECK_OK(c, plim_samples_writer_open(c, data, &about, &w));
    CHECK_OK(c, plim_samples_writer_append(w, ids, weights, out.T, 0, 0, 1));
    CHECK_OK(c, plim_samples_writer_commit(w));
    free(weights);
    plim_safetensors_close(s);
    return out;
}

static void check_logits(plim_ctx *c, const char *path, const wanted *want, int64_t rows)
{
    plim_safetensors *s = NULL;
    double square = 0, norm = 0;
    CHECK_OK(c, plim_safetensors_open(c, path, &s));
    const plim_safetensors_tensor *t = plim_safetensors_find(s, "logits");
    assert_non_null(t);
    assert_int_equal(t->dims, 2);
    assert_int_equal(t->shape[0], rows);
    assert_int_equal(t->shape[1], want->vocab);
    const float *got = values(s, "logits");
    for (int64_t i = 0; i < rows * want->vocab; i++) {
        double y = (double)want->logits[i], d = (double)got[i] - y;
        square += d * d;
        norm += y * y;
    }
    if (!(sqrt(square / norm) < BOUND)) fail_msg("%s: logits differ by %g", path, sqrt(square / norm));
    plim_safetensors_close(s);
}

TEST(logits_and_loss_are_the_golden_ones)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("cli-eval-golden"), *data = test_path(folder, "data.safetensors");
    const char *logits = test_path(folder, "logits.safetensors");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        wanted want = put_golden(c, models[i], data);
        const char *arguments =
            command_of("%s --data %s --adapter " MODELS "%s/adapter", models[i], data, models[i]);
        /* Rows of logits alive at once: more than the sequence has, and 4, which does not divide 9. */
        json_t *j = run_json(command_of(EVAL MODELS "%s --threads 1 --logits %s --json", arguments, logits));
        check_logits(c, logits, &want, want.T);
        if (!(fabs(number_of(j, "loss") / (double)want.loss - 1) < 1e-5))
            fail_msg("%s: loss %.9g, wanted %.9g", models[i], number_of(j, "loss"), (double)want.loss);
        assert_true(fabs(number_of(j, "perplexity") / exp(number_of(j, "loss")) - 1) < 1e-12);
        assert_true(number_of(j, "tokens") == (double)want.T);
        json_decref(j);
        CHECK_RUN(0,
                  command_of(EVAL MODELS "%s --threads 1 --logits %s --logits-rows 9 --loss-rows 4",
                             arguments, logits),
                  "loss", "perplexity", "labelled");
        check_logits(c, logits, &want, 9);
        free(want.logits);
    }
    test_ctx_close(c);
}

/* Without an adapter the base alone is measured: not what the golden adapter gives. */
TEST(without_an_adapter_the_base_is_measured)
{
    UNUSED_STATE;
    const char *folder = test_folder("cli-eval-base"), *data = test_path(folder, "data.safetensors");
    put_samples(data, 4, 20);
    const char *eval = EVAL TINY " --threads 1 --json";
    json_t *base = run_json(command_of("%s --data %s", eval, data));
    json_t *adapted = run_json(command_of("%s --data %s --adapter " TINY "/adapter", eval, data));
    json_t *packed = run_json(command_of("%s --data %s --documents 3 --seq 60", eval, data));
    json_t *seeded = run_json(command_of("%s --data %s --seed 9", eval, data));
    assert_true(number_of(base, "documents") == 4 && number_of(base, "tokens") == 80);
    assert_true(number_of(base, "labelled") == 68 && number_of(base, "weight") == 68);
    assert_true(fabs(number_of(base, "loss") - number_of(adapted, "loss")) > 1e-3);
    assert_true(fabs(number_of(base, "loss") / number_of(packed, "loss") - 1) < 1e-5);
    assert_true(number_of(base, "loss") == number_of(seeded, "loss")); /* lora_B is zero whatever lora_A is */
    json_decref(base);
    json_decref(adapted);
    json_decref(packed);
    json_decref(seeded);
}

TEST(what_is_refused)
{
    UNUSED_STATE;
    const char *folder = test_folder("cli-eval-refused"), *data = test_path(folder, "data.safetensors");
    put_samples(data, 2, 20);
    CHECK_RUN(2, EVAL "2>&1 >/dev/null", "wants a MODEL");
    CHECK_RUN(2, EVAL TINY " 2>&1 >/dev/null", "wants --data FILE");
    CHECK_RUN(2, EVAL TINY " --data d --logits-rows 3 2>&1 >/dev/null", "--logits-rows wants --logits");
    CHECK_RUN(2, EVAL TINY " --data d --rank 3 2>&1 >/dev/null", "unknown option --rank");
    CHECK_RUN(1, command_of(EVAL TINY " --data %s --logits %s/l --logits-rows 21", data, folder), "21 rows",
              "sequence has 20");
    assert_int_equal(access(test_path(folder, "l"), F_OK), -1);
    CHECK_RUN(1, command_of(EVAL TINY " --data %s --adapter %s", data, folder), "adapter_config.json");
    CHECK_RUN(1, command_of(EVAL TINY " --data %s --seq 19", data), "chat.jsonl:1", "--seq allows 19");
    CHECK_RUN(3, command_of(EVAL TINY " --data %s --budget 1MB", data), "--budget allows");
    CHECK_RUN(0, EVAL "--help 2>/dev/null", "--logits FILE", "Examples");
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(logits_and_loss_are_the_golden_ones),
        cmocka_unit_test(without_an_adapter_the_base_is_measured),
        cmocka_unit_test(what_is_refused),
    };
    return RUN_TESTS(table);
}
