/* plimsoll_search.h - how long a step takes, and which options are fastest among those that fit a card.
 * Part of plimsoll.h.  Predictions, from a stated roofline model: docs/speed-model.md. */
#ifndef PLIMSOLL_H
#include "plimsoll.h"
#endif

#ifndef PLIMSOLL_SEARCH_H
#define PLIMSOLL_SEARCH_H

#include "plimsoll_formula.h"
#include "plimsoll_plan.h"

/* ---- time ---------------------------------------------------------------------------------------------- */

/* One optimiser step of one sequence.  step_s = forward_s + backward_s + other_s: forward and backward are
 * each the larger of their work and of the copies over the host link beside it. */
typedef struct plim_step_time {
    double gemm_s, attention_s, delta_s, elementwise_s, loss_s; /* work, by kind */
    double recompute_s;            /* of that work, what only repeats the forward pass */
    double to_host_s, from_host_s; /* copies, beside the work */
    double link_wait_s;            /* copies that the work does not cover */
    double step_s, tokens_per_s;
} plim_step_time;

/* options: resolved, as plim_choose returns them or as given to plim_footprint_of. */
PLIM_API
void plim_step_time_of(const plim_spec *s, const plim_options *o, const plim_card *card, plim_step_time *out);

/* Arithmetic of one token: useful for a person who wants to check the rate. */
typedef struct plim_token_flop {
    double forward_gemm;      /* 2 x parameters of the products */
    double attention_per_key; /* forward, a visible key, all attention layers */
    double head_per_labelled; /* forward */
} plim_token_flop;
PLIM_API
plim_token_flop plim_token_flop_of(const plim_spec *s);

/* Runs are quoted as a range: the roofline, and the roofline at this share of its rates. */
#define PLIM_SLOW_SHARE 0.75

/* ---- choice -------------------------------------------------------------------------------------------- */

/* Options a person fixed; the others are searched. */
#define PLIM_PIN_MAP(X)                                                                                      \
    X(CHECKPOINTS)                                                                                           \
    X(KEPT_LAYERS)                                                                                           \
    X(ATTENTION_OUTPUT)                                                                                      \
    X(TILE)                                                                                                  \
    X(LOSS_ROWS)                                                                                             \
    X(EMBEDDING)                                                                                             \
    X(ATTENTION_KERNEL)

enum {
#define PLIM_PIN_ENUM(name) PLIM_PIN_INDEX_##name,
    PLIM_PIN_MAP(PLIM_PIN_ENUM)
#undef PLIM_PIN_ENUM
        PLIM_PIN_COUNT
};
enum {
#define PLIM_PIN_ENUM(name) PLIM_PIN_##name = 1u << PLIM_PIN_INDEX_##name,
    PLIM_PIN_MAP(PLIM_PIN_ENUM)
#undef PLIM_PIN_ENUM
};

typedef struct plim_limits {
    double usable_share; /* of the card's memory that counts as fitting; 0.92 */
    double host_share;   /* of the host's memory that may be pinned; 0.80 */
    int64_t host_bytes;  /* the host's memory; 0: as the card's entry says */
    uint32_t pinned;     /* PLIM_PIN_... */
} plim_limits;

PLIM_API
plim_limits plim_limits_defaults(void);

/* Why a cell says no. */
typedef enum plim_shortage { PLIM_SHORT_OF_NOTHING, PLIM_SHORT_OF_DEVICE, PLIM_SHORT_OF_HOST } plim_shortage;

typedef struct plim_choice {
    const plim_card *card;
    plim_verdict verdict; /* PLIM_NO: the options that need least are reported */
    plim_shortage shortage;
    plim_options options;
    plim_footprint footprint;
    plim_step_time time;
    size_t budget_bytes;      /* usable_share of one card's memory */
    size_t host_budget_bytes; /* host_share of the host's */
    double usd_per_million_tokens;
} plim_choice;

typedef struct plim_planner plim_planner;

/* Room for many choices of one model.  spec and cards must outlive it. */
PLIM_API
plim_status plim_planner_open(plim_ctx *c, const plim_spec *s, plim_planner **out);
PLIM_API
void plim_planner_close(plim_planner *p);

/* The fastest options for base->seq_tokens tokens on a card that fit with margin; else those that fit without
 * (tight); else verdict no.  base gives what limits->pinned names and what is not searched (rank, targets,
 * Adam bits, documents, labelled share).  Errors: as plim_footprint_of. */
PLIM_API
plim_status plim_choose(plim_planner *p, const plim_card *card, const plim_options *base,
                        const plim_limits *limits, plim_choice *out);

/* Verdict of one fixed set of options; nothing is searched but the card's kernel and context. */
PLIM_API
plim_status plim_judge(plim_planner *p, const plim_card *card, const plim_options *base,
                       const plim_limits *limits, plim_choice *out);

/* The longest length, a multiple of step_tokens up to most_tokens, that fits with margin; 0: none.  The load
 * line. */
PLIM_API
plim_status plim_longest(plim_planner *p, const plim_card *card, const plim_options *base,
                         const plim_limits *limits, int64_t step_tokens, int64_t most_tokens, int64_t *out);

/* ---- which kernels exist ------------------------------------------------------------------------------- */

/* Whether this version of plimsoll can run a step of the model on the card, and if not, what is missing, in
 * one phrase. */
PLIM_API
bool plim_card_runnable(const plim_spec *s, const plim_card *card, const char **missing);

#endif
