// copies_async.cpp - 16 bytes at a time to shared memory, as late as a card may do it.
#include "ops/cuda/instructions.h"

#include "fibers.h"

using namespace emulated;

static void perform(const copy &c)
{
    if (c.from) memcpy(c.to, c.from, 16);
    else memset(c.to, 0, 16);
}

void cp16(uint32_t shared, const void *global, bool valid)
{
    if (shared % 16 || (uintptr_t)global % 16) report("cp.async: an address is not a multiple of 16");
    const copy c = {shared_at(shared, 16), valid ? global : NULL, self->copy_group};
    if (early()) perform(c);
    else self->copies.push_back(c);
}

void cp_commit()
{
    self->copy_group++;
}

void emulated_cp_wait(int left)
{
    std::vector<copy> &all = self->copies;
    size_t n = 0;
    while (n < all.size() && all[n].group < self->copy_group - left) perform(all[n++]);
    all.erase(all.begin(), all.begin() + (ptrdiff_t)n);
}

void store_shared(uint32_t to, uint32_t word)
{
    memcpy(shared_at(to, sizeof word), &word, sizeof word);
}
