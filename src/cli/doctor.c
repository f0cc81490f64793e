/* doctor.c - `plimsoll doctor`: decides what is looked at, in which order, and that nothing found missing
 * ends the look. */
#include "cli/doctor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"

#define LINK_BYTES  ((int64_t)256 << 20)
#define LINK_ROUNDS 3

#define OPTIONS(X)                                                                                           \
    X(DEVICE, "device", "NAME", "the GPU to look at: cuda (default) or cuda:N; cpu: none")                   \
    X(JSON, "json", NULL, "the findings as JSON")

enum {
#define ENUM(id, name, value, help) OPTION_##id,
    OPTIONS(ENUM)
#undef ENUM
};

static const plim_cli_option options[] = {
#define ROW(id, name, value, help) {name, value, help},
    OPTIONS(ROW)
#undef ROW
        {NULL, NULL, NULL},
};

/* What was asked for would end with the context's message, which is taken over. */
static void refuse(plim_ctx *c, plim_doctor *d, const char *what)
{
    if (d->refusals < PLIM_DOCTOR_MOST)
        snprintf(d->refused[d->refusals++], PLIM_DOCTOR_TEXT, "%s: %s", what, plim_ctx_message(c));
    plim_ctx_clear(c);
}

/* ---- the CPU ----------------------------------------------------------------------------------------- */

static void look_at_cpu(plim_ctx *c, plim_doctor *d)
{
    plim_machine m = {0};
    d->cores = (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    d->memory_known = plim_machine_memory_read(c, "", &d->memory) == PLIM_OK;
    if (!d->memory_known) refuse(c, d, "a run without --budget");
    if (plim_machine_cpu(c, 0, &m)) refuse(c, d, "--device cpu");
    else snprintf(d->blas, sizeof d->blas, "%s", m.libraries);
    plim_machine_close(&m);
}

/* ---- the card ---------------------------------------------------------------------------------------- */

static void look_at_slots(const plim_machine *m, plim_doctor *d)
{
    int i = 0;
#define SLOT(slot_name, args)                                                                                \
    d->slot[i].name = #slot_name;                                                                            \
    d->slot[i].present = m->ops->slot_name != NULL;                                                          \
    d->missing += !d->slot[i++].present;
    PLIM_OPS_MAP(SLOT)
#undef SLOT
}

typedef plim_status (*transfer)(plim_device *d, plim_tensor from, plim_tensor to, int event);

/* GB/s of one direction; the first round, which maps and wakes things, is left out. */
static plim_status rate_of(const plim_machine *m, transfer move, plim_tensor from, plim_tensor to,
                           double *out_gb_per_s)
{
    plim_clock clock = plim_clock_monotonic();
    double start_s = 0;
    for (int i = 0; i <= LINK_ROUNDS; i++) {
        if (i == 1) start_s = plim_clock_now_s(clock);
        TRY(move(m->device, from, to, 0));
        TRY(m->ops->settle(m->device, 0));
    }
    double elapsed_s = plim_clock_now_s(clock) - start_s;
    if (elapsed_s > 0) *out_gb_per_s = LINK_ROUNDS * (double)LINK_BYTES / elapsed_s / 1e9;
    return PLIM_OK;
}

static plim_status measure_link(const plim_machine *m, plim_doctor *d)
{
    void *device = NULL, *host = NULL;
    plim_status st = m->alloc_device(m->device, (size_t)LINK_BYTES, &device);
    if (!st) st = m->alloc_host(m->device, (size_t)LINK_BYTES, &host);
    plim_tensor here = {host, PLIM_U8, 1, LINK_BYTES, LINK_BYTES},
                there = {device, PLIM_U8, 1, LINK_BYTES, LINK_BYTES};
    if (!st) st = rate_of(m, m->ops->fetch, here, there, &d->to_device_gb_per_s);
    if (!st) st = rate_of(m, m->ops->offload, there, here, &d->from_device_gb_per_s);
    m->free_device(m->device, device);
    m->free_host(m->device, host);
    return st;
}

static void look_at_entry(plim_ctx *c, plim_doctor *d)
{
    plim_cards cards = {0};
    plim_card card;
    if (plim_machine_like(c, &d->info, &cards, &card)) refuse(c, d, "a run without --card");
    else snprintf(d->entry, sizeof d->entry, "%s", card.id);
    plim_cards_close(c, &cards);
}

/* As a run would open it; and if that is refused, as far as it goes. */
static void look_into_card(plim_ctx *c, const plim_cuda_plugin *plugin, plim_doctor *d)
{
    plim_machine m = {0};
    plim_cuda_options o = {.ordinal = d->ordinal, .attention = PLIM_ATTENTION_CUDNN};
    look_at_entry(c, d);
    if (plugin->machine(c, &o, &m)) {
        refuse(c, d, "--device cuda");
        return;
    }
    look_at_slots(&m, d);
    if (m.attention) snprintf(d->attention, sizeof d->attention, "%s", m.attention);
    if (m.attention_kernel != PLIM_ATTENTION_CUDNN && d->refusals < PLIM_DOCTOR_MOST)
        snprintf(d->refused[d->refusals++], PLIM_DOCTOR_TEXT, "--attention cudnn: it would be %s",
                 d->attention);
    if (measure_link(&m, d)) refuse(c, d, "layer inputs on the host");
    plim_machine_close(&m);
}

static void look_at_card(plim_ctx *c, plim_doctor *d)
{
    plim_cuda_plugin plugin = {0};
    if (plim_cuda_plugin_open(c, &plugin)) {
        refuse(c, d, "--device cuda");
        return;
    }
    snprintf(d->plugin, sizeof d->plugin, "%s", plugin.path);
    d->have_card = plugin.describe(c, d->ordinal, &d->info) == PLIM_OK;
    if (d->have_card) look_into_card(c, &plugin, d);
    else refuse(c, d, "--device cuda");
    plim_cuda_plugin_close(&plugin);
}

/* ---- the command ------------------------------------------------------------------------------------- */

static plim_status read_arguments(plim_cli *cli, int argc, char **argv, plim_machine_ask *a, bool *json,
                                  int *code)
{
    plim_cli_walk walk = {.command = &plim_command_doctor, .cli = cli, .argc = argc, .argv = argv};
    const char *value = NULL;
    for (int option; (option = plim_cli_next(&walk, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP || option == PLIM_ARG_WRONG) {
            *code = option == PLIM_ARG_HELP ? PLIM_EXIT_DONE : PLIM_EXIT_USAGE;
            return PLIM_OK;
        }
        if (option == PLIM_ARG_OPERAND)
            return plim_fail(cli->ctx, PLIM_E_USAGE, "plimsoll doctor takes no '%s'; it looks at the machine",
                             value);
        if (option == OPTION_JSON) *json = true;
        else TRY(plim_machine_read_device(cli->ctx, value, a));
    }
    return PLIM_OK;
}

static plim_status doctor(plim_cli *cli, int argc, char **argv, int *code)
{
    static plim_doctor d; /* large; one a process */
    plim_machine_ask a = {.cuda = true};
    bool json = false;
    *code = -1;
    TRY(read_arguments(cli, argc, argv, &a, &json, code));
    if (*code >= 0) return PLIM_OK;
    *code = PLIM_EXIT_DONE;
    d = (plim_doctor){.ordinal = a.ordinal,
                      .to_device_gb_per_s = PLIM_DOCTOR_UNKNOWN,
                      .from_device_gb_per_s = PLIM_DOCTOR_UNKNOWN};
    look_at_cpu(cli->ctx, &d);
    if (a.cuda) look_at_card(cli->ctx, &d);
    if (json) return plim_doctor_json(cli->ctx, &d);
    plim_doctor_print(&d);
    return PLIM_OK;
}

static int run(plim_cli *cli, int argc, char **argv)
{
    int code = PLIM_EXIT_DONE;
    plim_status st = doctor(cli, argc, argv, &code);
    return st ? plim_cli_failed(cli, st) : code;
}

const plim_cli_command plim_command_doctor = {
    "doctor",
    "[options]",
    "what this machine has: CPU, GPU, driver, libraries, kernels; and what would be refused, and why\n\n"
    "Opens the GPU as a run would, and measures its host link with copies of 256 MiB.  Exit code 0 whatever\n"
    "is found: a machine without a GPU is a sound machine.",
    options,
    "  plimsoll doctor\n"
    "  plimsoll doctor --device cuda:1 --json\n",
    run,
};
