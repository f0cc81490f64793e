/* json.h - strict JSON for every reader: the text is checked here, Jansson keeps the tree.
 *
 * Errors name the file, line, column and path of the value: "config.json:9:21: text_config.head_dim: ...".
 * A path is written "text_config.layer_types[3]"; the root's is "". */
#ifndef PLIM_BASE_JSON_H
#define PLIM_BASE_JSON_H

#include <jansson.h>

#include "base/context.h"

#define PLIM_JSON_CAP_BYTES ((size_t)64 << 20) /* what a reader passes unless its format says otherwise */
#define PLIM_JSON_MAX_DEPTH 256                /* objects and arrays inside each other */

/* A parsed text.  name and text are the caller's and must outlive it; values live until close. */
typedef struct plim_json {
    plim_ctx *ctx;
    const char *name;
    const char *text;
    size_t bytes;
    json_t *root;
} plim_json;

/* Parses one JSON value that fills text[0 .. bytes).  Members keep the order of the text.
 * Errors: PLIM_E_FORMAT for a text above cap_bytes, a byte-order mark, an empty or truncated text, a
 * duplicate key, trailing text, NUL (also as \u0000), invalid UTF-8, deeper nesting than PLIM_JSON_MAX_DEPTH,
 * an integer outside int64, a real outside double, anything else that is not RFC 8259; PLIM_E_OOM_HOST. */
plim_status plim_json_parse(plim_ctx *c, const char *name, const char *text, size_t bytes, size_t cap_bytes,
                            plim_json *out);
void plim_json_close(plim_json *j); /* NULL and a zeroed plim_json are fine */

/* Fails with "name:line:column: path: message".  The position is that of the value at path, or of the nearest
 * enclosing value that exists. */
plim_status plim_json_fail(const plim_json *j, const char *path, plim_status st, const char *fmt, ...)
    PLIM_PRINTF(4, 5);

/* Member key of obj, whose own path is path.  Required: absent or null is PLIM_E_FORMAT.  Optional (_opt):
 * absent or null leaves *out as it was.  Both: another type, or an obj that is no object, is PLIM_E_FORMAT
 * (5120.0 is no integer; 5120 is a double); a number outside [min, max] is PLIM_E_RANGE.  Strings, objects
 * and arrays belong to the tree. */
plim_status plim_json_i64(const plim_json *j, const json_t *obj, const char *path, const char *key,
                          int64_t min, int64_t max, int64_t *out);
plim_status plim_json_i64_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                              int64_t min, int64_t max, int64_t *out);
plim_status plim_json_double(const plim_json *j, const json_t *obj, const char *path, const char *key,
                             double min, double max, double *out);
plim_status plim_json_double_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                 double min, double max, double *out);
plim_status plim_json_bool(const plim_json *j, const json_t *obj, const char *path, const char *key,
                           bool *out);
plim_status plim_json_bool_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                               bool *out);
plim_status plim_json_string(const plim_json *j, const json_t *obj, const char *path, const char *key,
                             const char **out);
plim_status plim_json_string_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                 const char **out);
plim_status plim_json_object(const plim_json *j, const json_t *obj, const char *path, const char *key,
                             const json_t **out);
plim_status plim_json_object_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                 const json_t **out);
plim_status plim_json_array(const plim_json *j, const json_t *obj, const char *path, const char *key,
                            const json_t **out);
plim_status plim_json_array_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                const json_t **out);

/* Element i of array arr, whose own path is path; i is below json_array_size(arr).  Errors as above. */
plim_status plim_json_at_i64(const plim_json *j, const json_t *arr, const char *path, size_t i, int64_t min,
                             int64_t max, int64_t *out);
plim_status plim_json_at_string(const plim_json *j, const json_t *arr, const char *path, size_t i,
                                const char **out);
plim_status plim_json_at_object(const plim_json *j, const json_t *arr, const char *path, size_t i,
                                const json_t **out);

/* Line and column, both from 1, of byte at; a column counts characters. */
void plim_json_position(const char *text, size_t bytes, size_t at, size_t *line, size_t *column);

#endif
