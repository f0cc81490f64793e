/* doctor.h - what `plimsoll doctor` found out about a machine. */
#ifndef PLIM_CLI_DOCTOR_H
#define PLIM_CLI_DOCTOR_H

#include "base/machine_memory.h"
#include "cli/run_machine.h"

#define PLIM_DOCTOR_MOST    8
#define PLIM_DOCTOR_TEXT    600
#define PLIM_DOCTOR_UNKNOWN (-1.0)

/* A kernel of the column: one slot of plim_ops. */
typedef struct plim_doctor_slot {
    const char *name;
    bool present;
} plim_doctor_slot;

#define PLIM_DOCTOR_COUNT(name, args) +1
enum { PLIM_DOCTOR_SLOTS = 0 PLIM_OPS_MAP(PLIM_DOCTOR_COUNT) };

typedef struct plim_doctor {
    /* the CPU */
    int64_t cores;
    plim_machine_memory memory;
    bool memory_known;
    char blas[256]; /* "": it did not open */
    /* the plug-in and the card */
    char plugin[1024]; /* "": none */
    bool have_card;
    plim_cuda_info info;
    int ordinal;
    char entry[PLIM_CARD_NAME_BYTES]; /* of cards.json it would be planned as; "": none */
    plim_doctor_slot slot[PLIM_DOCTOR_SLOTS];
    int64_t missing; /* slots without a kernel */
    char attention[256];
    double to_device_gb_per_s, from_device_gb_per_s; /* PLIM_DOCTOR_UNKNOWN */
    /* what would be refused, and why */
    char refused[PLIM_DOCTOR_MOST][PLIM_DOCTOR_TEXT];
    int64_t refusals;
} plim_doctor;

/* doctor_print.c */
void plim_doctor_print(const plim_doctor *d);
plim_status plim_doctor_json(plim_ctx *c, const plim_doctor *d);

#endif
