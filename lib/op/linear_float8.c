/* SPDX-License-Identifier: MIT */
/*
 * Linear layers whose products torchao computes in float8, without torch.compile.
 *
 * source: torchao 0.18.0: float8/float8_linear.py (matmul_with_hp_or_float8_args, Float8Linear),
 * float8_utils.py (tensor_to_amax, amax_to_scale, to_fp8_saturated), float8_training_tensor.py
 * (_ToFloat8ConstrFunc), float8_ops.py (preprocess_addmm, addmm_float8_unwrapped)
 */
#include "op/linear_float8.h"

#include "op/rule.h"
#include "op/scratch_book.h"

/* Over what the largest magnitude is taken. */
enum axis { AXIS_ALL, AXIS_FIRST, AXIS_LAST, AXIS_RANKS /* all of it, on all ranks */ };

static bool is_whole(enum axis axis)
{
    return axis == AXIS_ALL || axis == AXIS_RANKS;
}

/* ---- the cast ---------------------------------------------------------------------------------
 */

static struct mpl_tensor *like(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               const struct mpl_tensor *a)
{
    return mpl_hold(mpl_empty_like(tape, op, dtype, a, NULL));
}

/* What the reduction's kernel takes: strided says whether what is reduced lies apart. */
static void book_max(struct mpl_tape *tape, const char *op, const struct mpl_tensor *a,
                     const struct mpl_tensor *result)
{
    const struct mpl_scratch_card card = mpl_book_card(tape);
    const struct mpl_book book = {.op = op};
    const int64_t results = mpl_numel(result), inputs = mpl_numel(a) / results;
    const int last = result->shape.ndim - 1;
    const bool is_over_last = last < 0 || result->shape.dim[last].n == 1;
    struct mpl_scratch list = {0};

    if (last < 0 || is_over_last == (a->stride[last] == 1))
        mpl_scratch_max_columns(&card, (enum mpl_dtype)a->dtype, results, inputs, &list);
    else
        mpl_scratch_max_rows(&card, (enum mpl_dtype)a->dtype, inputs, results, &list);
    mpl_book_run(tape, &list, &book);
}

/* torch.max(torch.abs(x)), or torch.amax(torch.abs(x), dim, keepdim=True); the first makes what it
 * looks at contiguous. */
static struct mpl_tensor *largest(struct mpl_tape *tape, struct mpl_tensor *x, enum axis axis)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)x->dtype;
    struct mpl_tensor *magnitude = like(tape, "abs.default", dtype, x), *flat = NULL, *amax;
    struct mpl_shape shape = x->shape;
    const char *op = is_whole(axis) ? "max.default" : "amax.default";

    if (is_whole(axis))
        shape = (struct mpl_shape){0};
    else
        shape.dim[axis == AXIS_FIRST ? 0 : shape.ndim - 1] = mpl_dim(1);
    amax = mpl_hold(mpl_empty(tape, op, dtype, &shape));
    if (is_whole(axis) && !magnitude->is_contiguous)
        flat = mpl_hold(mpl_empty(tape, "clone.default", dtype, &magnitude->shape));
    if (tape->has_kernel_scratch && !amax->is_void)
        book_max(tape, op, magnitude, amax);
    mpl_drop(tape, flat);
    mpl_drop(tape, magnitude);
    if (axis == AXIS_RANKS) {
        struct mpl_tensor *reduced = like(tape, "all_reduce", dtype, amax);

        mpl_drop(tape, amax);
        amax = reduced;
    }
    return amax;
}

/* exp2(floor(log2(scale))) */
static struct mpl_tensor *rounded(struct mpl_tape *tape, const struct mpl_tensor *scale)
{
    struct mpl_tensor *power = like(tape, "log2.default", MPL_FLOAT32, scale), *whole;

    whole = like(tape, "floor.default", MPL_FLOAT32, power);
    mpl_drop(tape, power);
    power = like(tape, "exp2.default", MPL_FLOAT32, whole);
    mpl_drop(tape, whole);
    return power;
}

/* largest float8 / clamp(amax.to(float64), min), in float32 */
static struct mpl_tensor *scale_of(struct mpl_tape *tape, struct mpl_tensor *x, enum axis axis,
                                   bool rounds)
{
    struct mpl_tensor *amax = largest(tape, x, axis);
    struct mpl_tensor *wide = like(tape, "_to_copy.default", MPL_FLOAT64, amax);
    struct mpl_tensor *clamped = like(tape, "clamp.default", MPL_FLOAT64, wide);
    struct mpl_tensor *inverse = like(tape, "reciprocal.default", MPL_FLOAT64, clamped);
    struct mpl_tensor *quotient = like(tape, "mul.Tensor", MPL_FLOAT64, inverse), *scale;

    mpl_drop(tape, inverse);
    mpl_drop(tape, clamped);
    scale = like(tape, "_to_copy.default", MPL_FLOAT32, quotient);
    mpl_drop(tape, quotient);
    if (rounds) {
        struct mpl_tensor *power = rounded(tape, scale);

        mpl_drop(tape, scale);
        scale = power;
    }
    mpl_drop(tape, wide);
    mpl_drop(tape, amax);
    return scale;
}

/* hp_tensor_to_float8_dynamic */
static struct mpl_float8_operand cast(struct mpl_tape *tape, struct mpl_tensor *x, enum axis axis,
                                      const struct mpl_float8_config *config)
{
    struct mpl_float8_operand result = {.is_rowwise = !is_whole(axis)};
    struct mpl_tensor *wide = NULL, *scaled, *clamped;

    result.scale = scale_of(tape, x, axis, config->rounds_scales);
    if (x->dtype != MPL_FLOAT32)
        wide = like(tape, "_to_copy.default", MPL_FLOAT32, x);
    scaled = like(tape, "mul.Tensor", MPL_FLOAT32, wide ? wide : x);
    mpl_drop(tape, wide);
    clamped = like(tape, "clamp.default", MPL_FLOAT32, scaled);
    result.codes = like(tape, "_to_copy.default", MPL_UINT8, clamped);
    mpl_drop(tape, clamped);
    mpl_drop(tape, scaled);
    return result;
}

struct mpl_float8_operand mpl_float8_cast_shard(struct mpl_tape *tape, struct mpl_tensor *shard,
                                                const struct mpl_float8_config *config)
{
    return cast(tape, shard, AXIS_RANKS, config);
}

static void drop_operand(struct mpl_tape *tape, const struct mpl_float8_operand *operand)
{
    mpl_drop(tape, operand->codes);
    mpl_drop(tape, operand->scale);
}

/* ---- the product ------------------------------------------------------------------------------
 */

/* One product: a [rows, k] times b [k, columns]. */
struct product {
    const struct mpl_float8_operand *a, *b;
    struct mpl_dim rows, columns;
    enum mpl_dtype dtype;
    bool copies_a, copies_b; /* lies the other way than the kernel needs it */
    bool is_fast;            /* use_fast_accum */
};

/* The kernel that scales rows is slow without fast accumulation: the product is scaled after it,
 * by a float32 tensor of its size, and the kernel gets ones. */
static struct mpl_tensor *late_scale(struct mpl_tape *tape, const struct product *p,
                                     struct mpl_tensor *inverse[2])
{
    const struct mpl_shape shape = mpl_shape2(p->rows, p->columns);
    struct mpl_tensor *late = mpl_hold(mpl_empty(tape, "mul.Tensor", MPL_FLOAT32, &shape));

    for (int i = 0; i < 2; i++) {
        struct mpl_tensor *one = mpl_hold_scalar(tape, "new_ones.default", MPL_FLOAT32);

        mpl_drop(tape, inverse[i]);
        inverse[i] = one;
    }
    return late;
}

/* addmm_float8_unwrapped; held. Scales by rows come out in bfloat16 only. */
static struct mpl_tensor *scaled_mm(struct mpl_tape *tape, const struct product *p,
                                    const struct mpl_tensor *a_scale,
                                    const struct mpl_tensor *b_scale)
{
    const bool is_rowwise = p->a->is_rowwise || p->b->is_rowwise;
    const enum mpl_dtype dtype = is_rowwise ? MPL_BFLOAT16 : p->dtype;
    const struct mpl_shape shape = mpl_shape2(p->rows, p->columns);
    struct mpl_tensor *inverse[2], *late = NULL, *out;

    inverse[0] = like(tape, "reciprocal.default", MPL_FLOAT32, a_scale);
    inverse[1] = like(tape, "reciprocal.default", MPL_FLOAT32, b_scale);
    if (is_rowwise && !p->is_fast)
        late = late_scale(tape, p, inverse);
    out = mpl_hold(mpl_empty(tape, "_scaled_mm.default", dtype, &shape));
    mpl_cublas_workspace(tape);
    if (dtype != p->dtype) {
        struct mpl_tensor *cast_out = like(tape, "_to_copy.default", p->dtype, out);

        mpl_drop(tape, out);
        out = cast_out;
    }
    mpl_drop(tape, inverse[0]);
    mpl_drop(tape, inverse[1]);
    mpl_drop(tape, late);
    return out;
}

/* float8_mm: what lies the wrong way is copied, a single scale is repeated beside scales by rows.
 */
static struct mpl_tensor *multiply(struct mpl_tape *tape, const struct product *p)
{
    const struct mpl_shape repeated = mpl_shape2(mpl_dim(1), p->columns);
    struct mpl_tensor *a = NULL, *b = NULL, *scale = NULL, *out;

    if (p->copies_a)
        a = mpl_hold(mpl_empty(tape, "clone.default", MPL_UINT8, &p->a->codes->shape));
    if (p->copies_b)
        b = mpl_hold(mpl_empty(tape, "clone.default", MPL_UINT8, &p->b->codes->shape));
    if (p->a->is_rowwise && !p->b->is_rowwise)
        scale = mpl_hold(mpl_empty(tape, "repeat.default", MPL_FLOAT32, &repeated));
    out = scaled_mm(tape, p, p->a->scale, scale ? scale : p->b->scale);
    mpl_drop(tape, a);
    mpl_drop(tape, b);
    mpl_drop(tape, scale);
    return out;
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* What backward's frame holds until it returns. */
struct frame {
    const struct mpl_float8_config *config;
    struct mpl_tensor *grad, *x, *weight_t; /* grad and x as matrices */
    struct mpl_tensor *scale;               /* of a weight that is of codes; else NULL */
    struct mpl_float8_operand parts[4];
    int count;
};

static const struct mpl_float8_operand *cast_in(struct mpl_tape *tape, struct frame *frame,
                                                struct mpl_tensor *t, enum axis axis)
{
    struct mpl_float8_operand *part = &frame->parts[frame->count++];

    *part = cast(tape, t, axis, frame->config);
    return part;
}

/* grad @ weight */
static struct mpl_tensor *input_gradient(struct mpl_tape *tape, struct frame *frame)
{
    const struct mpl_float8_config *config = frame->config;
    struct product p = {.rows = frame->grad->shape.dim[0],
                        .columns = frame->weight_t->shape.dim[0],
                        .dtype = (enum mpl_dtype)frame->grad->dtype,
                        .copies_b = true};

    p.a = cast_in(tape, frame, frame->grad, config->is_rowwise ? AXIS_LAST : AXIS_ALL);
    if (frame->scale) {
        frame->parts[frame->count] =
            (struct mpl_float8_operand){mpl_hold(frame->weight_t), mpl_hold(frame->scale), false};
        p.b = &frame->parts[frame->count++];
    } else {
        p.b = cast_in(tape, frame, frame->weight_t,
                      config->is_rowwise && !config->has_wide_weight_mm ? AXIS_LAST : AXIS_ALL);
    }
    return multiply(tape, &p);
}

/* grad.t() @ x */
static struct mpl_tensor *weight_gradient(struct mpl_tape *tape, struct frame *frame)
{
    const struct mpl_float8_config *config = frame->config;
    struct product p = {.rows = frame->grad->shape.dim[1],
                        .columns = frame->x->shape.dim[1],
                        .dtype = (enum mpl_dtype)frame->grad->dtype,
                        .copies_a = true,
                        .copies_b = true};
    const struct mpl_shape shape = mpl_shape2(p.rows, p.columns);
    struct mpl_tensor *out;

    if (config->has_wide_weight_mm) {
        out = mpl_hold(mpl_empty(tape, "mm.default", p.dtype, &shape));
        mpl_cublas_workspace(tape);
        return out;
    }
    p.a = cast_in(tape, frame, frame->grad, config->is_rowwise ? AXIS_FIRST : AXIS_ALL);
    p.b = cast_in(tape, frame, frame->x, config->is_rowwise ? AXIS_FIRST : AXIS_ALL);
    return multiply(tape, &p);
}

/* t.t() of a matrix that lies row by row; held. */
static struct mpl_tensor *transposed(struct mpl_tape *tape, const struct mpl_tensor *t)
{
    const struct mpl_shape shape = mpl_shape2(t->shape.dim[1], t->shape.dim[0]);
    const int64_t stride[MPL_MAX_DIMS] = {1, t->shape.dim[1].n};
    struct mpl_tensor *view = mpl_rule_strided(tape, t, &shape, stride);

    view->is_view = true;
    return view;
}

/* The locals of a Python function go in the order in which they were named: what recomputation
 * brought, which nobody else holds, before the operands that were made after it. */
static void drop_recomputed(struct mpl_tape *tape, struct mpl_node *node)
{
    if (!node->saved[0].frame)
        return;
    mpl_drop(tape, node->saved[0].tensor);
    node->saved[0].tensor = NULL;
}

/* Both gradients are made whether they are wanted or not. */
static void backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                     struct mpl_tensor **in)
{
    struct mpl_tensor *x = mpl_saved(tape, node, 0), *weight_t = mpl_saved(tape, node, 1);
    struct frame frame = {.config = node->context, .weight_t = weight_t};
    struct mpl_tensor *grads[2];
    struct mpl_shape shape;

    if (x->is_void || weight_t->is_void || out[0]->is_void)
        return;
    frame.scale = node->saved_count > 2 ? mpl_saved(tape, node, 2) : NULL;
    shape = mpl_shape2(mpl_rule_rows(out[0]), mpl_rule_last(out[0]));
    frame.grad = mpl_rule_reshape(tape, out[0], &shape);
    grads[0] = input_gradient(tape, &frame);
    shape = mpl_shape2(mpl_rule_rows(x), mpl_rule_last(x));
    frame.x = mpl_rule_reshape(tape, x, &shape);
    grads[1] = weight_gradient(tape, &frame);
    if (mpl_needs(node, 0) && !grads[0]->is_void) {
        shape = x->shape;
        in[0] = mpl_rule_view(tape, grads[0], &shape);
        in[0]->is_view = true;
    }
    if (mpl_needs(node, 1) && !grads[1]->is_void)
        in[1] = transposed(tape, grads[1]);
    mpl_drop(tape, frame.grad);
    drop_operand(tape, &frame.parts[0]);
    drop_operand(tape, &frame.parts[1]);
    mpl_drop(tape, grads[0]);
    mpl_drop(tape, frame.x);
    drop_recomputed(tape, node);
    for (int i = 2; i < frame.count; i++)
        drop_operand(tape, &frame.parts[i]);
    mpl_drop(tape, grads[1]);
    mpl_drop(tape, out[0]); /* it went into Python, whose tuple of arguments is gone */
    out[0] = NULL;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

/* x [.., in] times weight_t [in, out], both borrowed; floating. */
static struct mpl_tensor *product_of(struct mpl_tape *tape, struct mpl_tensor *x,
                                     struct mpl_tensor *weight_t,
                                     const struct mpl_float8_layer *layer)
{
    const struct mpl_float8_config *config = layer->config;
    const struct mpl_float8_operand a =
        cast(tape, x, config->is_rowwise ? AXIS_LAST : AXIS_ALL, config);
    const struct mpl_float8_operand b =
        layer->scale
            ? (struct mpl_float8_operand){mpl_hold(weight_t), mpl_hold(layer->scale), false}
            : cast(tape, weight_t, config->is_rowwise ? AXIS_FIRST : AXIS_ALL, config);
    const struct product p = {.a = &a,
                              .b = &b,
                              .rows = mpl_rule_rows(x),
                              .columns = mpl_rule_last(weight_t),
                              .dtype = (enum mpl_dtype)x->dtype,
                              .is_fast = true};
    struct mpl_tensor *out = multiply(tape, &p), *view;
    struct mpl_shape shape = x->shape;

    drop_operand(tape, &b);
    drop_operand(tape, &a);
    if (out->is_void)
        return mpl_return(out);
    shape.dim[shape.ndim - 1] = p.columns;
    view = mpl_rule_view(tape, out, &shape);
    mpl_drop(tape, out);
    return mpl_return(view);
}

struct mpl_tensor *mpl_op_linear_float8(struct mpl_tape *tape, struct mpl_tensor *x,
                                        const struct mpl_float8_layer *layer)
{
    const bool was_enabled = tape->is_grad_enabled;
    struct mpl_tensor *argument = mpl_hold(x), *input, *weight_t, *out;
    struct mpl_node *node;

    input = mpl_hold(tape->autocast == MPL_DTYPE_NONE ? mpl_return(mpl_hold(argument))
                                                      : mpl_op_to(tape, argument, tape->autocast));
    weight_t = mpl_hold(mpl_op_transpose(tape, layer->weight, 0, 1));
    node = mpl_node_new(tape, "matmul_with_hp_or_float8_argsBackward", backward,
                        (struct mpl_tensor *[]){input, weight_t}, 2, 1, layer->scale ? 3 : 2);
    if (node)
        node->context = (void *)(uintptr_t)layer->config;
    tape->is_grad_enabled = false;
    out = input->is_void || weight_t->is_void ? tape->void_tensor
                                              : product_of(tape, input, weight_t, layer);
    tape->is_grad_enabled = was_enabled;
    mpl_set_history(tape, out, node, 0);
    mpl_save(tape, node, input); /* save_for_backward is done when forward has returned */
    mpl_save(tape, node, weight_t);
    if (layer->scale)
        mpl_save(tape, node, layer->scale);
    mpl_drop(tape, weight_t);
    out = mpl_hold(out);
    if (layer->bias)
        mpl_rebind(tape, &out,
                   mpl_op_add(tape, out, mpl_op_to(tape, layer->bias, (enum mpl_dtype)out->dtype)));
    mpl_drop(tape, input);
    mpl_drop(tape, argument);
    return mpl_return(out);
}
