/* SPDX-License-Identifier: MIT */
/* source: transformers/models/opt/modeling_opt.py, configuration_opt.py; release 5.24.0 */
#include "arch/arch.h"
#include "op/op.h"
#include "part/causal_lm.h"
#include "part/decoder.h"

/* Rows of the position table before the first position. */
#define OFFSET 2

struct layer {
    struct mpl_lm_layer base;
    struct mpl_linear k, v, q, out;
    struct mpl_norm attention_norm, last_norm;
    struct mpl_plain_mlp mlp;
};

/* The family's own, around the layers. */
struct ends {
    struct mpl_linear project_in, project_out; /* weight MPL_NO_PARAMETER: none */
    struct mpl_norm norm;
    bool has_norm;
};

static struct mpl_norm add_norm(struct mpl_network *network, const char *name)
{
    const struct mpl_model *m = &network->plan->model;

    if (m->layer_norm_affine)
        return mpl_norm_add(network, MPL_NORM_LAYER, name, m->hidden_size);
    return (struct mpl_norm){MPL_NORM_LAYER, MPL_NO_PARAMETER, MPL_NO_PARAMETER};
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;
    const bool has_bias = m->attention_bias;
    struct layer *layer = (struct layer *)base;

    layer->k = mpl_linear_add(network, "self_attn.k_proj", h, h, has_bias);
    layer->v = mpl_linear_add(network, "self_attn.v_proj", h, h, has_bias);
    layer->q = mpl_linear_add(network, "self_attn.q_proj", h, h, has_bias);
    layer->out = mpl_linear_add(network, "self_attn.out_proj", h, h, has_bias);
    layer->attention_norm = add_norm(network, "self_attn_layer_norm");
    layer->mlp.up = mpl_linear_add(network, "fc1", m->intermediate_size, h, has_bias);
    layer->mlp.down = mpl_linear_add(network, "fc2", h, m->intermediate_size, has_bias);
    layer->last_norm = add_norm(network, "final_layer_norm");
}

static struct mpl_tensor *attention(struct mpl_tape *tape, const struct layer *layer,
                                    struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    const int64_t heads = m->num_attention_heads, d = m->head_dim;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->base);
    struct mpl_tensor *out;

    mpl_scope_enter(tape, MPL_NO_MODULE, NULL);
    call.q = mpl_hold(mpl_op_mul_number(tape, mpl_linear_call(tape, network, &layer->q, x)));
    mpl_rebind(tape, &call.q, mpl_split_heads(tape, call.q, heads, d));
    call.k = mpl_hold(mpl_linear_call(tape, network, &layer->k, x));
    call.v = mpl_hold(mpl_linear_call(tape, network, &layer->v, x));
    mpl_rebind(tape, &call.k, mpl_split_heads(tape, call.k, heads, d));
    mpl_rebind(tape, &call.v, mpl_split_heads(tape, call.v, heads, d));
    out = mpl_attention_interface(tape, network->plan, &call, weights_out);
    out = mpl_hold(mpl_merge_heads(tape, out));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &layer->out, out));
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(out));
}

/* [b, heads, s, d] as [b * heads, s, d], of the name */
static void flatten(struct mpl_tape *tape, struct mpl_tensor **x)
{
    const struct mpl_shape *s = &(*x)->shape;

    mpl_rebind(tape, x,
               mpl_op_reshape(tape, *x,
                              mpl_shape3(mpl_dim_mul(s->dim[0], s->dim[1]), s->dim[2], s->dim[3])));
}

/* Before 4.48, eager: bmm over all heads; no score is below the lowest number. [b, s, h], held */
static struct mpl_tensor *past_eager(struct mpl_tape *tape, const struct mpl_plan *plan,
                                     struct mpl_attention_call *call)
{
    const struct mpl_shape heads = call->q->shape, scalar = {0};
    const struct mpl_shape square =
        mpl_shape4(heads.dim[0], heads.dim[1], heads.dim[2], heads.dim[2]);
    struct mpl_tensor *scores, *probs, *lowest, *out;

    flatten(tape, &call->q);
    flatten(tape, &call->k);
    flatten(tape, &call->v);
    scores = mpl_hold(mpl_op_bmm(tape, call->q, mpl_op_transpose(tape, call->k, 1, 2)));
    mpl_rebind(tape, &scores, mpl_op_add(tape, mpl_op_reshape(tape, scores, square), call->mask));
    lowest = mpl_empty(tape, "scalar_tensor.default", MPL_FLOAT32, &scalar);
    mpl_rebind(tape, &scores, mpl_op_maximum(tape, scores, lowest));
    flatten(tape, &scores);
    if (scores->dtype == MPL_FLOAT16)
        mpl_rebind(tape, &scores,
                   mpl_op_to(tape, mpl_op_softmax(tape, scores, MPL_FLOAT32), MPL_FLOAT16));
    else
        mpl_rebind(tape, &scores, mpl_op_softmax(tape, scores, MPL_DTYPE_NONE));
    probs = mpl_hold(mpl_op_dropout(tape, scores, plan->model.attention_dropout));
    out = mpl_hold(mpl_op_bmm(tape, probs, call->v));
    mpl_rebind(tape, &out, mpl_op_transpose(tape, mpl_op_reshape(tape, out, heads), 1, 2));
    mpl_rebind(tape, &out, mpl_merge_heads(tape, mpl_op_contiguous(tape, out)));
    mpl_drop(tape, probs);
    mpl_drop(tape, scores);
    return out;
}

/* Before 4.48: _shape makes queries, keys and values contiguous. */
static struct mpl_tensor *past_attention(struct mpl_tape *tape, const struct layer *layer,
                                         struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    const int64_t heads = m->num_attention_heads, d = m->head_dim;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->base);
    struct mpl_tensor *out;

    call.q = mpl_hold(mpl_linear_call(tape, network, &layer->q, x));
    if (mpl_is_flash(network->plan->training.attention)) /* as they are, the kernel scales */
        mpl_rebind(tape, &call.q, mpl_split_heads(tape, call.q, heads, d));
    else
        mpl_rebind(tape, &call.q, mpl_op_mul_number(tape, call.q));
    if (network->plan->training.attention == MPL_ATTENTION_SDPA)
        mpl_rebind(tape, &call.q, mpl_op_contiguous(tape, mpl_split_heads(tape, call.q, heads, d)));
    call.k = mpl_split_heads(tape, mpl_linear_call(tape, network, &layer->k, x), heads, d);
    call.k = mpl_hold(mpl_op_contiguous(tape, call.k));
    call.v = mpl_split_heads(tape, mpl_linear_call(tape, network, &layer->v, x), heads, d);
    call.v = mpl_hold(mpl_op_contiguous(tape, call.v));
    if (network->plan->training.attention == MPL_ATTENTION_EAGER && !call.q->is_void) {
        mpl_rebind(tape, &call.q, mpl_op_contiguous(tape, mpl_split_heads(tape, call.q, heads, d)));
        out = past_eager(tape, network->plan, &call);
    } else {
        out = mpl_past_attention(tape, network->plan, &call, weights_out);
        out = mpl_hold(mpl_merge_heads(tape, out));
        mpl_drop(tape, *weights_out);
        *weights_out = NULL;
    }
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &layer->out, out));
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    return mpl_return(out);
}

/* From the norm before fc1, or from fc1, to fc2 with its dropout; *h is renamed at each step. */
static void feed(struct mpl_tape *tape, const struct layer *layer, struct mpl_tensor **h)
{
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;

    if (m->do_layer_norm_before)
        mpl_rebind(tape, h, mpl_norm_call(tape, network, &layer->last_norm, *h));
    mpl_rebind(tape, h, mpl_linear_call(tape, network, &layer->mlp.up, *h));
    mpl_rebind(tape, h, mpl_activation_call(tape, m->hidden_act, *h));
    mpl_rebind(tape, h, mpl_linear_call(tape, network, &layer->mlp.down, *h));
    mpl_rebind(tape, h, mpl_op_dropout(tape, *h, m->hidden_dropout));
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct layer *layer = context;
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    const bool is_first = m->do_layer_norm_before;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *weights = NULL;
    struct mpl_tensor *h = mpl_hold(mpl_return(mpl_hold(input)));
    const struct mpl_shape shape = h->shape;

    if (is_first)
        mpl_rebind(tape, &h, mpl_norm_call(tape, network, &layer->attention_norm, h));
    mpl_rebind(tape, &h,
               (layer->base.lm->past.facts ? past_attention : attention)(tape, layer, h, &weights));
    mpl_rebind(tape, &h, mpl_op_dropout(tape, h, m->hidden_dropout));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    if (!is_first)
        mpl_rebind(tape, &h, mpl_norm_call(tape, network, &layer->attention_norm, h));
    mpl_rebind(
        tape, &h,
        mpl_op_reshape(tape, h, mpl_shape2(mpl_dim_mul(shape.dim[0], shape.dim[1]), shape.dim[2])));
    mpl_rebind(tape, &residual, mpl_return(mpl_hold(h)));
    feed(tape, layer, &h);
    mpl_rebind(tape, &h, mpl_op_reshape(tape, mpl_op_add(tape, residual, h), shape));
    if (!is_first)
        mpl_rebind(tape, &h, mpl_norm_call(tape, network, &layer->last_norm, h));
    mpl_drop(tape, residual);
    mpl_drop(tape, weights);
    return mpl_return(h);
}

/* Everything of the decoder but the embedding stands in front of its layers. */
static void describe_embedding(struct mpl_lm *lm)
{
    const struct mpl_model *m = &lm->network->plan->model;
    struct ends *ends = lm->extra = mpl_arena_zalloc(lm->network->arena, sizeof(*ends));
    const int64_t h = m->hidden_size, width = m->embedding_size;

    lm->position_table =
        mpl_network_add_under(lm->network, "embed_positions", ".weight",
                              mpl_shape2(mpl_dim(m->max_position_embeddings + OFFSET), mpl_dim(h)));
    if (!ends)
        return;
    ends->project_in.weight = ends->project_out.weight = MPL_NO_PARAMETER;
    if (width != h) {
        ends->project_out = mpl_linear_add(lm->network, "project_out", width, h, false);
        ends->project_in = mpl_linear_add(lm->network, "project_in", h, width, false);
    }
    ends->has_norm = m->do_layer_norm_before && !m->remove_final_layer_norm;
    if (ends->has_norm)
        ends->norm = add_norm(lm->network, "final_layer_norm");
}

/* position_ids from a mask [b, s] of ones, float32, or from the one that is passed. */
static void make_positions(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *mask)
{
    struct mpl_tensor *ones = mask, *ids;
    struct mpl_shape shape = lm->input_ids->shape;

    if (!mask)
        ones = mpl_empty(tape, "ones.default", MPL_FLOAT32, &shape);
    lm->locals[0] = ones = mpl_hold(mask ? mpl_return(mpl_hold(mask)) : ones);
    if (lm->past.facts) /* they follow the mask */
        return;
    lm->positions =
        mpl_hold(mpl_op_map(tape, "cumsum.default", (enum mpl_dtype)ones->dtype, ones, NULL));
    ids = mpl_op_map(tape, "mul.Tensor", (enum mpl_dtype)ones->dtype, lm->positions, ones);
    ids = mpl_op_map(tape, "sub.Tensor", (enum mpl_dtype)ones->dtype, ids, NULL);
    mpl_rebind(tape, &lm->positions, mpl_op_to(tape, ids, MPL_INT64));
}

/* With transformers before 4.48; the embedding's own until 4.46, then a name of the forward. */
static void past_positions(struct mpl_tape *tape, struct mpl_lm *lm)
{
    const enum mpl_dtype given = (enum mpl_dtype)lm->locals[0]->dtype;
    const bool is_own = lm->past.minor < 46;
    struct mpl_tensor *mask = mpl_hold(mpl_op_to(tape, lm->locals[0], is_own ? MPL_INT64 : given));
    const enum mpl_dtype dtype = (enum mpl_dtype)mask->dtype;
    struct mpl_tensor *ids;

    lm->positions = mpl_hold(mpl_op_map(tape, "cumsum.default", dtype, mask, NULL));
    ids = mpl_op_map(tape, "mul.Tensor", dtype, lm->positions, mask);
    ids = mpl_op_map(tape, "sub.Tensor", dtype, ids, NULL);
    mpl_rebind(tape, &lm->positions, mpl_op_to(tape, ids, MPL_INT64));
    mpl_drop(tape, mask);
}

static void make_masks(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds,
                       struct mpl_tensor *attention_mask)
{
    const bool is_eager = lm->network->plan->training.attention == MPL_ATTENTION_EAGER;

    if (lm->past.facts)
        lm->full = mpl_past_model_mask(tape, lm, embeds, is_eager ? lm->locals[0] : attention_mask);
    else
        lm->full = mpl_causal_mask_plain(tape, lm->network->plan, embeds, attention_mask, 0);
}

static struct mpl_tensor *enter(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    const struct ends *ends = lm->extra;
    struct mpl_tensor *table = mpl_network_weight(lm->network, lm->position_table);
    const uint64_t number = mpl_module_of_weight(lm->position_table, false);
    struct mpl_tensor *positions;

    if (lm->past.facts)
        past_positions(tape, lm);
    positions = mpl_scope_enter(tape, number, lm->positions);
    positions = mpl_op_map(tape, "add.Tensor", MPL_INT64, positions, NULL);
    lm->locals[1] =
        mpl_hold(mpl_scope_leave(tape, number, mpl_op_embedding(tape, table, positions)));
    if (lm->past.facts && lm->past.minor < 46) {
        mpl_drop(tape, lm->positions);
        lm->positions = NULL;
    }
    if (ends->project_in.weight != MPL_NO_PARAMETER)
        mpl_rebind(tape, &lm->embeds, mpl_linear_call(tape, lm->network, &ends->project_in, h));
    else
        mpl_consume(tape, h);
    return mpl_op_add(tape, lm->embeds, lm->locals[1]);
}

static struct mpl_tensor *end(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    const struct ends *ends = lm->extra;

    if (ends->has_norm)
        h = mpl_norm_call(tape, lm->network, &ends->norm, h);
    if (ends->project_out.weight != MPL_NO_PARAMETER)
        h = mpl_linear_call(tape, lm->network, &ends->project_out, h);
    return h->is_floating ? h : mpl_return(mpl_hold(h));
}

static const struct mpl_lm_family family = {
    .base = "model.decoder",
    .has_inner_model = true,
    .embedding = "embed_tokens",
    .layers = "layers",
    .head = "lm_head",
    .has_no_rotary = true,
    .past = {.first = 40,
             .sdpa = 46,
             .logits = MPL_PAST_LOGITS_AS_THEY_ARE,
             .keeps_strides = true,
             .flash_positions = 46},
    .make_masks = make_masks,
    .has_no_score = true,
    .layer_size = sizeof(struct layer),
    .layer_room = 16,
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
    .describe_embedding = describe_embedding,
    .make_positions = make_positions,
    .enter = enter,
    .end = end,
    .extra_room = 5,
};

static void derive(struct mpl_plan *plan)
{
    if (!plan->model.embedding_size)
        plan->model.embedding_size = plan->model.hidden_size;
}

static const struct mpl_config_key keys[] = {
    {"intermediate_size", "ffn_dim", NULL},
    {"embedding_size", "word_embed_proj_dim", "null"},
    {"hidden_act", "activation_function", "\"relu\""},
    {"hidden_dropout", "dropout", "0.1"},
    {"attention_bias", "enable_bias", "true"},
    {"tie_word_embeddings", NULL, "true"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_opt = {
    .config = {.model_type = "opt",
               .has_scopes = true,
               .help = "OPT",
               .has_position_table = true,
               .keys = keys,
               .derive = derive},
    .family = &family,
};
