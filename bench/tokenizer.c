/* Seconds to load a tokenizer, and MB/s to encode one file with it on one thread: five times, with a cache
 * that is empty at each start.  Usage: tokenizer TOKENIZER.json TEXT */
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "text/tokenizer.h"

static plim_status measure(plim_ctx *c, const plim_tokenizer *t, const plim_file *f, bool offsets)
{
    plim_tokenizer_scratch *s = NULL;
    plim_tokens k = {0};
    plim_clock clock = plim_clock_monotonic();
    double start_s = plim_clock_now_s(clock);
    plim_status st = plim_tokenizer_scratch_open(c, t, &s);
    if (!st) st = plim_tokenizer_encode(s, f->data, f->bytes, (plim_encode_options){.offsets = offsets}, &k);
    double took_s = plim_clock_now_s(clock) - start_s;
    if (!st)
        printf("plimsoll%s: %zu tokens, %.2f s, %.1f MB/s\n", offsets ? " with offsets" : "", k.count, took_s,
               (double)f->bytes / took_s / 1e6);
    plim_tokens_close(&k);
    plim_tokenizer_scratch_close(s);
    return st;
}

int main(int argc, char **argv)
{
    plim_ctx *c = NULL;
    plim_tokenizer *t = NULL;
    plim_file f = {0};
    plim_clock clock = plim_clock_monotonic();
    if (argc != 3 || plim_ctx_open(NULL, &c)) return 2;
    double start_s = plim_clock_now_s(clock);
    plim_status st = plim_tokenizer_load(c, argv[1], &t);
    printf("load: %.3f s\n", plim_clock_now_s(clock) - start_s);
    if (!st) st = plim_file_map(c, argv[2], &f);
    for (int i = 0; !st && i < 6; i++) st = measure(c, t, &f, i == 5);
    if (st) fprintf(stderr, "%s\n", plim_ctx_message(c));
    plim_file_unmap(&f);
    plim_tokenizer_close(t);
    plim_ctx_close(c);
    return st != PLIM_OK;
}
