/* SPDX-License-Identifier: MIT */
/* The drafter of EAGLE-1 and EAGLE-2: what its files share. For arch/eagle*.c only. */
#ifndef MPL_ARCH_EAGLE_H
#define MPL_ARCH_EAGLE_H

#include "op/op.h"
#include "part/linear.h"
#include "step/network.h"

/** Parameters of one layer; input_norm: MPL_NO_PARAMETER in the first one. */
struct mpl_eagle_layer {
    struct mpl_eagle *eagle;
    uint32_t q, k, v, o, q_bias, k_bias, v_bias, gate, up, down, input_norm, post_norm;
    uint32_t cos, sin; /* buffers */
    /* arguments of the checkpointed call; borrowed */
    struct mpl_tensor *input, *mask, *positions;
};

/** What the collator makes, on the card; held. */
struct mpl_eagle_batch {
    struct mpl_tensor *input_ids, *hidden_states, *target, *attention_mask, *loss_mask;
};

/** Names of the script, which live until they are bound again; held. */
struct mpl_eagle_names {
    struct mpl_tensor *predict, *target_logits, *target_p, *loss_mask, *logits, *loss;
    struct mpl_tensor *vloss, *ploss;                 /* until the step ends */
    struct mpl_tensor *most, *predicted, *target_ids; /* most: "_" */
    struct mpl_tensor *right[3], *sums[3];            /* topkacc, top_3acc */
};

struct mpl_eagle {
    struct mpl_network *network;
    struct mpl_dim batch, length;
    int64_t hidden, heads, kv_heads, head_dim, inner, vocab;
    uint32_t embed, fc, fc_bias;
    struct mpl_tensor *head; /* the target's [vocab, hidden], float32, a module of its own; held */
    struct mpl_eagle_layer *layers;
    int64_t layer_count;
    struct mpl_eagle_batch data;
    struct mpl_eagle_names names;
};

/** [batch, length, cols]; cols 0: two dimensions */
static inline struct mpl_shape mpl_eagle_shape(const struct mpl_eagle *e, int64_t cols)
{
    return cols ? mpl_shape3(e->batch, e->length, mpl_dim(cols)) : mpl_shape2(e->batch, e->length);
}

/** A parameter or buffer as its module sees it; NULL: none. */
static inline struct mpl_tensor *mpl_eagle_weight(const struct mpl_eagle *e, uint32_t i)
{
    return i == MPL_NO_PARAMETER ? NULL : mpl_network_weight(e->network, i);
}

/** Model.forward: floating hidden states [batch, length, hidden]. */
struct mpl_tensor *mpl_eagle_forward(struct mpl_tape *tape, struct mpl_network *network,
                                     struct mpl_batch *batch, struct mpl_tensor **logits_out);

/** LlamaDecoderLayer.forward; context: struct mpl_eagle_layer. */
mpl_forward mpl_eagle_layer_forward;

/** From the call of the model to the loss that backward starts from, borrowed. */
struct mpl_tensor *mpl_eagle_loss(struct mpl_tape *tape, struct mpl_network *network);

/** What the script counts after the optimizer's step. */
void mpl_eagle_metrics(struct mpl_tape *tape, struct mpl_network *network);

#endif
