/* adapter_support.h - golden adapters, and weights laid out for them. */
#ifndef PLIM_TESTS_ADAPTER_SUPPORT_H
#define PLIM_TESTS_ADAPTER_SUPPORT_H

#include "support/laid_weights.h"

#include <dirent.h>

#include "train/adapter.h"

#define KEY "base_model.model.model.layers."

static laid w;

static inline const char *golden(const char *model, const char *rest)
{
    return test_path(test_path(PLIM_TEST_DATA "/models", model), rest);
}

/* Lays w out for an adapter folder, by what the survey says. */
static inline plim_adapter_config open_for(plim_ctx *c, const char *base, const char *adapter, plim_dtype act)
{
    plim_adapter_config g;
    CHECK_OK(c, plim_spec_load(c, base, &w.spec));
    CHECK_OK(c, plim_adapter_survey(c, adapter, &w.spec, &g));
    plim_options o = laid_options(act, g.rank);
    o.lora_targets = g.targets;
    laid_place(c, &w, o, 0, w.spec.layers);
    return g;
}

static inline plim_adapter_save_args save_of(const char *folder, plim_adapter_config g)
{
    return (plim_adapter_save_args){.folder = folder,
                                    .shape = &w.sh,
                                    .master = w.adapters.master,
                                    .config = g,
                                    .dtype = PLIM_F32,
                                    .trained = true};
}

/* Names in a folder that are no "." or "..". */
static inline int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

#endif
