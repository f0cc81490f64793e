/* adamw.c - one step of AdamW on one tensor, with 8-bit or full moments, block by block. */
#include <float.h>
#include <inttypes.h>

#include "ops/adam_codebook.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/flat.h"
#include "ops/cpu/value.h"

enum { BLOCK = PLIM_ADAM_BLOCK };

/* One block in double; m and v are rounded to STAT before the step uses them, as a float kernel would have
 * them. */
typedef struct block {
    double p[BLOCK], g[BLOCK], m[BLOCK], v[BLOCK];
} block;

typedef struct plan {
    const plim_adamw_args *a;
    plim_adam_book book_m, book_v;
    double step_size, root_eps, keep; /* lr c2 / c1, eps c2, 1 - lr wd */
    double limit;                     /* largest |gradient| whose square the second moment holds */
    plim_dtype stat;
    bool coded; /* 8-bit moments */
} plan;

static void load_flat(plim_tensor t, int64_t at, int64_t n, double *to)
{
    int64_t run;
    for (int64_t i = 0; i < n; i += run) {
        const void *x = plim_cpu_flat_at(t, at + i, n - i, &run);
        for (int64_t j = 0; j < run; j++) to[i + j] = plim_cpu_load(t.dtype, x, j);
    }
}

static void store_flat(plim_tensor t, int64_t at, int64_t n, const double *from)
{
    int64_t run;
    for (int64_t i = 0; i < n; i += run) {
        void *x = plim_cpu_flat_at(t, at + i, n - i, &run);
        for (int64_t j = 0; j < run; j++) plim_cpu_store(t.dtype, x, j, from[i + j]);
    }
}

static void decode(const plim_adam_book *book, plim_tensor codes, plim_tensor max, int64_t at, int64_t n,
                   double *to)
{
    double scale;
    int64_t run;
    load_flat(max, at / BLOCK, 1, &scale);
    for (int64_t i = 0; i < n; i += run) {
        const uint8_t *code = plim_cpu_flat_at(codes, at + i, n - i, &run);
        for (int64_t j = 0; j < run; j++) to[i + j] = (float)(book->value[code[j]] * scale);
    }
}

static void encode(const plim_adam_book *book, bool with_sign, plim_tensor codes, plim_tensor max, int64_t at,
                   int64_t n, const double *from)
{
    const uint8_t zero = with_sign ? PLIM_ADAM_ZERO_SIGNED : PLIM_ADAM_ZERO_UNSIGNED;
    float top = 0;
    for (int64_t i = 0; i < n; i++) top = fmaxf(top, fabsf((float)from[i]));
    int64_t run;
    for (int64_t i = 0; i < n; i += run) {
        uint8_t *code = plim_cpu_flat_at(codes, at + i, n - i, &run);
        for (int64_t j = 0; j < run; j++) {
            const float x = (float)from[i + j];
            code[j] = top == 0    ? zero
                      : with_sign ? plim_adam_code_m(book, x, top)
                                  : plim_adam_code_v(book, x, top);
        }
    }
    const double top_stored = top;
    store_flat(max, at / BLOCK, 1, &top_stored);
}

static void step_block(const plan *s, int64_t at, int64_t n)
{
    const plim_adamw_args *a = s->a;
    block b;
    load_flat(a->param, at, n, b.p);
    load_flat(a->grad, at, n, b.g);
    if (s->coded) {
        decode(&s->book_m, a->m, a->m_max, at, n, b.m);
        decode(&s->book_v, a->v, a->v_max, at, n, b.v);
    } else {
        load_flat(a->m, at, n, b.m);
        load_flat(a->v, at, n, b.v);
    }
    for (int64_t i = 0; i < n; i++) {
        const double g = b.g[i] * a->grad_scale;
        b.m[i] = a->beta1 * b.m[i] + (1 - a->beta1) * g;
        b.v[i] = a->beta2 * b.v[i] + (1 - a->beta2) * g * g;
        if (s->stat == PLIM_F32) b.m[i] = (float)b.m[i], b.v[i] = (float)b.v[i];
        b.p[i] = (b.p[i] - s->step_size * b.m[i] / (sqrt(b.v[i]) + s->root_eps)) * s->keep;
    }
    store_flat(a->param, at, n, b.p);
    if (s->coded) {
        encode(&s->book_m, true, a->m, a->m_max, at, n, b.m);
        encode(&s->book_v, false, a->v, a->v_max, at, n, b.v);
    } else {
        store_flat(a->m, at, n, b.m);
        store_flat(a->v, at, n, b.v);
    }
}

/* First element of the block whose gradient cannot be used; at + n when all can. */
static int64_t first_bad(const plan *s, int64_t at, int64_t n)
{
    double g[BLOCK];
    load_flat(s->a->grad, at, n, g);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(g[i] * s->a->grad_scale) <= s->limit)) return at + i;
    return at + n;
}

static plim_status check_numbers(plim_device *d, const plim_adamw_args *a)
{
    const bool ok = a->step >= 1 && a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1 &&
                    a->eps > 0 && isfinite(a->eps) && isfinite(a->learning_rate) &&
                    isfinite(a->weight_decay) && isfinite(a->grad_scale);
    if (ok) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_RANGE,
                     "adamw: step %" PRId64
                     ", learning rate %g, betas %g %g, eps %g, weight decay %g, gradient scale "
                     "%g; steps from 1, betas in [0, 1), eps above 0 and finite numbers work",
                     a->step, a->learning_rate, a->beta1, a->beta2, a->eps, a->weight_decay, a->grad_scale);
}

/* m or v: the right number of elements, of which the caller may choose the shape. */
static plim_status check_flat(plim_device *d, const char *name, plim_tensor t, plim_dtype dtype, int64_t n)
{
    TRY(plim_cpu_view(d, "adamw", name, t, dtype, t.rows, t.cols));
    if (plim_cpu_flat_count(t) == n) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "adamw: %s has %" PRId64 " elements, wanted %" PRId64, name,
                     plim_cpu_flat_count(t), n);
}

static plim_status check_views(plim_device *d, const plim_adamw_args *a, bool coded)
{
    const plim_dtype stat = a->param.dtype;
    const int64_t n = plim_cpu_flat_count(a->param), blocks = (n + BLOCK - 1) / BLOCK;
    if (stat != PLIM_F32 && stat != PLIM_F64)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "adamw: param is %s; F32 and F64 work", plim_dtype_name(stat));
    TRY(plim_cpu_view(d, "adamw", "param", a->param, stat, a->param.rows, a->param.cols));
    TRY(plim_cpu_view(d, "adamw", "grad", a->grad, stat, a->param.rows, a->param.cols));
    TRY(check_flat(d, "m", a->m, coded ? PLIM_U8 : stat, n));
    TRY(check_flat(d, "v", a->v, coded ? PLIM_U8 : stat, n));
    if (!coded) return PLIM_OK;
    TRY(check_flat(d, "m_max", a->m_max, PLIM_F32, blocks));
    return check_flat(d, "v_max", a->v_max, PLIM_F32, blocks);
}

plim_status plim_cpu_adamw(plim_device *d, const plim_adamw_args *a)
{
    const int64_t n = plim_cpu_flat_count(a->param), blocks = (n + BLOCK - 1) / BLOCK;
    plan s = {.a = a, .stat = a->param.dtype, .coded = a->m_max.data != NULL};
    TRY(check_numbers(d, a));
    TRY(check_views(d, a, s.coded));
    if (n == 0) return PLIM_OK;
    const double c1 = 1 - pow(a->beta1, (double)a->step), c2 = sqrt(1 - pow(a->beta2, (double)a->step));
    s.step_size = a->learning_rate * c2 / c1;
    s.root_eps = a->eps * c2;
    s.keep = 1 - a->learning_rate * a->weight_decay;
    s.limit = sqrt(s.coded || s.stat == PLIM_F32 ? (double)FLT_MAX : DBL_MAX);
    int64_t bad = n;
#pragma omp parallel for num_threads(plim_cpu_threads(d, n)) reduction(min : bad)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t at = i * BLOCK, size = n - at < BLOCK ? n - at : BLOCK, found = first_bad(&s, at, size);
        if (found < at + size && found < bad) bad = found;
    }
    if (bad < n) {
        double g;
        load_flat(a->grad, bad, 1, &g);
        return plim_fail(d->ctx, PLIM_E_NUMERIC,
                         "adamw: the gradient of element %" PRId64
                         " is %g (scale %g), the largest that works is %g; "
                         "nothing was changed",
                         bad, g, a->grad_scale, s.limit);
    }
    if (s.coded) {
        plim_adam_book_make(&s.book_m, true);
        plim_adam_book_make(&s.book_v, false);
    }
#pragma omp parallel for num_threads(plim_cpu_threads(d, n))
    for (int64_t i = 0; i < blocks; i++)
        step_block(&s, i * BLOCK, n - i * BLOCK < BLOCK ? n - i * BLOCK : BLOCK);
    return PLIM_OK;
}
