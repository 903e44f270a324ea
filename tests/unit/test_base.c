/* SPDX-License-Identifier: MIT */
/* Bytes, arena, vector, errors. */
#include <stdalign.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/fail.h"
#include "base/vec.h"
#include "test.h"

#define TOP MPL_BYTES_OVERFLOW

static const struct {
    uint64_t (*apply)(uint64_t a, uint64_t b);
    uint64_t a, b, result;
} bytes_table[] = {
    {mpl_add, 0, 0, 0},
    {mpl_add, 3, 4, 7},
    {mpl_add, TOP - 1, 1, TOP}, /* the top value is no count */
    {mpl_add, TOP - 2, 1, TOP - 1},
    {mpl_add, TOP - 1, 2, TOP}, /* would wrap to 0 */
    {mpl_add, TOP - 1, TOP - 1, TOP},
    {mpl_add, TOP, 0, TOP},
    {mpl_add, 0, TOP, TOP},
    {mpl_mul, 6, 7, 42},
    {mpl_mul, 0, 7, 0},
    {mpl_mul, 0, TOP, TOP}, /* an overflow is not forgotten */
    {mpl_mul, TOP, 0, TOP},
    {mpl_mul, UINT64_C(1) << 32, UINT64_C(1) << 31, UINT64_C(1) << 63},
    {mpl_mul, UINT64_C(1) << 32, UINT64_C(1) << 32, TOP},
    {mpl_mul, UINT64_C(6148914691236517205), 4, TOP}, /* wraps to a small number */
    {mpl_sub, 9, 4, 5},
    {mpl_sub, 9, 9, 0},
    {mpl_sub, TOP, 4, TOP},
    {mpl_round_up, 0, 512, 0},
    {mpl_round_up, 1, 512, 512},
    {mpl_round_up, 512, 512, 512},
    {mpl_round_up, 513, 512, 1024},
    {mpl_round_up, TOP - 1, 512, TOP},
    {mpl_round_up, TOP, 512, TOP},
    {mpl_ceil_div, 0, 4, 0},
    {mpl_ceil_div, 1, 4, 1},
    {mpl_ceil_div, 4, 4, 1},
    {mpl_ceil_div, 5, 4, 2},
};

START_TEST(bytes_do_not_wrap)
{
    ck_assert_uint_eq(bytes_table[_i].apply(bytes_table[_i].a, bytes_table[_i].b),
                      bytes_table[_i].result);
}
END_TEST

START_TEST(arena_pieces_are_apart)
{
    struct mpl_arena arena = {0};
    unsigned char *pieces[400];
    size_t overwritten = 0;

    for (size_t i = 0; i < 400; i++) {
        size_t size = i * 7 + 1;

        pieces[i] = mpl_arena_alloc(&arena, size);
        ck_assert_ptr_nonnull(pieces[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        memset(pieces[i], (int)(i & 255), size);
    }
    for (size_t i = 0; i < 400; i++)
        for (size_t j = 0; j < i * 7 + 1; j++)
            overwritten += pieces[i][j] != (i & 255);
    ck_assert_uint_eq(overwritten, 0);
    mpl_arena_free(&arena);
    ck_assert_ptr_null(arena.chunks);
}
END_TEST

START_TEST(arena_large_and_cleared)
{
    struct mpl_arena arena = {0};
    const size_t size = (size_t)1 << 20;
    unsigned char *piece;
    size_t dirty = 0;

    /* dirty a chunk's worth, give it back, and ask again: zalloc must clear what malloc reuses */
    piece = mpl_arena_alloc(&arena, size);
    ck_assert_ptr_nonnull(piece);
    memset(piece, 0xa5, size);
    mpl_arena_free(&arena);
    piece = mpl_arena_zalloc(&arena, size);
    ck_assert_ptr_nonnull(piece);
    for (size_t i = 0; i < size; i++)
        dirty += piece[i] != 0;
    ck_assert_uint_eq(dirty, 0);
    ck_assert_str_eq(mpl_arena_strdup(&arena, "text"), "text");
    ck_assert_str_eq(mpl_arena_strdup(&arena, ""), "");
    ck_assert_ptr_null(mpl_arena_alloc(&arena, SIZE_MAX));
    ck_assert_ptr_null(mpl_arena_alloc(&arena, SIZE_MAX - 16));
    ck_assert_ptr_null(mpl_arena_zalloc(&arena, SIZE_MAX));
    mpl_arena_free(&arena);
    mpl_arena_free(&arena); /* empty again, and harmless */
}
END_TEST

START_TEST(vector_grows)
{
    MPL_VEC(uint64_t) numbers = {0};

    for (uint64_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(mpl_vec_reserve(&numbers), 0);
        numbers.data[numbers.len++] = i * i;
    }
    ck_assert_uint_ge(numbers.cap, 1000);
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(numbers.data[i], i * i);
    mpl_vec_free(&numbers);
    ck_assert_ptr_null(numbers.data);
    ck_assert_uint_eq(numbers.len + numbers.cap, 0);
}
END_TEST

START_TEST(vector_refuses_to_wrap)
{
    void *data = NULL;
    size_t cap = SIZE_MAX / 8;

    ck_assert_int_eq(mpl_vec_grow(&data, &cap, 8), -1);
    ck_assert_ptr_null(data);
    ck_assert_uint_eq(cap, SIZE_MAX / 8);
}
END_TEST

START_TEST(first_error_wins)
{
    struct memplan_error err;

    memset(&err, 0xff, sizeof(err));
    mpl_fail_clear(&err);
    ck_assert_int_eq(err.status, MEMPLAN_OK);
    ck_assert_int_eq(mpl_fail(&err, MEMPLAN_ERR_VALUE, "/a/b", "found %d, expected %s", -1, "more"),
                     MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(mpl_fail(&err, MEMPLAN_ERR_NOMEM, NULL, "later"), MEMPLAN_ERR_NOMEM);
    ck_assert_int_eq(err.status, MEMPLAN_ERR_VALUE);
    ck_assert_str_eq(err.path, "/a/b");
    ck_assert_str_eq(err.text, "found -1, expected more");
}
END_TEST

START_TEST(error_is_cut_and_optional)
{
    struct memplan_error err;
    char big[1000];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    mpl_fail_clear(&err);
    ck_assert_int_eq(mpl_fail(&err, MEMPLAN_ERR_SYNTAX, big, "%s", big), MEMPLAN_ERR_SYNTAX);
    ck_assert_uint_eq(strlen(err.text), sizeof(err.text) - 1);
    ck_assert_uint_eq(strlen(err.path), sizeof(err.path) - 1);
    mpl_fail_clear(NULL);
    ck_assert_int_eq(mpl_fail(NULL, MEMPLAN_ERR_LIMIT, NULL, "no one listens"), MEMPLAN_ERR_LIMIT);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("base");

    tcase_add_loop_test(tcase, bytes_do_not_wrap, 0, ROWS(bytes_table));
    tcase_add_test(tcase, arena_pieces_are_apart);
    tcase_add_test(tcase, arena_large_and_cleared);
    tcase_add_test(tcase, vector_grows);
    tcase_add_test(tcase, vector_refuses_to_wrap);
    tcase_add_test(tcase, first_error_wins);
    tcase_add_test(tcase, error_is_cut_and_optional);
    return test_run("base", tcase);
}
