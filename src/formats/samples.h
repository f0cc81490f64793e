/* samples.h - the samples file: tokenised, labelled text, as `plimsoll data` writes and `plimsoll train`
 * reads it. A safetensors file; the format is in docs/samples.md. */
#ifndef PLIM_FORMATS_SAMPLES_H
#define PLIM_FORMATS_SAMPLES_H

#include "plimsoll.h"

#define PLIM_SAMPLES_FORMAT "plimsoll-samples-1"

/* A file opened by mmap: the arrays lie in it and must not be written.
 *   tokens I32 [N]; loss_weights F32 [N], the weight of the token itself (0: not trained on)
 *   doc_offsets I64 [n + 1], from 0 to N, ascending, no document empty
 *   class_ids I32 [n]; source U64 [n, 2]: file and line the document came from */
typedef struct plim_samples {
    int64_t tokens_count, documents;
    const int32_t *tokens;
    const float *loss_weights;
    const int64_t *doc_offsets;
    const int32_t *class_ids;
    const uint64_t *source;
    int64_t classes;         /* named in the metadata; ids are 0 .. classes - 1 */
    int64_t longest_tokens;  /* of the documents here */
    int64_t labelled_tokens; /* of weight above 0, the first of a document not counted */
    int64_t max_tokens;      /* what the file was cut to; 0: no limit */
    int32_t largest_token;   /* a model's vocabulary must be above it */
    void *file;              /* plim_safetensors */
} plim_samples;

#define PLIM_SAMPLES_MAX_CLASSES 4096

/* Checks everything: format version, metadata, shapes, offsets, token ids >= 0, weights finite and >= 0,
 * class ids, sources, and that the statistics are those of the arrays.  A file without a trained token is
 * refused. Errors: PLIM_E_IO, PLIM_E_FORMAT, PLIM_E_RANGE, PLIM_E_OOM_HOST; the message names tensor and
 * element. */
plim_status plim_samples_open(plim_ctx *c, const char *path, plim_samples *out);
void plim_samples_close(plim_samples *s); /* a zeroed one is fine */

/* Metadata by key (docs/samples.md), NULL when absent; class name by id, whole and zero-terminated.
 * Errors: PLIM_E_RANGE (no such class, or bytes too few), PLIM_E_OOM_HOST. */
const char *plim_samples_metadata(const plim_samples *s, const char *key);
plim_status plim_samples_class_name(plim_ctx *c, const plim_samples *s, int64_t id, char *out, size_t bytes);

#endif
