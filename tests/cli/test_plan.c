/* `plimsoll plan` from outside: exit codes, messages, what is printed and where. */
#include "formats/model_folder.h"

#include <jansson.h>
#include <math.h>

#define MODEL_27B  PLIM_SHARE_SOURCE "/models/qwen3.8-27b/config.json"
#define MODEL_TINY PLIM_TEST_DATA "/models/qwen3_5-tiny/config.json"
#define PLAN_27B   PLIM_PROGRAM " plan " MODEL_27B

/* Runs a shell command that must end with code and say every word. */
static char *run(int code, const char *command, const char *const *words)
{
    char *out;
    int got = test_command(&out, "%s", command);
    if (got != code) fail_msg("%s: exit %d instead of %d: %s", command, got, code, out);
    for (; *words; words++)
        if (!strstr(out, *words)) fail_msg("%s: no '%s' in: %s", command, *words, out);
    return out;
}

#define RUN(code, command, ...)       run((code), (command), (const char *const[]){__VA_ARGS__, NULL})
#define CHECK_RUN(code, command, ...) free(RUN(code, command, __VA_ARGS__))

TEST(help_and_version)
{
    UNUSED_STATE;
    CHECK_RUN(0, PLIM_PROGRAM " --help 2>/dev/null", "plimsoll COMMAND", "plan", "Exit codes");
    CHECK_RUN(0, PLIM_PROGRAM " --version 2>/dev/null", "plimsoll " PLIM_VERSION);
    CHECK_RUN(0, PLIM_PROGRAM " plan --help 2>/dev/null", "plimsoll plan MODEL", "--seq LIST",
              "--usd-per-h USD", "--layout ", "Examples");
    CHECK_RUN(0, PLIM_PROGRAM " plan -h 2>/dev/null", "--card LIST");
    CHECK_RUN(2, PLIM_PROGRAM " 2>&1 >/dev/null",
              "plimsoll COMMAND"); /* nothing asked: help, but not as an answer */
}

/* Every mistake of the command line: exit 2, nothing on standard output, the option by name and what would
 * work. */
TEST(mistakes_of_the_command_line)
{
    UNUSED_STATE;
    static const struct {
        const char *arguments, *words[4];
    } cases[] = {
        {"plon x", {"no command 'plon'", "--help"}},
        {"plan", {"wants a MODEL"}},
        {"plan a b", {"'b'", "'a'"}},
        {"plan " MODEL_27B " --crad h200", {"unknown option --crad", "did you mean --card?", "plan --help"}},
        {"plan " MODEL_27B " --xyzzyplugh", {"unknown option --xyzzyplugh"}},
        {"plan " MODEL_27B " -s 16k", {"unknown option -s", "--help"}},
        {"plan " MODEL_27B " --seq", {"--seq wants a value"}},
        {"plan " MODEL_27B " --json=1", {"--json takes no value"}},
        {"plan " MODEL_27B " --seq 16x", {"--seq", "16x", "48k"}},
        {"plan " MODEL_27B " --seq 0", {"--seq 0", "1 to 16777216"}},
        {"plan " MODEL_27B " --seq 99M", {"--seq 99M", "1 to 16777216"}},
        {"plan " MODEL_27B " --seq 1k,,2k", {"--seq", "empty"}},
        {"plan " MODEL_27B " --card nope", {"nope", "h200-141", "a100-80"}},
        {"plan " MODEL_27B " --trainer axolotl", {"--trainer axolotl", "plimsoll, note or hf"}},
        {"plan " MODEL_27B " --checkpoints disk", {"--checkpoints disk", "host, device"}},
        {"plan " MODEL_27B " --checkpoints 2000", {"--checkpoints", "0 to 1024"}},
        {"plan " MODEL_27B " --checkpoints 65", {"--checkpoints 65", "has 64 layers", "0 to 64"}},
        {"plan " MODEL_27B " --keep-layers 65", {"--keep-layers 65", "has 64 layers", "0 to 64"}},
        {"plan " MODEL_27B " --keep-layers all", {"--keep-layers", "all"}},
        {"plan " MODEL_27B " --keep-attention maybe", {"--keep-attention maybe", "yes or no"}},
        {"plan " MODEL_27B " --tile 0", {"--tile 0", "1 to"}},
        {"plan " MODEL_27B " --loss none", {"--loss none", "full or chunked"}},
        {"plan " MODEL_27B " --loss-rows 0", {"--loss-rows 0", "1 to"}},
        {"plan " MODEL_27B " --loss full --loss-rows 5", {"--loss full", "--loss-rows"}},
        {"plan " MODEL_27B " --embedding disk", {"--embedding disk", "host or device"}},
        {"plan " MODEL_27B " --labelled-share 1.5", {"--labelled-share", "0 to 1"}},
        {"plan " MODEL_27B " --documents 0", {"--documents 0", "1 to"}},
        {"plan " MODEL_27B " --rank 0", {"--rank", "1 to 1024"}},
        {"plan " MODEL_27B " --rank 16.5", {"--rank", "16.5"}},
        {"plan " MODEL_27B " --targets q_proj,x", {"'x'", "o_proj"}},
        {"plan " MODEL_27B " --lora-dropout 1", {"--lora-dropout", "0 to 0.99"}},
        {"plan " MODEL_27B " --adam 16", {"--adam 16", "8 or 32"}},
        {"plan " MODEL_27B " --attention flash", {"--attention flash", "own or cudnn"}},
        {"plan " MODEL_27B " --usd-per-h 3", {"--usd-per-h", "--card"}},
        {"plan " MODEL_27B " --usd-per-h 3 --card a100,h200", {"--usd-per-h", "one card"}},
        {"plan " MODEL_27B " --usd-per-h x --card h200", {"--usd-per-h", "2.5"}},
        {"plan " MODEL_27B " --host-budget 0", {"--host-budget 0", "128GiB"}},
        {"plan " MODEL_27B " --usable-share 2", {"--usable-share", "0.01 to 1"}},
        {"plan " MODEL_27B " --tokens 0", {"--tokens 0", "3.3M"}},
        {"plan " MODEL_27B " --tokens 99999999999T", {"--tokens", "too large"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[2048];
        snprintf(command, sizeof command, PLIM_PROGRAM " %s 2>/dev/null", cases[i].arguments);
        char *out = RUN(2, command, "");
        if (*out) fail_msg("%s: on standard output: %s", command, out);
        free(out);
        snprintf(command, sizeof command, PLIM_PROGRAM " %s", cases[i].arguments);
        free(run(2, command, (const char *const *)cases[i].words));
    }
}

TEST(answers_that_fail_or_do_not_fit)
{
    UNUSED_STATE;
    const char *folder = test_folder("cli-plan-broken"), *broken = test_path(folder, "config.json");
    char command[2048];
    static const char text[] = "{\"model_type\": \"qwen2\",\n  \"hidden_size\": }\n";
    test_write(broken, text, sizeof text - 1);
    snprintf(command, sizeof command, PLIM_PROGRAM " plan %s", broken);
    CHECK_RUN(1, command, "config.json:2:", "error:");
    CHECK_RUN(1, PLIM_PROGRAM " plan /nonexistent/config.json", "/nonexistent/config.json");
    CHECK_RUN(1, PLAN_27B " --card-file /nonexistent", "/nonexistent");
    CHECK_RUN(1, PLAN_27B " --tokens nofile.json", "nofile.json");
    CHECK_RUN(3, PLAN_27B " --card l40s --seq 16k 2>/dev/null", "No card asked for carries 16k",
              "Another card does:", "plimsoll memtest");
    CHECK_RUN(3, PLAN_27B " --card h200 --seq 64k --loss full --checkpoints device 2>/dev/null",
              "h200-141 carries it with layer inputs on the host (--checkpoints host)");
    CHECK_RUN(3, PLAN_27B " --card h200 --seq 128k --loss full 2>/dev/null",
              "h200-141 carries it with the loss in chunks (--loss chunked)");
    CHECK_RUN(3, PLAN_27B " --card h200 --seq 16k --host-budget 4096 --checkpoints host 2>/dev/null",
              "host too small");
    CHECK_RUN(0, PLAN_27B " --card l40s 2>/dev/null", "none"); /* a load line is an answer, whatever it is */
}

/* Results on standard output, nothing else there; no escape codes into a pipe. */
TEST(what_goes_where)
{
    UNUSED_STATE;
    char *out =
        RUN(0, PLAN_27B " --seq 16k 2>/dev/null", "16k tokens: the fastest options", "h200-141", "Next: ");
    assert_null(strchr(out, '\033'));
    free(out);
    out = RUN(0, PLAN_27B " 2>&1 >/dev/null", "");
    assert_null(strchr(out, '\033'));
    free(out);
    out = RUN(0, "NO_COLOR=1 " PLAN_27B, "Memory: GiB", "a100-80", "128k", "Next: ");
    assert_null(strchr(out, '\033'));
    free(out);
    CHECK_RUN(1, PLAN_27B " --seq 16k >/dev/full", "standard output could not be written");
    CHECK_RUN(1, PLAN_27B " --layout >/dev/full", "standard output could not be written");
    CHECK_RUN(1, PLIM_PROGRAM " --help >/dev/full", "standard output could not be written");
}

/* ---- layout ---- */

/* Highest end of the listed tensors on the device, each rounded up to 256 bytes, and on the host. */
static void layout_ends(const char *command, size_t *device, size_t *host)
{
    char *out =
        RUN(0, command, "memory\toffset_bytes\tsize_bytes\tcomponent\ttensor\tdtype\trows\tcols\tpitch\n");
    size_t lines = 0;
    *device = *host = 0;
    for (char *line = strchr(out, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        char where[16], component[32], name[64], dtype[16];
        size_t offset, size, rows, cols, pitch;
        if (sscanf(line, "%15s %zu %zu %31s %63s %15s %zu %zu %zu", where, &offset, &size, component, name,
                   dtype, &rows, &cols, &pitch) != 9)
            fail_msg("not a line of a layout: %.80s", line);
        assert_int_equal(offset % 256, 0);
        assert_true(pitch >= cols && rows > 0);
        size_t end = offset + (size + 255) / 256 * 256, *highest = !strcmp(where, "host") ? host : device;
        if (end > *highest) *highest = end;
        lines++;
    }
    assert_true(lines > 100);
    free(out);
}

/* The listed tensors reach just as high as the peak of a plan of the same options. */
TEST(layout_adds_up_to_the_peak)
{
    UNUSED_STATE;
#define FIXED                                                                                                \
    " --card h200 --seq 20k --checkpoints 10 --keep-layers 3 --keep-attention yes --tile 2048 --loss-rows "  \
    "512 --embedding host"
    size_t device, host;
    layout_ends(PLAN_27B FIXED " --layout 2>/dev/null", &device, &host);
    char *out = RUN(0, PLAN_27B FIXED " --json 2>/dev/null", "peak_bytes");
    json_t *root = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    json_t *best = json_array_get(json_object_get(root, "best"), 0);
    assert_int_equal(json_integer_value(json_object_get(best, "peak_bytes")), device);
    assert_int_equal(json_integer_value(json_object_get(best, "host_bytes")), host);
    json_t *options = json_object_get(best, "options");
    assert_int_equal(json_integer_value(json_object_get(options, "host_checkpoints")), 10);
    assert_int_equal(json_integer_value(json_object_get(options, "kept_layers")), 3);
    assert_int_equal(json_integer_value(json_object_get(options, "tile_tokens")), 2048);
    json_decref(root);
    free(out);
    /* Documents beyond the tokens are cut as in the table. */
    layout_ends(PLAN_27B " --seq 100 --documents 500 --layout 2>/dev/null", &device, &host);
}

/* ---- cards and prices ---- */

static double best_number(const char *command, const char *key)
{
    char *out = RUN(0, command, "best");
    json_t *root = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    json_t *value = json_object_get(json_array_get(json_object_get(root, "best"), 0), key);
    assert_true(json_is_number(value));
    double found = json_number_value(value);
    json_decref(root);
    free(out);
    return found;
}

TEST(cards_of_ones_own_and_prices)
{
    UNUSED_STATE;
    const char *folder = test_folder("cli-plan-cards"), *file = test_path(folder, "cards.json");
    static const char text[] = "{\"format\": 1, \"cards\": [{\"id\": \"h200-141\", \"memory_bytes\": "
                               "140000000000, \"usd_per_h\": 1.25}]}";
    char command[2048];
    test_write(file, text, sizeof text - 1);
    double usual = best_number(PLAN_27B " --card h200 --seq 16k --json 2>/dev/null", "budget_bytes");
    snprintf(command, sizeof command, PLAN_27B " --card h200 --seq 2k --card-file %s --json 2>/dev/null",
             file);
    double own = best_number(command, "budget_bytes");
    assert_true(own == floor(140000000000 * 0.92) && usual > own);
    double cheap = best_number(PLAN_27B " --card h200 --seq 16k --usd-per-h 2.5 --json 2>/dev/null",
                               "usd_per_million_tokens");
    double dear = best_number(PLAN_27B " --card h200 --seq 16k --usd-per-h 5 --json 2>/dev/null",
                              "usd_per_million_tokens");
    assert_true(fabs(dear - 2 * cheap) < 1e-9 * dear);
}

TEST(json_is_json)
{
    UNUSED_STATE;
    static const char *const more[] = {"", " --seq 16k,48k --tokens 3.3M", " --trainer note --tokens 3.3M",
                                       " --card h200"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char command[2048];
        json_error_t error;
        snprintf(command, sizeof command, PLAN_27B "%s --json 2>/dev/null", more[i]);
        char *out = RUN(0, command, "schema_version");
        json_t *root = json_loads(out, JSON_REJECT_DUPLICATES, &error);
        if (!root) fail_msg("%s: %s", command, error.text);
        static const char *const keys[] = {"model", "cards",     "rows",     "best",
                                           "runs",  "load_line", "timeline", "next"};
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (!json_object_get(root, keys[k])) fail_msg("%s: no %s", command, keys[k]);
        assert_int_equal(json_array_size(json_object_get(root, "runs")) > 0, strstr(more[i], "3.3M") != NULL);
        json_decref(root);
        free(out);
    }
}

TEST(a_page_is_written_beside_the_answer)
{
    UNUSED_STATE;
    const char *folder = test_folder("cli-plan-html"), *page = test_path(folder, "plan.html");
    char command[2048];
    size_t bytes;
    snprintf(command, sizeof command, PLAN_27B " --seq 16k --html %s", page);
    CHECK_RUN(0, command, "wrote", "plan.html", "Next: ");
    /* a table that fills more than a pipe's buffer: what is said beside it never falls into a line */
    snprintf(command, sizeof command, PLAN_27B " --tokens 3.3M --html %s 2>&1 | cat", page);
    CHECK_RUN(0, command, "\nwrote ");
    char *html = test_read(page, &bytes);
    assert_true(bytes > 1000 && !strncmp(html, "<!DOCTYPE html>", 15));
    free(html);
    CHECK_RUN(1, PLAN_27B " --seq 16k --html /nonexistent/x.html", "/nonexistent/x.html");
}

/* ---- a folder with weights ---- */

static void make_tiny(plim_ctx *c, model *m)
{
    memset(m, 0, sizeof *m);
    CHECK_OK(c, plim_spec_load(c, MODEL_TINY, &m->spec));
    m->shards = 2;
    plim_spec_tensors(&m->spec, PLIM_GROUP_TEXT, add_declared, m);
    for (size_t i = 0; i < m->count; i++) {
        m->items[i].dtype = PLIM_F32;
        m->items[i].shard = m->items[i].index_shard = i % 2 ? 1 : 0;
    }
}

static void put_config(const char *folder)
{
    size_t bytes;
    char *text = test_read(MODEL_TINY, &bytes);
    test_write(test_path(folder, "config.json"), text, bytes);
    free(text);
}

TEST(a_folder_with_weights_is_checked)
{
    UNUSED_STATE;
    static model m;
    plim_ctx *c = test_ctx_open();
    char command[2048], tensors[64];
    make_tiny(c, &m);
    const char *folder = write_model(c, "cli-plan-model", &m);
    put_config(folder);
    snprintf(command, sizeof command, PLIM_PROGRAM " plan %s --seq 1k", folder);
    snprintf(tensors, sizeof tensors, "%zu tensors in 2 files are what the config promises", m.count);
    CHECK_RUN(0, command, tensors, "Next: ");

    /* Three things wrong at once: all of them are told. */
    find_item(&m, "layers.0.mlp.down_proj.weight")->shape[1] += 8;
    find_item(&m, "layers.3.self_attn.q_norm.weight")->dtype = PLIM_I32;
    remove_item(&m, "layers.1.linear_attn.A_log");
    folder = write_model(c, "cli-plan-model-bad", &m);
    put_config(folder);
    snprintf(command, sizeof command, PLIM_PROGRAM " plan %s --seq 1k", folder);
    CHECK_RUN(1, command, "layers.0.mlp.down_proj.weight", "layers.3.self_attn.q_norm.weight",
              "layers.1.linear_attn.A_log");

    /* Without weights the config alone is planned from, and said so. */
    folder = test_folder("cli-plan-config-alone");
    put_config(folder);
    snprintf(command, sizeof command, PLIM_PROGRAM " plan %s --seq 1k", folder);
    CHECK_RUN(0, command, "holds no weights", "Next: ");
    test_ctx_close(c);
}

/* ---- the reference note's table, cell by cell ---- */

/* Words of a line, cut apart in place. */
static int cut(char *line, char *words[], int most)
{
    int n = 0;
    for (char *w = strtok(line, " \t\n"); w && n < most; w = strtok(NULL, " \t\n")) words[n++] = w;
    return n;
}

TEST(the_notes_table_as_printed)
{
    UNUSED_STATE;
    char *out = RUN(0, PLAN_27B " --trainer note 2>/dev/null", "reference note"), *save_out, *save_tsv;
    char *tsv = test_read(PLIM_TEST_DATA "/reference-fit-table.tsv", NULL);
    char *printed = strtok_r(strstr(out, "\ntokens") + 1, "\n", &save_out);
    assert_non_null(strstr(printed, "a100-80"));
    int rows = 0;
    for (char *line = strtok_r(tsv, "\n", &save_tsv); line; line = strtok_r(NULL, "\n", &save_tsv)) {
        char *wanted[16], *found[32], tokens[32];
        if (line[0] < '0' || line[0] > '9') continue;
        printed = strtok_r(NULL, "\n", &save_out);
        char a[256], b[256];
        snprintf(a, sizeof a, "%s", line);
        snprintf(b, sizeof b, "%s", printed);
        assert_int_equal(cut(a, wanted, 16), 8);
        assert_int_equal(cut(b, found, 32), 14);
        snprintf(tokens, sizeof tokens, "%lldk", atoll(wanted[0]) / 1000);
        assert_string_equal(found[0], tokens);
        assert_string_equal(found[1], wanted[1]);
        assert_string_equal(found[2], wanted[2]);
        assert_string_equal(found[8], wanted[3]);
        for (int i = 0; i < 4; i++) assert_string_equal(found[10 + i], wanted[4 + i]);
        rows++;
    }
    assert_int_equal(rows, 16);
    free(out);
    free(tsv);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(help_and_version),
        cmocka_unit_test(mistakes_of_the_command_line),
        cmocka_unit_test(answers_that_fail_or_do_not_fit),
        cmocka_unit_test(what_goes_where),
        cmocka_unit_test(layout_adds_up_to_the_peak),
        cmocka_unit_test(cards_of_ones_own_and_prices),
        cmocka_unit_test(json_is_json),
        cmocka_unit_test(a_page_is_written_beside_the_answer),
        cmocka_unit_test(a_folder_with_weights_is_checked),
        cmocka_unit_test(the_notes_table_as_printed),
    };
    return RUN_TESTS(table);
}
