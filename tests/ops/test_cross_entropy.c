/* Loss and its gradient over the logits' memory: dtypes, pitches, weights, chunks of rows, slopes,
 * extremes. */
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_ops.h"
#include "reference/dense.h"
#include "reference/dense_case.h"

typedef struct loss_case {
    dense_input z;
    int32_t *labels;
    float *weights;
    double *want, loss, scale; /* want: dlogits */
} loss_case;

static loss_case make_case(plim_dtype stat, int64_t rows, int64_t vocab, double spread)
{
    uint64_t seed = (uint64_t)(rows + vocab);
    loss_case p = {.z = dense_random(&seed, stat, rows, vocab, 2, spread), .scale = 0.125};
    p.labels = calloc((size_t)rows + 1, sizeof *p.labels),
    p.weights = calloc((size_t)rows + 1, sizeof *p.weights);
    p.want = calloc((size_t)(rows * vocab) + 1, sizeof *p.want);
    for (int64_t i = 0; i < rows; i++) {
        /* both ends, and anywhere */
        p.labels[i] = (int32_t)(i % 3 == 0   ? 0
                                : i % 3 == 1 ? vocab - 1
                                             : (int64_t)(io_uniform(&seed) * (double)vocab));
        p.weights[i] = i % 4 == 3 ? 0 : (float)io_uniform(&seed);
        const double w = (double)p.weights[i];
        p.loss += reference_cross_entropy(vocab, p.z.values + i * vocab, p.labels[i], w, w * p.scale,
                                          p.want + i * vocab);
    }
    return p;
}

static void free_case(loss_case *p)
{
    dense_free(&p->z), free(p->labels), free(p->weights), free(p->want);
}

static plim_cross_entropy_args args_of(const loss_case *p, plim_dtype act, double *loss, bool want_gradient)
{
    plim_tensor g = p->z.view;
    g.pitch = g.pitch * (int64_t)plim_dtype_bytes(g.dtype) / (int64_t)plim_dtype_bytes(act), g.dtype = act;
    return (plim_cross_entropy_args){p->z.view, g, p->labels, p->weights, p->scale, loss, want_gradient};
}

static const int64_t shapes[][2] = {{0, 7}, {1, 1}, {3, 2}, {9, 127}, {5, 128}, {300, 129}, {4, 5003}};

TEST(losses_and_gradients_match)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 7; s++) {
            const plim_dtype act = ops_dtypes[t].act, stat = ops_dtypes[t].stat;
            loss_case p = make_case(stat, shapes[s][0], shapes[s][1], 3);
            double loss = 1.5;
            plim_cross_entropy_args a = args_of(&p, act, &loss, false);
            CHECK_OK(f.c, plim_cpu_cross_entropy(f.d, &a));
            const double allowed =
                (double)(shapes[s][0] + shapes[s][1] + 16) * DBL_EPSILON * (fabs(p.loss) + 16);
            assert_true(fabs(loss - 1.5 - p.loss) <= allowed);
            dense_expect("logits left alone", p.z.view, p.z.values, 0, 0);
            a.want_gradient = true;
            CHECK_OK(f.c, plim_cpu_cross_entropy(f.d, &a));
            assert_true(fabs(loss - 1.5 - 2 * p.loss) <= 2 * allowed);
            /* the view of act's rows has the gap of the logits plus what the narrower row leaves: not a
             * guard */
            double *got = calloc((size_t)(p.z.view.rows * p.z.view.cols) + 1, sizeof *got);
            io_read(a.dlogits, got);
            /* p and the factor are each rounded to stat, then to act; exponents reach about 30 */
            const double relative =
                dense_step(act) + 2 * dense_step(stat) + (double)(shapes[s][1] + 64) * DBL_EPSILON;
            for (int64_t i = 0; i < p.z.view.rows * p.z.view.cols; i++)
                if (!(fabs(got[i] - p.want[i]) <= relative * fabs(p.want[i]) + 1e-38))
                    fail_msg("%s %lld x %lld: dlogit %lld is %.9g, wanted %.9g", plim_dtype_name(act),
                             (long long)p.z.view.rows, (long long)p.z.view.cols, (long long)i, got[i],
                             p.want[i]);
            assert_true(act == PLIM_BF16 || io_guarded(p.z.view));
            free(got), free_case(&p);
        }
    ops_close(&f);
}

/* One call of all rows equals calls of any chunk: the same gradient bits, the loss to rounding. */
TEST(chunks_of_rows_change_nothing)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    static const int64_t chunks[] = {1, 7, 256, 299};
    for (int k = 0; k < 4; k++) {
        loss_case whole = make_case(PLIM_F32, 300, 65, 4), parts = make_case(PLIM_F32, 300, 65, 4);
        double loss = 0, sum = 0;
        plim_cross_entropy_args a = args_of(&whole, PLIM_BF16, &loss, true);
        CHECK_OK(f.c, plim_cpu_cross_entropy(f.d, &a));
        for (int64_t first = 0; first < 300; first += chunks[k]) {
            const int64_t rows = first + chunks[k] < 300 ? chunks[k] : 300 - first;
            plim_cross_entropy_args b = args_of(&parts, PLIM_BF16, &sum, true);
            b.logits = plim_tensor_rows(b.logits, first, rows),
            b.dlogits = plim_tensor_rows(b.dlogits, first, rows);
            b.labels += first, b.weights += first;
            CHECK_OK(f.c, plim_cpu_cross_entropy(f.d, &b));
        }
        assert_true(fabs(loss - sum) <= 300 * DBL_EPSILON * loss);
        double *x = io_copy(a.dlogits), *y = io_copy(args_of(&parts, PLIM_BF16, &sum, true).dlogits);
        assert_memory_equal(x, y, 300 * 65 * sizeof *x);
        free(x), free(y), free_case(&whole), free_case(&parts);
    }
    ops_close(&f);
}

typedef struct slopes {
    ops_fixture f;
    double z[18], loss;
    plim_cross_entropy_args a;
} slopes;

static double total(void *user)
{
    slopes *s = user;
    s->loss = 0;
    CHECK_OK(s->f.c, plim_cpu_cross_entropy(s->f.d, &s->a));
    return s->a.scale * s->loss;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    slopes s = {.f = ops_open(1)};
    static const int32_t labels[] = {0, 8};
    static const float weights[] = {1, 0.5f};
    uint64_t seed = 8;
    double g[18];
    for (int i = 0; i < 18; i++) g[i] = s.z[i] = 2 * io_normal(&seed);
    const plim_tensor z = {s.z, PLIM_F64, 2, 9, 9}, over = {g, PLIM_F64, 2, 9, 9};
    s.a = (plim_cross_entropy_args){over, over, labels, weights, 0.3, &s.loss, true};
    CHECK_OK(s.f.c, plim_cpu_cross_entropy(s.f.d, &s.a));
    s.a.logits = z, s.a.want_gradient = false;
    dense_differences("cross_entropy", s.z, g, 18, 1, total, &s);
    ops_close(&s.f);
}

/* Equal logits: log V.  A sure label: loss 0 and a gradient that does not cancel.  A sure mistake: the
 * distance. */
TEST(extreme_logits)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    enum { V = 40 };
    float z[5][V];
    static const int32_t labels[5] = {3, V - 1, 0, 1, 2};
    static const float weights[5] = {1, 1, 1, 1, 1};
    for (int i = 0; i < V; i++) {
        z[0][i] = -7, z[1][i] = i == V - 1 ? 60 : 0, z[2][i] = i == 5 ? 3e38f : -3e38f;
        z[3][i] = i == 1 ? 0 : -INFINITY, z[4][i] = i == 30 ? NAN : 0;
    }
    const plim_tensor all = {z, PLIM_F32, 5, V, V};
    const double want[4] = {log(V), 39 * exp(-60), 6e38, 0};
    for (int i = 0; i < 5; i++) {
        double loss = 0;
        const plim_tensor row = plim_tensor_rows(all, i, 1);
        CHECK_OK(f.c, plim_cpu_cross_entropy(
                          f.d, &(plim_cross_entropy_args){row, row, labels + i, weights, 1, &loss, true}));
        assert_true(i == 4 ? isnan(loss) : fabs(loss - want[i]) <= 1e-6 * want[i] + 1e-15);
    }
    assert_true(fabsf(z[0][3] + 1 - 1.0f / V) < 1e-6f && fabsf(z[0][0] - 1.0f / V) < 1e-8f);
    assert_true(fabs((double)z[1][V - 1] / (-39 * exp(-60)) - 1) < 1e-5 &&
                fabs((double)z[1][0] / exp(-60) - 1) < 1e-5);
    assert_true(z[2][5] == 1 && z[2][0] == -1 && z[2][7] == 0);
    assert_true(z[3][1] == 0 && z[3][0] == 0);
    ops_close(&f);
}

TEST(refuses_bad_labels_and_leaves_the_logits)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float z[6] = {1, 2, 3, 4, 5, 6}, weights[2] = {1, 1};
    double loss = 0;
    static const int32_t high[] = {0, 3}, low[] = {-100, 1};
    plim_cross_entropy_args a = {
        {z, PLIM_F32, 2, 3, 3}, {z, PLIM_F32, 2, 3, 3}, high, weights, 1, &loss, true};
    CHECK_FAILS(f.c, PLIM_E_RANGE, plim_cpu_cross_entropy(f.d, &a), "label 1 is 3", "0 to 2");
    a.labels = low;
    CHECK_FAILS(f.c, PLIM_E_RANGE, plim_cpu_cross_entropy(f.d, &a), "label 0 is -100");
    a.dlogits.dtype = PLIM_BF16;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_cross_entropy(f.d, &a), "view of logits", "12 bytes");
    for (int i = 0; i < 6; i++) assert_true(z[i] == (float)(i + 1));
    assert_true(loss == 0);
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(losses_and_gradients_match),
        cmocka_unit_test(chunks_of_rows_change_nothing),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(extreme_logits),
        cmocka_unit_test(refuses_bad_labels_and_leaves_the_logits),
    };
    return RUN_TESTS(table);
}
