/* byte_stream.h - the bytes of a file, unpacked when it is gzip or Zstandard, from first to last.
 *
 * What a file is, its first bytes say; its name says nothing.  Several packed parts one after the other are
 * one text. Memory: two blocks, and a window of at most 128 MiB when a Zstandard file wants one. */
#ifndef PLIM_DATA_BYTE_STREAM_H
#define PLIM_DATA_BYTE_STREAM_H

#include "plimsoll.h"

typedef struct plim_byte_stream plim_byte_stream;

/* path must outlive the stream; close accepts NULL.
 * Errors: PLIM_E_IO (missing, a folder, not a regular file), PLIM_E_OOM_HOST. */
plim_status plim_byte_stream_open(plim_ctx *c, const char *path, plim_byte_stream **out);
void plim_byte_stream_close(plim_byte_stream *s);

/* Up to cap (> 0) bytes to buf; *got 0: there are no more.
 * Errors: PLIM_E_IO; PLIM_E_FORMAT (packed data that are damaged or cut off), PLIM_E_OOM_HOST. */
plim_status plim_byte_stream_read(plim_byte_stream *s, char *buf, size_t cap, size_t *got);

/* Bytes of the file as it lies there, and how many of them have been read. */
uint64_t plim_byte_stream_size_bytes(const plim_byte_stream *s);
uint64_t plim_byte_stream_done_bytes(const plim_byte_stream *s);

#endif
