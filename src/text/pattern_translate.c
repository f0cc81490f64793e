/* pattern_translate.c - decides how an expression written for Oniguruma (Ruby's syntax) reads in PCRE2.
 *
 * What differs and is translated: \s (PCRE2 counts U+180E), \w \W \b \B (PCRE2's words have no marks), \h \H
 * (hexadecimal digits), \v (one character), \uHHHH, (?m) (the point matches a line end), {,n}, and a + or ?
 * behind {n,m} or {n}, which repeats there and does not change how the interval matches.  What has no equal
 * is refused: intersections and sets inside sets, \W inside a set, absent groups, conditions, call-outs,
 * options in the middle of an alternative. Source: Oniguruma doc/RE and doc/SYNTAX.md; pcre2pattern(3). */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "text/pattern.h"

#define DEPTH 250 /* groups inside each other; PCRE2's own limit */

#define SPACE_SET                                                                                            \
    "\\t-\\r\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
/* its words have the superscripts and fractions of Latin-1, too */
#define LATIN_SET "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define WORD_SET                                                                                             \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"         \
    "\\x{1f170}-\\x{1f189}" LATIN_SET
#define IN_WORD "[" WORD_SET "]"

typedef struct translator {
    plim_ctx *c;
    const char *source;
    size_t at, bytes;
    char *out;
    size_t out_bytes, out_cap;
    size_t open[DEPTH]; /* where in out each open group begins */
    size_t depth;
    size_t atom; /* where in out the last thing that can be repeated begins; SIZE_MAX: there is none */
} translator;

/* An escape on its own, and inside a set; NULL: as it is.  "" inside a set: refused. */
typedef struct escape_row {
    char letter;
    const char *alone, *in_set;
} escape_row;

static const escape_row escapes[] = {
    {'s', "[" SPACE_SET "]", SPACE_SET},
    {'S', "[^" SPACE_SET "]", "\\S\\x{180e}"},
    {'w', IN_WORD, WORD_SET},
    {'W', "[^" WORD_SET "]", ""},
    {'b', "(?:(?<=" IN_WORD ")(?!" IN_WORD ")|(?<!" IN_WORD ")(?=" IN_WORD "))", NULL},
    {'B', "(?:(?<=" IN_WORD ")(?=" IN_WORD ")|(?<!" IN_WORD ")(?!" IN_WORD "))", ""},
    {'h', "[0-9A-Fa-f]", "0-9A-Fa-f"},
    {'H', "[^0-9A-Fa-f]", ""},
    {'v', "\\x0b", "\\x0b"},
    {'Q', "", ""},
    {'E', "", ""},
    {'C', "", ""},
    {'K', "", ""},
    {'O', "", ""},
    {'N', "", ""},
    {'M', "", ""},
    {'c', "", ""},
    {'o', "", ""},
    {'y', "", ""},
    {'Y', "", ""},
};

static plim_status refuse(const translator *t, const char *what)
{
    return plim_fail(t->c, PLIM_E_UNSUPPORTED,
                     "the regular expression \"%.300s\" has %s at byte %zu, which plimsoll cannot translate",
                     t->source, what, t->at);
}

static plim_status put(translator *t, const char *text, size_t bytes)
{
    TRY(plim_grow(t->c, &t->out, &t->out_cap, t->out_bytes + bytes + 1, 1, "a regular expression"));
    memcpy(t->out + t->out_bytes, text, bytes);
    t->out_bytes += bytes;
    t->out[t->out_bytes] = 0;
    return PLIM_OK;
}

static plim_status put_string(translator *t, const char *text)
{
    return put(t, text, strlen(text));
}

/* Copies bytes of the source and passes over them. */
static plim_status copy(translator *t, size_t bytes)
{
    t->at += bytes;
    return put(t, t->source + t->at - bytes, bytes);
}

static char look(const translator *t, size_t ahead)
{
    return ahead < t->bytes - t->at ? t->source[t->at + ahead] : 0;
}

static bool starts(const translator *t, const char *with)
{
    return strncmp(t->source + t->at, with, strlen(with)) == 0;
}

/* \uHHHH as \x{HHHH}. */
static plim_status translate_code_point(translator *t)
{
    for (size_t i = 2; i < 6; i++)
        if (!isxdigit((unsigned char)look(t, i))) return refuse(t, "\\u without four hexadecimal digits");
    TRY(put_string(t, "\\x{"));
    t->at += 2;
    TRY(copy(t, 4));
    return put_string(t, "}");
}

/* \xHH is a byte there, and a character only where both agree. */
static plim_status translate_hexadecimal(translator *t)
{
    if (look(t, 2) != '{' && isxdigit((unsigned char)look(t, 2)) && isxdigit((unsigned char)look(t, 3)) &&
        look(t, 2) >= '8')
        return refuse(t, "a byte of a character (\\x80 and above)");
    return copy(t, 2);
}

/* \p{Name}: PCRE2 has no long names of categories, and means script extensions by a script's bare name. */
static plim_status translate_property(translator *t)
{
    static const char *const names[][2] = {
        {"Letter", "L"},
        {"Mark", "M"},
        {"Number", "N"},
        {"Punctuation", "P"},
        {"Symbol", "S"},
        {"Separator", "Z"},
        {"Other", "C"},
        {"Alpha", "Alphabetic"},
        {"Digit", "Nd"},
        {"Punct", ""},
        {"Word", ""},
        {"Alnum", ""},
        {"Space", ""},
        {"Alphabetic", "Alphabetic"},
        {"Any", "Any"},
        {"Emoji", "Emoji"},
        {"Ideographic", "Ideographic"},
        {"Uppercase", "Uppercase"},
        {"Lowercase", "Lowercase"},
        {"Extended_Pictographic", "Extended_Pictographic"},
    };
    const char *name = t->source + t->at + 3;
    bool negated = *name == '^';
    name += negated;
    size_t bytes = strcspn(name, "}");
    if (!name[bytes]) return refuse(t, "\\p{ without its end");
    const char *as = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i][0]) == bytes && !strncasecmp(names[i][0], name, bytes)) as = names[i][1];
    if (as && !*as) return refuse(t, "a property of its own");
    TRY(copy(t, 3 + negated));
    if (bytes <= 2) return copy(t, bytes + 1);
    if (!as) {
        TRY(put_string(t, "sc:"));
        return copy(t, bytes + 1);
    }
    t->at += bytes;
    TRY(put_string(t, as));
    return copy(t, 1);
}

/* The escape at t->at. */
static plim_status translate_escape(translator *t, bool in_set)
{
    char letter = look(t, 1);
    if (!letter) return refuse(t, "a backslash at its end");
    if (letter == 'u') return translate_code_point(t);
    if (letter == 'x') return translate_hexadecimal(t);
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (escapes[i].letter != letter) continue;
        const char *as = in_set ? escapes[i].in_set : escapes[i].alone;
        if (!as) break;
        if (!*as) return refuse(t, in_set ? "an escape inside a set" : "an escape");
        t->at += 2;
        return put_string(t, as);
    }
    if ((letter == 'p' || letter == 'P') && look(t, 2) == '{') return translate_property(t);
    return copy(t, 2);
}

/* A set's named class: [:alpha:]. */
static plim_status translate_posix(translator *t)
{
    const char *end = strstr(t->source + t->at, ":]");
    if (!end) return refuse(t, "[: without :]");
    static const char *const classes[][2] = {
        {"[:space:]", SPACE_SET},
        {"[:word:]", WORD_SET},
        {"[:punct:]", "\\p{P}\\p{S}"},
        {"[:alpha:]", "\\p{Alphabetic}"},
        {"[:alnum:]", "\\p{Alphabetic}\\p{Nd}"},
    };
    if (look(t, 2) == '^') return refuse(t, "a negated class inside a set");
    size_t bytes = (size_t)(end - (t->source + t->at)) + 2;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (!starts(t, classes[i][0])) continue;
        t->at += bytes;
        return put_string(t, classes[i][1]);
    }
    return copy(t, bytes);
}

static plim_status translate_set(translator *t)
{
    t->atom = t->out_bytes;
    TRY(copy(t, 1));
    if (look(t, 0) == '^') TRY(copy(t, 1));
    if (look(t, 0) == ']') TRY(copy(t, 1)); /* the first one is a character */
    for (;;) {
        char b = look(t, 0);
        if (!b) return refuse(t, "a set without its ]");
        if (b == ']') return copy(t, 1);
        if (b == '&' && look(t, 1) == '&') return refuse(t, "an intersection of sets");
        if (b == '[' && look(t, 1) == ':') TRY(translate_posix(t));
        else if (b == '[') return refuse(t, "a set inside a set");
        else if (b == '\\') TRY(translate_escape(t, true));
        else TRY(copy(t, 1));
    }
}

/* The letters of (?imx-imx: or (?imx-imx). */
static plim_status translate_options(translator *t)
{
    size_t start = t->at;
    TRY(put_string(t, "(?"));
    for (t->at += 2; look(t, 0) && strchr("imx-", look(t, 0)); t->at++) {
        char letter = look(t, 0) == 'm' ? 's' : look(t, 0);
        TRY(put(t, &letter, 1));
    }
    if (look(t, 0) == ':') return copy(t, 1);
    if (look(t, 0) != ')') return refuse(t, "an unknown group");
    if (start != 0) return refuse(t, "an option that is not at its start");
    t->depth--; /* not a group */
    t->atom = SIZE_MAX;
    return copy(t, 1);
}

static plim_status open_group(translator *t)
{
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    if (t->depth == DEPTH) return refuse(t, "more groups inside each other than are read");
    if (starts(t, "(?#")) {
        const char *end = strchr(t->source + t->at, ')');
        if (!end) return refuse(t, "a comment without its end");
        t->at = (size_t)(end - t->source) + 1;
        return PLIM_OK;
    }
    t->open[t->depth++] = t->out_bytes;
    t->atom = SIZE_MAX;
    if (look(t, 1) == '*') return refuse(t, "a call-out");
    if (look(t, 1) != '?') return copy(t, 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (starts(t, kinds[i])) return copy(t, strlen(kinds[i]));
    if (look(t, 2) == '<') return copy(t, 3); /* a name */
    return translate_options(t);
}

static plim_status close_group(translator *t)
{
    if (!t->depth) return refuse(t, "a ) too many");
    t->atom = t->open[--t->depth];
    return copy(t, 1);
}

/* What stands in out from t->atom on becomes a group. */
static plim_status wrap_atom(translator *t)
{
    size_t tail = t->out_bytes - t->atom;
    TRY(put_string(t, "(?:)"));
    memmove(t->out + t->atom + 3, t->out + t->atom, tail);
    memcpy(t->out + t->atom, "(?:", 3);
    t->out[t->out_bytes - 1] = ')';
    return PLIM_OK;
}

/* {n}, {n,}, {n,m} or {,m} with what follows it, or a { that is a character. */
static plim_status translate_interval(translator *t)
{
    size_t i = 1, digits = 0;
    bool comma = false, from = isdigit((unsigned char)look(t, 1));
    for (; isdigit((unsigned char)look(t, i)) || (look(t, i) == ',' && !comma); i++) {
        if (look(t, i) == ',') comma = true;
        else digits++;
    }
    if (look(t, i) != '}' || !digits || t->atom == SIZE_MAX) {
        t->atom = t->out_bytes;
        t->at++;
        return put_string(t, "\\{");
    }
    if (from) TRY(copy(t, i + 1));
    else {
        t->at++;
        TRY(put_string(t, "{0"));
        TRY(copy(t, i));
    }
    if (look(t, 0) == '+' || (look(t, 0) == '?' && !comma)) TRY(wrap_atom(t));
    return PLIM_OK;
}

static plim_status translate_next(translator *t)
{
    char b = look(t, 0);
    switch (b) {
    case '\\': t->atom = t->out_bytes; return translate_escape(t, false);
    case '[': return translate_set(t);
    case '(': return open_group(t);
    case ')': return close_group(t);
    case '{': return translate_interval(t);
    case '|':
    case '^': t->atom = SIZE_MAX; return copy(t, 1);
    case '*':
    case '+':
    case '?': return copy(t, 1);
    default: break;
    }
    t->atom = t->out_bytes;
    size_t n = 1;
    while (((unsigned char)look(t, n) & 0xc0) == 0x80) n++;
    return copy(t, n);
}

plim_status plim_pattern_translate(plim_ctx *c, const char *source, char **out)
{
    translator t = {.c = c, .source = source, .bytes = strlen(source), .atom = SIZE_MAX};
    plim_status st = put_string(&t, "");
    while (!st && t.at < t.bytes) st = translate_next(&t);
    if (st) plim_release(c, t.out);
    else *out = t.out;
    return st;
}
