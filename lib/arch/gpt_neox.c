/* SPDX-License-Identifier: MIT */
/* source: transformers/models/gpt_neox/modeling_gpt_neox.py, configuration_gpt_neox.py; release
 * 5.24.0 */
#include "arch/arch.h"
#include "op/op.h"
#include "part/causal_lm.h"
#include "part/decoder.h"

struct layer {
    struct mpl_lm_layer base;
    struct mpl_norm input_norm, post_norm;
    struct mpl_linear query_key_value, dense;
    struct mpl_plain_mlp mlp;
};

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;
    const bool has_bias = m->attention_bias;
    struct layer *layer = (struct layer *)base;

    if (base->lm->past.facts)
        mpl_past_add_bias(network);
    layer->input_norm = mpl_norm_add(network, MPL_NORM_LAYER, "input_layernorm", h);
    layer->post_norm = mpl_norm_add(network, MPL_NORM_LAYER, "post_attention_layernorm", h);
    layer->query_key_value =
        mpl_linear_add(network, "attention.query_key_value", 3 * h, h, has_bias);
    layer->dense = mpl_linear_add(network, "attention.dense", h, h, has_bias);
    layer->mlp.up = mpl_linear_add(network, "mlp.dense_h_to_4h", m->intermediate_size, h, true);
    layer->mlp.down = mpl_linear_add(network, "mlp.dense_4h_to_h", h, m->intermediate_size, true);
}

/* x[..., from : from + len]; held */
static struct mpl_tensor *part(struct mpl_tape *tape, struct mpl_tensor *x, int64_t len)
{
    if (x->is_void || x->shape.dim[3].n == len)
        return mpl_hold(mpl_return(mpl_hold(x)));
    return mpl_hold(mpl_op_slice_last(tape, x, mpl_dim(len)));
}

/* apply_rotary_pos_emb: the first elements of a head turn, the others are joined to them. */
static void rotate(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_attention_call *call,
                   struct mpl_tensor *const tables[2])
{
    struct mpl_tensor **const states[2] = {&call->q, &call->k};
    const int64_t dim = lm->rotary_dim, rest = lm->network->plan->model.head_dim - dim;
    struct mpl_tensor *rot[2], *pass[2], *embed[2];

    for (int i = 0; i < 2; i++) {
        rot[i] = part(tape, *states[i], dim);
        pass[i] = mpl_hold(mpl_op_slice_last(tape, *states[i], mpl_dim(rest)));
    }
    for (int i = 0; i < 2; i++)
        embed[i] = mpl_hold(mpl_rotate(tape, rot[i], tables[0], tables[1]));
    for (int i = 0; i < 2; i++)
        mpl_rebind(tape, &embed[i], mpl_op_cat(tape, embed[i], pass[i], 3));
    for (int i = 0; i < 2; i++) {
        mpl_drop(tape, rot[i]);
        mpl_drop(tape, pass[i]);
        mpl_rebind(tape, states[i], mpl_return(embed[i]));
    }
}

/* Before 4.48: qkv is cut by slices, its parts have names while they turn, and tables may be of the
 * layer and wider than what they turn; queries and keys go to sdpa as values are. */
static struct mpl_tensor *past_attention(struct mpl_tape *tape, const struct layer *layer,
                                         struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_lm *lm = layer->base.lm;
    const struct mpl_model *m = &lm->network->plan->model;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->base);
    struct mpl_tensor **const states[3] = {&call.q, &call.k, &call.v}, *out, *qkv, *wide[2];
    const bool is_eager = lm->network->plan->training.attention == MPL_ATTENTION_EAGER;
    struct mpl_past_tables own = {.cos = NULL};

    qkv = mpl_linear_call(tape, lm->network, &layer->query_key_value, x);
    if (!qkv->is_void)
        qkv = mpl_op_reshape(tape, qkv,
                             mpl_shape4(qkv->shape.dim[0], qkv->shape.dim[1],
                                        mpl_dim(m->num_attention_heads), mpl_dim(3 * m->head_dim)));
    mpl_hold(qkv);
    for (int i = 0; i < 3; i++) {
        out = mpl_op_slice_last(tape, qkv, mpl_dim(m->head_dim));
        *states[i] = mpl_hold(mpl_op_transpose(tape, out, 1, 2));
    }
    if (!lm->cos)
        mpl_past_tables_make(tape, call.past, call.v, &own);
    rotate(tape, lm, &call,
           (struct mpl_tensor *[]){own.cos ? own.cos : lm->cos, own.cos ? own.sin : lm->sin});
    mpl_past_tables_drop(tape, &own);
    mpl_drop(tape, qkv);
    for (int i = 0; i < 2; i++) {
        wide[i] = *states[i];
        *states[i] = mpl_hold(
            mpl_op_to(tape, wide[i], (enum mpl_dtype)(is_eager ? wide[i]->dtype : call.v->dtype)));
        if (!is_eager &&
            !mpl_past_has(call.past, call.past->facts->attention_function)) { /* bound anew */
            mpl_drop(tape, wide[i]);
            wide[i] = NULL;
        }
    }
    out = mpl_past_attention(tape, lm->network->plan, &call, weights_out);
    for (int i = 0; i < 2; i++)
        if (wide[i]) {
            mpl_drop(tape, *states[i]);
            *states[i] = wide[i];
        }
    out = mpl_hold(mpl_merge_heads(tape, out));
    mpl_rebind(tape, &out, mpl_linear_call(tape, lm->network, &layer->dense, out));
    mpl_drop(tape, *weights_out); /* nobody asked for them */
    *weights_out = NULL;
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, *states[i]);
    return mpl_return(out);
}

static struct mpl_tensor *attention(struct mpl_tape *tape, const struct layer *layer,
                                    struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->base);
    struct mpl_tensor *qkv =
        mpl_hold(mpl_split_heads(tape, mpl_linear_call(tape, network, &layer->query_key_value, x),
                                 m->num_attention_heads, 3 * m->head_dim));
    struct mpl_tensor *parts[3], *out;

    mpl_op_split_last(tape, qkv, 3, NULL, parts);
    call.q = mpl_hold(parts[0]);
    call.k = mpl_hold(parts[1]);
    call.v = mpl_hold(parts[2]);
    rotate(tape, layer->base.lm, &call,
           (struct mpl_tensor *[]){layer->base.lm->cos, layer->base.lm->sin});
    out = mpl_attention_interface(tape, network->plan, &call, weights_out);
    out = mpl_hold(mpl_merge_heads(tape, out));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &layer->dense, out));
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    mpl_drop(tape, qkv);
    return mpl_return(out);
}

/* mlp(post_attention_layernorm(x)), then dropout; held */
static struct mpl_tensor *feed(struct mpl_tape *tape, const struct layer *layer,
                               struct mpl_tensor *x)
{
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_tensor *normed = mpl_norm_call(tape, network, &layer->post_norm, x);
    struct mpl_tensor *out = mpl_hold(mpl_plain_mlp_forward(tape, network, &layer->mlp, normed));

    mpl_rebind(tape, &out, mpl_op_dropout(tape, out, network->plan->model.hidden_dropout));
    return out;
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct layer *layer = context;
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    struct mpl_tensor *normed = mpl_hold(mpl_norm_call(tape, network, &layer->input_norm, input));
    struct mpl_tensor *weights = NULL, *fed, *out;
    struct mpl_tensor *attended = mpl_hold(
        (layer->base.lm->past.facts ? past_attention : attention)(tape, layer, normed, &weights));

    mpl_drop(tape, normed);
    mpl_rebind(tape, &attended, mpl_op_dropout(tape, attended, m->hidden_dropout));
    if (m->parallel_residual) {
        fed = feed(tape, layer, input);
        out = mpl_op_add(tape, mpl_op_add(tape, fed, attended), input);
    } else {
        mpl_rebind(tape, &attended, mpl_op_add(tape, attended, input));
        fed = feed(tape, layer, attended);
        out = mpl_op_add(tape, fed, attended);
    }
    mpl_drop(tape, fed);
    mpl_drop(tape, attended);
    mpl_drop(tape, weights);
    return out;
}

static struct mpl_tensor *enter(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    return mpl_op_dropout(tape, h, lm->network->plan->model.hidden_dropout);
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .sdpa = 42,
             .position_rotary = 45,
             .lean_rotary = 45,
             .shared_rotary = 45,
             .update_mask = 45,
             .split_mask = 45,
             .attention_function = 47,
             .logits = MPL_PAST_LOGITS_AS_THEY_ARE,
             .has_float_tables = true,
             .keeps_strides = true,
             .eager = MPL_PAST_EAGER_NEOX,
             .padding_mask_only = 41},
    .base = "gpt_neox",
    .embedding = "embed_in",
    .layers = "layers",
    .norm = "final_layer_norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER,
    .has_no_score = true,
    .layer_size = sizeof(struct layer),
    .layer_room = 12,
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
    .enter = enter,
};

static const struct mpl_config_key keys[] = {
    {"partial_rotary_factor", "rotary_pct", "0.25"},
    {"parallel_residual", "use_parallel_residual", "true"},
    {"attention_bias", NULL, "true"},
    {"hidden_act", NULL, "\"gelu\""},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_gpt_neox = {
    .config = {.model_type = "gpt_neox",
               .has_scopes = true,
               .help = "GPT-NeoX and Pythia",
               .keys = keys},
    .family = &family,
};
