/* SPDX-License-Identifier: MIT */
/* The note table: every number has a row, codes and numbers agree. */
#include "table/note.h"

#include <stdio.h>

#include "test.h"

START_TEST(row_is_sound)
{
    const struct mpl_note_row *row = mpl_note_row((enum mpl_note_code)_i);
    char code[16];

    snprintf(code, sizeof(code), "N%03d", _i);
    ck_assert_ptr_nonnull(row);
    ck_assert_str_eq(row->code, code);
    ck_assert(row->title && row->title[0]);
    ck_assert(row->explanation && row->explanation[0]);
    ck_assert_int_eq(mpl_note_from_code(code), _i);
    code[0] = 'n';
    ck_assert_int_eq(mpl_note_from_code(code), _i);
}
END_TEST

static const char *const wrong_table[] = {"",     "N",    "N1",   "N01", "N0001",
                                          "X001", "N00a", "N000", "N999"};

START_TEST(wrong_code_is_none)
{
    ck_assert_int_eq(mpl_note_from_code(wrong_table[_i]), MPL_NOTE_NONE);
}
END_TEST

START_TEST(no_row_outside)
{
    ck_assert_ptr_null(mpl_note_row(MPL_NOTE_NONE));
    ck_assert_ptr_null(mpl_note_row(MPL_NOTE_COUNT));
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("note");

    tcase_add_loop_test(tcase, row_is_sound, 1, MPL_NOTE_COUNT);
    tcase_add_loop_test(tcase, wrong_code_is_none, 0, ROWS(wrong_table));
    tcase_add_test(tcase, no_row_outside);
    return test_run("note", tcase);
}
