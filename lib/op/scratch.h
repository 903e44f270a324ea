/* SPDX-License-Identifier: MIT */
/*
 * The memory that CUDA kernels take from the caching allocator inside one operator, besides its
 * results: what a dispatcher-level trace does not see and torch.cuda.max_memory_allocated() does.
 *
 * Each function writes the requests of one operator, in their order. Bytes are as requested, before
 * the allocator rounds. Checked against PyTorch 2.14.1 built with CUDA 13.0.
 */
#ifndef MPL_OP_SCRATCH_H
#define MPL_OP_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "op/sdpa_choice.h"
#include "table/dtype.h"

enum mpl_scratch_kind {
    MPL_SCRATCH_TAKE,   /* bytes are requested; the takes are numbered from 0 */
    MPL_SCRATCH_GIVE,   /* take number `which` is released */
    MPL_SCRATCH_RESULT, /* here the operator requests its result number `which` */
};

struct mpl_scratch_step {
    uint64_t bytes; /* of a TAKE or a RESULT */
    uint8_t kind;   /* enum mpl_scratch_kind */
    uint8_t which;
};

#define MPL_SCRATCH_STEPS 64

/** Everything that is taken is given back before the operator returns. */
struct mpl_scratch {
    uint8_t count, takes;
    struct mpl_scratch_step steps[MPL_SCRATCH_STEPS];
};

/** What the sizes depend on besides shapes. */
struct mpl_scratch_card {
    double compute_capability;
    int64_t multiprocessors;
};

/**
 * Bytes of a cuBLAS workspace: one for each pair of handle and stream (handles are per thread, and
 * autograd's engine has a thread of its own), requested at a thread's first matrix product right
 * after its result, and kept for good.
 *
 * shape   4096 KiB x 8 on capability 9, and from 10 on in newer releases; else 4096 KiB x 2 + 16
 *         KiB x 8
 * source  aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize; seen on 12.0: the
 *         smaller one with 2.9.1 and 2.10.0, the larger one with 2.14.1; between them not known
 * limits  CUBLAS_WORKSPACE_CONFIG is not read
 */
uint64_t mpl_scratch_cublas_workspace(const struct mpl_version *pytorch, double compute_capability);

/* ---- reductions (scratch_reduce.c) ------------------------------------------------------------
 */

/** Sum, mean or norm of a contiguous [rows, columns] over its rows: result [columns]. */
void mpl_scratch_reduce_rows(const struct mpl_scratch_card *card, enum mpl_dtype from,
                             enum mpl_dtype to, int64_t rows, int64_t columns,
                             struct mpl_scratch *out);

/** The same over its columns: result [rows]. With rows = 1 it is the reduction of a whole tensor.
 */
void mpl_scratch_reduce_columns(const struct mpl_scratch_card *card, enum mpl_dtype from,
                                enum mpl_dtype to, int64_t rows, int64_t columns,
                                struct mpl_scratch *out);

/** The largest value (max, amax) of a contiguous [rows, columns] over its rows, or its columns.
 * source  aten/src/ATen/native/cuda/ReduceMaxValuesKernel.cu */
void mpl_scratch_max_rows(const struct mpl_scratch_card *card, enum mpl_dtype dtype, int64_t rows,
                          int64_t columns, struct mpl_scratch *out);
void mpl_scratch_max_columns(const struct mpl_scratch_card *card, enum mpl_dtype dtype,
                             int64_t rows, int64_t columns, struct mpl_scratch *out);

/* ---- attention (scratch_attention.c) ----------------------------------------------------------
 */

/** A call of fused attention: query [batch, heads, query_tokens, head_dim], and so on. */
struct mpl_scratch_attention {
    enum mpl_sdpa_kernel kernel;
    enum mpl_dtype dtype;
    int64_t batch, query_tokens, key_tokens, heads, kv_heads, head_dim, value_head_dim;
    bool has_dropout;
    bool is_token_major; /* query, output and its gradient lie as [batch, tokens, heads, size] */
    int64_t sequences; /* of the flash-attn package: that are joined to one, batch is 1; 0: none */
    int64_t longest;   /* of flash-attn-3: tokens of the longest of those */
    bool is_causal, is_local, is_capped; /* of flash-attn-3: a triangle; a window; capped scores */
};

enum mpl_attention_result {
    MPL_ATTENTION_OUT,
    MPL_ATTENTION_LSE, /* log-sum-exp of each row, float32 */
    MPL_ATTENTION_SEED,
    MPL_ATTENTION_OFFSET, /* the seed and offset of efficient attention with dropout stay on the
                             CPU: they have no step */
};

/** Forward: results are numbered by enum mpl_attention_result. */
void mpl_scratch_attention_forward(const struct mpl_scratch_card *card,
                                   const struct mpl_scratch_attention *call,
                                   struct mpl_scratch *out);

/** Backward: results 0, 1, 2 are the gradients of query, key, value. */
void mpl_scratch_attention_backward(const struct mpl_scratch_card *card,
                                    const struct mpl_scratch_attention *call,
                                    struct mpl_scratch *out);

/** The same for the flash-attn package: output, log-sum-exp and seeds (MPL_ATTENTION_SEED). */
void mpl_scratch_flash_attn_forward(const struct mpl_scratch_card *card,
                                    const struct mpl_scratch_attention *call,
                                    struct mpl_scratch *out);

/** Its backward, without results: the package's Python makes the gradients before. */
void mpl_scratch_flash_attn_backward(const struct mpl_scratch_attention *call,
                                     struct mpl_scratch *out);

/** The same for the package flash-attn-3 (scratch_flash3.c), which has no seeds. */
void mpl_scratch_flash_attn_3_forward(const struct mpl_scratch_card *card,
                                      const struct mpl_scratch_attention *call,
                                      struct mpl_scratch *out);
void mpl_scratch_flash_attn_3_backward(const struct mpl_scratch_card *card,
                                       const struct mpl_scratch_attention *call,
                                       struct mpl_scratch *out);

/* ---- others (scratch.c) -----------------------------------------------------------------------
 */

/** embedding_dense_backward: tokens indices into [rows, columns]; result 0 is the gradient. */
void mpl_scratch_embedding_backward(const struct mpl_scratch_card *card, int64_t tokens,
                                    int64_t rows, int64_t columns, enum mpl_dtype dtype,
                                    struct mpl_scratch *out);

/** topk(count) over the rows of a [rows, columns]: results 0 (values) and 1 (indices); what several
 * blocks for one row share, where rows are long enough for them. */
void mpl_scratch_topk(const struct mpl_scratch_card *card, int64_t rows, int64_t columns,
                      int64_t count, enum mpl_dtype dtype, struct mpl_scratch *out);

/** Bytes of _foreach_norm's partial sums for tensors of one dtype, the largest of max_numel
 * elements: requested before its results, released when all of them exist. */
uint64_t mpl_scratch_foreach_norm(int64_t tensors, int64_t max_numel, enum mpl_dtype dtype);

/** Bytes of the product grad * output that _softmax_backward_data (not the log form) keeps while
 * it runs: [numel], requested after its result. */
uint64_t mpl_scratch_softmax_backward(int64_t numel, enum mpl_dtype output);

/* ---- for the files that write lists -----------------------------------------------------------
 */

/** Appends a request; returns its number. A list that would be too long keeps its head: no
 * operator above comes near. */
uint8_t mpl_scratch_take(struct mpl_scratch *out, uint64_t bytes);
void mpl_scratch_give(struct mpl_scratch *out, uint8_t take);
void mpl_scratch_result(struct mpl_scratch *out, uint8_t which, uint64_t bytes);

#endif
