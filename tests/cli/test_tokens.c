/* plimsoll tokens: both ways, every option by the name that its help tells, and what it refuses. */
#include "support/test.h"

#include <stdlib.h>

#define TOKENIZER PLIM_TEST_DATA "/text/tokenizer-bytes.json" /* bytes; 256 "ab", 257 " ab", 258 special */

/* Exit code and output of the program with that on its standard input. */
static void check(const char *input, const char *arguments, int want, const char *words)
{
    char *out;
    int code = test_command(&out, "printf '%%s' '%s' | '%s' tokens %s", input, PLIM_PROGRAM, arguments);
    if (code != want || !strstr(out, words))
        fail_msg("%s: exit %d, wanted %d and '%s': %s", arguments, code, want, words, out);
    free(out);
}

TEST(there_and_back)
{
    UNUSED_STATE;
    check("ab ab<|end|>x", "--tokenizer '" TOKENIZER "'", 0, "[256,257,258,120]\n");
    check("ab ab", "--tokenizer '" TOKENIZER "' --offsets", 0, "[[256,0,2],[257,2,5]]\n");
    check("ab", "--tokenizer '" TOKENIZER "' --special", 0, "[256]\n");
    check("", "--tokenizer '" TOKENIZER "'", 0, "[]\n");
    check("[256,257,258]", "--tokenizer '" TOKENIZER "' --decode", 0, "ab ab<|end|>");
    check("[256,258,120]", "--tokenizer '" TOKENIZER "' --decode --skip-special", 0, "abx");
}

TEST(help_names_the_options_as_they_are_given)
{
    UNUSED_STATE;
    check("", "--help", 0, "\n  --tokenizer FILE ");
    check("", "--help", 0, "\n  --skip-special ");
}

TEST(mistakes)
{
    UNUSED_STATE;
    check("a", "", 2, "--tokenizer FILE is missing");
    check("a", "--tokenizer '" TOKENIZER "' text", 2, "comes from standard input");
    check("a", "--tokenizer '" TOKENIZER "' --decode --offsets", 2, "--decode goes with");
    check("a", "--tokenizer '" TOKENIZER "' --skip-special", 2, "goes with --decode");
    check("a", "--tokenizer '" TOKENIZER "' --ofsets", 2, "did you mean --offsets?");
    check("a", "--tokenizer /nonexistent", 1, "/nonexistent");
    check("a", "--tokenizer '" TOKENIZER "' --decode", 1, "standard input");
    check("{}", "--tokenizer '" TOKENIZER "' --decode", 1, "JSON array");
    check("[259]", "--tokenizer '" TOKENIZER "' --decode", 1, "259");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(help_names_the_options_as_they_are_given),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
