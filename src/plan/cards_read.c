/* cards_read.c - a card file into a set of cards: every key known, every figure in range. */
#include "plan/cards.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"

#define CAP_BYTES  ((size_t)4 << 20)
#define PATH_BYTES 128

static const char *const bases[] = {
#define BASIS(name, text) text,
    PLIM_BASIS_MAP(BASIS)
#undef BASIS
};

const char *plim_basis_name(plim_basis b)
{
    return (unsigned)b < PLIM_BASIS_COUNT ? bases[b] : "?";
}

static const char *const figures[] = {
#define FIGURE(name, field, type, min, max, optional) #field,
    PLIM_FIGURE_MAP(FIGURE)
#undef FIGURE
};

const char *plim_figure_key(plim_figure f)
{
    return (unsigned)f < PLIM_FIGURE_COUNT ? figures[f] : "?";
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static plim_status copy_text(const plim_json *j, const char *path, const char *text, char *out, size_t cap)
{
    size_t len = strlen(text);
    if (len == 0 || len >= cap)
        return plim_json_fail(j, path, PLIM_E_RANGE, "must have 1 to %zu bytes, has %zu", cap - 1, len);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return plim_json_fail(j, path, PLIM_E_FORMAT, "holds the control character 0x%02x",
                                  (unsigned)(unsigned char)text[i]);
    memcpy(out, text, len + 1);
    return PLIM_OK;
}

static plim_status copy_name(const plim_json *j, const char *path, const char *text,
                             char out[PLIM_CARD_NAME_BYTES])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    if (text[strspn(text, allowed)])
        return plim_json_fail(j, path, PLIM_E_FORMAT, "must be letters, digits, '-', '_' and '.'");
    return copy_text(j, path, text, out, PLIM_CARD_NAME_BYTES);
}

/* Refuses a member that is not in keys (a list that ends with NULL). */
static plim_status check_keys(const plim_json *j, const json_t *obj, const char *path,
                              const char *const *keys, const char *hint)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, key, value)
    {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key)) i++;
        if (keys[i]) continue;
        char at[2 * PATH_BYTES];
        snprintf(at, sizeof at, "%s%s%.60s", path, *path ? "." : "", key);
        return plim_json_fail(j, at, PLIM_E_FORMAT, "the key \"%.60s\" is unknown; %s", key, hint);
    }
    return PLIM_OK;
}

/* ---- a figure ------------------------------------------------------------------------------------------ */

static bool is_date(const char *s)
{
    static const char pattern[] = "dddd-dd-dd";
    size_t len = strlen(s);
    if (len != 7 && len != 10) return false;
    for (size_t i = 0; i < len; i++)
        if (pattern[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != '-') return false;
    return true;
}

static plim_status read_source(const plim_json *j, const json_t *obj, const char *path,
                               plim_figure_source *out)
{
    static const char *const keys[] = {"value", "basis", "source", "date", NULL};
    const char *basis, *source, *date;
    char at[PATH_BYTES + 16];
    TRY(check_keys(j, obj, path, keys, "a figure has value, basis, source and date"));
    TRY(plim_json_string(j, obj, path, "basis", &basis));
    TRY(plim_json_string(j, obj, path, "source", &source));
    TRY(plim_json_string(j, obj, path, "date", &date));
    int b = 0;
    while (b < PLIM_BASIS_COUNT && strcmp(bases[b], basis)) b++;
    snprintf(at, sizeof at, "%s.basis", path);
    if (b == PLIM_BASIS_COUNT)
        return plim_json_fail(
            j, at, PLIM_E_FORMAT,
            "is \"%.40s\"; given, measured, reported, datasheet, listed, note or estimate is accepted",
            basis);
    snprintf(at, sizeof at, "%s.source", path);
    TRY(copy_text(j, at, source, out->source, sizeof out->source));
    snprintf(at, sizeof at, "%s.date", path);
    if (!is_date(date))
        return plim_json_fail(j, at, PLIM_E_FORMAT, "is \"%.20s\"; \"2026-12\" or \"2026-12-01\" is accepted",
                              date);
    TRY(copy_text(j, at, date, out->date, sizeof out->date));
    out->basis = (plim_basis)b;
    return PLIM_OK;
}

/* Finds figure f of a card: a bare number, or an object whose "value" it is.  *holder NULL: not given. */
static plim_status open_figure(const plim_json *j, const json_t *obj, const char *path, plim_figure f,
                               char at[PATH_BYTES], const json_t **holder, const char **key, plim_card *card)
{
    const json_t *v = json_object_get(obj, figures[f]);
    *holder = NULL;
    if (!v || json_is_null(v)) return PLIM_OK;
    card->given |= PLIM_CARD_GAVE_FIGURE(f);
    *holder = obj;
    *key = figures[f];
    snprintf(at, PATH_BYTES, "%s", path);
    if (!json_is_object(v)) return PLIM_OK;
    snprintf(at, PATH_BYTES, "%s.%s", path, figures[f]);
    *holder = v;
    *key = "value";
    return read_source(j, v, at, &card->source[f]);
}

/* One reader a type, chosen by the figure's C type. */
static plim_status read_double(const plim_json *j, const json_t *obj, const char *path, const char *key,
                               double min, double max, double *out)
{
    return plim_json_double(j, obj, path, key, min, max, out);
}

static plim_status read_int64_t(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                int64_t min, int64_t max, int64_t *out)
{
    return plim_json_i64(j, obj, path, key, min, max, out);
}

static plim_status read_figures(const plim_json *j, const json_t *obj, const char *path, plim_card *card)
{
    char at[PATH_BYTES];
    const json_t *holder;
    const char *key;
#define READ(name, field, type, min, max, optional)                                                          \
    TRY(open_figure(j, obj, path, PLIM_FIGURE_##name, at, &holder, &key, card));                             \
    if (holder) TRY(read_##type(j, holder, at, key, (min), (max), &card->field));
    PLIM_FIGURE_MAP(READ)
#undef READ
    return PLIM_OK;
}

/* ---- a card -------------------------------------------------------------------------------------------- */

static plim_status read_aliases(const plim_json *j, const json_t *obj, const char *path, plim_card *card)
{
    const json_t *list = NULL;
    char at[PATH_BYTES], item[PATH_BYTES + 16];
    TRY(plim_json_array_opt(j, obj, path, "aliases", &list));
    if (!list) return PLIM_OK;
    snprintf(at, sizeof at, "%s.aliases", path);
    size_t n = json_array_size(list);
    if (n > PLIM_CARD_MAX_ALIASES)
        return plim_json_fail(j, at, PLIM_E_RANGE, "has %zu names; at most %d are accepted", n,
                              PLIM_CARD_MAX_ALIASES);
    for (size_t i = 0; i < n; i++) {
        const char *text;
        TRY(plim_json_at_string(j, list, at, i, &text));
        snprintf(item, sizeof item, "%s[%zu]", at, i);
        TRY(copy_name(j, item, text, card->alias[i]));
    }
    card->aliases = (int32_t)n;
    card->given |= PLIM_CARD_GAVE_ALIASES;
    return PLIM_OK;
}

static plim_status read_capability(const plim_json *j, const char *path, const char *text, plim_card *card)
{
    char at[PATH_BYTES];
    const char *dot = strchr(text, '.');
    snprintf(at, sizeof at, "%s.compute_capability", path);
    size_t major = dot ? (size_t)(dot - text) : 0;
    if (!dot || major < 1 || major > 2 || strspn(text, "0123456789") != major || strlen(dot) != 2 ||
        dot[1] < '0' || dot[1] > '9')
        return plim_json_fail(j, at, PLIM_E_FORMAT, "is \"%.20s\"; \"9.0\" is the form", text);
    for (const char *p = text; p < dot; p++)
        card->capability_major = card->capability_major * 10 + (*p - '0');
    card->capability_minor = dot[1] - '0';
    if (card->capability_major < 8)
        return plim_json_fail(j, at, PLIM_E_UNSUPPORTED, "is %s; bf16 tensor cores need 8.0 or newer", text);
    card->given |= PLIM_CARD_GAVE_CAPABILITY;
    return PLIM_OK;
}

static plim_status read_attention(const plim_json *j, const char *path, const char *text, plim_card *card)
{
    char at[PATH_BYTES];
    snprintf(at, sizeof at, "%s.attention_kernel", path);
    bool cudnn = strcmp(text, "cudnn") == 0;
    if (!cudnn && strcmp(text, "own"))
        return plim_json_fail(j, at, PLIM_E_FORMAT, "is \"%.40s\"; \"cudnn\" or \"own\" is accepted", text);
    card->attention = cudnn ? PLIM_ATTENTION_CUDNN : PLIM_ATTENTION_OWN;
    card->given |= PLIM_CARD_GAVE_ATTENTION;
    return PLIM_OK;
}

static plim_status read_card(const plim_json *j, const json_t *obj, const char *path, plim_card *card)
{
    static const char *const keys[] = {"id",
                                       "name",
                                       "aliases",
                                       "cards",
                                       "compute_capability",
                                       "attention_kernel",
#define KEY(name, field, type, min, max, optional) #field,
                                       PLIM_FIGURE_MAP(KEY)
#undef KEY
                                           NULL};
    char at[PATH_BYTES];
    const char *id, *name = NULL, *capability = NULL, *attention = NULL;
    int64_t cards = 0;
    TRY(check_keys(j, obj, path, keys, "docs/cards.md lists the keys of a card"));
    TRY(plim_json_string(j, obj, path, "id", &id));
    snprintf(at, sizeof at, "%s.id", path);
    TRY(copy_name(j, at, id, card->id));
    TRY(plim_json_string_opt(j, obj, path, "name", &name));
    snprintf(at, sizeof at, "%s.name", path);
    if (name) {
        TRY(copy_text(j, at, name, card->name, sizeof card->name));
        card->given |= PLIM_CARD_GAVE_NAME;
    }
    TRY(plim_json_i64_opt(j, obj, path, "cards", 1, 1024, &cards));
    card->cards = (int32_t)cards;
    if (cards) card->given |= PLIM_CARD_GAVE_CARDS;
    TRY(plim_json_string_opt(j, obj, path, "compute_capability", &capability));
    if (capability) TRY(read_capability(j, path, capability, card));
    TRY(plim_json_string_opt(j, obj, path, "attention_kernel", &attention));
    if (attention) TRY(read_attention(j, path, attention, card));
    TRY(read_aliases(j, obj, path, card));
    TRY(read_figures(j, obj, path, card));
    return plim_card_check(j->ctx, j->name, card);
}

/* ---- a file -------------------------------------------------------------------------------------------- */

static plim_status read_cards(const plim_json *j, plim_cards *cards)
{
    static const char *const keys[] = {"about", "format", "cards", NULL};
    const json_t *list;
    int64_t format = 0;
    if (!json_is_object(j->root))
        return plim_json_fail(j, "", PLIM_E_FORMAT, "must be an object that holds \"cards\"");
    TRY(check_keys(j, j->root, "", keys, "a card file has about, format and cards"));
    TRY(plim_json_i64(j, j->root, "", "format", 1, 1, &format));
    TRY(plim_json_array(j, j->root, "", "cards", &list));
    size_t n = json_array_size(list);
    if (n == 0 || n > PLIM_CARD_MAX)
        return plim_json_fail(j, "cards", PLIM_E_RANGE, "has %zu cards; 1 to %d are accepted", n,
                              PLIM_CARD_MAX);
    TRY(plim_alloc(j->ctx, n, sizeof *cards->card, "cards", &cards->card));
    for (size_t i = 0; i < n; i++) {
        const json_t *obj;
        char path[32];
        TRY(plim_json_at_object(j, list, "cards", i, &obj));
        snprintf(path, sizeof path, "cards[%zu]", i);
        TRY(read_card(j, obj, path, &cards->card[i]));
        cards->count++;
    }
    return plim_cards_check_names(j->ctx, j->name, cards);
}

plim_status plim_cards_parse(plim_ctx *c, const char *name, const char *text, size_t bytes, plim_cards *out)
{
    plim_json j = {0};
    plim_cards cards = {0};
    TRY(plim_json_parse(c, name, text, bytes, CAP_BYTES, &j));
    plim_status st = read_cards(&j, &cards);
    plim_json_close(&j);
    if (st) plim_cards_close(c, &cards);
    else *out = cards;
    return st;
}

plim_status plim_cards_load(plim_ctx *c, const char *path, plim_cards *out)
{
    plim_file f = {0};
    TRY(plim_file_map(c, path, &f));
    plim_status st = plim_cards_parse(c, path, f.data, f.bytes, out);
    plim_file_unmap(&f);
    return st;
}
