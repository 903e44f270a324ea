/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of experts: the loss that keeps the experts in balance.
 *
 * source: transformers/models/mixtral/modeling_mixtral.py (load_balancing_loss_func,
 * MixtralForCausalLM.forward); release 5.24.0
 */
#include "op/op.h"
#include "part/experts.h"

/* Locals of the loop over the layers; all held. */
struct sums {
    int64_t experts, top_k;
    struct mpl_tensor *mask;                  /* float32 [n], or NULL without padding */
    struct mpl_tensor *tokens, *probs, *rows; /* [experts], [experts], a number or NULL */
    struct mpl_tensor *weights, *values, *index;
};

static struct mpl_tensor *zeros(struct mpl_tape *tape, int64_t n)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(n));

    return mpl_empty(tape, "zeros.default", MPL_FLOAT32, &shape);
}

/* How many tokens chose each expert: floating [experts]. */
static struct mpl_tensor *count(struct mpl_tape *tape, const struct sums *s)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(s->experts));
    struct mpl_tensor *counts, *ids;

    if (s->mask) {
        counts = zeros(tape, s->experts);
        mpl_drop(tape, mpl_hold(mpl_empty(tape, "clone.default", MPL_FLOAT32, &s->index->shape)));
        return counts;
    }
    ids = mpl_hold(mpl_op_map(tape, "_to_copy.default", MPL_INT32, s->index, NULL));
    counts = mpl_empty(tape, "histc.default", MPL_INT32, &shape);
    mpl_drop(tape, ids);
    return counts;
}

static void add_layer(struct mpl_tape *tape, struct sums *s, struct mpl_tensor *logits)
{
    const enum mpl_dtype dtype =
        tape->autocast == MPL_DTYPE_NONE ? (enum mpl_dtype)logits->dtype : MPL_FLOAT32;
    struct mpl_tensor *parts[2], *probs;

    mpl_rebind(tape, &s->weights, mpl_op_softmax(tape, logits, dtype));
    mpl_op_topk(tape, s->weights, s->top_k, parts);
    mpl_rebind(tape, &s->values, parts[0]);
    mpl_rebind(tape, &s->index, parts[1]);
    mpl_rebind(tape, &s->tokens, mpl_op_add(tape, s->tokens, count(tape, s)));
    probs = mpl_op_to(tape, s->weights, MPL_FLOAT32);
    if (s->mask)
        probs = mpl_op_mul(tape, probs, mpl_op_unsqueeze(tape, s->mask, 1));
    mpl_rebind(tape, &s->probs, mpl_op_add(tape, s->probs, mpl_op_sum_dim(tape, probs, 0, false)));
    if (s->mask) {
        struct mpl_tensor *rows = mpl_op_sum_all(tape, s->mask);

        mpl_rebind(tape, &s->rows,
                   s->rows ? mpl_op_add(tape, s->rows, rows) : mpl_op_add_scalar(tape, rows));
    }
}

static struct mpl_tensor *share(struct mpl_tape *tape, struct mpl_tensor *sum,
                                struct mpl_tensor *rows)
{
    return mpl_hold(rows ? mpl_op_div(tape, sum, rows) : mpl_op_div_scalar(tape, sum));
}

struct mpl_tensor *mpl_add_router_loss(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_tensor *attention_mask, struct mpl_tensor *loss)
{
    const struct mpl_model *m = &lm->network->plan->model;
    struct mpl_outputs *outputs = &lm->network->outputs;
    struct sums s = {.experts = m->num_local_experts, .top_k = m->num_experts_per_tok};
    struct mpl_tensor *tokens, *probs, *sum, *aux;

    if (!m->output_router_logits || !outputs->count || tape->is_stopped)
        return loss;
    s.tokens = mpl_hold(zeros(tape, s.experts));
    s.probs = mpl_hold(zeros(tape, s.experts));
    if (attention_mask) {
        const struct mpl_shape flat =
            mpl_shape1(mpl_dim_mul(attention_mask->shape.dim[0], attention_mask->shape.dim[1]));

        s.mask = mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_FLOAT32, &flat));
    }
    for (uint32_t i = 0; i < outputs->count; i++)
        add_layer(tape, &s, outputs->of[i]);
    tokens = share(tape, s.tokens, s.rows);
    probs = share(tape, s.probs, s.rows);
    sum =
        mpl_hold(mpl_op_sum_all(tape, mpl_op_mul(tape, tokens, mpl_op_unsqueeze(tape, probs, 0))));
    aux = mpl_hold(mpl_op_mul_number(tape, sum));
    struct mpl_tensor *const locals[] = {s.tokens, s.probs, s.rows, s.mask, s.weights,
                                         s.values, s.index, tokens, probs,  sum};
    for (size_t i = 0; i < sizeof(locals) / sizeof(locals[0]); i++)
        mpl_drop(tape, locals[i]);
    loss = mpl_op_add_in_place(tape, loss, mpl_op_mul_number(tape, aux));
    outputs->of[outputs->count++] = aux;
    return loss;
}
