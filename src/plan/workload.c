/* workload.c - decides what a statistics file says about the tokens of one pass: docs/statistics.md.
 * Where its numbers contradict each other it is refused, for a bill reckoned from it would be wrong. */
#include "plimsoll_table.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"

#define CAP_BYTES      ((size_t)4 << 20)
#define SCHEMA_VERSION 1
#define MOST_TOKENS    INT64_C(1000000000000000) /* 10^15: every whole number below is exact in a double */
#define MOST_LENGTH    INT64_C(1000000000)

/* Padding and cutting make a bucket's length differ from its samples'; more than this factor is a mistake. */
#define MOST_FACTOR 2

static plim_status check_bucket_keys(const plim_json *j, const json_t *bucket, const char *path)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)bucket, key, value)
    {
        if (!strcmp(key, "seq_tokens") || !strcmp(key, "rows")) continue;
        char at[128];
        snprintf(at, sizeof at, "%s.%.60s", path, key);
        return plim_json_fail(j, at, PLIM_E_FORMAT,
                              "the key \"%.60s\" is unknown; a bucket has seq_tokens and rows", key);
    }
    return PLIM_OK;
}

static plim_status read_lengths(const plim_json *j, const json_t *lengths, plim_workload *w, double *rows)
{
    double tokens = 0;
    size_t count = json_array_size(lengths);
    if (count > PLIM_MAX_LENGTHS)
        return plim_json_fail(j, "lengths", PLIM_E_RANGE,
                              "has %zu buckets; at most %d are accepted: join neighbours", count,
                              PLIM_MAX_LENGTHS);
    for (size_t i = 0; i < count; i++) {
        const json_t *bucket;
        char path[64];
        int64_t length, n;
        snprintf(path, sizeof path, "lengths[%zu]", i);
        TRY(plim_json_at_object(j, lengths, "lengths", i, &bucket));
        TRY(check_bucket_keys(j, bucket, path));
        TRY(plim_json_i64(j, bucket, path, "seq_tokens", 1, MOST_LENGTH, &length));
        TRY(plim_json_i64(j, bucket, path, "rows", 0, MOST_TOKENS, &n));
        w->bucket_tokens[i] = length;
        w->bucket_rows[i] = (double)n;
        if (n > 0 && length > w->longest_tokens) w->longest_tokens = length;
        tokens += (double)n * (double)length;
        *rows += (double)n;
    }
    w->lengths = (int64_t)count;
    if (tokens * MOST_FACTOR < w->tokens || tokens > w->tokens * MOST_FACTOR)
        return plim_json_fail(
            j, "lengths", PLIM_E_RANGE,
            "the buckets add up to %.0f tokens, but \"tokens\" is %.0f; they must agree within a "
            "factor of %d",
            tokens, w->tokens, MOST_FACTOR);
    return PLIM_OK;
}

static plim_status read(const plim_json *j, plim_workload *w)
{
    int64_t version, tokens, labelled = -1, rows = 0;
    const json_t *lengths = NULL;
    double bucket_rows = 0;
    TRY(plim_json_i64(j, j->root, "", "schema_version", INT64_MIN, INT64_MAX, &version));
    if (version != SCHEMA_VERSION)
        return plim_json_fail(j, "schema_version", PLIM_E_RANGE, "is %lld; this plimsoll reads version %d",
                              (long long)version, SCHEMA_VERSION);
    TRY(plim_json_i64(j, j->root, "", "tokens", 1, MOST_TOKENS, &tokens));
    TRY(plim_json_i64_opt(j, j->root, "", "labelled_tokens", 0, tokens, &labelled));
    TRY(plim_json_i64_opt(j, j->root, "", "rows", 1, tokens, &rows));
    TRY(plim_json_array_opt(j, j->root, "", "lengths", &lengths));
    w->tokens = (double)tokens;
    w->labelled_share = labelled < 0 ? -1 : (double)labelled / (double)tokens;
    if (!lengths) return PLIM_OK;
    TRY(read_lengths(j, lengths, w, &bucket_rows));
    if (rows && bucket_rows != (double)rows)
        return plim_json_fail(j, "lengths", PLIM_E_RANGE,
                              "the buckets hold %.0f rows, but \"rows\" is %lld; they must agree",
                              bucket_rows, (long long)rows);
    return PLIM_OK;
}

plim_status plim_workload_parse(plim_ctx *c, const char *name, const char *text, size_t bytes,
                                plim_workload *out)
{
    plim_json j = {0};
    plim_workload w = {0};
    TRY(plim_json_parse(c, name, text, bytes, CAP_BYTES, &j));
    plim_status st = read(&j, &w);
    plim_json_close(&j);
    if (!st) *out = w;
    return st;
}

plim_status plim_workload_load(plim_ctx *c, const char *path, plim_workload *out)
{
    plim_file f = {0};
    TRY(plim_file_map(c, path, &f));
    plim_status st = plim_workload_parse(c, path, f.data, f.bytes, out);
    plim_file_unmap(&f);
    return st;
}
