/* Which attention kernels of ours a card gets: arithmetic, without a card. */
#include "support/test.h"

#include "ops/cuda/attention_own_choice.h"

/* Shared memory of a block: 8.6 and 12.0; 8.0; 9.0 and 10.0. */
static const size_t limits[] = {101376, 166912, 232448};

static void fits(own_choice c, size_t limit)
{
    assert_true(c.fwd_bytes > 0 && c.fwd_bytes <= limit);
    assert_true(c.dq_bytes > 0 && c.dq_bytes <= limit);
    assert_true(c.dkv_bytes > 0);
    assert_true(c.dkv_bytes + (c.hopper ? HOPPER_DKV_STATIC_BYTES : OWN_DKV_STATIC_BYTES) <= limit);
}

TEST(every_choice_fits_its_card)
{
    UNUSED_STATE;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int dim = 64; dim <= 256; dim *= 2) {
            const own_choice c = own_choose(dim, limits[i], false);
            assert_false(c.hopper);
            fits(c, limits[i]);
        }
    for (int dim = 64; dim <= 256; dim *= 2) fits(own_choose(dim, limits[2], true), limits[2]);
}

TEST(larger_cards_get_larger_tiles)
{
    UNUSED_STATE;
    const own_choice small = own_choose(256, limits[0], false), large = own_choose(256, limits[2], false);
    assert_int_equal(small.fwd_warps, 4);
    assert_int_equal(small.dkv_rows, 32);
    assert_int_equal(small.dq_warps, 4);
    assert_int_equal(large.fwd_warps, 8);
    assert_int_equal(large.dkv_rows, 64);
    assert_int_equal(large.dkv_stages, 2);
    assert_int_equal(large.dq_warps, 8);
    assert_int_equal(large.dq_keys, 64);
    assert_int_equal(large.dq_stages, 2);
    assert_int_equal(own_choose(256, limits[1], false).dq_keys, 32);
}

TEST(hopper_kernels_serve_heads_above_64)
{
    UNUSED_STATE;
    assert_false(own_choose(64, limits[2], true).hopper);
    assert_true(own_choose(128, limits[2], true).hopper);
    assert_true(own_choose(256, limits[2], true).hopper);
}

TEST(head_sizes_are_padded_up)
{
    UNUSED_STATE;
    static const int sizes[][2] = {{8, 64}, {64, 64}, {72, 128}, {128, 128}, {136, 256}, {256, 256}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(own_padded_dim(sizes[i][0]), sizes[i][1]);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(every_choice_fits_its_card),
        cmocka_unit_test(larger_cards_get_larger_tiles),
        cmocka_unit_test(hopper_kernels_serve_heads_above_64),
        cmocka_unit_test(head_sizes_are_padded_up),
    };
    return RUN_TESTS(table);
}
