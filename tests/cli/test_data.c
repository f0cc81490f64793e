/* `plimsoll data` from the outside: outputs, exit codes, what it prints and where. */
#include "support/test.h"

#include <stdlib.h>

#include "base/json.h"
#include "formats/samples.h"

/* The program on a text "in.txt" in a folder of its own; arguments follow the text. */
static int data(char **out, const char *folder, const char *text, const char *arguments)
{
    const char *input = test_path(folder, "in.txt");
    test_write(input, text, strlen(text));
    return test_command(out, "cd '%s' && '%s' data %s", folder, PLIM_PROGRAM, arguments);
}

/* Exit code, and words that must be in what it prints; "" for words not needed. */
static void expect(const char *text, const char *arguments, int code, const char *first, const char *second)
{
    char *out;
    int got = data(&out, test_folder("data_expect"), text, arguments);
    if (got != code || !strstr(out, first) || !strstr(out, second))
        fail_msg("%s: exit %d, wanted %d with '%s' and '%s': %s", arguments, got, code, first, second, out);
    free(out);
}

TEST(writes_samples_and_says_so)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("data_writes");
    char *out;
    plim_samples s = {0};
    int code = data(&out, folder, "one\n\ntwo and three\n",
                    "in.txt --tokenizer bytes --out o.safetensors --documents paragraphs --max-tokens=8");
    assert_int_equal(code, 0);
    /* "one" 4 tokens; "two and three" 14 tokens in pieces of 8 and 7 */
    assert_non_null(strstr(out, "1 document was longer and was split\n"));
    assert_non_null(strstr(out, "training          3      19          16        8  o.safetensors\n"));
    assert_null(strstr(out, "validation"));
    free(out);
    CHECK_OK(c, plim_samples_open(c, test_path(folder, "o.safetensors"), &s));
    assert_int_equal(s.documents, 3);
    assert_int_equal(s.max_tokens, 8);
    assert_int_equal(s.largest_token, 256);
    assert_string_equal(plim_samples_metadata(&s, "files"), "[\"in.txt\"]");
    assert_memory_equal(plim_samples_metadata(&s, "tokenizer"), "bytes fnv1a64:", 14);
    plim_samples_close(&s);
    test_ctx_close(c);
}

TEST(json_and_statistics_are_what_plan_reads)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("data_json");
    char *out, *file, text[4000] = "";
    plim_json j = {0};
    plim_workload printed, written;
    size_t bytes;
    for (int i = 0; i < 200; i++) sprintf(text + strlen(text), "line number %d\n", i);
    int code = data(&out, folder, text,
                    "in.txt --tokenizer bytes --out o --documents lines --val-share 0.2 --seed 3 --json "
                    "--statistics s.json 2>messages");
    assert_int_equal(code, 0);
    file = test_read(test_path(folder, "messages"), &bytes);
    assert_int_equal(bytes, 0); /* no terminal: no progress */
    free(file);
    CHECK_OK(c, plim_workload_parse(c, "printed", out, strlen(out), &printed));
    CHECK_OK(c, plim_workload_load(c, test_path(folder, "s.json"), &written));
    assert_memory_equal(&printed, &written, sizeof printed);
    CHECK_OK(c, plim_json_parse(c, "printed", out, strlen(out), PLIM_JSON_CAP_BYTES, &j));
    const json_t *validation = json_object_get(j.root, "validation");
    assert_int_equal(json_integer_value(json_object_get(j.root, "documents_read")), 200);
    assert_int_equal(json_integer_value(json_object_get(j.root, "text_bytes")), strlen(text));
    assert_int_equal(json_integer_value(json_object_get(j.root, "rows")) +
                         json_integer_value(json_object_get(validation, "rows")),
                     200);
    assert_string_equal(json_string_value(json_object_get(validation, "file")), "o.val.safetensors");
    plim_json_close(&j);
    free(out);
    plim_samples s = {0};
    CHECK_OK(c, plim_samples_open(c, test_path(folder, "o.val.safetensors"), &s));
    plim_samples_close(&s);
    code =
        test_command(&out, "'%s' plan '%s/models/qwen3.8-27b/config.json' --card h200 --tokens '%s/s.json'",
                     PLIM_PROGRAM, PLIM_SHARE_SOURCE, folder);
    if (code || !strstr(out, "A run of ")) fail_msg("exit %d: %s", code, out);
    free(out);
    test_ctx_close(c);
}

TEST(same_bytes_whatever_the_threads)
{
    UNUSED_STATE;
    const char *folder = test_folder("data_threads");
    char *out, text[8000] = "";
    for (int i = 0; i < 300; i++) sprintf(text + strlen(text), "line number %d\n\n", i * i);
    int code = data(&out, folder, text,
                    "in.txt --tokenizer bytes --out a.safetensors --documents paragraphs --val-share 0.3");
    assert_int_equal(code, 0);
    free(out);
    code =
        test_command(&out,
                     "cd '%s' && OMP_NUM_THREADS=5 '%s' data in.txt --tokenizer bytes --out b.safetensors "
                     "--documents paragraphs --val-share 0.3 --val-out c && cmp a.safetensors b.safetensors "
                     "&& cmp a.val.safetensors c",
                     folder, PLIM_PROGRAM);
    if (code) fail_msg("%s", out);
    free(out);
}

/* 64 MiB of memory for the process's own use, and 12 MB of text in one line: 100 MB of samples. */
TEST(runs_in_little_memory)
{
    UNUSED_STATE;
    const char *folder = test_folder("data_memory");
    char *out;
    int starts = test_command(&out, "ulimit -d 65536 && OPENBLAS_NUM_THREADS=1 '%s' --version", PLIM_PROGRAM);
    free(out);
    if (starts != 0) skip(); /* a sanitizer's shadow memory is far larger */
    int code = test_command(&out,
                            "cd '%s' && yes 'no line end here' | head -c 12000000 | tr '\\n' ' ' > in.txt && "
                            "ulimit -d 65536 && OPENBLAS_NUM_THREADS=1 '%s' data in.txt --tokenizer bytes "
                            "--out o.safetensors --max-tokens 64k",
                            folder, PLIM_PROGRAM);
    /* 12,000,000 bytes and an end in 188 pieces, 187 of which open with the last token of another */
    if (code || !strstr(out, "12,000,188")) fail_msg("exit %d: %s", code, out);
    free(out);
}

TEST(mistakes_are_named)
{
    UNUSED_STATE;
    expect("a\n", "", 2, "wants texts to read", "");
    expect("a\n", "in.txt --out o", 2, "wants --tokenizer bytes", "");
    expect("a\n", "in.txt --out o --tokenizer gpt", 2, "--tokenizer gpt", "bytes would work");
    expect("a\n", "in.txt --tokenizer bytes", 2, "wants --out FILE", "");
#define GOOD "in.txt --tokenizer bytes --out o "
    expect("a\n", GOOD "--over split", 2, "--over does nothing", "--max-tokens");
    expect("a\n", GOOD "--max-tokens 9 --over cut", 2, "--over cut", "split, drop, truncate or error");
    expect("a\n", GOOD "--documents words", 2, "--documents words", "files, lines or paragraphs");
    expect("a\n", GOOD "--max-tokens 1", 2, "--max-tokens 1", "2 to 1G");
    expect("a\n", GOOD "--max-tokens 2G", 2, "--max-tokens 2G", "2 to 1G");
    expect("a\n", GOOD "--max-tokens x", 2, "--max-tokens", "x");
    expect("a\n", GOOD "--val-share 0", 2, "--val-share 0", "0.1 would work");
    expect("a\n", GOOD "--val-share 1", 2, "--val-share 1", "0.1 would work");
    expect("a\n", GOOD "--val-share 2", 2, "--val-share", "2");
    expect("a\n", GOOD "--val-out v", 2, "--val-out does nothing", "");
    expect("a\n", GOOD "--seed 1", 2, "--seed does nothing", "");
    expect("a\n", GOOD "--statistics o", 2, "cannot share", "");
    expect("a\n", GOOD "--statistics in.txt", 2, "replace the input in.txt", "");
    expect("a\n", GOOD "--valshare 1", 2, "did you mean --val-share?", "");
    expect("a\n", "in.txt --tokenizer bytes --out in.txt", 2, "in.txt: is an input", "");
    expect("a\n", GOOD "--val-share 0.5 --val-out o", 2, "both training and validation", "");
    expect("a\n", GOOD "--val-share 0.5", 1, "leaves it none of 1", "");
    expect("", GOOD, 1, "in.txt: is empty", "");
    expect("a\n\xff\n", GOOD, 1, "in.txt:2: byte 1 of the line", "");
    expect("abc\n", GOOD "--max-tokens 3 --over error", 1, "in.txt:1: a document of 5 tokens", "");
    expect("a\n", "in.txt none.txt --tokenizer bytes --out o", 1, "none.txt", "No such file");
    expect("a\n", ". --tokenizer bytes --out o", 1, "is a folder", "");
    expect("a\n", "in.txt --tokenizer bytes --out no/o", 1, "no/o", "No such file");
#undef GOOD
}

TEST(tells_what_became_of_documents)
{
    UNUSED_STATE;
#define GOOD "in.txt --tokenizer bytes --out o --documents lines --max-tokens 4 "
    expect("abcd\nabcd\nab\n", GOOD, 0, "2 documents were longer and were split", "");
    expect("abcd\nabcd\nab\n", GOOD "--over truncate", 0, "2 documents were longer and lost their ends", "");
    expect("abcd\nab\n", GOOD "--over drop", 0, "1 document was longer and was dropped", "");
    expect("a\nab\n", GOOD "--no-end", 0, "1 document of a single token was left out", "");
#undef GOOD
    expect("a\n", "--help", 0, "--documents WHAT", "Examples");
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(writes_samples_and_says_so),
        cmocka_unit_test(json_and_statistics_are_what_plan_reads),
        cmocka_unit_test(same_bytes_whatever_the_threads),
        cmocka_unit_test(runs_in_little_memory),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(tells_what_became_of_documents),
    };
    return RUN_TESTS(table);
}
