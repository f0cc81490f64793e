/* AdamW: the code books, 8-bit and full moments against plain loops, and the steps that must not happen. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/adam_codebook.h"
#include "ops/cpu/cpu.h"
#include "reference/delta_io.h"
#include "reference/delta_ops.h"

/* One tensor with its moments; coded chooses 8-bit. */
typedef struct adam {
    plim_adamw_args a;
    int64_t n;
} adam;

static adam adam_open(plim_dtype stat, bool coded, int64_t rows, int64_t cols, int64_t gap)
{
    const int64_t n = rows * cols, blocks = (n + PLIM_ADAM_BLOCK - 1) / PLIM_ADAM_BLOCK;
    double *zero = calloc((size_t)n, sizeof *zero), *code = calloc((size_t)n, sizeof *code);
    for (int64_t i = 0; i < n; i++) code[i] = PLIM_ADAM_ZERO_SIGNED;
    adam s = {.n = n,
              .a = {.param = io_make(stat, rows, cols, gap, zero),
                    .grad = io_make(stat, rows, cols, gap + 1, zero),
                    .m = io_make(coded ? PLIM_U8 : stat, 1, n, 0, coded ? code : zero),
                    .v = io_make(coded ? PLIM_U8 : stat, rows, cols, gap, zero),
                    .learning_rate = 1e-2,
                    .beta1 = 0.9,
                    .beta2 = 0.999,
                    .eps = 1e-8,
                    .grad_scale = 1}};
    if (coded) {
        s.a.m_max = io_make(PLIM_F32, 1, blocks, 2, zero);
        s.a.v_max = io_make(PLIM_F32, 1, blocks, 2, zero);
    }
    free(zero), free(code);
    return s;
}

static void adam_close(adam *s)
{
    plim_tensor views[] = {s->a.param, s->a.grad, s->a.m, s->a.v, s->a.m_max, s->a.v_max};
    for (int i = 0; i < 6; i++) {
        if (views[i].data) assert_true(io_guarded(views[i]));
        io_free(views[i]);
    }
}

static void set(plim_tensor t, const double *x)
{
    for (int64_t i = 0; i < t.rows * t.cols; i++) {
        const int64_t at = i / t.cols * t.pitch + i % t.cols;
        if (t.dtype == PLIM_F64) ((double *)t.data)[at] = x[i];
        else ((float *)t.data)[at] = (float)x[i];
    }
}

static plim_status step(ops_fixture *f, adam *s, const double *grad, int64_t k)
{
    set(s->a.grad, grad);
    s->a.step = k;
    return plim_cpu_adamw(f->d, &s->a);
}

static plim_adam_book book(bool with_sign)
{
    plim_adam_book b;
    plim_adam_book_make(&b, with_sign);
    return b;
}

TEST(code_books_are_the_published_ones)
{
    UNUSED_STATE;
    const plim_adam_book s = book(true), u = book(false);
    for (int i = 0; i < 255; i++) {
        assert_true(s.value[i] < s.value[i + 1] && u.value[i] < u.value[i + 1]);
        assert_true(s.value[i] < s.middle[i] && s.middle[i] < s.value[i + 1]);
    }
    assert_true(s.value[127] == 0 && s.value[255] == 1 && u.value[0] == 0 && u.value[255] == 1);
    assert_true(s.value[0] == -0.99296875f && s.value[254] == 0.99296875f && s.value[128] == 5.5e-7f);
    assert_true(u.value[1] == 3.25e-7f && u.value[254] == 0.996484375f);
    for (int i = 0; i < 127; i++) assert_true(s.value[i] == -s.value[254 - i]);
    int decades_s[8] = {0}, decades_u[8] = {0}; /* values in [10^(i - 7), 10^(i - 6)) */
    for (int i = 0; i < 255; i++)
        for (int e = 0; e < 7; e++) {
            const double low = pow(10, e - 7), high = pow(10, e - 6);
            decades_s[e] += (double)s.value[i] >= low && (double)s.value[i] < high;
            decades_u[e] += (double)u.value[i] >= low && (double)u.value[i] < high;
        }
    for (int e = 0; e < 7; e++) {
        assert_int_equal(decades_s[e], 1 << e);
        assert_int_equal(decades_u[e], 2 << e);
    }
}

static int nearest(const plim_adam_book *b, double x)
{
    int best = 0;
    for (int i = 1; i < 256; i++)
        if (fabs((double)b->value[i] - x) < fabs((double)b->value[best] - x)) best = i;
    return best;
}

TEST(codes_are_nearest_keep_signs_and_never_lose_a_moment)
{
    UNUSED_STATE;
    const plim_adam_book s = book(true), u = book(false);
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        const float x = (float)((i % 2 ? 1 : -1) * pow(10, -8 * io_uniform(&seed)));
        const int got = plim_adam_nearest(&s, x), want = nearest(&s, (double)x);
        assert_true(got == want ||
                    fabs(fabs((double)(s.value[got] - x)) - fabs((double)(s.value[want] - x))) < 1e-8);
        assert_int_equal(plim_adam_nearest(&u, fabsf(x)) - nearest(&u, (double)fabsf(x)), 0);
        const float m = s.value[plim_adam_code_m(&s, x * 3, 3)],
                    v = u.value[plim_adam_code_v(&u, fabsf(x) * 3, 3)];
        assert_true(x > 0 ? m >= 0 : m < 0);
        assert_true(v > 0);
    }
    for (int i = 0; i < 256; i++) { /* a value is its own code */
        assert_int_equal(plim_adam_nearest(&s, s.value[i]), i);
        assert_int_equal(plim_adam_nearest(&u, u.value[i]), i);
    }
    assert_int_equal(plim_adam_code_m(&s, 0, 1), 127);
    assert_int_equal(plim_adam_code_v(&u, 0, 1), 0);
    assert_int_equal(plim_adam_code_v(&u, 1e-30f, 1), 1);
    assert_int_equal(plim_adam_code_m(&s, -1e-30f, 1), 126);
}

/* m / (1 - beta1^k) and so on, as papers write it. */
TEST(full_moments_equal_the_textbook)
{
    UNUSED_STATE;
    static const int64_t shapes[][2] = {{1, 1}, {1, 255}, {1, 256}, {3, 86}, {11, 100}};
    ops_fixture f = ops_open(2);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            adam s = adam_open(ops_dtypes[k].stat, false, shapes[i][0], shapes[i][1], 3);
            const int64_t n = s.n;
            uint64_t seed = i;
            double *p = ops_normals(ops_dtypes[k].stat, n, 1, &seed), *m = calloc((size_t)n, sizeof *m);
            double *v = calloc((size_t)n, sizeof *v);
            set(s.a.param, p);
            s.a.weight_decay = 0.1, s.a.grad_scale = 0.5;
            for (int t = 1; t <= 20; t++) {
                double *g = ops_normals(ops_dtypes[k].stat, n, 1, &seed);
                CHECK_OK(f.c, step(&f, &s, g, t));
                for (int64_t j = 0; j < n; j++) {
                    m[j] = 0.9 * m[j] + 0.1 * (0.5 * g[j]);
                    v[j] = 0.999 * v[j] + 0.001 * (0.5 * g[j]) * (0.5 * g[j]);
                    p[j] -= 1e-2 * (m[j] / (1 - pow(0.9, t))) / (sqrt(v[j] / (1 - pow(0.999, t))) + 1e-8);
                    p[j] -= 1e-2 * 0.1 * p[j];
                }
                free(g);
            }
            double *got = io_copy(s.a.param);
            assert_true(io_error(got, p, n) <= (k ? 1e-6 : 1e-13));
            free(got), free(p), free(m), free(v);
            adam_close(&s);
        }
    ops_close(&f);
}

/* 8-bit moments the slow way: brute-force codes, value times maximum.  guard false: the published rule. */
typedef struct plain {
    int64_t n;
    double *p;
    uint8_t *m, *v;
    float *m_max, *v_max;
    bool guard;
} plain;

static plain plain_open(int64_t n, bool guard)
{
    plain s = {n,
               calloc((size_t)n, sizeof(double)),
               malloc((size_t)n),
               calloc((size_t)n, 1),
               calloc((size_t)n, sizeof(float)),
               calloc((size_t)n, sizeof(float)),
               guard};
    memset(s.m, PLIM_ADAM_ZERO_SIGNED, (size_t)n);
    return s;
}

static void plain_close(plain *s)
{
    free(s->p), free(s->m), free(s->v), free(s->m_max), free(s->v_max);
}

/* Returns the largest step in units of the learning rate. */
static double plain_step(plain *s, const double *g, int k, double lr)
{
    const plim_adam_book book_m = book(true), book_v = book(false);
    const double c1 = 1 - pow(0.9, k), c2 = 1 - pow(0.999, k);
    double largest = 0;
    for (int64_t at = 0; at < s->n; at += 256) {
        const int64_t end = at + 256 < s->n ? at + 256 : s->n;
        float m[256], v[256], top_m = 0, top_v = 0;
        for (int64_t i = at; i < end; i++) {
            const double old_m = (double)(float)((double)book_m.value[s->m[i]] * (double)s->m_max[at / 256]);
            const double old_v = (double)(float)((double)book_v.value[s->v[i]] * (double)s->v_max[at / 256]);
            m[i - at] = (float)(0.9 * old_m + (1 - 0.9) * g[i]);
            v[i - at] = (float)(0.999 * old_v + (1 - 0.999) * g[i] * g[i]);
            top_m = fmaxf(top_m, fabsf(m[i - at])), top_v = fmaxf(top_v, v[i - at]);
            const double move = (double)m[i - at] / c1 / (sqrt((double)v[i - at] / c2) + 1e-8);
            if (fabs(move) > largest) largest = fabs(move);
            s->p[i] = (double)(float)(s->p[i] - lr * move);
        }
        for (int64_t i = at; i < end; i++) {
            const float x = m[i - at] / top_m, y = v[i - at] / top_v;
            s->m[i] = top_m > 0 ? (uint8_t)nearest(&book_m, (double)x) : 127;
            s->v[i] = top_v > 0 ? (uint8_t)nearest(&book_v, (double)y) : 0;
            if (m[i - at] < 0 && s->m[i] == 127) s->m[i] = 126;
            if (s->guard && v[i - at] > 0 && s->v[i] == 0) s->v[i] = 1;
        }
        s->m_max[at / 256] = top_m, s->v_max[at / 256] = top_v;
    }
    return largest;
}

/* Every code and maximum after 30 steps; the last block is short. */
TEST(eight_bit_moments_equal_plain_loops)
{
    UNUSED_STATE;
    static const int64_t shapes[][2] = {{1, 5}, {1, 256}, {17, 61}, {41, 103}};
    ops_fixture f = ops_open(2);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        adam s = adam_open(PLIM_F32, true, shapes[i][0], shapes[i][1], 5);
        plain want = plain_open(s.n, true);
        uint64_t seed = i;
        for (int k = 1; k <= 30; k++) {
            double *g = ops_normals(PLIM_F32, s.n, 1, &seed);
            CHECK_OK(f.c, step(&f, &s, g, k));
            plain_step(&want, g, k, 1e-2);
            free(g);
        }
        double *p = io_copy(s.a.param), *m = io_copy(s.a.m), *v = io_copy(s.a.v);
        double *m_max = io_copy(s.a.m_max), *v_max = io_copy(s.a.v_max);
        assert_true(io_error(p, want.p, s.n) <= 1e-6);
        for (int64_t j = 0; j < s.n; j++) {
            assert_int_equal(m[j], want.m[j]);
            assert_int_equal(v[j], want.v[j]);
            assert_true(m_max[j / 256] == (double)want.m_max[j / 256] &&
                        v_max[j / 256] == (double)want.v_max[j / 256]);
        }
        free(p), free(m), free(v), free(m_max), free(v_max);
        plain_close(&want), adam_close(&s);
    }
    ops_close(&f);
}

/* Gradient sizes spread over six decades inside a block.  The published rule stores small second moments as 0
 * and then steps by thousands of learning rates; the guard stays within twice the steps of full moments. */
TEST(small_second_moments_do_not_explode)
{
    UNUSED_STATE;
    enum { N = 1024, STEPS = 300 };
    ops_fixture f = ops_open(2);
    adam coded = adam_open(PLIM_F32, true, 1, N, 0), full = adam_open(PLIM_F32, false, 1, N, 0);
    plain published = plain_open(N, false);
    double size[N], g[N], before[3][N], now[N], largest[2] = {0}, worst = 0;
    uint64_t seed = 20260;
    for (int i = 0; i < N; i++) size[i] = pow(10, -6 * io_uniform(&seed));
    coded.a.learning_rate = full.a.learning_rate = 1;
    memset(before, 0, sizeof before);
    for (int k = 1; k <= STEPS; k++) {
        for (int i = 0; i < N; i++) g[i] = size[i] * io_normal(&seed);
        io_round(PLIM_F32, g, N);
        adam *s[2] = {&coded, &full};
        for (int j = 0; j < 2; j++) {
            set(s[j]->a.param, before[2]); /* from 0 each time: the parameter is the step */
            CHECK_OK(f.c, step(&f, s[j], g, k));
            io_read(s[j]->a.param, now);
            for (int i = 0; i < N; i++) largest[j] = fmax(largest[j], fabs(now[i]));
        }
        worst = fmax(worst, plain_step(&published, g, k, 0));
    }
    assert_true(worst > 1000);
    assert_true(largest[0] <= 2 * largest[1] && largest[1] < 2);
    plain_close(&published), adam_close(&coded), adam_close(&full);
    ops_close(&f);
}

static void same_bits(plim_tensor a, plim_tensor b)
{
    double *x = io_copy(a), *y = io_copy(b);
    assert_memory_equal(x, y, (size_t)(a.rows * a.cols) * sizeof *x);
    free(x), free(y);
}

/* Fresh memory is all zero bytes; with a maximum of 0 every code means 0. */
TEST(zero_filled_states_are_zero_moments)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    adam a = adam_open(PLIM_F32, true, 1, 300, 0), b = adam_open(PLIM_F32, true, 1, 300, 0);
    memset(b.a.m.data, 0, 300);
    uint64_t seed = 11;
    double *g = ops_normals(PLIM_F32, 300, 1, &seed);
    for (int i = 0; i < 50; i++) g[i] = 0;
    CHECK_OK(f.c, step(&f, &a, g, 1));
    CHECK_OK(f.c, step(&f, &b, g, 1));
    same_bits(a.a.param, b.a.param), same_bits(a.a.m, b.a.m), same_bits(a.a.v, b.a.v);
    free(g), adam_close(&a), adam_close(&b);
    ops_close(&f);
}

TEST(coordinates_without_gradient_stay)
{
    UNUSED_STATE;
    enum { N = 600 };
    ops_fixture f = ops_open(2);
    for (int coded = 0; coded < 2; coded++) {
        adam s = adam_open(PLIM_F32, coded, 1, N, 0);
        s.a.weight_decay = 0.1;
        uint64_t seed = 3;
        for (int k = 1; k <= 500; k++) {
            double *g = ops_normals(PLIM_F32, N, 1, &seed);
            for (int i = 0; i < N; i++)
                if (i % 3 == 0 || i >= 512) g[i] = 0; /* some of a block, and all of the last */
            CHECK_OK(f.c, step(&f, &s, g, k));
            free(g);
        }
        double p[N];
        io_read(s.a.param, p);
        for (int i = 0; i < N; i++) assert_true(i % 3 == 0 || i >= 512 ? p[i] == 0 : p[i] != 0);
        if (coded) {
            assert_int_equal(((uint8_t *)s.a.m.data)[N - 1], PLIM_ADAM_ZERO_SIGNED);
            assert_int_equal(((uint8_t *)s.a.v.data)[N - 1], PLIM_ADAM_ZERO_UNSIGNED);
            assert_true(((float *)s.a.m_max.data)[2] == 0 && ((float *)s.a.v_max.data)[2] == 0);
        }
        adam_close(&s);
    }
    ops_close(&f);
}

TEST(eight_bit_moments_train_as_well)
{
    UNUSED_STATE;
    enum { N = 5000 };
    ops_fixture f = ops_open(2);
    double error[2] = {0};
    for (int coded = 0; coded < 2; coded++) {
        adam s = adam_open(PLIM_F32, coded, 1, N, 0);
        s.a.learning_rate = 2e-2;
        uint64_t seed = 5;
        double *target = ops_normals(PLIM_F32, N, 1, &seed), *p = calloc(N, sizeof *p),
               *g = calloc(N, sizeof *g);
        for (int k = 1; k <= 300; k++) {
            for (int i = 0; i < N; i++) g[i] = p[i] - target[i] + 0.1 * io_normal(&seed);
            CHECK_OK(f.c, step(&f, &s, g, k));
            io_read(s.a.param, p);
        }
        for (int i = 0; i < N; i++) error[coded] += (p[i] - target[i]) * (p[i] - target[i]) / N;
        free(target), free(p), free(g), adam_close(&s);
    }
    assert_true(error[0] < 1e-2 && error[1] < 2 * error[0]);
    ops_close(&f);
}

TEST(threads_change_no_bit)
{
    UNUSED_STATE;
    ops_fixture one = ops_open(1), three = ops_open(3);
    adam a = adam_open(PLIM_F32, true, 1, 50001, 0), b = adam_open(PLIM_F32, true, 1, 50001, 0);
    uint64_t seed = 7;
    for (int k = 1; k <= 3; k++) {
        double *g = ops_normals(PLIM_F32, a.n, 1, &seed);
        CHECK_OK(one.c, step(&one, &a, g, k));
        CHECK_OK(three.c, step(&three, &b, g, k));
        free(g);
    }
    same_bits(a.a.param, b.a.param), same_bits(a.a.m, b.a.m), same_bits(a.a.v, b.a.v);
    same_bits(a.a.m_max, b.a.m_max), same_bits(a.a.v_max, b.a.v_max);
    adam_close(&a), adam_close(&b);
    ops_close(&three), ops_close(&one);
}

TEST(a_bad_gradient_changes_nothing)
{
    UNUSED_STATE;
    enum { N = 700 };
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1e30};
    ops_fixture f = ops_open(2);
    for (int coded = 0; coded < 2; coded++) {
        adam s = adam_open(PLIM_F32, coded, 7, 100, 2), same = adam_open(PLIM_F32, coded, 7, 100, 2);
        uint64_t seed = 9;
        double *g = ops_normals(PLIM_F32, N, 1, &seed);
        CHECK_OK(f.c, step(&f, &s, g, 1));
        CHECK_OK(f.c, step(&f, &same, g, 1));
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            const double kept = g[601];
            g[601] = bad[i];
            CHECK_FAILS(f.c, PLIM_E_NUMERIC, step(&f, &s, g, 2), "adamw", "element 601",
                        "nothing was changed");
            g[601] = kept;
        }
        same_bits(s.a.param, same.a.param), same_bits(s.a.m, same.a.m), same_bits(s.a.v, same.a.v);
        if (coded) same_bits(s.a.m_max, same.a.m_max), same_bits(s.a.v_max, same.a.v_max);
        CHECK_OK(f.c, step(&f, &s, g, 2));
        free(g), adam_close(&s), adam_close(&same);
    }
    ops_close(&f);
}

TEST(refuses_what_it_cannot_do)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    adam s = adam_open(PLIM_F32, true, 3, 100, 0);
    plim_adamw_args a = s.a;
    CHECK_FAILS(f.c, PLIM_E_RANGE, plim_cpu_adamw(f.d, &a), "step 0");
    a.step = 1, a.beta2 = 1;
    CHECK_FAILS(f.c, PLIM_E_RANGE, plim_cpu_adamw(f.d, &a), "betas 0.9 1");
    a.beta2 = 0.999, a.eps = 0;
    CHECK_FAILS(f.c, PLIM_E_RANGE, plim_cpu_adamw(f.d, &a), "eps 0");
    a.eps = 1e-8, a.m_max.cols = 1;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_adamw(f.d, &a), "m_max has 1", "wanted 2");
    a = s.a, a.step = 1, a.m = s.a.param;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_adamw(f.d, &a), "m is F32", "U8");
    a = s.a, a.step = 1, a.param.dtype = PLIM_BF16;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_adamw(f.d, &a), "param is BF16");
    a = s.a, a.step = 1, a.grad.cols = 99;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_adamw(f.d, &a), "grad is 3 x 99");
    adam_close(&s);
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(code_books_are_the_published_ones),
        cmocka_unit_test(codes_are_nearest_keep_signs_and_never_lose_a_moment),
        cmocka_unit_test(full_moments_equal_the_textbook),
        cmocka_unit_test(eight_bit_moments_equal_plain_loops),
        cmocka_unit_test(small_second_moments_do_not_explode),
        cmocka_unit_test(zero_filled_states_are_zero_moments),
        cmocka_unit_test(coordinates_without_gradient_stay),
        cmocka_unit_test(eight_bit_moments_train_as_well),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_bad_gradient_changes_nothing),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    return RUN_TESTS(table);
}
