/* SPDX-License-Identifier: MIT */
/* Releases of the speculators library, as far as they differ in the memory of a step. */
#ifndef MPL_SPEC_SPECULATORS_H
#define MPL_SPEC_SPECULATORS_H

#include <stdbool.h>

struct mpl_speculators {
    const char *version;
    bool has_verifier_norm;
    bool sums_rows;   /* the loss is summed for each token first, and weighted */
    bool casts_model; /* to the format of the hidden states; the verifier's weights are frozen */
};

/** NULL: a release that is not modelled. */
const struct mpl_speculators *mpl_speculators_find(const char *version);

#endif
