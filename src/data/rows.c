/* rows.c - decides where a row begins and ends.  A window over the file grows to the longest row. */
#include "data/rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/context.h"
#include "data/byte_stream.h"

#define FIRST_BYTES ((size_t)1 << 20)
#define BOM         "\xef\xbb\xbf"

typedef enum form { UNKNOWN, LINES, ARRAY, AFTER } form;

struct plim_rows {
    plim_ctx *c;
    const char *path;
    plim_byte_stream *stream;
    char *buf;
    size_t cap, begin, end; /* buf[begin .. end) is unread */
    size_t given;           /* of it: the row handed out last, and what ends it */
    bool ended;             /* nothing is left to read behind end */
    uint64_t line, byte;    /* of buf[begin], from 0 */
    uint64_t blank_lines;
    form form;
    bool first; /* no element of the array yet */
    uint64_t array_line, array_byte;
    /* an element being walked */
    int64_t depth;
    bool in_string, escaped;
};

static bool is_blank(char b)
{
    return b == ' ' || b == '\t' || b == '\r' || b == '\n';
}

static plim_status broken(const plim_rows *r, const char *what)
{
    return plim_fail(r->c, PLIM_E_FORMAT, "%s:%" PRIu64 ": byte %" PRIu64 " of the line: %s", r->path,
                     r->line + 1, r->byte + 1, what);
}

/* Reads more behind end; at the end of the file ended is set. */
static plim_status fill(plim_rows *r)
{
    size_t got = 0;
    if (r->begin && r->begin >= r->cap / 2) {
        memmove(r->buf, r->buf + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
    }
    if (r->end == r->cap) TRY(plim_grow(r->c, &r->buf, &r->cap, r->cap + 1, 1, "a row"));
    TRY(plim_byte_stream_read(r->stream, r->buf + r->end, r->cap - r->end, &got));
    r->end += got;
    r->ended = got == 0;
    return PLIM_OK;
}

/* Leaves n unread bytes behind. */
static void pass(plim_rows *r, size_t n)
{
    const char *at = r->buf + r->begin, *end = at + n;
    for (const char *feed; (feed = memchr(at, '\n', (size_t)(end - at))); at = feed + 1) {
        r->line++;
        r->byte = 0;
    }
    r->byte += (uint64_t)(end - at);
    r->begin += n;
}

static void place(const plim_rows *r, plim_row *out)
{
    *out = (plim_row){.line = r->line + 1, .byte = r->byte + 1};
}

/* Gives the next n bytes, less blanks behind them; `with` bytes are passed over on the next call. */
static void give(plim_rows *r, size_t n, size_t with, plim_row *out)
{
    place(r, out);
    out->text = r->buf + r->begin;
    while (n && is_blank(out->text[n - 1])) n--;
    out->bytes = n;
    r->given = with;
}

/* Passes over blanks; false at the end of the file. */
static plim_status skip_blanks(plim_rows *r, bool *more)
{
    for (;;) {
        size_t n = 0, have = r->end - r->begin;
        while (n < have && is_blank(r->buf[r->begin + n])) n++;
        pass(r, n);
        *more = n < have;
        if (*more || r->ended) return PLIM_OK;
        TRY(fill(r));
    }
}

/* ---- lines -------------------------------------------------------------------------------------------- */

/* The rest of a line that is too long to keep. */
static plim_status drop_line(plim_rows *r)
{
    for (;;) {
        const char *at = r->buf + r->begin, *feed = memchr(at, '\n', r->end - r->begin);
        if (feed) {
            pass(r, (size_t)(feed - at));
            return PLIM_OK;
        }
        pass(r, r->end - r->begin);
        if (r->ended) return PLIM_OK;
        TRY(fill(r));
    }
}

static plim_status next_line(plim_rows *r, plim_row *out, bool *found)
{
    size_t walked = 0;
    for (;;) {
        const char *at = r->buf + r->begin, *feed = memchr(at + walked, '\n', r->end - r->begin - walked);
        size_t n = feed ? (size_t)(feed - at) : r->end - r->begin, lead = 0;
        walked = n;
        if (n > PLIM_ROW_MAX_BYTES) {
            place(r, out);
            *found = true;
            return drop_line(r);
        }
        if (!feed && !r->ended) {
            TRY(fill(r));
            continue;
        }
        while (lead < n && is_blank(at[lead])) lead++;
        if (lead < n) {
            pass(r, lead);
            give(r, n - lead, n - lead + (feed != NULL), out);
            *found = true;
            return PLIM_OK;
        }
        pass(r, n + (feed != NULL));
        if (!feed) return PLIM_OK;
        r->blank_lines++;
        walked = 0;
    }
}

/* ---- an array ----------------------------------------------------------------------------------------- */

/* Walks one byte of an element; true when it is the first behind it. */
static bool walk(plim_rows *r, char b)
{
    if (r->in_string) {
        if (r->escaped) r->escaped = false;
        else if (b == '\\') r->escaped = true;
        else if (b == '"') r->in_string = false;
        return false;
    }
    switch (b) {
    case '"': r->in_string = true; return false;
    case '{':
    case '[': r->depth++; return false;
    case '}':
    case ']':
        if (r->depth == 0) return b == ']';
        r->depth--;
        return false;
    case ',': return r->depth == 0;
    default: return false;
    }
}

static plim_status next_element(plim_rows *r, plim_row *out, bool *found)
{
    size_t n = 0;
    bool too_long = false;
    r->depth = 0;
    r->in_string = r->escaped = false;
    place(r, out);
    for (;;) {
        size_t have = r->end - r->begin;
        while (n < have && !walk(r, r->buf[r->begin + n])) n++;
        if (n < have) break;
        if (r->ended)
            return broken(r, "the file ends within the array of rows, or in a row that does not close");
        if (n > PLIM_ROW_MAX_BYTES) too_long = true;
        if (too_long) {
            pass(r, n);
            n = 0;
        }
        TRY(fill(r));
    }
    *found = true;
    if (too_long || n > PLIM_ROW_MAX_BYTES) {
        pass(r, n);
        return PLIM_OK;
    }
    give(r, n, n, out);
    return out->bytes ? PLIM_OK : broken(r, "a row is missing before this comma or bracket");
}

static plim_status end_array(plim_rows *r, plim_row *out, bool *found)
{
    static const char empty[] = "[]";
    bool more = false;
    pass(r, 1);
    TRY(skip_blanks(r, &more));
    r->form = AFTER;
    if (!more) return PLIM_OK;
    if (!r->first) return broken(r, "text behind the array of rows; a file is one array, or one row a line");
    /* "[]" and more: one row a line, the first of which is no object */
    r->form = LINES;
    *found = true;
    *out = (plim_row){empty, sizeof empty - 1, r->array_line + 1, r->array_byte + 1};
    return PLIM_OK;
}

static plim_status next_in_array(plim_rows *r, plim_row *out, bool *found)
{
    bool more = false;
    TRY(skip_blanks(r, &more));
    if (!more) return broken(r, "the file ends within the array of rows");
    char b = r->buf[r->begin];
    if (b == ']') return end_array(r, out, found);
    if (!r->first) {
        if (b != ',') return broken(r, "a comma is missing between two rows of the array");
        pass(r, 1);
        TRY(skip_blanks(r, &more));
    }
    r->first = false;
    return next_element(r, out, found);
}

/* ---- both --------------------------------------------------------------------------------------------- */

static plim_status begin(plim_rows *r, bool *more)
{
    while (r->end < strlen(BOM) && !r->ended) TRY(fill(r));
    if (r->end >= strlen(BOM) && !memcmp(r->buf, BOM, strlen(BOM))) pass(r, strlen(BOM));
    TRY(skip_blanks(r, more));
    r->blank_lines = r->line;
    r->form = LINES;
    if (!*more || r->buf[r->begin] != '[') return PLIM_OK;
    r->form = ARRAY;
    r->first = true;
    r->array_line = r->line;
    r->array_byte = r->byte;
    pass(r, 1);
    return PLIM_OK;
}

plim_status plim_rows_next(plim_rows *r, plim_row *out, bool *found)
{
    bool more = true;
    *found = false;
    pass(r, r->given);
    r->given = 0;
    if (r->form == UNKNOWN) TRY(begin(r, &more));
    switch (r->form) {
    case LINES: return next_line(r, out, found);
    case ARRAY: return next_in_array(r, out, found);
    default: return PLIM_OK;
    }
}

plim_status plim_rows_open(plim_ctx *c, const char *path, plim_rows **out)
{
    plim_rows *r = NULL;
    TRY(plim_alloc(c, 1, sizeof *r, "reading rows", &r));
    r->c = c;
    r->path = path;
    plim_status st = plim_alloc(c, FIRST_BYTES, 1, "a window of rows", &r->buf);
    if (!st) r->cap = FIRST_BYTES;
    if (!st) st = plim_byte_stream_open(c, path, &r->stream);
    if (st) plim_rows_close(r);
    else *out = r;
    return st;
}

void plim_rows_close(plim_rows *r)
{
    if (!r) return;
    plim_byte_stream_close(r->stream);
    plim_release(r->c, r->buf);
    plim_release(r->c, r);
}

uint64_t plim_rows_size_bytes(const plim_rows *r)
{
    return plim_byte_stream_size_bytes(r->stream);
}

uint64_t plim_rows_done_bytes(const plim_rows *r)
{
    return plim_byte_stream_done_bytes(r->stream);
}

uint64_t plim_rows_blank_lines(const plim_rows *r)
{
    return r->blank_lines;
}
