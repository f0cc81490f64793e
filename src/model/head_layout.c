/* head_layout.c - decides that logits exist for one slab of rows at a time. */
#include "model/head_layout.h"

#define M PLIM_MEM_LOSS

void plim_head_layout(plim_arena *a, const plim_shape *sh, bool backward, plim_head_work *out)
{
    int64_t rows = sh->loss_rows;
    *out = (plim_head_work){0};
    out->hidden = plim_arena_push(a, M, "head.hidden", sh->act, rows, sh->D);
    out->normed = plim_arena_push(a, M, "head.normed", sh->act, rows, sh->D);
    out->logits = plim_arena_push(a, M, "head.logits", sh->stat, rows, sh->spec->vocab);
    if (!backward) return;
    out->dnormed = plim_arena_push(a, M, "head.dnormed", sh->act, rows, sh->D);
    out->dhidden = plim_arena_push(a, M, "head.dhidden", sh->act, rows, sh->D);
}
