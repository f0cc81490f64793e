/* working_copy.c - decides nothing: moves masters to where linear.h says they are read. */
#include "model/working_copy.h"

#include <assert.h>

#include "model/tensor_map.h"

typedef struct copy {
    const plim_machine *machine;
    const plim_shape *sh;
    plim_tensor master;
    double scale;
    const plim_layer_weights *layers;
    plim_status status;
} copy;

static void copy_tensor(void *user, const plim_adapter_tensor *t)
{
    copy *k = user;
    const plim_machine *m = k->machine;
    const plim_linear *linear;
    const plim_linear_weights *lies;
    if (k->status) return;
    const plim_linear_part *part =
        plim_layer_part_find(plim_shape_linears(k->sh, t->layer), &k->layers[t->layer - k->sh->first_layer],
                             t->target, &linear, &lies);
    assert(part && part->adapter >= 0);
    int64_t rank = plim_padded_rank(k->sh->o.lora_rank);
    plim_tensor from = plim_tensor_cols(k->master, t->offset, t->cols), to = lies->weight;
    from.rows = t->rows;
    from.pitch = t->cols;
    if (t->is_b) {
        to = plim_tensor_rows(to, part->first_row, part->out);
        to = plim_tensor_cols(to, linear->in + part->adapter * rank, rank);
        k->status = m->ops->scaled_copy(m->device, k->scale, from, to);
    } else {
        to = plim_tensor_rows(to, linear->out + part->adapter * rank, rank);
        k->status = m->ops->copy(m->device, from, to);
    }
}

plim_status plim_working_copy(const plim_machine *m, const plim_shape *sh, plim_tensor master, double scale,
                              const plim_layer_weights *layers)
{
    copy k = {m, sh, master, scale, layers, PLIM_OK};
    assert(master.dtype == sh->stat && master.cols == sh->adapters.elements);
    plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, sh->first_layer,
                       sh->last_layer, copy_tensor, &k);
    return k.status;
}
