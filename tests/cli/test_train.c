/* `plimsoll train` from outside: what is refused, what is written, and that the adapter helps. */
#include "cli/run_support.h"

#include <signal.h>
#include <unistd.h>

static const char *folder, *data;

/* A folder of the test's own with data.safetensors in it. */
static void begin(const char *name)
{
    folder = test_folder(name);
    data = test_path(folder, "data.safetensors");
    put_samples(data, 6, 30);
}

#define TRAIN PLIM_PROGRAM " train "
#define FAST  " --threads 1 --lr 0.01 --tile 64 --rank 4"

TEST(mistakes_of_the_command_line)
{
    UNUSED_STATE;
    static const struct {
        const char *arguments, *words[4];
    } cases[] = {
        {"", {"wants a MODEL", "--random-weights"}},
        {TINY, {"wants --out DIR"}},
        {TINY " --out o", {"wants --data FILE"}},
        {TINY " other --out o --data d", {"one MODEL at a time", "'other'"}},
        {TINY " --oot x", {"unknown option --oot", "--out"}},
        {TINY " --device tpu", {"--device tpu", "cpu, cuda or cuda:0 would work"}},
        {TINY " --dtype f16", {"--dtype f16", "bf16 or f32"}},
        {TINY " --steps 0", {"--steps 0", "1 to"}},
        {TINY " --epochs 0", {"--epochs", "1 to"}},
        {TINY " --accumulate 0", {"--accumulate 0", "1 to"}},
        {TINY " --lr 0", {"--lr 0", "0.0001"}},
        {TINY " --lr 1e-", {"--lr", "2e-4"}},
        {TINY " --schedule step", {"--schedule step", "constant, linear or cosine"}},
        {TINY " --beta1 1", {"--beta1", "0 to"}},
        {TINY " --eps 0", {"--eps 0"}},
        {TINY " --rank 0", {"--rank", "1 to 1024"}},
        {TINY " --alpha 0", {"--alpha 0"}},
        {TINY " --keep 0", {"--keep", "1 to"}},
        {TINY " --seq 0", {"--seq 0", "1 to"}},
        {TINY " --threads 0", {"--threads", "1 to"}},
        {TINY " --budget 0", {"--budget 0", "8GiB"}},
        {TINY " --data d --out o --steps 3 --epochs 1", {"--steps and --epochs"}},
        {TINY " --data d --out o --val-every 3", {"--val-every", "--val FILE"}},
        {TINY " --data d --out o --steps 3 --warmup 4", {"--warmup 4", "3 steps"}},
        {TINY " --data d --out o --adapter a --rank 4", {"--adapter", "leave out --rank"}},
        {TINY " --data d --out o --adapter a --alpha 4", {"--adapter", "leave out --alpha"}},
        {TINY " --data d --out o --loss full --loss-rows 4", {"--loss full", "--loss-rows"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out =
            run_command(2, command_of(TRAIN "%s 2>&1 >/dev/null", cases[i].arguments), cases[i].words);
        free(out);
        assert_int_equal(test_command(&out, TRAIN "%s 2>/dev/null", cases[i].arguments), 2);
        assert_string_equal(out, "");
        free(out);
    }
    CHECK_RUN(0, TRAIN "--help 2>/dev/null", "--save-every N", "--keep-layers N", "Examples");
}

TEST(what_cannot_be_done_is_said_before_anything_is_written)
{
    UNUSED_STATE;
    begin("cli-train-refused");
    const char *out = test_path(folder, "out");
    CHECK_RUN(1,
              command_of("PLIMSOLL_CUDA=/nowhere/none.so " TRAIN TINY " --data %s --out %s --device cuda",
                         data, out),
              "CUDA plug-in", "--device cpu works");
    CHECK_RUN(1, command_of(TRAIN TINY " --data %s/none --out %s", folder, out), "none");
    CHECK_RUN(1, command_of(TRAIN TINY " --data %s --out %s --seq 29", data, out), "document 0",
              "chat.jsonl:1", "30 tokens", "--seq allows 29");
    CHECK_RUN(1, command_of(TRAIN TINY " --data %s --out %s", data, folder),
              "already holds data.safetensors");
    CHECK_RUN(2, command_of(TRAIN TINY "/config.json --data %s --out %s", data, out), "random weights");
    CHECK_RUN(2, command_of(TRAIN TINY " --data %s --out %s --warmup 7", data, out), "run of 6 steps");
    CHECK_RUN(3, command_of(TRAIN TINY " --data %s --out %s --budget 1MB", data, out), "planned",
              "--budget allows", "1,000,000");
    assert_int_equal(access(out, F_OK), -1);
}

/* Trains, loads what was written, and finds that it helps. */
TEST(the_adapter_loads_again_and_lowers_the_loss)
{
    UNUSED_STATE;
    begin("cli-train-adapter");
    const char *out = test_path(folder, "out"),
               *eval = PLIM_PROGRAM " eval " TINY " --threads 1 --tile 64 --json";
    json_t *before = run_json(command_of("%s --data %s", eval, data));
    char *said =
        RUN(0,
            command_of(TRAIN TINY FAST " --data %s --out %s --steps 8 --save-every 3 --keep 1 --val %s "
                                       "--accumulate 2 --documents 2 --seq 64",
                       data, out, data),
            "bytes planned", "as planned", "step 1/8: loss", "step 8/8: loss", "validation loss",
            "6 documents, 180 tokens; 8 steps");
    free(said);
    json_t *after = run_json(command_of("%s --data %s --adapter %s/adapter", eval, data, out));
    assert_true(number_of(after, "loss") < 0.5 * number_of(before, "loss"));
    assert_true(number_of(after, "planned_bytes") == number_of(after, "peak_bytes"));
    CHECK_RUN(0, command_of("ls -A %s", out), "adapter\ncheckpoint-6\nmetrics.jsonl\n");
    CHECK_RUN(0, command_of("wc -l < %s/metrics.jsonl", out), "8\n");
    /* A checkpoint is an adapter to start from as well; its last line says where the new one lies. */
    said =
        RUN(0,
            command_of("{ " TRAIN TINY " --threads 1 --tile 64 --data %s --out %s/more --steps 1 --adapter "
                       "%s/checkpoint-6; } 2>/dev/null",
                       data, folder, out),
            "adapter: ", "/more/adapter\n");
    free(said);
    CHECK_RUN(0, command_of("grep -h '\"r\"' %s/more/adapter/adapter_config.json", folder), "4");
    json_decref(before);
    json_decref(after);
}

TEST(json_says_what_was_done)
{
    UNUSED_STATE;
    begin("cli-train-json");
    json_t *j = run_json(command_of(TRAIN TINY "/config.json --random-weights --seed 3" FAST
                                               " --data %s --out %s/out --epochs 3 --accumulate 4 --json",
                                    data, folder));
    assert_true(number_of(j, "steps") == 6); /* an epoch: four sequences, then the other two */
    assert_true(number_of(j, "epochs") == 3);
    assert_true(number_of(j, "seed") == 3);
    assert_true(number_of(j, "last_loss") < number_of(j, "first_loss"));
    assert_true(number_of(j, "planned_bytes") == number_of(j, "peak_bytes"));
    const char *adapter = json_string_value(json_object_get(j, "adapter"));
    assert_non_null(adapter);
    assert_int_equal(access(test_path(adapter, "adapter_config.json"), F_OK), 0);
    json_decref(j);
}

/* Same seed, other threads: the same file. */
TEST(threads_do_not_matter)
{
    UNUSED_STATE;
    begin("cli-train-threads");
    for (int n = 1; n <= 2; n++)
        CHECK_RUN(0,
                  command_of(TRAIN TINY
                             " --rank 4 --lora-dropout 0.1 --dtype bf16 --data %s --out %s/%d --steps 2 "
                             "--threads %d",
                             data, folder, n, n),
                  "step 2/2");
    CHECK_RUN(
        0,
        command_of(
            "cmp %s/1/adapter/adapter_model.safetensors %s/2/adapter/adapter_model.safetensors && echo same",
            folder, folder),
        "same");
}

/* Ends after the step at hand, once the first is on record. */
TEST(an_interrupt_saves_and_exits_1)
{
    UNUSED_STATE;
    static const char *const signals[] = {"INT", "TERM"};
    for (int i = 0; i < 2; i++) {
        begin("cli-train-interrupt");
        const char *out = test_path(folder, "out");
        CHECK_RUN(1,
                  command_of("bash -c '" TRAIN TINY FAST " --data %s --out %s --steps 1000000 & p=$!; "
                             "until [ -s %s/metrics.jsonl ]; do kill -0 $p || exit 9; sleep 0.05; done; "
                             "kill -%s $p; wait $p'",
                             data, out, out, signals[i]),
                  "stopped after step", "saved as", "/checkpoint-");
        CHECK_RUN(0, command_of("ls -A %s | grep -c adapter; ls %s/checkpoint-*/state.json", out, out), "0\n",
                  "state.json");
    }
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(mistakes_of_the_command_line),
        cmocka_unit_test(what_cannot_be_done_is_said_before_anything_is_written),
        cmocka_unit_test(the_adapter_loads_again_and_lowers_the_loss),
        cmocka_unit_test(json_says_what_was_done),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(an_interrupt_saves_and_exits_1),
    };
    return RUN_TESTS(table);
}
