/* What surrounds the delta rule - convolution, L2 norm, decay, gated norm: the card against the CPU, with
 * rows that can be read 16 bytes at a time and rows that cannot. */
#include "support/twin.h"

#include <stdlib.h>

#define F32_CLOSE 1e-5 /* exp and log1p in fp32 against double */

/* A view that starts `first` columns into x, on one side. */
static plim_tensor part(plim_tensor x, int64_t first, int64_t cols)
{
    return plim_tensor_cols(x, first, cols);
}

static void check(twin *t, twin_tensor *x, double tolerance, const char *what)
{
    twin_check_close(t, x, tolerance, what);
    twin_check_guards(t, x, what);
}

/* ---- convolution --------------------------------------------------------------------------------------- */

typedef struct conv_shape {
    int64_t channels, taps, tile_rows, slack, documents, lengths[6];
} conv_shape;

static const conv_shape conv_shapes[] = {
    {64, 4, 1000, 0, 1, {257}},     {64, 4, 50, 0, 1, {257}},   {40, 4, 33, 8, 5, {1, 2, 64, 0, 90}},
    {13, 4, 40, 3, 3, {60, 1, 30}}, /* no 16-byte rows */
    {2056, 4, 64, 0, 2, {100, 31}}, {16, 1, 20, 0, 2, {30, 5}}, {24, 2, 7, 0, 3, {3, 20, 9}},
    {8, 3, 1, 0, 2, {5, 6}}, /* tiles shorter than the taps */
    {16, 8, 5, 0, 3, {3, 17, 20}},  {5, 7, 40, 1, 2, {60, 9}},  {8, 5, 37, 0, 1, {80}},
    {8, 6, 37, 0, 1, {80}},
};

static plim_tensor side(const twin_tensor *x, bool card)
{
    return card ? x->dev : x->host;
}

typedef struct conv_problem {
    twin_tensor m, w, dy, y, dm, carry, starts;
    int64_t tokens, start[7];
    int64_t *start_dev;
} conv_problem;

/* All tiles upwards, then all tiles downwards; the carry of the gradient stays at its last value. */
static void conv_run(twin *t, const conv_shape *s, conv_problem *p, bool card)
{
    const plim_machine *m = card ? &t->gpu : &t->cpu;
    const int64_t tiles = (p->tokens + s->tile_rows - 1) / s->tile_rows, most = s->tile_rows;
    plim_conv_silu_args a = {
        .w = side(&p->w, card),
        .carry = side(&p->carry, card),
        .docs = {s->documents, p->tokens, p->tokens, card ? p->start_dev : p->start, p->start}};
    for (int64_t i = 0; i < 2 * tiles; i++) {
        const bool backward = i >= tiles;
        const int64_t tile = backward ? 2 * tiles - 1 - i : i, first = tile * most;
        const int64_t rows = p->tokens - first < most ? p->tokens - first : most, before = s->taps - 1;
        /* The rows before the tile, where the sequence has that many; else a tile from its start on. */
        if (first > 0 && first < before) continue;
        a.first_row = first;
        a.m = plim_tensor_rows(side(&p->m, card), first, rows);
        a.history = first ? plim_tensor_rows(side(&p->m, card), first - before, before) : (plim_tensor){0};
        a.y = plim_tensor_rows(side(&p->y, card), first, rows);
        a.dy = plim_tensor_rows(side(&p->dy, card), first, rows);
        a.dm = plim_tensor_rows(side(&p->dm, card), first, rows);
        CHECK_OK(t->ctx,
                 backward ? m->ops->conv_silu_bwd(m->device, &a) : m->ops->conv_silu_fwd(m->device, &a));
    }
}

static conv_problem conv_make(twin *t, const conv_shape *s)
{
    conv_problem p = {0};
    for (int64_t n = 0; n < s->documents; n++) p.start[n + 1] = p.start[n] + s->lengths[n];
    p.tokens = p.start[s->documents];
    p.start_dev = twin_device_bytes(t, p.start, sizeof p.start);
    p.m = twin_random(t, PLIM_BF16, p.tokens, s->channels, s->slack, 1);
    p.w = twin_random(t, PLIM_F32, s->channels, s->taps, 0, 0.5);
    p.dy = twin_random(t, PLIM_BF16, p.tokens, s->channels, s->slack, 1);
    return p;
}

/* Fresh outputs; the carry begins as random numbers, which no document may see. */
static void conv_outputs(twin *t, const conv_shape *s, conv_problem *p)
{
    p->y = twin_output(t, PLIM_BF16, p->tokens, s->channels, s->slack);
    p->dm = twin_output(t, PLIM_BF16, p->tokens, s->channels, s->slack);
    p->carry = twin_random(t, PLIM_F32, s->taps - 1, s->channels, s->slack, 1);
}

TEST(convolutions)
{
    TWIN(t);
    for (size_t i = 0; i < sizeof conv_shapes / sizeof *conv_shapes; i++) {
        const conv_shape *s = conv_shapes + i;
        char what[96];
        conv_problem p = conv_make(t, s);
        conv_outputs(t, s, &p);
        conv_run(t, s, &p, false);
        conv_run(t, s, &p, true);
        snprintf(what, sizeof what, "convolution %zu, %lld taps", i, (long long)s->taps);
        if (s->tile_rows >= s->taps - 1) {
            check(t, &p.y, TWIN_BF16_STEP, what);
            check(t, &p.dm, TWIN_BF16_STEP, what);
        }
        if (s->taps > 1) check(t, &p.carry, 1e-4, what);
        twin_free(t, &p.m), twin_free(t, &p.w), twin_free(t, &p.dy);
        twin_free(t, &p.y), twin_free(t, &p.dm), twin_free(t, &p.carry);
        twin_device_free(t, p.start_dev);
    }
}

static void check_same_bits(twin *t, const twin_tensor *x, const twin_tensor *y, const char *what)
{
    char *a = malloc(x->bytes), *b = malloc(y->bytes);
    assert_true(a && b && x->bytes == y->bytes);
    CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, x->dev_block, a, x->bytes));
    CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, y->dev_block, b, y->bytes));
    if (memcmp(a, b, x->bytes) != 0) fail_msg("%s differs", what);
    free(a), free(b);
}

TEST(the_cut_into_tiles_changes_no_bit_of_a_convolution)
{
    TWIN(t);
    conv_shape s = {72, 4, 1000, 8, 3, {100, 1, 120}};
    conv_problem whole = conv_make(t, &s);
    conv_outputs(t, &s, &whole);
    conv_problem cut = whole;
    conv_outputs(t, &s, &cut);
    conv_run(t, &s, &whole, true);
    s.tile_rows = 37;
    conv_run(t, &s, &cut, true);
    check_same_bits(t, &whole.y, &cut.y, "y");
    check_same_bits(t, &whole.dm, &cut.dm, "dm");
    check_same_bits(t, &whole.carry, &cut.carry, "carry");
    twin_free(t, &whole.m), twin_free(t, &whole.w), twin_free(t, &whole.dy);
    twin_free(t, &whole.y), twin_free(t, &whole.dm), twin_free(t, &whole.carry);
    twin_free(t, &cut.y), twin_free(t, &cut.dm), twin_free(t, &cut.carry);
    twin_device_free(t, whole.start_dev);
}

/* ---- norms --------------------------------------------------------------------------------------------- */

typedef struct norm_shape {
    int64_t rows, groups, dim, slack, first; /* first: column of a wider view where the groups begin */
} norm_shape;

static const norm_shape norm_shapes[] = {
    {0, 2, 128, 0, 0}, {1, 1, 8, 0, 0},   {129, 16, 128, 0, 0}, {77, 3, 64, 8, 16}, {33, 2, 256, 0, 8},
    {65, 5, 40, 8, 0}, {31, 3, 24, 3, 3}, {9, 2, 520, 0, 0},    {17, 4, 13, 1, 0},  {1000, 1, 2, 0, 0},
};

TEST(unit_lengths)
{
    TWIN(t);
    for (size_t i = 0; i < sizeof norm_shapes / sizeof *norm_shapes; i++) {
        const norm_shape *s = norm_shapes + i;
        const int64_t cols = s->groups * s->dim, wide = s->first + cols;
        char what[96];
        snprintf(what, sizeof what, "l2norm, %lld rows of %lld x %lld", (long long)s->rows,
                 (long long)s->groups, (long long)s->dim);
        twin_tensor x = twin_random(t, PLIM_BF16, s->rows, wide, s->slack, 2),
                    dy = twin_random(t, PLIM_BF16, s->rows, cols, s->slack, 1),
                    y = twin_output(t, PLIM_BF16, s->rows, cols, s->slack),
                    dx = twin_output(t, PLIM_BF16, s->rows, cols, s->slack);
        for (int card = 0; card < 2; card++) {
            const plim_machine *m = card ? &t->gpu : &t->cpu;
            plim_l2norm_args a = {.x = part(side(&x, card), s->first, cols), .y = side(&y, card)};
            a.dy = side(&dy, card), a.dx = side(&dx, card);
            a.dim = s->dim, a.scale = 0.25;
            CHECK_OK(t->ctx, m->ops->l2norm_fwd(m->device, &a));
            CHECK_OK(t->ctx, m->ops->l2norm_bwd(m->device, &a));
            a.dx = a.dy; /* in place, as the model calls it */
            CHECK_OK(t->ctx, m->ops->l2norm_bwd(m->device, &a));
            a.y = a.x;
            CHECK_OK(t->ctx, m->ops->l2norm_fwd(m->device, &a));
        }
        check(t, &y, TWIN_BF16_STEP, what);
        check(t, &dx, TWIN_BF16_STEP, what);
        check(t, &dy, TWIN_BF16_STEP, what);
        check(t, &x, TWIN_BF16_STEP, what);
        twin_free(t, &x), twin_free(t, &dy), twin_free(t, &y), twin_free(t, &dx);
    }
}

TEST(gated_norms)
{
    TWIN(t);
    for (size_t i = 0; i < sizeof norm_shapes / sizeof *norm_shapes; i++) {
        const norm_shape *s = norm_shapes + i;
        const int64_t cols = s->groups * s->dim, wide = s->first + cols;
        char what[96];
        snprintf(what, sizeof what, "gated norm, %lld rows of %lld x %lld", (long long)s->rows,
                 (long long)s->groups, (long long)s->dim);
        twin_tensor o = twin_random(t, PLIM_BF16, s->rows, cols, s->slack, 2),
                    z = twin_random(t, PLIM_BF16, s->rows, wide, s->slack, 2),
                    w = twin_random(t, PLIM_F32, 1, s->dim, 0, 1),
                    dy = twin_random(t, PLIM_BF16, s->rows, cols, s->slack, 1),
                    y = twin_output(t, PLIM_BF16, s->rows, cols, s->slack),
                    dout = twin_output(t, PLIM_BF16, s->rows, cols, s->slack),
                    dz = twin_output(t, PLIM_BF16, s->rows, cols, s->slack);
        for (int card = 0; card < 2; card++) {
            const plim_machine *m = card ? &t->gpu : &t->cpu;
            plim_gated_norm_args a = {.o = side(&o, card), .z = part(side(&z, card), s->first, cols)};
            a.w = side(&w, card), a.y = side(&y, card), a.dy = side(&dy, card);
            a.dout = side(&dout, card), a.dz = side(&dz, card), a.eps = 1e-6;
            CHECK_OK(t->ctx, m->ops->gated_norm_fwd(m->device, &a));
            CHECK_OK(t->ctx, m->ops->gated_norm_bwd(m->device, &a));
            a.dout = a.dy, a.dz = a.z;
            CHECK_OK(t->ctx, m->ops->gated_norm_bwd(m->device, &a));
        }
        check(t, &y, TWIN_BF16_STEP, what);
        check(t, &dz, TWIN_BF16_STEP, what);
        check(t, &z, TWIN_BF16_STEP, what);
        check(t, &dout, TWIN_BF16_STEP, what);
        check(t, &dy, TWIN_BF16_STEP, what);
        twin_free(t, &o), twin_free(t, &z), twin_free(t, &w), twin_free(t, &dy);
        twin_free(t, &y), twin_free(t, &dout), twin_free(t, &dz);
    }
}

/* ---- decay --------------------------------------------------------------------------------------------- */

TEST(decays)
{
    TWIN(t);
    static const int64_t shapes[][3] = {{0, 48, 0}, {1, 1, 0}, {129, 48, 0}, {300, 6, 1}, {64, 40, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t rows = shapes[i][0], heads = shapes[i][1], slack = shapes[i][2];
        twin_tensor ba = twin_random(t, PLIM_F32, rows, 2 * heads, slack, 8),
                    a_log = twin_random(t, PLIM_F32, 1, heads, 0, 1),
                    bias = twin_random(t, PLIM_F32, 1, heads, 0, 1),
                    dg = twin_random(t, PLIM_F32, rows, heads, slack, 1),
                    dbl = twin_random(t, PLIM_F32, rows, heads, 0, 1),
                    g = twin_output(t, PLIM_F32, rows, heads, slack),
                    beta = twin_output(t, PLIM_F32, rows, heads, 0),
                    dba = twin_output(t, PLIM_BF16, rows, 2 * heads, slack);
        for (int card = 0; card < 2; card++) {
            const plim_machine *m = card ? &t->gpu : &t->cpu;
            plim_decay_args a = {
                .ba = side(&ba, card), .a_log = side(&a_log, card), .dt_bias = side(&bias, card)};
            a.g = side(&g, card), a.beta = side(&beta, card);
            a.dg = side(&dg, card), a.dbl = side(&dbl, card), a.dba = side(&dba, card);
            CHECK_OK(t->ctx, m->ops->decay_fwd(m->device, &a));
            CHECK_OK(t->ctx, m->ops->decay_bwd(m->device, &a));
        }
        check(t, &g, F32_CLOSE, "g");
        check(t, &beta, F32_CLOSE, "beta");
        check(t, &dba, TWIN_BF16_STEP, "dba");
        twin_free(t, &ba), twin_free(t, &a_log), twin_free(t, &bias), twin_free(t, &dg), twin_free(t, &dbl);
        twin_free(t, &g), twin_free(t, &beta), twin_free(t, &dba);
    }
}

TEST(wrong_shapes_are_refused)
{
    TWIN(t);
    twin_tensor x = twin_random(t, PLIM_BF16, 8, 24, 0, 1), w = twin_random(t, PLIM_F32, 24, 9, 0, 1);
    plim_l2norm_args l2 = {.x = x.dev, .y = x.dev, .dim = 7, .scale = 1};
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->l2norm_fwd(t->gpu.device, &l2), "l2norm_fwd", "7");
    plim_conv_silu_args conv = {.m = x.dev, .w = w.dev, .y = x.dev, .docs = {.count = 1, .tokens = 8}};
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->conv_silu_fwd(t->gpu.device, &conv), "taps");
    conv.w = plim_tensor_cols(w.dev, 0, 4);
    conv.first_row = 1;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->conv_silu_fwd(t->gpu.device, &conv), "history");
    plim_gated_norm_args norm = {.o = x.dev, .z = x.dev, .w = plim_tensor_cols(w.dev, 0, 5), .y = x.dev};
    norm.w.rows = 1;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->gated_norm_fwd(t->gpu.device, &norm), "gain");
    plim_decay_args decay = {.g = w.dev, .ba = w.dev};
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->decay_fwd(t->gpu.device, &decay), "ba");
    twin_free(t, &x), twin_free(t, &w);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(convolutions), cmocka_unit_test(the_cut_into_tiles_changes_no_bit_of_a_convolution),
        cmocka_unit_test(unit_lengths), cmocka_unit_test(gated_norms),
        cmocka_unit_test(decays),       cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(table, twin_open, twin_close);
}
