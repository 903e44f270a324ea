/* SPDX-License-Identifier: MIT */
/* The MTP drafter: what its files share. For arch/mtp*.c only. */
#ifndef MPL_ARCH_MTP_H
#define MPL_ARCH_MTP_H

#include "arch/eagle3.h"
#include "op/sdpa_choice.h"

/** The layer's parameters, in the order of named_parameters(). */
enum mpl_mtp_weight {
    MPL_MTP_Q = 0,
    MPL_MTP_K,
    MPL_MTP_V,
    MPL_MTP_O,
    MPL_MTP_Q_NORM,
    MPL_MTP_K_NORM,
    MPL_MTP_GATE,
    MPL_MTP_UP,
    MPL_MTP_DOWN,
    MPL_MTP_INPUT_NORM,
    MPL_MTP_POST_NORM,
    MPL_MTP_HIDDEN_NORM,
    MPL_MTP_TOKEN_NORM,
    MPL_MTP_PROJECTION,
    MPL_MTP_FINAL_NORM,
    MPL_MTP_WEIGHTS,
};

struct mpl_mtp_compiled;

struct mpl_mtp {
    struct mpl_network *network;
    const struct mpl_speculators *release;
    struct mpl_eagle3_sizes sizes; /* of the compiler; tokens: of one step */
    struct mpl_dim tokens;         /* of the whole sequence */
    int64_t steps;
    uint32_t embed, head, layer[MPL_MTP_WEIGHTS];
    enum mpl_sdpa_kernel kernel;
    int64_t lse_align; /* tokens; of attention's log-sum-exp */

    /* the training loop's names; held */
    struct mpl_eagle3_batch batch;
    struct mpl_tensor **outputs, **old_outputs;
    uint32_t output_count, old_output_count, output_cap;

    struct mpl_mtp_compiled *compiled; /* two: without and with a gradient of the input */

    /* locals of forward that the layer sees; held */
    struct mpl_tensor *embeds, *cos, *sin, *mask;
};

/** A held tensor in two dimensions; cols 0: in one. */
struct mpl_tensor *mpl_mtp_make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                                int64_t cols);

/** A held matrix whose columns may be tokens, too. */
struct mpl_tensor *mpl_mtp_square(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                                  struct mpl_dim cols);

/** Columns of the mask as numbers that attention reads. */
struct mpl_dim mpl_mtp_mask_cols(const struct mpl_mtp *m);

/** Rows of the log-sum-exp that attention keeps. */
struct mpl_dim mpl_mtp_lse_rows(const struct mpl_mtp *m);

/** The layer: x [tokens, hidden] to the same; floating. context: struct mpl_mtp. */
struct mpl_tensor *mpl_mtp_layer(struct mpl_tape *tape, void *context, struct mpl_tensor *x);

/** Names of one step's loss that live until the next one's take over; held. */
struct mpl_mtp_loss {
    struct mpl_tensor *targets, *each, *count, *step, *total;
};

/** Cross entropy of a step's logits [tokens, vocab], added to the total. */
void mpl_mtp_add_loss(struct mpl_tape *tape, struct mpl_mtp *m, struct mpl_tensor *logits,
                      struct mpl_mtp_loss *loss);

/** Adds a held tensor to what forward returns. */
void mpl_mtp_return(struct mpl_mtp *m, struct mpl_tensor *tensor);

/** network->forward */
struct mpl_tensor *mpl_mtp_forward(struct mpl_tape *tape, struct mpl_network *network,
                                   struct mpl_batch *batch, struct mpl_tensor **logits_out);

#endif
