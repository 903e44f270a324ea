/* SPDX-License-Identifier: MIT */
/* The EAGLE-3 drafter as SpecForge trains it: what its files share. For arch/specforge*.c only. */
#ifndef MPL_ARCH_SPECFORGE_H
#define MPL_ARCH_SPECFORGE_H

#include "arch/eagle3.h"
#include "step/network.h"

/** Parameters and buffers, in the order of the module's attributes. */
enum mpl_specforge_weight {
    MPL_SPECFORGE_T2D = 0,
    MPL_SPECFORGE_D2T,
    MPL_SPECFORGE_EMBED,
    MPL_SPECFORGE_Q,
    MPL_SPECFORGE_K,
    MPL_SPECFORGE_V,
    MPL_SPECFORGE_O,
    MPL_SPECFORGE_INVERSE_FREQUENCY,
    MPL_SPECFORGE_COS,
    MPL_SPECFORGE_SIN,
    MPL_SPECFORGE_GATE,
    MPL_SPECFORGE_UP,
    MPL_SPECFORGE_DOWN,
    MPL_SPECFORGE_HIDDEN_NORM,
    MPL_SPECFORGE_INPUT_NORM,
    MPL_SPECFORGE_POST_NORM,
    MPL_SPECFORGE_FC,
    MPL_SPECFORGE_NORM,
    MPL_SPECFORGE_HEAD,
    MPL_SPECFORGE_WEIGHTS,
};

/** Names of forward; held. */
struct mpl_specforge_locals {
    struct mpl_tensor *ids, *loss_mask, *attention_mask; /* of the strategy */
    struct mpl_tensor *states, *logits;                  /* of the target */
    struct mpl_tensor *teacher, *teacher_on_draft, *teacher_ids, *position_mask;
    struct mpl_tensor *positions, *mask;
    struct mpl_tensor *shifted_ids, *shifted_loss_mask; /* of the loop over steps */
    struct mpl_tensor *view_ids, *view_position_mask, *view_loss_mask, *view_teacher,
        *view_teacher_on_draft, *view_teacher_ids; /* of StepState */
    struct mpl_tensor *embeds, *hidden;
    struct mpl_tensor *term, *weights; /* of attention */
};

struct mpl_specforge {
    struct mpl_network *network;
    struct mpl_eagle3_sizes sizes; /* tokens: of the whole batch */
    struct mpl_dim batch, length;
    uint32_t weight[MPL_SPECFORGE_WEIGHTS];
    struct mpl_tensor *target_head; /* [vocab, hidden], a module of its own; held */
    struct mpl_specforge_locals l;
    bool is_flex, has_compiled, has_grown;
    int64_t table_rows; /* positions that cosines and sines reach */
    int64_t micro;      /* forwards so far */
    /* held: of each step of training-time test; flex_attention: the first are the caches */
    struct mpl_tensor **keys, **values;
    int64_t step;                /* of training-time test, from 0 */
    struct mpl_tensor **losses;  /* of each step; held */
    struct mpl_tensor **outputs; /* numbers that metrics keep; held */
    uint32_t output_count;
    struct mpl_tensor *garbage[3]; /* caches and mask in cycles that compiling left behind */
};

/** mpl_arch_eagle3.build for framework.name specforge */
enum memplan_status mpl_specforge_build(struct mpl_network *network, struct memplan_error *err);

/** Parameter or buffer as its module sees it. */
static inline struct mpl_tensor *mpl_specforge_weight(const struct mpl_specforge *s,
                                                      enum mpl_specforge_weight i)
{
    return mpl_network_weight(s->network, s->weight[i]);
}

/** A held tensor of a graph that takes no gradient. */
static inline struct mpl_tensor *mpl_specforge_make(struct mpl_tape *tape, const char *op,
                                                    enum mpl_dtype dtype, struct mpl_shape shape)
{
    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/** Takes something and gives it back at once. */
static inline void mpl_specforge_pass(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                                      struct mpl_shape shape)
{
    mpl_drop(tape, mpl_specforge_make(tape, op, dtype, shape));
}

/** [batch, length, cols]; cols 0: two dimensions */
static inline struct mpl_shape mpl_specforge_shape(const struct mpl_specforge *s, int64_t cols)
{
    return cols ? mpl_shape3(s->batch, s->length, mpl_dim(cols)) : mpl_shape2(s->batch, s->length);
}

/** Adds a held number to what the metrics keep until the step ends. */
void mpl_specforge_keep(struct mpl_specforge *s, struct mpl_tensor *number);

/** Compiled LlamaRMSNorm.forward of x [batch, length, hidden]; floating. */
struct mpl_tensor *mpl_specforge_norm(struct mpl_tape *tape, struct mpl_specforge *s,
                                      enum mpl_specforge_weight i, struct mpl_tensor *x);

/** LlamaDecoderLayer.forward: embeds and hidden [batch, length, hidden], held by the caller;
 * floating. */
struct mpl_tensor *mpl_specforge_layer(struct mpl_tape *tape, struct mpl_specforge *s,
                                       struct mpl_tensor *embeds, struct mpl_tensor *hidden);

/** self_attn of a floating x [batch, length, 2 * hidden]; floating. */
struct mpl_tensor *mpl_specforge_attention(struct mpl_tape *tape, struct mpl_specforge *s,
                                           struct mpl_tensor *x);

/** prepare_decoder_attention_mask: s->l.mask */
void mpl_specforge_mask(struct mpl_tape *tape, struct mpl_specforge *s);

/** _compute_target_p_padded: the teacher's names in s->l. */
void mpl_specforge_teacher(struct mpl_tape *tape, struct mpl_specforge *s);

/** _acc_and_loss of logits [batch, length, draft_vocab], held by the caller: a held scalar. */
struct mpl_tensor *mpl_specforge_loss(struct mpl_tape *tape, struct mpl_specforge *s,
                                      struct mpl_tensor *logits);

/** network->forward: OnlineEagle3Model.forward; its result is the last step's loss. */
struct mpl_tensor *mpl_specforge_forward(struct mpl_tape *tape, struct mpl_network *network,
                                         struct mpl_batch *batch, struct mpl_tensor **logits_out);

#endif
