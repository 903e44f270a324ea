/* SPDX-License-Identifier: MIT */
/* What every optimizer shares: its parameters, lists of temporaries, zero_grad. */
#include "optim/optim.h"

#include "base/fail.h"
#include "spec/text.h"

/* ---- making one -------------------------------------------------------------------------------
 */

static uint32_t count_trainable(const struct mpl_network *network)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < network->parameter_count; i++)
        count += network->parameters[i].is_trainable;
    return count;
}

/* Appends the trainable parameters in order; for Muon those that it takes, or does not. */
static void append(struct mpl_optim *optim, struct mpl_network *network, bool is_muon, bool taken)
{
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];

        if (p->is_trainable && (!is_muon || mpl_muon_takes(p) == taken))
            optim->parameters[optim->count++] = p;
    }
}

/* source: torch/optim/adam.py (adam): foreach is the default only when neither is given */
static bool is_foreach(const struct mpl_optimizer_spec *spec, const struct mpl_optim_row *row)
{
    if (spec->foreach != MPL_UNSET)
        return spec->foreach == MPL_TRUE;
    return row->by_default == MPL_OPTIM_FOREACH && spec->fused == MPL_UNSET;
}

enum memplan_status mpl_optim_init(struct mpl_optim *optim, struct mpl_network *network,
                                   struct memplan_error *err)
{
    const uint32_t count = count_trainable(network);
    const struct mpl_optimizer_spec *spec = &network->plan->training.optimizer;
    const bool is_muon = spec->name == MPL_MUON;

    *optim = (struct mpl_optim){.spec = spec, .row = mpl_optim_find(spec->name)};
    if (!optim->row)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/name",
                        "training.optimizer.name: this optimizer is not modelled");
    optim->is_foreach = is_foreach(spec, optim->row);
    optim->is_early = !mpl_version_at_least(&network->plan->pytorch, 2, 1, 0);
    optim->parameters = mpl_arena_alloc(network->arena, (count + 1) * sizeof(*optim->parameters));
    optim->states = mpl_arena_zalloc(network->arena, (count + 1) * sizeof(*optim->states));
    if (!optim->parameters || !optim->states)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while making the optimizer");
    append(optim, network, is_muon, true);
    optim->muon_count = is_muon ? optim->count : 0;
    if (is_muon)
        append(optim, network, is_muon, false);
    return spec->master_weights ? mpl_masters_init(optim, network->arena, err) : MEMPLAN_OK;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

void mpl_optim_create(struct mpl_tape *tape, struct mpl_optim *optim)
{
    if (optim->masters && !tape->is_stopped)
        mpl_masters_create(tape, optim);
    if (optim->row->create && !tape->is_stopped)
        optim->row->create(tape, optim);
    if (optim->spec->in_backward && !tape->is_stopped)
        mpl_in_backward_create(tape, optim);
}

void mpl_optim_begin(struct mpl_tape *tape, struct mpl_optim *optim)
{
    if (optim->masters && !tape->is_stopped)
        mpl_masters_begin(tape, optim);
}

void mpl_optim_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    if (!tape->is_stopped && !optim->spec->in_backward)
        optim->row->step(tape, optim);
    if (optim->masters && !tape->is_stopped)
        mpl_masters_end(tape, optim);
}

void mpl_optim_zero_grad(struct mpl_tape *tape, struct mpl_optim *optim, bool set_to_none)
{
    for (uint32_t i = 0; i < optim->count && set_to_none; i++) {
        struct mpl_tensor *leaf = mpl_parameter_leaf(optim->parameters[i]);

        mpl_drop(tape, leaf->grad);
        leaf->grad = NULL;
    }
}

/* ---- tensors of a step ------------------------------------------------------------------------
 */

bool mpl_optim_is_fused(const struct mpl_optim *optim)
{
    return optim->spec->fused == MPL_TRUE;
}

struct mpl_tensor *mpl_optim_leaf(const struct mpl_optim *optim, uint32_t i)
{
    struct mpl_tensor *leaf = mpl_parameter_leaf(optim->parameters[i]);

    return leaf->grad ? leaf : NULL;
}

struct mpl_tensor *mpl_optim_new_state_shaped(struct mpl_tape *tape, const char *op,
                                              enum mpl_dtype dtype, const struct mpl_shape *shape)
{
    struct mpl_tensor *state;

    tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
    state = mpl_hold(mpl_empty(tape, op, dtype, shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    return state;
}

struct mpl_tensor *mpl_optim_new_state(struct mpl_tape *tape, const char *op,
                                       const struct mpl_tensor *like)
{
    return mpl_optim_new_state_shaped(tape, op, (enum mpl_dtype)like->dtype, &like->shape);
}

bool mpl_optim_is_new(struct mpl_optim *optim, uint32_t i)
{
    const bool is_new = !optim->states[i].is_ready;

    optim->states[i].is_ready = true;
    return is_new;
}

void mpl_optim_init_zeros(struct mpl_tape *tape, struct mpl_optim *optim, int count)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf || !mpl_optim_is_new(optim, i))
            continue;
        for (int k = 0; k < count; k++)
            optim->states[i].tensors[k] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    }
}

struct mpl_tensor *mpl_optim_like(struct mpl_tape *tape, const char *op,
                                  const struct mpl_tensor *like)
{
    return mpl_empty(tape, op, (enum mpl_dtype)like->dtype, &like->shape);
}

void mpl_optim_unbind(struct mpl_tape *tape, struct mpl_tensor **name)
{
    mpl_drop(tape, *name);
    *name = NULL;
}

/* ---- lists ------------------------------------------------------------------------------------
 */

struct mpl_tensor **mpl_optim_list(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **list = mpl_arena_zalloc(&tape->arena, (optim->count + 1) * sizeof(*list));

    if (!list)
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
    return list;
}

void mpl_optim_take_list(struct mpl_tape *tape, const struct mpl_optim *optim, const char *op,
                         struct mpl_tensor **list)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        list[i] = leaf ? mpl_hold(mpl_optim_like(tape, op, leaf)) : NULL;
    }
}

void mpl_optim_drop_list(struct mpl_tape *tape, const struct mpl_optim *optim,
                         struct mpl_tensor **list)
{
    for (uint32_t i = 0; i < optim->count; i++)
        mpl_optim_unbind(tape, &list[i]);
}

bool mpl_optim_take_gradients(struct mpl_tape *tape, const struct mpl_optim *optim, bool decays,
                              struct mpl_tensor **list)
{
    if (optim->spec->maximize) /* weights are then added in place */
        mpl_optim_take_list(tape, optim, "_foreach_neg.default", list);
    else if (decays)
        mpl_optim_take_list(tape, optim, "_foreach_add.List", list);
    return optim->spec->maximize || decays;
}

void mpl_optim_bind_gradient(struct mpl_tape *tape, const struct mpl_optim *optim,
                             const struct mpl_tensor *leaf, bool decays, struct mpl_tensor **grad)
{
    if (optim->spec->maximize)
        mpl_rebind(tape, grad, mpl_optim_like(tape, "neg.default", leaf));
    else
        mpl_optim_unbind(tape, grad);
    if (decays)
        mpl_rebind(tape, grad, mpl_optim_like(tape, "add.Tensor", leaf));
}
