/* unicode.c - decides which characters are space, word, number, mark or punctuation. */
#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

size_t plim_utf8_first_invalid(const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;
    while (i < bytes) {
        uint64_t word;
        if (bytes - i >= sizeof word) {
            memcpy(&word, p + i, sizeof word);
            if (!(word & UINT64_C(0x8080808080808080))) {
                i += sizeof word;
                continue;
            }
        }
        unsigned char b = p[i];
        if (b < 0x80) {
            i++;
            continue;
        }
        size_t n = b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
        if (b < 0xc2 || b > 0xf4 || bytes - i < n) return i;
        unsigned char low = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
        unsigned char high = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
        if (p[i + 1] < low || p[i + 1] > high) return i;
        for (size_t k = 2; k < n; k++)
            if ((p[i + k] & 0xc0) != 0x80) return i;
        i += n;
    }
    return bytes;
}

size_t plim_utf8_put(char out[PLIM_UTF8_MAX_BYTES], uint32_t c)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

uint32_t plim_utf8_last(const char *text, size_t bytes)
{
    uint32_t c;
    size_t at = bytes - 1;
    while (plim_utf8_continues(text[at])) at--;
    plim_utf8_read(text + at, &c);
    return c;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool plim_unicode_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool plim_unicode_is_mark(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
}

bool plim_unicode_is_word(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
    }
    /* Other_Alphabetic outside the marks: letters in circles and squares; then the two joiners */
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c || c == 0x200d;
}

bool plim_unicode_is_numeric(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool plim_unicode_is_punctuation(uint32_t c)
{
    if (c < 0x80) return c > 0x20 && c < 0x7f && memchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c, 32);
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

size_t plim_unicode_lower(uint32_t c, uint32_t out[2])
{
    if (c == 0x130) { /* the one character whose lower case is two */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}
