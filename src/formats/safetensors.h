/* safetensors.h - reading a safetensors file: the header is checked whole, the data is mapped and never
 * touched.
 *
 * The file: 8 bytes, little-endian, the length of the header; the header, one JSON object that gives for
 * every tensor its dtype, shape and data_offsets [begin, end) counted from the end of the header; the data.
 * The tensors must cover the data exactly: no overlap, no hole, nothing after the last one. Source: the
 * format's description in the README of the safetensors project. */
#ifndef PLIM_FORMATS_SAFETENSORS_H
#define PLIM_FORMATS_SAFETENSORS_H

#include "plimsoll.h"

#define PLIM_SAFETENSORS_HEADER_MAX_BYTES 100000000 /* the cap every reader of the format keeps */
#define PLIM_SAFETENSORS_MAX_DIMS         8

/* What can be wrong with a file.  Key for machines. */
#define PLIM_SAFETENSORS_FAULT_MAP(X)                                                                        \
    X(LFS_POINTER, "lfs_pointer")                                                                            \
    X(HEADER_LENGTH, "header_length")                                                                        \
    X(HEADER, "header")                                                                                      \
    X(ENTRY, "tensor_entry")                                                                                 \
    X(DTYPE_UNKNOWN, "dtype_unknown")                                                                        \
    X(SIZE, "tensor_size")                                                                                   \
    X(OVERLAP, "overlap")                                                                                    \
    X(HOLE, "hole")                                                                                          \
    X(TRUNCATED, "truncated")                                                                                \
    X(TRAILING, "trailing_bytes")

typedef enum plim_safetensors_fault {
#define PLIM_SAFETENSORS_FAULT_ENUM(name, key) PLIM_SAFETENSORS_##name,
    PLIM_SAFETENSORS_FAULT_MAP(PLIM_SAFETENSORS_FAULT_ENUM)
#undef PLIM_SAFETENSORS_FAULT_ENUM
        PLIM_SAFETENSORS_FAULT_COUNT
} plim_safetensors_fault;

typedef struct plim_safetensors_tensor {
    const char *name;
    plim_dtype dtype; /* PLIM_DTYPE_COUNT when faulty and not known */
    bool faulty;      /* only in a survey: reported, and not to be used */
    int32_t dims;     /* 0: a scalar */
    int64_t shape[PLIM_SAFETENSORS_MAX_DIMS];
    int64_t elements;
    uint64_t offset_bytes; /* from the start of the file; any alignment */
    uint64_t size_bytes;
} plim_safetensors_tensor;

typedef struct plim_safetensors plim_safetensors;

/* Maps the file and checks its header and its length.
 * Errors: PLIM_E_IO; PLIM_E_FORMAT; PLIM_E_UNSUPPORTED (a dtype plimsoll does not know, more than
 * PLIM_SAFETENSORS_MAX_DIMS dimensions); PLIM_E_OOM_HOST. */
plim_status plim_safetensors_open(plim_ctx *c, const char *path, plim_safetensors **out);

/* The same from memory: head holds the first head_bytes bytes of a file of file_bytes bytes, at least its
 * length field and header.  head may go once this returns; plim_safetensors_data gives NULL. */
plim_status plim_safetensors_parse(plim_ctx *c, const char *name, const void *head, size_t head_bytes,
                                   uint64_t file_bytes, plim_safetensors **out);

/* Called for every fault; tensor is "" when the fault is the file's.  Anything but PLIM_OK ends the
 * survey. */
typedef plim_status (*plim_safetensors_report)(void *user, plim_safetensors_fault fault, const char *tensor,
                                               const char *text);

/* Like open, but every fault goes to report and the survey goes on; *out is NULL when there is no header to
 * go on with.  Errors: PLIM_E_IO, PLIM_E_OOM_HOST, whatever report returns. */
plim_status plim_safetensors_survey(plim_ctx *c, const char *path, plim_safetensors_report report, void *user,
                                    plim_safetensors **out);

void plim_safetensors_close(plim_safetensors *s);

/* Tensors in the order of their data; at needs i < count; find gives NULL for a name that is not there. */
size_t plim_safetensors_count(const plim_safetensors *s);
const plim_safetensors_tensor *plim_safetensors_at(const plim_safetensors *s, size_t i);
const plim_safetensors_tensor *plim_safetensors_find(const plim_safetensors *s, const char *name);

/* The tensor's size_bytes bytes; valid until close. */
const void *plim_safetensors_data(const plim_safetensors *s, const plim_safetensors_tensor *t);

/* Value of one key of __metadata__, NULL when absent; and all of them, in the file's order. */
const char *plim_safetensors_metadata(const plim_safetensors *s, const char *key);
size_t plim_safetensors_metadata_count(const plim_safetensors *s);
void plim_safetensors_metadata_at(const plim_safetensors *s, size_t i, const char **key, const char **value);

/* Whole file, and where the data starts. */
uint64_t plim_safetensors_file_bytes(const plim_safetensors *s);
uint64_t plim_safetensors_data_start_bytes(const plim_safetensors *s);

#endif
