/* SPDX-License-Identifier: MIT */
/* Operators of mixtures of experts and of latent attention: what each allocates forward, keeps, and
 * allocates backward. Orders are those of PyTorch 2.13.0's own runs of these operators. */
#include "op/rule.h"
#include "tape_fixture.h"

/* b is the second operand, or the integers that choose. */
typedef struct mpl_tensor *case_op(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b);

#define BINARY(name, call)                                                                         \
    static struct mpl_tensor *name(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b) \
    {                                                                                              \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        return call;                                                                               \
    }

static struct mpl_tensor *topk_values(struct mpl_tape *t, struct mpl_tensor *a,
                                      struct mpl_tensor *b)
{
    struct mpl_tensor *parts[2];

    (void)b;
    mpl_op_topk(t, a, 2, parts);
    mpl_consume(t, parts[1]);
    return parts[0];
}

/* rows of two matrices, which lie as [in, out], or as [out, in] and transposed */
static struct mpl_tensor *grouped(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b)
{
    const struct mpl_shape groups = mpl_shape1(b->shape.dim[0]);
    struct mpl_tensor *offsets = mpl_hold(mpl_empty(t, "cumsum.default", MPL_INT32, &groups));
    struct mpl_tensor *out = mpl_op_grouped_mm(t, a, b, offsets);

    mpl_drop(t, offsets);
    return out;
}

BINARY(grouped_transposed, grouped(t, a, mpl_op_transpose(t, b, 1, 2)))
BINARY(max_last, mpl_op_max_last(t, a))
BINARY(gather_last, mpl_op_gather_last(t, a, b))
BINARY(index_rows, mpl_op_index(t, a, b))
BINARY(repeat_rows, mpl_op_repeat_rows(t, a, 3))
BINARY(mm, mpl_op_mm(t, a, b))
BINARY(sum_rows, mpl_op_sum_dim(t, a, 0, false))
BINARY(div_tensors, mpl_op_div(t, a, b))
BINARY(div_in_place, mpl_op_div_in_place(t, mpl_op_neg(t, a), b))
BINARY(masked_fill, mpl_op_masked_fill(t, a, b))
BINARY(clamp_above, mpl_op_clamp(t, a, false))
BINARY(clamp_both, mpl_op_clamp(t, a, true))
BINARY(into_slice, mpl_op_copy_into_slice(t, a, b))
BINARY(into_slice_again, mpl_op_copy_into_slice(t, mpl_op_neg(t, a), b))
BINARY(add_to_view, mpl_op_add_to_view(t, mpl_op_neg(t, a), b))
BINARY(complex_mul, mpl_op_complex_mul(t, a, b))
BINARY(bmm, mpl_op_bmm(t, a, b))

#define F32  MPL_FLOAT32
#define BF16 MPL_BFLOAT16
#define I64  MPL_INT64

/* As the table of test_op.c. */
static const struct {
    const char *name;
    case_op *op;
    enum mpl_dtype a_dtype, b_dtype;
    int a_ndim, b_ndim;
    int64_t a[3], b[3];
    bool a_trained, b_trained;
    const char *forward;
    uint64_t saved;
    const char *backward;
} case_table[] = {
    {"topk",
     topk_values,
     F32,
     F32,
     2,
     0,
     {3, 8},
     {0},
     true,
     false,
     "topk:24 topk:48",
     48,
     "zeros:96 ~topk:48"},
    {"max",
     max_last,
     BF16,
     F32,
     2,
     0,
     {3, 8},
     {0},
     true,
     false,
     "max:6 max:24",
     24,
     "zeros:48 ~max:24"},
    {"gather",
     gather_last,
     F32,
     I64,
     2,
     2,
     {3, 8},
     {3, 2},
     true,
     false,
     "gather:24",
     144,
     "new_zeros:96"},
    {"index",
     index_rows,
     BF16,
     I64,
     2,
     1,
     {3, 8},
     {6},
     true,
     false,
     "index:96",
     48,
     "new_zeros:48"},
    {"index without gradient",
     index_rows,
     BF16,
     I64,
     2,
     1,
     {3, 8},
     {6},
     false,
     false,
     "index:96",
     0,
     NULL},
    {"repeat_interleave",
     repeat_rows,
     BF16,
     F32,
     2,
     0,
     {3, 8},
     {0},
     true,
     false,
     "clone:144",
     0,
     "sum:48"},
    {"sum",
     sum_rows,
     F32,
     F32,
     2,
     0,
     {3, 8},
     {0},
     true,
     false,
     "sum:32",
     0,
     "new_empty_strided:96"},
    {"div",
     div_tensors,
     F32,
     F32,
     2,
     2,
     {3, 2},
     {3, 1},
     true,
     true,
     "div:24",
     12 + 24,
     "div:24 div:24 neg:24 mul:24 ~neg:24 ~div:24 ~div:24 div:24 sum:12 ~mul:24"},
    /* what was divided is copied for the divisor's gradient only */
    {"div_",
     div_in_place,
     F32,
     F32,
     2,
     2,
     {3, 2},
     {3, 1},
     true,
     true,
     "neg:24 clone:24",
     12 + 24,
     "div:24 div:24 neg:24 mul:24 ~neg:24 ~div:24 ~div:24 div:24 sum:12 ~mul:24 ~clone:24 neg:24 "
     "~div:24"},
    {"div_ by a constant",
     div_in_place,
     F32,
     F32,
     2,
     2,
     {3, 2},
     {3, 1},
     true,
     false,
     "neg:24",
     12,
     "div:24 neg:24 ~div:24"},
    {"masked_fill",
     masked_fill,
     F32,
     MPL_BOOL,
     2,
     2,
     {3, 8},
     {3, 8},
     true,
     false,
     "masked_fill:96",
     24,
     "masked_fill:96"},
    {"clamp above",
     clamp_above,
     BF16,
     F32,
     2,
     0,
     {3, 8},
     {0},
     true,
     false,
     "clamp:48",
     48,
     "scalar_tensor:2 le:24 where:48 ~le:24 ~scalar_tensor:2"},
    {"clamp",
     clamp_both,
     BF16,
     F32,
     2,
     0,
     {3, 8},
     {0},
     true,
     false,
     "clamp:48",
     48,
     "scalar_tensor:2 ge:24 le:24 where:48 ~le:24 ~ge:24 ~scalar_tensor:2"},
    {"copy into a slice",
     into_slice,
     BF16,
     BF16,
     2,
     2,
     {3, 8},
     {3, 5},
     false,
     true,
     "",
     0,
     "new_empty_strided:48 clone:30 ~new_empty_strided:48"},
    {"copy into a slice of what has a history",
     into_slice_again,
     BF16,
     BF16,
     2,
     2,
     {3, 8},
     {3, 5},
     true,
     true,
     "neg:48",
     0,
     "new_empty_strided:48 clone:30 zeros_like:30 ~zeros_like:30 neg:48 ~new_empty_strided:48"},
    {"add through a view",
     add_to_view,
     BF16,
     BF16,
     3,
     2,
     {3, 1, 8},
     {3, 8},
     true,
     true,
     "neg:48",
     0,
     "new_zeros:48 new_empty_strided:48 clone:48 ~new_zeros:48 neg:48 ~new_empty_strided:48"},
    {"complex product",
     complex_mul,
     F32,
     I64,
     3,
     3,
     {4, 3, 8},
     {1, 3, 4},
     true,
     false,
     "mul:384",
     0, /* the product itself, behind view_as_real, keeps 96 */
     "clone:96 mul:384 ~clone:96"},
    {"bmm",
     bmm,
     BF16,
     BF16,
     3,
     3,
     {4, 1, 8},
     {4, 8, 3},
     true,
     true,
     "bmm:24",
     64 + 192,
     "bmm:192 bmm:64"},
    {"mm", mm, BF16, BF16, 2, 2, {4, 8}, {8, 3}, true, true, "mm:24", 64 + 48, "mm:48 mm:64"},
    {"grouped_mm",
     grouped,
     BF16,
     BF16,
     2,
     3,
     {6, 8},
     {2, 8, 16},
     true,
     true,
     "cumsum:8 _grouped_mm:192",
     96 + 512 + 8,
     "_grouped_mm:512 _grouped_mm:96 ~cumsum:8"},
    {"grouped_mm of transposed weights",
     grouped_transposed,
     BF16,
     BF16,
     2,
     3,
     {6, 8},
     {2, 16, 8},
     true,
     true,
     "cumsum:8 _grouped_mm:192",
     96 + 512 + 8,
     "_grouped_mm:512 _grouped_mm:96 ~cumsum:8"},
    {"grouped_mm, weights frozen",
     grouped,
     BF16,
     BF16,
     2,
     3,
     {6, 8},
     {2, 8, 16},
     true,
     false,
     "cumsum:8 _grouped_mm:192",
     512 + 8,
     "_grouped_mm:96 ~cumsum:8"},
};

START_TEST(moe_operator)
{
    struct fixture f;
    struct mpl_tensor *a, *b = NULL, *y;
    char expected[512];
    size_t seed;

    fixture_begin(&f);
    a = fixture_leaf(&f, case_table[_i].a_dtype, shape_of(case_table[_i].a_ndim, case_table[_i].a),
                     case_table[_i].a_trained);
    if (case_table[_i].b_ndim)
        b = fixture_leaf(&f, case_table[_i].b_dtype,
                         shape_of(case_table[_i].b_ndim, case_table[_i].b),
                         case_table[_i].b_trained);
    fixture_log(&f);
    y = mpl_hold(case_table[_i].op(f.tape, a, b));
    ck_assert_msg(!strcmp(fixture_log(&f), case_table[_i].forward), "%s: %s", case_table[_i].name,
                  f.log);
    ck_assert_uint_eq(fixture_saved(y), case_table[_i].saved);
    ck_assert_int_eq(y->grad_fn != NULL, case_table[_i].backward != NULL);
    seed = f.timeline.requests.len;
    if (case_table[_i].backward) {
        mpl_backward(f.tape, y);
        snprintf(expected, sizeof(expected), "ones_like:%" PRIu64 " %s ~ones_like:%" PRIu64,
                 f.timeline.requests.data[seed].bytes, case_table[_i].backward,
                 f.timeline.requests.data[seed].bytes);
        ck_assert_msg(!strcmp(fixture_log(&f), expected), "%s: %s", case_table[_i].name, f.log);
    }
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, a);
    mpl_drop(f.tape, b);
    fixture_end(&f);
}
END_TEST

/* A gradient of a transposed weight lies as the weight does: the leaf takes it as it is. */
START_TEST(transposed_weights_take_their_gradient)
{
    struct fixture f;
    struct mpl_tensor *a, *b, *y;

    fixture_begin(&f);
    a = fixture_leaf(&f, BF16, SHAPE(6, 8), false);
    b = fixture_leaf(&f, BF16, SHAPE(2, 16, 8), true);
    y = mpl_hold(grouped_transposed(f.tape, a, b));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:192 _grouped_mm:512 ~cumsum:8 ~ones_like:192");
    ck_assert_ptr_nonnull(b->grad);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, a);
    mpl_drop(f.tape, b);
    fixture_end(&f);
}
END_TEST

/* Rows of a result begin at multiples of 16 bytes. */
START_TEST(grouped_rows_are_padded)
{
    struct fixture f;
    struct mpl_tensor *a, *b, *y;

    fixture_begin(&f);
    a = fixture_leaf(&f, BF16, SHAPE(6, 8), false);
    b = fixture_leaf(&f, BF16, SHAPE(2, 8, 3), false);
    y = mpl_hold(grouped(f.tape, a, b));
    ck_assert_int_eq(y->stride[0], 8);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, a);
    mpl_drop(f.tape, b);
    fixture_end(&f);
}
END_TEST

static struct mpl_tensor **const no_kwargs[MPL_MAX_KWARGS];

/* silu(a) where a second result, of which nothing comes, died before backward. */
static struct mpl_tensor *with_dead_end(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    struct mpl_tensor *a = mpl_hold(mpl_op_neg(tape, input));

    (void)context;
    mpl_consume(tape, mpl_op_square(tape, mpl_op_square(tape, a)));
    return mpl_op_silu(tape, mpl_return(a));
}

/* What recomputation brings for the dead end is let go at once; it stops at the input of silu. */
START_TEST(dead_ends_are_not_kept_by_recomputation)
{
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    x = fixture_leaf(&f, F32, SHAPE(4), true);
    y = mpl_hold(mpl_checkpoint(f.tape, with_dead_end, NULL, x, no_kwargs));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 neg:16 pow:16 pow:16 ~pow:16 ~pow:16 "
                                      "silu_backward:16 ~neg:16 neg:16 "
                                      "~silu_backward:16 ~ones_like:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("moe_op");

    tcase_add_loop_test(tcase, moe_operator, 0, ROWS(case_table));
    tcase_add_test(tcase, transposed_weights_take_their_gradient);
    tcase_add_test(tcase, grouped_rows_are_padded);
    tcase_add_test(tcase, dead_ends_are_not_kept_by_recomputation);
    return test_run("moe_op", tcase);
}
