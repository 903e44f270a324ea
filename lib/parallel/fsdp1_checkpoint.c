/* SPDX-License-Identifier: MIT */
/*
 * FSDP1: state dicts of weights and optimizer states, whole or in shards.
 *
 * source: torch/distributed/fsdp/_state_dict_utils.py (_full_post_state_dict_hook,
 * _sharded_post_state_dict_hook, _common_unshard_pre_state_dict_hook), _unshard_param_utils.py
 * (_unshard_fsdp_state_params), _flat_param.py (to_cpu), _optim_utils.py
 * (_convert_state_with_flat_params, _convert_state_with_orig_params), release 2.14
 */
#include <string.h>

#include "base/bytes.h"
#include "optim/optim.h"
#include "parallel/fsdp1_unit.h"
#include "step/around.h"

/* What stays on the card until the state dicts are dropped. */
struct saving {
    struct mpl_tape *tape;
    const struct mpl_fsdp1 *fsdp;
    struct mpl_tensor **kept;
    uint32_t count;
    bool offloads, is_full;
};

/* shape: [padded flat parameter], in full precision, on the current stream */
static struct mpl_tensor *take_flat(const struct saving *s, const struct mpl_fsdp1_unit *unit,
                                    const char *op, enum mpl_dtype dtype)
{
    return mpl_take_flat(s->tape, s->tape->stream, MPL_CATEGORY_COMMUNICATION, op, dtype,
                         mpl_mul(unit->shard_numel, s->fsdp->shards));
}

/* A whole parameter, or this rank's rows of it (chunk(): the first ranks have the most). */
static void copy_piece(struct saving *s, const struct mpl_parameter *parameter,
                       enum mpl_dtype dtype)
{
    const int64_t rows = parameter->shape.dim[0].n, shards = (int64_t)s->fsdp->shards;
    struct mpl_shape shape = parameter->shape;
    struct mpl_tensor *copy;

    if (!s->is_full)
        shape.dim[0].n = (rows + shards - 1) / shards;
    if (s->is_full && s->offloads)
        return; /* straight to the host */
    copy = mpl_hold(mpl_empty(s->tape, "clone.default", dtype, &shape));
    if (s->offloads)
        mpl_drop(s->tape, copy);
    else
        s->kept[s->count++] = copy;
}

static void copy_pieces(struct saving *s, const struct mpl_fsdp1_unit *unit, enum mpl_dtype dtype,
                        bool only_trained, int times)
{
    for (uint32_t i = 0; i < unit->count; i++) {
        const struct mpl_parameter *p = unit->pieces[i].parameter;

        for (int k = 0; p && k < times && (!only_trained || p->is_trainable); k++)
            copy_piece(s, p, dtype);
    }
}

/* In full precision; what a forward left gathered in low precision is freed before. */
static struct mpl_tensor *gather_unit(const struct saving *s, struct mpl_fsdp1_unit *unit)
{
    mpl_fsdp1_reshard(s->tape, unit, true);
    return take_flat(s, unit, "resize_storage", unit->dtype);
}

/* The hooks of one unit's state_dict(): gathered, copied, freed. Whole weights that go to the host
 * leave the card at once, and come back to it only to be freed. */
static void save_unit(struct saving *s, struct mpl_fsdp1_unit *unit)
{
    const bool goes = s->is_full && s->offloads;
    struct mpl_tensor *flat = NULL;

    if (s->fsdp->shards > 1)
        flat = gather_unit(s, unit);
    if (goes) {
        mpl_drop(s->tape, flat);
        flat = s->fsdp->shards > 1 ? take_flat(s, unit, "resize_storage", unit->dtype) : NULL;
    } else {
        copy_pieces(s, unit, unit->dtype, false, 1);
    }
    mpl_drop(s->tape, flat);
}

/* The root is gathered before the units inside it, and freed behind them. */
static void save_weights(struct saving *s)
{
    struct mpl_fsdp1_unit *root = s->fsdp->units;
    struct mpl_tensor *flat = NULL;
    const bool goes = s->is_full && s->offloads;

    if (s->fsdp->shards > 1)
        flat = gather_unit(s, root);
    if (goes)
        mpl_drop(s->tape, flat);
    for (uint32_t i = 1; i < s->fsdp->count; i++)
        save_unit(s, &s->fsdp->units[i]);
    if (goes)
        flat = s->fsdp->shards > 1 ? take_flat(s, root, "resize_storage", root->dtype) : NULL;
    else
        copy_pieces(s, root, root->dtype, false, 1);
    mpl_drop(s->tape, flat);
}

/* States of one parameter that are as large as its part of the shard. */
static int count_states(const struct mpl_optim *optim)
{
    int count = 0;

    for (int k = 0; optim->count && k < MPL_MAX_STATES; k++) {
        const struct mpl_tensor *state = optim->states[0].tensors[k];

        count += state && state->shape.ndim;
    }
    return count;
}

/* _unflatten_optim_state: every state of the flat parameter is gathered, then they are taken apart:
 * whole ones are views of what was gathered. */
static void save_flat_states(struct saving *s, const struct mpl_fsdp1_unit *unit, int states)
{
    struct mpl_tensor *flat[MPL_MAX_STATES] = {NULL};

    for (int k = 0; k < states; k++)
        flat[k] = take_flat(s, unit, "empty.memory_format", unit->dtype);
    if (!s->is_full)
        copy_pieces(s, unit, unit->dtype, true, states);
    for (int k = 0; k < states; k++)
        if (s->is_full && !s->offloads)
            s->kept[s->count++] = flat[k];
        else
            mpl_drop(s->tape, flat[k]);
}

/* The parameter that comes next by name, after last; NULL: none. */
static const struct mpl_parameter *next_by_name(const struct mpl_fsdp1_unit *unit,
                                                const struct mpl_parameter *last)
{
    const struct mpl_parameter *next = NULL;

    for (uint32_t i = 0; i < unit->count; i++) {
        const struct mpl_parameter *p = unit->pieces[i].parameter;

        if (p && (!last || strcmp(p->name, last->name) > 0) &&
            (!next || strcmp(p->name, next->name) < 0))
            next = p;
    }
    return next;
}

/* _allgather_orig_param_states: one buffer for all states; this rank's parts of each are put
 * together first, and the name keeps the last ones until the next. */
static void save_original_states(struct saving *s, const struct mpl_fsdp1_unit *unit, int states)
{
    struct mpl_tensor *flat = take_flat(s, unit, "empty.memory_format", unit->dtype);
    struct mpl_tensor *shard = NULL;

    for (int k = 0; k < states; k++) {
        mpl_rebind(s->tape, &shard,
                   mpl_return(mpl_take_flat(s->tape, s->tape->stream, MPL_CATEGORY_COMMUNICATION,
                                            "cat.default", unit->dtype, unit->shard_numel)));
        for (const struct mpl_parameter *p = next_by_name(unit, NULL); p; p = next_by_name(unit, p))
            if (p->is_trainable)
                copy_piece(s, p, unit->dtype);
    }
    mpl_drop(s->tape, shard);
    mpl_drop(s->tape, flat);
}

/* Without sharding states are whole: copies of them go to the host alone. */
static void save_states(struct saving *s, const struct mpl_optim *optim)
{
    const int states = count_states(optim);

    for (uint32_t i = 0; i < s->fsdp->count && s->fsdp->shards > 1; i++) {
        const struct mpl_fsdp1_unit *unit = &s->fsdp->units[i];

        if (!unit->is_trained || !states)
            continue;
        if (s->fsdp->uses_originals)
            save_original_states(s, unit, states);
        else
            save_flat_states(s, unit, states);
    }
}

void mpl_fsdp1_save(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    const struct mpl_checkpoint_spec *c = &network->plan->checkpoint;
    const struct mpl_fsdp1 *fsdp = network->wrapped;
    const size_t room = (size_t)(network->parameter_count + fsdp->count) * (MPL_MAX_STATES + 1) + 1;
    struct saving s = {.tape = tape, .fsdp = fsdp, .offloads = c->offloads};

    s.is_full = c->save == MPL_SAVE_FULL;
    s.kept = mpl_arena_zalloc(&tape->arena, room * sizeof(*s.kept));
    if (!s.kept) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (uint32_t i = 0; i < fsdp->count; i++) /* _common_pre_state_dict_hook */
        mpl_fsdp1_reset_gradient(tape, &fsdp->units[i]);
    save_weights(&s);
    if (c->has_states)
        save_states(&s, optim);
    for (uint32_t i = 0; i < s.count; i++)
        mpl_drop(tape, s.kept[i]);
}

/* ---- resuming ---------------------------------------------------------------------------------
 */

/* load_state_dict(): the root is gathered, then each unit inside it; whole weights are copied in.
 */
static void load_weights(struct mpl_tape *tape, const struct mpl_fsdp1 *fsdp)
{
    const struct saving s = {.tape = tape, .fsdp = fsdp};
    struct mpl_tensor *root;

    if (fsdp->shards == 1)
        return;
    root = take_flat(&s, fsdp->units, "resize_storage", fsdp->units->dtype);
    for (uint32_t i = 1; i < fsdp->count; i++)
        mpl_drop(tape, take_flat(&s, &fsdp->units[i], "resize_storage", fsdp->units[i].dtype));
    mpl_drop(tape, root);
}

/* optim_state_dict_to_load() cuts the states on the host; they come to the card one by one. With
 * original parameters the number of steps stays where it was. */
void mpl_fsdp1_resume(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    const bool is_on_card = network->plan->checkpoint.resume == MPL_RESUME_CUDA;
    struct mpl_fsdp1 *fsdp = network->wrapped;
    struct mpl_whole_checkpoint whole = {0};

    if (is_on_card && !mpl_whole_load(tape, network, optim, &whole))
        return;
    mpl_fsdp1_lazy_init(tape, fsdp);
    load_weights(tape, fsdp);
    mpl_resume_states(tape, optim, is_on_card && fsdp->uses_originals);
    mpl_whole_drop(tape, &whole, false);
}
