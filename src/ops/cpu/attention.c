/* attention.c - causal softmax attention inside documents, forward and backward, in tiles over BLAS.
 *
 * A unit of work is a block of rows of one head (or of keys of one key head) of one document; documents are
 * cut into blocks from their own start.  Every sum runs in one order that depends on shapes alone: o and dq
 * over key blocks from the first on; dk and dv over the group's heads, then over row blocks.  Scratch is a
 * tile's, whatever the length. */
#include <inttypes.h>

#include "ops/cpu/attention_tile.h"
#include "ops/cpu/blas.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

enum { ROWS = 128, FWD_KEYS = 512, BWD_KEYS = 256, MOST_DIM = 256 };

/* Sizes in elements of the buffers of a thread, in double at worst. */
_Static_assert((ROWS * MOST_DIM * 2 + FWD_KEYS * MOST_DIM * 2 + ROWS * FWD_KEYS + 2 * ROWS) *
                       sizeof(double) <=
                   PLIM_CPU_SCRATCH_BYTES,
               "attention forward scratch");
_Static_assert((ROWS * MOST_DIM * 3 + BWD_KEYS * MOST_DIM * 4 + ROWS * BWD_KEYS * 2) * sizeof(double) <=
                   PLIM_CPU_SCRATCH_BYTES,
               "attention backward scratch");
_Static_assert(BWD_KEYS % ROWS == 0, "row blocks start where key blocks do");

/* ---- units of work ------------------------------------------------------------------------------------- */

/* The i-th unit: block of block_rows rows of a document, and one of lanes heads.  A thread asks in ascending
 * order, so finding the document costs one walk over them in all. */
typedef struct unit {
    int64_t document, first_unit; /* where the walk is */
    int64_t start, end;           /* the document's rows */
    int64_t block, lane;          /* of the i-th unit: rows start + block * block_rows .. */
} unit;

static int64_t blocks_of(const plim_docs *docs, int64_t n, int64_t block_rows)
{
    return (docs->start_host[n + 1] - docs->start_host[n] + block_rows - 1) / block_rows;
}

static int64_t count_units(const plim_docs *docs, int64_t block_rows, int64_t lanes)
{
    int64_t count = 0;
    for (int64_t n = 0; n < docs->count; n++) count += blocks_of(docs, n, block_rows) * lanes;
    return count;
}

static void find_unit(unit *u, const plim_docs *docs, int64_t block_rows, int64_t lanes, int64_t i)
{
    int64_t blocks = blocks_of(docs, u->document, block_rows);
    while (i >= u->first_unit + blocks * lanes) {
        u->first_unit += blocks * lanes;
        blocks = blocks_of(docs, ++u->document, block_rows);
    }
    u->start = docs->start_host[u->document];
    u->end = docs->start_host[u->document + 1];
    u->block = (i - u->first_unit) / lanes;
    u->lane = (i - u->first_unit) % lanes;
}

/* ---- views --------------------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static plim_tensor head_rows(plim_tensor x, int64_t dim, int64_t head, int64_t first, int64_t rows)
{
    return plim_tensor_cols(plim_tensor_rows(x, first, rows), head * dim, dim);
}

static plim_dtype real_of(plim_dtype act)
{
    return act == PLIM_F64 ? PLIM_F64 : PLIM_F32;
}

/* count elements of real from the front of *free. */
static void *take(char **free, plim_dtype real, int64_t count)
{
    void *p = *free;
    *free += (size_t)count * plim_dtype_bytes(real);
    return p;
}

static plim_cpu_matrix panel(plim_tensor x, plim_dtype real, void *buffer, bool transpose)
{
    plim_cpu_matrix m = {.transpose = transpose};
    m.data = plim_cpu_panel(x, real, buffer, &m.pitch);
    return m;
}

static plim_cpu_matrix transposed(plim_cpu_matrix m)
{
    m.transpose = !m.transpose;
    return m;
}

static plim_status check(plim_device *d, const char *op, const plim_attention_args *a)
{
    const plim_dtype act = a->q.dtype, stat = plim_cpu_stat(act);
    const int64_t rows = a->q.rows, cols = a->heads * a->head_dim, kv_cols = a->kv_heads * a->head_dim;
    TRY(plim_cpu_act(d, op, act));
    if (a->head_dim < 1 || a->head_dim > MOST_DIM || a->heads < 1 || a->kv_heads < 1 ||
        a->heads % a->kv_heads)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %" PRId64 " heads of %" PRId64 " over %" PRId64
                         " key heads; head sizes to %d and whole groups work",
                         op, a->heads, a->head_dim, a->kv_heads, MOST_DIM);
    TRY(plim_cpu_view(d, op, "q", a->q, act, rows, cols));
    TRY(plim_cpu_view(d, op, "k", a->k, act, rows, kv_cols));
    TRY(plim_cpu_view(d, op, "v", a->v, act, rows, kv_cols));
    TRY(plim_cpu_view(d, op, "lse", a->lse, stat, a->heads, rows));
    TRY(plim_cpu_docs(d, op, &a->docs, rows));
    if (a->q.pitch <= PLIM_CPU_MAX_PITCH && a->k.pitch <= PLIM_CPU_MAX_PITCH &&
        a->v.pitch <= PLIM_CPU_MAX_PITCH)
        return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: a pitch above %" PRId64 "; BLAS would lose count", op,
                     PLIM_CPU_MAX_PITCH);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void fwd_unit(const plim_attention_args *a, const unit *u, char *scratch)
{
    const plim_dtype act = a->q.dtype, real = real_of(act), stat = plim_cpu_stat(act);
    const int64_t dim = a->head_dim, kv = u->lane / (a->heads / a->kv_heads);
    const int64_t first = u->start + u->block * ROWS, rows = least(ROWS, u->end - first);
    double *max = take(&scratch, PLIM_F64, ROWS), *sum = take(&scratch, PLIM_F64, ROWS);
    void *q_buffer = take(&scratch, real, ROWS * dim), *out = take(&scratch, real, ROWS * dim);
    void *k_buffer = take(&scratch, real, FWD_KEYS * dim), *v_buffer = take(&scratch, real, FWD_KEYS * dim);
    void *scores = take(&scratch, real, ROWS * FWD_KEYS);
    for (int64_t i = 0; i < rows; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    const plim_cpu_matrix q = panel(head_rows(a->q, dim, u->lane, first, rows), real, q_buffer, false);
    for (int64_t key = u->start; key < first + rows; key += FWD_KEYS) {
        const int64_t keys = least(FWD_KEYS, first + rows - key);
        const plim_cpu_matrix k = panel(head_rows(a->k, dim, kv, key, keys), real, k_buffer, true);
        const plim_cpu_matrix v = panel(head_rows(a->v, dim, kv, key, keys), real, v_buffer, false);
        plim_cpu_blas(real, rows, keys, dim, 1.0, q, k, 0.0, scores, keys);
        const plim_cpu_tile tile = {real, scores, rows, keys, first - key, a->scale};
        plim_cpu_tile_softmax(&tile, max, sum, out, dim);
        const plim_cpu_matrix p = {scores, keys, false};
        plim_cpu_blas(real, rows, dim, keys, 1.0, p, v, key > u->start ? 1.0 : 0.0, out, dim);
    }
    for (int64_t i = 0; i < rows; i++) {
        const char *row = (const char *)out + (size_t)(i * dim) * plim_dtype_bytes(real);
        plim_cpu_tile_divide(real, act, dim, row, sum[i], plim_cpu_at(a->o, first + i, u->lane * dim));
        const double lse = max[i] + log(sum[i]);
        plim_cpu_store(stat, plim_cpu_at(a->lse, u->lane, first + i), 0, lse);
    }
}

plim_status plim_cpu_attention_fwd(plim_device *d, const plim_attention_args *a)
{
    const char *op = "attention_fwd";
    TRY(check(d, op, a));
    TRY(plim_cpu_view(d, op, "o", a->o, a->q.dtype, a->q.rows, a->q.cols));
    const int64_t units = count_units(&a->docs, ROWS, a->heads);
#pragma omp parallel num_threads(plim_cpu_threads(d, a->q.rows * a->q.cols))
    {
        unit u = {0};
#pragma omp for schedule(monotonic : dynamic)
        for (int64_t i = 0; i < units; i++) {
            find_unit(&u, &a->docs, ROWS, a->heads, i);
            fwd_unit(a, &u, plim_cpu_scratch(d));
        }
    }
    return PLIM_OK;
}

/* ---- backward ------------------------------------------------------------------------------------------ */

/* The buffers of a thread; a matrix is the view itself where it is real already. */
typedef struct bwd_buffers {
    void *q, *dout, *k, *v, *scores, *dp, *dq, *dk, *dv;
} bwd_buffers;

static bwd_buffers lay_out(char *scratch, plim_dtype real, int64_t dim)
{
    return (bwd_buffers){.q = take(&scratch, real, ROWS * dim),
                         .dout = take(&scratch, real, ROWS * dim),
                         .k = take(&scratch, real, BWD_KEYS * dim),
                         .v = take(&scratch, real, BWD_KEYS * dim),
                         .scores = take(&scratch, real, ROWS * BWD_KEYS),
                         .dp = take(&scratch, real, ROWS * BWD_KEYS),
                         .dq = take(&scratch, real, ROWS * dim),
                         .dk = take(&scratch, real, BWD_KEYS * dim),
                         .dv = take(&scratch, real, BWD_KEYS * dim)};
}

/* Rows first .. against keys key .. of one head: P into b->scores, P (dp - delta) into b->dp. */
typedef struct bwd_tile {
    int64_t head, first, rows, key, keys;
    plim_cpu_matrix q, dout, k, v;
} bwd_tile;

/* Of the keys from t->key on, those that any row of the tile sees. */
static int64_t seen_keys(const bwd_tile *t, int64_t keys)
{
    return least(keys, t->first + t->rows - t->key);
}

static void tile_scores(const plim_attention_args *a, const bwd_buffers *b, const bwd_tile *t)
{
    const plim_dtype real = real_of(a->q.dtype);
    const int64_t dim = a->head_dim;
    plim_cpu_blas(real, t->rows, t->keys, dim, 1.0, t->q, transposed(t->k), 0.0, b->scores, t->keys);
    plim_cpu_blas(real, t->rows, t->keys, dim, 1.0, t->dout, transposed(t->v), 0.0, b->dp, t->keys);
    const plim_cpu_tile tile = {real, b->scores, t->rows, t->keys, t->first - t->key, a->scale};
    plim_cpu_tile_gradient(&tile, b->dp, plim_cpu_at(a->lse, t->head, t->first),
                           plim_cpu_at(a->delta, t->head, t->first));
}

/* Where a block of gradient is summed: in the output when it is real, else in buffer. */
static void *sum_in(plim_tensor out, plim_dtype real, void *buffer, int64_t *pitch)
{
    *pitch = out.dtype == real ? out.pitch : out.cols;
    return out.dtype == real ? out.data : buffer;
}

static void round_out(plim_tensor out, plim_dtype real, const void *buffer)
{
    if (out.dtype == real) return;
    const size_t row_bytes = (size_t)out.cols * plim_dtype_bytes(real);
    for (int64_t i = 0; i < out.rows; i++)
        plim_cpu_convert(out.cols, real, (const char *)buffer + (size_t)i * row_bytes, out.dtype,
                         plim_cpu_row(out, i));
}

static void add_dq(const plim_attention_args *a, const bwd_buffers *b, const bwd_tile *t, bool first_tile)
{
    const plim_dtype real = real_of(a->q.dtype);
    int64_t pitch;
    void *dq = sum_in(head_rows(a->dq, a->head_dim, t->head, t->first, t->rows), real, b->dq, &pitch);
    const plim_cpu_matrix ds = {b->dp, t->keys, false};
    plim_cpu_blas(real, t->rows, a->head_dim, t->keys, a->scale, ds, t->k, first_tile ? 0.0 : 1.0, dq, pitch);
}

/* dk and dv of one key block of one key head, over the rows of its group's heads from its own first row on.
 * with_dq: dq is summed in place as well; the caller then visits key blocks in order. */
static void bwd_key_block(const plim_attention_args *a, const unit *u, const bwd_buffers *b, bool with_dq)
{
    const plim_dtype real = real_of(a->q.dtype);
    const int64_t dim = a->head_dim, group = a->heads / a->kv_heads;
    bwd_tile t = {.key = u->start + u->block * BWD_KEYS};
    const int64_t keys = least(BWD_KEYS, u->end - t.key);
    t.k = panel(head_rows(a->k, dim, u->lane, t.key, keys), real, b->k, false);
    t.v = panel(head_rows(a->v, dim, u->lane, t.key, keys), real, b->v, false);
    const plim_tensor dk_out = head_rows(a->dk, dim, u->lane, t.key, keys);
    const plim_tensor dv_out = head_rows(a->dv, dim, u->lane, t.key, keys);
    int64_t dk_pitch, dv_pitch;
    void *dk = sum_in(dk_out, real, b->dk, &dk_pitch), *dv = sum_in(dv_out, real, b->dv, &dv_pitch);
    const size_t row_bytes = (size_t)dim * plim_dtype_bytes(real);
    for (int64_t i = 0; i < keys; i++) {
        memset((char *)dk + (size_t)(i * dk_pitch) * plim_dtype_bytes(real), 0, row_bytes);
        memset((char *)dv + (size_t)(i * dv_pitch) * plim_dtype_bytes(real), 0, row_bytes);
    }
    for (int64_t g = 0; g < group; g++) {
        t.head = u->lane * group + g;
        for (t.first = t.key; t.first < u->end; t.first += ROWS) {
            t.rows = least(ROWS, u->end - t.first);
            t.keys = seen_keys(&t, keys);
            t.q = panel(head_rows(a->q, dim, t.head, t.first, t.rows), real, b->q, false);
            t.dout = panel(head_rows(a->dout, dim, t.head, t.first, t.rows), real, b->dout, false);
            tile_scores(a, b, &t);
            const plim_cpu_matrix p = {b->scores, t.keys, true}, ds = {b->dp, t.keys, true};
            plim_cpu_blas(real, t.keys, dim, t.rows, 1.0, p, t.dout, 1.0, dv, dv_pitch);
            plim_cpu_blas(real, t.keys, dim, t.rows, a->scale, ds, t.q, 1.0, dk, dk_pitch);
            if (with_dq) add_dq(a, b, &t, t.key == u->start);
        }
    }
    round_out(dk_out, real, dk);
    round_out(dv_out, real, dv);
}

/* dq of one row block of one head. */
static void bwd_row_block(const plim_attention_args *a, const unit *u, const bwd_buffers *b)
{
    const plim_dtype real = real_of(a->q.dtype);
    const int64_t dim = a->head_dim, kv = u->lane / (a->heads / a->kv_heads);
    bwd_tile t = {.head = u->lane, .first = u->start + u->block * ROWS};
    t.rows = least(ROWS, u->end - t.first);
    t.q = panel(head_rows(a->q, dim, t.head, t.first, t.rows), real, b->q, false);
    t.dout = panel(head_rows(a->dout, dim, t.head, t.first, t.rows), real, b->dout, false);
    for (t.key = u->start; t.key < t.first + t.rows; t.key += BWD_KEYS) {
        t.keys = seen_keys(&t, BWD_KEYS);
        t.k = panel(head_rows(a->k, dim, kv, t.key, t.keys), real, b->k, false);
        t.v = panel(head_rows(a->v, dim, kv, t.key, t.keys), real, b->v, false);
        tile_scores(a, b, &t);
        add_dq(a, b, &t, t.key == u->start);
    }
    round_out(head_rows(a->dq, dim, t.head, t.first, t.rows), real, b->dq);
}

static plim_status check_bwd(plim_device *d, const char *op, const plim_attention_args *a)
{
    const plim_dtype act = a->q.dtype;
    TRY(check(d, op, a));
    TRY(plim_cpu_view(d, op, "dout", a->dout, act, a->q.rows, a->q.cols));
    TRY(plim_cpu_view(d, op, "delta", a->delta, plim_cpu_stat(act), a->heads, a->q.rows));
    TRY(plim_cpu_view(d, op, "dq", a->dq, act, a->q.rows, a->q.cols));
    TRY(plim_cpu_view(d, op, "dk", a->dk, act, a->q.rows, a->k.cols));
    TRY(plim_cpu_view(d, op, "dv", a->dv, act, a->q.rows, a->k.cols));
    if (a->dout.pitch <= PLIM_CPU_MAX_PITCH && a->dq.pitch <= PLIM_CPU_MAX_PITCH &&
        a->dk.pitch <= PLIM_CPU_MAX_PITCH && a->dv.pitch <= PLIM_CPU_MAX_PITCH)
        return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: a pitch above %" PRId64 "; BLAS would lose count", op,
                     PLIM_CPU_MAX_PITCH);
}

/* With enough key heads for the threads, one visit of each tile gives all three gradients: a thread then owns
 * a key head of a document.  Otherwise dq has its own visit (two more products a tile), and every block is a
 * unit.  Sums run in the same order either way. */
plim_status plim_cpu_attention_bwd(plim_device *d, const plim_attention_args *a)
{
    TRY(check_bwd(d, "attention_bwd", a));
    const plim_dtype real = real_of(a->q.dtype);
    const int64_t whole = INT64_MAX / 2; /* rows a block: one block a document */
    const int64_t owners = a->docs.longest > 0 ? a->kv_heads * (a->q.rows / a->docs.longest) : 0;
    const bool together = a->dq.dtype == real && owners >= d->threads;
    const int64_t key_rows = together ? whole : BWD_KEYS;
    const int64_t key_units = count_units(&a->docs, key_rows, a->kv_heads);
    const int64_t row_units = together ? 0 : count_units(&a->docs, ROWS, a->heads);
#pragma omp parallel num_threads(plim_cpu_threads(d, a->q.rows * a->q.cols))
    {
        const bwd_buffers b = lay_out(plim_cpu_scratch(d), real, a->head_dim);
        unit u = {0}, r = {0};
#pragma omp for schedule(monotonic : dynamic) nowait
        for (int64_t i = 0; i < key_units; i++) {
            find_unit(&u, &a->docs, key_rows, a->kv_heads, i);
            if (!together) {
                bwd_key_block(a, &u, &b, false);
                continue;
            }
            const int64_t blocks = blocks_of(&a->docs, u.document, BWD_KEYS);
            for (u.block = 0; u.block < blocks; u.block++) bwd_key_block(a, &u, &b, true);
        }
#pragma omp for schedule(monotonic : dynamic)
        for (int64_t i = 0; i < row_units; i++) {
            find_unit(&r, &a->docs, ROWS, a->heads, i);
            bwd_row_block(a, &r, &b);
        }
    }
    return PLIM_OK;
}
