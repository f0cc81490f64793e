/* Working copies: block-diagonal in the padding, and the extended product is the adapted projection. */
#include "support/laid_weights.h"

#include <math.h>

#include "base/bf16.h"
#include "formats/safetensors.h"
#include "model/working_copy.h"
#include "train/adapter.h"

static laid w;
static plim_safetensors *file;

static void refresh(plim_ctx *c, plim_tensor master, double scale, const plim_layer_weights *layers)
{
    plim_machine m;
    CHECK_OK(c, plim_machine_cpu(c, 2, &m));
    CHECK_OK(c, plim_working_copy(&m, &w.sh, master, scale, layers));
    plim_machine_close(&m);
}

static void open_golden(plim_ctx *c, const char *folder, const char *adapter, plim_options o)
{
    char path[512];
    plim_model_files *files = NULL;
    laid_open(c, &w, folder, o);
    CHECK_OK(c, plim_model_files_check(c, folder, &w.spec, &files));
    plim_load l = laid_load(&w);
    CHECK_OK(c, plim_weights_load(c, folder, files, &l));
    plim_model_files_close(files);
    CHECK_OK(c, plim_adapter_load(c, adapter, &w.sh, w.adapters.master));
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", adapter);
    CHECK_OK(c, plim_safetensors_open(c, path, &file));
}

static void close_golden(void)
{
    plim_safetensors_close(file);
    file = NULL;
    laid_close(&w);
}

/* Element [i, j] of lora_A or lora_B of a module as the file has it; 0 beyond its shape. */
static double lora(const char *module, char ab, int64_t i, int64_t j)
{
    char name[160];
    float x;
    snprintf(name, sizeof name, "base_model.model.model.layers.%s.lora_%c.weight", module, ab);
    const plim_safetensors_tensor *t = plim_safetensors_find(file, name);
    if (!t) fail_msg("no %s", name);
    if (i >= t->shape[0] || j >= t->shape[1]) return 0;
    memcpy(&x, (const char *)plim_safetensors_data(file, t) + (size_t)(i * t->shape[1] + j) * 4, 4);
    return x;
}

typedef struct block {
    const char *module;
    int64_t first, out;
} block;

/* The padding of one product, element by element, from the shapes of the config: p columns or rows a part. */
static void check_product(plim_tensor weight, const block *parts, int count, int64_t p, double scale)
{
    for (int part = 0; part < count; part++) {
        for (int64_t k = 0; k < p; k++) {
            int64_t at = part * p + k;
            for (int64_t row = 0; row < weight.rows; row++) {
                const block *b = &parts[part];
                bool inside = row >= b->first && row < b->first + b->out;
                float want = inside ? (float)scale * (float)lora(b->module, 'B', row - b->first, k) : 0;
                if (weight.dtype == PLIM_BF16) want = plim_bf16_load(plim_bf16_round(want));
                if (laid_at(weight, row, weight.cols + at) != (double)want)
                    fail_msg("%s: pad column %lld, row %lld", b->module, (long long)at, (long long)row);
            }
            for (int64_t col = 0; col < weight.pitch; col++) {
                float want = col < weight.cols ? (float)lora(parts[part].module, 'A', k, col) : 0;
                if (weight.dtype == PLIM_BF16) want = plim_bf16_load(plim_bf16_round(want));
                if (laid_at(weight, weight.rows + at, col) != (double)want)
                    fail_msg("%s: pad row %lld, column %lld", parts[part].module, (long long)at,
                             (long long)col);
            }
        }
    }
}

TEST(the_padding_is_block_diagonal)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const plim_dtype act[] = {PLIM_F32, PLIM_BF16};
    static const block q_k_v[] = {
        {"3.self_attn.q_proj", 0, 256}, {"3.self_attn.k_proj", 256, 64}, {"3.self_attn.v_proj", 320, 64}};
    static const block qkv_z[] = {{"1.linear_attn.in_proj_qkv", 0, 208},
                                  {"1.linear_attn.in_proj_z", 208, 144}};
    static const block gate_up[] = {{"1.mlp.gate_proj", 0, 160}, {"1.mlp.up_proj", 160, 160}};
    static const block down[] = {{"3.mlp.down_proj", 0, 64}}, out[] = {{"1.linear_attn.out_proj", 0, 64}};
    for (size_t i = 0; i < 2; i++) {
        open_golden(c, GOLDEN("qwen3_5-tiny"), GOLDEN("qwen3_5-tiny/adapter"), laid_options(act[i], 4));
        refresh(c, w.adapters.master, 1.7, w.layers);
        check_product(w.layers[3].in.weight, q_k_v, 3, 8, 1.7);
        check_product(w.layers[1].in.weight, qkv_z, 2, 8, 1.7);
        check_product(w.layers[1].gate_up.weight, gate_up, 2, 8, 1.7);
        check_product(w.layers[1].out.weight, out, 1, 8, 1.7);
        check_product(w.layers[3].down.weight, down, 1, 8, 1.7);
        close_golden();
    }
    test_ctx_close(c);
}

/* y = x W^T + s (x A^T) B^T from the file, and [x | x A^T] [W | s B]^T from the padding. */
TEST(the_extended_product_is_the_adapted_projection)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const double scale = 16 / sqrt(16.0);
    double x[64], xa[48], most = 0;
    open_golden(c, GOLDEN("qwen3_5-tied"), GOLDEN("qwen3_5-tied/adapter"), laid_options(PLIM_F64, 16));
    refresh(c, w.adapters.master, scale, w.layers);
    plim_tensor W = w.layers[7].in.weight;
    for (int j = 0; j < 64; j++) x[j] = sin(j * 0.7 + 0.3);
    for (int k = 0; k < 48; k++) {
        xa[k] = 0;
        for (int j = 0; j < 64; j++) xa[k] += x[j] * laid_at(W, W.rows + k, j);
    }
    for (int64_t row = 256; row < 320; row++) { /* k_proj: rows after the 256 of q_proj */
        double base = 0, low = 0, extended = 0;
        for (int j = 0; j < 64; j++) base += x[j] * laid_at(W, row, j);
        for (int k = 0; k < 16; k++) {
            double a = 0;
            for (int j = 0; j < 64; j++) a += x[j] * lora("7.self_attn.k_proj", 'A', k, j);
            low += a * lora("7.self_attn.k_proj", 'B', row - 256, k);
        }
        for (int k = 0; k < 48; k++) extended += xa[k] * laid_at(W, row, 64 + k);
        most = fmax(most, fabs(scale * low));
        assert_true(fabs(base + extended - (base + scale * low)) <= 1e-12);
    }
    assert_true(most > 1e-3);
    close_golden();
    test_ctx_close(c);
}

TEST(the_base_stays)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    open_golden(c, GOLDEN("qwen3-tiny"), GOLDEN("qwen3-tiny/adapter"), laid_options(PLIM_BF16, 4));
    unsigned char *before = malloc(w.bytes);
    if (!before) abort();
    memcpy(before, w.memory, w.bytes);
    refresh(c, w.adapters.master, 2, w.layers);
    assert_true(memcmp(before, w.memory, w.bytes) != 0);
    memset(w.adapters.master.data, 0, (size_t)w.adapters.master.cols * 4);
    refresh(c, w.adapters.master, 2, w.layers);
    assert_memory_equal(before, w.memory, w.bytes);
    free(before);
    close_golden();
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(the_padding_is_block_diagonal),
        cmocka_unit_test(the_extended_product_is_the_adapted_projection),
        cmocka_unit_test(the_base_stays),
    };
    return RUN_TESTS(table);
}
