/* twin.h - what twin tests share: the card (or a skip), tensors that exist on both sides, comparison.
 *
 * A twin test runs one slot of plim_ops on the CPU and on the card with the same inputs.  Without a card
 * every test of the group is skipped with a message. */
#ifndef PLIM_TESTS_TWIN_H
#define PLIM_TESTS_TWIN_H

#include "support/test.h"

#include "ops/cuda_plugin.h"

typedef struct twin {
    plim_ctx *ctx;
    plim_cuda_plugin plugin;
    plim_machine cpu, gpu;
    bool have_gpu;
} twin;

/* Group set-up and tear-down for cmocka_run_group_tests; *state is a twin.  attention: which engine to open
 * with. */
int twin_open(void **state);
int twin_open_own(void **state);
int twin_close(void **state);

/* What slow machines (an emulated card, a sanitizer) leave out: PLIM_TWIN_MOST_TOKENS in the environment;
 * INT64_MAX without it. */
int64_t twin_most_tokens(void);

#define TWIN(t)                                                                                              \
    twin *t = *state;                                                                                        \
    if (!t->have_gpu) {                                                                                      \
        print_message("no card here\n");                                                                     \
        skip();                                                                                              \
    }

/* A tensor on both sides.  host is the CPU's, dev the card's; same dtype, pitch and contents.  Guards of 0xA5
 * bytes lie around and in the pitch's slack, checked by twin_check_guards. */
typedef struct twin_tensor {
    plim_tensor host, dev;
    void *host_block, *dev_block;
    size_t bytes;
} twin_tensor;

/* Random normal contents (seed by call order), rounded to dtype; slack: columns of pitch beyond cols. */
twin_tensor twin_random(twin *t, plim_dtype d, int64_t rows, int64_t cols, int64_t slack, double sigma);
/* NaN-filled: an output. */
twin_tensor twin_output(twin *t, plim_dtype d, int64_t rows, int64_t cols, int64_t slack);
/* From values given as doubles, row-major. */
twin_tensor twin_from(twin *t, plim_dtype d, int64_t rows, int64_t cols, const double *values);
void twin_free(twin *t, twin_tensor *x);
/* Copies host to dev (after the test changed host). */
void twin_push(twin *t, twin_tensor *x);

/* Fails unless every element of the card's result lies within tolerance * (|want| + rms of want) of the
 * CPU's, naming the first that does not; NaN never passes.  relative: instead |got - want| / |want| over the
 * whole tensor. */
void twin_check_close(twin *t, twin_tensor *x, double tolerance, const char *what);
void twin_check_relative(twin *t, twin_tensor *x, double tolerance, const char *what);
void twin_check_guards(twin *t, twin_tensor *x, const char *what);

/* Device memory for tables and scratch. */
void *twin_device_bytes(twin *t, const void *host, size_t bytes);
void twin_device_free(twin *t, void *p);

#define TWIN_BF16_STEP (1.0 / 128) /* two roundings to bf16 */

#endif
