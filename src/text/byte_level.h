/* byte_level.h - the alphabet byte-level vocabularies write bytes with: printable Latin-1 stands for itself,
 * the 68 other bytes are U+0100 on, in order.  Source: the GPT-2 encoder's table. */
#ifndef PLIM_TEXT_BYTE_LEVEL_H
#define PLIM_TEXT_BYTE_LEVEL_H

#include <stddef.h>
#include <stdint.h>

/* Whether byte b stands for itself. */
static inline int plim_byte_level_is_plain(uint32_t b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

/* The character a byte is written as. */
static inline uint32_t plim_byte_level_char(unsigned char b)
{
    if (plim_byte_level_is_plain(b)) return b;
    /* the other bytes: 0x00 .. 0x20, 0x7f .. 0xa0, 0xad */
    return b <= 0x20 ? 0x100u + b : b <= 0xa0 ? 0x100u + 33 + (b - 0x7fu) : 0x100u + 67;
}

/* The byte a character is written for, or -1. */
static inline int plim_byte_level_byte(uint32_t c)
{
    if (c < 0x100) return plim_byte_level_is_plain(c) ? (int)c : -1;
    c -= 0x100;
    return c <= 0x20 ? (int)c : c <= 66 ? (int)(c - 33 + 0x7f) : c == 67 ? 0xad : -1;
}

#endif
