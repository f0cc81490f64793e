/* `plimsoll memtest` as a person runs it: what stands where, which exit code, which file. */
#include "support/test.h"

#include <stdlib.h>

#include "base/file.h"
#include "formats/memtest_result.h"

#define TINY PLIM_TEST_DATA "/models/qwen3_5-tiny/config.json"
/* No plug-in is there: a test of the CPU stays one on a machine with a GPU. */
#define RUN                                                                                                  \
    "PLIMSOLL_CUDA=/nowhere/none.so SOURCE_DATE_EPOCH=1764612000 " PLIM_PROGRAM " memtest " TINY             \
    " --rank 2 --threads 1 "

static plim_memtest_result result;

/* Runs with these arguments; out: what came on standard output, err: on standard error. */
static int run(const char *folder, const char *arguments, char **out, char **err)
{
    char *text;
    const char *to = test_path(folder, "stdout"), *log = test_path(folder, "stderr");
    int code = test_command(&text, RUN "%s >%s 2>%s", arguments, to, log);
    free(text);
    *out = test_read(to, NULL);
    *err = test_read(log, NULL);
    return code;
}

static void check(const char *what, const char *text, const char *word)
{
    if (!strstr(text, word)) fail_msg("%s has no '%s': %s", what, word, text);
}

TEST(a_sweep_leaves_a_table_and_a_file)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("cli-memtest");
    char arguments[512], *out, *err;
    snprintf(arguments, sizeof arguments, "--sweep 64,32 --budget 256MiB --steps 2 --usd-per-h 1.5 --out %s",
             folder);
    assert_int_equal(run(folder, arguments, &out, &err), 0);
    check("the table", out, "limit: 64 tokens fit with margin");
    check("the log", err, "32 tokens: fits; planned");
    check("the log", err, "expected: ");
    check("the log", err, "USD at 1.50 an hour");
    const char *path = test_path(folder, "memtest_qwen3_5-tiny_cpu_20251201T180000Z.json");
    CHECK_OK(c, plim_memtest_result_read(c, path, &result));
    assert_int_equal(result.length_count, 2);
    assert_int_equal(result.length[0].seq_tokens, 32); /* ascending, whatever order was named */
    assert_int_equal(result.limit_tokens, 64);
    assert_int_equal(result.budget_bytes, 256 << 20);
    assert_int_equal(result.options.act, PLIM_BF16);
    assert_true(result.usd >= 0 && result.seconds > 0);
    free(out);
    free(err);
    test_ctx_close(c);
}

TEST(json_is_the_file)
{
    UNUSED_STATE;
    const char *folder = test_folder("cli-memtest-json"), *path = test_path(folder, "own.json");
    char arguments[512], *out, *err;
    snprintf(arguments, sizeof arguments, "--sweep 32 --budget 256MiB --steps 1 --dtype f32 --json --out %s",
             path);
    assert_int_equal(run(folder, arguments, &out, &err), 0);
    char *file = test_read(path, NULL);
    assert_string_equal(out, file);
    free(file);
    free(out);
    free(err);
}

TEST(exit_codes)
{
    UNUSED_STATE;
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } cases[] = {
        {"--sweep 32 --budget 256KiB", 3, "would help"},
        {"--sweep 32 --budget 999TiB", 3, "more than this machine can give"},
        {"--sweep 32 --budget 256MiB --usd-per-h 90000 --max-usd 0.0001", 3, "expected to cost"},
        {"--sweep 32 --budget 256MiB --max-usd 1", 2, "--usd-per-h"},
        {"--budget 256MiB", 2, "--sweep"},
        {"--sweep 32,many", 2, "many"},
        {"--sweep 1 --budget 256MiB", 2, "two tokens"},
        {"--sweep 32 --device tpu", 2, "cpu, cuda or cuda:0"},
        {"--sweep 32 --device cuda", 1, "--device cpu works"},
        {"--sweep 32 --device cuda --dtype f32", 2, "bf16"},
        {"--sweep 32 --card h200-141 --budget 1GiB", 2, "one of them"},
        {"--sweep 32 --steps 0", 2, "--steps"},
        {"--sweep 32 --attention own", 2, "--attention"},
        {"--sweep 32 --loss full --loss-rows 8", 2, "contradict"},
        {"--sweep 32 --out nowhere", 2, "neither a folder"},
        {"--sweep 32 --swep 3", 2, "did you mean --sweep"},
        {"--sweep 32 --budget 256MiB --out no-folder/x.json", 1, "no-folder"},
        {"--sweep 32 --card rtx-5090-of-mine", 2, "rtx-5090-of-mine"},
    };
    const char *folder = test_folder("cli-memtest-codes");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[512], *out, *err;
        bool own = strstr(cases[i].arguments, "--out") != NULL;
        snprintf(arguments, sizeof arguments, "%s%s%s", cases[i].arguments, own ? "" : " --out ",
                 own ? "" : folder);
        int code = run(folder, arguments, &out, &err);
        if (code != cases[i].code || !strstr(err, cases[i].says))
            fail_msg("%s: exit code %d: %s", cases[i].arguments, code, err);
        free(out);
        free(err);
    }
}

/* Nothing is run, nothing written, nothing but a forecast said. */
TEST(a_dry_run)
{
    UNUSED_STATE;
    const char *folder = test_folder("cli-memtest-dry");
    char *out, *err, *list, arguments[256];
    snprintf(arguments, sizeof arguments, "--sweep 32,64 --budget 256MiB --dry-run --out %s", folder);
    assert_int_equal(run(folder, arguments, &out, &err), 0);
    assert_string_equal(out, "");
    check("the log", err, "64 tokens: planned");
    check("the log", err, "expected: ");
    free(out);
    free(err);
    assert_int_equal(run(folder, "--sweep 16k --card h200-141 --dry-run", &out, &err),
                     0); /* no card is needed */
    check("the log", err, "h200-141");
    check("the log", err, "USD at");
    free(out);
    free(err);
    assert_int_equal(run(folder, "--sweep 32,64 --budget 1MiB --dry-run", &out, &err), 3);
    check("the log", err, "32 tokens, the shortest length, do not fit");
    free(out);
    free(err);
    test_command(&list, "ls %s", folder);
    assert_string_equal(list, "stderr\nstdout\n");
    free(list);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(a_sweep_leaves_a_table_and_a_file),
        cmocka_unit_test(json_is_the_file),
        cmocka_unit_test(exit_codes),
        cmocka_unit_test(a_dry_run),
    };
    return RUN_TESTS(table);
}
