/* The delta mixer's output norm: plain gain, gate after the norm; in place; gradients as slopes. */
#include "support/test.h"

#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_io.h"
#include "reference/delta_mixer.h"
#include "reference/delta_ops.h"

static const struct {
    int64_t rows, heads, dim;
    double size; /* of o: at 1e-3 the eps matters */
} shapes[] = {{1, 1, 8, 1}, {5, 3, 128, 1}, {7, 2, 33, 1e-3}, {150, 6, 24, 1}};

TEST(matches_the_reference)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const ops_dtype *t = ops_dtypes + k;
            const int64_t rows = shapes[i].rows, dim = shapes[i].dim, cols = shapes[i].heads * dim,
                          n = rows * cols;
            uint64_t seed = i;
            double *o = ops_normals(t->act, n, shapes[i].size, &seed), *z = ops_normals(t->act, n, 3, &seed);
            double *w = ops_normals(t->stat, dim, 1, &seed), *dy = ops_normals(t->act, n, 1, &seed);
            double *y = calloc((size_t)n, sizeof *y), *dout = calloc((size_t)n, sizeof *y);
            double *dz = calloc((size_t)n, sizeof *y);
            reference_gated_norm_fwd(o, z, w, y, rows * shapes[i].heads, dim, 1e-6);
            reference_gated_norm_bwd(o, z, w, dy, dout, dz, rows * shapes[i].heads, dim, 1e-6);
            plim_gated_norm_args a = {.o = io_make(t->act, rows, cols, 1, o),
                                      .z = io_make(t->act, rows, cols, 2, z),
                                      .w = io_make(t->stat, 1, dim, 0, w),
                                      .y = io_make(t->act, rows, cols, 3, NULL),
                                      .dy = io_make(t->act, rows, cols, 0, dy),
                                      .dout = io_make(t->act, rows, cols, 4, NULL),
                                      .dz = io_make(t->act, rows, cols, 5, NULL),
                                      .eps = 1e-6};
            CHECK_OK(f.c, plim_cpu_gated_norm_fwd(f.d, &a));
            CHECK_OK(f.c, plim_cpu_gated_norm_bwd(f.d, &a));
            ops_expect("y", a.y, y, t->tolerance);
            ops_expect("dout", a.dout, dout, t->tolerance);
            ops_expect("dz", a.dz, dz, t->tolerance);
            a.dout = a.dy, a.dz = a.z;
            CHECK_OK(f.c, plim_cpu_gated_norm_bwd(f.d, &a));
            ops_expect("dout in place", a.dout, dout, t->tolerance);
            ops_expect("dz in place", a.dz, dz, t->tolerance);
            io_free(a.o), io_free(a.w);
            free(o), free(z), free(w), free(dy), free(y), free(dout), free(dz);
        }
    ops_close(&f);
}

enum { ROWS = 4, COLS = 30, DIM = 10, ALL = ROWS * COLS };

typedef struct slope_of {
    ops_fixture *f;
    double *o, *z, *w, *dy;
} slope_of;

static plim_gated_norm_args views(const slope_of *u)
{
    return (plim_gated_norm_args){.o = io_make(PLIM_F64, ROWS, COLS, 0, u->o),
                                  .z = io_make(PLIM_F64, ROWS, COLS, 0, u->z),
                                  .w = io_make(PLIM_F64, 1, DIM, 0, u->w),
                                  .y = io_make(PLIM_F64, ROWS, COLS, 0, NULL),
                                  .dy = io_make(PLIM_F64, ROWS, COLS, 0, u->dy),
                                  .dout = io_make(PLIM_F64, ROWS, COLS, 0, NULL),
                                  .dz = io_make(PLIM_F64, ROWS, COLS, 0, NULL),
                                  .eps = 1e-6};
}

static void drop(plim_gated_norm_args *a)
{
    io_free(a->o), io_free(a->z), io_free(a->w), io_free(a->y), io_free(a->dy), io_free(a->dout),
        io_free(a->dz);
}

static double objective(void *user)
{
    slope_of *u = user;
    plim_gated_norm_args a = views(u);
    CHECK_OK(u->f->c, plim_cpu_gated_norm_fwd(u->f->d, &a));
    double *y = io_copy(a.y), sum = 0;
    for (int i = 0; i < ALL; i++) sum += y[i] * u->dy[i];
    free(y), drop(&a);
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    uint64_t seed = 9;
    slope_of u = {&f, ops_normals(PLIM_F64, ALL, 1, &seed), ops_normals(PLIM_F64, ALL, 1, &seed),
                  ops_normals(PLIM_F64, DIM, 1, &seed), ops_normals(PLIM_F64, ALL, 1, &seed)};
    plim_gated_norm_args a = views(&u);
    CHECK_OK(f.c, plim_cpu_gated_norm_bwd(f.d, &a));
    double *dout = io_copy(a.dout), *dz = io_copy(a.dz);
    ops_check_slope("o", objective, &u, u.o, dout, ALL);
    ops_check_slope("z", objective, &u, u.z, dz, ALL);
    free(dout), free(dz), drop(&a);
    free(u.o), free(u.z), free(u.w), free(u.dy);
    ops_close(&f);
}

TEST(refuses_what_it_cannot_do)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    plim_tensor x = io_make(PLIM_F32, 2, 12, 0, NULL), w = io_make(PLIM_F32, 1, 5, 0, NULL);
    plim_gated_norm_args a = {.o = x, .z = x, .w = w, .y = x, .eps = 1e-6};
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gated_norm_fwd(f.d, &a), "gated_norm_fwd", "12 columns", "5");
    a.w.cols = 4, a.z.cols = 8;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gated_norm_fwd(f.d, &a), "z is 2 x 8", "2 x 12");
    a.z = x, a.w.dtype = PLIM_BF16;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gated_norm_bwd(f.d, &a), "gated_norm_bwd", "w is BF16");
    io_free(x), io_free(w);
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
