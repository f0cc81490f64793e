/* batch.h - rows read together and turned into tokens side by side. */
#ifndef PLIM_DATA_BATCH_H
#define PLIM_DATA_BATCH_H

#include "data/chat.h"
#include "data/rows.h"

#define PLIM_BATCH_ROWS   256
#define PLIM_BATCH_BYTES  ((size_t)4 << 20) /* a row is begun below it */
#define PLIM_REASON_BYTES 512

/* A row and what became of it. */
typedef struct plim_batch_row {
    size_t at, bytes;    /* of the batch's text */
    bool too_long;       /* to be kept */
    uint64_t line, byte; /* of the row; of the mistake once there is one */
    plim_status status;  /* PLIM_OK: sample holds its tokens */
    char reason[PLIM_REASON_BYTES];
    char *class_name; /* NULL: none */
    double weight;
    uint64_t hash;
    plim_chat_sample sample;
} plim_batch_row;

typedef struct plim_batch {
    plim_ctx *ctx;
    char *text;
    size_t bytes, cap, count;
    plim_chat_coder **coders; /* one a thread, each with a context of its own when there are several */
    plim_ctx **contexts;
    int threads;
    bool hashes; /* rows want a hash */
    plim_batch_row rows[PLIM_BATCH_ROWS];
} plim_batch;

/* c and m must outlive it; close accepts NULL.  Errors: PLIM_E_OOM_HOST. */
plim_status plim_batch_open(plim_ctx *c, const plim_chat_model *m, const plim_chat_options *options,
                            int threads, bool hashes, plim_batch **out);
void plim_batch_close(plim_batch *b);

/* Replaces the batch by the next rows of r, none at the end.  Errors: those of plim_rows_next. */
plim_status plim_batch_read(plim_batch *b, plim_rows *r);

/* Turns its rows into tokens.  A row that is bad keeps its status, reason and place; what stops everything
 * (PLIM_E_OOM_HOST, PLIM_E_USAGE) fails and names path. */
plim_status plim_batch_encode(plim_batch *b, const char *path);

#endif
