/* SPDX-License-Identifier: MIT */
/* source: transformers/models/llama/modeling_llama.py (LlamaDecoderLayer); release 5.24.0 */
#include "op/op.h"
#include "part/causal_lm.h"

void mpl_prenorm_layer_describe(struct mpl_network *network, struct mpl_prenorm_layer *layer,
                                bool has_qkv_bias, bool has_o_bias)
{
    const struct mpl_model *m = &network->plan->model;

    layer->attention = mpl_attention_add(network, "self_attn", has_qkv_bias, has_o_bias);
    layer->mlp = mpl_gated_mlp_add(network, "mlp", m->intermediate_size, m->mlp_bias);
    layer->input_norm = mpl_norm_add(network, MPL_NORM_RMS, "input_layernorm", m->hidden_size);
    layer->post_norm =
        mpl_norm_add(network, MPL_NORM_RMS, "post_attention_layernorm", m->hidden_size);
}

struct mpl_tensor *mpl_prenorm_layer_forward(struct mpl_tape *tape, void *context,
                                             struct mpl_tensor *input)
{
    const struct mpl_prenorm_layer *layer = context;
    const struct mpl_lm *lm = layer->base.lm;
    const struct mpl_network *network = lm->network;
    const struct mpl_attention_call how = mpl_lm_attention_call(&layer->base);
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *weights = NULL;
    struct mpl_tensor *h = mpl_hold(mpl_norm_call(tape, network, &layer->input_norm, input));

    mpl_rebind(tape, &h,
               mpl_attention_forward(tape, network, &layer->attention, h, &how, lm->cos, lm->sin,
                                     &weights));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_rebind(tape, &residual, mpl_return(mpl_hold(h)));
    mpl_rebind(tape, &h, mpl_norm_call(tape, network, &layer->post_norm, h));
    mpl_rebind(tape, &h, mpl_gated_mlp_forward(tape, network, &layer->mlp, h));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_drop(tape, residual);
    mpl_drop(tape, weights);
    return mpl_return(h);
}
