/* report.h - the pieces of the HTML page of a plan, one file each.  All write through the page's writer,
 * whose first failure is sticky and reported when the page is committed. */
#ifndef PLIM_REPORT_REPORT_H
#define PLIM_REPORT_REPORT_H

#include "base/file.h"
#include "plimsoll_table.h"
#include "report/html_escape.h"

#define PLIM_REPORT_GIB 1073741824.0

typedef struct plim_report {
    plim_writer *w;
    const plim_table *t;
} plim_report;

/* ---- one cell of the fit table: a length on a card ----------------------------------------------------- */

typedef struct plim_report_cell {
    plim_verdict verdict;
    plim_shortage shortage;       /* plimsoll only */
    double peak_gib;              /* of one card; note, hf: of all together */
    double usable_gib, whole_gib; /* in the same sense; note: nominal GB, which it takes for GiB */
    double host_gib;
    double usd; /* what cheapest means: a million tokens, or an hour for note and hf */
} plim_report_cell;

plim_report_cell plim_report_cell_of(const plim_table *t, int64_t s, int64_t k);

/* The row of a length that needs least memory: what note and hf judge a cell by. */
int64_t plim_report_least_row(const plim_table *t, int64_t s);

/* The next card in ascending cost at length s, among those whose verdict is at most `worst`; after: the last
 * one returned, -1 at the start.  -1: no more. */
int64_t plim_report_next_cheapest(const plim_table *t, int64_t s, plim_verdict worst, int64_t after);

/* The longest length that card k carries with a verdict of at most `worst`: its index, -1 for none. */
int64_t plim_report_longest(const plim_table *t, int64_t k, plim_verdict worst);

/* ---- words --------------------------------------------------------------------------------------------- */

const char *plim_report_mark(plim_verdict v); /* a character that stands for the verdict without colour */
const char *plim_report_kernel(plim_attention_kernel k);
void plim_report_count(plim_report *r, int64_t n);             /* "64k" */
void plim_report_exact(plim_report *r, int64_t n);             /* "64,000" */
void plim_report_duration(plim_report *r, double s);           /* "4.2 s" */
void plim_report_verdict_cell(plim_report *r, plim_verdict v); /* a td: mark and word */

/* Opens a tbody whose first row names a length; the caller closes it. */
void plim_report_group(plim_report *r, int64_t seq_tokens, int columns);

/* Components of a peak as the page shows them: of a choice, or of a formula's row, whose recomputation takes
 * the place of PLIM_MEM_MLP. */
const char *plim_report_part_label(const plim_table *t, int m);

/* The legend of the components with shown[m]. */
void plim_report_legend(plim_report *r, const bool shown[PLIM_COMPONENT_COUNT]);

/* ---- sections ------------------------------------------------------------------------------------------ */

extern const char *const plim_report_style[]; /* html_style.c: the style sheet in pieces, ended by NULL */

void plim_report_answer(plim_report *r);   /* html_answer.c: who carries what, and the next step */
void plim_report_missing(plim_report *r);  /* html_answer.c: what rests on kernels that do not exist yet */
void plim_report_heat(plim_report *r);     /* html_heat.c: lengths by cards */
void plim_report_bars(plim_report *r);     /* svg_components.c: what a peak is made of */
void plim_report_timeline(plim_report *r); /* svg_timeline.c: memory over one step */
void plim_report_costs(plim_report *r);    /* html_costs.c: time and money, the load line */
void plim_report_options(plim_report *r);  /* html_options.c: the best options */
void plim_report_rows(plim_report *r);     /* html_options.c: the four fixed rows of every length */
void plim_report_sources(plim_report *r);  /* html_sources.c: where the cards' figures come from */

#endif
