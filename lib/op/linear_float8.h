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

/**
 * Float8Linear.forward: x [.., in] times weight [out, in] transposed, plus bias [out] (or NULL).
 * Consumes a floating x; weight and bias are borrowed.
 *
 * source  torchao 0.18.0: float8/float8_linear.py (matmul_with_hp_or_float8_args, Float8Linear),
 *         float8_utils.py, float8_training_tensor.py, float8_ops.py
 */
struct mpl_tensor *mpl_op_linear_float8(struct mpl_tape *tape, struct mpl_tensor *x,
                                        struct mpl_tensor *weight, struct mpl_tensor *bias,
                                        const struct mpl_float8_config *config);

#endif
