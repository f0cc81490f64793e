/* fuzz_samples.c - any bytes as a samples file; what is accepted must keep its promises.
 * The reader maps a file, so the bytes go to one in memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

static void check_samples(plim_ctx *c, const plim_samples *s)
{
    int64_t labelled = 0, longest = 0;
    char name[64];
    require(s->documents >= 1 && s->tokens_count >= s->documents);
    require(s->doc_offsets[0] == 0 && s->doc_offsets[s->documents] == s->tokens_count);
    for (int64_t i = 0; i < s->documents; i++) {
        int64_t begin = s->doc_offsets[i], end = s->doc_offsets[i + 1];
        require(begin < end && end <= s->tokens_count);
        if (end - begin > longest) longest = end - begin;
        require(s->class_ids[i] >= 0 && s->class_ids[i] < s->classes);
        for (int64_t k = begin; k < end; k++) {
            require(s->tokens[k] >= 0 && s->tokens[k] <= s->largest_token);
            require(isfinite(s->loss_weights[k]) && s->loss_weights[k] >= 0);
            labelled += k > begin && s->loss_weights[k] > 0;
        }
    }
    require(labelled == s->labelled_tokens && labelled > 0 && longest == s->longest_tokens);
    require(s->max_tokens == 0 || longest <= s->max_tokens);
    for (int64_t i = 0; i < s->classes; i++) {
        plim_status st = plim_samples_class_name(c, s, i, name, sizeof name);
        require(st == PLIM_OK || st == PLIM_E_RANGE);
    }
    plim_ctx_clear(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_samples s = {0};
    char path[64];
    int fd = memfd_create("samples", MFD_CLOEXEC);
    if (fd < 0 || plim_ctx_open(NULL, &c)) abort();
    require(write(fd, data, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    plim_status st = plim_samples_open(c, path, &s);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    require(st == PLIM_OK || st == PLIM_E_FORMAT || st == PLIM_E_RANGE || st == PLIM_E_UNSUPPORTED);
    if (st == PLIM_OK) check_samples(c, &s);
    plim_samples_close(&s);
    plim_ctx_close(c);
    close(fd);
    return 0;
}
