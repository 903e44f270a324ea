/* SPDX-License-Identifier: MIT */
/*
 * scaled_dot_product_attention: the kernel that CUDA would take, and what each keeps.
 *
 * source: aten/src/ATen/native/transformers/attention.cpp (padding, math path),
 * transformers/cuda/attention.cu, attention_backward.cu (kernels)
 */
#include <string.h>

#include "op/rule.h"
#include "op/scratch_book.h"
#include "op/sdpa_choice.h"
#include "spec/text.h"

static struct mpl_shape shape_of_edge(const struct mpl_node *node, int i)
{
    struct mpl_shape shape = {.ndim = node->edges[i].ndim};

    memcpy(shape.dim, node->edges[i].dim, sizeof(shape.dim));
    return shape;
}

/* ---- fused kernels ----------------------------------------------------------------------------
 */

/* [b, H, s, d] in memory as [b, s, H, d] */
static void heads_inside(const struct mpl_shape *shape, int64_t *stride)
{
    stride[3] = 1;
    stride[1] = shape->dim[3].n;
    stride[2] = stride[1] * shape->dim[1].n;
    stride[0] = stride[2] * shape->dim[2].n;
}

/* The kernel's names, and what its outputs are made like. */
struct kernel {
    const char *forward, *backward, *node;
    enum mpl_dtype seed; /* of the two small tensors that remember dropout */
    bool has_paired_seed;
    bool follows_input_layout; /* empty_like(q); else always heads inside */
    int64_t row_align;         /* of the log-sum-exp */
};

static const struct kernel kernel_table[] = {
    [MPL_SDPA_FLASH] = {"_scaled_dot_product_flash_attention.default",
                        "_scaled_dot_product_flash_attention_backward.default",
                        "ScaledDotProductFlashAttentionBackward0", MPL_UINT64, true, true, 1},
    [MPL_SDPA_EFFICIENT] = {"_scaled_dot_product_efficient_attention.default",
                            "_scaled_dot_product_efficient_attention_backward.default",
                            "ScaledDotProductEfficientAttentionBackward0", MPL_INT64, false, false,
                            32},
    [MPL_SDPA_CUDNN] = {"_scaled_dot_product_cudnn_attention.default",
                        "_scaled_dot_product_cudnn_attention_backward.default",
                        "ScaledDotProductCudnnAttentionBackward0", MPL_INT64, false, true, 1},
};

static struct mpl_tensor *kernel_output(struct mpl_tape *tape, const struct kernel *kernel,
                                        const char *op, const struct mpl_tensor *like)
{
    int64_t stride[MPL_MAX_DIMS] = {0};

    if (kernel->follows_input_layout)
        return mpl_empty_like(tape, op, (enum mpl_dtype)like->dtype, like, NULL);
    heads_inside(&like->shape, stride);
    return mpl_empty_strided(tape, op, (enum mpl_dtype)like->dtype, &like->shape, stride);
}

/* One call of a fused kernel, and where its results go. */
struct call {
    const struct kernel *kernel;
    bool has_dropout;
    struct mpl_tensor *qkv[3];
    struct mpl_tensor *results[4]; /* held */
};

static struct mpl_scratch_attention describe(enum mpl_sdpa_kernel which, const struct call *call)
{
    const struct mpl_tensor *q = call->qkv[0], *k = call->qkv[1], *v = call->qkv[2];

    return (struct mpl_scratch_attention){
        .kernel = which,
        .dtype = (enum mpl_dtype)q->dtype,
        .batch = q->shape.dim[0].n,
        .query_tokens = q->shape.dim[2].n,
        .key_tokens = k->shape.dim[2].n,
        .heads = q->shape.dim[1].n,
        .kv_heads = k->shape.dim[1].n,
        .head_dim = q->shape.dim[3].n,
        .value_head_dim = v->shape.dim[3].n,
        .has_dropout = call->has_dropout,
        .is_token_major = q->shape.dim[1].n == 1 || q->stride[1] < q->stride[2],
    };
}

static struct mpl_tensor *make_gradient(struct mpl_tape *tape, void *context, int which)
{
    const struct call *call = context;

    return mpl_hold(kernel_output(tape, call->kernel, call->kernel->backward, call->qkv[which]));
}

/* saved: q, k, v, output, log-sum-exp, seed, offset, mask */
static void fused_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const enum mpl_sdpa_kernel which = (enum mpl_sdpa_kernel)node->arg[0];
    struct call call = {.kernel = &kernel_table[which], .has_dropout = node->arg[1] != 0};
    struct mpl_book book = {call.kernel->backward, MPL_LINEAR, make_gradient, &call, call.results};

    (void)out;
    for (int i = 0; i < node->saved_count; i++) {
        struct mpl_tensor *saved = mpl_saved(tape, node, i);

        if (i < 3)
            call.qkv[i] = saved;
    }
    if (tape->is_stopped)
        return;
    if (tape->has_kernel_scratch) {
        const struct mpl_scratch_card card = mpl_book_card(tape);
        const struct mpl_scratch_attention description = describe(which, &call);
        struct mpl_scratch list = {0};

        mpl_scratch_attention_backward(&card, &description, &list);
        mpl_book_run(tape, &list, &book);
    } else {
        for (int i = 0; i < 3; i++)
            call.results[i] = make_gradient(tape, &call, i);
    }
    for (int i = 0; i < 3; i++)
        if (mpl_needs(node, i))
            in[i] = call.results[i];
        else
            mpl_drop(tape, call.results[i]);
}

/* [b, H, s, d of values]; a kernel that follows the query does so in the order of dimensions. */
static struct mpl_tensor *attended(struct mpl_tape *tape, const struct call *call)
{
    const struct mpl_tensor *q = call->qkv[0];
    struct mpl_shape shape = q->shape;
    int64_t stride[MPL_MAX_DIMS] = {0};

    shape.dim[3] = call->qkv[2]->shape.dim[3];
    if (shape.dim[3].n == q->shape.dim[3].n)
        return kernel_output(tape, call->kernel, call->kernel->forward, q);
    if (call->kernel->follows_input_layout && q->stride[1] > q->stride[2])
        return mpl_empty(tape, call->kernel->forward, (enum mpl_dtype)q->dtype, &shape);
    heads_inside(&shape, stride);
    return mpl_empty_strided(tape, call->kernel->forward, (enum mpl_dtype)q->dtype, &shape, stride);
}

static struct mpl_tensor *make_output(struct mpl_tape *tape, void *context, int which)
{
    const struct call *call = context;
    const struct mpl_tensor *q = call->qkv[0];
    const struct mpl_shape pair = mpl_shape1(mpl_dim(2)), scalar = {0};
    struct mpl_dim rows = q->shape.dim[2];
    struct mpl_shape lse;

    rows.n = (int64_t)mpl_round_up((uint64_t)rows.n, (uint64_t)call->kernel->row_align);
    lse = mpl_shape3(q->shape.dim[0], q->shape.dim[1], rows);
    switch (which) {
    case MPL_ATTENTION_OUT:
        return mpl_hold(attended(tape, call));
    case MPL_ATTENTION_LSE:
        return mpl_hold(mpl_empty(tape, call->kernel->forward, MPL_FLOAT32, &lse));
    case MPL_ATTENTION_SEED:
        return mpl_hold(mpl_empty(tape, call->kernel->forward, call->kernel->seed,
                                  call->kernel->has_paired_seed ? &pair : &scalar));
    default:
        return mpl_hold(mpl_empty(tape, call->kernel->forward, call->kernel->seed, &scalar));
    }
}

/* Results in the kernel's order on a card, else in the order of the operator's schema. */
static void run_forward(struct mpl_tape *tape, enum mpl_sdpa_kernel which, struct call *call)
{
    const struct mpl_book book = {call->kernel->forward, MPL_LINEAR, make_output, call,
                                  call->results};
    const struct mpl_scratch_card card = mpl_book_card(tape);
    struct mpl_scratch_attention description;
    struct mpl_scratch list = {0};

    if (!tape->has_kernel_scratch) {
        for (int i = 0; i < 4; i++)
            call->results[i] = make_output(tape, call, i);
        return;
    }
    description = describe(which, call);
    mpl_scratch_attention_forward(&card, &description, &list);
    mpl_book_run(tape, &list, &book);
}

static struct mpl_tensor *fused(struct mpl_tape *tape, enum mpl_sdpa_kernel which,
                                struct mpl_tensor *q, struct mpl_tensor *k, struct mpl_tensor *v,
                                const struct mpl_sdpa_options *options)
{
    struct call call = {
        .kernel = &kernel_table[which], .has_dropout = options->dropout > 0, .qkv = {q, k, v}};
    struct mpl_node *node =
        mpl_node_new(tape, call.kernel->node, fused_backward, call.qkv, 3, 1, 8);

    if (node) {
        node->arg[0] = which;
        node->arg[1] = call.has_dropout;
    }
    for (int i = 0; i < 3; i++)
        mpl_save(tape, node, call.qkv[i]);
    run_forward(tape, which, &call);
    if (!call.results[0])
        call.results[0] = tape->void_tensor;
    mpl_save_output(tape, node, call.results[0]);
    for (int i = 1; i < 4; i++) {
        if (call.results[i])
            mpl_save_output(tape, node, call.results[i]);
        mpl_drop(tape, call.results[i]);
    }
    if (options->mask)
        mpl_save(tape, node, options->mask);
    mpl_set_history(tape, call.results[0], node, 0);
    return mpl_return(call.results[0]);
}

/* ---- padding of head sizes that are no multiple of 8 (flash) ----------------------------------
 */

static void pad_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    struct mpl_shape shape = shape_of_edge(node, 0);

    in[0] =
        mpl_hold(mpl_empty(tape, "constant_pad_nd.default", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_pad_last(struct mpl_tape *tape, struct mpl_tensor *a, int64_t size)
{
    struct mpl_node *node = mpl_node_new(tape, "ConstantPadNdBackward0", pad_backward, &a, 1, 1, 0);
    struct mpl_shape shape = a->shape;
    struct mpl_tensor *out;

    if (a->is_void)
        return a;
    shape.dim[3].n = size;
    out = mpl_empty(tape, "constant_pad_nd.default", (enum mpl_dtype)a->dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    return out;
}

static struct mpl_tensor *flash(struct mpl_tape *tape, struct mpl_tensor *q, struct mpl_tensor *k,
                                struct mpl_tensor *v, const struct mpl_sdpa_options *options)
{
    const struct mpl_dim head = q->shape.dim[3];
    const int64_t padded = (int64_t)mpl_round_up((uint64_t)head.n, 8);
    struct mpl_tensor *pq, *pk, *pv, *out;

    if (padded == head.n)
        return fused(tape, MPL_SDPA_FLASH, q, k, v, options);
    pq = mpl_hold(mpl_op_pad_last(tape, q, padded));
    pk = mpl_hold(mpl_op_pad_last(tape, k, padded));
    pv = mpl_hold(mpl_op_pad_last(tape, v, padded));
    out = mpl_op_slice_last(tape, fused(tape, MPL_SDPA_FLASH, pq, pk, pv, options), head);
    mpl_drop(tape, pq);
    mpl_drop(tape, pk);
    mpl_drop(tape, pv);
    return out;
}

/* ---- math path --------------------------------------------------------------------------------
 */

static void safe_softmax_backward(struct mpl_tape *tape, struct mpl_node *node,
                                  struct mpl_tensor **out, struct mpl_tensor **in)
{
    struct mpl_tensor *result = mpl_saved(tape, node, 0);

    in[0] = mpl_rule_like(tape, "_softmax_backward_data.default", out[0], result);
    mpl_book_softmax_backward(tape, result);
}

/* softmax that gives zeros for rows that are masked altogether */
static struct mpl_tensor *safe_softmax(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node =
        mpl_node_new(tape, "SafeSoftmaxBackward0", safe_softmax_backward, &a, 1, 1, 1);
    struct mpl_tensor *out, *masked, *rows, *zero;
    struct mpl_shape row_shape = a->shape, scalar = {0};

    if (a->is_void)
        return a;
    row_shape.dim[3] = mpl_dim(1);
    out = mpl_empty(tape, "softmax.int", (enum mpl_dtype)a->dtype, &a->shape);
    masked = mpl_empty(tape, "isneginf.default", MPL_BOOL, &a->shape);
    rows = mpl_empty(tape, "all.dim", MPL_BOOL, &row_shape);
    zero = mpl_empty(tape, "scalar_tensor.default", (enum mpl_dtype)a->dtype, &scalar);
    mpl_consume(tape, zero);
    mpl_consume(tape, rows);
    mpl_consume(tape, masked);
    mpl_save_output(tape, node, out);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}

/* The causal mask as numbers: ones, tril, and where over two constants. */
static struct mpl_tensor *causal_bias(struct mpl_tape *tape, const struct mpl_tensor *q,
                                      const struct mpl_tensor *k)
{
    struct mpl_shape square = mpl_shape2(q->shape.dim[2], k->shape.dim[2]), scalar = {0};
    const enum mpl_dtype dtype = (enum mpl_dtype)q->dtype;
    struct mpl_tensor *ones = mpl_empty(tape, "ones.default", MPL_BOOL, &square);
    struct mpl_tensor *lower = mpl_op_map(tape, "tril.default", MPL_BOOL, ones, NULL);
    struct mpl_tensor *a = mpl_empty(tape, "scalar_tensor.default", dtype, &scalar);
    struct mpl_tensor *b = mpl_empty(tape, "scalar_tensor.default", dtype, &scalar);
    struct mpl_tensor *bias = mpl_empty(tape, "where.self", dtype, &square);

    mpl_consume(tape, b);
    mpl_consume(tape, a);
    mpl_consume(tape, lower);
    return bias;
}

/* k or v for every query head: repeat_interleave(groups, -3)
 * (aten/src/ATen/native/Repeat.cpp). */
static struct mpl_tensor *repeat_heads(struct mpl_tape *tape, struct mpl_tensor *a, int64_t groups)
{
    struct mpl_shape wide = {
        5, {a->shape.dim[0], a->shape.dim[1], mpl_dim(groups), a->shape.dim[2], a->shape.dim[3]}};
    struct mpl_shape flat = a->shape;

    if (a->is_void || groups == 1)
        return mpl_return(mpl_hold(a));
    flat.dim[1].n *= groups;
    a = mpl_op_expand(tape, mpl_op_unsqueeze(tape, a, 2), wide);
    return mpl_op_reshape(tape, mpl_op_contiguous(tape, a), flat); /* it copies, view or not */
}

/* From 2.5 on queries, keys and values of a half format are computed with in float32. */
static struct mpl_tensor *widen(struct mpl_tape *tape, struct mpl_tensor *a)
{
    if (!mpl_version_at_least(&tape->pytorch, 2, 5, 0))
        return mpl_hold(mpl_return(mpl_hold(a)));
    return mpl_hold(mpl_op_to(tape, a, MPL_FLOAT32));
}

static struct mpl_tensor *math(struct mpl_tape *tape, struct mpl_tensor *query,
                               struct mpl_tensor *key, struct mpl_tensor *value,
                               const struct mpl_sdpa_options *options)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)query->dtype;
    const int64_t groups = options->has_no_groups ? 1 : query->shape.dim[1].n / key->shape.dim[1].n;
    struct mpl_tensor *bias = options->mask ? mpl_hold(options->mask) : NULL;
    struct mpl_tensor *q = widen(tape, query), *k = widen(tape, key), *v = widen(tape, value);
    struct mpl_tensor *scaled = mpl_hold(mpl_op_mul_scalar(tape, q)), *keys, *values, *probs, *out;
    struct mpl_tensor *turned, *weights;

    if (options->is_causal && !bias)
        bias = mpl_hold(causal_bias(tape, scaled, k));
    keys = mpl_hold(repeat_heads(tape, k, groups));
    values = mpl_hold(repeat_heads(tape, v, groups));
    turned = mpl_hold(mpl_op_mul_scalar(tape, mpl_op_transpose(tape, keys, 2, 3)));
    probs = mpl_op_matmul(tape, scaled, turned);
    mpl_drop(tape, turned);
    probs = mpl_hold(safe_softmax(tape, probs));
    mpl_rebind(tape, &probs, mpl_op_dropout(tape, probs, options->dropout));
    weights = mpl_hold(mpl_op_to(tape, probs, dtype)); /* a second result, of which nobody asks */
    out = mpl_op_to(tape, mpl_op_matmul(tape, probs, values), dtype);
    mpl_drop(tape, probs);
    mpl_drop(tape, values);
    mpl_drop(tape, keys);
    mpl_drop(tape, bias);
    mpl_drop(tape, weights);
    mpl_drop(tape, scaled);
    mpl_drop(tape, q);
    mpl_drop(tape, k);
    mpl_drop(tape, v);
    return out;
}

/* ---- entry ------------------------------------------------------------------------------------
 */

/* A bool mask becomes numbers of the query's dtype. */
static struct mpl_tensor *mask_as_numbers(struct mpl_tape *tape, struct mpl_tensor *mask,
                                          enum mpl_dtype dtype)
{
    struct mpl_shape scalar = {0};
    struct mpl_tensor *a, *b, *bias;

    if (mask->dtype != MPL_BOOL)
        return mpl_return(mpl_hold(mask));
    a = mpl_empty(tape, "scalar_tensor.default", dtype, &scalar);
    b = mpl_empty(tape, "scalar_tensor.default", dtype, &scalar);
    bias = mpl_empty(tape, "where.self", dtype, &mask->shape);
    mpl_consume(tape, b);
    mpl_consume(tape, a);
    return bias;
}

/* Do all rows of a mask begin at a multiple of 8 elements? */
static bool is_aligned(const struct mpl_tensor *bias)
{
    for (int i = 0; i < 3; i++)
        if (bias->stride[i] % 8)
            return false;
    return true;
}

/* Efficient attention reads a mask whose rows are padded to a multiple of 8: a copy, in whose place
 * the unpadded numbers of a bool mask go. */
static struct mpl_tensor *pad_mask(struct mpl_tape *tape, struct mpl_tensor *bias)
{
    struct mpl_shape shape = bias->shape;
    struct mpl_tensor *padded;

    if (bias->is_void || (shape.dim[3].n % 8 == 0 && is_aligned(bias)))
        return bias;
    shape.dim[3].n += 8 - shape.dim[3].n % 8;
    padded =
        mpl_hold(mpl_empty(tape, "constant_pad_nd.default", (enum mpl_dtype)bias->dtype, &shape));
    mpl_drop(tape, bias);
    return padded;
}

static enum mpl_sdpa_kernel choose(const struct mpl_tape *tape, const struct mpl_tensor *q,
                                   const struct mpl_tensor *k, const struct mpl_tensor *v,
                                   const struct mpl_sdpa_options *options)
{
    const struct mpl_tensor *mask = options->mask;
    const struct mpl_sdpa_call call = {
        .pytorch = tape->pytorch,
        .compute_capability = tape->compute_capability,
        .dtype = (enum mpl_dtype)q->dtype,
        .batch = q->shape.dim[0].n,
        .query_tokens = q->shape.dim[2].n,
        .key_tokens = k->shape.dim[2].n,
        .heads = q->shape.dim[1].n,
        .kv_heads = options->has_no_groups ? q->shape.dim[1].n : k->shape.dim[1].n,
        .head_dim = q->shape.dim[3].n,
        .value_head_dim = v->shape.dim[3].n,
        .mask = mask ? (mask->dtype == MPL_BOOL ? MPL_SDPA_MASK_BOOL : MPL_SDPA_MASK_FLOAT)
                : options->is_causal ? MPL_SDPA_MASK_CAUSAL
                                     : MPL_SDPA_MASK_NONE,
        .requires_grad = q->requires_grad,
        .dropout = options->dropout,
        .cudnn_allowed = tape->cudnn_attention,
    };

    return mpl_sdpa_choose(&call);
}

/* enable_gqa=False with fewer heads of keys: from 2.14 on fused kernels take a single one as it is
 * (check_batch_size_and_num_heads_dense), before that, or of several, only the math path
 * broadcasts.
 */
static bool needs_math(const struct mpl_tape *tape, const struct mpl_tensor *q,
                       const struct mpl_tensor *k, const struct mpl_sdpa_options *options)
{
    const bool is_one = k->shape.dim[1].n == 1 && mpl_version_at_least(&tape->pytorch, 2, 14, 0);

    return options->has_no_groups && q->shape.dim[1].n != k->shape.dim[1].n && !is_one;
}

/* One kernel, on q, k and v in one dtype; options->mask is as the caller gave it. */
static struct mpl_tensor *run_kernel(struct mpl_tape *tape, struct mpl_tensor *q,
                                     struct mpl_tensor *k, struct mpl_tensor *v,
                                     const struct mpl_sdpa_options *options)
{
    const enum mpl_sdpa_kernel kernel =
        needs_math(tape, q, k, options) ? MPL_SDPA_MATH : choose(tape, q, k, v, options);
    struct mpl_sdpa_options inner = *options;
    struct mpl_tensor *out;

    if (inner.mask)
        inner.mask = mpl_hold(mask_as_numbers(tape, inner.mask, (enum mpl_dtype)q->dtype));
    if (inner.mask && kernel == MPL_SDPA_EFFICIENT)
        inner.mask = pad_mask(tape, inner.mask);
    if (kernel == MPL_SDPA_FLASH)
        out = flash(tape, q, k, v, &inner);
    else if (kernel == MPL_SDPA_MATH)
        out = math(tape, q, k, v, &inner);
    else
        out = fused(tape, kernel, q, k, v, &inner);
    mpl_drop(tape, inner.mask);
    return out;
}

struct mpl_tensor *mpl_op_sdpa_with(struct mpl_tape *tape, struct mpl_tensor *query,
                                    struct mpl_tensor *key, struct mpl_tensor *value,
                                    const struct mpl_sdpa_options *options)
{
    struct mpl_tensor *mask =
        options->mask ? mpl_hold(mpl_autocast(tape, options->mask)) : NULL; /* numbers only */
    struct mpl_tensor *v = mpl_hold(mpl_autocast(tape, value));
    struct mpl_tensor *k = mpl_hold(mpl_autocast(tape, key));
    struct mpl_tensor *q = mpl_hold(mpl_autocast(tape, query));
    struct mpl_tensor *out = tape->void_tensor;
    const enum mpl_dtype autocast = tape->autocast;
    struct mpl_sdpa_options cast = *options;

    cast.mask = mask;
    tape->autocast = MPL_DTYPE_NONE; /* it casts the operator's inputs, not what runs inside */
    if (!q->is_void && !k->is_void && !v->is_void)
        out = run_kernel(tape, q, k, v, &cast);
    tape->autocast = autocast;
    mpl_drop(tape, mask);
    mpl_drop(tape, q);
    mpl_drop(tape, k);
    mpl_drop(tape, v);
    return out;
}

struct mpl_tensor *mpl_op_sdpa(struct mpl_tape *tape, struct mpl_tensor *q, struct mpl_tensor *k,
                               struct mpl_tensor *v, struct mpl_tensor *mask, bool is_causal)
{
    const struct mpl_sdpa_options options = {.mask = mask, .is_causal = is_causal};

    return mpl_op_sdpa_with(tape, q, k, v, &options);
}
