/* run_machine.h - which machine a command runs on: the CPU, or a card through the CUDA plug-in; and the
 * card's entry that a run on it is planned with. */
#ifndef PLIM_CLI_RUN_MACHINE_H
#define PLIM_CLI_RUN_MACHINE_H

#include "cli/step_options.h"
#include "ops/cuda_plugin.h"

#define PLIM_DEVICE_OPTIONS(X)                                                                               \
    X(DEVICE, "device", "NAME", "where to run: cpu, cuda or cuda:N")                                         \
    X(CARD, "card", "NAME", "on a GPU: stay within this card's memory, which may be smaller")                \
    X(DETERMINISTIC, "deterministic", NULL, "on a GPU: the same bits every run (plimsoll's own attention)")

typedef struct plim_machine_ask {
    bool named, cuda;    /* --device was given; it says a card */
    int ordinal;         /* of the card */
    const char *card;    /* NULL: the entry that is most like the card there is */
    size_t budget_bytes; /* of the card's memory; 0: the entry's */
    bool deterministic;
    int64_t threads; /* of the CPU */
} plim_machine_ask;

/* "cpu", "cuda", "cuda:1".  Errors: PLIM_E_USAGE. */
plim_status plim_machine_read_device(plim_ctx *c, const char *value, plim_machine_ask *a);

/* A machine being opened, or open.  Zeroed: nothing is. */
typedef struct plim_run_machine {
    plim_machine machine;
    bool open;
    plim_cuda_plugin plugin;
    plim_cuda_info info; /* a card's */
    plim_cards cards;
    plim_card card;      /* planned for: rates and price of its entry, memory as far as there is, and what was
                          * already taken on the device, whoever took it, as its context */
    int64_t taken_bytes; /* of the whole device, once it was open */
} plim_run_machine;

/* Whether a GPU can be opened here at all; asks quietly. */
bool plim_machine_has_card(plim_ctx *c);

/* The entry of share/cards.json called name, of one card alone.  cards: closed by the caller. */
plim_status plim_machine_find_card(plim_ctx *c, const char *name, plim_cards *cards, plim_card *out);

/* The entry that is most like a card there is: of its capability and, within 8 %, its memory.
 * Errors: PLIM_E_USAGE (none is). */
plim_status plim_machine_like(plim_ctx *c, const plim_cuda_info *info, plim_cards *cards, plim_card *out);

/* Opens the CPU, or a card with the attention kernel that step pins, else its entry's; says which one it is.
 * Errors: PLIM_E_UNSUPPORTED (no plug-in; a kernel that this card cannot run), PLIM_E_CUDA (no driver, no
 * card), PLIM_E_NOFIT (--card or --budget name more than there is), PLIM_E_USAGE (no entry is like the card),
 * those of plim_cards_load and plim_machine_cpu. */
plim_status plim_run_machine_open(plim_cli *cli, const plim_machine_ask *a, const plim_step_ask *step,
                                  plim_run_machine *out);
void plim_run_machine_close(plim_cli *cli, plim_run_machine *m);

/* Bytes of the host that a run may pin; 0 when that is not known. */
int64_t plim_machine_host_bytes(plim_cli *cli);

#endif
