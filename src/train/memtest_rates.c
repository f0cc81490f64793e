/* memtest_rates.c - decides how a machine without a card's entry is measured for a forecast. */
#include <string.h>

#include "base/arena.h"
#include "base/context.h"
#include "base/random.h"
#include "train/memtest.h"

#define SIDE           512
#define COPY_ROWS      4096
#define COPY_COLS      1024
#define NORMALS        ((size_t)1 << 18)
#define ENOUGH_S       0.1
#define MOST_ROUNDS    256
#define LEAST_S        1e-9 /* a clock that did not move */
#define ATTENTION_HALF 0.5

typedef struct bench {
    plim_ctx *ctx;
    const plim_machine *m;
    plim_tensor a, b, c, from, to;
    float *normals;
} bench;

static plim_status product(bench *b)
{
    plim_gemm_args args = {.a = b->a, .b = b->b, .c = b->c, .transpose_b = true, .alpha = 1};
    return b->m->ops->gemm(b->m->device, &args);
}

static plim_status copy(bench *b)
{
    return b->m->ops->copy(b->m->device, b->from, b->to);
}

static plim_status draw(bench *b)
{
    plim_random_fill_normal((plim_random){1, 1}, 0, NORMALS, 1, b->normals);
    return PLIM_OK;
}

/* Waits for what is queued: a byte read back. */
static plim_status finish(bench *b)
{
    unsigned char byte;
    return b->m->ops->read(b->m->device, b->to.data, &byte, 1);
}

/* Times a second, the first round (which wakes threads) left out. */
static plim_status rate_of(bench *b, plim_status (*work)(bench *b), plim_clock clock, double *out)
{
    TRY(work(b));
    TRY(finish(b));
    double start = plim_clock_now_s(clock), elapsed = 0;
    int rounds = 0;
    while (rounds < MOST_ROUNDS && elapsed < ENOUGH_S) {
        TRY(work(b));
        TRY(finish(b));
        rounds++;
        elapsed = plim_clock_now_s(clock) - start;
    }
    *out = rounds / (elapsed > LEAST_S ? elapsed : LEAST_S);
    return PLIM_OK;
}

/* Everything the measurement works in, on one stack of the device. */
static void layout(plim_arena *arena, plim_dtype act, bench *b)
{
    b->a = plim_arena_push(arena, PLIM_MEM_WORKSPACE, "a", act, SIDE, SIDE);
    b->b = plim_arena_push(arena, PLIM_MEM_WORKSPACE, "b", act, SIDE, SIDE);
    b->c = plim_arena_push(arena, PLIM_MEM_WORKSPACE, "c", act, SIDE, SIDE);
    b->from = plim_arena_push(arena, PLIM_MEM_WORKSPACE, "from", act, COPY_ROWS, COPY_COLS);
    b->to = plim_arena_push(arena, PLIM_MEM_WORKSPACE, "to", act, COPY_ROWS, COPY_COLS);
}

static plim_status measure(bench *b, plim_dtype act, plim_clock clock, plim_card *card, double *normals_per_s)
{
    const plim_tensor filled[] = {b->a, b->b, b->from};
    double products, copies, draws;
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++) {
        plim_fill_args fill = {.x = filled[i]};
        TRY(b->m->ops->fill(b->m->device, &fill));
    }
    TRY(rate_of(b, product, clock, &products));
    TRY(rate_of(b, copy, clock, &copies));
    TRY(rate_of(b, draw, clock, &draws));
    card->gemm_bf16_tflop_per_s = products * 2.0 * SIDE * SIDE * SIDE / 1e12;
    card->attention_forward_tflop_per_s = card->attention_backward_tflop_per_s =
        card->gemm_bf16_tflop_per_s * ATTENTION_HALF;
    card->memory_gb_per_s = copies * 2.0 * COPY_ROWS * COPY_COLS * (double)plim_dtype_bytes(act) / 1e9;
    card->host_link_gb_per_s = card->both_ways_gb_per_s = card->memory_gb_per_s;
    *normals_per_s = draws * (double)NORMALS;
    return PLIM_OK;
}

plim_status plim_memtest_rates(plim_ctx *c, const plim_machine *m, plim_dtype act, plim_clock clock,
                               plim_card *card, double *normals_per_s)
{
    bench b = {.ctx = c, .m = m};
    plim_arena dry, live;
    void *memory = NULL;
    plim_arena_dry(&dry);
    layout(&dry, act, &b);
    size_t bytes = plim_arena_peak(&dry).total_bytes;
    TRY(plim_alloc(c, NORMALS, sizeof *b.normals, "random numbers to be timed", &b.normals));
    plim_status st = m->alloc_device(m->device, bytes, &memory);
    if (!st) {
        plim_arena_live(&live, memory, bytes);
        layout(&live, act, &b);
        st = measure(&b, act, clock, card, normals_per_s);
    }
    m->free_device(m->device, memory);
    plim_release(c, b.normals);
    return st;
}
