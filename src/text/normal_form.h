/* normal_form.h - NFC, NFD, NFKC and NFKD of a text, in time linear in its length.
 * Source: Unicode Standard Annex 15; the tables are utf8proc's. */
#ifndef PLIM_TEXT_NORMAL_FORM_H
#define PLIM_TEXT_NORMAL_FORM_H

#include "text/stage.h"

typedef enum plim_normal_form { PLIM_NFC, PLIM_NFD, PLIM_NFKC, PLIM_NFKD } plim_normal_form;

/* Memory used again from call to call; zeroed: none yet. */
typedef struct plim_normal_scratch {
    plim_ctx *ctx;
    int32_t *chars, *sorted;
    char *text;
    size_t chars_cap, sorted_cap, text_cap;
} plim_normal_scratch;

/* source in form f: source itself where nothing changes, else all of st.
 * Errors: PLIM_E_OOM_HOST, PLIM_E_RANGE (2^31 combining characters in a row). */
plim_status plim_normal_form_apply(plim_normal_form f, plim_normal_scratch *w, plim_span source,
                                   plim_stage *st, plim_span *out);
void plim_normal_scratch_close(plim_normal_scratch *w);

/* Whether c keeps whatever stands before it from changing with it, in every form: normalising may begin anew
 * at c. */
bool plim_normal_form_starts_anew(uint32_t c);

/* Whether c is younger than the tables normalisers of tokenizers were made with, and left alone for that. */
bool plim_normal_form_is_later(uint32_t c);

#endif
