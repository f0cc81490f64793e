/* random_model.c - `plimsoll random-model`: a model folder from a config alone, for tests of memory and of
 * tools. */
#include "cli/cli.h"

#include <string.h>

#include "base/progress.h"
#include "base/units.h"
#include "train/random_folder.h"

#define OPTIONS(X)                                                                                           \
    X(SEED, "seed", "N", "the same seed gives the same weights, whatever dtype and shards (needed)")         \
    X(OUT, "out", "DIR", "folder to make (needed); one that holds a model is refused")                       \
    X(DTYPE, "dtype", "DTYPE", "bf16, f16 or f32 (as the config says, else bf16)")                           \
    X(SHARD, "shard-size", "BYTES", "most bytes of tensors in a file (2GB)")

enum {
#define ENUM(id, name, value, help) OPTION_##id,
    OPTIONS(ENUM)
#undef ENUM
};

static const plim_cli_option options[] = {
#define ROW(id, name, value, help) {name, value, help},
    OPTIONS(ROW)
#undef ROW
        {NULL, NULL, NULL},
};

/* Spellings of --dtype and of a config. */
static const struct {
    const char *option, *config;
    plim_dtype dtype;
} dtypes[] = {{"bf16", "bfloat16", PLIM_BF16}, {"f16", "float16", PLIM_F16}, {"f32", "float32", PLIM_F32}};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

typedef struct ask {
    plim_random_folder folder;
    bool seed, dtype;
} ask;

static plim_status read_dtype(plim_ctx *c, const char *value, ask *a)
{
    for (int i = 0; i < DTYPES; i++) {
        if (strcmp(value, dtypes[i].option) != 0) continue;
        a->folder.dtype = dtypes[i].dtype;
        a->dtype = true;
        return PLIM_OK;
    }
    return plim_fail(c, PLIM_E_USAGE, "--dtype %s is not understood; bf16, f16 or f32 would work", value);
}

static plim_status read_option(plim_ctx *c, int option, const char *value, ask *a)
{
    int64_t seed;
    size_t bytes;
    switch (option) {
    case OPTION_SEED:
        TRY(plim_parse_int(c, "--seed", value, 0, INT64_MAX, &seed));
        a->folder.seed = (uint64_t)seed;
        a->seed = true;
        return PLIM_OK;
    case OPTION_OUT: a->folder.out = value; return PLIM_OK;
    case OPTION_DTYPE: return read_dtype(c, value, a);
    default:
        TRY(plim_parse_bytes(c, "--shard-size", value, &bytes));
        if (bytes == 0) return plim_fail(c, PLIM_E_USAGE, "--shard-size 0 holds nothing; 2GB would work");
        a->folder.shard_bytes = bytes;
        return PLIM_OK;
    }
}

static plim_status read_arguments(plim_cli *cli, int argc, char **argv, ask *a, int *code)
{
    plim_ctx *c = cli->ctx;
    plim_cli_walk walk = {.command = &plim_command_random_model, .cli = cli, .argc = argc, .argv = argv};
    const char *value = NULL;
    for (int option; (option = plim_cli_next(&walk, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP || option == PLIM_ARG_WRONG) {
            *code = option == PLIM_ARG_HELP ? PLIM_EXIT_DONE : PLIM_EXIT_USAGE;
            return PLIM_OK;
        }
        if (option >= 0) {
            TRY(read_option(c, option, value, a));
            continue;
        }
        if (a->folder.config)
            return plim_fail(c, PLIM_E_USAGE, "one CONFIG at a time: '%s' is one too many after '%s'", value,
                             a->folder.config);
        a->folder.config = value;
    }
    if (!a->folder.config)
        return plim_fail(c, PLIM_E_USAGE,
                         "plimsoll random-model wants a CONFIG: a config.json, or a folder that holds one");
    if (!a->seed || !a->folder.out)
        return plim_fail(c, PLIM_E_USAGE, "plimsoll random-model wants --%s",
                         a->seed ? "out DIR, the folder to make"
                                 : "seed N, so that the weights can be made again");
    return PLIM_OK;
}

/* The config's own dtype, where it is one that can be written. */
static plim_status choose_dtype(plim_cli *cli, ask *a)
{
    static plim_spec spec; /* large; one a process */
    if (a->dtype) return PLIM_OK;
    a->folder.dtype = PLIM_BF16;
    TRY(plim_spec_load(cli->ctx, a->folder.config, &spec));
    for (int i = 0; i < DTYPES; i++)
        if (!strcmp(spec.dtype_name, dtypes[i].config)) a->folder.dtype = dtypes[i].dtype;
    return PLIM_OK;
}

static void show(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
    plim_progress *p = user;
    p->total = (int64_t)(total_bytes >> 20);
    plim_progress_update(p, (int64_t)(done_bytes >> 20));
}

static plim_status random_model(plim_cli *cli, int argc, char **argv, int *code)
{
    ask a = {.folder = {.shard_bytes = 2000000000}};
    plim_progress progress;
    *code = -1;
    TRY(read_arguments(cli, argc, argv, &a, code));
    if (*code >= 0) return PLIM_OK;
    *code = PLIM_EXIT_DONE;
    TRY(choose_dtype(cli, &a));
    plim_progress_open(&progress, &cli->log, plim_clock_monotonic(), "writing weights", "MiB", 0, 0);
    a.folder.progress = show;
    a.folder.progress_user = &progress;
    plim_status st = plim_random_folder_write(cli->ctx, &a.folder);
    plim_progress_close(&progress);
    if (!st)
        plim_log_write(&cli->log, PLIM_LOG_INFO, "wrote random weights in %s, seed %llu, to %s",
                       plim_dtype_name(a.folder.dtype), (unsigned long long)a.folder.seed, a.folder.out);
    return st;
}

static int run(plim_cli *cli, int argc, char **argv)
{
    int code = PLIM_EXIT_DONE;
    plim_status st = random_model(cli, argc, argv, &code);
    return st ? plim_cli_failed(cli, st) : code;
}

const plim_cli_command plim_command_random_model = {
    "random-model",
    "CONFIG --seed N --out DIR [options]",
    "a model folder of random weights, made from a config.json alone\n\n"
    "CONFIG is a config.json of any name, or a folder that holds one; it is copied into DIR.\n"
    "Text tensors only, initialised as the family's own code does; nothing is downloaded.",
    options,
    "  plimsoll random-model config.json --seed 1 --out tiny             as the config says\n"
    "  plimsoll random-model config.json --seed 1 --out wide --dtype f32 --shard-size 5GB\n",
    run,
};
