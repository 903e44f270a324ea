/* SPDX-License-Identifier: MIT */
/*
 * What causal language models of transformers share around their layers: embedding, positions,
 * masks, rotary tables, the loop over the layers, last norm, head and loss.
 *
 * A family gives a struct mpl_lm_family: names of its modules, how one layer is described and run,
 * and what its Model.forward does otherwise than Llama's.
 */
#ifndef MPL_PART_CAUSAL_LM_H
#define MPL_PART_CAUSAL_LM_H

#include "part/attention.h"
#include "part/mlp.h"
#include "part/rope_update.h"

struct mpl_lm;

#define MPL_LM_LOCALS 4

/** First member of every family's struct of a layer. */
struct mpl_lm_layer {
    struct mpl_lm *lm;
    uint32_t index;
    bool is_sliding; /* its attention looks back model.sliding_window tokens only */
};

struct mpl_lm_family {
    struct mpl_past past;  /* what it was before transformers 4.48 */
    bool has_inner_model;  /* base is a module in the model's own, both of them called */
    const char *base;      /* attribute of ...ForCausalLM that holds the model: "model" */
    const char *embedding; /* of the base: "embed_tokens" */
    const char *layers;    /* "layers" */
    const char *norm;      /* "norm"; NULL: no last norm */
    const char *head;      /* "lm_head" */
    enum mpl_norm_kind norm_kind;
    bool has_head_bias;
    bool has_full_mask; /* causal_mask_mapping: full attention's mask even if no layer uses it; its
                           arguments, in a dict, outlive the names of the forward */
    bool has_sliding_mask;   /* makes the mask of sliding attention even if no layer slides */
    bool has_no_rotary;      /* no rotary tables, no inv_freq buffers */
    bool has_sliding_rotary; /* tables and buffers of their own for each kind of layer */
    bool has_float_rotary;   /* tables stay float32 */
    bool has_joined_head; /* leave and head are one module: the head's input goes when it is used */
    bool has_plain_mask;  /* create_causal_mask gets no positions: nobody looks for packing */
    bool has_no_score;    /* no ...ForSequenceClassification, or code of its own for it */
    const char *score;    /* where that code is modelled (pool): the last linear layer, with bias */
    size_t layer_size;    /* sizeof of the family's struct of a layer */
    uint32_t layer_room;  /* most parameters of one layer */
    /** Adds a layer's parameters in the order of named_parameters(); network->prefix is set. */
    void (*describe_layer)(struct mpl_network *network, struct mpl_lm_layer *layer);
    /** context is the layer. */
    mpl_forward *layer_forward;

    /* What differs from Llama; NULL: as Llama does it. */
    /** Parameters between embedding and layers. */
    void (*describe_embedding)(struct mpl_lm *lm);
    /** Parameters after the last norm and before the head. */
    void (*describe_end)(struct mpl_lm *lm);
    /** The embedding module itself: floating [b, s, h]. */
    mpl_forward *embed; /* context: struct mpl_lm */
    /** From the embedding module to inputs_embeds, before anything else; takes a floating tensor,
     * gives one. */
    struct mpl_tensor *(*prepare)(struct mpl_tape *tape, struct mpl_lm *lm,
                                  struct mpl_tensor *embeds);
    /** Sets lm->positions, held, or what is in their place. */
    void (*make_positions)(struct mpl_tape *tape, struct mpl_lm *lm,
                           struct mpl_tensor *attention_mask);
    /** What Model.forward does to the embeddings before it makes the masks; as enter. */
    struct mpl_tensor *(*before_masks)(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_tensor *embeds);
    /** Sets lm->full and lm->sliding; attention_mask [b, s] or NULL. */
    void (*make_masks)(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds,
                       struct mpl_tensor *attention_mask);
    /** From embeddings to the first layer's input; takes a floating tensor, gives one. Called after
     * the masks are made. */
    struct mpl_tensor *(*enter)(struct mpl_tape *tape, struct mpl_lm *lm,
                                struct mpl_tensor *embeds);
    /** In place of the last norm. */
    struct mpl_tensor *(*end)(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h);
    /** After the last norm, before the head. */
    struct mpl_tensor *(*leave)(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h);
    /** For sequence classification, in place of leave: from the last hidden states (borrowed) to
     * the input of the last linear layer, floating. */
    struct mpl_tensor *(*pool)(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h);
    /** From the head's result to the logits; takes a floating tensor, gives one. */
    struct mpl_tensor *(*finish_logits)(struct mpl_tape *tape, struct mpl_lm *lm,
                                        struct mpl_tensor *logits);
    /** Sets lm->cos and lm->sin from the first layer's input, which is borrowed. */
    void (*make_rotary)(struct mpl_tape *tape, struct mpl_lm *lm, const struct mpl_tensor *h);
    /** From logits and labels (borrowed) to the loss. */
    struct mpl_tensor *(*loss)(struct mpl_tape *tape, struct mpl_tensor *logits,
                               struct mpl_tensor *labels);
    /** From the loss of the logits to the loss. */
    struct mpl_tensor *(*finish_loss)(struct mpl_tape *tape, struct mpl_lm *lm,
                                      struct mpl_tensor *attention_mask, struct mpl_tensor *loss);
    /** Room for parameters outside the layers, besides embedding, norm, head and buffers. */
    uint32_t extra_room;
};

/** A model under way. Tensors are the Python locals of Model.forward. */
struct mpl_lm {
    struct mpl_network *network;
    const struct mpl_lm_family *family;
    char *layers;                   /* layer_size bytes each */
    uint32_t embed, position_table; /* parameters; the second one where positions are learned */
    uint32_t embed_scale;           /* gemma's buffer */
    struct mpl_norm norm;
    struct mpl_linear head;
    uint32_t head_bias; /* the bias of a head that is tied; MPL_NO_PARAMETER: none */
    int64_t rotary_dim; /* elements of a head that turn */
    struct mpl_tensor *input_ids, *embeds;        /* embeds: inputs_embeds, held */
    struct mpl_tensor *attention_mask;            /* borrowed; NULL: none */
    struct mpl_tensor *positions;                 /* int64 [s], or what the family has for them */
    struct mpl_tensor *cos, *sin;                 /* [1, 1, s, rotary_dim] */
    struct mpl_tensor *sliding_cos, *sliding_sin; /* of layers that slide, if they have their own */
    struct mpl_rope_state rope;
    struct mpl_past_run past; /* facts NULL: transformers 4.48 or newer */
    struct mpl_tensor *alibi; /* positions as a bias of scores; NULL: none */
    struct mpl_mask full, sliding;
    struct mpl_tensor
        *locals[MPL_LM_LOCALS]; /* others of it, and after it of the caller; or NULL */
    void *extra;                /* the family's own */
    uint64_t model;             /* number of the module below the head, for scopes */
};

/** Describes the whole model into network. */
enum memplan_status mpl_lm_build(struct mpl_network *network, const struct mpl_lm_family *family,
                                 struct memplan_error *err);

/** The same with lm->extra set before the family describes itself. */
enum memplan_status mpl_lm_build_with(struct mpl_network *network,
                                      const struct mpl_lm_family *family, void *extra,
                                      struct memplan_error *err);

/** Is it trained for sequence classification with code of the family's own? */
bool mpl_lm_pools(const struct mpl_lm *lm);

/** The model without its head: floating last hidden states [b, s, h]. */
struct mpl_tensor *mpl_lm_hidden(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_batch *batch);

/** The head on hidden states: floating logits. */
struct mpl_tensor *mpl_lm_logits(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h);

/** What else a frozen model's forward still holds goes. */
void mpl_lm_leave(struct mpl_tape *tape, struct mpl_lm *lm);

/** For layers: the mask that fits the layer, as a call of the attention interface without q, k, v;
 * dropout and softcap from the plan. */
struct mpl_attention_call mpl_lm_attention_call(const struct mpl_lm_layer *layer);

/** LlamaDecoderLayer.forward's wiring, for families that have it: x + attention(norm(x)), then
 * + mlp(norm(x)). */
struct mpl_prenorm_layer {
    struct mpl_lm_layer base;
    struct mpl_attention_module attention;
    struct mpl_gated_mlp mlp;
    struct mpl_norm input_norm, post_norm;
};

mpl_forward mpl_prenorm_layer_forward;

/** Adds self_attn (biases as told), mlp, input_layernorm and post_attention_layernorm. */
void mpl_prenorm_layer_describe(struct mpl_network *network, struct mpl_prenorm_layer *layer,
                                bool has_qkv_bias, bool has_o_bias);

/** model.layer_types as the configuration classes of Qwen set them where a config does not. */
void mpl_lm_derive_qwen_layer_types(struct mpl_plan *plan);

/** model.layer_types where a config does not give them: all slide but every period-th one. */
void mpl_lm_fill_layer_pattern(struct mpl_model *model, int64_t period);

/** transformers 4.40 to 4.47 (past_model.c): sets lm->past. */
void mpl_past_begin(struct mpl_lm *lm);
/** Adds the buffers of a rotary module of the model, of each layer, or of both; first with tables.
 */
void mpl_past_describe_rotary(struct mpl_lm *lm);
/** The kind of norms of the residual stream in the plan's release, where it is kind today. */
enum mpl_norm_kind mpl_past_norm_kind(const struct mpl_lm *lm, enum mpl_norm_kind kind);
/** arange(0, s): int64 [s]; floating. */
struct mpl_tensor *mpl_past_positions(struct mpl_tape *tape, const struct mpl_tensor *input_ids);
/** The mask of all layers, held. */
struct mpl_mask mpl_past_model_mask(struct mpl_tape *tape, const struct mpl_lm *lm,
                                    const struct mpl_tensor *embeds,
                                    struct mpl_tensor *padding_mask);

/** A family's check: layers that slide need a window. */
enum memplan_status mpl_lm_check_window(const struct mpl_plan *plan, struct memplan_error *err);

/** model.layer_types where a config does not give them: every layer sliding, or none. */
void mpl_lm_fill_layer_types(struct mpl_model *model, enum mpl_layer_type type);

#endif
