/* plimsoll_table.h - the whole answer of `plimsoll plan`: the fit table, the best options, time and money,
 * the load line and the next step.  One structure for the terminal, JSON and the HTML report.  Part of
 * plimsoll.h. */
#ifndef PLIMSOLL_H
#include "plimsoll.h"
#endif

#ifndef PLIMSOLL_TABLE_H
#define PLIMSOLL_TABLE_H

#include "plimsoll_search.h"

typedef enum plim_trainer {
    PLIM_TRAINER_PLIMSOLL, /* the layout itself */
    PLIM_TRAINER_NOTE,     /* the reference note's arithmetic */
    PLIM_TRAINER_HF,       /* closed form of a measured transformers + PEFT trainer */
} plim_trainer;

PLIM_API
const char *plim_trainer_name(plim_trainer t); /* "plimsoll", "note", "hf" */

/* Where layer inputs live x how the loss is computed: the four rows of a length, in this order. */
#define PLIM_ROWS_A_LENGTH 4
PLIM_API
const char *plim_row_checkpoints(int row); /* "host", "host", "device", "device" */
PLIM_API
const char *plim_row_loss(int row); /* "chunked", "full", ... */

/* What is to be trained: tokens a pass, and how they are cut into samples, when a statistics file says so. */
#define PLIM_MAX_LENGTHS 64
typedef struct plim_workload {
    double tokens;                           /* 0: not asked */
    double labelled_share;                   /* below 0: not known */
    int64_t longest_tokens;                  /* longest sample; 0: not known */
    int64_t lengths;                         /* buckets below, 0: none */
    int64_t bucket_tokens[PLIM_MAX_LENGTHS]; /* length of the samples of a bucket */
    double bucket_rows[PLIM_MAX_LENGTHS];    /* how many */
} plim_workload;

/* Reads a statistics file (docs/statistics.md).  Errors: PLIM_E_IO, PLIM_E_FORMAT, PLIM_E_RANGE. */
PLIM_API
plim_status plim_workload_load(plim_ctx *c, const char *path, plim_workload *out);
PLIM_API
plim_status plim_workload_parse(plim_ctx *c, const char *name, const char *text, size_t bytes,
                                plim_workload *out);

typedef struct plim_table_request {
    const char *model; /* as the person named it, for the next command */
    const plim_spec *spec;
    plim_trainer trainer;
    const plim_card *const *cards; /* in the order shown */
    int64_t card_count;
    const int64_t *seq_tokens; /* ascending */
    int64_t seq_count;
    plim_options base;
    plim_limits limits;
    plim_workload workload;
    const char *card_file; /* cards of the person's own, for the next command; NULL: none */
    bool load_line;        /* also the longest length of every card */
} plim_table_request;

/* One length x placement x loss with nothing else searched: comparable between trainers. */
typedef struct plim_table_row {
    int64_t seq_tokens;
    bool host_checkpoints, full_logits;
    double peak_gib,
        host_gib; /* plimsoll: the largest over the cards, each with its own kernel and context */
    double component_gib[PLIM_COMPONENT_COUNT]; /* plimsoll: of that peak */
    plim_formula_row formula;                   /* note, hf */
} plim_table_row;

/* Time and money of one pass over the workload, as a range. */
typedef struct plim_run {
    const plim_card *card;
    int64_t
        seq_tokens; /* length the run was reckoned at; 0: the statistics' own lengths, or a note's speed */
    double tokens;
    double hours, hours_slow, usd, usd_slow; /* note: both ends alike */
} plim_run;

/* The longest length of a card, by option set. */
typedef struct plim_load_line {
    const plim_card *card;
    int64_t best_tokens;                    /* anything searched */
    int64_t row_tokens[PLIM_ROWS_A_LENGTH]; /* the table's four rows */
} plim_load_line;

typedef enum plim_next_kind {
    PLIM_NEXT_MEMTEST,  /* prove it on the cheapest card that should carry it */
    PLIM_NEXT_ONE_CARD, /* only several cards carry it: test one of them first at what it carries */
    PLIM_NEXT_CHANGE,   /* nothing carries it: the nearest change that would */
} plim_next_kind;

typedef struct plim_next {
    plim_next_kind kind;
    const plim_choice *choice; /* the choice to prove; NULL with PLIM_NEXT_CHANGE, note and hf */
    char text[512];            /* a sentence */
    char command[1024];        /* "" if none */
} plim_next;

typedef struct plim_table {
    plim_table_request request; /* its arrays are the caller's */
    plim_counts counts;
    int64_t lora_parameters;
    plim_table_row *rows;   /* seq_count * PLIM_ROWS_A_LENGTH */
    plim_verdict *verdicts; /* [row * card_count + card] */
    double *peaks_gib;      /* the same order: the row's peak on that card */
    plim_choice *best;      /* [seq * card_count + card]; plimsoll only, else NULL */
    plim_run *runs;
    int64_t run_count;
    plim_load_line *lines;      /* card_count, or NULL */
    plim_choice focus;          /* the choice the timeline shows: what next proposes, at its longest length */
    plim_phase_usage *timeline; /* NULL without focus */
    size_t timeline_count;
    plim_next next;
    bool all_carried; /* every asked length fits some card */
} plim_table;

/* Works it all out.  fallback: cards beyond the request's to look at when a length fits none of them (may be
 * NULL). free accepts a zeroed table. */
PLIM_API
plim_status plim_table_make(plim_ctx *c, const plim_table_request *r, const plim_cards *fallback,
                            plim_table *out);
PLIM_API
void plim_table_free(plim_ctx *c, plim_table *t);

/* The table as JSON text, schema in docs/plan-json.md; release with plim_text_free. */
PLIM_API
plim_status plim_table_json(plim_ctx *c, const plim_table *t, char **out);
PLIM_API
void plim_text_free(plim_ctx *c, char *text);

/* One self-contained HTML page. */
PLIM_API
plim_status plim_table_html(plim_ctx *c, const plim_table *t, const char *path);

#endif
