/* plimsoll random-model: what it makes, what it refuses, and its exit codes. */
#include "support/test.h"

#include <stdlib.h>

#include "formats/safetensors.h"

#define CONFIG PLIM_TEST_DATA "/models/qwen3_5-tiny/config.json"

/* Runs the program; its exit code and all it said. */
static int program(char **out, const char *arguments)
{
    return test_command(out, "'%s' %s", PLIM_PROGRAM, arguments);
}

static void check_says(int code, int want, char *out, const char *words)
{
    if (code != want || !strstr(out, words))
        fail_msg("exit %d, wanted %d and '%s': %s", code, want, words, out);
    free(out);
}

static plim_dtype dtype_of(plim_ctx *c, const char *path)
{
    plim_safetensors *s = NULL;
    CHECK_OK(c, plim_safetensors_open(c, path, &s));
    plim_dtype d = plim_safetensors_at(s, 0)->dtype;
    plim_safetensors_close(s);
    return d;
}

TEST(a_folder_is_made_that_the_plan_accepts)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char *out;
    test_folder("cli-random");
    int code = program(&out, "random-model '" CONFIG "' --seed 3 --out test-tmp/cli-random/m");
    check_says(code, 0, out, "F32, seed 3, to test-tmp/cli-random/m"); /* as the config says */
    assert_int_equal(dtype_of(c, "test-tmp/cli-random/m/model.safetensors"), PLIM_F32);
    code = program(&out, "plan test-tmp/cli-random/m --seq 4k");
    check_says(code, 0, out, "56 tensors in 1 files");
    code =
        program(&out, "random-model test-tmp/cli-random/m --seed 3 --out test-tmp/cli-random/n --dtype=bf16 "
                      "--shard-size 300kB");
    check_says(code, 0, out, "BF16");
    assert_int_equal(dtype_of(c, "test-tmp/cli-random/n/model-00001-of-00003.safetensors"), PLIM_BF16);
    code = program(&out, "plan test-tmp/cli-random/n --seq 4k");
    check_says(code, 0, out, "56 tensors in 3 files");
    test_ctx_close(c);
}

TEST(the_seed_decides)
{
    UNUSED_STATE;
    char *out;
    test_folder("cli-seed");
    for (int i = 0; i < 3; i++) {
        char arguments[400];
        snprintf(arguments, sizeof arguments,
                 "random-model '" CONFIG "' --seed %d --out test-tmp/cli-seed/%d", i / 2, i);
        int code = program(&out, arguments);
        check_says(code, 0, out, "wrote random weights");
    }
    assert_int_equal(
        test_command(&out, "cmp test-tmp/cli-seed/0/model.safetensors test-tmp/cli-seed/1/model.safetensors"),
        0);
    free(out);
    assert_int_equal(
        test_command(&out, "cmp test-tmp/cli-seed/1/model.safetensors test-tmp/cli-seed/2/model.safetensors"),
        1);
    free(out);
}

TEST(mistakes_are_told)
{
    UNUSED_STATE;
    test_folder("cli-wrong");
    static const struct {
        const char *arguments;
        int code;
        const char *words;
    } cases[] = {
        {"random-model", 2, "CONFIG"},
        {"random-model '" CONFIG "' --out test-tmp/cli-wrong/m", 2, "--seed N"},
        {"random-model '" CONFIG "' --seed 1", 2, "--out DIR"},
        {"random-model '" CONFIG "' x --seed 1 --out test-tmp/cli-wrong/m", 2, "'x' is one too many"},
        {"random-model '" CONFIG "' --seed -1 --out test-tmp/cli-wrong/m", 2, "--seed"},
        {"random-model '" CONFIG "' --seed 1 --out test-tmp/cli-wrong/m --dtype fp8", 2, "bf16, f16 or f32"},
        {"random-model '" CONFIG "' --seed 1 --out test-tmp/cli-wrong/m --shard-size 0", 2, "2GB"},
        {"random-model '" CONFIG "' --seed 1 --out test-tmp/cli-wrong/m --shard-size 2G", 2, "--shard-size"},
        {"random-model '" CONFIG "' --sed 1", 2, "did you mean --seed"},
        {"random-model no/such.json --seed 1 --out test-tmp/cli-wrong/m", 1, "no/such.json"},
        {"random-model --help", 0, "--shard-size"},
        {"--help", 0, "random-model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out;
        int code = program(&out, cases[i].arguments);
        check_says(code, cases[i].code, out, cases[i].words);
    }
    char *out;
    assert_int_equal(test_command(&out, "ls test-tmp/cli-wrong/m"), 2); /* nothing was made */
    free(out);
}

TEST(a_model_is_never_overwritten)
{
    UNUSED_STATE;
    char *out;
    test_folder("cli-taken");
    test_write("test-tmp/cli-taken/config.json", "mine", 4);
    int code = program(&out, "random-model '" CONFIG "' --seed 3 --out test-tmp/cli-taken");
    check_says(code, 1, out, "already holds config.json");
    size_t bytes;
    char *text = test_read("test-tmp/cli-taken/config.json", &bytes);
    assert_string_equal(text, "mine");
    free(text);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(a_folder_is_made_that_the_plan_accepts),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(a_model_is_never_overwritten),
    };
    return RUN_TESTS(table);
}
