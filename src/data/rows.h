/* rows.h - the rows of a data file, one by one: lines of JSONL, or the elements of one JSON array, perhaps
 * packed.
 *
 * A file whose first character is "[" is an array of rows, any other is one row a line.  A byte-order mark at
 * the start and blank lines are passed over; a line ends with LF or CRLF and with nothing else.  What a row
 * says is not looked at here: its text comes out as it stands. */
#ifndef PLIM_DATA_ROWS_H
#define PLIM_DATA_ROWS_H

#include "plimsoll.h"

#define PLIM_ROW_MAX_BYTES ((size_t)256 << 20) /* of one row; a longer one is passed over */

typedef struct plim_row {
    const char
        *text; /* not zero-terminated, valid until the next call; NULL: longer than PLIM_ROW_MAX_BYTES */
    size_t bytes;
    uint64_t line, byte; /* where it begins: line of the file, and byte of that line, both from 1 */
} plim_row;

typedef struct plim_rows plim_rows;

/* path must outlive it; close accepts NULL.  Errors: those of plim_byte_stream_open. */
plim_status plim_rows_open(plim_ctx *c, const char *path, plim_rows **out);
void plim_rows_close(plim_rows *r);

/* *found false: there are no more.
 * Errors: PLIM_E_IO, PLIM_E_FORMAT (damaged packing; an array that does not end, or has no comma between two
 * elements, or text behind it: what follows could not be told apart), PLIM_E_OOM_HOST. */
plim_status plim_rows_next(plim_rows *r, plim_row *out, bool *found);

/* Bytes of the file, and how many of them have been read; lines with nothing in them so far. */
uint64_t plim_rows_size_bytes(const plim_rows *r);
uint64_t plim_rows_done_bytes(const plim_rows *r);
uint64_t plim_rows_blank_lines(const plim_rows *r);

#endif
