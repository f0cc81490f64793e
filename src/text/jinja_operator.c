/* jinja_operator.c - decides what operators do, as Python does: 7 // -2 is -4, "a" + 1 is an error.
 * Integers have 64 bits; what passes them is refused, never wrapped. */
#include "text/jinja_machine.h"

#include <math.h>
#include <string.h>

#define EQUAL_DEPTH 300 /* lists inside each other that are compared */

bool plim_jv_true(plim_jv v)
{
    switch ((plim_jv_kind)v.kind) {
    case PLIM_JV_MISSING:
    case PLIM_JV_UNDEFINED:
    case PLIM_JV_NONE: return false;
    case PLIM_JV_BOOL: return v.u.b;
    case PLIM_JV_INT: return v.u.i != 0;
    case PLIM_JV_FLOAT: return v.u.f != 0;
    case PLIM_JV_STRING: return v.u.s->bytes > 0;
    case PLIM_JV_LIST:
    case PLIM_JV_TUPLE: return v.u.list->count > 0;
    case PLIM_JV_DICT: return v.u.dict->count > 0;
    case PLIM_JV_RANGE: return v.u.range->count > 0;
    default: return true;
    }
}

static plim_status equal_dicts(plim_pool *p, const plim_jdict *a, const plim_jdict *b, int depth, bool *out)
{
    *out = false;
    if (a->count != b->count) return PLIM_OK;
    for (size_t i = 0; i < a->count; i++) {
        const plim_jpair *other = NULL;
        bool same = false;
        TRY(plim_jdict_find(p, b, a->pairs[i].key, &other));
        if (!other) return PLIM_OK;
        TRY(plim_jv_equal(p, a->pairs[i].value, other->value, depth, &same));
        if (!same) return PLIM_OK;
    }
    *out = true;
    return PLIM_OK;
}

plim_status plim_jv_equal(plim_pool *p, plim_jv a, plim_jv b, int depth, bool *out)
{
    int64_t i = 0, k = 0;
    *out = false;
    TRY(plim_pool_step(p, 0));
    if (depth > EQUAL_DEPTH)
        return plim_jinja_fail(p->ctx, p->t, p->at_byte ? *p->at_byte : 0, PLIM_E_RANGE,
                               "values nested deeper than %d levels are compared", EQUAL_DEPTH);
    if (plim_jv_is_number(a) && plim_jv_is_number(b)) {
        if (plim_jv_as_int(a, &i) && plim_jv_as_int(b, &k)) *out = i == k;
        else *out = plim_jv_as_double(a) == plim_jv_as_double(b);
        return PLIM_OK;
    }
    if (a.kind != b.kind) return PLIM_OK;
    switch ((plim_jv_kind)a.kind) {
    case PLIM_JV_UNDEFINED:
    case PLIM_JV_NONE: *out = true; return PLIM_OK;
    case PLIM_JV_STRING:
        TRY(plim_pool_step(p, a.u.s->bytes));
        *out = plim_js_equal(a.u.s, b.u.s);
        return PLIM_OK;
    case PLIM_JV_LIST:
    case PLIM_JV_TUPLE:
        if (a.u.list->count != b.u.list->count) return PLIM_OK;
        *out = true;
        for (size_t n = 0; n < a.u.list->count && *out; n++)
            TRY(plim_jv_equal(p, a.u.list->items[n], b.u.list->items[n], depth + 1, out));
        return PLIM_OK;
    case PLIM_JV_DICT: return equal_dicts(p, a.u.dict, b.u.dict, depth + 1, out);
    case PLIM_JV_RANGE:
        *out = a.u.range->count == b.u.range->count &&
               (!a.u.range->count ||
                (a.u.range->first == b.u.range->first && a.u.range->step == b.u.range->step));
        return PLIM_OK;
    default: *out = a.u.dict == b.u.dict; return PLIM_OK;
    }
}

/* ---- arithmetic ---------------------------------------------------------------------------------------- */

static const char *op_text(int op, char buf[3])
{
    buf[0] = (char)(op & 0xff);
    buf[1] = (char)(op >> 8);
    buf[2] = 0;
    return buf;
}

static plim_status wrong_types(plim_jm *m, int op, plim_jv a, plim_jv b)
{
    char buf[3];
    return plim_jm_fail(m, PLIM_E_FORMAT, "unsupported operand type(s) for %s: '%s' and '%s'",
                        op == PLIM_JOP('*', '*') ? "** or pow()" : op_text(op, buf), plim_jv_type(a),
                        plim_jv_type(b));
}

static plim_status too_big(plim_jm *m)
{
    return plim_jm_fail(m, PLIM_E_RANGE, "an integer beyond 64 bits; plimsoll computes with none");
}

static plim_status int_power(plim_jm *m, int64_t a, int64_t b, plim_jv *out)
{
    int64_t v = 1;
    if (b < 0) {
        if (!a) return plim_jm_fail(m, PLIM_E_FORMAT, "0.0 cannot be raised to a negative power");
        *out = plim_jv_float(pow((double)a, (double)b));
        return PLIM_OK;
    }
    if (a == 0 || a == 1 || a == -1) b = b ? 2 - b % 2 : 0; /* the same value, without the loop */
    for (; b > 0; b--)
        if (__builtin_mul_overflow(v, a, &v)) return too_big(m);
    *out = plim_jv_int(v);
    return PLIM_OK;
}

static plim_status int_math(plim_jm *m, int op, int64_t a, int64_t b, plim_jv *out)
{
    int64_t v = 0;
    bool over = false;
    switch (op) {
    case '+': over = __builtin_add_overflow(a, b, &v); break;
    case '-': over = __builtin_sub_overflow(a, b, &v); break;
    case '*': over = __builtin_mul_overflow(a, b, &v); break;
    case '/':
        if (!b) return plim_jm_fail(m, PLIM_E_FORMAT, "division by zero");
        *out = plim_jv_float((double)((long double)a / (long double)b));
        return PLIM_OK;
    case PLIM_JOP('/', '/'):
    case '%':
        if (!b)
            return plim_jm_fail(m, PLIM_E_FORMAT,
                                op == '%' ? "integer modulo by zero" : "integer division or modulo by zero");
        if (b == -1) {
            if (op == '%') v = 0;
            else over = __builtin_sub_overflow((int64_t)0, a, &v);
            break;
        }
        if (op == '%') v = a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
        else v = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        break;
    default: return int_power(m, a, b, out);
    }
    if (over) return too_big(m);
    *out = plim_jv_int(v);
    return PLIM_OK;
}

static plim_status float_math(plim_jm *m, int op, double a, double b, plim_jv *out)
{
    double v = 0;
    switch (op) {
    case '+': v = a + b; break;
    case '-': v = a - b; break;
    case '*': v = a * b; break;
    case '/':
        if (b == 0) return plim_jm_fail(m, PLIM_E_FORMAT, "float division by zero");
        v = a / b;
        break;
    case PLIM_JOP('/', '/'):
    case '%': {
        if (b == 0)
            return plim_jm_fail(m, PLIM_E_FORMAT,
                                op == '%' ? "float modulo" : "float floor division by zero");
        double rest = fmod(a, b);
        double whole = (a - rest) / b;
        if (rest != 0 && (rest < 0) != (b < 0)) {
            rest += b;
            whole -= 1;
        } else if (rest == 0) rest = copysign(0, b);
        if (whole != 0) {
            double down = floor(whole);
            whole = whole - down > 0.5 ? down + 1 : down;
        } else whole = copysign(0, a / b);
        v = op == '%' ? rest : whole;
        break;
    }
    default:
        if (a == 0 && b < 0)
            return plim_jm_fail(m, PLIM_E_FORMAT, "0.0 cannot be raised to a negative power");
        v = pow(a, b);
        if (isnan(v) && !isnan(a) && !isnan(b))
            return plim_jm_fail(m, PLIM_E_UNSUPPORTED, "a power that is a complex number");
        if (isinf(v) && isfinite(a) && isfinite(b))
            return plim_jm_fail(m, PLIM_E_RANGE, "(34, 'Numerical result out of range')");
        break;
    }
    *out = plim_jv_float(v);
    return PLIM_OK;
}

/* ---- sequences ----------------------------------------------------------------------------------------- */

static plim_status add_strings(plim_jm *m, const plim_js *a, const plim_js *b, plim_jv *out)
{
    bool markup = a->markup || b->markup;
    if (markup) {
        plim_jv left, right;
        TRY(plim_jm_escape(m, a, &left));
        TRY(plim_jm_escape(m, b, &right));
        a = left.u.s;
        b = right.u.s;
    }
    return plim_js_join2(m->pool, a, b, markup, out);
}

static plim_status add_lists(plim_jm *m, plim_jv a, plim_jv b, plim_jv *out)
{
    plim_jv *items = NULL;
    const plim_jlist *x = a.u.list, *y = b.u.list;
    TRY(plim_jv_list(m->pool, (plim_jv_kind)a.kind, x->count + y->count, &items, out));
    if (x->count) memcpy(items, x->items, x->count * sizeof *items);
    if (y->count) memcpy(items + x->count, y->items, y->count * sizeof *items);
    return PLIM_OK;
}

static plim_status repeat(plim_jm *m, plim_jv a, int64_t times, plim_jv *out)
{
    if (times < 0) times = 0;
    if (a.kind == PLIM_JV_STRING) {
        plim_jbuilder b = {.pool = m->pool};
        if (a.u.s->bytes && (uint64_t)times > m->pool->limit_bytes / a.u.s->bytes)
            return plim_jm_fail(m, PLIM_E_RANGE, "a string repeated %lld times takes too much memory",
                                (long long)times);
        for (int64_t i = 0; a.u.s->bytes && i < times; i++) TRY(plim_jbuilder_add_string(&b, a.u.s));
        return plim_jbuilder_done(&b, a.u.s->markup, out);
    }
    plim_jv *items = NULL;
    size_t count = a.u.list->count;
    if (count && (uint64_t)times > m->pool->limit_bytes / count)
        return plim_jm_fail(m, PLIM_E_RANGE, "a list repeated %lld times takes too much memory",
                            (long long)times);
    TRY(plim_jv_list(m->pool, (plim_jv_kind)a.kind, count ? count * (size_t)times : 0, &items, out));
    for (int64_t i = 0; count && i < times; i++)
        memcpy(items + (size_t)i * count, a.u.list->items, count * sizeof *items);
    return PLIM_OK;
}

plim_status plim_jm_binary(plim_jm *m, int op, plim_jv a, plim_jv b, plim_jv *out)
{
    int64_t i = 0, k = 0;
    TRY(plim_jm_use(m, a));
    TRY(plim_jm_use(m, b));
    if (plim_jv_is_number(a) && plim_jv_is_number(b)) {
        if (plim_jv_as_int(a, &i) && plim_jv_as_int(b, &k)) return int_math(m, op, i, k, out);
        return float_math(m, op, plim_jv_as_double(a), plim_jv_as_double(b), out);
    }
    bool sequence = a.kind == PLIM_JV_STRING || plim_jv_is_list(a);
    if (op == '+' && sequence) {
        if (a.kind == b.kind)
            return a.kind == PLIM_JV_STRING ? add_strings(m, a.u.s, b.u.s, out) : add_lists(m, a, b, out);
        if (a.kind == PLIM_JV_STRING && a.u.s->markup) return wrong_types(m, op, a, b);
        return plim_jm_fail(m, PLIM_E_FORMAT, "can only concatenate %s (not \"%s\") to %s", plim_jv_type(a),
                            plim_jv_type(b), plim_jv_type(a));
    }
    if (op == '*' && sequence && plim_jv_as_int(b, &k)) return repeat(m, a, k, out);
    if (op == '*' && (b.kind == PLIM_JV_STRING || plim_jv_is_list(b)) && plim_jv_as_int(a, &i))
        return repeat(m, b, i, out);
    if (op == '*' && sequence)
        return plim_jm_fail(m, PLIM_E_FORMAT, "can't multiply sequence by non-int of type '%s'",
                            plim_jv_type(b));
    if (op == '%' && a.kind == PLIM_JV_STRING)
        return plim_jm_fail(m, PLIM_E_UNSUPPORTED, "formatting a string with %%; put it together with ~");
    return wrong_types(m, op, a, b);
}

plim_status plim_jm_unary(plim_jm *m, int op, plim_jv a, plim_jv *out)
{
    int64_t i = 0;
    TRY(plim_jm_use(m, a));
    if (!plim_jv_is_number(a))
        return plim_jm_fail(m, PLIM_E_FORMAT, "bad operand type for unary %c: '%s'", op, plim_jv_type(a));
    if (!plim_jv_as_int(a, &i)) *out = plim_jv_float(op == '-' ? -a.u.f : a.u.f);
    else if (op == '-' && __builtin_sub_overflow((int64_t)0, i, &i)) return too_big(m);
    else *out = plim_jv_int(i);
    return PLIM_OK;
}

/* ---- order --------------------------------------------------------------------------------------------- */

/* *less: a < b; *greater: a > b; both false: equal, or a NaN. */
static plim_status order(plim_jm *m, const char *op, plim_jv a, plim_jv b, int depth, bool *less,
                         bool *greater)
{
    *less = *greater = false;
    TRY(plim_pool_step(m->pool, 0));
    TRY(plim_jm_use(m, a));
    TRY(plim_jm_use(m, b));
    if (plim_jv_is_number(a) && plim_jv_is_number(b)) {
        int64_t i = 0, k = 0;
        bool whole = plim_jv_as_int(a, &i) && plim_jv_as_int(b, &k);
        *less = whole ? i < k : plim_jv_as_double(a) < plim_jv_as_double(b);
        *greater = whole ? i > k : plim_jv_as_double(a) > plim_jv_as_double(b);
        return PLIM_OK;
    }
    if (a.kind == PLIM_JV_STRING && b.kind == PLIM_JV_STRING) {
        int by = plim_js_order(a.u.s, b.u.s);
        TRY(plim_pool_step(m->pool, a.u.s->bytes < b.u.s->bytes ? a.u.s->bytes : b.u.s->bytes));
        *less = by < 0;
        *greater = by > 0;
        return PLIM_OK;
    }
    if (!plim_jv_is_list(a) || a.kind != b.kind || depth > EQUAL_DEPTH)
        return plim_jm_fail(m, PLIM_E_FORMAT, "'%s' not supported between instances of '%s' and '%s'", op,
                            plim_jv_type(a), plim_jv_type(b));
    size_t n = a.u.list->count < b.u.list->count ? a.u.list->count : b.u.list->count;
    for (size_t i = 0; i < n; i++) {
        bool same = false;
        TRY(plim_jv_equal(m->pool, a.u.list->items[i], b.u.list->items[i], 0, &same));
        if (!same) return order(m, op, a.u.list->items[i], b.u.list->items[i], depth + 1, less, greater);
    }
    *less = a.u.list->count < b.u.list->count;
    *greater = a.u.list->count > b.u.list->count;
    return PLIM_OK;
}

static bool is_nan(plim_jv v)
{
    return v.kind == PLIM_JV_FLOAT && isnan(v.u.f);
}

plim_status plim_jm_compare(plim_jm *m, int op, plim_jv a, plim_jv b, bool *out)
{
    bool less = false, greater = false;
    char buf[3];
    if (op == PLIM_JOP('=', '=') || op == PLIM_JOP('!', '=')) {
        TRY(plim_jv_equal(m->pool, a, b, 0, out));
        *out = *out == (op == PLIM_JOP('=', '='));
        return PLIM_OK;
    }
    if (op == 'i' || op == 'n') {
        TRY(plim_jm_contains(m, b, a, out));
        *out = *out == (op == 'i');
        return PLIM_OK;
    }
    TRY(order(m, op_text(op, buf), a, b, 0, &less, &greater));
    if (is_nan(a) || is_nan(b)) *out = false;
    else if (op == '<') *out = less;
    else if (op == '>') *out = greater;
    else *out = op == PLIM_JOP('<', '=') ? !greater : !less;
    return PLIM_OK;
}

plim_status plim_jm_contains(plim_jm *m, plim_jv in, plim_jv what, bool *out)
{
    const plim_jv *items = NULL;
    size_t count = 0;
    *out = false;
    if (in.kind == PLIM_JV_UNDEFINED) return PLIM_OK; /* it iterates over nothing */
    if (in.kind == PLIM_JV_STRING) {
        TRY(plim_jm_use(m, what));
        if (what.kind != PLIM_JV_STRING)
            return plim_jm_fail(m, PLIM_E_FORMAT, "'in <string>' requires string as left operand, not %s",
                                plim_jv_type(what));
        TRY(plim_pool_step(m->pool, in.u.s->bytes));
        *out = plim_js_find(in.u.s, what.u.s, 0) != SIZE_MAX;
        return PLIM_OK;
    }
    if (in.kind == PLIM_JV_DICT) {
        const plim_jpair *pair = NULL;
        if (plim_jv_is_list(what) && what.kind == PLIM_JV_LIST)
            return plim_jm_fail(m, PLIM_E_FORMAT, "unhashable type: 'list'");
        if (what.kind == PLIM_JV_DICT) return plim_jm_fail(m, PLIM_E_FORMAT, "unhashable type: 'dict'");
        TRY(plim_jdict_find(m->pool, in.u.dict, what, &pair));
        *out = pair != NULL;
        return PLIM_OK;
    }
    if (!plim_jv_is_list(in) && in.kind != PLIM_JV_RANGE)
        return plim_jm_fail(m, PLIM_E_FORMAT, "argument of type '%s' is not iterable", plim_jv_type(in));
    TRY(plim_jm_items(m, in, &items, &count));
    for (size_t i = 0; i < count && !*out; i++) TRY(plim_jv_equal(m->pool, items[i], what, 0, out));
    return PLIM_OK;
}

/* Merge sort of places: stable, and at most n log n comparisons. */
static plim_status merge(plim_jm *m, const plim_jv *by, bool reverse, size_t *from, size_t *to, size_t begin,
                         size_t mid, size_t end)
{
    size_t a = begin, b = mid;
    for (size_t i = begin; i < end; i++) {
        bool less = false, greater = false, second = a >= mid;
        if (a < mid && b < end) {
            TRY(order(m, "<", by[from[b]], by[from[a]], 0, &less, &greater));
            second = reverse ? greater : less;
        }
        to[i] = second ? from[b++] : from[a++];
    }
    return PLIM_OK;
}

plim_status plim_jm_sort(plim_jm *m, plim_jv *items, plim_jv *by, size_t count, bool reverse)
{
    size_t *from = NULL, *to = NULL;
    plim_jv *sorted = NULL;
    if (!count) return PLIM_OK;
    TRY(plim_pool_take(m->pool, count, sizeof *from, &from));
    TRY(plim_pool_take(m->pool, count, sizeof *to, &to));
    TRY(plim_pool_take(m->pool, count, sizeof *sorted, &sorted));
    for (size_t i = 0; i < count; i++) from[i] = i;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t at = 0; at < count; at += 2 * width) {
            size_t mid = at + width < count ? at + width : count,
                   end = mid + width < count ? mid + width : count;
            TRY(merge(m, by, reverse, from, to, at, mid, end));
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < count; i++) sorted[i] = items[from[i]];
    memcpy(items, sorted, count * sizeof *items);
    return PLIM_OK;
}
