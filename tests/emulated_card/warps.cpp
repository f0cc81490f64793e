// warps.cpp - what lanes of a warp tell each other.
#include "fibers.h"

using namespace emulated;

namespace {

enum { NOBODY = -1 };

template <typename T> struct exchange {
    T value, got;
    int from; /* the lane whose value it gets */
};

/* A lane that is done has no value: whoever asks for it gets every bit set. */
template <typename T> void deliver(void *const lanes[LANES])
{
    for (int i = 0; i < LANES; i++) {
        exchange<T> *mine = (exchange<T> *)lanes[i];
        if (!mine) continue;
        const exchange<T> *other = (const exchange<T> *)lanes[mine->from];
        if (other) mine->got = other->value;
        else memset((void *)&mine->got, 0xff, sizeof mine->got);
    }
}

template <typename T> T ask(const char *what, unsigned mask, T x, int from)
{
    if (mask != 0xffffffffu) report("%s of a part of a warp is not emulated", what);
    exchange<T> e = {x, x, from < 0 || from >= LANES ? self->lane : from};
    meet(what, &e, deliver<T>);
    return e.got;
}

struct vote {
    int value;
    unsigned all;
};

void count(void *const lanes[LANES])
{
    unsigned all = 0;
    for (int i = 0; i < LANES; i++)
        if (lanes[i] && ((const vote *)lanes[i])->value) all |= 1u << i;
    for (int i = 0; i < LANES; i++)
        if (lanes[i]) ((vote *)lanes[i])->all = all;
}

void nothing(void *const[LANES])
{
}

} // namespace

void __syncwarp()
{
    meet("__syncwarp", self, nothing);
}

float __shfl_xor_sync(unsigned mask, float x, int lanes)
{
    return ask("__shfl_xor_sync", mask, x, self->lane ^ lanes);
}

int __shfl_xor_sync(unsigned mask, int x, int lanes)
{
    return ask("__shfl_xor_sync", mask, x, self->lane ^ lanes);
}

unsigned __shfl_xor_sync(unsigned mask, unsigned x, int lanes)
{
    return ask("__shfl_xor_sync", mask, x, self->lane ^ lanes);
}

double __shfl_xor_sync(unsigned mask, double x, int lanes)
{
    return ask("__shfl_xor_sync", mask, x, self->lane ^ lanes);
}

float __shfl_up_sync(unsigned mask, float x, unsigned lanes)
{
    return ask("__shfl_up_sync", mask, x, self->lane - (int)lanes);
}

float __shfl_down_sync(unsigned mask, float x, unsigned lanes)
{
    return ask("__shfl_down_sync", mask, x, self->lane + (int)lanes);
}

float __shfl_sync(unsigned mask, float x, int lane)
{
    return ask("__shfl_sync", mask, x, lane & (LANES - 1));
}

unsigned __ballot_sync(unsigned mask, int x)
{
    if (mask != 0xffffffffu) report("__ballot_sync of a part of a warp is not emulated");
    vote v = {x, 0};
    meet("__ballot_sync", &v, count);
    return v.all;
}

int __any_sync(unsigned mask, int x)
{
    return __ballot_sync(mask, x) != 0;
}
