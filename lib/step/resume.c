/* SPDX-License-Identifier: MIT */
/*
 * Stage "step": a checkpoint is loaded before the first step.
 *
 * source: torch/serialization.py (load: a storage goes to map_location when it is met),
 * torch/optim/optimizer.py (load_state_dict, _process_value_according_to_param_policy: .to() of
 * what is already there makes no copy), torch/nn/modules/module.py (load_state_dict: copy_),
 * release 2.13
 */
#include "step/around.h"

enum { EXP_AVG, EXP_AVG_SQ, STEP = 3 }; /* as optim/adam.c has them */

static struct mpl_tensor *take(struct mpl_tape *tape, enum mpl_category category, const char *op,
                               const struct mpl_tensor *like)
{
    struct mpl_tensor *tensor;

    tape->category = category;
    tensor = mpl_hold(mpl_empty(tape, op, (enum mpl_dtype)like->dtype, &like->shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    return tensor;
}

/* Copies of the weights, in the order of the file: shape and dtype of each parameter. */
static struct mpl_tensor **load_weights(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_tensor **copies =
        mpl_arena_zalloc(&tape->arena, (network->parameter_count + 1) * sizeof(*copies));

    if (!copies) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return NULL;
    }
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (!network->parameters[i].is_buffer)
            copies[i] =
                take(tape, MPL_CATEGORY_PARAMETERS, "resume", network->parameters[i].tensor);
    return copies;
}

/* Adam's states of every parameter: from the file onto the card (with the step, a float32 scalar),
 * or from the host's copy of it. */
void mpl_resume_states(struct mpl_tape *tape, struct mpl_optim *optim, bool is_on_card)
{
    const struct mpl_shape scalar = {0};

    for (uint32_t i = 0; i < optim->count; i++) {
        struct mpl_optim_state *state = &optim->states[i];
        const struct mpl_tensor *leaf = mpl_parameter_leaf(optim->parameters[i]);

        state->is_ready = true;
        tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
        if ((is_on_card || mpl_optim_is_fused(optim)) && mpl_numel(leaf)) /* no part: no state */
            state->tensors[STEP] = mpl_hold(mpl_empty(tape, "resume", MPL_FLOAT32, &scalar));
        state->tensors[EXP_AVG] = take(tape, MPL_CATEGORY_OPTIMIZER_STATE, "resume", leaf);
        state->tensors[EXP_AVG_SQ] = take(tape, MPL_CATEGORY_OPTIMIZER_STATE, "resume", leaf);
    }
    tape->category = MPL_CATEGORY_TEMPORARY;
}

/* shape: of the whole parameter */
static struct mpl_tensor *take_whole(struct mpl_tape *tape, enum mpl_category category,
                                     const struct mpl_parameter *parameter)
{
    struct mpl_tensor *tensor;

    tape->category = category;
    tensor = mpl_hold(mpl_empty(tape, "resume", parameter->dtype, &parameter->shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    return tensor;
}

bool mpl_whole_load(struct mpl_tape *tape, const struct mpl_network *network,
                    const struct mpl_optim *optim, struct mpl_whole_checkpoint *whole)
{
    const struct mpl_shape scalar = {0};
    const size_t room = network->parameter_count + 3 * (size_t)optim->count + 1;

    *whole = (struct mpl_whole_checkpoint){
        .of = mpl_arena_zalloc(&tape->arena, room * sizeof(*whole->of))};
    if (!whole->of) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return false;
    }
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (!network->parameters[i].is_buffer)
            whole->of[whole->count++] =
                take_whole(tape, MPL_CATEGORY_PARAMETERS, &network->parameters[i]);
    whole->weights = whole->count;
    for (uint32_t i = 0; i < optim->count; i++) {
        tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
        whole->of[whole->count++] = mpl_hold(mpl_empty(tape, "resume", MPL_FLOAT32, &scalar));
        for (int k = 0; k < 2; k++)
            whole->of[whole->count++] =
                take_whole(tape, MPL_CATEGORY_OPTIMIZER_STATE, optim->parameters[i]);
    }
    return true;
}

void mpl_whole_drop(struct mpl_tape *tape, struct mpl_whole_checkpoint *whole, bool only_weights)
{
    const uint32_t count = only_weights ? whole->weights : whole->count;

    for (uint32_t i = 0; i < count; i++) {
        mpl_drop(tape, whole->of[i]);
        whole->of[i] = NULL;
    }
}

void mpl_resume(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    const enum mpl_resume how = network->plan->checkpoint.resume;
    struct mpl_tensor **copies = NULL;

    if (how == MPL_RESUME_NONE || tape->is_stopped)
        return;
    mpl_tape_mark(tape, 0, 0, MPL_PHASE_RESUME);
    if (network->wrapper && network->wrapper->resume) {
        network->wrapper->resume(tape, network, optim);
        return;
    }
    if (how == MPL_RESUME_CUDA && !(copies = load_weights(tape, network)))
        return;
    mpl_resume_states(tape, optim, how == MPL_RESUME_CUDA);
    for (uint32_t i = 0; copies && i < network->parameter_count; i++)
        mpl_drop(tape, copies[i]);
}
