/* SPDX-License-Identifier: MIT */
/*
 * A decoder layer with its choices.
 *
 * source: ...DecoderLayer.forward and ...MLP.forward in transformers/models: gemma2, granite, phi3,
 * nemotron, starcoder2, olmo2, glm4, cohere; release 5.24.0
 */
#include "part/block.h"

#include "op/op.h"

/* ---- MLP -------------------------------------------------------------------------------------
 */

struct mpl_mlp mpl_mlp_add_gated(struct mpl_network *network, bool has_bias)
{
    const int64_t width = network->plan->model.intermediate_size;
    const struct mpl_gated_mlp gated = mpl_gated_mlp_add(network, "mlp", width, has_bias);

    return (struct mpl_mlp){MPL_MLP_GATED, gated.gate, gated.up, gated.down, 0.0};
}

struct mpl_mlp mpl_mlp_add_joined(struct mpl_network *network)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size, width = m->intermediate_size;
    struct mpl_mlp mlp = {.kind = MPL_MLP_JOINED};

    mlp.up = mpl_linear_add(network, "mlp.gate_up_proj", 2 * width, h, false);
    mlp.down = mpl_linear_add(network, "mlp.down_proj", h, width, false);
    return mlp;
}

struct mpl_mlp mpl_mlp_add_plain(struct mpl_network *network, const char *up, const char *down,
                                 bool has_bias)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size, width = m->intermediate_size;
    struct mpl_mlp mlp = {.kind = MPL_MLP_PLAIN};

    mlp.up = mpl_linear_add(network, up, width, h, has_bias);
    mlp.down = mpl_linear_add(network, down, h, width, has_bias);
    return mlp;
}

/* gate, up = gate_up_proj(x).chunk(2); up = up * act(gate); down_proj(up) */
static struct mpl_tensor *joined(struct mpl_tape *tape, const struct mpl_network *network,
                                 const struct mpl_mlp *mlp, struct mpl_tensor *x)
{
    const enum mpl_activation act = network->plan->model.hidden_act;
    struct mpl_tensor *parts[2], *out;

    mpl_op_split_last(tape, mpl_linear_call(tape, network, &mlp->up, x), 2, NULL, parts);
    mpl_hold(parts[0]);
    mpl_hold(parts[1]);
    mpl_rebind(tape, &parts[1],
               mpl_op_mul(tape, parts[1], mpl_activation_call(tape, act, parts[0])));
    out = mpl_linear_call(tape, network, &mlp->down, parts[1]);
    mpl_drop(tape, parts[0]);
    mpl_drop(tape, parts[1]);
    return out;
}

struct mpl_tensor *mpl_mlp_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_mlp *mlp, struct mpl_tensor *x)
{
    const enum mpl_activation act = network->plan->model.hidden_act;
    const struct mpl_gated_mlp gated = {mlp->gate, mlp->up, mlp->down};
    struct mpl_tensor *out = NULL;

    if (mlp->kind == MPL_MLP_GATED)
        return mpl_gated_mlp_forward(tape, network, &gated, x);
    x = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    switch (mlp->kind) {
    case MPL_MLP_JOINED:
        out = joined(tape, network, mlp, x);
        break;
    case MPL_MLP_PLAIN:
        out = mpl_activation_call(tape, act, mpl_linear_call(tape, network, &mlp->up, x));
        out = mpl_linear_call(tape, network, &mlp->down, out);
        out = mpl_op_dropout(tape, out, mlp->dropout);
        break;
    case MPL_MLP_GATED:
        break;
    }
    return mpl_scope_leave(tape, MPL_NO_MODULE, out);
}

/* ---- layer -----------------------------------------------------------------------------------
 */

struct mpl_maybe_norm mpl_block_norm(struct mpl_network *network, enum mpl_norm_kind kind,
                                     const char *name)
{
    return (struct mpl_maybe_norm){
        true, mpl_norm_add(network, kind, name, network->plan->model.hidden_size)};
}

/* h = norm(h), where there is one */
static void norm(struct mpl_tape *tape, const struct mpl_network *network,
                 const struct mpl_maybe_norm *maybe, struct mpl_tensor **h)
{
    if (maybe->is_here)
        mpl_rebind(tape, h, mpl_norm_call(tape, network, &maybe->norm, *h));
}

/* h = residual + h, scaled or thinned out */
static void add_residual(struct mpl_tape *tape, const struct mpl_block *block,
                         struct mpl_tensor *residual, struct mpl_tensor **h)
{
    struct mpl_tensor *part = *h;

    if (block->is_scaled)
        part = mpl_op_mul_number(tape, part);
    if (block->residual_dropout > 0)
        part = mpl_op_dropout(tape, part, block->residual_dropout);
    mpl_rebind(tape, h, mpl_op_add(tape, residual, part));
}

struct mpl_tensor *mpl_block_attend(struct mpl_tape *tape, const struct mpl_block *block,
                                    struct mpl_tensor *h, struct mpl_tensor **weights_out)
{
    const struct mpl_lm *lm = block->base.lm;
    const struct mpl_attention_call how = mpl_lm_attention_call(&block->base);
    const bool has_own = block->base.is_sliding && lm->sliding_cos;
    struct mpl_tensor *cos = has_own ? lm->sliding_cos : lm->cos;
    struct mpl_tensor *sin = has_own ? lm->sliding_sin : lm->sin;

    if (block->has_no_rotary)
        cos = sin = NULL;
    return mpl_attention_forward(tape, lm->network, &block->attention, h, &how, cos, sin,
                                 weights_out);
}

struct mpl_tensor *mpl_block_forward(struct mpl_tape *tape, void *context, struct mpl_tensor *input)
{
    const struct mpl_block *block = context;
    const struct mpl_network *network = block->base.lm->network;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *weights = NULL;
    struct mpl_tensor *h = mpl_hold(mpl_return(mpl_hold(input)));

    norm(tape, network, &block->before_attention, &h);
    mpl_rebind(tape, &h, mpl_block_attend(tape, block, h, &weights));
    norm(tape, network, &block->after_attention, &h);
    add_residual(tape, block, residual, &h);
    mpl_rebind(tape, &residual, mpl_return(mpl_hold(h)));
    norm(tape, network, &block->before_mlp, &h);
    mpl_rebind(tape, &h, mpl_mlp_forward(tape, network, &block->mlp, h));
    norm(tape, network, &block->after_mlp, &h);
    add_residual(tape, block, residual, &h);
    mpl_drop(tape, residual);
    mpl_drop(tape, weights);
    return mpl_return(h);
}

struct mpl_tensor *mpl_block_parallel_forward(struct mpl_tape *tape, void *context,
                                              struct mpl_tensor *input)
{
    const struct mpl_block *block = context;
    const struct mpl_network *network = block->base.lm->network;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *weights = NULL;
    struct mpl_tensor *h =
        mpl_hold(mpl_norm_call(tape, network, &block->before_attention.norm, input));
    struct mpl_tensor *attended = mpl_hold(mpl_block_attend(tape, block, h, &weights));
    struct mpl_tensor *fed = mpl_hold(mpl_mlp_forward(tape, network, &block->mlp, h));

    mpl_rebind(tape, &h, mpl_op_add(tape, mpl_op_add(tape, residual, attended), fed));
    mpl_drop(tape, residual);
    mpl_drop(tape, attended);
    mpl_drop(tape, fed);
    mpl_drop(tape, weights);
    return mpl_return(h);
}
