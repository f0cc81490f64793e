/* text_file.h - a UTF-8 text of any length, byte by byte from any place seen before, in a window of fixed
 * size.
 *
 * What is read is the text, not the file: a byte-order mark at its start is passed over, and a carriage
 * return before a line feed is left out (one elsewhere stays).  Every byte is checked: a file that is not
 * UTF-8, or that holds NUL (a text in UTF-16, or no text), is refused with line and byte. */
#ifndef PLIM_DATA_TEXT_FILE_H
#define PLIM_DATA_TEXT_FILE_H

#include "plimsoll.h"

typedef struct plim_text_file plim_text_file;

/* A place between two bytes of the text; copied freely, to come back to it. */
typedef struct plim_text_place {
    uint64_t offset_bytes; /* in the file */
    uint64_t line;         /* of the next byte, from 1 */
    uint64_t line_offset_bytes, character_offset_bytes;
    uint8_t missing, low, high; /* bytes the character still wants, and the range of the next */
} plim_text_place;

/* *start: before the text's first byte.  The path must outlive the file; close accepts NULL.
 * Errors: PLIM_E_IO (missing, a folder, not a regular file), PLIM_E_OOM_HOST. */
plim_status plim_text_open(plim_ctx *c, const char *path, plim_text_file **out, plim_text_place *start);
void plim_text_close(plim_text_file *f);

/* The next byte, 0 to 255, or -1 at the end; moves at past it.
 * Errors: PLIM_E_FORMAT (not UTF-8, NUL), PLIM_E_IO (also a file that became shorter). */
plim_status plim_text_next(plim_text_file *f, plim_text_place *at, int *out);

/* Bytes of the file.  And whether it is still the file it was when opened: its places mean nothing otherwise.
 * Errors: PLIM_E_IO. */
uint64_t plim_text_size_bytes(const plim_text_file *f);
plim_status plim_text_unchanged(const plim_text_file *f);

#endif
