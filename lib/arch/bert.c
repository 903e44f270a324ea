/* SPDX-License-Identifier: MIT */
/*
 * BERT, and what the encoders of its form share.
 *
 * source: transformers/models/bert/modeling_bert.py, roberta/modeling_roberta.py,
 * configuration_bert.py; release 5.24.0
 */
#include "arch/bert.h"
#include "arch/arch.h"

#include <stdio.h>

#include "base/fail.h"
#include "op/op.h"
#include "part/decoder.h"

/* The family's own, around the layers. */
struct ends {
    const struct mpl_bert_form *form;
    uint32_t positions, types; /* tables */
    struct mpl_norm norm;
    struct mpl_linear head_dense;
    struct mpl_norm head_norm;
};

/* Locals of ...Embeddings.forward, until it returns; of ...ForMaskedLM.forward. */
enum { TOKEN_TYPES, SEQUENCE_OUTPUT };

/* ---- description ------------------------------------------------------------------------------
 */

void mpl_bert_describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;
    struct mpl_bert_layer *layer = (struct mpl_bert_layer *)base;

    layer->q = mpl_linear_add(network, "attention.self.query", h, h, true);
    layer->k = mpl_linear_add(network, "attention.self.key", h, h, true);
    layer->v = mpl_linear_add(network, "attention.self.value", h, h, true);
    layer->dense = mpl_linear_add(network, "attention.output.dense", h, h, true);
    layer->attention_norm = mpl_norm_add(network, MPL_NORM_LAYER, "attention.output.LayerNorm", h);
    layer->mlp.up = mpl_linear_add(network, "intermediate.dense", m->intermediate_size, h, true);
    layer->mlp.down = mpl_linear_add(network, "output.dense", h, m->intermediate_size, true);
    layer->last_norm = mpl_norm_add(network, MPL_NORM_LAYER, "output.LayerNorm", h);
}

static uint32_t add_table(struct mpl_lm *lm, const char *name, int64_t rows)
{
    return mpl_network_add_under(
        lm->network, name, ".weight",
        mpl_shape2(mpl_dim(rows), mpl_dim(lm->network->plan->model.hidden_size)));
}

/* position_ids and token_type_ids: int64 [1, positions] */
static void add_buffer(struct mpl_lm *lm, const char *name)
{
    const int64_t positions = lm->network->plan->model.max_position_embeddings;

    mpl_network_set_dtype(lm->network,
                          mpl_network_add_buffer(lm->network, name, mpl_shape1(mpl_dim(positions))),
                          MPL_INT64);
}

void mpl_bert_describe_embedding(struct mpl_lm *lm)
{
    const struct mpl_model *m = &lm->network->plan->model;
    struct ends *ends = lm->extra;
    const char *const place = "embeddings.position_embeddings";

    add_buffer(lm, "embeddings.position_ids");
    add_buffer(lm, "embeddings.token_type_ids");
    if (!ends->form->has_types_first)
        ends->positions = add_table(lm, place, m->max_position_embeddings);
    ends->types = add_table(lm, "embeddings.token_type_embeddings", m->type_vocab_size);
    ends->norm = mpl_norm_add(lm->network, MPL_NORM_LAYER, "embeddings.LayerNorm", m->hidden_size);
    if (ends->form->has_types_first)
        ends->positions = add_table(lm, place, m->max_position_embeddings);
}

/* The head's bias is that of its decoder where the two are tied; else nobody uses it. */
void mpl_bert_describe_end(struct mpl_lm *lm)
{
    const struct mpl_model *m = &lm->network->plan->model;
    struct ends *ends = lm->extra;
    uint32_t bias;

    if (mpl_lm_pools(lm)) {
        if (ends->form->is_pooler_outside)
            lm->network->prefix[0] = '\0';
        ends->head_dense =
            mpl_linear_add(lm->network, ends->form->pooler, m->hidden_size, m->hidden_size, true);
        return;
    }
    snprintf(lm->network->prefix, sizeof(lm->network->prefix), "%s", ends->form->head);
    bias = mpl_network_add_under(lm->network, "bias", "", mpl_shape1(mpl_dim(m->vocab_size)));
    if (m->tie_word_embeddings)
        lm->head_bias = bias;
    ends->head_dense =
        mpl_linear_add(lm->network, ends->form->head_dense, m->hidden_size, m->hidden_size, true);
    ends->head_norm =
        mpl_norm_add(lm->network, MPL_NORM_LAYER, ends->form->head_norm, m->hidden_size);
}

/* ---- embeddings -------------------------------------------------------------------------------
 */

/* create_position_ids_from_input_ids: int64 [b, s]; held */
static struct mpl_tensor *count_positions(struct mpl_tape *tape, struct mpl_tensor *ids)
{
    struct mpl_tensor *mask =
        mpl_hold(mpl_op_map(tape, "_to_copy.default", MPL_INT32,
                            mpl_op_map(tape, "ne.Scalar", MPL_BOOL, ids, NULL), NULL));
    struct mpl_tensor *count =
        mpl_op_map(tape, "_to_copy.default", MPL_INT32,
                   mpl_op_map(tape, "cumsum.default", MPL_INT64, mask, NULL), NULL);

    count = mpl_op_map(tape, "add.Tensor", MPL_INT32, count, NULL);
    count = mpl_hold(mpl_op_map(tape, "mul.Tensor", MPL_INT32, count, mask));
    mpl_rebind(tape, &mask,
               mpl_op_map(tape, "add.Tensor", MPL_INT64,
                          mpl_op_map(tape, "_to_copy.default", MPL_INT64, count, NULL), NULL));
    mpl_drop(tape, count);
    return mask;
}

/* Positions and token types come before the words: lm->positions is NULL where they are a view of
 * the buffer. */
struct mpl_tensor *mpl_bert_embed(struct mpl_tape *tape, void *context, struct mpl_tensor *ids)
{
    struct mpl_lm *lm = context;
    const struct ends *ends = lm->extra;
    struct mpl_shape shape = ids->shape;

    if (ends->form->counts_positions)
        lm->positions = count_positions(tape, ids);
    else
        shape.dim[0] = mpl_dim(1);
    if (!lm->past.facts)
        lm->locals[TOKEN_TYPES] = mpl_hold(mpl_empty(tape, "gather.default", MPL_INT64, &shape));
    return mpl_op_embedding(tape, mpl_network_weight(lm->network, lm->embed), ids);
}

void mpl_bert_make_positions(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *mask)
{
    (void)tape;
    (void)lm;
    (void)mask;
}

/* Buffers behind the table of words. */
enum { POSITION_IDS = 1, TOKEN_TYPE_IDS };

/* [1, s] of a buffer */
static struct mpl_tensor *buffer_row(struct mpl_tape *tape, const struct mpl_lm *lm, uint32_t which)
{
    struct mpl_tensor *buffer = mpl_network_weight(lm->network, lm->embed + which);
    const struct mpl_shape shape = mpl_shape2(mpl_dim(1), lm->input_ids->shape.dim[1]);

    return mpl_alias_shaped(tape, buffer, &shape);
}

struct mpl_tensor *mpl_bert_before_masks(struct mpl_tape *tape, struct mpl_lm *lm,
                                         struct mpl_tensor *embeds)
{
    const struct ends *ends = lm->extra;
    const struct mpl_model *m = &lm->network->plan->model;
    const struct mpl_shape ids = lm->input_ids->shape;
    struct mpl_tensor *types, *positions, *h;

    types = lm->past.facts ? buffer_row(tape, lm, TOKEN_TYPE_IDS)
                           : mpl_return(mpl_hold(lm->locals[TOKEN_TYPES]));
    if (!types->is_void)
        types = mpl_op_expand(tape, types, ids);
    types = mpl_hold(mpl_op_embedding(tape, mpl_network_weight(lm->network, ends->types), types));
    h = mpl_hold(mpl_op_add(tape, embeds, types));
    positions = lm->positions ? lm->positions : buffer_row(tape, lm, POSITION_IDS);
    positions = mpl_hold(
        mpl_op_embedding(tape, mpl_network_weight(lm->network, ends->positions), positions));
    mpl_rebind(tape, &h, (lm->past.facts ? mpl_op_add_in_place : mpl_op_add)(tape, h, positions));
    mpl_rebind(tape, &h, mpl_norm_call(tape, lm->network, &ends->norm, h));
    mpl_rebind(tape, &h, mpl_op_dropout(tape, h, m->hidden_dropout));
    mpl_drop(tape, positions);
    mpl_drop(tape, types);
    mpl_drop(tape, lm->locals[TOKEN_TYPES]);
    mpl_drop(tape, lm->positions);
    lm->locals[TOKEN_TYPES] = lm->positions = NULL;
    mpl_rebind(tape, &lm->embeds, mpl_return(mpl_hold(h)));
    return mpl_return(h);
}

void mpl_bert_make_masks(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds,
                         struct mpl_tensor *attention_mask)
{
    if (lm->past.facts)
        lm->full = mpl_past_encoder_mask(tape, lm->network->plan, embeds, attention_mask,
                                         &lm->locals[TOKEN_TYPES]);
    else
        lm->full = mpl_bidirectional_mask(tape, lm->network->plan, embeds, attention_mask);
}

/* ---- layer ------------------------------------------------------------------------------------
 */

/* proj(x).view(b, s, heads, d).transpose(1, 2); held */
static struct mpl_tensor *project(struct mpl_tape *tape, const struct mpl_network *network,
                                  const struct mpl_linear *linear, struct mpl_tensor *x)
{
    const struct mpl_model *m = &network->plan->model;

    return mpl_hold(mpl_split_heads(tape, mpl_linear_call(tape, network, linear, x),
                                    m->num_attention_heads, m->head_dim));
}

/* BertSelfAttention: [b, s, h], held */
static struct mpl_tensor *attend(struct mpl_tape *tape, const struct mpl_bert_layer *layer,
                                 struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->base);
    struct mpl_tensor *out;

    call.softmax = MPL_SOFTMAX_OWN;
    call.q = project(tape, network, &layer->q, x);
    call.k = project(tape, network, &layer->k, x);
    call.v = project(tape, network, &layer->v, x);
    out = call.past ? mpl_past_attention(tape, network->plan, &call, weights_out)
                    : mpl_attention_interface(tape, network->plan, &call, weights_out);
    out = mpl_hold(mpl_merge_heads(tape, out));
    if (call.past) {
        mpl_drop(tape, *weights_out);
        *weights_out = NULL;
    }
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    return out;
}

/* BertSelfOutput, BertOutput: norm(dropout(dense(x)) + input); floating */
static struct mpl_tensor *output(struct mpl_tape *tape, const struct mpl_network *network,
                                 const struct mpl_linear *dense, const struct mpl_norm *norm,
                                 struct mpl_tensor *x, struct mpl_tensor *input)
{
    struct mpl_tensor *h = mpl_hold(mpl_linear_call(tape, network, dense, x));

    mpl_rebind(tape, &h, mpl_op_dropout(tape, h, network->plan->model.hidden_dropout));
    mpl_rebind(tape, &h, mpl_norm_call(tape, network, norm, mpl_op_add(tape, h, input)));
    return mpl_return(h);
}

struct mpl_tensor *mpl_bert_layer_forward(struct mpl_tape *tape, void *context,
                                          struct mpl_tensor *input)
{
    const struct mpl_bert_layer *layer = context;
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_tensor *weights = NULL, *inner, *out;
    struct mpl_tensor *attended = attend(tape, layer, input, &weights);

    mpl_rebind(tape, &attended,
               output(tape, network, &layer->dense, &layer->attention_norm, attended, input));
    inner = mpl_hold(mpl_linear_call(tape, network, &layer->mlp.up, attended));
    mpl_rebind(tape, &inner, mpl_activation_call(tape, network->plan->model.hidden_act, inner));
    out = output(tape, network, &layer->mlp.down, &layer->last_norm, inner, attended);
    mpl_drop(tape, inner);
    mpl_drop(tape, attended);
    mpl_drop(tape, weights);
    return out;
}

/* ---- head -------------------------------------------------------------------------------------
 */

struct mpl_tensor *mpl_bert_leave(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    const struct ends *ends = lm->extra;
    const enum mpl_activation act =
        ends->form->has_gelu_head ? MPL_ACTIVATION_GELU : lm->network->plan->model.hidden_act;
    struct mpl_tensor *out = mpl_hold(mpl_linear_call(tape, lm->network, &ends->head_dense, h));

    lm->locals[SEQUENCE_OUTPUT] = mpl_hold(mpl_return(mpl_hold(h)));
    mpl_rebind(tape, &out, mpl_activation_call(tape, act, out));
    mpl_rebind(tape, &out, mpl_norm_call(tape, lm->network, &ends->head_norm, out));
    return mpl_return(out);
}

/* BertPooler and a dropout; RobertaClassificationHead before its last layer */
struct mpl_tensor *mpl_bert_pool(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    const struct ends *ends = lm->extra;
    const double dropout = lm->network->plan->model.hidden_dropout;
    struct mpl_tensor *first, *out;

    first = mpl_hold(mpl_op_select(tape, h, 1));
    if (ends->form->is_pooler_outside)
        mpl_rebind(tape, &first, mpl_op_dropout(tape, first, dropout));
    out = mpl_hold(mpl_op_tanh(tape, mpl_linear_call(tape, lm->network, &ends->head_dense, first)));
    mpl_rebind(tape, &out, mpl_op_dropout(tape, out, dropout));
    mpl_drop(tape, first);
    return mpl_return(out);
}

/* CrossEntropyLoss()(scores.view(-1, v), labels.view(-1)), in the dtype of the scores */
struct mpl_tensor *mpl_bert_loss(struct mpl_tape *tape, struct mpl_tensor *logits,
                                 struct mpl_tensor *labels)
{
    struct mpl_dim rows;

    if (logits->is_void)
        return tape->void_tensor;
    rows = mpl_dim_mul(logits->shape.dim[0], logits->shape.dim[1]);
    return mpl_op_cross_entropy(
        tape, mpl_op_reshape(tape, logits, mpl_shape2(rows, logits->shape.dim[2])),
        mpl_op_reshape(tape, labels, mpl_shape1(rows)));
}

/* ---- BERT -------------------------------------------------------------------------------------
 */

enum memplan_status mpl_bert_build(struct mpl_network *network, const struct mpl_lm_family *family,
                                   const struct mpl_bert_form *form, struct memplan_error *err)
{
    struct ends *ends = mpl_arena_zalloc(network->arena, sizeof(*ends));

    if (!ends)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    ends->form = form;
    return mpl_lm_build_with(network, family, ends, err);
}

static const struct mpl_bert_form form = {
    .head = "cls.predictions.",
    .head_dense = "transform.dense",
    .head_norm = "transform.LayerNorm",
    .pooler = "pooler.dense",
};

static const struct mpl_lm_family family = {
    MPL_BERT_HOOKS,
    .past = {.first = 40, .sdpa = 41, .keeps_strides = true, .flash = MPL_PAST_FLASH_NONE},
    .base = "bert",
    .head = "cls.predictions.decoder",
    .score = "classifier",
};

static enum memplan_status build(struct mpl_network *network, struct memplan_error *err)
{
    return mpl_bert_build(network, &family, &form, err);
}

const struct mpl_config_key mpl_bert_keys[] = {
    {"max_position_embeddings", NULL, "512"},
    {"hidden_act", NULL, "\"gelu\""},
    {"hidden_dropout", "hidden_dropout_prob", "0.1"},
    {"attention_dropout", "attention_probs_dropout_prob", "0.1"},
    {"tie_word_embeddings", NULL, "true"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_bert = {
    .config = {.model_type = "bert",
               .help = "BERT, trained as a masked language model",
               .has_no_flex = true,
               .task = MPL_TASK_MASKED_LM,
               .has_position_table = true,
               .keys = mpl_bert_keys},
    .build = build,
};
