/* SPDX-License-Identifier: MIT */
/*
 * Medusa's heads as its authors' script trains them: on the last hidden states of a frozen model,
 * which runs in the same step without gradients. Each head is a residual block; what it makes goes
 * through the model's own output head, which trains, too: the script freezes what lies below it.
 *
 * source: github.com/FasterDecoding/Medusa, commit e2a5d20c: medusa/model/medusa_model_legacy.py
 * (MedusaModel), medusa/train/train_legacy.py (CustomizedTrainer)
 */
#include <stdio.h>

#include "arch/arch.h"
#include "base/fail.h"
#include "op/op.h"
#include "part/causal_lm.h"

extern const struct mpl_arch mpl_arch_llama, mpl_arch_mistral;

struct medusa {
    struct mpl_lm_family family; /* the base's, with room for the heads */
    struct mpl_linear heads[MPL_MEDUSA_MOST_HEADS];
};

/* ---- model ------------------------------------------------------------------------------------
 */

static struct mpl_tensor *make(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               struct mpl_shape shape)
{
    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/* nn.Sequential of one ResBlock, as many times as there are layers: x + silu(linear(x)) */
static struct mpl_tensor *call_head(struct mpl_tape *tape, const struct mpl_lm *lm, int64_t i,
                                    struct mpl_tensor *hidden)
{
    const struct medusa *medusa = lm->extra;
    struct mpl_tensor *x = mpl_hold(mpl_return(mpl_hold(hidden)));

    for (int64_t k = 0; k < lm->network->plan->model.medusa_num_layers; k++) {
        struct mpl_tensor *turned =
            mpl_op_silu(tape, mpl_linear_call(tape, lm->network, &medusa->heads[i], x));

        mpl_rebind(tape, &x, mpl_op_add(tape, x, turned));
    }
    return mpl_return(x);
}

/* The base under no_grad. */
static struct mpl_tensor *run_base(struct mpl_tape *tape, struct mpl_lm *lm,
                                   struct mpl_batch *batch)
{
    struct mpl_tensor *hidden;

    tape->is_grad_enabled = false;
    hidden = mpl_lm_hidden(tape, lm, batch);
    tape->is_grad_enabled = true;
    return hidden;
}

/* MedusaModel.forward: floating [heads, b, s, vocab]. */
static struct mpl_tensor *model_forward(struct mpl_tape *tape, struct mpl_lm *lm,
                                        struct mpl_batch *batch)
{
    const int64_t count = lm->network->plan->model.medusa_num_heads;
    struct mpl_tensor *outputs = mpl_hold(run_base(tape, lm, batch)), *h = NULL, *stacked;
    struct mpl_tensor *hidden = mpl_hold(mpl_op_clone(tape, outputs));
    struct mpl_tensor *logits[MPL_MEDUSA_MOST_HEADS];

    for (int64_t i = 0; i < count; i++) {
        mpl_rebind(tape, &h, call_head(tape, lm, i, hidden));
        logits[i] = mpl_hold(mpl_lm_logits(tape, lm, h));
    }
    for (int64_t i = 0; i < count; i++) /* the list keeps them until the frame ends */
        logits[i] = mpl_return(mpl_hold(logits[i]));
    stacked = mpl_op_stack(tape, logits, (int)count);
    mpl_drop(tape, outputs);
    mpl_drop(tape, hidden);
    for (int64_t i = 0; i < count; i++)
        mpl_drop(tape, logits[i]);
    mpl_drop(tape, h);
    return stacked;
}

/* ---- loss -------------------------------------------------------------------------------------
 */

/* Names of compute_loss that live on from head to head; held. */
struct names {
    struct mpl_tensor *logits, *labels, *loss_of_head, *counts, *most, *best, *right;
};

static void assign(struct mpl_tape *tape, struct mpl_tensor **name, struct mpl_tensor *value)
{
    mpl_drop(tape, *name);
    *name = value;
}

/* x[counts], where all labels count: what ignored ones take less is a few bytes a token */
static void keep_counted(struct mpl_tape *tape, struct mpl_tensor *counts, struct mpl_tensor **x,
                         struct mpl_shape shape)
{
    struct mpl_tensor *index = mpl_hold(mpl_op_nonzero(tape, counts, counts->shape.dim[0]));
    struct mpl_tensor *chosen = make(tape, "index.Tensor", MPL_INT64, shape);

    mpl_drop(tape, index);
    assign(tape, x, chosen);
}

/* The right guesses of one head, and their share as a number on the host. */
static void count_right(struct mpl_tape *tape, struct names *n)
{
    const struct mpl_shape rows = mpl_shape1(n->labels->shape.dim[0]);
    const struct mpl_shape column = mpl_shape2(n->labels->shape.dim[0], mpl_dim(1));
    struct mpl_tensor *parts[2], *same, *wide;

    assign(tape, &n->counts, make(tape, "ne.Scalar", MPL_BOOL, rows));
    keep_counted(tape, n->counts, &n->labels, rows);
    mpl_op_topk(tape, n->logits, 1, parts);
    assign(tape, &n->most, mpl_hold(parts[0]));
    assign(tape, &n->best, mpl_hold(parts[1]));
    keep_counted(tape, n->counts, &n->best, column);
    same = make(tape, "eq.Tensor", MPL_BOOL, column);
    assign(tape, &n->right, make(tape, "any.dim", MPL_BOOL, rows));
    mpl_drop(tape, same);
    wide = make(tape, "_to_copy.default", MPL_FLOAT32, rows);
    mpl_drop(tape, make(tape, "mean.default", MPL_FLOAT32, (struct mpl_shape){0}));
    mpl_drop(tape, wide);
}

/* The i-th head's guesses of the token i + 2 places on, against the labels. */
static void lose(struct mpl_tape *tape, struct mpl_tensor *logits, struct mpl_tensor *labels,
                 int64_t i, struct names *n)
{
    struct mpl_dim rest = labels->shape.dim[1], rows;
    struct mpl_tensor *part;

    rest.n -= 2 + i;
    rows = mpl_dim_mul(labels->shape.dim[0], rest);
    part = mpl_op_narrow(tape, mpl_op_select(tape, logits, 0), 1, rest);
    assign(tape, &n->logits, mpl_hold(mpl_op_contiguous(tape, part)));
    assign(tape, &n->labels,
           mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, labels, 1, rest))));
    mpl_rebind(tape, &n->logits,
               mpl_op_reshape(tape, n->logits, mpl_shape2(rows, logits->shape.dim[3])));
    mpl_rebind(tape, &n->labels, mpl_op_reshape(tape, n->labels, mpl_shape1(rows)));
    assign(tape, &n->loss_of_head, mpl_hold(mpl_op_cross_entropy(tape, n->logits, n->labels)));
}

/* CustomizedTrainer.compute_loss of held logits, which go with its frame: a floating scalar. */
static struct mpl_tensor *compute_loss(struct mpl_tape *tape, struct mpl_tensor *logits,
                                       struct mpl_tensor *labels, int64_t count)
{
    struct mpl_tensor *loss = NULL;
    struct names n = {0};

    for (int64_t i = 0; i < count && !tape->is_stopped; i++) {
        lose(tape, logits, labels, i, &n);
        if (loss)
            mpl_rebind(tape, &loss, mpl_op_add_in_place(tape, loss, n.loss_of_head));
        else
            loss = mpl_hold(mpl_op_add_scalar(tape, n.loss_of_head)); /* 0 + loss_i */
        count_right(tape, &n);
    }
    mpl_drop(tape, logits);
    mpl_drop(tape, n.logits);
    mpl_drop(tape, n.labels);
    mpl_drop(tape, n.loss_of_head);
    mpl_drop(tape, n.counts);
    mpl_drop(tape, n.most);
    mpl_drop(tape, n.best);
    mpl_drop(tape, n.right);
    return loss ? mpl_return(loss) : tape->void_tensor;
}

/* The model, what accelerate does to its result, and the trainer's loss, outside autocast. */
static struct mpl_tensor *forward(struct mpl_tape *tape, struct mpl_network *network,
                                  struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_lm *lm = network->family;
    struct mpl_tensor *logits = mpl_hold(model_forward(tape, lm, batch));

    *logits_out = NULL;
    mpl_lm_leave(tape, lm);
    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    mpl_network_convert_outputs(tape, &network->plan->training, &logits);
    mpl_network_leave(tape, network, &logits, 1);
    return compute_loss(tape, logits, batch->labels, network->plan->model.medusa_num_heads);
}

/* ---- description ------------------------------------------------------------------------------
 */

/* ResBlocks repeated are one module: its weights are there once. */
static void add_head(struct mpl_network *network, struct medusa *medusa, int64_t i)
{
    const int64_t h = network->plan->model.hidden_size;
    char name[48];

    snprintf(name, sizeof(name), "medusa_head.%lld.0.linear", (long long)i);
    medusa->heads[i] = mpl_linear_add(network, name, h, h, true);
}

static const struct mpl_arch *base_of(const struct mpl_plan *plan)
{
    return plan->model.base_model_type == MPL_MEDUSA_ON_MISTRAL ? &mpl_arch_mistral
                                                                : &mpl_arch_llama;
}

static void derive(struct mpl_plan *plan)
{
    const struct mpl_config_class *config = &base_of(plan)->config;

    if (config->derive)
        config->derive(plan);
}

static enum memplan_status build(struct mpl_network *network, struct memplan_error *err)
{
    const int64_t heads = network->plan->model.medusa_num_heads;
    struct medusa *medusa = mpl_arena_zalloc(network->arena, sizeof(*medusa));
    const struct mpl_lm *lm;
    enum memplan_status status;

    if (!medusa)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    medusa->family = *base_of(network->plan)->family;
    medusa->family.extra_room = 2 * (uint32_t)heads;
    if ((status = mpl_lm_build_with(network, &medusa->family, medusa, err)))
        return status;
    lm = network->family;
    for (uint32_t i = 0; i < network->parameter_count; i++)
        network->parameters[i].is_trainable = i == lm->head.weight;
    network->prefix[0] = '\0';
    for (int64_t i = 0; i < heads; i++)
        add_head(network, medusa, i);
    network->forward = forward;
    network->keeps_batch = true;
    network->has_bool_mask = true; /* input_ids.ne(pad_token_id) */
    return MEMPLAN_OK;
}

static const struct mpl_config_key keys[] = {
    {"medusa_num_heads", NULL, "1"},
    {"medusa_num_layers", NULL, "1"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_medusa = {
    .config = {.model_type = "medusa",
               .help = "Medusa's heads on a frozen Llama or Mistral, whose fields the others are",
               .has_no_flex = true,
               .keys = keys,
               .derive = derive},
    .build = build,
};
