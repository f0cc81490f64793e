/* plimsoll_formula.h - how much memory other trainers need, by closed formulas.  Part of plimsoll.h. */
#ifndef PLIMSOLL_H
#include "plimsoll.h"
#endif

#ifndef PLIMSOLL_FORMULA_H
#define PLIMSOLL_FORMULA_H

#include "plimsoll_cards.h"

typedef enum plim_verdict {
    PLIM_FITS,  /* peak <= 92 % of the card */
    PLIM_TIGHT, /* <= 100 % */
    PLIM_NO,
} plim_verdict;

PLIM_API
const char *plim_verdict_name(plim_verdict v); /* "fits", "tight", "no"; "?" outside the enum */

/* One line of a fit table.  peak_gib is the sum of the five before it; host_gib is pinned host memory. */
typedef struct plim_formula_row {
    int64_t seq_tokens;
    bool host_checkpoints, full_logits;
    double weights_gib, lora_gib, checkpoints_gib, recompute_gib, loss_gib, peak_gib, host_gib;
} plim_formula_row;

/* The reference note's arithmetic.  rank and seq_tokens >= 1.
 *   weights      all parameters in the files, to 0.1 B, x 2 B
 *   LoRA         its parameters (note's count) to 1 M, x 10 B
 *   checkpoints  tokens x hidden x 2 B x layers; on the host when host_checkpoints
 *   recompute    tokens x MLP width x 2 x 4 B + 3 GiB
 *   loss         3 GiB in chunks, or tokens x vocabulary x 6 B */
PLIM_API
void plim_note_row(const plim_spec *s, int64_t rank, int64_t seq_tokens, bool host_checkpoints,
                   bool full_logits, plim_formula_row *out);

/* The unrounded peak in GiB against the card's nominal GB, as the note counts them. */
PLIM_API
plim_verdict plim_note_verdict(const plim_formula_row *row, const plim_card *card);

/* Time and money at the note's speed.  false: the note names no speed for this card. */
typedef struct plim_note_cost {
    double hours, usd;
} plim_note_cost;
PLIM_API
bool plim_note_cost_of(const plim_card *card, double tokens, plim_note_cost *out);

/* As the note prints them: hours with one decimal below five, else whole ("3.1", "9"); dollars whole
 * ("23"). */
PLIM_API
void plim_note_hours_text(double hours, char text[24]);
PLIM_API
void plim_note_usd_text(double usd, char text[24]);

/* A trainer on transformers and PEFT with gradient checkpointing and fused AdamW, as measured on one H200
 * (driver 580.159.04, CUDA 13.0, cuDNN 9.19, 2026-12-01) with a 27 B qwen3_5 model at rank 16, six runs of
 * 16,000 to 64,000 tokens; allocated memory within 3.1 %. weights      text parameters x 2 B LoRA         its
 * parameters x 16 B checkpoints  as the note's recompute    tokens x 629,000 B x MLP width / 17,408 loss 0 in
 * chunks, or tokens x vocabulary x 8.9 B */
PLIM_API
void plim_hf_row(const plim_spec *s, int64_t rank, int64_t seq_tokens, bool host_checkpoints,
                 bool full_logits, plim_formula_row *out);

/* The peak against the memory the driver reports, of all cards together. */
PLIM_API
plim_verdict plim_hf_verdict(const plim_formula_row *row, const plim_card *card);

#endif
