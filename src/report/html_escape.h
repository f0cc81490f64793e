/* html_escape.h - text into a page: nothing that a model path or a card name holds becomes markup. */
#ifndef PLIM_REPORT_HTML_ESCAPE_H
#define PLIM_REPORT_HTML_ESCAPE_H

#include "base/file.h"

/* Writes text for element content or a quoted attribute.  & < > " ' become entities; control characters and
 * bytes that are not UTF-8 become U+FFFD.  A failure is sticky in w. */
void plim_html_text(plim_writer *w, const char *text);

/* The same, at most `characters` of them: a longer text ends in an ellipsis, which counts as one. */
void plim_html_clipped(plim_writer *w, const char *text, size_t characters);

#endif
