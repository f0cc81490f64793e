/* Runs on a GPU as a person starts them, with a plug-in behind which the CPU computes. */
#include "cli/run_support.h"

#include <unistd.h>

#include "formats/memtest_result.h"

#define GPU      "PLIMSOLL_CUDA=" PLIM_IMITATION " SOURCE_DATE_EPOCH=1764612000 " PLIM_PROGRAM " "
#define NO_GPU   "PLIMSOLL_CUDA=/nowhere/none.so " PLIM_PROGRAM " "
#define GIB(n)   ((int64_t)(n) << 30)
#define TRAINING " --lr 0.01 --rank 4 --tile 64 --json"

static const char *folder, *data;
static plim_memtest_result result;

static void begin(const char *name)
{
    folder = test_folder(name);
    data = test_path(folder, "data.safetensors");
    put_samples(data, 6, 30);
}

/* The same model, data and options give the same bits behind the wall. */
TEST(train_and_eval)
{
    UNUSED_STATE;
    begin("cuda-train");
    json_t *gpu = run_json(command_of(GPU "train " TINY TRAINING " --device cuda --data %s --out %s/gpu "
                                          "--steps 3 --save-every 2 --val %s",
                                      data, folder, data));
    json_t *cpu = run_json(command_of(NO_GPU "train " TINY TRAINING " --dtype bf16 --data %s --out %s/cpu "
                                             "--steps 3 --save-every 2 --val %s",
                                      data, folder, data));
    static const char *const same[] = {"first_loss", "last_loss", "validation_loss", "steps"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_true(number_of(gpu, same[i]) == number_of(cpu, same[i]));
    assert_true(number_of(gpu, "planned_bytes") == number_of(gpu, "peak_bytes"));
    assert_true(number_of(gpu, "device_bytes") > (double)(700 << 20));
    assert_null(json_object_get(cpu, "device_bytes"));
    CHECK_RUN(0,
              command_of("cmp %s/gpu/adapter/adapter_model.safetensors "
                         "%s/cpu/adapter/adapter_model.safetensors && echo alike",
                         folder, folder),
              "alike");
    CHECK_RUN(0,
              command_of("cmp %s/gpu/checkpoint-2/optimizer.safetensors "
                         "%s/cpu/checkpoint-2/optimizer.safetensors && echo alike",
                         folder, folder),
              "alike");
    json_decref(gpu);
    json_decref(cpu);
    const char *eval = "eval " TINY " --tile 64 --json --data";
    gpu = run_json(command_of(GPU "%s %s --device cuda:0 --adapter %s/gpu/adapter --logits %s/l", eval, data,
                              folder, folder));
    cpu = run_json(command_of(NO_GPU "%s %s --dtype bf16 --adapter %s/gpu/adapter", eval, data, folder));
    assert_true(number_of(gpu, "loss") == number_of(cpu, "loss"));
    assert_int_equal(access(test_path(folder, "l"), F_OK), 0);
    json_decref(gpu);
    json_decref(cpu);
    /* From the config alone, and what it says on the way. */
    CHECK_RUN(0,
              command_of(GPU "train " TINY "/config.json --random-weights --deterministic --device cuda "
                             "--data %s --out %s/random --steps 1 2>&1",
                         data, folder),
              "Imitation H200, 139.8 GiB, planned as h200-141; 0.7 GiB taken at open",
              "attention: plimsoll's own: deterministic", "as planned", "layers kept");
}

TEST(what_a_card_is_not_asked_to_do)
{
    UNUSED_STATE;
    begin("cuda-refused");
    static const struct {
        const char *arguments;
        int code;
        const char *words[3];
    } cases[] = {
        {"--device cuda --dtype f32", 2, {"--dtype f32", "bf16"}},
        {"--device cuda --deterministic --attention cudnn", 2, {"contradict", "own"}},
        {"--device cuda --card h200 --budget 8GiB", 2, {"one of them"}},
        {"--device cuda:x", 2, {"cuda:N"}},
        {"--device cudas", 2, {"cpu, cuda or cuda:0"}},
        {"--card h200", 2, {"--card is for GPUs"}},
        {"--attention own", 2, {"--attention is for GPUs"}},
        {"--device cuda:1", 1, {"card 1 cannot be opened"}},
        {"--device cuda --attention cudnn", 1, {"does not run here", "cuDNN is not here"}},
        {"--device cuda --card b200-180", 3, {"b200-180 is", "Imitation H200 has 139.8 GiB"}},
        {"--device cuda --card a100-80-x4", 1, {"is 4 cards"}},
        {"--device cuda --budget 600MiB", 3, {"leaves nothing"}},
        {"--device cuda --budget 800MiB --seq 900k", 3, {"900k tokens", "may be used"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *out = test_path(folder, "out");
        free(run_command(
            cases[i].code,
            command_of(GPU "train " TINY " --data %s --out %s %s 2>&1", data, out, cases[i].arguments),
            cases[i].words));
        assert_int_equal(access(out, F_OK), -1);
    }
}

/* Found without being asked for; capped at a smaller card's memory; measured over the whole device. */
TEST(a_memory_test)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    folder = test_folder("cuda-memtest");
    const char *path = test_path(folder, "found.json"), *capped = test_path(folder, "capped.json");
    CHECK_RUN(
        0,
        command_of(GPU "memtest " TINY "/config.json --sweep 32,96 --rank 2 --steps 2 --out %s 2>&1", path),
        "planned as h200-141", "limit: 96 tokens fit");
    CHECK_OK(c, plim_memtest_result_read(c, path, &result));
    assert_string_equal(result.card, "h200-141");
    assert_int_equal(result.options.act, PLIM_BF16);
    assert_int_equal(result.length_count, 2);
    for (int i = 0; i < 2; i++) {
        const plim_memtest_length *l = &result.length[i];
        int64_t context = l->component_bytes[PLIM_MEM_CONTEXT];
        assert_int_equal(l->planned_peak_bytes, l->arena_peak_bytes + context);
        /* Context and arena, and the pages that each is rounded up to. */
        assert_true(l->measured_peak_bytes > l->arena_peak_bytes + (700 << 20));
        assert_true(l->measured_peak_bytes <= l->arena_peak_bytes + (700 << 20) + 8192);
        assert_int_equal(l->options.attention, PLIM_ATTENTION_OWN);
        assert_true(l->host_peak_bytes > 0);
    }
    CHECK_RUN(0,
              command_of(GPU "memtest " TINY "/config.json --sweep 32 --rank 2 --steps 1 --device cuda "
                             "--card rtx-4090-24 --out %s 2>&1",
                         capped),
              "rtx-4090-24");
    CHECK_OK(c, plim_memtest_result_read(c, capped, &result));
    assert_string_equal(result.card, "rtx-4090-24");
    assert_true(result.budget_bytes <= GIB(24) && result.budget_bytes > GIB(20));
    /* Said to run on the CPU, it does; a length beyond the budget is exit 3 before anything is taken. */
    CHECK_RUN(0,
              command_of(GPU "memtest " TINY "/config.json --sweep 32 --rank 2 --steps 1 --device cpu "
                             "--budget 256MiB --out %s 2>&1",
                         capped),
              "on cpu");
    CHECK_RUN(3,
              command_of(GPU "memtest " TINY "/config.json --sweep 900k --device cuda --budget 800MiB "
                             "--out %s 2>&1",
                         capped),
              "what would help");
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(train_and_eval),
        cmocka_unit_test(what_a_card_is_not_asked_to_do),
        cmocka_unit_test(a_memory_test),
    };
    return RUN_TESTS(table);
}
