/* SPDX-License-Identifier: MIT */
/*
 * The Llama family, as transformers writes it.
 *
 * source: transformers/models/llama/modeling_llama.py (modules, forward), masking_utils.py (masks),
 * loss/loss_utils.py (ForCausalLMLoss), integrations/sdpa_attention.py; release 5.24.0
 */
#include <stdio.h>

#include "arch/arch.h"
#include "arch/decoder.h"
#include "arch/masking.h"
#include "base/fail.h"
#include "op/op.h"
#include "spec/text.h"

/* Order of network->modules: root, embedding, layers, head. */
enum { EMBEDDING = 1, FIRST_LAYER = 2 };

/* Indices into network->parameters; NO_BIAS where a linear layer has none. */
#define NO_BIAS UINT32_MAX

struct linear {
    uint32_t weight, bias;
};

struct layer {
    struct network_parts *parts;
    struct linear q, k, v, o, gate, up, down;
    uint32_t input_norm, post_norm;
};

/* Python locals of LlamaModel.forward that the layers see. */
struct network_parts {
    struct mpl_network *network;
    struct layer *layers;
    uint32_t embed, norm, head;
    struct mpl_tensor *cos, *sin, *mask, *positions;
    bool is_causal; /* mask is NULL and sdpa makes its own */
};

/* ---- description ------------------------------------------------------------------------------
 */

static struct linear add_linear(struct mpl_network *network, uint32_t layer, const char *name,
                                int64_t out, int64_t in, bool has_bias)
{
    struct linear linear = {NO_BIAS, NO_BIAS};
    char path[96];

    snprintf(path, sizeof(path), "model.layers.%u.%s.weight", layer, name);
    linear.weight = mpl_network_add(network, path, mpl_shape2(mpl_dim(out), mpl_dim(in)));
    if (has_bias) {
        snprintf(path, sizeof(path), "model.layers.%u.%s.bias", layer, name);
        linear.bias = mpl_network_add(network, path, mpl_shape1(mpl_dim(out)));
    }
    return linear;
}

static uint32_t add_norm(struct mpl_network *network, uint32_t layer, const char *name)
{
    char path[96];

    snprintf(path, sizeof(path), "model.layers.%u.%s.weight", layer, name);
    return mpl_network_add(network, path, mpl_shape1(mpl_dim(network->plan->model.hidden_size)));
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input);

static void describe_layer(struct mpl_network *network, struct network_parts *parts, uint32_t i)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t heads = m->num_attention_heads * m->head_dim;
    const int64_t kv = m->num_key_value_heads * m->head_dim;
    const int64_t h = m->hidden_size, inner = m->intermediate_size;
    struct layer *layer = &parts->layers[i];
    struct mpl_module *module = &network->modules[FIRST_LAYER + i];
    const uint32_t first = network->parameter_count;

    layer->parts = parts;
    layer->q = add_linear(network, i, "self_attn.q_proj", heads, h, m->attention_bias);
    layer->k = add_linear(network, i, "self_attn.k_proj", kv, h, m->attention_bias);
    layer->v = add_linear(network, i, "self_attn.v_proj", kv, h, m->attention_bias);
    layer->o = add_linear(network, i, "self_attn.o_proj", h, heads, m->attention_bias);
    layer->gate = add_linear(network, i, "mlp.gate_proj", inner, h, m->mlp_bias);
    layer->up = add_linear(network, i, "mlp.up_proj", inner, h, m->mlp_bias);
    layer->down = add_linear(network, i, "mlp.down_proj", h, inner, m->mlp_bias);
    layer->input_norm = add_norm(network, i, "input_layernorm");
    layer->post_norm = add_norm(network, i, "post_attention_layernorm");
    module->name = "layer";
    module->kind = MPL_MODULE_LAYER;
    module->first_parameter = first;
    module->parameter_count = network->parameter_count - first;
    module->forward = layer_forward;
    module->context = layer;
    module->kwargs[0] = &parts->cos;
    module->kwargs[1] = &parts->sin;
    module->kwargs[2] = &parts->mask;
    module->kwargs[3] = &parts->positions;
    module->is_checkpointed =
        network->plan->training.activation_checkpointing == MPL_CHECKPOINTING_FULL;
}

static struct mpl_tensor *embedding_forward(struct mpl_tape *tape, void *context,
                                            struct mpl_tensor *ids)
{
    const struct network_parts *parts = context;

    return mpl_op_embedding(tape, mpl_network_weight(parts->network, parts->embed), ids);
}

static struct mpl_tensor *head_forward(struct mpl_tape *tape, void *context, struct mpl_tensor *h)
{
    const struct network_parts *parts = context;

    return mpl_op_linear(tape, h, mpl_network_weight(parts->network, parts->head), NULL);
}

/* The modules around the layers; a head tied to the embedding owns nothing. */
static void describe_ends(struct mpl_network *network, struct network_parts *parts)
{
    struct mpl_module *head = &network->modules[network->module_count - 1];

    network->modules[0].name = "root";
    network->modules[EMBEDDING] = (struct mpl_module){.name = "embed_tokens",
                                                      .kind = MPL_MODULE_EMBEDDING,
                                                      .first_parameter = parts->embed,
                                                      .parameter_count = 1,
                                                      .forward = embedding_forward,
                                                      .context = parts};
    *head = (struct mpl_module){.name = "lm_head",
                                .kind = MPL_MODULE_HEAD,
                                .first_parameter = parts->head,
                                .parameter_count = parts->head != parts->embed,
                                .forward = head_forward,
                                .context = parts};
}

static struct mpl_tensor *causal_lm_forward(struct mpl_tape *tape, struct mpl_network *network,
                                            const struct mpl_batch *batch,
                                            struct mpl_tensor **logits_out);

static enum memplan_status build(struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_model *m = &network->plan->model;
    const uint32_t layers = (uint32_t)m->num_hidden_layers;
    struct network_parts *parts = mpl_arena_zalloc(network->arena, sizeof(*parts));

    network->parameter_cap = 5 + layers * 16;
    network->parameters =
        mpl_arena_zalloc(network->arena, network->parameter_cap * sizeof(*network->parameters));
    network->module_count = FIRST_LAYER + layers + 1;
    network->modules =
        mpl_arena_zalloc(network->arena, network->module_count * sizeof(*network->modules));
    if (!parts || !network->parameters || !network->modules)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    parts->network = network;
    parts->layers = mpl_arena_zalloc(network->arena, layers * sizeof(*parts->layers));
    if (!parts->layers)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    parts->embed = mpl_network_add(network, "model.embed_tokens.weight",
                                   mpl_shape2(mpl_dim(m->vocab_size), mpl_dim(m->hidden_size)));
    for (uint32_t i = 0; i < layers; i++)
        describe_layer(network, parts, i);
    parts->norm =
        mpl_network_add(network, "model.norm.weight", mpl_shape1(mpl_dim(m->hidden_size)));
    mpl_network_add_buffer(network, "model.rotary_emb.inv_freq",
                           mpl_shape1(mpl_dim(m->head_dim / 2)));
    mpl_network_add_buffer(network, "model.rotary_emb.original_inv_freq",
                           mpl_shape1(mpl_dim(m->head_dim / 2)));
    parts->head = parts->embed;
    network->parameters[parts->embed].is_tied = m->tie_word_embeddings;
    if (!m->tie_word_embeddings)
        parts->head = mpl_network_add(network, "lm_head.weight",
                                      mpl_shape2(mpl_dim(m->vocab_size), mpl_dim(m->hidden_size)));
    describe_ends(network, parts);
    network->family = parts;
    network->forward = causal_lm_forward;
    return MEMPLAN_OK;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

static struct mpl_tensor *weight(const struct layer *layer, uint32_t i)
{
    return i == NO_BIAS ? NULL : mpl_network_weight(layer->parts->network, i);
}

static struct mpl_tensor *linear(struct mpl_tape *tape, const struct layer *layer, struct linear l,
                                 struct mpl_tensor *x)
{
    return mpl_op_linear(tape, x, weight(layer, l.weight), weight(layer, l.bias));
}

/* repeat_kv: every key or value head for its group of query heads; a copy */
static struct mpl_tensor *repeat_kv(struct mpl_tape *tape, struct mpl_tensor *x, int64_t groups)
{
    struct mpl_shape wide, flat = x->shape;

    if (x->is_void || groups == 1)
        return mpl_return(mpl_hold(x));
    wide = (struct mpl_shape){
        5, {flat.dim[0], flat.dim[1], mpl_dim(groups), flat.dim[2], flat.dim[3]}};
    flat.dim[1].n *= groups;
    x = mpl_op_expand(tape, mpl_op_unsqueeze(tape, x, 2), wide);
    return mpl_op_reshape(tape, x, flat);
}

/* eager_attention_forward; *probabilities_out is a held local of the decoder layer. */
static struct mpl_tensor *eager_attention(struct mpl_tape *tape, struct mpl_tensor *q,
                                          struct mpl_tensor *k, struct mpl_tensor *v,
                                          struct mpl_tensor *mask, int64_t groups,
                                          struct mpl_tensor **probabilities_out)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)q->dtype;
    struct mpl_tensor *keys = mpl_hold(repeat_kv(tape, k, groups));
    struct mpl_tensor *values = mpl_hold(repeat_kv(tape, v, groups)), *out;
    struct mpl_tensor *scores = mpl_hold(
        mpl_op_mul_number(tape, mpl_op_matmul(tape, q, mpl_op_transpose(tape, keys, 2, 3))));

    mpl_rebind(tape, &scores, mpl_op_add(tape, scores, mask));
    *probabilities_out =
        mpl_hold(mpl_op_to(tape, mpl_op_softmax(tape, scores, MPL_FLOAT32), dtype));
    mpl_drop(tape, scores);
    out = mpl_op_matmul(tape, *probabilities_out, values);
    out = mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2));
    mpl_drop(tape, keys);
    mpl_drop(tape, values);
    return out;
}

static struct mpl_tensor *sdpa_attention(struct mpl_tape *tape, const struct network_parts *parts,
                                         struct mpl_tensor *q, struct mpl_tensor *k,
                                         struct mpl_tensor *v, int64_t groups)
{
    /* grouped heads are left to the kernel only when there is no mask (use_gqa_in_sdpa) */
    struct mpl_tensor *keys = mpl_hold(repeat_kv(tape, k, parts->mask ? groups : 1));
    struct mpl_tensor *values = mpl_hold(repeat_kv(tape, v, parts->mask ? groups : 1)), *out;

    out = mpl_op_sdpa(tape, q, keys, values, parts->mask, parts->is_causal);
    out = mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2));
    mpl_drop(tape, keys);
    mpl_drop(tape, values);
    return out;
}

static struct mpl_tensor *attention(struct mpl_tape *tape, const struct layer *layer,
                                    struct mpl_tensor *x, struct mpl_tensor **probabilities_out)
{
    const struct network_parts *parts = layer->parts;
    const struct mpl_plan *plan = parts->network->plan;
    const struct mpl_model *m = &plan->model;
    const int64_t groups = m->num_attention_heads / m->num_key_value_heads;
    struct mpl_tensor *cos = parts->cos, *sin = parts->sin, *out;
    struct mpl_tensor *q = mpl_hold(mpl_split_heads(tape, linear(tape, layer, layer->q, x),
                                                    m->num_attention_heads, m->head_dim));
    struct mpl_tensor *k = mpl_hold(mpl_split_heads(tape, linear(tape, layer, layer->k, x),
                                                    m->num_key_value_heads, m->head_dim));
    struct mpl_tensor *v = mpl_hold(mpl_split_heads(tape, linear(tape, layer, layer->v, x),
                                                    m->num_key_value_heads, m->head_dim));
    struct mpl_tensor *q_embed = mpl_hold(mpl_rotate(tape, q, cos, sin));
    struct mpl_tensor *k_embed = mpl_hold(mpl_rotate(tape, k, cos, sin));

    mpl_rebind(tape, &q, mpl_return(q_embed));
    mpl_rebind(tape, &k, mpl_return(k_embed));
    out = plan->training.attention == MPL_ATTENTION_EAGER
              ? eager_attention(tape, q, k, v, parts->mask, groups, probabilities_out)
              : sdpa_attention(tape, parts, q, k, v, groups);
    if (!out->is_void)
        out = mpl_op_reshape(tape, out,
                             mpl_shape3(out->shape.dim[0], out->shape.dim[1],
                                        mpl_dim(m->num_attention_heads * m->head_dim)));
    out = mpl_hold(out);
    mpl_rebind(tape, &out, linear(tape, layer, layer->o, out));
    mpl_drop(tape, q);
    mpl_drop(tape, k);
    mpl_drop(tape, v);
    return mpl_return(out);
}

/* down(silu(gate(x)) * up(x)) */
static struct mpl_tensor *mlp(struct mpl_tape *tape, const struct layer *layer,
                              struct mpl_tensor *x)
{
    struct mpl_tensor *gate = mpl_op_silu(tape, linear(tape, layer, layer->gate, x));
    struct mpl_tensor *product = mpl_op_mul(tape, gate, linear(tape, layer, layer->up, x));

    return linear(tape, layer, layer->down, product);
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct layer *layer = context;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *probabilities = NULL;
    struct mpl_tensor *h = mpl_hold(mpl_rms_norm(tape, weight(layer, layer->input_norm), input));

    mpl_rebind(tape, &h, attention(tape, layer, h, &probabilities));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_rebind(tape, &residual, mpl_return(mpl_hold(h)));
    mpl_rebind(tape, &h, mpl_rms_norm(tape, weight(layer, layer->post_norm), h));
    mpl_rebind(tape, &h, mlp(tape, layer, h));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_drop(tape, residual);
    mpl_drop(tape, probabilities);
    return mpl_return(h);
}

/* ForCausalLMLoss: float32 logits, labels moved by one, cross-entropy. */
static struct mpl_tensor *causal_lm_loss(struct mpl_tape *tape, struct mpl_tensor *logits,
                                         struct mpl_tensor *labels)
{
    struct mpl_tensor *wide = mpl_hold(mpl_op_to(tape, logits, MPL_FLOAT32)), *loss;
    struct mpl_tensor *padded, *shifted, *flat, *targets;
    struct mpl_shape shape = labels->shape;
    struct mpl_dim rows;

    if (wide->is_void)
        return wide;
    shape.dim[1].n += 1;
    rows = mpl_dim_mul(wide->shape.dim[0], wide->shape.dim[1]);
    padded = mpl_hold(mpl_empty(tape, "constant_pad_nd.default", MPL_INT64, &shape));
    shifted =
        mpl_hold(mpl_op_contiguous(tape, mpl_op_slice_last(tape, padded, labels->shape.dim[1])));
    flat = mpl_hold(mpl_op_reshape(tape, wide, mpl_shape2(rows, wide->shape.dim[2])));
    targets = mpl_hold(mpl_op_reshape(tape, shifted, mpl_shape1(rows)));
    loss = mpl_op_cross_entropy(tape, flat, targets);
    mpl_drop(tape, targets);
    mpl_drop(tape, flat);
    mpl_drop(tape, shifted);
    mpl_drop(tape, padded);
    mpl_drop(tape, wide);
    return loss;
}

/* LlamaModel.forward: embeddings, positions, mask, cos and sin, layers, last norm. */
static struct mpl_tensor *model_forward(struct mpl_tape *tape, struct network_parts *parts,
                                        const struct mpl_batch *batch)
{
    struct mpl_network *network = parts->network;
    const struct mpl_plan *plan = network->plan;
    struct mpl_tensor *embeds =
        mpl_hold(mpl_module_call(tape, &network->modules[EMBEDDING], batch->input_ids));
    struct mpl_tensor *h;
    struct mpl_mask mask;

    /* enable_input_require_grads, which checkpointing turns on: a frozen embedding's output too */
    if (plan->training.activation_checkpointing == MPL_CHECKPOINTING_FULL && !embeds->is_void &&
        tape->is_grad_enabled && mpl_version_at_least(&plan->transformers, 5, 0, 0))
        embeds->requires_grad = true;
    parts->positions = mpl_hold(mpl_position_ids(tape, batch->input_ids));
    mask = mpl_causal_mask(tape, plan, embeds, batch->attention_mask);
    parts->mask = mask.tensor;
    parts->is_causal = mask.is_causal;
    mpl_rotary_tables(tape, plan->model.head_dim, embeds, parts->positions, &parts->cos,
                      &parts->sin);
    h = mpl_hold(mpl_return(mpl_hold(embeds)));
    for (uint32_t i = FIRST_LAYER; i + 1 < network->module_count; i++)
        mpl_rebind(tape, &h, mpl_module_call(tape, &network->modules[i], h));
    mpl_rebind(tape, &h, mpl_rms_norm(tape, mpl_network_weight(network, parts->norm), h));
    mpl_drop(tape, parts->cos);
    mpl_drop(tape, parts->sin);
    mpl_drop(tape, parts->mask);
    mpl_drop(tape, parts->positions);
    mpl_drop(tape, embeds);
    return mpl_return(h);
}

static struct mpl_tensor *causal_lm_forward(struct mpl_tape *tape, struct mpl_network *network,
                                            const struct mpl_batch *batch,
                                            struct mpl_tensor **logits_out)
{
    struct network_parts *parts = network->family;
    struct mpl_tensor *h = mpl_hold(model_forward(tape, parts, batch)), *logits, *loss;

    logits = mpl_hold(mpl_module_call(tape, &network->modules[network->module_count - 1], h));
    loss = causal_lm_loss(tape, logits, batch->labels);
    mpl_drop(tape, h);
    *logits_out = logits;
    return loss;
}

const struct mpl_arch mpl_arch_llama = {"llama", build};
