/* config_text.h - a config.json in memory, and the same with one place changed. */
#ifndef PLIM_TESTS_CONFIG_TEXT_H
#define PLIM_TESTS_CONFIG_TEXT_H

#include "support/test.h"

#include <stdlib.h>

#define CONFIG_27B PLIM_SHARE_SOURCE "/models/qwen3.8-27b/config.json"

/* A dense config of one family: model_type, then more fields ("" or ", \"k\": v"). */
static inline char *config_dense(const char *model_type, const char *more)
{
    static const char body[] =
        "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"intermediate_size\": 160, \"vocab_size\": 512,\n"
        "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, \"num_attention_heads\": 4,\n"
        "\"num_key_value_heads\": 2, \"head_dim\": 16";
    size_t n = sizeof body + strlen(model_type) + strlen(more) + 64;
    char *out = malloc(n);
    if (!out) abort();
    snprintf(out, n, "{\"model_type\": \"%s\",\n%s%s}\n", model_type, body, more);
    return out;
}

/* text with the first from replaced by to; fails when from is not there.  free() the result. */
static inline char *config_edit(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at) {
        fail_msg("the text has no '%s'", from);
        abort(); /* not reached: tells the compiler */
    }
    size_t head = (size_t)(at - text), n = strlen(text) + strlen(to) + 1;
    char *out = malloc(n);
    if (!out) abort();
    snprintf(out, n, "%.*s%s%s", (int)head, text, to, text + head + strlen(from));
    return out;
}

static inline plim_status config_parse(plim_ctx *c, const char *text, plim_spec *out)
{
    return plim_spec_parse(c, "config.json", text, strlen(text), out);
}

/* One edit and what comes of it; words NULL: accepted. */
typedef struct config_case {
    const char *from, *to;
    plim_status status;
    const char *words[4];
} config_case;

static inline void config_check_cases(plim_ctx *c, const char *base, const config_case *cases, size_t count)
{
    static plim_spec out;
    for (size_t i = 0; i < count; i++) {
        char *text = config_edit(base, cases[i].from, cases[i].to);
        char what[128];
        snprintf(what, sizeof what, "case %zu: %.90s", i, cases[i].to);
        if (cases[i].status == PLIM_OK) {
            plim_status st = config_parse(c, text, &out);
            if (st) fail_msg("%s: %s", what, plim_ctx_message(c));
        } else {
            memset(&out, 0x5A, sizeof out);
            plim_status st = config_parse(c, text, &out);
            const char *const words[] = {cases[i].words[0], cases[i].words[1], cases[i].words[2],
                                         cases[i].words[3], NULL};
            test_check_fails(c, cases[i].status, st, what, words);
            for (size_t b = 0; b < sizeof out; b++)
                if (((unsigned char *)&out)[b] != 0x5A) fail_msg("%s: the output was written", what);
        }
        free(text);
    }
}

#endif
