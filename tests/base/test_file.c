/* Files: mapping and its refusals; a replaced file is old or new, whatever fails, and nothing is left beside
 * it. */
#include "support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

static int count_entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    if (!d) fail_msg("cannot list %s", folder);
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) n++;
    closedir(d);
    return n;
}

static void check_content(const char *path, const char *want)
{
    size_t bytes = 0;
    char *got = test_read(path, &bytes);
    assert_int_equal(bytes, strlen(want));
    assert_memory_equal(got, want, bytes);
    free(got);
}

/* Runs body in a child and returns its exit status; the child must leave with _exit. */
static int in_child(void (*body)(void *user), void *user)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        body(user);
        _exit(99);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) fail_msg("no child");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(maps_a_file)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-map"), *path = test_path(folder, "f");
    plim_file f = {0};
    plim_file_unmap(&f);
    test_write(path, "a\0bc", 4);
    CHECK_OK(c, plim_file_map(c, path, &f));
    assert_int_equal(f.bytes, 4);
    assert_memory_equal(f.data, "a\0bc", 4);
    plim_file_unmap(&f);
    assert_null(f.data);
    plim_file_unmap(&f);
    test_write(path, "", 0);
    CHECK_OK(c, plim_file_map(c, path, &f));
    assert_int_equal(f.bytes, 0);
    assert_string_equal(f.data, "");
    plim_file_unmap(&f);
    test_ctx_close(c);
}

static void map_without_permission(void *user)
{
    plim_ctx *c = NULL;
    plim_file f = {0};
    if (geteuid() == 0 && seteuid(65534)) _exit(2); /* root may read everything */
    if (plim_ctx_open(NULL, &c)) _exit(3);
    if (plim_file_map(c, user, &f) != PLIM_E_IO) _exit(4);
    _exit(strstr(plim_ctx_message(c), "Permission denied") && strstr(plim_ctx_message(c), user) ? 0 : 5);
}

TEST(refuses_what_is_not_a_readable_file)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-refuse"), *secret = test_path(folder, "secret");
    const char *fifo = test_path(folder, "fifo"), *missing = test_path(folder, "missing");
    plim_file f = {0};
    CHECK_FAILS(c, PLIM_E_IO, plim_file_map(c, folder, &f), folder, "is a folder");
    CHECK_FAILS(c, PLIM_E_IO, plim_file_map(c, missing, &f), missing, "No such file");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    CHECK_FAILS(c, PLIM_E_IO, plim_file_map(c, fifo, &f), fifo, "is a pipe");
    CHECK_FAILS(c, PLIM_E_IO, plim_file_map(c, "/dev/null", &f), "/dev/null", "is a device");
    test_write(secret, "x", 1);
    assert_int_equal(chmod(secret, 0), 0);
    assert_int_equal(in_child(map_without_permission, (void *)(uintptr_t)secret), 0);
    assert_null(f.data);
    test_ctx_close(c);
}

TEST(replaces_and_keeps_permissions)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-replace"), *path = test_path(folder, "f"),
               *link = test_path(folder, "l");
    struct stat s;
    CHECK_OK(c, plim_file_write(c, path, "one", 3));
    check_content(path, "one");
    assert_int_equal(stat(path, &s), 0);
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(s.st_mode & 07777, 0666 & ~mask);
    assert_int_equal(chmod(path, 0640), 0);
    CHECK_OK(c, plim_file_write(c, path, "", 0));
    check_content(path, "");
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0640);
    assert_int_equal(symlink("f", link), 0);
    CHECK_OK(c, plim_file_write(c, link, "two", 3));
    check_content(path, "two");
    assert_int_equal(lstat(link, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(count_entries(folder), 2);
    test_ctx_close(c);
}

TEST(streams_pieces_of_every_size)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-stream"), *path = test_path(folder, "f");
    static const size_t piece[] = {0, 1, 65535, 1, 65536, 65537, 7, 200000, 65529};
    size_t total = 0, got_bytes = 0;
    char *want = malloc(1 << 20), *long_text = malloc(70001);
    memset(long_text, 'z', 70000);
    long_text[70000] = 0;
    plim_writer *w = NULL;
    CHECK_OK(c, plim_writer_open(c, path, &w));
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        for (size_t k = 0; k < piece[i]; k++) want[total + k] = (char)(i * 31 + k % 251);
        CHECK_OK(c, plim_writer_write(w, want + total, piece[i]));
        total += piece[i];
        assert_int_equal(plim_writer_bytes(w), total);
    }
    for (int i = 0; i < 8000; i++) {
        CHECK_OK(c, plim_writer_printf(w, "%d,%s\n", i, "row"));
        total += (size_t)sprintf(want + total, "%d,%s\n", i, "row");
    }
    CHECK_OK(c, plim_writer_printf(w, "%s", long_text));
    memcpy(want + total, long_text, 70000);
    total += 70000;
    assert_int_equal(plim_writer_bytes(w), total);
    assert_false(plim_path_is_file(path)); /* nothing is there before commit */
    CHECK_OK(c, plim_writer_commit(w));
    char *got = test_read(path, &got_bytes);
    assert_int_equal(got_bytes, total);
    assert_memory_equal(got, want, total);
    free(got);
    free(want);
    free(long_text);
    assert_int_equal(count_entries(folder), 1);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

TEST(abort_leaves_no_trace)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-abort"), *path = test_path(folder, "f");
    plim_writer *w = NULL;
    test_write(path, "old", 3);
    CHECK_OK(c, plim_writer_open(c, path, &w));
    CHECK_OK(c, plim_writer_write(w, "new", 3));
    assert_int_equal(count_entries(folder), 2);
    plim_writer_abort(w);
    plim_writer_abort(NULL);
    check_content(path, "old");
    assert_int_equal(count_entries(folder), 1);
    test_ctx_close(c);
}

TEST(two_writers_do_not_meet)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-two"), *path = test_path(folder, "f");
    plim_writer *a = NULL, *b = NULL;
    CHECK_OK(c, plim_writer_open(c, path, &a));
    CHECK_OK(c, plim_writer_open(c, path, &b));
    CHECK_OK(c, plim_writer_write(a, "first", 5));
    CHECK_OK(c, plim_writer_write(b, "second", 6));
    CHECK_OK(c, plim_writer_commit(b));
    check_content(path, "second");
    CHECK_OK(c, plim_writer_commit(a));
    check_content(path, "first");
    assert_int_equal(count_entries(folder), 1);
    test_ctx_close(c);
}

static void write_half_and_die(void *user)
{
    plim_ctx *c = NULL;
    plim_writer *w = NULL;
    char block[100000];
    memset(block, 'n', sizeof block);
    if (plim_ctx_open(NULL, &c) || plim_writer_open(c, user, &w)) _exit(2);
    if (plim_writer_write(w, block, sizeof block)) _exit(3);
    _exit(0);
}

TEST(a_killed_writer_changes_nothing)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-kill"), *path = test_path(folder, "f");
    test_write(path, "old", 3);
    assert_int_equal(in_child(write_half_and_die, (void *)(uintptr_t)path), 0);
    check_content(path, "old");
    assert_int_equal(count_entries(folder),
                     2); /* the dead child's temporary; a later write steps around it */
    CHECK_OK(c, plim_file_write(c, path, "new", 3));
    check_content(path, "new");
    test_ctx_close(c);
}

static void write_beyond_the_limit(void *user)
{
    plim_ctx *c = NULL;
    plim_writer *w = NULL;
    struct rlimit limit = {100000, 100000};
    static char block[300000];
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) || plim_ctx_open(NULL, &c)) _exit(2);
    if (plim_file_write(c, user, block, sizeof block) != PLIM_E_IO) _exit(3);
    if (!strstr(plim_ctx_message(c), "File too large") || !strstr(plim_ctx_message(c), user)) _exit(4);
    plim_ctx_clear(c);
    /* buffered: the failure shows while flushing, stays, and commit says it again */
    if (plim_writer_open(c, user, &w)) _exit(5);
    for (int i = 0; i < 100; i++) plim_writer_write(w, block, 3000);
    if (plim_writer_write(w, block, 1) != PLIM_E_IO || plim_writer_printf(w, "x") != PLIM_E_IO) _exit(6);
    if (plim_writer_commit(w) != PLIM_E_IO) _exit(7);
    plim_ctx_clear(c);
    if (plim_file_write(c, user, "small", 5)) _exit(8);
    _exit(0);
}

TEST(a_full_disk_changes_nothing)
{
    UNUSED_STATE;
    const char *folder = test_folder("file-full"), *path = test_path(folder, "f");
    test_write(path, "old", 3);
    assert_int_equal(in_child(write_beyond_the_limit, (void *)(uintptr_t)path), 0);
    check_content(path, "small");
    assert_int_equal(count_entries(folder), 1);
}

static void write_into_a_closed_folder(void *user)
{
    plim_ctx *c = NULL;
    if (geteuid() == 0 && seteuid(65534)) _exit(2);
    if (plim_ctx_open(NULL, &c)) _exit(3);
    if (plim_file_write(c, user, "new", 3) != PLIM_E_IO) _exit(4);
    _exit(strstr(plim_ctx_message(c), "Permission denied") && strstr(plim_ctx_message(c), user) ? 0 : 5);
}

TEST(refuses_what_cannot_be_replaced)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-unwritable"), *path = test_path(folder, "f");
    const char *nowhere = test_path(folder, "none/f"), *link = test_path(folder, "l");
    char too_long[5000];
    test_write(path, "old", 3);
    CHECK_FAILS(c, PLIM_E_IO, plim_file_write(c, nowhere, "x", 1), nowhere, "No such file");
    CHECK_FAILS(c, PLIM_E_IO, plim_file_write(c, folder, "x", 1), folder, "is a folder");
    CHECK_FAILS(c, PLIM_E_IO, plim_file_write(c, "/dev/full", "x", 1), "/dev/full", "is a device");
    CHECK_FAILS(c, PLIM_E_IO, plim_file_write(c, "", "x", 1), "empty path");
    CHECK_FAILS(c, PLIM_E_IO, plim_file_write(c, test_path(path, "g"), "x", 1), "Not a directory");
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_file_write(c, too_long, "x", 1), "4999", "4095");
    assert_int_equal(symlink("gone", link), 0);
    CHECK_FAILS(c, PLIM_E_IO, plim_file_write(c, link, "x", 1), link, "leads nowhere");
    assert_int_equal(unlink(link), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    assert_int_equal(in_child(write_into_a_closed_folder, (void *)(uintptr_t)path), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    check_content(path, "old");
    assert_int_equal(count_entries(folder), 1);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

static plim_status write_a_file(plim_ctx *c, void *user)
{
    plim_writer *w = NULL;
    TRY(plim_writer_open(c, user, &w));
    plim_writer_printf(w, "%070000d", 1);
    return plim_writer_commit(w);
}

TEST(a_failed_allocation_changes_nothing)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *folder = test_folder("file-memory"), *path = test_path(folder, "f");
    test_write(path, "old", 3);
    for (int64_t nth = 0; nth < 2; nth++) {
        test_fail_allocation(nth);
        CHECK_FAILS(c, PLIM_E_OOM_HOST, write_a_file(c, (void *)(uintptr_t)path), "out of host memory");
        check_content(path, "old");
        assert_int_equal(count_entries(folder), 1);
    }
    test_fail_allocation(-1);
    assert_int_equal(test_every_allocation(c, write_a_file, (void *)(uintptr_t)path), 2);
    test_ctx_close(c);
}

TEST(joins_paths)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *folder, *name, *want;
    } row[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"},        {"", "b", "b"}, {"/", "b", "/b"},
               {"a", "/b", "/b"}, {"a/b", "c/d", "a/b/c/d"}, {"a", "", "a/"}};
    char buf[64];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t need = strlen(row[i].want) + 1;
        CHECK_OK(c, plim_path_join(c, buf, need, row[i].folder, row[i].name));
        assert_string_equal(buf, row[i].want);
        memset(buf, 'q', sizeof buf);
        for (size_t cap = 0; cap < need; cap++)
            CHECK_FAILS(c, PLIM_E_RANGE, plim_path_join(c, buf, cap, row[i].folder, row[i].name), "too long");
        assert_int_equal(buf[0], 'q');
    }
    static const char *const folder_of[][2] = {
        {"a/b", "a"}, {"b", "."}, {"/b", "/"}, {"a/b/c", "a/b"}, {"a/", "a"}};
    for (size_t i = 0; i < sizeof folder_of / sizeof *folder_of; i++) {
        CHECK_OK(c, plim_path_folder(c, buf, strlen(folder_of[i][1]) + 1, folder_of[i][0]));
        assert_string_equal(buf, folder_of[i][1]);
        CHECK_FAILS(c, PLIM_E_RANGE, plim_path_folder(c, buf, strlen(folder_of[i][1]), folder_of[i][0]),
                    "too long");
    }
    test_ctx_close(c);
}

TEST(knows_what_a_path_is)
{
    UNUSED_STATE;
    const char *folder = test_folder("file-kind"), *path = test_path(folder, "f");
    test_write(path, "x", 1);
    assert_true(plim_path_is_folder(folder));
    assert_false(plim_path_is_folder(path));
    assert_true(plim_path_is_file(path));
    assert_false(plim_path_is_file(folder));
    assert_false(plim_path_is_file(test_path(folder, "g")));
    assert_true(plim_path_is_name("model-00001.safetensors"));
    assert_true(plim_path_is_name("..."));
    assert_false(plim_path_is_name("") || plim_path_is_name(".") || plim_path_is_name("..") ||
                 plim_path_is_name("a/b") || plim_path_is_name("/a"));
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(maps_a_file),
        cmocka_unit_test(refuses_what_is_not_a_readable_file),
        cmocka_unit_test(replaces_and_keeps_permissions),
        cmocka_unit_test(streams_pieces_of_every_size),
        cmocka_unit_test(abort_leaves_no_trace),
        cmocka_unit_test(two_writers_do_not_meet),
        cmocka_unit_test(a_killed_writer_changes_nothing),
        cmocka_unit_test(a_full_disk_changes_nothing),
        cmocka_unit_test(refuses_what_cannot_be_replaced),
        cmocka_unit_test(a_failed_allocation_changes_nothing),
        cmocka_unit_test(joins_paths),
        cmocka_unit_test(knows_what_a_path_is),
    };
    return RUN_TESTS(table);
}
