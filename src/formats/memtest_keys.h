/* memtest_keys.h - words that the writer and the reader of a memory test's file share. */
#ifndef PLIM_FORMATS_MEMTEST_KEYS_H
#define PLIM_FORMATS_MEMTEST_KEYS_H

#include "formats/memtest_result.h"

#define PLIM_MEMTEST_SCHEMA_VERSION 1
#define PLIM_MEMTEST_GIB            1073741824.0

/* By plim_attention_kernel. */
#define PLIM_MEMTEST_KERNELS 3
extern const char *const plim_memtest_kernels[PLIM_MEMTEST_KERNELS];

/* By plim_memtest_stop. */
extern const char *const plim_memtest_stops[PLIM_MEMTEST_STOPS];

#endif
