/* rope_tables.c - frequencies by rule, angles by position inside the document. */
#include "ops/rope_tables.h"

#include <inttypes.h>
#include <math.h>

#include "base/context.h"

double plim_rope_frequency(const plim_rope *rope, int64_t pair)
{
    const double f = pow(rope->theta, -2.0 * (double)pair / (double)rope->rotary_dim);
    if (rope->type != PLIM_ROPE_LLAMA3) return f;
    const double turns = (double)rope->original_max_position * f / (2.0 * 3.14159265358979323846);
    if (turns < rope->low_freq_factor) return f / rope->factor;
    if (turns > rope->high_freq_factor) return f;
    const double keep = (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1.0 - keep) * f / rope->factor + keep * f;
}

static void put(plim_tensor t, int64_t row, int64_t col, double x)
{
    if (t.dtype == PLIM_F64) ((double *)t.data)[row * t.pitch + col] = x;
    else ((float *)t.data)[row * t.pitch + col] = (float)x;
}

static plim_status check(plim_ctx *c, const plim_rope *rope, const plim_docs *docs, int64_t first_row,
                         plim_tensor cos_table, plim_tensor sin_table)
{
    const plim_tensor both[2] = {cos_table, sin_table};
    if (rope->type != PLIM_ROPE_DEFAULT && rope->type != PLIM_ROPE_LLAMA3)
        return plim_fail(c, PLIM_E_UNSUPPORTED,
                         "rope_tables: rope type %d has no rule; default and llama3 work", (int)rope->type);
    if (rope->rotary_dim < 0 || rope->rotary_dim % 2)
        return plim_fail(c, PLIM_E_SHAPE, "rope_tables: %" PRId64 " columns do not turn in pairs",
                         rope->rotary_dim);
    for (int i = 0; i < 2; i++) {
        const plim_tensor t = both[i];
        const bool fits = t.rows == cos_table.rows && t.cols == rope->rotary_dim / 2 && t.rows >= 0 &&
                          (t.rows <= 1 || t.pitch >= t.cols) && (t.data || t.rows * t.cols == 0);
        if (!fits || t.dtype != cos_table.dtype || (t.dtype != PLIM_F32 && t.dtype != PLIM_F64))
            return plim_fail(c, PLIM_E_SHAPE,
                             "rope_tables: %s is %s %" PRId64 " x %" PRId64 ", wanted F32 or F64 %" PRId64
                             " x %" PRId64,
                             i ? "sin" : "cos", plim_dtype_name(t.dtype), t.rows, t.cols, cos_table.rows,
                             rope->rotary_dim / 2);
    }
    if (first_row < 0 || first_row > docs->tokens - cos_table.rows)
        return plim_fail(c, PLIM_E_SHAPE, "rope_tables: rows %" PRId64 " to %" PRId64 " of %" PRId64,
                         first_row, first_row + cos_table.rows - 1, docs->tokens);
    return PLIM_OK;
}

plim_status plim_rope_tables(plim_ctx *c, const plim_rope *rope, const plim_docs *docs, int64_t first_row,
                             plim_tensor cos_table, plim_tensor sin_table)
{
    TRY(check(c, rope, docs, first_row, cos_table, sin_table));
    for (int64_t m = 0; m < rope->rotary_dim / 2; m++) {
        const double frequency = plim_rope_frequency(rope, m);
        int64_t n = 0;
        for (int64_t i = 0; i < cos_table.rows; i++) {
            while (first_row + i >= docs->start_host[n + 1]) n++;
            const double angle = (double)(first_row + i - docs->start_host[n]) * frequency;
            put(cos_table, i, m, cos(angle));
            put(sin_table, i, m, sin(angle));
        }
    }
    return PLIM_OK;
}
