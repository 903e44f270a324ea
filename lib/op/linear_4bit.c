/* SPDX-License-Identifier: MIT */
/*
 * Linear layers whose weight bitsandbytes keeps in 4 bits.
 *
 * source: bitsandbytes 0.50.2: nn/modules.py (Params4bit, Linear4bit), autograd/_functions.py
 * (MatMul4Bit), functional.py, backends/cuda/ops.py
 */
#include "op/linear_4bit.h"

#include "op/rule.h"
#include "op/scratch_book.h"

#define BLOCK        64  /* weights for each absmax */
#define NESTED_BLOCK 256 /* absmax for each absmax2 */

static int64_t numel_of(const struct mpl_quantized *weight)
{
    return weight->out * weight->in;
}

static int64_t blocks_of(int64_t numel, int64_t block)
{
    return (numel + block - 1) / block;
}

/* ---- making one -------------------------------------------------------------------------------
 */

static struct mpl_tensor *flat(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               int64_t n)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(n));

    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/* A reduction of a whole tensor: its result, then what the kernel takes meanwhile. */
static struct mpl_tensor *reduce(struct mpl_tape *tape, const char *op, int64_t n)
{
    struct mpl_tensor *out = mpl_hold_scalar(tape, op, MPL_FLOAT32);
    const struct mpl_scratch_card card = mpl_book_card(tape);
    const struct mpl_book book = {.op = op};
    struct mpl_scratch list = {0};

    if (!tape->has_kernel_scratch)
        return out;
    mpl_scratch_reduce_columns(&card, MPL_FLOAT32, MPL_FLOAT32, 1, n, &list);
    mpl_book_run(tape, &list, &book);
    return out;
}

/* get_4bit_type: 16 values over the largest of them */
static struct mpl_tensor *make_code(struct mpl_tape *tape)
{
    struct mpl_tensor *code = flat(tape, "_to_copy.default", MPL_FLOAT32, 16);
    struct mpl_tensor *magnitude = flat(tape, "abs.default", MPL_FLOAT32, 16);
    struct mpl_tensor *largest = mpl_hold_scalar(tape, "max.default", MPL_FLOAT32);

    mpl_drop(tape, magnitude);
    mpl_drop(tape, largest);
    return code;
}

/* The absmax in 8 bits: quantize_blockwise(absmax - absmax.mean(), blocksize=256). The float32 ones
 * live until the whole state is there. */
static void nest(struct mpl_tape *tape, struct mpl_quantized *weight, struct mpl_tensor **table)
{
    const int64_t blocks = blocks_of(numel_of(weight), BLOCK);
    struct mpl_tensor *absmax = weight->absmax, *centred;

    weight->offset = reduce(tape, "mean.default", blocks);
    centred = flat(tape, "sub.Tensor", MPL_FLOAT32, blocks);
    if (!*table)
        *table = flat(tape, "_to_copy.default", MPL_FLOAT32, 256);
    weight->absmax2 =
        flat(tape, "empty.memory_format", MPL_FLOAT32, blocks_of(blocks, NESTED_BLOCK));
    weight->absmax = flat(tape, "empty_like.default", MPL_UINT8, blocks);
    weight->code2 = flat(tape, "_to_copy.default", MPL_FLOAT32, 256);
    mpl_drop(tape, centred);
    mpl_drop(tape, absmax);
}

void mpl_quantize_4bit(struct mpl_tape *tape, struct mpl_quantized *weight,
                       struct mpl_tensor **table)
{
    const int64_t numel = numel_of(weight);
    const struct mpl_shape packed = mpl_shape2(mpl_dim((numel + 1) / 2), mpl_dim(1));

    tape->category = MPL_CATEGORY_PARAMETERS;
    weight->absmax = flat(tape, "empty.memory_format", MPL_FLOAT32, blocks_of(numel, BLOCK));
    weight->packed = mpl_hold(mpl_empty(tape, "empty.memory_format", MPL_UINT8, &packed));
    weight->code = make_code(tape);
    if (weight->is_double)
        nest(tape, weight, table);
    tape->category = MPL_CATEGORY_TEMPORARY;
}

int64_t mpl_quantized_elements(const struct mpl_quantized *weight, enum mpl_dtype storage)
{
    return (numel_of(weight) + 1) / (2 * (int64_t)mpl_dtype_size(storage));
}

uint64_t mpl_quantized_bytes(const struct mpl_quantized *weight)
{
    const struct mpl_tensor *const parts[] = {weight->packed, weight->absmax,  weight->code,
                                              weight->offset, weight->absmax2, weight->code2};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i] && !parts[i]->is_void)
            sum = mpl_add(sum, mpl_round_up(parts[i]->storage->bytes, 512));
    return sum;
}

/* ---- which kernel -----------------------------------------------------------------------------
 */

/* What the choice depends on: x [m, k] times weight [n, k]; waves count blocks of 64 columns. */
struct choice {
    int64_t m, n, k, blocks, sms;
    int cc; /* 80, 90, ... */
};

/* Weights of less than 2^22 elements: making them again costs more than it saves. */
static int64_t most_rows_small(const struct choice *c)
{
    const bool is_hbm = c->cc == 80 || c->cc / 10 == 9;

    if (c->k * 2 < c->n) {
        if (is_hbm && c->blocks * 3 < c->sms)
            return c->cc == 80 ? 1536 : 512;
        if (is_hbm)
            return c->cc == 80 ? 512 : 320;
        if (c->blocks >= c->sms)
            return 320;
        return c->blocks * c->k > c->sms * 320 ? 192 : 320;
    }
    if (c->blocks * 4 <= c->sms) {
        if (c->cc == 80)
            return c->k < c->n ? 384 : c->blocks * 8 <= c->sms ? 32 : 128;
        return c->k < c->n || is_hbm ? 32 : 23;
    }
    return c->blocks * 2 <= c->sms ? 16 : 0;
}

static int64_t most_rows_80(const struct choice *c)
{
    if (c->blocks >= c->sms * 3)
        return 128;
    if (c->blocks >= c->sms)
        return c->k < c->n ? 64 : 32;
    if (c->k >= c->n * 3 && c->blocks * 4 > c->sms)
        return 0;
    if (c->k == c->n && c->blocks >= 48 && c->blocks * 5 < c->sms * 3)
        return 0;
    if (c->blocks * 2 < c->sms && c->k <= c->n)
        return 128;
    if (c->blocks * 2 < c->sms && c->blocks * 3 >= c->sms)
        return 0;
    return c->blocks >= c->sms / 2 && c->k < c->n ? 128 : 16;
}

static int64_t most_rows_90(const struct choice *c)
{
    if (c->blocks >= c->sms)
        return c->blocks >= c->sms * 3 ? 64 : c->blocks >= c->sms * 2 ? 48 : 32;
    if (c->blocks < c->sms / 2 || (c->k >= c->n && c->blocks * 4 < c->sms * 3))
        return 0;
    return 16;
}

static int64_t most_rows_120(const struct choice *c)
{
    if (c->blocks >= c->sms * 2)
        return c->blocks >= c->sms * 3 ? 256 : 128;
    if (c->blocks * 5 >= c->sms * 4)
        return c->k >= c->n ? 96 : 64;
    if (c->blocks >= c->sms / 2)
        return c->k * 2 >= c->n && c->blocks >= 128 ? 64 : 8;
    return c->k > c->n * 2 && c->blocks > 64 ? 16 : 8;
}

/* 8.9, and what has no row of its own. */
static int64_t most_rows_89(const struct choice *c)
{
    const bool is_tall = c->k > c->n * 2;

    if (c->blocks >= c->sms * 2)
        return c->blocks >= c->sms * 3 ? 256 : 128;
    if (c->blocks * 5 >= c->sms * 4) {
        if (is_tall || c->blocks >= 200)
            return 128;
        return c->k < c->n ? 64 : c->sms >= 60 ? 128 : 32;
    }
    if (c->blocks >= c->sms / 2)
        return is_tall ? 64 : c->blocks >= 64 ? 8 : 32;
    if (c->k > c->n && c->blocks <= 48)
        return c->k >= c->n * 3 ? 12 : 10;
    return is_tall || c->blocks < 48 ? 16 : 8;
}

/* 5 to 7 rows: the fused kernel, but for tall or square weights on high-bandwidth memory. */
static bool fuses_few(const struct choice *c)
{
    const bool is_90 = c->cc / 10 == 9;

    if ((c->cc != 80 && !is_90) || c->m < 6 || c->blocks < (is_90 ? 36 : 48))
        return true;
    if (c->k > c->n && c->blocks * 4 < c->sms * 3)
        return false;
    if (c->k != c->n)
        return true;
    if (c->cc == 80)
        return c->blocks * 5 >= c->sms * 3;
    return c->blocks * 4 >= c->sms * 3 || c->blocks * 5 < c->sms * 3;
}

static int64_t most_rows(const struct choice *c)
{
    if (c->cc / 10 == 10)
        return c->blocks >= c->sms * 3 ? 32 : c->blocks >= c->sms && c->k < c->n ? 8 : 0;
    if (c->cc == 80)
        return most_rows_80(c);
    if (c->cc == 86)
        return c->blocks >= c->sms ? 128 : c->blocks >= c->sms / 2 ? 64 : 16;
    if (c->cc / 10 == 9)
        return most_rows_90(c);
    if (c->cc == 121 && c->blocks >= c->sms)
        return 256;
    return c->cc == 120 ? most_rows_120(c) : most_rows_89(c);
}

/* source: backends/cuda/ops.py, _gemm_4bit_use_custom_cuda and the dispatch below it */
bool mpl_fuses_4bit(const struct mpl_tape *tape, enum mpl_dtype dtype, int64_t rows, int64_t out,
                    int64_t in)
{
    const struct choice c = {rows,
                             out,
                             in,
                             (out + 63) / 64,
                             tape->multiprocessors,
                             (int)(tape->compute_capability * 10 + 0.5)};

    if (rows > 1536 || in % BLOCK)
        return false;
    if (rows <= 4)
        return true;
    if (dtype == MPL_FLOAT32 || c.cc < 80) /* 7.5 has its own limits for float16, not modelled */
        return rows < 8;
    if (c.cc == 87 || c.cc / 10 == 11)
        return false;
    if (c.cc / 10 != 10 && out * in < (INT64_C(1) << 22))
        return rows <= most_rows_small(&c);
    if (rows > 512)
        return false;
    return c.cc / 10 != 10 && rows < 8 ? fuses_few(&c) : rows <= most_rows(&c);
}

/* ---- the product ------------------------------------------------------------------------------
 */

/* The float32 absmax again; held, with the buffer it is made from in *buffer when that lives on. */
static struct mpl_tensor *denest(struct mpl_tape *tape, const struct mpl_quantized *weight,
                                 struct mpl_tensor **buffer)
{
    const int64_t blocks = blocks_of(numel_of(weight), BLOCK);

    *buffer = NULL;
    if (!weight->is_double)
        return NULL;
    *buffer = flat(tape, "empty_like.default", MPL_FLOAT32, blocks);
    return flat(tape, "add.Tensor", MPL_FLOAT32, blocks);
}

/* gemm_4bit: the fused kernel, or the weight made again for a plain product. Floating. */
static struct mpl_tensor *multiply(struct mpl_tape *tape, struct mpl_tensor *x,
                                   const struct mpl_quantized *weight, struct mpl_tensor *bias)
{
    const struct mpl_shape shape = mpl_shape2(mpl_dim(weight->out), mpl_dim(weight->in));
    const enum mpl_dtype dtype = (enum mpl_dtype)x->dtype;
    struct mpl_tensor *absmax, *buffer, *made, *out;
    struct mpl_shape result = x->shape;

    result.dim[result.ndim - 1] = mpl_dim(weight->out);
    if (mpl_fuses_4bit(tape, dtype, mpl_numel(x) / weight->in, weight->out, weight->in))
        return mpl_empty(tape, "gemm_4bit", dtype, &result);
    absmax = denest(tape, weight, &buffer);
    made = mpl_hold(mpl_empty(tape, "dequantize_4bit", dtype, &shape));
    out = mpl_op_linear(tape, x, made, bias);
    mpl_drop(tape, made);
    mpl_drop(tape, absmax);
    mpl_drop(tape, buffer);
    return out;
}

/* The absmax is completed in place here. */
struct mpl_tensor *mpl_op_dequantize_4bit(struct mpl_tape *tape, const struct mpl_quantized *weight)
{
    const struct mpl_shape shape = mpl_shape2(mpl_dim(weight->out), mpl_dim(weight->in));
    struct mpl_tensor *absmax = NULL, *made;

    if (weight->is_double)
        absmax = flat(tape, "empty_like.default", MPL_FLOAT32, blocks_of(numel_of(weight), BLOCK));
    made = mpl_empty(tape, "dequantize_4bit", weight->dtype, &shape);
    mpl_drop(tape, absmax);
    return made;
}

/* grad @ dequantize_4bit(weight).to(grad.dtype) */
static void backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                     struct mpl_tensor **in)
{
    const struct mpl_quantized *weight = node->context;
    const enum mpl_dtype dtype = (enum mpl_dtype)out[0]->dtype;
    struct mpl_tensor *made = mpl_hold(mpl_op_dequantize_4bit(tape, weight));
    struct mpl_shape in_shape = out[0]->shape;

    mpl_rebind(tape, &made, mpl_op_to(tape, made, dtype));
    in_shape.dim[in_shape.ndim - 1] = mpl_dim(weight->in);
    in[0] = mpl_hold(mpl_empty(tape, "mm.default", dtype, &in_shape));
    mpl_cublas_workspace(tape);
    mpl_drop(tape, made);
}

struct mpl_tensor *mpl_op_linear_4bit(struct mpl_tape *tape, struct mpl_tensor *x,
                                      struct mpl_quantized *weight, struct mpl_tensor *bias)
{
    const enum mpl_dtype given = (enum mpl_dtype)x->dtype;
    struct mpl_tensor *argument = mpl_hold(x), *a, *out;
    struct mpl_node *node;
    const bool was_enabled = tape->is_grad_enabled;
    const bool was_selective = tape->checkpoint.is_selective;

    a = mpl_hold(weight->compute == MPL_DTYPE_NONE ? mpl_return(mpl_hold(argument))
                                                   : mpl_op_to(tape, argument, weight->compute));
    node = mpl_node_new(tape, "MatMul4BitBackward", backward, &a, 1, 1, 0);
    if (node)
        node->context = weight;
    tape->is_grad_enabled = false;
    tape->checkpoint.is_selective = false; /* the product is inside bitsandbytes' own operator */
    out = a->is_void ? tape->void_tensor : multiply(tape, a, weight, bias);
    tape->checkpoint.is_selective = was_selective;
    tape->is_grad_enabled = was_enabled;
    mpl_set_history(tape, out, node, 0);
    out = mpl_op_to(tape, out, given);
    mpl_drop(tape, a);
    mpl_drop(tape, argument);
    return out;
}
