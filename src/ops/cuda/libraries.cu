// libraries.cu - decides where NVIDIA's libraries are looked for, and in which order.
#include "ops/cuda/libraries.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDERS 64

struct folders {
    char path[FOLDERS][512];
    int count;
};

static void add(folders *f, const char *path)
{
    if (f->count < FOLDERS && strlen(path) < sizeof f->path[0]) strcpy(f->path[f->count++], path);
}

static void add_matches(folders *f, const char *pattern)
{
    glob_t g = {};
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) add(f, g.gl_pathv[i]);
    globfree(&g);
}

static void add_under(folders *f, const char *root, const char *rest)
{
    char pattern[600];
    if (root && *root && snprintf(pattern, sizeof pattern, "%s%s", root, rest) < (int)sizeof pattern)
        add_matches(f, pattern);
}

/* Python environments: the active one, then that of every python3 on PATH. */
static void add_python(folders *f)
{
    static const char packages[] = "/lib/python3*/site-packages/nvidia/*/lib";
    add_under(f, getenv("VIRTUAL_ENV"), packages);
    add_under(f, getenv("CONDA_PREFIX"), packages);
    const char *at = getenv("PATH");
    while (at && *at) {
        char root[512];
        size_t n = strcspn(at, ":");
        if (n > 4 && n < sizeof root && !strncmp(at + n - 4, "/bin", 4)) {
            memcpy(root, at, n - 4);
            root[n - 4] = 0;
            add_under(f, root, packages);
        }
        at += n;
        if (*at) at++;
    }
}

static void find_folders(folders *f)
{
    add_under(f, getenv("PLIMSOLL_CUDA_LIBRARIES"), "");
    add_python(f);
    add_under(f, getenv("CUDA_HOME"), "/lib64");
    add_under(f, getenv("CUDA_HOME"), "/lib");
    add_under(f, getenv("CUDA_PATH"), "/lib64");
    add_matches(f, "/usr/local/cuda/lib64");
    add_matches(f, "/usr/local/cuda/lib");
    add_matches(f, "/usr/local/cuda-1[23]*/lib64");
}

/* In each folder, then by name on the loader's own path: a Python environment's are often newer than the
 * system's, and old versions of cuDNN have known errors. */
static void *open_one(const folders *f, const char *name, char path[512])
{
    for (int i = 0; i < f->count; i++) {
        char full[700];
        snprintf(full, sizeof full, "%s/%s", f->path[i], name);
        void *file = dlopen(full, RTLD_NOW | RTLD_GLOBAL);
        if (!file) continue;
        snprintf(path, 512, "%.511s", full);
        return file;
    }
    void *file = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (file) snprintf(path, 512, "%s", name);
    return file;
}

template <typename F> static bool resolve(void *file, const char *name, F *out)
{
    void *p = dlsym(file, name);
    memcpy(out, &p, sizeof p);
    return p != NULL;
}

static void open_cudnn(const folders *f, plim_cuda_libraries *l, char why[512])
{
#ifdef PLIM_HAVE_CUDNN
    char path[512];
    l->nvrtc_file = open_one(f, "libnvrtc.so.13", path);
    if (!l->nvrtc_file) l->nvrtc_file = open_one(f, "libnvrtc.so.12", path);
    l->cudnn_file = open_one(f, "libcudnn.so.9", l->cudnn_path);
    if (!l->cudnn_file) {
        snprintf(
            why, 512,
            "libcudnn.so.9 was not found on the loader's path, under CUDA_HOME or in a Python environment "
            "(pip install nvidia-cudnn-cu13)");
        return;
    }
    bool whole = true;
#define RESOLVE(name) whole &= resolve(l->cudnn_file, #name, &l->name);
    PLIM_CUDNN_FUNCTIONS(RESOLVE)
#undef RESOLVE
    if (whole) return;
    snprintf(why, 512, "%.400s lacks functions of the backend API", l->cudnn_path);
    dlclose(l->cudnn_file);
    l->cudnn_file = NULL;
#else
    (void)f;
    (void)l;
    snprintf(why, 512, "this build was made without cuDNN's headers");
#endif
}

plim_status plim_cuda_libraries_open(plim_ctx *c, plim_cuda_libraries *out, char why[512])
{
    folders *f = NULL;
    plim_cuda_libraries l = {};
    TRY(plim_alloc(c, 1, sizeof *f, "the folders of CUDA libraries", &f));
    find_folders(f);
    why[0] = 0;
    char cublas[512];
    void *base = open_one(f, "libcublas.so.13", cublas); /* brings its own folder into play */
    (void)base;
    l.cublas_file = open_one(f, "libcublasLt.so.13", l.cublas_path);
    if (!l.cublas_file) l.cublas_file = open_one(f, "libcublasLt.so.12", l.cublas_path);
    bool whole = l.cublas_file != NULL;
    if (whole) {
#define RESOLVE(name) whole &= resolve(l.cublas_file, #name, &l.name);
        PLIM_CUBLASLT_FUNCTIONS(RESOLVE)
#undef RESOLVE
        open_cudnn(f, &l, why);
    }
    plim_release(c, f);
    if (!whole) {
        plim_cuda_libraries_close(&l);
        return plim_fail(c, PLIM_E_CUDA,
                         "libcublasLt.so.13 was not found on the loader's path, under CUDA_HOME or in a "
                         "Python environment; "
                         "pip install nvidia-cublas, or name its folder in PLIMSOLL_CUDA_LIBRARIES");
    }
    *out = l;
    return PLIM_OK;
}

void plim_cuda_libraries_close(plim_cuda_libraries *l)
{
    if (l->cudnn_file) dlclose(l->cudnn_file);
    if (l->nvrtc_file) dlclose(l->nvrtc_file);
    if (l->cublas_file) dlclose(l->cublas_file);
    memset(l, 0, sizeof *l);
}
