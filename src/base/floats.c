/* floats.c - decides that every conversion but F64 to F64 goes through float. */
#include "base/floats.h"

#include <math.h>
#include <string.h>

#include "base/bf16.h"
#include "base/f16.h"

enum { PIECE = 512, THREADED_FROM = 1 << 16 };

bool plim_floats_are(plim_dtype d)
{
    return d == PLIM_F64 || d == PLIM_F32 || d == PLIM_F16 || d == PLIM_BF16;
}

static void load(plim_dtype from, const char *src, int64_t n, float *out)
{
    union {
        double d[PIECE];
        uint16_t h[PIECE];
    } raw;
    if (from == PLIM_F32) {
        memcpy(out, src, (size_t)n * sizeof *out);
        return;
    }
    memcpy(&raw, src, (size_t)n * plim_dtype_bytes(from));
    if (from == PLIM_BF16)
        for (int64_t i = 0; i < n; i++) out[i] = plim_bf16_load(raw.h[i]);
    else if (from == PLIM_F16)
        for (int64_t i = 0; i < n; i++) out[i] = plim_f16_load(raw.h[i]);
    else
        for (int64_t i = 0; i < n; i++) out[i] = (float)raw.d[i];
}

static void store(const float *x, int64_t n, plim_dtype to, char *dst)
{
    if (to == PLIM_F32) {
        memcpy(dst, x, (size_t)n * sizeof *x);
    } else if (to == PLIM_BF16) {
        plim_bf16 *h = (void *)dst;
        for (int64_t i = 0; i < n; i++) h[i] = plim_bf16_round(x[i]);
    } else if (to == PLIM_F16) {
        plim_f16 *h = (void *)dst;
        for (int64_t i = 0; i < n; i++) h[i] = plim_f16_round(x[i]);
    } else {
        double *d = (void *)dst;
        for (int64_t i = 0; i < n; i++) d[i] = x[i];
    }
}

/* Magnitudes from here on become infinity in d. */
static float limit_of(plim_dtype d)
{
    if (d == PLIM_BF16) return 0x1.ffp127f;
    return d == PLIM_F16 ? 65520.0f : INFINITY;
}

static int64_t convert_doubles(const char *src, int64_t n, char *dst)
{
    memcpy(dst, src, (size_t)n * sizeof(double));
    const double *d = (const void *)dst;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(d[i])) return i;
    return -1;
}

/* At most PIECE elements. */
static int64_t convert_piece(plim_dtype from, const char *src, int64_t n, plim_dtype to, char *dst)
{
    float x[PIECE];
    if (from == PLIM_F64 && to == PLIM_F64) return convert_doubles(src, n, dst);
    load(from, src, n, x);
    store(x, n, to, dst);
    const float limit = limit_of(to);
    int out = 0;
    for (int64_t i = 0; i < n; i++) out |= !(fabsf(x[i]) < limit); /* without a branch: nearly always none */
    for (int64_t i = 0; out && i < n; i++)
        if (!(fabsf(x[i]) < limit)) return i;
    return -1;
}

int64_t plim_floats_convert(plim_dtype from, const void *src, int64_t n, plim_dtype to, void *dst)
{
    int64_t first = INT64_MAX;
#pragma omp parallel for reduction(min : first) if (n >= THREADED_FROM)
    for (int64_t at = 0; at < n; at += PIECE) {
        const char *s = (const char *)src + (size_t)at * plim_dtype_bytes(from);
        char *d = (char *)dst + (size_t)at * plim_dtype_bytes(to);
        int64_t bad = convert_piece(from, s, n - at < PIECE ? n - at : PIECE, to, d);
        if (bad >= 0 && at + bad < first) first = at + bad;
    }
    return first == INT64_MAX ? -1 : first;
}
