/* `plimsoll data --model` from the outside: outputs, what is left out and why, exit codes, threads, memory.
 */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "formats/memtest_result.h"
#include "formats/samples.h"
#include "text/chat_folder.h"

#define U      "{\"role\": \"user\", \"content\": \"hi\"}"
#define A      "{\"role\": \"assistant\", \"content\": \"yo\"}"
#define CHAT   "{\"messages\": [" U ", " A "]}\n" /* 25 tokens, 3 of them trained on */
#define TOKENS 25

static const char *make_folder(const char *name)
{
    const char *folder = chat_folder(name, CHAT_TEMPLATE);
    return folder;
}

/* The program in a model's folder, on rows in "in.jsonl". */
static int data(char **out, const char *folder, const char *rows, const char *arguments)
{
    test_write(test_path(folder, "in.jsonl"), rows, strlen(rows));
    return test_command(out, "cd '%s' && '%s' data in.jsonl --model . %s", folder, PLIM_PROGRAM, arguments);
}

/* Exit code, and words that must be in what it prints; "" for words not needed. */
static void expect(const char *rows, const char *arguments, int code, const char *first, const char *second)
{
    char *out;
    const char *folder = make_folder("data_chat_expect");
    int got = data(&out, folder, rows, arguments);
    if (got != code || !strstr(out, first) || !strstr(out, second))
        fail_msg("%s: exit %d, wanted %d with '%s' and '%s': %s", arguments, got, code, first, second, out);
    free(out);
    if (!code) return;
    FILE *left = fopen(test_path(folder, "o"), "r"); /* nothing is written */
    assert_null(left);
}

TEST(writes_samples_train_can_read)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = make_folder("data_chat_writes");
    char *out, name[64];
    plim_samples s = {0};
    int code = data(&out, folder, "\n" CHAT "{\"text\": \"ab\", \"class\": \"prose\"}\r\n", "--out o");
    if (code) fail_msg("%s", out);
    assert_non_null(strstr(out, "1 row without a template ends with <|endoftext|>"));
    assert_non_null(strstr(out, "% of the training tokens are trained on"));
    free(out);
    CHECK_OK(c, plim_samples_open(c, test_path(folder, "o"), &s));
    static const char want[] = "<user\nhi>\n<assistant\nyo>\nabE";
    assert_int_equal(s.documents, 2);
    assert_int_equal(s.tokens_count, strlen(want));
    for (size_t i = 0; i < strlen(want); i++) {
        int32_t id = want[i] == 'E'   ? CHAT_END_TEXT
                     : want[i] == '<' ? CHAT_IM_START
                     : want[i] == '>' ? CHAT_IM_END
                                      : want[i];
        assert_int_equal(s.tokens[i], id);
        bool trained = (i >= TOKENS - 4 && i < TOKENS - 1) || i > TOKENS;
        if (s.loss_weights[i] != (trained ? 1.0f : 0.0f)) fail_msg("weight of token %zu", i);
    }
    assert_int_equal(s.doc_offsets[1], TOKENS);
    assert_int_equal(s.source[1], 2); /* lines: blank ones count */
    assert_int_equal(s.source[3], 3);
    CHECK_OK(c, plim_samples_class_name(c, &s, s.class_ids[0], name, sizeof name));
    assert_string_equal(name, "default");
    CHECK_OK(c, plim_samples_class_name(c, &s, s.class_ids[1], name, sizeof name));
    assert_string_equal(name, "prose");
    assert_memory_equal(plim_samples_metadata(&s, "tokenizer"), "tokenizer.json fnv1a64:", 23);
    assert_memory_equal(plim_samples_metadata(&s, "template"), "chat_template fnv1a64:", 22);
    plim_samples_close(&s);
    test_ctx_close(c);
}

/* A mark at the start once, CRLF, long lines, separators of lines inside strings; arrays and packed files. */
TEST(forms_of_files_give_the_same_samples)
{
    UNUSED_STATE;
    const char *folder = make_folder("data_chat_forms");
    char *out;
    static const char rows[] = CHAT "{\"text\": \"a\xe2\x80\xa8z\"}\n" CHAT;
    static const char crlf[] =
        "\xef\xbb\xbf{\"messages\": [" U ", " A "]}\r\n{\"text\": \"a\xe2\x80\xa8z\"}\r\n"
        "{\"messages\": [" U ", " A "]}";
    static const char array[] =
        "[{\"messages\": [" U ", " A "]},\n{\"text\": \"a\xe2\x80\xa8z\"},\n{\"messages\": [" U ", " A "]}]";
    test_write(test_path(folder, "crlf"), crlf, strlen(crlf));
    test_write(test_path(folder, "array"), array, strlen(array));
    int code = data(&out, folder, rows, "--out o");
    if (code) fail_msg("%s", out);
    free(out);
    code = test_command(
        &out,
        "cd '%s' && mkdir -p w && cp in.jsonl w/in && cd w && run() { '%s' data in --model .. --out $1; } "
        "&& run plain && cp ../crlf in && run crlf && cp ../array in && run array && gzip -c ../in.jsonl "
        "> in && run gzip && zstd -qc ../in.jsonl > in && run zstd && cmp plain crlf && cmp plain array && "
        "cmp plain gzip && cmp plain zstd",
        folder, PLIM_PROGRAM);
    if (code) fail_msg("%s", out);
    free(out);
}

TEST(bad_rows_stop_all_unless_some_are_allowed)
{
    UNUSED_STATE;
    static const char rows[] = CHAT "\n[]\n" CHAT "{\"text\": \"\xff\"}\n{\"messages\": [" U "]}\n";
    const char *folder = make_folder("data_chat_bad");
    char *out;
    size_t bytes;
    expect(rows, "--out o", 1, "3 of 5 rows are bad", "in.jsonl:3: byte 1 of the line: the row is no object");
    expect(rows, "--out o --max-bad 2", 1, "and at most 2 may be: nothing is written", "in.jsonl:5: byte 11");
    expect(rows, "--out o --max-bad 3", 0, "3 rows were bad and were left out",
           "in.jsonl:6: byte 1 of the line: left out: "
           "nothing in the row is trained on");
    expect("{\"a\": 1}\n", "--out o --max-bad 5", 1, "no row is left", "1 bad");
    expect("null\n", "--out o", 1, "1 of 1 rows is bad", "in.jsonl:1");
    expect("{\"text\": \"a\", \"text\": \"b\"}\n", "--out o", 1, "in.jsonl:1: byte ", "text");
    expect("{\"messages\": [{\"role\": \"bad\", \"content\": \"a\"}]}\n", "--out o", 1, "no such role: bad",
           "chat_template.jinja:1:");
    /* the list is there also when nothing else is */
    int code = data(&out, folder, rows, "--out o --left-out l");
    assert_int_equal(code, 1);
    free(out);
    char *list = test_read(test_path(folder, "l"), &bytes);
    static const char *const lines[] = {
        "{\"file\":\"in.jsonl\",\"line\":3,\"byte\":1,\"why\":\"bad\",\"reason\":\"the row is no object\"}\n",
        "{\"file\":\"in.jsonl\",\"line\":5,\"byte\":11,\"why\":\"bad\",\"reason\":\"",
        "{\"file\":\"in.jsonl\",\"line\":6,\"byte\":1,\"why\":\"bad\",\"reason\":\"nothing in the row is "
        "trained on: no "
        "message is the assistant's\"}\n",
    };
    for (int i = 0; i < 3; i++)
        if (!strstr(list, lines[i])) fail_msg("%s is not in %s", lines[i], list);
    free(list);
    /* an array's rows have places, too */
    expect("[\n" CHAT ", {\"messages\":\n  [5]}]\n", "--out o", 1,
           "in.jsonl:4: byte 4 of the line: messages[0]", "");
}

/* A memory test of one length. */
static void write_memtest(plim_ctx *c, plim_memtest_result *r, int64_t tokens, plim_verdict verdict,
                          const char *path)
{
    plim_memtest_result_clear(r);
    strcpy(r->created, "2026-12-01T18:00:00Z");
    strcpy(r->model, "m");
    strcpy(r->card, "cpu");
    strcpy(r->device, "CPU");
    strcpy(r->plimsoll, PLIM_VERSION);
    strcpy(r->compiler, "gcc");
    r->options = plim_options_defaults();
    r->options.attention = PLIM_ATTENTION_CPU;
    r->parameters = 1000;
    r->steps_wanted = 1;
    r->budget_bytes = 1000000;
    r->length_count = 1;
    r->length[0] = (plim_memtest_length){.seq_tokens = tokens,
                                         .verdict = verdict,
                                         .options = r->options,
                                         .planned_peak_bytes = 1000,
                                         .host_peak_bytes = 1000,
                                         .measured_peak_bytes = 1000,
                                         .arena_peak_bytes = 1000,
                                         .process_before_bytes = -1,
                                         .process_peak_bytes = 1000,
                                         .expected_step_s = 1,
                                         .setup_s = 1,
                                         .evaluation_s = -1,
                                         .steps = 1,
                                         .step_s = {1},
                                         .tokens_per_s = 1,
                                         .loss = 1,
                                         .evaluation_loss = NAN};
    r->length[0].options.seq_tokens = tokens;
    r->length[0].options.host_checkpoints = 0;
    r->length[0].component_bytes[PLIM_MEM_WEIGHTS] = 1000;
    plim_memtest_result_judge(r);
    CHECK_OK(c, plim_memtest_result_write(c, r, path));
}

TEST(long_rows)
{
    UNUSED_STATE;
    static const char rows[] = "{\"text\": \"abcdefghijklmnopqrstuvwxyzabc\"}\n" CHAT; /* 30 tokens, 25 */
    const char *folder = make_folder("data_chat_long");
    char *out;
    expect(rows, "--out o --max-tokens 30", 0, "training     2", "");
    expect(rows, "--out o --max-tokens 29", 0, "1 row was longer and was left out",
           "in.jsonl:1: byte 1 of the line: left out: 30 tokens; at most 29 are wanted");
    expect(rows, "--out o --max-tokens 29 --over truncate", 0, "1 row was longer and lost its end",
           "truncated");
    expect(rows, "--out o --max-tokens 21 --over truncate", 0, "1 row was longer and lost its end",
           "nothing in the first ones is trained on");
    expect(rows, "--out o --max-tokens 29 --over error", 1, "in.jsonl:1: a row of 30 tokens; at most 29", "");
    expect(rows, "--out o --max-tokens 9", 1, "no row is left", "2 too long");
    /* the limit of a memory test */
    plim_ctx *c = test_ctx_open();
    static plim_memtest_result r;
    write_memtest(c, &r, 29, PLIM_FITS, test_path(folder, "m.json"));
    int code = data(&out, folder, rows, "--out o --max-tokens m.json");
    if (code || !strstr(out, "30 tokens; at most 29 are wanted")) fail_msg("exit %d: %s", code, out);
    free(out);
    write_memtest(c, &r, 29, PLIM_TIGHT, test_path(folder, "m.json"));
    code = data(&out, folder, rows, "--out o --max-tokens m.json");
    if (code != 1 || !strstr(out, "m.json: no length fitted")) fail_msg("exit %d: %s", code, out);
    free(out);
    test_ctx_close(c);
}

TEST(classes_and_what_limits_lose)
{
    UNUSED_STATE;
    const char *folder = make_folder("data_chat_classes");
    FILE *to = fopen(test_path(folder, "long.jsonl"), "w");
    static const int lengths[] = {15999, 16000, 40000, 130000}; /* and the end */
    for (int i = 0; i < 4; i++) {
        fputs("{\"class\": \"long\", \"text\": \"", to);
        for (int n = 0; n < lengths[i]; n++) fputc('x', to);
        fputs("\"}\n", to);
    }
    fclose(to);
    char *out;
    plim_ctx *c = test_ctx_open();
    plim_json j = {0};
    plim_workload w;
    int code = test_command(
        &out,
        "cd '%s' && '%s' data long.jsonl --model . --out o --json --max-tokens 48k --statistics s "
        "2>/dev/null",
        folder, PLIM_PROGRAM);
    if (code) fail_msg("%s", out);
    CHECK_OK(c, plim_json_parse(c, "printed", out, strlen(out), PLIM_JSON_CAP_BYTES, &j));
    CHECK_OK(c, plim_workload_parse(c, "printed", out, strlen(out), &w));
    CHECK_OK(c, plim_workload_load(c, test_path(folder, "s"), &w));
    const json_t *k = json_array_get(json_object_get(j.root, "classes"), 0),
                 *lost = json_object_get(k, "lost");
    static const int64_t limits[] = {16000, 32000, 48000, 64000, 128000}, rows[] = {3, 2, 1, 1, 1},
                         labelled[] = {186000, 170000, 130000, 130000, 130000};
    assert_string_equal(json_string_value(json_object_get(k, "name")), "long");
    assert_int_equal(json_integer_value(json_object_get(k, "rows")), 4);
    for (size_t i = 0; i < 5; i++) {
        const json_t *one = json_array_get(lost, i);
        assert_int_equal(json_integer_value(json_object_get(one, "max_tokens")), limits[i]);
        assert_int_equal(json_integer_value(json_object_get(one, "rows")), rows[i]);
        assert_int_equal(json_integer_value(json_object_get(one, "labelled_tokens")), labelled[i]);
    }
    assert_int_equal(json_integer_value(json_object_get(j.root, "rows")), 3);
    assert_int_equal(json_integer_value(json_object_get(j.root, "rows_long")), 1);
    assert_int_equal(json_integer_value(json_object_get(j.root, "tokens")), 16000 + 16001 + 40001);
    assert_int_equal(json_integer_value(json_object_get(j.root, "labelled_tokens")), 15999 + 16000 + 40000);
    plim_json_close(&j);
    free(out);
    test_ctx_close(c);
}

static void write_many(const char *path)
{
    FILE *to = fopen(path, "w");
    for (int i = 0; i < 3000; i++) {
        if (i % 7 == 0) fprintf(to, "{\"text\": \"row %d of go and it\", \"class\": \"c%d\"}\n", i, i % 5);
        else if (i % 501 == 3) fprintf(to, "{\"text\": %d}\n", i);
        else
            fprintf(to,
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"%d\"}, {\"role\": \"assistant\", "
                    "\"content\": "
                    "\"it is %d\"}], \"class\": \"c%d\"}\n",
                    i, i * i, i % 3);
    }
    fclose(to);
}

TEST(same_bytes_whatever_the_threads)
{
    UNUSED_STATE;
    const char *folder = make_folder("data_chat_threads");
    char *out;
    write_many(test_path(folder, "many"));
    int code = test_command(
        &out,
        "cd '%s' && for n in 1 2 5; do '%s' data many --model . --out $n --val-share 0.3 --val-out v$n "
        "--max-bad 9 --left-out l$n --threads $n > s$n 2> e$n || exit 9; done; "
        "for n in 2 5; do cmp 1 $n && cmp v1 v$n && cmp l1 l$n && cmp e1 e$n || exit 8; done; "
        "grep -c . l1",
        folder, PLIM_PROGRAM);
    if (code || strcmp(out, "5\n") != 0) fail_msg("exit %d: %s", code, out);
    free(out);
}

/* Rows stay on their side when others are added, and equal rows are on one side. */
TEST(validation)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = make_folder("data_chat_validation");
    char *out;
    plim_samples s = {0};
    int64_t documents[2];
    write_many(test_path(folder, "many"));
    test_write(test_path(folder, "more"), CHAT, strlen(CHAT));
    int code = test_command(
        &out,
        "cd '%s' && '%s' data many more --model . --out o --val-share 0.2 --max-bad 9 --val-file more "
        "--val-file more --seed 3",
        folder, PLIM_PROGRAM);
    if (code != 2 || !strstr(out, "more: is named for training and for validation"))
        fail_msg("exit %d: %s", code, out);
    free(out);
    code = test_command(
        &out,
        "cd '%s' && cp more other && '%s' data many --model . --out o --val-share 0.2 --max-bad 9 --val-file "
        "more --val-file other --seed 3",
        folder, PLIM_PROGRAM);
    if (code) fail_msg("%s", out);
    free(out);
    CHECK_OK(c, plim_samples_open(c, test_path(folder, "o"), &s));
    documents[0] = s.documents;
    plim_samples_close(&s);
    CHECK_OK(c, plim_samples_open(c, test_path(folder, "o.val.safetensors"), &s));
    documents[1] = s.documents;
    /* all validation files go there, after their share of the inputs */
    assert_int_equal(s.source[2 * (s.documents - 1)], 2);
    assert_int_equal(s.source[2 * (s.documents - 2)], 1);
    plim_samples_close(&s);
    assert_int_equal(documents[0] + documents[1], 3000 - 5 + 2);
    assert_true(documents[1] > 480 && documents[1] < 720); /* 600, deviation 22 */
    test_ctx_close(c);
}

TEST(mistakes_are_named)
{
    UNUSED_STATE;
    expect(CHAT, "", 2, "wants --out FILE", "");
    expect(CHAT, "--out o --documents lines", 2, "--documents is for texts", "");
    expect(CHAT, "--out o --turns first", 2, "--turns first", "all, last or whole");
    expect(CHAT, "--out o --max-tokens 9 --over split", 2, "--over split", "drop, truncate or error");
    expect(CHAT, "--out o --max-bad x", 2, "--max-bad", "");
    expect(CHAT, "--out o --tokenizer none.json", 2, "none.json is no file", "");
    expect(CHAT, "--out o --template none.jinja", 1, "none.jinja", "No such file");
    expect(CHAT, "--out o --val-out v", 2, "--val-out does nothing", "--val-file");
    expect(CHAT, "--out o --val-share 0.5 --left-out o", 2, "named for two outputs", "");
    expect(CHAT, "--out o --left-out in.jsonl", 2, "would be replaced", "");
    expect(CHAT, "--out o --tokenizer bytes", 2, "--model is for rows", "");
    expect("", "--out o", 1, "in.jsonl: holds no row", "");
    expect("[" CHAT, "--out o", 1, "in.jsonl:1: byte 2", "ends within the array");
    expect(CHAT "{\"text\": \"a<|im_end|>b\"}\n", "--out o", 0,
           "1 special tokens of the model stand inside texts", "in.jsonl:2: text: <|im_end|>");
}

/* 40 MB of rows, 320 MB of tokens and weights, in less memory: what is held does not grow with the data. */
TEST(memory_does_not_grow_with_the_data)
{
    UNUSED_STATE;
    const char *folder = make_folder("data_chat_memory");
    char *out;
    int starts =
        test_command(&out, "ulimit -d 280000 && OPENBLAS_NUM_THREADS=1 '%s' --version", PLIM_PROGRAM);
    free(out);
    if (starts != 0) skip(); /* a sanitizer's shadow memory is far larger */
    int code = test_command(
        &out,
        "cd '%s' && printf '{\"text\": \"%%0250000d\"}\n' $(seq 160) > in && ulimit -d 280000 && "
        "OPENBLAS_NUM_THREADS=1 '%s' data in --model . --out o --threads 2",
        folder, PLIM_PROGRAM);
    if (code || !strstr(out, "40,000,160")) fail_msg("exit %d: %s", code, out);
    free(out);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(writes_samples_train_can_read),
        cmocka_unit_test(forms_of_files_give_the_same_samples),
        cmocka_unit_test(bad_rows_stop_all_unless_some_are_allowed),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(classes_and_what_limits_lose),
        cmocka_unit_test(same_bytes_whatever_the_threads),
        cmocka_unit_test(validation),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(memory_does_not_grow_with_the_data),
    };
    return RUN_TESTS(table);
}
