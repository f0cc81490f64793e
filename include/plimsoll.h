/* plimsoll.h - the public API of libplimsoll.
 *
 * Contexts are opaque; configuration structs are open and have a defaults function.  Every function that can
 * fail returns plim_status, writes its outputs only on PLIM_OK, and leaves one message in the context
 * (plim_ctx_message).  Sizes are 64-bit throughout; memory is in bytes, shown in GiB (2^30). */
#ifndef PLIMSOLL_H
#define PLIMSOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLIM_VERSION "0.1.0"

#if defined(__GNUC__)
#define PLIM_API            __attribute__((visibility("default")))
#define PLIM_PRINTF(fmt, v) __attribute__((format(printf, fmt, v)))
#define PLIM_WARN_UNUSED    __attribute__((warn_unused_result))
#else
#define PLIM_API
#define PLIM_PRINTF(fmt, v)
#define PLIM_WARN_UNUSED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------------------- */

/* Enum, name and text come from this one list. */
#define PLIM_STATUS_MAP(X)                                                                                   \
    X(OK, "success")                                                                                         \
    X(E_USAGE, "the command line is not understood")                                                         \
    X(E_IO, "a file could not be read or written")                                                           \
    X(E_FORMAT, "a file is malformed")                                                                       \
    X(E_UNSUPPORTED, "the model or option is not supported")                                                 \
    X(E_RANGE, "a number is out of range")                                                                   \
    X(E_SHAPE, "a shape is not supported")                                                                   \
    X(E_MISMATCH, "the files do not match the model")                                                        \
    X(E_NOFIT, "no plan fits the memory budget")                                                             \
    X(E_NUMERIC, "a number is not finite")                                                                   \
    X(E_OOM_HOST, "host allocation failed")                                                                  \
    X(E_OOM_DEVICE, "device allocation failed")                                                              \
    X(E_CUDA, "CUDA failed; close the context")

typedef enum plim_status {
#define PLIM_STATUS_ENUM(name, text) PLIM_##name,
    PLIM_STATUS_MAP(PLIM_STATUS_ENUM)
#undef PLIM_STATUS_ENUM
        PLIM_STATUS_COUNT
} plim_status;

/* "E_NOFIT" and "no plan fits the memory budget"; "?" for a value outside the enum. */
PLIM_API
const char *plim_status_name(plim_status st);
PLIM_API
const char *plim_status_text(plim_status st);

/* ---- context ------------------------------------------------------------------------------------------ */

typedef struct plim_ctx plim_ctx;

/* Where the library takes host memory from.  alloc returns memory aligned to 64 bytes, or NULL. */
typedef struct plim_allocator {
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *p);
    void *user;
} plim_allocator;

/* allocator NULL: the C library's.  Errors: PLIM_E_OOM_HOST.  Whoever opens closes; close accepts NULL. */
PLIM_API
plim_status plim_ctx_open(const plim_allocator *allocator, plim_ctx **out);
PLIM_API
void plim_ctx_close(plim_ctx *c);

/* The first failure's message since the last clear ("" if none), and its status. */
PLIM_API
const char *plim_ctx_message(const plim_ctx *c);
PLIM_API
plim_status plim_ctx_status(const plim_ctx *c);
PLIM_API
void plim_ctx_clear(plim_ctx *c);

/* ---- dtypes ------------------------------------------------------------------------------------------- */

/* Name as safetensors writes it, and bytes an element. */
#define PLIM_DTYPE_MAP(X)                                                                                    \
    X(F64, 8)                                                                                                \
    X(F32, 4)                                                                                                \
    X(F16, 2)                                                                                                \
    X(BF16, 2)                                                                                               \
    X(I64, 8)                                                                                                \
    X(I32, 4)                                                                                                \
    X(I16, 2)                                                                                                \
    X(I8, 1)                                                                                                 \
    X(U64, 8)                                                                                                \
    X(U32, 4)                                                                                                \
    X(U16, 2)                                                                                                \
    X(U8, 1)                                                                                                 \
    X(BOOL, 1)                                                                                               \
    X(F8_E4M3, 1)                                                                                            \
    X(F8_E5M2, 1)

typedef enum plim_dtype {
#define PLIM_DTYPE_ENUM(name, bytes) PLIM_##name,
    PLIM_DTYPE_MAP(PLIM_DTYPE_ENUM)
#undef PLIM_DTYPE_ENUM
        PLIM_DTYPE_COUNT
} plim_dtype;

PLIM_API
const char *plim_dtype_name(plim_dtype d); /* "?" outside the enum */
PLIM_API
size_t plim_dtype_bytes(plim_dtype d); /* 0 outside the enum */

#include "plimsoll_spec.h"
#include "plimsoll_plan.h"
#include "plimsoll_search.h"
#include "plimsoll_table.h"

#ifdef __cplusplus
}
#endif
#endif
