/* Texts to byte samples: what a document is, cutting, the validation share, refusals, bounded memory. */
#include "support/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "data/bytes.h"
#include "formats/samples.h"

static int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

/* One text in a folder of its own, and where its samples go. */
typedef struct fixture {
    plim_ctx *c;
    const char *folder, *input, *inputs[1];
    plim_bytes_config g;
    plim_bytes_result r;
} fixture;

static void set_up(fixture *f, const char *name)
{
    *f = (fixture){.c = test_ctx_open(), .folder = test_folder(name)};
    f->input = f->inputs[0] = test_path(f->folder, "in.txt");
    f->g = (plim_bytes_config){.inputs = f->inputs,
                               .input_count = 1,
                               .out = test_path(f->folder, "out.safetensors"),
                               .val_out = test_path(f->folder, "val.safetensors")};
}

static plim_status convert(fixture *f, const char *text)
{
    test_write(f->input, text, strlen(text));
    return plim_bytes_write(f->c, &f->g, &f->r);
}

/* The documents of a samples file as one text: '$' for an end, '|' after each; checks weights and files. */
static void show(fixture *f, const char *path, char *out, size_t cap)
{
    plim_samples s = {0};
    size_t n = 0;
    CHECK_OK(f->c, plim_samples_open(f->c, path, &s));
    for (int64_t i = 0; i < s.documents; i++) {
        for (int64_t k = s.doc_offsets[i]; k < s.doc_offsets[i + 1] && n + 2 < cap; k++) {
            out[n++] = s.tokens[k] == PLIM_BYTES_END ? '$' : (char)s.tokens[k];
            assert_true(s.loss_weights[k] == (k == s.doc_offsets[i] ? 0.0f : 1.0f));
        }
        out[n++] = '|';
        assert_int_equal(s.class_ids[i], 0);
    }
    assert_true(n < cap);
    out[n] = 0;
    plim_samples_close(&s);
}

TEST(what_a_document_is)
{
    UNUSED_STATE;
    static const struct {
        plim_documents documents;
        bool no_end;
        const char *text, *want;
        int64_t lines[4];
    } cases[] = {
        {PLIM_DOCUMENTS_FILES, false, "ab\n\ncd\n", "ab\n\ncd\n$|", {1}},
        {PLIM_DOCUMENTS_FILES, false, "ab", "ab$|", {1}},
        {PLIM_DOCUMENTS_FILES, true, "ab", "ab|", {1}},
        {PLIM_DOCUMENTS_FILES, false, "\xef\xbb\xbf\r\n a\r\n", "\n a\n$|", {1}},
        {PLIM_DOCUMENTS_LINES, false, "ab\n\n cd \nx", "ab$| cd $|x$|", {1, 3, 4}},
        {PLIM_DOCUMENTS_LINES, false, "ab\r\n \t\r\ncd\r\n", "ab$|cd$|", {1, 3}},
        {PLIM_DOCUMENTS_LINES, true, "ab\nx\ncd", "ab|cd|", {1, 3}}, /* x is alone */
        {PLIM_DOCUMENTS_PARAGRAPHS, false, "ab\ncd\n\n\nef\n", "ab\ncd$|ef$|", {1, 5}},
        {PLIM_DOCUMENTS_PARAGRAPHS, false, "\n \nab\n \t \n\ncd", "ab$|cd$|", {3, 6}},
        {PLIM_DOCUMENTS_PARAGRAPHS, false, "ab\r\ncd\r\n\r\nef\r\n\r\n", "ab\ncd$|ef$|", {1, 4}},
        {PLIM_DOCUMENTS_PARAGRAPHS, false, "ab\n  cd", "ab\n  cd$|", {1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        char got[64];
        plim_samples s = {0};
        set_up(&f, "bytes_documents");
        f.g.documents = cases[i].documents;
        f.g.no_end = cases[i].no_end;
        CHECK_OK(f.c, convert(&f, cases[i].text));
        show(&f, f.g.out, got, sizeof got);
        assert_string_equal(got, cases[i].want);
        CHECK_OK(f.c, plim_samples_open(f.c, f.g.out, &s));
        assert_int_equal(f.r.train.rows, s.documents);
        assert_int_equal(f.r.documents, s.documents + f.r.alone);
        for (int64_t k = 0; k < s.documents; k++) assert_int_equal(s.source[2 * k + 1], cases[i].lines[k]);
        plim_samples_close(&s);
        assert_int_equal(entries(f.folder), 2); /* no validation file */
        test_ctx_close(f.c);
    }
}

TEST(what_becomes_of_long_ones)
{
    UNUSED_STATE;
    static const struct {
        plim_over over;
        int64_t max_tokens;
        bool no_end;
        const char *text, *want;
        int64_t cut, dropped;
    } cases[] = {
        {PLIM_OVER_SPLIT, 4, false, "abcdefg", "abcd|defg|g$|", 1, 0},
        {PLIM_OVER_SPLIT, 4, true, "abcdefg", "abcd|defg|", 1, 0},
        {PLIM_OVER_SPLIT, 4, true, "abcdefgh", "abcd|defg|gh|", 1, 0},
        {PLIM_OVER_SPLIT, 2, false, "abc", "ab|bc|c$|", 1, 0},
        {PLIM_OVER_SPLIT, 4, false, "abc", "abc$|", 0, 0}, /* just fits */
        {PLIM_OVER_SPLIT, 4, false, "abcd\nxy\nklmno", "abcd|d$|xy$|klmn|no$|", 2, 0},
        {PLIM_OVER_TRUNCATE, 4, false, "abcd\nxy\nklmno", "abcd|xy$|klmn|", 2, 0},
        {PLIM_OVER_DROP, 4, false, "abcd\nxyz\nklmno", "xyz$|", 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        char got[64];
        set_up(&f, "bytes_over");
        f.g.documents = PLIM_DOCUMENTS_LINES;
        f.g.over = cases[i].over;
        f.g.max_tokens = cases[i].max_tokens;
        f.g.no_end = cases[i].no_end;
        CHECK_OK(f.c, convert(&f, cases[i].text));
        show(&f, f.g.out, got, sizeof got);
        assert_string_equal(got, cases[i].want);
        assert_int_equal(f.r.cut, cases[i].cut);
        assert_int_equal(f.r.dropped, cases[i].dropped);
        test_ctx_close(f.c);
    }
}

/* Pieces longer than a block of tokens and than the window, put together again, are the text. */
TEST(pieces_are_the_text)
{
    UNUSED_STATE;
    static const int64_t limits[] = {0, 4095, 4096, 4097, 8192, 1 << 20, 3000000};
    enum { BYTES = 2500000 };
    fixture f;
    set_up(&f, "bytes_pieces");
    char *text = malloc(BYTES + 1);
    assert_non_null(text);
    for (size_t i = 0; i < BYTES; i++) text[i] = (char)('!' + (i * 2654435761u >> 7) % 90);
    text[BYTES] = 0;
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        plim_samples s = {0};
        f.g.max_tokens = limits[l];
        CHECK_OK(f.c, convert(&f, text));
        CHECK_OK(f.c, plim_samples_open(f.c, f.g.out, &s));
        int64_t at = 0;
        for (int64_t i = 0; i < s.documents; i++) {
            for (int64_t k = s.doc_offsets[i]; k < s.doc_offsets[i + 1]; k++, at++) {
                int want = at < BYTES ? text[at] : PLIM_BYTES_END;
                if (s.tokens[k] != want)
                    fail_msg("limit %lld, byte %lld", (long long)limits[l], (long long)at);
            }
            at--; /* the next piece opens with the last token */
        }
        assert_int_equal(at, BYTES);
        assert_int_equal(s.labelled_tokens, BYTES); /* each once, but the first, and the end */
        plim_samples_close(&s);
    }
    free(text);
    test_ctx_close(f.c);
}

TEST(shares_by_content)
{
    UNUSED_STATE;
    enum { DOCUMENTS = 2000 };
    fixture f;
    set_up(&f, "bytes_shares");
    char *text = calloc(1, DOCUMENTS * 16), *back = calloc(1, DOCUMENTS * 16), *train[2], *val[2];
    assert_true(text && back);
    for (int i = 0; i < 2; i++) {
        train[i] = calloc(1, DOCUMENTS * 16);
        val[i] = calloc(1, DOCUMENTS * 16);
        assert_true(train[i] && val[i]);
    }
    for (int i = 0; i < DOCUMENTS; i++) {
        sprintf(text + strlen(text), "line %d\n", i);
        sprintf(back + strlen(back), "line %d\n", DOCUMENTS - 1 - i);
    }
    f.g.documents = PLIM_DOCUMENTS_LINES;
    f.g.val_share = 0.1;
    CHECK_OK(f.c, convert(&f, text));
    assert_int_equal(f.r.train.rows + f.r.validation.rows, DOCUMENTS);
    /* 200 expected, deviation sqrt(2000 x 0.1 x 0.9) = 13.4: five of them */
    assert_in_range(f.r.validation.rows, 133, 267);
    show(&f, f.g.out, train[0], DOCUMENTS * 16);
    show(&f, f.g.val_out, val[0], DOCUMENTS * 16);
    CHECK_OK(f.c, convert(&f, back)); /* another order, the same choice */
    show(&f, f.g.val_out, val[1], DOCUMENTS * 16);
    for (char *at = val[1], *end; (end = strchr(at, '|')); at = end + 1) {
        char line[32];
        snprintf(line, sizeof line, "%.*s", (int)(end - at + 1), at);
        assert_non_null(strstr(val[0], line));
    }
    assert_int_equal(strlen(val[0]), strlen(val[1]));
    f.g.seed = 1;
    CHECK_OK(f.c, convert(&f, text));
    show(&f, f.g.val_out, val[1], DOCUMENTS * 16);
    assert_string_not_equal(val[0], val[1]);
    CHECK_OK(f.c, convert(&f, text)); /* and the same again */
    show(&f, f.g.val_out, train[1], DOCUMENTS * 16);
    assert_string_equal(val[1], train[1]);
    for (int i = 0; i < 2; i++) {
        free(train[i]);
        free(val[i]);
    }
    free(text);
    free(back);
    test_ctx_close(f.c);
}

TEST(refuses_and_leaves_all_as_it_was)
{
    UNUSED_STATE;
    fixture f;
    set_up(&f, "bytes_refuse");
    const char *in = f.input;
    CHECK_FAILS(f.c, PLIM_E_FORMAT, convert(&f, ""), in, "is empty");
    CHECK_FAILS(f.c, PLIM_E_FORMAT, convert(&f, " \r\n\t\n"), in, "blanks alone");
    CHECK_FAILS(f.c, PLIM_E_FORMAT, convert(&f, "\xef\xbb\xbf"), in, "blanks alone");
    CHECK_FAILS(f.c, PLIM_E_FORMAT, convert(&f, "ab\nc\xff"), in, ":2: byte 2 of the line (0xff, byte 5");
    f.g.over = PLIM_OVER_ERROR;
    f.g.max_tokens = 3;
    f.g.documents = PLIM_DOCUMENTS_LINES;
    CHECK_FAILS(f.c, PLIM_E_RANGE, convert(&f, "ab\nabc\n"), in, ":2: a document of 4 tokens", "at most 3");
    f.g.over = PLIM_OVER_DROP;
    CHECK_FAILS(f.c, PLIM_E_RANGE, convert(&f, "abc\nabc\n"), "none of 2 documents", "2 too long");
    f.g.no_end = true;
    CHECK_FAILS(f.c, PLIM_E_RANGE, convert(&f, "a\n"), "none of 1 documents", "1 of a single token");
    f.g.val_share = 0.5;
    CHECK_FAILS(f.c, PLIM_E_RANGE, convert(&f, "ab\n"), "share of 0.5 leaves it none of 1");
    f.g.max_tokens = 1;
    CHECK_FAILS(f.c, PLIM_E_RANGE, convert(&f, "ab\n"), "a limit of 1 tokens");
    f.g.max_tokens = -1;
    CHECK_FAILS(f.c, PLIM_E_RANGE, convert(&f, "ab\n"), "a limit of -1 tokens");
    f.g.max_tokens = 0;
    f.g.val_share = 1;
    CHECK_FAILS(f.c, PLIM_E_RANGE, convert(&f, "ab\n"), "share of 1");
    f.g.val_share = -0.1;
    CHECK_FAILS(f.c, PLIM_E_RANGE, convert(&f, "ab\n"), "share of -0.1");
    f.g.val_share = 0.5;
    const char *val = f.g.val_out;
    f.g.val_out = NULL;
    CHECK_FAILS(f.c, PLIM_E_USAGE, convert(&f, "ab\n"), "file of its own");
    f.g.val_out = f.g.out;
    CHECK_FAILS(f.c, PLIM_E_USAGE, convert(&f, "ab\n"), "both training and validation");
    f.g.val_out = f.input;
    CHECK_FAILS(f.c, PLIM_E_USAGE, convert(&f, "ab\n"), "is an input");
    f.g.val_out = val;
    const char *out = f.g.out, *link = test_path(f.folder, "link");
    f.g.out = f.input;
    CHECK_FAILS(f.c, PLIM_E_USAGE, convert(&f, "ab\n"), "is an input");
    assert_int_equal(symlink("in.txt", link), 0);
    f.g.out = link; /* another name of it */
    CHECK_FAILS(f.c, PLIM_E_USAGE, convert(&f, "ab\n"), "is an input");
    unlink(link);
    f.g.out = out;
    f.g.input_count = 0;
    CHECK_FAILS(f.c, PLIM_E_USAGE, convert(&f, "ab\n"), "no text");
    f.g.input_count = 1;
    f.inputs[0] = "absent.txt";
    CHECK_FAILS(f.c, PLIM_E_IO, convert(&f, "ab\n"), "absent.txt");
    assert_int_equal(entries(f.folder), 1); /* the text alone */
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(f.c);
}

/* The text is above 15 MB and the samples are eight times that; neither is ever held. */
TEST(memory_does_not_grow_with_the_text)
{
    UNUSED_STATE;
    enum { LINES = 400000, KEPT_BYTES = 8 << 20 };
    struct rusage before, after;
    fixture f;
    set_up(&f, "bytes_memory");
    FILE *to = fopen(f.input, "w");
    assert_non_null(to);
    for (int i = 0; i < LINES; i++) fprintf(to, "this is line %d of a text of some length\n", i ^ 0x2a);
    assert_int_equal(fclose(to), 0);
    for (int documents = 0; documents < PLIM_DOCUMENTS_COUNT; documents++) {
        f.g.documents = (plim_documents)documents;
        f.g.val_share = documents == PLIM_DOCUMENTS_LINES ? 0.1 : 0;
        getrusage(RUSAGE_SELF, &before);
        CHECK_OK(f.c, plim_bytes_write(f.c, &f.g, &f.r));
        getrusage(RUSAGE_SELF, &after);
        assert_true(f.r.train.tokens > 12000000);
        assert_true((after.ru_maxrss - before.ru_maxrss) * 1024 < KEPT_BYTES);
    }
    test_ctx_close(f.c);
}

typedef struct told {
    uint64_t read_bytes, written_bytes[2], total_bytes[3];
    const fixture *f;
} told;

static void tell(void *user, const char *writing, uint64_t done_bytes, uint64_t total_bytes)
{
    told *t = user;
    int which = !writing ? 2 : writing == t->f->g.val_out;
    uint64_t *done = writing ? &t->written_bytes[which] : &t->read_bytes;
    assert_true(done_bytes >= *done && done_bytes <= total_bytes);
    *done = done_bytes;
    t->total_bytes[which] = total_bytes;
}

/* Read to the end, and each file written to its end. */
TEST(progress_ends_at_its_total)
{
    UNUSED_STATE;
    fixture f;
    told t = {.f = &f};
    set_up(&f, "bytes_progress");
    f.g.documents = PLIM_DOCUMENTS_LINES;
    f.g.val_share = 0.5;
    f.g.progress = tell;
    f.g.progress_user = &t;
    CHECK_OK(f.c, convert(&f, "a\nb\nc\nd\ne\nf\ng\nh\ni"));
    assert_int_equal(t.read_bytes, 17);
    assert_int_equal(t.total_bytes[2], 17);
    /* a document of two tokens: two ids, two weights, its class, its source and its end; and one offset 0 */
    assert_int_equal(t.written_bytes[0], f.r.train.rows * (16 + 4 + 16 + 8) + 8);
    assert_int_equal(t.written_bytes[1], f.r.validation.rows * (16 + 4 + 16 + 8) + 8);
    for (int i = 0; i < 2; i++) assert_int_equal(t.written_bytes[i], t.total_bytes[i]);
    test_ctx_close(f.c);
}

static plim_status convert_once(plim_ctx *c, void *user)
{
    fixture *f = user;
    return plim_bytes_write(c, &f->g, &f->r);
}

TEST(every_allocation)
{
    UNUSED_STATE;
    fixture f;
    set_up(&f, "bytes_alloc");
    f.g.documents = PLIM_DOCUMENTS_LINES;
    f.g.val_share = 0.5;
    CHECK_OK(f.c, convert(&f, "a\nb\nc\nd\ne\nf\ng\nh\ni\n"));
    assert_true(test_every_allocation(f.c, convert_once, &f) > 40);
    assert_int_equal(entries(f.folder), 3);
    test_ctx_close(f.c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(memory_does_not_grow_with_the_text), /* first: it compares the process's peaks */
        cmocka_unit_test(what_a_document_is),
        cmocka_unit_test(what_becomes_of_long_ones),
        cmocka_unit_test(pieces_are_the_text),
        cmocka_unit_test(shares_by_content),
        cmocka_unit_test(refuses_and_leaves_all_as_it_was),
        cmocka_unit_test(progress_ends_at_its_total),
        cmocka_unit_test(every_allocation),
    };
    return RUN_TESTS(table);
}
