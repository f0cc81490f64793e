/* arguments.c - decides how options are written: long, strict, never abbreviated, with a guess at a misspelt
 * one. */
#include "cli/cli.h"

#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance of two short names. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 32 };
    size_t row[LONGEST + 1], n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];
            row[j] = smaller(smaller(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

static int wrong(const plim_cli_walk *w, const char *fmt, const char *a, const char *b)
{
    plim_log_write(&w->cli->log, PLIM_LOG_ERROR, fmt, a, b);
    plim_log_write(&w->cli->log, PLIM_LOG_INFO, "see: plimsoll %s --help", w->command->name);
    return PLIM_ARG_WRONG;
}

static int unknown(const plim_cli_walk *w, const char *name)
{
    const plim_cli_option *nearest = NULL;
    size_t best = 4;
    for (const plim_cli_option *o = w->command->options; o->name; o++) {
        size_t d = distance(name, o->name);
        if (d >= best) continue;
        best = d;
        nearest = o;
    }
    if (nearest) return wrong(w, "unknown option --%s; did you mean --%s?", name, nearest->name);
    return wrong(w, "unknown option --%s%s", name, "");
}

static int option(plim_cli_walk *w, const char *arg, const char **value)
{
    char name[64];
    const char *equals = strchr(arg, '=');
    size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
    if (length >= sizeof name) return wrong(w, "unknown option --%s%s", arg, "");
    memcpy(name, arg, length);
    name[length] = 0;
    if (!strcmp(name, "help") && !equals) {
        plim_cli_help(w->command, stdout);
        return PLIM_ARG_HELP;
    }
    for (int i = 0; w->command->options[i].name; i++) {
        const plim_cli_option *o = &w->command->options[i];
        if (strcmp(o->name, name)) continue;
        if (!o->value) return equals ? wrong(w, "--%s takes no value%s", name, "") : i;
        if (equals) {
            *value = equals + 1;
            return i;
        }
        if (w->at >= w->argc) return wrong(w, "--%s wants a value: --%s VALUE", name, name);
        *value = w->argv[w->at++];
        return i;
    }
    return unknown(w, name);
}

int plim_cli_next(plim_cli_walk *w, const char **value)
{
    if (w->at == 0) w->at = 1;
    if (w->at >= w->argc) return PLIM_ARG_END;
    const char *arg = w->argv[w->at++];
    if (!w->only_operands && !strcmp(arg, "--")) {
        w->only_operands = true;
        return plim_cli_next(w, value);
    }
    if (!w->only_operands && !strcmp(arg, "-h")) {
        plim_cli_help(w->command, stdout);
        return PLIM_ARG_HELP;
    }
    if (w->only_operands || arg[0] != '-' || !arg[1]) {
        *value = arg;
        return PLIM_ARG_OPERAND;
    }
    if (arg[1] != '-') return wrong(w, "unknown option %s%s; options are written out, as in --help", arg, "");
    return option(w, arg + 2, value);
}

void plim_cli_help(const plim_cli_command *command, FILE *to)
{
    fprintf(to, "plimsoll %s %s\n%s\n\nOptions\n", command->name, command->arguments, command->summary);
    for (const plim_cli_option *o = command->options; o->name; o++) {
        char left[80];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        fprintf(to, "  %-28s ", left);
        for (const char *p = o->help; *p; p++) {
            fputc(*p, to);
            if (*p == '\n') fprintf(to, "  %-28s ", "");
        }
        fputc('\n', to);
    }
    fprintf(to, "  %-28s %s\n\nExamples\n%s", "--help", "this text", command->examples);
}
