/* memtest_print.c - decides how a memory test reads on a terminal. */
#include "cli/memtest.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "cli/terminal.h"

static const char *number(char buf[PLIM_NUMBER_BYTES], const char *fmt_of_1, double x)
{
    if (!isfinite(x) || x < 0) snprintf(buf, PLIM_NUMBER_BYTES, "-");
    else if (*fmt_of_1 == 's') plim_format_duration(buf, x);
    else snprintf(buf, PLIM_NUMBER_BYTES, "%.3f", x);
    return buf;
}

/* Seconds of a step: the last one's. */
static double step_s(const plim_memtest_length *l)
{
    return l->steps ? l->step_s[l->steps - 1] : PLIM_MEMTEST_UNKNOWN;
}

void plim_memtest_print_forecast(plim_cli *cli, const plim_memtest_config *g, const plim_memtest_result *r,
                                 int64_t planned)
{
    char tokens[PLIM_NUMBER_BYTES], a[PLIM_NUMBER_BYTES], b[PLIM_NUMBER_BYTES], s[PLIM_NUMBER_BYTES],
        usd[64] = "";
    plim_log_write(&cli->log, PLIM_LOG_INFO, "%s on %s: budget %s, %lld steps a length", r->model, r->card,
                   plim_memtest_amount(a, r->budget_bytes), (long long)r->steps_wanted);
    for (int64_t i = 0; i < planned; i++) {
        const plim_memtest_length *l = &r->length[i];
        const plim_options *o = &l->options;
        plim_log_write(
            &cli->log, PLIM_LOG_INFO,
            "  %s tokens: planned %s, host %s (%s); %lld layers kept, %lld inputs on the host%s%s%s",
            plim_format_count(tokens, l->seq_tokens), plim_memtest_amount(a, l->planned_peak_bytes),
            plim_memtest_amount(b, l->host_peak_bytes), plim_verdict_name(l->verdict),
            (long long)o->kept_layers, (long long)o->host_checkpoints,
            l->expected_step_s >= 0 ? ", about " : "",
            l->expected_step_s >= 0 ? number(s, "s", l->expected_step_s) : "",
            l->expected_step_s >= 0 ? " a step" : "");
    }
    if (g->usd_per_h >= 0)
        snprintf(usd, sizeof usd, ", %.2f USD at %.2f an hour", r->expected_s / 3600 * g->usd_per_h,
                 g->usd_per_h);
    plim_log_write(&cli->log, PLIM_LOG_INFO, "expected: %s%s (products at %.4g TFLOP/s, memory at %.4g GB/s)",
                   number(s, "s", r->expected_s), usd, r->gemm_tflop_per_s, r->memory_gb_per_s);
}

void plim_memtest_print_length(plim_cli *cli, const plim_memtest_length *l, double left_s)
{
    char tokens[PLIM_NUMBER_BYTES], a[PLIM_NUMBER_BYTES], b[PLIM_NUMBER_BYTES], s[PLIM_NUMBER_BYTES],
        loss[PLIM_NUMBER_BYTES], left[PLIM_NUMBER_BYTES];
    plim_format_count(tokens, l->seq_tokens);
    if (l->verdict == PLIM_NO) {
        plim_log_write(&cli->log, PLIM_LOG_INFO, "%s tokens: no; %s", tokens, l->error);
        return;
    }
    plim_log_write(&cli->log, PLIM_LOG_INFO,
                   "%s tokens: %s; planned %s, measured %s, %s a step, %.0f tokens/s, loss %s; %s left",
                   tokens, plim_verdict_name(l->verdict), plim_memtest_amount(a, l->planned_peak_bytes),
                   plim_memtest_amount(b, l->measured_peak_bytes), number(s, "s", step_s(l)), l->tokens_per_s,
                   number(loss, "x", l->loss), number(left, "s", left_s));
}

static void row(plim_grid *grid, const plim_memtest_length *l)
{
    static const plim_shade shades[] = {PLIM_SHADE_GOOD, PLIM_SHADE_WARN, PLIM_SHADE_BAD};
    char text[PLIM_NUMBER_BYTES];
    int64_t taken = l->process_peak_bytes < 0 || l->process_before_bytes < 0 || !l->process_peak_reset
                        ? PLIM_MEMTEST_UNKNOWN
                        : l->process_peak_bytes - l->process_before_bytes;
    plim_grid_cell(grid, PLIM_SHADE_NONE, "%s", plim_format_count(text, l->seq_tokens));
    plim_grid_cell(grid, shades[l->verdict], "%s", plim_verdict_name(l->verdict));
    plim_grid_cell(grid, PLIM_SHADE_NONE, "%s", plim_memtest_amount(text, l->planned_peak_bytes));
    plim_grid_cell(grid, PLIM_SHADE_NONE, "%s", plim_memtest_amount(text, l->measured_peak_bytes));
    plim_grid_cell(grid, PLIM_SHADE_NONE, "%s", plim_memtest_amount(text, l->host_peak_bytes));
    plim_grid_cell(grid, PLIM_SHADE_NONE, "%s", plim_memtest_amount(text, taken));
    plim_grid_cell(grid, PLIM_SHADE_NONE, "%s", number(text, "s", step_s(l)));
    if (l->tokens_per_s >= 0) plim_grid_cell(grid, PLIM_SHADE_NONE, "%.0f", l->tokens_per_s);
    else plim_grid_cell(grid, PLIM_SHADE_NONE, "-");
    plim_grid_cell(grid, PLIM_SHADE_NONE, "%s", number(text, "x", l->loss));
}

plim_status plim_memtest_print(plim_cli *cli, const plim_memtest_result *r, FILE *to, bool colour)
{
    static const char *const heads[] = {"tokens",  "verdict", "planned",  "measured", "host",
                                        "process", "step",    "tokens/s", "loss"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    char text[PLIM_NUMBER_BYTES];
    plim_grid grid;
    plim_grid_open(&grid, cli->ctx, COLUMNS);
    for (int i = 0; i < COLUMNS; i++) plim_grid_cell(&grid, PLIM_SHADE_DIM, "%s", heads[i]);
    grid.left[1] = true;
    for (int64_t i = 0; i < r->length_count; i++) row(&grid, &r->length[i]);
    plim_status st = grid.status;
    if (!st) plim_grid_print(&grid, to, colour);
    plim_grid_close(&grid);
    if (st) return st;
    if (r->limit_tokens)
        fprintf(to, "\nlimit: %s tokens fit with margin\n", plim_format_count(text, r->limit_tokens));
    else fprintf(to, "\nlimit: none of these lengths fits with margin\n");
    if (r->failure.present) {
        fprintf(to, "%s", r->failure.error);
        if (r->failure.component >= 0)
            fprintf(to, "; %s: %s", plim_component_label((plim_component)r->failure.component),
                    plim_memtest_amount(text, r->failure.bytes));
        fprintf(to, "%s%s\n", r->failure.cure[0] ? "; what would help: " : "", r->failure.cure);
    }
    return PLIM_OK;
}
