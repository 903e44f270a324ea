/* SPDX-License-Identifier: MIT */
/*
 * The functions of the package flash-attn-3: what their autograd functions keep and allocate. They
 * have no dropout, and take heads of a multiple of 8 elements only.
 *
 * source: flash-attn-3 (Dao-AILab/flash-attention, hopper/flash_attn_interface.py: FlashAttnFunc,
 * FlashAttnVarlenFunc), main of 2026
 */
#include "op/rule.h"
#include "op/scratch_book.h"

#define FORWARD  "flash_attn_3_fwd"
#define BACKWARD "flash_attn_3_bwd"

/* arg of a node: number of joined sequences (0: none), the longest, kind of mask */
enum { SEQUENCES, LONGEST, IS_CAUSAL, IS_LOCAL, IS_CAPPED };
enum { SAVED_Q, SAVED_K, SAVED_V };

/* One call. */
struct call {
    struct mpl_scratch_attention description;
    const struct mpl_tensor *q;
    struct mpl_tensor *results[2]; /* held; by enum mpl_attention_result */
};

static void describe(struct mpl_scratch_attention *d, const struct mpl_tensor *q,
                     const struct mpl_tensor *k)
{
    const int first = d->sequences ? 0 : 1;

    d->dtype = (enum mpl_dtype)q->dtype;
    d->batch = d->sequences ? 1 : q->shape.dim[0].n;
    d->query_tokens = q->shape.dim[first].n;
    d->key_tokens = k->shape.dim[first].n;
    d->heads = q->shape.dim[first + 1].n;
    d->kv_heads = k->shape.dim[first + 1].n;
    d->head_dim = d->value_head_dim = q->shape.dim[first + 2].n;
}

/* saved: q, k, v, output, log-sum-exp, lengths twice where sequences are joined */
static void backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                     struct mpl_tensor **in)
{
    const struct mpl_book book = {.op = BACKWARD, .degree = MPL_LINEAR};
    struct mpl_scratch_attention description = {.sequences = node->arg[SEQUENCES],
                                                .longest = node->arg[LONGEST],
                                                .is_causal = node->arg[IS_CAUSAL] != 0,
                                                .is_local = node->arg[IS_LOCAL] != 0,
                                                .is_capped = node->arg[IS_CAPPED] != 0};
    struct mpl_tensor *qkv[3] = {NULL}, *grads[3];
    struct mpl_scratch list;

    (void)out;
    for (int i = 0; i < node->saved_count; i++) {
        struct mpl_tensor *saved = mpl_saved(tape, node, i);

        if (i <= SAVED_V)
            qkv[i] = saved;
    }
    if (tape->is_stopped)
        return;
    for (int i = 0; i < 3; i++)
        grads[i] = mpl_rule_like(tape, "empty_like.default", qkv[i], NULL);
    if (tape->has_kernel_scratch) {
        const struct mpl_scratch_card card = mpl_book_card(tape);

        describe(&description, qkv[SAVED_Q], qkv[SAVED_K]);
        mpl_scratch_flash_attn_3_backward(&card, &description, &list);
        mpl_book_run(tape, &list, &book);
    }
    for (int i = 0; i < 3; i++)
        if (mpl_needs(node, i))
            in[i] = grads[i];
        else
            mpl_drop(tape, grads[i]);
}

static struct mpl_tensor *make_result(struct mpl_tape *tape, void *context, int which)
{
    const struct call *call = context;
    const struct mpl_dim *dim = call->q->shape.dim;
    const struct mpl_shape lse = call->description.sequences ? mpl_shape2(dim[1], dim[0])
                                                             : mpl_shape3(dim[0], dim[2], dim[1]);

    if (which == MPL_ATTENTION_OUT)
        return mpl_hold(mpl_empty(tape, FORWARD, (enum mpl_dtype)call->q->dtype, &call->q->shape));
    return mpl_hold(mpl_empty(tape, FORWARD, MPL_FLOAT32, &lse));
}

static void run_forward(struct mpl_tape *tape, struct call *call, const struct mpl_tensor *k)
{
    const struct mpl_book book = {FORWARD, MPL_LINEAR, make_result, call, call->results};
    const struct mpl_scratch_card card = mpl_book_card(tape);
    struct mpl_scratch list;

    describe(&call->description, call->q, k);
    if (!tape->has_kernel_scratch) {
        for (int i = 0; i < 2; i++)
            call->results[i] = make_result(tape, call, i);
        return;
    }
    mpl_scratch_flash_attn_3_forward(&card, &call->description, &list);
    mpl_book_run(tape, &list, &book);
}

struct mpl_tensor *mpl_op_flash_attn_3(struct mpl_tape *tape, struct mpl_tensor *q,
                                       struct mpl_tensor *k, struct mpl_tensor *v,
                                       const struct mpl_flash_attn_options *options)
{
    struct mpl_tensor *const inputs[3] = {q, k, v};
    struct call call = {.q = q,
                        .description = {.is_causal = options->is_causal && !options->is_local,
                                        .is_local = options->is_local,
                                        .is_capped = options->is_capped,
                                        .longest = options->longest}};
    struct mpl_node *node;

    if (q->is_void || k->is_void || v->is_void || (options->lengths && options->lengths->is_void))
        return tape->void_tensor;
    node = mpl_node_new(tape, "FlashAttn3FuncBackward", backward, inputs, 3, 1, 7);
    if (options->lengths)
        call.description.sequences = options->lengths->shape.dim[0].n - 1;
    if (node) {
        node->arg[SEQUENCES] = call.description.sequences;
        node->arg[LONGEST] = call.description.longest;
        node->arg[IS_CAUSAL] = call.description.is_causal;
        node->arg[IS_LOCAL] = call.description.is_local;
        node->arg[IS_CAPPED] = call.description.is_capped;
    }
    run_forward(tape, &call, k);
    for (int i = 0; i < 3; i++)
        mpl_save(tape, node, inputs[i]);
    mpl_save_output(tape, node, call.results[MPL_ATTENTION_OUT]);
    mpl_save_output(tape, node, call.results[MPL_ATTENTION_LSE]);
    for (int i = 0; options->lengths && i < 2; i++)
        mpl_save(tape, node, options->lengths);
    mpl_set_history(tape, call.results[MPL_ATTENTION_OUT], node, 0);
    mpl_drop(tape, call.results[MPL_ATTENTION_LSE]);
    return mpl_return(call.results[MPL_ATTENTION_OUT]);
}
