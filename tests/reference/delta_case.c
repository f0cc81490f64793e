#include "reference/delta_case.h"

#include <math.h>
#include <stdlib.h>

#include "ops/chunk_table.h"
#include "ops/cpu/cpu.h"
#include "reference/delta.h"
#include "reference/delta_io.h"
#include "support/test.h"

static double *room(int64_t n)
{
    return calloc((size_t)(n + 1), sizeof(double));
}

static double *normals(int64_t n, uint64_t *seed)
{
    double *x = room(n);
    for (int64_t i = 0; i < n; i++) x[i] = io_normal(seed);
    return x;
}

/* Rows of length scale; parallel: a common direction with a little noise. */
static double *unit_rows(int64_t rows, int64_t dim, double scale, bool parallel, uint64_t *seed)
{
    double *x = normals(rows * dim, seed);
    for (int64_t i = 0; i < rows; i++) {
        double sum = 1e-6;
        for (int64_t j = 0; j < dim; j++) {
            double *e = x + i * dim + j;
            *e = parallel ? 1 + 1e-3 * *e : 0.3 + *e;
            sum += *e * *e;
        }
        for (int64_t j = 0; j < dim; j++) x[i * dim + j] *= scale / sqrt(sum);
    }
    return x;
}

static double decay(delta_kind kind, uint64_t *seed)
{
    const double u = io_uniform(seed);
    switch (kind) {
    case DELTA_MILD: return -0.2 * u;
    case DELTA_STRONG: return -40 * u;
    case DELTA_JUMPS: return u < 0.1 ? -100 : 0;
    default: return 0;
    }
}

delta_case delta_case_make(const delta_shape *s, plim_dtype act, bool with_states, uint64_t seed)
{
    delta_case p = {.s = *s, .act = act, .stat = act == PLIM_F64 ? PLIM_F64 : PLIM_F32};
    for (int64_t n = 0; n < s->documents; n++) p.start[n + 1] = p.start[n] + s->lengths[n];
    p.tokens = p.start[s->documents];
    const int64_t T = p.tokens, keys = s->key_heads * s->key_dim, values = s->value_heads * s->value_dim;
    const int64_t states = s->value_heads * s->key_dim * s->value_dim;
    const bool parallel = s->kind == DELTA_PARALLEL;
    p.q = unit_rows(T * s->key_heads, s->key_dim, 1 / sqrt((double)s->key_dim), false, &seed);
    p.k = unit_rows(T * s->key_heads, s->key_dim, 1, parallel, &seed);
    p.v = normals(T * values, &seed);
    p.dout = normals(T * values, &seed);
    p.g = room(T * s->value_heads);
    p.beta = room(T * s->value_heads);
    for (int64_t i = 0; i < T * s->value_heads; i++) {
        p.g[i] = decay(s->kind, &seed);
        p.beta[i] = parallel ? 0.99 + 0.01 * io_uniform(&seed) : 1 / (1 + exp(-io_normal(&seed)));
    }
    if (with_states) {
        p.state_in = normals(states, &seed);
        p.dstate_out = normals(states, &seed);
        io_round(p.stat, p.state_in, states);
        io_round(p.stat, p.dstate_out, states);
    }
    io_round(act, p.q, T * keys);
    io_round(act, p.k, T * keys);
    io_round(act, p.v, T * values);
    io_round(act, p.dout, T * values);
    io_round(p.stat, p.g, T * s->value_heads);
    io_round(p.stat, p.beta, T * s->value_heads);
    return p;
}

void delta_case_free(delta_case *p)
{
    free(p->q), free(p->k), free(p->v), free(p->g), free(p->beta), free(p->dout);
    free(p->state_in), free(p->dstate_out);
}

void delta_result_free(delta_result *r)
{
    free(r->o), free(r->state), free(r->dq), free(r->dk), free(r->dv), free(r->dg), free(r->dbl),
        free(r->dstate);
}

/* The arguments of rows first .. first + rows - 1 of whole, with their chunks; returns the number of
 * chunks. */
static int64_t tile_of(const plim_delta_args *whole, const delta_case *p, int64_t first, int64_t rows,
                       plim_chunk *chunks, plim_delta_args *tile)
{
    const plim_docs docs = {p->s.documents, p->tokens, p->tokens, p->start, p->start};
    *tile = *whole;
    plim_tensor *views[] = {&tile->q,    &tile->k,  &tile->v,  &tile->g,  &tile->beta, &tile->o,
                            &tile->dout, &tile->dq, &tile->dk, &tile->dv, &tile->dg,   &tile->dbl};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        *views[i] = plim_tensor_rows(*views[i], first, rows);
    const int64_t count = plim_chunk_table(&docs, first, rows, chunks);
    if (count && p->state_in && first == 0) chunks[0].starts_document = 0;
    if (count && p->dstate_out && first + rows == p->tokens) chunks[count - 1].ends_document = 0;
    tile->chunks = chunks;
    tile->chunk_count = count;
    return count;
}

static double *take(plim_tensor t)
{
    assert_true(io_guarded(t));
    double *x = io_copy(t);
    io_free(t);
    return x;
}

delta_result delta_case_run(plim_ctx *c, plim_device *d, const delta_case *p, int64_t tile_rows)
{
    const delta_shape *s = &p->s;
    const int64_t T = p->tokens, keys = s->key_heads * s->key_dim, values = s->value_heads * s->value_dim;
    const int64_t state_rows = s->value_heads * s->key_dim, tiles = (T + tile_rows - 1) / tile_rows;
    const int64_t bound = plim_chunk_bound(tile_rows < T ? tile_rows : T, s->documents);
    plim_chunk *chunks = calloc((size_t)bound + 1, sizeof *chunks);
    double *before = room((tiles + 1) * state_rows * s->value_dim);
    /* states that a document's start or end makes irrelevant are NaN */
    plim_delta_args a = {
        .q = io_make(p->act, T, keys, 3, p->q),
        .k = io_make(p->act, T, keys, 0, p->k),
        .v = io_make(p->act, T, values, 5, p->v),
        .g = io_make(p->stat, T, s->value_heads, 1, p->g),
        .beta = io_make(p->stat, T, s->value_heads, 0, p->beta),
        .o = io_make(p->act, T, values, 2, NULL),
        .state = io_make(p->stat, state_rows, s->value_dim, 4, p->state_in),
        .dout = io_make(p->act, T, values, 0, p->dout),
        .dstate = io_make(p->stat, state_rows, s->value_dim, 1, p->dstate_out),
        .dq = io_make(p->act, T, keys, 1, NULL),
        .dk = io_make(p->act, T, keys, 2, NULL),
        .dv = io_make(p->act, T, values, 3, NULL),
        .dg = io_make(p->stat, T, s->value_heads, 4, NULL),
        .dbl = io_make(p->stat, T, s->value_heads, 5, NULL),
        .key_heads = s->key_heads,
        .value_heads = s->value_heads,
        .key_dim = s->key_dim,
        .value_dim = s->value_dim,
        .scratch_bytes = plim_delta_scratch_bytes(p->act, p->stat, s->value_heads, s->key_heads, s->key_dim,
                                                  s->value_dim, bound, true),
    };
    plim_tensor kept_v = io_make(p->act, T, values, 5, p->v);
    if (p->in_place) {
        io_free(a.o), io_free(a.dq), io_free(a.dk), io_free(a.dv), io_free(a.dg), io_free(a.dbl);
        a.o = a.v, a.dq = a.q, a.dk = a.k, a.dg = a.g, a.dbl = a.beta;
    }
    plim_tensor scratch = io_make(PLIM_U8, 1, (int64_t)a.scratch_bytes, 64, NULL);
    a.scratch = scratch.data;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t first = i * tile_rows, rows = T - first < tile_rows ? T - first : tile_rows;
        plim_delta_args tile;
        tile_of(&a, p, first, rows, chunks, &tile);
        io_read(a.state, before + i * state_rows * s->value_dim);
        CHECK_OK(c, plim_cpu_delta_fwd(d, &tile));
    }
    delta_result r = {.o = io_copy(a.o)};
    if (p->in_place) { /* the forward wrote over v */
        memcpy(a.v.data, kept_v.data, (size_t)(T * a.v.pitch) * plim_dtype_bytes(p->act));
        a.dv = a.v;
    }
    for (int64_t i = tiles - 1; i >= 0; i--) {
        const int64_t first = i * tile_rows, rows = T - first < tile_rows ? T - first : tile_rows;
        plim_delta_args tile;
        tile_of(&a, p, first, rows, chunks, &tile);
        tile.state = io_make(p->stat, state_rows, s->value_dim, 2, before + i * state_rows * s->value_dim);
        CHECK_OK(c, plim_cpu_delta_bwd(d, &tile));
        assert_true(io_guarded(tile.state));
        io_free(tile.state);
    }
    r.state = take(a.state), r.dstate = take(a.dstate);
    r.dq = take(a.dq), r.dk = take(a.dk), r.dv = take(a.dv), r.dg = take(a.dg), r.dbl = take(a.dbl);
    plim_tensor rest[] = {a.dout, scratch, kept_v, a.q, a.k, a.v, a.g, a.beta, a.o};
    for (size_t i = 0; i < (p->in_place ? 3 : sizeof rest / sizeof *rest); i++) free(take(rest[i]));
    free(chunks), free(before);
    return r;
}

delta_result delta_case_reference(const delta_case *p)
{
    const delta_shape *s = &p->s;
    const int64_t T = p->tokens, keys = s->key_heads * s->key_dim, values = s->value_heads * s->value_dim;
    const int64_t states = s->value_heads * s->key_dim * s->value_dim, last = (s->documents - 1) * states;
    double *in = room(s->documents * states), *dstate_out = room(s->documents * states);
    double *state_out = room(s->documents * states), *dstate_in = room(s->documents * states);
    if (p->state_in) memcpy(in, p->state_in, (size_t)states * sizeof *in);
    if (p->dstate_out) memcpy(dstate_out + last, p->dstate_out, (size_t)states * sizeof *in);
    delta_result r = {room(T * values),         room(states),     room(T * keys),
                      room(T * keys),           room(T * values), room(T * s->value_heads),
                      room(T * s->value_heads), room(states)};
    const reference_delta f = {.tokens = T,
                               .key_heads = s->key_heads,
                               .value_heads = s->value_heads,
                               .key_dim = s->key_dim,
                               .value_dim = s->value_dim,
                               .documents = s->documents,
                               .start = p->start,
                               .q = p->q,
                               .k = p->k,
                               .v = p->v,
                               .g = p->g,
                               .beta = p->beta,
                               .state_in = in,
                               .o = r.o,
                               .state_out = state_out,
                               .dout = p->dout,
                               .dstate_out = dstate_out,
                               .dq = r.dq,
                               .dk = r.dk,
                               .dv = r.dv,
                               .dg = r.dg,
                               .dbeta = r.dbl,
                               .dstate_in = dstate_in};
    reference_delta_fwd(&f);
    reference_delta_bwd(&f);
    for (int64_t i = 0; i < T * s->value_heads; i++) r.dbl[i] *= p->beta[i] * (1 - p->beta[i]);
    memcpy(r.state, state_out + last, (size_t)states * sizeof *in);
    if (p->state_in)
        memcpy(r.dstate, dstate_in, (size_t)states * sizeof *in); /* else nothing reads that state */
    free(in), free(dstate_out), free(state_out), free(dstate_in);
    return r;
}

static double length(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

void delta_check(const delta_case *p, const delta_result *got, const delta_result *want, double tolerance)
{
    const delta_shape *s = &p->s;
    const int64_t T = p->tokens, keys = T * s->key_heads * s->key_dim,
                  values = T * s->value_heads * s->value_dim;
    const int64_t states = s->value_heads * s->key_dim * s->value_dim, gates = T * s->value_heads;
    const struct {
        const char *name;
        const double *got, *want;
        int64_t n;
    } rows[] = {{"o", got->o, want->o, values},      {"state", got->state, want->state, states},
                {"dq", got->dq, want->dq, keys},     {"dk", got->dk, want->dk, keys},
                {"dv", got->dv, want->dv, values},   {"dg", got->dg, want->dg, gates},
                {"dbl", got->dbl, want->dbl, gates}, {"dstate", got->dstate, want->dstate, states}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double error = io_error(rows[i].got, rows[i].want, rows[i].n);
        /* dg is made of products <q, dq> and <k, dk>.  With parallel keys and no decay they cancel to 1e-4 of
         * themselves (half a rounding step in k moves dg by 3e-5), so there it is measured against them. */
        if (s->kind == DELTA_PARALLEL && rows[i].got == got->dg)
            error *= length(want->dg, gates) / (length(want->dq, keys) + length(want->dk, keys));
        if (!(error <= tolerance))
            fail_msg("%s is off by %.3g (allowed %.3g): %s, Hk %d Hv %d Dk %d Dv %d, decay kind %d, %d "
                     "tokens in %d "
                     "documents",
                     rows[i].name, error, tolerance, plim_dtype_name(p->act), (int)s->key_heads,
                     (int)s->value_heads, (int)s->key_dim, (int)s->value_dim, (int)s->kind, (int)T,
                     (int)s->documents);
    }
}
