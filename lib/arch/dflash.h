/* SPDX-License-Identifier: MIT */
/* The DFlash drafter: what its files share. For arch/dflash*.c only. */
#ifndef MPL_ARCH_DFLASH_H
#define MPL_ARCH_DFLASH_H

#include "arch/eagle3.h"
#include "part/block_mask.h"

#define MPL_DFLASH_MASKS   9  /* lists of the block mask, and what its function reads */
#define MPL_DFLASH_OUTPUTS 16 /* numbers that one forward returns */

/** A layer's parameters, in the order of named_parameters(). */
enum mpl_dflash_weight {
    MPL_DFLASH_Q = 0,
    MPL_DFLASH_K,
    MPL_DFLASH_V,
    MPL_DFLASH_O,
    MPL_DFLASH_Q_NORM,
    MPL_DFLASH_K_NORM,
    MPL_DFLASH_GATE,
    MPL_DFLASH_UP,
    MPL_DFLASH_DOWN,
    MPL_DFLASH_INPUT_NORM,
    MPL_DFLASH_POST_NORM,
    MPL_DFLASH_WEIGHTS,
};

struct mpl_dflash;
struct mpl_dflash_compiled;

struct mpl_dflash_layer {
    struct mpl_dflash *dflash;
    uint32_t weights[MPL_DFLASH_WEIGHTS];
    char name[32];
};

struct mpl_dflash {
    struct mpl_network *network;
    const struct mpl_speculators *release;
    struct mpl_eagle3_sizes sizes;        /* of the compiler; tokens: of the sequence */
    struct mpl_dim tokens, drafted, keys; /* drafted: of all blocks; keys: both */
    int64_t anchors, block, layers, fed;  /* fed: layers of the verifier */
    struct mpl_dflash_layer *layer;
    uint32_t embed, head, verifier_head, norm, fc, hidden_norm, verifier_norm;

    /* the training loop's names; held */
    struct mpl_eagle3_batch batch;
    struct mpl_tensor *outputs[MPL_DFLASH_OUTPUTS], *old_outputs[MPL_DFLASH_OUTPUTS];
    int output_count, old_output_count;

    struct mpl_dflash_compiled *compiled; /* two: without and with a gradient of the input */

    /* locals of forward that the layers see; held */
    struct mpl_tensor *target_hidden, *cos, *sin, *masks[MPL_DFLASH_MASKS];
};

/** A held tensor in two dimensions; cols 0: in one. */
struct mpl_tensor *mpl_dflash_make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                                   int64_t cols);

/** A layer: x [drafted, hidden] to the same; floating. context: struct mpl_dflash_layer. */
struct mpl_tensor *mpl_dflash_layer(struct mpl_tape *tape, void *context, struct mpl_tensor *x);

/** RMSNorm of x [rows, hidden], compiled: floating. */
struct mpl_tensor *mpl_dflash_norm(struct mpl_tape *tape, struct mpl_dflash *d,
                                   struct mpl_tensor *x, uint32_t weight, struct mpl_dim rows);

/** The sizes that the compiler's choices for sums over rows depend on. */
struct mpl_eagle3_sizes mpl_dflash_rows(const struct mpl_dflash *d, struct mpl_dim rows);

/** Loss and metrics; mask: bool [drafted], held by the caller. A floating scalar. */
struct mpl_tensor *mpl_dflash_loss(struct mpl_tape *tape, struct mpl_dflash *d,
                                   struct mpl_tensor *logits, struct mpl_tensor *targets,
                                   struct mpl_tensor *mask);

/** Adds a held tensor to what forward returns. */
void mpl_dflash_return(struct mpl_dflash *d, struct mpl_tensor *tensor);

/** network->forward */
struct mpl_tensor *mpl_dflash_forward(struct mpl_tape *tape, struct mpl_network *network,
                                      struct mpl_batch *batch, struct mpl_tensor **logits_out);

#endif
