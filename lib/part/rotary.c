/* SPDX-License-Identifier: MIT */
/*
 * How families turn queries and keys by their positions.
 *
 * source: apply_rotary_pos_emb and rotate_half in transformers/models: llama/modeling_llama.py,
 * olmo/modeling_olmo.py, cohere/modeling_cohere.py, phi3/modeling_phi3.py,
 * nemotron/modeling_nemotron.py, stablelm/modeling_stablelm.py, glm4/modeling_glm4.py; release
 * 5.24.0
 */
#include "part/rotary.h"

#include "op/op.h"
#include "part/decoder.h"

/* stack((-x2, x1), -1).flatten(-2) of every second element */
static struct mpl_tensor *rotate_pairs(struct mpl_tape *tape, struct mpl_tensor *x)
{
    const struct mpl_shape shape = x->shape;
    struct mpl_tensor *x1 = mpl_hold(mpl_op_stride_last(tape, x, 2));
    struct mpl_tensor *x2 = mpl_hold(mpl_op_stride_last(tape, x, 2));
    struct mpl_tensor *out =
        mpl_op_reshape(tape, mpl_op_stack_last(tape, mpl_op_neg(tape, x2), x1), shape);

    mpl_drop(tape, x1);
    mpl_drop(tape, x2);
    return out;
}

static struct mpl_tensor *turn(struct mpl_tape *tape, const struct mpl_rotary_call *call,
                               struct mpl_tensor *x)
{
    struct mpl_tensor *straight;

    if (call->kind != MPL_ROTARY_PAIRS && call->kind != MPL_ROTARY_PARTIAL_PAIRS)
        return mpl_rotate(tape, x, call->cos, call->sin);
    straight = mpl_op_mul(tape, x, call->cos);
    return mpl_op_add(tape, straight, mpl_op_mul(tape, rotate_pairs(tape, x), call->sin));
}

/* Whole heads, computed in the format of the tables or in float32, and cast back. */
static void apply_whole(struct mpl_tape *tape, const struct mpl_rotary_call *call,
                        struct mpl_tensor **q, struct mpl_tensor **k)
{
    const enum mpl_dtype q_dtype = (enum mpl_dtype)(*q)->dtype;
    const enum mpl_dtype k_dtype = (enum mpl_dtype)(*k)->dtype;
    const bool is_wide = call->kind == MPL_ROTARY_PAIRS;
    struct mpl_tensor *q_in = mpl_hold(mpl_op_to(tape, *q, is_wide ? MPL_FLOAT32 : q_dtype));
    struct mpl_tensor *k_in = mpl_hold(mpl_op_to(tape, *k, is_wide ? MPL_FLOAT32 : k_dtype));
    struct mpl_tensor *q_embed = mpl_hold(turn(tape, call, q_in));
    struct mpl_tensor *k_embed = mpl_hold(turn(tape, call, k_in));
    struct mpl_tensor *q_out = mpl_hold(mpl_op_to(tape, q_embed, q_dtype));
    struct mpl_tensor *k_out = mpl_hold(mpl_op_to(tape, k_embed, k_dtype));

    mpl_drop(tape, q_in);
    mpl_drop(tape, k_in);
    mpl_drop(tape, q_embed);
    mpl_drop(tape, k_embed);
    mpl_rebind(tape, q, mpl_return(q_out));
    mpl_rebind(tape, k, mpl_return(k_out));
}

/* A head in two: what turns and what does not. All of it is no slice. */
static void part(struct mpl_tape *tape, struct mpl_tensor *x, struct mpl_dim turning,
                 struct mpl_tensor **rot_out, struct mpl_tensor **pass_out)
{
    const int64_t rest = x->is_void ? 0 : x->shape.dim[3].n - turning.n;

    *rot_out = mpl_hold(rest ? mpl_op_slice_last(tape, x, turning) : mpl_return(mpl_hold(x)));
    *pass_out = mpl_hold(mpl_op_slice_last(tape, x, mpl_dim(rest)));
}

/* table[..., :half].repeat_interleave(2, dim=-1); held */
static struct mpl_tensor *spread(struct mpl_tape *tape, struct mpl_tensor *table)
{
    const struct mpl_shape flat = table->shape;
    struct mpl_shape wide = flat;
    struct mpl_tensor *half;

    if (table->is_void)
        return mpl_hold(table);
    wide.dim[3].n /= 2;
    wide.dim[wide.ndim++] = mpl_dim(2);
    half = mpl_op_unsqueeze(tape, mpl_op_slice_last(tape, table, wide.dim[3]), 4);
    half = mpl_op_contiguous(tape, mpl_op_expand(tape, half, wide));
    return mpl_hold(mpl_op_reshape(tape, half, flat));
}

/* phi3 joins a head as soon as it is turned; the others turn both first. */
static void turn_parts(struct mpl_tape *tape, const struct mpl_rotary_call *call,
                       struct mpl_tensor **parts, struct mpl_tensor **q_out,
                       struct mpl_tensor **k_out)
{
    if (call->kind == MPL_ROTARY_PARTIAL) {
        *q_out = mpl_hold(mpl_op_cat(tape, turn(tape, call, parts[0]), parts[1], 3));
        *k_out = mpl_hold(mpl_op_cat(tape, turn(tape, call, parts[2]), parts[3], 3));
        return;
    }
    *q_out = mpl_hold(turn(tape, call, parts[0]));
    *k_out = mpl_hold(turn(tape, call, parts[2]));
    if (call->kind == MPL_ROTARY_PARTIAL_PAIRS) {
        mpl_rebind(tape, q_out, mpl_op_cat(tape, *q_out, parts[1], 3));
        mpl_rebind(tape, k_out, mpl_op_cat(tape, *k_out, parts[3], 3));
        return;
    }
    mpl_rebind(tape, &parts[0], mpl_return(*q_out));
    mpl_rebind(tape, &parts[2], mpl_return(*k_out));
    *q_out = mpl_hold(mpl_op_cat(tape, parts[0], parts[1], 3));
    *k_out = mpl_hold(mpl_op_cat(tape, parts[2], parts[3], 3));
}

static void apply_partial(struct mpl_tape *tape, const struct mpl_rotary_call *given,
                          struct mpl_tensor **q, struct mpl_tensor **k,
                          struct mpl_rotary_parts *kept)
{
    const struct mpl_dim turning = given->cos->shape.dim[3];
    const bool is_spread = given->kind == MPL_ROTARY_PARTIAL_PAIRS;
    struct mpl_rotary_call call = *given;
    struct mpl_tensor *parts[4], *q_out, *k_out;

    if (is_spread) {
        call.cos = spread(tape, given->cos);
        call.sin = spread(tape, given->sin);
    }
    part(tape, *q, turning, &parts[0], &parts[1]);
    part(tape, *k, turning, &parts[2], &parts[3]);
    turn_parts(tape, &call, parts, &q_out, &k_out);
    for (int i = 0; i < 4; i++)
        if (call.kind == MPL_ROTARY_PARTIAL_OUTSIDE)
            kept->part[i] = parts[i];
        else
            mpl_drop(tape, parts[i]);
    if (is_spread) {
        mpl_drop(tape, call.cos);
        mpl_drop(tape, call.sin);
    }
    mpl_rebind(tape, q, mpl_return(q_out));
    mpl_rebind(tape, k, mpl_return(k_out));
}

void mpl_rotary_apply(struct mpl_tape *tape, const struct mpl_rotary_call *call,
                      struct mpl_tensor **q, struct mpl_tensor **k, struct mpl_rotary_parts *kept)
{
    struct mpl_tensor *q_embed, *k_embed;

    switch (call->kind) {
    case MPL_ROTARY_CAST:
    case MPL_ROTARY_PAIRS:
        apply_whole(tape, call, q, k);
        return;
    case MPL_ROTARY_PARTIAL:
    case MPL_ROTARY_PARTIAL_RETURN:
    case MPL_ROTARY_PARTIAL_OUTSIDE:
    case MPL_ROTARY_PARTIAL_PAIRS:
        apply_partial(tape, call, q, k, kept);
        return;
    case MPL_ROTARY_HALVES:
        break;
    }
    q_embed = mpl_hold(mpl_rotate(tape, *q, call->cos, call->sin));
    k_embed = mpl_hold(mpl_rotate(tape, *k, call->cos, call->sin));
    mpl_rebind(tape, q, mpl_return(q_embed));
    mpl_rebind(tape, k, mpl_return(k_embed));
}
