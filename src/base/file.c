/* file.c - decides how files are read (one private mapping) and replaced (temporary, sync, rename, sync). */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES     65536
#define WRITE_BYTES      ((size_t)1 << 30) /* Linux takes at most 2^31 - 4096 at once */
#define TEMPORARY_TRIES  10000             /* left-overs of killed processes with our pid */
#define TEMPORARY_PREFIX ".plimsoll"

/* ---- reading ------------------------------------------------------------------------------------------ */

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    if (S_ISSOCK(mode)) return "a socket";
    return "not a regular file";
}

static plim_status map_open(plim_ctx *c, const char *path, int fd, plim_file *out)
{
    struct stat s;
    if (fstat(fd, &s)) return plim_fail(c, PLIM_E_IO, "%s: cannot be examined: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return plim_fail(c, PLIM_E_IO, "%s: is %s; a regular file is needed", path, kind_of(s.st_mode));
    if (s.st_size == 0) {
        *out = (plim_file){"", 0};
        return PLIM_OK;
    }
    void *p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return plim_fail(c, errno == ENOMEM ? PLIM_E_OOM_HOST : PLIM_E_IO,
                         "%s: %lld bytes cannot be mapped: %s", path, (long long)s.st_size, strerror(errno));
    *out = (plim_file){p, (size_t)s.st_size};
    return PLIM_OK;
}

plim_status plim_file_map(plim_ctx *c, const char *path, plim_file *out)
{
    /* without O_NONBLOCK a pipe would wait for its writer before it could be refused */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return plim_fail(c, PLIM_E_IO, "%s: cannot be opened for reading: %s", path, strerror(errno));
    plim_status st = map_open(c, path, fd, out);
    close(fd);
    return st;
}

void plim_file_unmap(plim_file *f)
{
    if (f->bytes) munmap((void *)(uintptr_t)f->data, f->bytes);
    *f = (plim_file){0};
}

/* ---- writing ------------------------------------------------------------------------------------------ */

struct plim_writer {
    plim_ctx *c;
    int fd;
    plim_status status;
    uint64_t flushed_bytes;
    size_t used_bytes; /* of buffer */
    char target[PLIM_PATH_BYTES], folder[PLIM_PATH_BYTES], temporary[PLIM_PATH_BYTES];
    char buffer[BUFFER_BYTES];
};

static plim_status fail_write(plim_writer *w, const char *what)
{
    w->status = plim_fail(w->c, PLIM_E_IO, "%s: %s: %s; the file is as it was before", w->target, what,
                          strerror(errno));
    return w->status;
}

/* Where the bytes will end up: through a symbolic link, and only onto a regular file. */
static plim_status find_target(plim_writer *w, const char *path, mode_t *mode)
{
    struct stat s;
    *mode = 0;
    size_t n = strlen(path);
    if (n == 0) return plim_fail(w->c, PLIM_E_IO, "an empty path cannot be written to");
    if (n >= sizeof w->target)
        return plim_fail(w->c, PLIM_E_RANGE, "a path of %zu bytes is too long; at most %d fit", n,
                         PLIM_PATH_BYTES - 1);
    memcpy(w->target, path, n + 1);
    if (lstat(path, &s)) return errno == ENOENT ? PLIM_OK : fail_write(w, "cannot be written");
    if (S_ISLNK(s.st_mode)) {
        char resolved[PLIM_PATH_BYTES]; /* PATH_MAX, as realpath asks */
        if (!realpath(path, resolved)) return fail_write(w, "is a symbolic link that leads nowhere");
        memcpy(w->target, resolved, sizeof resolved);
        if (stat(resolved, &s)) return fail_write(w, "cannot be examined");
    }
    if (!S_ISREG(s.st_mode))
        return plim_fail(w->c, PLIM_E_IO, "%s: is %s and cannot be replaced; name a regular file", path,
                         kind_of(s.st_mode));
    *mode = s.st_mode & 07777;
    return PLIM_OK;
}

static plim_status open_temporary(plim_writer *w)
{
    TRY(plim_path_folder(w->c, w->folder, sizeof w->folder, w->target));
    for (int n = 0; n < TEMPORARY_TRIES; n++) {
        char name[64];
        snprintf(name, sizeof name, TEMPORARY_PREFIX "-%ld-%d.tmp", (long)getpid(), n);
        TRY(plim_path_join(w->c, w->temporary, sizeof w->temporary, w->folder, name));
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0) return PLIM_OK;
        if (errno != EEXIST) return fail_write(w, "a new file cannot be made in its folder");
    }
    return fail_write(w, "remove the left-over " TEMPORARY_PREFIX "-*.tmp files in its folder");
}

plim_status plim_writer_open(plim_ctx *c, const char *path, plim_writer **out)
{
    plim_writer *w = NULL;
    mode_t mode = 0;
    TRY(plim_alloc(c, 1, sizeof *w, "a file writer", &w));
    w->c = c;
    w->fd = -1;
    plim_status st = find_target(w, path, &mode);
    if (!st) st = open_temporary(w);
    if (!st && mode && fchmod(w->fd, mode)) st = fail_write(w, "its permissions cannot be kept");
    if (st) {
        plim_writer_abort(w);
        return st;
    }
    *out = w;
    return PLIM_OK;
}

static plim_status write_all(plim_writer *w, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(w->fd, data, bytes < WRITE_BYTES ? bytes : WRITE_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_write(w, "writing failed");
        data += n;
        bytes -= (size_t)n;
        w->flushed_bytes += (uint64_t)n;
    }
    return PLIM_OK;
}

static plim_status flush(plim_writer *w)
{
    size_t bytes = w->used_bytes;
    w->used_bytes = 0;
    return write_all(w, w->buffer, bytes);
}

plim_status plim_writer_write(plim_writer *w, const void *data, size_t bytes)
{
    if (w->status) return w->status;
    if (bytes > BUFFER_BYTES - w->used_bytes) TRY(flush(w));
    if (bytes >= BUFFER_BYTES) return write_all(w, data, bytes);
    if (bytes) memcpy(w->buffer + w->used_bytes, data, bytes);
    w->used_bytes += bytes;
    return PLIM_OK;
}

/* Text longer than the free part of the buffer: formatted again in a block of its own. */
static plim_status print_long(plim_writer *w, size_t bytes, const char *fmt, va_list ap)
{
    char *text = NULL;
    w->status = plim_alloc(w->c, bytes + 1, 1, "formatted text", &text);
    if (w->status) return w->status;
    vsnprintf(text, bytes + 1, fmt, ap);
    plim_status st = plim_writer_write(w, text, bytes);
    plim_release(w->c, text);
    return st;
}

plim_status plim_writer_printf(plim_writer *w, const char *fmt, ...)
{
    if (w->status) return w->status;
    size_t room = BUFFER_BYTES - w->used_bytes;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(w->buffer + w->used_bytes, room, fmt, ap);
    va_end(ap);
    if (n < 0) return fail_write(w, "text cannot be formatted");
    if ((size_t)n < room) {
        w->used_bytes += (size_t)n;
        return PLIM_OK;
    }
    va_start(ap, fmt);
    plim_status st = print_long(w, (size_t)n, fmt, ap);
    va_end(ap);
    return st;
}

uint64_t plim_writer_bytes(const plim_writer *w)
{
    return w->flushed_bytes + w->used_bytes;
}

/* Some network file systems cannot sync a folder and say EINVAL; there the rename is all there is. */
static plim_status sync_folder(plim_writer *w)
{
    int fd = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return PLIM_OK; /* a folder may be writable and not readable */
    int failed = fsync(fd) && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP ? errno : 0;
    close(fd);
    if (!failed) return PLIM_OK;
    return plim_fail(w->c, PLIM_E_IO, "%s: was replaced, but its folder cannot be synced: %s", w->target,
                     strerror(failed));
}

plim_status plim_writer_commit(plim_writer *w)
{
    plim_status st = w->status ? w->status : flush(w);
    if (!st && fsync(w->fd)) st = fail_write(w, "syncing failed");
    if (!st) {
        int fd = w->fd;
        w->fd = -1;
        if (close(fd) && errno != EINTR) st = fail_write(w, "closing failed");
    }
    if (!st && rename(w->temporary, w->target)) st = fail_write(w, "renaming failed");
    if (!st) {
        w->temporary[0] = 0;
        st = sync_folder(w);
    }
    plim_writer_abort(w);
    return st;
}

void plim_writer_abort(plim_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->temporary[0]) unlink(w->temporary);
    plim_release(w->c, w);
}

plim_status plim_file_write(plim_ctx *c, const char *path, const void *data, size_t bytes)
{
    plim_writer *w = NULL;
    TRY(plim_writer_open(c, path, &w));
    plim_writer_write(w, data, bytes); /* sticky: commit reports it */
    return plim_writer_commit(w);
}

/* ---- paths -------------------------------------------------------------------------------------------- */

static plim_status fail_path(plim_ctx *c, size_t cap, const char *path)
{
    return plim_fail(c, PLIM_E_RANGE, "a path is too long; at most %zu bytes fit: %.80s...",
                     cap ? cap - 1 : 0, path);
}

plim_status plim_path_join(plim_ctx *c, char *buf, size_t cap, const char *folder, const char *name)
{
    size_t a = strlen(folder), b = strlen(name);
    if (name[0] == '/') a = 0;
    bool slash = a && folder[a - 1] != '/';
    if (a >= cap || b >= cap - a || (size_t)slash >= cap - a - b) return fail_path(c, cap, a ? folder : name);
    memmove(buf, folder, a);
    if (slash) buf[a++] = '/';
    memcpy(buf + a, name, b + 1);
    return PLIM_OK;
}

plim_status plim_path_folder(plim_ctx *c, char *buf, size_t cap, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *from = slash ? path : ".";
    size_t n = !slash || slash == path ? 1 : (size_t)(slash - path);
    if (n >= cap) return fail_path(c, cap, path);
    memmove(buf, from, n);
    buf[n] = 0;
    return PLIM_OK;
}

bool plim_path_is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool plim_path_is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

bool plim_path_is_name(const char *name)
{
    return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}
