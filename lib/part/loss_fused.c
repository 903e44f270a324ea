/* SPDX-License-Identifier: MIT */
/*
 * Liger's fused linear cross-entropy: logits of a few tokens at a time, gradients of hidden states
 * and head computed in forward and kept. Its Triton kernels work in place.
 *
 * source: liger_kernel/ops/fused_linear_cross_entropy.py (fused_linear_cross_entropy_forward,
 * LigerFusedLinearCrossEntropyFunction), transformers/model/loss_utils.py (LigerForCausalLMLoss);
 * release 0.8.5
 */
#include "op/op.h"
#include "part/loss.h"

/* One call; inputs are borrowed, the rest is held. */
struct fused {
    struct mpl_tensor *x, *weight;
    struct mpl_tensor *grad_x, *grad_weight;
    struct mpl_tensor *logits; /* one buffer for all chunks, or NULL */
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Tokens of a chunk: logits take about as much as the hidden states. */
static int64_t chunk_rows(int64_t rows, int64_t width, int64_t vocabulary)
{
    const int64_t wanted = ceil_div(rows, ceil_div(vocabulary, width));
    int64_t chunk = 1;

    while (chunk < wanted)
        chunk *= 2;
    return chunk < rows ? chunk : rows;
}

/* _can_use_mm_out */
static bool writes_in_place(const struct mpl_tape *tape, const struct fused *fused)
{
    return fused->x->dtype == fused->weight->dtype &&
           (tape->autocast == MPL_DTYPE_NONE || tape->autocast == fused->x->dtype);
}

static struct mpl_tensor *part(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               int64_t rows, struct mpl_dim columns)
{
    const struct mpl_shape shape = mpl_shape2(mpl_dim(rows), columns);

    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/* grad_weight += grad_logits.t() @ x */
static void add_weight_gradient(struct mpl_tape *tape, const struct fused *fused, int64_t rows,
                                enum mpl_dtype logits)
{
    const enum mpl_dtype sum = (enum mpl_dtype)fused->grad_weight->dtype;
    const struct mpl_dim columns = fused->x->shape.dim[1];
    const bool is_half = logits == MPL_BFLOAT16 || logits == MPL_FLOAT16;

    if (is_half && (sum == MPL_FLOAT32 || sum == logits)) { /* addmm into grad_weight */
        if (fused->x->dtype != logits)
            mpl_drop(tape, part(tape, "_to_copy.default", logits, rows, columns));
        mpl_cublas_workspace(tape);
        return;
    }
    mpl_drop(tape, mpl_hold(mpl_empty(tape, "mm.default", logits, &fused->weight->shape)));
    mpl_cublas_workspace(tape);
}

/* Logits, their gradient over them, and what it gives to hidden states and head. */
static void run_chunk(struct mpl_tape *tape, struct fused *fused, int64_t rows)
{
    const struct mpl_dim columns = fused->x->shape.dim[1], words = fused->weight->shape.dim[0];
    const enum mpl_dtype dtype = fused->logits || tape->autocast == MPL_DTYPE_NONE
                                     ? (enum mpl_dtype)fused->x->dtype
                                     : tape->autocast;
    struct mpl_tensor *logits = NULL, *weight;

    mpl_cublas_workspace(tape);
    if (!fused->logits) {
        struct mpl_tensor *copies[2] = {NULL, NULL};

        if (fused->weight->dtype != dtype) /* the transposed weight is no leaf: not cached */
            copies[0] = mpl_hold(mpl_empty(tape, "_to_copy.default", dtype, &fused->weight->shape));
        if (fused->x->dtype != dtype)
            copies[1] = part(tape, "_to_copy.default", dtype, rows, columns);
        logits = part(tape, "mm.default", dtype, rows, words);
        mpl_drop(tape, copies[0]);
        mpl_drop(tape, copies[1]);
        weight = mpl_hold(mpl_autocast(tape, fused->weight));
        mpl_drop(tape, part(tape, "mm.default", dtype, rows, columns));
        mpl_drop(tape, weight);
    }
    if (fused->grad_weight)
        add_weight_gradient(tape, fused, rows, dtype);
    mpl_drop(tape, logits);
}

/* The gradients that forward computed; scaled in place. */
static void fused_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const struct mpl_shape scalar = {0};

    (void)out;
    mpl_drop(tape, mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_FLOAT32, &scalar)));
    if (mpl_needs(node, 0))
        in[0] = mpl_hold(mpl_unpack(tape, &node->saved[0]));
    if (mpl_needs(node, 1))
        in[1] = mpl_hold(mpl_unpack(tape, &node->saved[1]));
}

/* fused_linear_cross_entropy_forward: a held scalar */
static struct mpl_tensor *run(struct mpl_tape *tape, struct fused *fused, enum mpl_dtype accum)
{
    const int64_t rows = fused->x->shape.dim[0].n, width = fused->x->shape.dim[1].n;
    const int64_t chunk = chunk_rows(rows, width, fused->weight->shape.dim[0].n);
    const struct mpl_shape each = mpl_shape1(fused->x->shape.dim[0]), scalar = {0};
    struct mpl_tensor *losses, *mask, *loss;

    fused->grad_x = mpl_hold(
        mpl_empty(tape, "zeros_like.default", (enum mpl_dtype)fused->x->dtype, &fused->x->shape));
    if (fused->weight->requires_grad)
        fused->grad_weight = mpl_hold(
            mpl_empty(tape, "zeros_like.default",
                      accum == MPL_DTYPE_NONE ? (enum mpl_dtype)fused->weight->dtype : accum,
                      &fused->weight->shape));
    losses = mpl_hold(mpl_empty(tape, "zeros.default", MPL_FLOAT32, &each));
    mask = mpl_hold(mpl_empty(tape, "ne.Scalar", MPL_BOOL, &each));
    mpl_drop(tape, mpl_hold(mpl_empty(tape, "sum.default", MPL_INT64, &scalar)));
    if (writes_in_place(tape, fused))
        fused->logits = part(tape, "empty.memory_format", (enum mpl_dtype)fused->x->dtype, chunk,
                             fused->weight->shape.dim[0]);
    for (int64_t at = 0; at < rows && !tape->is_stopped; at += chunk)
        run_chunk(tape, fused, rows - at < chunk ? rows - at : chunk);
    mpl_drop(tape, fused->logits);
    loss = mpl_empty(tape, "sum.default", MPL_FLOAT32, &scalar);
    if (fused->grad_weight)
        mpl_rebind(tape, &fused->grad_weight,
                   mpl_op_to(tape, fused->grad_weight, (enum mpl_dtype)fused->weight->dtype));
    mpl_drop(tape, mask);
    mpl_drop(tape, losses);
    return loss;
}

/* LigerFusedLinearCrossEntropyFunction.apply(x, weight, targets) */
static struct mpl_tensor *apply(struct mpl_tape *tape, struct mpl_tensor *x,
                                struct mpl_tensor *weight, enum mpl_dtype accum)
{
    struct fused fused = {.x = x, .weight = weight};
    struct mpl_node *node =
        mpl_node_new(tape, "LigerFusedLinearCrossEntropyFunctionBackward", fused_backward,
                     (struct mpl_tensor *[]){x, weight}, 2, 1, 2);
    const bool was_grad_enabled = tape->is_grad_enabled;
    struct mpl_tensor *loss;

    tape->is_grad_enabled = false;
    loss = run(tape, &fused, accum);
    tape->is_grad_enabled = was_grad_enabled;
    mpl_save(tape, node, fused.grad_x);
    if (fused.grad_weight)
        mpl_save(tape, node, fused.grad_weight);
    mpl_drop(tape, fused.grad_weight);
    mpl_drop(tape, fused.grad_x);
    mpl_set_history(tape, loss, node, 0);
    return loss;
}

struct mpl_tensor *mpl_loss_fused_linear(struct mpl_tape *tape, struct mpl_lm *lm,
                                         struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const enum mpl_dtype accum = lm->network->plan->training.loss.accum_dtype;
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *padded, *targets, *flat;
    struct mpl_tensor *weight = mpl_network_weight(lm->network, lm->head.weight), *loss;

    (void)logits_out;
    if (lm->head.bias != MPL_NO_PARAMETER)
        mpl_tape_fail(tape, MEMPLAN_ERR_UNSUPPORTED,
                      "training.loss.name: fused_linear_cross_entropy is not modelled for a head "
                      "with a bias");
    if (h->is_void || tape->is_stopped)
        return tape->void_tensor;
    targets = mpl_loss_shifted_labels(tape, batch->labels, &padded);
    flat = mpl_hold(mpl_op_reshape(
        tape, h, mpl_shape2(mpl_dim_mul(h->shape.dim[0], h->shape.dim[1]), h->shape.dim[2])));
    loss = mpl_loss_by_items(tape, lm, batch, apply(tape, flat, weight, accum));
    mpl_drop(tape, flat);
    mpl_drop(tape, targets);
    mpl_drop(tape, padded);
    mpl_drop(tape, h);
    return loss;
}
