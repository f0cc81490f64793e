/* memtest.h - proves on the machine what the plan says: random weights from a config alone, a few optimiser
 * steps a length, in ascending order, until a length passes the budget.
 *
 * Three parts.  plim_memtest_rates measures a machine for the forecast; plim_memtest_plan chooses options
 * and walks them dry, length by length; plim_memtest_run takes the steps and keeps the result file. */
#ifndef PLIM_TRAIN_MEMTEST_H
#define PLIM_TRAIN_MEMTEST_H

#include "base/units.h"
#include "formats/memtest_result.h"
#include "train/session.h"

#define PLIM_MEMTEST_FITS_SHARE 0.92 /* of the budget; above it a length is tight */

typedef struct plim_memtest_config {
    const char *model; /* a config.json, or a folder that holds one; no weights are read */
    const plim_spec *spec;
    /* What is planned for: memory_bytes is the budget, the rates are for the forecast.  With shared_memory
     * device and host share that budget, and nothing is moved to the host that was not pinned there. */
    const plim_card *card;
    bool shared_memory;
    plim_limits limits; /* host_bytes, pinned; usable_share is not read */
    plim_options options;
    double normals_per_s; /* random weights, for the forecast; 0: they take no time */
    const int64_t *seq_tokens;
    int64_t seq_count; /* ascending, at most PLIM_MAX_LENGTHS */
    int64_t steps;     /* 1 .. PLIM_MEMTEST_MAX_STEPS */
    uint64_t seed;
    double usd_per_h, max_usd; /* PLIM_MEMTEST_UNKNOWN: none */
    int64_t available_bytes;   /* for the record; PLIM_MEMTEST_UNKNOWN: not looked at */
    const char *libraries;     /* for the record: plim_machine.libraries; "" before one is open */
    const char *path;          /* of the result file; NULL: none is written */
    const char *proc_root;     /* before /proc: machine_memory.h */
    plim_clock clock;
    /* NULL, or told what is going on: elements of random weights, a step taken, a length ended with the
     * seconds the rest is expected to take. */
    void (*see_weights)(void *user, int64_t done, int64_t total);
    void (*see_step)(void *user, const plim_memtest_length *l);
    void (*see_length)(void *user, const plim_memtest_length *l, double left_s);
    void *user;
} plim_memtest_config;

/* A forecast is as good as its rates: times a product of 512 x 512 x 512 and a copy of 16 MiB in act on m,
 * and random normals on the host.  Fills card's GEMM, attention and memory rates.  Attention is taken at
 * half the GEMM rate: its tiles are small products with exponentials between them.
 * Errors: PLIM_E_OOM_HOST, PLIM_E_OOM_DEVICE; those of the operations. */
plim_status plim_memtest_rates(plim_ctx *c, const plim_machine *m, plim_dtype act, plim_clock clock,
                               plim_card *card, double *normals_per_s);

/* What a length is expected to take: random weights, g->steps steps, one evaluation (a third of a step). */
double plim_memtest_expected_s(const plim_memtest_config *g, const plim_memtest_length *l);

/* Clears r and fills what is known before any planning.  Errors: PLIM_E_IO (the config), those of a date. */
plim_status plim_memtest_begin(plim_ctx *c, const plim_memtest_config *g, plim_memtest_result *r);

/* plim_memtest_begin; then length[0 .. *planned - 1] get options, planned peaks, verdicts and expected
 * step times, up to and with the first that says no.  length_count stays 0; expected_s is the sum.
 * Errors: PLIM_E_USAGE (a length too short for its documents or labels, no labels), those of
 * plim_footprint_of, PLIM_E_IO (the config), PLIM_E_OOM_HOST. */
plim_status plim_memtest_plan(plim_ctx *c, const plim_memtest_config *g, plim_memtest_result *r,
                              int64_t *planned);

/* The rates of m into *measured, a copy of g->card that g->card is set to (m NULL: g's card and its rates
 * hold, as for a card whose entry has them), then plim_memtest_plan.  What fails here is in the file too,
 * unless it is PLIM_E_USAGE. */
plim_status plim_memtest_prepare(plim_ctx *c, const plim_machine *m, plim_memtest_config *g,
                                 plim_card *measured, plim_memtest_result *r, int64_t *planned);

/* Runs what was planned: plim_memtest_plan with the same g came before.  The first step of the shortest
 * length is the warm-up of a card: every kernel of a step loads there, and the peaks that follow hold them.
 * The result is in r, and in the file after every length, whatever is returned. Returns PLIM_OK when at least
 * one length fitted and none failed; PLIM_E_NOFIT when the first length passes the budget, or the next one
 * max_usd; else what failed: PLIM_E_OOM_HOST, PLIM_E_OOM_DEVICE, PLIM_E_NUMERIC, PLIM_E_IO. */
plim_status plim_memtest_run(plim_ctx *c, const plim_machine *m, const plim_memtest_config *g,
                             plim_memtest_result *r, int64_t planned);

/* The name the file gets: memtest_<model>_<card>_<YYYYMMDDTHHMMSSZ>.json.  model: a path; its last part that
 * is not config.json, with everything but letters, digits, '.', '_' and '-' replaced by '-'. */
plim_status plim_memtest_file_name(plim_ctx *c, const char *model, const char *card,
                                   const char utc[PLIM_UTC_BYTES], char *buf, size_t cap);
/* That last part, into buf. */
void plim_memtest_model_name(const char *model, char *buf, size_t cap);

/* The sequence of step number step: token i is Philox(seed, FNV-1a "memtest.tokens") below vocab at 64-bit
 * word step * T + i; it is trained on when the double of stream "memtest.labels" there is below share (one
 * token is, at least).  ids [T], weights [T], start [documents + 1]: documents of equal length, one longer
 * where they do not divide. */
void plim_memtest_sequence(const plim_spec *s, const plim_options *o, uint64_t seed, int64_t step,
                           int32_t *ids, float *weights, int64_t *start);

/* Bytes for people: GiB to a tenth, MiB below one GiB, "-" when negative.  Fills buf and returns it. */
const char *plim_memtest_amount(char buf[PLIM_NUMBER_BYTES], int64_t bytes);

/* Why an option set does not fit and which option would cure it: memtest_cure.c. */
typedef struct plim_memtest_cure {
    int component; /* the largest that the cure shrinks; the largest of all where none does */
    int64_t bytes; /* of it */
    char text[160];
} plim_memtest_cure;
plim_status plim_memtest_find_cure(plim_ctx *c, const plim_memtest_config *g, const plim_options *o,
                                   plim_memtest_cure *out);

#endif
