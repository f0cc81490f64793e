/* load.c - decides how weights get from a file or from a seed to their place: in blocks of whole rows,
 * converted on the host, put by the sink. */
#include "train/load.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/context.h"
#include "base/file.h"
#include "base/floats.h"
#include "base/random_core.h"
#include "model/random_weights.h"

#define BLOCK_ELEMENTS   ((int64_t)1 << 20) /* or one row, where that is longer */
#define READ_AHEAD_BYTES ((size_t)64 << 20)

typedef struct loading {
    plim_ctx *c;
    const plim_load *l;
    int64_t done, total, widest; /* elements; of a row */
    void *ready;                 /* a block in the dtype of its place */
    void *stored;                /* random weights: the block as the file would store it */
    float *fresh;                /* random weights: as they are drawn */
    /* files */
    const char *folder;
    const plim_model_files *files;
    int32_t file;
    plim_file map;
    /* random weights */
    uint64_t seed;
    plim_dtype dtype;
} loading;

static plim_status put_host(void *user, plim_tensor to, const void *rows)
{
    (void)user;
    size_t row_bytes = (size_t)to.cols * plim_dtype_bytes(to.dtype);
    for (int64_t i = 0; i < to.rows; i++)
        memcpy(plim_tensor_rows(to, i, 1).data, (const char *)rows + (size_t)i * row_bytes, row_bytes);
    return PLIM_OK;
}

plim_weight_sink plim_weight_sink_host(void)
{
    return (plim_weight_sink){.put_rows = put_host};
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static int64_t block_rows_own(int64_t cols)
{
    return cols < BLOCK_ELEMENTS ? BLOCK_ELEMENTS / cols : 1;
}

/* Rows of a block: what the sink takes at once, or what the loader's own buffers hold. */
static int64_t block_rows(const loading *g, int64_t cols, plim_dtype to)
{
    int64_t most = (int64_t)(g->l->sink.block_bytes / plim_dtype_bytes(to));
    if (!g->l->sink.block_bytes) return block_rows_own(cols);
    return cols < most ? most / cols : 1;
}

/* Where a block of these rows is made. */
static plim_status take(loading *g, plim_tensor to, void **out)
{
    const plim_weight_sink *k = &g->l->sink;
    *out = g->ready;
    if (!k->take) return PLIM_OK;
    return k->take(k->user, (size_t)(to.rows * to.cols) * plim_dtype_bytes(to.dtype), out);
}

static plim_status put(loading *g, plim_tensor to, const void *rows)
{
    TRY(g->l->sink.put_rows(g->l->sink.user, to, rows));
    g->done += to.rows * to.cols;
    if (g->l->progress) g->l->progress(g->l->progress_user, g->done, g->total);
    return PLIM_OK;
}

static plim_status put_zeros(void *user, plim_tensor view)
{
    loading *g = user;
    const plim_weight_sink *k = &g->l->sink;
    if (k->zero) return k->zero(k->user, view);
    int64_t step = block_rows_own(view.cols);
    for (int64_t row = 0; row < view.rows; row += step) {
        plim_tensor to = plim_tensor_rows(view, row, view.rows - row < step ? view.rows - row : step);
        TRY(k->put_rows(k->user, to, g->ready));
    }
    return PLIM_OK;
}

/* Zeroed memory for the widest block, and the padding with it. */
static plim_status prepare(loading *g)
{
    int64_t elements = g->widest > BLOCK_ELEMENTS ? g->widest : BLOCK_ELEMENTS;
    TRY(plim_alloc(g->c, (size_t)elements, sizeof(double), "a block of weights", &g->ready));
    return plim_padding_walk(g->l->shape, g->l->model, g->l->layers, put_zeros, g);
}

static plim_status measure(void *user, const plim_tensor_place *p)
{
    loading *g = user;
    g->total += p->to.rows * p->to.cols;
    if (p->to.pitch > g->widest) g->widest = p->to.pitch;
    return PLIM_OK;
}

/* ---- from files ---------------------------------------------------------------------------------------- */

static const char *file_name(const loading *g, const plim_model_tensor *t)
{
    return g->files->files[t->file].name;
}

static plim_status map_file(loading *g, const char *name, uint64_t bytes, plim_file *out)
{
    char path[PLIM_PATH_BYTES];
    plim_file map = {0};
    TRY(plim_path_join(g->c, path, sizeof path, g->folder, name));
    TRY(plim_file_map(g->c, path, &map));
    if (map.bytes == bytes) {
        *out = map;
        return PLIM_OK;
    }
    plim_status st = plim_fail(g->c, PLIM_E_MISMATCH,
                               "%s: has %zu bytes, and had %" PRIu64
                               " when its header was checked; keep the files still while they are read",
                               path, map.bytes, bytes);
    plim_file_unmap(&map);
    return st;
}

static plim_status fail_element(loading *g, const plim_model_tensor *t, int64_t element, plim_dtype to)
{
    double value = 0;
    const char *at = g->map.data + t->offset_bytes + (size_t)element * plim_dtype_bytes(t->dtype);
    bool finite = plim_floats_convert(t->dtype, at, 1, PLIM_F64, &value) < 0;
    return plim_fail(g->c, PLIM_E_NUMERIC, "%s/%s: %s: element %lld is %g%s%s; %s", g->folder,
                     file_name(g, t), t->name, (long long)element, value, finite ? ", too large for " : "",
                     finite ? plim_dtype_name(to) : "",
                     finite ? "F32 would hold it"
                            : "weights must be finite, so fetch the file again or check how it was made");
}

/* Asks for what is needed next, while what is here is converted; a system that will not is no failure. */
static void read_ahead(const plim_file *f, const char *from)
{
    const char *end = f->data + f->bytes;
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE),
              start = (uintptr_t)from / page_bytes * page_bytes;
    if (from >= end) return;
    size_t bytes = (size_t)(end - from) < READ_AHEAD_BYTES ? (size_t)(end - from) : READ_AHEAD_BYTES;
    (void)madvise((void *)start, bytes + (size_t)((uintptr_t)from - start), MADV_WILLNEED);
}

static plim_status load_tensor(loading *g, const plim_model_tensor *t, const plim_tensor_place *p)
{
    int64_t cols = p->to.cols, step = block_rows(g, cols, p->to.dtype);
    const char *data = g->map.data + t->offset_bytes;
    if (t->size_bytes != (uint64_t)p->to.rows * (uint64_t)cols * plim_dtype_bytes(t->dtype))
        return plim_fail(g->c, PLIM_E_MISMATCH,
                         "%s/%s: %s: %" PRIu64 " bytes do not fill its place of %lld x %lld", g->folder,
                         file_name(g, t), t->name, t->size_bytes, (long long)p->to.rows, (long long)cols);
    for (int64_t row = 0; row < p->to.rows; row += step) {
        int64_t rows = p->to.rows - row < step ? p->to.rows - row : step;
        const char *src = data + (size_t)(row * cols) * plim_dtype_bytes(t->dtype);
        plim_tensor to = plim_tensor_rows(p->to, row, rows);
        void *made;
        TRY(take(g, to, &made));
        read_ahead(&g->map, src + (size_t)(rows * cols) * plim_dtype_bytes(t->dtype));
        int64_t bad = plim_floats_convert(t->dtype, src, rows * cols, p->to.dtype, made);
        if (bad >= 0) return fail_element(g, t, row * cols + bad, p->to.dtype);
        TRY(put(g, to, made));
    }
    return PLIM_OK;
}

/* Measures, and makes sure that every file has what is wanted of it before anything is written. */
static plim_status expect(void *user, const plim_tensor_place *p)
{
    loading *g = user;
    if (!plim_model_files_find(g->files, p->decl.name))
        return plim_fail(g->c, PLIM_E_MISMATCH, "%s: no file holds %s", g->folder, p->decl.name);
    return measure(user, p);
}

static plim_status load_from_file(void *user, const plim_tensor_place *p)
{
    loading *g = user;
    const plim_model_tensor *t = plim_model_files_find(g->files, p->decl.name);
    if (t->file != g->file) return PLIM_OK;
    if (!g->map.data) TRY(map_file(g, file_name(g, t), g->files->files[t->file].bytes, &g->map));
    return load_tensor(g, t, p);
}

/* A tied head in the files is the embedding once more; every reader ignores it, so another one would be lost
 * in silence. */
static plim_status compare_head(loading *g, const plim_model_tensor *head, const plim_model_tensor *embedding,
                                const plim_file *head_map, const plim_file *embedding_map)
{
    int64_t n = head->shape[0] * head->shape[1], half = BLOCK_ELEMENTS / 2;
    float *a = g->ready, *b = a + half;
    for (int64_t at = 0; at < n; at += half) {
        int64_t count = n - at < half ? n - at : half;
        plim_floats_convert(head->dtype,
                            head_map->data + head->offset_bytes + (size_t)at * plim_dtype_bytes(head->dtype),
                            count, PLIM_F32, a);
        plim_floats_convert(embedding->dtype,
                            embedding_map->data + embedding->offset_bytes +
                                (size_t)at * plim_dtype_bytes(embedding->dtype),
                            count, PLIM_F32, b);
        if (memcmp(a, b, (size_t)count * sizeof *a))
            return plim_fail(g->c, PLIM_E_MISMATCH,
                             "%s/%s: %s is not %s, although tie_word_embeddings is true; the files or the "
                             "config are those of another model",
                             g->folder, file_name(g, head), head->name, embedding->name);
    }
    return PLIM_OK;
}

static plim_status check_tied_head(loading *g)
{
    const plim_spec *s = g->l->shape->spec;
    const plim_model_tensor *head = plim_model_files_find(g->files, "lm_head.weight");
    const plim_model_tensor *embedding = plim_model_files_find(
        g->files, s->multimodal ? "model.language_model.embed_tokens.weight" : "model.embed_tokens.weight");
    plim_file head_map = {0}, embedding_map = {0};
    if (!s->tied || !g->l->shape->has_head || !head || !embedding) return PLIM_OK;
    plim_status st = map_file(g, file_name(g, head), g->files->files[head->file].bytes, &head_map);
    if (!st)
        st = map_file(g, file_name(g, embedding), g->files->files[embedding->file].bytes, &embedding_map);
    if (!st) st = compare_head(g, head, embedding, &head_map, &embedding_map);
    plim_file_unmap(&head_map);
    plim_file_unmap(&embedding_map);
    return st;
}

static plim_status load_files(loading *g)
{
    const plim_load *l = g->l;
    TRY(plim_tensor_map_walk(l->shape, l->model, l->layers, expect, g));
    TRY(prepare(g));
    plim_status st = PLIM_OK;
    for (g->file = 0; (size_t)g->file < g->files->file_count && !st; g->file++) {
        st = plim_tensor_map_walk(l->shape, l->model, l->layers, load_from_file, g);
        plim_file_unmap(&g->map);
    }
    return st ? st : check_tied_head(g);
}

static plim_status finish(const loading *g)
{
    return g->l->sink.finish ? g->l->sink.finish(g->l->sink.user) : PLIM_OK;
}

plim_status plim_weights_load(plim_ctx *c, const char *folder, const plim_model_files *files,
                              const plim_load *l)
{
    loading g = {.c = c, .l = l, .folder = folder, .files = files};
    plim_status st = load_files(&g);
    if (!st) st = finish(&g);
    plim_release(c, g.ready);
    return st;
}

/* ---- at random ----------------------------------------------------------------------------------------- */

static plim_status refuse_deviation(loading *g, const plim_tensor_place *p)
{
    return plim_fail(g->c, PLIM_E_NUMERIC, "%s: initializer_range %g is too large for %s", p->decl.name,
                     g->l->shape->spec->initializer_range, plim_dtype_name(g->dtype));
}

/* Whether one rounding, that of a fill, is all there is between a float and its place: what a file of the
 * stored dtype would hold needs none of its own, or its place needs none after it. */
static bool rounds_once(const loading *g, const plim_tensor_place *p)
{
    return g->dtype == PLIM_F32 || g->dtype == p->to.dtype;
}

/* Where the weights lie, when the sink can and the bits are the same. */
static plim_status draw_in_place(loading *g, const plim_tensor_place *p, bool *done)
{
    const plim_weight_sink *k = &g->l->sink;
    plim_fill_args fill;
    *done = false;
    if (!k->fill || !rounds_once(g, p)) return PLIM_OK;
    if (!plim_random_tensor_fill(g->l->shape->spec, g->seed, &p->decl, &fill)) return PLIM_OK;
    float most = PLIM_NORMAL_MAX_Q * 0x1p-21f * (float)fill.b, stored;
    if (fill.kind == PLIM_FILL_NORMAL && plim_floats_convert(PLIM_F32, &most, 1, p->to.dtype, &stored) >= 0)
        return refuse_deviation(g, p);
    fill.x = p->to;
    TRY(k->fill(k->user, &fill, done));
    if (*done) g->done += p->to.rows * p->to.cols;
    if (*done && g->l->progress) g->l->progress(g->l->progress_user, g->done, g->total);
    return PLIM_OK;
}

static plim_status draw_tensor(void *user, const plim_tensor_place *p)
{
    loading *g = user;
    int64_t cols = p->to.cols, step = block_rows(g, cols, p->to.dtype);
    bool done;
    if (step > 1 && step * cols > BLOCK_ELEMENTS) step = block_rows_own(cols); /* drawn in our buffers */
    TRY(draw_in_place(g, p, &done));
    for (int64_t row = 0; row < p->to.rows && !done; row += step) {
        int64_t rows = p->to.rows - row < step ? p->to.rows - row : step, n = rows * cols;
        plim_tensor to = plim_tensor_rows(p->to, row, rows);
        void *made;
        TRY(take(g, to, &made));
        plim_random_tensor(g->l->shape->spec, g->seed, &p->decl, (uint64_t)(row * cols), (size_t)n, g->fresh);
        plim_floats_convert(PLIM_F32, g->fresh, n, g->dtype, g->stored);
        if (plim_floats_convert(g->dtype, g->stored, n, p->to.dtype, made) >= 0)
            return refuse_deviation(g, p);
        TRY(put(g, to, made));
    }
    return PLIM_OK;
}

static plim_status draw_all(loading *g)
{
    const plim_load *l = g->l;
    TRY(plim_tensor_map_walk(l->shape, l->model, l->layers, measure, g));
    TRY(prepare(g));
    size_t elements = (size_t)(g->widest > BLOCK_ELEMENTS ? g->widest : BLOCK_ELEMENTS);
    TRY(plim_alloc(g->c, elements, sizeof *g->fresh, "a block of weights", &g->fresh));
    TRY(plim_alloc(g->c, elements, sizeof(float), "a block of weights", &g->stored));
    return plim_tensor_map_walk(l->shape, l->model, l->layers, draw_tensor, g);
}

plim_status plim_weights_random(plim_ctx *c, uint64_t seed, plim_dtype stored, const plim_load *l)
{
    assert(plim_floats_are(stored));
    loading g = {.c = c, .l = l, .seed = seed, .dtype = stored};
    plim_status st = draw_all(&g);
    if (!st) st = finish(&g);
    plim_release(c, g.ready);
    plim_release(c, g.stored);
    plim_release(c, g.fresh);
    return st;
}
