// fibers.cpp - decides which thread of a block runs next.
#include "fibers.h"

#include <algorithm>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "stack_switch.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulated {

fiber *self;
unsigned char *shared_base;
size_t shared_bytes;

namespace {

enum { MOST_THREADS = 1024, STACK_BYTES = 256 << 10, PAGE_BYTES = 4096, SHARED_START = 1024 };

struct warp {
    int alive, arrived;
    uint64_t meetings;
    const char *what;
    void *given[LANES];
    void (*work)(void *const[LANES]);
};

struct barrier {
    unsigned arrived;
    uint64_t passed;
};

struct order {
    bool backward;
    uint64_t shuffle; /* 0: none */
};

fiber fibers[MOST_THREADS];
warp warps[MOST_THREADS / LANES];
barrier barriers[NAMED_BARRIERS];
unsigned alive, block_arrived;
uint64_t block_meetings;
const emulated_launch *running;
const std::function<void()> *running_thread;
stack_place scheduler;

order order_of_environment()
{
    const char *text = getenv("EMULATED_CARD_ORDER");
    order o = {false, 0};
    if (!text || !*text || !strcmp(text, "forward")) return o;
    if (!strcmp(text, "backward")) o.backward = true;
    else o.shuffle = strtoull(text, NULL, 10) * 2 + 1;
    return o;
}

uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void yield(const char *where, const uint64_t *waits, uint64_t seen)
{
    fiber *me = self;
    me->where = where;
    me->waits = waits;
    me->seen = seen;
    stack_leave(&me->stack_pointer, &scheduler);
    me->waits = NULL;
}

void finish_meeting(warp *w)
{
    w->work(w->given);
    w->arrived = 0;
    w->meetings++;
    for (void *&g : w->given) g = NULL;
}

void release_block()
{
    block_arrived = 0;
    block_meetings++;
}

/* A thread that is done counts as arrived wherever the others meet. */
void leave()
{
    warp *w = &warps[self->warp];
    self->done = true;
    w->alive--;
    alive--;
    if (w->arrived > 0 && w->arrived == w->alive) finish_meeting(w);
    if (block_arrived > 0 && block_arrived == alive) release_block();
}

void start()
{
    (*running_thread)();
    leave();
    stack_leave(&self->stack_pointer, &scheduler);
    abort(); /* nobody goes back to a thread that is done */
}

char *stacks()
{
    static char *all;
    if (all) return all;
    const size_t each = STACK_BYTES + PAGE_BYTES;
    all = (char *)mmap(NULL, each * MOST_THREADS, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) report("no memory for the stacks of %d threads", MOST_THREADS);
    for (int i = 0; i < MOST_THREADS; i++) mprotect(all + i * each, PAGE_BYTES, PROT_NONE);
    return all;
}

unsigned prepare_fibers()
{
    const dim3 b = running->block;
    const unsigned count = b.x * b.y * b.z;
    memset(warps, 0, sizeof warps);
    memset(barriers, 0, sizeof barriers);
    block_arrived = 0;
    alive = count;
    for (unsigned i = 0; i < count; i++) {
        fiber *f = &fibers[i];
        f->thread = {i % b.x, i / b.x % b.y, i / (b.x * b.y)};
        f->warp = (int)(i / LANES);
        f->lane = (int)(i % LANES);
        f->done = false;
        f->waits = NULL;
        f->copies.clear();
        f->products.clear();
        f->copy_group = f->product_group = 0;
        f->stack = stacks() + (size_t)i * (STACK_BYTES + PAGE_BYTES) + PAGE_BYTES;
        f->stack_pointer = stack_prepare(f->stack, STACK_BYTES, start);
        warps[f->warp].alive++;
    }
    return count;
}

[[noreturn]] void deadlock(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!fibers[i].done && (i == 0 || fibers[i].where != fibers[i - 1].where))
            fprintf(stderr, "emulated card: thread %u waits at %s\n", i, fibers[i].where);
    self = NULL;
    report("its threads wait for each other for ever");
}

void run_block(const order &o, uint64_t *random)
{
    static unsigned turn[MOST_THREADS];
    const unsigned count = prepare_fibers();
    for (unsigned i = 0; i < count; i++) turn[i] = o.backward ? count - 1 - i : i;
    while (alive > 0) {
        bool moved = false;
        if (o.shuffle)
            for (unsigned i = count - 1; i > 0; i--) std::swap(turn[i], turn[next_random(random) % (i + 1)]);
        for (unsigned i = 0; i < count; i++) {
            fiber *f = &fibers[turn[i]];
            if (f->done || (f->waits && *f->waits == f->seen)) continue;
            self = f;
            threadIdx = f->thread;
            stack_enter(&scheduler, f->stack_pointer, f->stack, STACK_BYTES);
            moved = true;
        }
        if (!moved) deadlock(count);
    }
    self = NULL;
}

} // namespace

bool early()
{
    static const char *text = getenv("EMULATED_CARD_COPIES");
    return text && !strcmp(text, "early");
}

void report(const char *format, ...)
{
    va_list list;
    fprintf(stderr, "emulated card: ");
    if (running) {
        fprintf(stderr, "%s, block (%u, %u, %u)", running->name, blockIdx.x, blockIdx.y, blockIdx.z);
        if (self) fprintf(stderr, ", thread (%u, %u, %u)", threadIdx.x, threadIdx.y, threadIdx.z);
        fprintf(stderr, ": ");
    }
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    abort();
}

void run_grid(const emulated_launch &launch, const std::function<void()> &thread)
{
    static const order o = order_of_environment();
    uint64_t random = o.shuffle;
    const uint64_t blocks = (uint64_t)launch.grid.x * launch.grid.y * launch.grid.z;
    running = &launch;
    running_thread = &thread;
    blockDim = launch.block;
    gridDim = launch.grid;
    shared_bytes = launch.shared_bytes;
    shared_base = NULL;
    /* Of its exact size, so that a sanitizer sees what lies beyond. */
    if (shared_bytes && posix_memalign((void **)&shared_base, 1024, shared_bytes)) report("no memory");
    for (uint64_t n = 0; n < blocks; n++) {
        const uint64_t at = o.backward ? blocks - 1 - n : n;
        blockIdx = {(unsigned)(at % launch.grid.x), (unsigned)(at / launch.grid.x % launch.grid.y),
                    (unsigned)(at / launch.grid.x / launch.grid.y)};
        if (shared_bytes) memset(shared_base, 0xff, shared_bytes); /* NaN, until written */
        run_block(o, &random);
    }
    free(shared_base);
    running = NULL;
}

void meet(const char *what, void *mine, void (*work)(void *const lanes[LANES]))
{
    warp *w = &warps[self->warp];
    const uint64_t now = w->meetings;
    if (w->arrived == 0) {
        w->what = what;
        w->work = work;
    } else if (w->what != what) {
        report("lanes of a warp are at %s and at %s", w->what, what);
    }
    w->given[self->lane] = mine;
    if (++w->arrived == w->alive) finish_meeting(w);
    else yield(what, &w->meetings, now);
}

void barrier_arrive(int id, unsigned threads)
{
    barrier *b = &barriers[id];
    if (++b->arrived < threads) return;
    b->arrived = 0;
    b->passed++;
}

void barrier_sync(int id, unsigned threads)
{
    barrier *b = &barriers[id];
    const uint64_t now = b->passed;
    barrier_arrive(id, threads);
    if (b->passed == now) yield("a named barrier", &b->passed, now);
}

void *shared_at(uint32_t address, size_t bytes)
{
    if (address < SHARED_START || address - SHARED_START + bytes > shared_bytes)
        report("%zu bytes at %lld of %zu bytes of dynamic shared memory", bytes,
               (long long)address - SHARED_START, shared_bytes);
    return shared_base + (address - SHARED_START);
}

} // namespace emulated

using namespace emulated;

void __syncthreads()
{
    const uint64_t now = block_meetings;
    if (++block_arrived == alive) release_block();
    else yield("__syncthreads", &block_meetings, now);
}

unsigned char *dynamic_shared()
{
    return shared_base;
}

unsigned char *dynamic_panels()
{
    return shared_base;
}

uint32_t smem_address(const void *p)
{
    const uintptr_t at = (uintptr_t)p - (uintptr_t)shared_base;
    if (at > shared_bytes) report("an address that is not in dynamic shared memory");
    return SHARED_START + (uint32_t)at;
}
