/* SPDX-License-Identifier: MIT */
/*
 * SpecForge's drafter: the unrolled steps of training-time test.
 *
 * source: specforge/algorithms/eagle3/model.py (OnlineEagle3Model.forward), core/eagle3_adapters.py
 * (SdpaLikeAdapter), modeling/draft/base.py (prepare_decoder_attention_mask), release 0.2.0
 */
#include "arch/specforge.h"
#include "op/op.h"

#define make mpl_specforge_make

/* ---- mask -------------------------------------------------------------------------------------
 */

/* _make_causal_mask: [length, length] in float32 first; held */
static struct mpl_tensor *causal_mask(struct mpl_tape *tape, const struct mpl_specforge *s)
{
    const struct mpl_shape square = mpl_shape2(s->length, s->length), row = mpl_shape1(s->length);
    struct mpl_tensor *wide = make(tape, "full.default", MPL_FLOAT32, square), *next, *narrow;
    struct mpl_tensor *places = make(tape, "arange.default", MPL_INT64, row);

    next = make(tape, "add.Tensor", MPL_INT64, row);
    mpl_specforge_pass(tape, "lt.Tensor", MPL_BOOL, square);
    mpl_drop(tape, next);
    narrow = make(tape, "_to_copy.default", s->sizes.layer_dtype, square);
    mpl_drop(tape, wide);
    mpl_drop(tape, places);
    return narrow;
}

/* _expand_mask of the padding mask: [batch, 1, length, length]; held */
static struct mpl_tensor *padding_mask(struct mpl_tape *tape, const struct mpl_specforge *s)
{
    const struct mpl_shape all = mpl_shape4(s->batch, mpl_dim(1), s->length, s->length);
    const enum mpl_dtype dtype = s->sizes.layer_dtype;
    struct mpl_tensor *expanded = make(tape, "_to_copy.default", dtype, all);
    struct mpl_tensor *inverted = make(tape, "rsub.Scalar", dtype, all);
    struct mpl_tensor *where = make(tape, "_to_copy.default", MPL_BOOL, all);
    struct mpl_tensor *out = make(tape, "masked_fill.Scalar", dtype, all);

    mpl_drop(tape, where);
    mpl_drop(tape, expanded);
    mpl_drop(tape, inverted);
    return out;
}

void mpl_specforge_mask(struct mpl_tape *tape, struct mpl_specforge *s)
{
    const struct mpl_shape all = mpl_shape4(s->batch, mpl_dim(1), s->length, s->length);
    struct mpl_tensor *causal = causal_mask(tape, s), *padding = padding_mask(tape, s);

    s->l.mask = make(tape, "add.Tensor", s->sizes.layer_dtype, all);
    mpl_drop(tape, causal);
    mpl_drop(tape, padding);
}

/* ---- one step ---------------------------------------------------------------------------------
 */

/* A name of StepState takes over: the same tensor, or with several sequences a copy of a slice of
 * the padded one. */
static struct mpl_tensor *viewed(struct mpl_tape *tape, const struct mpl_specforge *s,
                                 struct mpl_tensor *padded, int64_t cols)
{
    if (s->batch.n == 1)
        return mpl_hold(padded);
    return make(tape, "clone.default", (enum mpl_dtype)padded->dtype, mpl_specforge_shape(s, cols));
}

static void take_view(struct mpl_tape *tape, struct mpl_specforge *s)
{
    struct mpl_specforge_locals *l = &s->l;
    const int64_t words = s->sizes.draft_vocab;
    struct mpl_tensor *teacher = viewed(tape, s, l->teacher, words);
    struct mpl_tensor *on_draft = viewed(tape, s, l->teacher_on_draft, words);
    struct mpl_tensor *ids = viewed(tape, s, l->teacher_ids, 0);

    mpl_eagle3_assign(tape, &l->view_ids, mpl_hold(l->shifted_ids));
    mpl_eagle3_assign(tape, &l->view_teacher, teacher);
    mpl_eagle3_assign(tape, &l->view_teacher_on_draft, on_draft);
    mpl_eagle3_assign(tape, &l->view_teacher_ids, ids);
    mpl_eagle3_assign(tape, &l->view_position_mask, mpl_hold(l->position_mask));
    mpl_eagle3_assign(tape, &l->view_loss_mask, mpl_hold(l->shifted_loss_mask));
}

/* padding(tensor, left=False): moved by one, with a zero at the end */
static void shift(struct mpl_tape *tape, const struct mpl_specforge *s, struct mpl_tensor **name,
                  int64_t cols)
{
    struct mpl_shape one = mpl_specforge_shape(s, cols);
    struct mpl_tensor *zero, *joined;

    one.dim[1] = mpl_dim(1);
    zero = make(tape, "zeros_like.default", MPL_INT64, one);
    joined = make(tape, "cat.default", MPL_INT64, mpl_specforge_shape(s, cols));
    mpl_eagle3_assign(tape, name, joined);
    mpl_drop(tape, zero);
}

static void ttt_step(struct mpl_tape *tape, struct mpl_specforge *s)
{
    struct mpl_specforge_locals *l = &s->l;
    struct mpl_tensor *normed, *logits;

    take_view(tape, s);
    mpl_rebind(tape, &l->embeds,
               mpl_op_embedding(tape, mpl_specforge_weight(s, MPL_SPECFORGE_EMBED), l->view_ids));
    mpl_rebind(tape, &l->hidden, mpl_specforge_layer(tape, s, l->embeds, l->hidden));
    normed = mpl_specforge_norm(tape, s, MPL_SPECFORGE_NORM, l->hidden);
    logits =
        mpl_hold(mpl_op_linear(tape, normed, mpl_specforge_weight(s, MPL_SPECFORGE_HEAD), NULL));
    s->losses[s->step] = mpl_specforge_loss(tape, s, logits);
    mpl_drop(tape, logits);
    if (s->step + 1 == s->sizes.steps)
        return;
    shift(tape, s, &l->shifted_ids, 0);
    shift(tape, s, &l->position_mask, 1);
    shift(tape, s, &l->shifted_loss_mask, 1);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static void leave(struct mpl_tape *tape, struct mpl_specforge *s)
{
    struct mpl_specforge_locals *l = &s->l;
    struct mpl_tensor **const names[] = {
        &l->embeds,
        &l->hidden,
        &l->shifted_ids,
        &l->positions,
        &l->mask,
        &l->view_ids,
        &l->view_teacher,
        &l->view_teacher_on_draft,
        &l->view_teacher_ids,
        &l->view_position_mask,
        &l->view_loss_mask,
        &l->teacher,
        &l->teacher_on_draft,
        &l->teacher_ids,
        &l->position_mask,
        &l->shifted_loss_mask,
        &l->attention_mask,
        &l->states,
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mpl_drop(tape, *names[i]);
        *names[i] = NULL;
    }
    for (int64_t i = 0; i < s->sizes.steps; i++) {
        mpl_drop(tape, s->keys[i]);
        mpl_drop(tape, s->values[i]);
        s->keys[i] = s->values[i] = NULL;
    }
}

struct mpl_tensor *mpl_specforge_forward(struct mpl_tape *tape, struct mpl_network *network,
                                         struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_specforge *s = network->family;
    struct mpl_specforge_locals *l = &s->l;

    (void)batch; /* the drafter has a batch of its own */
    *logits_out = NULL;
    mpl_specforge_teacher(tape, s);
    l->hidden =
        mpl_hold(mpl_op_linear(tape, l->states, mpl_specforge_weight(s, MPL_SPECFORGE_FC), NULL));
    l->positions = make(tape, "arange.start", MPL_INT64, mpl_shape1(s->length));
    if (!s->is_flex)
        mpl_specforge_mask(tape, s);
    l->shifted_ids = mpl_hold(l->ids);
    l->shifted_loss_mask = mpl_hold(l->loss_mask);
    for (s->step = 0; s->step < s->sizes.steps && !tape->is_stopped; s->step++)
        ttt_step(tape, s);
    leave(tape, s);
    return mpl_return(mpl_hold(s->losses[s->sizes.steps - 1]));
}
