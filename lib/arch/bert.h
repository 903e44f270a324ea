/* SPDX-License-Identifier: MIT */
/* What the encoders of BERT's form share: embeddings, layers, the head of masked language models.
 */
#ifndef MPL_ARCH_BERT_H
#define MPL_ARCH_BERT_H

#include "arch/arch.h"
#include "part/causal_lm.h"

/** What differs between BERT and RoBERTa. */
struct mpl_bert_form {
    const char *head;       /* of its other parameters: "cls.predictions." */
    const char *head_dense; /* under it: "transform.dense" */
    const char *head_norm;  /* "transform.LayerNorm" */
    bool counts_positions;  /* positions are counted from the tokens, not read from a buffer */
    bool has_types_first;   /* parameters: token types stand before positions */
    bool has_gelu_head;     /* the head's activation is gelu, whatever hidden_act says */
    const char *pooler;     /* classification: the dense layer on the first token */
    bool is_pooler_outside; /* it belongs to the head: no base before its name, dropout before it */
};

struct mpl_bert_layer {
    struct mpl_lm_layer base;
    struct mpl_linear q, k, v, dense;
    struct mpl_plain_mlp mlp;
    struct mpl_norm attention_norm, last_norm;
};

/** Describes ...ForMaskedLM; family holds the names of its modules and MPL_BERT_HOOKS. */
enum memplan_status mpl_bert_build(struct mpl_network *network, const struct mpl_lm_family *family,
                                   const struct mpl_bert_form *form, struct memplan_error *err);

void mpl_bert_describe_layer(struct mpl_network *network, struct mpl_lm_layer *layer);
void mpl_bert_describe_embedding(struct mpl_lm *lm);
void mpl_bert_describe_end(struct mpl_lm *lm);
void mpl_bert_make_positions(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *mask);
void mpl_bert_make_masks(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds,
                         struct mpl_tensor *attention_mask);
struct mpl_tensor *mpl_bert_before_masks(struct mpl_tape *tape, struct mpl_lm *lm,
                                         struct mpl_tensor *embeds);
struct mpl_tensor *mpl_bert_pool(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h);
struct mpl_tensor *mpl_bert_leave(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h);
struct mpl_tensor *mpl_bert_loss(struct mpl_tape *tape, struct mpl_tensor *logits,
                                 struct mpl_tensor *labels);
mpl_forward mpl_bert_embed;
mpl_forward mpl_bert_layer_forward;

/** Names of the configuration classes. */
extern const struct mpl_config_key mpl_bert_keys[];

/** The members of struct mpl_lm_family that both have. */
#define MPL_BERT_HOOKS                                                                             \
    .embedding = "embeddings.word_embeddings", .layers = "encoder.layer", .has_no_rotary = true,   \
    .layer_size = sizeof(struct mpl_bert_layer), .layer_room = 16,                                 \
    .describe_layer = mpl_bert_describe_layer, .layer_forward = mpl_bert_layer_forward,            \
    .describe_embedding = mpl_bert_describe_embedding, .describe_end = mpl_bert_describe_end,      \
    .embed = mpl_bert_embed, .make_positions = mpl_bert_make_positions,                            \
    .before_masks = mpl_bert_before_masks, .make_masks = mpl_bert_make_masks,                      \
    .leave = mpl_bert_leave, .pool = mpl_bert_pool, .loss = mpl_bert_loss, .has_head_bias = true,  \
    .has_joined_head = true, .extra_room = 12

#endif
