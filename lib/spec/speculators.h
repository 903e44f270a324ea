/* SPDX-License-Identifier: MIT */
/* Releases of the speculators library, as far as they differ in the memory of a step. */
#ifndef MPL_SPEC_SPECULATORS_H
#define MPL_SPEC_SPECULATORS_H

#include <stdbool.h>

struct mpl_speculators {
    const char *version;
    bool has_verifier_norm;
    bool sums_rows;    /* the loss is summed for each token first, and weighted */
    bool freezes_head; /* the drafter's head is the verifier's; vocabulary modules come first */
    bool casts_model;  /* to the format of the hidden states */
    bool has_autocast; /* to that format, and the root group has the layer's policy; document ids
                          come with the batch, and the next tokens are the real ones */
    bool has_fused_loss;
};

/** NULL: a release that is not modelled. */
const struct mpl_speculators *mpl_speculators_find(const char *version);

#endif
