// streams.cpp - decides when work that was put into a stream is done: as late as a card may, or at once.
#include "runtime.h"

#include <deque>
#include <map>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include "fibers.h"

/* How often an event was recorded, and how many of these records the streams have passed. */
struct event_state {
    uint64_t recorded, passed;
    CUstream_st *stream; /* of the last record */
};

struct CUevent_st {
    std::shared_ptr<event_state> state = std::make_shared<event_state>();
};

struct CUstream_st {
    std::deque<std::function<void()>> work;
};

namespace emulated {

namespace {

std::vector<cudaStream_t> streams;
std::map<const void *, int> dynamic_shared_allowed;

/* Whether a stream works at once. */
bool eager(cudaStream_t s)
{
    static const char *text = getenv("EMULATED_CARD_STREAMS");
    if (!text || !*text || !strcmp(text, "late")) return false;
    if (!strcmp(text, "eager")) return true;
    if (!strcmp(text, "first-late")) return s != streams.front();
    fprintf(stderr, "emulated card: EMULATED_CARD_STREAMS=%s; late, eager and first-late work\n", text);
    exit(2);
}

void step(cudaStream_t s)
{
    const std::function<void()> work = std::move(s->work.front());
    s->work.pop_front();
    work();
}

void drain(cudaStream_t s)
{
    while (!s->work.empty()) step(s);
}

void reach(const event_state &e, uint64_t record)
{
    while (e.passed < record) {
        if (e.stream->work.empty()) {
            fprintf(stderr, "emulated card: an event that no stream will reach\n");
            abort();
        }
        step(e.stream);
    }
}

} // namespace

void enqueue(cudaStream_t s, std::function<void()> work)
{
    if (!s) {
        drain_all();
        work();
        return;
    }
    s->work.push_back(std::move(work));
    if (eager(s)) drain(s);
}

void drain_all()
{
    for (cudaStream_t s : streams) drain(s);
}

} // namespace emulated

using namespace emulated;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = new CUstream_st;
    streams.push_back(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    drain(s);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == s) streams.erase(streams.begin() + (ptrdiff_t)i--);
    delete s;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    drain(s);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize()
{
    drain_all();
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = new CUevent_st;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    std::shared_ptr<event_state> state = e->state;
    const uint64_t record = ++state->recorded;
    state->stream = s;
    enqueue(s, [state, record] { state->passed = record; });
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    std::shared_ptr<event_state> state = e->state;
    const uint64_t record = state->recorded;
    enqueue(s, [state, record] { reach(*state, record); });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    reach(*e->state, e->state->recorded);
    return cudaSuccess;
}

/* ---- copies ------------------------------------------------------------------------------------------ */

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind)
{
    drain_all();
    memory_open open;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s)
{
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, bytes ? 1 : 0, kind, s);
}

/* Pageable memory is read before this returns, and written before it, as the runtime's manual says. */
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t rows, cudaMemcpyKind kind, cudaStream_t s)
{
    if (width > to_pitch || width > from_pitch) return fail(cudaErrorInvalidValue);
    if (rows == 0 || width == 0) return cudaSuccess;
    auto kept = std::make_shared<std::vector<char>>();
    if (kind == cudaMemcpyHostToDevice && !is_pinned(from, (rows - 1) * from_pitch + width)) {
        kept->resize(rows * width);
        for (size_t i = 0; i < rows; i++)
            memcpy(kept->data() + i * width, (const char *)from + i * from_pitch, width);
    }
    enqueue(s, [=] {
        memory_open open;
        const bool own = !kept->empty();
        const char *source = own ? kept->data() : (const char *)from;
        for (size_t i = 0; i < rows; i++)
            memcpy((char *)to + i * to_pitch, source + i * (own ? width : from_pitch), width);
    });
    if (kind == cudaMemcpyDeviceToHost && !is_pinned(to, (rows - 1) * to_pitch + width)) drain(s);
    return cudaSuccess;
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t s)
{
    enqueue(s, [=] {
        memory_open open;
        for (size_t i = 0; i < rows; i++) memset((char *)to + i * pitch, value, width);
    });
    return cudaSuccess;
}

/* ---- launches ---------------------------------------------------------------------------------------- */

cudaError_t emulated_set_dynamic_shared(const void *kernel, int bytes)
{
    if (bytes < 0 || (size_t)bytes > the_card().shared_bytes) return fail(cudaErrorInvalidValue);
    dynamic_shared_allowed[kernel] = bytes;
    return cudaSuccess;
}

void emulated_enqueue(const emulated_launch &l, std::function<void()> thread)
{
    const uint64_t threads = (uint64_t)l.block.x * l.block.y * l.block.z;
    auto allowed = dynamic_shared_allowed.find(l.kernel);
    const size_t most = allowed == dynamic_shared_allowed.end() ? 48 << 10 : (size_t)allowed->second;
    const bool grid = l.grid.x > 0 && l.grid.x <= 0x7fffffffu && l.grid.y > 0 && l.grid.y <= 65535 &&
                      l.grid.z > 0 && l.grid.z <= 65535;
    if (!grid || threads < 1 || threads > 1024 || l.block.z > 64 ||
        l.shared_bytes > (most < 48 << 10 ? 48 << 10 : most)) {
        fail(cudaErrorInvalidValue);
        return;
    }
    enqueue(l.stream, [l, thread] {
        memory_open open;
        run_grid(l, thread);
    });
}
