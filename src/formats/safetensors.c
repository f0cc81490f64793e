/* safetensors.c - decides whether a safetensors file is whole, from its header and its length alone.
 * One rule on every path: what open refuses, a survey reports. */
#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

#define LENGTH_BYTES 8
#define TEXT_BYTES   2048
#define LFS_START    "version https://git-lfs"

typedef struct meta_pair {
    const char *key, *value;
} meta_pair;

struct plim_safetensors {
    plim_ctx *c;
    plim_file file;
    char *text; /* names and metadata, each zero-terminated */
    plim_safetensors_tensor *tensors;
    const plim_safetensors_tensor **by_name;
    meta_pair *meta;
    size_t count, meta_count;
    uint64_t file_bytes, data_start_bytes;
};

typedef struct parser {
    plim_ctx *c;
    const char *name;
    plim_safetensors_report report; /* NULL: the first fault fails */
    void *user;
    plim_safetensors *s;
    char *text;         /* the next free byte of s->text */
    bool ranges_unsure; /* an entry without usable data_offsets: holes and the end prove nothing */
} parser;

static plim_status fault(const parser *p, plim_safetensors_fault kind, const char *tensor, const char *fmt,
                         ...) PLIM_PRINTF(4, 5);

static plim_status fault(const parser *p, plim_safetensors_fault kind, const char *tensor, const char *fmt,
                         ...)
{
    char text[TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (p->report) return p->report(p->user, kind, tensor, text);
    plim_status st = kind == PLIM_SAFETENSORS_DTYPE_UNKNOWN ? PLIM_E_UNSUPPORTED : PLIM_E_FORMAT;
    if (*tensor) return plim_fail(p->c, st, "%s: tensor %.200s: %s", p->name, tensor, text);
    return plim_fail(p->c, st, "%s: %s", p->name, text);
}

static uint64_t end_bytes(const plim_safetensors_tensor *t)
{
    return t->offset_bytes + t->size_bytes;
}

/* ---- one entry ----------------------------------------------------------------------------------------- */

static bool parse_range(const json_t *offsets, uint64_t data_start_bytes, plim_safetensors_tensor *t)
{
    if (!json_is_array(offsets) || json_array_size(offsets) != 2) return false;
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (!json_is_integer(begin) || !json_is_integer(end)) return false;
    json_int_t b = json_integer_value(begin), e = json_integer_value(end);
    if (b < 0 || e < b) return false;
    t->offset_bytes = data_start_bytes + (uint64_t)b;
    t->size_bytes = (uint64_t)(e - b);
    return true;
}

static bool parse_shape(const json_t *shape, plim_safetensors_tensor *t)
{
    size_t dims = json_array_size(shape);
    if (!json_is_array(shape) || dims > PLIM_SAFETENSORS_MAX_DIMS) return false;
    bool empty = false, overflow = false;
    int64_t elements = 1;
    for (size_t i = 0; i < dims; i++) {
        const json_t *n = json_array_get(shape, i);
        if (!json_is_integer(n) || json_integer_value(n) < 0) return false;
        t->shape[i] = json_integer_value(n);
        if (t->shape[i] == 0) empty = true;
        overflow |= __builtin_mul_overflow(elements, t->shape[i], &elements);
    }
    t->dims = (int32_t)dims;
    t->elements = empty ? 0 : elements;
    return empty || !overflow;
}

static plim_dtype parse_dtype(const char *name)
{
    for (int d = 0; d < PLIM_DTYPE_COUNT; d++)
        if (!strcmp(name, plim_dtype_name((plim_dtype)d))) return (plim_dtype)d;
    return PLIM_DTYPE_COUNT;
}

/* A value as the header spells it, cut to what a message can hold. */
static void spell(const json_t *value, char *buf, size_t cap)
{
    memset(buf, 0, cap); /* what does not fit is left out, not cut */
    if (value) json_dumpb(value, buf, cap - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    else snprintf(buf, cap, "nothing");
}

static plim_status parse_entry(parser *p, const json_t *entry, plim_safetensors_tensor *t)
{
    char found[200];
    t->dtype = PLIM_DTYPE_COUNT;
    t->faulty = true;
    t->offset_bytes = UINT64_MAX; /* sorts last until the range is known */

    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!parse_range(offsets, p->s->data_start_bytes, t)) {
        p->ranges_unsure = true;
        spell(offsets, found, sizeof found);
        return fault(p, PLIM_SAFETENSORS_ENTRY, t->name,
                     "data_offsets must be [begin, end] in bytes with 0 <= begin <= end, found %s", found);
    }
    const json_t *shape = json_object_get(entry, "shape");
    if (!parse_shape(shape, t)) {
        spell(shape, found, sizeof found);
        return fault(
            p, PLIM_SAFETENSORS_ENTRY, t->name,
            "shape must be at most %d integers, none negative, whose product is below 2^63, found %s",
            PLIM_SAFETENSORS_MAX_DIMS, found);
    }
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype) {
        spell(json_object_get(entry, "dtype"), found, sizeof found);
        return fault(p, PLIM_SAFETENSORS_ENTRY, t->name, "dtype must be a string, found %s", found);
    }
    if (json_object_size(entry) != 3)
        return fault(p, PLIM_SAFETENSORS_ENTRY, t->name,
                     "dtype, shape and data_offsets were expected, found %zu members",
                     json_object_size(entry));
    t->dtype = parse_dtype(dtype);
    if (t->dtype == PLIM_DTYPE_COUNT)
        return fault(
            p, PLIM_SAFETENSORS_DTYPE_UNKNOWN, t->name,
            "dtype %.40s is not known; plimsoll reads F64, F32, F16, BF16, integers, BOOL, F8_E4M3 and "
            "F8_E5M2",
            dtype);
    int64_t want_bytes;
    if (__builtin_mul_overflow(t->elements, (int64_t)plim_dtype_bytes(t->dtype), &want_bytes))
        return fault(p, PLIM_SAFETENSORS_ENTRY, t->name, "%" PRId64 " elements of %s pass 2^63 bytes",
                     t->elements, dtype);
    if ((uint64_t)want_bytes != t->size_bytes)
        return fault(p, PLIM_SAFETENSORS_SIZE, t->name,
                     "%" PRId64 " elements of %s are %" PRId64 " bytes, but data_offsets span %" PRIu64,
                     t->elements, dtype, want_bytes, t->size_bytes);
    t->faulty = false;
    return PLIM_OK;
}

/* ---- all entries --------------------------------------------------------------------------------------- */

static const char *keep(parser *p, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *kept = memcpy(p->text, text, bytes);
    p->text += bytes;
    return kept;
}

static plim_status parse_metadata(parser *p, const json_t *meta)
{
    const char *key;
    json_t *value;
    if (!json_is_object(meta))
        return fault(p, PLIM_SAFETENSORS_HEADER, "", "__metadata__ must be an object of strings");
    json_object_foreach((json_t *)(uintptr_t)meta, key, value)
    {
        if (!json_is_string(value)) {
            TRY(fault(p, PLIM_SAFETENSORS_HEADER, "", "__metadata__: the value of '%.200s' must be a string",
                      key));
            continue;
        }
        p->s->meta[p->s->meta_count].key = keep(p, key);
        p->s->meta[p->s->meta_count].value = keep(p, json_string_value(value));
        p->s->meta_count++;
    }
    return PLIM_OK;
}

static int by_offset(const void *x, const void *y)
{
    const plim_safetensors_tensor *a = x, *b = y;
    if (a->offset_bytes != b->offset_bytes) return a->offset_bytes < b->offset_bytes ? -1 : 1;
    if (a->size_bytes != b->size_bytes) return a->size_bytes < b->size_bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_name(const void *x, const void *y)
{
    const plim_safetensors_tensor *const *a = x, *const *b = y;
    return strcmp((*a)->name, (*b)->name);
}

/* One walk in the order of the data finds every overlap and hole and where the data ends. */
static plim_status check_cover(const parser *p)
{
    plim_safetensors *s = p->s;
    uint64_t cursor = s->data_start_bytes, beyond = 0;
    const plim_safetensors_tensor *before = NULL, *first_beyond = NULL;
    for (size_t i = 0; i < s->count; i++) {
        plim_safetensors_tensor *t = &s->tensors[i];
        if (t->offset_bytes == UINT64_MAX) break;
        if (t->offset_bytes < cursor) {
            t->faulty = true;
            TRY(fault(p, PLIM_SAFETENSORS_OVERLAP, t->name,
                      "its data starts at byte %" PRIu64
                      ", inside tensor %.200s, which ends at byte %" PRIu64,
                      t->offset_bytes - s->data_start_bytes, before->name, cursor - s->data_start_bytes));
        }
        if (t->offset_bytes > cursor && !p->ranges_unsure)
            TRY(fault(p, PLIM_SAFETENSORS_HOLE, t->name,
                      "%" PRIu64 " bytes before its data, from byte %" PRIu64 ", belong to no tensor",
                      t->offset_bytes - cursor, cursor - s->data_start_bytes));
        if (end_bytes(t) > s->file_bytes) {
            t->faulty = true;
            if (!first_beyond) first_beyond = t;
            beyond++;
        }
        if (end_bytes(t) > cursor) {
            cursor = end_bytes(t);
            before = t;
        }
    }
    uint64_t present = s->file_bytes - s->data_start_bytes, promised = cursor - s->data_start_bytes;
    if (promised > present)
        return fault(p, PLIM_SAFETENSORS_TRUNCATED, "",
                     "%" PRIu64 " bytes of data expected, %" PRIu64 " present: %" PRIu64 " missing; %" PRIu64
                     " tensors reach past the end, the first is %.200s; fetch the file again",
                     promised, present, promised - present, beyond, first_beyond->name);
    if (promised < present && !p->ranges_unsure)
        return fault(p, PLIM_SAFETENSORS_TRAILING, "",
                     "%" PRIu64 " bytes of data expected, %" PRIu64 " present: %" PRIu64
                     " trailing bytes belong to no tensor",
                     promised, present, present - promised);
    return PLIM_OK;
}

static plim_status parse_header(parser *p, const json_t *root)
{
    plim_safetensors *s = p->s;
    const char *key;
    json_t *value;
    size_t text_bytes = 0, metas = 0, tensors = 0;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        if (strcmp(key, "__metadata__")) {
            tensors++;
            text_bytes += strlen(key) + 1;
            continue;
        }
        const char *k;
        json_t *v;
        metas = json_object_size(value);
        json_object_foreach(value, k, v) text_bytes += strlen(k) + 1 + json_string_length(v) + 1;
    }
    TRY(plim_alloc(p->c, text_bytes, 1, "tensor names", &s->text));
    TRY(plim_alloc(p->c, metas, sizeof *s->meta, "safetensors metadata", &s->meta));
    TRY(plim_alloc(p->c, tensors, sizeof *s->tensors, "tensor entries", &s->tensors));
    TRY(plim_alloc(p->c, tensors, sizeof *s->by_name, "tensor entries", &s->by_name));
    p->text = s->text;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        if (!strcmp(key, "__metadata__")) {
            TRY(parse_metadata(p, value));
            continue;
        }
        plim_safetensors_tensor *t = &s->tensors[s->count++];
        t->name = keep(p, key);
        TRY(parse_entry(p, value, t));
    }
    qsort(s->tensors, s->count, sizeof *s->tensors, by_offset);
    TRY(check_cover(p));
    for (size_t i = 0; i < s->count; i++) s->by_name[i] = &s->tensors[i];
    qsort(s->by_name, s->count, sizeof *s->by_name, by_name);
    return PLIM_OK;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static plim_status lfs_fault(const parser *p, const char *head, size_t head_bytes)
{
    char text[256];
    size_t n = head_bytes < sizeof text - 1 ? head_bytes : sizeof text - 1;
    memcpy(text, head, n);
    text[n] = 0;
    const char *size = strstr(text, "\nsize ");
    uint64_t bytes = size ? strtoull(size + 6, NULL, 10) : 0;
    if (bytes)
        return fault(p, PLIM_SAFETENSORS_LFS_POINTER, "",
                     "this is a git-lfs pointer of %" PRIu64 " bytes, not the weights themselves (%" PRIu64
                     " bytes); `git lfs pull` in this folder fetches them",
                     p->s->file_bytes, bytes);
    return fault(
        p, PLIM_SAFETENSORS_LFS_POINTER, "",
        "this is a git-lfs pointer, not the weights themselves; `git lfs pull` in this folder fetches them");
}

/* *header is written when there are *bytes bytes of header to parse, NULL after a reported fault. */
static plim_status find_header(const parser *p, const char *head, size_t head_bytes, const char **header,
                               size_t *bytes)
{
    uint64_t file_bytes = p->s->file_bytes;
    *header = NULL;
    if (head_bytes > sizeof LFS_START && !memcmp(head, LFS_START, sizeof LFS_START - 1))
        return lfs_fault(p, head, head_bytes);
    if (head_bytes < LENGTH_BYTES || file_bytes < LENGTH_BYTES)
        return fault(p, PLIM_SAFETENSORS_HEADER_LENGTH, "",
                     "a safetensors file starts with %d bytes of header length, %" PRIu64
                     " bytes are present",
                     LENGTH_BYTES, file_bytes < head_bytes ? file_bytes : (uint64_t)head_bytes);
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | (unsigned char)head[i];
    if (length > PLIM_SAFETENSORS_HEADER_MAX_BYTES)
        return fault(
            p, PLIM_SAFETENSORS_HEADER_LENGTH, "",
            "header of %" PRIu64 " bytes in a file of %" PRIu64
            " bytes; at most %d are allowed; not a safetensors file, or written by a tool that does not "
            "keep the cap",
            length, file_bytes, PLIM_SAFETENSORS_HEADER_MAX_BYTES);
    uint64_t present = (file_bytes < head_bytes ? file_bytes : head_bytes) - LENGTH_BYTES;
    if (length > present)
        return fault(p, PLIM_SAFETENSORS_HEADER_LENGTH, "",
                     "header of %" PRIu64 " bytes expected, %" PRIu64 " present; fetch the file again",
                     length, present);
    if (length == 0 || head[LENGTH_BYTES] != '{')
        return fault(p, PLIM_SAFETENSORS_HEADER, "", "the header must be a JSON object and start with '{'");
    *header = head + LENGTH_BYTES;
    *bytes = (size_t)length;
    return PLIM_OK;
}

/* A malformed header's message becomes a fault like the others. */
static plim_status report_json(const parser *p, bool message_was_free)
{
    if (!message_was_free) return fault(p, PLIM_SAFETENSORS_HEADER, "", "the header is not valid JSON");
    char text[TEXT_BYTES];
    const char *message = plim_ctx_message(p->c);
    size_t skip = strlen(p->name);
    if (!strncmp(message, p->name, skip) && message[skip] == ':') message += skip + 2;
    snprintf(text, sizeof text, "%s", message);
    plim_ctx_clear(p->c);
    return fault(p, PLIM_SAFETENSORS_HEADER, "", "%s", text);
}

static plim_status parse(parser *p, const char *head, size_t head_bytes, bool *readable)
{
    const char *header;
    size_t bytes = 0;
    *readable = false;
    TRY(find_header(p, head, head_bytes, &header, &bytes));
    if (!header) return PLIM_OK;
    p->s->data_start_bytes = LENGTH_BYTES + bytes;

    char name[PLIM_PATH_BYTES + 16];
    snprintf(name, sizeof name, "%s: header", p->name); /* positions count from the header's start */
    plim_json json = {0};
    bool message_was_free = plim_ctx_status(p->c) == PLIM_OK;
    plim_status st = plim_json_parse(p->c, name, header, bytes, PLIM_SAFETENSORS_HEADER_MAX_BYTES, &json);
    if (st == PLIM_E_FORMAT && p->report) return report_json(p, message_was_free);
    if (st) return st;
    st = parse_header(p, json.root);
    plim_json_close(&json);
    *readable = st == PLIM_OK;
    return st;
}

static plim_status make(parser *p, plim_file *file, const char *head, size_t head_bytes, uint64_t file_bytes,
                        plim_safetensors **out)
{
    bool readable;
    TRY(plim_alloc(p->c, 1, sizeof *p->s, "a safetensors file", &p->s));
    p->s->c = p->c;
    p->s->file_bytes = file_bytes;
    plim_status st = parse(p, head, head_bytes, &readable);
    if (st || !readable) {
        plim_safetensors_close(p->s);
        if (st == PLIM_OK) *out = NULL;
        return st;
    }
    if (file) {
        p->s->file = *file;
        *file = (plim_file){0};
    }
    *out = p->s;
    return PLIM_OK;
}

static plim_status open_file(plim_ctx *c, const char *path, plim_safetensors_report report, void *user,
                             plim_safetensors **out)
{
    parser p = {.c = c, .name = path, .report = report, .user = user};
    plim_file file = {0};
    TRY(plim_file_map(c, path, &file));
    plim_status st = make(&p, &file, file.data, file.bytes, file.bytes, out);
    plim_file_unmap(&file);
    return st;
}

plim_status plim_safetensors_open(plim_ctx *c, const char *path, plim_safetensors **out)
{
    return open_file(c, path, NULL, NULL, out);
}

plim_status plim_safetensors_survey(plim_ctx *c, const char *path, plim_safetensors_report report, void *user,
                                    plim_safetensors **out)
{
    return open_file(c, path, report, user, out);
}

plim_status plim_safetensors_parse(plim_ctx *c, const char *name, const void *head, size_t head_bytes,
                                   uint64_t file_bytes, plim_safetensors **out)
{
    parser p = {.c = c, .name = name};
    return make(&p, NULL, head, head_bytes, file_bytes, out);
}

void plim_safetensors_close(plim_safetensors *s)
{
    if (!s) return;
    plim_file_unmap(&s->file);
    plim_release(s->c, s->text);
    plim_release(s->c, s->tensors);
    plim_release(s->c, s->by_name);
    plim_release(s->c, s->meta);
    plim_release(s->c, s);
}

/* ---- what was read ------------------------------------------------------------------------------------- */

size_t plim_safetensors_count(const plim_safetensors *s)
{
    return s->count;
}

const plim_safetensors_tensor *plim_safetensors_at(const plim_safetensors *s, size_t i)
{
    return &s->tensors[i];
}

const plim_safetensors_tensor *plim_safetensors_find(const plim_safetensors *s, const char *name)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, s->by_name[middle]->name);
        if (order == 0) return s->by_name[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

const void *plim_safetensors_data(const plim_safetensors *s, const plim_safetensors_tensor *t)
{
    return s->file.data && !t->faulty ? s->file.data + t->offset_bytes : NULL;
}

const char *plim_safetensors_metadata(const plim_safetensors *s, const char *key)
{
    for (size_t i = 0; i < s->meta_count; i++)
        if (!strcmp(s->meta[i].key, key)) return s->meta[i].value;
    return NULL;
}

size_t plim_safetensors_metadata_count(const plim_safetensors *s)
{
    return s->meta_count;
}

void plim_safetensors_metadata_at(const plim_safetensors *s, size_t i, const char **key, const char **value)
{
    *key = s->meta[i].key;
    *value = s->meta[i].value;
}

uint64_t plim_safetensors_file_bytes(const plim_safetensors *s)
{
    return s->file_bytes;
}

uint64_t plim_safetensors_data_start_bytes(const plim_safetensors *s)
{
    return s->data_start_bytes;
}
