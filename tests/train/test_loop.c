/* A run: it learns, it is the same every time, it writes what it says, and it stops where it should. */
#include "train/run_support.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/context.h"
#include "formats/safetensors.h"
#include "train/loop.h"

#define MOST_STEPS 64

static text x;

/* ---- a run ----------------------------------------------------------------------------------------------
 */

typedef struct bench {
    plim_ctx *ctx;
    plim_machine machine;
    plim_session *session;
    plim_order_config data;
    plim_order *order;
    double loss[MOST_STEPS + 1], norm[MOST_STEPS + 1], rate[MOST_STEPS + 1];
    int64_t steps, stop_after;
} bench;

static void see(void *user, const plim_loop_report *r)
{
    bench *b = user;
    b->steps++;
    b->loss[r->result.step] = r->result.loss;
    b->norm[r->result.step] = r->result.gradient_norm;
    b->rate[r->result.step] = r->result.learning_rate;
}

static bool stop(void *user)
{
    bench *b = user;
    return b->stop_after && b->session->training.step >= b->stop_after;
}

/* Every call a second later. */
static double tick(void *user)
{
    double *now_s = user;
    return *now_s += 1;
}

static void bench_open(bench *b, const plim_session_config *g, int64_t accumulate, int threads)
{
    memset(b, 0, sizeof *b);
    b->ctx = test_ctx_open();
    CHECK_OK(b->ctx, plim_machine_cpu(b->ctx, threads, &b->machine));
    CHECK_OK(b->ctx, plim_session_open(b->ctx, &b->machine, g, &b->session));
    b->data = (plim_order_config){.samples = &x.samples,
                                  .seq_tokens = g->options.seq_tokens,
                                  .documents = g->options.documents,
                                  .accumulate = accumulate,
                                  .vocab = TINY_VOCAB,
                                  .seed = g->seed};
    CHECK_OK(b->ctx, plim_order_open(b->ctx, &b->data, &b->order));
}

static void bench_close(bench *b)
{
    plim_order_close(b->order);
    plim_session_close(b->session);
    plim_machine_close(&b->machine);
    test_ctx_close(b->ctx);
    assert_int_equal(test_live_allocations(), 0);
}

static plim_status bench_run(bench *b, const char *out, int64_t steps, int64_t save_every, plim_loop_end *end)
{
    static double now_s;
    now_s = 0;
    plim_loop_config g = {.out = out,
                          .data = &b->data,
                          .order = b->order,
                          .last_step = steps,
                          .save_every = save_every,
                          .keep = 2,
                          .clock = {tick, &now_s},
                          .stop = stop,
                          .see = see,
                          .user = b};
    return plim_loop_run(b->session, &g, end);
}

static void repeating(int64_t documents, int64_t length)
{
    text_open(&x);
    for (int64_t i = 0; i < documents; i++) text_add(&x, length, length - 4, 5);
}

static bool there(const char *folder, const char *name)
{
    return !access(test_path(folder, name), F_OK);
}

/* ---- learning -------------------------------------------------------------------------------------------
 */

TEST(the_loss_falls_on_a_repeating_text)
{
    UNUSED_STATE;
    static const plim_dtype act[] = {PLIM_F32, PLIM_BF16};
    repeating(4, 12);
    for (int i = 0; i < 2; i++) {
        static bench b;
        plim_loop_end end;
        plim_session_config g = tiny_config(act[i], 24, 2);
        g.hyper.learning_rate = 2e-2;
        bench_open(&b, &g, 1, 1);
        CHECK_OK(b.ctx, bench_run(&b, test_folder("loop-falls"), 12, 0, &end));
        assert_int_equal(b.steps, 12);
        assert_false(end.stopped);
        if (!(b.loss[12] < 0.5 * b.loss[1])) fail_msg("the loss went from %g to %g", b.loss[1], b.loss[12]);
        assert_true(end.first.result.loss == b.loss[1] && end.last.result.loss == b.loss[12]);
        bench_close(&b);
    }
}

/* Same losses, norms and masters, bit for bit. */
static void run_once(int threads, int64_t seed, bench *b, float *master, int64_t elements)
{
    plim_loop_end end;
    plim_session_config g = tiny_config(PLIM_F32, 96, 3);
    g.options.lora_dropout = 0.1;
    g.seed = (uint64_t)seed;
    bench_open(b, &g, 2, threads);
    CHECK_OK(b->ctx, bench_run(b, test_folder("loop-same"), 6, 0, &end));
    assert_int_equal(b->session->training.engine->step->adapters.master.cols, elements);
    memcpy(master, b->session->training.engine->step->adapters.master.data,
           (size_t)elements * sizeof *master);
    bench_close(b);
}

TEST(the_same_seed_gives_the_same_bits_with_any_threads)
{
    UNUSED_STATE;
    static bench first, again;
    text_open(&x);
    for (int64_t i = 0; i < 9; i++) text_add(&x, 20 + i * 5, 7 + i, 6);
    plim_session_config g = tiny_config(PLIM_F32, 96, 3);
    bench_open(&first, &g, 2, 1);
    int64_t elements = first.session->training.engine->step->adapters.master.cols;
    bench_close(&first);
    float *a = calloc((size_t)elements, sizeof *a), *z = calloc((size_t)elements, sizeof *z);
    assert_true(a && z);
    run_once(1, 3, &first, a, elements);
    static const int threads[] = {1, 2, 3};
    for (int i = 0; i < 3; i++) {
        run_once(threads[i], 3, &again, z, elements);
        assert_memory_equal(first.loss, again.loss, sizeof first.loss);
        assert_memory_equal(first.norm, again.norm, sizeof first.norm);
        assert_memory_equal(a, z, (size_t)elements * sizeof *a);
    }
    run_once(1, 4, &again, z, elements);
    assert_memory_not_equal(first.loss, again.loss, sizeof first.loss);
    free(a);
    free(z);
}

/* ---- accumulation ---------------------------------------------------------------------------------------
 */

/* Loss and gradients of the first step, in double. */
static double *gradients(int64_t seq, int64_t documents, int64_t accumulate, double *loss, int64_t *elements)
{
    static bench b;
    plim_step_result r;
    plim_order_step at;
    plim_session_config g = tiny_config(PLIM_F64, seq, documents);
    bench_open(&b, &g, accumulate, 1);
    plim_order_step_at(b.order, 1, &at);
    assert_int_equal(at.count, accumulate);
    /* With lora_B at zero the gradients of lora_A would be zero too. */
    CHECK_OK(b.ctx, plim_training_step(&b.session->training, at.samples, at.count, &r));
    CHECK_OK(b.ctx, plim_training_gradients(&b.session->training, at.samples, at.count, &r));
    plim_tensor grad = b.session->training.engine->step->adapters.grad;
    double *copy = malloc((size_t)grad.cols * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, grad.data, (size_t)grad.cols * sizeof *copy);
    *elements = grad.cols;
    *loss = r.loss;
    bench_close(&b);
    return copy;
}

TEST(accumulating_is_packing)
{
    UNUSED_STATE;
    double packed_loss, apart_loss, square = 0, difference = 0;
    int64_t packed_count, apart_count;
    text_open(&x);
    text_add(&x, 70, 40, 5);
    text_add(&x, 41, 9,
             7); /* other labels and another length: weights are of the step, not of the sequence */
    double *packed = gradients(111, 2, 1, &packed_loss, &packed_count);
    double *apart = gradients(70, 1, 2, &apart_loss, &apart_count);
    assert_int_equal(packed_count, apart_count);
    for (int64_t i = 0; i < packed_count; i++) {
        square += packed[i] * packed[i];
        difference += (packed[i] - apart[i]) * (packed[i] - apart[i]);
    }
    assert_true(square > 0);
    if (!(sqrt(difference / square) < 1e-9)) fail_msg("gradients differ by %g", sqrt(difference / square));
    if (!(fabs(packed_loss / apart_loss - 1) < 1e-9))
        fail_msg("losses: %.17g, %.17g", packed_loss, apart_loss);
    free(packed);
    free(apart);
}

/* ---- what is written ------------------------------------------------------------------------------------
 */

static void check_block(const plim_safetensors *s, const char *name, plim_tensor t)
{
    const plim_safetensors_tensor *f = plim_safetensors_find(s, name);
    if (!t.cols) {
        assert_null(f);
        return;
    }
    assert_non_null(f);
    assert_int_equal(f->dtype, t.dtype);
    assert_int_equal(f->elements, t.cols);
    assert_memory_equal(plim_safetensors_data(s, f), t.data, (size_t)f->size_bytes);
}

static void check_state(const char *path, int64_t step)
{
    char *state = test_read(path, NULL);
    json_t *j = json_loads(state, 0, NULL);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "format")), PLIM_CHECKPOINT_FORMAT);
    assert_string_equal(json_string_value(json_object_get(j, "plimsoll")), PLIM_VERSION);
    assert_int_equal(json_integer_value(json_object_get(j, "step")), step);
    assert_int_equal(json_integer_value(json_object_get(j, "seed")), 5);
    const json_t *data = json_object_get(j, "data"), *hyper = json_object_get(j, "hyper");
    /* Five documents, one a sequence, two sequences a step: three steps an epoch. */
    assert_int_equal(json_integer_value(json_object_get(data, "epoch")), step / 3);
    assert_int_equal(json_integer_value(json_object_get(data, "sequences")), step % 3 * 2);
    assert_int_equal(json_integer_value(json_object_get(data, "accumulate")), 2);
    assert_int_equal(json_integer_value(json_object_get(data, "documents_in_file")), 5);
    assert_true(json_real_value(json_object_get(hyper, "learning_rate")) == 5e-3);
    assert_string_equal(json_string_value(json_object_get(hyper, "schedule")), "cosine");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "options"), "rank")), 4);
    json_decref(j);
    free(state);
}

static void check_checkpoints(int adam_bits)
{
    static bench b;
    plim_loop_end end;
    plim_safetensors *s = NULL;
    const char *out = test_folder("loop-checkpoints");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    g.options.adam_bits = adam_bits;
    g.hyper.schedule = PLIM_SCHEDULE_COSINE;
    g.hyper.total_steps = 8;
    repeating(5, 40);
    bench_open(&b, &g, 2, 1);
    CHECK_OK(b.ctx, bench_run(&b, out, 8, 2, &end));
    static const char *const gone[] = {"checkpoint-2", "checkpoint-4", "checkpoint-5"};
    for (int i = 0; i < 3; i++) assert_false(there(out, gone[i]));
    assert_true(there(out, "checkpoint-6/state.json"));
    check_state(test_path(out, "checkpoint-6/state.json"), 6);
    check_state(test_path(out, "checkpoint-8/state.json"), 8);
    CHECK_OK(b.ctx, plim_safetensors_open(b.ctx, test_path(out, "checkpoint-8/optimizer.safetensors"), &s));
    const plim_adapters *a = &b.session->training.engine->step->adapters;
    check_block(s, "master", a->master);
    check_block(s, "m", a->m);
    check_block(s, "v", a->v);
    check_block(s, "m_max", a->m_max);
    check_block(s, "v_max", a->v_max);
    check_block(s, "small_m", a->small_m);
    check_block(s, "small_v", a->small_v);
    plim_safetensors_close(s);
    char *listing;
    assert_int_equal(test_command(&listing, "ls -A %s", out), 0);
    assert_string_equal(listing, "adapter\ncheckpoint-6\ncheckpoint-8\nmetrics.jsonl\n");
    free(listing);
    /* The checkpoint is an adapter too, and the final one holds the same. */
    assert_int_equal(test_command(&listing,
                                  "cmp %s/adapter/adapter_model.safetensors "
                                  "%s/checkpoint-8/adapter_model.safetensors",
                                  out, out),
                     0);
    free(listing);
    plim_adapter_config config;
    CHECK_OK(b.ctx, plim_adapter_survey(b.ctx, test_path(out, "checkpoint-6"), &b.session->spec, &config));
    assert_int_equal(config.rank, 4);
    bench_close(&b);
}

TEST(a_checkpoint_holds_all_that_a_run_needs)
{
    UNUSED_STATE;
    check_checkpoints(8);
    check_checkpoints(32);
}

TEST(metrics_have_one_object_a_step)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    const char *out = test_folder("loop-metrics");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    g.hyper.warmup_steps = 2;
    repeating(5, 40);
    bench_open(&b, &g, 2, 1);
    CHECK_OK(b.ctx, bench_run(&b, out, 4, 0, &end));
    char *lines = test_read(test_path(out, "metrics.jsonl"), NULL), *line = lines;
    for (int64_t step = 1; step <= 4; step++) {
        char *next = strchr(line, '\n');
        assert_non_null(next);
        json_t *j = json_loadb(line, (size_t)(next - line), 0, NULL);
        assert_non_null(j);
        assert_int_equal(json_integer_value(json_object_get(j, "step")), step);
        assert_true(json_number_value(json_object_get(j, "loss")) == b.loss[step]);
        assert_true(json_number_value(json_object_get(j, "gradient_norm")) == b.norm[step]);
        assert_true(json_number_value(json_object_get(j, "learning_rate")) == b.rate[step]);
        assert_true(b.rate[step] == (step == 1 ? 2.5e-3 : 5e-3));
        assert_int_equal(json_integer_value(json_object_get(j, "tokens")), step == 3 ? 40 : 80);
        assert_int_equal(json_integer_value(json_object_get(j, "labelled")), step == 3 ? 36 : 72);
        /* The clock moves a second a look: one before the step, one after it. */
        assert_true(json_number_value(json_object_get(j, "seconds")) == 1);
        assert_true(json_number_value(json_object_get(j, "tokens_per_s")) == (step == 3 ? 40 : 80));
        double epoch = step < 3 ? (double)step * 0.4 : step == 3 ? 1 : 1.4;
        assert_true(fabs(json_number_value(json_object_get(j, "epoch")) - epoch) < 1e-12);
        json_decref(j);
        line = next + 1;
    }
    assert_int_equal(*line, 0);
    assert_true(end.last.left_s == 0);
    free(lines);
    bench_close(&b);
}

TEST(stopping_saves_and_leaves_no_adapter)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    const char *out = test_folder("loop-stop");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    repeating(5, 40);
    bench_open(&b, &g, 1, 1);
    b.stop_after = 3;
    CHECK_OK(b.ctx, bench_run(&b, out, 9, 0, &end));
    assert_true(end.stopped);
    assert_int_equal(end.last.result.step, 3);
    assert_true(there(out, "checkpoint-3/optimizer.safetensors"));
    assert_false(there(out, "adapter"));
    bench_close(&b);
}

TEST(validation_is_reported_when_asked_for)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    static double now_s;
    const char *out = test_folder("loop-validation");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    repeating(5, 40);
    bench_open(&b, &g, 1, 1);
    plim_order *validation = NULL;
    plim_order_config v = b.data;
    v.file_order = true;
    CHECK_OK(b.ctx, plim_order_open(b.ctx, &v, &validation));
    plim_loop_config l = {.out = out,
                          .data = &b.data,
                          .order = b.order,
                          .validation = validation,
                          .validate_every = 2,
                          .last_step = 3,
                          .keep = 1,
                          .clock = {tick, &now_s}};
    CHECK_OK(b.ctx, plim_loop_run(b.session, &l, &end));
    assert_true(end.last.validated);
    assert_int_equal(end.last.validation.documents, 5);
    assert_int_equal(end.last.validation.tokens, 200);
    assert_int_equal(end.last.validation.labelled, 180);
    plim_evaluation again;
    CHECK_OK(b.ctx, plim_evaluate(&b.session->training, validation, NULL, NULL, &again));
    assert_true(again.loss == end.last.validation.loss);
    char *out_text;
    assert_int_equal(test_command(&out_text, "grep -c validation_loss %s/metrics.jsonl", out), 0);
    assert_string_equal(out_text, "2\n"); /* steps 2 and 3 */
    free(out_text);
    plim_order_close(validation);
    bench_close(&b);
}

/* ---- what ends a run ------------------------------------------------------------------------------------
 */

TEST(a_loss_that_is_not_finite_ends_it_and_keeps_what_was_saved)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end = {0};
    const char *out = test_folder("loop-nan");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    repeating(5, 40);
    bench_open(&b, &g, 1, 1);
    CHECK_OK(b.ctx, bench_run(&b, out, 2, 1, &end));
    plim_model_weights *w = &b.session->training.engine->step->model;
    ((float *)w->final_norm.data)[3] = NAN;
    const char *other = test_folder("loop-nan-again");
    CHECK_FAILS(b.ctx, PLIM_E_NUMERIC, bench_run(&b, other, 4, 1, &end), "step 3", "sample", "not finite");
    assert_int_equal(b.session->training.step, 2);
    assert_false(there(other, "checkpoint-3"));
    assert_true(there(out, "checkpoint-2/state.json"));
    bench_close(&b);
}

/* An MLP that sees zeros alone trains nothing. */
TEST(a_lora_b_that_stays_zero_is_named)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    const char *out = test_folder("loop-zero");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    repeating(5, 40);
    bench_open(&b, &g, 1, 1);
    plim_tensor norm = b.session->training.engine->step->weights[2].post_norm;
    /* -1 with its unit offset: times 0. */
    for (int64_t i = 0; i < norm.cols; i++) ((float *)norm.data)[i] = -1;
    CHECK_FAILS(b.ctx, PLIM_E_NUMERIC, bench_run(&b, out, 4, 1, &end), "step 1", "3 of 25 lora_B",
                "layers.2.mlp.gate_proj.lora_B", "layers.2.mlp.down_proj.lora_B");
    assert_false(there(out, "checkpoint-1"));
    bench_close(&b);
}

TEST(a_folder_with_something_in_it_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *out = test_folder("loop-out");
    CHECK_OK(c, plim_loop_make_out(c, out));
    CHECK_OK(c, plim_loop_make_out(c, test_path(out, "new")));
    assert_true(there(out, "new"));
    CHECK_FAILS(c, PLIM_E_IO, plim_loop_make_out(c, out), "already holds new");
    CHECK_FAILS(c, PLIM_E_IO, plim_loop_make_out(c, test_path(out, "no/where")), "cannot be made");
    test_write(test_path(out, "file"), "x", 1);
    CHECK_FAILS(c, PLIM_E_IO, plim_loop_check_out(c, test_path(out, "file")), "cannot take a run");
    test_ctx_close(c);
}

/* ---- half-written ----------------------------------------------------------------------------------------
 */

/* Names in out that start with start and end with end. */
static int64_t entries(const char *out, const char *start, const char *end)
{
    int64_t count = 0;
    DIR *dir = opendir(out);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        size_t length = strlen(e->d_name), tail = strlen(end);
        count += !strncmp(e->d_name, start, strlen(start)) && length >= tail &&
                 !strcmp(e->d_name + length - tail, end);
    }
    closedir(dir);
    return count;
}

/* The system ends the writer in the middle of a file. */
TEST(a_save_killed_half_way_leaves_no_checkpoint)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    const char *out = test_folder("loop-killed");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    repeating(5, 40);
    bench_open(&b, &g, 1, 1);
    CHECK_OK(b.ctx, bench_run(&b, out, 2, 2, &end));
    plim_checkpoint_place place = {.order = &b.data};
    b.session->training.step = 3;
    struct stat adapter, optimizer;
    assert_int_equal(stat(test_path(out, "checkpoint-2/adapter_model.safetensors"), &adapter), 0);
    assert_int_equal(stat(test_path(out, "checkpoint-2/optimizer.safetensors"), &optimizer), 0);
    assert_true(optimizer.st_size > adapter.st_size);
    const int64_t limits[] = {adapter.st_size / 2, (adapter.st_size + optimizer.st_size) / 2};
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit most = {(rlim_t)limits[i], (rlim_t)limits[i]}, none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            setrlimit(RLIMIT_FSIZE, &most);
            plim_checkpoint_save(b.session, out, &place);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
        assert_int_equal(entries(out, "checkpoint-3", "-3"), 0);
        assert_true(entries(out, "checkpoint-3", ".tmp") > 0);
    }
    CHECK_OK(b.ctx, plim_checkpoint_save(b.session, out, &place));
    assert_true(there(out, "checkpoint-3/state.json"));
    bench_close(&b);
}

typedef struct saving {
    bench *b;
    const char *out;
} saving;

static plim_status save(plim_ctx *c, void *user)
{
    saving *s = user;
    plim_checkpoint_place place = {.order = &s->b->data};
    (void)c;
    plim_status st = plim_checkpoint_save(s->b->session, s->out, &place);
    assert_int_equal(entries(s->out, "checkpoint-7", ""), st ? 0 : 1);
    return st;
}

TEST(a_save_without_memory_leaves_nothing)
{
    UNUSED_STATE;
    static bench b;
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    saving s = {&b, test_folder("loop-save-memory")};
    repeating(5, 40);
    bench_open(&b, &g, 1, 1);
    plim_step_result r;
    plim_order_step at;
    plim_order_step_at(b.order, 1, &at);
    CHECK_OK(b.ctx, plim_training_step(&b.session->training, at.samples, at.count, &r));
    b.session->training.step = 7;
    assert_true(test_every_allocation(b.ctx, save, &s) > 10);
    bench_close(&b);
}

/* ---- memory ---------------------------------------------------------------------------------------------
 */

static plim_status open_and_step(plim_ctx *c, void *user)
{
    plim_session_config *g = user;
    plim_machine m = {0};
    plim_session *s = NULL;
    plim_order *o = NULL;
    plim_order_step at;
    plim_step_result r;
    plim_order_config data = {&x.samples, 40, 1, 1, TINY_VOCAB, 1, false};
    plim_status st = plim_machine_cpu(c, 1, &m);
    if (!st) st = plim_order_open(c, &data, &o);
    if (!st) st = plim_session_open(c, &m, g, &s);
    if (!st) {
        plim_order_step_at(o, 1, &at);
        st = plim_training_step(&s->training, at.samples, at.count, &r);
    }
    plim_session_close(s);
    plim_order_close(o);
    plim_machine_close(&m);
    return st;
}

TEST(every_allocation_of_open_and_a_step_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    repeating(2, 40);
    assert_true(test_every_allocation(c, open_and_step, &g) > 20);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(the_loss_falls_on_a_repeating_text),
        cmocka_unit_test(the_same_seed_gives_the_same_bits_with_any_threads),
        cmocka_unit_test(accumulating_is_packing),
        cmocka_unit_test(a_checkpoint_holds_all_that_a_run_needs),
        cmocka_unit_test(metrics_have_one_object_a_step),
        cmocka_unit_test(stopping_saves_and_leaves_no_adapter),
        cmocka_unit_test(validation_is_reported_when_asked_for),
        cmocka_unit_test(a_loss_that_is_not_finite_ends_it_and_keeps_what_was_saved),
        cmocka_unit_test(a_lora_b_that_stays_zero_is_named),
        cmocka_unit_test(a_folder_with_something_in_it_is_refused),
        cmocka_unit_test(a_save_killed_half_way_leaves_no_checkpoint),
        cmocka_unit_test(a_save_without_memory_leaves_nothing),
        cmocka_unit_test(every_allocation_of_open_and_a_step_may_fail),
    };
    return RUN_TESTS(table);
}
