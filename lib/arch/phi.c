/* SPDX-License-Identifier: MIT */
/* source: transformers/models/phi/modeling_phi.py, configuration_phi.py; release 5.24.0 */
#include "arch/arch.h"
#include "op/op.h"
#include "part/causal_lm.h"
#include "part/decoder.h"

struct layer {
    struct mpl_lm_layer base;
    struct mpl_linear q, k, v, dense;
    struct mpl_norm q_norm, k_norm, input_norm;
    struct mpl_plain_mlp mlp;
};

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size, d = m->head_dim;
    struct layer *layer = (struct layer *)base;

    layer->q = mpl_linear_add(network, "self_attn.q_proj", m->num_attention_heads * d, h, true);
    layer->k = mpl_linear_add(network, "self_attn.k_proj", m->num_key_value_heads * d, h, true);
    layer->v = mpl_linear_add(network, "self_attn.v_proj", m->num_key_value_heads * d, h, true);
    layer->dense = mpl_linear_add(network, "self_attn.dense", h, m->num_attention_heads * d, true);
    if (m->qk_norm) {
        layer->q_norm = mpl_norm_add(network, MPL_NORM_LAYER, "self_attn.q_layernorm", d);
        layer->k_norm = mpl_norm_add(network, MPL_NORM_LAYER, "self_attn.k_layernorm", d);
    }
    layer->mlp.up = mpl_linear_add(network, "mlp.fc1", m->intermediate_size, h, true);
    layer->mlp.down = mpl_linear_add(network, "mlp.fc2", h, m->intermediate_size, true);
    layer->input_norm = mpl_norm_add(network, MPL_NORM_LAYER, "input_layernorm", h);
}

/* Names that live until attention returns. */
struct parts {
    struct mpl_tensor *rot[2], *pass[2];
};

/* The first elements of a head turn; the parts keep their names. */
static void rotate(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_attention_call *call,
                   struct mpl_tensor *const tables[2], struct parts *parts)
{
    struct mpl_tensor **const states[2] = {&call->q, &call->k};
    const int64_t dim = lm->rotary_dim, rest = lm->network->plan->model.head_dim - dim;
    struct mpl_tensor *turned[2];

    for (int i = 0; i < 2; i++) {
        parts->rot[i] = mpl_hold(rest ? mpl_op_slice_last(tape, *states[i], mpl_dim(dim))
                                      : mpl_return(mpl_hold(*states[i])));
        parts->pass[i] = mpl_hold(mpl_op_slice_last(tape, *states[i], mpl_dim(rest)));
    }
    for (int i = 0; i < 2; i++)
        turned[i] = mpl_hold(mpl_rotate(tape, parts->rot[i], tables[0], tables[1]));
    for (int i = 0; i < 2; i++)
        mpl_rebind(tape, &parts->rot[i], mpl_return(turned[i]));
    for (int i = 0; i < 2; i++)
        mpl_rebind(tape, states[i], mpl_op_cat(tape, parts->rot[i], parts->pass[i], 3));
}

static void project(struct mpl_tape *tape, const struct layer *layer, struct mpl_tensor *x,
                    struct mpl_attention_call *call)
{
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    const int64_t d = m->head_dim, kv = m->num_key_value_heads;

    call->q = mpl_hold(mpl_split_heads(tape, mpl_linear_call(tape, network, &layer->q, x),
                                       m->num_attention_heads, d));
    call->k = mpl_hold(mpl_split_heads(tape, mpl_linear_call(tape, network, &layer->k, x), kv, d));
    call->v = mpl_hold(mpl_split_heads(tape, mpl_linear_call(tape, network, &layer->v, x), kv, d));
    if (!m->qk_norm)
        return;
    mpl_rebind(tape, &call->q, mpl_norm_call(tape, network, &layer->q_norm, call->q));
    mpl_rebind(tape, &call->k, mpl_norm_call(tape, network, &layer->k_norm, call->k));
}

static struct mpl_tensor *attention(struct mpl_tape *tape, const struct layer *layer,
                                    struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->base);
    struct mpl_past_tables own = {.cos = NULL};
    const struct mpl_lm *lm = layer->base.lm;
    struct parts parts;
    struct mpl_tensor *out;

    project(tape, layer, x, &call);
    if (call.past && !lm->cos)
        mpl_past_tables_make(tape, call.past, call.v, &own);
    rotate(tape, lm, &call,
           (struct mpl_tensor *[]){own.cos ? own.cos : lm->cos, own.cos ? own.sin : lm->sin},
           &parts);
    if (own.cos)
        mpl_past_tables_applied(tape, call.past, &own);
    call.is_wide = call.past != NULL;
    out = call.past ? mpl_past_attention(tape, network->plan, &call, weights_out)
                    : mpl_attention_interface(tape, network->plan, &call, weights_out);
    out = mpl_hold(mpl_merge_heads(tape, out));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &layer->dense, out));
    for (int i = 0; i < 2; i++) {
        mpl_drop(tape, parts.rot[i]);
        mpl_drop(tape, parts.pass[i]);
    }
    mpl_past_tables_drop(tape, &own);
    if (call.past) { /* attn_weights = None */
        mpl_drop(tape, *weights_out);
        *weights_out = NULL;
    }
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    return mpl_return(out);
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct layer *layer = context;
    const struct mpl_network *network = layer->base.lm->network;
    const double dropout = network->plan->model.hidden_dropout;
    struct mpl_tensor *h = mpl_hold(mpl_norm_call(tape, network, &layer->input_norm, input));
    struct mpl_tensor *weights = NULL, *fed;
    struct mpl_tensor *attended = mpl_hold(attention(tape, layer, h, &weights));

    mpl_rebind(tape, &attended, mpl_op_dropout(tape, attended, dropout));
    fed = mpl_plain_mlp_forward(tape, network, &layer->mlp, h);
    fed = mpl_hold(mpl_op_dropout(tape, fed, dropout));
    mpl_rebind(tape, &h, mpl_op_add(tape, mpl_op_add(tape, attended, fed), input));
    mpl_drop(tape, fed);
    mpl_drop(tape, attended);
    mpl_drop(tape, weights);
    return mpl_return(h);
}

/* inputs_embeds = embed_dropout(inputs_embeds) */
static struct mpl_tensor *enter(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    mpl_rebind(tape, &lm->embeds,
               mpl_op_dropout(tape, h, lm->network->plan->model.embedding_dropout));
    return mpl_return(mpl_hold(lm->embeds));
}

static const struct mpl_lm_family family = {
    .past = {.keeps_strides = true,
             .first = 40,
             .position_rotary = 45,
             .lean_rotary = 45,
             .shared_rotary = 45,
             .update_mask = 42,
             .split_mask = 44,
             .loss_function = 46,
             .flash_positions = 44},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "final_layernorm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER,
    .has_head_bias = true,
    .layer_size = sizeof(struct layer),
    .layer_room = 18,
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
    .enter = enter,
};

static const struct mpl_config_key keys[] = {
    {"partial_rotary_factor", NULL, "0.5"},   {"hidden_act", NULL, "\"gelu_new\""},
    {"hidden_dropout", "resid_pdrop", "0.0"}, {"embedding_dropout", "embd_pdrop", "0.0"},
    {"qk_norm", "qk_layernorm", "false"},     {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_phi = {
    .config = {.model_type = "phi",
               .has_scopes = true,
               .help = "Phi-1, Phi-1.5 and Phi-2",
               .keys = keys},
    .family = &family,
};
