/* Rows whose offsets pass 2^31 and 2^32 elements give what packed rows give.  The address space between them
 * is reserved, never touched. */
#include "support/test.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_ops.h"
#include "reference/dense_case.h"

enum { ROWS = 5, MANY_ROWS = 300, COLS = 24, VIEWS = 4 };
#define PITCH      (INT64_C(1) << 30) /* row 2 starts at 2^31 elements, row 4 at 2^32 */
#define MANY_PITCH (INT64_C(1) << 24) /* row 128 starts at 2^31, row 256 at 2^32 */

typedef struct far_views {
    plim_tensor far[VIEWS], near[VIEWS];
    size_t bytes;
} far_views;

static bool open_views(far_views *v, int64_t rows, int64_t pitch)
{
    uint64_t seed = 1;
    v->bytes = (size_t)(rows - 1) * (size_t)pitch * sizeof(float) + 4096;
    for (int i = 0; i < VIEWS; i++) {
        void *far =
            mmap(NULL, v->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (far == MAP_FAILED) return false;
        madvise(far, v->bytes, MADV_NOHUGEPAGE);
        v->far[i] = (plim_tensor){far, PLIM_F32, rows, COLS, pitch};
        v->near[i] = (plim_tensor){calloc((size_t)rows * COLS, sizeof(float)), PLIM_F32, rows, COLS, COLS};
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < COLS; c++)
                ((float *)v->near[i].data)[r * COLS + c] = ((float *)far)[r * pitch + c] =
                    (float)io_normal(&seed);
    }
    return true;
}

static void close_views(far_views *v)
{
    for (int i = 0; i < VIEWS; i++) munmap(v->far[i].data, v->bytes), free(v->near[i].data);
}

static void expect_equal(const far_views *v, const char *what)
{
    for (int i = 0; i < VIEWS; i++)
        for (int64_t r = 0; r < v->far[i].rows; r++)
            if (memcmp((float *)v->far[i].data + r * v->far[i].pitch, (float *)v->near[i].data + r * COLS,
                       COLS * sizeof(float)))
                fail_msg("%s: view %d, row %lld differs", what, i, (long long)r);
}

static void run_all(ops_fixture *f, const plim_tensor *v, double *loss)
{
    static const int32_t labels[ROWS] = {0, 3, 23, 7, 1}, order[ROWS] = {4, 2, 0, 3, 1};
    static const float weights[ROWS] = {1, 0.5f, 2, 1, 1};
    float one[COLS] = {0};
    const plim_tensor w = {one, PLIM_F32, 1, COLS, COLS}, none = {0};
    CHECK_OK(f->c,
             plim_cpu_rmsnorm_fwd(
                 f->d, &(plim_rmsnorm_args){.x = v[0], .w = w, .y = v[1], .eps = 1e-6, .unit_offset = true}));
    CHECK_OK(f->c, plim_cpu_swiglu_fwd(f->d, &(plim_swiglu_args){.gate = v[0], .up = v[1], .y = v[2]}));
    CHECK_OK(f->c, plim_cpu_add(f->d, v[2], v[3]));
    CHECK_OK(f->c, plim_cpu_gather_rows(f->d, &(plim_rows_args){v[3], v[2], order}));
    CHECK_OK(f->c, plim_cpu_scatter_rows(f->d, &(plim_rows_args){v[2], v[1], order}));
    CHECK_OK(f->c, plim_cpu_dropout(f->d, &(plim_dropout_args){v[1], v[2], 1, 2, INT64_C(1) << 33, 0.5}));
    CHECK_OK(f->c,
             plim_cpu_head_rope_fwd(
                 f->d, &(plim_head_rope_args){
                           .x = v[2], .w = none, .y = v[1], .heads = 2, .head_dim = 12, .head_stride = 12}));
    CHECK_OK(f->c, plim_cpu_cross_entropy(
                       f->d, &(plim_cross_entropy_args){v[3], v[3], labels, weights, 1, loss, true}));
    CHECK_OK(f->c, plim_cpu_fill(f->d, &(plim_fill_args){v[2], PLIM_FILL_NORMAL, 1, 2, 0, 1}));
}

/* c [24, 24] stays near; then rows of it go far. */
static void multiply(ops_fixture *f, const plim_tensor *v)
{
    float c[COLS * COLS];
    const plim_tensor square = {c, PLIM_F32, COLS, COLS, COLS};
    CHECK_OK(f->c,
             plim_cpu_gemm(f->d, &(plim_gemm_args){
                                     .a = v[0], .b = v[1], .c = square, .transpose_a = true, .alpha = 1}));
    CHECK_OK(f->c,
             plim_cpu_gemm(
                 f->d, &(plim_gemm_args){.a = v[0], .b = square, .c = v[3], .accumulate = true, .alpha = 1}));
}

static void attend(ops_fixture *f, const plim_tensor *v)
{
    static const int64_t start[] = {0, 1, MANY_ROWS};
    static float lse[2 * MANY_ROWS], delta[2 * MANY_ROWS];
    plim_attention_args a = {.q = v[0],
                             .k = v[1],
                             .v = v[2],
                             .o = v[3],
                             .lse = {lse, PLIM_F32, 2, MANY_ROWS, MANY_ROWS},
                             .delta = {delta, PLIM_F32, 2, MANY_ROWS, MANY_ROWS},
                             .heads = 2,
                             .kv_heads = 2,
                             .head_dim = 12,
                             .scale = 0.3,
                             .docs = {2, MANY_ROWS, MANY_ROWS - 1, start, start}};
    CHECK_OK(f->c, plim_cpu_attention_fwd(f->d, &a));
    float *dk = calloc(MANY_ROWS * COLS, sizeof *dk), *dv = calloc(MANY_ROWS * COLS, sizeof *dv);
    a.dq = v[3];
    a.dk = (plim_tensor){dk, PLIM_F32, MANY_ROWS, COLS, COLS}, a.dv = a.dk, a.dv.data = dv;
    a.dout = v[2];
    CHECK_OK(f->c, plim_cpu_attention_bwd(f->d, &a));
    CHECK_OK(f->c, plim_cpu_copy(f->d, a.dk, v[1]));
    CHECK_OK(f->c, plim_cpu_copy(f->d, a.dv, v[2]));
    free(dk), free(dv);
}

TEST(row_operations)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    far_views v = {0};
    if (!open_views(&v, ROWS, PITCH)) skip(); /* no 64 GiB of address space here */
    double far_loss = 0, near_loss = 0;
    run_all(&f, v.far, &far_loss), run_all(&f, v.near, &near_loss);
    assert_true(far_loss == near_loss);
    expect_equal(&v, "row operations");
    close_views(&v);
    ops_close(&f);
}

TEST(products_and_attention)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    far_views v = {0};
    if (!open_views(&v, MANY_ROWS, MANY_PITCH)) skip();
    multiply(&f, v.far), multiply(&f, v.near);
    expect_equal(&v, "gemm");
    attend(&f, v.far), attend(&f, v.near);
    expect_equal(&v, "attention");
    close_views(&v);
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(row_operations),
        cmocka_unit_test(products_and_attention),
    };
    return RUN_TESTS(table);
}
