/* runtime.h - the emulated card as a whole: what it is, its memory, its streams.
 *
 * Environment, all optional:
 *   EMULATED_CARD=sm_90           the capability: sm_80, sm_86, sm_89, sm_90, sm_100, sm_120
 *   EMULATED_CARD_BYTES=N         memory of the card
 *   EMULATED_CARD_HELD_BYTES=N    of it, what another process holds
 *   EMULATED_CARD_PIN_BYTES=N     host memory that can be pinned at most
 *   EMULATED_CARD_NO_KERNELS=1    the plug-in was built for other cards
 *   EMULATED_CARD_WALL=1          device memory is out of the host's reach: a touch is a fault (slow)
 *   EMULATED_CARD_STREAMS=late    a stream works when somebody waits for it (the default); eager: at once;
 *                                 first-late: the first one late, the others at once
 *   EMULATED_CARD_ORDER, EMULATED_CARD_COPIES   see fibers.h */
#ifndef EMULATED_RUNTIME_H
#define EMULATED_RUNTIME_H

#include <functional>

#include "cuda_runtime.h"

namespace emulated
{

struct card {
    char name[64];
    int major, minor, processors;
    size_t shared_bytes; /* a block's, at most */
    size_t total_bytes, held_bytes, pin_bytes;
};
const card &the_card();

/* Remembers e as the last error and returns it. */
cudaError_t fail(cudaError_t e);

/* Kernels and copies may touch device memory while one of these lives. */
struct memory_open {
    memory_open();
    ~memory_open();
};
size_t allocated_bytes();
bool is_pinned(const void *p, size_t bytes);

/* Puts work into a stream; NULL: it is done at once, after all streams. */
void enqueue(cudaStream_t s, std::function<void()> work);
void drain_all();

} // namespace emulated

#endif
