/* SPDX-License-Identifier: MIT */
/* Attention of transformers' decoders: the interface (eager, sdpa) and the usual module around it.
 */
#ifndef MPL_PART_ATTENTION_H
#define MPL_PART_ATTENTION_H

#include "part/masking.h"
#include "part/norm.h"
#include "part/past.h"
#include "part/rotary.h"

/** What eager attention does between scores and weights. */
enum mpl_eager_softmax {
    MPL_SOFTMAX_WIDE = 0,     /* softmax(scores, dtype=float32).to(query.dtype) */
    MPL_SOFTMAX_OWN,          /* bert: softmax(scores) */
    MPL_SOFTMAX_CAST,         /* gpt2: softmax(scores), then .type(value.dtype) */
    MPL_SOFTMAX_CAST_AT_ONCE, /* gptj: softmax(scores).to(value.dtype) */
};

/** What a family hands to its attention interface. Tensors are borrowed. */
struct mpl_attention_call {
    struct mpl_tensor *q;    /* [b, heads, s, d] */
    struct mpl_tensor *k;    /* [b, kv heads, s, d] */
    struct mpl_tensor *v;    /* [b, kv heads, s, d of values] */
    struct mpl_tensor *mask; /* NULL: none */
    bool is_causal;          /* without a mask sdpa makes the triangle */
    bool is_capped;          /* eager: scores go through softcap * tanh(scores / softcap) */
    int64_t window;          /* flash attention: tokens that it looks back; 0: all */
    bool is_wide;            /* eager: scores of queries and keys in float32 */
    enum mpl_eager_softmax softmax;
    double dropout;           /* of the weights; 0: none */
    struct mpl_tensor *sinks; /* eager: [heads], a score more in each row (gpt_oss); NULL: none */
    const struct mpl_past_run *past; /* a release before 4.48; NULL: none */
};

/** ALL_ATTENTION_FUNCTIONS[attn_implementation](...): floating [b, s, heads, d], contiguous
 * but for flash attention. *weights_out is a held local of the caller: eager's attention weights,
 * flex attention's log-sum-exp, else NULL. */
struct mpl_tensor *mpl_attention_interface(struct mpl_tape *tape, const struct mpl_plan *plan,
                                           const struct mpl_attention_call *call,
                                           struct mpl_tensor **weights_out);

/** The same of attn_implementation="flash_attention_2" or 3: laid out as q. (flash_attention.c) */
struct mpl_tensor *mpl_flash_attention(struct mpl_tape *tape, const struct mpl_plan *plan,
                                       const struct mpl_attention_call *call);

/** _flash_attention_forward of qkv [b, s, heads, d], held; of call its mask, dropout and the like
 * count. Floating [b, s, heads, d]. */
struct mpl_tensor *mpl_flash_attention_rows(struct mpl_tape *tape, const struct mpl_plan *plan,
                                            const struct mpl_attention_call *call,
                                            struct mpl_tensor *const qkv[3]);

/** *scores, held, become softcap * tanh(scores / softcap). */
void mpl_attention_cap(struct mpl_tape *tape, struct mpl_tensor **scores);

/** repeat_kv: every key or value head for its group of query heads; a copy, or x itself. Floating;
 * x is borrowed. */
struct mpl_tensor *mpl_repeat_kv(struct mpl_tape *tape, struct mpl_tensor *x, int64_t groups);

/** x [b, s, heads, d] as [b, s, heads * d]; consumes a floating x. */
struct mpl_tensor *mpl_merge_heads(struct mpl_tape *tape, struct mpl_tensor *x);

/** Where queries and keys are normalised. */
enum mpl_qk_norm_place {
    MPL_QK_NORM_BY_HEAD = 0, /* qwen3: each projection at once, by head */
    MPL_QK_NORM_WHOLE,       /* olmo2: each projection at once, before it is cut into heads */
    MPL_QK_NORM_LATE,        /* cohere: by head, when all three are projected */
    MPL_QK_NORM_TRANSPOSED,  /* gemma3: as cohere, heads in front of positions */
};

/** The module that most decoders have: four projections, maybe norms of queries and keys by head.
 */
struct mpl_attention_module {
    struct mpl_linear q, k, v, o;
    bool is_joined;                 /* q is qkv_proj, cut by slices; no k, v */
    struct mpl_norm q_norm, k_norm; /* weight MPL_NO_PARAMETER: none */
    enum mpl_qk_norm_place norm_place;
    enum mpl_rotary_kind rotary;
    double clip;        /* olmo: projections are clamped in place; 0: not */
    double out_dropout; /* starcoder2: of what o_proj gives */
    int64_t heads, kv_heads, head_dim;
};

/** Adds q_proj, k_proj, v_proj (with bias or not) and o_proj under network->prefix + name, sizes
 * from the plan; norms are left out. */
struct mpl_attention_module mpl_attention_add(struct mpl_network *network, const char *name,
                                              bool has_qkv_bias, bool has_o_bias);

/** LlamaAttention.forward: projections, rotary positions (cos NULL: none), interface, o_proj. */
struct mpl_tensor *mpl_attention_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                         const struct mpl_attention_module *module,
                                         struct mpl_tensor *x, const struct mpl_attention_call *how,
                                         struct mpl_tensor *cos, struct mpl_tensor *sin,
                                         struct mpl_tensor **weights_out);

#endif
