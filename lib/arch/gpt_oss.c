/* SPDX-License-Identifier: MIT */
/* source: transformers/models/gpt_oss/modeling_gpt_oss.py, configuration_gpt_oss.py; release 5.24.0
 */
#include "arch/arch.h"
#include "base/fail.h"
#include "op/op.h"
#include "part/decoder.h"
#include "part/experts.h"

struct layer {
    struct mpl_parts_layer parts;
    uint32_t sinks; /* [heads] */
    struct mpl_attention_module attention;
    struct mpl_linear router;
    struct mpl_experts experts;
};

/* _apply_rotary_emb: cos and sin of half the width */
static struct mpl_tensor *turn(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_tensor *x)
{
    struct mpl_tensor *half[2], *first, *second, *out;

    if (x->is_void)
        return x;
    mpl_op_split_last(tape, x, 2, NULL, half);
    mpl_hold(half[0]);
    mpl_hold(half[1]);
    first = mpl_op_mul(tape, half[0], lm->cos);
    first = mpl_hold(mpl_op_sub(tape, first, mpl_op_mul(tape, half[1], lm->sin)));
    second = mpl_op_mul(tape, half[1], lm->cos);
    second = mpl_hold(mpl_op_add(tape, second, mpl_op_mul(tape, half[0], lm->sin)));
    out = mpl_op_cat(tape, first, second, 3);
    mpl_drop(tape, half[0]);
    mpl_drop(tape, half[1]);
    mpl_drop(tape, first);
    mpl_drop(tape, second);
    return out;
}

/* proj(x).view(b, s, heads, d).transpose(1, 2); held */
static struct mpl_tensor *project(struct mpl_tape *tape, const struct mpl_network *network,
                                  const struct mpl_linear *linear, int64_t heads,
                                  struct mpl_tensor *x)
{
    return mpl_hold(mpl_split_heads(tape, mpl_linear_call(tape, network, linear, x), heads,
                                    network->plan->model.head_dim));
}

static struct mpl_tensor *attend(struct mpl_tape *tape, void *context, struct mpl_tensor *x,
                                 struct mpl_tensor **other_out)
{
    const struct layer *layer = context;
    const struct mpl_lm *lm = layer->parts.base.lm;
    const struct mpl_network *network = lm->network;
    const struct mpl_attention_module *a = &layer->attention;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->parts.base);
    struct mpl_tensor *q_embed, *k_embed, *out;

    call.sinks = mpl_network_weight(network, layer->sinks);
    call.q = project(tape, network, &a->q, a->heads, x);
    call.k = project(tape, network, &a->k, a->kv_heads, x);
    call.v = project(tape, network, &a->v, a->kv_heads, x);
    q_embed = mpl_hold(turn(tape, lm, call.q));
    k_embed = mpl_hold(turn(tape, lm, call.k));
    mpl_rebind(tape, &call.q, mpl_return(q_embed));
    mpl_rebind(tape, &call.k, mpl_return(k_embed));
    out = mpl_hold(
        mpl_merge_heads(tape, mpl_attention_interface(tape, network->plan, &call, other_out)));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &a->o, out));
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    return mpl_return(out);
}

/* GptOssTopKRouter.forward: softmax over the chosen logits */
static struct mpl_routing route(struct mpl_tape *tape, const struct layer *layer,
                                struct mpl_tensor *rows)
{
    const struct mpl_network *network = layer->parts.base.lm->network;
    struct mpl_routing routing;
    struct mpl_tensor *parts[2];

    routing.logits = mpl_hold(mpl_linear_call(tape, network, &layer->router, rows));
    mpl_op_topk(tape, routing.logits, network->plan->model.num_experts_per_tok, parts);
    routing.index = mpl_hold(parts[1]);
    routing.weights = mpl_hold(mpl_op_softmax(tape, parts[0], (enum mpl_dtype)parts[0]->dtype));
    return routing;
}

static struct mpl_tensor *feed(struct mpl_tape *tape, void *context, struct mpl_tensor *x,
                               struct mpl_tensor **other_out)
{
    const struct layer *layer = context;
    struct mpl_lm *lm = layer->parts.base.lm;
    const struct mpl_shape shape = x->shape;
    struct mpl_tensor *rows = mpl_hold(mpl_token_rows(tape, x)), *out;
    struct mpl_routing routing = route(tape, layer, rows);

    mpl_routing_record(tape, lm, &routing);
    out = mpl_hold(mpl_experts_forward(tape, lm->network, &layer->experts, rows, &routing));
    if (!out->is_void)
        mpl_rebind(tape, &out, mpl_op_reshape(tape, out, shape));
    *other_out = mpl_hold(routing.weights);
    mpl_drop(tape, rows);
    mpl_routing_drop(tape, &routing);
    return mpl_return(out);
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct layer *layer = (struct layer *)base;

    layer->parts.attend = attend;
    layer->parts.feed = feed;
    layer->sinks = mpl_network_add_under(network, "self_attn.sinks", "",
                                         mpl_shape1(mpl_dim(m->num_attention_heads)));
    layer->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    layer->router =
        mpl_linear_add(network, "mlp.router", m->num_local_experts, m->hidden_size, true);
    layer->experts = mpl_experts_add(network, "mlp.experts", m->intermediate_size, true);
    mpl_parts_layer_add_norms(network, &layer->parts, MPL_NORM_RMS_WIDE);
}

static struct mpl_tensor *table(struct mpl_tape *tape, const struct mpl_shape *shape,
                                const char *function)
{
    struct mpl_tensor *raw = mpl_hold(mpl_empty(tape, function, MPL_FLOAT32, shape));
    struct mpl_tensor *scaled = mpl_hold(mpl_empty(tape, "mul.Tensor", MPL_FLOAT32, shape));

    mpl_drop(tape, raw);
    return scaled;
}

/* GptOssRotaryEmbedding.forward: one angle for each pair of halves */
static void make_rotary(struct mpl_tape *tape, struct mpl_lm *lm, const struct mpl_tensor *h)
{
    const struct mpl_dim one = mpl_dim(1);
    const struct mpl_dim s = h->is_void ? one : h->shape.dim[1];
    const struct mpl_shape rows = mpl_shape3(one, s, one);
    const struct mpl_shape half = mpl_shape3(one, s, mpl_dim(lm->rotary_dim / 2));
    struct mpl_tensor *row = mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_FLOAT32, &rows));
    struct mpl_tensor *freqs = mpl_hold(mpl_empty(tape, "mul.Tensor", MPL_FLOAT32, &half));
    struct mpl_tensor *cos, *sin;

    mpl_drop(tape, row);
    cos = table(tape, &half, "cos.default");
    sin = table(tape, &half, "sin.default");
    lm->cos = mpl_hold(mpl_op_unsqueeze(tape, mpl_op_to(tape, cos, (enum mpl_dtype)h->dtype), 1));
    lm->sin = mpl_hold(mpl_op_unsqueeze(tape, mpl_op_to(tape, sin, (enum mpl_dtype)h->dtype), 1));
    mpl_drop(tape, freqs);
    mpl_drop(tape, cos);
    mpl_drop(tape, sin);
}

/* Both masks, and neither is told the positions. */
static void make_masks(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds,
                       struct mpl_tensor *attention_mask)
{
    const struct mpl_plan *plan = lm->network->plan;

    lm->full = mpl_causal_mask_plain(tape, plan, embeds, attention_mask, 0);
    lm->sliding =
        mpl_causal_mask_plain(tape, plan, embeds, attention_mask, plan->model.sliding_window);
}

static const struct mpl_lm_family family = {
    .past = {.first = 55},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_RMS_WIDE,
    .has_full_mask = true,
    .make_masks = make_masks,
    .layer_size = sizeof(struct layer),
    .layer_room = 17,
    .describe_layer = describe_layer,
    .layer_forward = mpl_parts_layer_forward,
    .make_rotary = make_rotary,
    .finish_loss = mpl_add_router_loss,
};

/* Every other layer slides, the first one too. */
static void derive(struct mpl_plan *plan)
{
    struct mpl_model *m = &plan->model;

    if (m->layer_types.count)
        return;
    mpl_lm_fill_layer_types(m, MPL_LAYER_SLIDING);
    for (int64_t i = 1; i < m->num_hidden_layers && i < MPL_MAX_LAYERS; i += 2)
        m->layer_types.of[i] = MPL_LAYER_FULL;
}

static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    if (plan->training.attention != MPL_ATTENTION_EAGER)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/attention",
                        "training.attention: gpt_oss has attention sinks; transformers has no "
                        "sdpa for it, takes other kernels in place of flash attention, and "
                        "flex_attention with sinks is not modelled; modelled: eager");
    if (!plan->model.sliding_window)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/sliding_window",
                        "model.sliding_window: gpt_oss needs one, found none");
    return mpl_experts_check(plan, err);
}

static const struct mpl_config_key keys[] = {
    {"num_local_experts", "num_experts", "128"},
    {"num_experts_per_tok", NULL, "4"},
    {"head_dim", NULL, "64"},
    {"num_key_value_heads", NULL, "8"},
    {"sliding_window", NULL, "128"},
    {"attention_bias", NULL, "true"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_gpt_oss = {
    .config = {.model_type = "gpt_oss",
               .help = "gpt-oss 20b and 120b",
               .keys = keys,
               .attention = "\"eager\"",
               .derive = derive,
               .check = check},
    .family = &family,
};
