/* load.h - fills laid-out weights: from the files of a model, or at random from its config alone. */
#ifndef PLIM_TRAIN_LOAD_H
#define PLIM_TRAIN_LOAD_H

#include "formats/model_files.h"
#include "model/tensor_map.h"
#include "ops/ops.h"

/* Where rows go: every write to the weights passes through here, so that another column can copy by way of
 * its staging buffers.  put_rows alone must be there. */
typedef struct plim_weight_sink {
    /* rows: to.rows * to.cols elements of to.dtype, packed; as take gave them, or free for reuse on
     * return. */
    plim_status (*put_rows)(void *user, plim_tensor to, const void *rows);
    /* Memory the next rows are made in, which put_rows then has.  NULL: the loader's own. */
    plim_status (*take)(void *user, size_t bytes, void **out);
    size_t block_bytes; /* most that the loader asks for, unless a row is longer; 0: its own choice */
    plim_status (*zero)(void *user, plim_tensor view); /* NULL: rows of zeros are put */
    /* Fills a->x where it lies; *done false: it lies where this cannot.  NULL: the host draws everything. */
    plim_status (*fill)(void *user, const plim_fill_args *a, bool *done);
    plim_status (*finish)(void *user); /* everything is in its place on return; may be NULL */
    void *user;
} plim_weight_sink;

/* Copies into memory the host can write. */
plim_weight_sink plim_weight_sink_host(void);

/* What is filled, and how.  progress may be NULL; it counts elements of this card. */
typedef struct plim_load {
    const plim_shape *shape;
    const plim_model_weights *model;
    const plim_layer_weights *layers; /* one for each layer of the card */
    plim_weight_sink sink;
    void (*progress)(void *user, int64_t done, int64_t total);
    void *progress_user;
} plim_load;

/* Reads the tensors of this card from the files that plim_model_files_check accepted, one file mapped at a
 * time, converts them to the dtype of their place, and zeroes all padding.  Beside the maps it takes a buffer
 * of about 8 MiB, or the sink's.  Nothing but what the spec names is read.  On failure the weights are
 * undefined. Errors: PLIM_E_NUMERIC (an element that is not finite, or does not fit the dtype: tensor,
 * element, file); PLIM_E_MISMATCH (a file changed since it was checked; a tied model whose lm_head.weight is
 * not its embedding); PLIM_E_IO; PLIM_E_OOM_HOST; whatever the sink returns. */
plim_status plim_weights_load(plim_ctx *c, const char *folder, const plim_model_files *files,
                              const plim_load *l);

/* The weights of random_weights.h, rounded as a checkpoint of the dtype stored would round them: the same
 * bits as loading the folder that plim_random_folder_write makes of seed and stored (F32, BF16 or F16), on
 * whatever device they are drawn.
 * Errors: PLIM_E_NUMERIC (initializer_range is too large for the dtype), PLIM_E_OOM_HOST; the sink's. */
plim_status plim_weights_random(plim_ctx *c, uint64_t seed, plim_dtype stored, const plim_load *l);

#endif
