/* `plimsoll tokens` with the tokenizer of a real model: ids, ranges, the way back, exit codes. */
#include "support/test.h"

#include <stdlib.h>

#define TOKENIZER PLIM_TEST_DATA "/tokenizers/qwen3-reduced.json"

/* The program with input on standard input. */
static void expect(const char *input, const char *arguments, int code, const char *word)
{
    char *out;
    const char *path = test_path(test_folder("tokens_qwen3"), "in.txt");
    test_write(path, input, strlen(input));
    int got = test_command(&out, "'%s' tokens %s < '%s'", PLIM_PROGRAM, arguments, path);
    if (got != code || !strstr(out, word))
        fail_msg("%s: exit %d, wanted %d with '%s': %s", arguments, got, code, word, out);
    free(out);
}

TEST(text_to_ids_and_back)
{
    UNUSED_STATE;
    expect("Hello world", "--tokenizer " TOKENIZER, 0, "[9707,1879]\n");
    expect("", "--tokenizer " TOKENIZER, 0, "[]\n");
    expect("<|im_start|>user\nhi<|im_end|>\n", "--tokenizer=" TOKENIZER, 0,
           "[151644,872,198,6023,151645,198]\n");
    expect("Hello world", "--offsets --tokenizer " TOKENIZER, 0, "[[9707,0,5],[1879,5,11]]\n");
    expect("[9707, 1879, 151645]", "--decode --tokenizer " TOKENIZER, 0, "Hello world<|im_end|>");
    expect("[151644, 9707]", "--decode --skip-special --tokenizer " TOKENIZER, 0, "Hello");
}

TEST(mistakes_have_their_exit_codes)
{
    UNUSED_STATE;
    expect("", "", 2, "--tokenizer FILE is missing");
    expect("", "--tokenizer " TOKENIZER " text", 2, "standard input");
    expect("", "--tokenizer " TOKENIZER " --decode --offsets", 2, "--skip-special alone");
    expect("", "--tokenizer " TOKENIZER " --skip-special", 2, "goes with --decode");
    expect("\xff", "--tokenizer " TOKENIZER, 1, "not UTF-8: byte 0xFF at offset 0");
    expect("[1, x]", "--decode --tokenizer " TOKENIZER, 1, "standard input:1:5");
    expect("[200000]", "--decode --tokenizer " TOKENIZER, 1, "200000, an id without a token");
    expect("", "--tokenizer /nowhere/tokenizer.json", 1, "/nowhere/tokenizer.json");
    expect("", "--help", 0, "--offsets");
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(text_to_ids_and_back),
        cmocka_unit_test(mistakes_have_their_exit_codes),
    };
    return RUN_TESTS(table);
}
