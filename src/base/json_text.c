/* json_text.c - measures, then writes: Jansson's own text would have to go back to Jansson's allocator. */
#include "base/json_text.h"

plim_status plim_json_text(plim_ctx *c, const json_t *value, size_t flags, char **out)
{
    char *text = NULL;
    size_t bytes = json_dumpb(value, NULL, 0, flags); /* 0: no memory for its bookkeeping */
    if (bytes == 0) return plim_fail_alloc(c, 1, "a JSON text");
    TRY(plim_alloc(c, bytes + 1, 1, "a JSON text", &text));
    if (json_dumpb(value, text, bytes, flags) != bytes) {
        plim_release(c, text);
        return plim_fail_alloc(c, bytes, "a JSON text");
    }
    *out = text;
    return PLIM_OK;
}
