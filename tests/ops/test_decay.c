/* Decay and write strength: values to the ends of softplus and sigmoid, gradients as slopes, refusals. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_io.h"
#include "reference/delta_mixer.h"
#include "reference/delta_ops.h"

enum { ROWS = 37, HEADS = 6, GATES = ROWS * HEADS };

typedef struct problem {
    double bl[GATES], a[GATES], a_log[HEADS], dt_bias[HEADS], dg[GATES], dbl[GATES];
} problem;

static problem make(plim_dtype stat, double size)
{
    problem p;
    uint64_t seed = 5;
    for (int i = 0; i < GATES; i++) {
        p.bl[i] = size * io_normal(&seed);
        p.a[i] = size * io_normal(&seed);
        p.dg[i] = io_normal(&seed);
        p.dbl[i] = io_normal(&seed);
    }
    for (int h = 0; h < HEADS; h++) {
        p.a_log[h] = io_normal(&seed);
        p.dt_bias[h] = io_normal(&seed);
    }
    io_round(stat, (double *)&p, (int64_t)(sizeof p / sizeof(double)));
    return p;
}

static plim_tensor joined(plim_dtype stat, const problem *p)
{
    double ba[2 * GATES];
    for (int t = 0; t < ROWS; t++)
        for (int h = 0; h < HEADS; h++) {
            ba[t * 2 * HEADS + h] = p->bl[t * HEADS + h];
            ba[t * 2 * HEADS + HEADS + h] = p->a[t * HEADS + h];
        }
    return io_make(stat, ROWS, 2 * HEADS, 3, ba);
}

/* size 1: usual; 40: e^-x overflows float; 800: it overflows double */
TEST(matches_the_reference)
{
    UNUSED_STATE;
    static const double sizes[] = {1, 40, 800};
    ops_fixture f = ops_open(2);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++) {
            const ops_dtype *t = ops_dtypes + k;
            problem p = make(t->stat, sizes[i]);
            double g[GATES], beta[GATES];
            reference_decay_fwd(p.bl, p.a, p.a_log, p.dt_bias, g, beta, ROWS, HEADS);
            plim_decay_args a = {.ba = joined(t->stat, &p),
                                 .a_log = io_make(t->stat, 1, HEADS, 0, p.a_log),
                                 .dt_bias = io_make(t->stat, 1, HEADS, 0, p.dt_bias),
                                 .g = io_make(t->stat, ROWS, HEADS, 1, NULL),
                                 .beta = io_make(t->stat, ROWS, HEADS, 2, NULL)};
            CHECK_OK(f.c, plim_cpu_decay_fwd(f.d, &a));
            double *got = io_copy(a.g);
            for (int j = 0; j < GATES; j++) assert_true(isfinite(got[j]) && got[j] <= 0);
            free(got);
            ops_expect("g", a.g, g, t->tolerance);
            ops_expect("beta", a.beta, beta, t->tolerance);
            io_free(a.ba), io_free(a.a_log), io_free(a.dt_bias);
        }
    ops_close(&f);
}

typedef struct slope_of {
    ops_fixture *f;
    problem *p;
} slope_of;

static double objective(void *user)
{
    const problem *p = ((slope_of *)user)->p;
    double g[GATES], beta[GATES], sum = 0;
    plim_decay_args a = {.ba = joined(PLIM_F64, p),
                         .a_log = io_make(PLIM_F64, 1, HEADS, 0, p->a_log),
                         .dt_bias = io_make(PLIM_F64, 1, HEADS, 0, p->dt_bias),
                         .g = io_make(PLIM_F64, ROWS, HEADS, 0, NULL),
                         .beta = io_make(PLIM_F64, ROWS, HEADS, 0, NULL)};
    CHECK_OK(((slope_of *)user)->f->c, plim_cpu_decay_fwd(((slope_of *)user)->f->d, &a));
    io_read(a.g, g), io_read(a.beta, beta);
    for (int i = 0; i < GATES; i++) sum += p->dg[i] * g[i];
    io_free(a.ba), io_free(a.a_log), io_free(a.dt_bias), io_free(a.g), io_free(a.beta);
    return sum;
}

/* dbl arrives as the gradient at bl already and is passed on; da is the slope of g. */
TEST(gradients_are_slopes_in_every_dtype)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    for (int k = 0; k < 3; k++) {
        const ops_dtype *t = ops_dtypes + k;
        problem p = make(t->stat, 2);
        plim_decay_args a = {.ba = joined(t->stat, &p),
                             .a_log = io_make(t->stat, 1, HEADS, 0, p.a_log),
                             .dt_bias = io_make(t->stat, 1, HEADS, 0, p.dt_bias),
                             .dg = io_make(t->stat, ROWS, HEADS, 1, p.dg),
                             .dbl = io_make(t->stat, ROWS, HEADS, 2, p.dbl),
                             .dba = io_make(t->act, ROWS, 2 * HEADS, 3, NULL)};
        CHECK_OK(f.c, plim_cpu_decay_bwd(f.d, &a));
        double *dba = io_copy(a.dba), da[GATES], dbl[GATES];
        for (int i = 0; i < GATES; i++) {
            dbl[i] = dba[i / HEADS * 2 * HEADS + i % HEADS];
            da[i] = dba[i / HEADS * 2 * HEADS + HEADS + i % HEADS];
        }
        assert_true(io_error(dbl, p.dbl, GATES) <= t->tolerance);
        if (t->act == PLIM_F64) {
            slope_of u = {&f, &p};
            ops_check_slope("a", objective, &u, p.a, da, GATES);
        }
        for (int i = 0; i < GATES; i++) {
            const double x = p.a[i] + p.dt_bias[i % HEADS];
            p.dg[i] *= -exp(p.a_log[i % HEADS]) / (1 + exp(-x));
        }
        assert_true(io_error(da, p.dg, GATES) <= t->tolerance);
        assert_true(io_guarded(a.dba));
        io_free(a.ba), io_free(a.a_log), io_free(a.dt_bias), io_free(a.dg), io_free(a.dbl), io_free(a.dba);
        free(dba);
    }
    ops_close(&f);
}

TEST(refuses_what_it_cannot_do)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    plim_tensor x = io_make(PLIM_F32, 2, 12, 0, NULL), gate = io_make(PLIM_F32, 2, 6, 0, NULL);
    plim_decay_args a = {.ba = x,
                         .a_log = plim_tensor_rows(gate, 0, 1),
                         .dt_bias = plim_tensor_rows(gate, 0, 1),
                         .g = gate,
                         .beta = gate};
    a.ba.cols = 11;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_decay_fwd(f.d, &a), "decay_fwd", "ba is 2 x 11", "2 x 12");
    a.ba = x, a.ba.dtype = PLIM_BF16;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_decay_fwd(f.d, &a), "BF16", "F32");
    a.ba = x, a.beta.rows = 1;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_decay_fwd(f.d, &a), "beta");
    a.dg = gate, a.dbl = gate, a.dba = plim_tensor_cols(x, 0, 6);
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_decay_bwd(f.d, &a), "decay_bwd", "dba is 2 x 6");
    io_free(x), io_free(gate);
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(matches_the_reference),
        cmocka_unit_test(gradients_are_slopes_in_every_dtype),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    return RUN_TESTS(table);
}
