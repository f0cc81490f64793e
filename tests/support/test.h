/* test.h - how a plimsoll test looks: TEST(name) { ... }, a table, and RUN_TESTS(table).
 * A test file lists its tests in one `static const struct CMUnitTest table[]`. */
#ifndef PLIM_TESTS_TEST_H
#define PLIM_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "plimsoll.h"

#define TEST(name)   static void name(void **state)
#define UNUSED_STATE (void)state

/* Fails with the context's message when a call that should succeed did not. */
#define CHECK_OK(c, expr)                                                                                    \
    do {                                                                                                     \
        plim_status check_st_ = (expr);                                                                      \
        if (check_st_) fail_msg("%s: %s: %s", #expr, plim_status_name(check_st_), plim_ctx_message(c));      \
    } while (0)

/* Fails unless the call ends with want and its message holds every one of the given words; clears the
 * context. */
#define CHECK_FAILS(c, want, expr, ...)                                                                      \
    test_check_fails((c), (want), (expr), #expr, (const char *const[]){__VA_ARGS__, NULL})
void test_check_fails(plim_ctx *c, plim_status want, plim_status got, const char *expr,
                      const char *const *words);

/* A context whose allocator counts, and can be told to fail its nth allocation from now (0 = the next).
 * Jansson's allocations share the counter.  nth < 0: never fail. */
plim_ctx *test_ctx_open(void);
void test_ctx_close(plim_ctx *c);
void test_fail_allocation(int64_t nth);
int64_t test_live_allocations(void);

/* Calls open until it succeeds, failing one more allocation each time; every failure must be PLIM_E_OOM_HOST
 * and leave no allocation behind.  Returns how many allocations open makes.  open must release all it made on
 * success. */
typedef plim_status (*test_open)(plim_ctx *c, void *user);
int64_t test_every_allocation(plim_ctx *c, test_open open, void *user);

/* A folder of this test's own under the build tree, emptied; and helpers on files.  Paths are valid until
 * exit. */
const char *test_folder(const char *name);
const char *test_path(const char *folder, const char *name);
void test_write(const char *path, const void *data, size_t bytes);
char *test_read(const char *path, size_t *bytes); /* zero-terminated; free() it */

/* Runs a shell command, returns its exit status; its standard output and error come back in *out (free() it).
 */
int test_command(char **out, const char *fmt, ...) PLIM_PRINTF(2, 3);

#define RUN_TESTS(table) cmocka_run_group_tests(table, NULL, NULL)

#endif
