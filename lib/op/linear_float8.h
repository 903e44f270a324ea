/* SPDX-License-Identifier: MIT */
/*
 * Linear layers whose products torchao computes in float8 (Float8Linear): the weight and what is
 * kept for backward stay as they are, operands are cast for each product.
 */
#ifndef MPL_OP_LINEAR_FLOAT8_H
#define MPL_OP_LINEAR_FLOAT8_H

#include "op/op.h"

/** What of Float8LinearConfig changes sizes. */
struct mpl_float8_config {
    bool is_rowwise;         /* one scale for each row of an operand; else one for all of it */
    bool has_wide_weight_mm; /* rowwise_with_gw_hp: the weight's gradient is not in float8 */
    bool rounds_scales;      /* round_scales_to_power_of_2 */
};

/** A Float8TrainingTensor: codes of one byte, and scales. Both are held. */
struct mpl_float8_operand {
    struct mpl_tensor *codes, *scale;
    bool is_rowwise;
};

/** What a layer multiplies by; all borrowed. */
struct mpl_float8_layer {
    struct mpl_tensor *weight; /* [out, in] */
    struct mpl_tensor *scale;  /* NULL, or the weight's: it is made of codes already */
    struct mpl_tensor *bias;   /* [out], or NULL */
    const struct mpl_float8_config *config;
};

/**
 * Float8Linear.forward: x [.., in] times the weight transposed, plus the bias. Consumes a floating
 * x.
 *
 * source  torchao 0.18.0: float8/float8_linear.py (matmul_with_hp_or_float8_args, Float8Linear),
 *         float8_utils.py, float8_training_tensor.py, float8_ops.py
 */
struct mpl_tensor *mpl_op_linear_float8(struct mpl_tape *tape, struct mpl_tensor *x,
                                        const struct mpl_float8_layer *layer);

/** fsdp_pre_all_gather: a shard in float8, its scale that of all ranks' shards.
 * source  torchao 0.18.0: float8/fsdp_utils.py (WeightWithDynamicFloat8CastTensor) */
struct mpl_float8_operand mpl_float8_cast_shard(struct mpl_tape *tape, struct mpl_tensor *shard,
                                                const struct mpl_float8_config *config);

#endif
