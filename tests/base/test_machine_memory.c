/* The machine's memory: lines of the kernel's texts, both versions of cgroups and those above them, odd
 * mounts, and every limit that binds. */
#include "support/test.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/machine_memory.h"

#define MIB ((uint64_t)1 << 20)

/* ---- texts --------------------------------------------------------------------------------------------- */

TEST(lines_in_kb)
{
    UNUSED_STATE;
    static const struct {
        const char *text;
        bool found;
        uint64_t bytes;
    } cases[] = {
        {"MemTotal:       24683652 kB\nMemAvailable:   17 kB\n", true, 17 * 1024},
        {"MemAvailable:\t0 kB", true, 0},
        {"MemAvailable: 17 MB\n", false, 0},
        {"MemAvailable: kB\n", false, 0},
        {"MemAvailable: -1 kB\n", false, 0},
        {"MemAvailable: 17 kB more\n", false, 0},
        {"MemAvailable: 99999999999999999999 kB\n", false, 0},
        {"MemAvailable: 18446744073709551615 kB\n", false, 0},
        {"NotMemAvailable: 17 kB\nMemAvailableX: 18 kB\n", false, 0},
        {"", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 0;
        bool found = plim_kb_line(cases[i].text, "MemAvailable", &bytes);
        if (found != cases[i].found || (found && bytes != cases[i].bytes))
            fail_msg("case %zu: %d, %llu", i, found, (unsigned long long)bytes);
    }
}

TEST(values_of_a_cgroup)
{
    UNUSED_STATE;
    static const struct {
        const char *text;
        bool found;
        uint64_t bytes;
    } cases[] = {
        {"max\n", true, PLIM_NO_LIMIT},
        {"max", true, PLIM_NO_LIMIT},
        {"maximum\n", false, 0},
        {"1073741824\n", true, 1024 * MIB},
        {"0\n", true, 0},
        {"9223372036854771712\n", true, PLIM_NO_LIMIT}, /* version 1: no limit */
        {"12 34\n", false, 0},
        {"", false, 0},
        {"-1\n", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 1;
        bool found = plim_cgroup_value(cases[i].text, &bytes);
        if (found != cases[i].found || (found && bytes != cases[i].bytes))
            fail_msg("case %zu: %d, %llu", i, found, (unsigned long long)bytes);
    }
    uint64_t n = 0;
    assert_true(plim_stat_line("anon 5\ninactive_file 77\nactive_file 3\n", "inactive_file", &n));
    assert_int_equal(n, 77);
    assert_false(plim_stat_line("total_inactive_file 77\n", "inactive_file", &n));
    assert_false(plim_stat_line("inactive_file many\n", "inactive_file", &n));
}

TEST(paths_of_a_process)
{
    UNUSED_STATE;
    static const char both[] = "9:name=systemd:/a\n5:cpu,memory:/v1/x:y\n4:memory_extra:/no\n0::/v2\n";
    char buf[32];
    assert_true(plim_cgroup_path(both, 1, buf, sizeof buf));
    assert_string_equal(buf, "/v1/x:y"); /* a path may hold a colon */
    assert_true(plim_cgroup_path(both, 2, buf, sizeof buf));
    assert_string_equal(buf, "/v2");
    assert_false(plim_cgroup_path("4:memory:/v1\n", 2, buf, sizeof buf));
    assert_false(plim_cgroup_path("0::/v2\n", 1, buf, sizeof buf));
    assert_false(plim_cgroup_path("0::relative\n", 2, buf, sizeof buf));
    assert_false(plim_cgroup_path("0::/a-path-that-is-longer-than-the-room\n", 2, buf, sizeof buf));
    assert_false(plim_cgroup_path("nonsense\n::\n", 2, buf, sizeof buf));
}

TEST(mounts_of_both_versions)
{
    UNUSED_STATE;
    static const char text[] =
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "29 28 0:26 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n"
        "30 28 0:27 /docker/ab /sys/fs/a\\040b\\134c rw shared:9 master:3 - cgroup cgroup rw,cpuset,memory\n"
        "38 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    char at[64], root[64];
    assert_true(plim_cgroup_mount(text, 1, at, root, sizeof at));
    assert_string_equal(at, "/sys/fs/a b\\c");
    assert_string_equal(root, "/docker/ab");
    assert_true(plim_cgroup_mount(text, 2, at, root, sizeof at));
    assert_string_equal(at, "/sys/fs/cgroup/unified");
    assert_false(plim_cgroup_mount("30 28 0:27 / /x rw - cgroup2\n38 -\n", 1, at, root, sizeof at));
    assert_false(plim_cgroup_mount(text, 2, at, root, 8));
}

/* ---- a machine of files -------------------------------------------------------------------------------- */

static void put(const char *root, const char *path, const char *text)
{
    char *out;
    if (test_command(&out, "mkdir -p \"$(dirname '%s%s')\"", root, path)) fail_msg("%s", out);
    free(out);
    test_write(test_path(root, path + 1), text, strlen(text));
}

static const char *machine(const char *name, const char *cgroups)
{
    const char *root = test_folder(name);
    put(root, "/proc/meminfo", "MemTotal: 4096000 kB\nMemFree: 1 kB\nMemAvailable: 2048000 kB\n");
    put(root, "/proc/self/cgroup", cgroups);
    put(root, "/proc/self/mountinfo",
        "30 28 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n38 31 0:38 / /cg/unified rw - cgroup2 c rw\n");
    return root;
}

TEST(no_cgroup_leaves_what_the_machine_has)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_machine_memory m;
    const char *root = machine("memory-none", "0::/a\n");
    put(root, "/cg/unified/a/memory.max", "max\n");
    put(root, "/cg/unified/a/memory.current", "1000\n");
    CHECK_OK(c, plim_machine_memory_read(c, root, &m));
    assert_int_equal(m.total_bytes, UINT64_C(4096000) * 1024);
    assert_int_equal(m.usable_bytes, UINT64_C(2048000) * 1024);
    assert_true(m.cgroup_limit_bytes == PLIM_NO_LIMIT && m.cgroup_used_bytes == 0 && !m.cgroup[0]);
    test_ctx_close(c);
}

TEST(the_parent_that_leaves_least_binds)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_machine_memory m;
    const char *root = machine("memory-v2", "0::/a/b\n");
    put(root, "/cg/unified/a/b/memory.max", "max\n");
    put(root, "/cg/unified/a/memory.max", "838860800\n"); /* 800 MiB, 500 used, 100 of them droppable */
    put(root, "/cg/unified/a/memory.current", "524288000\n");
    put(root, "/cg/unified/a/memory.stat", "anon 1\ninactive_file 104857600\n");
    put(root, "/cg/unified/memory.max", "943718400\n"); /* 900 MiB, 450 used: leaves more */
    put(root, "/cg/unified/memory.current", "471859200\n");
    CHECK_OK(c, plim_machine_memory_read(c, root, &m));
    assert_int_equal(m.cgroup_limit_bytes, 800 * MIB);
    assert_int_equal(m.cgroup_used_bytes, 400 * MIB);
    assert_int_equal(m.usable_bytes, 400 * MIB);
    assert_string_equal(m.cgroup, test_path(root, "cg/unified/a"));
    put(root, "/cg/unified/memory.current", "1943718400\n"); /* above its limit: nothing is left */
    CHECK_OK(c, plim_machine_memory_read(c, root, &m));
    assert_int_equal(m.usable_bytes, 0);
    assert_string_equal(m.cgroup, test_path(root, "cg/unified"));
    test_ctx_close(c);
}

TEST(version_1_and_2_side_by_side)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_machine_memory m;
    const char *root = machine("memory-v1", "4:memory:/api/x\n0::/\n");
    put(root, "/cg/memory/api/x/memory.limit_in_bytes", "629145600\n"); /* 600 MiB */
    put(root, "/cg/memory/api/x/memory.usage_in_bytes", "104857600\n");
    put(root, "/cg/memory/api/x/memory.stat", "inactive_file 1\ntotal_inactive_file 52428800\n");
    put(root, "/cg/memory/api/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "/cg/unified/memory.max", "734003200\n"); /* 700 MiB */
    put(root, "/cg/unified/memory.current", "0\n");
    CHECK_OK(c, plim_machine_memory_read(c, root, &m));
    assert_int_equal(m.usable_bytes, 550 * MIB);
    put(root, "/cg/unified/memory.current", "524288000\n");
    CHECK_OK(c, plim_machine_memory_read(c, root, &m));
    assert_int_equal(m.usable_bytes, 200 * MIB);
    test_ctx_close(c);
}

/* Inside a container the hierarchy's mount is the container's cgroup while the path may be the host's. */
TEST(container_mounts)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *path, *mount_root;
        uint64_t left;
    } cases[] = {
        {"/docker/ab", "/docker/ab", 300 * MIB},
        {"/docker/ab/in", "/docker/ab", 100 * MIB},
        {"/elsewhere", "/docker/ab", 300 * MIB},
        {"/../../x", "/", 300 * MIB},
        {"/docker/abc", "/docker/ab", 300 * MIB},
        {"/in", "/", 100 * MIB},
        {"/in/gone", "/", 100 * MIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        plim_machine_memory m;
        snprintf(text, sizeof text, "0::%s\n", cases[i].path);
        const char *root = machine("memory-container", text);
        snprintf(text, sizeof text, "38 31 0:38 %s /cg/own rw - cgroup2 c rw\n", cases[i].mount_root);
        put(root, "/proc/self/mountinfo", text);
        put(root, "/cg/own/memory.max", "314572800\n");
        put(root, "/cg/own/memory.current", "0\n");
        put(root, "/cg/own/in/memory.max", "104857600\n");
        put(root, "/cg/own/in/memory.current", "0\n");
        put(root, "/cg/own/c/memory.max", "1\n"); /* not ours, though "/docker/abc" begins like the mount */
        put(root, "/cg/own/c/memory.current", "0\n");
        CHECK_OK(c, plim_machine_memory_read(c, root, &m));
        if (m.usable_bytes != cases[i].left)
            fail_msg("case %zu: %llu", i, (unsigned long long)m.usable_bytes);
    }
    test_ctx_close(c);
}

static const char *open_root;

static plim_status read_machine(plim_ctx *c, void *user)
{
    return plim_machine_memory_read(c, open_root, user);
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_machine_memory m;
    open_root = machine("memory-alloc", "4:memory:/a\n0::/b\n");
    put(open_root, "/cg/memory/a/memory.limit_in_bytes", "1\n");
    put(open_root, "/cg/memory/a/memory.usage_in_bytes", "1\n");
    put(open_root, "/cg/memory/a/memory.stat", "total_inactive_file 1\n");
    assert_true(test_every_allocation(c, read_machine, &m) >= 6);
    test_ctx_close(c);
}

TEST(missing_files_and_lines)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_machine_memory m;
    plim_process_memory p;
    const char *root = test_folder("memory-missing");
    CHECK_FAILS(c, PLIM_E_IO, plim_machine_memory_read(c, root, &m), "meminfo");
    CHECK_FAILS(c, PLIM_E_IO, plim_process_memory_read(c, root, &p), "status");
    put(root, "/proc/meminfo", "MemTotal: 5 kB\nMemFree: 5 kB\n");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_machine_memory_read(c, root, &m), "MemAvailable", "budget");
    put(root, "/proc/meminfo", "MemTotal: 5 kB\nMemAvailable: 4 kB\n");
    CHECK_OK(c, plim_machine_memory_read(c, root, &m)); /* no cgroup files at all */
    assert_int_equal(m.usable_bytes, 4096);
    put(root, "/proc/self/status", "Name: x\nVmHWM:\t  20 kB\nVmRSS:\t  10 kB\n");
    CHECK_OK(c, plim_process_memory_read(c, root, &p));
    assert_int_equal(p.resident_bytes, 10240);
    assert_int_equal(p.peak_bytes, 20480);
    put(root, "/proc/self/status", "Name: x\n");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_process_memory_read(c, root, &p), "VmHWM");
    assert_false(plim_process_peak_reset(root));
    put(root, "/proc/self/clear_refs", "");
    assert_true(plim_process_peak_reset(root));
    char *text = test_read(test_path(root, "proc/self/clear_refs"), NULL);
    assert_string_equal(text, "5");
    free(text);
    test_ctx_close(c);
}

/* This machine itself: whatever it is, its numbers hang together, and memory that is touched is seen. */
TEST(this_machine)
{
    UNUSED_STATE;
    enum { TOUCHED = 64 << 20 };
    plim_ctx *c = test_ctx_open();
    plim_machine_memory m;
    plim_process_memory before, after;
    CHECK_OK(c, plim_machine_memory_read(c, "", &m));
    assert_true(m.available_bytes <= m.total_bytes && m.usable_bytes <= m.available_bytes);
    CHECK_OK(c, plim_process_memory_read(c, "", &before));
    char *p = mmap(NULL, TOUCHED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    memset(p, 1, TOUCHED);
    CHECK_OK(c, plim_process_memory_read(c, "", &after));
    assert_true(after.peak_bytes >= before.resident_bytes + TOUCHED / 2 &&
                after.peak_bytes >= after.resident_bytes);
    assert_int_equal(p[TOUCHED - 1], 1);
    munmap(p, TOUCHED);
    if (plim_process_peak_reset("")) {
        CHECK_OK(c, plim_process_memory_read(c, "", &before));
        assert_true(before.peak_bytes < after.peak_bytes);
    }
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(lines_in_kb),
        cmocka_unit_test(values_of_a_cgroup),
        cmocka_unit_test(paths_of_a_process),
        cmocka_unit_test(mounts_of_both_versions),
        cmocka_unit_test(no_cgroup_leaves_what_the_machine_has),
        cmocka_unit_test(the_parent_that_leaves_least_binds),
        cmocka_unit_test(version_1_and_2_side_by_side),
        cmocka_unit_test(container_mounts),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(missing_files_and_lines),
        cmocka_unit_test(this_machine),
    };
    return RUN_TESTS(table);
}
