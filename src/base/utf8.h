/* utf8.h - one UTF-8 character of a text that may hold any bytes, for outputs that must be valid UTF-8. */
#ifndef PLIM_BASE_UTF8_H
#define PLIM_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#define PLIM_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of the character at s (zero-terminated, not at its end), 0 if it is none: overlong, a surrogate,
 * above U+10FFFF, cut off.  Source: RFC 3629, section 4. */
static inline size_t plim_utf8_length(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    size_t bytes = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[1] < low || p[1] > high) return 0; /* the closing zero is below every low */
    for (size_t i = 2; i < bytes; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return bytes;
}

#endif
