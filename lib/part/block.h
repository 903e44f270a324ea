/* SPDX-License-Identifier: MIT */
/* A decoder layer with its choices: norms before or after each part, one residual stream or two
 * parts side by side, the kind of MLP. */
#ifndef MPL_PART_BLOCK_H
#define MPL_PART_BLOCK_H

#include "part/causal_lm.h"

enum mpl_mlp_kind {
    MPL_MLP_GATED = 0, /* gate_proj, up_proj, down_proj: LlamaMLP */
    MPL_MLP_JOINED,    /* gate_up_proj in two chunks, down_proj: Phi3MLP */
    MPL_MLP_PLAIN,     /* up, activation, down: NemotronMLP, Starcoder2MLP */
};

struct mpl_mlp {
    enum mpl_mlp_kind kind;
    struct mpl_linear gate, up, down; /* joined: up is gate_up_proj */
    double dropout;                   /* of the result */
};

/** Adds mlp.gate_up_proj and mlp.down_proj, without bias. */
struct mpl_mlp mpl_mlp_add_joined(struct mpl_network *network);

/** Adds mlp.gate_proj, mlp.up_proj and mlp.down_proj. */
struct mpl_mlp mpl_mlp_add_gated(struct mpl_network *network, bool has_bias);

/** Adds two projections under their names ("mlp.up_proj"). */
struct mpl_mlp mpl_mlp_add_plain(struct mpl_network *network, const char *up, const char *down,
                                 bool has_bias);

/** A norm that a layer may not have. */
struct mpl_maybe_norm {
    bool is_here;
    struct mpl_norm norm;
};

struct mpl_block {
    struct mpl_lm_layer base;
    struct mpl_attention_module attention;
    struct mpl_mlp mlp;
    struct mpl_maybe_norm before_attention, after_attention, before_mlp, after_mlp;
    bool is_scaled;          /* granite: both parts are multiplied before they are added */
    bool has_no_rotary;      /* of this layer */
    double residual_dropout; /* of what is added */
};

/** Adds a norm over the residual stream. */
struct mpl_maybe_norm mpl_block_norm(struct mpl_network *network, enum mpl_norm_kind kind,
                                     const char *name);

/** x + attention(x), then x + mlp(x), with the norms that there are. context: struct mpl_block. */
mpl_forward mpl_block_forward;

/** x + attention(norm(x)) + mlp(norm(x)) with one norm (before_attention): cohere. */
mpl_forward mpl_block_parallel_forward;

/** The layer's attention, rotary tables and mask as its kind wants them; weights_out as of
 * mpl_attention_interface. */
struct mpl_tensor *mpl_block_attend(struct mpl_tape *tape, const struct mpl_block *block,
                                    struct mpl_tensor *h, struct mpl_tensor **weights_out);

struct mpl_tensor *mpl_mlp_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_mlp *mlp, struct mpl_tensor *x);

#endif
