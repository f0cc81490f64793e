/* machine_memory.c - decides which of the machine's limits is the one that binds. */
#include "base/machine_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_LIMIT_FROM (UINT64_C(1) << 60)

/* ---- texts --------------------------------------------------------------------------------------------- */

/* Digits at *at into *out; false where there are none or they pass 64 bits. */
static bool number(const char **at, uint64_t *out)
{
    const char *p = *at;
    uint64_t n = 0;
    if (*p < '0' || *p > '9') return false;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(n, UINT64_C(10), &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return false;
    *at = p;
    *out = n;
    return true;
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

static bool ends(char c)
{
    return c == '\n' || c == 0;
}

bool plim_kb_line(const char *text, const char *key, uint64_t *out_bytes)
{
    size_t n = strlen(key);
    for (const char *at = text; *at; at = next_line(at)) {
        uint64_t kb;
        if (strncmp(at, key, n) || at[n] != ':') continue;
        at += n + 1;
        at += strspn(at, " \t");
        if (!number(&at, &kb) || strncmp(at, " kB", 3) || !ends(at[3])) return false;
        return !__builtin_mul_overflow(kb, UINT64_C(1024), out_bytes);
    }
    return false;
}

bool plim_stat_line(const char *text, const char *name, uint64_t *out)
{
    size_t n = strlen(name);
    for (const char *at = text; *at; at = next_line(at)) {
        uint64_t value;
        if (strncmp(at, name, n) || at[n] != ' ') continue;
        at += n + 1;
        if (!number(&at, &value) || !ends(*at)) return false;
        *out = value;
        return true;
    }
    return false;
}

bool plim_cgroup_value(const char *text, uint64_t *out_bytes)
{
    uint64_t n;
    if (!strncmp(text, "max", 3) && ends(text[3])) {
        *out_bytes = PLIM_NO_LIMIT;
        return true;
    }
    if (!number(&text, &n) || !ends(*text)) return false;
    *out_bytes = n >= NO_LIMIT_FROM ? PLIM_NO_LIMIT : n;
    return true;
}

/* Whether word is an item of a comma-separated list that ends at end. */
static bool lists(const char *list, const char *end, const char *word)
{
    size_t n = strlen(word);
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - list) == n && !memcmp(list, word, n)) return true;
        list = stop + 1;
    }
    return false;
}

bool plim_cgroup_path(const char *text, int version, char *buf, size_t cap)
{
    for (const char *at = text; *at; at = next_line(at)) {
        /* hierarchy:controllers:path; version 2 is hierarchy 0 without controllers */
        size_t line = strcspn(at, "\n");
        const char *first = memchr(at, ':', line);
        const char *second = first ? memchr(first + 1, ':', line - (size_t)(first + 1 - at)) : NULL;
        if (!second) continue;
        bool ours = version == 2 ? second == first + 1 && first == at + 1 && *at == '0'
                                 : lists(first + 1, second, "memory");
        size_t n = line - (size_t)(second + 1 - at);
        if (!ours || n == 0 || second[1] != '/') continue;
        if (n >= cap) return false;
        memcpy(buf, second + 1, n);
        buf[n] = 0;
        return true;
    }
    return false;
}

/* A field of mountinfo, its octal escapes (\040 for a blank) undone. */
static bool unescape(const char *from, size_t n, char *buf, size_t cap)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        char ch = from[i];
        if (ch == '\\' && n - i > 3 && strspn(from + i + 1, "01234567") >= 3) {
            ch = (char)((from[i + 1] - '0') * 64 + (from[i + 2] - '0') * 8 + (from[i + 3] - '0'));
            i += 3;
        }
        if (used + 1 >= cap) return false;
        buf[used++] = ch;
    }
    buf[used] = 0;
    return true;
}

typedef struct field {
    const char *at;
    size_t bytes;
} field;

/* The fields of one line, at most max of them. */
static size_t split(const char *line, field *fields, size_t max)
{
    size_t count = 0, length = strcspn(line, "\n");
    const char *end = line + length;
    while (line < end && count < max) {
        size_t n = strcspn(line, " \n");
        if (n) fields[count++] = (field){line, n};
        line += n + (line + n < end);
    }
    return count;
}

static bool is(field f, const char *word)
{
    return f.bytes == strlen(word) && !memcmp(f.at, word, f.bytes);
}

bool plim_cgroup_mount(const char *text, int version, char *at, char *mount_root, size_t cap)
{
    /* id parent major:minor root mount-point options [optional ...] - type source super-options */
    enum { ROOT = 3, POINT = 4, MOST = 32 };
    for (const char *line = text; *line; line = next_line(line)) {
        field f[MOST];
        size_t n = split(line, f, MOST), dash = POINT + 1;
        while (dash < n && !is(f[dash], "-")) dash++;
        if (dash + 1 >= n) continue;
        bool ours = version == 2 ? is(f[dash + 1], "cgroup2")
                                 : is(f[dash + 1], "cgroup") && dash + 3 < n &&
                                       lists(f[dash + 3].at, f[dash + 3].at + f[dash + 3].bytes, "memory");
        if (ours)
            return unescape(f[POINT].at, f[POINT].bytes, at, cap) &&
                   unescape(f[ROOT].at, f[ROOT].bytes, mount_root, cap);
    }
    return false;
}

/* ---- files --------------------------------------------------------------------------------------------- */

/* Files of /proc and of cgroups say their size is 0, so they are read until they end.  The text is
 * zero-terminated; release it. */
static plim_status read_text(plim_ctx *c, const char *path, char **out)
{
    char *text = NULL;
    size_t cap = 0, used = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return plim_fail(c, PLIM_E_IO, "%s: cannot be opened for reading: %s", path, strerror(errno));
    plim_status st = PLIM_OK;
    for (;;) {
        st = plim_grow(c, &text, &cap, used + 4096, 1, "the machine's memory");
        if (st) break;
        ssize_t n = read(fd, text + used, cap - used - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) st = plim_fail(c, PLIM_E_IO, "%s: cannot be read: %s", path, strerror(errno));
        if (n <= 0) break;
        used += (size_t)n;
    }
    close(fd);
    if (st) {
        plim_release(c, text);
        return st;
    }
    text[used] = 0;
    *out = text;
    return PLIM_OK;
}

/* A file that may be missing: *out NULL then.  Only memory can fail. */
static plim_status read_if_there(plim_ctx *c, const char *path, char **out)
{
    *out = NULL;
    if (access(path, R_OK)) return PLIM_OK;
    plim_status st = read_text(c, path, out);
    if (st != PLIM_E_IO) return st;
    plim_ctx_clear(c); /* gone or refused between the two calls: as if it were not there */
    return PLIM_OK;
}

static plim_status path_of(plim_ctx *c, char buf[PLIM_PATH_BYTES], const char *root, const char *path)
{
    int n = snprintf(buf, PLIM_PATH_BYTES, "%s%s", root, path);
    if (n >= 0 && n < PLIM_PATH_BYTES) return PLIM_OK;
    return plim_fail(c, PLIM_E_RANGE, "the path %.60s... is too long", path);
}

/* The text of folder/name, or *out NULL. */
static plim_status cgroup_text(plim_ctx *c, const char *folder, const char *name, char **out)
{
    char path[PLIM_PATH_BYTES];
    TRY(plim_path_join(c, path, sizeof path, folder, name));
    return read_if_there(c, path, out);
}

static plim_status cgroup_number(plim_ctx *c, const char *folder, const char *name, uint64_t *out,
                                 bool *found)
{
    char *text;
    TRY(cgroup_text(c, folder, name, &text));
    *found = text && plim_cgroup_value(text, out);
    plim_release(c, text);
    return PLIM_OK;
}

/* Names of the files, by version. */
static const struct {
    const char *limit, *used, *cached;
} files[] = {{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
             {"memory.max", "memory.current", "inactive_file"}};

static uint64_t left_of(uint64_t limit, uint64_t used)
{
    return limit > used ? limit - used : 0;
}

/* Lowers out->usable_bytes to what one cgroup leaves. */
static plim_status look_at(plim_ctx *c, const char *folder, int version, plim_machine_memory *out)
{
    uint64_t limit, used, cached = 0;
    bool found;
    char *stat;
    TRY(cgroup_number(c, folder, files[version - 1].limit, &limit, &found));
    if (!found || limit == PLIM_NO_LIMIT) return PLIM_OK;
    TRY(cgroup_number(c, folder, files[version - 1].used, &used, &found));
    if (!found || used == PLIM_NO_LIMIT) return PLIM_OK;
    /* Pages of files that nobody uses count as used here, though the kernel gives them up on demand. */
    TRY(cgroup_text(c, folder, "memory.stat", &stat));
    if (stat && !plim_stat_line(stat, files[version - 1].cached, &cached)) cached = 0;
    plim_release(c, stat);
    used -= cached < used ? cached : used;
    uint64_t left = left_of(limit, used);
    if (out->cgroup_limit_bytes != PLIM_NO_LIMIT &&
        left >= left_of(out->cgroup_limit_bytes, out->cgroup_used_bytes))
        return PLIM_OK;
    out->cgroup_limit_bytes = limit;
    out->cgroup_used_bytes = used;
    snprintf(out->cgroup, sizeof out->cgroup, "%s", folder);
    if (left < out->usable_bytes) out->usable_bytes = left;
    return PLIM_OK;
}

/* The process's cgroup and all above it, up to where the hierarchy is mounted. */
static plim_status look_at_all(plim_ctx *c, const char *root, int version, const char *cgroups,
                               const char *mounts, plim_machine_memory *out)
{
    char path[PLIM_PATH_BYTES], at[PLIM_PATH_BYTES], mount_root[PLIM_PATH_BYTES], top[PLIM_PATH_BYTES],
        folder[PLIM_PATH_BYTES];
    if (!plim_cgroup_path(cgroups, version, path, sizeof path) ||
        !plim_cgroup_mount(mounts, version, at, mount_root, sizeof at))
        return PLIM_OK;
    TRY(path_of(c, top, root, at));
    /* In a container the mount's root may be the container's own cgroup, and the path still be the host's. */
    const char *below = path;
    size_t n = strlen(mount_root);
    if (n > 1 && !strncmp(path, mount_root, n) && (path[n] == '/' || !path[n])) below = path + n;
    else if (n > 1) below = "";
    while (*below == '/') below++;
    if (!strncmp(below, "..", 2)) below = ""; /* a cgroup outside this namespace: not to be seen from here */
    TRY(plim_path_join(c, folder, sizeof folder, top, below));
    size_t least = strlen(top);
    for (size_t end = strlen(folder); end > least && folder[end - 1] == '/';) folder[--end] = 0;
    for (;;) {
        TRY(look_at(c, folder, version, out));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < least) return PLIM_OK;
        *slash = 0;
    }
}

static plim_status look_at_cgroups(plim_ctx *c, const char *root, plim_machine_memory *out)
{
    char path[PLIM_PATH_BYTES], *cgroups = NULL, *mounts = NULL;
    TRY(path_of(c, path, root, "/proc/self/cgroup"));
    TRY(read_if_there(c, path, &cgroups));
    plim_status st = path_of(c, path, root, "/proc/self/mountinfo");
    if (!st) st = read_if_there(c, path, &mounts);
    for (int version = 1; version <= 2 && !st && cgroups && mounts; version++)
        st = look_at_all(c, root, version, cgroups, mounts, out);
    plim_release(c, mounts);
    plim_release(c, cgroups);
    return st;
}

plim_status plim_machine_memory_read(plim_ctx *c, const char *root, plim_machine_memory *out)
{
    plim_machine_memory m = {.cgroup_limit_bytes = PLIM_NO_LIMIT};
    char path[PLIM_PATH_BYTES], *text;
    TRY(path_of(c, path, root, "/proc/meminfo"));
    TRY(read_text(c, path, &text));
    const char *lacks = NULL;
    if (!plim_kb_line(text, "MemTotal", &m.total_bytes)) lacks = "MemTotal";
    else if (!plim_kb_line(text, "MemAvailable", &m.available_bytes)) lacks = "MemAvailable";
    plim_release(c, text);
    if (lacks)
        return plim_fail(c, PLIM_E_FORMAT,
                         "%s: has no line \"%s: N kB\" (Linux 3.14 and newer write it); a budget would work",
                         path, lacks);
    m.usable_bytes = m.available_bytes;
    TRY(look_at_cgroups(c, root, &m));
    *out = m;
    return PLIM_OK;
}

plim_status plim_process_memory_read(plim_ctx *c, const char *root, plim_process_memory *out)
{
    plim_process_memory m = {0};
    char path[PLIM_PATH_BYTES], *text;
    TRY(path_of(c, path, root, "/proc/self/status"));
    TRY(read_text(c, path, &text));
    bool found = plim_kb_line(text, "VmRSS", &m.resident_bytes) && plim_kb_line(text, "VmHWM", &m.peak_bytes);
    plim_release(c, text);
    if (!found) return plim_fail(c, PLIM_E_FORMAT, "%s: has no lines VmRSS and VmHWM in kB", path);
    *out = m;
    return PLIM_OK;
}

bool plim_process_peak_reset(const char *root)
{
    char path[PLIM_PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/proc/self/clear_refs", root);
    if (n < 0 || (size_t)n >= sizeof path) return false;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool done = write(fd, "5", 1) == 1;
    return close(fd) == 0 && done;
}
