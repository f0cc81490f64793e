/* fuzz_adapter_config.c - any bytes as an adapter_config.json; a config that is accepted must keep its
 * promises and come back from its own file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/adapter_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

static void check_config(plim_ctx *c, const plim_adapter_config *g)
{
    plim_adapter_config back;
    char path[64];
    require(g->rank >= 1 && g->rank <= PLIM_MAX_RANK);
    require(g->alpha > 0 && isfinite(g->alpha) && g->dropout >= 0 && g->dropout < 1);
    require(isfinite(plim_adapter_scale(g)) && plim_adapter_scale(g) > 0);
    require(g->targets < 1u << PLIM_TARGET_COUNT);
    require(memchr(g->base_model, 0, sizeof g->base_model) != NULL);
    if (!g->targets) return; /* a pattern is not written */
    snprintf(path, sizeof path, "/dev/shm/fuzz-adapter-config-%ld", (long)getpid());
    require(plim_adapter_config_write(c, path, g) == PLIM_OK);
    require(plim_adapter_config_load(c, path, &back) == PLIM_OK);
    unlink(path);
    require(back.rank == g->rank && back.alpha == g->alpha && back.dropout == g->dropout);
    require(back.rslora == g->rslora && back.targets == g->targets &&
            !strcmp(back.base_model, g->base_model));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_adapter_config g;
    if (plim_ctx_open(NULL, &c)) abort();
    plim_status st = plim_adapter_config_parse(c, "adapter_config.json", (const char *)data, bytes, &g);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    require(st == PLIM_OK || st == PLIM_E_FORMAT || st == PLIM_E_RANGE || st == PLIM_E_UNSUPPORTED);
    if (st == PLIM_OK) check_config(c, &g);
    plim_ctx_close(c);
    return 0;
}
