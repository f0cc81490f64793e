/* html_escape.c - decides how any bytes become text of a page. */
#include "report/html_escape.h"

#include <string.h>

#include "base/utf8.h"

#define ELLIPSIS "\xe2\x80\xa6"

static const char *entity(char b)
{
    switch (b) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

/* Writes one character and returns how many bytes of the text it took. */
static size_t write_character(plim_writer *w, const char *at)
{
    const char *name = entity(*at);
    size_t bytes = plim_utf8_length(at);
    bool control = ((unsigned char)*at < ' ' && *at != '\n' && *at != '\t') || *at == 127;
    if (control || !bytes) name = PLIM_UTF8_REPLACEMENT;
    if (name) plim_writer_write(w, name, strlen(name));
    else plim_writer_write(w, at, bytes);
    return bytes ? bytes : 1;
}

static size_t characters_of(const char *text)
{
    size_t n = 0;
    for (size_t bytes; *text; text += bytes ? bytes : 1, n++) bytes = plim_utf8_length(text);
    return n;
}

void plim_html_text(plim_writer *w, const char *text)
{
    while (*text) text += write_character(w, text);
}

void plim_html_clipped(plim_writer *w, const char *text, size_t characters)
{
    bool clipped = characters_of(text) > characters;
    for (size_t n = clipped ? characters - 1 : characters; n && *text; n--) text += write_character(w, text);
    if (clipped) plim_writer_write(w, ELLIPSIS, strlen(ELLIPSIS));
}
