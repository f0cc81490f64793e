/* bytes.h - texts to samples with one token a byte: no vocabulary to fetch, every text has its ids.
 *
 * Token ids: 0 to 255 are the bytes of the UTF-8 text as plim_text_next gives them, 256 ends a document.
 * Every token is trained on but a document's first, which nothing predicts.  The output depends on the inputs
 * and the options alone. */
#ifndef PLIM_DATA_BYTES_H
#define PLIM_DATA_BYTES_H

#include "formats/samples_statistics.h"

#define PLIM_BYTES_END 256

/* What a document is. */
#define PLIM_DOCUMENTS_MAP(X)                                                                                \
    X(FILES, "files")           /* a whole file, its last line end included */                               \
    X(LINES, "lines")           /* a line that is not blank, without its end */                              \
    X(PARAGRAPHS, "paragraphs") /* lines up to a blank one or the file's end */

/* What becomes of a document of more than max_tokens. */
#define PLIM_OVER_MAP(X)                                                                                     \
    X(SPLIT, "split")       /* pieces of max_tokens; the last token of one opens the next, so that */        \
                            /* every token but the document's first is trained on exactly once */            \
    X(DROP, "drop")         /* left out, and counted */                                                      \
    X(TRUNCATE, "truncate") /* its first max_tokens, without an end */                                       \
    X(ERROR, "error")       /* refused, with its place */

typedef enum plim_documents {
#define PLIM_DOCUMENTS_ENUM(name, key) PLIM_DOCUMENTS_##name,
    PLIM_DOCUMENTS_MAP(PLIM_DOCUMENTS_ENUM)
#undef PLIM_DOCUMENTS_ENUM
        PLIM_DOCUMENTS_COUNT
} plim_documents;

typedef enum plim_over {
#define PLIM_OVER_ENUM(name, key) PLIM_OVER_##name,
    PLIM_OVER_MAP(PLIM_OVER_ENUM)
#undef PLIM_OVER_ENUM
        PLIM_OVER_COUNT
} plim_over;

typedef struct plim_bytes_config {
    const char *const *inputs;
    int64_t input_count;
    const char *out;
    const char *val_out; /* NULL with val_share 0 */
    plim_documents documents;
    plim_over over;
    int64_t max_tokens; /* 2 or more; 0: no limit */
    bool no_end;        /* leave token 256 out */
    double val_share;   /* chance of a document, or piece of one, to go to val_out: 0 or more, below 1 */
    uint64_t seed;      /* of that choice, which the bytes of the document decide */
    /* May be NULL.  writing: NULL while the inputs are read, the file's path while it is put together. */
    void (*progress)(void *user, const char *writing, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_user;
} plim_bytes_config;

typedef struct plim_bytes_result {
    plim_samples_statistics train, validation;
    int64_t documents;    /* found in the inputs */
    int64_t cut, dropped; /* of those: above max_tokens, by over */
    int64_t alone;        /* of those: a single token, which leaves nothing to predict; left out */
    uint64_t text_bytes;  /* of the inputs */
} plim_bytes_result;

/* Writes out, and val_out with a val_share: both or, but for a failure to rename, neither.
 * Errors: PLIM_E_IO, PLIM_E_FORMAT (not UTF-8, a file without text), PLIM_E_RANGE (max_tokens, val_share;
 * over "error"; a document above PLIM_SAMPLES_LONGEST_TOKENS; no document left for a file), PLIM_E_USAGE (an
 * output that is an input, or both outputs the same), PLIM_E_OOM_HOST. */
plim_status plim_bytes_write(plim_ctx *c, const plim_bytes_config *g, plim_bytes_result *out);

#endif
