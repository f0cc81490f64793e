/* Head norm and rotary against a norm and a rotation done one after the other; strides, no norm, slopes. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_ops.h"
#include "reference/dense.h"
#include "reference/dense_case.h"

typedef struct shape {
    int64_t rows, heads, dim, stride, half;
    bool normed, unit;
} shape;

static const shape shapes[] = {{0, 2, 4, 4, 2, true, true},       {1, 1, 2, 2, 1, false, false},
                               {3, 5, 64, 64, 32, true, false},   {7, 3, 64, 128, 16, true, true},
                               {4, 2, 20, 33, 7, true, true},     {5, 2, 24, 24, 0, true, true},
                               {130, 4, 32, 32, 16, false, false}};

/* Angles are not those of a position: any pair with cos^2 + sin^2 = 1 will do. */
static void angles(uint64_t *seed, plim_dtype stat, const shape *s, dense_input *cosine, dense_input *sine)
{
    *cosine = dense_random(seed, stat, s->rows, s->half, 1, 1);
    *sine = dense_random(seed, stat, s->rows, s->half, 1, 1);
    io_free(cosine->view), io_free(sine->view);
    for (int64_t i = 0; i < s->rows * s->half; i++) {
        const double angle = 3 * cosine->values[i];
        cosine->values[i] = cos(angle), sine->values[i] = sin(angle);
    }
    io_round(stat, cosine->values, s->rows * s->half), io_round(stat, sine->values, s->rows * s->half);
    cosine->view = io_make(stat, s->rows, s->half, 1, cosine->values);
    sine->view = io_make(stat, s->rows, s->half, 2, sine->values);
}

static void check_shape(ops_fixture *f, plim_dtype act, const shape *s, bool alias)
{
    const int64_t wide = (s->heads - 1) * s->stride + s->dim + 3, packed = s->heads * s->dim;
    uint64_t seed = (uint64_t)s->dim;
    dense_input x = dense_random(&seed, act, s->rows, wide, 2, 2),
                w = dense_random(&seed, dense_stat(act), 1, s->dim, 0, 0.5);
    dense_input dy = dense_random(&seed, act, s->rows, packed, 1, 1),
                old = dense_random(&seed, act, s->rows, wide, 2, 1);
    if (alias) memcpy(old.values, x.values, (size_t)(s->rows * wide) * sizeof *old.values);
    dense_input cosine, sine;
    angles(&seed, dense_stat(act), s, &cosine, &sine);
    const plim_tensor y = io_make(act, s->rows, packed, 2, NULL),
                      dx = alias ? x.view : io_make(act, s->rows, wide, 1, old.values);
    double *want = calloc((size_t)(s->rows * packed) + 1, sizeof *want),
           *head = calloc((size_t)s->dim, sizeof *head);
    const double eps = 1e-6, offset = s->unit ? 1 : 0;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t h = 0; h < s->heads; h++) {
            const double *in = x.values + i * wide + h * s->stride, *c = cosine.values + i * s->half,
                         *sn = sine.values + i * s->half;
            double *out = want + i * packed + h * s->dim, *back = old.values + i * wide + h * s->stride;
            if (s->normed) reference_rmsnorm(s->dim, in, w.values, eps, offset, head);
            reference_rotate(s->dim, s->half, c, sn, 1, s->normed ? head : in, out);
            reference_rotate(s->dim, s->half, c, sn, -1, dy.values + i * packed + h * s->dim, head);
            if (s->normed) reference_rmsnorm_bwd(s->dim, in, w.values, eps, offset, head, back);
            else memcpy(back, head, (size_t)s->dim * sizeof *back);
        }
    const plim_head_rope_args a = {.x = x.view,
                                   .w = s->normed ? w.view : (plim_tensor){0},
                                   .cos = cosine.view,
                                   .sin = sine.view,
                                   .y = y,
                                   .dy = dy.view,
                                   .dx = dx,
                                   .heads = s->heads,
                                   .head_dim = s->dim,
                                   .head_stride = s->stride,
                                   .eps = eps,
                                   .unit_offset = s->unit};
    CHECK_OK(f->c, plim_cpu_head_rope_fwd(f->d, &a));
    CHECK_OK(f->c, plim_cpu_head_rope_bwd(f->d, &a));
    const double slack = (double)(s->dim + 8) * 0x1p-52;
    dense_expect("y", y, want, dense_step(act), slack * (1 + dense_largest(want, s->rows * packed)));
    /* columns between heads keep what they had */
    dense_expect("dx", dx, old.values, dense_step(act),
                 slack * (1 + dense_largest(old.values, s->rows * wide)));
    io_free(y), free(want), free(head);
    if (!alias) io_free(dx);
    dense_free(&x), dense_free(&w), dense_free(&dy), dense_free(&old), dense_free(&cosine), dense_free(&sine);
}

TEST(values_and_gradients_match)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 7; s++)
            check_shape(&f, ops_dtypes[t].act, &shapes[s], false),
                check_shape(&f, ops_dtypes[t].act, &shapes[s], true);
    ops_close(&f);
}

typedef struct slopes {
    ops_fixture f;
    double x[2][12], w[5], cosine[2][2], sine[2][2], dy[2][10], y[2][10], dx[2][12];
    plim_head_rope_args a;
} slopes;

static double weighted(void *user)
{
    slopes *s = user;
    double sum = 0;
    CHECK_OK(s->f.c, plim_cpu_head_rope_fwd(s->f.d, &s->a));
    for (int i = 0; i < 20; i++) sum += s->y[i / 10][i % 10] * s->dy[i / 10][i % 10];
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    slopes s = {.f = ops_open(1)};
    uint64_t seed = 9;
    for (int i = 0; i < 24; i++) s.x[i / 12][i % 12] = io_normal(&seed);
    for (int i = 0; i < 20; i++) s.dy[i / 10][i % 10] = io_normal(&seed);
    for (int i = 0; i < 5; i++) s.w[i] = io_normal(&seed);
    for (int i = 0; i < 4; i++) s.cosine[i / 2][i % 2] = cos(i + 0.3), s.sine[i / 2][i % 2] = sin(i + 0.3);
    s.a = (plim_head_rope_args){.x = {s.x, PLIM_F64, 2, 12, 12},
                                .w = {s.w, PLIM_F64, 1, 5, 5},
                                .cos = {s.cosine, PLIM_F64, 2, 2, 2},
                                .sin = {s.sine, PLIM_F64, 2, 2, 2},
                                .y = {s.y, PLIM_F64, 2, 10, 10},
                                .dy = {s.dy, PLIM_F64, 2, 10, 10},
                                .dx = {s.dx, PLIM_F64, 2, 12, 12},
                                .heads = 2,
                                .head_dim = 5,
                                .head_stride = 7,
                                .eps = 1e-3};
    CHECK_OK(s.f.c, plim_cpu_head_rope_bwd(s.f.d, &s.a));
    dense_differences("head_rope", &s.x[0][0], &s.dx[0][0], 24, 1, weighted, &s);
    ops_close(&s.f);
}

TEST(refuses_what_does_not_fit)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float x[64] = {0};
    plim_head_rope_args a = {.x = {x, PLIM_F32, 2, 8, 8},
                             .cos = {x, PLIM_F32, 2, 2, 2},
                             .sin = {x, PLIM_F32, 2, 2, 2},
                             .y = {x, PLIM_F32, 2, 8, 8},
                             .heads = 2,
                             .head_dim = 4,
                             .head_stride = 8};
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_head_rope_fwd(f.d, &a), "stride 8", "12");
    a.head_stride = 3;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_head_rope_fwd(f.d, &a), "stride 3");
    a.head_stride = 4, a.cos.cols = a.sin.cols = 3;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_head_rope_fwd(f.d, &a), "3 angles", "4");
    a.cos.cols = a.sin.cols = 2, a.sin.rows = 1;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_head_rope_fwd(f.d, &a), "sin", "1 x 2");
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(values_and_gradients_match),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return RUN_TESTS(table);
}
