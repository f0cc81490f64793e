/* spill.c - decides where bytes wait: a file that is unlinked as soon as it is open, written through a
 * buffer.
 */
#include "formats/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/file.h"

#define BUFFER_BYTES ((size_t)1 << 18)
#define TRIES        10000 /* left-overs of processes killed between open and unlink */

struct plim_spill {
    plim_ctx *c;
    int fd;
    uint64_t flushed_bytes;
    size_t used_bytes; /* of buffer */
    char path[PLIM_PATH_BYTES];
    char buffer[BUFFER_BYTES];
};

static plim_status failed(const plim_spill *s, const char *what)
{
    return plim_fail(s->c, PLIM_E_IO, "%s: %s: %s; the file is as it was before", s->path, what,
                     strerror(errno));
}

static plim_status open_nameless(plim_spill *s)
{
    char folder[PLIM_PATH_BYTES], name[64], full[PLIM_PATH_BYTES];
    TRY(plim_path_folder(s->c, folder, sizeof folder, s->path));
    for (int n = 0; n < TRIES; n++) {
        snprintf(name, sizeof name, ".plimsoll-%ld-%d.spill", (long)getpid(), n);
        TRY(plim_path_join(s->c, full, sizeof full, folder, name));
        s->fd = open(full, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (s->fd < 0 && errno == EEXIST) continue;
        if (s->fd < 0) return failed(s, "a temporary file cannot be made in its folder");
        if (unlink(full)) return failed(s, "a temporary file in its folder cannot be unlinked");
        return PLIM_OK;
    }
    return failed(s, "remove the left-over .plimsoll-*.spill files in its folder");
}

plim_status plim_spill_open(plim_ctx *c, const char *path, plim_spill **out)
{
    plim_spill *s = NULL;
    size_t n = strlen(path);
    if (n >= sizeof s->path)
        return plim_fail(c, PLIM_E_RANGE, "a path of %zu bytes is too long; at most %d fit", n,
                         PLIM_PATH_BYTES - 1);
    TRY(plim_alloc(c, 1, sizeof *s, "a temporary file's buffer", &s));
    s->c = c;
    s->fd = -1;
    memcpy(s->path, path, n + 1);
    plim_status st = open_nameless(s);
    if (st) {
        plim_spill_close(s);
        return st;
    }
    *out = s;
    return PLIM_OK;
}

static plim_status flush(plim_spill *s)
{
    for (size_t at = 0; at < s->used_bytes;) {
        ssize_t n = pwrite(s->fd, s->buffer + at, s->used_bytes - at, (off_t)s->flushed_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(s, "a temporary file beside it cannot be written");
        at += (size_t)n;
        s->flushed_bytes += (uint64_t)n;
    }
    s->used_bytes = 0;
    return PLIM_OK;
}

plim_status plim_spill_write(plim_spill *s, const void *data, size_t bytes)
{
    for (const char *from = data; bytes;) {
        size_t n = BUFFER_BYTES - s->used_bytes < bytes ? BUFFER_BYTES - s->used_bytes : bytes;
        memcpy(s->buffer + s->used_bytes, from, n);
        s->used_bytes += n;
        from += n;
        bytes -= n;
        if (s->used_bytes == BUFFER_BYTES) TRY(flush(s));
    }
    return PLIM_OK;
}

plim_status plim_spill_read(plim_spill *s, plim_status (*take)(void *user, const void *data, size_t bytes),
                            void *user)
{
    TRY(flush(s));
    for (uint64_t at = 0; at < s->flushed_bytes;) {
        ssize_t n = pread(s->fd, s->buffer, BUFFER_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return failed(s, "a temporary file beside it cannot be read back");
        TRY(take(user, s->buffer, (size_t)n));
        at += (uint64_t)n;
    }
    return PLIM_OK;
}

void plim_spill_close(plim_spill *s)
{
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    plim_release(s->c, s);
}
