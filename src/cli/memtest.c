/* memtest.c - `plimsoll memtest`: decides what the budget is and whether to start, then proves the plan. */
#include "cli/memtest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/machine_memory.h"
#include "base/progress.h"
#include "base/units.h"
#include "cli/run_options.h"

typedef struct test {
    plim_cli *cli;
    plim_memtest_ask ask;
    plim_spec spec;
    plim_run_machine device;
    plim_card card, measured;
    plim_memtest_config config;
    plim_memtest_result result;
    char path[PLIM_PATH_BYTES];
    int64_t planned;
    plim_progress weights, tokens;
    int64_t done_tokens;
} test;

/* ---- machine, budget, price ---------------------------------------------------------------------------- */

/* Where nothing was said, a GPU if there is one and nothing speaks against it. */
static plim_status settle_device(test *t)
{
    plim_memtest_ask *a = &t->ask;
    if (a->machine.named || a->machine.card) return PLIM_OK;
    bool half = !a->act_given || a->act == PLIM_BF16;
    a->machine.cuda = half && plim_machine_has_card(t->cli->ctx);
    return plim_memtest_settle_device(t->cli->ctx, a);
}

/* The budget of a run in the machine's own memory: as given, as the card's, or as much as there is, with a
 * margin for everything else. */
static plim_status settle_budget(test *t, const plim_machine_memory *m)
{
    char want[PLIM_NUMBER_BYTES], have[PLIM_NUMBER_BYTES], total[PLIM_NUMBER_BYTES], limit[64] = "no limit";
    uint64_t budget = t->ask.machine.budget_bytes;
    if (t->ask.machine.card) budget = (uint64_t)(t->card.memory_bytes - t->card.reserved_bytes);
    if (!budget) budget = (uint64_t)((double)m->usable_bytes * PLIM_MEMTEST_FITS_SHARE);
    if (m->cgroup_limit_bytes != PLIM_NO_LIMIT)
        snprintf(limit, sizeof limit, "%s GiB", plim_format_bytes_gib(total, m->cgroup_limit_bytes));
    if (budget > m->usable_bytes || budget == 0)
        return plim_fail(
            t->cli->ctx, PLIM_E_NOFIT,
            "a budget of %s GiB is more than this machine can give now: %s GiB of its %s GiB, with a "
            "cgroup limit of %s; close programs or ask for less",
            plim_format_bytes_gib(want, budget), plim_format_bytes_gib(have, m->usable_bytes),
            plim_format_bytes_gib(total, m->total_bytes), limit);
    t->card.memory_bytes = (int64_t)budget;
    return PLIM_OK;
}

/* The CPU as a card: one memory, rates measured later. */
static plim_status set_up_cpu(test *t)
{
    plim_machine_memory m;
    double usd_per_h = t->card.usd_per_h;
    TRY(plim_machine_memory_read(t->cli->ctx, "", &m));
    TRY(settle_budget(t, &m));
    TRY(plim_run_machine_open(t->cli, &t->ask.machine, &t->ask.step, &t->device));
    plim_card cpu = {
        .id = "cpu", .name = "CPU", .cards = 1, .attention = PLIM_ATTENTION_CPU, .usd_per_h = usd_per_h};
    cpu.memory_bytes = t->card.memory_bytes;
    t->card = cpu;
    t->config.available_bytes = (int64_t)m.usable_bytes;
    t->config.shared_memory = t->device.machine.shared_memory;
    return PLIM_OK;
}

/* A dry run with a named card needs none: it goes by the entry. */
static plim_status set_up_cuda(test *t)
{
    plim_machine_ask *a = &t->ask.machine;
    if (a->deterministic && !(t->ask.step.pinned & PLIM_PIN_ATTENTION_KERNEL)) {
        t->ask.step.pinned |= PLIM_PIN_ATTENTION_KERNEL;
        t->ask.step.options.attention = PLIM_ATTENTION_OWN;
    }
    if (t->ask.dry_run && a->card) return PLIM_OK;
    TRY(plim_run_machine_open(t->cli, a, &t->ask.step, &t->device));
    t->card = t->device.card;
    t->config.available_bytes = t->device.info.memory_bytes - t->device.taken_bytes;
    return PLIM_OK;
}

static plim_status settle_price(test *t)
{
    const plim_memtest_ask *a = &t->ask;
    t->config.max_usd = a->max_usd;
    t->config.usd_per_h = a->usd_per_h >= 0                    ? a->usd_per_h
                          : a->machine.card || a->machine.cuda ? t->card.usd_per_h
                                                               : PLIM_MEMTEST_UNKNOWN;
    if (a->max_usd < 0 || t->config.usd_per_h >= 0) return PLIM_OK;
    return plim_fail(t->cli->ctx, PLIM_E_USAGE,
                     "--max-usd wants a price: --usd-per-h, or the card's with --card");
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static bool ends_in_json(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".json");
}

static plim_status settle_path(test *t)
{
    char utc[PLIM_UTC_BYTES], name[256], full[PLIM_PATH_BYTES];
    const char *out = t->ask.out ? t->ask.out : ".", *model = t->ask.model;
    if (!plim_path_is_folder(out)) {
        if (!ends_in_json(out))
            return plim_fail(t->cli->ctx, PLIM_E_USAGE,
                             "--out %s is neither a folder nor the name of a .json file", out);
        return plim_path_join(t->cli->ctx, t->path, sizeof t->path, "", out);
    }
    if (realpath(model, full)) model = full; /* so that "config.json" has the name of its folder */
    TRY(plim_utc_date(t->cli->ctx, utc));
    TRY(plim_memtest_file_name(t->cli->ctx, model, t->card.id, utc, name, sizeof name));
    return plim_path_join(t->cli->ctx, t->path, sizeof t->path, t->ask.out ? out : "", name);
}

/* ---- progress ------------------------------------------------------------------------------------------ */

static void see_weights(void *user, int64_t done, int64_t total)
{
    test *t = user;
    t->weights.total = total / 1000000;
    plim_progress_update(&t->weights, done / 1000000);
}

static void see_step(void *user, const plim_memtest_length *l)
{
    test *t = user;
    t->done_tokens += l->seq_tokens;
    plim_progress_update(&t->tokens, t->done_tokens);
}

static void see_length(void *user, const plim_memtest_length *l, double left_s)
{
    test *t = user;
    plim_memtest_print_length(t->cli, l, left_s);
}

/* ---- the command --------------------------------------------------------------------------------------- */

static void settle_config(test *t)
{
    plim_memtest_config *g = &t->config;
    const plim_memtest_ask *a = &t->ask;
    g->model = a->model;
    g->spec = &t->spec;
    g->card = &t->card;
    g->limits = plim_limits_defaults();
    g->limits.pinned = a->step.pinned;
    if (t->device.open) g->libraries = t->device.machine.libraries;
    if (a->machine.cuda && t->device.open) g->limits.host_bytes = plim_machine_host_bytes(t->cli);
    g->options = a->step.options;
    g->seq_tokens = a->seq_tokens;
    g->seq_count = a->seq_count;
    g->steps = a->steps;
    g->seed = (uint64_t)a->seed;
    g->path = a->dry_run ? NULL : t->path;
    g->proc_root = "";
    g->clock = plim_clock_monotonic();
    g->see_weights = see_weights;
    g->see_step = see_step;
    g->see_length = see_length;
    g->user = t;
}

/* Refused before it starts, for that costs nothing. */
static plim_status check_price(const test *t)
{
    double usd = t->result.expected_s / 3600 * t->config.usd_per_h;
    if (t->config.max_usd < 0 || usd <= t->config.max_usd) return PLIM_OK;
    return plim_fail(
        t->cli->ctx, PLIM_E_NOFIT,
        "it is expected to cost %.2f USD, more than the %.2f of --max-usd; fewer or shorter lengths, or "
        "fewer --steps, would do",
        usd, t->config.max_usd);
}

/* A dry run ends as the test would before its first step. */
static plim_status dry_verdict(const test *t)
{
    const plim_memtest_length *l = &t->result.length[0];
    char tokens[PLIM_NUMBER_BYTES], device[PLIM_NUMBER_BYTES], host[PLIM_NUMBER_BYTES];
    if (!t->planned || l->verdict != PLIM_NO) return PLIM_OK;
    return plim_fail(
        t->cli->ctx, PLIM_E_NOFIT, "%s tokens, the shortest length, do not fit: %s, and %s of the host",
        plim_format_count(tokens, l->seq_tokens), plim_memtest_amount(device, l->planned_peak_bytes),
        plim_memtest_amount(host, l->host_peak_bytes));
}

static plim_status run_it(test *t)
{
    int64_t total = 0;
    for (int64_t i = 0; i < t->planned; i++)
        if (t->result.length[i].verdict != PLIM_NO) total += t->result.length[i].seq_tokens * t->config.steps;
    plim_progress_open(&t->weights, &t->cli->log, t->config.clock, "random weights", "million", 0, 0);
    plim_progress_open(&t->tokens, &t->cli->log, t->config.clock, "memory test", "tokens", 0, total);
    plim_status st = plim_memtest_run(t->cli->ctx, &t->device.machine, &t->config, &t->result, t->planned);
    plim_progress_close(&t->weights);
    plim_progress_close(&t->tokens);
    return st;
}

/* The result is shown however the run ended; the first failure stays the one that is reported. */
static plim_status show(test *t)
{
    if (t->ask.json) {
        char *text = NULL;
        TRY(plim_memtest_result_json(t->cli->ctx, &t->result, &text));
        fputs(text, stdout);
        plim_text_free(t->cli->ctx, text);
        return PLIM_OK;
    }
    plim_log out;
    plim_log_open(&out, stdout, PLIM_LOG_INFO); /* for its verdict on colour */
    return plim_memtest_print(t->cli, &t->result, stdout, out.colour);
}

static plim_status test_it(test *t)
{
    plim_ctx *c = t->cli->ctx;
    TRY(plim_spec_load(c, t->ask.model, &t->spec));
    TRY(plim_step_check(c, &t->ask.step.options, t->ask.step.pinned, &t->spec));
    t->config.libraries = "";
    t->config.available_bytes = PLIM_MEMTEST_UNKNOWN;
    TRY(settle_device(t));
    if (t->ask.machine.card) TRY(plim_machine_find_card(c, t->ask.machine.card, &t->device.cards, &t->card));
    TRY(t->ask.machine.cuda ? set_up_cuda(t) : set_up_cpu(t));
    TRY(settle_price(t));
    if (!t->ask.dry_run) TRY(settle_path(t));
    settle_config(t);
    TRY(plim_memtest_prepare(c, t->config.shared_memory ? &t->device.machine : NULL, &t->config, &t->measured,
                             &t->result, &t->planned));
    plim_memtest_print_forecast(t->cli, &t->config, &t->result, t->planned);
    TRY(check_price(t));
    if (t->ask.dry_run) return dry_verdict(t);
    plim_status st = run_it(t), shown = show(t);
    if (plim_path_is_file(t->path)) plim_log_write(&t->cli->log, PLIM_LOG_INFO, "wrote %s", t->path);
    return st ? st : shown;
}

static int run(plim_cli *cli, int argc, char **argv)
{
    static test t; /* large; one a process */
    int code = PLIM_EXIT_DONE;
    t = (test){.cli = cli};
    plim_status st = plim_run_ranged(cli, plim_memtest_arguments(cli, argc, argv, &t.ask, &code), &code);
    if (!st && code >= 0) return code;
    if (!st) st = test_it(&t);
    plim_run_machine_close(cli, &t.device);
    return st ? plim_cli_failed(cli, st) : PLIM_EXIT_DONE;
}

const plim_cli_command plim_command_memtest = {
    "memtest",
    "MODEL --sweep LIST [options]",
    "prove on the machine which sample length fits: random weights, a few real steps a length\n\n"
    "MODEL is a config.json of any name, or a folder that holds one; no weights are read or downloaded.\n"
    "Lengths are tried in ascending order up to the first that does not fit the budget, which is known\n"
    "before it is tried.  fits: within 92 % of the budget; tight: within it; no: beyond it.\n"
    "Options of the step that are not given are chosen for the budget, length by length; on the CPU layer\n"
    "inputs stay where they are (device), for there is one memory.\n"
    "On a GPU measured is what is taken of the whole device, context and other programs included; the\n"
    "first step of the shortest length is its warm-up.\n"
    "Exit codes: 0 at least one length fitted and nothing failed, 1 a step or a file failed, 2 not\n"
    "understood, 3 the first length does not fit, or --budget or --max-usd is passed.",
    plim_memtest_options,
    "  plimsoll memtest config.json --sweep 256,512,1k                     on this machine\n"
    "  plimsoll memtest config.json --sweep 1k,2k --budget 2GiB --dry-run  what it would do, and how long\n"
    "  plimsoll memtest config.json --card h200-141 --sweep 16k,48k --dry-run --max-usd 5\n"
    "  plimsoll memtest config.json --device cuda --card h100-80 --sweep 16k,32k   an 80 GB verdict\n",
    run,
};
