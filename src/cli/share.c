/* share.c - decides where the files that come with the program lie. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool readable(char *buf, size_t bytes, const char *folder, const char *name)
{
    int n = snprintf(buf, bytes, "%s/%s", folder, name);
    return n > 0 && (size_t)n < bytes && access(buf, R_OK) == 0;
}

bool plim_cli_share(char *buf, size_t bytes, const char *name)
{
    char folder[2048], program[2000];
    const char *set = getenv("PLIMSOLL_SHARE");
    if (set && *set) return readable(buf, bytes, set, name);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = 0;
        char *slash = strrchr(program, '/');
        if (slash) *slash = 0;
        static const char *const places[] = {"share", "../share/plimsoll", "../share"};
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(folder, sizeof folder, "%s/%s", program, places[i]);
            if (readable(buf, bytes, folder, name)) return true;
        }
    }
    return readable(buf, bytes, PLIM_SHARE_INSTALLED, name) || readable(buf, bytes, PLIM_SHARE_SOURCE, name);
}
