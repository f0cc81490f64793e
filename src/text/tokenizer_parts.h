/* tokenizer_parts.h - what a tokenizer is made of, for the files that load and run it. */
#ifndef PLIM_TEXT_TOKENIZER_PARTS_H
#define PLIM_TEXT_TOKENIZER_PARTS_H

#include "base/json.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decode.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"

/* What a post-processor puts around a text. */
typedef struct plim_postprocessor {
    plim_ctx *ctx;
    int32_t *before, *after;
    size_t before_count, before_cap, after_count, after_cap;
} plim_postprocessor;

struct plim_tokenizer {
    plim_ctx *ctx;
    plim_vocabulary vocabulary;
    plim_bpe bpe;
    plim_normalizer normalizer;
    plim_pretokenizer pretokenizer;
    plim_decoder decoder;
    bool has_decoder;
    plim_postprocessor post;
    plim_added_set plain, normalized; /* searched for before and after the normaliser */
};

#define PLIM_TOKENIZER_PATH_BYTES 512

/* Each reads its member of j->root into t, whose earlier parts are complete: model first, then the steps,
 * then the added tokens. */
plim_status plim_tokenizer_read_model(const plim_json *j, plim_tokenizer *t);
plim_status plim_tokenizer_read_normalizer(const plim_json *j, plim_tokenizer *t);
plim_status plim_tokenizer_read_pretokenizer(const plim_json *j, plim_tokenizer *t);
plim_status plim_tokenizer_read_decoder(const plim_json *j, plim_tokenizer *t);
plim_status plim_tokenizer_read_added_tokens(const plim_json *j, plim_tokenizer *t);
plim_status plim_tokenizer_read_post_processor(const plim_json *j, plim_tokenizer *t);

/* Calls read for a component (with its type), and for the members of a Sequence in its place, list being the
 * name of the Sequence's array.  A null or absent component is none. */
typedef plim_status (*plim_component_read)(const plim_json *j, const json_t *component, const char *path,
                                           const char *type, plim_tokenizer *t);
plim_status plim_tokenizer_read_component(const plim_json *j, const char *member, const char *list,
                                          plim_component_read read, plim_tokenizer *t);

/* Fails for a component that is not known; known lists those that are. */
plim_status plim_tokenizer_unknown(const plim_json *j, const char *path, const char *kind, const char *type,
                                   const char *known);

/* Gives a failure of a part, which knows no file, its place in one; running out of memory stays as it is. */
plim_status plim_tokenizer_failed(const plim_json *j, const char *path, plim_status st);

/* "path.key" in buf; one that is too long is cut, and then names what encloses it. */
const char *plim_tokenizer_path(char buf[PLIM_TOKENIZER_PATH_BYTES], const char *path, const char *key);

/* Member pattern of a Split or Replace: {"Regex": ...} or {"String": ...}. */
plim_status plim_tokenizer_read_pattern(const plim_json *j, const json_t *component, const char *path,
                                        plim_pattern *out);

/* A copy of a string for plim_release. */
plim_status plim_tokenizer_copy(plim_ctx *c, const char *text, char **out);

#endif
