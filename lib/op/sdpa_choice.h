/* SPDX-License-Identifier: MIT */
/* Which kernel torch's scaled_dot_product_attention takes on a CUDA device. */
#ifndef MPL_OP_SDPA_CHOICE_H
#define MPL_OP_SDPA_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/plan.h"
#include "table/dtype.h"

enum mpl_sdpa_kernel {
    MPL_SDPA_MATH,      /* plain operators: scores are kept, memory is quadratic */
    MPL_SDPA_FLASH,     /* FlashAttention 2 */
    MPL_SDPA_EFFICIENT, /* CUTLASS, from xFormers */
    MPL_SDPA_CUDNN,
};

enum mpl_sdpa_mask {
    MPL_SDPA_MASK_NONE,
    MPL_SDPA_MASK_CAUSAL, /* is_causal=True */
    MPL_SDPA_MASK_BOOL,
    MPL_SDPA_MASK_FLOAT, /* added to the scores */
};

/** One call: query [batch, heads, query_tokens, head_dim], key and value [batch, kv_heads,
 * key_tokens, ...], on dense tensors whose last dimension is contiguous. */
struct mpl_sdpa_call {
    struct mpl_version pytorch;
    double compute_capability;
    enum mpl_dtype dtype;
    int64_t batch, query_tokens, key_tokens, heads, kv_heads, head_dim, value_head_dim;
    enum mpl_sdpa_mask mask;
    bool requires_grad;
    double dropout;
    bool cudnn_allowed; /* false: cuDNN attention is switched off or put last by the user */
};

/** The first kernel, in PyTorch's order of preference, whose conditions hold. */
enum mpl_sdpa_kernel mpl_sdpa_choose(const struct mpl_sdpa_call *call);

#endif
