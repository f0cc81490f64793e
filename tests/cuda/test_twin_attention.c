/* Attention: both engines of the card against the CPU; head sizes, groups, lengths, documents, large scores.
 *
 * Tolerance of o, dq, dk, dv: 1e-2 of the whole tensor's norm.  The card rounds P and P (dP - delta) to bf16
 * before the second product, the CPU does not: 2^-9 an element at most, and as much again for the outputs on
 * each side; cuDNN also rounds dk and dv of every query head before it sums a group.  An error in one tile of
 * a hundred already shows. */
#include "support/twin.h"

#include <math.h>
#include <stdlib.h>

#include "base/bf16.h"
#include "ops/attention_scratch.h"

#define TOLERANCE     1e-2
#define LSE_TOLERANCE 1e-4 /* fp32 sums, the exponential's own 2^-22, scores to some hundreds */
#define MOST_DOCS     40

typedef struct shape {
    int64_t dim, kv_heads, group;
    double sigma;              /* of the scores */
    int64_t slack;             /* columns beside every view, twice that beside v */
    int64_t length[MOST_DOCS]; /* of the documents, up to the first -1 */
} shape;

/* Everything a call reads and writes, on both sides. */
typedef struct tensors {
    int64_t rows, documents, start[MOST_DOCS + 1];
    void *start_dev, *scratch;
    size_t scratch_bytes;
    twin_tensor q, k, v, o, lse, dout, delta, dq, dk, dv;
} tensors;

/* dq_slack: columns beside dq beyond those beside q. */
static void open_tensors(twin *t, const shape *s, int64_t dq_slack, tensors *x)
{
    const int64_t heads = s->kv_heads * s->group, cols = heads * s->dim, kv_cols = s->kv_heads * s->dim;
    *x = (tensors){0};
    while (x->documents < MOST_DOCS && s->length[x->documents] >= 0) {
        x->start[x->documents + 1] = x->start[x->documents] + s->length[x->documents];
        x->documents++;
    }
    x->rows = x->start[x->documents];
    x->start_dev = twin_device_bytes(t, x->start, (size_t)(x->documents + 1) * sizeof *x->start);
    plim_attention_scratch_args args = {PLIM_ATTENTION_CUDNN, true,  x->rows, x->documents, heads,
                                        s->kv_heads,          s->dim};
    x->scratch_bytes = plim_attention_scratch_bytes(&args);
    x->scratch = twin_device_bytes(t, NULL, x->scratch_bytes);
    x->q = twin_random(t, PLIM_BF16, x->rows, cols, s->slack, s->sigma);
    x->k = twin_random(t, PLIM_BF16, x->rows, kv_cols, s->slack, 1);
    x->v = twin_random(t, PLIM_BF16, x->rows, kv_cols, 2 * s->slack, 1);
    x->o = twin_output(t, PLIM_BF16, x->rows, cols, s->slack);
    x->lse = twin_output(t, PLIM_F32, heads, x->rows, 5);
    x->dout = twin_random(t, PLIM_BF16, x->rows, cols, s->slack, 1);
    x->dq = twin_output(t, PLIM_BF16, x->rows, cols, s->slack + dq_slack);
    x->dk = twin_output(t, PLIM_BF16, x->rows, kv_cols, s->slack);
    x->dv = twin_output(t, PLIM_BF16, x->rows, kv_cols, s->slack);
}

static void close_tensors(twin *t, tensors *x)
{
    twin_tensor *const all[] = {&x->q,    &x->k,     &x->v,  &x->o,  &x->lse,
                                &x->dout, &x->delta, &x->dq, &x->dk, &x->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->dev_block) twin_free(t, all[i]);
    twin_device_free(t, x->start_dev);
    twin_device_free(t, x->scratch);
}

static plim_attention_args arguments(const shape *s, const tensors *x, bool device)
{
#define SIDE(name) (device ? x->name.dev : x->name.host)
    plim_attention_args a = {.q = SIDE(q),
                             .k = SIDE(k),
                             .v = SIDE(v),
                             .o = SIDE(o),
                             .lse = SIDE(lse),
                             .dout = SIDE(dout),
                             .delta = SIDE(delta),
                             .dq = SIDE(dq),
                             .dk = SIDE(dk),
                             .dv = SIDE(dv),
                             .heads = s->kv_heads * s->group,
                             .kv_heads = s->kv_heads,
                             .head_dim = s->dim,
                             .scale = 1 / sqrt((double)s->dim),
                             .docs = {x->documents, x->rows, 0, x->start, x->start}};
#undef SIDE
    for (int64_t i = 0; i < x->documents; i++)
        if (s->length[i] > a.docs.longest) a.docs.longest = s->length[i];
    if (device) {
        a.docs.start = x->start_dev;
        a.scratch = x->scratch;
        a.scratch_bytes = x->scratch_bytes;
    }
    return a;
}

/* delta = <dout, o> per head and row, of the CPU's o. */
static void make_delta(twin *t, const shape *s, tensors *x)
{
    const int64_t heads = s->kv_heads * s->group;
    double *value = calloc((size_t)(heads * x->rows) + 1, sizeof *value);
    if (!value) abort();
    const uint16_t *o = x->o.host.data, *dout = x->dout.host.data;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t j = h * s->dim; j < (h + 1) * s->dim; j++)
                value[h * x->rows + i] += (double)plim_bf16_load(o[i * x->o.host.pitch + j]) *
                                          (double)plim_bf16_load(dout[i * x->dout.host.pitch + j]);
    x->delta = twin_from(t, PLIM_F32, heads, x->rows, value);
    free(value);
}

static void check_gradient(twin *t, twin_tensor *x, const char *name, const char *what)
{
    char text[200];
    snprintf(text, sizeof text, "%s of %s", name, what);
    twin_check_relative(t, x, TOLERANCE, text);
    twin_check_guards(t, x, text);
}

static void one_with(twin *t, const shape *s, int64_t dq_slack)
{
    tensors x;
    char what[160];
    open_tensors(t, s, dq_slack, &x);
    if (x.rows > twin_most_tokens()) {
        close_tensors(t, &x);
        return;
    }
    snprintf(what, sizeof what, "%d documents, %d rows, head size %d, group %d, sigma %g", (int)x.documents,
             (int)x.rows, (int)s->dim, (int)s->group, s->sigma);
    plim_attention_args a = arguments(s, &x, false);
    CHECK_OK(t->ctx, t->cpu.ops->attention_fwd(t->cpu.device, &a));
    a = arguments(s, &x, true);
    CHECK_OK(t->ctx, t->gpu.ops->attention_fwd(t->gpu.device, &a));
    check_gradient(t, &x.o, "o", what);
    twin_check_close(t, &x.lse, LSE_TOLERANCE, what);
    twin_check_guards(t, &x.lse, what);

    /* the backward pass of both from the CPU's o and lse */
    twin_push(t, &x.o);
    twin_push(t, &x.lse);
    make_delta(t, s, &x);
    a = arguments(s, &x, false);
    CHECK_OK(t->ctx, t->cpu.ops->attention_bwd(t->cpu.device, &a));
    a = arguments(s, &x, true);
    CHECK_OK(t->ctx, t->gpu.ops->attention_bwd(t->gpu.device, &a));
    check_gradient(t, &x.dv, "dv", what);
    if (x.rows > x.documents) { /* a single key gets all the weight whatever q and k are */
        check_gradient(t, &x.dk, "dk", what);
        check_gradient(t, &x.dq, "dq", what);
    }
    close_tensors(t, &x);
}

static void one(twin *t, const shape *s)
{
    one_with(t, s, 0);
}

static void with_lengths(twin *t, int64_t dim, int64_t group, int64_t slack)
{
    static const int64_t rows[] = {1, 63, 64, 65, 127, 200, 1000};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shape s = {dim, 2, group, 1, slack, {rows[i], -1}};
        one(t, &s);
    }
}

static void with_documents(twin *t, int64_t dim, int64_t slack)
{
    shape few = {dim, 1, 3, 1, slack, {1, 5, 64, 129, -1}};
    shape edges = {dim, 2, 1, 1, slack, {0, 64, 1, 1, 63, 0, 128, 200, 0, -1}};
    shape many = {dim, 1, 2, 1, slack, {-1}};
    for (int i = 0; i < MOST_DOCS; i++) many.length[i] = 1 + i * 37 % 90;
    one(t, &few);
    one(t, &edges);
    one(t, &many);
}

TEST(own_kernels_match_the_cpu)
{
    TWIN(t);
    static const int64_t dims[] = {8, 64, 96, 128, 256}, groups[] = {1, 3, 6};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (size_t j = 0; j < sizeof groups / sizeof *groups; j++) with_lengths(t, dims[i], groups[j], 16);
}

TEST(own_kernels_keep_documents_apart)
{
    TWIN(t);
    static const int64_t dims[] = {8, 64, 96, 128, 256};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) with_documents(t, dims[i], 24);
}

static void with_large_scores(twin *t, int64_t dim)
{
    shape alone = {dim, 1, 3, 8, 8, {500, -1}}, packed = {dim, 1, 3, 8, 8, {100, 301, -1}};
    one(t, &alone);
    one(t, &packed);
}

TEST(large_scores_lose_nothing)
{
    TWIN(t);
    with_large_scores(t, 64);
    with_large_scores(t, 128);
    with_large_scores(t, 256);
}

TEST(cudnn_matches_the_cpu)
{
    TWIN(t);
    with_lengths(t, 256, 6, 8);
    static const int64_t dims[] = {8, 64, 96, 128, 256}, groups[] = {1, 3};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (size_t j = 0; j < sizeof groups / sizeof *groups; j++) {
            shape s = {dims[i], 2, groups[j], 1, 8, {200, -1}};
            one(t, &s);
        }
}

TEST(cudnn_keeps_documents_apart)
{
    TWIN(t);
    with_documents(t, 128, 8);
    with_documents(t, 256, 8);
}

/* cuDNN would misread these; they must come out right all the same. */
TEST(packs_whose_dq_has_another_pitch_are_right)
{
    TWIN(t);
    shape s = {128, 2, 3, 1, 8, {1, 5, 64, 129, -1}};
    one_with(t, &s, 8);
}

TEST(long_documents_of_a_pack_run_alone)
{
    TWIN(t);
    shape s = {64, 1, 3, 1, 8, {5, 4100, 64, 129, 4099, 200, -1}};
    one(t, &s);
}

TEST(scratch_too_small_is_refused_with_numbers)
{
    TWIN(t);
    shape s = {256, 1, 6, 1, 8, {256, -1}};
    tensors x;
    open_tensors(t, &s, 0, &x);
    x.delta = twin_output(t, PLIM_F32, 6, 256, 0);
    plim_attention_args a = arguments(&s, &x, true);
    a.scratch_bytes = 1 << 20;
    plim_status st = t->gpu.ops->attention_bwd(t->gpu.device, &a);
    if (st == PLIM_OK) print_message("without cuDNN there is no scratch to miss\n");
    else {
        assert_int_equal(st, PLIM_E_SHAPE);
        assert_non_null(strstr(plim_ctx_message(t->ctx), "bytes of scratch for 256 rows"));
        plim_ctx_clear(t->ctx);
    }
    close_tensors(t, &x);
}

/* Both passes into fresh NaN; the caller frees what comes back. */
static unsigned char *run_once(twin *t, const shape *s, tensors *x, size_t *bytes)
{
    twin_tensor *const outputs[] = {&x->o, &x->lse, &x->dq, &x->dk, &x->dv};
    const int count = (int)(sizeof outputs / sizeof *outputs);
    *bytes = 0;
    for (int i = 0; i < count; i++) {
        twin_push(t, outputs[i]);
        *bytes += outputs[i]->bytes;
    }
    plim_attention_args a = arguments(s, x, true);
    CHECK_OK(t->ctx, t->gpu.ops->attention_fwd(t->gpu.device, &a));
    CHECK_OK(t->ctx, t->gpu.ops->attention_bwd(t->gpu.device, &a));
    unsigned char *all = malloc(*bytes), *at = all;
    if (!all) abort();
    for (int i = 0; i < count; i++) {
        CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, outputs[i]->dev_block, at, outputs[i]->bytes));
        at += outputs[i]->bytes;
    }
    return all;
}

TEST(own_kernels_repeat_every_bit)
{
    TWIN(t);
    shape s = {256, 1, 6, 1, 8, {1500, 700, -1}};
    tensors x;
    size_t bytes, again_bytes;
    if (twin_most_tokens() < 2200) s.length[0] = 150, s.length[1] = 70;
    open_tensors(t, &s, 0, &x);
    x.delta = twin_random(t, PLIM_F32, 6, x.rows, 0, 1);
    unsigned char *first = run_once(t, &s, &x, &bytes);
    for (int i = 0; i < 3; i++) {
        unsigned char *again = run_once(t, &s, &x, &again_bytes);
        assert_true(bytes == again_bytes && memcmp(first, again, bytes) == 0);
        free(again);
    }
    free(first);
    close_tensors(t, &x);
}

TEST(wrong_shapes_are_refused)
{
    TWIN(t);
    shape s = {64, 2, 3, 1, 8, {70, -1}};
    tensors x;
    open_tensors(t, &s, 0, &x);
    plim_attention_args good = arguments(&s, &x, true), a = good;
    const plim_ops *ops = t->gpu.ops;
    a.head_dim = 60;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, ops->attention_fwd(t->gpu.device, &a), "multiples of 8");
    a = good;
    a.heads = 5;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, ops->attention_fwd(t->gpu.device, &a), "whole groups");
    a = good;
    a.docs.tokens = 69;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, ops->attention_fwd(t->gpu.device, &a), "documents");
    a = good;
    a.k.data = (char *)a.k.data + 2;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, ops->attention_fwd(t->gpu.device, &a), "16 bytes");
    a = good;
    a.dq = plim_tensor_cols(a.dq, 0, 8);
    a.delta = a.lse;
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, ops->attention_bwd(t->gpu.device, &a), "dq");
    a = good;
    a.q.rows = a.k.rows = a.v.rows = a.o.rows = a.lse.cols = a.docs.tokens = a.docs.count = 0;
    CHECK_OK(t->ctx, ops->attention_fwd(t->gpu.device, &a));
    close_tensors(t, &x);
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(own_kernels_match_the_cpu), cmocka_unit_test(own_kernels_keep_documents_apart),
        cmocka_unit_test(large_scores_lose_nothing), cmocka_unit_test(own_kernels_repeat_every_bit),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    static const struct CMUnitTest cudnn[] = {
        cmocka_unit_test(cudnn_matches_the_cpu),
        cmocka_unit_test(cudnn_keeps_documents_apart),
        cmocka_unit_test(large_scores_lose_nothing),
        cmocka_unit_test(packs_whose_dq_has_another_pitch_are_right),
        cmocka_unit_test(long_documents_of_a_pack_run_alone),
        cmocka_unit_test(scratch_too_small_is_refused_with_numbers),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    const int failed = cmocka_run_group_tests(own, twin_open_own, twin_close);
    return failed + cmocka_run_group_tests(cudnn, twin_open, twin_close);
}
