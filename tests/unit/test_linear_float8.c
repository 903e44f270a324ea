/* SPDX-License-Identifier: MIT */
/* Products in float8: what a cast takes, what is kept, and what each recipe adds. */
#include "op/linear_float8.h"

#include "tape_fixture.h"

enum { TENSORWISE, ROWWISE, WIDE };

static const struct mpl_float8_config config_table[] = {
    [TENSORWISE] = {0},
    [ROWWISE] = {.is_rowwise = true, .rounds_scales = true},
    [WIDE] = {.is_rowwise = true, .has_wide_weight_mm = true, .rounds_scales = true},
};

/* x [2, 16, 32] in bfloat16 times weight [64, 32]: 1024 and 2048 elements. The transposed weight is
 * copied where its largest magnitude is one of all. */
static const char *const forward_table[] = {
    [TENSORWISE] =
        "abs:2048 max:2 ~abs:2048 _to_copy:8 clamp:8 reciprocal:8 mul:8 ~reciprocal:8 ~clamp:8 "
        "_to_copy:4 ~mul:8 ~_to_copy:8 ~max:2 "
        "_to_copy:4096 mul:4096 ~_to_copy:4096 clamp:4096 _to_copy:1024 ~clamp:4096 ~mul:4096 "
        "abs:4096 max:2 clone:4096 ~clone:4096 ~abs:4096 _to_copy:8 clamp:8 reciprocal:8 mul:8 "
        "~reciprocal:8 ~clamp:8 _to_copy:4 ~mul:8 ~_to_copy:8 ~max:2 "
        "_to_copy:8192 mul:8192 ~_to_copy:8192 clamp:8192 _to_copy:2048 ~clamp:8192 ~mul:8192 "
        "reciprocal:4 reciprocal:4 _scaled_mm:4096 ~reciprocal:4 ~reciprocal:4 "
        "~_to_copy:2048 ~_to_copy:4 ~_to_copy:1024 ~_to_copy:4",
    [ROWWISE] =
        "abs:2048 amax:64 ~abs:2048 _to_copy:256 clamp:256 reciprocal:256 mul:256 "
        "~reciprocal:256 ~clamp:256 _to_copy:128 ~mul:256 log2:128 floor:128 ~log2:128 exp2:128 "
        "~floor:128 ~_to_copy:128 ~_to_copy:256 ~amax:64 "
        "_to_copy:4096 mul:4096 ~_to_copy:4096 clamp:4096 _to_copy:1024 ~clamp:4096 ~mul:4096 "
        "abs:4096 amax:128 ~abs:4096 _to_copy:512 clamp:512 reciprocal:512 mul:512 "
        "~reciprocal:512 ~clamp:512 _to_copy:256 ~mul:512 log2:256 floor:256 ~log2:256 exp2:256 "
        "~floor:256 ~_to_copy:256 ~_to_copy:512 ~amax:128 "
        "_to_copy:8192 mul:8192 ~_to_copy:8192 clamp:8192 _to_copy:2048 ~clamp:8192 ~mul:8192 "
        "reciprocal:128 reciprocal:256 _scaled_mm:4096 ~reciprocal:128 ~reciprocal:256 "
        "~_to_copy:2048 ~exp2:256 ~_to_copy:1024 ~exp2:128",
};

/* Input and weight are kept as they were: nothing of float8 outlives the product. */
START_TEST(a_product_keeps_its_operands_wide)
{
    struct mpl_tensor *x, *weight, *y;
    struct fixture f;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 16, 32), true);
    weight = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(64, 32), true);
    fixture_log(&f);
    y = mpl_hold(mpl_op_linear_float8(
        f.tape, x, &(struct mpl_float8_layer){.weight = weight, .config = &config_table[_i]}));
    ck_assert_str_eq(fixture_log(&f), forward_table[_i]);
    ck_assert_uint_eq(fixture_live(&f), 2048 + 4096 + 4096);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, weight);
    fixture_end(&f);
}
END_TEST

/* The bytes of one operator in the log. */
static uint64_t asked_by(const char *log, const char *op)
{
    char name[64];
    uint64_t sum = 0;

    snprintf(name, sizeof(name), " %s:", op);
    for (const char *at = log; (at = strstr(at, name)) != NULL; at += strlen(name))
        sum += strtoull(at + strlen(name), NULL, 10);
    return sum;
}

/* Backward copies the weight's codes, and for the weight's gradient both operands'. Scales by rows
 * are multiplied into a float32 tensor of the product's size; with a gradient of the weight that is
 * no product of float8 there is one of them, and the weight has one scale, repeated. */
START_TEST(backward_casts_again)
{
    static const struct {
        uint64_t codes, late, repeated, wide;
    } expected[] = {
        [TENSORWISE] = {64 * 32 + 32 * 64 + 32 * 32, 0, 0, 0},
        [ROWWISE] = {64 * 32 + 32 * 64 + 32 * 32, 32 * 32 * 4 + 64 * 32 * 4, 0, 0},
        [WIDE] = {64 * 32, 32 * 32 * 4, 32 * 4, 64 * 32 * 2},
    };
    struct mpl_tensor *x, *weight, *y;
    const char *log;
    uint64_t late;
    struct fixture f;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 16, 32), true);
    weight = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(64, 32), true);
    y = mpl_hold(mpl_op_linear_float8(
        f.tape, x, &(struct mpl_float8_layer){.weight = weight, .config = &config_table[_i]}));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    log = fixture_log(&f);
    ck_assert_uint_eq(asked_by(log, "repeat"), expected[_i].repeated);
    ck_assert_uint_eq(asked_by(log, "mm"), expected[_i].wide);
    /* a single scale looks at a copy of the transposed weight */
    ck_assert_uint_eq(asked_by(log, "clone"), expected[_i].codes + (_i == ROWWISE ? 0 : 4096));
    /* casts: float32 of the gradient (8192) twice, of the weight (8192) and of the input (4096), or
     * once each of the first two; quotients: float64 for each scale */
    late = asked_by(log, "mul") - asked_by(log, "reciprocal");
    if (_i == TENSORWISE)
        ck_assert_uint_eq(late, 8192 * 3 + 4096 - 4 * 4);
    else
        ck_assert_uint_ge(late, expected[_i].late);
    ck_assert_uint_eq(fixture_live(&f), 2 * (2048 + 4096) + 4096); /* and both gradients */
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, weight);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("linear_float8");

    tcase_add_loop_test(tcase, a_product_keeps_its_operands_wide, 0, ROWS(forward_table));
    tcase_add_loop_test(tcase, backward_casts_again, 0, ROWS(config_table));
    return test_run("linear_float8", tcase);
}
