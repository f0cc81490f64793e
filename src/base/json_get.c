/* json_get.c - typed members of a parsed JSON text, and where a value stands in it.
 * Positions are not kept: the text is scanned again, and only when there is an error to report. */
#include "base/json.h"

#include <stdarg.h>
#include <string.h>

#define PATH_BYTES 512

/* ---- where a value stands ------------------------------------------------------------------------------ */

typedef struct finder {
    const char *text;
    size_t bytes;
    size_t at;   /* best match so far: the value whose path leaves the fewest characters over */
    size_t left; /* those characters */
} finder;

static size_t skip_space(const finder *f, size_t i)
{
    while (i < f->bytes && f->text[i] && strchr(" \t\r\n", f->text[i])) i++;
    return i;
}

/* Behind the string whose quote stands at i. */
static size_t skip_string(const finder *f, size_t i)
{
    for (i++; i < f->bytes && f->text[i] != '"'; i++)
        if (f->text[i] == '\\') i++;
    return i + 1;
}

static size_t skip_value(const finder *f, size_t i)
{
    int depth = 0;
    while (i < f->bytes) {
        char b = f->text[i];
        if (b == '"') i = skip_string(f, i);
        else if (b == '{' || b == '[') depth++, i++;
        else if (b == '}' || b == ']') depth--, i++;
        else if (depth == 0 && b != ',' && b > ' ') { /* number or word */
            while (i < f->bytes && !strchr(",]} \t\r\n", f->text[i])) i++;
        } else i++;
        if (depth <= 0) break;
    }
    return i;
}

static void find(finder *f, size_t i, const char *path);

static void find_in_object(finder *f, size_t i, const char *path)
{
    while (i < f->bytes && f->text[i] != '}') {
        i = skip_space(f, i + 1);
        if (i >= f->bytes || f->text[i] != '"') return;
        size_t key = i + 1, end = skip_string(f, i);
        if (end > f->bytes) return;
        size_t len = end - 1 - key;
        i = skip_space(f, end);
        i = skip_space(f, i + 1);
        if (len && strncmp(path, f->text + key, len) == 0) {
            if (path[len] == 0 || path[len] == '[') find(f, i, path + len);
            if (path[len] == '.') find(f, i, path + len + 1);
        }
        i = skip_space(f, skip_value(f, i));
    }
}

static void find_in_array(finder *f, size_t i, const char *path)
{
    size_t index = 0;
    const char *p = path + 1;
    for (; *p >= '0' && *p <= '9' && index < SIZE_MAX / 16; p++) index = index * 10 + (size_t)(*p - '0');
    if (path[0] != '[' || *p != ']') return;
    p += p[1] == '.' ? 2 : 1;
    for (; i < f->bytes && f->text[i] != ']'; index--) {
        i = skip_space(f, i + 1);
        if (index == 0) {
            find(f, i, p);
            return;
        }
        i = skip_space(f, skip_value(f, i));
    }
}

/* Looks below the value at i for path.  A key may hold dots, so every member that fits is tried. */
static void find(finder *f, size_t i, const char *path)
{
    size_t left = strlen(path);
    if (i >= f->bytes || left >= f->left) return;
    f->at = i;
    f->left = left;
    if (f->text[i] == '{' && left) find_in_object(f, i, path);
    if (f->text[i] == '[' && left) find_in_array(f, i, path);
}

plim_status plim_json_fail(const plim_json *j, const char *path, plim_status st, const char *fmt, ...)
{
    char what[1024];
    size_t line, column;
    finder f = {j->text, j->bytes, 0, SIZE_MAX};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    find(&f, skip_space(&f, 0), path);
    plim_json_position(j->text, j->bytes, f.at, &line, &column);
    return plim_fail(j->ctx, st, "%s:%zu:%zu: %s%s%s", j->name, line, column, path, *path ? ": " : "", what);
}

/* ---- typed values -------------------------------------------------------------------------------------- */

/* Where a value is looked for: member key of parent, or its element index when key is NULL. */
typedef struct place {
    const plim_json *j;
    const char *path, *key;
    size_t index;
} place;

static void write_path(const place *p, char out[PATH_BYTES])
{
    if (p->key) snprintf(out, PATH_BYTES, "%s%s%s", p->path, *p->path ? "." : "", p->key);
    else snprintf(out, PATH_BYTES, "%s[%zu]", p->path, p->index);
}

static plim_status wrong_type(const place *p, const json_t *v, const char *wanted)
{
    char path[PATH_BYTES], found[64];
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_TRUE] = "true",        [JSON_FALSE] = "false",    [JSON_NULL] = "null",
    };
    if (json_is_integer(v))
        snprintf(found, sizeof found, "the integer %lld", (long long)json_integer_value(v));
    else if (json_is_real(v)) snprintf(found, sizeof found, "the real number %.17g", json_real_value(v));
    else if (json_is_string(v)) snprintf(found, sizeof found, "the string \"%.40s\"", json_string_value(v));
    else snprintf(found, sizeof found, "%s", names[json_typeof(v)]);
    write_path(p, path);
    return plim_json_fail(p->j, path, PLIM_E_FORMAT, "must be %s, found %s", wanted, found);
}

/* The member or element; *out stays NULL when it is optional and absent. */
static plim_status look_up(const place *p, const json_t *parent, bool optional, const char *wanted,
                           const json_t **out)
{
    if (p->key && !json_is_object(parent))
        return plim_json_fail(p->j, p->path, PLIM_E_FORMAT, "must be an object that may hold \"%s\"", p->key);
    const json_t *v = p->key ? json_object_get(parent, p->key) : json_array_get(parent, p->index);
    if (v && !json_is_null(v)) *out = v;
    if (*out || optional) return PLIM_OK;
    char path[PATH_BYTES];
    write_path(p, path);
    return plim_json_fail(p->j, path, PLIM_E_FORMAT, "is %s; %s is needed here", v ? "null" : "missing",
                          wanted);
}

static plim_status get_i64(place p, const json_t *parent, bool optional, int64_t min, int64_t max,
                           int64_t *out)
{
    const json_t *v = NULL;
    TRY(look_up(&p, parent, optional, "an integer", &v));
    if (!v) return PLIM_OK;
    if (!json_is_integer(v)) return wrong_type(&p, v, "an integer");
    int64_t n = json_integer_value(v);
    if (n < min || n > max) {
        char path[PATH_BYTES];
        write_path(&p, path);
        return plim_json_fail(p.j, path, PLIM_E_RANGE, "%lld is out of range; %lld to %lld is accepted",
                              (long long)n, (long long)min, (long long)max);
    }
    *out = n;
    return PLIM_OK;
}

static plim_status get_double(place p, const json_t *parent, bool optional, double min, double max,
                              double *out)
{
    const json_t *v = NULL;
    TRY(look_up(&p, parent, optional, "a number", &v));
    if (!v) return PLIM_OK;
    if (!json_is_number(v)) return wrong_type(&p, v, "a number");
    double n = json_number_value(v);
    if (!(n >= min && n <= max)) {
        char path[PATH_BYTES];
        write_path(&p, path);
        return plim_json_fail(p.j, path, PLIM_E_RANGE, "%g is out of range; %g to %g is accepted", n, min,
                              max);
    }
    *out = n;
    return PLIM_OK;
}

static plim_status get_bool(place p, const json_t *parent, bool optional, bool *out)
{
    const json_t *v = NULL;
    TRY(look_up(&p, parent, optional, "true or false", &v));
    if (!v) return PLIM_OK;
    if (!json_is_boolean(v)) return wrong_type(&p, v, "true or false");
    *out = json_is_true(v);
    return PLIM_OK;
}

static plim_status get_string(place p, const json_t *parent, bool optional, const char **out)
{
    const json_t *v = NULL;
    TRY(look_up(&p, parent, optional, "a string", &v));
    if (!v) return PLIM_OK;
    if (!json_is_string(v)) return wrong_type(&p, v, "a string");
    *out = json_string_value(v);
    return PLIM_OK;
}

static plim_status get_container(place p, const json_t *parent, bool optional, json_type type,
                                 const json_t **out)
{
    const char *wanted = type == JSON_OBJECT ? "an object" : "an array";
    const json_t *v = NULL;
    TRY(look_up(&p, parent, optional, wanted, &v));
    if (!v) return PLIM_OK;
    if (json_typeof(v) != type) return wrong_type(&p, v, wanted);
    *out = v;
    return PLIM_OK;
}

#define MEMBER  ((place){j, path, key, 0})
#define ELEMENT ((place){j, path, NULL, i})

plim_status plim_json_i64(const plim_json *j, const json_t *obj, const char *path, const char *key,
                          int64_t min, int64_t max, int64_t *out)
{
    return get_i64(MEMBER, obj, false, min, max, out);
}

plim_status plim_json_i64_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                              int64_t min, int64_t max, int64_t *out)
{
    return get_i64(MEMBER, obj, true, min, max, out);
}

plim_status plim_json_double(const plim_json *j, const json_t *obj, const char *path, const char *key,
                             double min, double max, double *out)
{
    return get_double(MEMBER, obj, false, min, max, out);
}

plim_status plim_json_double_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                 double min, double max, double *out)
{
    return get_double(MEMBER, obj, true, min, max, out);
}

plim_status plim_json_bool(const plim_json *j, const json_t *obj, const char *path, const char *key,
                           bool *out)
{
    return get_bool(MEMBER, obj, false, out);
}

plim_status plim_json_bool_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                               bool *out)
{
    return get_bool(MEMBER, obj, true, out);
}

plim_status plim_json_string(const plim_json *j, const json_t *obj, const char *path, const char *key,
                             const char **out)
{
    return get_string(MEMBER, obj, false, out);
}

plim_status plim_json_string_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                 const char **out)
{
    return get_string(MEMBER, obj, true, out);
}

plim_status plim_json_object(const plim_json *j, const json_t *obj, const char *path, const char *key,
                             const json_t **out)
{
    return get_container(MEMBER, obj, false, JSON_OBJECT, out);
}

plim_status plim_json_object_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                 const json_t **out)
{
    return get_container(MEMBER, obj, true, JSON_OBJECT, out);
}

plim_status plim_json_array(const plim_json *j, const json_t *obj, const char *path, const char *key,
                            const json_t **out)
{
    return get_container(MEMBER, obj, false, JSON_ARRAY, out);
}

plim_status plim_json_array_opt(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                const json_t **out)
{
    return get_container(MEMBER, obj, true, JSON_ARRAY, out);
}

plim_status plim_json_at_i64(const plim_json *j, const json_t *arr, const char *path, size_t i, int64_t min,
                             int64_t max, int64_t *out)
{
    return get_i64(ELEMENT, arr, false, min, max, out);
}

plim_status plim_json_at_string(const plim_json *j, const json_t *arr, const char *path, size_t i,
                                const char **out)
{
    return get_string(ELEMENT, arr, false, out);
}

plim_status plim_json_at_object(const plim_json *j, const json_t *arr, const char *path, size_t i,
                                const json_t **out)
{
    return get_container(ELEMENT, arr, false, JSON_OBJECT, out);
}
