/* The check of a model folder: a good one gives every tensor's place, a cut one never does. */
#include "support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "formats/model_folder.h"

/* ---- good folders -------------------------------------------------------------------------------------- */

static void check_places(plim_ctx *c, const char *folder, const model *m)
{
    plim_model_files *f = NULL;
    CHECK_OK(c, plim_model_files_check(c, folder, &m->spec, &f));
    plim_counts counts = plim_spec_counts(&m->spec);
    assert_int_equal(f->problems.total, 0);
    assert_int_equal(f->tensor_count, counts.tensors);
    assert_int_equal(f->totals[PLIM_GROUP_TEXT].tensors, counts.tensors);
    assert_int_equal(f->totals[PLIM_GROUP_TEXT].parameters, counts.parameters);
    size_t bytes = 0;
    for (size_t i = 0; i < m->count; i++) {
        const plim_model_tensor *t = plim_model_files_find(f, m->items[i].name);
        if (!t) continue;
        size_t file_bytes;
        char *data = test_read(test_path(folder, f->files[t->file].name), &file_bytes);
        assert_int_equal(f->files[t->file].bytes, file_bytes);
        assert_int_equal(t->size_bytes, item_bytes(&m->items[i]));
        assert_int_equal(t->dtype, m->items[i].dtype);
        assert_true(t->offset_bytes + t->size_bytes <= file_bytes);
        for (size_t k = 0; k < t->size_bytes; k++)
            assert_int_equal((unsigned char)data[t->offset_bytes + k], i);
        bytes += t->size_bytes;
        free(data);
    }
    assert_int_equal(f->totals[PLIM_GROUP_TEXT].bytes, bytes);
    assert_string_equal(f->tensors[0].name, "model.language_model.embed_tokens.weight");
    assert_int_equal(plim_model_files_find(f, LAYER_1 "self_attn.q_proj.weight")->layer, 1);
    assert_int_equal(plim_model_files_find(f, LAYER_1 "self_attn.q_proj.weight")->shape[0], 16);
    assert_null(plim_model_files_find(f, "model.language_model.layers.2.mlp.up_proj.weight"));
    plim_model_files_close(f);
}

static model m; /* large */

TEST(a_good_folder_gives_every_place)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    make_model(&m, 0);
    check_places(c, write_model(c, "model-single", &m), &m);
    make_model(&m, 3);
    check_places(c, write_model(c, "model-shards", &m), &m);
    for (size_t i = 0; i < m.count; i++) m.items[i].dtype = i % 2 ? PLIM_F16 : PLIM_F32;
    check_places(c, write_model(c, "model-dtypes", &m), &m);
    test_ctx_close(c);
}

/* Headers that another library wrote, with as many bytes behind them as those files had. */
TEST(headers_from_elsewhere_fit_their_configs)
{
    UNUSED_STATE;
    static const struct {
        const char *name;
        size_t tensors;
        int64_t parameters;
        int64_t data_bytes;
    } known[] = {
        {"llama-tiny", 21, 151872, 607488},    {"qwen2-tiny", 27, 152128, 608512},
        {"qwen3-tiny", 35, 199296, 797184},    {"qwen3_5-tied", 108, 628168, 2512672},
        {"qwen3_5-tiny", 56, 321964, 1287856},
    };
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("model-elsewhere"), *path = test_path(folder, "model.safetensors");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        plim_model_files *f = NULL;
        plim_spec spec;
        size_t bytes;
        const char *source = test_path(PLIM_TEST_DATA "/models", known[i].name);
        CHECK_OK(c, plim_spec_load(c, source, &spec));
        char *header = test_read(test_path(source, "model.safetensors.header.json"), &bytes);
        char *head = malloc(8 + bytes);
        for (int k = 0; k < 8; k++) head[k] = (char)(bytes >> (8 * k));
        memcpy(head + 8, header, bytes);
        test_write(path, head, 8 + bytes);
        assert_int_equal(truncate(path, 8 + (off_t)bytes + known[i].data_bytes), 0);
        CHECK_OK(c, plim_model_files_check(c, folder, &spec, &f));
        assert_int_equal(f->tensor_count, known[i].tensors);
        assert_int_equal(f->totals[PLIM_GROUP_TEXT].parameters, known[i].parameters);
        assert_int_equal(f->totals[PLIM_GROUP_TEXT].bytes, known[i].data_bytes);
        assert_int_equal(f->notes.total, 0);
        plim_model_files_close(f);
        free(header);
        free(head);
    }
    test_ctx_close(c);
}

TEST(vision_mtp_and_rotary_are_counted_and_left)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *f = NULL;
    make_model(&m, 3);
    add_item(&m, "model.visual.blocks.0.norm1.weight", PLIM_BF16, 0);
    add_item(&m, "model.visual.anything", PLIM_F8_E4M3, 1);
    add_item(&m, "mtp.fc.weight", PLIM_F32, 2);
    add_item(&m, LAYER_1 "self_attn.rotary_emb.inv_freq", PLIM_F32, 2);
    add_item(&m, LAYER_0 "self_attn.rotary_emb.inv_freq", PLIM_F32, 2)->index_shard = NOWHERE;
    const char *folder = write_model(c, "model-extras", &m);
    CHECK_OK(c, plim_model_files_check(c, folder, &m.spec, &f));
    assert_int_equal(f->totals[PLIM_GROUP_VISION].tensors, 2);
    assert_int_equal(f->totals[PLIM_GROUP_VISION].parameters, 6);
    assert_int_equal(f->totals[PLIM_GROUP_VISION].bytes, 9);
    assert_int_equal(f->totals[PLIM_GROUP_MTP].tensors, 1);
    assert_int_equal(f->totals[PLIM_GROUP_MTP].bytes, 12);
    assert_int_equal(f->notes.total, 2);
    assert_int_equal(f->notes.count[PLIM_FINDING_ROTARY_BUFFER], 2);
    plim_model_files_close(f);
    test_ctx_close(c);
}

TEST(the_index_decides_and_strays_are_mentioned)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *f = NULL;
    make_model(&m, 3);
    const char *folder = write_model(c, "model-stray", &m);
    test_write(test_path(folder, "model.safetensors"), "not even a header", 17);
    test_write(test_path(folder, "model-00004-of-00003.safetensors"), "x", 1);
    CHECK_OK(c, plim_model_files_check(c, folder, &m.spec, &f));
    assert_int_equal(f->notes.total, 2);
    assert_int_equal(f->notes.items[0].kind, PLIM_FINDING_STRAY_FILE);
    assert_string_equal(f->notes.items[0].file, "model-00004-of-00003.safetensors");
    assert_string_equal(f->notes.items[1].file, "model.safetensors");
    assert_non_null(strstr(f->notes.items[1].text, "not read"));
    plim_model_files_close(f);

    /* an index that is a dangling link is an error, not a reason to read model.safetensors */
    make_model(&m, 0);
    folder = write_model(c, "model-dangling", &m);
    assert_int_equal(symlink("gone", test_path(folder, PLIM_MODEL_INDEX_NAME)), 0);
    CHECK_FAILS(c, PLIM_E_IO, plim_model_files_check(c, folder, &m.spec, &f), PLIM_MODEL_INDEX_NAME);
    test_ctx_close(c);
}

TEST(mixed_dtypes_are_mentioned)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *f = NULL;
    make_model(&m, 0);
    find_item(&m, "mlp.up_proj.weight")->dtype = PLIM_F32;
    CHECK_OK(c, plim_model_files_check(c, write_model(c, "model-mixed", &m), &m.spec, &f));
    assert_int_equal(f->notes.total, 1);
    assert_int_equal(f->notes.items[0].kind, PLIM_FINDING_MIXED_DTYPE);
    assert_string_equal(f->notes.items[0].tensor, LAYER_0 "mlp.up_proj.weight");
    plim_model_files_close(f);
    test_ctx_close(c);
}

TEST(truncation_at_every_byte_is_one_problem)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    make_model(&m, 0);
    const char *folder = write_model(c, "model-cut", &m), *path = test_path(folder, "model.safetensors");
    size_t bytes;
    char *whole = test_read(path, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        plim_model_files *f = NULL;
        test_write(path, whole, cut);
        plim_status st = plim_model_files_check(c, folder, &m.spec, &f);
        assert_int_equal(st, PLIM_E_MISMATCH);
        assert_int_equal(f->problems.total, 1);
        assert_int_equal(
            f->problems.count[PLIM_FINDING_HEADER_LENGTH] + f->problems.count[PLIM_FINDING_TRUNCATED], 1);
        plim_ctx_clear(c);
        plim_model_files_close(f);
    }
    free(whole);
    test_ctx_close(c);
}

/* ---- allocations --------------------------------------------------------------------------------------- */

static plim_status check_and_close(plim_ctx *c, void *user)
{
    plim_model_files *f = NULL;
    plim_status st = plim_model_files_check(c, user, &m.spec, &f);
    if (st != PLIM_OK && st != PLIM_E_MISMATCH && f) fail_msg("written on %s", plim_status_name(st));
    if (st == PLIM_E_MISMATCH) plim_ctx_clear(c);
    plim_model_files_close(f);
    return st == PLIM_E_MISMATCH ? PLIM_OK : st;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    make_model(&m, 3);
    const char *folder = write_model(c, "model-oom", &m);
    test_write(test_path(folder, "model.safetensors"), "stray", 5);
    assert_true(test_every_allocation(c, check_and_close, (void *)(uintptr_t)folder) > 100);
    add_item(&m, "score.weight", PLIM_I32, 1);
    find_item(&m, "embed_tokens.weight")->shard = 1;
    folder = write_model(c, "model-oom", &m);
    bend_file(folder, SHARD_1, 1, "");
    test_write(test_path(folder, SHARD_3), "\2\0\0\0\0\0\0\0{]", 10);
    assert_true(test_every_allocation(c, check_and_close, (void *)(uintptr_t)folder) > 50);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(a_good_folder_gives_every_place),
        cmocka_unit_test(headers_from_elsewhere_fit_their_configs),
        cmocka_unit_test(vision_mtp_and_rotary_are_counted_and_left),
        cmocka_unit_test(the_index_decides_and_strays_are_mentioned),
        cmocka_unit_test(mixed_dtypes_are_mentioned),
        cmocka_unit_test(truncation_at_every_byte_is_one_problem),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
