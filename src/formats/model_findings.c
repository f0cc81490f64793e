/* model_findings.c - decides how findings are kept: one block each, the first thousand, all counted. */
#include "formats/model_findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"

#define SENTENCE_BYTES 4096

const char *plim_finding_key(plim_finding_kind kind)
{
    static const char *const keys[PLIM_FINDING_COUNT] = {
#define ROW(name, key) key,
        PLIM_FINDING_MAP(ROW)
#undef ROW
    };
    return (unsigned)kind < PLIM_FINDING_COUNT ? keys[kind] : "?";
}

plim_status plim_findings_add(plim_ctx *c, plim_findings *f, plim_finding_kind kind, const char *tensor,
                              const char *file, const char *fmt, ...)
{
    if (f->kept < PLIM_FINDINGS_KEPT) {
        char sentence[SENTENCE_BYTES];
        int at = snprintf(sentence, sizeof sentence, "%.255s%s%s%.200s%s", file, *file ? ": " : "",
                          *tensor ? "tensor " : "", tensor, *tensor ? ": " : "");
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(sentence + at, sizeof sentence - (size_t)at, fmt, ap);
        va_end(ap);

        size_t tensor_bytes = strlen(tensor) + 1, file_bytes = strlen(file) + 1,
               text_bytes = strlen(sentence) + 1;
        char *block = NULL;
        TRY(plim_grow(c, &f->items, &f->cap, f->kept + 1, sizeof *f->items, "findings"));
        TRY(plim_alloc(c, tensor_bytes + file_bytes + text_bytes, 1, "a finding", &block));
        f->items[f->kept++] = (plim_finding){
            .kind = kind,
            .text = memcpy(block, sentence, text_bytes),
            .tensor = memcpy(block + text_bytes, tensor, tensor_bytes),
            .file = memcpy(block + text_bytes + tensor_bytes, file, file_bytes),
        };
    }
    f->total++;
    f->count[kind]++;
    return PLIM_OK;
}

void plim_findings_release(plim_ctx *c, plim_findings *f)
{
    for (size_t i = 0; i < f->kept; i++) plim_release(c, (char *)(uintptr_t)f->items[i].text);
    plim_release(c, f->items);
    *f = (plim_findings){0};
}
