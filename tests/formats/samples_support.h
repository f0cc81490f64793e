/* samples_support.h - a small samples file, whole or with one thing wrong. */
#ifndef PLIM_TESTS_SAMPLES_SUPPORT_H
#define PLIM_TESTS_SAMPLES_SUPPORT_H

#include "support/test.h"

#include "formats/safetensors_writer.h"
#include "formats/samples.h"

/* Two documents, of 3 and 2 tokens; every field may be replaced.  A text of NULL is left out. */
typedef struct samples_case {
    const char *format, *classes, *files, *tokenizer, *chat_template, *max_tokens, *statistics;
    int64_t tokens_count, offsets_count, documents;
    int32_t tokens[8];
    float weights[8];
    int64_t offsets[4];
    int32_t class_ids[3];
    uint64_t source[6];
    const char *renamed; /* a tensor written as "other" instead */
    plim_dtype token_dtype;
    int32_t source_columns;
    const char *extra; /* one more tensor, of no elements */
} samples_case;

static inline samples_case samples_good(void)
{
    return (samples_case){
        .format = PLIM_SAMPLES_FORMAT,
        .classes = "[\"prose\",\"code \\u00e9\"]",
        .files = "[\"a.txt\",\"b.txt\"]",
        .tokenizer = "bytes fnv1a64:0",
        .chat_template = "",
        .max_tokens = "3",
        .statistics = "{\"schema_version\":1,\"tokens\":5,\"labelled_tokens\":2,\"rows\":2}",
        .tokens_count = 5,
        .offsets_count = 3,
        .documents = 2,
        .tokens = {7, 8, 256, 9, 0},
        .weights = {1, 0.5f, 0, 0, 2},
        .offsets = {0, 3, 5},
        .class_ids = {1, 0},
        .source = {0, 1, 1, 12},
        .token_dtype = PLIM_I32,
        .source_columns = 2,
    };
}

static inline void samples_meta(plim_safetensors_writer *w, const char *key, const char *value)
{
    if (value) plim_safetensors_writer_metadata(w, key, value);
}

static inline void samples_tensor(plim_safetensors_writer *w, const samples_case *k, const char *name,
                                  plim_dtype d, int64_t rows, int32_t columns)
{
    int64_t shape[2] = {rows, columns};
    if (k->renamed && !strcmp(k->renamed, name)) name = "other";
    plim_safetensors_writer_tensor(w, name, d, columns ? 2 : 1, shape);
}

static inline void samples_put(plim_ctx *c, const char *path, const samples_case *k)
{
    plim_safetensors_writer *w = NULL;
    int64_t none = 0;
    CHECK_OK(c, plim_safetensors_writer_open(c, path, &w));
    samples_meta(w, "format", k->format);
    samples_meta(w, "classes", k->classes);
    samples_meta(w, "files", k->files);
    samples_meta(w, "tokenizer", k->tokenizer);
    samples_meta(w, "template", k->chat_template);
    samples_meta(w, "max_tokens", k->max_tokens);
    samples_meta(w, "statistics", k->statistics);
    samples_tensor(w, k, "source", PLIM_U64, k->documents * 2 / k->source_columns, k->source_columns);
    samples_tensor(w, k, "doc_offsets", PLIM_I64, k->offsets_count, 0);
    samples_tensor(w, k, "tokens", k->token_dtype, k->tokens_count, 0);
    samples_tensor(w, k, "loss_weights", PLIM_F32, k->tokens_count, 0);
    samples_tensor(w, k, "class_ids", PLIM_I32, k->documents, 0);
    if (k->extra) plim_safetensors_writer_tensor(w, k->extra, PLIM_F32, 1, &none);
    plim_safetensors_writer_data(w, k->source, (size_t)k->documents * 16);
    plim_safetensors_writer_data(w, k->offsets, (size_t)k->offsets_count * 8);
    plim_safetensors_writer_data(w, k->tokens, (size_t)k->tokens_count * 4);
    plim_safetensors_writer_data(w, k->weights, (size_t)k->tokens_count * 4);
    plim_safetensors_writer_data(w, k->class_ids, (size_t)k->documents * 4);
    CHECK_OK(c, plim_safetensors_writer_commit(w));
}

#endif
