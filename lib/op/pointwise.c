/* SPDX-License-Identifier: MIT */
/* Pointwise operators: arithmetic, casts, activations. */
#include "op/rule.h"

static enum mpl_dtype promote(const struct mpl_tensor *a, const struct mpl_tensor *b)
{
    const bool fa = mpl_dtype_is_floating((enum mpl_dtype)a->dtype);
    const bool fb = mpl_dtype_is_floating((enum mpl_dtype)b->dtype);

    if (fa != fb)
        return (enum mpl_dtype)(fa ? a->dtype : b->dtype);
    if (fa && a->dtype != b->dtype && mpl_dtype_size((enum mpl_dtype)a->dtype) == 2 &&
        mpl_dtype_size((enum mpl_dtype)b->dtype) == 2)
        return MPL_FLOAT32; /* bfloat16 and float16: c10/core/ScalarType.cpp, promoteTypes */
    return (enum mpl_dtype)(mpl_dtype_size((enum mpl_dtype)a->dtype) >=
                                    mpl_dtype_size((enum mpl_dtype)b->dtype)
                                ? a->dtype
                                : b->dtype);
}

void mpl_rule_pass_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    (void)tape;
    for (int i = 0; i < node->edge_count; i++)
        if (mpl_needs(node, i))
            in[i] = mpl_hold(out[0]);
}

struct mpl_tensor *mpl_op_add(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "AddBackward0", mpl_rule_pass_backward,
                                         (struct mpl_tensor *[]){a, b}, 2, 1, 0);
    struct mpl_tensor *out = mpl_empty_like(tape, "add.Tensor", promote(a, b), a, b);

    return mpl_rule_finish(tape, out, node, a, b);
}

/* -grad for the second one, made first */
static void sub_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    if (mpl_needs(node, 1))
        in[1] = mpl_rule_like(tape, "neg.default", out[0], NULL);
    if (mpl_needs(node, 0))
        in[0] = mpl_hold(out[0]);
}

struct mpl_tensor *mpl_op_sub(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_node *node =
        mpl_node_new(tape, "SubBackward0", sub_backward, (struct mpl_tensor *[]){a, b}, 2, 1, 0);
    struct mpl_tensor *out = mpl_empty_like(tape, "sub.Tensor", promote(a, b), a, b);

    return mpl_rule_finish(tape, out, node, a, b);
}

static void mul_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    struct mpl_tensor *self = NULL, *other = NULL;
    int slot = 0;

    if (mpl_needs(node, 0))
        other = mpl_saved(tape, node, slot++);
    if (mpl_needs(node, 1))
        self = mpl_saved(tape, node, slot);
    if (self)
        in[1] = mpl_hold(mpl_empty_like(tape, "mul.Tensor", promote(out[0], self), out[0], self));
    if (other)
        in[0] = mpl_hold(mpl_empty_like(tape, "mul.Tensor", promote(out[0], other), out[0], other));
}

struct mpl_tensor *mpl_op_mul(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_node *node =
        mpl_node_new(tape, "MulBackward0", mul_backward, (struct mpl_tensor *[]){a, b}, 2, 1, 2);
    struct mpl_tensor *out;

    if (mpl_needs(node, 0))
        mpl_save(tape, node, b);
    if (mpl_needs(node, 1))
        mpl_save(tape, node, a);
    out = mpl_empty_like(tape, "mul.Tensor", promote(a, b), a, b);
    return mpl_rule_finish(tape, out, node, a, b);
}

struct mpl_tensor *mpl_op_add_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                       struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "AddBackward0", mpl_rule_pass_backward,
                                         (struct mpl_tensor *[]){a, b}, 2, 1, 0);

    return mpl_rule_finish(tape, mpl_alias(tape, a), node, a, b);
}

static struct mpl_tensor *unary(struct mpl_tape *tape, const char *op, struct mpl_tensor *a,
                                struct mpl_node *node)
{
    struct mpl_tensor *out = mpl_empty_like(tape, op, (enum mpl_dtype)a->dtype, a, NULL);

    return mpl_rule_finish(tape, out, node, a, NULL);
}

struct mpl_tensor *mpl_op_add_scalar(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return unary(tape, "add.Tensor", a,
                 mpl_node_new(tape, "AddBackward0", mpl_rule_pass_backward, &a, 1, 1, 0));
}

static void mul_scalar_backward(struct mpl_tape *tape, struct mpl_node *node,
                                struct mpl_tensor **out, struct mpl_tensor **in)
{
    (void)node;
    in[0] = mpl_rule_like(tape, "mul.Scalar", out[0], NULL);
}

struct mpl_tensor *mpl_op_mul_scalar(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return unary(tape, "mul.Scalar", a,
                 mpl_node_new(tape, "MulBackward1", mul_scalar_backward, &a, 1, 1, 0));
}

static void mul_number_backward(struct mpl_tape *tape, struct mpl_node *node,
                                struct mpl_tensor **out, struct mpl_tensor **in)
{
    (void)node;
    in[0] = mpl_rule_like(tape, "mul.Tensor", out[0], NULL);
}

struct mpl_tensor *mpl_op_mul_number(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return unary(tape, "mul.Tensor", a,
                 mpl_node_new(tape, "MulBackward0", mul_number_backward, &a, 1, 1, 0));
}

static void div_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    (void)node;
    in[0] = mpl_rule_like(tape, "div.Tensor", out[0], NULL);
}

struct mpl_tensor *mpl_op_div_scalar(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return unary(tape, "div.Tensor", a,
                 mpl_node_new(tape, "DivBackward0", div_backward, &a, 1, 1, 0));
}

struct mpl_tensor *mpl_op_scale_in_place(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "DivBackward0", div_backward, &a, 1, 1, 0);

    return mpl_rule_finish(tape, mpl_alias(tape, a), node, a, NULL);
}

static void div_constant_backward(struct mpl_tape *tape, struct mpl_node *node,
                                  struct mpl_tensor **out, struct mpl_tensor **in)
{
    in[0] = mpl_rule_like(tape, "div.Tensor", out[0], mpl_saved(tape, node, 0));
}

struct mpl_tensor *mpl_op_div_constant(struct mpl_tape *tape, struct mpl_tensor *a,
                                       struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "DivBackward0", div_constant_backward, &a, 1, 1, 1);

    mpl_save(tape, node, b);
    return mpl_rule_finish(tape, mpl_empty_like(tape, "div.Tensor", promote(a, b), a, b), node, a,
                           b);
}

/* grad * result */
static void exp_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    in[0] = mpl_rule_like(tape, "mul.Tensor", out[0], mpl_saved(tape, node, 0));
}

struct mpl_tensor *mpl_op_exp(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "ExpBackward0", exp_backward, &a, 1, 1, 1);
    struct mpl_tensor *out = mpl_empty_like(tape, "exp.default", (enum mpl_dtype)a->dtype, a, NULL);

    mpl_save_output(tape, node, out);
    return mpl_rule_finish(tape, out, node, a, NULL);
}

/* log_sigmoid_backward(grad, self, buffer); on CUDA the buffer is empty */
static void log_sigmoid_backward(struct mpl_tape *tape, struct mpl_node *node,
                                 struct mpl_tensor **out, struct mpl_tensor **in)
{
    in[0] = mpl_rule_like(tape, "log_sigmoid_backward.default", out[0], mpl_saved(tape, node, 0));
}

struct mpl_tensor *mpl_op_log_sigmoid(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node =
        mpl_node_new(tape, "LogSigmoidBackward0", log_sigmoid_backward, &a, 1, 1, 1);

    mpl_save(tape, node, a);
    return unary(tape, "log_sigmoid_forward.default", a, node);
}

/* grad * (2 * self.pow(1)) */
static void square_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    struct mpl_tensor *self = mpl_saved(tape, node, 0);
    struct mpl_tensor *power = mpl_rule_like(tape, "pow.Tensor_Scalar", self, NULL);
    struct mpl_tensor *slope = mpl_rule_like(tape, "mul.Scalar", power, NULL);

    in[0] = mpl_rule_like(tape, "mul.Tensor", out[0], slope);
    mpl_drop(tape, slope);
    mpl_drop(tape, power);
}

struct mpl_tensor *mpl_op_square(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node;

    if (tape->autocast != MPL_DTYPE_NONE) /* pow is one of its float32 operators */
        a = mpl_op_to(tape, a, MPL_FLOAT32);
    node = mpl_node_new(tape, "PowBackward0", square_backward, &a, 1, 1, 1);
    mpl_save(tape, node, a);
    return unary(tape, "pow.Tensor_Scalar", a, node);
}

/* -0.5 * grad * result.pow(3) */
static void rsqrt_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    struct mpl_tensor *result = mpl_saved(tape, node, 0);
    struct mpl_tensor *cube = mpl_rule_like(tape, "pow.Tensor_Scalar", result, NULL);
    struct mpl_tensor *half = mpl_rule_like(tape, "mul.Scalar", out[0], NULL);

    in[0] = mpl_rule_like(tape, "mul.Tensor", half, cube);
    mpl_drop(tape, half);
    mpl_drop(tape, cube);
}

struct mpl_tensor *mpl_op_rsqrt(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "RsqrtBackward0", rsqrt_backward, &a, 1, 1, 1);
    struct mpl_tensor *out =
        mpl_empty_like(tape, "rsqrt.default", (enum mpl_dtype)a->dtype, a, NULL);

    mpl_save_output(tape, node, out);
    return mpl_rule_finish(tape, out, node, a, NULL);
}

static void neg_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    (void)node;
    in[0] = mpl_rule_like(tape, "neg.default", out[0], NULL);
}

struct mpl_tensor *mpl_op_neg(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return unary(tape, "neg.default", a,
                 mpl_node_new(tape, "NegBackward0", neg_backward, &a, 1, 1, 0));
}

static void silu_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    in[0] = mpl_rule_like(tape, "silu_backward.default", out[0], mpl_saved(tape, node, 0));
}

struct mpl_tensor *mpl_op_silu(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "SiluBackward0", silu_backward, &a, 1, 1, 1);

    mpl_save(tape, node, a);
    return unary(tape, "silu.default", a, node);
}

static void to_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                        struct mpl_tensor **in)
{
    in[0] = mpl_hold(mpl_empty_like(tape, "_to_copy.default", (enum mpl_dtype)node->edges[0].dtype,
                                    out[0], NULL));
}

struct mpl_tensor *mpl_op_to(struct mpl_tape *tape, struct mpl_tensor *a, enum mpl_dtype dtype)
{
    struct mpl_node *node;
    struct mpl_tensor *out;

    if (a->is_void || a->dtype == dtype)
        return a->is_floating ? a : mpl_return(mpl_hold(a));
    node = mpl_node_new(tape, "ToCopyBackward0", to_backward, &a, 1, 1, 0);
    out = mpl_empty_like(tape, "_to_copy.default", dtype, a, NULL);
    return mpl_rule_finish(tape, out, node, a, NULL);
}

struct mpl_tensor *mpl_op_map(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                              struct mpl_tensor *a, struct mpl_tensor *b)
{
    return mpl_rule_finish(tape, mpl_empty_like(tape, op, dtype, a, b), NULL, a, b);
}

/* ---- autocast -------------------------------------------------------------------------------- */

/* Copies of leaves are kept until autocast ends: one cast for every use of a weight.
 * source: aten/src/ATen/autocast_mode.cpp, cached_cast */
static struct mpl_tensor *cached(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    for (size_t i = tape->autocast_keys.len; i-- > 0;)
        if (tape->autocast_keys.data[i] == leaf)
            return tape->autocast_cache.data[i].tensor;
    return NULL;
}

static void remember(struct mpl_tape *tape, struct mpl_tensor *leaf, struct mpl_tensor *copy)
{
    if (mpl_vec_reserve(&tape->autocast_keys) || mpl_vec_reserve(&tape->autocast_cache)) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    tape->autocast_keys.data[tape->autocast_keys.len++] = leaf;
    tape->autocast_cache.data[tape->autocast_cache.len++] =
        (struct mpl_saved){.tensor = mpl_hold(mpl_return(mpl_hold(copy)))};
}

struct mpl_tensor *mpl_autocast(struct mpl_tape *tape, struct mpl_tensor *tensor)
{
    struct mpl_tensor *copy;

    if (tape->autocast == MPL_DTYPE_NONE || tensor->is_void || tensor->dtype == tape->autocast ||
        !mpl_dtype_is_floating((enum mpl_dtype)tensor->dtype))
        return tensor;
    if (!tensor->requires_grad || tensor->grad_fn || tensor->dtype != MPL_FLOAT32)
        return mpl_op_to(tape, tensor, tape->autocast);
    copy = cached(tape, tensor);
    if (copy)
        return mpl_return(mpl_hold(copy));
    copy = mpl_op_to(tape, tensor, tape->autocast);
    if (!copy->is_void) {
        copy->is_floating = false;
        remember(tape, tensor, copy);
        mpl_return(copy);
    }
    return copy;
}

void mpl_autocast_exit(struct mpl_tape *tape)
{
    for (size_t i = 0; i < tape->autocast_cache.len; i++)
        mpl_drop(tape, tape->autocast_cache.data[i].tensor);
    tape->autocast_cache.len = tape->autocast_keys.len = 0;
}
