/* Checkpoints: what they hold, which stay, and that one is whole or absent. */
#include "train/run_support.h"

#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "formats/safetensors.h"

static text x;

/* ---- what is written ------------------------------------------------------------------------------- */

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
    text_repeat(&x, 5, 40);
    bench_open(&b, &x, &g, 2, 1);
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

/* ---- half-written ---------------------------------------------------------------------------------- */

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
    text_repeat(&x, 5, 40);
    bench_open(&b, &x, &g, 1, 1);
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
    text_repeat(&x, 5, 40);
    bench_open(&b, &x, &g, 1, 1);
    plim_step_result r;
    plim_order_step at;
    plim_order_step_at(b.order, 1, &at);
    CHECK_OK(b.ctx, plim_training_step(&b.session->training, at.samples, at.count, &r));
    b.session->training.step = 7;
    assert_true(test_every_allocation(b.ctx, save, &s) > 10);
    bench_close(&b);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(a_checkpoint_holds_all_that_a_run_needs),
        cmocka_unit_test(a_save_killed_half_way_leaves_no_checkpoint),
        cmocka_unit_test(a_save_without_memory_leaves_nothing),
    };
    return RUN_TESTS(table);
}
