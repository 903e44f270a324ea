/* SPDX-License-Identifier: MIT */
/*
 * te.Linear: cast, product, and what of both is kept for backward.
 *
 * source: Transformer Engine 2.18: pytorch/module/linear.py, module/base.py, quantization.py,
 * tensor/storage/float8_tensor_storage.py, cpp_extensions/gemm.py, csrc/quantizer.cpp,
 * csrc/extensions/{cast,bias,gemm}.cpp
 */
#include "op/linear_te.h"

#include "op/rule.h"
#include "op/scratch_book.h"

/* A Float8TensorStorage; held. */
struct operand {
    struct mpl_tensor *data, *transpose, *scale;
};

enum { SLOT_INPUT, SLOT_REST }; /* of a node: what backward clears by itself comes first */

/* is_non_tn_fp8_gemm_supported: products take operands that lie either way, none is transposed. */
static bool takes_any_layout(const struct mpl_tape *tape)
{
    const double cc = tape->compute_capability;

    return (cc >= 10.0 && cc < 12.0) || cc >= 13.0;
}

static struct mpl_tensor *vector(struct mpl_tape *tape, const char *op, struct mpl_dim n,
                                 enum mpl_dtype dtype)
{
    const struct mpl_shape shape = mpl_shape1(n);

    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/* ---- casts ------------------------------------------------------------------------------------
 */

/* Quantizer.create_tensor: rows are always asked for; the scale comes first when it is delayed
 * (quantizer.cpp: Float8Quantizer 325..363, Float8CurrentScalingQuantizer 657..683). */
static struct operand create(struct mpl_tape *tape, const struct mpl_tensor *t, bool by_columns,
                             const struct mpl_te_config *config)
{
    const struct mpl_shape turned = mpl_shape2(mpl_rule_last(t), mpl_rule_rows(t));
    struct operand result = {0};

    if (config->is_delayed)
        result.scale = vector(tape, "scale_inv", mpl_dim(1), MPL_FLOAT32);
    result.data = mpl_hold(mpl_empty(tape, "fp8_data", MPL_UINT8, &t->shape));
    if (by_columns && !takes_any_layout(tape))
        result.transpose = mpl_hold(mpl_empty(tape, "fp8_transpose", MPL_UINT8, &turned));
    if (!config->is_delayed)
        result.scale = vector(tape, "scale_inv", mpl_dim(1), MPL_FLOAT32);
    return result;
}

/* Float8CurrentScalingQuantizer::quantize keeps amax and scale in one buffer (1014..1019). */
static void fill(struct mpl_tape *tape, const struct mpl_te_config *config)
{
    if (!config->is_delayed)
        mpl_drop(tape, vector(tape, "amax_and_scale", mpl_dim(2), MPL_FLOAT32));
}

static struct operand cast(struct mpl_tape *tape, const struct mpl_tensor *t, bool by_columns,
                           const struct mpl_te_config *config)
{
    const struct operand result = create(tape, t, by_columns, config);

    fill(tape, config);
    return result;
}

static void drop_operand(struct mpl_tape *tape, const struct operand *operand)
{
    mpl_drop(tape, operand->data);
    mpl_drop(tape, operand->transpose);
    mpl_drop(tape, operand->scale);
}

/* ---- products ---------------------------------------------------------------------------------
 */

int64_t mpl_te_gemm_workspace(double compute_capability)
{
    return compute_capability >= 9.0 ? 32 * 1024 * 1024 + 1024 : 4 * 1024 * 1024;
}

/* general_gemm: the workspace is asked for before the result. Held. */
static struct mpl_tensor *multiply(struct mpl_tape *tape, const struct mpl_shape *shape,
                                   enum mpl_dtype dtype, struct mpl_te_config *config)
{
    const enum mpl_category category = tape->category;

    if (!config->gemm_workspace && !tape->is_stopped) {
        const int64_t bytes = mpl_te_gemm_workspace(tape->compute_capability);

        tape->category = MPL_CATEGORY_WORKSPACE;
        config->gemm_workspace = vector(tape, "gemm_workspace", mpl_dim(bytes), MPL_UINT8);
        tape->category = category;
    }
    return mpl_hold(mpl_empty(tape, "gemm", dtype, shape));
}

/* ---- amaxes -----------------------------------------------------------------------------------
 */

/* init_fp8_meta_tensors: forward's state, then backward's (quantization.py 1423..1432). */
static void prepare(struct mpl_tape *tape, struct mpl_te_layer *layer)
{
    struct mpl_te_config *config = layer->config;
    const enum mpl_category category = tape->category;

    if (layer->is_ready || tape->is_stopped)
        return;
    layer->is_ready = true;
    config->layers++;
    if (!config->is_delayed)
        return;
    tape->category = MPL_CATEGORY_BUFFERS;
    for (int i = 0; i < MPL_TE_STATES; i++) {
        const int64_t tensors = i < MPL_TE_SCALE_BACKWARD ? 3 : 2;
        const bool is_scale = i == MPL_TE_SCALE_FORWARD || i == MPL_TE_SCALE_BACKWARD;

        layer->states[i] =
            vector(tape, is_scale ? "ones" : "zeros",
                   mpl_dim(is_scale ? tensors : tensors * config->history_length), MPL_FLOAT32);
    }
    tape->category = category;
}

/* torch.cat of one row of each layer's history; scales are updated in place by one kernel. */
static void update(struct mpl_tape *tape, const struct mpl_te_config *config, int64_t tensors)
{
    if (config->is_delayed && config->layers)
        mpl_drop(tape, vector(tape, "cat.default", mpl_dim(tensors * config->layers), MPL_FLOAT32));
}

void mpl_te_autocast_exit(struct mpl_tape *tape, struct mpl_te_config *config)
{
    config->has_first = false;
    if (tape->is_grad_enabled)
        update(tape, config, 3);
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* tex.bgrad_quantize: the bias's gradient beside the cast. Delayed: one kernel with a workspace;
 * else a sum, then the cast. */
static struct operand cast_and_sum(struct mpl_tape *tape, const struct mpl_tensor *grad,
                                   const struct mpl_te_config *config, struct mpl_tensor **sum)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)grad->dtype;
    const struct mpl_dim rows = grad->shape.dim[0], columns = grad->shape.dim[1];
    struct operand result;

    *sum = vector(tape, "grad_bias", columns, dtype);
    result = create(tape, grad, true, config);
    if (config->is_delayed) {
        const struct mpl_dim partial = {
            mpl_te_bias_rows(tape, rows.n, columns.n, (int64_t)mpl_dtype_size(dtype)), rows.degree};
        const struct mpl_shape shape = mpl_shape2(partial, columns);

        mpl_drop(tape, mpl_hold(mpl_empty(tape, "dbias_workspace", MPL_FLOAT32, &shape)));
    } else if (tape->has_kernel_scratch && !(*sum)->is_void) {
        const struct mpl_scratch_card card = mpl_book_card(tape);
        const struct mpl_book book = {.op = "sum.out", .degree = rows.degree};
        struct mpl_scratch list = {0};

        mpl_scratch_reduce_rows(&card, dtype, dtype, rows.n, columns.n, &list);
        mpl_book_run(tape, &list, &book);
    }
    fill(tape, config);
    return result;
}

/* grad_output.reshape(-1, out).contiguous(); held. */
static struct mpl_tensor *flat_gradient(struct mpl_tape *tape, struct mpl_tensor *grad)
{
    const struct mpl_shape shape = mpl_shape2(mpl_rule_rows(grad), mpl_rule_last(grad));
    struct mpl_tensor *flat = mpl_rule_reshape(tape, grad, &shape), *copy;

    if (flat->is_void || flat->is_contiguous)
        return flat;
    copy = mpl_hold(mpl_empty(tape, "clone.default", (enum mpl_dtype)flat->dtype, &shape));
    mpl_drop(tape, flat);
    return copy;
}

/* The input's gradient, then the weight's; the input's codes are let go of in between
 * (linear.py 1013..1037, 1240..1250). */
static void multiply_back(struct mpl_tape *tape, struct mpl_node *node,
                          const struct mpl_tensor *grad, struct mpl_tensor **in)
{
    struct mpl_te_config *config = node->context;
    const enum mpl_dtype dtype = (enum mpl_dtype)grad->dtype;
    const struct mpl_shape weight = mpl_rule_edge_shape(node, 0);

    if (mpl_needs(node, 1)) {
        const struct mpl_shape flat = mpl_shape2(grad->shape.dim[0], weight.dim[1]);
        const struct mpl_shape shape = mpl_rule_edge_shape(node, 1);
        struct mpl_tensor *product = multiply(tape, &flat, dtype, config);

        if (!product->is_void) {
            in[1] = mpl_rule_view(tape, product, &shape);
            in[1]->is_view = true;
        }
        mpl_drop(tape, product);
    }
    if (mpl_needs(node, 0)) {
        in[0] = multiply(tape, &weight, dtype, config);
        mpl_drop(tape, node->saved[SLOT_INPUT].tensor); /* clear_tensor_data */
        node->saved[SLOT_INPUT].tensor = NULL;
    }
}

static void backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                     struct mpl_tensor **in)
{
    struct mpl_te_config *config = node->context;
    const bool has_bias = node->arg[0], is_first = node->arg[1];
    struct mpl_tensor *grad, *sum = NULL;
    struct operand codes;

    if (out[0]->is_void)
        return;
    grad = flat_gradient(tape, out[0]);
    if (grad->is_void) {
        mpl_drop(tape, grad);
        return;
    }
    codes = has_bias ? cast_and_sum(tape, grad, config, &sum)
                     : cast(tape, grad, mpl_needs(node, 0), config);
    multiply_back(tape, node, grad, in);
    if (sum && mpl_needs(node, 2))
        in[2] = mpl_hold(sum);
    mpl_drop(tape, sum);
    mpl_drop(tape, grad);
    drop_operand(tape, &codes);
    if (is_first)
        update(tape, config, 2);
    mpl_drop(tape, out[0]); /* it went into Python, whose tuple of arguments is gone */
    out[0] = NULL;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

/* What backward needs: the input by columns, the weight both ways; held by the node then. */
static void keep(struct mpl_tape *tape, struct mpl_node *node, const struct operand *x,
                 const struct operand *weight)
{
    struct mpl_tensor *const of[] = {
        x->transpose ? x->transpose : x->data,
        x->scale,
        weight->data,
        weight->transpose,
        weight->scale,
    };
    const int first = mpl_needs(node, 0) ? 0 : 2;

    for (int i = first; i < (int)(sizeof(of) / sizeof(of[0])); i++)
        if (of[i])
            mpl_save(tape, node, of[i]);
}

/* Casts and multiplies; the result is held, what was kept is the node's. */
static struct mpl_tensor *product_of(struct mpl_tape *tape, struct mpl_tensor *const inputs[3],
                                     enum mpl_dtype dtype, struct mpl_node *node,
                                     struct mpl_te_config *config)
{
    struct mpl_tensor *weight = inputs[0], *x = inputs[1], *bias = inputs[2], *narrow = NULL, *out;
    struct operand x8 = cast(tape, x, mpl_needs(node, 0), config);
    const struct operand w8 = cast(tape, weight, mpl_needs(node, 1), config);
    struct mpl_shape shape = x->shape;

    shape.dim[shape.ndim - 1] = weight->shape.dim[0];
    if (bias && (enum mpl_dtype)bias->dtype != dtype)
        narrow = mpl_hold(mpl_empty_like(tape, "_to_copy.default", dtype, bias, NULL));
    out = multiply(tape, &shape, dtype, config);
    if (x8.transpose) { /* update_usage(rowwise_usage=False) */
        mpl_drop(tape, x8.data);
        x8.data = NULL;
    }
    mpl_drop(tape, narrow);
    keep(tape, node, &x8, &w8);
    drop_operand(tape, &x8);
    drop_operand(tape, &w8);
    return out;
}

struct mpl_tensor *mpl_op_linear_te(struct mpl_tape *tape, struct mpl_tensor *x,
                                    struct mpl_tensor *weight, struct mpl_tensor *bias,
                                    struct mpl_te_layer *layer)
{
    struct mpl_te_config *config = layer->config;
    struct mpl_tensor *out = tape->void_tensor, *argument, *inputs[3];
    struct mpl_node *node;
    enum mpl_dtype dtype;

    if (x->is_void || weight->is_void)
        return tape->void_tensor;
    prepare(tape, layer);
    argument = mpl_hold(x);
    x = mpl_hold(mpl_op_contiguous(tape, argument));
    dtype = tape->autocast == MPL_DTYPE_NONE ? (enum mpl_dtype)x->dtype : tape->autocast;
    inputs[0] = weight;
    inputs[1] = x;
    inputs[2] = bias;
    node = mpl_node_new(tape, "_LinearBackward", backward, inputs, 3, 1, SLOT_REST + 4);
    if (!x->is_void) {
        out = product_of(tape, inputs, dtype, node, config);
        if (node) {
            node->context = config;
            node->arg[0] = bias != NULL;
            node->arg[1] = !config->has_first;
            config->has_first = true;
        }
        mpl_set_history(tape, out, node, 0);
        out = mpl_return(out);
    }
    mpl_drop(tape, x);
    mpl_drop(tape, argument);
    return out;
}
