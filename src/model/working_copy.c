/* working_copy.c - decides nothing: moves masters to where linear.h says they are read. */
#include "model/working_copy.h"

#include <assert.h>
#include <string.h>

#include "base/bf16.h"
#include "model/tensor_map.h"

typedef struct copy {
    const plim_shape *sh;
    plim_tensor master;
    double scale;
    const plim_layer_weights *layers;
} copy;

/* to = scale * from, from packed. */
static void copy_scaled(plim_tensor to, plim_dtype stat, const void *from, double scale)
{
    for (int64_t i = 0; i < to.rows; i++) {
        void *row = plim_tensor_rows(to, i, 1).data;
        const float *f = (const float *)from + (stat == PLIM_F32 ? i * to.cols : 0);
        const double *d = (const double *)from + (stat == PLIM_F64 ? i * to.cols : 0);
        for (int64_t j = 0; j < to.cols; j++) {
            if (to.dtype == PLIM_BF16) ((plim_bf16 *)row)[j] = plim_bf16_round((float)scale * f[j]);
            else if (to.dtype == PLIM_F32) ((float *)row)[j] = (float)scale * f[j];
            else ((double *)row)[j] = scale * d[j];
        }
    }
}

static void copy_tensor(void *user, const plim_adapter_tensor *t)
{
    const copy *k = user;
    const plim_linear *linear;
    const plim_linear_weights *lies;
    const plim_linear_part *part =
        plim_layer_part_find(plim_shape_linears(k->sh, t->layer), &k->layers[t->layer - k->sh->first_layer],
                             t->target, &linear, &lies);
    assert(part && part->adapter >= 0);
    int64_t rank = plim_padded_rank(k->sh->o.lora_rank);
    const char *from = (const char *)k->master.data + (size_t)t->offset * plim_dtype_bytes(k->master.dtype);
    plim_tensor to = lies->weight;
    if (t->is_b) {
        to = plim_tensor_rows(to, part->first_row, part->out);
        to = plim_tensor_cols(to, linear->in + part->adapter * rank, rank);
    } else {
        to = plim_tensor_rows(to, linear->out + part->adapter * rank, rank);
    }
    copy_scaled(to, k->master.dtype, from, t->is_b ? k->scale : 1);
}

void plim_working_copy(const plim_shape *sh, plim_tensor master, double scale,
                       const plim_layer_weights *layers)
{
    copy k = {sh, master, scale, layers};
    assert(master.dtype == sh->stat && master.cols == sh->adapters.elements);
    plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, sh->first_layer,
                       sh->last_layer, copy_tensor, &k);
}
