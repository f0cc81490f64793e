/* byte_stream.c - decides how a file is unpacked, and what a damaged one says. */
#define ZSTD_STATIC_LINKING_ONLY /* for an allocator of one's own */
#include "data/byte_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/context.h"

#define BLOCK_BYTES ((size_t)256 << 10)

typedef enum packing { PLAIN, GZIP, ZSTANDARD } packing;

struct plim_byte_stream {
    plim_ctx *c;
    const char *path;
    int fd;
    uint64_t size_bytes, done_bytes;
    packing packing;
    bool inside; /* a packed part that has not ended */
    bool ended;  /* the file */
    z_stream gzip;
    bool gzip_open;
    ZSTD_DCtx *zstd;
    size_t at, have; /* of block */
    unsigned char block[BLOCK_BYTES];
};

/* ---- the file ----------------------------------------------------------------------------------------- */

static plim_status fail_file(const plim_byte_stream *s)
{
    return plim_fail(s->c, PLIM_E_IO, "%s: %s", s->path, strerror(errno));
}

static plim_status fill(plim_byte_stream *s)
{
    ssize_t n;
    do n = read(s->fd, s->block, BLOCK_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0) return fail_file(s);
    s->at = 0;
    s->have = (size_t)n;
    s->done_bytes += (uint64_t)n;
    s->ended = n == 0;
    return PLIM_OK;
}

static plim_status damaged(const plim_byte_stream *s, const char *why)
{
    return plim_fail(s->c, PLIM_E_FORMAT,
                     "%s: the %s data are damaged near byte %llu: %s; pack the file again", s->path,
                     s->packing == GZIP ? "gzip" : "Zstandard",
                     (unsigned long long)(s->done_bytes - (s->have - s->at)), why);
}

/* ---- gzip --------------------------------------------------------------------------------------------- */

static void *gzip_alloc(void *user, unsigned count, unsigned size)
{
    void *p = NULL;
    return plim_alloc(user, count, size, "unpacking gzip", &p) ? NULL : p;
}

static void gzip_release(void *user, void *p)
{
    plim_release(user, p);
}

static plim_status open_gzip(plim_byte_stream *s)
{
    s->gzip = (z_stream){.zalloc = gzip_alloc, .zfree = gzip_release, .opaque = s->c};
    if (inflateInit2(&s->gzip, 16 + MAX_WBITS) != Z_OK) return plim_fail_alloc(s->c, 1, "unpacking gzip");
    s->gzip_open = true;
    return PLIM_OK;
}

static plim_status step_gzip(plim_byte_stream *s, char *buf, size_t cap, size_t *got)
{
    z_stream *z = &s->gzip;
    if (!s->inside && inflateReset(z) != Z_OK) return damaged(s, "no new part can begin");
    s->inside = true;
    z->next_in = s->block + s->at;
    z->avail_in = (unsigned)(s->have - s->at);
    z->next_out = (unsigned char *)buf;
    z->avail_out = cap < BLOCK_BYTES ? (unsigned)cap : (unsigned)BLOCK_BYTES;
    unsigned room = z->avail_out;
    int code = inflate(z, Z_NO_FLUSH);
    s->at = s->have - z->avail_in;
    *got = room - z->avail_out;
    if (code == Z_STREAM_END) s->inside = false;
    else if (code == Z_MEM_ERROR) return plim_fail_alloc(s->c, 1, "unpacking gzip");
    else if (code != Z_OK && code != Z_BUF_ERROR) return damaged(s, z->msg ? z->msg : "it makes no sense");
    return PLIM_OK;
}

/* ---- Zstandard ---------------------------------------------------------------------------------------- */

static void *zstd_alloc(void *user, size_t bytes)
{
    void *p = NULL;
    return plim_alloc(user, bytes, 1, "unpacking Zstandard", &p) ? NULL : p;
}

static void zstd_release(void *user, void *p)
{
    plim_release(user, p);
}

static plim_status open_zstd(plim_byte_stream *s)
{
    ZSTD_customMem memory = {zstd_alloc, zstd_release, s->c};
    s->zstd = ZSTD_createDCtx_advanced(memory);
    return s->zstd ? PLIM_OK : plim_fail_alloc(s->c, 1, "unpacking Zstandard");
}

static plim_status step_zstd(plim_byte_stream *s, char *buf, size_t cap, size_t *got)
{
    ZSTD_inBuffer in = {s->block, s->have, s->at};
    ZSTD_outBuffer out = {buf, cap, 0};
    size_t left = ZSTD_decompressStream(s->zstd, &out, &in);
    if (ZSTD_isError(left)) {
        if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation)
            return plim_fail_alloc(s->c, 1, "unpacking Zstandard");
        return damaged(s, ZSTD_getErrorName(left));
    }
    s->at = in.pos;
    s->inside = left != 0;
    *got = out.pos;
    return PLIM_OK;
}

/* ---- both --------------------------------------------------------------------------------------------- */

static plim_status begin(plim_byte_stream *s)
{
    static const unsigned char gzip_mark[] = {0x1f, 0x8b}, zstd_mark[] = {0x28, 0xb5, 0x2f, 0xfd};
    struct stat about;
    if (fstat(s->fd, &about)) return fail_file(s);
    if (S_ISDIR(about.st_mode))
        return plim_fail(s->c, PLIM_E_IO, "%s: is a folder; name the files in it", s->path);
    if (!S_ISREG(about.st_mode)) return plim_fail(s->c, PLIM_E_IO, "%s: is not a regular file", s->path);
    s->size_bytes = (uint64_t)about.st_size;
    TRY(fill(s));
    if (s->have >= sizeof gzip_mark && !memcmp(s->block, gzip_mark, sizeof gzip_mark)) {
        s->packing = GZIP;
        return open_gzip(s);
    }
    if (s->have >= sizeof zstd_mark && !memcmp(s->block, zstd_mark, sizeof zstd_mark)) {
        s->packing = ZSTANDARD;
        return open_zstd(s);
    }
    return PLIM_OK;
}

plim_status plim_byte_stream_open(plim_ctx *c, const char *path, plim_byte_stream **out)
{
    plim_byte_stream *s = NULL;
    TRY(plim_alloc(c, 1, sizeof *s, "reading a file", &s));
    s->c = c;
    s->path = path;
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    plim_status st = s->fd < 0 ? fail_file(s) : begin(s);
    if (st) plim_byte_stream_close(s);
    else *out = s;
    return st;
}

void plim_byte_stream_close(plim_byte_stream *s)
{
    if (!s) return;
    if (s->gzip_open) inflateEnd(&s->gzip);
    ZSTD_freeDCtx(s->zstd);
    if (s->fd >= 0) close(s->fd);
    plim_release(s->c, s);
}

static plim_status step_plain(plim_byte_stream *s, char *buf, size_t cap, size_t *got)
{
    size_t n = s->have - s->at;
    if (n > cap) n = cap;
    memcpy(buf, s->block + s->at, n);
    s->at += n;
    *got = n;
    return PLIM_OK;
}

plim_status plim_byte_stream_read(plim_byte_stream *s, char *buf, size_t cap, size_t *got)
{
    size_t n = 0;
    while (n == 0) {
        if (s->at == s->have && !s->ended) TRY(fill(s));
        bool dry = s->at == s->have;
        if (dry && !s->inside) break;
        /* packed bytes may be all in while unpacked ones are still to come */
        switch (s->packing) {
        case GZIP: TRY(step_gzip(s, buf, cap, &n)); break;
        case ZSTANDARD: TRY(step_zstd(s, buf, cap, &n)); break;
        default: TRY(step_plain(s, buf, cap, &n));
        }
        if (dry && n == 0 && s->inside) return damaged(s, "the file is cut off");
    }
    *got = n;
    return PLIM_OK;
}

uint64_t plim_byte_stream_size_bytes(const plim_byte_stream *s)
{
    return s->size_bytes;
}

uint64_t plim_byte_stream_done_bytes(const plim_byte_stream *s)
{
    return s->done_bytes - (s->have - s->at);
}
