/* SPDX-License-Identifier: MIT */
/* Normalisation layers of families: their parameters and their call. */
#ifndef MPL_PART_NORM_H
#define MPL_PART_NORM_H

#include "part/linear.h"

enum mpl_norm_kind {
    MPL_NORM_RMS = 0,     /* LlamaRMSNorm: weight * x.to(dtype) */
    MPL_NORM_RMS_ONE,     /* GemmaRMSNorm: (x * (1 + weight.float())).type_as(x) */
    MPL_NORM_LAYER,       /* nn.LayerNorm, weight and bias */
    MPL_NORM_RMS_WIDE,    /* Olmo2RMSNorm, GptOssRMSNorm: (weight * x).to(dtype) */
    MPL_NORM_LAYER_ONE,   /* NemotronLayerNorm1P: the weight is one less; float32 or autocast's */
    MPL_NORM_LAYER_WIDE,  /* CohereLayerNorm: written out in float32, no bias */
    MPL_NORM_LAYER_HEADS, /* StableLmLayerNormPerHead: nn.LayerNorm without bias for each head */
    MPL_NORM_LAYER_PLAIN, /* OlmoLayerNorm: float32, neither weight nor bias */
};

struct mpl_norm {
    enum mpl_norm_kind kind;
    uint32_t weight, bias;
};

/** Adds network->prefix + name + ".weight" [width], and for a LayerNorm ".bias" [width]. */
struct mpl_norm mpl_norm_add(struct mpl_network *network, enum mpl_norm_kind kind, const char *name,
                             int64_t width);

/** As mpl_norm_add with a weight for each head: [heads, width], or LAYER_HEADS' [width] each. */
struct mpl_norm mpl_norm_add_by_head(struct mpl_network *network, enum mpl_norm_kind kind,
                                     const char *name, int64_t heads, int64_t width);

/** norm(x) over the last dimension; consumes a floating x, the result is floating. */
struct mpl_tensor *mpl_norm_call(struct mpl_tape *tape, const struct mpl_network *network,
                                 const struct mpl_norm *norm, struct mpl_tensor *x);

#endif
