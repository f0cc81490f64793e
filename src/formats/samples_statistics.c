/* samples_statistics.c - decides into which buckets the lengths of documents fall. */
#include "formats/samples_statistics.h"

#include "base/context.h"

/* Two buckets an octave: from 2^k, and from 2^(k + 1/2). */
static int bucket_of(int64_t tokens)
{
    int octave = 63 - __builtin_clzll((unsigned long long)tokens);
    bool upper = tokens * tokens >= INT64_C(2) << 2 * octave; /* at most 10^18 */
    return 2 * octave + upper;
}

void plim_samples_count(plim_samples_statistics *s, int64_t tokens, int64_t labelled_tokens)
{
    int b = bucket_of(tokens);
    s->tokens += tokens;
    s->labelled_tokens += labelled_tokens;
    s->rows++;
    s->bucket_rows[b]++;
    s->bucket_tokens[b] += tokens;
    if (tokens > s->longest_tokens) {
        s->longest_tokens = tokens;
        s->longest_rows = 0;
    }
    s->longest_rows += tokens == s->longest_tokens;
}

static bool add_bucket(json_t *lengths, int64_t seq_tokens, int64_t rows)
{
    json_t *bucket = json_pack("{s:I, s:I}", "seq_tokens", (json_int_t)seq_tokens, "rows", (json_int_t)rows);
    return json_array_append_new(lengths, bucket) == 0;
}

static bool add_buckets(json_t *lengths, const plim_samples_statistics *s)
{
    if (s->rows == 0) return true;
    int longest = bucket_of(s->longest_tokens);
    for (int b = 0; b <= longest; b++) {
        int64_t rows = s->bucket_rows[b], tokens = s->bucket_tokens[b];
        if (b == longest) {
            rows -= s->longest_rows;
            tokens -= s->longest_rows * s->longest_tokens;
        }
        if (rows && !add_bucket(lengths, (tokens + rows / 2) / rows, rows)) return false;
    }
    return add_bucket(lengths, s->longest_tokens, s->longest_rows);
}

plim_status plim_samples_statistics_json(plim_ctx *c, const plim_samples_statistics *s, json_t **out)
{
    json_t *lengths = json_array();
    if (!lengths || !add_buckets(lengths, s)) {
        json_decref(lengths);
        return plim_fail_alloc(c, sizeof *s, "statistics");
    }
    json_t *all = json_pack("{s:i, s:I, s:I, s:I, s:I}", "schema_version", 1, "tokens", (json_int_t)s->tokens,
                            "labelled_tokens", (json_int_t)s->labelled_tokens, "rows", (json_int_t)s->rows,
                            "longest_tokens", (json_int_t)s->longest_tokens);
    if (json_object_set_new(all, "lengths", lengths)) { /* takes lengths in any case */
        json_decref(all);
        return plim_fail_alloc(c, sizeof *s, "statistics");
    }
    *out = all;
    return PLIM_OK;
}
