/* Unit length of keys and queries: values with and without weight of the eps, in place, gradients. */
#include "support/test.h"

#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_io.h"
#include "reference/delta_mixer.h"
#include "reference/delta_ops.h"

/* rows, heads, head size, size of the numbers (1e-3: the eps matters; 0: nothing but the eps) */
static const struct {
    int64_t rows, heads, dim;
    double size;
} shapes[] = {{1, 1, 8, 1}, {5, 3, 128, 1}, {7, 2, 33, 1e-3}, {200, 16, 16, 1}, {3, 2, 8, 0}};

TEST(matches_the_reference)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const ops_dtype *t = ops_dtypes + k;
            const int64_t rows = shapes[i].rows, dim = shapes[i].dim, cols = shapes[i].heads * dim;
            const double scale = 0.25;
            uint64_t seed = i;
            double *x = ops_normals(t->act, rows * cols, shapes[i].size, &seed);
            double *dy = ops_normals(t->act, rows * cols, 1, &seed);
            double *y = calloc((size_t)(rows * cols), sizeof *y),
                   *dx = calloc((size_t)(rows * cols), sizeof *dx);
            reference_l2norm_fwd(x, y, rows * shapes[i].heads, dim, scale);
            reference_l2norm_bwd(x, dy, dx, rows * shapes[i].heads, dim, scale);
            plim_l2norm_args a = {.x = io_make(t->act, rows, cols, 3, x),
                                  .y = io_make(t->act, rows, cols, 0, NULL),
                                  .dy = io_make(t->act, rows, cols, 1, dy),
                                  .dx = io_make(t->act, rows, cols, 2, NULL),
                                  .dim = dim,
                                  .scale = scale};
            CHECK_OK(f.c, plim_cpu_l2norm_fwd(f.d, &a));
            CHECK_OK(f.c, plim_cpu_l2norm_bwd(f.d, &a));
            ops_expect("y", a.y, y, t->tolerance);
            ops_expect("dx", a.dx, dx, t->tolerance);
            a.dx = a.dy;
            CHECK_OK(f.c, plim_cpu_l2norm_bwd(f.d, &a));
            ops_expect("dx in place", a.dx, dx, t->tolerance);
            a.y = a.x;
            CHECK_OK(f.c, plim_cpu_l2norm_fwd(f.d, &a));
            ops_expect("y in place", a.y, y, t->tolerance);
            free(x), free(dy), free(y), free(dx);
        }
    ops_close(&f);
}

typedef struct slope_of {
    ops_fixture *f;
    double *x, *dy;
} slope_of;

static double objective(void *user)
{
    slope_of *u = user;
    plim_l2norm_args a = {.x = io_make(PLIM_F64, 4, 36, 0, u->x), .dim = 12, .scale = 0.5};
    a.y = a.x;
    CHECK_OK(u->f->c, plim_cpu_l2norm_fwd(u->f->d, &a));
    double *y = io_copy(a.y), sum = 0;
    for (int i = 0; i < 4 * 36; i++) sum += y[i] * u->dy[i];
    free(y), io_free(a.x);
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    uint64_t seed = 3;
    slope_of u = {&f, ops_normals(PLIM_F64, 4 * 36, 1, &seed), ops_normals(PLIM_F64, 4 * 36, 1, &seed)};
    plim_l2norm_args a = {.x = io_make(PLIM_F64, 4, 36, 0, u.x),
                          .dy = io_make(PLIM_F64, 4, 36, 0, u.dy),
                          .dx = io_make(PLIM_F64, 4, 36, 0, NULL),
                          .dim = 12,
                          .scale = 0.5};
    CHECK_OK(f.c, plim_cpu_l2norm_bwd(f.d, &a));
    double *dx = io_copy(a.dx);
    ops_check_slope("x", objective, &u, u.x, dx, 4 * 36);
    free(dx), free(u.x), free(u.dy), io_free(a.x), io_free(a.dy), io_free(a.dx);
    ops_close(&f);
}

TEST(refuses_what_it_cannot_do)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    plim_tensor x = io_make(PLIM_F32, 2, 12, 0, NULL);
    plim_l2norm_args a = {.x = x, .y = x, .dim = 5, .scale = 1};
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_l2norm_fwd(f.d, &a), "l2norm_fwd", "12 columns", "5");
    a.dim = 0;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_l2norm_fwd(f.d, &a), "groups of 0");
    a.dim = 6, a.y.dtype = PLIM_BF16;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_l2norm_fwd(f.d, &a), "y is BF16");
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_l2norm_bwd(f.d, &a), "l2norm_bwd", "dy");
    io_free(x);
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(matches_the_reference),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    return RUN_TESTS(table);
}
