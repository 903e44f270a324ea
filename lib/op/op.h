/* SPDX-License-Identifier: MIT */
/*
 * Operators: forward rule (what is allocated, in which order, in which dtype), what is kept for
 * backward, and the backward rule. Names are PyTorch's; formulas for gradients are those of
 * tools/autograd/derivatives.yaml, and gradients of one operator are computed in the order of its
 * generated code (arguments in alphabetical order).
 *
 * Every operator returns a floating tensor and lets go of floating arguments. A gradient that is
 * wanted is computed; kernels that take memory for themselves book it (op/scratch.h).
 */
#ifndef MPL_OP_OP_H
#define MPL_OP_OP_H

#include "tape/tape.h"

/** Most parts of a chunked tensor. */
#define MPL_MAX_CHUNKS 64
/** Most parts of a split. */
#define MPL_MAX_PARTS 4

/* ---- pointwise: result has the broadcast shape, laid out as TensorIterator would ------------ */
struct mpl_tensor *mpl_op_add(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b);
struct mpl_tensor *mpl_op_mul(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b);
/** a *= number, a /= number */
struct mpl_tensor *mpl_op_scale_in_place(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_sub(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b);
struct mpl_tensor *mpl_op_div(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b);
struct mpl_tensor *mpl_op_add_scalar(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_mul_scalar(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_mul_number(struct mpl_tape *tape,
                                     struct mpl_tensor *a); /* tensor * 0.5 */
struct mpl_tensor *mpl_op_div_scalar(struct mpl_tape *tape, struct mpl_tensor *a);
/** a / b, where b takes no gradient. */
struct mpl_tensor *mpl_op_div_constant(struct mpl_tape *tape, struct mpl_tensor *a,
                                       struct mpl_tensor *b);
struct mpl_tensor *mpl_op_exp(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_log_sigmoid(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_square(struct mpl_tape *tape, struct mpl_tensor *a); /* pow(2) */
struct mpl_tensor *mpl_op_rsqrt(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_neg(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_silu(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_gelu(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_tanh(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_sigmoid(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_relu(struct mpl_tape *tape, struct mpl_tensor *a);
/** Activations that transformers writes out: NewGELU, FastGELU, QuickGELU (activations.py). */
struct mpl_tensor *mpl_op_gelu_new(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_gelu_fast(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_quick_gelu(struct mpl_tape *tape, struct mpl_tensor *a);
/** clamp_(min, max) in place: the same storage; a copy of what was there is kept for backward. */
struct mpl_tensor *mpl_op_clamp_in_place(struct mpl_tape *tape, struct mpl_tensor *a);
/** view_as_real(view_as_complex(a) * b): a float32, its last dimension pairs; b complex64, for
 * which int64 stands (of its size, and no floating format either), without gradient. */
struct mpl_tensor *mpl_op_complex_mul(struct mpl_tape *tape, struct mpl_tensor *a,
                                      struct mpl_tensor *b);
/** where(condition, a, number), the condition a buffer and the number a tensor of the format of a.
 */
struct mpl_tensor *mpl_op_where(struct mpl_tape *tape, struct mpl_tensor *a);
/** maximum(a, b), b a scalar without gradient. */
struct mpl_tensor *mpl_op_maximum(struct mpl_tape *tape, struct mpl_tensor *a,
                                  struct mpl_tensor *b);
/** a.masked_fill(mask, number) */
struct mpl_tensor *mpl_op_masked_fill(struct mpl_tape *tape, struct mpl_tensor *a,
                                      struct mpl_tensor *mask);
/** torch.minimum of two tensors of one shape and dtype. */
struct mpl_tensor *mpl_op_minimum(struct mpl_tape *tape, struct mpl_tensor *a,
                                  struct mpl_tensor *b);
/** a.clamp(max), or with both bounds. */
struct mpl_tensor *mpl_op_clamp(struct mpl_tape *tape, struct mpl_tensor *a, bool has_both);
/** native_dropout with probability p, in training; the tensor itself when p is 0. */
struct mpl_tensor *mpl_op_dropout(struct mpl_tape *tape, struct mpl_tensor *a, double p);
/** tensor.to(dtype): the tensor itself when it is of that dtype. */
struct mpl_tensor *mpl_op_to(struct mpl_tape *tape, struct mpl_tensor *a, enum mpl_dtype dtype);
/** A result of the shape of a that no gradient flows through (cos, le, where, ...). */
struct mpl_tensor *mpl_op_map(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                              struct mpl_tensor *a, struct mpl_tensor *b);

/* ---- in place: the result is the first argument under its new history ------------------------ */
/** a += b; b no wider than a. */
struct mpl_tensor *mpl_op_add_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                       struct mpl_tensor *b);
/** a /= b */
struct mpl_tensor *mpl_op_div_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                       struct mpl_tensor *b);
/** a.masked_fill_(mask, number), a[mask] = number where a is no view */
struct mpl_tensor *mpl_op_masked_fill_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                               struct mpl_tensor *mask);
/** a[mask] = number on a view of a dense tensor. */
struct mpl_tensor *mpl_op_index_put_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                             struct mpl_tensor *mask);
/** base[..., from:to].copy_(source): source has the slice's shape. */
struct mpl_tensor *mpl_op_copy_into_slice(struct mpl_tape *tape, struct mpl_tensor *base,
                                          struct mpl_tensor *source);

/** base.view_as(b) += b, where the view's elements are all of the base's: [n, 1, k] and [n, k]. */
struct mpl_tensor *mpl_op_add_to_view(struct mpl_tape *tape, struct mpl_tensor *base,
                                      struct mpl_tensor *b);

/* ---- reductions ------------------------------------------------------------------------------ */
/** layer_norm over the last dimension; weight and bias [h] or NULL. Under autocast in float32. */
struct mpl_tensor *mpl_op_layer_norm(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *weight, struct mpl_tensor *bias);
/** linalg.norm(a, dim=-1) of a matrix that takes no gradient. */
struct mpl_tensor *mpl_op_norm_last(struct mpl_tape *tape, struct mpl_tensor *a);
/** logsumexp over the last dimension, which goes. */
struct mpl_tensor *mpl_op_logsumexp(struct mpl_tape *tape, struct mpl_tensor *a);
/** The same, but it stays as 1. */
struct mpl_tensor *mpl_op_logsumexp_keep(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_mean_last(struct mpl_tape *tape, struct mpl_tensor *a); /* keepdim */
/** sum over one dimension; keeps: it stays, as 1. Under autocast in float32. */
struct mpl_tensor *mpl_op_sum_dim(struct mpl_tape *tape, struct mpl_tensor *a, int dim, bool keeps);
/** sum(dim=-1, dtype) */
struct mpl_tensor *mpl_op_sum_last(struct mpl_tape *tape, struct mpl_tensor *a, bool keeps,
                                   enum mpl_dtype dtype);
/** Sum, or mean, of all elements: a scalar. */
struct mpl_tensor *mpl_op_sum_all(struct mpl_tape *tape, struct mpl_tensor *a);
struct mpl_tensor *mpl_op_mean_all(struct mpl_tape *tape, struct mpl_tensor *a);
/** softmax over the last dimension; dtype as of softmax(..., dtype), MPL_DTYPE_NONE: not given. */
struct mpl_tensor *mpl_op_softmax(struct mpl_tape *tape, struct mpl_tensor *a,
                                  enum mpl_dtype dtype);

/* ---- choice of elements ---------------------------------------------------------------------- */
/** topk over the last dimension: values, and indices of int64; both floating. */
void mpl_op_topk(struct mpl_tape *tape, struct mpl_tensor *a, int64_t count,
                 struct mpl_tensor *parts_out[2]);
/** max over the last dimension, which stays as 1: its values. */
struct mpl_tensor *mpl_op_max_last(struct mpl_tape *tape, struct mpl_tensor *a);
/** multinomial(a, 1) of probabilities [n, v]: int64 [n, 1], without gradient. */
struct mpl_tensor *mpl_op_multinomial(struct mpl_tape *tape, struct mpl_tensor *a);
/** a.gather(-1, index): shape of index. */
struct mpl_tensor *mpl_op_gather_last(struct mpl_tape *tape, struct mpl_tensor *a,
                                      struct mpl_tensor *index);
/** a[index], index [n]: row by row along the first dimension. */
struct mpl_tensor *mpl_op_index(struct mpl_tape *tape, struct mpl_tensor *a,
                                struct mpl_tensor *index);
/** a[.., keys]: elements chosen by count integer tensors, 2 at most; the result's shape is given.
 */
struct mpl_tensor *mpl_op_index_keys(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *const *keys, int count,
                                     const struct mpl_shape *shape);
/** nonzero of a (held) with count such elements: int64 [count, a's dimensions]. */
struct mpl_tensor *mpl_op_nonzero(struct mpl_tape *tape, const struct mpl_tensor *a,
                                  struct mpl_dim count);
/** a.index_add_(0, index, source), index [n] held, source [n, h]. */
struct mpl_tensor *mpl_op_index_add_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                             struct mpl_tensor *index, struct mpl_tensor *source);
/** a.repeat_interleave(count, dim=0), a [n, h]. */
struct mpl_tensor *mpl_op_repeat_rows(struct mpl_tape *tape, struct mpl_tensor *a, int64_t count);
/** sort of integers [n]: values, and indices of int64; both floating. */
void mpl_op_sort(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *parts_out[2]);

/* ---- views: share the storage ---------------------------------------------------------------- */
/** reshape: a view where strides allow, else a contiguous copy (clone). */
struct mpl_tensor *mpl_op_reshape(struct mpl_tape *tape, struct mpl_tensor *a,
                                  struct mpl_shape shape);
struct mpl_tensor *mpl_op_transpose(struct mpl_tape *tape, struct mpl_tensor *a, int i, int j);
struct mpl_tensor *mpl_op_expand(struct mpl_tape *tape, struct mpl_tensor *a,
                                 struct mpl_shape shape);
struct mpl_tensor *mpl_op_unsqueeze(struct mpl_tape *tape, struct mpl_tensor *a, int at);
/** a[..., from : from + len]; its backward fills a tensor of a's shape. */
struct mpl_tensor *mpl_op_slice_last(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_dim len);
/** a[..., from :: step]: every step-th element of the last dimension, as mpl_op_slice_last. */
struct mpl_tensor *mpl_op_stride_last(struct mpl_tape *tape, struct mpl_tensor *a, int step);
/** a.narrow(dim, from, len): any slice along one dimension; as mpl_op_slice_last. */
struct mpl_tensor *mpl_op_narrow(struct mpl_tape *tape, struct mpl_tensor *a, int dim,
                                 struct mpl_dim len);
/** a.select(dim, index): that dimension goes; its backward fills a tensor of a's shape. */
struct mpl_tensor *mpl_op_select(struct mpl_tape *tape, struct mpl_tensor *a, int dim);
/** a[..., [i], ...] along one dimension: a copy, and the index on the device; its backward puts
 * into zeros of a's shape. */
struct mpl_tensor *mpl_op_index_one(struct mpl_tape *tape, struct mpl_tensor *a, int dim);
/** stack((a, b), dim=-1).flatten(-2): a contiguous copy; backward gives views. */
struct mpl_tensor *mpl_op_interleave(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *b);
/** a.unbind(0): count floating views; backward stacks their gradients. */
void mpl_op_unbind(struct mpl_tape *tape, struct mpl_tensor *a, int count,
                   struct mpl_tensor **parts_out);
/** torch.stack of count floating tensors of one shape along a new first dimension. */
struct mpl_tensor *mpl_op_stack(struct mpl_tape *tape, struct mpl_tensor **parts, int count);
/** a.split(size) or a.chunk(count) along the last dimension: count floating views of the widths
 * given (NULL: all equal). Backward joins their gradients. At most 4 parts. */
void mpl_op_split_last(struct mpl_tape *tape, struct mpl_tensor *a, int count,
                       const int64_t *widths, struct mpl_tensor **parts_out);
/** a.chunk(count, dim), count at most MPL_MAX_CHUNKS and a divisor: floating views. */
void mpl_op_chunk(struct mpl_tape *tape, struct mpl_tensor *a, int dim, int count,
                  struct mpl_tensor **parts_out);
struct mpl_tensor *mpl_op_contiguous(struct mpl_tape *tape, struct mpl_tensor *a);
/** clone(memory_format=contiguous_format) */
struct mpl_tensor *mpl_op_clone(struct mpl_tape *tape, struct mpl_tensor *a);
/** cat((a, b), dim): a contiguous copy; backward gives views. */
struct mpl_tensor *mpl_op_cat(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b,
                              int dim);

/** Most heads that mpl_op_split_heads takes. */
#define MPL_MAX_SPLIT_HEADS 255
/** a [b, heads, s, d].split(1, dim=1): a floating view for each head. */
void mpl_op_split_heads(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor **parts_out);
/** cat(parts, dim=1) of count tensors [b, 1, s, d]: [b, count, s, d]. */
struct mpl_tensor *mpl_op_cat_heads(struct mpl_tape *tape, struct mpl_tensor *const *parts,
                                    int count);
/** stack((a, b), dim=-1): [.., 2], contiguous; backward gives views. */
struct mpl_tensor *mpl_op_stack_last(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *b);

/* ---- products -------------------------------------------------------------------------------- */
/** a [.., k] times weight [n, k] transposed, plus bias [n] (or NULL); under autocast in its dtype.
 */
struct mpl_tensor *mpl_op_linear(struct mpl_tape *tape, struct mpl_tensor *a,
                                 struct mpl_tensor *weight, struct mpl_tensor *bias);
/** The same written in Python: matmul, then the bias in place. (deepspeed/runtime/zero/linear.py,
 * LinearFunctionForZeroStage3) */
struct mpl_tensor *mpl_op_linear_function(struct mpl_tape *tape, struct mpl_tensor *a,
                                          struct mpl_tensor *weight, struct mpl_tensor *bias);
/** addmm(bias, a, weight): weight [k, n] lies as GPT-2's Conv1D has it, bias [n]. */
struct mpl_tensor *mpl_op_conv1d(struct mpl_tape *tape, struct mpl_tensor *a,
                                 struct mpl_tensor *weight, struct mpl_tensor *bias);
/** a [n, k] times b [k, l]. */
struct mpl_tensor *mpl_op_mm(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b);
/** Batched product of [b, h, m, k] and [b, h, k, n]. */
struct mpl_tensor *mpl_op_matmul(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b);

/** baddbmm(bias, a, b, alpha) of [n, m, k] and [n, k, l]; bias, which broadcasts, has no gradient.
 */
struct mpl_tensor *mpl_op_baddbmm(struct mpl_tape *tape, struct mpl_tensor *bias,
                                  struct mpl_tensor *a, struct mpl_tensor *b);
/** bmm of [n, m, k] and [n, k, l]; under autocast in its dtype. */
struct mpl_tensor *mpl_op_bmm(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b);
/** grouped_mm: rows a [n, k], sorted by group, times mat2 [groups, k, l]; offsets int32 [groups].
 */
struct mpl_tensor *mpl_op_grouped_mm(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *mat2, struct mpl_tensor *offsets);

/* ---- embedding, attention, loss -------------------------------------------------------------- */
/** weight [v, h], ids [b, s]: [b, s, h]. */
struct mpl_tensor *mpl_op_embedding(struct mpl_tape *tape, struct mpl_tensor *weight,
                                    struct mpl_tensor *ids);

/** scaled_dot_product_attention. q [b, H, s, d], k and v [b, Hk, s, d], mask [b, 1, s, s] or NULL;
 * the kernel is the one that CUDA would take. Result [b, H, s, d]. */
struct mpl_tensor *mpl_op_sdpa(struct mpl_tape *tape, struct mpl_tensor *q, struct mpl_tensor *k,
                               struct mpl_tensor *v, struct mpl_tensor *mask, bool is_causal);

struct mpl_sdpa_options {
    struct mpl_tensor *mask; /* NULL: none */
    bool is_causal;          /* counts without a mask only */
    bool has_no_groups;      /* enable_gqa=False: fewer key heads are broadcast */
    double dropout;          /* of the attention weights; 0: none */
};

/** The same with every option. */
struct mpl_tensor *mpl_op_sdpa_with(struct mpl_tape *tape, struct mpl_tensor *q,
                                    struct mpl_tensor *k, struct mpl_tensor *v,
                                    const struct mpl_sdpa_options *options);

/** F.pad of the last of four dimensions up to size; a is held. */
struct mpl_tensor *mpl_op_pad_last(struct mpl_tape *tape, struct mpl_tensor *a, int64_t size);

struct mpl_flash_attn_options {
    struct mpl_tensor *lengths; /* int32 [sequences + 1] of joined sequences; NULL: none are */
    double dropout;             /* of the attention weights; 0: none */
    /* of flash-attn-3: */
    int64_t longest; /* tokens of the longest of joined sequences */
    bool is_causal, is_local, is_capped;
};

/** flash_attn_func of held q [b, s, H, d], k and v [b, s, Hk, d], or with lengths
 * flash_attn_varlen_func of [tokens, H, d] and so on; float16 or bfloat16. Result as q. */
struct mpl_tensor *mpl_op_flash_attn(struct mpl_tape *tape, struct mpl_tensor *q,
                                     struct mpl_tensor *k, struct mpl_tensor *v,
                                     const struct mpl_flash_attn_options *options);

/** The same of the package flash-attn-3; heads of a multiple of 8 elements. Result contiguous. */
struct mpl_tensor *mpl_op_flash_attn_3(struct mpl_tape *tape, struct mpl_tensor *q,
                                       struct mpl_tensor *k, struct mpl_tensor *v,
                                       const struct mpl_flash_attn_options *options);

/** torch.compile(flex_attention) of held q [b, H, s, d], k and v [b, Hk, s, d], and a tensor that
 * keeps the block mask. Result [b, H, s, d] laid out as q; *lse_out float32 [b, H, s], floating;
 * NULL: return_lse=False. */
struct mpl_tensor *mpl_op_flex_attention(struct mpl_tape *tape, struct mpl_tensor *q,
                                         struct mpl_tensor *k, struct mpl_tensor *v,
                                         struct mpl_tensor *mask, struct mpl_tensor **lse_out);

/** The package's pad_input: rows a [n, H, d] put at indices [n] into zeros [rows, H, d]. */
struct mpl_tensor *mpl_op_put_rows(struct mpl_tape *tape, struct mpl_tensor *a,
                                   struct mpl_tensor *indices, struct mpl_dim rows);

struct mpl_tensor *mpl_op_log_softmax(struct mpl_tape *tape, struct mpl_tensor *a);
/** log_softmax(.., dtype=float32) */
struct mpl_tensor *mpl_op_log_softmax_wide(struct mpl_tape *tape, struct mpl_tensor *logits);
/** smooth_l1_loss(a, target, reduction="none"), target without gradient. */
struct mpl_tensor *mpl_op_smooth_l1(struct mpl_tape *tape, struct mpl_tensor *a,
                                    struct mpl_tensor *target);
/** nll_loss of log-probabilities [n, v] and int64 targets [n]: a scalar. */
struct mpl_tensor *mpl_op_nll_loss(struct mpl_tape *tape, struct mpl_tensor *scores,
                                   struct mpl_tensor *targets);
/** cross_entropy of logits [n, v] and int64 targets [n], mean or sum: a scalar. */
struct mpl_tensor *mpl_op_cross_entropy(struct mpl_tape *tape, struct mpl_tensor *logits,
                                        struct mpl_tensor *targets);

/** The cuBLAS workspace of the running thread, taken at its first product and kept. */
void mpl_cublas_workspace(struct mpl_tape *tape);

#endif
