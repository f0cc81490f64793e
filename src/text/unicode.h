/* unicode.h - characters as tokenizers see them: UTF-8 in and out, and the classes their rules speak of.
 * Categories are utf8proc's; the classes are those of the Unicode standard, annexes 31 and 44. */
#ifndef PLIM_TEXT_UNICODE_H
#define PLIM_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLIM_UTF8_MAX_BYTES 4

/* Offset of the first byte that is not UTF-8 (RFC 3629), or bytes if all of it is.  NUL is a character. */
size_t plim_utf8_first_invalid(const char *text, size_t bytes);

/* Bytes of the character at p, and the character.  p is valid UTF-8 and not at its end. */
static inline size_t plim_utf8_read(const char *p, uint32_t *out)
{
    const unsigned char *b = (const unsigned char *)p;
    if (b[0] < 0x80) {
        *out = b[0];
        return 1;
    }
    if (b[0] < 0xe0) {
        *out = (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
        return 2;
    }
    if (b[0] < 0xf0) {
        *out = (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
        return 3;
    }
    *out = (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
    return 4;
}

static inline size_t plim_utf8_size(char first)
{
    unsigned char b = (unsigned char)first;
    return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

/* Whether b continues a character. */
static inline bool plim_utf8_continues(char b)
{
    return ((unsigned char)b & 0xc0) == 0x80;
}

/* Writes c (a scalar value) to out; its bytes. */
size_t plim_utf8_put(char out[PLIM_UTF8_MAX_BYTES], uint32_t c);

/* The last character of text, which is valid UTF-8 and not empty. */
uint32_t plim_utf8_last(const char *text, size_t bytes);

bool plim_unicode_is_space(uint32_t c);       /* White_Space */
bool plim_unicode_is_word(uint32_t c);        /* Alphabetic, M, Nd, Pc, Join_Control */
bool plim_unicode_is_numeric(uint32_t c);     /* N */
bool plim_unicode_is_mark(uint32_t c);        /* M */
bool plim_unicode_is_punctuation(uint32_t c); /* P, and ASCII's symbols */

/* Lower case of one character, without context: up to two characters to out; how many. */
size_t plim_unicode_lower(uint32_t c, uint32_t out[2]);

#endif
