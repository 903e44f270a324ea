/* SPDX-License-Identifier: MIT */
/*
 * The MTP drafter's forward around its layer.
 *
 * The loop over steps breaks the graph under FSDP2, whose hooks run at every call of the layer: the
 * mask, RoPE and the layer are compiled, all else runs as it stands.
 *
 * source: speculators/models/mtp/core.py, releases 0.7.0 to 0.9.0, transformers/masking_utils.py
 * (create_causal_mask of packed sequences), under PyTorch 2.13
 */
#include "arch/mtp.h"
#include "op/rule.h"

struct mpl_tensor *mpl_mtp_make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                                int64_t cols)
{
    return mpl_eagle3_make(tape, dtype, rows, cols);
}

struct mpl_tensor *mpl_mtp_square(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                                  struct mpl_dim cols)
{
    const struct mpl_shape shape = mpl_shape2(rows, cols);

    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", dtype, &shape));
}

/* Where positions begin anew, and the documents that this gives: a mask [tokens, tokens]. */
static struct mpl_tensor *make_mask(struct mpl_tape *tape, const struct mpl_mtp *m)
{
    const struct mpl_dim n = m->sizes.tokens, more = {n.n + 1, n.degree};
    struct mpl_tensor *steps = mpl_mtp_make(tape, MPL_INT64, more, 0);
    struct mpl_tensor *documents = mpl_mtp_make(tape, MPL_INT64, n, 0), *mask;

    mpl_drop(tape, steps);
    mask = mpl_mtp_square(tape, MPL_BOOL, n, n);
    mpl_drop(tape, documents);
    return mask;
}

/* The token after the last one that this step's hidden states have seen, embedded. */
static void enter_layer(struct mpl_tape *tape, struct mpl_mtp *m)
{
    const struct mpl_eagle3_sizes *s = &m->sizes;
    const struct mpl_shape shape = mpl_shape2(s->tokens, mpl_dim(s->hidden));
    struct mpl_tensor *cos, *sin;

    mpl_eagle3_assign(tape, &m->embeds,
                      mpl_hold(mpl_empty(tape, "embedding.default", s->root_dtype, &shape)));
    cos = mpl_mtp_make(tape, s->root_dtype, s->tokens, s->head_dim);
    sin = mpl_mtp_make(tape, s->root_dtype, s->tokens, s->head_dim);
    mpl_eagle3_assign(tape, &m->cos, cos);
    mpl_eagle3_assign(tape, &m->sin, sin);
}

static void leave(struct mpl_tape *tape, struct mpl_mtp *m, struct mpl_mtp_loss *loss,
                  struct mpl_tensor *hidden)
{
    struct mpl_tensor **const names[] = {&m->embeds,  &m->cos,      &m->sin,
                                         &m->mask,    &hidden,      &loss->targets,
                                         &loss->each, &loss->count, &loss->step};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mpl_drop(tape, *names[i]);
        *names[i] = NULL;
    }
}

struct mpl_tensor *mpl_mtp_forward(struct mpl_tape *tape, struct mpl_network *network,
                                   struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_mtp *m = network->family;
    struct mpl_mtp_loss loss = {0};
    struct mpl_tensor *hidden, *logits;

    (void)batch; /* the drafter has a batch of its own */
    *logits_out = NULL;
    loss.total = mpl_hold_scalar(tape, "_to_copy.default", MPL_FLOAT32);
    m->mask = make_mask(tape, m);
    hidden = mpl_hold(m->batch.hidden_states);
    for (int64_t i = 0; i < m->steps && !tape->is_stopped; i++) {
        enter_layer(tape, m);
        mpl_rebind(tape, &hidden, mpl_module_call(tape, &network->modules[1], hidden));
        logits = mpl_hold(mpl_op_linear(tape, hidden, mpl_network_weight(network, m->head), NULL));
        mpl_mtp_return(m, logits);
        mpl_mtp_add_loss(tape, m, logits, &loss);
    }
    for (int i = 0; i < 2; i++) /* loss_sum, loss_total */
        mpl_mtp_return(
            m, mpl_hold_scalar(tape, i ? "_to_copy.default" : "clone.default", MPL_FLOAT32));
    leave(tape, m, &loss, hidden);
    return mpl_return(loss.total);
}
