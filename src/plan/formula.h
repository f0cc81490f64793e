/* formula.h - what the closed formulas share: units, the sum of a row, the verdict. */
#ifndef PLIM_PLAN_FORMULA_H
#define PLIM_PLAN_FORMULA_H

#include "plimsoll_formula.h"

#define PLIM_GIB 1073741824.0

/* Layer inputs in GiB, put on the device or the host; fills the row's keys too. */
void plim_formula_checkpoints(const plim_spec *s, int64_t seq_tokens, bool host_checkpoints, bool full_logits,
                              plim_formula_row *row);
void plim_formula_sum(plim_formula_row *row);
plim_verdict plim_formula_verdict(double peak, double capacity);

#endif
