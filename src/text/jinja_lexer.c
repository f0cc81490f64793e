/* jinja_lexer.c - decides where text ends and tags begin, and which white space around tags is kept:
 * trim_blocks takes the line end behind a tag, lstrip_blocks the blanks before one that starts a line, '-'
 * takes all white space, '+' keeps it. */
#include "text/jinja_tree.h"

#include <string.h>

#include "base/utf8.h"

typedef struct lexer {
    plim_jinja *t;
    size_t at, cap;
    bool line_start; /* the tag before ended with a line end, or there was none */
    char open[512];  /* brackets that wait for their partner */
    size_t open_count;
} lexer;

static plim_status push(lexer *l, plim_jtoken token)
{
    plim_jinja *t = l->t;
    if (t->token_count == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        plim_jtoken *more = NULL;
        TRY(plim_pool_take(&t->pool, cap, sizeof *more, &more));
        if (t->token_count) memcpy(more, t->tokens, t->token_count * sizeof *more);
        t->tokens = more;
        l->cap = cap;
    }
    t->tokens[t->token_count++] = token;
    return PLIM_OK;
}

static bool starts(const lexer *l, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at <= l->t->bytes && l->t->bytes - at >= n && memcmp(l->t->source + at, word, n) == 0;
}

static size_t skip_space(const lexer *l, size_t at)
{
    size_t n = 0;
    while (at < l->t->bytes && plim_jinja_space(plim_utf8_decode(l->t->source + at, l->t->bytes - at, &n)))
        at += n;
    return at;
}

/* The end of text[from .. to) without white space at its end. */
static size_t strip_right(const lexer *l, size_t from, size_t to)
{
    while (to > from) {
        size_t n = 0, last = to - 1;
        while (last > from && ((unsigned char)l->t->source[last] & 0xc0) == 0x80) last--;
        if (!plim_jinja_space(plim_utf8_decode(l->t->source + last, to - last, &n))) break;
        to = last;
    }
    return to;
}

/* Text from .. to stands before a tag with this sign; a tag that prints never takes the blanks before it. */
static plim_status data(lexer *l, size_t from, size_t to, char sign, bool prints)
{
    if (sign == '-') to = strip_right(l, from, to);
    else if (sign != '+' && !prints) {
        size_t line = to;
        while (line > from && l->t->source[line - 1] != '\n') line--;
        if ((line > from || l->line_start) && strip_right(l, line, to) == line) to = line;
    }
    if (to == from) return PLIM_OK;
    return push(
        l, (plim_jtoken){.type = PLIM_JT_DATA, .at = from, .text = l->t->source + from, .bytes = to - from});
}

/* Behind a tag's end at byte at: what its sign and trim_blocks take. */
static size_t behind(lexer *l, size_t at, bool strip, bool trim)
{
    if (strip) at = skip_space(l, at);
    else if (trim && at < l->t->bytes && l->t->source[at] == '\n') at++;
    return at;
}

/* A tag ends at byte at, its characters and what it took end at l->at. */
static void closed(lexer *l)
{
    l->line_start = l->at > 0 && l->t->source[l->at - 1] == '\n';
}

static char sign_at(const lexer *l, size_t at)
{
    return starts(l, at, "-") ? '-' : starts(l, at, "+") ? '+' : 0;
}

/* Whether "{%" at byte at opens or closes a raw block; *end: behind its "%}", *strip: "-%}". */
static bool raw_tag(const lexer *l, size_t at, const char *word, size_t *end, bool *strip, bool *plus)
{
    if (!starts(l, at, "{%")) return false;
    at += 2;
    if (sign_at(l, at)) at++;
    at = skip_space(l, at);
    if (!starts(l, at, word)) return false;
    at = skip_space(l, at + strlen(word));
    *strip = starts(l, at, "-");
    *plus = starts(l, at, "+");
    if (*strip || *plus) at++;
    if (!starts(l, at, "%}")) return false;
    *end = at + 2;
    return true;
}

static plim_status raw(lexer *l, size_t begin, size_t end, bool strip)
{
    bool plus = false;
    l->at = behind(l, end, strip, false);
    l->line_start = l->t->source[l->at - 1] == '\n';
    for (size_t at = l->at; at < l->t->bytes; at++) {
        if (!raw_tag(l, at, "endraw", &end, &strip, &plus)) continue;
        TRY(data(l, l->at, at, sign_at(l, at + 2), false));
        l->at = behind(l, end, strip, !plus);
        closed(l);
        return PLIM_OK;
    }
    return plim_jinja_fail(l->t->ctx, l->t, begin, PLIM_E_FORMAT,
                           "Missing end of raw directive: {%% endraw %%}");
}

static plim_status comment(lexer *l, size_t begin, char sign)
{
    size_t body = begin + 2 + (sign != 0);
    const char *end = memmem(l->t->source + body, l->t->bytes - body, "#}", 2);
    if (!end) return plim_jinja_fail(l->t->ctx, l->t, begin, PLIM_E_FORMAT, "Missing end of comment tag: #}");
    size_t at = (size_t)(end - l->t->source);
    char last = at > body ? l->t->source[at - 1] : 0;
    l->at = behind(l, at + 2, last == '-', last != '+');
    closed(l);
    return PLIM_OK;
}

/* ---- inside a tag -------------------------------------------------------------------------------------- */

static plim_status string(lexer *l)
{
    size_t from = l->at + 1, end = from;
    char quote = l->t->source[l->at];
    plim_jtoken token = {.type = PLIM_JT_STRING, .at = from};
    while (end < l->t->bytes && l->t->source[end] != quote) end += l->t->source[end] == '\\' ? 2 : 1;
    if (end >= l->t->bytes)
        return plim_jinja_fail(l->t->ctx, l->t, l->at, PLIM_E_FORMAT,
                               "this string is not closed; it wants a %c", quote);
    TRY(plim_jinja_unescape(l->t, from, end - from, &token.text, &token.bytes));
    l->at = end + 1;
    return push(l, token);
}

static bool name_byte(char b)
{
    return (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') || b == '_' ||
           (unsigned char)b >= 0x80;
}

static plim_status bracket(lexer *l, char b)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *close = strchr(closing, b);
    if (strchr(opening, b)) {
        if (l->open_count == sizeof l->open)
            return plim_jinja_fail(l->t->ctx, l->t, l->at, PLIM_E_RANGE,
                                   "more than %zu brackets inside each other", sizeof l->open);
        l->open[l->open_count++] = closing[strchr(opening, b) - opening];
    } else if (close) {
        if (!l->open_count)
            return plim_jinja_fail(l->t->ctx, l->t, l->at, PLIM_E_FORMAT, "unexpected '%c'", b);
        if (l->open[--l->open_count] != b)
            return plim_jinja_fail(l->t->ctx, l->t, l->at, PLIM_E_FORMAT, "unexpected '%c', expected '%c'", b,
                                   l->open[l->open_count]);
    }
    return PLIM_OK;
}

static plim_status operator(lexer *l)
{
    static const char *const pairs[] = {"//", "**", "==", "!=", ">=", "<="};
    char b = l->t->source[l->at];
    plim_jtoken token = {.type = PLIM_JT_OPERATOR, .at = l->at, .op = PLIM_JOP(b, 0)};
    size_t n = 1;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (starts(l, l->at, pairs[i])) {
            token.op = PLIM_JOP(pairs[i][0], pairs[i][1]);
            n = 2;
        }
    if (n == 1 && (!b || !strchr("+-/*%~[](){}><=.:|,;", b)))
        return plim_jinja_fail(l->t->ctx, l->t, l->at, PLIM_E_FORMAT, "unexpected character '%.1s' in a tag",
                               (b > 0x20 && b < 0x7f) ? l->t->source + l->at : "?");
    if (n == 1) TRY(bracket(l, b));
    l->at += n;
    return push(l, token);
}

static plim_status word(lexer *l)
{
    size_t from = l->at;
    while (l->at < l->t->bytes && name_byte(l->t->source[l->at])) l->at++;
    return push(l, (plim_jtoken){
                       .type = PLIM_JT_NAME, .at = from, .text = l->t->source + from, .bytes = l->at - from});
}

static plim_status tag(lexer *l, size_t begin, bool prints)
{
    const char *end = prints ? "}}" : "%}";
    l->open_count = 0;
    TRY(push(l, (plim_jtoken){.type = prints ? PLIM_JT_PRINT_BEGIN : PLIM_JT_BLOCK_BEGIN, .at = begin}));
    for (;;) {
        l->at = skip_space(l, l->at);
        if (l->at >= l->t->bytes)
            return plim_jinja_fail(l->t->ctx, l->t, begin, PLIM_E_FORMAT,
                                   "unexpected end of template: no '%s' for this tag", end);
        char b = l->t->source[l->at], sign = l->open_count ? 0 : sign_at(l, l->at);
        if (prints && sign == '+') sign = 0;
        if (!l->open_count && starts(l, l->at + (sign != 0), end)) {
            TRY(push(l, (plim_jtoken){.type = prints ? PLIM_JT_PRINT_END : PLIM_JT_BLOCK_END, .at = l->at}));
            l->at = behind(l, l->at + (sign != 0) + 2, sign == '-', !prints && sign != '+');
            closed(l);
            return PLIM_OK;
        }
        if (b >= '0' && b <= '9') {
            plim_jtoken number = {0};
            bool after_dot = l->at > 0 && l->t->source[l->at - 1] == '.';
            TRY(plim_jinja_number(l->t, &l->at, after_dot, &number));
            TRY(push(l, number));
        } else if (name_byte(b)) TRY(word(l));
        else if (b == '\'' || b == '"') TRY(string(l));
        else TRY(operator(l));
    }
}

static plim_status lex(lexer *l)
{
    plim_jinja *t = l->t;
    size_t from = 0;
    while (l->at < t->bytes) {
        const char *brace = memchr(t->source + l->at, '{', t->bytes - l->at);
        size_t at = brace ? (size_t)(brace - t->source) : t->bytes, end = 0;
        char kind = at + 1 < t->bytes ? t->source[at + 1] : 0;
        bool strip = false, plus = false;
        if (brace && kind != '{' && kind != '%' && kind != '#') {
            l->at = at + 1;
            continue;
        }
        if (!brace) break;
        char sign = sign_at(l, at + 2);
        TRY(data(l, from, at, sign, kind == '{'));
        if (kind == '%' && raw_tag(l, at, "raw", &end, &strip, &plus) && !plus) TRY(raw(l, at, end, strip));
        else if (kind == '#') TRY(comment(l, at, sign));
        else {
            l->at = at + 2 + (sign != 0);
            TRY(tag(l, at, kind == '{'));
        }
        from = l->at;
    }
    if (from < t->bytes)
        TRY(push(l,
                 (plim_jtoken){
                     .type = PLIM_JT_DATA, .at = from, .text = t->source + from, .bytes = t->bytes - from}));
    return push(l, (plim_jtoken){.type = PLIM_JT_END, .at = t->bytes});
}

plim_status plim_jinja_lex(plim_jinja *t)
{
    lexer l = {.t = t, .line_start = true};
    for (size_t i = 0; i < t->bytes;) {
        size_t n = plim_utf8_length(t->source + i); /* zero-terminated */
        if (!n || !t->source[i])
            return plim_jinja_fail(t->ctx, t, i, PLIM_E_FORMAT, "byte 0x%02X is not UTF-8 text",
                                   (unsigned char)t->source[i]);
        i += n;
    }
    return lex(&l);
}
