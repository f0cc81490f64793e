/* jinja_case.c - decides what upper, lower and title make of one character: as Python does, so that one
 * character may become several. */
#include "text/jinja_machine.h"

#include "text/jinja_case_table.h"

static size_t look_up(const plim_case_range *ranges, size_t range_count, const plim_case_special *specials,
                      size_t special_count, uint32_t code, uint32_t out[3])
{
    size_t low = 0, high = range_count;
    while (low < high) { /* the last range that starts at or before code */
        size_t mid = (low + high) / 2;
        if (ranges[mid].first <= code) low = mid + 1;
        else high = mid;
    }
    for (size_t i = low; i > 0 && i + 2 > low; i--) { /* ranges of step 2 may lie in each other */
        const plim_case_range *r = &ranges[i - 1];
        if (code > r->last || (code - r->first) % (uint32_t)r->step) continue;
        out[0] = (uint32_t)((int32_t)code + r->delta);
        return 1;
    }
    for (size_t i = 0; i < special_count; i++) {
        if (specials[i].code != code) continue;
        size_t n = 0;
        while (n < 3 && specials[i].to[n]) {
            out[n] = specials[i].to[n];
            n++;
        }
        return n;
    }
    out[0] = code;
    return 1;
}

#define COUNT(table) sizeof table / sizeof *table

size_t plim_jinja_case(uint32_t code, char how, uint32_t out[3])
{
    if (code < 0x80) {
        bool letter = how == 'l' ? code >= 'A' && code <= 'Z' : code >= 'a' && code <= 'z';
        out[0] = letter ? code ^ 0x20 : code;
        return 1;
    }
    if (how == 'l')
        return look_up(lower_ranges, COUNT(lower_ranges), lower_specials, COUNT(lower_specials), code, out);
    if (how == 't')
        return look_up(title_ranges, COUNT(title_ranges), title_specials, COUNT(title_specials), code, out);
    return look_up(upper_ranges, COUNT(upper_ranges), upper_specials, COUNT(upper_specials), code, out);
}

bool plim_jinja_cased(uint32_t code)
{
    uint32_t up[3], low[3];
    return plim_jinja_case(code, 'u', up) != 1 || up[0] != code || plim_jinja_case(code, 'l', low) != 1 ||
           low[0] != code;
}
