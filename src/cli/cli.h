/* cli.h - what every subcommand shares: exit codes, options, where shared files lie. */
#ifndef PLIM_CLI_CLI_H
#define PLIM_CLI_CLI_H

#include <stdio.h>

#include "base/log.h"
#include "plimsoll.h"

enum { PLIM_EXIT_DONE = 0, PLIM_EXIT_FAILED = 1, PLIM_EXIT_USAGE = 2, PLIM_EXIT_NOFIT = 3 };

typedef struct plim_cli {
    plim_ctx *ctx;
    plim_log log;
} plim_cli;

/* One long option: "--name VALUE" or "--name=VALUE"; value NULL: a switch.  help may hold line ends. */
typedef struct plim_cli_option {
    const char *name, *value, *help;
} plim_cli_option;

typedef struct plim_cli_command {
    const char *name, *arguments, *summary;
    const plim_cli_option *options; /* ends with a name of NULL */
    const char *examples;
    int (*run)(plim_cli *cli, int argc, char **argv);
} plim_cli_command;

/* Walks argv[1 ..]: each call gives the next option (its index, value in *value) or -1 with an operand in
 * *value, or -2 at the end.  --help prints and returns -3; a mistake is reported and returns -4. */
typedef struct plim_cli_walk {
    const plim_cli_command *command;
    plim_cli *cli;
    int argc, at;
    char **argv;
    bool only_operands; /* after "--" */
} plim_cli_walk;

enum { PLIM_ARG_OPERAND = -1, PLIM_ARG_END = -2, PLIM_ARG_HELP = -3, PLIM_ARG_WRONG = -4 };
int plim_cli_next(plim_cli_walk *w, const char **value);
void plim_cli_help(const plim_cli_command *command, FILE *to);

/* Reports the context's message and gives the exit code of a status. */
int plim_cli_failed(plim_cli *cli, plim_status st);

/* Path of a file under share/ ("cards.json"): $PLIMSOLL_SHARE, beside the program, as installed, or in the
 * source tree. buf: at least 4096 bytes.  False: nowhere. */
bool plim_cli_share(char *buf, size_t bytes, const char *name);

/* For commands that compute: waiting threads sleep instead of spinning.  Returns, or starts the program
 * again. */
void plim_cli_calm_threads(char **argv);

extern const plim_cli_command plim_command_plan;
extern const plim_cli_command plim_command_memtest;
extern const plim_cli_command plim_command_data;
extern const plim_cli_command plim_command_random_model;
extern const plim_cli_command plim_command_render;
extern const plim_cli_command plim_command_train;
extern const plim_cli_command plim_command_eval;
extern const plim_cli_command plim_command_tokens;
extern const plim_cli_command plim_command_doctor;

#endif
