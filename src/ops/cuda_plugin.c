/* cuda_plugin.c - decides where the plug-in is looked for. */
#include "ops/cuda_plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"

#define PLUGIN_NAME "libplimsoll_cuda.so"

static void *open_at(char path[1024], const char *folder, const char *rest)
{
    int n = snprintf(path, 1024, "%s%s", folder, rest);
    if (n < 0 || n >= 1024 || access(path, R_OK) != 0) return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *find(char path[1024])
{
    static const char *const places[] = {"/" PLUGIN_NAME, "/../" PLUGIN_NAME, "/../lib/plimsoll/" PLUGIN_NAME,
                                         "/../lib/" PLUGIN_NAME};
    char program[900];
    const char *named = getenv("PLIMSOLL_CUDA");
    if (named && *named) return open_at(path, named, "");
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return NULL;
    program[n] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        void *file = open_at(path, program, places[i]);
        if (file) return file;
    }
    return NULL;
}

/* A function by name: memcpy keeps the conversion from void * within the standard. */
static bool resolve(void *file, const char *name, void *out)
{
    void *p = dlsym(file, name);
    memcpy(out, &p, sizeof p);
    return p != NULL;
}

plim_status plim_cuda_plugin_open(plim_ctx *c, plim_cuda_plugin *out)
{
    plim_cuda_plugin p = {0};
    int (*abi)(void) = NULL;
    p.file = find(p.path);
    if (!p.file) {
        const char *why = dlerror();
        return plim_fail(c, PLIM_E_UNSUPPORTED,
                         "the CUDA plug-in " PLUGIN_NAME
                         " was not found beside the program or in ../lib (%s); --device cpu "
                         "works without it, and PLIMSOLL_CUDA can name it",
                         why ? why : "this build has none");
    }
    bool whole = resolve(p.file, "plim_cuda_abi", &abi) &&
                 resolve(p.file, "plim_cuda_describe", &p.describe) &&
                 resolve(p.file, "plim_cuda_machine", &p.machine);
    if (!whole || abi() != PLIM_CUDA_ABI) {
        plim_cuda_plugin_close(&p);
        return plim_fail(c, PLIM_E_UNSUPPORTED, "%s belongs to another version of plimsoll", p.path);
    }
    *out = p;
    return PLIM_OK;
}

void plim_cuda_plugin_close(plim_cuda_plugin *p)
{
    if (p->file) dlclose(p->file);
    *p = (plim_cuda_plugin){0};
}
