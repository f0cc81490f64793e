/* fuzz_safetensors.c - any bytes as the start of a safetensors file; what is accepted must hold together. */
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_safetensors *s = NULL;
    if (bytes < 4 || plim_ctx_open(NULL, &c)) return 0;
    /* The first four bytes say how much data follows the part in memory; fewer need no mutation of the
     * rest. */
    uint64_t beyond =
        (uint64_t)data[0] | (uint64_t)data[1] << 8 | (uint64_t)data[2] << 16 | (uint64_t)data[3] << 24;
    data += 4;
    bytes -= 4;
    plim_status st = plim_safetensors_parse(c, "fuzz", data, bytes, bytes + beyond, &s);
    require((st == PLIM_OK) == (s != NULL));
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    if (s) {
        uint64_t end = plim_safetensors_data_start_bytes(s);
        for (size_t i = 0; i < plim_safetensors_count(s); i++) {
            const plim_safetensors_tensor *t = plim_safetensors_at(s, i);
            require(!t->faulty && t->offset_bytes == end);
            require(t->size_bytes == (uint64_t)t->elements * plim_dtype_bytes(t->dtype));
            require(plim_safetensors_find(s, t->name) == t);
            end += t->size_bytes;
        }
        require(end == bytes + beyond && end == plim_safetensors_file_bytes(s));
        for (size_t i = 0; i < plim_safetensors_metadata_count(s); i++) {
            const char *key, *value;
            plim_safetensors_metadata_at(s, i, &key, &value);
            require(!strcmp(plim_safetensors_metadata(s, key), value));
        }
    }
    plim_safetensors_close(s);
    plim_ctx_close(c);
    return 0;
}
