/* fibers.h - the threads of a block: how they run, wait for each other, and what they know of themselves.
 *
 * A block's threads are fibers of one CPU thread; they run until they have to meet others.  In which order
 * they get their turn is EMULATED_CARD_ORDER: forward (the default), backward, or a number that seeds a
 * shuffle.  What a correct kernel computes does not depend on it. */
#ifndef EMULATED_FIBERS_H
#define EMULATED_FIBERS_H

#include <stddef.h>
#include <stdint.h>

#include <functional>
#include <vector>

#include "cuda_runtime.h"

namespace emulated
{

enum { LANES = 32, NAMED_BARRIERS = 16 };

struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    int group;
};

/* A warp group's product that was begun and not waited for: what a lane has of it (matrices_hopper.cpp). */
struct product {
    float *c;
    uint32_t a[4];
    uint64_t left, right;
    int columns, group;
    bool held, add, transposed; /* held: the left operand is a; transposed: the right one by columns */
};

struct fiber {
    void *stack_pointer;
    char *stack;
    uint3 thread;
    int warp, lane;
    bool done;
    const uint64_t *waits; /* until it changes from seen; NULL: ready */
    uint64_t seen;
    const char *where; /* it waits, for a report */
    std::vector<copy> copies;
    int copy_group;
    std::vector<product> products;
    int product_group;
};

/* The fiber that runs.  Only inside a kernel. */
extern fiber *self;

/* Runs every block of a grid to its end. */
void run_grid(const emulated_launch &launch, const std::function<void()> &thread);

/* Lanes of a warp that are not done meet: the last to come calls work with what each gave (NULL for one that
 * is done), then all go on.  what: the same for all, else the program ends with a report. */
void meet(const char *what, void *mine, void (*work)(void *const lanes[LANES]));

/* A barrier of `threads` threads of the block; arrive does not wait. */
void barrier_arrive(int id, unsigned threads);
void barrier_sync(int id, unsigned threads);

/* Dynamic shared memory of the block that runs. */
extern unsigned char *shared_base;
extern size_t shared_bytes;
/* Checked: bytes at a shared address. */
void *shared_at(uint32_t address, size_t bytes);

/* Ends the program, saying which kernel, block and thread. */
[[noreturn]] void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* EMULATED_CARD_COPIES=early: asynchronous copies and products are done where they begin, instead of where
 * they are waited for (the default).  A correct kernel cannot tell. */
bool early();

} // namespace emulated

#endif
