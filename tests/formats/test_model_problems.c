/* Problems of a model folder: every kind forced, alone and together. */
#include "support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "formats/model_folder.h"

static model m; /* large */

/* The folder must give this one problem, about this tensor and file, with these words; clears the context. */
static void only_problem(plim_ctx *c, const char *folder, const plim_spec *s, plim_finding_kind kind,
                         const char *tensor, const char *file, const char *word, const char *more)
{
    plim_model_files *f = NULL;
    plim_status st = plim_model_files_check(c, folder, s, &f);
    if (st != PLIM_E_MISMATCH)
        fail_msg("wanted %s, got %s: %s", plim_finding_key(kind), plim_status_name(st), plim_ctx_message(c));
    for (size_t i = 0; i < f->problems.kept; i++)
        if (f->problems.total != 1 || f->problems.items[i].kind != kind)
            print_message("%s: %s\n", plim_finding_key(f->problems.items[i].kind), f->problems.items[i].text);
    assert_int_equal(f->problems.total, 1);
    assert_int_equal(f->problems.count[kind], 1);
    const plim_finding *p = &f->problems.items[0];
    assert_int_equal(p->kind, kind);
    assert_string_equal(p->tensor, tensor);
    assert_string_equal(p->file, file);
    if (!strstr(p->text, word) || !strstr(p->text, more) || !strstr(p->text, tensor) ||
        !strstr(p->text, file))
        fail_msg("no '%s' or '%s' in: %s", word, more, p->text);
    assert_non_null(strstr(plim_ctx_message(c), p->text));
    assert_non_null(strstr(plim_ctx_message(c), "1 problem with"));
    plim_ctx_clear(c);
    plim_model_files_close(f);
}

/* ---- one problem at a time ----------------------------------------------------------------------------- */

TEST(missing_unknown_misshapen)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (int shards = 0; shards <= 3; shards += 3) {
        const char *first = shards ? SHARD_1 : "model.safetensors";
        make_model(&m, shards);
        remove_item(&m, "layers.0.mlp.up_proj.weight");
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_TENSOR_MISSING,
                     LAYER_0 "mlp.up_proj.weight", "", "missing", "");
        make_model(&m, shards);
        remove_item(&m, "lm_head.weight");
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_HEAD_MISSING,
                     "lm_head.weight", "", "tie_word_embeddings", "");
        make_model(&m, shards);
        add_item(&m, "score.weight", PLIM_BF16, 0);
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_TENSOR_UNKNOWN,
                     "score.weight", first, "does not describe", "");
        make_model(&m, shards);
        find_item(&m, "embed_tokens.weight")->shape[0] = 9;
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_SHAPE,
                     "model.language_model.embed_tokens.weight", first, "found [9, 4]", "wanted [8, 4]");
        make_model(&m, shards);
        item *conv = find_item(&m, "conv1d.weight"); /* the same elements in two dimensions */
        conv->dims = 2;
        conv->shape[1] = 4;
        char name[64];
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_SHAPE,
                     LAYER_0 "linear_attn.conv1d.weight", file_name(&m, conv->shard, name), "found [10, 4]",
                     "wanted [10, 1, 4]");
        conv->dims = 4; /* and in four, which begin as the three do */
        conv->shape[1] = 1;
        conv->shape[2] = 4;
        conv->shape[3] = 1;
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_SHAPE,
                     LAYER_0 "linear_attn.conv1d.weight", file_name(&m, conv->shard, name),
                     "found [10, 1, 4, 1]", "wanted [10, 1, 4]");
    }
    /* a tied model has no head, and may carry one */
    plim_model_files *f = NULL;
    make_model(&m, 0);
    m.spec.tied = true;
    CHECK_OK(c, plim_model_files_check(c, write_model(c, "model-bent", &m), &m.spec, &f));
    assert_non_null(plim_model_files_find(f, "lm_head.weight"));
    plim_model_files_close(f);
    remove_item(&m, "lm_head.weight");
    CHECK_OK(c, plim_model_files_check(c, write_model(c, "model-bent", &m), &m.spec, &f));
    assert_null(plim_model_files_find(f, "lm_head.weight"));
    plim_model_files_close(f);
    test_ctx_close(c);
}

TEST(quantised_weights_are_named)
{
    UNUSED_STATE;
    static const plim_dtype quantised[] = {PLIM_F8_E4M3, PLIM_F8_E5M2, PLIM_I8, PLIM_U8};
    static const plim_dtype wrong[] = {PLIM_F64, PLIM_I32, PLIM_BOOL};
    static const char *const parts[] = {LAYER_0 "mlp.up_proj.weight_scale_inv", LAYER_0 "mlp.up_proj.qweight",
                                        LAYER_0 "mlp.up_proj.weight.absmax",
                                        LAYER_0 "mlp.up_proj.weight.quant_state.bitsandbytes__nf4"};
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof quantised / sizeof *quantised;
         i++) { /* no scale beside it: still refused */
        make_model(&m, 0);
        find_item(&m, "mlp.up_proj.weight")->dtype = quantised[i];
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_QUANTISED,
                     LAYER_0 "mlp.up_proj.weight", "model.safetensors", plim_dtype_name(quantised[i]),
                     "quantised");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        make_model(&m, 0);
        find_item(&m, "mlp.up_proj.weight")->dtype = wrong[i];
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_DTYPE,
                     LAYER_0 "mlp.up_proj.weight", "model.safetensors", plim_dtype_name(wrong[i]),
                     "wanted F32, F16 or BF16");
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        make_model(&m, 0);
        add_item(&m, parts[i], PLIM_F32, 0);
        only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_QUANTISED, parts[i],
                     "model.safetensors", "part of a quantised weight", "");
    }
    test_ctx_close(c);
}

TEST(shards_and_index_must_agree)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    make_model(&m, 3);
    const char *folder = write_model(c, "model-bent", &m);
    assert_int_equal(unlink(test_path(folder, SHARD_2)), 0);
    only_problem(c, folder, &m.spec, PLIM_FINDING_SHARD_MISSING, "", SHARD_2, "missing", "tensors into it");

    make_model(&m, 3); /* a copy in another shard, as a stale file has it */
    item *copy = &m.items[m.count++];
    *copy = *find_item(&m, "embed_tokens.weight");
    copy->shard = 2;
    copy->index_shard = NOWHERE;
    only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_TENSOR_TWICE,
                 "model.language_model.embed_tokens.weight", SHARD_3, "also in " SHARD_1, "");

    make_model(&m, 3);
    find_item(&m, "embed_tokens.weight")->shard = NOWHERE;
    only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_NOT_IN_SHARD,
                 "model.language_model.embed_tokens.weight", SHARD_1, "lacks it", "");

    make_model(&m, 3);
    find_item(&m, "embed_tokens.weight")->shard = 1;
    only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_NOT_IN_SHARD,
                 "model.language_model.embed_tokens.weight", SHARD_1, "but it is in " SHARD_2, "");

    make_model(&m, 3); /* a declared tensor that only the index lacks */
    find_item(&m, "embed_tokens.weight")->index_shard = NOWHERE;
    only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_NOT_IN_INDEX,
                 "model.language_model.embed_tokens.weight", SHARD_1, "not in the index", "");

    make_model(&m, 3); /* and one that nobody declares */
    add_item(&m, "stale.weight", PLIM_BF16, 1)->index_shard = NOWHERE;
    only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_NOT_IN_INDEX, "stale.weight",
                 SHARD_2, "not in the index", "");

    make_model(&m, 3);
    m.total_size_error = -2;
    only_problem(c, write_model(c, "model-bent", &m), &m.spec, PLIM_FINDING_TOTAL_SIZE, "",
                 PLIM_MODEL_INDEX_NAME, "total_size is ", "bytes of tensors");
    test_ctx_close(c);
}

TEST(a_broken_file_is_one_problem)
{
    UNUSED_STATE;
    static const char *const pointer =
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3958745088\n";
    plim_ctx *c = test_ctx_open();
    make_model(&m, 3);
    const char *folder = write_model(c, "model-bent", &m);
    bend_file(folder, SHARD_3, 1, "");
    only_problem(c, folder, &m.spec, PLIM_FINDING_TRUNCATED, "", SHARD_3, "1 missing", "lm_head.weight");
    write_model(c, "model-bent", &m);
    bend_file(folder, SHARD_1, 0, "0123456789abcdef");
    only_problem(c, folder, &m.spec, PLIM_FINDING_TRAILING, "", SHARD_1, "16 trailing bytes", "");
    write_model(c, "model-bent", &m);
    test_write(test_path(folder, SHARD_2), pointer, strlen(pointer));
    only_problem(c, folder, &m.spec, PLIM_FINDING_LFS_POINTER, "", SHARD_2, "git-lfs pointer", "3958745088");
    test_write(test_path(folder, SHARD_2), "\xff\xff\0\0\0\0\0\0{}", 10);
    only_problem(c, folder, &m.spec, PLIM_FINDING_HEADER_LENGTH, "", SHARD_2, "65535 bytes expected",
                 "2 present");
    test_write(test_path(folder, SHARD_2), "\2\0\0\0\0\0\0\0{]", 10);
    only_problem(c, folder, &m.spec, PLIM_FINDING_HEADER, "", SHARD_2, "not valid JSON", "");
    test_write(test_path(folder, SHARD_2), "", 0);
    only_problem(c, folder, &m.spec, PLIM_FINDING_HEADER_LENGTH, "", SHARD_2, "0 bytes are present", "");

    make_model(&m, 0); /* the same for a single file, whose tensors are then not listed as missing */
    folder = write_model(c, "model-bent", &m);
    test_write(test_path(folder, "model.safetensors"), pointer, strlen(pointer));
    only_problem(c, folder, &m.spec, PLIM_FINDING_LFS_POINTER, "", "model.safetensors", "git lfs pull", "");
    test_ctx_close(c);
}

/* A tensor whose entry is broken is neither missing nor checked further, and has no place. */
TEST(a_broken_entry_is_one_problem)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *f = NULL;
    size_t bytes;
    make_model(&m, 0);
    const char *folder = write_model(c, "model-bent", &m), *path = test_path(folder, "model.safetensors");
    char *data = test_read(path, &bytes);
    char *dtype = strstr(data + 8, "embed_tokens.weight\":{\"dtype\":\"BF16\"");
    assert_non_null(dtype);
    memcpy(strstr(dtype, "\"BF16\""), "\"F4\"  ", 6);
    test_write(path, data, bytes);
    only_problem(c, folder, &m.spec, PLIM_FINDING_DTYPE_UNKNOWN, "model.language_model.embed_tokens.weight",
                 "model.safetensors", "F4", "");
    free(data);

    folder = write_model(c, "model-bent", &m);
    bend_file(folder, "model.safetensors", 1, "");
    assert_int_equal(plim_model_files_check(c, folder, &m.spec, &f), PLIM_E_MISMATCH);
    assert_null(plim_model_files_find(f, "lm_head.weight"));
    assert_non_null(plim_model_files_find(f, "model.language_model.norm.weight"));
    plim_model_files_close(f);
    test_ctx_close(c);
}

TEST(tensors_may_not_share_or_skip_bytes)
{
    UNUSED_STATE;
    /* beside the text tensors, a header with two entries of its own; the folder is a vision shard's */
    static const struct {
        const char *entries;
        plim_finding_kind kind;
        const char *tensor;
    } bad[] = {
        {"\"model.visual.a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"model.visual.b\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[2,8]}",
         PLIM_FINDING_OVERLAP, "model.visual.b"},
        {"\"model.visual.a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"model.visual.b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[5,8]}",
         PLIM_FINDING_HOLE, "model.visual.b"},
        {"\"model.visual.a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"model.visual.b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,8]}",
         PLIM_FINDING_SIZE, "model.visual.b"},
        {"\"model.visual.a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"model.visual.b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,4]}",
         PLIM_FINDING_ENTRY, "model.visual.b"},
        {"\"model.visual.a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"model.visual.b\":{\"dtype\":\"F8_E8M0\",\"shape\":[4],\"data_offsets\":[4,8]}",
         PLIM_FINDING_DTYPE_UNKNOWN, "model.visual.b"},
        {"\"model.visual.a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"model.visual.b\":{\"dtype\":\"U8\",\"shape\":[996],\"data_offsets\":[4,1000]}",
         PLIM_FINDING_TRUNCATED, ""},
    };
    plim_ctx *c = test_ctx_open();
    make_model(&m, 3);
    for (size_t i = 0; i < m.count; i++) m.items[i].shard = m.items[i].index_shard = (int)(i % 2);
    add_item(&m, "model.visual.a", PLIM_U8, 2)->shape[0] = 4;
    add_item(&m, "model.visual.b", PLIM_U8, 2)->shape[0] = 4;
    const char *folder = write_model(c, "model-bytes", &m);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char file[600] = {0};
        int n = sprintf(file + 8, "{%s}", bad[i].entries);
        file[0] = (char)(n & 0xff);
        file[1] = (char)(n >> 8);
        test_write(test_path(folder, SHARD_3), file, 8 + (size_t)n + 8);
        only_problem(c, folder, &m.spec, bad[i].kind, bad[i].tensor, SHARD_3, "", "");
    }
    test_ctx_close(c);
}

TEST(folders_without_weights)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *f = NULL;
    make_model(&m, 3);
    const char *folder = write_model(c, "model-none", &m);
    assert_int_equal(unlink(test_path(folder, PLIM_MODEL_INDEX_NAME)), 0);
    only_problem(c, folder, &m.spec, PLIM_FINDING_NO_WEIGHTS, "", "", PLIM_MODEL_INDEX_NAME,
                 "there is " SHARD_1);
    only_problem(c, test_folder("model-empty"), &m.spec, PLIM_FINDING_NO_WEIGHTS, "", "", "neither",
                 "model-empty");
    CHECK_FAILS(c, PLIM_E_IO, plim_model_files_check(c, "test-tmp/no-such-folder", &m.spec, &f),
                "no such folder");
    test_write(test_path(folder, PLIM_MODEL_INDEX_NAME), "{}", 2);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_model_files_check(c, folder, &m.spec, &f), "weight_map");
    assert_null(f);
    test_ctx_close(c);
}

/* ---- many problems ------------------------------------------------------------------------------------- */

TEST(all_problems_are_listed_at_once)
{
    UNUSED_STATE;
    static const plim_finding_kind want[] = {PLIM_FINDING_SHARD_MISSING, PLIM_FINDING_TENSOR_MISSING,
                                             PLIM_FINDING_HEAD_MISSING,  PLIM_FINDING_TENSOR_UNKNOWN,
                                             PLIM_FINDING_SHAPE,         PLIM_FINDING_QUANTISED,
                                             PLIM_FINDING_TRAILING,      PLIM_FINDING_NOT_IN_INDEX};
    plim_ctx *c = test_ctx_open();
    plim_model_files *f = NULL;
    make_model(&m, 3);
    remove_item(&m, "lm_head.weight");
    remove_item(&m, "layers.1.input_layernorm.weight");
    add_item(&m, "score.weight", PLIM_BF16, 0);
    add_item(&m, "stale.weight", PLIM_BF16, 0)->index_shard = NOWHERE;
    find_item(&m, "embed_tokens.weight")->shape[1] = 5;
    find_item(&m, "layers.0.input_layernorm.weight")->dtype = PLIM_U8;
    const char *folder = write_model(c, "model-many", &m);
    bend_file(folder, SHARD_1, 0, "!");
    assert_int_equal(unlink(test_path(folder, SHARD_2)), 0);
    assert_int_equal(plim_model_files_check(c, folder, &m.spec, &f), PLIM_E_MISMATCH);
    assert_int_equal(f->problems.total, sizeof want / sizeof *want);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) assert_int_equal(f->problems.count[want[i]], 1);
    assert_non_null(strstr(plim_ctx_message(c), "8 problems with"));
    assert_non_null(
        plim_model_files_find(f, LAYER_1 "mlp.down_proj.weight")); /* what is fine has its place */
    plim_model_files_close(f);
    test_ctx_close(c);
}

TEST(the_other_prefix_is_hinted_at)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *f = NULL;
    for (int multimodal = 0; multimodal < 2; multimodal++) {
        make_model(&m, 0);
        m.spec.multimodal = !multimodal;
        m.count = 0;
        plim_spec_tensors(&m.spec, PLIM_GROUP_TEXT, add_declared, &m);
        m.spec.multimodal = multimodal;
        const char *folder = write_model(c, "model-prefix", &m);
        assert_int_equal(plim_model_files_check(c, folder, &m.spec, &f), PLIM_E_MISMATCH);
        assert_int_equal(f->problems.count[PLIM_FINDING_TENSOR_UNKNOWN],
                         m.count - 1); /* lm_head has no prefix */
        assert_int_equal(f->problems.count[PLIM_FINDING_TENSOR_MISSING], m.count - 1);
        assert_non_null(strstr(f->problems.items[0].text, multimodal
                                                              ? "describes model.language_model.embed_tokens"
                                                              : "describes model.embed_tokens"));
        plim_ctx_clear(c);
        plim_model_files_close(f);
    }
    test_ctx_close(c);
}

TEST(a_flood_is_counted_and_cut)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_model_files *f = NULL;
    make_model(&m, 0);
    for (int i = 0; i < 1500; i++) {
        char name[32];
        snprintf(name, sizeof name, "stray.%d", i);
        add_item(&m, name, PLIM_F16, 0);
    }
    assert_int_equal(plim_model_files_check(c, write_model(c, "model-flood", &m), &m.spec, &f),
                     PLIM_E_MISMATCH);
    assert_int_equal(f->problems.total, 1500);
    assert_int_equal(f->problems.count[PLIM_FINDING_TENSOR_UNKNOWN], 1500);
    assert_int_equal(f->problems.kept, PLIM_FINDINGS_KEPT);
    assert_string_equal(f->problems.items[999].tensor, "stray.999");
    assert_non_null(strstr(plim_ctx_message(c), "1500 problems"));
    plim_model_files_close(f);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(missing_unknown_misshapen),
        cmocka_unit_test(quantised_weights_are_named),
        cmocka_unit_test(shards_and_index_must_agree),
        cmocka_unit_test(a_broken_file_is_one_problem),
        cmocka_unit_test(a_broken_entry_is_one_problem),
        cmocka_unit_test(tensors_may_not_share_or_skip_bytes),
        cmocka_unit_test(folders_without_weights),
        cmocka_unit_test(all_problems_are_listed_at_once),
        cmocka_unit_test(the_other_prefix_is_hinted_at),
        cmocka_unit_test(a_flood_is_counted_and_cut),
    };
    return RUN_TESTS(table);
}
