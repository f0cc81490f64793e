/* `plimsoll doctor`: a machine without a GPU is sound; one with a GPU is described, down to what it would not
 * do. */
#include "cli/run_support.h"

#define WITH    "PLIMSOLL_CUDA=" PLIM_IMITATION " " PLIM_PROGRAM " doctor "
#define WITHOUT "PLIMSOLL_CUDA=/nowhere/none.so " PLIM_PROGRAM " doctor "

TEST(without_a_gpu)
{
    UNUSED_STATE;
    CHECK_RUN(0, WITHOUT "2>&1", "cores", "OpenBLAS", "plug-in     not found", "GPU         none",
              "What would be refused\n  --device cuda: the CUDA plug-in");
    json_t *j = run_json(WITHOUT "--json"), *cpu = json_object_get(j, "cpu");
    assert_true(json_is_null(json_object_get(j, "gpu")) && json_is_null(json_object_get(j, "plugin")));
    assert_true(number_of(cpu, "cores") >= 1 && number_of(cpu, "memory_bytes") > 0);
    assert_int_equal(json_array_size(json_object_get(j, "refused")), 1);
    json_decref(j);
    j = run_json(WITHOUT "--device cpu --json");
    assert_int_equal(json_array_size(json_object_get(j, "refused")), 0);
    json_decref(j);
}

TEST(with_a_gpu)
{
    UNUSED_STATE;
    CHECK_RUN(0, WITH "2>&1", "Imitation H200, capability 9.0, 139.8 GiB", "planned as  h200-141",
              "driver      CUDA 13.0", "cuBLASLt    13.1.0", "cuDNN       not found", "kernels     28 of 28",
              "GB/s to the GPU", "--attention cudnn: it would be plimsoll's own");
    json_t *j = run_json(WITH "--json"), *gpu = json_object_get(j, "gpu");
    assert_string_equal(json_string_value(json_object_get(gpu, "compute_capability")), "9.0");
    assert_true(number_of(gpu, "memory_bytes") > number_of(gpu, "free_bytes"));
    assert_int_equal(json_object_size(json_object_get(gpu, "kernels")), 28);
    const json_t *link = json_object_get(gpu, "host_link_gb_per_s");
    assert_true(number_of(link, "to_device") > 0 && number_of(link, "from_device") > 0);
    json_decref(j);
    CHECK_RUN(0, WITH "--device cuda:2 2>&1", "GPU         none", "card 2 cannot be opened");
}

TEST(mistakes)
{
    UNUSED_STATE;
    CHECK_RUN(2, WITHOUT "--device tpu 2>&1", "cpu, cuda or cuda:0");
    CHECK_RUN(2, WITHOUT "it 2>&1", "takes no 'it'");
    CHECK_RUN(2, WITHOUT "--jason 2>&1", "--json");
    CHECK_RUN(0, WITHOUT "--help", "what would be refused");
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(without_a_gpu),
        cmocka_unit_test(with_a_gpu),
        cmocka_unit_test(mistakes),
    };
    return RUN_TESTS(table);
}
