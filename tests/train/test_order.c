/* The order of documents: whole epochs, the same from any step, packing, and what is refused at the door. */
#include "train/run_support.h"

#include "base/context.h"
#include "train/order.h"

static text x;

/* Lengths 2 .. 40, all different enough; document 7 and 19 have no label. */
static void many(int64_t documents)
{
    text_open(&x);
    for (int64_t i = 0; i < documents; i++)
        text_add(&x, 2 + i * 17 % 39, i == 7 || i == 19 ? 0 : 1 + i % 2, 5);
}

static plim_order_config config(int64_t seq, int64_t documents, int64_t accumulate)
{
    return (plim_order_config){.samples = &x.samples,
                               .seq_tokens = seq,
                               .documents = documents,
                               .accumulate = accumulate,
                               .vocab = TINY_VOCAB,
                               .seed = 11};
}

/* Documents of a step in order, their first tokens; their contents are those of the file. */
static int64_t list(const plim_order_step *at, const plim_order_config *g, int32_t *out)
{
    int64_t count = 0;
    assert_true(at->count >= 1 && at->count <= g->accumulate);
    for (int64_t i = 0; i < at->count; i++) {
        const plim_sequence *q = &at->samples[i].sequence;
        assert_true(q->documents >= 1 && q->documents <= g->documents);
        assert_true(q->start[q->documents] <= g->seq_tokens);
        assert_int_equal(q->start[0], 0);
        assert_int_equal(at->samples[i].id, q->ids[0]);
        for (int64_t d = 0; d < q->documents; d++) {
            int32_t n = q->ids[q->start[d]];
            int64_t length = x.offsets[n + 1] - x.offsets[n];
            assert_int_equal(q->start[d + 1] - q->start[d], length);
            assert_memory_equal(q->ids + q->start[d], x.tokens + x.offsets[n], (size_t)length * 4);
            assert_memory_equal(q->weights + q->start[d], x.weights + x.offsets[n], (size_t)length * 4);
            out[count++] = n;
        }
    }
    return count;
}

static void check_epochs(plim_ctx *c, const plim_order_config *g)
{
    plim_order *o = NULL, *other = NULL;
    int64_t step = 0;
    CHECK_OK(c, plim_order_open(c, g, &o));
    CHECK_OK(c, plim_order_open(c, g, &other));
    assert_int_equal(plim_order_documents(o), 38);
    assert_int_equal(plim_order_unlabelled(o), 2);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int seen[TEXT_DOCUMENTS] = {0};
        int64_t sequences = 0, total = 1;
        while (sequences < total) {
            plim_order_step at;
            int32_t docs[TEXT_DOCUMENTS];
            plim_order_step_at(o, ++step, &at);
            int64_t count = list(&at, g, docs);
            assert_int_equal(at.epoch, epoch);
            assert_int_equal(at.sequences_before, sequences);
            total = at.epoch_sequences;
            sequences += at.count;
            /* Only the last step of an epoch is short. */
            assert_true(at.count == g->accumulate || sequences == total);
            for (int64_t i = 0; i < count; i++) seen[docs[i]]++;
        }
        assert_int_equal(sequences, total);
        assert_int_equal(plim_order_steps(other, epoch + 1), step);
        for (int64_t i = 0; i < 40; i++) assert_int_equal(seen[i], i != 7 && i != 19);
    }
    assert_int_equal(plim_order_steps(other, 0), 0);
    plim_order_close(o);
    plim_order_close(other);
}

TEST(every_document_once_an_epoch)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const int64_t shapes[][3] = {{40, 1, 1}, {40, 3, 1},      {64, 100, 1},  {97, 4, 3},
                                        {40, 1, 7}, {1000000, 5, 2}, {2000, 100, 4}};
    many(40);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        plim_order_config g = config(shapes[i][0], shapes[i][1], shapes[i][2]);
        check_epochs(c, &g);
        g.file_order = true;
        check_epochs(c, &g);
    }
    test_ctx_close(c);
}

/* A sequence ends only when the next document does not fit, or it holds all it may. */
TEST(sequences_are_as_full_as_the_order_allows)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_order *o = NULL;
    many(40);
    plim_order_config g = config(60, 3, 1);
    CHECK_OK(c, plim_order_open(c, &g, &o));
    int64_t steps = plim_order_steps(o, 1), tokens = 0, documents = 0, full = 0, crowded = 0;
    for (int64_t step = 1; step <= steps; step++) {
        plim_order_step at;
        plim_order_step_at(o, step, &at);
        const plim_sequence *q = &at.samples[0].sequence;
        if (step > 1) assert_true(documents == 3 || tokens + q->start[1] > 60);
        full += step > 1 && documents < 3;
        crowded += documents == 3;
        documents = q->documents;
        tokens = q->start[documents];
    }
    assert_true(full > 0 && crowded > 0);
    plim_order_close(o);
    test_ctx_close(c);
}

/* Step k of a fresh order, of one that went past it, and of the unbroken one. */
TEST(any_step_can_be_the_first)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    enum { STEPS = 50 };
    static int32_t unbroken[STEPS + 1][TEXT_DOCUMENTS], docs[TEXT_DOCUMENTS];
    int64_t counts[STEPS + 1];
    plim_order *o = NULL;
    plim_order_step at;
    many(40);
    plim_order_config g = config(60, 3, 2);
    CHECK_OK(c, plim_order_open(c, &g, &o));
    for (int64_t k = 1; k <= STEPS; k++) {
        plim_order_step_at(o, k, &at);
        counts[k] = list(&at, &g, unbroken[k]);
    }
    assert_true(at.epoch >= 2);
    for (int64_t k = STEPS; k >= 1; k--) {
        plim_order *fresh = NULL;
        plim_order_step_at(o, k, &at);
        assert_int_equal(list(&at, &g, docs), counts[k]);
        assert_memory_equal(docs, unbroken[k], (size_t)counts[k] * sizeof *docs);
        CHECK_OK(c, plim_order_open(c, &g, &fresh));
        plim_order_step_at(fresh, k, &at);
        assert_int_equal(list(&at, &g, docs), counts[k]);
        assert_memory_equal(docs, unbroken[k], (size_t)counts[k] * sizeof *docs);
        plim_order_close(fresh);
    }
    plim_order_close(o);
    test_ctx_close(c);
}

static void first_documents(plim_ctx *c, uint64_t seed, int64_t epoch, bool file_order, int32_t out[38])
{
    plim_order *o = NULL;
    plim_order_config g = config(40, 1, 38);
    g.seed = seed;
    g.file_order = file_order;
    CHECK_OK(c, plim_order_open(c, &g, &o));
    plim_order_step at;
    plim_order_step_at(o, epoch + 1, &at);
    assert_int_equal(list(&at, &g, out), 38);
    plim_order_close(o);
}

TEST(orders_differ_by_seed_and_epoch)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    int32_t a[38], b[38];
    many(40);
    first_documents(c, 1, 0, false, a);
    first_documents(c, 1, 0, false, b);
    assert_memory_equal(a, b, sizeof a);
    first_documents(c, 2, 0, false, b);
    assert_memory_not_equal(a, b, sizeof a);
    first_documents(c, 1, 1, false, b);
    assert_memory_not_equal(a, b, sizeof a);
    first_documents(c, 1, 3, true, a);
    for (int i = 1; i < 38; i++) assert_true(a[i] > a[i - 1]);
    test_ctx_close(c);
}

TEST(the_door_names_file_and_line)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_order *o = NULL;
    many(40);
    plim_order_config g = config(39, 1, 1);
    CHECK_FAILS(c, PLIM_E_RANGE, plim_order_open(c, &g, &o), "file 0, line ", "has 40 tokens",
                "--seq allows 39", "needs 40");
    g = config(40, 1, 1);
    x.tokens[x.offsets[12] + 1] = TINY_VOCAB;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_order_open(c, &g, &o), "document 12", "line 13", "token id 512",
                "place 1", "512 entries");
    x.tokens[x.offsets[12] + 1] = -1;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_order_open(c, &g, &o), "token id -1");
    text_open(&x);
    for (int i = 0; i < 3; i++) text_add(&x, 5, 0, 3);
    x.weights[0] = 1; /* the first token of a document is never predicted */
    CHECK_FAILS(c, PLIM_E_RANGE, plim_order_open(c, &g, &o), "none of the 3 documents");
    g.accumulate = 0;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_order_open(c, &g, &o), "at least 1");
    assert_null(o);
    assert_int_equal(test_live_allocations(), 1); /* the context */
    test_ctx_close(c);
}

static plim_status open_and_close(plim_ctx *c, void *user)
{
    plim_order *o = NULL;
    TRY(plim_order_open(c, user, &o));
    plim_order_close(o);
    return PLIM_OK;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    many(40);
    plim_order_config g = config(60, 3, 2);
    assert_true(test_every_allocation(c, open_and_close, &g) >= 7);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(every_document_once_an_epoch),
        cmocka_unit_test(sequences_are_as_full_as_the_order_allows),
        cmocka_unit_test(any_step_can_be_the_first),
        cmocka_unit_test(orders_differ_by_seed_and_epoch),
        cmocka_unit_test(the_door_names_file_and_line),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
