/* The sigmoid gate on attention's output: interleaved gates, no gate, aliases, delta, slopes. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_ops.h"
#include "reference/dense.h"
#include "reference/dense_case.h"

static const int64_t shapes[][4] = {{0, 2, 4, 8},
                                    {1, 1, 1, 1},
                                    {3, 2, 64, 128},
                                    {129, 3, 20, 41},
                                    {5, 4, 127, 127}}; /* rows, heads, dim, stride */

static void check_shape(ops_fixture *f, plim_dtype act, const int64_t *shape, bool gated, bool alias)
{
    const int64_t rows = shape[0], heads = shape[1], dim = shape[2], stride = shape[3];
    const int64_t cols = heads * dim, wide = (heads - 1) * stride + dim;
    uint64_t seed = (uint64_t)cols;
    dense_input o = dense_random(&seed, act, rows, cols, 1, 1),
                gate = dense_random(&seed, act, rows, wide, 2, 3);
    dense_input du = dense_random(&seed, act, rows, cols, 0, 1),
                u_in = dense_random(&seed, act, rows, cols, 3, 1);
    dense_input old = dense_random(&seed, act, rows, wide, 0, 1);
    const plim_tensor u = io_make(act, rows, cols, 2, NULL),
                      dout = alias ? du.view : io_make(act, rows, cols, 1, NULL);
    const plim_tensor dgate = alias ? gate.view : io_make(act, rows, wide, 3, old.values);
    const plim_tensor delta = io_make(dense_stat(act), heads, rows, 5, NULL);
    double *want = calloc(3 * (size_t)(rows * cols) + 1, sizeof *want), *want_dout = want + rows * cols,
           *want_delta = want_dout + rows * cols;
    double *want_dgate = alias ? gate.values : old.values;
    for (int64_t i = 0; i < rows * cols; i++) {
        const int64_t t = i / cols, h = i % cols / dim, at = t * wide + h * stride + i % dim;
        const double g = gated ? gate.values[at] : INFINITY, s = gated ? reference_sigmoid(g) : 1;
        want[i] = o.values[i] * s;
        want_dout[i] = du.values[i] * s;
        want_delta[h * rows + t] += du.values[i] * u_in.values[i];
        if (gated) want_dgate[at] = du.values[i] * u_in.values[i] * reference_sigmoid(-g);
    }
    plim_attention_gate_args a = {.o = o.view,
                                  .gate = gated ? gate.view : (plim_tensor){0},
                                  .u = u,
                                  .heads = heads,
                                  .head_dim = dim,
                                  .gate_stride = stride};
    CHECK_OK(f->c, plim_cpu_attention_gate_fwd(f->d, &a));
    a.u = u_in.view, a.du = du.view, a.dout = dout, a.dgate = dgate, a.delta = delta;
    CHECK_OK(f->c, plim_cpu_attention_gate_bwd(f->d, &a));
    const double step = dense_step(act), slack = 0x1p-48;
    dense_expect("u", u, want, step, slack);
    dense_expect("dout", dout, want_dout, step, slack);
    dense_expect("delta", delta, want_delta, dense_step(dense_stat(act)), (double)dim * slack);
    dense_expect("dgate", dgate, want_dgate, step, slack);
    io_free(u), io_free(delta), free(want);
    if (!alias) io_free(dgate), io_free(dout);
    dense_free(&o), dense_free(&gate), dense_free(&du), dense_free(&u_in), dense_free(&old);
}

TEST(values_and_gradients_match)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 5; s++)
            for (int kind = 0; kind < 3; kind++)
                check_shape(&f, ops_dtypes[t].act, shapes[s], kind > 0, kind == 2);
    ops_close(&f);
}

typedef struct slopes {
    ops_fixture f;
    double x[12], du[6], u[6], dx[12], delta[2]; /* o then gate */
    plim_attention_gate_args a;
} slopes;

static double weighted(void *user)
{
    slopes *s = user;
    double sum = 0;
    CHECK_OK(s->f.c, plim_cpu_attention_gate_fwd(s->f.d, &s->a));
    for (int i = 0; i < 6; i++) sum += s->u[i] * s->du[i];
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    slopes s = {.f = ops_open(1)};
    uint64_t seed = 2;
    for (int i = 0; i < 12; i++) s.x[i] = io_normal(&seed), s.du[i / 2] = io_normal(&seed);
    const plim_tensor six = {NULL, PLIM_F64, 1, 6, 6};
    s.a = (plim_attention_gate_args){.o = six,
                                     .gate = six,
                                     .u = six,
                                     .du = six,
                                     .dout = six,
                                     .dgate = six,
                                     .delta = {s.delta, PLIM_F64, 2, 1, 1},
                                     .heads = 2,
                                     .head_dim = 3,
                                     .gate_stride = 3};
    s.a.o.data = s.x, s.a.gate.data = s.x + 6, s.a.u.data = s.u, s.a.du.data = s.du, s.a.dout.data = s.dx,
    s.a.dgate.data = s.dx + 6;
    const double sum = weighted(&s);
    CHECK_OK(s.f.c, plim_cpu_attention_gate_bwd(s.f.d, &s.a));
    assert_true(fabs(s.delta[0] + s.delta[1] - sum) < 1e-14);
    dense_differences("attention_gate", s.x, s.dx, 12, 1, weighted, &s);
    ops_close(&s.f);
}

TEST(refuses_what_does_not_fit)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float x[16] = {0};
    const plim_tensor v = {x, PLIM_F32, 2, 8, 8};
    plim_attention_gate_args a = {.o = v, .gate = v, .u = v, .heads = 2, .head_dim = 4, .gate_stride = 8};
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_attention_gate_fwd(f.d, &a), "gate", "8 columns", "12");
    a.heads = 3;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_attention_gate_fwd(f.d, &a), "u is 2 x 8", "2 x 12");
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
