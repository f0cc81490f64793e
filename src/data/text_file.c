/* text_file.c - decides what is text: UTF-8 without NUL, lines ended by LF or CRLF. */
#include "data/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"

#define WINDOW_BYTES ((size_t)1 << 20)

struct plim_text_file {
    plim_ctx *c;
    const char *path;
    int fd;
    uint64_t size_bytes;
    struct timespec changed;
    uint64_t window_offset_bytes;
    size_t window_bytes; /* filled */
    unsigned char window[WINDOW_BYTES];
};

/* ---- the window --------------------------------------------------------------------------------------- */

/* Moves the window so that it starts at offset, which lies inside the file. */
static plim_status move_window(plim_text_file *f, uint64_t offset)
{
    ssize_t n;
    f->window_bytes = 0;
    do n = pread(f->fd, f->window, WINDOW_BYTES, (off_t)offset);
    while (n < 0 && errno == EINTR);
    if (n < 0) return plim_fail(f->c, PLIM_E_IO, "%s: cannot be read: %s", f->path, strerror(errno));
    if (n == 0)
        return plim_fail(f->c, PLIM_E_IO, "%s: became shorter than its %" PRIu64 " bytes while it was read",
                         f->path, f->size_bytes);
    f->window_offset_bytes = offset;
    f->window_bytes = (size_t)n;
    return PLIM_OK;
}

/* The byte at offset, or -1 at the end. */
static plim_status byte_at(plim_text_file *f, uint64_t offset, int *out)
{
    if (offset >= f->size_bytes) {
        *out = -1;
        return PLIM_OK;
    }
    if (offset - f->window_offset_bytes >= f->window_bytes) TRY(move_window(f, offset));
    *out = f->window[offset - f->window_offset_bytes];
    return PLIM_OK;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

static plim_status examine(plim_text_file *f)
{
    struct stat s;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not wait for its writer */
    if (f->fd < 0)
        return plim_fail(f->c, PLIM_E_IO, "%s: cannot be opened for reading: %s", f->path, strerror(errno));
    if (fstat(f->fd, &s))
        return plim_fail(f->c, PLIM_E_IO, "%s: cannot be examined: %s", f->path, strerror(errno));
    if (S_ISDIR(s.st_mode))
        return plim_fail(f->c, PLIM_E_IO, "%s: is a folder; name the files in it", f->path);
    if (!S_ISREG(s.st_mode))
        return plim_fail(f->c, PLIM_E_IO, "%s: is not a regular file; a text is read more than once",
                         f->path);
    f->size_bytes = (uint64_t)s.st_size;
    f->changed = s.st_mtim;
    return PLIM_OK;
}

static plim_status pass_mark(plim_text_file *f, plim_text_place *start)
{
    static const int mark[] = {0xef, 0xbb, 0xbf};
    int byte = 0;
    *start = (plim_text_place){.line = 1};
    for (size_t i = 0; i < 3; i++) {
        TRY(byte_at(f, i, &byte));
        if (byte != mark[i]) return PLIM_OK;
    }
    start->offset_bytes = start->line_offset_bytes = 3;
    return PLIM_OK;
}

plim_status plim_text_open(plim_ctx *c, const char *path, plim_text_file **out, plim_text_place *start)
{
    plim_text_file *f = NULL;
    TRY(plim_alloc(c, 1, sizeof *f, "a window on a text", &f));
    f->c = c;
    f->path = path;
    f->fd = -1;
    plim_text_place first = {0};
    plim_status st = examine(f);
    if (!st) st = pass_mark(f, &first);
    if (st) {
        plim_text_close(f);
        return st;
    }
    *out = f;
    *start = first;
    return PLIM_OK;
}

void plim_text_close(plim_text_file *f)
{
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    plim_release(f->c, f);
}

uint64_t plim_text_size_bytes(const plim_text_file *f)
{
    return f->size_bytes;
}

plim_status plim_text_unchanged(const plim_text_file *f)
{
    struct stat s;
    if (fstat(f->fd, &s))
        return plim_fail(f->c, PLIM_E_IO, "%s: cannot be examined: %s", f->path, strerror(errno));
    if ((uint64_t)s.st_size == f->size_bytes && s.st_mtim.tv_sec == f->changed.tv_sec &&
        s.st_mtim.tv_nsec == f->changed.tv_nsec)
        return PLIM_OK;
    return plim_fail(f->c, PLIM_E_IO, "%s: was changed while it was read; run it again", f->path);
}

/* ---- characters --------------------------------------------------------------------------------------- */

static plim_status not_text(const plim_text_file *f, const plim_text_place *at, int byte, const char *why)
{
    return plim_fail(f->c, PLIM_E_FORMAT,
                     "%s:%" PRIu64 ": byte %" PRIu64 " of the line (0x%02x, byte %" PRIu64
                     " of the file) %s; UTF-8 text is wanted, as iconv -t utf-8 would make it",
                     f->path, at->line, at->offset_bytes - at->line_offset_bytes + 1, (unsigned)byte,
                     at->offset_bytes + 1, why);
}

static plim_status cut_off(const plim_text_file *f, const plim_text_place *at)
{
    return plim_fail(f->c, PLIM_E_FORMAT,
                     "%s:%" PRIu64 ": the file ends inside a character, which began at byte %" PRIu64
                     " of the file; is it whole?",
                     f->path, at->line, at->character_offset_bytes + 1);
}

/* What a first byte asks of those after it.  Source: RFC 3629, section 4. */
static bool first_byte(plim_text_place *at, int byte)
{
    at->character_offset_bytes = at->offset_bytes;
    if (byte < 0x80) return byte != 0;
    if (byte < 0xc2 || byte > 0xf4) return false;
    at->missing = (uint8_t)(byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3);
    at->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    at->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return true;
}

static bool later_byte(plim_text_place *at, int byte)
{
    if (byte < at->low || byte > at->high) return false;
    at->missing--;
    at->low = 0x80;
    at->high = 0xbf;
    return true;
}

plim_status plim_text_next(plim_text_file *f, plim_text_place *at, int *out)
{
    int byte = 0, after = 0;
    TRY(byte_at(f, at->offset_bytes, &byte));
    if (byte < 0) {
        if (at->missing) return cut_off(f, at);
        *out = -1;
        return PLIM_OK;
    }
    if (at->missing) {
        if (!later_byte(at, byte)) return not_text(f, at, byte, "does not belong to the character before it");
    } else if (!first_byte(at, byte)) {
        return not_text(f, at, byte, byte ? "begins no character" : "is NUL");
    }
    if (byte == '\r') {
        TRY(byte_at(f, at->offset_bytes + 1, &after));
        if (after == '\n') {
            byte = after;
            at->offset_bytes++;
        }
    }
    at->offset_bytes++;
    if (byte == '\n') {
        at->line++;
        at->line_offset_bytes = at->offset_bytes;
    }
    *out = byte;
    return PLIM_OK;
}
