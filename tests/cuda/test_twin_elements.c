/* The card's elementwise kernels, norms, copies, loss and optimiser against the CPU column: shapes empty,
 * single, odd and around a tile, views with a pitch, in place where the contract allows it. */
#include "support/twin.h"

#include <math.h>

static const int64_t rows_tried[] = {1, 7, 64, 129};
#define ROWS (sizeof rows_tried / sizeof *rows_tried)

/* Runs one slot on both sides. */
#define BOTH(t, slot, host_args, dev_args)                                                                   \
    do {                                                                                                     \
        CHECK_OK((t)->ctx, (t)->cpu.ops->slot((t)->cpu.device, host_args));                                  \
        CHECK_OK((t)->ctx, (t)->gpu.ops->slot((t)->gpu.device, dev_args));                                   \
    } while (0)

static void close_and_free(twin *t, twin_tensor *x, const char *what)
{
    twin_check_close(t, x, TWIN_BF16_STEP, what);
    twin_check_guards(t, x, what);
    twin_free(t, x);
}

TEST(swiglu)
{
    TWIN(t);
    static const int64_t widths[] = {8, 40, 37, 2056};
    for (size_t w = 0; w < 4; w++)
        for (size_t r = 0; r < ROWS; r++) {
            int64_t T = rows_tried[r], F = widths[w];
            twin_tensor gate = twin_random(t, PLIM_BF16, T, F, 8, 3),
                        up = twin_random(t, PLIM_BF16, T, F, 0, 1);
            twin_tensor dy = twin_random(t, PLIM_BF16, T, F, 0, 1), y = twin_output(t, PLIM_BF16, T, F, 16);
            plim_swiglu_args h = {.gate = gate.host, .up = up.host, .y = y.host},
                             d = {.gate = gate.dev, .up = up.dev, .y = y.dev};
            BOTH(t, swiglu_fwd, &h, &d);
            twin_check_close(t, &y, TWIN_BF16_STEP, "swiglu y");
            h.dy = dy.host, h.dgate = gate.host, h.dup = up.host;
            d.dy = dy.dev, d.dgate = gate.dev, d.dup = up.dev;
            BOTH(t, swiglu_bwd, &h, &d);
            close_and_free(t, &y, "swiglu y again");
            close_and_free(t, &gate, "swiglu dgate");
            close_and_free(t, &up, "swiglu dup");
            twin_free(t, &dy);
        }
}

TEST(attention_gate)
{
    TWIN(t);
    static const int64_t dims[] = {8, 32, 36, 256};
    for (size_t k = 0; k < 4; k++)
        for (size_t r = 0; r < ROWS; r++) {
            int64_t T = rows_tried[r], H = 3, Dh = dims[k];
            twin_tensor qg = twin_random(t, PLIM_BF16, T, 2 * H * Dh, 0, 1),
                        o = twin_random(t, PLIM_BF16, T, H * Dh, 0, 1);
            twin_tensor u = twin_output(t, PLIM_BF16, T, H * Dh, 8),
                        du = twin_random(t, PLIM_BF16, T, H * Dh, 0, 1);
            twin_tensor delta = twin_output(t, PLIM_F32, H, T, 4);
            plim_attention_gate_args h = {.o = o.host,
                                          .gate = plim_tensor_cols(qg.host, Dh, (2 * H - 1) * Dh),
                                          .u = u.host,
                                          .heads = H,
                                          .head_dim = Dh,
                                          .gate_stride = 2 * Dh};
            plim_attention_gate_args d = h;
            d.o = o.dev, d.gate = plim_tensor_cols(qg.dev, Dh, (2 * H - 1) * Dh), d.u = u.dev;
            BOTH(t, attention_gate_fwd, &h, &d);
            twin_check_close(t, &u, TWIN_BF16_STEP, "gated u");
            h.du = h.dout = du.host, h.dgate = h.gate, h.delta = delta.host;
            d.du = d.dout = du.dev, d.dgate = d.gate, d.delta = delta.dev;
            BOTH(t, attention_gate_bwd, &h, &d);
            close_and_free(t, &du, "gate dout");
            close_and_free(t, &qg, "gate dgate, and the queries beside it");
            twin_check_close(t, &delta, TWIN_BF16_STEP, "gate delta");
            close_and_free(t, &u, "gated u");
            twin_free(t, &o);
            twin_free(t, &delta);
        }
}

TEST(rmsnorm)
{
    TWIN(t);
    static const int64_t shapes[][2] = {{64, 1}, {5120, 1}, {40, 3}, {37, 1}, {128, 4}};
    for (size_t k = 0; k < 5; k++)
        for (int flags = 0; flags < 4; flags++) {
            int64_t T = 33, n = shapes[k][0], C = n * shapes[k][1];
            twin_tensor x = twin_random(t, PLIM_BF16, T, C, 8, 2), w = twin_random(t, PLIM_F32, 1, n, 0, 0.5);
            twin_tensor y = twin_output(t, PLIM_BF16, T, C, 0), dy = twin_random(t, PLIM_BF16, T, C, 0, 1);
            twin_tensor dx =
                flags & 1 ? twin_random(t, PLIM_BF16, T, C, 16, 1) : twin_output(t, PLIM_BF16, T, C, 16);
            plim_rmsnorm_args h = {.x = x.host,
                                   .w = w.host,
                                   .y = y.host,
                                   .eps = 1e-6,
                                   .unit_offset = flags & 2},
                              d = h;
            d.x = x.dev, d.w = w.dev, d.y = y.dev;
            BOTH(t, rmsnorm_fwd, &h, &d);
            close_and_free(t, &y, "rmsnorm y");
            h.dy = dy.host, h.dx = dx.host, h.accumulate = flags & 1;
            d.dy = dy.dev, d.dx = dx.dev, d.accumulate = flags & 1;
            BOTH(t, rmsnorm_bwd, &h, &d);
            close_and_free(t, &dx, "rmsnorm dx");
            twin_free(t, &x), twin_free(t, &w), twin_free(t, &dy);
        }
}

TEST(head_rope)
{
    TWIN(t);
    static const int64_t shapes[][2] = {{256, 32}, {64, 32}, {32, 4}, {40, 20}, {8, 0}};
    for (size_t k = 0; k < 5; k++)
        for (int normed = 0; normed < 2; normed++) {
            int64_t T = 37, H = 5, Dh = shapes[k][0], half = shapes[k][1], stride = 2 * Dh;
            twin_tensor x = twin_random(t, PLIM_BF16, T, H * stride, 0, 1),
                        w = twin_random(t, PLIM_F32, 1, Dh, 0, 0.5);
            twin_tensor c = twin_random(t, PLIM_F32, T, half ? half : 1, 0, 1),
                        s = twin_random(t, PLIM_F32, T, half ? half : 1, 0, 1);
            twin_tensor y = twin_output(t, PLIM_BF16, T, H * Dh, 8),
                        dy = twin_random(t, PLIM_BF16, T, H * Dh, 0, 1);
            plim_head_rope_args h = {.x = x.host,
                                     .cos = plim_tensor_cols(c.host, 0, half),
                                     .sin = plim_tensor_cols(s.host, 0, half),
                                     .y = y.host,
                                     .heads = H,
                                     .head_dim = Dh,
                                     .head_stride = stride,
                                     .eps = 1e-6,
                                     .unit_offset = true};
            plim_head_rope_args d = h;
            d.x = x.dev, d.cos = plim_tensor_cols(c.dev, 0, half), d.sin = plim_tensor_cols(s.dev, 0, half),
            d.y = y.dev;
            if (normed) h.w = w.host, d.w = w.dev;
            BOTH(t, head_rope_fwd, &h, &d);
            close_and_free(t, &y, "head_rope y");
            h.dy = dy.host, h.dx = h.x;
            d.dy = dy.dev, d.dx = d.x;
            BOTH(t, head_rope_bwd, &h, &d);
            close_and_free(t, &x, "head_rope dx, and what lies between the heads");
            twin_free(t, &w), twin_free(t, &c), twin_free(t, &s), twin_free(t, &dy);
        }
}

TEST(copies_and_sums)
{
    TWIN(t);
    static const plim_dtype types[] = {PLIM_BF16, PLIM_F32};
    static const int64_t widths[] = {8, 33, 1024};
    for (int k = 0; k < 12; k++) {
        plim_dtype from = types[k & 1], to = types[k >> 1 & 1];
        int64_t T = 65, C = widths[k / 4];
        twin_tensor x = twin_random(t, from, T, C, 8, 1), y = twin_random(t, to, T, C, 0, 1),
                    b = twin_random(t, PLIM_F32, 1, C, 0, 1);
        CHECK_OK(t->ctx, t->cpu.ops->add(t->cpu.device, x.host, y.host));
        CHECK_OK(t->ctx, t->gpu.ops->add(t->gpu.device, x.dev, y.dev));
        twin_check_close(t, &y, TWIN_BF16_STEP, "add");
        CHECK_OK(t->ctx, t->cpu.ops->add_bias(t->cpu.device, b.host, y.host));
        CHECK_OK(t->ctx, t->gpu.ops->add_bias(t->gpu.device, b.dev, y.dev));
        twin_check_close(t, &y, TWIN_BF16_STEP, "add_bias");
        CHECK_OK(t->ctx, t->cpu.ops->copy(t->cpu.device, x.host, y.host));
        CHECK_OK(t->ctx, t->gpu.ops->copy(t->gpu.device, x.dev, y.dev));
        twin_check_close(t, &y, 0, "copy");
        twin_check_guards(t, &y, "copy");
        twin_free(t, &x), twin_free(t, &y), twin_free(t, &b);
    }
}

TEST(rows_by_index)
{
    TWIN(t);
    static const int32_t index[] = {4, 0, 63, 17, 18};
    for (int64_t C = 37; C < 50; C += 3) {
        twin_tensor x = twin_random(t, PLIM_BF16, 64, C, 0, 1), y = twin_output(t, PLIM_BF16, 5, C, 8),
                    z = twin_output(t, PLIM_BF16, 64, C, 0);
        int32_t *on_card = twin_device_bytes(t, index, sizeof index);
        plim_rows_args h = {x.host, y.host, index}, d = {x.dev, y.dev, on_card};
        BOTH(t, gather_rows, &h, &d);
        twin_check_close(t, &y, 0, "gather");
        plim_fill_args zero_h = {.x = z.host}, zero_d = {.x = z.dev};
        BOTH(t, fill, &zero_h, &zero_d);
        h = (plim_rows_args){y.host, z.host, index}, d = (plim_rows_args){y.dev, z.dev, on_card};
        BOTH(t, scatter_rows, &h, &d);
        twin_check_close(t, &z, 0, "scatter");
        twin_device_free(t, on_card);
        twin_free(t, &x), close_and_free(t, &y, "gather"), close_and_free(t, &z, "scatter");
    }
}

/* The same bits, not just close: a random model must be the same model on every device. */
TEST(random_fills_have_the_same_bits)
{
    TWIN(t);
    static const plim_dtype types[] = {PLIM_BF16, PLIM_F32};
    for (int k = 0; k < 6; k++) {
        twin_tensor x = twin_output(t, types[k & 1], 129, 77, 3);
        plim_fill_args h = {x.host, (plim_fill_kind)(k / 2), 42, 7, k == 5 ? -0.25 : 0, k == 0 ? 0 : 0.02},
                       d = h;
        d.x = x.dev;
        BOTH(t, fill, &h, &d);
        twin_check_close(t, &x, 0, "fill");
        twin_check_guards(t, &x, "fill");
        twin_free(t, &x);
    }
    twin_tensor x = twin_random(t, PLIM_BF16, 65, 45, 0, 1), y = twin_output(t, PLIM_BF16, 65, 45, 8);
    plim_dropout_args h = {x.host, y.host, 3, 9, 1000, 0.25}, d = {x.dev, y.dev, 3, 9, 1000, 0.25};
    BOTH(t, dropout, &h, &d);
    twin_check_close(t, &y, TWIN_BF16_STEP, "dropout");
    twin_free(t, &x), close_and_free(t, &y, "dropout");
}

/* flags: 0 the loss alone, 1 and the gradient, 2 of logits ten times as wide, some of them -infinity. */
static void entropy_case(twin *t, int64_t M, int64_t V, int flags)
{
    int32_t *labels = malloc((size_t)M * sizeof *labels);
    float *weights = malloc((size_t)M * sizeof *weights);
    assert_true(labels && weights);
    double sums[3] = {1.5, 1.5};
    for (int64_t i = 0; i < M; i++)
        labels[i] = (int32_t)((V - 1) * i / (M - 1)), weights[i] = 0.5f + (float)(i % 9);
    twin_tensor z = twin_random(t, PLIM_F32, M, V, 4, flags == 2 ? 30 : 3);
    if (flags == 2) {
        for (int64_t i = 0; i < M; i++) {
            float *row = (float *)z.host.data + i * z.host.pitch;
            for (int64_t k = 0; k < V; k += 3)
                if (k != labels[i]) row[k] = -INFINITY;
        }
        twin_push(t, &z);
    }
    int32_t *labels_dev = twin_device_bytes(t, labels, (size_t)M * sizeof *labels);
    float *weights_dev = twin_device_bytes(t, weights, (size_t)M * sizeof *weights);
    double *sum_dev = twin_device_bytes(t, sums, sizeof *sums);
    plim_tensor grad_h = z.host, grad_d = z.dev;
    grad_h.dtype = grad_d.dtype = PLIM_BF16;
    grad_h.pitch = grad_d.pitch = 2 * z.host.pitch;
    plim_cross_entropy_args h = {z.host, grad_h, labels, weights, 0.125, &sums[0], flags > 0};
    plim_cross_entropy_args d = {z.dev, grad_d, labels_dev, weights_dev, 0.125, sum_dev, flags > 0};
    BOTH(t, cross_entropy, &h, &d);
    CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, sum_dev, &sums[1], sizeof sums[1]));
    if (!(fabs(sums[1] / sums[0] - 1) < 1e-5)) fail_msg("loss %.9g, the CPU says %.9g", sums[1], sums[0]);
    if (flags > 0) {
        twin_tensor view = z;
        view.host = grad_h, view.dev = grad_d;
        twin_check_relative(t, &view, 1e-2, "dlogits");
    } else {
        twin_check_close(t, &z, 0, "logits untouched");
        const double again = 1.5;
        CHECK_OK(t->ctx, t->gpu.ops->write(t->gpu.device, &again, sum_dev, sizeof again));
        CHECK_OK(t->ctx, t->gpu.ops->cross_entropy(t->gpu.device, &d));
        CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, sum_dev, &sums[2], sizeof sums[2]));
        if (sums[1] != sums[2]) fail_msg("loss %.17g, and %.17g the second time", sums[1], sums[2]);
    }
    twin_device_free(t, labels_dev), twin_device_free(t, weights_dev), twin_device_free(t, sum_dev);
    twin_free(t, &z);
    free(labels), free(weights);
}

TEST(cross_entropy)
{
    TWIN(t);
    static const int64_t shapes[][2] = {{9, 8}, {9, 1000}, {9, 4099}, {9, 50257}, {9, 50264}, {2500, 24}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int flags = 0; flags < 3; flags++) entropy_case(t, shapes[k][0], shapes[k][1], flags);
}

static void adam_steps(twin *t, int64_t n, bool eight)
{
    int64_t blocks = (n + 255) / 256;
    plim_dtype code = eight ? PLIM_U8 : PLIM_F32;
    twin_tensor p = twin_random(t, PLIM_F32, 1, n, 0, 1), g = twin_random(t, PLIM_F32, 1, n, 0, 1e-3);
    static const uint8_t zeros[1 << 16];
    uint8_t state[4][1 << 15] = {{0}};
    size_t bytes = (size_t)n * plim_dtype_bytes(code);
    void *dev[4];
    for (int i = 0; i < 4; i++) dev[i] = twin_device_bytes(t, zeros, i < 2 ? bytes : (size_t)blocks * 4);
    plim_tensor views[2][4];
    for (int i = 0; i < 4; i++)
        for (int side = 0; side < 2; side++)
            views[side][i] = (plim_tensor){side ? dev[i] : state[i], i < 2 ? code : PLIM_F32, 1,
                                           i < 2 ? n : blocks, i < 2 ? n : blocks};
    for (int step = 1; step <= 3; step++) {
        plim_adamw_args h = {.param = p.host,
                             .grad = g.host,
                             .m = views[0][0],
                             .v = views[0][1],
                             .learning_rate = 1e-2,
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .eps = 1e-8,
                             .weight_decay = 0.01,
                             .grad_scale = 0.5,
                             .step = step};
        plim_adamw_args d = h;
        d.param = p.dev, d.grad = g.dev, d.m = views[1][0], d.v = views[1][1];
        if (eight) h.m_max = views[0][2], h.v_max = views[0][3], d.m_max = views[1][2], d.v_max = views[1][3];
        BOTH(t, adamw, &h, &d);
    }
    twin_check_close(t, &p, eight ? 1e-4 : 1e-5, "adamw parameters");
    for (int i = 0; i < 4; i++) twin_device_free(t, dev[i]);
    twin_free(t, &p), twin_free(t, &g);
}

TEST(adamw)
{
    TWIN(t);
    adam_steps(t, 4096, true);
    adam_steps(t, 5000, true);
    adam_steps(t, 1, false);
    adam_steps(t, 4095, false);
}

TEST(square_sum)
{
    TWIN(t);
    static const int64_t sizes[][2] = {{1, 1}, {1, 100003}, {37, 129}};
    for (size_t k = 0; k < 3; k++) {
        twin_tensor x = twin_random(t, PLIM_F32, sizes[k][0], sizes[k][1], 4, 1);
        double sums[2] = {2, 2};
        double *sum_dev = twin_device_bytes(t, &sums[1], sizeof sums[1]);
        plim_square_sum_args h = {x.host, &sums[0]}, d = {x.dev, sum_dev};
        BOTH(t, square_sum, &h, &d);
        CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, sum_dev, &sums[1], sizeof sums[1]));
        if (!(fabs(sums[1] / sums[0] - 1) < 1e-12))
            fail_msg("square sum %.17g, the CPU says %.17g", sums[1], sums[0]);
        twin_device_free(t, sum_dev);
        twin_free(t, &x);
    }
}

TEST(offload_and_fetch_return_what_left)
{
    TWIN(t);
    twin_tensor x = twin_random(t, PLIM_BF16, 300, 40, 8, 1), y = twin_output(t, PLIM_BF16, 300, 40, 0);
    void *pinned;
    CHECK_OK(t->ctx, t->gpu.alloc_host(t->gpu.device, (size_t)300 * 48 * 2, &pinned));
    plim_tensor host = {pinned, PLIM_BF16, 300, 40, 48};
    CHECK_OK(t->ctx, t->gpu.ops->offload(t->gpu.device, x.dev, host, 3));
    CHECK_OK(t->ctx, t->gpu.ops->wait(t->gpu.device, 3));
    char sync;
    CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, x.dev.data, &sync, 1));
    CHECK_OK(t->ctx, t->gpu.ops->fetch(t->gpu.device, host, y.dev, 4));
    CHECK_OK(t->ctx, t->gpu.ops->wait(t->gpu.device, 4));
    CHECK_OK(t->ctx, t->cpu.ops->copy(t->cpu.device, x.host, y.host));
    twin_check_close(t, &y, 0, "there and back");
    t->gpu.free_host(t->gpu.device, pinned);
    twin_free(t, &x), twin_free(t, &y);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(swiglu),
        cmocka_unit_test(attention_gate),
        cmocka_unit_test(rmsnorm),
        cmocka_unit_test(head_rope),
        cmocka_unit_test(copies_and_sums),
        cmocka_unit_test(rows_by_index),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(random_fills_have_the_same_bits),
        cmocka_unit_test(adamw),
        cmocka_unit_test(square_sum),
        cmocka_unit_test(offload_and_fetch_return_what_left),
    };
    return cmocka_run_group_tests(table, twin_open, twin_close);
}
