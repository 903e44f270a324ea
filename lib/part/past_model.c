/* SPDX-License-Identifier: MIT */
/*
 * What a language model of transformers 4.40 to 4.47 has around its layers: rotary buffers,
 * positions, one mask.
 *
 * source: transformers/models/llama/modeling_llama.py (LlamaRotaryEmbedding, LlamaModel),
 * mistral/modeling_mistral.py; releases 4.40.2 to 4.47.1
 */
#include "op/op.h"
#include "part/causal_lm.h"

void mpl_past_begin(struct mpl_lm *lm)
{
    const struct mpl_plan *plan = lm->network->plan;
    const struct mpl_past *facts = &lm->family->past;

    lm->past = (struct mpl_past_run){
        .facts = facts,
        .minor = plan->transformers.minor,
        .rotary_dim = lm->rotary_dim,
        .table_dtype = facts->has_float_tables ? MPL_FLOAT32 : plan->training.parameter_dtype,
    };
}

void mpl_past_describe_rotary(struct mpl_lm *lm)
{
    const struct mpl_past_run *past = &lm->past;
    const struct mpl_model *m = &lm->network->plan->model;
    const struct mpl_shape half = mpl_shape1(mpl_dim(lm->rotary_dim / 2));
    const struct mpl_shape table =
        mpl_shape2(mpl_dim(m->max_position_embeddings), mpl_dim(lm->rotary_dim));
    int64_t layers = m->num_hidden_layers;

    if (!past->facts || lm->family->has_no_rotary)
        return;
    if (mpl_past_has(past, past->facts->lone_rotary))
        layers = 0;
    for (int64_t i = 0; i < layers; i++) {
        mpl_network_add_buffer(lm->network, "rotary_emb.inv_freq", half);
        for (int j = 0; !mpl_past_has(past, past->facts->lean_rotary) && j < 2; j++)
            mpl_network_set_dtype(lm->network,
                                  mpl_network_add_buffer(lm->network, "rotary_emb.cached", table),
                                  past->table_dtype);
    }
    if (mpl_past_has(past, past->facts->shared_rotary))
        mpl_network_add_buffer(lm->network, "rotary_emb.inv_freq", half);
}

enum mpl_norm_kind mpl_past_norm_kind(const struct mpl_lm *lm, enum mpl_norm_kind kind)
{
    return lm->past.facts && lm->past.facts->has_narrow_norms ? MPL_NORM_RMS : kind;
}

struct mpl_tensor *mpl_past_positions(struct mpl_tape *tape, const struct mpl_tensor *input_ids)
{
    struct mpl_shape shape;

    if (input_ids->is_void)
        return tape->void_tensor;
    shape = mpl_shape1(input_ids->shape.dim[1]);
    return mpl_empty(tape, "arange.default", MPL_INT64, &shape);
}

struct mpl_mask mpl_past_model_mask(struct mpl_tape *tape, const struct mpl_lm *lm,
                                    const struct mpl_tensor *embeds,
                                    struct mpl_tensor *padding_mask)
{
    const struct mpl_plan *plan = lm->network->plan; /* its window held for all layers */

    return mpl_past_causal_mask(tape, plan, &lm->past, embeds, padding_mask,
                                plan->model.sliding_window);
}
