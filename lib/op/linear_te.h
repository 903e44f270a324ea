/* SPDX-License-Identifier: MIT */
/*
 * te.Linear of Transformer Engine: products in float8 whose cast operands are what backward keeps.
 */
#ifndef MPL_OP_LINEAR_TE_H
#define MPL_OP_LINEAR_TE_H

#include "op/op.h"

/** What all layers of a process share. */
struct mpl_te_config {
    bool is_delayed;        /* DelayedScaling; else Float8CurrentScaling */
    int64_t history_length; /* amax_history_len */
    int64_t layers;         /* that have run, so that their amaxes are in the global buffers */
    bool has_first;         /* in this autocast context a layer has run */
    struct mpl_tensor *gemm_workspace; /* NULL: no product yet */
};

enum {
    MPL_TE_SCALE_FORWARD, /* float32 [3]: input, weight, output */
    MPL_TE_AMAX_FORWARD,  /* float32 [history, 3] */
    MPL_TE_SCALE_BACKWARD,
    MPL_TE_AMAX_BACKWARD, /* the same of gradients of output and input: [2], [history, 2] */
    MPL_TE_STATES,
};

/** One module. */
struct mpl_te_layer {
    struct mpl_te_config *config;
    struct mpl_tensor *states[MPL_TE_STATES]; /* from its first forward on; delayed only */
    bool is_ready;
};

/**
 * te.Linear.forward inside te.autocast, is_first_microbatch not given: x [.., in] times weight
 * [out, in] transposed, plus bias [out] or NULL. Consumes a floating x.
 *
 * source  Transformer Engine 2.18: pytorch/module/linear.py (_linear_forward_impl,
 *         _linear_backward), module/base.py, quantization.py (DelayedScalingRecipeState),
 *         tensor/storage/float8_tensor_storage.py, cpp_extensions/gemm.py, csrc/quantizer.cpp,
 *         csrc/extensions/gemm.cpp, csrc/extensions/bias.cpp
 */
struct mpl_tensor *mpl_op_linear_te(struct mpl_tape *tape, struct mpl_tensor *x,
                                    struct mpl_tensor *weight, struct mpl_tensor *bias,
                                    struct mpl_te_layer *layer);

/** The end of te.autocast: amaxes of all layers are put together and forward's scales updated.
 * source  quantization.py (autocast_exit, reduce_and_update_fp8_tensors) */
void mpl_te_autocast_exit(struct mpl_tape *tape, struct mpl_te_config *config);

/** Bytes of the workspace that all products of te share: 32 MiB + 1024 from 9.0 on, else 4 MiB.
 * source  cpp_extensions/gemm.py (get_cublas_workspace_size_bytes) */
int64_t mpl_te_gemm_workspace(double compute_capability);

/** Rows of the float32 [rows of it, columns] in which the cast of a bias's gradient adds up
 * [rows, columns] of that element size.
 * source  common/transpose/cast_transpose_fusion.cu (KernelConfig, cast_transpose_fused,
 *         populate_cast_transpose_dbias_workspace_config); without a transpose
 *         common/cast/fp8/quantize_fp8.cuh (quantize_2D) */
int64_t mpl_te_bias_rows(const struct mpl_tape *tape, int64_t rows, int64_t columns, int64_t size);

#endif
