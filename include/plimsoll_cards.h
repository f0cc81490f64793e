/* plimsoll_cards.h - what a card is: memory, rates, host link, price, and where each figure comes from.
 * Part of plimsoll.h. */
#ifndef PLIMSOLL_H
#include "plimsoll.h"
#endif

#ifndef PLIMSOLL_CARDS_H
#define PLIMSOLL_CARDS_H

#define PLIM_CARD_MAX         1024 /* cards in one file */
#define PLIM_CARD_MAX_ALIASES 16
#define PLIM_CARD_NAME_BYTES  48 /* an id or an alias, with its closing zero */

/* Figures of a card: constant, key in a card file and field of plim_card, type, range (which also catches a
 * wrong unit), whether a card may go without.  Memory and rates are those of one card; nominal_gb,
 * host_ram_bytes and usd_per_h are those of all `cards` of them together. */
#define PLIM_FIGURE_MAP(X)                                                                                   \
    X(NOMINAL_GB, nominal_gb, double, 1, 100000, false)                                                      \
    X(MEMORY_BYTES, memory_bytes, int64_t, 1 << 30, INT64_C(1) << 44, false)                                 \
    X(RESERVED_BYTES, reserved_bytes, int64_t, 0, INT64_C(1) << 34, false)                                   \
    X(CONTEXT_BYTES, context_bytes, int64_t, 0, INT64_C(1) << 34, false)                                     \
    X(GEMM, gemm_bf16_tflop_per_s, double, 0.1, 100000, false)                                               \
    X(ATTENTION_FORWARD, attention_forward_tflop_per_s, double, 0.1, 100000, false)                          \
    X(ATTENTION_BACKWARD, attention_backward_tflop_per_s, double, 0.1, 100000, false)                        \
    X(MEMORY_RATE, memory_gb_per_s, double, 10, 1000000, false)                                              \
    X(HOST_LINK, host_link_gb_per_s, double, 0.1, 10000, false)                                              \
    X(BOTH_WAYS, both_ways_gb_per_s, double, 0.1, 20000, false)                                              \
    X(HOST_RAM, host_ram_bytes, int64_t, 1 << 30, INT64_C(1) << 50, false)                                   \
    X(PRICE, usd_per_h, double, 0, 100000, false)                                                            \
    X(NOTE_RATE, note_tokens_per_s, double, 0.1, 1000000000, true)

typedef enum plim_figure {
#define PLIM_FIGURE_ENUM(name, field, type, min, max, optional) PLIM_FIGURE_##name,
    PLIM_FIGURE_MAP(PLIM_FIGURE_ENUM)
#undef PLIM_FIGURE_ENUM
        PLIM_FIGURE_COUNT
} plim_figure;

/* How a figure is known. */
#define PLIM_BASIS_MAP(X)                                                                                    \
    X(GIVEN, "given")       /* a bare number in a user's own file */                                         \
    X(MEASURED, "measured") /* by plimsoll's authors */                                                      \
    X(REPORTED, "reported") /* by somebody else's machine */                                                 \
    X(DATASHEET, "datasheet")                                                                                \
    X(LISTED, "listed")     /* a price page */                                                               \
    X(NOTE, "note")         /* the reference note */                                                         \
    X(ESTIMATE, "estimate") /* the source gives the rule */

typedef enum plim_basis {
#define PLIM_BASIS_ENUM(name, text) PLIM_BASIS_##name,
    PLIM_BASIS_MAP(PLIM_BASIS_ENUM)
#undef PLIM_BASIS_ENUM
        PLIM_BASIS_COUNT
} plim_basis;

typedef struct plim_figure_source {
    plim_basis basis;
    char source[232]; /* "" with PLIM_BASIS_GIVEN */
    char date[12];    /* "2026-12-01" or "2026-12"; "" with PLIM_BASIS_GIVEN */
} plim_figure_source;

typedef struct plim_card {
    char id[PLIM_CARD_NAME_BYTES]; /* "h200-141" */
    char name[96];                 /* "NVIDIA H200 141 GB SXM" */
    char alias[PLIM_CARD_MAX_ALIASES][PLIM_CARD_NAME_BYTES];
    int32_t aliases;
    int32_t cards; /* how many stand together under this id */
    int32_t capability_major, capability_minor;
    plim_attention_kernel attention; /* with heads of 256; cuDNN has that backward on Hopper (9.0) alone */
    double nominal_gb;               /* as it is sold, 10^9; what the reference note judges by */
    int64_t memory_bytes;            /* as the driver reports it */
    int64_t reserved_bytes;          /* of those, what the driver keeps and no allocation gets */
    int64_t context_bytes;           /* CUDA context and libraries of one process */
    double gemm_bf16_tflop_per_s;    /* sustained */
    double attention_forward_tflop_per_s, attention_backward_tflop_per_s; /* causal, heads of 256 */
    double memory_gb_per_s;                        /* device copies, read plus written */
    double host_link_gb_per_s, both_ways_gb_per_s; /* one direction; sum of both at once */
    int64_t host_ram_bytes;
    double usd_per_h;
    double note_tokens_per_s; /* 0: the reference note names none */
    plim_figure_source source[PLIM_FIGURE_COUNT];
    uint32_t given; /* what the file said; for the library */
} plim_card;

/* A set of cards.  Zeroed: empty. */
typedef struct plim_cards {
    plim_card *card;
    int64_t count;
} plim_cards;

PLIM_API
const char *plim_figure_key(plim_figure f); /* "usd_per_h"; "?" outside the enum */
PLIM_API
const char *plim_basis_name(plim_basis b); /* "measured"; "?" outside the enum */

/* Reads a card file (docs/cards.md).  A card may leave keys out when it is meant to change a card of another
 * set. close releases and zeroes; an empty set is fine. Errors: PLIM_E_IO, PLIM_E_FORMAT (not JSON, an
 * unknown key, a wrong type, a name twice), PLIM_E_RANGE (a figure out of range or of the wrong unit),
 * PLIM_E_UNSUPPORTED (cuDNN attention off Hopper), PLIM_E_OOM_HOST. */
PLIM_API
plim_status plim_cards_load(plim_ctx *c, const char *path, plim_cards *out);
PLIM_API
void plim_cards_close(plim_ctx *c, plim_cards *cards);

/* The same from memory; name is used in messages. */
PLIM_API
plim_status plim_cards_parse(plim_ctx *c, const char *name, const char *text, size_t bytes, plim_cards *out);

/* base with over's cards on top: a known id changes the keys it gives, a new id is added and must be whole.
 * Errors: PLIM_E_FORMAT (a new card lacks keys, a name twice), PLIM_E_RANGE, PLIM_E_UNSUPPORTED (a mixed card
 * contradicts itself), PLIM_E_OOM_HOST. */
PLIM_API
plim_status plim_cards_merge(plim_ctx *c, const plim_cards *base, const plim_cards *over, plim_cards *out);

/* The card with this id or alias; upper and lower case, '_', ' ' and '-' are alike.  *out points into cards.
 * Errors: PLIM_E_USAGE (none; the message lists the ids and the nearest name), PLIM_E_FORMAT (it lacks
 * keys). */
PLIM_API
plim_status plim_cards_find(plim_ctx *c, const plim_cards *cards, const char *name, const plim_card **out);

#endif
