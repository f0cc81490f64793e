/* test.c - the failing allocator, scratch folders and commands behind test.h. */
#include "support/test.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t fail_at = -1;
static int64_t live;

static bool should_fail(void)
{
    if (fail_at < 0) return false;
    return fail_at-- == 0;
}

static void *count_alloc(void *user, size_t bytes)
{
    (void)user;
    if (should_fail() || bytes > ((size_t)1 << 40)) return NULL;
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (p) live++;
    return p;
}

static void count_release(void *user, void *p)
{
    (void)user;
    if (p) live--;
    free(p);
}

static void *json_alloc(size_t bytes)
{
    return count_alloc(NULL, bytes ? bytes : 1);
}

static void json_release(void *p)
{
    count_release(NULL, p);
}

plim_ctx *test_ctx_open(void)
{
    static const plim_allocator allocator = {count_alloc, count_release, NULL};
    plim_ctx *c = NULL;
    json_set_alloc_funcs(json_alloc, json_release);
    test_fail_allocation(-1);
    if (plim_ctx_open(&allocator, &c)) fail_msg("no context");
    return c;
}

void test_ctx_close(plim_ctx *c)
{
    plim_ctx_close(c);
}

void test_fail_allocation(int64_t nth)
{
    fail_at = nth;
}

int64_t test_live_allocations(void)
{
    return live;
}

int64_t test_every_allocation(plim_ctx *c, test_open open, void *user)
{
    for (int64_t nth = 0;; nth++) {
        int64_t before = live;
        test_fail_allocation(nth);
        plim_status st = open(c, user);
        bool reached = fail_at < 0;
        test_fail_allocation(-1);
        if (live != before)
            fail_msg("allocation %lld failed: %lld left behind", (long long)nth, (long long)(live - before));
        if (st == PLIM_OK) {
            if (reached) fail_msg("allocation %lld failed and was not noticed", (long long)nth);
            return nth;
        }
        if (st != PLIM_E_OOM_HOST)
            fail_msg("allocation %lld failed: %s: %s", (long long)nth, plim_status_name(st),
                     plim_ctx_message(c));
        plim_ctx_clear(c);
        if (nth > 1000000) fail_msg("a million allocations and no end");
    }
}

void test_check_fails(plim_ctx *c, plim_status want, plim_status got, const char *expr,
                      const char *const *words)
{
    const char *message = plim_ctx_message(c);
    if (got != want)
        fail_msg("%s: wanted %s, got %s: %s", expr, plim_status_name(want), plim_status_name(got), message);
    for (; *words; words++)
        if (!strstr(message, *words)) fail_msg("%s: no '%s' in the message: %s", expr, *words, message);
    plim_ctx_clear(c);
}

/* Paths live until exit; the list keeps them reachable for a leak checker. */
static char *keep(const char *fmt, const char *a, const char *b)
{
    static char *kept[1 << 16];
    static size_t count;
    char *p = NULL;
    if (asprintf(&p, fmt, a, b) < 0 || count == sizeof kept / sizeof *kept) abort();
    return kept[count++] = p;
}

const char *test_folder(const char *name)
{
    char *out, *path = keep("%s/%s", "test-tmp", name);
    if (test_command(&out, "rm -rf '%s' && mkdir -p '%s'", path, path))
        fail_msg("cannot make %s: %s", path, out);
    free(out);
    return path;
}

const char *test_path(const char *folder, const char *name)
{
    return keep("%s/%s", folder, name);
}

void test_write(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f))
        fail_msg("cannot write %s: %s", path, strerror(errno));
}

char *test_read(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot read %s: %s", path, strerror(errno));
    size_t n = 0, cap = 1 << 16;
    char *p = malloc(cap + 1);
    for (size_t got; p && (got = fread(p + n, 1, cap - n, f)) > 0;) {
        n += got;
        if (n == cap) p = realloc(p, (cap *= 2) + 1);
    }
    fclose(f);
    if (!p) abort();
    p[n] = 0;
    if (bytes) *bytes = n;
    return p;
}

int test_command(char **out, const char *fmt, ...)
{
    char command[8192], redirected[8300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    snprintf(redirected, sizeof redirected, "{ %s; } 2>&1", command);
    FILE *f = popen(redirected, "r");
    if (!f) abort();
    size_t n = 0, cap = 1 << 16;
    char *p = malloc(cap + 1);
    for (size_t got; p && (got = fread(p + n, 1, cap - n, f)) > 0;) {
        n += got;
        if (n == cap) p = realloc(p, (cap *= 2) + 1);
    }
    if (!p) abort();
    p[n] = 0;
    int status = pclose(f);
    *out = p;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
