/* pattern.c - decides how far a match may go, and finds it.
 * PCRE2 with UTF and UCP, compiled to machine code where the system allows that and interpreted, with the
 * same results, where it does not. */
#include "text/pattern.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/unicode.h"

#define MATCH_LIMIT     10000000u          /* steps of one match: backtracking without end stops here */
#define HEAP_LIMIT_KIB  65536u             /* of one match in the interpreter */
#define STACK_BYTES     ((size_t)32 << 10) /* machine code's stack, at first */
#define STACK_MAX_BYTES ((size_t)64 << 20) /* and at most; a deeper match is refused */
#define PATTERN_BYTES   ((size_t)64 << 10) /* longest expression compiled */

static void *pcre_alloc(size_t bytes, void *user)
{
    plim_ctx *c = user;
    void *p = NULL;
    return plim_alloc(c, 1, bytes, "a regular expression", &p) ? NULL : p;
}

static void pcre_release(void *p, void *user)
{
    plim_release(user, p);
}

static plim_status compile_failed(plim_pattern *p, int code, size_t at)
{
    PCRE2_UCHAR text[160] = "";
    if (code == PCRE2_ERROR_NOMEMORY || plim_ctx_status(p->ctx) == PLIM_E_OOM_HOST)
        return plim_fail_alloc(p->ctx, p->string_bytes, "a regular expression");
    pcre2_get_error_message(code, text, sizeof text);
    return plim_fail(p->ctx, PLIM_E_FORMAT,
                     "the regular expression \"%.300s\" cannot be compiled: %s (at %zu)", p->string,
                     (const char *)text, at);
}

static plim_status compile(plim_pattern *p)
{
    char *translated = NULL;
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *context = NULL;
    TRY(plim_pattern_translate(p->ctx, p->string, &translated));
    plim_status st = PLIM_OK;
    p->general = pcre2_general_context_create(pcre_alloc, pcre_release, p->ctx);
    if (p->general) context = pcre2_compile_context_create(p->general);
    if (!context) {
        st = plim_fail_alloc(p->ctx, p->string_bytes, "a regular expression");
        goto out;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(context, PATTERN_BYTES);
    p->code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                            context);
    if (!p->code) st = compile_failed(p, error, at);
    /* a refusal leaves the interpreter, unless memory ran out */
    else if (pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) && plim_ctx_status(p->ctx) == PLIM_E_OOM_HOST)
        st = PLIM_E_OOM_HOST;
out:
    pcre2_compile_context_free(context);
    plim_release(p->ctx, translated);
    return st;
}

plim_status plim_pattern_string(plim_ctx *c, const char *string, size_t bytes, plim_pattern *out)
{
    plim_pattern p = {.ctx = c, .kind = PLIM_PATTERN_STRING, .string_bytes = bytes};
    TRY(plim_alloc(c, bytes + 1, 1, "a pattern", &p.string));
    memcpy(p.string, string, bytes);
    *out = p;
    return PLIM_OK;
}

plim_status plim_pattern_regex(plim_ctx *c, const char *source, plim_pattern *out)
{
    plim_pattern p = {0};
    TRY(plim_pattern_string(c, source, strlen(source), &p));
    p.kind = PLIM_PATTERN_REGEX;
    plim_status st = compile(&p);
    if (st) plim_pattern_close(&p);
    else *out = p;
    return st;
}

void plim_pattern_class(bool (*is_in)(uint32_t c), plim_pattern *out)
{
    *out = (plim_pattern){.kind = PLIM_PATTERN_CLASS, .is_in = is_in};
}

void plim_pattern_close(plim_pattern *p)
{
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->general);
    plim_release(p->ctx, p->string);
    *p = (plim_pattern){0};
}

plim_status plim_matcher_open(plim_ctx *c, plim_matcher *out)
{
    plim_matcher m = {.ctx = c};
    m.general = pcre2_general_context_create(pcre_alloc, pcre_release, c);
    if (m.general) m.match = pcre2_match_context_create(m.general);
    if (m.match) m.data = pcre2_match_data_create(1, m.general);
    if (m.data) m.stack = pcre2_jit_stack_create(STACK_BYTES, STACK_MAX_BYTES, m.general);
    /* a library without machine code has no stack for it, and needs none */
    if (!m.data || plim_ctx_status(c) == PLIM_E_OOM_HOST) {
        plim_matcher_close(&m);
        return plim_fail_alloc(c, STACK_BYTES, "matching regular expressions");
    }
    pcre2_set_match_limit(m.match, MATCH_LIMIT);
    pcre2_set_heap_limit(m.match, HEAP_LIMIT_KIB);
    if (m.stack) pcre2_jit_stack_assign(m.match, NULL, m.stack);
    *out = m;
    return PLIM_OK;
}

void plim_matcher_close(plim_matcher *m)
{
    pcre2_jit_stack_free(m->stack);
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->match);
    pcre2_general_context_free(m->general);
    *m = (plim_matcher){0};
}

void plim_pattern_start(plim_pattern_walk *w, const plim_pattern *p, plim_matcher *m, const char *text,
                        size_t bytes)
{
    *w = (plim_pattern_walk){p, m, text, bytes, 0, SIZE_MAX};
}

static plim_status match_failed(const plim_pattern_walk *w, int code)
{
    PCRE2_UCHAR text[160] = "";
    plim_ctx *c = w->matcher->ctx;
    if (code == PCRE2_ERROR_NOMEMORY) return plim_fail_alloc(c, w->bytes, "matching a regular expression");
    pcre2_get_error_message(code, text, sizeof text);
    return plim_fail(
        c, PLIM_E_UNSUPPORTED,
        "the tokenizer's regular expression \"%.300s\" gives up at byte %zu of a piece of %zu: %s; an "
        "expression without nested repetitions would not",
        w->pattern->string, w->at, w->bytes, (const char *)text);
}

static plim_status next_regex(plim_pattern_walk *w, bool *found, size_t *begin, size_t *end)
{
    *found = false;
    while (w->at <= w->bytes) {
        int code = pcre2_match(w->pattern->code, (PCRE2_SPTR)w->text, w->bytes, w->at, PCRE2_NO_UTF_CHECK,
                               w->matcher->data, w->matcher->match);
        if (code == PCRE2_ERROR_NOMATCH) break;
        if (code < 0) return match_failed(w, code);
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(w->matcher->data);
        *begin = at[0];
        *end = at[1] > at[0] ? at[1] : at[0]; /* \K in a look-ahead may end before it begins */
        if (*begin == *end && *end == w->last_end) {
            w->at += w->at < w->bytes ? plim_utf8_size(w->text[w->at]) : 1;
            continue;
        }
        w->at = w->last_end = *end;
        *found = true;
        return PLIM_OK;
    }
    w->at = w->bytes + 1;
    return PLIM_OK;
}

static void next_string(plim_pattern_walk *w, bool *found, size_t *begin, size_t *end)
{
    const plim_pattern *p = w->pattern;
    const char *hit = NULL;
    if (p->string_bytes && w->at < w->bytes)
        hit = memmem(w->text + w->at, w->bytes - w->at, p->string, p->string_bytes);
    *found = hit != NULL;
    if (!hit) {
        w->at = w->bytes;
        return;
    }
    *begin = (size_t)(hit - w->text);
    w->at = *end = *begin + p->string_bytes;
}

static void next_class(plim_pattern_walk *w, bool *found, size_t *begin, size_t *end)
{
    uint32_t c;
    *found = false;
    while (w->at < w->bytes && !*found) {
        *begin = w->at;
        w->at += plim_utf8_read(w->text + w->at, &c);
        *end = w->at;
        *found = w->pattern->is_in(c);
    }
}

plim_status plim_pattern_next(plim_pattern_walk *w, bool *found, size_t *begin, size_t *end)
{
    switch (w->pattern->kind) {
    case PLIM_PATTERN_REGEX: return next_regex(w, found, begin, end);
    case PLIM_PATTERN_STRING: next_string(w, found, begin, end); break;
    case PLIM_PATTERN_CLASS: next_class(w, found, begin, end); break;
    }
    return PLIM_OK;
}
