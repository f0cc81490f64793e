/* chunk_table.h - cuts the rows of a tile into chunks of the delta rule.  Pure: the plan, the CPU and the GPU
 * use the same table.  docs/maths.md 4.1. */
#ifndef PLIM_OPS_CHUNK_TABLE_H
#define PLIM_OPS_CHUNK_TABLE_H

#include "ops/ops.h"

/* Most chunks a tile of rows rows can have when the sequence holds documents documents, whatever their
 * lengths: ceil(rows / 64) and one more for every further document that can begin inside the tile. */
int64_t plim_chunk_bound(int64_t rows, int64_t documents);

/* Writes the chunks of rows first_row .. first_row + rows - 1 of the sequence, in order, and returns their
 * number (at most plim_chunk_bound(rows, docs->count)).  A chunk has 1 to 64 rows and lies in one document;
 * chunks are counted from the later of the document's start and the tile's.  first is relative to the tile.
 * Documents without rows have no chunk.  rows is at most INT32_MAX, and the range lies in the sequence. */
int64_t plim_chunk_table(const plim_docs *docs, int64_t first_row, int64_t rows, plim_chunk *out);

/* The document that owns row, 0 <= row < docs->tokens. */
int64_t plim_document_of(const plim_docs *docs, int64_t row);

#endif
