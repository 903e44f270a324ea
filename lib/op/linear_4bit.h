/* SPDX-License-Identifier: MIT */
/*
 * Linear layers whose weight bitsandbytes keeps in 4 bits: what the weight takes, how it is made,
 * and the product.
 */
#ifndef MPL_OP_LINEAR_4BIT_H
#define MPL_OP_LINEAR_4BIT_H

#include "op/op.h"

/** Params4bit and its QuantState. Tensors are held, NULL until the weight is quantised. */
struct mpl_quantized {
    int64_t out, in;            /* of the weight */
    enum mpl_dtype dtype;       /* that it had: backward makes it again in this one */
    enum mpl_dtype compute;     /* MPL_DTYPE_NONE: the input's */
    bool is_double;             /* absmax is quantised in blocks itself */
    struct mpl_tensor *packed;  /* uint8, two weights in each */
    struct mpl_tensor *absmax;  /* one for each block of 64: float32, or uint8 when is_double */
    struct mpl_tensor *code;    /* float32 [16] */
    struct mpl_tensor *offset;  /* is_double: float32 scalar */
    struct mpl_tensor *absmax2; /* is_double: float32, one for each 256 of absmax */
    struct mpl_tensor *code2;   /* is_double: float32 [256] */
};

/**
 * Quantises a weight that lies on the card: fills in the tensors. *table is NULL or what an earlier
 * call left there: the table of 8-bit values, of which each double-quantised weight has a copy.
 *
 * shape   blocks = ceil(out * in / 64); packed [(out * in + 1) / 2, 1]
 * source  bitsandbytes 0.50.2: functional.py (quantize_4bit, quantize_blockwise, get_4bit_type),
 *         backends/cuda/ops.py
 */
void mpl_quantize_4bit(struct mpl_tape *tape, struct mpl_quantized *weight,
                       struct mpl_tensor **table);

/** Elements of the packed tensor in a format that it passes for: [elements, 1]. */
int64_t mpl_quantized_elements(const struct mpl_quantized *weight, enum mpl_dtype storage);

/** Bytes that stay: packed weight and statistics, each rounded up to 512. */
uint64_t mpl_quantized_bytes(const struct mpl_quantized *weight);

/** Linear4bit.forward: x [.., in] to [.., out] in x's dtype. Consumes a floating x; bias (or NULL)
 * is borrowed and in the dtype of the product. */
struct mpl_tensor *mpl_op_linear_4bit(struct mpl_tape *tape, struct mpl_tensor *x,
                                      struct mpl_quantized *weight, struct mpl_tensor *bias);

/** dequantize_4bit: the weight [out, in] in the format that it had, without gradient; floating. */
struct mpl_tensor *mpl_op_dequantize_4bit(struct mpl_tape *tape,
                                          const struct mpl_quantized *weight);

/** Does the fused kernel multiply rows x [in] by the weight [out, in], without the weight being
 * made again? */
bool mpl_fuses_4bit(const struct mpl_tape *tape, enum mpl_dtype dtype, int64_t rows, int64_t out,
                    int64_t in);

#endif
