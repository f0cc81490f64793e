/* Reading a samples file: what is accepted, every refusal, every allocation, every truncation. */
#include "formats/samples_support.h"

#include <math.h>
#include <stdlib.h>

TEST(reads_what_was_written)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("samples_read"), "s.safetensors");
    samples_case good = samples_good();
    plim_samples s = {0};
    char name[16];
    samples_put(c, path, &good);
    CHECK_OK(c, plim_samples_open(c, path, &s));
    assert_int_equal(s.tokens_count, 5);
    assert_int_equal(s.documents, 2);
    assert_int_equal(s.classes, 2);
    assert_int_equal(s.longest_tokens, 3);
    assert_int_equal(s.labelled_tokens, 2); /* the first token's weight of 1 does not count */
    assert_int_equal(s.max_tokens, 3);
    assert_int_equal(s.largest_token, 256);
    assert_memory_equal(s.tokens, good.tokens, 5 * sizeof *s.tokens);
    assert_memory_equal(s.loss_weights, good.weights, 5 * sizeof *s.loss_weights);
    assert_memory_equal(s.doc_offsets, good.offsets, 3 * sizeof *s.doc_offsets);
    assert_memory_equal(s.class_ids, good.class_ids, 2 * sizeof *s.class_ids);
    assert_memory_equal(s.source, good.source, 4 * sizeof *s.source);
    assert_string_equal(plim_samples_metadata(&s, "tokenizer"), "bytes fnv1a64:0");
    assert_null(plim_samples_metadata(&s, "none"));
    CHECK_OK(c, plim_samples_class_name(c, &s, 1, name, 8)); /* "code é" and its zero are 8 bytes */
    assert_string_equal(name, "code \xc3\xa9");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_class_name(c, &s, 1, name, 7), "does not fit 7 bytes");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_class_name(c, &s, 2, name, sizeof name), "no class 2", "2 are");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_samples_class_name(c, &s, -1, name, sizeof name), "no class -1");
    plim_samples_close(&s);
    plim_samples_close(&s);
    assert_int_equal(test_live_allocations(), 1); /* the context */
    test_ctx_close(c);
}

typedef struct refusal {
    const char *what;
    plim_status st;
    const char *words[2];
    void (*spoil)(samples_case *k);
} refusal;

#define SPOIL(name, change)                                                                                  \
    static void spoil_##name(samples_case *k)                                                                \
    {                                                                                                        \
        change;                                                                                              \
    }
SPOIL(no_format, k->format = NULL)
SPOIL(format, k->format = "plimsoll-samples-2")
SPOIL(no_classes, k->classes = NULL)
SPOIL(classes_object, k->classes = "{}")
SPOIL(classes_empty, k->classes = "[]")
SPOIL(classes_number, k->classes = "[\"a\",1]")
SPOIL(classes_twice, k->classes = "[\"a\",\"a\"]")
SPOIL(classes_cut, k->classes = "[\"a\"")
SPOIL(no_files, k->files = NULL)
SPOIL(files_empty, k->files = "[]")
SPOIL(no_tokenizer, k->tokenizer = NULL)
SPOIL(tokenizer_empty, k->tokenizer = "")
SPOIL(no_template, k->chat_template = NULL)
SPOIL(no_limit, k->max_tokens = NULL)
SPOIL(limit_sign, k->max_tokens = "-3")
SPOIL(limit_zeros, k->max_tokens = "03")
SPOIL(limit_empty, k->max_tokens = "")
SPOIL(limit_long, k->max_tokens = "1000000000000000")
SPOIL(limit_low, k->max_tokens = "2")
SPOIL(no_statistics, k->statistics = NULL)
SPOIL(statistics_cut, k->statistics = "{")
SPOIL(statistics_tokens, k->statistics = "{\"tokens\":6,\"labelled_tokens\":2,\"rows\":2}")
SPOIL(statistics_labels, k->statistics = "{\"tokens\":5,\"labelled_tokens\":3,\"rows\":2}")
SPOIL(statistics_rows, k->statistics = "{\"tokens\":5,\"labelled_tokens\":2,\"rows\":1}")
SPOIL(no_source, k->renamed = "source")
SPOIL(no_offsets, k->renamed = "doc_offsets")
SPOIL(no_tokens, k->renamed = "tokens")
SPOIL(no_weights, k->renamed = "loss_weights")
SPOIL(no_class_ids, k->renamed = "class_ids")
SPOIL(extra, k->extra = "more")
SPOIL(dtype, k->token_dtype = PLIM_U32)
SPOIL(columns, k->source_columns = 4)
SPOIL(fewer_classes, (k->documents = 1))
SPOIL(no_documents, (k->offsets_count = 1, k->documents = 0))
SPOIL(offsets_first, k->offsets[0] = 1)
SPOIL(offsets_same, k->offsets[1] = 0)
SPOIL(offsets_back, k->offsets[1] = -1)
SPOIL(offsets_far, k->offsets[1] = 6)
SPOIL(offsets_short, k->offsets[2] = 4)
SPOIL(token_below, k->tokens[3] = -1)
SPOIL(weight_below, k->weights[4] = -0.5f)
SPOIL(weight_nan, k->weights[1] = NAN)
SPOIL(weight_infinite, k->weights[1] = INFINITY)
SPOIL(class_above, k->class_ids[1] = 2)
SPOIL(class_below, k->class_ids[1] = -1)
SPOIL(source_above, k->source[2] = 2)
SPOIL(masked, (k->weights[1] = 0, k->weights[4] = 0))

#define FORMAT PLIM_E_FORMAT
#define RANGE  PLIM_E_RANGE
static const refusal refusals[] = {
    {"no format", FORMAT, {"no samples file", "plimsoll data"}, spoil_no_format},
    {"format", FORMAT, {"plimsoll-samples-2", "plimsoll-samples-1"}, spoil_format},
    {"no classes", FORMAT, {"no 'classes'"}, spoil_no_classes},
    {"classes object", FORMAT, {"'classes'", "at least one text"}, spoil_classes_object},
    {"classes empty", FORMAT, {"'classes'", "at least one text"}, spoil_classes_empty},
    {"classes number", FORMAT, {"'classes'", "[1]"}, spoil_classes_number},
    {"classes twice", FORMAT, {"'classes'", "'a' twice"}, spoil_classes_twice},
    {"classes cut", FORMAT, {"'classes'"}, spoil_classes_cut},
    {"no files", FORMAT, {"no 'files'"}, spoil_no_files},
    {"files empty", FORMAT, {"'files'", "at least one text"}, spoil_files_empty},
    {"no tokenizer", FORMAT, {"no 'tokenizer'"}, spoil_no_tokenizer},
    {"tokenizer empty", FORMAT, {"'tokenizer' is empty"}, spoil_tokenizer_empty},
    {"no template", FORMAT, {"no 'template'"}, spoil_no_template},
    {"no limit", FORMAT, {"no 'max_tokens'"}, spoil_no_limit},
    {"limit sign", FORMAT, {"'max_tokens' is '-3'"}, spoil_limit_sign},
    {"limit zeros", FORMAT, {"'max_tokens' is '03'"}, spoil_limit_zeros},
    {"limit empty", FORMAT, {"'max_tokens' is ''"}, spoil_limit_empty},
    {"limit long", FORMAT, {"'max_tokens' is '1000000000000000'"}, spoil_limit_long},
    {"limit low", RANGE, {"document 0 has 3 tokens", "is 2"}, spoil_limit_low},
    {"no statistics", FORMAT, {"no 'statistics'"}, spoil_no_statistics},
    {"statistics cut", FORMAT, {"'statistics'"}, spoil_statistics_cut},
    {"statistics tokens", FORMAT, {"tokens: says 6", "hold 5"}, spoil_statistics_tokens},
    {"statistics labels", FORMAT, {"labelled_tokens: says 3", "hold 2"}, spoil_statistics_labels},
    {"statistics rows", FORMAT, {"rows: says 1", "hold 2"}, spoil_statistics_rows},
    {"no source", FORMAT, {"no tensor 'source'"}, spoil_no_source},
    {"no offsets", FORMAT, {"no tensor 'doc_offsets'"}, spoil_no_offsets},
    {"no tokens", FORMAT, {"no tensor 'tokens'"}, spoil_no_tokens},
    {"no weights", FORMAT, {"no tensor 'loss_weights'"}, spoil_no_weights},
    {"no class ids", FORMAT, {"no tensor 'class_ids'"}, spoil_no_class_ids},
    {"extra", FORMAT, {"6 tensors"}, spoil_extra},
    {"dtype", FORMAT, {"'tokens' is U32", "I32 is wanted"}, spoil_dtype},
    {"columns", FORMAT, {"'source'", "[n, 2]"}, spoil_columns},
    {"fewer classes", FORMAT, {"'class_ids' has 1 rows", "2 are wanted"}, spoil_fewer_classes},
    {"no documents", FORMAT, {"0 documents"}, spoil_no_documents},
    {"offsets first", RANGE, {"doc_offsets[0] is 1"}, spoil_offsets_first},
    {"offsets same", RANGE, {"doc_offsets[1] is 0", "above 0"}, spoil_offsets_same},
    {"offsets back", RANGE, {"doc_offsets[1] is -1"}, spoil_offsets_back},
    {"offsets far", RANGE, {"doc_offsets[1] is 6", "at most 5"}, spoil_offsets_far},
    {"offsets short", RANGE, {"doc_offsets[2] is 4", "must be 5"}, spoil_offsets_short},
    {"token below", RANGE, {"tokens[3] is -1"}, spoil_token_below},
    {"weight below", RANGE, {"loss_weights[4] is -0.5"}, spoil_weight_below},
    {"weight nan", RANGE, {"loss_weights[1] is nan"}, spoil_weight_nan},
    {"weight infinite", RANGE, {"loss_weights[1] is inf"}, spoil_weight_infinite},
    {"class above", RANGE, {"class_ids[1] is 2", "2 classes"}, spoil_class_above},
    {"class below", RANGE, {"class_ids[1] is -1"}, spoil_class_below},
    {"source above", RANGE, {"source[1] names file 2", "2 files"}, spoil_source_above},
    {"masked", RANGE, {"no token is trained on"}, spoil_masked},
};

TEST(refuses_with_place_and_value)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("samples_refuse"), "s.safetensors");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        samples_case k = samples_good();
        plim_samples s = {.documents = 77};
        r->spoil(&k);
        samples_put(c, path, &k);
        CHECK_FAILS(c, r->st, plim_samples_open(c, path, &s), path, r->words[0],
                    r->words[1] ? r->words[1] : "");
        assert_int_equal(s.documents, 77);
        assert_int_equal(test_live_allocations(), 1);
    }
    test_ctx_close(c);
}

TEST(refuses_arrays_that_cannot_be_read_in_place)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("samples_odd"), "s.safetensors");
    char *text;
    size_t bytes;
    samples_case k = samples_good();
    plim_samples s;
    samples_put(c, path, &k);
    text = test_read(path, &bytes);
    /* one space less of the header's padding moves all data by a byte */
    uint64_t header;
    memcpy(&header, text, 8);
    assert_int_equal(text[8 + header - 1], ' ');
    memmove(text + 8 + header - 1, text + 8 + header, bytes - 8 - header);
    header--;
    memcpy(text, &header, 8);
    test_write(path, text, bytes - 1);
    free(text);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_samples_open(c, path, &s), "'doc_offsets' starts at byte", "8-byte");
    test_ctx_close(c);
}

TEST(refuses_every_truncation)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("samples_cut"), "s.safetensors");
    samples_case k = samples_good();
    size_t bytes;
    plim_samples s;
    samples_put(c, path, &k);
    char *text = test_read(path, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        test_write(path, text, n);
        CHECK_FAILS(c, PLIM_E_FORMAT, plim_samples_open(c, path, &s), path);
    }
    test_write(path, text, bytes);
    CHECK_OK(c, plim_samples_open(c, path, &s));
    plim_samples_close(&s);
    free(text);
    CHECK_FAILS(c, PLIM_E_IO, plim_samples_open(c, "absent.safetensors", &s), "absent.safetensors");
    test_ctx_close(c);
}

static plim_status open_and_close(plim_ctx *c, void *user)
{
    plim_samples s = {0};
    char name[16];
    plim_status st = plim_samples_open(c, user, &s);
    if (!st) st = plim_samples_class_name(c, &s, 0, name, sizeof name);
    plim_samples_close(&s);
    return st;
}

TEST(every_allocation)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("samples_memory"), "s.safetensors");
    samples_case k = samples_good();
    samples_put(c, path, &k);
    assert_true(test_every_allocation(c, open_and_close, (void *)(uintptr_t)path) > 10);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(reads_what_was_written),
        cmocka_unit_test(refuses_with_place_and_value),
        cmocka_unit_test(refuses_arrays_that_cannot_be_read_in_place),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(every_allocation),
    };
    return RUN_TESTS(table);
}
