/* Matrix products: the card against the CPU, all transpositions, views with pitch, odd sizes,
 * accumulation. */
#include "support/twin.h"

static void one(twin *t, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool accumulate, plim_dtype type,
                plim_dtype type_c)
{
    twin_tensor a = twin_random(t, type, ta ? k : m, ta ? m : k, 16, 1),
                b = twin_random(t, type, tb ? n : k, tb ? k : n, 0, 1);
    twin_tensor c = accumulate ? twin_random(t, type_c, m, n, 8, 1) : twin_output(t, type_c, m, n, 8);
    plim_gemm_args g = {a.host, b.host, c.host, ta, tb, accumulate, 0.5};
    CHECK_OK(t->ctx, t->cpu.ops->gemm(t->cpu.device, &g));
    g = (plim_gemm_args){a.dev, b.dev, c.dev, ta, tb, accumulate, 0.5};
    CHECK_OK(t->ctx, t->gpu.ops->gemm(t->gpu.device, &g));
    char what[128];
    snprintf(what, sizeof what, "gemm %lld x %lld x %lld ta %d tb %d acc %d", (long long)m, (long long)n,
             (long long)k, ta, tb, accumulate);
    twin_check_close(t, &c, type_c == PLIM_BF16 ? TWIN_BF16_STEP : 1e-4, what);
    twin_check_guards(t, &c, what);
    twin_free(t, &a);
    twin_free(t, &b);
    twin_free(t, &c);
}

TEST(products_match_the_cpu)
{
    TWIN(t);
    static const int64_t sizes[][3] = {{1, 8, 8},      {127, 64, 40}, {128, 128, 128},
                                       {257, 96, 328}, {64, 8, 1000}, {5, 520, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int flags = 0; flags < 8; flags++) {
            one(t, sizes[i][0], sizes[i][1], sizes[i][2], flags & 1, flags & 2, flags & 4, PLIM_BF16,
                PLIM_BF16);
            one(t, sizes[i][0], sizes[i][1], sizes[i][2], flags & 1, flags & 2, flags & 4, PLIM_BF16,
                PLIM_F32);
        }
}

TEST(wrong_shapes_are_refused)
{
    TWIN(t);
    twin_tensor a = twin_random(t, PLIM_BF16, 8, 8, 0, 1);
    plim_gemm_args g = {a.dev, a.dev, plim_tensor_cols(a.dev, 0, 4), false, false, false, 1};
    CHECK_FAILS(t->ctx, PLIM_E_SHAPE, t->gpu.ops->gemm(t->gpu.device, &g), "gemm");
    twin_free(t, &a);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(products_match_the_cpu),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(table, twin_open, twin_close);
}
