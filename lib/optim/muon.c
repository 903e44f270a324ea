/* SPDX-License-Identifier: MIT */
/*
 * Muon: one momentum buffer for each matrix inside the blocks, and a Newton-Schulz iteration in
 * bfloat16 over one matrix after the other. Embeddings, head, norms and biases go to an AdamW with
 * defaults, as Muon's authors advise.
 *
 * source: torch/optim/_muon.py (_single_tensor_muon, _zeropower_via_newtonschulz)
 */
#include <string.h>

#include "op/op.h"
#include "optim/optim.h"

enum { MOMENTUM };

bool mpl_muon_takes(const struct mpl_parameter *parameter)
{
    return parameter->shape.ndim == 2 && !strstr(parameter->name, "embed") &&
           !strstr(parameter->name, "lm_head");
}

static void init_states(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_optim_state *state = &optim->states[i];

        if (!leaf || state->is_ready)
            continue;
        state->is_ready = true;
        state->tensors[MOMENTUM] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    }
}

/* ortho_grad.div_(ortho_grad.norm().clamp(min=eps)): two scalars */
static void normalize(struct mpl_tape *tape)
{
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *norm, *clamped;

    norm = mpl_hold(mpl_empty(tape, "linalg_vector_norm.default", MPL_BFLOAT16, &scalar));
    clamped = mpl_hold(mpl_empty(tape, "clamp.default", MPL_BFLOAT16, &scalar));
    mpl_drop(tape, norm);
    mpl_drop(tape, clamped);
}

/**
 * _zeropower_via_newtonschulz(update): an orthogonal matrix near the update, held.
 *
 * shape   update [m, n]; with r = min(m, n) and c = max(m, n) the Gram matrices are [r, r] and the
 *         result is [r, c], all bfloat16
 * unit    tensors; three names are bound again in each round, so that old and new live together
 * source  torch/optim/_muon.py; update.bfloat16() is the update itself where it is bfloat16
 */
static struct mpl_tensor *newton_schulz(struct mpl_tape *tape, struct mpl_tensor *update,
                                        int64_t rounds)
{
    const struct mpl_dim m = update->shape.dim[0], n = update->shape.dim[1];
    const struct mpl_dim r = m.n > n.n ? n : m, c = m.n > n.n ? m : n;
    const struct mpl_shape gram_shape = mpl_shape2(r, r), shape = mpl_shape2(r, c);
    struct mpl_tensor *gram = NULL, *gram_update = NULL, *ortho;

    if (update->dtype == MPL_BFLOAT16)
        ortho = mpl_hold(update);
    else
        ortho = mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_BFLOAT16, &update->shape));
    normalize(tape);
    for (int64_t i = 0; i < rounds && !tape->is_stopped; i++) {
        mpl_cublas_workspace(tape);
        mpl_rebind(tape, &gram, mpl_empty(tape, "mm.default", MPL_BFLOAT16, &gram_shape));
        mpl_rebind(tape, &gram_update, mpl_empty(tape, "addmm.default", MPL_BFLOAT16, &gram_shape));
        mpl_rebind(tape, &ortho, mpl_empty(tape, "addmm.default", MPL_BFLOAT16, &shape));
    }
    mpl_drop(tape, gram);
    mpl_drop(tape, gram_update);
    return ortho;
}

/* update is a Python local: bound to the mix of gradient and momentum (or, without Nesterov, to the
 * buffer), then to the orthogonal matrix, which lives until the next one's mix is there. */
static void muon(struct mpl_tape *tape, struct mpl_optim *optim)
{
    const bool is_nesterov = optim->spec->nesterov != MPL_FALSE;
    struct mpl_tensor *update = NULL, *ortho;

    init_states(tape, optim);
    for (uint32_t i = 0; i < optim->count && !tape->is_stopped; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_rebind(tape, &update,
                   is_nesterov ? mpl_optim_like(tape, "lerp.Scalar", leaf)
                               : optim->states[i].tensors[MOMENTUM]);
        if (tape->is_stopped)
            break;
        ortho = newton_schulz(tape, update, optim->spec->ns_steps);
        mpl_drop(tape, update);
        update = ortho;
    }
    mpl_drop(tape, update);
}

void mpl_muon_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    static const struct mpl_optimizer_spec adamw = {.name = MPL_ADAMW};
    struct mpl_optim inner = *optim, rest = *optim;

    inner.count = optim->muon_count;
    muon(tape, &inner);
    rest.spec = &adamw;
    rest.is_foreach = true;
    rest.parameters += optim->muon_count;
    rest.states += optim->muon_count;
    rest.count -= optim->muon_count;
    mpl_adam_step(tape, &rest);
}
