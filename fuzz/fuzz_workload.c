/* fuzz_workload.c - any bytes as a statistics file; a workload that is accepted must keep its promises. */
#include <math.h>
#include <stdlib.h>

#include "plimsoll.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

static void check_workload(const plim_workload *w)
{
    double sum = 0;
    int64_t longest = 0;
    require(w->tokens >= 1 && w->tokens <= 1e15);
    require(w->labelled_share == -1 || (w->labelled_share >= 0 && w->labelled_share <= 1));
    require(w->lengths >= 0 && w->lengths <= PLIM_MAX_LENGTHS);
    for (int64_t i = 0; i < w->lengths; i++) {
        require(w->bucket_tokens[i] >= 1 && w->bucket_rows[i] >= 0 && isfinite(w->bucket_rows[i]));
        if (w->bucket_rows[i] > 0 && w->bucket_tokens[i] > longest) longest = w->bucket_tokens[i];
        sum += w->bucket_rows[i] * (double)w->bucket_tokens[i];
    }
    require(w->longest_tokens == longest);
    require(w->lengths == 0 || (sum >= w->tokens * 0.5 && sum <= w->tokens * 2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_workload w;
    if (plim_ctx_open(NULL, &c)) abort();
    plim_status st = plim_workload_parse(c, "statistics.json", (const char *)data, bytes, &w);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    require(st == PLIM_OK || st == PLIM_E_FORMAT || st == PLIM_E_RANGE);
    if (st == PLIM_OK) check_workload(&w);
    plim_ctx_close(c);
    return 0;
}
