/* SPDX-License-Identifier: MIT */
/* source: transformers/models/gpt2/modeling_gpt2.py, configuration_gpt2.py; release 5.24.0 */
#include "arch/arch.h"
#include "part/causal_lm.h"

#include "op/op.h"
#include "part/decoder.h"

struct layer {
    struct mpl_lm_layer base;
    struct mpl_norm ln_1, ln_2;
    struct mpl_linear c_attn, attn_proj, c_fc, mlp_proj;
};

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;
    struct layer *layer = (struct layer *)base;

    if (base->lm->past.facts)
        mpl_past_add_bias(network);
    layer->ln_1 = mpl_norm_add(network, MPL_NORM_LAYER, "ln_1", h);
    layer->c_attn = mpl_conv1d_add(network, "attn.c_attn", 3 * h, h);
    layer->attn_proj = mpl_conv1d_add(network, "attn.c_proj", h, h);
    layer->ln_2 = mpl_norm_add(network, MPL_NORM_LAYER, "ln_2", h);
    layer->c_fc = mpl_conv1d_add(network, "mlp.c_fc", m->intermediate_size, h);
    layer->mlp_proj = mpl_conv1d_add(network, "mlp.c_proj", h, m->intermediate_size);
}

static struct mpl_tensor *attention(struct mpl_tape *tape, const struct layer *layer,
                                    struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->base);
    struct mpl_tensor *parts[3], *out;

    mpl_scope_enter(tape, MPL_NO_MODULE, NULL);
    call.softmax = MPL_SOFTMAX_CAST;
    mpl_op_split_last(tape, mpl_linear_call(tape, network, &layer->c_attn, x), 3, NULL, parts);
    call.k = mpl_hold(mpl_split_heads(tape, parts[1], m->num_attention_heads, m->head_dim));
    call.v = mpl_hold(mpl_split_heads(tape, parts[2], m->num_attention_heads, m->head_dim));
    call.q = mpl_hold(mpl_split_heads(tape, parts[0], m->num_attention_heads, m->head_dim));
    out = call.past ? mpl_past_attention(tape, network->plan, &call, weights_out)
                    : mpl_attention_interface(tape, network->plan, &call, weights_out);
    out = mpl_hold(mpl_merge_heads(tape, out));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &layer->attn_proj, out));
    mpl_rebind(tape, &out, mpl_dropout_call(tape, out, m->hidden_dropout));
    if (call.past) { /* nobody asked for them */
        mpl_drop(tape, *weights_out);
        *weights_out = NULL;
    }
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(out));
}

static struct mpl_tensor *mlp(struct mpl_tape *tape, const struct layer *layer,
                              struct mpl_tensor *x)
{
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    struct mpl_tensor *h;

    mpl_scope_enter(tape, MPL_NO_MODULE, NULL);
    h = mpl_hold(mpl_linear_call(tape, network, &layer->c_fc, x));
    mpl_rebind(tape, &h, mpl_activation_call(tape, m->hidden_act, h));
    mpl_rebind(tape, &h, mpl_linear_call(tape, network, &layer->mlp_proj, h));
    mpl_rebind(tape, &h, mpl_dropout_call(tape, h, m->hidden_dropout));
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(h));
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct layer *layer = context;
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *weights = NULL;
    struct mpl_tensor *h = mpl_hold(mpl_norm_call(tape, network, &layer->ln_1, input));
    struct mpl_tensor *attended = mpl_hold(attention(tape, layer, h, &weights)), *fed;

    mpl_rebind(tape, &h, mpl_op_add(tape, attended, residual));
    mpl_rebind(tape, &residual, mpl_return(mpl_hold(h)));
    mpl_rebind(tape, &h, mpl_norm_call(tape, network, &layer->ln_2, h));
    fed = mpl_hold(mlp(tape, layer, h));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, fed));
    mpl_drop(tape, residual);
    mpl_drop(tape, attended);
    mpl_drop(tape, weights);
    mpl_drop(tape, fed);
    return mpl_return(h);
}

/* wpe: learned positions */
static void describe_embedding(struct mpl_lm *lm)
{
    const struct mpl_model *m = &lm->network->plan->model;

    lm->position_table = mpl_network_add_under(
        lm->network, "wpe", ".weight",
        mpl_shape2(mpl_dim(m->max_position_embeddings), mpl_dim(m->hidden_size)));
}

/* inputs_embeds + position_embeds, which stays named */
static struct mpl_tensor *before_masks(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_tensor *embeds)
{
    const uint64_t wpe = mpl_module_of_weight(lm->position_table, false);
    struct mpl_tensor *positions =
        mpl_scope_enter(tape, wpe, mpl_op_unsqueeze(tape, lm->positions, 0));
    struct mpl_tensor *table = mpl_network_weight(lm->network, lm->position_table);

    lm->locals[0] = mpl_hold(mpl_scope_leave(tape, wpe, mpl_op_embedding(tape, table, positions)));
    return mpl_op_add(tape, embeds, lm->locals[0]);
}

static struct mpl_tensor *enter(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    return mpl_dropout_call(tape, h, lm->network->plan->model.embedding_dropout);
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .sdpa = 42,
             .logits = MPL_PAST_LOGITS_AS_THEY_ARE,
             .keeps_strides = true,
             .eager = MPL_PAST_EAGER_GPT2,
             .padding_mask_only = 47},
    .base = "transformer",
    .embedding = "wte",
    .layers = "h",
    .norm = "ln_f",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER,
    .has_no_rotary = true,
    .has_no_score = true,
    .layer_size = sizeof(struct layer),
    .layer_room = 12,
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
    .describe_embedding = describe_embedding,
    .before_masks = before_masks,
    .enter = enter,
    .extra_room = 1,
};

static void derive(struct mpl_plan *plan)
{
    if (!plan->model.intermediate_size)
        plan->model.intermediate_size = 4 * plan->model.hidden_size;
}

static const struct mpl_config_key keys[] = {
    {"vocab_size", NULL, "50257"},
    {"hidden_size", "n_embd", "768"},
    {"num_hidden_layers", "n_layer", "12"},
    {"num_attention_heads", "n_head", "12"},
    {"intermediate_size", "n_inner", "null"},
    {"max_position_embeddings", "n_positions", "1024"},
    {"hidden_act", "activation_function", "\"gelu_new\""},
    {"attention_dropout", "attn_pdrop", "0.1"},
    {"hidden_dropout", "resid_pdrop", "0.1"},
    {"embedding_dropout", "embd_pdrop", "0.1"},
    {"tie_word_embeddings", NULL, "true"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_gpt2 = {
    .config = {.model_type = "gpt2",
               .has_scopes = true,
               .help = "GPT-2",
               .has_no_flex = true,
               .has_position_table = true,
               .keys = keys,
               .derive = derive},
    .family = &family,
};
