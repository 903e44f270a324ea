/* SPDX-License-Identifier: MIT */
/*
 * Masks of transformers 4.40 to 4.47.
 *
 * source: transformers/modeling_attn_mask_utils.py (AttentionMaskConverter,
 * _prepare_4d_causal_attention_mask, its _for_sdpa, _prepare_4d_attention_mask_for_sdpa),
 * modeling_utils.py (get_extended_attention_mask), models/llama/modeling_llama.py,
 * mistral/modeling_mistral.py (_update_causal_mask); releases 4.40.2 to 4.47.1
 */
#include "op/op.h"
#include "part/past.h"

/* What is made, and of which sizes. */
struct form {
    const struct mpl_past_run *run;
    struct mpl_dim b, s;
    struct mpl_dim columns; /* s, or one more */
    enum mpl_dtype dtype;
    int64_t window; /* 0: none */
    bool is_sdpa, is_padded;
};

static const struct mpl_shape scalar = {0};

/* *name = op(*name) of another format */
static void become(struct mpl_tape *tape, struct mpl_tensor **name, const char *op,
                   enum mpl_dtype dtype, struct mpl_shape shape)
{
    mpl_rebind(tape, name, mpl_empty(tape, op, dtype, &shape));
}

static void passing(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                    struct mpl_shape shape)
{
    mpl_drop(tape, mpl_hold_empty(tape, op, dtype, shape));
}

static struct mpl_shape square(const struct form *f)
{
    return mpl_shape2(f->s, f->columns);
}

static struct mpl_shape whole(const struct form *f)
{
    return mpl_shape4(f->b, mpl_dim(1), f->s, f->columns);
}

/* torch.all(attention_mask == 1), read by the host */
static void look_for_padding(struct mpl_tape *tape, const struct form *f)
{
    struct mpl_tensor *ones = mpl_hold_empty(tape, "eq.Scalar", MPL_BOOL, mpl_shape2(f->b, f->s));

    passing(tape, "all.default", MPL_BOOL, scalar);
    mpl_drop(tape, ones);
}

/* _unmask_unattended: mask * ~all(mask == min_dtype, dim=-1) */
static void unmask(struct mpl_tape *tape, const struct form *f, struct mpl_tensor **mask)
{
    const struct mpl_shape row = mpl_shape4(f->b, mpl_dim(1), f->s, mpl_dim(1));
    struct mpl_tensor *flags = mpl_hold_empty(tape, "eq.Scalar", MPL_BOOL, whole(f));

    become(tape, &flags, "all.dim", MPL_BOOL, row);
    become(tape, &flags, "bitwise_not.default", MPL_BOOL, row);
    become(tape, mask, "mul.Tensor", f->dtype, whole(f));
    mpl_drop(tape, flags);
}

/* ---- AttentionMaskConverter ------------------------------------------------------------------
 */

/* _make_causal_mask: made in float32, then cast; [s, s] */
static struct mpl_tensor *triangle(struct mpl_tape *tape, const struct form *f)
{
    struct mpl_tensor *mask = mpl_hold_empty(tape, "full.default", MPL_FLOAT32, square(f)), *below;
    struct mpl_tensor *cond = mpl_hold_empty(tape, "arange.default", MPL_INT64, mpl_shape1(f->s));
    struct mpl_tensor *next = mpl_hold_empty(tape, "add.Tensor", MPL_INT64, mpl_shape1(f->s));

    passing(tape, "lt.Tensor", MPL_BOOL, square(f));
    mpl_drop(tape, next);
    mpl_rebind(tape, &mask, mpl_op_to(tape, mask, f->dtype));
    if (f->window) {
        below = mpl_hold_empty(tape, "ones_like.default", MPL_BOOL, square(f));
        become(tape, &below, "tril.default", MPL_BOOL, square(f));
        mpl_drop(tape, below);
    }
    mpl_drop(tape, cond);
    return mask;
}

/* _expand_mask: [b, 1, s, s] */
static struct mpl_tensor *expand_padding(struct mpl_tape *tape, const struct form *f)
{
    struct mpl_tensor *wide = mpl_hold_empty(tape, "_to_copy.default", f->dtype, whole(f)), *out;
    struct mpl_tensor *inverted = mpl_hold_empty(tape, "rsub.Scalar", f->dtype, whole(f));
    struct mpl_tensor *flags = mpl_hold_empty(tape, "_to_copy.default", MPL_BOOL, whole(f));

    out = mpl_hold_empty(tape, "masked_fill.Scalar", f->dtype, whole(f));
    mpl_drop(tape, flags);
    mpl_drop(tape, wide);
    mpl_drop(tape, inverted);
    return out;
}

static struct mpl_tensor *converted(struct mpl_tape *tape, const struct form *f)
{
    struct mpl_tensor *causal = triangle(tape, f), *mask, *flags;

    if (!f->is_padded)
        return causal;
    mask = expand_padding(tape, f);
    flags = mpl_hold_empty(tape, "_to_copy.default", MPL_BOOL, whole(f));
    become(tape, &mask, "masked_fill.Scalar", f->dtype, whole(f));
    mpl_drop(tape, flags);
    mpl_drop(tape, causal);
    if (f->is_sdpa)
        unmask(tape, f, &mask);
    return mask;
}

/* ---- _update_causal_mask ---------------------------------------------------------------------
 */

/* arange(columns) > cache_position.reshape(-1, 1), held */
static struct mpl_tensor *later(struct mpl_tape *tape, const struct form *f)
{
    struct mpl_tensor *range =
        mpl_hold_empty(tape, "arange.default", MPL_INT64, mpl_shape1(f->columns));
    struct mpl_tensor *out = mpl_hold_empty(tape, "gt.Tensor", MPL_BOOL, square(f));

    mpl_drop(tape, range);
    return out;
}

/* ... |= arange(columns) <= cache_position.reshape(-1, 1) - window; the name */
static struct mpl_tensor *beyond_window(struct mpl_tape *tape, const struct form *f)
{
    struct mpl_tensor *range =
        mpl_hold_empty(tape, "arange.default", MPL_INT64, mpl_shape1(f->columns));
    struct mpl_tensor *edge =
        mpl_hold_empty(tape, "sub.Tensor", MPL_INT64, mpl_shape2(f->s, mpl_dim(1)));
    struct mpl_tensor *out = mpl_hold_empty(tape, "le.Tensor", MPL_BOOL, square(f));

    mpl_drop(tape, range);
    mpl_drop(tape, edge);
    return out;
}

/* causal_mask is a clone, whose padded columns are filled in place; the name padding_mask */
static struct mpl_tensor *fill_padding(struct mpl_tape *tape, const struct form *f,
                                       struct mpl_tensor **mask)
{
    struct mpl_tensor *padding;

    become(tape, mask, "clone.default", f->dtype, whole(f));
    padding = mpl_hold_empty(tape, "add.Tensor", f->dtype, whole(f));
    become(tape, &padding, "eq.Scalar", MPL_BOOL, whole(f));
    passing(tape, "masked_fill.Scalar", f->dtype, whole(f));
    return padding;
}

static struct mpl_tensor *updated(struct mpl_tape *tape, const struct form *f)
{
    const bool has_window_form = mpl_past_has(f->run, f->run->facts->window_mask);
    const bool is_split = mpl_past_has(f->run, f->run->facts->split_mask);
    struct mpl_tensor *mask = mpl_hold_empty(tape, "full.default", f->dtype, square(f)),
                      *names[3] = {NULL};

    if (!has_window_form)
        become(tape, &mask, "triu.default", f->dtype, square(f));
    names[0] = later(tape, f);
    if (has_window_form && f->window)
        names[1] = beyond_window(tape, f);
    if (!has_window_form || !is_split) { /* the second one has no name, or none of them has */
        mpl_drop(tape, names[has_window_form]);
        names[has_window_form] = NULL;
    }
    if (f->is_padded)
        names[2] = fill_padding(tape, f, &mask);
    for (int i = 0; is_split && i < 3; i++) {
        mpl_drop(tape, names[i]);
        names[i] = NULL;
    }
    if (f->is_padded && f->is_sdpa)
        unmask(tape, f, &mask);
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, names[i]);
    return mask;
}

/* ---- which -----------------------------------------------------------------------------------
 */

/* mask[None, None].expand(b, 1, s, columns)[:, :, :, :s]; held */
static struct mpl_tensor *as_four(struct mpl_tape *tape, const struct form *f,
                                  struct mpl_tensor *mask)
{
    struct mpl_tensor *out = mpl_return(mask);

    if (!f->is_padded) {
        out = mpl_op_unsqueeze(tape, mpl_op_unsqueeze(tape, out, 0), 0);
        out = mpl_op_expand(tape, out, whole(f));
    }
    return mpl_hold(f->columns.n > f->s.n ? mpl_op_narrow(tape, out, 3, f->s) : out);
}

static struct mpl_tensor *extended(struct mpl_tape *tape, const struct form *f,
                                   const struct mpl_tensor *mask, enum mpl_dtype dtype);

/* attention_mask itself, if 0.0 in attention_mask, read by the host */
static struct mpl_mask flash_mask(struct mpl_tape *tape, const struct form *f,
                                  struct mpl_tensor *padding_mask)
{
    if (!padding_mask)
        return (struct mpl_mask){NULL, true};
    if (!padding_mask->is_void)
        look_for_padding(tape, f);
    return (struct mpl_mask){mpl_hold(mpl_return(mpl_hold(padding_mask))), true};
}

struct mpl_mask mpl_past_causal_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                     const struct mpl_past_run *run,
                                     const struct mpl_tensor *embeds,
                                     struct mpl_tensor *padding_mask, int64_t window)
{
    const bool is_updated = mpl_past_has(run, run->facts->update_mask);
    struct form f = {
        .run = run,
        .b = embeds->shape.dim[0],
        .s = embeds->shape.dim[1],
        .columns = embeds->shape.dim[1],
        .dtype = (enum mpl_dtype)embeds->dtype,
        .window = is_updated && !mpl_past_has(run, run->facts->window_mask) ? 0 : window,
        .is_sdpa = plan->training.attention == MPL_ATTENTION_SDPA,
        .is_padded = padding_mask != NULL,
    };
    const bool is_inside = !f.window || f.s.n < f.window;

    if (mpl_is_flash(plan->training.attention))
        return flash_mask(tape, &f, padding_mask);
    if (embeds->is_void)
        return (struct mpl_mask){f.is_sdpa ? NULL : mpl_hold(tape->void_tensor), true};
    if (!f.is_sdpa && run->minor <= run->facts->padding_mask_only)
        return (struct mpl_mask){
            padding_mask ? extended(tape, &f, padding_mask, plan->training.parameter_dtype) : NULL,
            false};
    if (f.is_sdpa && is_inside && !f.is_padded)
        return (struct mpl_mask){NULL, true};
    if (f.is_sdpa && is_inside)
        look_for_padding(tape, &f);
    if (is_updated && !f.is_padded && !run->facts->has_no_rest)
        f.columns.n++;
    return (struct mpl_mask){
        as_four(tape, &f, is_updated ? updated(tape, &f) : converted(tape, &f)), false};
}

/* get_extended_attention_mask: (1.0 - mask.to(dtype)) * min; [b, 1, 1, s] */
static struct mpl_tensor *extended(struct mpl_tape *tape, const struct form *f,
                                   const struct mpl_tensor *mask, enum mpl_dtype dtype)
{
    const struct mpl_shape row = mpl_shape4(f->b, mpl_dim(1), mpl_dim(1), f->s);
    struct mpl_tensor *wide =
        mask->dtype == dtype ? NULL : mpl_hold_empty(tape, "_to_copy.default", dtype, row);
    struct mpl_tensor *out = mpl_hold_empty(tape, "rsub.Scalar", dtype, row);

    become(tape, &out, "mul.Tensor", dtype, row);
    mpl_drop(tape, wide);
    return out;
}

struct mpl_mask mpl_past_encoder_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                      const struct mpl_tensor *embeds,
                                      struct mpl_tensor *padding_mask, struct mpl_tensor **ones_out)
{
    const struct form f = {
        .b = embeds->shape.dim[0],
        .s = embeds->shape.dim[1],
        .columns = embeds->shape.dim[1],
        .dtype = (enum mpl_dtype)embeds->dtype,
        .is_sdpa = plan->training.attention == MPL_ATTENTION_SDPA,
        .is_padded = padding_mask != NULL,
    };

    *ones_out = NULL;
    if (embeds->is_void)
        return (struct mpl_mask){f.is_sdpa ? NULL : mpl_hold(tape->void_tensor), false};
    if (!padding_mask)
        *ones_out = mpl_hold_empty(tape, "ones.default", MPL_FLOAT32, mpl_shape2(f.b, f.s));
    if (!f.is_sdpa)
        return (struct mpl_mask){extended(tape, &f, padding_mask ? padding_mask : *ones_out,
                                          plan->training.parameter_dtype),
                                 false};
    look_for_padding(tape, &f);
    return (struct mpl_mask){padding_mask ? expand_padding(tape, &f) : NULL, false};
}
