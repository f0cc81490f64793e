/* safetensors_writer.c - decides how a safetensors file is laid out: header padded with spaces to 64 bytes,
 * data in the order of declaration.  The header is read back before the first byte of data, so what is
 * written can be read. */
#include "formats/safetensors_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "formats/safetensors.h"

#define LENGTH_BYTES 8
#define ALIGN_BYTES  64

/* Text that grows; not zero-terminated. */
typedef struct buffer {
    char *data;
    size_t bytes, cap;
} buffer;

struct plim_safetensors_writer {
    plim_ctx *c;
    plim_writer *file;
    char path[PLIM_PATH_BYTES]; /* for messages */
    buffer metadata, tensors;
    uint64_t declared_bytes, written_bytes;
    bool begun; /* the header is written */
    plim_status st;
};

static void add(plim_safetensors_writer *w, buffer *b, const void *data, size_t bytes)
{
    if (w->st) return;
    w->st = plim_grow(w->c, &b->data, &b->cap, b->bytes + bytes, 1, "a safetensors header");
    if (w->st) return;
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
}

static void add_text(plim_safetensors_writer *w, buffer *b, const char *text)
{
    add(w, b, text, strlen(text));
}

static void add_number(plim_safetensors_writer *w, buffer *b, uint64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, n);
    add_text(w, b, digits);
}

static void add_string(plim_safetensors_writer *w, buffer *b, const char *text)
{
    add(w, b, "\"", 1);
    for (const char *p = text; *p; p++) {
        char escape[8];
        if (*p == '"' || *p == '\\') snprintf(escape, sizeof escape, "\\%c", *p);
        else if ((unsigned char)*p < 0x20) snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*p);
        else snprintf(escape, sizeof escape, "%c", *p);
        add_text(w, b, escape);
    }
    add(w, b, "\"", 1);
}

plim_status plim_safetensors_writer_open(plim_ctx *c, const char *path, plim_safetensors_writer **out)
{
    plim_safetensors_writer *w = NULL;
    TRY(plim_alloc(c, 1, sizeof *w, "a safetensors writer", &w));
    w->c = c;
    snprintf(w->path, sizeof w->path, "%s", path);
    plim_status st = plim_writer_open(c, path, &w->file);
    if (st) {
        plim_release(c, w);
        return st;
    }
    *out = w;
    return PLIM_OK;
}

static plim_status refuse(plim_safetensors_writer *w, const char *name, const char *why)
{
    return w->st = plim_fail(w->c, PLIM_E_RANGE, "%s: '%.200s' %s", w->path, name, why);
}

plim_status plim_safetensors_writer_metadata(plim_safetensors_writer *w, const char *key, const char *value)
{
    if (w->st) return w->st;
    if (w->begun) return refuse(w, key, "is declared after the first byte of data");
    if (w->metadata.bytes) add(w, &w->metadata, ",", 1);
    add_string(w, &w->metadata, key);
    add(w, &w->metadata, ":", 1);
    add_string(w, &w->metadata, value);
    return w->st;
}

plim_status plim_safetensors_writer_tensor(plim_safetensors_writer *w, const char *name, plim_dtype dtype,
                                           int32_t dims, const int64_t *shape)
{
    if (w->st) return w->st;
    if (w->begun) return refuse(w, name, "is declared after the first byte of data");
    if (!strcmp(name, "__metadata__")) return refuse(w, name, "is not a name for a tensor");
    if (dims < 0 || dims > PLIM_SAFETENSORS_MAX_DIMS) return refuse(w, name, "has too many dimensions");
    int64_t bytes = (int64_t)plim_dtype_bytes(dtype), end;
    bool overflow = false, empty = false;
    for (int32_t i = 0; i < dims; i++) {
        if (shape[i] < 0) return refuse(w, name, "has a negative dimension");
        empty |= shape[i] == 0;
        overflow |= __builtin_mul_overflow(bytes, shape[i], &bytes);
    }
    if (empty) bytes = 0;
    if ((overflow && !empty) || __builtin_add_overflow((int64_t)w->declared_bytes, bytes, &end))
        return refuse(w, name, "takes the data past 2^63 bytes");

    buffer *b = &w->tensors;
    if (b->bytes) add(w, b, ",", 1);
    add_string(w, b, name);
    add_text(w, b, ":{\"dtype\":\"");
    add_text(w, b, plim_dtype_name(dtype));
    add_text(w, b, "\",\"shape\":[");
    for (int32_t i = 0; i < dims; i++) {
        if (i) add(w, b, ",", 1);
        add_number(w, b, (uint64_t)shape[i]);
    }
    add_text(w, b, "],\"data_offsets\":[");
    add_number(w, b, w->declared_bytes);
    add(w, b, ",", 1);
    add_number(w, b, (uint64_t)end);
    add_text(w, b, "]}");
    w->declared_bytes = (uint64_t)end;
    return w->st;
}

static void assemble(plim_safetensors_writer *w, buffer *head)
{
    unsigned char length[LENGTH_BYTES] = {0};
    add(w, head, length, sizeof length);
    add(w, head, "{", 1);
    if (w->metadata.bytes) {
        add_text(w, head, "\"__metadata__\":{");
        add(w, head, w->metadata.data, w->metadata.bytes);
        add(w, head, "}", 1);
        if (w->tensors.bytes) add(w, head, ",", 1);
    }
    if (w->tensors.bytes) add(w, head, w->tensors.data, w->tensors.bytes);
    add(w, head, "}", 1);
    while (!w->st && head->bytes % ALIGN_BYTES) add(w, head, " ", 1);
    if (w->st) return;
    uint64_t bytes = head->bytes - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++, bytes >>= 8) length[i] = bytes & 0xFF;
    memcpy(head->data, length, sizeof length);
}

static plim_status begin(plim_safetensors_writer *w)
{
    if (w->st || w->begun) return w->st;
    buffer head = {0};
    plim_safetensors *check = NULL;
    assemble(w, &head);
    if (!w->st)
        w->st = plim_safetensors_parse(w->c, w->path, head.data, head.bytes, head.bytes + w->declared_bytes,
                                       &check);
    plim_safetensors_close(check);
    if (!w->st) w->st = plim_writer_write(w->file, head.data, head.bytes);
    plim_release(w->c, head.data);
    w->begun = true;
    return w->st;
}

plim_status plim_safetensors_writer_data(plim_safetensors_writer *w, const void *data, size_t bytes)
{
    if (begin(w)) return w->st;
    if (bytes > w->declared_bytes - w->written_bytes)
        return w->st = plim_fail(w->c, PLIM_E_RANGE,
                                 "%s: %" PRIu64 " bytes of data declared, %" PRIu64 " and %zu more given",
                                 w->path, w->declared_bytes, w->written_bytes, bytes);
    w->st = plim_writer_write(w->file, data, bytes);
    w->written_bytes += bytes;
    return w->st;
}

static void finish(plim_safetensors_writer *w)
{
    plim_release(w->c, w->metadata.data);
    plim_release(w->c, w->tensors.data);
    plim_release(w->c, w);
}

plim_status plim_safetensors_writer_commit(plim_safetensors_writer *w)
{
    plim_status st = begin(w);
    if (!st && w->written_bytes < w->declared_bytes)
        st = plim_fail(w->c, PLIM_E_RANGE, "%s: %" PRIu64 " bytes of data declared, only %" PRIu64 " given",
                       w->path, w->declared_bytes, w->written_bytes);
    if (st) plim_writer_abort(w->file);
    else st = plim_writer_commit(w->file);
    finish(w);
    return st;
}

void plim_safetensors_writer_abort(plim_safetensors_writer *w)
{
    if (!w) return;
    plim_writer_abort(w->file);
    finish(w);
}
