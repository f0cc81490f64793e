/* safetensors_writer.h - writing a safetensors file: declare everything, then stream the data in that
 * order. */
#ifndef PLIM_FORMATS_SAFETENSORS_WRITER_H
#define PLIM_FORMATS_SAFETENSORS_WRITER_H

#include "plimsoll.h"

/* The target is replaced whole at commit, or left as it was.  The first failure is sticky: later calls return
 * it and commit fails, so a caller may check at commit alone.  commit and abort both close w, whatever they
 * return; abort accepts NULL.  The context must outlive the writer. */
typedef struct plim_safetensors_writer plim_safetensors_writer;
plim_status plim_safetensors_writer_open(plim_ctx *c, const char *path, plim_safetensors_writer **out);

/* Before the first byte of data.  Strings are UTF-8 and copied.  Data lies in the order of declaration
 * without gaps and starts at a multiple of 64 bytes, so tensors are aligned when wide dtypes come first.
 * Errors: PLIM_E_RANGE (a negative dimension, more than PLIM_SAFETENSORS_MAX_DIMS, above 2^63 bytes, declared
 * after data), PLIM_E_OOM_HOST. */
plim_status plim_safetensors_writer_metadata(plim_safetensors_writer *w, const char *key, const char *value);
plim_status plim_safetensors_writer_tensor(plim_safetensors_writer *w, const char *name, plim_dtype dtype,
                                           int32_t dims, const int64_t *shape);

/* The next bytes of data, cut anywhere.  The first call (or commit, without data) writes the header, which
 * the reader must accept: a name declared twice, invalid UTF-8 or a header above the cap is PLIM_E_FORMAT.
 * Errors: PLIM_E_RANGE (more than declared), PLIM_E_FORMAT, PLIM_E_IO, PLIM_E_OOM_HOST. */
plim_status plim_safetensors_writer_data(plim_safetensors_writer *w, const void *data, size_t bytes);

/* Errors: PLIM_E_RANGE (less than declared), and those of data. */
plim_status plim_safetensors_writer_commit(plim_safetensors_writer *w);
void plim_safetensors_writer_abort(plim_safetensors_writer *w);

#endif
