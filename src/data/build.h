/* build.h - files of rows to samples files: reads, turns rows into tokens on all threads, writes in the order
 * of rows.
 *
 * The outputs depend on the inputs, the model and the options alone, never on the number of threads.  Memory:
 * a batch of rows (4 MiB of them, or one larger row), its tokens, and what each thread renders; the samples
 * go to disk. */
#ifndef PLIM_DATA_BUILD_H
#define PLIM_DATA_BUILD_H

#include "data/chat.h"
#include "formats/samples_statistics.h"

/* Why a row, or its end, is not in the samples. */
#define PLIM_LEFT_OUT_MAP(X)                                                                                 \
    X(BAD, "bad")       /* cannot be read, rendered or tokenised, or nothing in it is trained on */          \
    X(LONG, "long")     /* more than max_tokens; or so once truncated, with nothing left to train on */      \
    X(CUT, "cut")       /* truncated: it is there without its end */                                         \
    X(WEIGHT, "weight") /* its weight is 0 */

typedef enum plim_left_out_kind {
#define PLIM_LEFT_OUT_ENUM(name, key) PLIM_LEFT_OUT_##name,
    PLIM_LEFT_OUT_MAP(PLIM_LEFT_OUT_ENUM)
#undef PLIM_LEFT_OUT_ENUM
        PLIM_LEFT_OUT_COUNT
} plim_left_out_kind;

typedef struct plim_left_out {
    plim_left_out_kind kind;
    const char *file;
    uint64_t line,
        byte; /* line of the file, and byte of that line, from 1: of the mistake, else of the row */
    const char *reason;
} plim_left_out;

typedef enum plim_long { PLIM_LONG_DROP, PLIM_LONG_TRUNCATE, PLIM_LONG_ERROR } plim_long;

typedef struct plim_build_config {
    const char *const
        *inputs; /* [input_count + val_input_count]: those of training, then those of validation */
    int64_t input_count, val_input_count;
    const char *out;
    const char *val_out;  /* NULL: no validation */
    const char *left_out; /* a line of JSON for each row left out; NULL: no such file */
    const char *model, *tokenizer, *chat_template; /* as plim_chat_model_open takes them */
    plim_chat_options chat;
    int64_t max_tokens; /* 2 or more; 0: no limit */
    plim_long over;     /* what becomes of a longer row */
    int64_t max_bad;    /* more bad rows than this, and nothing is written but left_out */
    double val_share; /* chance of a row of the inputs to be validated; what the row says decides, and seed */
    uint64_t seed;
    int threads; /* 0: as OpenMP has it */
    /* May be NULL.  writing: NULL while rows are read, the file's path while it is put together. */
    void (*progress)(void *user, const char *writing, uint64_t done_bytes, uint64_t total_bytes);
    void (*left)(void *user, const plim_left_out *row);
    void *user;
} plim_build_config;

#define PLIM_BUILD_LIMITS 5 /* 16, 32, 48, 64 and 128 thousand tokens */
extern const int64_t plim_build_limits[PLIM_BUILD_LIMITS];

/* Of all rows that could be turned into tokens, whatever their length and file. */
typedef struct plim_build_class {
    char *name;
    int64_t rows, tokens, labelled_tokens;
    int64_t lost_rows[PLIM_BUILD_LIMITS],
        lost_labelled_tokens[PLIM_BUILD_LIMITS]; /* if longer rows were dropped */
} plim_build_class;

#define PLIM_BUILD_TYPED 10
typedef struct plim_build_typed {
    int64_t file; /* an index of inputs */
    uint64_t line;
    char where[PLIM_TYPED_BYTES];
} plim_build_typed;

typedef struct plim_build_result {
    plim_ctx *ctx;
    plim_samples_statistics train, validation;
    int64_t rows; /* found in the inputs */
    int64_t left_out[PLIM_LEFT_OUT_COUNT];
    int64_t blank_lines;
    int64_t ended_rows;                       /* texts and completions that end with the end token */
    int64_t unended_rows;                     /* with a turn in whose end no special token was found */
    int64_t typed_tokens, typed_rows;         /* special tokens typed into texts, and the rows they are in */
    plim_build_typed typed[PLIM_BUILD_TYPED]; /* the first rows */
    int64_t typed_count;
    plim_build_class *classes; /* in the order they were met, as the samples file has them */
    int64_t class_count;
    size_t classes_cap;
    uint64_t input_bytes;
    char end[64]; /* the token that ends texts; "": none */
    char tokenizer[64], chat_template[64];
} plim_build_result;
void plim_build_result_close(plim_build_result *r); /* a zeroed one is fine */

/* Writes out, and val_out if given: both or, but for a failure to rename, neither.  left_out is written also
 * when there were too many bad rows. Errors: PLIM_E_IO; PLIM_E_FORMAT (too many bad rows, a file without
 * rows, an array or a packed file that is broken); PLIM_E_RANGE (limits, over ERROR, no row left for a file,
 * too many classes), PLIM_E_USAGE (an output that is an input or another output; what plim_chat_encode says
 * of whole kinds), PLIM_E_OOM_HOST; those of plim_chat_model_open. */
plim_status plim_build(plim_ctx *c, const plim_build_config *g, plim_build_result *out);

#endif
