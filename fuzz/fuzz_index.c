/* fuzz_index.c - any bytes as a safetensors index; what is accepted stays inside its folder. */
#include <stdlib.h>
#include <string.h>

#include "formats/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_index *x = NULL;
    if (plim_ctx_open(NULL, &c)) return 0;
    plim_status st = plim_index_parse(c, "fuzz", (const char *)data, bytes, &x);
    require((st == PLIM_OK) == (x != NULL));
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    if (x) {
        size_t shards = plim_index_shard_count(x);
        require(shards > 0 && plim_index_total_bytes(x) >= -1);
        for (size_t i = 0; i < shards; i++) {
            const char *shard = plim_index_shard(x, i);
            require(*shard && !strpbrk(shard, "/\\") && strcmp(shard, ".") && strcmp(shard, ".."));
            require(i == 0 || strcmp(plim_index_shard(x, i - 1), shard) < 0);
        }
        for (size_t i = 0; i < plim_index_tensor_count(x); i++) {
            require(plim_index_find(x, plim_index_tensor(x, i)) == (int64_t)i);
            require(plim_index_tensor_shard(x, i) < shards);
        }
    }
    plim_index_close(x);
    plim_ctx_close(c);
    return 0;
}
