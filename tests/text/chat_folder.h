/* chat_folder.h - a model's folder for tests of chat data: a byte-level tokenizer with a few merges and three
 * special tokens, and a template.  Ids: 0 to 255 are the bytes, 256 to 258 merges, 259 on the special tokens.
 */
#ifndef PLIM_TESTS_CHAT_FOLDER_H
#define PLIM_TESTS_CHAT_FOLDER_H

#include "support/test.h"

#include <stdlib.h>

#include "text/byte_level.h"

#define CHAT_IT        256 /* "it" */
#define CHAT_GO        257 /* "go" */
#define CHAT_COLON_A   258 /* ":a": joins text of the template to text behind it */
#define CHAT_END_TEXT  259 /* "<|endoftext|>" */
#define CHAT_IM_START  260
#define CHAT_IM_END    261
#define CHAT_LINE_FEED '\n'

/* Writes each message as <|im_start|>role\ncontent<|im_end|>\n, tools as a system message before them; raises
 * for a role "bad", and for rows without a user. */
#define CHAT_TEMPLATE                                                                                        \
    "{%- if tools %}{{ '<|im_start|>system\\n' }}{% for t in tools %}{{ t | tojson }}{% endfor %}{{ "        \
    "'<|im_end|>\\n' }}{% endif -%}"                                                                         \
    "{%- for m in messages -%}"                                                                              \
    "{%- if m.role == 'bad' %}{{ raise_exception('no such role: bad') }}{% endif -%}"                        \
    "{{ '<|im_start|>' + m.role + '\\n' }}"                                                                  \
    "{%- if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif -%}"            \
    "{%- if m.content %}{{ m.content }}{% endif -%}"                                                         \
    "{%- for c in m.tool_calls or [] %}{{ c.function.name }}{% for k in c.function.arguments %}{{ '(' + k "  \
    "+ '='  + "                                                                                              \
    "c.function.arguments[k] | string + ')' }}{% endfor %}{% endfor -%}"                                     \
    "{{ '<|im_end|>\\n' }}"                                                                                  \
    "{%- endfor -%}"                                                                                         \
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}"

static inline void chat_put_char(FILE *to, uint32_t c)
{
    fprintf(to, "\\u%04x", c);
}

/* The tokenizer.json. */
static inline void chat_write_tokenizer(const char *path)
{
    static const char *const merged[] = {"it", "go", ":a"}, *const special[] = {"<|endoftext|>",
                                                                                "<|im_start|>", "<|im_end|>"};
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fprintf(to, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [");
    for (int i = 0; i < 3; i++)
        fprintf(to,
                "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, \"rstrip\": "
                "false, "
                "\"normalized\": false, \"special\": true}",
                i ? ", " : "", CHAT_END_TEXT + i, special[i]);
    fprintf(
        to,
        "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
        "\"trim_offsets\": false, \"use_regex\": false}, \"post_processor\": null, \"decoder\": {\"type\": "
        "\"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}, \"model\": "
        "{\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null, "
        "\"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false, \"vocab\": {");
    for (int b = 0; b < 256; b++) {
        fprintf(to, "\"");
        chat_put_char(to, plim_byte_level_char((unsigned char)b));
        fprintf(to, "\": %d, ", b);
    }
    for (int i = 0; i < 3; i++) fprintf(to, "%s\"%s\": %d", i ? ", " : "", merged[i], CHAT_IT + i);
    fprintf(to, "}, \"merges\": [");
    for (int i = 0; i < 3; i++) fprintf(to, "%s[\"%c\", \"%c\"]", i ? ", " : "", merged[i][0], merged[i][1]);
    fprintf(to, "]}}\n");
    assert_int_equal(fclose(to), 0);
}

/* A folder with the tokenizer, a config that names the end token, and this template (NULL: none). */
static inline const char *chat_folder(const char *name, const char *chat_template)
{
    static const char config[] = "{\"bos_token\": null, \"eos_token\": \"<|endoftext|>\"}\n";
    const char *folder = test_folder(name);
    chat_write_tokenizer(test_path(folder, "tokenizer.json"));
    test_write(test_path(folder, "tokenizer_config.json"), config, strlen(config));
    if (chat_template)
        test_write(test_path(folder, "chat_template.jinja"), chat_template, strlen(chat_template));
    return folder;
}

#endif
