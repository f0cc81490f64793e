/* fuzz_json.c - our reader of JSON text beside Jansson's: whatever we accept, it reads as the same tree, and
 * what only one of them accepts is one of the differences known by name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

/* Asks for every member with every getter; paths are made of what the text holds. */
static void visit(const plim_json *j, const json_t *v, const char *path, int depth)
{
    int64_t n = 0;
    double x = 0;
    const char *s = NULL, *key;
    const json_t *o = NULL;
    json_t *child;
    char below[256];
    if (depth == 0 || !json_is_object(v)) return;
    json_object_foreach((json_t *)(uintptr_t)v, key, child)
    {
        plim_status st = plim_json_i64(j, v, path, key, 0, 100, &n);
        require((st == PLIM_OK) == (json_is_integer(child) && n == json_integer_value(child)));
        if (st) require(strncmp(plim_ctx_message(j->ctx), "fuzz:", 5) == 0);
        plim_ctx_clear(j->ctx);
        st = plim_json_double(j, v, path, key, -INFINITY, INFINITY, &x);
        require((st == PLIM_OK) == (json_is_number(child) && x == json_number_value(child)));
        plim_ctx_clear(j->ctx);
        st = plim_json_string(j, v, path, key, &s);
        require((st == PLIM_OK) == (json_is_string(child) && s == json_string_value(child)));
        plim_ctx_clear(j->ctx);
        st = plim_json_array(j, v, path, key, &o);
        require((st == PLIM_OK) == json_is_array(child));
        if (st == PLIM_OK && json_array_size(o))
            (void)plim_json_at_i64(j, o, key, json_array_size(o) - 1, 0, 1, &n);
        plim_ctx_clear(j->ctx);
        snprintf(below, sizeof below, "%.100s%s%.100s", path, *path ? "." : "", key);
        visit(j, child, below, depth - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_json j;
    json_error_t e;
    if (plim_ctx_open(NULL, &c)) abort();
    plim_status st = plim_json_parse(c, "fuzz", (const char *)data, bytes, PLIM_JSON_CAP_BYTES, &j);
    json_t *other = json_loadb((const char *)data, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    if (st == PLIM_OK) {
        require(other && json_equal(other, j.root));
        visit(&j, j.root, "", 8);
        plim_json_close(&j);
    } else {
        const char *m = plim_ctx_message(c);
        require(st == PLIM_E_FORMAT && strncmp(m, "fuzz:", 5) == 0);
        /* our limits; and a NUL behind a number ends the text for Jansson */
        if (other) require(strstr(m, "levels") || strstr(m, "a number of") || strstr(m, "byte 0x00"));
    }
    json_decref(other);
    plim_ctx_close(c);
    return 0;
}
