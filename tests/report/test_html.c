/* The page: well-formed, self-contained, escaped, with every card and length and the table's own numbers; and
 * a failure leaves the old file. */
#include "plan/table_support.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "report/html_escape.h"

static const int64_t six[] = {8000, 16000, 32000, 48000, 65535, 300000};
static const char *const two_cards[] = {"h200-141", "a100-80", NULL};

static char *page_of(const table_fixture *x, const char *name)
{
    const char *path = test_path(test_folder(name), "plan.html");
    CHECK_OK(x->f.c, plim_table_html(x->f.c, &x->table, path));
    return test_read(path, NULL);
}

/* ---- a small checker of markup ------------------------------------------------------------------------- */

#define DEPTH 64

typedef struct checker {
    const char *at;
    char open[DEPTH][16];
    int depth;
    char ids[4096]; /* " id id " */
} checker;

static void bad(const checker *k, const char *what)
{
    fail_msg("%s at: %.80s", what, k->at);
}

static void check_entity(checker *k)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&nbsp;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(k->at, known[i], strlen(known[i]))) return;
    bad(k, "a bare &");
}

static void check_id(checker *k, const char *value, size_t len)
{
    char id[80];
    snprintf(id, sizeof id, " %.*s ", (int)len, value);
    if (strstr(k->ids, id)) bad(k, "an id twice");
    strncat(k->ids, id, sizeof k->ids - strlen(k->ids) - 1);
}

/* One attribute: name, or name="value". */
static void check_attribute(checker *k)
{
    const char *name = k->at;
    size_t len = strcspn(name, " =/>\n");
    if (!len) bad(k, "no attribute");
    k->at += len;
    if (*k->at != '=') return;
    if (*++k->at != '"') bad(k, "an attribute without quotes");
    const char *value = ++k->at;
    for (; *k->at && *k->at != '"'; k->at++) {
        if (*k->at == '<') bad(k, "< in an attribute");
        if (*k->at == '&') check_entity(k);
    }
    if (!*k->at) bad(k, "an attribute without an end");
    if (len == 2 && !strncmp(name, "id", 2)) check_id(k, value, (size_t)(k->at - value));
    k->at++;
}

static void check_tag(checker *k)
{
    bool closing = k->at[1] == '/';
    const char *name = k->at + 1 + closing;
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (!len || len > 15) bad(k, "no tag");
    char tag[16];
    memcpy(tag, name, len);
    tag[len] = 0;
    if (closing) {
        if (name[len] != '>') bad(k, "no end of a tag");
        if (k->depth == 0 || strcmp(k->open[k->depth - 1], tag)) bad(k, "closes what is not open");
        k->depth--;
        k->at = name + len + 1;
        return;
    }
    bool empty = !strcmp(tag, "meta") || !strcmp(tag, "br");
    k->at = name + len;
    while (*k->at == ' ' || *k->at == '\n') {
        k->at++;
        check_attribute(k);
    }
    if (*k->at == '/') {
        empty = true;
        k->at++;
    }
    if (*k->at != '>') bad(k, "no end of a tag");
    k->at++;
    if (empty) return;
    if (k->depth == DEPTH) bad(k, "too deep");
    memcpy(k->open[k->depth++], tag, len + 1);
    if (!strcmp(tag, "style")) k->at = strstr(k->at, "</style>");
    assert_non_null(k->at);
}

static void check_well_formed(const char *page)
{
    static const char start[] = "<!DOCTYPE html>\n";
    static checker k;
    k = (checker){.at = page + strlen(start)};
    assert_int_equal(strncmp(page, start, strlen(start)), 0);
    while (*k.at) {
        if (*k.at == '<') {
            check_tag(&k);
            continue;
        }
        if (*k.at == '>') bad(&k, "a bare >");
        if (*k.at == '&') check_entity(&k);
        if ((unsigned char)*k.at < ' ' && *k.at != '\n') bad(&k, "a control character");
        k.at++;
    }
    if (k.depth) fail_msg("<%s> is left open", k.open[k.depth - 1]);
}

/* Nothing is fetched, nothing runs. */
static void check_self_contained(const char *page)
{
    static const char *const loads[] = {"src=",    "url(",     "@import",   "<script", "<link",
                                        "href",    "<img",     "<iframe",   "<object", "<embed",
                                        " onload", " onclick", "@font-face"};
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        if (strstr(page, loads[i])) fail_msg("the page holds %s", loads[i]);
}

static int64_t count(const char *text, const char *word)
{
    int64_t n = 0;
    for (; (text = strstr(text, word)); text += strlen(word)) n++;
    return n;
}

/* Every SVG that is a picture of its own says what it shows. */
static void check_pictures(const char *page, int64_t pictures)
{
    assert_int_equal(count(page, "<svg role=\"img\""), pictures);
    assert_int_equal(count(page, "<desc id="), pictures);
    assert_int_equal(count(page, "<title id="), pictures);
}

static void check_holds(const char *page, const char *fmt, ...) PLIM_PRINTF(2, 3);
static void check_holds(const char *page, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!strstr(page, text)) fail_msg("the page does not hold: %s", text);
}

static void check_names_all(const table_fixture *x, const char *page)
{
    char text[PLIM_NUMBER_BYTES];
    for (int64_t k = 0; k < x->request.card_count; k++)
        check_holds(page, "<tr><th scope=\"row\">%s</th>", x->cards[k]->name);
    for (int64_t s = 0; s < x->request.seq_count; s++)
        check_holds(page, "<th scope=\"col\">%s<br>tokens</th>",
                    plim_format_count(text, x->request.seq_tokens[s]));
}

/* ---- whole pages --------------------------------------------------------------------------------------- */

TEST(ten_cards_and_six_lengths)
{
    UNUSED_STATE;
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, NULL, six, 6);
    char number[PLIM_NUMBER_BYTES];
    x->request.workload.tokens = 3300000;
    x->request.load_line = true;
    x->request.limits.usable_share = 0.68; /* so that all verdicts are seen */
    table_make(x);
    char *page = page_of(x, "html-all");
    check_well_formed(page);
    check_self_contained(page);
    check_pictures(page, 3);
    check_names_all(x, page);
    int64_t seen[3] = {0, 0, 0};
    for (int64_t i = 0; i < 6 * x->request.card_count; i++) {
        const plim_choice *c = &x->table.best[i];
        seen[c->verdict]++;
        check_holds(page, "%s, %s tokens: %.3f of %.3f GiB usable, %.3f GiB pinned on the host\"><b>%.1f</b>",
                    c->card->name, plim_format_thousands(number, c->options.seq_tokens),
                    (double)c->footprint.device_peak.total_bytes / 1073741824.0,
                    (double)c->budget_bytes / 1073741824.0,
                    (double)c->footprint.host_peak.total_bytes / 1073741824.0,
                    (double)c->footprint.device_peak.total_bytes / 1073741824.0);
        check_holds(page, "<td title=\"%zu bytes\">", c->footprint.device_peak.total_bytes);
        if (c->verdict != PLIM_NO)
            check_holds(page, "<td title=\"%.6f USD\"><b>$", c->usd_per_million_tokens);
    }
    assert_true(seen[PLIM_FITS] > 0 && seen[PLIM_TIGHT] > 0 && seen[PLIM_NO] > 0);
    check_holds(page, "\xe2\x9c\x93 fits</small>");
    check_holds(page, "! tight</small>");
    check_holds(page, "\xe2\x9c\x95 no</small>");
    for (size_t i = 0; i < x->table.timeline_count; i++)
        check_holds(page, "<td>%s</td>",
                    plim_format_thousands(number, (int64_t)x->table.timeline[i].device.total_bytes));
    for (int64_t i = 0; i < x->table.run_count; i++)
        check_holds(page, "<td title=\"%.4f to %.4f USD\">", x->table.runs[i].usd, x->table.runs[i].usd_slow);
    for (int64_t k = 0; k < x->request.card_count; k++) {
        check_holds(page, "<code>%s</code>", x->cards[k]->id);
        if (x->table.lines[k].best_tokens)
            check_holds(page, "<td><b>%s</b></td>",
                        plim_format_thousands(number, x->table.lines[k].best_tokens));
    }
    check_holds(page, "prefers-color-scheme:dark");
    free(page);
    table_close(x);
}

TEST(one_card_and_one_length)
{
    UNUSED_STATE;
    static const char *const one[] = {"h200-141", NULL};
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, one, six + 1, 1);
    const char *missing;
    table_make(x);
    char *page = page_of(x, "html-one");
    check_well_formed(page);
    check_self_contained(page);
    check_pictures(page, 3);
    check_names_all(x, page);
    check_holds(page, "<b>16k tokens</b> fit on <b>NVIDIA H200 141 GB SXM</b>");
    if (!plim_card_runnable(x->request.spec, x->cards[0], &missing))
        check_holds(page, "What this version cannot run yet");
    for (int f = 0; f < PLIM_FIGURE_COUNT; f++)
        check_holds(page, ">%s</td>", plim_figure_key((plim_figure)f));
    free(page);
    table_close(x);
}

TEST(nothing_is_carried)
{
    UNUSED_STATE;
    static const char *const small[] = {"rtx-4090-24", NULL};
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, small, six, 2);
    table_make(x);
    assert_null(x->table.focus.card);
    char *page = page_of(x, "html-none");
    check_well_formed(page);
    check_pictures(page, 0);
    check_names_all(x, page);
    check_holds(page, "No card carries any of these lengths");
    free(page);
    table_close(x);
}

/* Sentences of the headline: what is carried less far is said of cards that are alike together. */
TEST(says_who_carries_less)
{
    UNUSED_STATE;
    static const char *const cards[] = {"a100-80", "h200-141", "l40s-48", "rtx-4090-24", NULL};
    static const int64_t lengths[] = {8000, 64000};
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, cards, lengths, 2);
    x->request.limits.usable_share = 0.68;
    table_make(x);
    assert_int_equal(x->table.best[0].verdict, PLIM_FITS); /* the A100 carries 8k and, without margin, 64k */
    assert_int_equal(x->table.best[4].verdict, PLIM_TIGHT);
    char *page = page_of(x, "html-less");
    check_holds(
        page, "NVIDIA A100 80 GB SXM carries up to 8k, and 64k without margin; NVIDIA L40S 48 GB and NVIDIA "
              "GeForce RTX 4090 24 GB carry none of the lengths.</p>");
    free(page);
    table_close(x);
}

TEST(formulas_show_their_rows)
{
    UNUSED_STATE;
    static const plim_trainer trainers[] = {PLIM_TRAINER_NOTE, PLIM_TRAINER_HF};
    for (size_t i = 0; i < 2; i++) {
        table_fixture *x = table_open(trainers[i], NULL, six, 3);
        x->request.workload.tokens = 3300000;
        table_make(x);
        char *page = page_of(x, "html-formula");
        check_well_formed(page);
        check_self_contained(page);
        check_pictures(page, 1);
        check_names_all(x, page);
        for (int64_t row = 0; row < 3 * PLIM_ROWS_A_LENGTH; row++)
            check_holds(page, "<td title=\"%.9f GiB\"><b>%.1f</b></td>", x->table.rows[row].peak_gib,
                        x->table.rows[row].peak_gib);
        assert_null(strstr(page, "Best options"));
        free(page);
        table_close(x);
    }
}

TEST(own_lengths_have_a_table_of_runs)
{
    UNUSED_STATE;
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, two_cards, six, 4);
    plim_workload *w = &x->request.workload;
    w->tokens = 1600000;
    w->lengths = 1;
    w->bucket_tokens[0] = w->longest_tokens = 16000;
    w->bucket_rows[0] = 100;
    table_make(x);
    char *page = page_of(x, "html-runs");
    check_well_formed(page);
    check_holds(page, "One pass over 1,600,000 tokens");
    assert_int_equal(x->table.run_count, 2);
    for (int64_t i = 0; i < 2; i++)
        check_holds(page, "<td title=\"%.4f to %.4f hours\">", x->table.runs[i].hours,
                    x->table.runs[i].hours_slow);
    free(page);
    table_close(x);
}

/* ---- escaping ------------------------------------------------------------------------------------------ */

TEST(escapes_whatever_a_name_holds)
{
    UNUSED_STATE;
    static char name[3000];
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, two_cards, six, 2);
    plim_card card = *x->cards[0];
    snprintf(card.name, sizeof card.name, "A<b>\"card\"&'%s",
             "\xc3\xa9\xff\x01 of a name longer than a narrow window");
    x->cards[0] = &card;
    strcpy(name, "<script>alert(\"1\")</script>&'\xff/");
    memset(name + strlen(name), 'n', 2000);
    x->request.model = name;
    table_make(x);
    char *page = page_of(x, "html-escape");
    check_well_formed(page);
    check_self_contained(page);
    check_holds(page, "<h1>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;\xef\xbf\xbd/nnn");
    check_holds(page,
                "A&lt;b&gt;&quot;card&quot;&amp;&#39;\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd of a name longer");
    assert_null(strstr(page, "<b>\"card"));
    assert_null(strstr(page, "\xff"));
    free(page);
    table_close(x);
}

static char *escaped(plim_ctx *c, const char *text, size_t characters)
{
    const char *path = test_path(test_folder("html-text"), "t");
    plim_writer *w = NULL;
    CHECK_OK(c, plim_writer_open(c, path, &w));
    if (characters) plim_html_clipped(w, text, characters);
    else plim_html_text(w, text);
    CHECK_OK(c, plim_writer_commit(w));
    return test_read(path, NULL);
}

TEST(text_is_escaped_and_clipped)
{
    UNUSED_STATE;
    static const struct {
        const char *text;
        size_t characters;
        const char *want;
    } cases[] = {
        {"", 0, ""},
        {"a&b<c>d\"e'f", 0, "a&amp;b&lt;c&gt;d&quot;e&#39;f"},
        {"\xe2\x82\xac \xf0\x9f\x98\x80", 0, "\xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82", 0,
         "\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"
         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"
         "\xef\xbf\xbd\xef\xbf\xbd"},
        {"tab\tline\nbell\a\x7f", 0, "tab\tline\nbell\xef\xbf\xbd\xef\xbf\xbd"},
        {"abcd", 4, "abcd"},
        {"abcde", 4, "abc\xe2\x80\xa6"},
        {"&\xc3\xa9\xc3\xa9\xc3\xa9", 3, "&amp;\xc3\xa9\xe2\x80\xa6"},
        {"abc", 1, "\xe2\x80\xa6"},
    };
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = escaped(c, cases[i].text, cases[i].characters);
        assert_string_equal(got, cases[i].want);
        free(got);
    }
    test_ctx_close(c);
}

/* ---- failures ------------------------------------------------------------------------------------------ */

typedef struct job {
    const plim_table *t;
    const char *path;
} job;

static plim_status write_page(plim_ctx *c, void *user)
{
    const job *j = user;
    return plim_table_html(c, j->t, j->path);
}

TEST(a_failing_allocation_leaves_the_old_page)
{
    UNUSED_STATE;
    table_fixture *x = table_open(PLIM_TRAINER_NOTE, two_cards, six, 1);
    job j = {&x->table, test_path(test_folder("html-memory"), "plan.html")};
    table_make(x);
    test_write(j.path, "old", 3);
    test_fail_allocation(0);
    CHECK_FAILS(x->f.c, PLIM_E_OOM_HOST, write_page(x->f.c, &j), "");
    test_fail_allocation(-1);
    char *kept = test_read(j.path, NULL);
    assert_string_equal(kept, "old");
    free(kept);
    assert_true(test_every_allocation(x->f.c, write_page, &j) > 0);
    char *page = test_read(j.path, NULL);
    check_well_formed(page);
    free(page);
    table_close(x);
}

/* In a child whose files may grow to 20,000 bytes only: a page of ten cards is longer. */
static int write_on_a_full_disk(const table_fixture *x, const char *path)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {20000, 20000};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(2);
        if (plim_table_html(x->f.c, &x->table, path) != PLIM_E_IO) _exit(3);
        _exit(strstr(plim_ctx_message(x->f.c), path) ? 0 : 4);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) fail_msg("no child");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(a_full_disk_leaves_the_old_page)
{
    UNUSED_STATE;
    table_fixture *x = table_open(PLIM_TRAINER_NOTE, NULL, six, 6);
    const char *folder = test_folder("html-full"), *path = test_path(folder, "plan.html");
    char *listing;
    table_make(x);
    test_write(path, "old", 3);
    assert_int_equal(write_on_a_full_disk(x, path), 0);
    char *kept = test_read(path, NULL);
    assert_string_equal(kept, "old");
    free(kept);
    assert_int_equal(test_command(&listing, "ls -A '%s'", folder), 0);
    assert_string_equal(listing, "plan.html\n"); /* no temporary is left */
    free(listing);
    const char *nowhere = test_path(folder, "none/plan.html");
    CHECK_FAILS(x->f.c, PLIM_E_IO, plim_table_html(x->f.c, &x->table, nowhere), nowhere);
    table_close(x);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(ten_cards_and_six_lengths),
        cmocka_unit_test(one_card_and_one_length),
        cmocka_unit_test(nothing_is_carried),
        cmocka_unit_test(says_who_carries_less),
        cmocka_unit_test(formulas_show_their_rows),
        cmocka_unit_test(own_lengths_have_a_table_of_runs),
        cmocka_unit_test(escapes_whatever_a_name_holds),
        cmocka_unit_test(text_is_escaped_and_clipped),
        cmocka_unit_test(a_failing_allocation_leaves_the_old_page),
        cmocka_unit_test(a_full_disk_leaves_the_old_page),
    };
    return RUN_TESTS(table);
}
