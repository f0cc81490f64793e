/* run_options.c - decides how a run is set up from its options: cheap refusals first, then the plan, memory,
 * weights. */
#include "cli/run_options.h"

#include <string.h>

#include "base/progress.h"
#include "base/units.h"

#define MAX_THREADS 4096

plim_run_ask plim_run_ask_defaults(void)
{
    return (plim_run_ask){.act = PLIM_F32, .step = plim_step_ask_defaults()};
}

/* ---- options --------------------------------------------------------------------------------------- */

static plim_status read_dtype(plim_ctx *c, const char *value, plim_run_ask *a)
{
    bool bf16;
    TRY(plim_cli_read_word(c, "dtype", value, "bf16", "f32", &bf16));
    a->act = bf16 ? PLIM_BF16 : PLIM_F32;
    a->act_given = true;
    return PLIM_OK;
}

static plim_status read_budget(plim_ctx *c, const char *value, plim_run_ask *a)
{
    TRY(plim_parse_bytes(c, "--budget", value, &a->machine.budget_bytes));
    return a->machine.budget_bytes > 0 ? PLIM_OK : plim_cli_misread(c, "budget", value, "8GiB");
}

plim_status plim_run_option_read(plim_ctx *c, const char *name, const char *value, plim_run_ask *a,
                                 bool *taken)
{
    enum {
#define ENUM(id, text, argument, help) RUN_##id,
        PLIM_RUN_OPTIONS(ENUM)
#undef ENUM
            RUN_COUNT
    };
    static const char *const names[] = {
#define NAME(id, text, argument, help) text,
        PLIM_RUN_OPTIONS(NAME)
#undef NAME
    };
    int option = 0;
    while (option < RUN_COUNT && strcmp(names[option], name) != 0) option++;
    *taken = true;
    switch (option) {
    case RUN_DATA: a->data = value; return PLIM_OK;
    case RUN_DEVICE: return plim_machine_read_device(c, value, &a->machine);
    case RUN_CARD: a->machine.card = value; return PLIM_OK;
    case RUN_DETERMINISTIC: a->machine.deterministic = true; return PLIM_OK;
    case RUN_DTYPE: return read_dtype(c, value, a);
    case RUN_RANDOM: a->random_weights = true; return PLIM_OK;
    case RUN_ADAPTER: a->adapter = value; return PLIM_OK;
    case RUN_SEQ: return plim_cli_read_count(c, "--seq", value, &a->seq_tokens);
    case RUN_SEED: return plim_parse_int(c, "--seed", value, 0, INT64_MAX, &a->seed);
    case RUN_THREADS: return plim_parse_int(c, "--threads", value, 1, MAX_THREADS, &a->machine.threads);
    case RUN_BUDGET: return read_budget(c, value, a);
    case RUN_JSON: a->json = true; return PLIM_OK;
    default: return plim_step_option_read(c, name, value, &a->step, taken);
    }
}

plim_status plim_run_ranged(plim_cli *cli, plim_status st, int *code)
{
    if (st != PLIM_E_RANGE) return st;
    plim_cli_failed(cli, st);
    *code = PLIM_EXIT_USAGE;
    return PLIM_OK;
}

plim_status plim_run_operand(plim_ctx *c, const char *value, plim_run_ask *a)
{
    if (a->model)
        return plim_fail(c, PLIM_E_USAGE, "one MODEL at a time: '%s' is one too many after '%s'", value,
                         a->model);
    a->model = value;
    return PLIM_OK;
}

plim_status plim_run_ask_settle(plim_ctx *c, const char *command, plim_run_ask *a)
{
    if (!a->model)
        return plim_fail(c, PLIM_E_USAGE,
                         "plimsoll %s wants a MODEL: a folder with config.json and weights, or with "
                         "--random-weights a config.json",
                         command);
    if (!a->data)
        return plim_fail(c, PLIM_E_USAGE, "plimsoll %s wants --data FILE, samples that plimsoll data made",
                         command);
    if (a->adapter && (a->step.rank || a->step.targets || a->step.dropout))
        return plim_fail(c, PLIM_E_USAGE,
                         "--adapter brings its own rank, targets and dropout; leave out --%s",
                         a->step.rank      ? "rank"
                         : a->step.targets ? "targets"
                                           : "lora-dropout");
    TRY(plim_step_ask_settle(c, &a->step));
    if (!a->machine.cuda) {
        if (a->machine.card || a->step.pinned & PLIM_PIN_ATTENTION_KERNEL)
            return plim_fail(c, PLIM_E_USAGE, "--%s is for GPUs; --device cuda would work",
                             a->machine.card ? "card" : "attention");
        plim_step_on_cpu(&a->step, a->act);
        return PLIM_OK;
    }
    if (a->act_given && a->act != PLIM_BF16)
        return plim_cli_misread(c, "dtype", "f32", "bf16, or --device cpu,");
    if (a->machine.card && a->machine.budget_bytes)
        return plim_fail(c, PLIM_E_USAGE, "--budget and --card both name the memory; one of them would work");
    a->act = a->step.options.act = PLIM_BF16;
    return PLIM_OK;
}

/* ---- setting up ------------------------------------------------------------------------------------ */

plim_status plim_setup_prepare(plim_cli *cli, const plim_run_ask *a, plim_setup *r)
{
    plim_ctx *c = cli->ctx;
    r->options = a->step.options;
    TRY(plim_spec_load(c, a->model, &r->spec));
    TRY(plim_step_check(c, &a->step.options, a->step.pinned, &r->spec));
    if (a->adapter) {
        plim_adapter_config adapter;
        TRY(plim_adapter_survey(c, a->adapter, &r->spec, &adapter));
        r->options.lora_rank = adapter.rank;
        r->options.lora_targets = adapter.targets;
        r->options.lora_dropout = adapter.dropout;
    }
    TRY(plim_samples_open(c, a->data, &r->samples));
    r->options.seq_tokens = a->seq_tokens ? a->seq_tokens : r->samples.longest_tokens;
    return PLIM_OK;
}

/* Parts that show in tenths of a GiB are listed. */
static void say_memory(plim_cli *cli, const plim_footprint *f, size_t total_bytes)
{
    char line[1024] = "", gib[PLIM_NUMBER_BYTES], thousands[PLIM_NUMBER_BYTES];
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) {
        size_t bytes = f->device_peak.component_bytes[m] + f->host_peak.component_bytes[m];
        size_t used = strlen(line);
        if (!strcmp(plim_format_bytes_gib(gib, bytes), "0.0")) continue;
        snprintf(line + used, sizeof line - used, "%s%s %s",
                 used ? ", " : "; in GiB: ", plim_component_label((plim_component)m), gib);
    }
    plim_log_write(&cli->log, PLIM_LOG_INFO, "memory of a step: %s bytes planned%s",
                   plim_format_thousands(thousands, (int64_t)total_bytes), line);
}

/* What the step may take; where the machine's own state cannot be read, --budget alone limits it. */
static size_t limit_of(plim_cli *cli, const plim_run_ask *a)
{
    if (a->machine.budget_bytes) return a->machine.budget_bytes;
    int64_t bytes = plim_machine_host_bytes(cli);
    return bytes ? (size_t)bytes : SIZE_MAX;
}

static plim_status plan_cpu(plim_cli *cli, const plim_run_ask *a, plim_setup *r)
{
    plim_footprint f;
    char need[PLIM_NUMBER_BYTES], have[PLIM_NUMBER_BYTES];
    plim_options o = r->options;
    o.lora_targets = plim_model_targets(&r->spec, o.lora_targets);
    TRY(plim_footprint_of(cli->ctx, &r->spec, &o, 1, &f, NULL, NULL));
    r->planned_bytes = f.device_peak.total_bytes + f.host_peak.total_bytes;
    say_memory(cli, &f, r->planned_bytes);
    size_t limit_bytes = limit_of(cli, a);
    if (r->planned_bytes <= limit_bytes) return PLIM_OK;
    plim_format_thousands(need, (int64_t)r->planned_bytes);
    plim_format_thousands(have, (int64_t)limit_bytes);
    return plim_fail(
        cli->ctx, PLIM_E_NOFIT,
        "a step of %lld tokens takes %s bytes; %s %s.  A smaller --seq, --tile or --loss-rows takes "
        "less; --dtype bf16 about half",
        (long long)o.seq_tokens, need,
        a->machine.budget_bytes ? "--budget allows" : "this machine has free:", have);
}

/* The options not named, for the memory of the card and of its host. */
static plim_status choose(plim_cli *cli, const plim_run_ask *a, const plim_setup *r, plim_choice *out)
{
    plim_planner *p = NULL;
    plim_limits limits = plim_limits_defaults();
    plim_options o = r->options;
    o.lora_targets = plim_model_targets(&r->spec, o.lora_targets);
    limits.pinned = a->step.pinned;
    limits.host_bytes = plim_machine_host_bytes(cli);
    TRY(plim_planner_open(cli->ctx, &r->spec, &p));
    plim_status st = plim_choose(p, &r->device.card, &o, &limits, out);
    plim_planner_close(p);
    return st;
}

static plim_status refuse(plim_cli *cli, const plim_choice *x)
{
    char need[PLIM_NUMBER_BYTES], have[PLIM_NUMBER_BYTES], tokens[PLIM_NUMBER_BYTES];
    bool host = x->shortage == PLIM_SHORT_OF_HOST;
    const plim_usage *peak = host ? &x->footprint.host_peak : &x->footprint.device_peak;
    return plim_fail(
        cli->ctx, PLIM_E_NOFIT,
        "a step of %s tokens takes %s GiB of %s; %s GiB may be used.  A smaller --seq takes less; "
        "plimsoll plan shows what fits which card",
        plim_format_count(tokens, x->options.seq_tokens), plim_format_bytes_gib(need, peak->total_bytes),
        host ? "the host" : x->card->id,
        plim_format_bytes_gib(have, host ? x->host_budget_bytes : x->budget_bytes));
}

static plim_status plan_card(plim_cli *cli, const plim_run_ask *a, plim_setup *r)
{
    plim_choice x;
    plim_footprint f;
    TRY(choose(cli, a, r, &x));
    if (x.verdict == PLIM_NO) return refuse(cli, &x);
    r->options = x.options;
    say_memory(cli, &x.footprint, x.footprint.device_peak.total_bytes + x.footprint.host_peak.total_bytes);
    plim_log_write(&cli->log, PLIM_LOG_INFO,
                   "%lld layer inputs on the host, %lld layers kept, attention output %s, tiles of %lld",
                   (long long)x.options.host_checkpoints, (long long)x.options.kept_layers,
                   x.options.keep_attention_output ? "kept" : "made again", (long long)x.options.tile_tokens);
    if (x.verdict == PLIM_TIGHT)
        plim_log_write(&cli->log, PLIM_LOG_WARN, "it fits the card without the usual margin");
    /* The arenas alone: the context is the driver's. */
    plim_options o = x.options;
    o.context_bytes = 0;
    TRY(plim_footprint_of(cli->ctx, &r->spec, &o, 1, &f, NULL, NULL));
    r->planned_bytes = f.device_peak.total_bytes + f.host_peak.total_bytes;
    return PLIM_OK;
}

plim_status plim_setup_plan(plim_cli *cli, const plim_run_ask *a, plim_setup *r)
{
    if (!a->machine.cuda) TRY(plan_cpu(cli, a, r));
    TRY(plim_run_machine_open(cli, &a->machine, &a->step, &r->device));
    return a->machine.cuda ? plan_card(cli, a, r) : PLIM_OK;
}

static void show(void *user, int64_t done, int64_t total)
{
    plim_progress *p = user;
    p->total = total / 1000000;
    plim_progress_update(p, done / 1000000);
}

plim_status plim_setup_open(plim_cli *cli, const plim_run_ask *a, plim_session_config g, plim_setup *r)
{
    plim_progress progress;
    char bytes[PLIM_NUMBER_BYTES];
    g.model = a->model;
    g.adapter = a->adapter;
    g.random_weights = a->random_weights;
    g.seed = (uint64_t)a->seed;
    g.options = r->options;
    g.progress = show;
    g.progress_user = &progress;
    plim_progress_open(&progress, &cli->log, plim_clock_monotonic(), "loading weights", "million", 0, 0);
    plim_status st = plim_session_open(cli->ctx, &r->device.machine, &g, &r->session);
    plim_progress_close(&progress);
    if (st) return st;
    plim_memory *m = &r->session->training.engine->memory;
    r->peak_bytes = plim_arena_peak(&m->device).total_bytes + plim_arena_peak(&m->host).total_bytes;
    plim_log_write(&cli->log, PLIM_LOG_INFO, "memory of a step: %s bytes taken%s",
                   plim_format_thousands(bytes, (int64_t)r->peak_bytes),
                   r->peak_bytes == r->planned_bytes ? ", as planned" : ", not as planned");
    return PLIM_OK;
}

size_t plim_setup_device_bytes(const plim_setup *r)
{
    const plim_machine *m = &r->device.machine;
    size_t free_bytes, total_bytes;
    if (!m->memory_info || m->memory_info(m->device, &free_bytes, &total_bytes)) return 0;
    return total_bytes - free_bytes;
}

void plim_setup_close(plim_cli *cli, plim_setup *r)
{
    plim_session_close(r->session);
    plim_run_machine_close(cli, &r->device);
    plim_samples_close(&r->samples);
    *r = (plim_setup){0};
}
