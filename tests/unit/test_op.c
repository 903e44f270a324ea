/* SPDX-License-Identifier: MIT */
/* Operators: what each allocates forward, keeps, and allocates backward, in order. Worked out by
 * hand from tools/autograd/derivatives.yaml and the generated code's order. */
#include "op/rule.h"
#include "op/scratch_book.h"
#include "tape_fixture.h"

/* ---- one operator at a time -------------------------------------------------------------------
 */

typedef struct mpl_tensor *binary_op(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *b);

static struct mpl_tensor *add(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b)
{
    return mpl_op_add(t, a, b);
}

static struct mpl_tensor *mul(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b)
{
    return mpl_op_mul(t, a, b);
}

static struct mpl_tensor *linear(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b)
{
    return mpl_op_linear(t, a, b, NULL);
}

static struct mpl_tensor *matmul(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b)
{
    return mpl_op_matmul(t, a, b);
}

static struct mpl_tensor *embedding(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b)
{
    return mpl_op_embedding(t, a, b);
}

static struct mpl_tensor *cross_entropy(struct mpl_tape *t, struct mpl_tensor *a,
                                        struct mpl_tensor *b)
{
    return mpl_op_cross_entropy(t, a, b);
}

static struct mpl_tensor *cat_last(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b)
{
    return mpl_op_cat(t, a, b, a->shape.ndim - 1);
}

#define UNARY(name, call)                                                                          \
    static struct mpl_tensor *name(struct mpl_tape *t, struct mpl_tensor *a, struct mpl_tensor *b) \
    {                                                                                              \
        (void)b;                                                                                   \
        return call;                                                                               \
    }

UNARY(add_scalar, mpl_op_add_scalar(t, a))
UNARY(mul_scalar, mpl_op_mul_scalar(t, a))
UNARY(mul_number, mpl_op_mul_number(t, a))
UNARY(div_scalar, mpl_op_div_scalar(t, a))
UNARY(square, mpl_op_square(t, a))
UNARY(rsqrt, mpl_op_rsqrt(t, a))
UNARY(neg, mpl_op_neg(t, a))
UNARY(silu, mpl_op_silu(t, a))
UNARY(to_float, mpl_op_to(t, a, MPL_FLOAT32))
UNARY(to_half, mpl_op_to(t, a, MPL_BFLOAT16))
UNARY(mean_last, mpl_op_mean_last(t, a))
UNARY(softmax_float, mpl_op_softmax(t, a, MPL_FLOAT32))
UNARY(first_two, mpl_op_slice_last(t, a, mpl_dim(2)))
UNARY(every_second, mpl_op_stride_last(t, a, 2))
UNARY(clamped, mpl_op_clamp_in_place(t, mpl_op_neg(t, a)))
UNARY(transposed_copy, mpl_op_contiguous(t, mpl_op_transpose(t, a, 0, 1)))
UNARY(widen, mpl_op_expand(t, a, SHAPE(5, 3)))

#define F32  MPL_FLOAT32
#define BF16 MPL_BFLOAT16

/* Operands (b_ndim 0: one only), which of them are trained; forward's log, bytes that the node of
 * the result keeps, backward's log without the seed's begin and end. */
static const struct {
    const char *name;
    binary_op *op;
    enum mpl_dtype a_dtype, b_dtype;
    int a_ndim, b_ndim;
    int64_t a[4], b[4];
    bool a_trained, b_trained;
    const char *forward;
    uint64_t saved;
    const char *backward;
} op_table[] = {
    /* nothing is kept */
    {"add_scalar",
     add_scalar,
     F32,
     F32,
     2,
     0,
     {2, 3},
     {0},
     true,
     false,
     "add:24",
     0,
     "new_empty_strided:24"},
    {"mul_scalar", mul_scalar, F32, F32, 2, 0, {2, 3}, {0}, true, false, "mul:24", 0, "mul:24"},
    {"mul_number", mul_number, F32, F32, 2, 0, {2, 3}, {0}, true, false, "mul:24", 0, "mul:24"},
    {"div_scalar", div_scalar, F32, F32, 2, 0, {2, 3}, {0}, true, false, "div:24", 0, "div:24"},
    {"neg", neg, F32, F32, 2, 0, {2, 3}, {0}, true, false, "neg:24", 0, "neg:24"},
    {"to float",
     to_float,
     BF16,
     F32,
     2,
     0,
     {2, 3},
     {0},
     true,
     false,
     "_to_copy:24",
     0,
     "_to_copy:12"},
    {"to half", to_half, F32, F32, 2, 0, {2, 3}, {0}, true, false, "_to_copy:12", 0, "_to_copy:24"},
    {"mean", mean_last, F32, F32, 2, 0, {2, 3}, {0}, true, false, "mean:8", 0, "div:24"},
    /* x, or the result */
    {"square",
     square,
     F32,
     F32,
     2,
     0,
     {2, 3},
     {0},
     true,
     false,
     "pow:24",
     24,
     "pow:24 mul:24 mul:24 ~mul:24 ~pow:24"},
    {"rsqrt",
     rsqrt,
     F32,
     F32,
     2,
     0,
     {2, 3},
     {0},
     true,
     false,
     "rsqrt:24",
     24,
     "pow:24 mul:24 mul:24 ~mul:24 ~pow:24"},
    {"silu", silu, F32, F32, 2, 0, {2, 3}, {0}, true, false, "silu:24", 24, "silu_backward:24"},
    {"softmax",
     softmax_float,
     BF16,
     F32,
     2,
     0,
     {2, 3},
     {0},
     true,
     false,
     "_to_copy:24 _softmax:24 ~_to_copy:24",
     24,
     "_softmax_backward_data:24 _to_copy:12 ~_softmax_backward_data:24"},
    /* the other operand, if this one is trained */
    {"mul", mul, F32, F32, 2, 2, {2, 3}, {2, 3}, true, true, "mul:24", 48, "mul:24 mul:24"},
    {"mul, a", mul, F32, BF16, 2, 2, {2, 3}, {2, 3}, true, false, "mul:24", 12, "mul:24"},
    {"mul, b",
     mul,
     F32,
     BF16,
     2,
     2,
     {2, 3},
     {2, 3},
     false,
     true,
     "mul:24",
     24,
     "mul:24 _to_copy:12 ~mul:24"},
    {"add, promoted",
     add,
     BF16,
     F32,
     2,
     1,
     {2, 3},
     {3},
     true,
     true,
     "add:24",
     0,
     "_to_copy:12 sum:12"},
    /* views: what a leaf gets as a view of another layout is copied; a slice's gradient is of full
       size, a repeated one's is summed by the engine */
    {"slice", first_two, F32, F32, 2, 0, {2, 8}, {0}, true, false, "", 0, "slice_backward:64"},
    {"expand", widen, F32, F32, 2, 0, {1, 3}, {0}, true, false, "", 0, "sum:12"},
    {"cat",
     cat_last,
     F32,
     F32,
     2,
     2,
     {2, 3},
     {2, 5},
     true,
     true,
     "cat:64",
     0,
     "new_empty_strided:24 new_empty_strided:40"},
    {"sub, the second one's sign turns",
     mpl_op_sub,
     F32,
     F32,
     2,
     2,
     {2, 3},
     {2, 3},
     true,
     true,
     "sub:24",
     0,
     "neg:24 new_empty_strided:24"},
    {"every second",
     every_second,
     F32,
     F32,
     2,
     0,
     {2, 7},
     {0},
     true,
     false,
     "",
     0,
     "slice_backward:56"},
    {"stack",
     mpl_op_stack_last,
     F32,
     F32,
     2,
     2,
     {2, 3},
     {2, 3},
     true,
     true,
     "stack:48",
     0,
     "new_empty_strided:24 new_empty_strided:24"},
    /* a copy of what was there; two masks and a zero for the time of backward */
    {"clamp in place",
     clamped,
     F32,
     F32,
     2,
     0,
     {2, 3},
     {0},
     true,
     false,
     "neg:24 clone:24",
     24,
     "scalar_tensor:4 ge:6 le:6 where:24 ~le:6 ~ge:6 ~scalar_tensor:4 ~clone:24 neg:24 ~where:24"},
    {"clone",
     transposed_copy,
     F32,
     F32,
     2,
     0,
     {2, 3},
     {0},
     true,
     false,
     "clone:24",
     0,
     "new_empty_strided:24"},
    /* linear: a [2, 5, 4], weight [3, 4]; the weight's gradient first */
    {"linear",
     linear,
     BF16,
     BF16,
     3,
     2,
     {2, 5, 4},
     {3, 4},
     true,
     true,
     "mm:60",
     80 + 24,
     "mm:24 mm:80"},
    {"linear, frozen weight",
     linear,
     BF16,
     BF16,
     3,
     2,
     {2, 5, 4},
     {3, 4},
     true,
     false,
     "mm:60",
     24,
     "mm:80"},
    {"linear, input without gradient",
     linear,
     BF16,
     BF16,
     3,
     2,
     {2, 5, 4},
     {3, 4},
     false,
     true,
     "mm:60",
     80,
     "mm:24"},
    {"linear, frozen", linear, BF16, BF16, 3, 2, {2, 5, 4}, {3, 4}, false, false, "mm:60", 0, NULL},
    /* [2, 3, 4, 5] x [2, 3, 5, 2] in float32: mat2's gradient first */
    {"matmul",
     matmul,
     F32,
     F32,
     4,
     4,
     {2, 3, 4, 5},
     {2, 3, 5, 2},
     true,
     true,
     "bmm:192",
     0,
     "bmm:240 bmm:480"},
    {"matmul, b",
     matmul,
     F32,
     F32,
     4,
     4,
     {2, 3, 4, 5},
     {2, 3, 5, 2},
     false,
     true,
     "bmm:192",
     0,
     "bmm:240"},
    /* 8 bytes a token; the gradient has all rows */
    {"embedding",
     embedding,
     BF16,
     MPL_INT64,
     2,
     2,
     {100, 8},
     {2, 3},
     true,
     false,
     "embedding:96",
     48,
     "embedding_dense_backward:1600"},
    /* log-probabilities, targets and the sum of weights; 12 bytes a logit at the peak */
    {"cross-entropy",
     cross_entropy,
     F32,
     MPL_INT64,
     2,
     1,
     {4, 10},
     {4},
     true,
     false,
     "_log_softmax:160 nll_loss_forward:4 nll_loss_forward:4",
     160 + 32 + 4,
     "nll_loss_backward:160 ~nll_loss_forward:4 _log_softmax_backward_data:160 "
     "~nll_loss_backward:160 "
     "~_log_softmax:160"},
    {"cross-entropy in bf16",
     cross_entropy,
     BF16,
     MPL_INT64,
     2,
     1,
     {4, 10},
     {4},
     true,
     false,
     "_log_softmax:80 nll_loss_forward:2 nll_loss_forward:2",
     80 + 32 + 2,
     "nll_loss_backward:80 ~nll_loss_forward:2 _log_softmax_backward_data:80 ~nll_loss_backward:80 "
     "~_log_softmax:80"},
};

/* What was kept besides the operands goes at the end of its node; see the rows. */
START_TEST(operator)
{
    struct fixture f;
    struct mpl_tensor *a, *b = NULL, *y;
    char expected[512];
    size_t seed; /* number of its request */

    fixture_begin(&f);
    a = fixture_leaf(&f, op_table[_i].a_dtype, shape_of(op_table[_i].a_ndim, op_table[_i].a),
                     op_table[_i].a_trained);
    if (op_table[_i].b_ndim)
        b = fixture_leaf(&f, op_table[_i].b_dtype, shape_of(op_table[_i].b_ndim, op_table[_i].b),
                         op_table[_i].b_trained);
    fixture_log(&f);
    y = mpl_hold(op_table[_i].op(f.tape, a, b));
    ck_assert_msg(!strcmp(fixture_log(&f), op_table[_i].forward), "%s: %s", op_table[_i].name,
                  f.log);
    ck_assert_uint_eq(fixture_saved(y), op_table[_i].saved);
    ck_assert_int_eq(y->grad_fn != NULL, op_table[_i].backward != NULL);
    seed = f.timeline.requests.len;
    if (op_table[_i].backward) {
        mpl_backward(f.tape, y);
        snprintf(expected, sizeof(expected), "ones_like:%" PRIu64 "%s%s ~ones_like:%" PRIu64,
                 f.timeline.requests.data[seed].bytes, op_table[_i].backward[0] ? " " : "",
                 op_table[_i].backward, f.timeline.requests.data[seed].bytes);
        ck_assert_msg(!strcmp(fixture_log(&f), expected), "%s: %s", op_table[_i].name, f.log);
    }
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, a);
    mpl_drop(f.tape, b);
    fixture_end(&f);
}
END_TEST

START_TEST(to_the_same_format_is_the_tensor_itself)
{
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(4), true);
    y = mpl_hold(mpl_op_to(f.tape, x, MPL_BFLOAT16));
    ck_assert_ptr_eq(x, y);
    ck_assert_uint_eq(x->refs, 2);
    mpl_drop(f.tape, y);
    y = mpl_hold(mpl_op_contiguous(f.tape, x));
    ck_assert_ptr_eq(x, y);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

/* Halves of one gradient are views of it: the buffer of x, used once more, is a new sum. */
START_TEST(cat_gives_views_as_gradients)
{
    struct fixture f;
    struct mpl_tensor *leaf, *x, *w, *other, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 3), true);
    w = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 5), false);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    other = mpl_op_neg(f.tape, x);
    y = mpl_hold(mpl_op_cat(f.tape, mpl_op_cat(f.tape, x, w, 1), other, 1));
    mpl_drop(f.tape, x);
    ck_assert_int_eq(y->shape.dim[1].n, 11);
    fixture_log(&f);
    mpl_backward(f.tape, y);
    /* the inner cat is newer: its view comes first, then neg's own gradient */
    ck_assert_str_eq(fixture_log(&f), "ones_like:88 neg:24 add:24 ~neg:24 neg:24 ~add:24 "
                                      "~ones_like:88");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, w);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* addmm: the input's gradient, then the weight's; the bias's is summed from the incoming one. */
START_TEST(linear_with_bias)
{
    struct fixture f;
    struct mpl_tensor *x, *w, *bias, *y;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 5, 4), true);
    w = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(3, 4), true);
    bias = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(3), true);
    fixture_log(&f);
    y = mpl_hold(mpl_op_linear(f.tape, x, w, bias));
    ck_assert_uint_eq(fixture_saved(y), 80 + 24);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "addmm:60 ones_like:60 mm:80 mm:24 sum:6 ~ones_like:60");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, w);
    mpl_drop(f.tape, bias);
    fixture_end(&f);
}
END_TEST

/* float32 activations under autocast: a copy of the input is kept, and the cached one of w. */
START_TEST(linear_under_autocast)
{
    struct fixture f;
    struct mpl_tensor *x, *w, *y;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 4), false);
    mpl_rebind(f.tape, &x, mpl_op_neg(f.tape, x));
    x->requires_grad = true;
    w = fixture_leaf(&f, MPL_FLOAT32, SHAPE(3, 4), true);
    fixture_log(&f);
    f.tape->autocast = MPL_BFLOAT16;
    y = mpl_hold(mpl_op_linear(f.tape, x, w, NULL));
    mpl_autocast_exit(f.tape);
    f.tape->autocast = MPL_DTYPE_NONE;
    ck_assert_str_eq(fixture_log(&f), "_to_copy:24 _to_copy:16 mm:12");
    ck_assert_uint_eq(fixture_saved(y), 24 + 16);
    mpl_backward(f.tape, y);
    /* bfloat16 gradients; both copies go with the node; each is cast to float32 when it is used:
     * x's cast is the newer node */
    ck_assert_str_eq(fixture_log(&f),
                     "ones_like:12 mm:24 mm:16 ~_to_copy:16 ~_to_copy:24 _to_copy:32 ~mm:16 "
                     "_to_copy:48 ~mm:24 ~ones_like:12");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, w);
    fixture_end(&f);
}
END_TEST

/* ---- compositions -----------------------------------------------------------------------------
 */

enum { ROWS_N = 8, WIDTH = 64, ELEMENTS = ROWS_N * WIDTH };

/* LlamaRMSNorm: bytes kept, besides x itself and the result. */
static const struct {
    enum mpl_dtype x, weight;
    bool is_trained;
    uint64_t kept_per_element; /* and 4 for each row: 1/rms */
    enum mpl_dtype result;
} norm_table[] = {
    {MPL_BFLOAT16, MPL_BFLOAT16, true, 4 + 2, MPL_BFLOAT16}, /* float32 copy, normalised */
    {MPL_BFLOAT16, MPL_BFLOAT16, false, 4, MPL_BFLOAT16},
    {MPL_FLOAT32, MPL_FLOAT32, true, 4, MPL_FLOAT32}, /* x itself serves as the copy */
    {MPL_FLOAT32, MPL_FLOAT32, false, 0, MPL_FLOAT32},
    {MPL_BFLOAT16, MPL_FLOAT32, true, 4 + 2, MPL_FLOAT32}, /* promoted */
};

static struct mpl_tensor *rms_norm(struct mpl_tape *tape, struct mpl_tensor *weight,
                                   struct mpl_tensor *x)
{
    struct mpl_tensor *h = mpl_hold(mpl_op_to(tape, x, MPL_FLOAT32)), *out;
    struct mpl_tensor *variance = mpl_hold(mpl_op_mean_last(tape, mpl_op_square(tape, h)));
    struct mpl_tensor *scale = mpl_op_rsqrt(tape, mpl_op_add_scalar(tape, variance));

    mpl_rebind(tape, &h, mpl_op_mul(tape, h, scale));
    out = mpl_op_mul(tape, weight, mpl_op_to(tape, h, (enum mpl_dtype)x->dtype));
    mpl_drop(tape, h);
    mpl_drop(tape, variance);
    return out;
}

START_TEST(rms_norm_keeps)
{
    const uint64_t result = mpl_dtype_bytes(norm_table[_i].result, ELEMENTS);
    struct fixture f;
    struct mpl_tensor *leaf, *x, *w, *y;
    uint64_t before;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, norm_table[_i].x, SHAPE(1, ROWS_N, WIDTH), true);
    w = fixture_leaf(&f, norm_table[_i].weight, SHAPE(WIDTH), norm_table[_i].is_trained);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    before = fixture_live(&f);
    y = mpl_hold(rms_norm(f.tape, w, x));
    ck_assert_uint_eq(fixture_live(&f) - before - result,
                      norm_table[_i].kept_per_element * ELEMENTS + 4 * ROWS_N);
    ck_assert_int_eq(y->dtype, norm_table[_i].result);
    mpl_drop(f.tape, x);
    /* x in bfloat16 is not kept at all */
    ck_assert_uint_eq(fixture_live(&f),
                      before + result + norm_table[_i].kept_per_element * ELEMENTS + 4 * ROWS_N -
                          (norm_table[_i].x == MPL_BFLOAT16 ? 2 * ELEMENTS : 0));
    mpl_backward(f.tape, y);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    mpl_drop(f.tape, w);
    fixture_end(&f);
}
END_TEST

/* down(silu(gate(x)) * up(x)), bfloat16: gate, silu, up and product, 8 bytes a token and inner
 * column. */
START_TEST(swiglu_keeps_four_tensors)
{
    enum { INNER = 48 };
    struct fixture f;
    struct mpl_tensor *leaf, *gate, *up, *down, *x, *g, *u, *y;
    uint64_t before;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(1, ROWS_N, WIDTH), true);
    gate = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(INNER, WIDTH), true);
    up = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(INNER, WIDTH), true);
    down = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(WIDTH, INNER), true);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    before = fixture_live(&f);
    g = mpl_op_silu(f.tape, mpl_op_linear(f.tape, x, gate, NULL));
    u = mpl_op_linear(f.tape, x, up, NULL);
    y = mpl_hold(mpl_op_linear(f.tape, mpl_op_mul(f.tape, g, u), down, NULL));
    mpl_drop(f.tape, x); /* stays: two products keep it */
    ck_assert_uint_eq(fixture_live(&f) - before, 8 * INNER * ROWS_N + 2 * ELEMENTS);
    mpl_backward(f.tape, y);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    mpl_drop(f.tape, gate);
    mpl_drop(f.tape, up);
    mpl_drop(f.tape, down);
    fixture_end(&f);
}
END_TEST

/* q * cos + cat(-x2, x1) * sin: cos and sin are kept, q is not. */
START_TEST(rotary_keeps_its_tables_only)
{
    struct fixture f;
    struct mpl_tensor *leaf, *q, *cos, *sin, *x1, *x2, *half, *a, *y;
    const uint64_t bytes = 2 * 4 * 6 * 16;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(1, 4, 6, 16), true);
    cos = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(1, 1, 6, 16), false);
    sin = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(1, 1, 6, 16), false);
    q = mpl_hold(mpl_op_neg(f.tape, leaf));
    fixture_log(&f);
    a = mpl_op_mul(f.tape, q, cos);
    x1 = mpl_hold(mpl_op_slice_last(f.tape, q, mpl_dim(8)));
    x2 = mpl_hold(mpl_op_slice_last(f.tape, q, mpl_dim(8)));
    half = mpl_op_cat(f.tape, mpl_op_neg(f.tape, x2), x1, 3);
    mpl_drop(f.tape, x1);
    mpl_drop(f.tape, x2);
    y = mpl_hold(mpl_op_add(f.tape, a, mpl_op_mul(f.tape, half, sin)));
    mpl_drop(f.tape, q);
    ck_assert_str_eq(fixture_log(&f), "mul:768 neg:384 cat:768 ~neg:384 mul:768 ~cat:768 add:768 "
                                      "~mul:768 ~mul:768 ~neg:768");
    ck_assert_uint_eq(fixture_live(&f), 2 * bytes + 2 * 2 * 6 * 16);
    mpl_drop(f.tape, cos);
    mpl_drop(f.tape, sin);
    ck_assert_uint_eq(fixture_live(&f), 2 * bytes + 2 * 2 * 6 * 16); /* the graph has them */
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f),
                     "ones_like:768 "
                     /* times sin; cat gives views; neg of the second half */
                     "mul:768 ~leaf:192 neg:384 "
                     /* x2 is a slice made after x1: full size, then x1's on top in place */
                     "slice_backward:768 ~neg:384 slice_backward:768 ~mul:768 ~slice_backward:768 "
                     /* times cos, added in place; neg of the whole */
                     "mul:768 ~leaf:192 ~mul:768 neg:768 ~slice_backward:768 ~ones_like:768");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* The head: float32 copy of the logits, cross-entropy. In backward three float32 tensors of the
 * logits' size live at once: 12 bytes a logit. */
START_TEST(cross_entropy_takes_12_bytes_a_logit)
{
    enum { TOKENS = 16, VOCABULARY = 100, LOGITS = TOKENS * VOCABULARY };
    struct fixture f;
    struct mpl_tensor *leaf, *targets, *y;
    uint64_t live = 0, peak = 0;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(TOKENS, VOCABULARY), true);
    targets = fixture_leaf(&f, MPL_INT64, SHAPE(TOKENS), false);
    y = mpl_hold(
        mpl_op_cross_entropy(f.tape, mpl_op_to(f.tape, leaf, MPL_FLOAT32), mpl_return(targets)));
    /* log-probabilities, targets, loss, sum of weights */
    ck_assert_uint_eq(fixture_live(&f), 2 * LOGITS + 4 * LOGITS + 8 * TOKENS + 4 + 4);
    mpl_backward(f.tape, y);
    for (size_t i = 0; i < f.timeline.events.len; i++) {
        const mpl_event e = f.timeline.events.data[i];
        const uint64_t bytes = f.timeline.requests.data[mpl_event_id(e)].bytes;

        live = mpl_event_kind(e) == MPL_EVENT_ALLOC ? live + bytes : live - bytes;
        peak = live > peak ? live : peak;
    }
    /* targets and the sum of weights went with the first node; loss and seed are there */
    ck_assert_uint_eq(peak, 2 * LOGITS + 12 * LOGITS + 4 + 4);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* ---- memory of kernels ------------------------------------------------------------------------
 */

static struct mpl_tensor *make_result(struct mpl_tape *tape, void *context, int which)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(*(int64_t *)context + which));

    return mpl_hold(mpl_empty(tape, "result", MPL_UINT8, &shape));
}

START_TEST(kernel_memory_is_booked_around_results)
{
    struct mpl_scratch list = {0};
    struct fixture f;
    struct mpl_tensor *results[2] = {NULL, NULL};
    int64_t size = 100;
    const struct mpl_book book = {"kernel", MPL_LINEAR, make_result, &size, results};
    uint8_t first, second;

    fixture_begin(&f);
    first = mpl_scratch_take(&list, 7);
    mpl_scratch_result(&list, 1, 0);
    second = mpl_scratch_take(&list, 8);
    mpl_scratch_give(&list, first);
    mpl_scratch_result(&list, 0, 0);
    mpl_scratch_give(&list, second);
    mpl_book_run(f.tape, &list, &book);
    ck_assert_str_eq(fixture_log(&f),
                     "kernel:7 result:101 kernel:8 ~kernel:7 result:100 ~kernel:8");
    ck_assert_int_eq(f.timeline.requests.data[0].order, MPL_LINEAR);
    mpl_drop(f.tape, results[0]);
    mpl_drop(f.tape, results[1]);
    fixture_end(&f);
}
END_TEST

START_TEST(softmax_takes_its_product_on_a_card)
{
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    f.tape->has_kernel_scratch = true;
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 3), true);
    y = mpl_hold(mpl_op_softmax(f.tape, x, MPL_FLOAT32));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:24 _softmax_backward_data:24 "
                                      "_softmax_backward_data:24 ~_softmax_backward_data:24 "
                                      "~ones_like:24");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

/* One for the thread of forward and one for that of backward, after the first result; kept. */
START_TEST(each_thread_has_a_cublas_workspace)
{
    struct fixture f;
    struct mpl_tensor *x, *w, *y;

    fixture_begin(&f);
    f.tape->workspace_bytes = 1000;
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 4), true);
    w = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(3, 4), true);
    fixture_log(&f);
    for (int i = 0; i < 2; i++) {
        y = mpl_hold(mpl_op_linear(f.tape, x, w, NULL));
        mpl_backward(f.tape, y);
        mpl_drop(f.tape, y);
        ck_assert_str_eq(fixture_log(&f),
                         i ? "mm:12 ones_like:12 mm:24 mm:16 ~mm:16 ~mm:24 ~ones_like:12 ~mm:12"
                           : "mm:12 cublas_workspace:1000 ones_like:12 mm:24 cublas_workspace:1000 "
                             "mm:16 ~ones_like:12 ~mm:12");
    }
    ck_assert_int_eq(f.timeline.requests.data[3].category, MPL_CATEGORY_WORKSPACE);
    ck_assert_int_eq(f.tape->category, MPL_CATEGORY_TEMPORARY);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, w);
    ck_assert_uint_eq(fixture_live(&f), 2000);
    mpl_tape_free(f.tape);
    mpl_timeline_free(&f.timeline);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("op");

    tcase_add_loop_test(tcase, operator, 0, ROWS(op_table));
    tcase_add_test(tcase, to_the_same_format_is_the_tensor_itself);
    tcase_add_test(tcase, cat_gives_views_as_gradients);
    tcase_add_test(tcase, linear_with_bias);
    tcase_add_test(tcase, linear_under_autocast);
    tcase_add_loop_test(tcase, rms_norm_keeps, 0, ROWS(norm_table));
    tcase_add_test(tcase, swiglu_keeps_four_tensors);
    tcase_add_test(tcase, rotary_keeps_its_tables_only);
    tcase_add_test(tcase, cross_entropy_takes_12_bytes_a_logit);
    tcase_add_test(tcase, kernel_memory_is_booked_around_results);
    tcase_add_test(tcase, softmax_takes_its_product_on_a_card);
    tcase_add_test(tcase, each_thread_has_a_cublas_workspace);
    return test_run("op", tcase);
}
