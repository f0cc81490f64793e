/* run_machine.c - decides which machine is opened, and what of it a run is planned with. */
#include "cli/run_machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/machine_memory.h"
#include "base/units.h"

#define MOST_ORDINAL 63
#define ALIKE_SHARE  0.08 /* what the memory of an entry may differ by from that of the card there is */

plim_status plim_machine_read_device(plim_ctx *c, const char *value, plim_machine_ask *a)
{
    int64_t ordinal = 0;
    a->named = true;
    a->cuda = strncmp(value, "cuda", 4) == 0;
    if (!strcmp(value, "cpu") || !strcmp(value, "cuda")) return PLIM_OK;
    if (strncmp(value, "cuda:", 5) != 0) return plim_cli_misread(c, "device", value, "cpu, cuda or cuda:0");
    TRY(plim_parse_int(c, "--device cuda:N", value + 5, 0, MOST_ORDINAL, &ordinal));
    a->ordinal = (int)ordinal;
    return PLIM_OK;
}

bool plim_machine_has_card(plim_ctx *c)
{
    plim_cuda_plugin plugin;
    plim_cuda_info info;
    bool found = plim_cuda_plugin_open(c, &plugin) == PLIM_OK;
    if (found) {
        found = plugin.describe(c, 0, &info) == PLIM_OK;
        plim_cuda_plugin_close(&plugin);
    }
    plim_ctx_clear(c);
    return found;
}

int64_t plim_machine_host_bytes(plim_cli *cli)
{
    plim_machine_memory memory;
    if (plim_machine_memory_read(cli->ctx, "", &memory) == PLIM_OK) return (int64_t)memory.usable_bytes;
    plim_log_write(&cli->log, PLIM_LOG_WARN, "free memory of the host is not known: %s",
                   plim_ctx_message(cli->ctx));
    plim_ctx_clear(cli->ctx);
    return 0;
}

/* ---- the entry --------------------------------------------------------------------------------------- */

static plim_status load_cards(plim_ctx *c, plim_cards *cards)
{
    char path[4096];
    if (cards->count) return PLIM_OK;
    if (!plim_cli_share(path, sizeof path, "cards.json"))
        return plim_fail(c, PLIM_E_IO,
                         "share/cards.json was not found; PLIMSOLL_SHARE can name the folder that holds it");
    return plim_cards_load(c, path, cards);
}

plim_status plim_machine_find_card(plim_ctx *c, const char *name, plim_cards *cards, plim_card *out)
{
    const plim_card *card;
    TRY(load_cards(c, cards));
    TRY(plim_cards_find(c, cards, name, &card));
    if (card->cards > 1)
        return plim_fail(c, PLIM_E_UNSUPPORTED, "%s is %d cards; a step runs on one", card->id,
                         (int)card->cards);
    *out = *card;
    return PLIM_OK;
}

/* The nearest memory among those of the same capability. */
plim_status plim_machine_like(plim_ctx *c, const plim_cuda_info *info, plim_cards *cards, plim_card *out)
{
    const plim_card *best = NULL;
    int64_t nearest = (int64_t)(ALIKE_SHARE * (double)info->memory_bytes);
    TRY(load_cards(c, cards));
    for (int64_t i = 0; i < cards->count; i++) {
        const plim_card *card = &cards->card[i];
        int64_t off = llabs((long long)(card->memory_bytes - info->memory_bytes));
        if (card->cards != 1 || card->capability_major != info->capability_major ||
            card->capability_minor != info->capability_minor || off > nearest)
            continue;
        best = card;
        nearest = off;
    }
    if (!best)
        return plim_fail(c, PLIM_E_USAGE,
                         "share/cards.json has no entry like %s (capability %d.%d, %lld bytes); --card NAME "
                         "names one to plan with",
                         info->name, (int)info->capability_major, (int)info->capability_minor,
                         (long long)info->memory_bytes);
    *out = *best;
    return PLIM_OK;
}

/* What the entry, or the budget, leaves of the card that is there. */
static plim_status settle_memory(plim_ctx *c, const plim_machine_ask *a, plim_run_machine *m)
{
    char want[PLIM_NUMBER_BYTES], have[PLIM_NUMBER_BYTES];
    plim_card *card = &m->card;
    if (a->budget_bytes) {
        card->memory_bytes = (int64_t)a->budget_bytes;
        card->reserved_bytes = 0;
    }
    int64_t whole = card->memory_bytes - card->reserved_bytes, total = m->info.memory_bytes;
    if (whole > total && (a->card || a->budget_bytes))
        return plim_fail(c, PLIM_E_NOFIT, "%s%s is %s GiB; %s has %s GiB", a->budget_bytes ? "--budget" : "",
                         a->budget_bytes ? "" : card->id, plim_format_bytes_gib(want, (size_t)whole),
                         m->info.name, plim_format_bytes_gib(have, (size_t)total));
    if (whole > total) card->reserved_bytes = card->memory_bytes - total;
    return PLIM_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------- */

static plim_status settle_kernel(plim_ctx *c, const plim_machine_ask *a, const plim_step_ask *step,
                                 const plim_card *card, plim_attention_kernel *out)
{
    bool pinned = step->pinned & PLIM_PIN_ATTENTION_KERNEL;
    *out = pinned ? step->options.attention : card->attention;
    if (!a->deterministic) return PLIM_OK;
    if (pinned && *out == PLIM_ATTENTION_CUDNN)
        return plim_fail(c, PLIM_E_USAGE,
                         "--deterministic and --attention cudnn contradict each other; own has the same bits "
                         "every run");
    *out = PLIM_ATTENTION_OWN;
    return PLIM_OK;
}

static plim_status take_stock(plim_ctx *c, plim_run_machine *m)
{
    size_t free_bytes, total_bytes;
    char taken[PLIM_NUMBER_BYTES];
    TRY(m->machine.memory_info(m->machine.device, &free_bytes, &total_bytes));
    m->taken_bytes = (int64_t)(total_bytes - free_bytes);
    if (m->taken_bytes > m->card.context_bytes) m->card.context_bytes = m->taken_bytes;
    if (m->card.context_bytes < m->card.memory_bytes - m->card.reserved_bytes) return PLIM_OK;
    return plim_fail(c, PLIM_E_NOFIT, "%s GiB of %s are taken already, which leaves nothing of the budget",
                     plim_format_bytes_gib(taken, (size_t)m->taken_bytes), m->info.name);
}

static plim_status open_card(plim_cli *cli, const plim_machine_ask *a, const plim_step_ask *step,
                             plim_run_machine *m)
{
    plim_ctx *c = cli->ctx;
    plim_cuda_options o = {.ordinal = a->ordinal, .deterministic = a->deterministic};
    char total[PLIM_NUMBER_BYTES], taken[PLIM_NUMBER_BYTES];
    TRY(plim_cuda_plugin_open(c, &m->plugin));
    TRY(m->plugin.describe(c, a->ordinal, &m->info));
    if (a->card) TRY(plim_machine_find_card(c, a->card, &m->cards, &m->card));
    else TRY(plim_machine_like(c, &m->info, &m->cards, &m->card));
    TRY(settle_memory(c, a, m));
    TRY(settle_kernel(c, a, step, &m->card, &o.attention));
    TRY(m->plugin.machine(c, &o, &m->machine));
    m->open = true;
    m->card.attention = m->machine.attention_kernel;
    if (step->pinned & PLIM_PIN_ATTENTION_KERNEL && m->card.attention != o.attention)
        return plim_fail(c, PLIM_E_UNSUPPORTED, "--attention cudnn does not run here: %s; own works",
                         m->machine.attention ? m->machine.attention : "");
    TRY(take_stock(c, m));
    plim_log_write(&cli->log, PLIM_LOG_INFO, "%s, %s GiB, planned as %s; %s GiB taken at open; attention: %s",
                   m->info.name, plim_format_bytes_gib(total, (size_t)m->info.memory_bytes), m->card.id,
                   plim_format_bytes_gib(taken, (size_t)m->taken_bytes),
                   m->machine.attention ? m->machine.attention : "");
    return PLIM_OK;
}

plim_status plim_run_machine_open(plim_cli *cli, const plim_machine_ask *a, const plim_step_ask *step,
                                  plim_run_machine *out)
{
    if (a->cuda) return open_card(cli, a, step, out);
    TRY(plim_machine_cpu(cli->ctx, (int)a->threads, &out->machine));
    out->open = true;
    return PLIM_OK;
}

void plim_run_machine_close(plim_cli *cli, plim_run_machine *m)
{
    plim_machine_close(&m->machine);
    plim_cuda_plugin_close(&m->plugin);
    plim_cards_close(cli->ctx, &m->cards);
    *m = (plim_run_machine){0};
}
