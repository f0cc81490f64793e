/* The index of shards: what it says, every refusal by name, truncation at every byte. */
#include "support/test.h"

#include <stdlib.h>

#include "formats/index.h"

static plim_status parse(plim_ctx *c, const char *text, plim_index **out)
{
    return plim_index_parse(c, "mem", text, strlen(text), out);
}

#define THREE                                                                                                \
    "{\"metadata\":{\"total_size\":26,\"total_parameters\":13},\"weight_map\":{"                             \
    "\"c\":\"model-2.safetensors\",\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}}"

TEST(says_which_shard_holds_what)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_index *x = NULL;
    const char *path = test_path(test_folder("index-read"), "model.safetensors.index.json");
    test_write(path, THREE, strlen(THREE));
    CHECK_OK(c, plim_index_load(c, path, &x));
    assert_int_equal(plim_index_total_bytes(x), 26);
    assert_int_equal(plim_index_shard_count(x), 2);
    assert_string_equal(plim_index_shard(x, 0), "model-1.safetensors");
    assert_string_equal(plim_index_shard(x, 1), "model-2.safetensors");
    static const size_t shard[] = {0, 1, 1};
    assert_int_equal(plim_index_tensor_count(x), 3);
    for (size_t i = 0; i < 3; i++) {
        const char name[] = {(char)('a' + i), 0};
        assert_string_equal(plim_index_tensor(x, i), name);
        assert_int_equal(plim_index_tensor_shard(x, i), shard[i]);
        assert_int_equal(plim_index_find(x, name), i);
    }
    assert_int_equal(plim_index_find(x, "d"), -1);
    assert_int_equal(plim_index_find(x, ""), -1);
    plim_index_close(x);
    test_ctx_close(c);
}

TEST(total_size_may_be_absent_or_a_whole_real)
{
    UNUSED_STATE;
#define MAP "\"weight_map\":{\"a\":\"x..y\"}}"
    static const struct {
        const char *text;
        int64_t total_bytes;
    } good[] = {
        {"{" MAP, -1},
        {"{\"metadata\":null," MAP, -1},
        {"{\"metadata\":{}," MAP, -1},
        {"{\"metadata\":{\"total_size\":0}," MAP, 0},
        {"{\"metadata\":{\"total_size\":55562854400}," MAP, INT64_C(55562854400)},
        {"{\"metadata\":{\"total_size\":5.5e10}," MAP, INT64_C(55000000000)},
    };
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        plim_index *x = NULL;
        CHECK_OK(c, parse(c, good[i].text, &x));
        assert_int_equal(plim_index_total_bytes(x), good[i].total_bytes);
        assert_string_equal(plim_index_shard(x, 0), "x..y");
        plim_index_close(x);
    }
    test_ctx_close(c);
}

TEST(refuses_by_name)
{
    UNUSED_STATE;
    static const struct {
        const char *text;
        plim_status st;
        const char *words[3];
    } bad[] = {
        {"", PLIM_E_FORMAT, {"mem"}},
        {"[]", PLIM_E_FORMAT, {"mem:1:1"}},
        {"{}", PLIM_E_FORMAT, {"weight_map"}},
        {"{\"weight_map\":[]}", PLIM_E_FORMAT, {"weight_map"}},
        {"{\"weight_map\":{}}", PLIM_E_FORMAT, {"weight_map", "no tensor"}},
        {"{\"weight_map\":{\"a\":\"x\",\n\"a\":\"y\"}}", PLIM_E_FORMAT, {"mem:2:", "duplicate", "a"}},
        {"{\"weight_map\":{\"a\":\"x\",\n  \"l.0.b\":7}}", PLIM_E_FORMAT, {"mem:2:11", "weight_map.l.0.b"}},
        {"{\"weight_map\":{\"a\":null}}", PLIM_E_FORMAT, {"weight_map.a"}},
        {"{\"weight_map\":{\"a\":\"../x\"}}", PLIM_E_FORMAT, {"weight_map.a", "'../x'", "own folder"}},
        {"{\"weight_map\":{\"a\":\"/etc/x\"}}", PLIM_E_FORMAT, {"'/etc/x'"}},
        {"{\"weight_map\":{\"a\":\"s\\\\x\"}}", PLIM_E_FORMAT, {"'s\\x'"}},
        {"{\"weight_map\":{\"a\":\"..\"}}", PLIM_E_FORMAT, {"'..'"}},
        {"{\"weight_map\":{\"a\":\".\"}}", PLIM_E_FORMAT, {"'.'"}},
        {"{\"weight_map\":{\"a\":\"\"}}", PLIM_E_FORMAT, {"''"}},
        {"{\"metadata\":3," MAP, PLIM_E_FORMAT, {"metadata"}},
        {"{\"metadata\":{\"total_size\":\"1\"}," MAP, PLIM_E_FORMAT, {"metadata.total_size"}},
        {"{\"metadata\":{\"total_size\":1.5}," MAP, PLIM_E_FORMAT, {"metadata.total_size"}},
        {"{\"metadata\":{\"total_size\":1e300}," MAP, PLIM_E_FORMAT, {"metadata.total_size"}},
        {"{\"metadata\":{\"total_size\":-1}," MAP, PLIM_E_RANGE, {"metadata.total_size"}},
        {"version https://git-lfs.github.com/spec/v1\nsize 3\n",
         PLIM_E_FORMAT,
         {"git-lfs pointer", "git lfs pull"}},
    };
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plim_index *x = NULL;
        plim_status st = parse(c, bad[i].text, &x);
        for (size_t w = 0; w < 3 && bad[i].words[w]; w++)
            if (!strstr(plim_ctx_message(c), bad[i].words[w]))
                fail_msg("%s: no '%s' in: %s", bad[i].text, bad[i].words[w], plim_ctx_message(c));
        CHECK_FAILS(c, bad[i].st, st, "mem");
        assert_null(x);
    }
    plim_index *x = NULL;
    CHECK_FAILS(c, PLIM_E_IO, plim_index_load(c, "test-tmp/no-such.json", &x), "no-such.json");
    test_ctx_close(c);
}

TEST(truncation_at_every_byte_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (size_t cut = 0; cut < strlen(THREE); cut++) {
        plim_index *x = NULL;
        char *part = malloc(cut ? cut : 1); /* its own block, so that a read past the end is seen */
        memcpy(part, THREE, cut);
        CHECK_FAILS(c, PLIM_E_FORMAT, plim_index_parse(c, "mem", part, cut, &x), "mem");
        assert_null(x);
        free(part);
    }
    test_ctx_close(c);
}

static plim_status open_and_close(plim_ctx *c, void *user)
{
    plim_index *x = NULL;
    plim_status st = plim_index_load(c, user, &x);
    plim_index_close(x);
    return st;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("index-oom"), "model.safetensors.index.json");
    test_write(path, THREE, strlen(THREE));
    assert_true(test_every_allocation(c, open_and_close, (void *)(uintptr_t)path) > 8);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(says_which_shard_holds_what),
        cmocka_unit_test(total_size_may_be_absent_or_a_whole_real),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(truncation_at_every_byte_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
