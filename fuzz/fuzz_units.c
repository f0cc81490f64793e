/* Number parsing over any bytes: no parser reads past the text, success means a short text that a stricter
 * look agrees with, and what format_count writes without commas is read back as the same number. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plim_ctx *c = NULL;
    char *text = malloc(size + 1); /* of exactly this size, so that the sanitizer sees every step too far */
    int64_t n = -1, back = -1;
    size_t bytes = 0;
    double x = -1;
    char item[64], number[PLIM_NUMBER_BYTES];
    if (!text || plim_ctx_open(NULL, &c)) abort();
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (plim_parse_count(c, "n", text, &n) == PLIM_OK) {
        check(n >= 0 && text[0] >= '0' && text[0] <= '9');
        if (!strchr(plim_format_count(number, n), ','))
            check(!plim_parse_count(c, "n", number, &back) && back == n);
    }
    plim_ctx_clear(c);
    if (plim_parse_int(c, "n", text, 0, INT64_MAX, &n) == PLIM_OK) {
        check(strspn(text, "0123456789") == strlen(text));
        check(plim_parse_bytes(c, "n", text, &bytes) == PLIM_OK && bytes == (size_t)n);
    }
    plim_ctx_clear(c);
    if (plim_parse_double(c, "n", text, 0, 1e15, &x) == PLIM_OK) check(x == strtod(text, NULL));
    plim_ctx_clear(c);
    for (const char *at = text; at;)
        if (plim_next_item(c, "n", &at, item, sizeof item)) break;
    plim_ctx_close(c);
    free(text);
    return 0;
}
