/* main.c - picks the subcommand.  The only place that ends the process. */
#include "cli/cli.h"

#include <string.h>

static const plim_cli_command *const commands[] = {
    &plim_command_plan,         &plim_command_memtest, &plim_command_train,
    &plim_command_eval,         &plim_command_data,    &plim_command_render,
    &plim_command_random_model, &plim_command_tokens,  &plim_command_doctor};
#define COMMANDS (sizeof commands / sizeof *commands)

static void help(FILE *to)
{
    fprintf(to,
            "plimsoll %s: the load line of a GPU. How long a sample a card carries, for how many dollars.\n\n"
            "plimsoll COMMAND ...\n\nCommands\n",
            PLIM_VERSION);
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *summary = commands[i]->summary;
        fprintf(to, "  %-12s %.*s\n", commands[i]->name, (int)strcspn(summary, "\n"), summary);
    }
    fprintf(to, "\nplimsoll COMMAND --help explains one; plimsoll --version tells the version.\n"
                "Exit codes: 0 done, 1 failed, 2 not understood, 3 does not fit.\n");
}

int plim_cli_failed(plim_cli *cli, plim_status st)
{
    const char *message = plim_ctx_message(cli->ctx);
    plim_log_write(&cli->log, PLIM_LOG_ERROR, "%s", *message ? message : plim_status_text(st));
    if (st == PLIM_E_USAGE) return PLIM_EXIT_USAGE;
    return st == PLIM_E_NOFIT ? PLIM_EXIT_NOFIT : PLIM_EXIT_FAILED;
}

static int run(plim_cli *cli, int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return PLIM_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help(stdout);
        return PLIM_EXIT_DONE;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("plimsoll " PLIM_VERSION);
        return PLIM_EXIT_DONE;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i]->name)) return commands[i]->run(cli, argc - 1, argv + 1);
    plim_log_write(&cli->log, PLIM_LOG_ERROR,
                   "plimsoll %s has no command '%s'; plimsoll --help lists those it has", PLIM_VERSION,
                   argv[1]);
    return PLIM_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc > 1 && (!strcmp(argv[1], "train") || !strcmp(argv[1], "eval") || !strcmp(argv[1], "memtest")))
        plim_cli_calm_threads(argv);
    /* Whole lines, wherever they go: what is said on standard error falls between them, not into one. */
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    plim_cli cli = {0};
    plim_log_open(&cli.log, stderr, PLIM_LOG_INFO);
    if (plim_ctx_open(NULL, &cli.ctx)) {
        plim_log_write(&cli.log, PLIM_LOG_ERROR, "out of memory");
        return PLIM_EXIT_FAILED;
    }
    int code = run(&cli, argc, argv);
    plim_ctx_close(cli.ctx);
    if (fflush(stdout) || ferror(stdout)) {
        plim_log_write(&cli.log, PLIM_LOG_ERROR, "standard output could not be written");
        if (code == PLIM_EXIT_DONE) code = PLIM_EXIT_FAILED;
    }
    return code;
}
