/* Random weights: what they are, and that a written folder holds the bits that memory gets. */
#include "support/laid_weights.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/fnv.h"
#include "base/random.h"
#include "formats/safetensors.h"
#include "model/random_weights.h"
#include "train/random_folder.h"

static laid drawn, loaded;

static plim_random_folder folder_of(const char *config, const char *out)
{
    return (plim_random_folder){
        .config = config, .out = out, .seed = 42, .dtype = PLIM_F32, .shard_bytes = (uint64_t)1 << 40};
}

static void draw(plim_ctx *c, laid *w, uint64_t seed, plim_dtype stored)
{
    plim_load l = laid_load(w);
    CHECK_OK(c, plim_weights_random(c, seed, stored, &l));
}

static int64_t load(plim_ctx *c, laid *w, const char *folder)
{
    plim_model_files *files = NULL;
    plim_load l = laid_load(w);
    CHECK_OK(c, plim_model_files_check(c, folder, &w->spec, &files));
    CHECK_OK(c, plim_weights_load(c, folder, files, &l));
    int64_t count = (int64_t)files->file_count;
    plim_model_files_close(files);
    return count;
}

/* ---- folder and memory --------------------------------------------------------------------------------- */

static const struct {
    plim_dtype act, stored;
    uint64_t shard_bytes;
    int64_t least_files;
} ways[] = {
    {PLIM_F32, PLIM_F32, (uint64_t)1 << 40, 1}, {PLIM_BF16, PLIM_F32, 300000, 2},
    {PLIM_BF16, PLIM_BF16, 150000, 2},          {PLIM_F32, PLIM_F16, 400000, 1},
    {PLIM_F64, PLIM_BF16, 250000, 2},
};

static void check_ways(plim_ctx *c, const char *config)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *out = test_path(test_folder("random-ways"), "model");
        plim_random_folder f = folder_of(config, out);
        f.dtype = ways[i].stored;
        f.shard_bytes = ways[i].shard_bytes;
        CHECK_OK(c, plim_random_folder_write(c, &f));
        laid_open(c, &drawn, config, laid_options(ways[i].act, 4));
        laid_open(c, &loaded, out, laid_options(ways[i].act, 4));
        draw(c, &drawn, 42, ways[i].stored);
        int64_t files = load(c, &loaded, out);
        assert_true(files >= ways[i].least_files && (i > 0 || files == 1));
        assert_int_equal(drawn.bytes, loaded.bytes);
        if (memcmp(drawn.memory, loaded.memory, drawn.bytes) != 0)
            fail_msg("%s, way %zu: other bits", config, i);
        laid_close(&drawn);
        laid_close(&loaded);
    }
}

static int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(d);
    return n;
}

static const char *write_config(const char *name, const char *text)
{
    const char *path = test_path(test_folder(name), "config.json");
    test_write(path, text, strlen(text));
    return path;
}

TEST(a_folder_holds_the_bits_that_memory_gets)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    check_ways(c, GOLDEN("qwen3_5-tiny/config.json"));
    check_ways(c, GOLDEN("qwen3_5-tied")); /* a folder, tied */
    check_ways(c, GOLDEN("qwen2-tiny/config.json"));
    check_ways(c, write_config("random-multimodal", CONFIG_MULTIMODAL));
    test_ctx_close(c);
}

TEST(a_shard_holds_at_least_one_tensor)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *config = write_config("random-single", CONFIG_MULTIMODAL);
    plim_random_folder f = folder_of(config, test_path("test-tmp/random-single", "model"));
    f.shard_bytes = 1;
    CHECK_OK(c, plim_random_folder_write(c, &f));
    laid_open(c, &loaded, f.out, laid_options(PLIM_BF16, 4));
    assert_int_equal(load(c, &loaded, f.out), plim_spec_counts(&loaded.spec).tensors);
    assert_int_equal(entries(f.out), plim_spec_counts(&loaded.spec).tensors + 2); /* index and config */
    laid_close(&loaded);
    test_ctx_close(c);
}

TEST(tensors_larger_than_a_block_are_whole)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char *text = test_read(GOLDEN("llama-tiny/config.json"), NULL);
    char *at = strstr(text, "\"vocab_size\": 512");
    assert_non_null(at);
    const char *out = test_path(test_folder("random-large"), "model");
    const char *config = test_path("test-tmp/random-large", "config.json");
    FILE *to = fopen(config, "w");
    assert_non_null(to);
    fprintf(to, "%.*s\"vocab_size\": 33333%s", (int)(at - text), text, at + strlen("\"vocab_size\": 512"));
    fclose(to);
    free(text);
    plim_random_folder f = folder_of(config, out);
    CHECK_OK(c, plim_random_folder_write(c, &f));
    laid_open(c, &drawn, config, laid_options(PLIM_BF16, 4));
    laid_open(c, &loaded, config, laid_options(PLIM_BF16, 4));
    draw(c, &drawn, 42, PLIM_F32);
    load(c, &loaded, out);
    assert_memory_equal(drawn.memory, loaded.memory, drawn.bytes);
    const plim_random r = {42, plim_fnv1a64("model.embed_tokens.weight")};
    double want = (double)plim_random_normal(r, 33332 * 64 + 63, (float)drawn.spec.initializer_range,
                                             plim_normal_segments());
    assert_true(fabs(laid_at(drawn.model.embedding, 33332, 63) - want) <= fabs(want) * 0x1p-8);
    laid_close(&drawn);
    laid_close(&loaded);
    test_ctx_close(c);
}

/* ---- what the numbers are ------------------------------------------------------------------------------ */

TEST(each_kind_of_tensor_has_its_distribution)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    laid_open(c, &drawn, GOLDEN("qwen3_5-tied"), laid_options(PLIM_F32, 4));
    draw(c, &drawn, 7, PLIM_F32);
    double sum = 0, squares = 0;
    int64_t n = drawn.model.embedding.rows * 64;
    for (int64_t i = 0; i < n; i++) {
        double x = laid_at(drawn.model.embedding, i / 64, i % 64);
        sum += x;
        squares += x * x;
    }
    /* six standard errors of the mean and of the variance */
    assert_true(fabs(sum / (double)n) < 6 * 0.15 / sqrt((double)n));
    assert_true(fabs(squares / (double)n / (0.15 * 0.15) - 1) < 6 * sqrt(2 / (double)n));
    const plim_layer_weights *delta = &drawn.layers[0], *attention = &drawn.layers[3];
    for (int64_t j = 0; j < 64; j++) assert_true(laid_at(delta->input_norm, 0, j) == 0);
    for (int64_t j = 0; j < 32; j++) assert_true(laid_at(attention->q_norm, 0, j) == 0);
    for (int64_t j = 0; j < 32; j++) assert_true(laid_at(delta->gated_norm, 0, j) == 1);
    bool differ = false;
    for (int64_t j = 0; j < 6; j++) {
        double a = laid_at(delta->a_log, 0, j);
        assert_true(a < log(16.0) && a >= log(16.0) - 25 * log(2.0));
        differ |= a != laid_at(drawn.layers[1].a_log, 0, j);
        assert_true(laid_at(delta->dt_bias, 0, j) == 1);
    }
    assert_true(differ);
    assert_true(laid_at(delta->conv, 5, 3) != 0);
    laid_close(&drawn);
    laid_open(c, &drawn, GOLDEN("qwen2-tiny"), laid_options(PLIM_F32, 4));
    draw(c, &drawn, 7, PLIM_F32);
    for (int64_t j = 0; j < 64; j++) assert_true(laid_at(drawn.layers[0].input_norm, 0, j) == 1);
    for (int64_t j = 0; j < 128; j++) assert_true(laid_at(drawn.layers[0].in.bias, 0, j) == 0);
    laid_close(&drawn);
    test_ctx_close(c);
}

TEST(a_projection_is_its_own_stream_whatever_it_is_fused_with)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    laid_open(c, &drawn, GOLDEN("qwen3_5-tiny"), laid_options(PLIM_F32, 4));
    draw(c, &drawn, 9, PLIM_F32);
    const plim_random r = {9, plim_fnv1a64("model.layers.3.self_attn.v_proj.weight")};
    for (int64_t i = 0; i < 64; i++)
        for (int64_t j = 0; j < 64; j++) {
            float want = plim_random_normal(r, (uint64_t)(i * 64 + j), 0.15f, plim_normal_segments());
            assert_true(laid_at(drawn.layers[3].in.weight, 320 + i, j) == (double)want);
        }
    laid_close(&drawn);
    test_ctx_close(c);
}

TEST(a_tensor_may_be_drawn_in_pieces)
{
    UNUSED_STATE;
    static plim_spec spec;
    static float whole[1 << 17], piece[1 << 17];
    plim_ctx *c = test_ctx_open();
    CHECK_OK(c, plim_spec_load(c, GOLDEN("qwen3_5-tiny"), &spec));
    static const char *const names[] = {"model.embed_tokens.weight", "model.layers.0.linear_attn.A_log",
                                        "model.norm.weight"};
    for (size_t k = 0; k < 3; k++) {
        plim_tensor_decl d = {.dims = 1, .shape = {1 << 17}};
        snprintf(d.name, sizeof d.name, "%s", names[k]);
        plim_random_tensor(&spec, 3, &d, 0, 1 << 17, whole);
        for (size_t at = 0, n = 1; at < 1 << 17; at += n, n = n * 3 + 1) {
            size_t count = at + n < 1 << 17 ? n : (1 << 17) - at;
            plim_random_tensor(&spec, 3, &d, at, count, piece);
            assert_memory_equal(piece, whole + at, count * sizeof *piece);
        }
        plim_random_tensor(&spec, 4, &d, 0, 1 << 17, piece);
        assert_int_equal(memcmp(piece, whole, sizeof whole) == 0, k == 2); /* another seed */
    }
    test_ctx_close(c);
}

TEST(a_range_too_large_for_the_dtype_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    laid_open(c, &drawn, GOLDEN("qwen3_5-tiny"), laid_options(PLIM_F32, 4));
    drawn.spec.initializer_range = 1e5;
    plim_load l = laid_load(&drawn);
    CHECK_FAILS(c, PLIM_E_NUMERIC, plim_weights_random(c, 1, PLIM_F16, &l), "embed_tokens",
                "initializer_range", "F16");
    CHECK_OK(c, plim_weights_random(c, 1, PLIM_BF16, &l));
    laid_close(&drawn);
    test_ctx_close(c);
}

/* ---- the folder ---------------------------------------------------------------------------------------- */

TEST(the_config_is_copied_and_the_header_says_pt)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    size_t a, b;
    plim_safetensors *s = NULL;
    const char *out = test_path(test_folder("random-copy"), "model");
    plim_random_folder f = folder_of(GOLDEN("qwen3-tiny"), out);
    CHECK_OK(c, plim_random_folder_write(c, &f));
    char *from = test_read(GOLDEN("qwen3-tiny/config.json"), &a),
         *to = test_read(test_path(out, "config.json"), &b);
    assert_int_equal(a, b);
    assert_memory_equal(from, to, a);
    CHECK_OK(c, plim_safetensors_open(c, test_path(out, "model.safetensors"), &s));
    assert_string_equal(plim_safetensors_metadata(s, "format"), "pt");
    assert_int_equal(entries(out), 2);
    plim_safetensors_close(s);
    free(from);
    free(to);
    test_ctx_close(c);
}

TEST(a_folder_with_a_model_is_refused_and_stays)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const char *const ours[] = {"config.json", "model-00001-of-00002.safetensors",
                                       "model.safetensors.index.json"};
    for (size_t i = 0; i < 3; i++) {
        const char *out = test_folder("random-taken");
        test_write(test_path(out, ours[i]), "mine", 4);
        plim_random_folder f = folder_of(GOLDEN("qwen3-tiny"), out);
        CHECK_FAILS(c, PLIM_E_IO, plim_random_folder_write(c, &f), "random-taken", ours[i], "new folder");
        assert_int_equal(entries(out), 1);
    }
    const char *out = test_folder("random-readme");
    test_write(test_path(out, "README.md"), "mine", 4);
    plim_random_folder f = folder_of(GOLDEN("qwen3-tiny"), out);
    CHECK_OK(c, plim_random_folder_write(c, &f));
    assert_int_equal(entries(out), 3);
    test_ctx_close(c);
}

TEST(bad_requests_leave_nothing)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *parent = test_folder("random-bad");
    const char *out = test_path(parent, "model"), *file = test_path(parent, "file");
    test_write(file, "x", 1);
    plim_random_folder f = folder_of(GOLDEN("qwen3-tiny"), out);
    f.shard_bytes = 0;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_random_folder_write(c, &f), "2GB");
    f = folder_of(GOLDEN("qwen3-tiny"), file);
    CHECK_FAILS(c, PLIM_E_IO, plim_random_folder_write(c, &f), "random-bad/file");
    f = folder_of(GOLDEN("qwen3-tiny"), test_path(parent, "no/such"));
    CHECK_FAILS(c, PLIM_E_IO, plim_random_folder_write(c, &f), "no/such");
    f = folder_of(test_path(parent, "none.json"), out);
    CHECK_FAILS(c, PLIM_E_IO, plim_random_folder_write(c, &f), "none.json");
    f = folder_of(file, out);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_random_folder_write(c, &f), "random-bad/file");
    assert_int_equal(entries(parent), 1);
    test_ctx_close(c);
}

TEST(a_full_disk_leaves_nothing)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    struct rlimit before, small;
    const char *parent = test_folder("random-full");
    plim_random_folder f = folder_of(GOLDEN("qwen3_5-tiny"), test_path(parent, "model"));
    f.shard_bytes = 150000; /* the first shard is the embedding, 131 kB; the second is a little larger */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    static const struct {
        rlim_t bytes;
        const char *shard;
    } cases[] = {{100000, "model-00001-of-"}, {132500, "model-00002-of-"}};
    for (size_t i = 0; i < 2; i++) {
        small = before;
        small.rlim_cur = cases[i].bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        plim_status st = plim_random_folder_write(c, &f);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        CHECK_FAILS(c, PLIM_E_IO, st, cases[i].shard, "writing failed");
        assert_int_equal(entries(parent), 0);
    }
    test_ctx_close(c);
}

static void see(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
    uint64_t *seen = user;
    if (done_bytes <= seen[0]) fail_msg("progress stands still");
    seen[0] = done_bytes;
    seen[1] = total_bytes;
}

TEST(progress_counts_bytes)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    uint64_t seen[2] = {0, 0};
    plim_random_folder f = folder_of(GOLDEN("qwen3_5-tied"), test_path(test_folder("random-progress"), "m"));
    f.dtype = PLIM_BF16;
    f.shard_bytes = 300000;
    f.progress = see;
    f.progress_user = seen;
    CHECK_OK(c, plim_random_folder_write(c, &f));
    CHECK_OK(c, plim_spec_load(c, f.out, &drawn.spec));
    assert_int_equal(seen[0], seen[1]);
    assert_int_equal(seen[1], 2 * plim_spec_counts(&drawn.spec).parameters);
    test_ctx_close(c);
}

static plim_status write_once(plim_ctx *c, void *user)
{
    const char *parent = test_folder("random-oom");
    plim_random_folder f = folder_of(user, test_path(parent, "model"));
    f.shard_bytes = 400000;
    plim_status st = plim_random_folder_write(c, &f);
    if (st && entries(parent) != 0) fail_msg("a failure left files");
    return st;
}

TEST(no_memory_leaves_nothing)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *config = write_config("random-oom-config", CONFIG_MULTIMODAL);
    assert_true(test_every_allocation(c, write_once, (void *)(uintptr_t)config) > 20);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(a_folder_holds_the_bits_that_memory_gets),
        cmocka_unit_test(a_shard_holds_at_least_one_tensor),
        cmocka_unit_test(tensors_larger_than_a_block_are_whole),
        cmocka_unit_test(each_kind_of_tensor_has_its_distribution),
        cmocka_unit_test(a_projection_is_its_own_stream_whatever_it_is_fused_with),
        cmocka_unit_test(a_tensor_may_be_drawn_in_pieces),
        cmocka_unit_test(a_range_too_large_for_the_dtype_is_refused),
        cmocka_unit_test(the_config_is_copied_and_the_header_says_pt),
        cmocka_unit_test(a_folder_with_a_model_is_refused_and_stays),
        cmocka_unit_test(bad_requests_leave_nothing),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(progress_counts_bytes),
        cmocka_unit_test(no_memory_leaves_nothing),
    };
    return RUN_TESTS(table);
}
