/* The chunked delta rule against the recurrence token by token: values, gradients, tiles, documents,
 * extremes. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ops/chunk_table.h"
#include "ops/cpu/cpu.h"
#include "ops/delta_scratch.h"
#include "reference/delta_case.h"
#include "reference/delta_io.h"
#include "reference/delta_ops.h"

static const delta_shape shapes[] = {
    {1, 1, 8, 8, DELTA_MILD, 1, {1}},
    {1, 3, 16, 8, DELTA_MILD, 1, {63}},
    {2, 2, 8, 24, DELTA_MILD, 1, {64}},
    {2, 6, 20, 12, DELTA_MILD, 1, {65}},
    {1, 1, 128, 128, DELTA_MILD, 1, {150}},
    {1, 3, 64, 96, DELTA_STRONG, 2, {70, 64}},
    {2, 6, 20, 12, DELTA_STRONG, 5, {1, 64, 65, 3, 77}},
    {2, 6, 20, 12, DELTA_JUMPS, 3, {70, 1, 129}},
    {2, 2, 33, 17, DELTA_HOLD, 1, {130}},
    {1, 1, 256, 256, DELTA_MILD, 1, {66}},
    {1, 3, 32, 32, DELTA_PARALLEL, 2, {128, 30}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Shapes from first on: a single token's gradients are sums of 8 numbers that may cancel, no measure for
 * bf16. */
static void against_reference(plim_dtype act, int first, double tolerance)
{
    ops_fixture f = ops_open(2);
    for (int i = first; i < SHAPES; i++)
        for (int with_states = 0; with_states < 2; with_states++) {
            delta_case p = delta_case_make(shapes + i, act, with_states, (uint64_t)i);
            delta_result want = delta_case_reference(&p), got = delta_case_run(f.c, f.d, &p, p.tokens);
            delta_check(&p, &got, &want, tolerance);
            delta_result_free(&got), delta_result_free(&want), delta_case_free(&p);
        }
    ops_close(&f);
}

TEST(f64_matches_the_recurrence)
{
    UNUSED_STATE;
    against_reference(PLIM_F64, 0, 1e-10);
}

TEST(f32_matches_the_recurrence)
{
    UNUSED_STATE;
    against_reference(PLIM_F32, 0, 1e-5);
}

TEST(bf16_matches_the_recurrence)
{
    UNUSED_STATE;
    against_reference(PLIM_BF16, 1, 2e-2);
}

/* Tiles cut at multiples of 64 rows of every document make the same chunks, so the same bits. */
TEST(tiles_equal_the_whole)
{
    UNUSED_STATE;
    static const delta_shape s = {2, 6, 20, 12, DELTA_MILD, 3, {192, 64, 90}};
    static const int64_t tiles[] = {64, 128, 1, 7, 100, 65};
    ops_fixture f = ops_open(2);
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        for (int wide = 0; wide < 2; wide++) {
            delta_case p = delta_case_make(&s, wide ? PLIM_F64 : PLIM_F32, true, 7);
            delta_result whole = delta_case_run(f.c, f.d, &p, p.tokens),
                         got = delta_case_run(f.c, f.d, &p, tiles[i]);
            delta_check(&p, &got, &whole, i < 2 ? 0 : wide ? 1e-12 : 1e-5);
            delta_result_free(&got), delta_result_free(&whole), delta_case_free(&p);
        }
    ops_close(&f);
}

/* Rows first .. of a [T, cols] array. */
static bool same_rows(const double *packed, const double *alone, int64_t first, int64_t rows, int64_t cols)
{
    return memcmp(packed + first * cols, alone, (size_t)(rows * cols) * sizeof *alone) == 0;
}

TEST(documents_packed_equal_documents_apart)
{
    UNUSED_STATE;
    static const delta_shape s = {2, 6, 20, 12, DELTA_MILD, 5, {1, 64, 65, 3, 77}};
    const int64_t keys = s.key_heads * s.key_dim, values = s.value_heads * s.value_dim;
    ops_fixture f = ops_open(2);
    delta_case p = delta_case_make(&s, PLIM_F32, false, 11);
    delta_result packed = delta_case_run(f.c, f.d, &p, p.tokens);
    for (int64_t n = 0; n < s.documents; n++) {
        const int64_t first = p.start[n], rows = s.lengths[n];
        delta_case one = p;
        one.s.documents = 1;
        one.tokens = one.start[1] = rows;
        one.q += first * keys, one.k += first * keys, one.v += first * values, one.dout += first * values;
        one.g += first * s.value_heads, one.beta += first * s.value_heads;
        delta_result alone = delta_case_run(f.c, f.d, &one, rows);
        assert_true(same_rows(packed.o, alone.o, first, rows, values));
        assert_true(same_rows(packed.dq, alone.dq, first, rows, keys));
        assert_true(same_rows(packed.dk, alone.dk, first, rows, keys));
        assert_true(same_rows(packed.dv, alone.dv, first, rows, values));
        assert_true(same_rows(packed.dg, alone.dg, first, rows, s.value_heads));
        assert_true(same_rows(packed.dbl, alone.dbl, first, rows, s.value_heads));
        delta_result_free(&alone);
    }
    delta_result_free(&packed), delta_case_free(&p);
    ops_close(&f);
}

TEST(outputs_may_lie_over_inputs)
{
    UNUSED_STATE;
    static const delta_shape s = {2, 6, 20, 12, DELTA_MILD, 2, {200, 3}};
    ops_fixture f = ops_open(2);
    for (int k = 0; k < 3; k++) {
        delta_case p = delta_case_make(&s, ops_dtypes[k].act, true, 37);
        delta_result apart = delta_case_run(f.c, f.d, &p, 128);
        p.in_place = true;
        delta_result over = delta_case_run(f.c, f.d, &p, 128);
        delta_check(&p, &over, &apart, 0);
        delta_result_free(&over), delta_result_free(&apart), delta_case_free(&p);
    }
    ops_close(&f);
}

TEST(threads_change_no_bit)
{
    UNUSED_STATE;
    static const delta_shape s = {2, 6, 40, 24, DELTA_MILD, 2, {200, 90}};
    ops_fixture one = ops_open(1), three = ops_open(3);
    delta_case p = delta_case_make(&s, PLIM_BF16, true, 13);
    delta_result a = delta_case_run(one.c, one.d, &p, 128), b = delta_case_run(three.c, three.d, &p, 128);
    delta_check(&p, &b, &a, 0);
    delta_result_free(&a), delta_result_free(&b), delta_case_free(&p);
    ops_close(&three), ops_close(&one);
}

/* Nearly parallel keys: powers of A reach 1e17, the solution stays as small as its inputs. */
TEST(nearly_parallel_keys_stay_bounded)
{
    UNUSED_STATE;
    static const delta_shape s = {1, 1, 16, 16, DELTA_PARALLEL, 1, {256}};
    ops_fixture f = ops_open(1);
    delta_case p = delta_case_make(&s, PLIM_F32, false, 17);
    delta_result r = delta_case_run(f.c, f.d, &p, p.tokens);
    for (int64_t i = 0; i < s.key_dim * s.value_dim; i++) assert_true(fabs(r.state[i]) < 10);
    for (int64_t i = 0; i < p.tokens * s.value_dim; i++)
        assert_true(fabs(r.o[i]) < 10 && fabs(r.dv[i]) < 100);
    delta_result_free(&r), delta_case_free(&p);
    ops_close(&f);
}

typedef struct slope_of {
    ops_fixture *f;
    const delta_case *p;
} slope_of;

/* sum(o * dout) + sum(state * dstate_out), from the forward alone. */
static double objective(void *user)
{
    const slope_of *u = user;
    const delta_case *p = u->p;
    delta_result r = delta_case_run(u->f->c, u->f->d, p, 100);
    double sum = 0;
    for (int64_t i = 0; i < p->tokens * p->s.value_heads * p->s.value_dim; i++) sum += r.o[i] * p->dout[i];
    for (int64_t i = 0; i < p->s.value_heads * p->s.key_dim * p->s.value_dim; i++)
        sum += r.state[i] * p->dstate_out[i];
    delta_result_free(&r);
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    static const delta_shape s = {1, 3, 12, 10, DELTA_MILD, 3, {90, 5, 66}};
    ops_fixture f = ops_open(1);
    delta_case p = delta_case_make(&s, PLIM_F64, true, 23);
    delta_result r = delta_case_run(f.c, f.d, &p, 100);
    const int64_t T = p.tokens, gates = T * s.value_heads;
    slope_of u = {&f, &p};
    for (int64_t i = 0; i < gates; i++) r.dbl[i] /= p.beta[i] * (1 - p.beta[i]);
    ops_check_slope("q", objective, &u, p.q, r.dq, T * s.key_heads * s.key_dim);
    ops_check_slope("k", objective, &u, p.k, r.dk, T * s.key_heads * s.key_dim);
    ops_check_slope("v", objective, &u, p.v, r.dv, T * s.value_heads * s.value_dim);
    ops_check_slope("g", objective, &u, p.g, r.dg, gates);
    ops_check_slope("beta", objective, &u, p.beta, r.dbl, gates);
    ops_check_slope("state", objective, &u, p.state_in, r.dstate, s.value_heads * s.key_dim * s.value_dim);
    delta_result_free(&r), delta_case_free(&p);
    ops_close(&f);
}

/* beta = 0 and beta = 1 exactly: the division-free gradient stays finite. */
TEST(write_strength_at_its_ends)
{
    UNUSED_STATE;
    static const delta_shape s = {1, 1, 8, 8, DELTA_MILD, 1, {80}};
    ops_fixture f = ops_open(1);
    delta_case p = delta_case_make(&s, PLIM_F64, false, 29);
    for (int64_t i = 0; i < p.tokens; i++) p.beta[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 0.5;
    delta_result want = delta_case_reference(&p), got = delta_case_run(f.c, f.d, &p, p.tokens);
    delta_check(&p, &got, &want, 1e-10);
    delta_result_free(&got), delta_result_free(&want), delta_case_free(&p);
    ops_close(&f);
}

/* The same rows at a pitch that puts the last one past 2^31 elements. */
TEST(rows_past_two_to_the_31)
{
    UNUSED_STATE;
    static const delta_shape s = {1, 1, 8, 8, DELTA_MILD, 1, {66}};
    const int64_t pitch = INT64_C(1) << 26;
    const size_t bytes = (size_t)s.lengths[0] * (size_t)pitch * 4;
    float *far =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far == MAP_FAILED) skip();
    ops_fixture f = ops_open(1);
    delta_case p = delta_case_make(&s, PLIM_F32, false, 31);
    delta_result near = delta_case_run(f.c, f.d, &p, p.tokens);
    const int64_t T = p.tokens;
    const plim_tensor at = {far, PLIM_F32, T, 8, pitch}, gate = {far, PLIM_F32, T, 1, pitch};
    static const plim_chunk chunks[] = {{0, 64, 1, 0}, {64, 2, 0, 1}};
    double zero[64] = {0};
    plim_delta_args a = {.q = plim_tensor_cols(at, 0, 8),
                         .k = plim_tensor_cols(at, 8, 8),
                         .v = plim_tensor_cols(at, 16, 8),
                         .o = plim_tensor_cols(at, 24, 8),
                         .g = plim_tensor_cols(gate, 32, 1),
                         .beta = plim_tensor_cols(gate, 33, 1),
                         .state = io_make(PLIM_F32, 8, 8, 0, zero),
                         .key_heads = 1,
                         .value_heads = 1,
                         .key_dim = 8,
                         .value_dim = 8,
                         .chunks = chunks,
                         .chunk_count = 2,
                         .scratch_bytes = plim_delta_scratch_bytes(PLIM_F32, PLIM_F32, 1, 1, 8, 8, 2, false)};
    for (int64_t t = 0; t < T; t++) {
        float *row = far + t * pitch;
        for (int64_t j = 0; j < 8; j++) {
            row[j] = (float)p.q[t * 8 + j];
            row[8 + j] = (float)p.k[t * 8 + j];
            row[16 + j] = (float)p.v[t * 8 + j];
        }
        row[32] = (float)p.g[t];
        row[33] = (float)p.beta[t];
    }
    a.scratch = malloc(a.scratch_bytes);
    CHECK_OK(f.c, plim_cpu_delta_fwd(f.d, &a));
    for (int64_t t = 0; t < T; t++)
        for (int64_t j = 0; j < 8; j++) assert_true((double)far[t * pitch + 24 + j] == near.o[t * 8 + j]);
    free(a.scratch), io_free(a.state), munmap(far, bytes);
    delta_result_free(&near), delta_case_free(&p);
    ops_close(&f);
}

TEST(scratch_has_one_formula)
{
    UNUSED_STATE;
    /* 27B, a segment of 64 chunks in bf16, Hv 48: S 32 KiB, T 8 KiB, D 16 KiB; dS 32 KiB, dR 16 KiB, P^T dO
     * 16 KiB */
    const size_t blocks = 64 * 48, kib = 1024;
    assert_int_equal(plim_delta_scratch_bytes(PLIM_BF16, PLIM_F32, 48, 16, 128, 128, 64, false),
                     blocks * 56 * kib);
    assert_int_equal(plim_delta_scratch_bytes(PLIM_BF16, PLIM_F32, 48, 16, 128, 128, 64, true),
                     blocks * 120 * kib);
    const plim_delta_layout l = plim_delta_layout_of(PLIM_BF16, 48, 128, 128, 4096, true);
    assert_int_equal(l.t, UINT64_C(196608) * 32 * kib); /* past 2^31 */
    assert_int_equal(plim_delta_scratch_bytes(PLIM_F32, PLIM_F32, 3, 1, 5, 7, 0, true), 0);
    assert_int_equal(plim_delta_scratch_bytes(PLIM_F32, PLIM_F32, INT64_MAX, 1, 128, 128, 2, true), SIZE_MAX);
    assert_int_equal(plim_delta_scratch_bytes(PLIM_F32, PLIM_F32, 48, 16, 128, 128, INT64_MAX / 64, true),
                     SIZE_MAX);
    assert_int_equal(plim_delta_scratch_bytes(PLIM_F32, PLIM_F32, 48, 16, -1, 128, 1, true), SIZE_MAX);
}

TEST(refuses_what_it_cannot_do)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    plim_chunk chunks[2] = {{0, 64, 1, 0}, {64, 6, 0, 1}};
    const plim_delta_args good = {.q = io_make(PLIM_F32, 70, 16, 0, NULL),
                                  .k = io_make(PLIM_F32, 70, 16, 0, NULL),
                                  .v = io_make(PLIM_F32, 70, 32, 0, NULL),
                                  .o = io_make(PLIM_F32, 70, 32, 0, NULL),
                                  .g = io_make(PLIM_F32, 70, 4, 0, NULL),
                                  .beta = io_make(PLIM_F32, 70, 4, 0, NULL),
                                  .state = io_make(PLIM_F32, 32, 8, 0, NULL),
                                  .key_heads = 2,
                                  .value_heads = 4,
                                  .key_dim = 8,
                                  .value_dim = 8,
                                  .chunks = chunks,
                                  .chunk_count = 2,
                                  .scratch = malloc(1 << 20),
                                  .scratch_bytes = 1 << 20};
    plim_delta_args a = good;
    a.key_heads = 3;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_fwd(f.d, &a), "delta_fwd", "4 value heads", "3 key heads");
    a = good, a.key_dim = 300;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_fwd(f.d, &a), "300", "256");
    a = good, a.state.dtype = PLIM_BF16;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_fwd(f.d, &a), "state", "BF16", "F32");
    a = good, a.v.cols = 31;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_fwd(f.d, &a), "v is 70 x 31", "70 x 32");
    a = good, a.scratch_bytes = 1000;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_fwd(f.d, &a), "1000 bytes of scratch");
    a = good, a.chunk_count = 1;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_fwd(f.d, &a), "64 of 70 rows");
    a = good, chunks[1].first = 63;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_fwd(f.d, &a), "chunk 1", "row 63", "row 64");
    chunks[1].first = 64, chunks[0].rows = 65;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_fwd(f.d, &a), "chunk 0", "65 rows");
    chunks[0].rows = 64;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_delta_bwd(f.d, &good), "delta_bwd", "dout");
    for (int64_t i = 0; i < 70 * 32; i++) assert_true(isnan(((float *)good.o.data)[i]));
    a = good;
    a.chunk_count = 0;
    plim_tensor *views[] = {&a.q, &a.k, &a.v, &a.o, &a.g, &a.beta};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) views[i]->rows = 0;
    CHECK_OK(f.c, plim_cpu_delta_fwd(f.d, &a));
    assert_true(isnan(((float *)good.state.data)[0]));
    io_free(good.q), io_free(good.k), io_free(good.v), io_free(good.o), io_free(good.g), io_free(good.beta);
    io_free(good.state), free(good.scratch);
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(f64_matches_the_recurrence),
        cmocka_unit_test(f32_matches_the_recurrence),
        cmocka_unit_test(bf16_matches_the_recurrence),
        cmocka_unit_test(tiles_equal_the_whole),
        cmocka_unit_test(documents_packed_equal_documents_apart),
        cmocka_unit_test(outputs_may_lie_over_inputs),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(nearly_parallel_keys_stay_bounded),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(write_strength_at_its_ends),
        cmocka_unit_test(rows_past_two_to_the_31),
        cmocka_unit_test(scratch_has_one_formula),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    return RUN_TESTS(table);
}
