/* The gated delta rule: the card against the CPU; and against itself where bits have to be the same. */
#include "support/twin.h"

#include <math.h>
#include <stdlib.h>

#include "base/bf16.h"
#include "ops/chunk_table.h"

#define TOLERANCE 2e-2 /* relative, over a tensor: docs/maths.md 4.7 */

typedef enum kind {
    MILD,     /* g about -0.1 */
    STRONG,   /* g about -16: b reaches -1000s in a chunk */
    HOLD,     /* g = 0 exactly */
    PARALLEL, /* g = 0, keys nearly parallel, beta near 1 */
} kind;

typedef struct shape {
    int64_t key_heads, value_heads, key_dim, value_dim;
    kind kind;
    int64_t tile_rows, documents, lengths[12];
} shape;

enum { INPUTS = 8, OUTPUTS = 8 };
typedef enum which { Q, K, V, G, BETA, DOUT, STATE_IN, DSTATE_IN } which;
typedef enum result { O, STATE, DQ, DK, DV, DG, DBL, DSTATE } result;
static const char *const result_names[OUTPUTS] = {"o", "state", "dq", "dk", "dv", "dg", "dbl", "dstate"};

typedef struct problem {
    shape s;
    bool with_states; /* the first document goes on from a state, and the last goes on after the sequence */
    bool in_place;    /* o over v, and the gradients over their inputs */
    int64_t tokens, start[13];
    twin_tensor in[INPUTS];
} problem;

typedef struct run {
    twin_tensor out[OUTPUTS], own[5]; /* own: q, k, v, g, beta when they are overwritten */
} run;

/* ---- inputs -------------------------------------------------------------------------------------------- */

static double get(plim_tensor x, int64_t i, int64_t j)
{
    const int64_t at = i * x.pitch + j;
    return x.dtype == PLIM_BF16 ? plim_bf16_load(((const uint16_t *)x.data)[at])
                                : ((const float *)x.data)[at];
}

static void put(plim_tensor x, int64_t i, int64_t j, double v)
{
    const int64_t at = i * x.pitch + j;
    if (x.dtype == PLIM_BF16) ((uint16_t *)x.data)[at] = plim_bf16_round((float)v);
    else ((float *)x.data)[at] = (float)v;
}

/* Heads of length scale; parallel: all close to one direction. */
static void normalise(plim_tensor x, int64_t dim, double scale, bool parallel)
{
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t first = 0; first < x.cols; first += dim) {
            double square = 1e-6;
            for (int64_t j = first; j < first + dim; j++) {
                const double v = (parallel ? 1.0 : 0.0) + get(x, i, j) * (parallel ? 0.1 : 1.0);
                put(x, i, j, v);
                square += v * v;
            }
            for (int64_t j = first; j < first + dim; j++) put(x, i, j, get(x, i, j) * scale / sqrt(square));
        }
}

static void gates(problem *p)
{
    const plim_tensor g = p->in[G].host, beta = p->in[BETA].host;
    for (int64_t i = 0; i < g.rows; i++)
        for (int64_t h = 0; h < g.cols; h++) {
            const double n = fabs(get(g, i, h)), b = 1 / (1 + exp(-2 * get(beta, i, h)));
            put(g, i, h, p->s.kind == MILD ? -0.1 * n : p->s.kind == STRONG ? -20 * n : 0);
            put(beta, i, h, p->s.kind == PARALLEL ? 1 - 0.01 * b : b);
        }
}

static problem problem_make(twin *t, const shape *s, bool with_states)
{
    problem p = {.s = *s, .with_states = with_states};
    for (int64_t n = 0; n < s->documents; n++) p.start[n + 1] = p.start[n] + s->lengths[n];
    const int64_t T = p.tokens = p.start[s->documents], keys = s->key_heads * s->key_dim,
                  values = s->value_heads * s->value_dim, states = s->value_heads * s->key_dim;
    p.in[Q] = twin_random(t, PLIM_BF16, T, keys, 8, 1);
    p.in[K] = twin_random(t, PLIM_BF16, T, keys, 0, 1);
    p.in[V] = twin_random(t, PLIM_BF16, T, values, 8, 1);
    p.in[G] = twin_random(t, PLIM_F32, T, s->value_heads, 3, 1);
    p.in[BETA] = twin_random(t, PLIM_F32, T, s->value_heads, 0, 1);
    p.in[DOUT] = twin_random(t, PLIM_BF16, T, values, 16, 1);
    p.in[STATE_IN] = twin_random(t, PLIM_F32, states, s->value_dim, 4, 0.5);
    p.in[DSTATE_IN] = twin_random(t, PLIM_F32, states, s->value_dim, 0, 0.5);
    normalise(p.in[Q].host, s->key_dim, 1 / sqrt((double)s->key_dim), false);
    normalise(p.in[K].host, s->key_dim, 1, s->kind == PARALLEL);
    gates(&p);
    for (int i = Q; i <= BETA; i++) twin_push(t, &p.in[i]);
    return p;
}

static void problem_free(twin *t, problem *p)
{
    for (int i = 0; i < INPUTS; i++) twin_free(t, &p->in[i]);
}

/* ---- running ------------------------------------------------------------------------------------------- */

static plim_tensor side(const twin_tensor *x, bool card)
{
    return card ? x->dev : x->host;
}

/* from -> to on one side, by way of the host. */
static void copy(twin *t, const plim_machine *m, plim_tensor from, plim_tensor to)
{
    const size_t bytes = (size_t)from.cols * plim_dtype_bytes(from.dtype);
    void *row = malloc(bytes);
    if (!row) abort();
    for (int64_t i = 0; i < from.rows; i++) {
        char nothing;
        CHECK_OK(t->ctx, m->ops->read(m->device, plim_tensor_rows(from, i, 1).data, row, bytes));
        CHECK_OK(t->ctx, m->ops->write(m->device, row, plim_tensor_rows(to, i, 1).data, bytes));
        CHECK_OK(t->ctx, m->ops->read(m->device, to.data, &nothing, 1));
    }
    free(row);
}

typedef struct tiles {
    int64_t count, chunks[64];
    plim_chunk *table[64]; /* of every tile, readable by the column */
} tiles;

static tiles tiles_make(twin *t, const problem *p, bool card)
{
    const plim_docs docs = {p->s.documents, p->tokens, p->tokens, p->start, p->start};
    const int64_t most = p->s.tile_rows;
    tiles x = {0};
    for (int64_t first = 0; first < p->tokens; first += most, x.count++) {
        const int64_t rows = p->tokens - first < most ? p->tokens - first : most;
        const size_t bytes = (size_t)plim_chunk_bound(rows, docs.count) * sizeof(plim_chunk);
        plim_chunk *host = malloc(bytes);
        assert_true(host && x.count < 64);
        const int64_t n = x.chunks[x.count] = plim_chunk_table(&docs, first, rows, host);
        if (p->with_states && first == 0) host[0].starts_document = 0;
        if (p->with_states && first + rows == p->tokens) host[n - 1].ends_document = 0;
        x.table[x.count] = card ? twin_device_bytes(t, host, bytes) : host;
        char sync;
        if (card) {
            CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, x.table[x.count], &sync, 1));
            free(host);
        }
    }
    return x;
}

static void *scratch_of(twin *t, bool card, size_t bytes)
{
    void *p = card ? twin_device_bytes(t, NULL, bytes) : malloc(bytes);
    assert_non_null(p);
    return p;
}

static plim_tensor rows_of(plim_tensor x, int64_t first, int64_t rows)
{
    return plim_tensor_rows(x, first, rows);
}

/* Forward through all tiles, then backward, on one side. */
static void column_run(twin *t, const problem *p, run *r, bool card)
{
    const plim_machine *m = card ? &t->gpu : &t->cpu;
    const shape *s = &p->s;
    tiles x = tiles_make(t, p, card);
    const int64_t bound = plim_chunk_bound(s->tile_rows, s->documents), states = s->value_heads * s->key_dim;
    const size_t bytes = plim_delta_scratch_bytes(PLIM_BF16, PLIM_F32, s->value_heads, s->key_heads,
                                                  s->key_dim, s->value_dim, bound, true);
    void *scratch = scratch_of(t, card, bytes);
    twin_tensor before = twin_output(t, PLIM_F32, x.count * states, s->value_dim, 0);
    const plim_tensor state = side(&r->out[STATE], card), kept = side(&before, card);
    plim_delta_args a = {.key_heads = s->key_heads,
                         .value_heads = s->value_heads,
                         .key_dim = s->key_dim,
                         .value_dim = s->value_dim,
                         .scratch = scratch,
                         .scratch_bytes = bytes};
    const twin_tensor *in[5];
    for (int i = Q; i <= BETA; i++) in[i] = p->in_place ? &r->own[i] : &p->in[i];
    twin_tensor v_again = p->in_place
                              ? twin_random(t, PLIM_BF16, p->tokens, s->value_heads * s->value_dim, 8, 1)
                              : (twin_tensor){0};
    if (p->in_place) { /* forward over a copy of v: backward wants v again */
        copy(t, m, side(&p->in[V], card), side(&v_again, card));
        for (int i = Q; i <= BETA; i++) copy(t, m, side(&p->in[i], card), side(&r->own[i], card));
    }
    if (p->with_states) copy(t, m, side(&p->in[STATE_IN], card), state);
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t first = i * s->tile_rows,
                      rows = p->tokens - first < s->tile_rows ? p->tokens - first : s->tile_rows;
        copy(t, m, state, rows_of(kept, i * states, states));
        a.q = rows_of(side(in[Q], card), first, rows), a.k = rows_of(side(in[K], card), first, rows);
        a.v = rows_of(side(p->in_place ? &v_again : in[V], card), first, rows);
        a.g = rows_of(side(in[G], card), first, rows), a.beta = rows_of(side(in[BETA], card), first, rows);
        a.o = p->in_place ? a.v : rows_of(side(&r->out[O], card), first, rows);
        a.state = state;
        a.chunks = x.table[i], a.chunk_count = x.chunks[i];
        CHECK_OK(t->ctx, m->ops->delta_fwd(m->device, &a));
    }
    if (p->in_place) copy(t, m, side(&v_again, card), side(&r->out[O], card));
    copy(t, m, side(&p->in[DSTATE_IN], card), side(&r->out[DSTATE], card));
    for (int64_t i = x.count - 1; i >= 0; i--) {
        const int64_t first = i * s->tile_rows,
                      rows = p->tokens - first < s->tile_rows ? p->tokens - first : s->tile_rows;
        const plim_tensor *to[5] = {&a.q, &a.k, &a.v, &a.g, &a.beta};
        plim_tensor *grad[5] = {&a.dq, &a.dk, &a.dv, &a.dg, &a.dbl};
        for (int j = Q; j <= BETA; j++) {
            *(plim_tensor *)to[j] = rows_of(side(in[j], card), first, rows);
            *grad[j] = p->in_place ? *to[j] : rows_of(side(&r->out[DQ + j], card), first, rows);
        }
        a.dout = rows_of(side(&p->in[DOUT], card), first, rows);
        a.state = rows_of(kept, i * states, states), a.dstate = side(&r->out[DSTATE], card);
        a.chunks = x.table[i], a.chunk_count = x.chunks[i];
        CHECK_OK(t->ctx, m->ops->delta_bwd(m->device, &a));
    }
    for (int j = Q; p->in_place && j <= BETA; j++)
        copy(t, m, side(&r->own[j], card), side(&r->out[DQ + j], card));
    for (int64_t i = 0; i < x.count; i++)
        if (card) twin_device_free(t, x.table[i]);
        else free(x.table[i]);
    if (card) twin_device_free(t, scratch);
    else free(scratch);
    if (p->in_place) twin_free(t, &v_again);
    twin_free(t, &before);
}

static run run_make(twin *t, const problem *p)
{
    const shape *s = &p->s;
    const int64_t T = p->tokens, keys = s->key_heads * s->key_dim, values = s->value_heads * s->value_dim,
                  states = s->value_heads * s->key_dim;
    run r = {0};
    r.out[O] = twin_output(t, PLIM_BF16, T, values, 8);
    r.out[STATE] = twin_output(t, PLIM_F32, states, s->value_dim, 4);
    r.out[DQ] = twin_output(t, PLIM_BF16, T, keys, 8);
    r.out[DK] = twin_output(t, PLIM_BF16, T, keys, 0);
    r.out[DV] = twin_output(t, PLIM_BF16, T, values, 8);
    r.out[DG] = twin_output(t, PLIM_F32, T, s->value_heads, 1);
    r.out[DBL] = twin_output(t, PLIM_F32, T, s->value_heads, 0);
    r.out[DSTATE] = twin_output(t, PLIM_F32, states, s->value_dim, 8);
    for (int i = Q; p->in_place && i <= BETA; i++)
        r.own[i] = twin_output(t, p->in[i].host.dtype, T, p->in[i].host.cols, 8);
    return r;
}

static void run_free(twin *t, run *r)
{
    for (int i = 0; i < OUTPUTS; i++) twin_free(t, &r->out[i]);
    for (int i = 0; i < 5; i++)
        if (r->own[i].host_block) twin_free(t, &r->own[i]);
}

static void check_against_cpu(twin *t, const shape *s, bool with_states)
{
    problem p = problem_make(t, s, with_states);
    run r = run_make(t, &p);
    column_run(t, &p, &r, false);
    column_run(t, &p, &r, true);
    for (int i = 0; i < OUTPUTS; i++) {
        char what[160];
        snprintf(what, sizeof what,
                 "%s: heads %lld/%lld, %lld x %lld, kind %d, %lld tokens, tiles of %lld, states %d",
                 result_names[i], (long long)s->key_heads, (long long)s->value_heads, (long long)s->key_dim,
                 (long long)s->value_dim, (int)s->kind, (long long)p.tokens, (long long)s->tile_rows,
                 with_states);
        twin_check_relative(t, &r.out[i], TOLERANCE, what);
        twin_check_guards(t, &r.out[i], what);
    }
    run_free(t, &r);
    problem_free(t, &p);
}

/* Blocks hold the same bytes on the card, guards and slack included. */
static void check_same_bits(twin *t, const run *x, const run *y, const char *what)
{
    for (int i = 0; i < OUTPUTS; i++) {
        const size_t n = x->out[i].bytes;
        char *a = malloc(n), *b = malloc(n);
        assert_true(a && b && n == y->out[i].bytes);
        CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, x->out[i].dev_block, a, n));
        CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, y->out[i].dev_block, b, n));
        if (memcmp(a, b, n) != 0) fail_msg("%s: %s differs", what, result_names[i]);
        free(a), free(b);
    }
}

/* ---- tests --------------------------------------------------------------------------------------------- */

TEST(widths_and_groups)
{
    TWIN(t);
    static const shape shapes[] = {
        {1, 1, 128, 128, MILD, 512, 1, {200}}, {1, 3, 128, 128, MILD, 512, 2, {130, 70}},
        {1, 3, 64, 64, MILD, 512, 1, {130}},   {2, 6, 32, 16, MILD, 512, 1, {100}},
        {1, 1, 16, 128, MILD, 512, 1, {90}},   {2, 2, 128, 8, MILD, 512, 1, {90}},
        {1, 2, 40, 72, MILD, 512, 1, {129}},   {1, 3, 8, 24, MILD, 512, 1, {140}},
        {1, 1, 96, 120, MILD, 512, 1, {66}},   {2, 4, 56, 48, MILD, 512, 1, {70}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int with_states = 0; with_states < 2; with_states++)
            check_against_cpu(t, shapes + i, with_states);
}

TEST(lengths_and_documents)
{
    TWIN(t);
    static const shape shapes[] = {
        {1, 3, 32, 32, MILD, 512, 1, {1}},
        {1, 3, 32, 32, MILD, 512, 1, {63}},
        {1, 3, 32, 32, MILD, 512, 1, {64}},
        {1, 3, 32, 32, MILD, 512, 1, {65}},
        {1, 2, 64, 32, MILD, 1024, 6, {1, 64, 65, 3, 128, 77}},
        {1, 1, 32, 64, MILD, 1024, 12, {70, 1, 1, 64, 30, 129, 2, 63, 65, 10, 1, 100}},
        {1, 3, 32, 32, MILD, 128, 3, {200, 64, 70}},
        {1, 2, 128, 128, MILD, 100, 3, {90, 5, 166}},
        {1, 1, 64, 64, MILD, 1, 1, {5}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int with_states = 0; with_states < 2; with_states++)
            check_against_cpu(t, shapes + i, with_states);
}

TEST(extremes)
{
    TWIN(t);
    static const shape shapes[] = {
        {1, 3, 128, 128, STRONG, 512, 2, {150, 65}}, {1, 1, 64, 96, STRONG, 512, 1, {200}},
        {1, 2, 128, 128, HOLD, 512, 1, {200}},       {1, 3, 32, 32, HOLD, 512, 1, {257}},
        {1, 2, 64, 64, PARALLEL, 512, 2, {130, 70}}, {1, 1, 128, 128, PARALLEL, 512, 1, {192}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_against_cpu(t, shapes + i, i & 1);
}

TEST(bits_do_not_depend_on_the_run_the_tiles_or_the_places)
{
    TWIN(t);
    static const shape shapes[] = {{1, 3, 128, 128, MILD, 1024, 3, {192, 64, 90}},
                                   {2, 2, 24, 40, MILD, 1024, 4, {64, 320, 128, 1}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p = problem_make(t, shapes + i, true);
        run one = run_make(t, &p), again = run_make(t, &p), cut = run_make(t, &p);
        column_run(t, &p, &one, true);
        column_run(t, &p, &again, true);
        check_same_bits(t, &one, &again, "a second run");
        p.s.tile_rows = 128;
        column_run(t, &p, &cut, true);
        check_same_bits(t, &one, &cut, "tiles of 128 rows");
        p.s.tile_rows = 1024;
        p.in_place = true;
        run over = run_make(t, &p);
        column_run(t, &p, &over, true);
        check_same_bits(t, &one, &over, "outputs over inputs");
        run_free(t, &one), run_free(t, &again), run_free(t, &cut), run_free(t, &over);
        problem_free(t, &p);
    }
}

TEST(unfit_calls_are_refused)
{
    TWIN(t);
    twin_tensor q = twin_random(t, PLIM_BF16, 8, 24, 0, 1), f = twin_random(t, PLIM_F32, 24, 24, 0, 1);
    plim_chunk chunk = {0, 8, 1, 1};
    plim_delta_args a = {.q = q.dev, .k = q.dev, .v = q.dev, .o = q.dev, .key_heads = 2, .value_heads = 2};
    a.key_dim = a.value_dim = 12;
    a.chunks = &chunk, a.chunk_count = 1;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->delta_fwd(t->gpu.device, &a), "multiples of 8");
    a.key_heads = a.value_heads = 1;
    a.key_dim = a.value_dim = 24;
    a.g = plim_tensor_cols(plim_tensor_rows(f.dev, 0, 8), 0, 1), a.beta = a.g, a.state = f.dev;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->delta_fwd(t->gpu.device, &a), "scratch");
    a.q.data = (char *)a.q.data + 2;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->delta_fwd(t->gpu.device, &a), "16 bytes");
    a.chunk_count = 0;
    a.q.data = q.dev.data;
    CHECK_OK(t->ctx, t->gpu.ops->delta_fwd(t->gpu.device, &a));
    CHECK_OK(t->ctx, (plim_ctx_clear(t->ctx), PLIM_OK));
    twin_free(t, &q);
    twin_free(t, &f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(widths_and_groups),
        cmocka_unit_test(lengths_and_documents),
        cmocka_unit_test(extremes),
        cmocka_unit_test(bits_do_not_depend_on_the_run_the_tiles_or_the_places),
        cmocka_unit_test(unfit_calls_are_refused),
    };
    return cmocka_run_group_tests(table, twin_open, twin_close);
}
