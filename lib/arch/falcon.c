/* SPDX-License-Identifier: MIT */
/* source: transformers/models/falcon/modeling_falcon.py, configuration_falcon.py; release 5.24.0 */
#include "arch/arch.h"
#include "base/fail.h"
#include "op/op.h"
#include "part/causal_lm.h"
#include "part/decoder.h"
#include "part/mlp.h"

struct layer {
    struct mpl_lm_layer base;
    struct mpl_linear query_key_value, dense, up, down; /* biases are added in a step of its own */
    struct mpl_norm input_norm, mlp_norm;               /* mlp_norm.weight MPL_NO_PARAMETER: none */
};

/* Locals of FalconModel.forward. */
enum { LAST_HIDDEN, LAST_WEIGHTS, MASK };

/* Heads of keys and values that come out of query_key_value. */
static int64_t kv_heads_of(const struct mpl_model *m)
{
    return m->new_decoder_architecture || !m->multi_query ? m->num_key_value_heads : 1;
}

static bool has_two_norms(const struct mpl_model *m)
{
    return m->parallel_attention && m->num_ln_in_parallel_attn == 2;
}

static void describe_norms(struct mpl_network *network, struct layer *layer)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;

    layer->mlp_norm = (struct mpl_norm){MPL_NORM_LAYER, MPL_NO_PARAMETER, MPL_NO_PARAMETER};
    if (!m->parallel_attention)
        layer->mlp_norm = mpl_norm_add(network, MPL_NORM_LAYER, "post_attention_layernorm", h);
    layer->input_norm =
        mpl_norm_add(network, MPL_NORM_LAYER, has_two_norms(m) ? "ln_attn" : "input_layernorm", h);
    if (has_two_norms(m))
        layer->mlp_norm = mpl_norm_add(network, MPL_NORM_LAYER, "ln_mlp", h);
}

/* FalconLinear: input @ weight.T, then + bias. Autocast keeps no copy of a view such as weight.T,
 * and the view keeps what ZeRO-3 had gathered. */
static struct mpl_tensor *linear_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                         const struct mpl_linear *layer, struct mpl_tensor *x)
{
    struct mpl_tensor *weight = mpl_network_weight(network, layer->weight), *h;

    if (tape->autocast != MPL_DTYPE_NONE)
        weight = mpl_op_to(tape, weight, tape->autocast);
    if (tape->scopes && !weight->is_void)
        weight = mpl_op_reshape(tape, weight, weight->shape);
    h = mpl_hold(mpl_op_linear(tape, x, weight, NULL));
    if (layer->bias != MPL_NO_PARAMETER)
        mpl_rebind(tape, &h, mpl_op_add(tape, h, mpl_network_weight(network, layer->bias)));
    return mpl_return(h);
}

/* One FalconLinear; adapters stand around it as around any other linear layer. */
static struct mpl_linear add_linear(struct mpl_network *network, const char *name, int64_t out,
                                    int64_t in)
{
    const struct mpl_linear linear =
        mpl_linear_add(network, name, out, in, network->plan->model.attention_bias);

    mpl_linear_set_forward(network, &linear, linear_forward);
    return linear;
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;
    const int64_t width = h + 2 * kv_heads_of(m) * m->head_dim;
    struct layer *layer = (struct layer *)base;

    layer->query_key_value = add_linear(network, "self_attention.query_key_value", width, h);
    layer->dense = add_linear(network, "self_attention.dense", h, h);
    layer->up = add_linear(network, "mlp.dense_h_to_4h", m->intermediate_size, h);
    layer->down = add_linear(network, "mlp.dense_4h_to_h", h, m->intermediate_size);
    describe_norms(network, layer);
}

/* ---- heads ------------------------------------------------------------------------------------
 */

/* Each group's key or value for all its queries: [b, s, heads, d]; consumes x [b, s, kv, 1, d] */
static struct mpl_tensor *spread(struct mpl_tape *tape, struct mpl_tensor *x, int64_t groups)
{
    struct mpl_shape shape = x->shape;

    if (x->is_void)
        return x;
    shape.dim[3] = mpl_dim(groups);
    return mpl_op_expand(tape, x, shape);
}

static struct mpl_tensor *flatten(struct mpl_tape *tape, struct mpl_tensor *x)
{
    const struct mpl_shape *s = &x->shape;

    if (x->is_void)
        return mpl_return(mpl_hold(x));
    return mpl_op_reshape(
        tape, x, mpl_shape4(s->dim[0], s->dim[1], mpl_dim_mul(s->dim[2], s->dim[3]), s->dim[4]));
}

/* new_decoder_architecture: [b, s, kv, groups + 2, d] */
static void split_groups(struct mpl_tape *tape, const struct mpl_model *m, struct mpl_tensor *fused,
                         struct mpl_tensor *qkv[3])
{
    const int64_t kv = m->num_key_value_heads, groups = m->num_attention_heads / kv;
    const struct mpl_dim b = fused->shape.dim[0], s = fused->shape.dim[1];
    struct mpl_tensor *flat[3];
    struct mpl_tensor *all = mpl_hold(mpl_op_reshape(
        tape, fused,
        (struct mpl_shape){5, {b, s, mpl_dim(kv), mpl_dim(groups + 2), mpl_dim(m->head_dim)}}));

    qkv[0] = mpl_hold(mpl_op_narrow(tape, all, 3, mpl_dim(groups)));
    qkv[1] = mpl_hold(mpl_op_index_one(tape, all, 3));
    qkv[2] = mpl_hold(mpl_op_index_one(tape, all, 3));
    mpl_rebind(tape, &qkv[1], spread(tape, qkv[1], groups));
    mpl_rebind(tape, &qkv[2], spread(tape, qkv[2], groups));
    mpl_drop(tape, all);
    for (int i = 0; i < 3; i++)
        flat[i] = mpl_hold(flatten(tape, qkv[i]));
    for (int i = 0; i < 3; i++)
        mpl_rebind(tape, &qkv[i], mpl_return(flat[i]));
}

/* multi_query: [b, s, heads + 2, d] */
static void split_one(struct mpl_tape *tape, const struct mpl_model *m, struct mpl_tensor *fused,
                      struct mpl_tensor *qkv[3])
{
    const int64_t heads = m->num_attention_heads;
    struct mpl_tensor *all =
        mpl_hold(mpl_op_reshape(tape, fused,
                                mpl_shape4(fused->shape.dim[0], fused->shape.dim[1],
                                           mpl_dim(heads + 2), mpl_dim(m->head_dim))));

    qkv[0] = mpl_hold(mpl_op_narrow(tape, all, 2, mpl_dim(heads)));
    qkv[1] = mpl_hold(mpl_op_index_one(tape, all, 2));
    qkv[2] = mpl_hold(mpl_op_index_one(tape, all, 2));
    mpl_drop(tape, all);
}

/* neither: [b, s, heads, 3, d] */
static void split_three(struct mpl_tape *tape, const struct mpl_model *m, struct mpl_tensor *fused,
                        struct mpl_tensor *qkv[3])
{
    struct mpl_tensor *all = mpl_hold(mpl_op_reshape(
        tape, fused,
        (struct mpl_shape){5,
                           {fused->shape.dim[0], fused->shape.dim[1],
                            mpl_dim(m->num_attention_heads), mpl_dim(3), mpl_dim(m->head_dim)}}));

    for (int i = 0; i < 3; i++)
        qkv[i] = mpl_hold(mpl_op_select(tape, all, 3));
    mpl_drop(tape, all);
}

static void split(struct mpl_tape *tape, const struct mpl_model *m, struct mpl_tensor *fused,
                  struct mpl_tensor *qkv[3])
{
    if (m->new_decoder_architecture)
        split_groups(tape, m, fused, qkv);
    else if (m->multi_query)
        split_one(tape, m, fused, qkv);
    else
        split_three(tape, m, fused, qkv);
    for (int i = 0; i < 3; i++)
        mpl_rebind(tape, &qkv[i], mpl_op_transpose(tape, qkv[i], 1, 2));
    for (int i = 0; i < 3; i++)
        if (!qkv[i]->is_void)
            mpl_rebind(tape, &qkv[i], mpl_op_reshape(tape, qkv[i], qkv[i]->shape));
}

/* ---- layer ------------------------------------------------------------------------------------
 */

/* eager: softmax(q k / sqrt(d) + mask, dtype=hidden_states.dtype) v, the division in place */
static struct mpl_tensor *attend_eager(struct mpl_tape *tape, struct mpl_tensor *const qkv[3],
                                       struct mpl_tensor *mask, enum mpl_dtype dtype,
                                       struct mpl_tensor **weights_out)
{
    struct mpl_tensor *scores =
        mpl_hold(mpl_op_matmul(tape, qkv[0], mpl_op_transpose(tape, qkv[1], 2, 3)));

    mpl_rebind(tape, &scores, mpl_op_scale_in_place(tape, scores));
    mpl_rebind(tape, &scores,
               mpl_op_softmax(tape, mask ? mpl_op_add(tape, scores, mask) : scores, dtype));
    *weights_out = scores;
    return mpl_hold(mpl_op_matmul(tape, scores, qkv[2]));
}

/* eager with alibi: softmax((q k + alibi) / sqrt(d) + mask) v in float32; three names live on */
static struct mpl_tensor *attend_alibi(struct mpl_tape *tape, const struct mpl_lm *lm,
                                       struct mpl_tensor *const qkv[3], enum mpl_dtype dtype,
                                       struct mpl_tensor **weights_out)
{
    struct mpl_tensor *product =
        mpl_hold(mpl_op_matmul(tape, qkv[0], mpl_op_transpose(tape, qkv[1], 2, 3)));
    struct mpl_tensor *scores = mpl_hold(mpl_op_to(tape, product, MPL_FLOAT32));
    struct mpl_tensor *logits = mpl_hold(mpl_op_add(tape, scores, lm->alibi)), *probs, *out;

    mpl_rebind(tape, &logits, mpl_op_scale_in_place(tape, logits));
    probs = mpl_hold(mpl_op_softmax(
        tape, lm->full.tensor ? mpl_op_add(tape, logits, lm->full.tensor) : logits, dtype));
    mpl_rebind(tape, &probs,
               mpl_dropout_call(tape, probs, lm->network->plan->model.attention_dropout));
    out = mpl_hold(mpl_op_matmul(tape, probs, qkv[2]));
    *weights_out = probs;
    mpl_drop(tape, product);
    mpl_drop(tape, scores);
    mpl_drop(tape, logits);
    return out;
}

/* FalconFlashAttention2: [b, s, heads, d], turned back */
static struct mpl_tensor *attend_flash(struct mpl_tape *tape, const struct mpl_lm *lm,
                                       struct mpl_tensor *qkv[3])
{
    const struct mpl_plan *plan = lm->network->plan;
    const enum mpl_dtype target =
        tape->autocast != MPL_DTYPE_NONE ? tape->autocast : plan->training.parameter_dtype;
    const struct mpl_attention_call call = {.mask = lm->full.tensor,
                                            .is_causal = true,
                                            .dropout = plan->model.attention_dropout,
                                            .past = lm->past.facts ? &lm->past : NULL};
    const bool is_wide = qkv[0]->dtype == MPL_FLOAT32;

    for (int i = 0; i < 3; i++)
        mpl_rebind(tape, &qkv[i], mpl_op_transpose(tape, qkv[i], 1, 2));
    for (int i = 0; i < 3 && is_wide; i++)
        mpl_rebind(tape, &qkv[i], mpl_op_to(tape, qkv[i], target));
    if (qkv[0]->is_void)
        return mpl_hold(tape->void_tensor);
    return mpl_hold(mpl_op_transpose(tape, mpl_flash_attention_rows(tape, plan, &call, qkv), 1, 2));
}

static struct mpl_tensor *attend(struct mpl_tape *tape, const struct mpl_lm *lm,
                                 struct mpl_tensor *qkv[3], enum mpl_dtype dtype,
                                 struct mpl_tensor **weights_out)
{
    const struct mpl_plan *plan = lm->network->plan;
    const struct mpl_sdpa_options options = {
        .mask = lm->full.tensor,
        .has_no_groups = true,
        .dropout = plan->model.alibi ? plan->model.attention_dropout : 0.0,
    };

    if (mpl_is_flash(plan->training.attention))
        return attend_flash(tape, lm, qkv);
    if (plan->training.attention != MPL_ATTENTION_EAGER)
        return mpl_hold(mpl_op_sdpa_with(tape, qkv[0], qkv[1], qkv[2], &options));
    return plan->model.alibi ? attend_alibi(tape, lm, qkv, dtype, weights_out)
                             : attend_eager(tape, qkv, lm->full.tensor, dtype, weights_out);
}

/* apply_rotary_pos_emb, with the model's tables or the layer's own ones */
static void turn(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_tensor *qkv[3],
                 struct mpl_past_tables *own)
{
    struct mpl_tensor *turned[2];

    if (!lm->cos)
        mpl_past_tables_make(tape, &lm->past, qkv[2], own);
    for (int i = 0; i < 2; i++)
        turned[i] = mpl_hold(
            mpl_rotate(tape, qkv[i], own->cos ? own->cos : lm->cos, own->cos ? own->sin : lm->sin));
    for (int i = 0; i < 2; i++)
        mpl_rebind(tape, &qkv[i], mpl_return(turned[i]));
    if (own->cos)
        mpl_past_tables_applied(tape, &lm->past, own);
}

static struct mpl_tensor *attention(struct mpl_tape *tape, const struct layer *layer,
                                    struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_lm *lm = layer->base.lm;
    const struct mpl_network *network = lm->network;
    struct mpl_tensor *argument = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    struct mpl_tensor *fused =
        mpl_hold(mpl_linear_call(tape, network, &layer->query_key_value, argument));
    struct mpl_tensor *qkv[3] = {tape->void_tensor, tape->void_tensor, tape->void_tensor}, *out;
    struct mpl_past_tables own = {.cos = NULL};
    const bool has_mask = lm->past.facts && lm->full.tensor &&
                          network->plan->training.attention == MPL_ATTENTION_SDPA;

    if (!fused->is_void)
        split(tape, &network->plan->model, fused, qkv);
    if (!network->plan->model.alibi)
        turn(tape, lm, qkv, &own);
    for (int i = 0; has_mask && i < 3; i++)
        mpl_rebind(tape, &qkv[i], mpl_op_contiguous(tape, qkv[i]));
    out = attend(tape, lm, qkv, (enum mpl_dtype)x->dtype, weights_out);
    mpl_rebind(tape, &out, mpl_merge_heads(tape, mpl_op_transpose(tape, out, 1, 2)));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &layer->dense, out));
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, qkv[i]);
    mpl_past_tables_drop(tape, &own);
    if (lm->past.facts) { /* nobody asked for them */
        mpl_drop(tape, *weights_out);
        *weights_out = NULL;
    }
    mpl_drop(tape, fused);
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(out));
}

static struct mpl_tensor *mlp(struct mpl_tape *tape, const struct layer *layer,
                              struct mpl_tensor *x)
{
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_tensor *h =
        mpl_linear_call(tape, network, &layer->up, mpl_scope_enter(tape, MPL_NO_MODULE, x));

    h = mpl_hold(mpl_activation_call(tape, network->plan->model.hidden_act, h));
    mpl_rebind(tape, &h, mpl_linear_call(tape, network, &layer->down, h));
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(h));
}

/* residual + dropout(x); floating */
static struct mpl_tensor *dropout_add(struct mpl_tape *tape, struct mpl_tensor *x,
                                      struct mpl_tensor *residual, double p)
{
    struct mpl_tensor *kept = mpl_hold(mpl_op_dropout(tape, x, p));
    struct mpl_tensor *out = mpl_op_add(tape, residual, kept);

    mpl_drop(tape, kept);
    return out;
}

/* The model's loop keeps the layer's result, a pair, until the next one is there. */
static void keep_outputs(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *out,
                         struct mpl_tensor *weights)
{
    if (tape->is_in_backward) { /* computed again: nobody takes the weights */
        mpl_drop(tape, weights);
        return;
    }
    mpl_rebind(tape, &lm->locals[LAST_HIDDEN], mpl_return(mpl_hold(out)));
    if (weights)
        mpl_rebind(tape, &lm->locals[LAST_WEIGHTS], mpl_return(weights));
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct layer *layer = context;
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    const bool is_parallel = m->new_decoder_architecture || m->parallel_attention;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *weights = NULL;
    struct mpl_tensor *normed = mpl_hold(mpl_norm_call(tape, network, &layer->input_norm, input));
    struct mpl_tensor *fed, *attended, *mlp_normed, *out;

    mlp_normed = has_two_norms(m) ? mpl_hold(mpl_norm_call(tape, network, &layer->mlp_norm, input))
                                  : mpl_hold(mpl_return(mpl_hold(normed)));
    attended = mpl_hold(attention(tape, layer, normed, &weights));
    if (!is_parallel) {
        mpl_rebind(tape, &residual, dropout_add(tape, attended, residual, m->attention_dropout));
        mpl_rebind(tape, &mlp_normed, mpl_norm_call(tape, network, &layer->mlp_norm, residual));
    }
    fed = mpl_hold(mlp(tape, layer, mlp_normed));
    if (is_parallel)
        mpl_rebind(tape, &fed, mpl_op_add_in_place(tape, fed, attended));
    out = mpl_hold(dropout_add(tape, fed, residual, m->hidden_dropout));
    mpl_drop(tape, residual);
    mpl_drop(tape, normed);
    mpl_drop(tape, mlp_normed);
    mpl_drop(tape, attended);
    mpl_drop(tape, fed);
    keep_outputs(tape, layer->base.lm, out, weights);
    return mpl_return(out);
}

/* build_alibi_tensor(mask, heads, dtype), as a view [b, heads, 1, s] */
static void make_alibi(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *mask)
{
    const int64_t count = lm->network->plan->model.num_attention_heads;
    const struct mpl_dim heads = mpl_dim(count), one = mpl_dim(1);
    const struct mpl_dim b = lm->input_ids->shape.dim[0], s = lm->input_ids->shape.dim[1];
    struct mpl_tensor *slopes, *places, *half, *alibi;

    lm->locals[MASK] = mask ? mpl_hold(mpl_return(mpl_hold(mask)))
                            : mpl_hold_empty(tape, "ones.default", MPL_INT64, mpl_shape2(b, s));
    slopes = mpl_alibi_slopes(tape, count);
    places = mpl_hold_empty(tape, "cumsum.default", MPL_INT64, mpl_shape2(b, s));
    mpl_rebind(tape, &places, mpl_op_map(tape, "sub.Tensor", MPL_INT64, places, NULL));
    mpl_rebind(tape, &places, mpl_op_map(tape, "mul.Tensor", MPL_INT64, places, NULL));
    half = mpl_hold_empty(tape, "_to_copy.default", MPL_BFLOAT16, mpl_shape2(heads, one));
    alibi = mpl_hold_empty(tape, "mul.Tensor", MPL_BFLOAT16, mpl_shape4(b, heads, one, s));
    mpl_drop(tape, half);
    lm->alibi = mpl_hold(mpl_op_to(tape, alibi, (enum mpl_dtype)lm->embeds->dtype));
    mpl_drop(tape, alibi);
    mpl_drop(tape, places);
    mpl_drop(tape, slopes);
}

static void make_positions(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *mask)
{
    if (lm->network->plan->model.alibi)
        make_alibi(tape, lm, mask);
    lm->positions = mpl_hold(lm->past.facts ? mpl_past_positions(tape, lm->input_ids)
                                            : mpl_position_ids(tape, lm->input_ids));
}

/* A bool mask as numbers, then alibi filled where it says no: [b, heads, s, s] */
static void add_alibi(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_mask *mask)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)lm->embeds->dtype;
    const struct mpl_shape scalar = {0};
    struct mpl_shape whole = mask->tensor->shape;
    struct mpl_tensor *scaled, *low;

    if (mask->tensor->is_void)
        return;
    if (mask->tensor->dtype == MPL_BOOL) {
        struct mpl_tensor *zero = mpl_hold_empty(tape, "full.default", dtype, scalar);

        low = mpl_hold_empty(tape, "scalar_tensor.default", dtype, scalar);
        mpl_rebind(tape, &mask->tensor,
                   mpl_return(mpl_hold_empty(tape, "where.self", dtype, whole)));
        mpl_drop(tape, low);
        mpl_drop(tape, zero);
    }
    scaled = mpl_hold_empty(tape, "div.Tensor", dtype, lm->alibi->shape);
    low = mpl_hold_empty(tape, "lt.Scalar", MPL_BOOL, whole);
    whole.dim[1] = lm->alibi->shape.dim[1];
    mpl_rebind(tape, &mask->tensor,
               mpl_return(mpl_hold_empty(tape, "masked_fill.Scalar", dtype, whole)));
    mpl_drop(tape, low);
    mpl_drop(tape, scaled);
}

static void make_masks(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds,
                       struct mpl_tensor *attention_mask)
{
    if (lm->past.facts) {
        lm->full = mpl_past_model_mask(tape, lm, embeds, attention_mask);
        return;
    }
    lm->full = mpl_causal_mask_always(tape, lm->network->plan, embeds, attention_mask);
    if (lm->alibi && lm->full.tensor)
        add_alibi(tape, lm, &lm->full);
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .position_rotary = 45,
             .lean_rotary = 45,
             .shared_rotary = 45,
             .update_mask = 45,
             .split_mask = 45,
             .logits = MPL_PAST_LOGITS_AS_THEY_ARE,
             .has_no_rest = true,
             .flash_positions = 44},
    .base = "transformer",
    .embedding = "word_embeddings",
    .layers = "h",
    .norm = "ln_f",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER,
    .has_no_score = true,
    .layer_size = sizeof(struct layer),
    .layer_room = 12,
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
    .make_positions = make_positions,
    .make_masks = make_masks,
};

static void derive(struct mpl_plan *plan)
{
    struct mpl_model *m = &plan->model;

    if (!m->intermediate_size)
        m->intermediate_size = 4 * m->hidden_size;
    if (!m->num_ln_in_parallel_attn && m->new_decoder_architecture)
        m->num_ln_in_parallel_attn = 2;
}

static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    if (mpl_is_flash(plan->training.attention) && plan->model.alibi)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/attention",
                        "training.attention: falcon has no flash attention with alibi");
    return MEMPLAN_OK;
}

static const struct mpl_config_key keys[] = {
    {"hidden_size", "n_embed", NULL},
    {"num_key_value_heads", "num_kv_heads", "null"},
    {"intermediate_size", "ffn_hidden_size", "null"},
    {"hidden_act", "activation", "\"gelu\""},
    {"attention_bias", "bias", "false"},
    {"tie_word_embeddings", NULL, "true"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_falcon = {
    .config = {.model_type = "falcon",
               .has_scopes = true,
               .help = "Falcon",
               .has_no_flex = true,
               .has_own_attention = true,
               .keys = keys,
               .derive = derive,
               .check = check},
    .family = &family,
};
