/* Attention against full score rows: dtypes, groups, head sizes, documents, pitches, tiles; slopes;
 * extremes. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "reference/delta_ops.h"
#include "reference/dense.h"
#include "reference/dense_case.h"

typedef struct shape {
    int64_t heads, kv_heads, dim, count, rows[5]; /* rows of each document */
    double spread;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, {1}, 1},
    {2, 1, 8, 1, {127}, 1},
    {2, 2, 16, 1, {128}, 1},
    {3, 1, 5, 1, {129}, 1},
    {4, 2, 64, 3, {60, 1, 200}, 1},
    {2, 1, 256, 2, {130, 33}, 1},
    {1, 1, 3, 5, {0, 5, 0, 0, 1}, 1},
    {2, 1, 4, 2, {700, 3}, 1},     /* several key blocks */
    {4, 2, 16, 2, {257, 140}, 30}, /* peaked rows */
    {2, 2, 8, 1, {0}, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct attention_case {
    const shape *s;
    plim_dtype act, stat;
    int64_t tokens, start[6];
    dense_input q, k, v, dout;
    double *want; /* o, dq, dk, dv, lse, delta, one after the other */
    reference_attention r;
    double *delta;
} attention_case;

static attention_case make_case(const shape *s, plim_dtype act)
{
    attention_case p = {.s = s, .act = act, .stat = dense_stat(act)};
    for (int64_t n = 0; n < s->count; n++) p.start[n + 1] = p.start[n] + s->rows[n];
    const int64_t T = p.tokens = p.start[s->count], cols = s->heads * s->dim, kv = s->kv_heads * s->dim;
    uint64_t seed = (uint64_t)(T + cols);
    p.q = dense_random(&seed, act, T, cols, 3, s->spread), p.k = dense_random(&seed, act, T, kv, 1, 1);
    p.v = dense_random(&seed, act, T, kv, 0, 1), p.dout = dense_random(&seed, act, T, cols, 2, 1);
    p.want = calloc((size_t)(2 * T * (cols + kv + s->heads)) + 1, sizeof *p.want);
    double *o = p.want, *dq = o + T * cols, *dk = dq + T * cols, *dv = dk + T * kv, *lse = dv + T * kv;
    p.delta = lse + T * s->heads;
    p.r = (reference_attention){
        T,          s->heads,   s->kv_heads, s->dim,        s->count, NULL, 1 / sqrt((double)s->dim),
        p.q.values, p.k.values, p.v.values,  p.dout.values, o,        lse,  dq,
        dk,         dv};
    return p;
}

static void run_reference(attention_case *p)
{
    p->r.start = p->start;
    reference_attention_run(&p->r);
    for (int64_t i = 0; i < p->tokens * p->s->heads * p->s->dim; i++) {
        const int64_t t = i / (p->s->heads * p->s->dim), h = i / p->s->dim % p->s->heads;
        p->delta[h * p->tokens + t] += p->r.o[i] * p->r.dout[i];
    }
}

static void free_case(attention_case *p)
{
    dense_free(&p->q), dense_free(&p->k), dense_free(&p->v), dense_free(&p->dout), free(p->want);
}

typedef struct attention_result {
    plim_tensor o, lse, dq, dk, dv;
} attention_result;

/* Forward, then backward from the reference's lse and delta, as a caller would have rounded them. */
static attention_result run_case(ops_fixture *f, attention_case *p)
{
    const shape *s = p->s;
    const int64_t T = p->tokens, cols = s->heads * s->dim, kv = s->kv_heads * s->dim;
    const attention_result got = {io_make(p->act, T, cols, 2, NULL), io_make(p->stat, s->heads, T, 3, NULL),
                                  io_make(p->act, T, cols, 1, NULL), io_make(p->act, T, kv, 0, NULL),
                                  io_make(p->act, T, kv, 5, NULL)};
    const plim_tensor lse = io_make(p->stat, s->heads, T, 1, p->r.lse),
                      delta = io_make(p->stat, s->heads, T, 2, p->delta);
    int64_t longest = 0;
    for (int64_t n = 0; n < s->count; n++) longest = s->rows[n] > longest ? s->rows[n] : longest;
    plim_attention_args a = {.q = p->q.view,
                             .k = p->k.view,
                             .v = p->v.view,
                             .o = got.o,
                             .lse = got.lse,
                             .dout = p->dout.view,
                             .delta = delta,
                             .dq = got.dq,
                             .dk = got.dk,
                             .dv = got.dv,
                             .heads = s->heads,
                             .kv_heads = s->kv_heads,
                             .head_dim = s->dim,
                             .scale = p->r.scale,
                             .docs = {s->count, T, longest, p->start, p->start}};
    CHECK_OK(f->c, plim_cpu_attention_fwd(f->d, &a));
    a.lse = lse;
    CHECK_OK(f->c, plim_cpu_attention_bwd(f->d, &a));
    io_free(lse), io_free(delta);
    return got;
}

static void free_result(attention_result *got)
{
    io_free(got->o), io_free(got->lse), io_free(got->dq), io_free(got->dk), io_free(got->dv);
}

/* A score is a sum of dim products up to |z| in float; its error e scales P by 1 + e, and every output is a
 * sum of such terms of either sign, rounded once in act.  z: the largest score, from lse and log T. */
static double slack_of(const attention_case *p, double largest)
{
    const double z = dense_largest(p->r.lse, p->tokens * p->s->heads) + log((double)p->tokens + 1);
    const double eps = dense_step(p->stat);
    return eps *
           (z * sqrt((double)p->s->dim) +
            8 * sqrt((double)p->tokens * (double)(p->s->heads / p->s->kv_heads)) + 16) *
           (largest + 1e-30);
}

TEST(values_and_gradients_match)
{
    UNUSED_STATE;
    ops_fixture f[2] = {ops_open(1), ops_open(3)};
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < SHAPES; i++) {
            attention_case p = make_case(&shapes[i], ops_dtypes[t].act);
            run_reference(&p);
            const int64_t T = p.tokens, cols = p.s->heads * p.s->dim, kv = p.s->kv_heads * p.s->dim;
            for (int threads = 0; threads < 2; threads++) { /* gradients together, and apart */
                attention_result got = run_case(&f[threads], &p);
                const double step = dense_step(p.act);
                dense_expect("o", got.o, p.r.o, step, slack_of(&p, dense_largest(p.r.o, T * cols)));
                dense_expect("lse", got.lse, p.r.lse, dense_step(p.stat), slack_of(&p, 1));
                const double gradients = fmax(dense_largest(p.r.dq, T * cols), dense_largest(p.r.dk, T * kv));
                dense_expect("dq", got.dq, p.r.dq, step, slack_of(&p, gradients));
                dense_expect("dk", got.dk, p.r.dk, step, slack_of(&p, gradients));
                dense_expect("dv", got.dv, p.r.dv, step, slack_of(&p, dense_largest(p.r.dv, T * kv)));
                free_result(&got);
            }
            free_case(&p);
        }
    ops_close(&f[0]), ops_close(&f[1]);
}

TEST(bits_do_not_depend_on_threads)
{
    UNUSED_STATE;
    for (int t = 1; t < 3; t++)
        for (int i = 4; i < SHAPES; i++) {
            attention_case p = make_case(&shapes[i], ops_dtypes[t].act);
            run_reference(&p);
            double *first[5] = {NULL};
            for (int threads = 1; threads <= 8; threads += 7) {
                ops_fixture f = ops_open(threads);
                attention_result got = run_case(&f, &p);
                const plim_tensor views[5] = {got.o, got.lse, got.dq, got.dk, got.dv};
                for (int v = 0; v < 5; v++) {
                    double *x = io_copy(views[v]);
                    if (first[v])
                        assert_memory_equal(first[v], x, (size_t)(views[v].rows * views[v].cols) * sizeof *x);
                    free(first[v]), first[v] = x;
                }
                free_result(&got), ops_close(&f);
            }
            for (int v = 0; v < 5; v++) free(first[v]);
            free_case(&p);
        }
}

/* A NaN in one document stays there: nothing of it reaches the others, in either direction. */
TEST(documents_do_not_leak)
{
    UNUSED_STATE;
    static const shape s = {2, 1, 8, 3, {40, 150, 20}, 1};
    ops_fixture f = ops_open(2);
    attention_case p = make_case(&s, PLIM_F32);
    run_reference(&p);
    attention_result clean = run_case(&f, &p);
    for (int64_t row = 40; row < 190; row++) {
        ((float *)p.k.view.data)[row * p.k.view.pitch] = NAN,
                                       ((float *)p.v.view.data)[row * p.v.view.pitch] = NAN;
        ((float *)p.q.view.data)[row * p.q.view.pitch] = NAN,
                                       ((float *)p.dout.view.data)[row * p.dout.view.pitch] = NAN;
    }
    attention_result dirty = run_case(&f, &p);
    const plim_tensor a[4] = {clean.o, clean.dq, clean.dk, clean.dv},
                      b[4] = {dirty.o, dirty.dq, dirty.dk, dirty.dv};
    for (int v = 0; v < 4; v++) {
        double *x = io_copy(a[v]), *y = io_copy(b[v]);
        for (int64_t i = 0; i < 210; i++) {
            const bool inside = i >= 40 && i < 190;
            assert_true(inside
                            ? isnan(y[i * a[v].cols])
                            : !memcmp(x + i * a[v].cols, y + i * a[v].cols, (size_t)a[v].cols * sizeof *x));
        }
        free(x), free(y);
    }
    free_result(&clean), free_result(&dirty), free_case(&p);
    ops_close(&f);
}

/* The heads of a group, as columns of wider buffers, give the bits of the whole. */
TEST(groups_of_heads_equal_the_whole)
{
    UNUSED_STATE;
    static const shape s = {6, 3, 16, 2, {150, 70}, 1};
    ops_fixture f = ops_open(2);
    attention_case p = make_case(&s, PLIM_F32);
    run_reference(&p);
    attention_result whole = run_case(&f, &p), parts = run_case(&f, &p);
    const plim_tensor lse = io_make(PLIM_F32, 6, 220, 0, p.r.lse),
                      delta = io_make(PLIM_F32, 6, 220, 0, p.delta);
    for (int64_t g = 0; g < 3; g++) {
        plim_attention_args a = {.heads = 2,
                                 .kv_heads = 1,
                                 .head_dim = 16,
                                 .scale = p.r.scale,
                                 .docs = {2, 220, 150, p.start, p.start}};
        a.q = plim_tensor_cols(p.q.view, g * 32, 32), a.k = plim_tensor_cols(p.k.view, g * 16, 16),
        a.v = plim_tensor_cols(p.v.view, g * 16, 16);
        a.dout = plim_tensor_cols(p.dout.view, g * 32, 32), a.o = plim_tensor_cols(parts.o, g * 32, 32),
        a.dq = plim_tensor_cols(parts.dq, g * 32, 32);
        a.dk = plim_tensor_cols(parts.dk, g * 16, 16), a.dv = plim_tensor_cols(parts.dv, g * 16, 16);
        a.lse = plim_tensor_rows(parts.lse, 2 * g, 2), a.delta = plim_tensor_rows(delta, 2 * g, 2);
        CHECK_OK(f.c, plim_cpu_attention_fwd(f.d, &a));
        a.lse = plim_tensor_rows(lse, 2 * g, 2);
        CHECK_OK(f.c, plim_cpu_attention_bwd(f.d, &a));
    }
    const plim_tensor a[5] = {whole.o, whole.lse, whole.dq, whole.dk, whole.dv},
                      b[5] = {parts.o, parts.lse, parts.dq, parts.dk, parts.dv};
    for (int v = 0; v < 5; v++) {
        double *x = io_copy(a[v]), *y = io_copy(b[v]);
        assert_memory_equal(x, y, (size_t)(a[v].rows * a[v].cols) * sizeof *x);
        free(x), free(y);
    }
    io_free(lse), io_free(delta), free_result(&whole), free_result(&parts), free_case(&p);
    ops_close(&f);
}

typedef struct slopes {
    ops_fixture f;
    double x[4 * 7 * 6], dout[7 * 12], o[7 * 12], lse[4 * 7]; /* q [7, 12], k [7, 6], v [7, 6] */
    plim_attention_args a;
} slopes;

static double weighted(void *user)
{
    slopes *s = user;
    double sum = 0;
    CHECK_OK(s->f.c, plim_cpu_attention_fwd(s->f.d, &s->a));
    for (int i = 0; i < 84; i++) sum += s->o[i] * s->dout[i];
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    slopes s = {.f = ops_open(1)};
    static const int64_t start[] = {0, 4, 7};
    uint64_t seed = 12;
    double delta[4 * 7] = {0}, gradient[168];
    for (int i = 0; i < 168; i++) s.x[i] = io_normal(&seed);
    for (int i = 0; i < 84; i++) s.dout[i] = io_normal(&seed);
    const plim_tensor wide = {NULL, PLIM_F64, 7, 12, 12}, narrow = {NULL, PLIM_F64, 7, 6, 6},
                      row = {NULL, PLIM_F64, 4, 7, 7};
    s.a = (plim_attention_args){.q = wide,
                                .k = narrow,
                                .v = narrow,
                                .o = wide,
                                .lse = row,
                                .dout = wide,
                                .delta = row,
                                .dq = wide,
                                .dk = narrow,
                                .dv = narrow,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 3,
                                .scale = 0.7,
                                .docs = {2, 7, 4, start, start}};
    s.a.q.data = s.x, s.a.k.data = s.x + 84, s.a.v.data = s.x + 126, s.a.o.data = s.o, s.a.lse.data = s.lse,
    s.a.dout.data = s.dout;
    s.a.delta.data = delta, s.a.dq.data = gradient, s.a.dk.data = gradient + 84, s.a.dv.data = gradient + 126;
    weighted(&s);
    for (int i = 0; i < 84; i++) delta[i % 12 / 3 * 7 + i / 12] += s.o[i] * s.dout[i];
    CHECK_OK(s.f.c, plim_cpu_attention_bwd(s.f.d, &s.a));
    dense_differences("attention", s.x, gradient, 168, 1, weighted, &s);
    ops_close(&s.f);
}

/* Scores of +-1e30, equal keys, and a later key that outweighs all before it: finite and as defined. */
TEST(extreme_scores)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    static const int64_t start[] = {0, 600};
    enum { T = 600 };
    float *q = calloc(T, sizeof *q), *k = calloc(T, sizeof *k), *v = calloc(T, sizeof *v),
          *o = calloc(T, sizeof *o), *lse = calloc(T, sizeof *lse);
    static const float sizes[] = {0, 1e15f, -1e15f};
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < T; i++)
            q[i] = 1e15f, k[i] = sizes[kind] * (float)(1 + (i == 550)), v[i] = (float)(i + 1);
        plim_attention_args a = {.q = {q, PLIM_F32, T, 1, 1},
                                 .k = {k, PLIM_F32, T, 1, 1},
                                 .v = {v, PLIM_F32, T, 1, 1},
                                 .o = {o, PLIM_F32, T, 1, 1},
                                 .lse = {lse, PLIM_F32, 1, T, T},
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .head_dim = 1,
                                 .scale = 1,
                                 .docs = {1, T, T, start, start}};
        CHECK_OK(f.c, plim_cpu_attention_fwd(f.d, &a));
        for (int i = 0; i < T; i++) {
            const double mean = (i + 2) / 2.0; /* of 1 .. i + 1 */
            const double want = kind == 0               ? mean
                                : kind == 1 && i >= 550 ? 551
                                : kind == 2 && i >= 550 ? (mean * (i + 1) - 551) / i
                                                        : mean;
            assert_true(fabs((double)o[i] - want) <= 1e-5 * want);
            const double top = kind == 0 ? log(i + 1) : (kind == 1 ? i >= 550 ? 2e30 : 1e30 : -1e30);
            assert_true(fabs((double)lse[i] - top) <= 1e-6 * fabs(top) + 1e-6);
        }
    }
    free(q), free(k), free(v), free(o), free(lse);
    ops_close(&f);
}

TEST(refuses_what_does_not_fit)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    static const int64_t start[] = {0, 2, 4}, bad[] = {0, 3, 2, 4}, some[] = {0, 3};
    float x[32] = {0};
    const plim_tensor v = {x, PLIM_F32, 4, 6, 6}, rows = {x, PLIM_F32, 3, 4, 4};
    const plim_attention_args good = {.q = v,
                                      .k = plim_tensor_cols(v, 0, 2),
                                      .v = plim_tensor_cols(v, 2, 2),
                                      .o = v,
                                      .lse = rows,
                                      .heads = 3,
                                      .kv_heads = 1,
                                      .head_dim = 2,
                                      .scale = 1,
                                      .docs = {2, 4, 2, start, start}};
    plim_attention_args a = good;
    a.kv_heads = 2;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_attention_fwd(f.d, &a), "3 heads", "2 key heads");
    a = good, a.head_dim = 257;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_attention_fwd(f.d, &a), "257", "256");
    a = good, a.docs.start_host = bad, a.docs.count = 3;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_attention_fwd(f.d, &a), "3 documents", "4 rows");
    a = good, a.docs.start_host = some, a.docs.count = 1;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_attention_bwd(f.d, &a), "1 documents");
    a = good, a.lse.rows = 2;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_attention_fwd(f.d, &a), "lse is 2 x 4", "3 x 4");
    a = good;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_attention_bwd(f.d, &a), "dout");
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(values_and_gradients_match), cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(documents_do_not_leak),      cmocka_unit_test(groups_of_heads_equal_the_whole),
        cmocka_unit_test(gradients_are_slopes),       cmocka_unit_test(extreme_scores),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return RUN_TESTS(table);
}
