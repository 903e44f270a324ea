/* SPDX-License-Identifier: MIT */
/*
 * What families did otherwise in transformers 4.40 to 4.47, before attention functions, masks and
 * rotary tables were shared by all of them.
 *
 * A family says in which release it changed (struct mpl_past); how each of the older ways allocates
 * is written here once.
 */
#ifndef MPL_PART_PAST_H
#define MPL_PART_PAST_H

#include "part/masking.h"
#include "part/rotary.h"
#include "step/network.h"

struct mpl_attention_call;

/** What the forward did with the logits before the loss had a function of its own. */
enum mpl_past_logits {
    MPL_PAST_LOGITS_WIDE = 0, /* logits = logits.float(), whether there are labels or not */
    MPL_PAST_LOGITS_AS_THEY_ARE,
};

/** Eager attention. */
enum mpl_past_eager {
    MPL_PAST_EAGER_MASK = 0, /* as today, but inside the module: the mask has the triangle */
    MPL_PAST_EAGER_GPT2,     /* the triangle is a buffer, and the divisor a tensor */
    MPL_PAST_EAGER_NEOX,     /* baddbmm over all heads; the triangle is a buffer */
};

/** What its module did before _flash_attention_forward, besides binding queries, keys and values
 * anew, transposed and cast. */
enum mpl_past_flash {
    MPL_PAST_FLASH_PLAIN = 0,
    MPL_PAST_FLASH_REPEATED, /* keys and values for every query head */
    MPL_PAST_FLASH_BARE,     /* without the cast: it fails where something else made them wide */
    MPL_PAST_FLASH_NONE,     /* the family has no flash_attention_2 */
};

/** The releases in which a family changed: n is 4.n; 40: it had always been so, 0: not before 4.48.
 */
struct mpl_past {
    uint8_t first;              /* that has the family; 0: not modelled before 4.48 */
    uint8_t sdpa;               /* the family can have sdpa; 0: since first */
    uint8_t position_rotary;    /* a layer makes cos and sin of positions; before: rows of tables */
    uint8_t lean_rotary;        /* tables are no buffers of each layer any more */
    uint8_t shared_rotary;      /* the model makes cos and sin once for all layers */
    uint8_t lone_rotary;        /* layers have no rotary module any more */
    uint8_t free_head_dim;      /* heads may be of another width than hidden_size / heads */
    uint8_t update_mask;        /* _update_causal_mask; before: AttentionMaskConverter */
    uint8_t split_mask;         /* which has the mask made by a function of its own */
    uint8_t window_mask;        /* which looks at config.sliding_window */
    uint8_t attention_function; /* attention is a function, as from 4.48 on */
    uint8_t loss_function;      /* ForCausalLMLoss takes logits as they are */
    uint8_t flash_positions;    /* flash attention looks at position_ids for joined sequences */
    uint8_t flash_works;        /* its flash attention fails before; 0: never */
    uint8_t flash_fails;        /* its flash attention fails from here on */
    enum mpl_past_flash flash;
    enum mpl_past_eager eager;
    uint8_t
        padding_mask_only; /* up to this release eager attention is given padding only, if any */
    enum mpl_past_logits logits;
    bool has_narrow_norms;  /* RMSNorm multiplies by its weight in the format of its input */
    bool has_float_tables;  /* a layer's own tables are float32 */
    bool turns_whole_heads; /* rotary positions, although today a part may turn */
    bool keeps_strides;     /* sdpa takes queries, keys and values as they lie */
    bool has_no_rest;       /* a mask without padding has s columns; else one more */
};

/** A model of such a release under way. NULL in its place: a newer release. */
struct mpl_past_run {
    const struct mpl_past *facts;
    unsigned minor; /* of 4.minor */
    int64_t rotary_dim;
    enum mpl_dtype table_dtype; /* of tables in buffers */
};

/** transformers 4.40 to 4.47? */
bool mpl_past_is(const struct mpl_version *transformers);

/** True when the release has what came with 4.since. */
bool mpl_past_has(const struct mpl_past_run *run, uint8_t since);

/** Refuses what a release of 4.x does not have, and what is not modelled of those before 4.48. */
enum memplan_status mpl_past_check(const struct mpl_plan *plan, const struct mpl_past *facts,
                                   struct memplan_error *err);

/** Buffers of attention that no kernel reads any more: bias, a bool triangle over all positions,
 * and masked_bias. */
void mpl_past_add_bias(struct mpl_network *network);

/** The mask of all layers: numbers of the dtype of embeds [b, 1, s, s], or none where sdpa makes
 * the triangle itself. padding_mask [b, s] or NULL; window 0: none. */
struct mpl_mask mpl_past_causal_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                     const struct mpl_past_run *run,
                                     const struct mpl_tensor *embeds,
                                     struct mpl_tensor *padding_mask, int64_t window);

/** How a layer with tables of its own turned heads: whole ones always as llama does. */
enum mpl_rotary_kind mpl_past_rotary_kind(enum mpl_rotary_kind kind);

/** The mask of an encoder's layers: numbers [b, 1, s, s] for sdpa, none without padding; for eager
 * [b, 1, 1, s]. *ones_out is a name of the caller, or NULL: the padding mask that stands for none.
 */
struct mpl_mask mpl_past_encoder_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                      const struct mpl_tensor *embeds,
                                      struct mpl_tensor *padding_mask,
                                      struct mpl_tensor **ones_out);

/** cos and sin of one layer, held, and the names that attention keeps beside them. */
struct mpl_past_tables {
    struct mpl_tensor *cos, *sin;
    struct mpl_tensor *kept[2];
};

/** rotary_emb in a layer, in the dtype of values [b, heads, s, d], which are borrowed. */
void mpl_past_tables_make(struct mpl_tape *tape, const struct mpl_past_run *run,
                          const struct mpl_tensor *values, struct mpl_past_tables *out);
/** apply_rotary_pos_emb has returned: what it alone had named goes. */
void mpl_past_tables_applied(struct mpl_tape *tape, const struct mpl_past_run *run,
                             struct mpl_past_tables *tables);
/** Attention has returned. */
void mpl_past_tables_drop(struct mpl_tape *tape, struct mpl_past_tables *tables);

/** Eager attention of gpt2 and gpt_neox (past_eager.c): contiguous [b, s, heads, d]. */
struct mpl_tensor *mpl_past_eager_gpt(struct mpl_tape *tape, const struct mpl_attention_call *call,
                                      struct mpl_tensor **weights_out);

/** Attention of flash_attention_2 inside the module (past_flash.c): laid out as q; call->q and so
 * on are bound anew. */
struct mpl_tensor *mpl_past_flash(struct mpl_tape *tape, const struct mpl_plan *plan,
                                  struct mpl_attention_call *call);

/** What _flash_attention_forward asks of position_ids [1, s] when there is no mask: are sequences
 * joined? They are not. */
void mpl_past_look_for_joined(struct mpl_tape *tape, const struct mpl_past_run *run,
                              struct mpl_dim s);

/** Attention in the module itself: as mpl_attention_interface, but keys and values are bound anew
 * (call->k, call->v) when their heads are repeated. */
struct mpl_tensor *mpl_past_attention(struct mpl_tape *tape, const struct mpl_plan *plan,
                                      struct mpl_attention_call *call,
                                      struct mpl_tensor **weights_out);

#endif
