/* The transformers trainer's closed form against its six measured peaks. */
#include "plan/formula_support.h"

#include <math.h>

#define RANK 16

/* Allocated GiB: one H200, driver 580.159.04, CUDA 13.0, cuDNN 9.19, 2026-12-01; transformers 5.17.0, PEFT
 * 0.21.0. */
static const struct {
    int64_t tokens;
    bool host, full;
    double peak_gib;
} runs[] = {
    {16000, false, false, 73.1}, {16000, false, false, 73.1},  {16000, false, true, 105.9},
    {32000, true, false, 71.0},  {48000, false, false, 108.1}, {64000, true, false, 90.2},
};

TEST(within_3_1_per_cent_of_six_runs)
{
    UNUSED_STATE;
    formula_fixture f = formula_open();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        plim_formula_row row;
        plim_hf_row(&f.spec, RANK, runs[i].tokens, runs[i].host, runs[i].full, &row);
        double off = row.peak_gib / runs[i].peak_gib - 1;
        if (fabs(off) > 0.031) fail_msg("run %zu: %.2f GiB, %+.2f %%", i, row.peak_gib, 100 * off);
    }
    formula_close(&f);
}

TEST(components_add_up)
{
    UNUSED_STATE;
    formula_fixture f = formula_open();
    plim_formula_row row;
    plim_hf_row(&f.spec, RANK, 16000, true, true, &row);
    assert_true(fabs(row.weights_gib - 50.10) < 0.005);
    assert_true(fabs(row.lora_gib - 1.62) < 0.005);
    assert_true(row.checkpoints_gib == 0.0);
    /* 64 layers x 5120 x 2 B are 655,360 B a token */
    assert_true(fabs(row.host_gib - 16000.0 * 655360 / 1073741824) < 1e-9);
    assert_true(fabs(row.peak_gib - (row.weights_gib + row.lora_gib + row.recompute_gib + row.loss_gib)) <
                1e-9);
    f.spec.mlp /= 2;
    plim_formula_row half;
    plim_hf_row(&f.spec, RANK, 16000, true, true, &half);
    assert_true(fabs(2 * half.recompute_gib - row.recompute_gib) < 1e-9);
    formula_close(&f);
}

/* The measured runs fitted their 143,771 MiB; the A100's 80 GiB would not have held the 64,000-token one. */
TEST(judges_by_the_drivers_memory)
{
    UNUSED_STATE;
    formula_fixture f = formula_open();
    const plim_card *h200 = formula_card(&f, "h200"), *a100 = formula_card(&f, "a100"),
                    *two = formula_card(&f, "h200x2");
    plim_formula_row row;
    plim_hf_row(&f.spec, RANK, 64000, true, false, &row);
    assert_int_equal(plim_hf_verdict(&row, h200), PLIM_FITS);
    assert_int_equal(plim_hf_verdict(&row, a100), PLIM_NO);
    row.peak_gib = 0.92 * 143771.0 / 1024 + 0.01;
    assert_int_equal(plim_hf_verdict(&row, h200), PLIM_TIGHT);
    row.peak_gib = 143771.0 / 1024 + 0.01;
    assert_int_equal(plim_hf_verdict(&row, h200), PLIM_NO);
    assert_int_equal(plim_hf_verdict(&row, two), PLIM_FITS);
    formula_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(within_3_1_per_cent_of_six_runs),
        cmocka_unit_test(components_add_up),
        cmocka_unit_test(judges_by_the_drivers_memory),
    };
    return RUN_TESTS(table);
}
