/* The reference note: its components, its whole fit table, its hours and dollars. */
#include "plan/formula_support.h"

#include <math.h>
#include <stdlib.h>

#include "plan/formula.h"

#define RANK 16

/* The note prints one decimal; a printed figure stands for anything that rounds to it. */
static void check_printed(double found, double printed)
{
    if (fabs(found - printed) > 0.05) fail_msg("%.3f does not print as %.1f", found, printed);
}

TEST(components_are_the_notes)
{
    UNUSED_STATE;
    formula_fixture f = formula_open();
    plim_formula_row a, b;
    plim_note_row(&f.spec, RANK, 48000, false, false, &a);
    check_printed(a.weights_gib, 51.8);
    check_printed(a.lora_gib, 1.0);
    check_printed(a.checkpoints_gib, 29.3);
    check_printed(a.recompute_gib, 9.2);
    assert_true(a.loss_gib == 3.0 && a.host_gib == 0.0);
    plim_note_row(&f.spec, RANK, 64000, true, false, &b);
    check_printed(b.host_gib, 39.1);
    check_printed(b.recompute_gib, 11.3);
    assert_true(b.checkpoints_gib == 0.0);
    assert_true(fabs(b.peak_gib - 67) < 0.5);
    assert_int_equal(b.seq_tokens, 64000);
    assert_true(b.host_checkpoints && !b.full_logits);
    formula_close(&f);
}

/* 107,216,896 at rank 16: 108,789,760 less rank x 24 heads of 256 x 16 layers for the gate; to a million. */
TEST(lora_is_counted_without_the_gate)
{
    UNUSED_STATE;
    formula_fixture f = formula_open();
    plim_formula_row row;
    plim_note_row(&f.spec, RANK, 16000, true, false, &row);
    assert_true(fabs(row.lora_gib - 107e6 * 10 / PLIM_GIB) < 1e-9);
    plim_note_row(&f.spec, 64, 16000, true, false, &row);
    assert_true(fabs(row.lora_gib - 429e6 * 10 / PLIM_GIB) < 1e-9);
    f.spec.attention_gate = false; /* q_proj is then half as wide by itself */
    plim_note_row(&f.spec, 64, 16000, true, false, &row);
    assert_true(fabs(row.lora_gib - 429e6 * 10 / PLIM_GIB) < 1e-9);
    formula_close(&f);
}

/* One line of the table: tokens, checkpoints, loss, peak, a verdict for each card of the head line. */
static void check_line(formula_fixture *f, char *line, char cards[4][32])
{
    char where[16], loss[16], verdict[4][8];
    int tokens, peak;
    assert_int_equal(sscanf(line, "%d %15s %15s %d %7s %7s %7s %7s", &tokens, where, loss, &peak, verdict[0],
                            verdict[1], verdict[2], verdict[3]),
                     8);
    plim_formula_row row;
    plim_note_row(&f->spec, RANK, tokens, strcmp(where, "host") == 0, strcmp(loss, "full") == 0, &row);
    if ((int)lround(row.peak_gib) != peak) fail_msg("%s: peak %.2f", line, row.peak_gib);
    for (int i = 0; i < 4; i++) {
        const char *found = plim_verdict_name(plim_note_verdict(&row, formula_card(f, cards[i])));
        if (strcmp(found, verdict[i]))
            fail_msg("%s: %s gives %s at %.2f", line, cards[i], found, row.peak_gib);
    }
}

TEST(reproduces_all_sixteen_rows)
{
    UNUSED_STATE;
    formula_fixture f = formula_open();
    char *text = test_read(PLIM_TEST_DATA "/reference-fit-table.tsv", NULL), cards[4][32];
    int rows = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (line[0] == '#') continue;
        if (line[0] >= '0' && line[0] <= '9') {
            check_line(&f, line, cards);
            rows++;
        } else
            assert_int_equal(
                sscanf(line, "%*s %*s %*s %*s %31s %31s %31s %31s", cards[0], cards[1], cards[2], cards[3]),
                4);
    }
    assert_int_equal(rows, 16);
    free(text);
    formula_close(&f);
}

TEST(peaks_with_everything_on_the_device)
{
    UNUSED_STATE;
    formula_fixture f = formula_open();
    plim_formula_row row;
    plim_note_row(&f.spec, RANK, 64000, false, true, &row);
    assert_true(fabs(row.peak_gib - 192) < 0.5);
    assert_true(fabs(row.peak_gib - (row.weights_gib + row.lora_gib + row.checkpoints_gib +
                                     row.recompute_gib + row.loss_gib)) < 1e-9);
    formula_close(&f);
}

TEST(verdict_turns_at_92_and_100_per_cent)
{
    UNUSED_STATE;
    plim_card card = {.nominal_gb = 100, .memory_bytes = 1, .cards = 1};
    static const struct {
        double peak;
        plim_verdict want;
    } at[] = {{0, PLIM_FITS}, {92, PLIM_FITS}, {92.0001, PLIM_TIGHT}, {100, PLIM_TIGHT}, {100.0001, PLIM_NO}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        plim_formula_row row = {.peak_gib = at[i].peak};
        assert_int_equal(plim_note_verdict(&row, &card), at[i].want);
    }
    assert_string_equal(plim_verdict_name((plim_verdict)7), "?");
}

TEST(hours_and_dollars_are_the_notes)
{
    UNUSED_STATE;
    formula_fixture f = formula_open();
    static const struct {
        const char *card;
        double tokens;
        const char *hours, *usd;
    } rows[] = {{"a100", 3.3e6, "3.1", "8"},
                {"h200", 3.3e6, "1.4", "7"},
                {"a100", 10e6, "9", "23"},
                {"h200", 10e6, "4.3", "21"}};
    char text[24];
    plim_note_cost cost;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(plim_note_cost_of(formula_card(&f, rows[i].card), rows[i].tokens, &cost));
        plim_note_hours_text(cost.hours, text);
        assert_string_equal(text, rows[i].hours);
        plim_note_usd_text(cost.usd, text);
        assert_string_equal(text, rows[i].usd);
    }
    assert_false(plim_note_cost_of(formula_card(&f, "rtx-pro-6000"), 1e6, &cost));
    plim_note_hours_text(4.949, text);
    assert_string_equal(text, "4.9");
    plim_note_hours_text(4.96, text);
    assert_string_equal(text, "5");
    formula_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(components_are_the_notes),
        cmocka_unit_test(lora_is_counted_without_the_gate),
        cmocka_unit_test(reproduces_all_sixteen_rows),
        cmocka_unit_test(peaks_with_everything_on_the_device),
        cmocka_unit_test(verdict_turns_at_92_and_100_per_cent),
        cmocka_unit_test(hours_and_dollars_are_the_notes),
    };
    return RUN_TESTS(table);
}
