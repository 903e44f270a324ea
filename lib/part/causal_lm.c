/* SPDX-License-Identifier: MIT */
/*
 * What causal language models of transformers share around their layers.
 *
 * source: transformers/models/llama/modeling_llama.py (LlamaModel, LlamaForCausalLM),
 * qwen3/modeling_qwen3.py (masks by layer type), modeling_layers.py
 * (GenericForSequenceClassification); release 5.24.0
 */
#include "part/causal_lm.h"

#include <stdio.h>

#include "base/fail.h"
#include "op/op.h"
#include "part/float8.h"
#include "part/loss.h"
#include "spec/text.h"

/* Order of network->modules: root, embedding, layers, head. */
enum { EMBEDDING = 1, FIRST_LAYER = 2 };

/* Embedding, norm (weight, bias), head (weight, bias), four buffers. */
#define END_ROOM 9
/* Buffers of a layer before 4.48: of its rotary module and of its mask. */
#define PAST_ROOM 5

/* ---- description ------------------------------------------------------------------------------
 */

static struct mpl_lm_layer *layer_at(const struct mpl_lm *lm, uint32_t i)
{
    return (struct mpl_lm_layer *)(void *)(lm->layers + (size_t)i * lm->family->layer_size);
}

static void set_prefix(struct mpl_network *network, const char *base)
{
    snprintf(network->prefix, sizeof(network->prefix), "%s%s", base, *base ? "." : "");
}

static bool checkpoints_layers(const struct mpl_training *t)
{
    return t->activation_checkpointing == MPL_CHECKPOINTING_FULL ||
           t->activation_checkpointing == MPL_CHECKPOINTING_SELECTIVE;
}

/* every_n_layers: the first of that many */
static bool is_checkpointed(const struct mpl_training *t, uint32_t layer)
{
    return checkpoints_layers(t) && layer >= t->checkpoint_first &&
           (layer - t->checkpoint_first) % (t->checkpoint_every > 1 ? t->checkpoint_every : 1) == 0;
}

static void describe_layer(struct mpl_lm *lm, uint32_t i)
{
    struct mpl_network *network = lm->network;
    struct mpl_module *module = &network->modules[FIRST_LAYER + i];
    struct mpl_lm_layer *layer = layer_at(lm, i);
    const uint32_t first = network->parameter_count;
    struct mpl_mask *mask;
    bool has_own;

    layer->lm = lm;
    layer->index = i;
    layer->is_sliding =
        !lm->past.facts && network->plan->model.layer_types.of[i] == MPL_LAYER_SLIDING;
    mask = layer->is_sliding ? &lm->sliding : &lm->full;
    has_own = layer->is_sliding && lm->family->has_sliding_rotary;
    snprintf(network->prefix, sizeof(network->prefix), "%s%s%s.%u.", lm->family->base,
             *lm->family->base ? "." : "", lm->family->layers, i);
    lm->family->describe_layer(network, layer);
    *module = (struct mpl_module){
        .name = "layer",
        .kind = MPL_MODULE_LAYER,
        .first_parameter = first,
        .parameter_count = network->parameter_count - first,
        .forward = lm->family->layer_forward,
        .context = layer,
        .kwargs = {has_own ? &lm->sliding_cos : &lm->cos, has_own ? &lm->sliding_sin : &lm->sin,
                   &mask->tensor, &lm->positions, &lm->alibi},
        .is_checkpointed = is_checkpointed(&network->plan->training, i),
    };
}

static struct mpl_tensor *embedding_forward(struct mpl_tape *tape, void *context,
                                            struct mpl_tensor *ids)
{
    const struct mpl_lm *lm = context;

    return mpl_op_embedding(tape, mpl_network_weight(lm->network, lm->embed), ids);
}

static struct mpl_tensor *head_forward(struct mpl_tape *tape, void *context, struct mpl_tensor *h)
{
    const struct mpl_lm *lm = context;

    return mpl_linear_call(tape, lm->network, &lm->head, h);
}

static struct mpl_tensor *norm_forward(struct mpl_tape *tape, void *context, struct mpl_tensor *h)
{
    const struct mpl_lm *lm = context;

    return mpl_norm_call(tape, lm->network, &lm->norm, h);
}

/* A family with an end of its own has no such norm. */
static void describe_last_norm(struct mpl_lm *lm)
{
    const bool has_weight = lm->norm.weight != MPL_NO_PARAMETER;
    const bool has_bias = has_weight && lm->norm.bias != MPL_NO_PARAMETER;

    if (lm->family->norm && !lm->family->end)
        lm->network->last_norm = (struct mpl_module){
            .name = lm->family->norm,
            .first_parameter = has_weight ? lm->norm.weight : 0,
            .parameter_count = (has_weight ? 1u : 0u) + (has_bias ? 1u : 0u),
            .forward = norm_forward,
            .context = lm,
        };
}

/* enable_input_require_grads, which checkpointing turns on: a frozen embedding's output too */
static bool requires_input_grads(const struct mpl_plan *plan)
{
    return checkpoints_layers(&plan->training) &&
           (plan->training.lora.r || mpl_version_at_least(&plan->transformers, 5, 0, 0));
}

/* The modules around the layers; a head tied to the embedding owns only its bias. */
static void describe_ends(struct mpl_lm *lm)
{
    struct mpl_network *network = lm->network;
    struct mpl_module *head = &network->modules[network->module_count - 1];
    const bool is_tied = lm->head.weight == lm->embed;

    network->modules[0].name = "root";
    describe_last_norm(lm);
    lm->model = mpl_module_around(0, is_tied ? network->parameter_count - 1 : lm->head.weight - 1);
    network->modules[EMBEDDING] =
        (struct mpl_module){.name = lm->family->embedding,
                            .kind = MPL_MODULE_EMBEDDING,
                            .first_parameter = lm->embed,
                            .parameter_count = 1,
                            .forward = lm->family->embed ? lm->family->embed : embedding_forward,
                            .context = lm,
                            .grows_from_output = requires_input_grads(network->plan)};
    *head = (struct mpl_module){.name = lm->family->head,
                                .kind = MPL_MODULE_HEAD,
                                .first_parameter = is_tied ? lm->head.bias : lm->head.weight,
                                .parameter_count = (is_tied ? 0u : 1u) +
                                                   (lm->head.bias == MPL_NO_PARAMETER ? 0u : 1u),
                                .forward = head_forward,
                                .context = lm};
}

static void describe_head(struct mpl_lm *lm)
{
    const struct mpl_model *m = &lm->network->plan->model;
    struct mpl_parameter *embedding = &lm->network->parameters[lm->embed];

    set_prefix(lm->network, "");
    lm->network->is_in_head = true;
    if (lm->network->plan->training.loss.name == MPL_LOSS_CLASSIFICATION) {
        lm->head = mpl_linear_add(lm->network, lm->family->pool ? lm->family->score : "score",
                                  lm->network->plan->training.loss.num_labels, m->hidden_size,
                                  lm->family->pool != NULL);
        lm->network->is_in_head = false;
        return;
    }
    embedding->is_tied = m->tie_word_embeddings;
    lm->head = (struct mpl_linear){lm->embed, lm->head_bias, false};
    if (!m->tie_word_embeddings)
        lm->head = mpl_linear_add(lm->network, lm->family->head, m->vocab_size,
                                  embedding->shape.dim[1].n, lm->family->has_head_bias);
    else if (lm->family->has_head_bias && lm->head_bias == MPL_NO_PARAMETER)
        lm->head.bias = mpl_network_add_under(lm->network, lm->family->head, ".bias",
                                              mpl_shape1(mpl_dim(m->vocab_size)));
    if (m->tie_word_embeddings && lm->network->plan->training.float8.recipe != MPL_FLOAT8_NONE)
        mpl_float8_add(lm->network, lm->family->head, lm->embed, m->vocab_size,
                       embedding->shape.dim[1].n);
    lm->network->is_in_head = false;
}

static bool has_layer(const struct mpl_lm *lm, bool is_sliding);

/* How many frequencies the rotary module has: one for all layers, or one for each kind of them. */
static int rotary_sets(const struct mpl_lm *lm)
{
    if (lm->family->has_no_rotary)
        return 0;
    if (!lm->family->has_sliding_rotary)
        return 1;
    return (has_layer(lm, false) ? 1 : 0) + (has_layer(lm, true) ? 1 : 0);
}

static void describe(struct mpl_lm *lm)
{
    struct mpl_network *network = lm->network;
    const struct mpl_lm_family *family = lm->family;
    const struct mpl_model *m = &network->plan->model;
    const int64_t width = m->embedding_size ? m->embedding_size : m->hidden_size;
    const struct mpl_shape table = mpl_shape2(mpl_dim(m->vocab_size), mpl_dim(width));

    set_prefix(network, family->base);
    lm->embed = mpl_network_add_under(network, family->embedding, ".weight", table);
    if (family->describe_embedding)
        family->describe_embedding(lm);
    for (uint32_t i = 0; i < (uint32_t)m->num_hidden_layers; i++)
        describe_layer(lm, i);
    set_prefix(network, family->base);
    if (family->norm)
        lm->norm = mpl_norm_add(network, mpl_past_norm_kind(lm, family->norm_kind), family->norm,
                                m->hidden_size);
    mpl_past_describe_rotary(lm);
    for (int i = 0; !lm->past.facts && i < rotary_sets(lm); i++) {
        const struct mpl_shape half = mpl_shape1(mpl_dim(lm->rotary_dim / 2));

        mpl_network_add_buffer(network, "rotary_emb.inv_freq", half);
        if (mpl_version_at_least(&network->plan->transformers, 5, 0, 0)) /* before: another name */
            mpl_network_add_buffer(network, "rotary_emb.original_inv_freq", half);
    }
    if (family->describe_end)
        family->describe_end(lm);
    describe_head(lm);
    describe_ends(lm);
}

static struct mpl_tensor *causal_lm_forward(struct mpl_tape *tape, struct mpl_network *network,
                                            struct mpl_batch *batch,
                                            struct mpl_tensor **logits_out);

/* Losses that are modelled for the families whose own code adds nothing to them. */
static enum memplan_status check_loss(const struct mpl_plan *plan,
                                      const struct mpl_lm_family *family, struct memplan_error *err)
{
    const struct mpl_loss_spec *loss = &plan->training.loss;
    const bool is_pooled = loss->name == MPL_LOSS_CLASSIFICATION && family->pool;
    const bool is_default =
        is_pooled || (loss->name == MPL_LOSS_CROSS_ENTROPY && !(loss->label_smoothing > 0));
    const char *type = plan->model.model_type;

    if (!is_default && (family->loss || family->finish_loss))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/loss",
                        "training.loss: only cross_entropy without label smoothing is modelled "
                        "for %s",
                        type);
    if (family->loss && (loss->num_items_in_batch || loss->logits_to_keep))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/loss",
                        "training.loss: num_items_in_batch and logits_to_keep are not modelled "
                        "for %s",
                        type);
    if (loss->name == MPL_LOSS_CLASSIFICATION && family->has_no_score)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/loss/name",
                        "training.loss.name: sequence_classification is not modelled for %s", type);
    if (loss->name == MPL_LOSS_FUSED_LINEAR && family->finish_logits)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/loss/name",
                        "training.loss.name: fused_linear_cross_entropy is not modelled for %s, "
                        "which changes its logits",
                        type);
    return MEMPLAN_OK;
}

enum memplan_status mpl_lm_build(struct mpl_network *network, const struct mpl_lm_family *family,
                                 struct memplan_error *err)
{
    return mpl_lm_build_with(network, family, NULL, err);
}

enum memplan_status mpl_lm_build_with(struct mpl_network *network,
                                      const struct mpl_lm_family *family, void *extra,
                                      struct memplan_error *err)
{
    const struct mpl_model *m = &network->plan->model;
    const uint32_t layers = (uint32_t)m->num_hidden_layers;
    struct mpl_lm *lm = mpl_arena_zalloc(network->arena, sizeof(*lm));
    const bool is_past = mpl_past_is(&network->plan->transformers);
    enum memplan_status status = check_loss(network->plan, family, err);

    if (!status)
        status = mpl_past_check(network->plan, &family->past, err);
    if (status)
        return status;
    network->parameter_cap = mpl_network_room(
        network->plan,
        END_ROOM + family->extra_room + layers * (family->layer_room + (is_past ? PAST_ROOM : 0)));
    network->parameters =
        mpl_arena_zalloc(network->arena, network->parameter_cap * sizeof(*network->parameters));
    network->module_count = FIRST_LAYER + layers + 1;
    network->modules =
        mpl_arena_zalloc(network->arena, network->module_count * sizeof(*network->modules));
    if (lm)
        lm->layers = mpl_arena_zalloc(network->arena, layers * family->layer_size);
    network->outputs.of = mpl_arena_zalloc(network->arena, 2 * (layers + 1) * sizeof(void *));
    network->kept.of = network->outputs.of ? network->outputs.of + layers + 1 : NULL;
    if (!lm || !lm->layers || !network->parameters || !network->modules || !network->outputs.of)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    lm->network = network;
    lm->family = family;
    lm->extra = extra;
    lm->head_bias = MPL_NO_PARAMETER;
    lm->rotary_dim =
        m->rotary_dim ? m->rotary_dim : (int64_t)((double)m->head_dim * m->partial_rotary_factor);
    if (!lm->rotary_dim)
        lm->rotary_dim = m->head_dim;
    lm->rotary_dim += lm->rotary_dim % 2; /* arange(0, dim, 2), twice */
    if (is_past)
        mpl_past_begin(lm);
    describe(lm);
    network->family = lm;
    network->forward = causal_lm_forward;
    return MEMPLAN_OK;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

struct mpl_attention_call mpl_lm_attention_call(const struct mpl_lm_layer *layer)
{
    const struct mpl_lm *lm = layer->lm;
    const struct mpl_model *m = &lm->network->plan->model;
    const struct mpl_mask *mask = layer->is_sliding ? &lm->sliding : &lm->full;

    return (struct mpl_attention_call){.mask = mask->tensor,
                                       .is_causal = mask->is_causal,
                                       .is_capped = m->attn_logit_softcapping > 0,
                                       .window = layer->is_sliding ? m->sliding_window : 0,
                                       .dropout = m->attention_dropout,
                                       .past = lm->past.facts ? &lm->past : NULL};
}

/* Does any layer have that kind of attention? */
static bool has_layer(const struct mpl_lm *lm, bool is_sliding)
{
    for (uint32_t i = 0; i < (uint32_t)lm->network->plan->model.num_hidden_layers; i++)
        if (layer_at(lm, i)->is_sliding == is_sliding)
            return true;
    return false;
}

/* causal_mask_mapping: full first, then sliding. */
static void make_masks(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds,
                       struct mpl_tensor *attention_mask)
{
    const struct mpl_plan *plan = lm->network->plan;

    if (lm->past.facts) {
        lm->full = mpl_past_model_mask(tape, lm, embeds, attention_mask);
        return;
    }
    if (lm->family->has_plain_mask) {
        lm->full = mpl_causal_mask_plain(tape, plan, embeds, attention_mask, 0);
        return;
    }
    if (lm->family->has_full_mask || has_layer(lm, false))
        lm->full = mpl_causal_mask(tape, plan, embeds, attention_mask, 0);
    if (lm->family->has_sliding_mask || has_layer(lm, true))
        lm->sliding =
            mpl_causal_mask(tape, plan, embeds, attention_mask, plan->model.sliding_window);
}

/* position_embeddings, for each kind of layer that there is if they differ */
static void make_rotary(struct mpl_tape *tape, struct mpl_lm *lm, const struct mpl_tensor *h)
{
    const enum mpl_dtype dtype =
        lm->family->has_float_rotary ? MPL_FLOAT32 : (enum mpl_dtype)h->dtype;
    const bool is_longer = lm->network->plan->training.sequence_length >
                           lm->network->plan->model.max_position_embeddings;

    if (!lm->family->has_no_rotary)
        mpl_rope_update(tape, lm->network->plan->model.rope_type, &lm->rope,
                        mpl_dim(lm->rotary_dim / 2), is_longer);
    if (lm->family->make_rotary)
        lm->family->make_rotary(tape, lm, h);
    if (lm->family->make_rotary || lm->family->has_no_rotary)
        return;
    if (lm->past.facts && !mpl_past_has(&lm->past, lm->past.facts->shared_rotary))
        return;
    mpl_scope_enter(tape, MPL_NO_MODULE, NULL); /* nothing of it has a gradient */
    if (!lm->family->has_sliding_rotary || has_layer(lm, false))
        mpl_rotary_tables(tape, lm->rotary_dim, dtype, lm->positions, &lm->cos, &lm->sin);
    if (lm->family->has_sliding_rotary && has_layer(lm, true))
        mpl_rotary_tables(tape, lm->rotary_dim, dtype, lm->positions, &lm->sliding_cos,
                          &lm->sliding_sin);
}

static void drop_own_locals(struct mpl_tape *tape, struct mpl_lm *lm)
{
    for (int i = 0; i < MPL_LM_LOCALS; i++) {
        mpl_drop(tape, lm->locals[i]);
        lm->locals[i] = NULL;
    }
}

/* The pointers stay: a layer that is computed again reads them, and its checkpoint keeps them
 * alive.
 */
static void drop_locals(struct mpl_tape *tape, struct mpl_lm *lm)
{
    const bool has_dict = lm->family->has_full_mask;

    mpl_drop(tape, lm->cos);
    mpl_drop(tape, lm->sin);
    mpl_drop(tape, lm->sliding_cos);
    mpl_drop(tape, lm->sliding_sin);
    mpl_drop(tape, lm->full.tensor);
    mpl_drop(tape, lm->sliding.tensor);
    mpl_drop(tape, has_dict ? lm->embeds : lm->positions);
    mpl_drop(tape, lm->alibi);
    drop_own_locals(tape, lm);
    mpl_drop(tape, has_dict ? lm->positions : lm->embeds);
}

/* Model.forward: embeddings, positions, masks, cos and sin, layers, last norm. */
static struct mpl_tensor *model_forward(struct mpl_tape *tape, struct mpl_lm *lm,
                                        struct mpl_batch *batch)
{
    struct mpl_network *network = lm->network;
    const struct mpl_lm_family *family = lm->family;
    struct mpl_tensor *h, *embeds;

    lm->input_ids = batch->input_ids;
    lm->attention_mask = batch->attention_mask;
    for (int i = 0; i < 1 + family->has_inner_model; i++)
        mpl_scope_enter(tape, lm->model, NULL);
    embeds = mpl_hold(mpl_module_call(tape, &network->modules[EMBEDDING], batch->input_ids));
    if (family->prepare)
        embeds = mpl_hold(family->prepare(tape, lm, mpl_return(embeds)));
    lm->embeds = embeds;
    if (family->make_positions)
        family->make_positions(tape, lm, batch->attention_mask);
    else
        lm->positions = mpl_hold(lm->past.facts ? mpl_past_positions(tape, batch->input_ids)
                                                : mpl_position_ids(tape, batch->input_ids));
    h = mpl_return(mpl_hold(embeds));
    h = mpl_hold(family->before_masks ? family->before_masks(tape, lm, h) : h);
    (family->make_masks ? family->make_masks : make_masks)(tape, lm, lm->embeds,
                                                           batch->attention_mask);
    if (family->enter)
        mpl_rebind(tape, &h, family->enter(tape, lm, mpl_return(mpl_hold(h))));
    make_rotary(tape, lm, h);
    for (uint32_t i = FIRST_LAYER; i + 1 < network->module_count; i++)
        mpl_rebind(tape, &h, mpl_module_call(tape, &network->modules[i], h));
    if (family->end)
        mpl_rebind(tape, &h, family->end(tape, lm, h));
    else if (family->norm)
        mpl_rebind(tape, &h, mpl_module_call(tape, &network->last_norm, h));
    drop_locals(tape, lm);
    h = mpl_scope_leave(tape, lm->model, mpl_return(h));
    return family->has_inner_model ? mpl_scope_leave(tape, lm->model, h) : h;
}

bool mpl_lm_pools(const struct mpl_lm *lm)
{
    return lm->family->pool && lm->network->plan->training.loss.name == MPL_LOSS_CLASSIFICATION;
}

struct mpl_tensor *mpl_lm_hidden(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_batch *batch)
{
    struct mpl_tensor *h = mpl_hold(model_forward(tape, lm, batch));

    if (lm->family->leave && !mpl_lm_pools(lm))
        mpl_rebind(tape, &h, lm->family->leave(tape, lm, h));
    return mpl_return(h);
}

struct mpl_tensor *mpl_lm_logits(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    struct mpl_network *network = lm->network;
    struct mpl_tensor *logits =
        mpl_module_call(tape, &network->modules[network->module_count - 1], h);

    if (!lm->family->finish_logits || network->plan->training.loss.name == MPL_LOSS_CLASSIFICATION)
        return logits;
    return lm->family->finish_logits(tape, lm, logits);
}

void mpl_lm_leave(struct mpl_tape *tape, struct mpl_lm *lm)
{
    struct mpl_outputs *outputs = &lm->network->outputs;

    drop_own_locals(tape, lm);
    while (outputs->count)
        mpl_drop(tape, outputs->of[--outputs->count]);
}

static struct mpl_tensor *causal_lm_forward(struct mpl_tape *tape, struct mpl_network *network,
                                            struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_lm *lm = network->family;
    mpl_loss_rule *rule = batch->has_no_labels ? mpl_loss_none : mpl_loss_rule_of(network->plan);
    struct mpl_tensor *loss = rule(tape, lm, batch, logits_out);

    drop_own_locals(tape, lm);
    return loss;
}
