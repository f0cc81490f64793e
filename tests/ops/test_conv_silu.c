/* The convolution with SiLU: documents, tiles with history and carry, gradients, refusals. */
#include "support/test.h"

#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_io.h"
#include "reference/delta_mixer.h"
#include "reference/delta_ops.h"

enum { DOCUMENTS = 6 };
static const int64_t start[DOCUMENTS + 1] = {0, 1, 3, 3, 20, 86, 91};

typedef struct problem {
    int64_t ch, taps, tokens;
    double *m, *w, *dy, *y, *dm; /* the last two: what the reference says */
} problem;

static problem make(const ops_dtype *t, int64_t ch, int64_t taps)
{
    uint64_t seed = (uint64_t)(ch * 10 + taps);
    const int64_t T = start[DOCUMENTS];
    problem p = {.ch = ch, .taps = taps, .tokens = T};
    p.m = ops_normals(t->act, T * ch, 1, &seed);
    p.w = ops_normals(t->stat, ch * taps, 1, &seed);
    p.dy = ops_normals(t->act, T * ch, 1, &seed);
    p.y = calloc((size_t)(T * ch), sizeof(double));
    p.dm = calloc((size_t)(T * ch), sizeof(double));
    reference_conv_silu_fwd(p.m, p.w, p.y, ch, taps, DOCUMENTS, start);
    reference_conv_silu_bwd(p.m, p.w, p.dy, p.dm, ch, taps, DOCUMENTS, start);
    return p;
}

static void drop(problem *p)
{
    free(p->m), free(p->w), free(p->dy), free(p->y), free(p->dm);
}

/* Runs both directions in tiles; y and dm are views to check and free.  history is NaN where it must not
 * matter. */
static void run(ops_fixture *f, const problem *p, const ops_dtype *t, int64_t tile, plim_tensor *y,
                plim_tensor *dm)
{
    const int64_t T = p->tokens, keep = p->taps - 1;
    double *zero = calloc((size_t)(keep * p->ch) + 1, sizeof *zero);
    plim_tensor m = io_make(t->act, T, p->ch, 3, p->m), dy = io_make(t->act, T, p->ch, 1, p->dy);
    plim_tensor history = io_make(t->act, keep, p->ch, 2, NULL);
    plim_conv_silu_args a = {.w = io_make(t->stat, p->ch, p->taps, 1, p->w),
                             .carry = io_make(t->stat, keep, p->ch, 5, zero),
                             .docs = {DOCUMENTS, T, 66, start, start}};
    *y = io_make(t->act, T, p->ch, 4, NULL);
    *dm = io_make(t->act, T, p->ch, 2, NULL);
    const int64_t last = (T - 1) / tile * tile;
    for (int backward = 0; backward < 2; backward++)
        for (int64_t i = 0; i <= last; i += tile) {
            const int64_t first = backward ? last - i : i, rows = T - first < tile ? T - first : tile;
            a.first_row = first;
            a.m = plim_tensor_rows(m, first, rows);
            a.dy = plim_tensor_rows(dy, first, rows);
            a.y = plim_tensor_rows(*y, first, rows);
            a.dm = plim_tensor_rows(*dm, first, rows);
            a.history = first >= keep ? plim_tensor_rows(m, first - keep, keep) : history;
            for (int64_t r = first; first < keep && r > 0;
                 r--) /* what there is before the tile, at its end */
                memcpy((char *)history.data + (size_t)((keep - r) * history.pitch) * plim_dtype_bytes(t->act),
                       (char *)m.data + (size_t)((first - r) * m.pitch) * plim_dtype_bytes(t->act),
                       (size_t)p->ch * plim_dtype_bytes(t->act));
            if (backward) CHECK_OK(f->c, plim_cpu_conv_silu_bwd(f->d, &a));
            else CHECK_OK(f->c, plim_cpu_conv_silu_fwd(f->d, &a));
        }
    assert_true(io_guarded(a.carry) && io_guarded(history) && io_guarded(m) && io_guarded(dy) &&
                io_guarded(a.w));
    io_free(m), io_free(dy), io_free(history), io_free(a.w), io_free(a.carry), free(zero);
}

TEST(matches_the_reference)
{
    UNUSED_STATE;
    static const int64_t shapes[][2] = {{1, 4}, {12, 4}, {300, 4}, {5, 1}, {5, 2}, {7, 8}};
    ops_fixture f = ops_open(2);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const ops_dtype *t = ops_dtypes + k;
            problem p = make(t, shapes[i][0], shapes[i][1]);
            plim_tensor y, dm;
            run(&f, &p, t, p.tokens, &y, &dm);
            ops_expect("y", y, p.y, t->tolerance);
            ops_expect("dm", dm, p.dm, t->tolerance);
            drop(&p);
        }
    ops_close(&f);
}

/* Tiles of one row to all, shorter and longer than the taps: the same bits as in one piece. */
TEST(tiles_change_no_bit)
{
    UNUSED_STATE;
    static const int64_t tiles[] = {1, 2, 3, 4, 7, 64, 90};
    ops_fixture f = ops_open(2);
    for (int k = 0; k < 3; k++) {
        const ops_dtype *t = ops_dtypes + k;
        problem p = make(t, 300, 4);
        plim_tensor y, dm;
        run(&f, &p, t, p.tokens, &y, &dm);
        double *want_y = io_copy(y), *want_dm = io_copy(dm);
        io_free(y), io_free(dm);
        for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
            run(&f, &p, t, tiles[i], &y, &dm);
            ops_expect("y", y, want_y, 0);
            ops_expect("dm", dm, want_dm, 0);
        }
        free(want_y), free(want_dm), drop(&p);
    }
    ops_close(&f);
}

typedef struct slope_of {
    ops_fixture *f;
    problem *p;
} slope_of;

static double objective(void *user)
{
    slope_of *u = user;
    plim_tensor y, dm;
    run(u->f, u->p, ops_dtypes, 40, &y, &dm);
    double *got = io_copy(y), sum = 0;
    for (int64_t i = 0; i < u->p->tokens * u->p->ch; i++) sum += got[i] * u->p->dy[i];
    free(got), io_free(y), io_free(dm);
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    problem p = make(ops_dtypes, 9, 4);
    plim_tensor y, dm;
    run(&f, &p, ops_dtypes, 40, &y, &dm);
    double *gradient = io_copy(dm);
    slope_of u = {&f, &p};
    ops_check_slope("m", objective, &u, p.m, gradient, p.tokens * p.ch);
    free(gradient), io_free(y), io_free(dm), drop(&p);
    ops_close(&f);
}

TEST(refuses_what_it_cannot_do)
{
    UNUSED_STATE;
    static const int64_t odd[] = {0, 5, 3, 8};
    ops_fixture f = ops_open(1);
    plim_tensor m = io_make(PLIM_F32, 8, 6, 0, NULL), y = io_make(PLIM_F32, 8, 6, 0, NULL);
    const plim_conv_silu_args good = {.m = m,
                                      .y = y,
                                      .w = io_make(PLIM_F32, 6, 4, 0, NULL),
                                      .docs = {1, 8, 8, (const int64_t[]){0, 8}, (const int64_t[]){0, 8}}};
    plim_conv_silu_args a = good;
    a.w.cols = 9;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_conv_silu_fwd(f.d, &a), "conv_silu_fwd", "9 taps", "8");
    a = good, a.first_row = 1;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_conv_silu_fwd(f.d, &a), "history");
    a.history = plim_tensor_rows(m, 0, 3);
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_conv_silu_fwd(f.d, &a), "8 rows from row 1", "sequence of 8");
    a = good, a.docs.start_host = odd, a.docs.count = 3;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_conv_silu_fwd(f.d, &a), "documents");
    a = good, a.m.dtype = PLIM_F16;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_conv_silu_fwd(f.d, &a), "F16");
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_conv_silu_bwd(f.d, &good), "conv_silu_bwd", "dy");
    a = good, a.m.rows = a.y.rows = 0;
    CHECK_OK(f.c, plim_cpu_conv_silu_fwd(f.d, &a));
    io_free(m), io_free(y), io_free(good.w);
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(matches_the_reference),
        cmocka_unit_test(tiles_change_no_bit),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    return RUN_TESTS(table);
}
