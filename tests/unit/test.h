/* SPDX-License-Identifier: MIT */
/* What every unit test shares: one suite, one runner, rows of tables as loop tests. */
#ifndef TEST_H
#define TEST_H

#include <check.h>
#include <stdlib.h>

/** Number of rows of a table, as the type that Check's loop tests want. */
#define ROWS(table) ((int)(sizeof(table) / sizeof((table)[0])))

/** Runs one test case of a suite; the exit status of main. TAP output is chosen by environment. */
static inline int test_run(const char *name, TCase *tcase)
{
    Suite *suite = suite_create(name);
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
