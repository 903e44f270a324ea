/* SPDX-License-Identifier: MIT */
/*
 * Which kernel torch's scaled_dot_product_attention takes on a CUDA device.
 *
 * source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (select_sdp_backend and the checks
 * that its can_use_*_attention functions list), transformers/sdp_utils_cpp.h. Checked against
 * PyTorch 2.14.1; where an earlier release differs, the rule names the release.
 */
#include "op/sdpa_choice.h"

/* 8.6 gives 86: tests of equality need whole numbers. */
static int architecture(const struct mpl_sdpa_call *call)
{
    return (int)(call->compute_capability * 10.0 + 0.5);
}

static bool is_at_least(const struct mpl_version *version, int major, int minor)
{
    return version->major > major || (version->major == major && version->minor >= minor);
}

static bool is_half(enum mpl_dtype dtype)
{
    return dtype == MPL_FLOAT16 || dtype == MPL_BFLOAT16;
}

static bool has_mask(const struct mpl_sdpa_call *call)
{
    return call->mask == MPL_SDPA_MASK_BOOL || call->mask == MPL_SDPA_MASK_FLOAT;
}

/* check_dtypes_low_precision: bfloat16 needs Ampere. */
static bool is_low_precision(const struct mpl_sdpa_call *call)
{
    return call->dtype == MPL_FLOAT16 || (call->dtype == MPL_BFLOAT16 && architecture(call) >= 80);
}

/* check_batch_size_and_num_heads_dense with grouped heads supported */
static bool has_valid_groups(const struct mpl_sdpa_call *call)
{
    return call->kv_heads > 0 && call->heads % call->kv_heads == 0;
}

/* ---- cuDNN ------------------------------------------------------------------------------------
 */

/*
 * check_prefer_cudnn_attention: in front of the others on 9.x and 10.x where the wheel brings a
 * cuDNN that is new enough. 2.9 preferred it, 2.10 asks for cuDNN 9.15.1, which wheels have from
 * 2.11 on. Elsewhere cuDNN stands behind the math path, which takes everything.
 */
static bool prefers_cudnn(const struct mpl_sdpa_call *call)
{
    const int arch = architecture(call);

    if (!call->cudnn_allowed || arch < 90 || arch >= 110)
        return false;
    return is_at_least(&call->pytorch, 2, 11) ||
           (call->pytorch.major == 2 && call->pytorch.minor == 9);
}

/* check_cudnn_tensor_shapes and check_cudnn_d256_bprop_head_dim: sizes up to 128; a query of 192
 * with a value of 128; from 2.14 on (cuDNN frontend 1.24) up to 256, backward for 256 only. */
static bool has_cudnn_head_dims(const struct mpl_sdpa_call *call)
{
    const int arch = architecture(call);
    const int64_t q = call->head_dim, v = call->value_head_dim;
    const bool is_data_center = arch == 90 || (arch >= 100 && arch < 110);
    bool is_wide = false;

    if (q % 8 != 0 || v % 8 != 0)
        return false;
    if (is_data_center && q == 192 && v == 128)
        return true;
    if (is_data_center && is_at_least(&call->pytorch, 2, 14))
        is_wide = call->requires_grad ? q == 256 && v == 256 : q <= 256 && v <= 256;
    return (q <= 128 && v <= 128) || is_wide;
}

static bool cudnn_fits(const struct mpl_sdpa_call *call)
{
    const double sixteenths = call->dropout * 16.0;

    return is_low_precision(call) && has_valid_groups(call) && has_cudnn_head_dims(call) &&
           call->batch <= 65535 && call->heads <= 65535 && call->key_tokens != 1 &&
           !(call->dropout > 0.0 && call->query_tokens == 1) &&
           sixteenths <= (double)(int)sixteenths; /* check_cudnn_dropout: steps of 1/16 */
}

/* ---- flash and memory-efficient ---------------------------------------------------------------
 */

/* check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120: little shared memory */
static bool flash_backward_fits(const struct mpl_sdpa_call *call)
{
    const int arch = architecture(call);
    const bool is_small = (arch >= 86 && arch <= 89) || arch == 120 || arch == 121;

    if (!call->requires_grad || !is_small || call->head_dim <= 192)
        return true;
    return call->dropout <= 0.0 && call->head_dim > 224;
}

static bool flash_fits(const struct mpl_sdpa_call *call)
{
    const int arch = architecture(call);

    return arch >= 80 && arch <= 121 && is_low_precision(call) && has_valid_groups(call) &&
           !has_mask(call) && call->head_dim == call->value_head_dim && call->head_dim <= 256 &&
           !(call->mask == MPL_SDPA_MASK_CAUSAL && call->query_tokens != call->key_tokens) &&
           flash_backward_fits(call);
}

/* minimum_gemm_alignment: elements in 16 bytes where tensor cores multiply, else one */
static int64_t gemm_alignment(const struct mpl_sdpa_call *call)
{
    const bool is_narrow = is_half(call->dtype);

    if (architecture(call) >= 80 || (architecture(call) >= 70 && is_narrow))
        return is_narrow ? 8 : 4;
    return 1;
}

static bool efficient_fits(const struct mpl_sdpa_call *call)
{
    const int arch = architecture(call);
    const int64_t align = gemm_alignment(call);
    /* before 2.14 this kernel did not take grouped heads */
    const bool takes_groups = is_at_least(&call->pytorch, 2, 14);

    return arch >= 50 && arch <= 121 && (call->dtype == MPL_FLOAT32 || is_low_precision(call)) &&
           (call->heads == call->kv_heads || (takes_groups && has_valid_groups(call))) &&
           call->head_dim > 0 && call->value_head_dim > 0 && call->head_dim % align == 0 &&
           call->value_head_dim % align == 0;
}

enum mpl_sdpa_kernel mpl_sdpa_choose(const struct mpl_sdpa_call *call)
{
    if (prefers_cudnn(call) && cudnn_fits(call))
        return MPL_SDPA_CUDNN;
    if (flash_fits(call))
        return MPL_SDPA_FLASH;
    if (efficient_fits(call))
        return MPL_SDPA_EFFICIENT;
    return MPL_SDPA_MATH;
}
