/* adapters.c - decides the order and the offsets of the trainable tensors. */
#include "model/adapters.h"

typedef struct walk {
    plim_adapter_totals totals;
    plim_adapter_visit visit;
    void *user;
    int64_t layer, rank;
    int adam_bits;
} walk;

static void place(walk *w, plim_target target, bool is_b, int64_t rows, int64_t cols, int64_t unpadded)
{
    int64_t n = rows * cols;
    plim_adapter_tensor t = {w->layer, target, is_b, false, rows, cols, w->totals.elements, -1};
    if (w->adam_bits == 8 && unpadded < PLIM_ADAM_SMALL_BELOW) {
        t.small_states = true;
        t.small_offset = w->totals.small_elements;
        w->totals.small_elements += n;
    }
    w->totals.tensors++;
    w->totals.parameters += unpadded;
    w->totals.elements += (n + PLIM_ADAM_BLOCK - 1) / PLIM_ADAM_BLOCK * PLIM_ADAM_BLOCK;
    if (w->visit) w->visit(w->user, &t);
}

static void place_part(void *user, const plim_linear *linear, const plim_linear_part *part)
{
    walk *w = user;
    if (part->adapter < 0) return;
    int64_t padded = plim_padded_rank(w->rank);
    place(w, part->target, false, padded, linear->in, w->rank * linear->in);
    place(w, part->target, true, part->out, padded, w->rank * part->out);
}

plim_adapter_totals plim_adapters_walk(const plim_spec *s, int64_t rank, uint32_t targets, int adam_bits,
                                       int64_t first, int64_t last, plim_adapter_visit visit, void *user)
{
    walk w = {.visit = visit, .user = user, .rank = rank, .adam_bits = adam_bits};
    const plim_layer_linears linears[] = {
        [PLIM_LAYER_ATTENTION] = plim_layer_linears_of(s, PLIM_LAYER_ATTENTION, rank, targets),
        [PLIM_LAYER_DELTA] = plim_layer_linears_of(s, PLIM_LAYER_DELTA, rank, targets),
    };
    for (w.layer = first; w.layer < last; w.layer++)
        plim_layer_parts(&linears[s->layer_type[w.layer]], place_part, &w);
    return w.totals;
}

int64_t plim_lora_parameters(const plim_spec *s, int64_t rank, uint32_t targets)
{
    return plim_adapters_walk(s, rank, targets, 8, 0, s->layers, NULL, NULL).parameters;
}

void plim_adapters_layout(plim_arena *a, const plim_adapter_totals *t, plim_dtype stat, int adam_bits,
                          plim_adapters *out)
{
    bool small = adam_bits == 8;
    plim_dtype code = small ? PLIM_U8 : stat;
    int64_t blocks = small ? t->elements / PLIM_ADAM_BLOCK : 0;
    out->master = plim_arena_push(a, PLIM_MEM_LORA, "lora.master", stat, 1, t->elements);
    out->grad = plim_arena_push(a, PLIM_MEM_LORA, "lora.grad", stat, 1, t->elements);
    out->m = plim_arena_push(a, PLIM_MEM_OPTIMISER, "adam.m", code, 1, t->elements);
    out->v = plim_arena_push(a, PLIM_MEM_OPTIMISER, "adam.v", code, 1, t->elements);
    out->m_max = plim_arena_push(a, PLIM_MEM_OPTIMISER, "adam.m_max", PLIM_F32, 1, blocks);
    out->v_max = plim_arena_push(a, PLIM_MEM_OPTIMISER, "adam.v_max", PLIM_F32, 1, blocks);
    out->small_m = plim_arena_push(a, PLIM_MEM_OPTIMISER, "adam.small_m", stat, 1, t->small_elements);
    out->small_v = plim_arena_push(a, PLIM_MEM_OPTIMISER, "adam.small_v", stat, 1, t->small_elements);
}
