/* plan.c - `plimsoll plan`: reads the model, works out the table, prints it. */
#include "cli/plan.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/step_options.h"
#include "formats/model_files.h"

#define SHOWN_PROBLEMS 50

/* With weights in the folder, they must be what the config promises. */
static plim_status check_files(plim_cli *cli, const plim_plan_ask *ask)
{
    char path[PLIM_PATH_BYTES];
    plim_model_files *files = NULL;
    if (!plim_path_is_folder(ask->model)) return PLIM_OK;
    bool index = !plim_path_join(cli->ctx, path, sizeof path, ask->model, PLIM_MODEL_INDEX_NAME) &&
                 !access(path, F_OK);
    bool single = !plim_path_join(cli->ctx, path, sizeof path, ask->model, PLIM_MODEL_SINGLE_NAME) &&
                  !access(path, F_OK);
    if (!index && !single) {
        plim_log_write(&cli->log, PLIM_LOG_INFO, "%s holds no weights: planned from its config.json alone",
                       ask->model);
        return PLIM_OK;
    }
    plim_status st = plim_model_files_check(cli->ctx, ask->model, &ask->spec, &files);
    if (files) {
        for (size_t i = 0; i < files->problems.kept && i < SHOWN_PROBLEMS; i++)
            plim_log_write(&cli->log, PLIM_LOG_ERROR, "%s", files->problems.items[i].text);
        for (size_t i = 0; i < files->notes.kept && i < SHOWN_PROBLEMS; i++)
            plim_log_write(&cli->log, PLIM_LOG_INFO, "note: %s", files->notes.items[i].text);
        if (st == PLIM_OK)
            plim_log_write(&cli->log, PLIM_LOG_INFO,
                           "%s: %lld tensors in %zu files are what the config promises", ask->model,
                           (long long)files->tensor_count, files->file_count);
    }
    plim_model_files_close(files);
    return st;
}

static void list_tensor(void *user, bool host, const char *name, plim_component m, size_t offset_bytes,
                        size_t size_bytes, plim_dtype d, int64_t rows, int64_t cols, int64_t pitch)
{
    fprintf(user, "%s\t%zu\t%zu\t%s\t%s\t%s\t%lld\t%lld\t%lld\n", host ? "host" : "device", offset_bytes,
            size_bytes, plim_component_key(m), name, plim_dtype_name(d), (long long)rows, (long long)cols,
            (long long)pitch);
}

/* The layout of the longest asked length with the given options, on the first asked card. */
static plim_status print_layout(plim_cli *cli, const plim_plan_ask *ask)
{
    plim_options o = ask->base;
    o.seq_tokens = ask->seq_tokens[ask->seq_count - 1];
    if (o.documents > o.seq_tokens) o.documents = o.seq_tokens;
    o.context_bytes = (size_t)ask->chosen[0]->context_bytes;
    if (!(ask->limits.pinned & PLIM_PIN_ATTENTION_KERNEL)) o.attention = ask->chosen[0]->attention;
    fprintf(stdout, "memory\toffset_bytes\tsize_bytes\tcomponent\ttensor\tdtype\trows\tcols\tpitch\n");
    return plim_layout_list(cli->ctx, &ask->spec, &o, list_tensor, stdout);
}

static plim_status answer(plim_cli *cli, const plim_plan_ask *ask, int *code)
{
    plim_table_request r = {
        .model = ask->model,
        .spec = &ask->spec,
        .trainer = ask->trainer,
        .cards = ask->chosen,
        .card_count = ask->chosen_count,
        .seq_tokens = ask->seq_tokens,
        .seq_count = ask->seq_count,
        .base = ask->base,
        .limits = ask->limits,
        .workload = ask->workload,
        .card_file = ask->card_file,
        .load_line = ask->load_line,
    };
    plim_table t = {0};
    TRY(plim_table_make(cli->ctx, &r, &ask->cards, &t));
    plim_status st = PLIM_OK;
    if (ask->json) {
        char *text = NULL;
        st = plim_table_json(cli->ctx, &t, &text);
        if (!st) fputs(text, stdout);
        plim_text_free(cli->ctx, text);
    } else {
        plim_log out;
        plim_log_open(&out, stdout, PLIM_LOG_INFO); /* for its verdict on colour */
        plim_plan_print(ask, &t, stdout, out.colour);
    }
    if (!st && ask->html) {
        st = plim_table_html(cli->ctx, &t, ask->html);
        if (!st) plim_log_write(&cli->log, PLIM_LOG_INFO, "wrote %s", ask->html);
    }
    *code = ask->seq_given && !t.all_carried ? PLIM_EXIT_NOFIT : PLIM_EXIT_DONE;
    plim_table_free(cli->ctx, &t);
    return st;
}

static plim_status plan(plim_cli *cli, int argc, char **argv, plim_plan_ask *ask, int *code)
{
    TRY(plim_plan_arguments(cli, argc, argv, ask, code));
    if (*code >= 0) return PLIM_OK;
    TRY(plim_spec_load(cli->ctx, ask->model, &ask->spec));
    TRY(plim_step_check(cli->ctx, &ask->base, ask->limits.pinned, &ask->spec));
    TRY(check_files(cli, ask));
    if (ask->layout) {
        *code = PLIM_EXIT_DONE;
        return print_layout(cli, ask);
    }
    return answer(cli, ask, code);
}

static int run(plim_cli *cli, int argc, char **argv)
{
    static plim_plan_ask ask; /* large; one a process */
    int code = PLIM_EXIT_DONE;
    plim_status st = plan(cli, argc, argv, &ask, &code);
    plim_cards_close(cli->ctx, &ask.cards);
    return st ? plim_cli_failed(cli, st) : code;
}

const plim_cli_command plim_command_plan = {
    "plan",
    "MODEL [options]",
    "which card carries which sample length, with which options, for how many dollars\n\n"
    "MODEL is a config.json of any name, or a model folder; with weights in it, their headers are checked "
    "too.\n"
    "Nothing is downloaded and no GPU is needed.",
    plim_plan_options,
    "  plimsoll plan config.json                          lengths x cards: does it fit, what does it cost\n"
    "  plimsoll plan config.json --seq 16k,48k            which cards and options carry these, cheapest "
    "first\n"
    "  plimsoll plan config.json --card a100,h200         the longest length of each card\n"
    "  plimsoll plan config.json --tokens 3.3M            hours and USD of a run\n"
    "  plimsoll plan config.json --trainer note           the same by the reference note's arithmetic\n"
    "  plimsoll plan config.json --json > plan.json       for a program\n"
    "  plimsoll plan config.json --html plan.html         with pictures\n",
    run,
};
