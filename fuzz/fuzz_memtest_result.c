/* fuzz_memtest_result.c - any bytes as a memory test's file; one that is accepted keeps its promises, and
 * written again it is read as the same. */
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "formats/memtest_result.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

static void check_lengths(const plim_memtest_result *r)
{
    int64_t limit = 0;
    require(r->length_count >= 0 && r->length_count <= PLIM_MAX_LENGTHS);
    for (int64_t i = 0; i < r->length_count; i++) {
        const plim_memtest_length *l = &r->length[i];
        require(l->seq_tokens >= 1 && l->steps >= 0 && l->steps <= r->steps_wanted);
        require(i == 0 || l->seq_tokens > l[-1].seq_tokens);
        require(l->verdict != PLIM_NO || i == r->length_count - 1);
        require(l->verdict == PLIM_NO || (l->steps == r->steps_wanted && l->measured_peak_bytes >= 0));
        if (l->verdict == PLIM_FITS) limit = l->seq_tokens;
    }
    require(r->limit_tokens == limit);
    require(r->first_failing_tokens == 0 || r->failure.present);
    require(!r->failure.present || r->failure.status != PLIM_OK);
}

static void check_again(plim_ctx *c, const plim_memtest_result *r)
{
    static plim_memtest_result again;
    char *text = NULL, *second = NULL;
    require(plim_memtest_result_json(c, r, &text) == PLIM_OK);
    require(plim_memtest_result_parse(c, "again", text, strlen(text), &again) == PLIM_OK);
    require(plim_memtest_result_json(c, &again, &second) == PLIM_OK);
    require(!strcmp(text, second));
    plim_release(c, second);
    plim_release(c, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static plim_memtest_result r;
    plim_ctx *c = NULL;
    if (plim_ctx_open(NULL, &c)) abort();
    plim_status st = plim_memtest_result_parse(c, "memtest.json", (const char *)data, bytes, &r);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    require(st == PLIM_OK || st == PLIM_E_FORMAT || st == PLIM_E_RANGE);
    if (st == PLIM_OK) {
        check_lengths(&r);
        check_again(c, &r);
    }
    plim_ctx_close(c);
    return 0;
}
