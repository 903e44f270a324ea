/* SPDX-License-Identifier: MIT */
/*
 * The drafter of EAGLE-1 and EAGLE-2 as the authors' script trains it: parameters, batch, loop. The
 * target runs beforehand: its last hidden states come from files, its head lies on the card.
 *
 * EAGLE-2 changes how drafts are made, not how the drafter is trained.
 *
 * source: github.com/SafeAILab/EAGLE, commit cb7e0841: eagle/train/main.py, eagle/model/cnets1.py
 */
#include "arch/eagle.h"

#include <stdio.h>

#include "arch/arch.h"
#include "base/fail.h"

/* Embedding, fc and its bias; most of a layer: weights, biases, norms, buffers. */
enum { END_ROOM = 3, LAYER_ROOM = 15 };

/* ---- description ------------------------------------------------------------------------------
 */

static uint32_t add(struct mpl_network *network, const char *name, int64_t rows, int64_t cols)
{
    return mpl_network_add_under(network, name, "",
                                 cols ? mpl_shape2(mpl_dim(rows), mpl_dim(cols))
                                      : mpl_shape1(mpl_dim(rows)));
}

static uint32_t add_bias(struct mpl_network *network, const char *name, int64_t rows)
{
    return network->plan->model.attention_bias ? add(network, name, rows, 0) : MPL_NO_PARAMETER;
}

/* LlamaRotaryEmbedding, one for each layer: the tables are float32 and as long as the positions. */
static void add_rotary(struct mpl_network *network, struct mpl_eagle_layer *layer, int64_t head_dim)
{
    const struct mpl_shape table =
        mpl_shape4(mpl_dim(1), mpl_dim(1), mpl_dim(network->plan->model.max_position_embeddings),
                   mpl_dim(head_dim));

    mpl_network_add_buffer_under(network, "self_attn.rotary_emb.inv_freq", "",
                                 mpl_shape1(mpl_dim(head_dim / 2)));
    layer->cos =
        mpl_network_add_buffer_under(network, "self_attn.rotary_emb.cos_cached", "", table);
    layer->sin =
        mpl_network_add_buffer_under(network, "self_attn.rotary_emb.sin_cached", "", table);
}

static void add_layer(struct mpl_eagle *e, int64_t i)
{
    struct mpl_network *network = e->network;
    struct mpl_eagle_layer *layer = &e->layers[i];
    const int64_t h = e->hidden, kv = e->kv_heads * e->head_dim;

    snprintf(network->prefix, sizeof(network->prefix), "layers.%lld.", (long long)i);
    layer->eagle = e;
    layer->q = add(network, "self_attn.q_proj.weight", h, h);
    layer->q_bias = add_bias(network, "self_attn.q_proj.bias", h);
    layer->k = add(network, "self_attn.k_proj.weight", kv, h);
    layer->k_bias = add_bias(network, "self_attn.k_proj.bias", kv);
    layer->v = add(network, "self_attn.v_proj.weight", kv, h);
    layer->v_bias = add_bias(network, "self_attn.v_proj.bias", kv);
    layer->o = add(network, "self_attn.o_proj.weight", h, h);
    add_rotary(network, layer, e->head_dim);
    layer->gate = add(network, "mlp.gate_proj.weight", e->inner, h);
    layer->up = add(network, "mlp.up_proj.weight", e->inner, h);
    layer->down = add(network, "mlp.down_proj.weight", h, e->inner);
    layer->input_norm = i ? add(network, "input_layernorm.weight", h, 0) : MPL_NO_PARAMETER;
    layer->post_norm = add(network, "post_attention_layernorm.weight", h, 0);
    network->prefix[0] = '\0';
}

/* In the order of the modules' attributes. */
static void describe(struct mpl_eagle *e)
{
    struct mpl_network *network = e->network;

    network->modules[0].name = "root";
    network->prefix[0] = '\0';
    e->embed = add(network, "embed_tokens.weight", e->vocab, e->hidden);
    for (int64_t i = 0; i < e->layer_count; i++)
        add_layer(e, i);
    e->fc = add(network, "fc.weight", e->hidden, 2 * e->hidden);
    e->fc_bias = add(network, "fc.bias", e->hidden, 0);
    network->parameters[e->embed].is_trainable = false;
}

static void set_sizes(struct mpl_eagle *e, const struct mpl_plan *plan)
{
    const struct mpl_model *m = &plan->model;

    e->batch = mpl_dim(plan->training.micro_batch_size);
    e->length = (struct mpl_dim){plan->training.sequence_length, 1};
    e->hidden = m->hidden_size;
    e->heads = m->num_attention_heads;
    e->kv_heads = m->num_key_value_heads;
    e->head_dim = m->head_dim;
    e->inner = m->intermediate_size;
    e->vocab = m->vocab_size;
    e->layer_count = m->num_hidden_layers;
}

/* ---- loop -------------------------------------------------------------------------------------
 */

static struct mpl_tensor *input(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_shape shape)
{
    return mpl_hold(mpl_empty(tape, "empty.memory_format", dtype, &shape));
}

static void drop_batch(struct mpl_tape *tape, const struct mpl_eagle_batch *b)
{
    mpl_drop(tape, b->input_ids);
    mpl_drop(tape, b->hidden_states);
    mpl_drop(tape, b->target);
    mpl_drop(tape, b->attention_mask);
    mpl_drop(tape, b->loss_mask);
}

/* The head is prepared after the drafter and what wraps it: no part of it to DDP. */
static void prepare_head(struct mpl_tape *tape, struct mpl_eagle *e)
{
    if (e->head)
        return;
    tape->category = MPL_CATEGORY_PARAMETERS;
    e->head = input(tape, MPL_FLOAT32, mpl_shape2(mpl_dim(e->vocab), mpl_dim(e->hidden)));
}

/* DataCollatorWithPadding joins what it got to float32 zeros, none of them too, so that hidden
 * states and targets are float32. data is bound to the old batch until the new one is there. */
static void make_batch(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_eagle *e = network->family;
    const struct mpl_eagle_batch old = e->data;

    prepare_head(tape, e);
    tape->category = MPL_CATEGORY_INPUTS;
    e->data.input_ids = input(tape, MPL_INT64, mpl_eagle_shape(e, 0));
    e->data.hidden_states = input(tape, MPL_FLOAT32, mpl_eagle_shape(e, e->hidden));
    e->data.target = input(tape, MPL_FLOAT32, mpl_eagle_shape(e, e->hidden));
    e->data.attention_mask = input(tape, MPL_INT64, mpl_eagle_shape(e, 0));
    e->data.loss_mask = input(tape, MPL_INT64, mpl_eagle_shape(e, 0));
    tape->category = MPL_CATEGORY_TEMPORARY;
    drop_batch(tape, &old);
}

static const struct mpl_loop loop = {.materialize = mpl_network_materialize,
                                     .make_batch = make_batch,
                                     .zeroes_first = true,
                                     .divides_loss = true,
                                     .forward = mpl_eagle_loss,
                                     .end_step = mpl_eagle_metrics};

static enum memplan_status build(struct mpl_network *network, struct memplan_error *err)
{
    struct mpl_eagle *e = mpl_arena_zalloc(network->arena, sizeof(*e));

    if (e) {
        e->network = network;
        set_sizes(e, network->plan);
        e->layers = mpl_arena_zalloc(network->arena, (size_t)e->layer_count * sizeof(*e->layers));
        network->parameter_cap = END_ROOM + LAYER_ROOM * (uint32_t)e->layer_count;
        network->parameters =
            mpl_arena_zalloc(network->arena, network->parameter_cap * sizeof(*network->parameters));
        network->module_count = 1;
        network->modules = mpl_arena_zalloc(network->arena, sizeof(*network->modules));
    }
    if (!e || !e->layers || !network->parameters || !network->modules)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    describe(e);
    network->family = e;
    network->forward = mpl_eagle_forward;
    network->loop = &loop;
    return MEMPLAN_OK;
}

static const struct mpl_config_key keys[] = {
    {"attention_bias", "qkv_bias", "false"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_eagle = {
    .config = {.model_type = "eagle",
               .help = "the drafter of EAGLE-1 and EAGLE-2, which its authors' script trains",
               .has_own_attention = true,
               .has_position_table = true,
               .keys = keys},
    .build = build,
};
