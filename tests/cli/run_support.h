/* run_support.h - a samples file and commands, for the tests of train and eval. */
#ifndef PLIM_TESTS_CLI_RUN_SUPPORT_H
#define PLIM_TESTS_CLI_RUN_SUPPORT_H

#include <jansson.h>
#include <stdlib.h>

#include "support/test.h"

#include "formats/samples_writer.h"

#define MODELS PLIM_TEST_DATA "/models/"
#define TINY   MODELS "qwen3_5-tiny"

/* documents of length tokens that repeat a pattern of 7; the first 3 tokens are not trained on. */
static inline void put_samples(const char *path, int64_t documents, int64_t length)
{
    static const char *const classes[] = {"text"}, *const files[] = {"chat.jsonl"};
    plim_samples_about about = {.tokenizer = "bytes",
                                .chat_template = "",
                                .classes = classes,
                                .class_count = 1,
                                .files = files,
                                .file_count = 1};
    plim_samples_writer *w = NULL;
    plim_ctx *c = test_ctx_open();
    int32_t *ids = calloc((size_t)length, sizeof *ids);
    float *weights = calloc((size_t)length, sizeof *weights);
    assert_true(ids && weights);
    CHECK_OK(c, plim_samples_writer_open(c, path, &about, &w));
    for (int64_t n = 0; n < documents; n++) {
        for (int64_t t = 0; t < length; t++) {
            ids[t] = (int32_t)(20 + n % 3 + 11 * (t % 7));
            weights[t] = t < 3 ? 0.0f : 1.0f;
        }
        CHECK_OK(c, plim_samples_writer_append(w, ids, weights, length, 0, 0, (uint64_t)n + 1));
    }
    CHECK_OK(c, plim_samples_writer_commit(w));
    free(ids);
    free(weights);
    test_ctx_close(c);
}

/* Runs a shell command that must end with code and say every word; its output, to free(). */
static inline char *run_command(int code, const char *command, const char *const *words)
{
    char *out;
    int got = test_command(&out, "%s", command);
    if (got != code) fail_msg("%s: exit %d instead of %d: %s", command, got, code, out);
    for (; *words; words++)
        if (!strstr(out, *words)) fail_msg("%s: no '%s' in: %s", command, *words, out);
    return out;
}

#define RUN(code, command, ...)       run_command((code), (command), (const char *const[]){__VA_ARGS__, NULL})
#define CHECK_RUN(code, command, ...) free(RUN(code, command, __VA_ARGS__))

/* The command with its arguments put together; valid for four more calls, and may be an argument of them. */
static inline const char *command_of(const char *fmt, ...) PLIM_PRINTF(1, 2);
static inline const char *command_of(const char *fmt, ...)
{
    static char texts[5][8000];
    static unsigned next;
    char *text = texts[next++ % 5];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof texts[0], fmt, ap);
    va_end(ap);
    assert_true(n > 0 && (size_t)n < sizeof texts[0]);
    return text;
}

/* Runs, wants exit 0 and JSON on standard output; json_decref it. */
static inline json_t *run_json(const char *command)
{
    char *out = RUN(0, command_of("{ %s; } 2>/dev/null", command), "{");
    json_t *j = json_loads(out, 0, NULL);
    if (!j) fail_msg("%s: not JSON: %s", command, out);
    free(out);
    return j;
}

static inline double number_of(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    if (!json_is_number(v)) fail_msg("no number '%s'", key);
    return json_number_value(v);
}

#endif
