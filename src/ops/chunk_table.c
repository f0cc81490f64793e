/* chunk_table.c - decides where a tile is cut into chunks: at every document, and every 64 rows. */
#include "ops/chunk_table.h"

#include <assert.h>

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t plim_chunk_bound(int64_t rows, int64_t documents)
{
    if (rows <= 0 || documents <= 0) return 0;
    int64_t full = rows / PLIM_CHUNK_TOKENS + (rows % PLIM_CHUNK_TOKENS != 0);
    return min64(rows, full + min64(documents, rows) - 1);
}

/* The last document that starts at or before row, so that documents without rows are passed over. */
int64_t plim_document_of(const plim_docs *docs, int64_t row)
{
    int64_t low = 0, high = docs->count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (docs->start_host[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}

int64_t plim_chunk_table(const plim_docs *docs, int64_t first_row, int64_t rows, plim_chunk *out)
{
    assert(rows >= 0 && rows <= INT32_MAX && first_row >= 0 && first_row <= docs->tokens - rows);
    const int64_t end = first_row + rows;
    int64_t row = first_row, count = 0;
    for (int64_t n = rows ? plim_document_of(docs, row) : 0; row < end; n++) {
        int64_t start = docs->start_host[n], stop = docs->start_host[n + 1];
        while (row < stop && row < end) {
            int64_t take = min64(PLIM_CHUNK_TOKENS, min64(stop, end) - row);
            out[count++] = (plim_chunk){.first = (int32_t)(row - first_row),
                                        .rows = (int32_t)take,
                                        .starts_document = row == start,
                                        .ends_document = row + take == stop};
            row += take;
        }
    }
    return count;
}
