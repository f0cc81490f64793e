/* file.h - files as the library reads and writes them: mapped whole to read, replaced whole to write.
 *
 * A written file is either the old one or the new one, never half of either: the bytes go to a temporary file
 * in the same folder (".plimsoll-<pid>-<n>.tmp"), which is synced and then renamed over the target. */
#ifndef PLIM_BASE_FILE_H
#define PLIM_BASE_FILE_H

#include "base/context.h"

#define PLIM_PATH_BYTES 4096 /* a path with its closing zero; what Linux takes */

/* A file's bytes, not zero-terminated.  Zeroed: no file. */
typedef struct plim_file {
    const char *data;
    size_t bytes;
} plim_file;

/* Maps a regular file for reading; an empty one gives "" and 0 bytes.  The file must not be truncated while
 * it is mapped.  unmap zeroes f and accepts a zeroed one. Errors: PLIM_E_IO (missing, a folder, not a regular
 * file, no permission), PLIM_E_OOM_HOST. */
plim_status plim_file_map(plim_ctx *c, const char *path, plim_file *out);
void plim_file_unmap(plim_file *f);

/* Replaces path by these bytes, or leaves it as it was.  An existing file keeps its permissions; a symbolic
 * link keeps pointing where it points.  Errors: PLIM_E_IO, PLIM_E_OOM_HOST. */
plim_status plim_file_write(plim_ctx *c, const char *path, const void *data, size_t bytes);

/* The same for a file written piece by piece.  The first failure is sticky: later calls return it and commit
 * fails, so a caller may check at commit alone.  commit and abort both close w, whatever they return; abort
 * accepts NULL.  The context must outlive the writer. */
typedef struct plim_writer plim_writer;
plim_status plim_writer_open(plim_ctx *c, const char *path, plim_writer **out);
plim_status plim_writer_write(plim_writer *w, const void *data, size_t bytes);
plim_status plim_writer_printf(plim_writer *w, const char *fmt, ...) PLIM_PRINTF(2, 3);
uint64_t plim_writer_bytes(const plim_writer *w); /* written so far: where the next byte goes */
plim_status plim_writer_commit(plim_writer *w);
void plim_writer_abort(plim_writer *w);

/* folder/name into buf; an empty folder gives name, and an absolute name stands alone.
 * Errors: PLIM_E_RANGE when it does not fit cap bytes. */
plim_status plim_path_join(plim_ctx *c, char *buf, size_t cap, const char *folder, const char *name);

/* The folder path lies in: "a/b" gives "a", "b" gives ".", "/b" gives "/".  Errors as for join. */
plim_status plim_path_folder(plim_ctx *c, char *buf, size_t cap, const char *path);

bool plim_path_is_folder(const char *path);
bool plim_path_is_file(const char *path); /* a regular file */

/* Whether name stays inside the folder it is joined to: not empty, no slash, neither "." nor "..". */
bool plim_path_is_name(const char *name);

#endif
