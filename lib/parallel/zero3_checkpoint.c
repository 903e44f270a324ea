/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stage 3: what saving and loading a checkpoint takes on the card.
 *
 * source: deepspeed/runtime/engine.py (_zero3_consolidated_16bit_state_dict, save_checkpoint,
 * load_checkpoint), zero/stage3.py (checkpoint_event_prologue, checkpoint_event_epilogue,
 * _rigid_load_state_dict), partition_parameters.py (GatheredParameters), release 0.19.6
 */
#include <string.h>

#include "parallel/zero3.h"
#include "spec/plan.h"
#include "step/around.h"

/* checkpoint_event_epilogue: small weights are gathered again, as after a step. */
static void gather_persistent(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < zero->count; i++)
        if (zero->weights[i].persists)
            zero->list[count++] = &zero->weights[i];
    mpl_zero3_gather_now(tape, zero, zero->list, count);
}

/* GatheredParameters() around one module's own weights, each of which is copied to the host. */
static void gather_module(struct mpl_tape *tape, struct mpl_zero3 *zero,
                          struct mpl_zero3_weight *const *weights, uint32_t count)
{
    mpl_zero3_gather_now(tape, zero, weights, count);
    for (uint32_t i = 0; i < count; i++)
        mpl_zero3_give_up(tape, weights[i]);
}

/* _zero3_consolidated_16bit_state_dict: one module after the other; a head that is tied has its
 * weight gathered again. */
static void consolidate(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->count && !tape->is_stopped;) {
        uint32_t count = 0;

        do
            zero->list[count++] = &zero->weights[i++];
        while (i < zero->count && mpl_zero3_has_same_module(&zero->weights[i]));
        gather_module(tape, zero, zero->list, count);
    }
    for (uint32_t i = 0; i < zero->count; i++) {
        struct mpl_zero3_weight *weight = &zero->weights[i];

        if (weight->parameter->is_tied)
            gather_module(tape, zero, &weight, 1);
    }
}

/* The model's weights of all ranks by the first, if they are wanted as a whole; then each rank's
 * partitions and states as they are, which a Trainer saves beside them. */
void mpl_zero3_save(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    const struct mpl_checkpoint_spec *c = &network->plan->checkpoint;
    struct mpl_zero3 *zero = network->wrapped;

    (void)optim;
    if (c->save == MPL_SAVE_FULL) {
        mpl_zero3_release_all(tape, zero);
        consolidate(tape, zero);
        gather_persistent(tape, zero);
    }
    if (c->save == MPL_SAVE_FULL && !c->has_states)
        return;
    mpl_zero3_release_all(tape, zero);
    gather_persistent(tape, zero);
}

/* Read on the host: the optimizer's states come to where its parameters are, the rest is copied
 * into what is there. */
void mpl_zero3_resume(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    struct mpl_zero3 *zero = network->wrapped;

    mpl_zero3_release_all(tape, zero);
    mpl_resume_states(tape, optim, false);
    gather_persistent(tape, zero);
}
