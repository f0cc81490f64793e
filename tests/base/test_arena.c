/* The arena: offsets, padding, peaks by component, sticky flags, dry equal to live. */
#include "support/test.h"

#include <stdlib.h>

#include "base/arena.h"

static size_t walk(plim_arena *a)
{
    plim_arena_push(a, PLIM_MEM_WEIGHTS, "w", PLIM_BF16, 100, 33);
    plim_mark m = plim_arena_mark(a);
    plim_arena_push(a, PLIM_MEM_MLP, "gate", PLIM_F32, 10, 1000);
    plim_arena_pop(a, &m);
    plim_arena_push(a, PLIM_MEM_LOSS, "logits", PLIM_F32, 5, 1000);
    return plim_arena_peak(a).total_bytes;
}

TEST(counts_by_component_at_the_peak)
{
    UNUSED_STATE;
    plim_arena a;
    plim_arena_dry(&a);
    walk(&a);
    plim_usage peak = plim_arena_peak(&a);
    /* 33 columns of bf16 are padded to 40: 100 x 40 x 2 = 8000 -> 8192; gate 40000 -> 40192 */
    assert_int_equal(peak.component_bytes[PLIM_MEM_WEIGHTS], 8192);
    assert_int_equal(peak.component_bytes[PLIM_MEM_MLP], 40192);
    assert_int_equal(peak.component_bytes[PLIM_MEM_LOSS], 0);
    assert_int_equal(peak.total_bytes, 8192 + 40192);
    assert_int_equal(a.used.total_bytes, 8192 + 20224);
}

TEST(live_equals_dry_and_gives_memory)
{
    UNUSED_STATE;
    plim_arena dry, live;
    plim_arena_dry(&dry);
    size_t need = walk(&dry);
    char *memory = aligned_alloc(PLIM_ARENA_ALIGN, need);
    plim_arena_live(&live, memory, need);
    assert_int_equal(walk(&live), need);
    assert_false(live.exhausted || live.overflow);
    plim_arena_live(&live, memory, need);
    plim_tensor t = plim_arena_push(&live, PLIM_MEM_WEIGHTS, "t", PLIM_BF16, 3, 5);
    assert_ptr_equal(t.data, memory);
    assert_int_equal(t.pitch, 8);
    assert_ptr_equal(plim_tensor_rows(t, 2, 1).data, memory + 32);
    plim_arena_live(&live, memory, need - PLIM_ARENA_ALIGN);
    walk(&live);
    assert_true(live.exhausted);
    assert_null(plim_arena_push(&live, PLIM_MEM_LOSS, "more", PLIM_U8, 1, 1).data);
    free(memory);
}

TEST(phases_have_their_own_peaks)
{
    UNUSED_STATE;
    plim_arena a;
    plim_arena_dry(&a);
    plim_arena_push(&a, PLIM_MEM_WEIGHTS, "w", PLIM_U8, 1, 1000);
    assert_int_equal(plim_arena_phase(&a).total_bytes, 1024);
    plim_mark m = plim_arena_mark(&a);
    plim_arena_push(&a, PLIM_MEM_MLP, "x", PLIM_U8, 1, 512);
    plim_arena_pop(&a, &m);
    assert_int_equal(plim_arena_phase(&a).total_bytes, 1536);
    assert_int_equal(plim_arena_phase(&a).total_bytes, 1024);
    assert_int_equal(plim_arena_peak(&a).total_bytes, 1536);
}

TEST(overflow_is_sticky)
{
    UNUSED_STATE;
    static const int64_t bad[][2] = {{INT64_MAX, 2}, {1, INT64_MAX}, {-1, 4}, {4, -1}, {INT64_MAX / 8, 8}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plim_arena a;
        plim_arena_dry(&a);
        plim_arena_push(&a, PLIM_MEM_LOSS, "x", PLIM_F32, bad[i][0], bad[i][1]);
        assert_true(a.overflow);
        plim_arena_push(&a, PLIM_MEM_LOSS, "x", PLIM_F32, 1, 1);
        assert_int_equal(a.used.total_bytes, 0);
    }
}

TEST(passes_two_to_the_31)
{
    UNUSED_STATE;
    plim_arena a;
    plim_arena_dry(&a);
    plim_tensor t = plim_arena_push(&a, PLIM_MEM_LOSS, "logits", PLIM_F32, 131072, 248320);
    assert_int_equal(t.rows * t.pitch, INT64_C(32547799040));
    assert_int_equal(a.used.total_bytes, UINT64_C(130191196160));
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(counts_by_component_at_the_peak),
        cmocka_unit_test(live_equals_dry_and_gives_memory),
        cmocka_unit_test(phases_have_their_own_peaks),
        cmocka_unit_test(overflow_is_sticky),
        cmocka_unit_test(passes_two_to_the_31),
    };
    return RUN_TESTS(table);
}
