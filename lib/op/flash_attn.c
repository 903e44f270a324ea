/* SPDX-License-Identifier: MIT */
/*
 * The functions of the package flash-attn: what their autograd functions keep and allocate.
 *
 * source: flash-attn 2.8.3, flash_attn/flash_attn_interface.py (FlashAttnFunc,
 * FlashAttnVarlenFunc), flash_attn/bert_padding.py (IndexPutFirstAxis)
 */
#include "op/rule.h"
#include "op/scratch_book.h"

static const char *const forward_names[] = {"_flash_attn_forward", "_flash_attn_varlen_forward"};
static const char *const backward_names[] = {"_flash_attn_backward", "_flash_attn_varlen_backward"};

/* arg of a node: is it of joined sequences, how many, has it dropout, head size before padding */
enum { IS_JOINED, SEQUENCES, HAS_DROPOUT, HEAD };
enum { SAVED_Q, SAVED_K, SAVED_V };

/* One call, q, k, v padded. */
struct call {
    bool is_joined, has_dropout;
    int64_t sequences;
    struct mpl_tensor *qkv[3];
    struct mpl_tensor *results[3]; /* held; by enum mpl_attention_result */
};

static struct mpl_dim *last_dim(struct mpl_shape *shape)
{
    return &shape->dim[shape->ndim - 1];
}

static struct mpl_scratch_attention describe(const struct call *call)
{
    const struct mpl_shape *q = &call->qkv[0]->shape, *k = &call->qkv[1]->shape;
    const int first = call->is_joined ? 0 : 1;

    return (struct mpl_scratch_attention){
        .dtype = (enum mpl_dtype)call->qkv[0]->dtype,
        .batch = call->is_joined ? 1 : q->dim[0].n,
        .query_tokens = q->dim[first].n,
        .key_tokens = k->dim[first].n,
        .heads = q->dim[first + 1].n,
        .kv_heads = k->dim[first + 1].n,
        .head_dim = q->dim[first + 2].n,
        .value_head_dim = q->dim[first + 2].n,
        .has_dropout = call->has_dropout,
        .sequences = call->sequences,
    };
}

/* A copy [.., size] of a when its last dimension is another one, else a itself; held. No gradient
 * flows: it is made inside the function. */
static struct mpl_tensor *padded(struct mpl_tape *tape, struct mpl_tensor *a, int64_t size)
{
    struct mpl_shape shape = a->shape;

    if (last_dim(&shape)->n == size)
        return mpl_hold(mpl_return(mpl_hold(a)));
    last_dim(&shape)->n = size;
    return mpl_hold(mpl_empty(tape, "constant_pad_nd.default", (enum mpl_dtype)a->dtype, &shape));
}

/* a[..., :size], without history; takes a held name, gives one */
static struct mpl_tensor *cut(struct mpl_tape *tape, struct mpl_tensor *a, int64_t size)
{
    struct mpl_shape shape = a->shape;
    struct mpl_tensor *view;

    if (a->is_void || last_dim(&shape)->n == size)
        return a;
    last_dim(&shape)->n = size;
    view = mpl_rule_strided(tape, a, &shape, a->stride);
    mpl_drop(tape, a);
    return view;
}

/* saved: q, k, v, output, log-sum-exp, lengths twice where sequences are joined, seeds */
static void flash_attn_backward(struct mpl_tape *tape, struct mpl_node *node,
                                struct mpl_tensor **out, struct mpl_tensor **in)
{
    struct call call = {.is_joined = node->arg[IS_JOINED] != 0,
                        .has_dropout = node->arg[HAS_DROPOUT] != 0,
                        .sequences = node->arg[SEQUENCES]};
    const struct mpl_book book = {.op = backward_names[call.is_joined], .degree = MPL_LINEAR};
    struct mpl_tensor *grads[3], *grad;

    for (int i = 0; i < node->saved_count; i++) {
        struct mpl_tensor *saved = mpl_saved(tape, node, i);

        if (i <= SAVED_V)
            call.qkv[i] = saved;
    }
    if (tape->is_stopped)
        return;
    for (int i = 0; i < 3; i++)
        grads[i] = mpl_rule_like(tape, "empty_like.default", call.qkv[i], NULL);
    grad = padded(tape, out[0], last_dim(&call.qkv[0]->shape)->n);
    if (tape->has_kernel_scratch) {
        const struct mpl_scratch_attention description = describe(&call);
        struct mpl_scratch list;

        mpl_scratch_flash_attn_backward(&description, &list);
        mpl_book_run(tape, &list, &book);
    }
    mpl_drop(tape, grad);
    for (int i = 0; i < 3; i++)
        if (mpl_needs(node, i))
            in[i] = cut(tape, grads[i], node->arg[HEAD]);
        else
            mpl_drop(tape, grads[i]);
}

static struct mpl_tensor *make_result(struct mpl_tape *tape, void *context, int which)
{
    const struct call *call = context;
    const struct mpl_tensor *q = call->qkv[0];
    const struct mpl_dim *dim = q->shape.dim;
    const struct mpl_shape lse =
        call->is_joined ? mpl_shape2(dim[1], dim[0]) : mpl_shape3(dim[0], dim[2], dim[1]);
    const struct mpl_shape pair = mpl_shape1(mpl_dim(2));
    const char *op = forward_names[call->is_joined];

    if (which == MPL_ATTENTION_OUT)
        return mpl_hold(mpl_empty_like(tape, op, (enum mpl_dtype)q->dtype, q, NULL));
    return mpl_hold(which == MPL_ATTENTION_LSE ? mpl_empty(tape, op, MPL_FLOAT32, &lse)
                                               : mpl_empty(tape, op, MPL_INT64, &pair));
}

static void run_forward(struct mpl_tape *tape, struct call *call)
{
    const struct mpl_book book = {forward_names[call->is_joined], MPL_LINEAR, make_result, call,
                                  call->results};
    const struct mpl_scratch_card card = mpl_book_card(tape);
    const struct mpl_scratch_attention description = describe(call);
    struct mpl_scratch list;

    if (!tape->has_kernel_scratch) {
        for (int i = 0; i < 3; i++)
            call->results[i] = make_result(tape, call, i);
        return;
    }
    mpl_scratch_flash_attn_forward(&card, &description, &list);
    mpl_book_run(tape, &list, &book);
}

static void save(struct mpl_tape *tape, struct mpl_node *node, const struct call *call,
                 struct mpl_tensor *lengths)
{
    for (int i = 0; i < 3; i++)
        mpl_save(tape, node, call->qkv[i]);
    mpl_save_output(tape, node, call->results[MPL_ATTENTION_OUT]);
    mpl_save_output(tape, node, call->results[MPL_ATTENTION_LSE]);
    for (int i = 0; lengths && i < 2; i++)
        mpl_save(tape, node, lengths);
    mpl_save_output(tape, node, call->results[MPL_ATTENTION_SEED]);
}

struct mpl_tensor *mpl_op_flash_attn(struct mpl_tape *tape, struct mpl_tensor *q,
                                     struct mpl_tensor *k, struct mpl_tensor *v,
                                     const struct mpl_flash_attn_options *options)
{
    struct mpl_tensor *const inputs[3] = {q, k, v};
    struct call call = {.is_joined = options->lengths, .has_dropout = options->dropout > 0};
    struct mpl_node *node;
    struct mpl_tensor *out;
    int64_t head;

    if (q->is_void || k->is_void || v->is_void || (options->lengths && options->lengths->is_void))
        return tape->void_tensor;
    node =
        mpl_node_new(tape, call.is_joined ? "FlashAttnVarlenFuncBackward" : "FlashAttnFuncBackward",
                     flash_attn_backward, inputs, 3, 1, 8);
    if (call.is_joined)
        call.sequences = options->lengths->shape.dim[0].n - 1;
    head = last_dim(&q->shape)->n;
    if (node) {
        node->arg[IS_JOINED] = call.is_joined;
        node->arg[SEQUENCES] = call.sequences;
        node->arg[HAS_DROPOUT] = call.has_dropout;
        node->arg[HEAD] = head;
    }
    for (int i = 0; i < 3; i++)
        call.qkv[i] = padded(tape, inputs[i], (int64_t)mpl_round_up((uint64_t)head, 8));
    run_forward(tape, &call);
    save(tape, node, &call, options->lengths);
    out = cut(tape, call.results[MPL_ATTENTION_OUT], head);
    mpl_set_history(tape, out, node, 0);
    mpl_drop(tape, call.results[MPL_ATTENTION_LSE]);
    mpl_drop(tape, call.results[MPL_ATTENTION_SEED]);
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, call.qkv[i]);
    return mpl_return(out);
}

/* ---- back to rows with padding ----------------------------------------------------------------
 */

static void put_rows_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                              struct mpl_tensor **in)
{
    const struct mpl_tensor *indices = mpl_saved(tape, node, 0);
    struct mpl_shape shape = out[0]->shape;

    if (tape->is_stopped)
        return;
    shape.dim[0] = indices->shape.dim[0];
    in[0] = mpl_hold(mpl_empty(tape, "index.Tensor", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_put_rows(struct mpl_tape *tape, struct mpl_tensor *a,
                                   struct mpl_tensor *indices, struct mpl_dim rows)
{
    struct mpl_node *node =
        mpl_node_new(tape, "IndexPutFirstAxisBackward", put_rows_backward, &a, 1, 1, 1);
    struct mpl_shape shape = a->shape;
    struct mpl_tensor *out;

    if (a->is_void || indices->is_void)
        return tape->void_tensor;
    shape.dim[0] = rows;
    out = mpl_empty(tape, "zeros.default", (enum mpl_dtype)a->dtype, &shape);
    mpl_save(tape, node, indices);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}
