/* Writing a samples file: read back, statistics, refusals, nothing left when it ends early. */
#include "support/test.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json_text.h"
#include "formats/samples.h"
#include "formats/samples_writer.h"

static const char *const classes[] = {"prose", "c\xc3\xb6"};
static const char *const files[] = {"a\"b.txt", "\xff.txt"};
static const plim_samples_about about = {.tokenizer = "bytes",
                                         .chat_template = "",
                                         .classes = classes,
                                         .class_count = 2,
                                         .files = files,
                                         .file_count = 2};

static int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

/* Document i of a made-up set: length, tokens and weights from i alone. */
static int64_t make(int64_t i, int32_t *tokens, float *weights)
{
    int64_t n = 2 + i * 37 % 1000;
    for (int64_t k = 0; k < n; k++) {
        tokens[k] = (int32_t)((i * 131 + k * 17) % 100000);
        weights[k] = k == n - 1 ? 1 : (float)(k % 3) / 2;
    }
    return n;
}

static void append(plim_samples_writer *w, int64_t first, int64_t end)
{
    static int32_t tokens[1002];
    static float weights[1002];
    for (int64_t i = first; i < end; i++) {
        int64_t n = make(i, tokens, weights);
        plim_samples_writer_append(w, tokens, weights, n, (int32_t)(i % 2), (uint64_t)(i % 2), (uint64_t)i);
    }
}

TEST(reads_back)
{
    UNUSED_STATE;
    enum { DOCUMENTS = 2003 }; /* a million tokens: the spills' buffers fill many times */
    static int32_t tokens[1002];
    static float weights[1002];
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("samples_back"), *path = test_path(folder, "s.safetensors");
    plim_samples_writer *w = NULL;
    plim_samples s = {0};
    char name[8];
    CHECK_OK(c, plim_samples_writer_open(c, path, &about, &w));
    append(w, 0, DOCUMENTS);
    plim_samples_statistics counted = *plim_samples_writer_statistics(w);
    CHECK_OK(c, plim_samples_writer_commit(w));
    assert_int_equal(entries(folder), 1);
    CHECK_OK(c, plim_samples_open(c, path, &s));
    assert_int_equal(s.documents, DOCUMENTS);
    for (int64_t i = 0; i < DOCUMENTS; i++) {
        int64_t n = make(i, tokens, weights), at = s.doc_offsets[i];
        assert_int_equal(s.doc_offsets[i + 1] - at, n);
        assert_memory_equal(s.tokens + at, tokens, (size_t)n * sizeof *tokens);
        assert_memory_equal(s.loss_weights + at, weights, (size_t)n * sizeof *weights);
        assert_int_equal(s.class_ids[i], i % 2);
        assert_int_equal(s.source[2 * i], i % 2);
        assert_int_equal(s.source[2 * i + 1], i);
    }
    assert_int_equal(counted.tokens, s.tokens_count);
    assert_int_equal(counted.labelled_tokens, s.labelled_tokens);
    assert_int_equal(counted.longest_tokens, s.longest_tokens);
    assert_string_equal(plim_samples_metadata(&s, "files"), "[\"a\\\"b.txt\",\"\xef\xbf\xbd.txt\"]");
    CHECK_OK(c, plim_samples_class_name(c, &s, 1, name, sizeof name));
    assert_string_equal(name, classes[1]);
    plim_workload load;
    const char *text = plim_samples_metadata(&s, "statistics");
    CHECK_OK(c, plim_workload_parse(c, "statistics", text, strlen(text), &load));
    assert_true(load.tokens == (double)s.tokens_count && load.longest_tokens == s.longest_tokens);
    plim_samples_close(&s);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

/* Rows of every bucket at the bucket's length add up to the tokens but for rounding, whatever the lengths. */
TEST(statistics_hold_for_every_length)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_samples_statistics s = {0};
    json_t *value = NULL;
    char *text = NULL;
    plim_workload load;
    for (int64_t n = 1; n <= PLIM_SAMPLES_LONGEST_TOKENS; n += n / 3 + 1)
        for (int64_t k = n > 2 ? n - 1 : n; k <= n; k++) plim_samples_count(&s, k, k / 2);
    plim_samples_count(&s, PLIM_SAMPLES_LONGEST_TOKENS, 1);
    plim_samples_count(&s, PLIM_SAMPLES_LONGEST_TOKENS, 1);
    CHECK_OK(c, plim_samples_statistics_json(c, &s, &value));
    CHECK_OK(c, plim_json_text(c, value, JSON_INDENT(2), &text));
    CHECK_OK(c, plim_workload_parse(c, "statistics", text, strlen(text), &load));
    double rows = 0, tokens = 0;
    for (int64_t b = 0; b < load.lengths; b++) {
        rows += load.bucket_rows[b];
        tokens += load.bucket_rows[b] * (double)load.bucket_tokens[b];
    }
    assert_true(rows == (double)s.rows);
    assert_true(fabs(tokens - (double)s.tokens) <= rows / 2);
    assert_in_range(load.lengths, 55, PLIM_SAMPLES_BUCKETS + 1);
    assert_int_equal(load.longest_tokens, PLIM_SAMPLES_LONGEST_TOKENS);
    assert_true(load.bucket_rows[load.lengths - 1] == 2);
    json_decref(value);
    plim_release(c, text);
    test_ctx_close(c);
}

/* One step that must fail on a fresh writer; the writer then stays failed and leaves nothing. */
#define REFUSED(a, step, ...)                                                                                \
    do {                                                                                                     \
        plim_samples_writer *w = NULL;                                                                       \
        CHECK_OK(c, plim_samples_writer_open(c, path, a, &w));                                               \
        CHECK_FAILS(c, PLIM_E_RANGE, step, path, __VA_ARGS__);                                               \
        assert_int_equal(plim_samples_writer_append(w, one, both, 2, 0, 0, 0), PLIM_E_RANGE);                \
        assert_int_equal(plim_samples_writer_commit(w), PLIM_E_RANGE);                                       \
        plim_ctx_clear(c);                                                                                   \
        assert_int_equal(entries(folder), 0);                                                                \
    } while (0)

TEST(refuses_documents)
{
    UNUSED_STATE;
    static const int32_t one[] = {1, 1}, below[] = {1, -1};
    static const float both[] = {1, 1}, first[] = {1, 0}, minus[] = {1, -1}, nan[] = {1, NAN};
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("samples_bad"), *path = test_path(folder, "s.safetensors");
    plim_samples_about tight = about;
    tight.max_tokens = 1;
    REFUSED(&about, plim_samples_writer_append(w, below, both, 2, 0, 0, 0), "document 0", "token below 0");
    REFUSED(&about, plim_samples_writer_append(w, one, minus, 2, 0, 0, 0), "loss weight");
    REFUSED(&about, plim_samples_writer_append(w, one, nan, 2, 0, 0, 0), "loss weight");
    REFUSED(&about, plim_samples_writer_append(w, one, first, 2, 0, 0, 0), "no token to train on");
    REFUSED(&about, plim_samples_writer_append(w, one, both, 1, 0, 0, 0), "no token to train on");
    REFUSED(&about, plim_samples_writer_append(w, one, both, 2, 2, 0, 0), "class that is not named");
    REFUSED(&about, plim_samples_writer_append(w, one, both, 2, -1, 0, 0), "class that is not named");
    REFUSED(&about, plim_samples_writer_append(w, one, both, 2, 0, 2, 0), "file that is not named");
    REFUSED(&about, plim_samples_writer_document(w, 0, 0, 0), "is empty");
    REFUSED(&tight, plim_samples_writer_append(w, one, both, 2, 0, 0, 0), "more than 1 tokens");
    REFUSED(&about, plim_samples_writer_finish(w), "no document to write");
    plim_samples_writer *w = NULL;
    CHECK_OK(c, plim_samples_writer_open(c, path, &about, &w));
    CHECK_OK(c, plim_samples_writer_append(w, one, both, 2, 0, 0, 0));
    CHECK_OK(c, plim_samples_writer_tokens(w, one, both, 2));
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_commit(w), "document 1", "not closed");
    CHECK_OK(c, plim_samples_writer_open(c, path, &about, &w));
    CHECK_OK(c, plim_samples_writer_append(w, one, both, 2, 0, 0, 0));
    CHECK_OK(c, plim_samples_writer_finish(w));
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_append(w, one, both, 2, 0, 0, 0), "finished");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_commit(w), "");
    assert_int_equal(entries(folder), 0);
    plim_samples_writer_abort(NULL);
    test_ctx_close(c);
}

TEST(refuses_what_cannot_be_described_or_placed)
{
    UNUSED_STATE;
    static const char *const twice[] = {"a", "a"}, *const wrong[] = {"\xff"};
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("samples_about"), *path = test_path(folder, "s.safetensors");
    plim_samples_writer *w = NULL;
    plim_samples_about a = about;
    a.class_count = 0;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_open(c, path, &a, &w), path, "0 classes");
    a.class_count = PLIM_SAMPLES_MAX_CLASSES + 1;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_open(c, path, &a, &w), "4097 classes", "1 to 4096");
    a = about;
    a.classes = twice;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_open(c, path, &a, &w), "'a' is named twice");
    a.classes = wrong;
    a.class_count = 1;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_open(c, path, &a, &w), "class 0 is not UTF-8");
    a = about;
    a.file_count = 0;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_open(c, path, &a, &w), "no input file");
    a = about;
    a.tokenizer = "";
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_open(c, path, &a, &w), "tokenizer has no name");
    a = about;
    a.max_tokens = -1;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_writer_open(c, path, &a, &w), "a limit of -1");
    CHECK_FAILS(c, PLIM_E_IO, plim_samples_writer_open(c, folder, &about, &w), folder, "a folder");
    CHECK_FAILS(c, PLIM_E_IO, plim_samples_writer_open(c, test_path(folder, "no/s"), &about, &w), "no/s");
    assert_null(w);
    assert_int_equal(entries(folder), 0);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

/* The target keeps its old bytes, and nothing stands beside it, whichever way the writer ends. */
TEST(an_early_end_leaves_nothing)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("samples_end"), *path = test_path(folder, "s.safetensors");
    plim_samples_writer *w = NULL;
    size_t bytes;
    test_write(path, "old", 3);
    CHECK_OK(c, plim_samples_writer_open(c, path, &about, &w));
    append(w, 0, 500);
    plim_samples_writer_abort(w);
    assert_int_equal(entries(folder), 1);
    CHECK_OK(c, plim_samples_writer_open(c, path, &about, &w));
    append(w, 0, 5);
    CHECK_OK(c, plim_samples_writer_finish(w));
    plim_samples_writer_abort(w);
    assert_int_equal(entries(folder), 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (plim_samples_writer_open(c, path, &about, &w)) _exit(1);
        append(w, 0, 500);
        raise(SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(entries(folder), 1);
    char *text = test_read(path, &bytes);
    assert_string_equal(text, "old");
    free(text);
    test_ctx_close(c);
}

/* A full disk, or a limit on the size of files: an ordinary error, and the target as it was. */
TEST(a_failed_write_leaves_the_target)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("samples_full"), *path = test_path(folder, "s.safetensors");
    plim_samples_writer *w = NULL;
    struct rlimit usual, small;
    size_t bytes;
    test_write(path, "old", 3);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = usual;
    for (int late = 0; late < 2; late++) {
        CHECK_OK(c, plim_samples_writer_open(c, path, &about, &w));
        if (late) append(w, 0, 500); /* the spills hold; the file put together does not */
        small.rlim_cur = late ? 1500000 : 300000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        if (!late) append(w, 0, 500);
        plim_status st = plim_samples_writer_commit(w);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
        CHECK_FAILS(c, PLIM_E_IO, st, path, "File too large", "as it was before");
        assert_int_equal(entries(folder), 1);
        char *text = test_read(path, &bytes);
        assert_string_equal(text, "old");
        free(text);
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

static plim_status write_two(plim_ctx *c, void *user)
{
    plim_samples_writer *w = NULL;
    TRY(plim_samples_writer_open(c, user, &about, &w));
    append(w, 0, 2);
    return plim_samples_writer_commit(w);
}

TEST(every_allocation)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("samples_alloc"), *path = test_path(folder, "s.safetensors");
    assert_true(test_every_allocation(c, write_two, (void *)(uintptr_t)path) > 20);
    assert_int_equal(entries(folder), 1);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(reads_back),
        cmocka_unit_test(statistics_hold_for_every_length),
        cmocka_unit_test(refuses_documents),
        cmocka_unit_test(refuses_what_cannot_be_described_or_placed),
        cmocka_unit_test(an_early_end_leaves_nothing),
        cmocka_unit_test(a_failed_write_leaves_the_target),
        cmocka_unit_test(every_allocation),
    };
    return RUN_TESTS(table);
}
