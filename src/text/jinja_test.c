/* jinja_test.c - decides what "x is ..." means. */
#include "text/jinja_machine.h"

#define JTEST(name)                                                                                          \
    static plim_status name(plim_jm *m, plim_jv self, const plim_jv args[PLIM_JARGS],                        \
                            const plim_jcall *call, plim_jv *out)

/* A test of the value alone. */
#define SIMPLE(name, holds)                                                                                  \
    JTEST(name)                                                                                              \
    {                                                                                                        \
        (void)m;                                                                                             \
        (void)args;                                                                                          \
        (void)call;                                                                                          \
        *out = plim_jv_bool(holds);                                                                          \
        return PLIM_OK;                                                                                      \
    }

/* A comparison with the one argument. */
#define COMPARE(name, op)                                                                                    \
    JTEST(name)                                                                                              \
    {                                                                                                        \
        bool holds = false;                                                                                  \
        (void)call;                                                                                          \
        TRY(plim_jm_compare(m, op, self, args[0], &holds));                                                  \
        *out = plim_jv_bool(holds);                                                                          \
        return PLIM_OK;                                                                                      \
    }

static bool iterable(plim_jv v)
{
    return v.kind == PLIM_JV_UNDEFINED || v.kind == PLIM_JV_STRING || plim_jv_is_list(v) ||
           v.kind == PLIM_JV_DICT || v.kind == PLIM_JV_RANGE;
}

SIMPLE(test_defined, self.kind != PLIM_JV_UNDEFINED)
SIMPLE(test_undefined, self.kind == PLIM_JV_UNDEFINED)
SIMPLE(test_none, self.kind == PLIM_JV_NONE)
SIMPLE(test_string, self.kind == PLIM_JV_STRING)
SIMPLE(test_number, plim_jv_is_number(self))
SIMPLE(test_integer, self.kind == PLIM_JV_INT)
SIMPLE(test_float, self.kind == PLIM_JV_FLOAT)
SIMPLE(test_mapping, self.kind == PLIM_JV_DICT)
SIMPLE(test_sequence, iterable(self))
SIMPLE(test_iterable, iterable(self))
SIMPLE(test_boolean, self.kind == PLIM_JV_BOOL)
SIMPLE(test_true, self.kind == PLIM_JV_BOOL && self.u.b)
SIMPLE(test_false, self.kind == PLIM_JV_BOOL && !self.u.b)
SIMPLE(test_escaped, self.kind == PLIM_JV_STRING && self.u.s->markup)
SIMPLE(test_callable,
       self.kind == PLIM_JV_MACRO || self.kind == PLIM_JV_FUNCTION || self.kind == PLIM_JV_METHOD)
SIMPLE(test_filter, self.kind == PLIM_JV_STRING && plim_jinja_filter(self.u.s) != NULL)
SIMPLE(test_test, self.kind == PLIM_JV_STRING && plim_jinja_test(self.u.s) != NULL)

COMPARE(test_eq, PLIM_JOP('=', '='))
COMPARE(test_ne, PLIM_JOP('!', '='))
COMPARE(test_lt, '<')
COMPARE(test_le, PLIM_JOP('<', '='))
COMPARE(test_gt, '>')
COMPARE(test_ge, PLIM_JOP('>', '='))
COMPARE(test_in, 'i')

static plim_status remainder_is(plim_jm *m, plim_jv self, plim_jv by, int64_t want, plim_jv *out)
{
    plim_jv rest;
    bool holds = false;
    TRY(plim_jm_binary(m, '%', self, by, &rest));
    TRY(plim_jv_equal(m->pool, rest, plim_jv_int(want), 0, &holds));
    *out = plim_jv_bool(holds);
    return PLIM_OK;
}

JTEST(test_even)
{
    (void)args;
    (void)call;
    return remainder_is(m, self, plim_jv_int(2), 0, out);
}

JTEST(test_odd)
{
    (void)args;
    (void)call;
    return remainder_is(m, self, plim_jv_int(2), 1, out);
}

JTEST(test_divisibleby)
{
    (void)call;
    return remainder_is(m, self, args[0], 0, out);
}

JTEST(test_sameas)
{
    bool same = false;
    (void)call;
    if (self.kind == args[0].kind) {
        if (plim_jv_is_list(self) || self.kind == PLIM_JV_DICT) same = self.u.dict == args[0].u.dict;
        else TRY(plim_jv_equal(m->pool, self, args[0], 0, &same));
    }
    *out = plim_jv_bool(same);
    return PLIM_OK;
}

/* Some letter has case, and all that have are of this one. */
static plim_status all_case(plim_jm *m, plim_jv self, char how, plim_jv *out)
{
    plim_jv text;
    bool some = false, all = true;
    TRY(plim_jm_text(m, self, &text));
    TRY(plim_pool_step(m->pool, text.u.s->bytes));
    for (size_t at = 0, n = 0; at < text.u.s->bytes; at += n) {
        uint32_t code = plim_utf8_decode(text.u.s->text + at, text.u.s->bytes - at, &n), to[3];
        if (!plim_jinja_cased(code)) continue;
        some = true;
        all = all && plim_jinja_case(code, how, to) == 1 && to[0] == code;
    }
    *out = plim_jv_bool(some && all);
    return PLIM_OK;
}

JTEST(test_lower)
{
    (void)args;
    (void)call;
    return all_case(m, self, 'l', out);
}

JTEST(test_upper)
{
    (void)args;
    (void)call;
    return all_case(m, self, 'u', out);
}

static const plim_jfunction tests[] = {
    {"boolean", "", test_boolean},     {"callable", "", test_callable},
    {"defined", "", test_defined},     {"divisibleby", "num/", test_divisibleby},
    {"eq", "other/", test_eq},         {"equalto", "other/", test_eq},
    {"==", "other/", test_eq},         {"escaped", "", test_escaped},
    {"even", "", test_even},           {"false", "", test_false},
    {"filter", "", test_filter},       {"float", "", test_float},
    {"ge", "other/", test_ge},         {">=", "other/", test_ge},
    {"gt", "other/", test_gt},         {"greaterthan", "other/", test_gt},
    {">", "other/", test_gt},          {"in", "seq/", test_in},
    {"integer", "", test_integer},     {"iterable", "", test_iterable},
    {"le", "other/", test_le},         {"<=", "other/", test_le},
    {"lower", "", test_lower},         {"lt", "other/", test_lt},
    {"lessthan", "other/", test_lt},   {"<", "other/", test_lt},
    {"mapping", "", test_mapping},     {"ne", "other/", test_ne},
    {"!=", "other/", test_ne},         {"none", "", test_none},
    {"number", "", test_number},       {"odd", "", test_odd},
    {"sameas", "other/", test_sameas}, {"sequence", "", test_sequence},
    {"string", "", test_string},       {"test", "", test_test},
    {"true", "", test_true},           {"undefined", "", test_undefined},
    {"upper", "", test_upper},         {NULL, NULL, NULL},
};

const plim_jfunction *plim_jinja_test(const plim_js *name)
{
    return plim_jinja_find(tests, name);
}
