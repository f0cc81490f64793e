/* The chunk table: every row once, no chunk over a document or past 64 rows, and never more than the
 * bound. */
#include "support/test.h"

#include <stdlib.h>

#include "ops/chunk_table.h"
#include "reference/delta_io.h"

static plim_docs docs_of(const int64_t *start, int64_t count)
{
    return (plim_docs){count, start[count], start[count], start, start};
}

TEST(cuts_at_documents_and_every_64_rows)
{
    UNUSED_STATE;
    static const int64_t start[] = {0, 1, 65, 130, 133, 210};
    static const plim_chunk want[] = {{0, 1, 1, 1},   {1, 64, 1, 1},   {65, 64, 1, 0}, {129, 1, 0, 1},
                                      {130, 3, 1, 1}, {133, 64, 1, 0}, {197, 13, 0, 1}};
    const plim_docs docs = docs_of(start, 5);
    plim_chunk got[16];
    assert_int_equal(plim_chunk_table(&docs, 0, 210, got), 7);
    assert_memory_equal(got, want, sizeof want);
}

TEST(a_tile_inside_a_document_neither_starts_nor_ends_it)
{
    UNUSED_STATE;
    static const int64_t start[] = {0, 300};
    static const plim_chunk want[] = {{0, 64, 0, 0}, {64, 36, 0, 0}};
    const plim_docs docs = docs_of(start, 1);
    plim_chunk got[4];
    assert_int_equal(plim_chunk_table(&docs, 100, 100, got), 2);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(plim_chunk_table(&docs, 236, 64, got), 1);
    assert_true(!got[0].starts_document && got[0].ends_document);
    assert_int_equal(plim_chunk_table(&docs, 0, 64, got), 1);
    assert_true(got[0].starts_document && !got[0].ends_document);
    assert_int_equal(plim_chunk_table(&docs, 300, 0, got), 0);
}

TEST(documents_without_rows_have_no_chunk)
{
    UNUSED_STATE;
    static const int64_t start[] = {0, 0, 5, 5, 5, 9, 9};
    static const plim_chunk want[] = {{0, 5, 1, 1}, {5, 4, 1, 1}};
    const plim_docs docs = docs_of(start, 6);
    plim_chunk got[4];
    assert_int_equal(plim_chunk_table(&docs, 0, 9, got), 2);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(plim_document_of(&docs, 0), 1);
    assert_int_equal(plim_document_of(&docs, 5), 4);
    assert_int_equal(plim_document_of(&docs, 8), 4);
}

TEST(the_bound_holds_and_is_reached)
{
    UNUSED_STATE;
    assert_int_equal(plim_chunk_bound(0, 3), 0);
    assert_int_equal(plim_chunk_bound(64, 1), 1);
    assert_int_equal(plim_chunk_bound(65, 1), 2);
    assert_int_equal(plim_chunk_bound(2048, 1), 32);
    assert_int_equal(plim_chunk_bound(2048, 5), 36);
    assert_int_equal(plim_chunk_bound(3, 100), 3);
    assert_int_equal(plim_chunk_bound(131072, INT64_MAX), 131072);
    static const int64_t worst[] = {0, 1, 66, 131, 192};
    const plim_docs docs = docs_of(worst, 4);
    plim_chunk got[512];
    assert_int_equal(plim_chunk_table(&docs, 0, 192, got), plim_chunk_bound(192, 4));
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        int64_t start[9] = {0}, count = 1 + (int64_t)(8 * io_uniform(&seed));
        for (int64_t n = 0; n < count; n++) start[n + 1] = start[n] + (int64_t)(90 * io_uniform(&seed));
        const plim_docs random = docs_of(start, count);
        const int64_t first = (int64_t)((double)random.tokens * io_uniform(&seed));
        const int64_t rows =
            (int64_t)((double)(random.tokens - first) * io_uniform(&seed)) + (random.tokens > first);
        const int64_t chunks = plim_chunk_table(&random, first, rows, got);
        assert_true(chunks <= plim_chunk_bound(rows, count));
        int64_t row = 0;
        for (int64_t m = 0; m < chunks; row += got[m++].rows) {
            assert_int_equal(got[m].first, row);
            assert_in_range(got[m].rows, 1, PLIM_CHUNK_TOKENS);
            const int64_t n = plim_document_of(&random, first + row);
            assert_int_equal(got[m].starts_document, first + row == start[n]);
            assert_int_equal(got[m].ends_document, first + row + got[m].rows == start[n + 1]);
            assert_true(first + row + got[m].rows <= start[n + 1]);
        }
        assert_int_equal(row, rows);
    }
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(cuts_at_documents_and_every_64_rows),
        cmocka_unit_test(a_tile_inside_a_document_neither_starts_nor_ends_it),
        cmocka_unit_test(documents_without_rows_have_no_chunk),
        cmocka_unit_test(the_bound_holds_and_is_reached),
    };
    return RUN_TESTS(table);
}
