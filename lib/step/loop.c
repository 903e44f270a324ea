/* SPDX-License-Identifier: MIT */
/* The training loop: forward, backward and optimizer step, as many as the plan says. */
#include "base/fail.h"
#include "op/op.h"
#include "part/te.h"
#include "spec/around.h"
#include "step/around.h"
#include "step/repeat.h"
#include "step/run.h"
#include "step/trainer_metrics.h"

static void drop_outputs(struct mpl_tape *tape, struct mpl_outputs *outputs)
{
    for (uint32_t i = 0; i < outputs->count; i++)
        mpl_drop(tape, outputs->of[i]);
    outputs->count = 0;
}

/* The rest of the output object goes, or stays in the place of the last one's. */
static void take_outputs(struct mpl_run *run)
{
    struct mpl_network *network = &run->network;
    const struct mpl_outputs old = network->kept;

    drop_outputs(run->tape, &network->kept);
    if (!run->plan->training.keep_outputs) {
        drop_outputs(run->tape, &network->outputs);
        return;
    }
    network->kept = network->outputs;
    network->outputs = (struct mpl_outputs){.of = old.of};
}

/* The others are computed from the output, by the trainer. */
static bool output_has_loss(const struct mpl_training *t)
{
    return (t->loss.name == MPL_LOSS_CROSS_ENTROPY && !(t->loss.label_smoothing > 0)) ||
           t->loss.name == MPL_LOSS_CLASSIFICATION;
}

/* The name is bound to another loss. */
static void drop_last_loss(struct mpl_run *run)
{
    mpl_drop(run->tape, run->last_loss);
    run->last_loss = NULL;
}

/* loss = F.cross_entropy(logits, y_sample): outside autocast and model. */
static void sample(struct mpl_run *run, struct mpl_tensor **loss)
{
    mpl_rebind(run->tape, loss, mpl_sampled_loss(run->tape, &run->sampled, *loss));
    drop_last_loss(run);
    if (!run->plan->training.keep_outputs)
        mpl_sampled_drop(run->tape, &run->sampled);
}

/* is_sampled: the model is called without labels, which are drawn from its logits. */
static struct mpl_tensor *forward(struct mpl_run *run, bool is_sampled)
{
    const struct mpl_training *t = &run->plan->training;
    struct mpl_tape *tape = run->tape;
    struct mpl_tensor *logits = NULL, *loss;

    tape->autocast = t->autocast;
    tape->saves_on_host = t->offload_activations;
    run->batch.has_no_labels = is_sampled;
    loss = mpl_hold(mpl_network_call(tape, &run->network, &run->batch, &logits));
    if (!is_sampled)
        drop_last_loss(run);
    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    tape->saves_on_host = false;
    mpl_trainer_metrics(tape, t, &logits);
    mpl_te_leave(tape, &run->network); /* the outermost of what accelerate puts around forward */
    mpl_drop(tape, run->kept_logits);  /* the name is bound to the new output only now */
    mpl_drop(tape, run->kept_loss);
    run->kept_logits = t->keep_outputs ? logits : NULL;
    run->kept_loss = t->keep_outputs && output_has_loss(t) && !is_sampled ? mpl_hold(loss) : NULL;
    if (is_sampled)
        sample(run, &loss);
    if (!t->keep_outputs)
        mpl_drop(tape, logits);
    take_outputs(run);
    if (t->gradient_accumulation_steps > 1 && !t->shared_batch)
        mpl_rebind(tape, &loss, mpl_op_div_scalar(tape, loss));
    if (!t->shared_batch && !run->network.keeps_batch)
        mpl_run_drop_batch(run);
    return loss;
}

/* A loop that reuses its names keeps the loss until the next one is bound to the name. */
static void drop_loss(struct mpl_run *run, struct mpl_tensor *loss)
{
    if (run->plan->training.shared_batch)
        run->last_loss = loss;
    else
        mpl_drop(run->tape, loss);
}

static void backward(struct mpl_run *run, struct mpl_tensor *loss)
{
    struct mpl_tensor *scaled;

    if (!run->plan->training.loss_scaling) {
        mpl_backward(run->tape, loss);
        return;
    }
    scaled = mpl_hold(mpl_scaler_scale(run->tape, &run->scaler, loss));
    mpl_backward(run->tape, scaled);
    mpl_drop(run->tape, scaled);
}

static void update(struct mpl_run *run)
{
    const struct mpl_training *t = &run->plan->training;

    mpl_optim_begin(run->tape, &run->local);
    if (t->loss_scaling)
        mpl_scaler_unscale(run->tape, &run->scaler);
    if (t->gradient_clipping > 0)
        mpl_clip_grad_norm(run->tape, &run->optim);
    mpl_optim_step(run->tape, &run->local);
    mpl_scaler_update(run->tape, &run->scaler);
    if (t->zero_grad == MPL_ZERO_GRAD_AFTER_STEP)
        mpl_optim_zero_grad(run->tape, &run->optim, t->zero_grad_set_to_none);
}

static void accumulate(struct mpl_run *run, uint32_t step, bool is_sampled)
{
    const struct mpl_training *t = &run->plan->training;
    struct mpl_tape *tape = run->tape;

    for (uint32_t micro = 0; micro < (uint32_t)t->gradient_accumulation_steps && !tape->err.status;
         micro++) {
        const bool is_last = micro + 1 == (uint32_t)t->gradient_accumulation_steps;
        const struct mpl_wrapper *wrapper = run->network.wrapper;
        struct mpl_tensor *loss, *scaled;

        mpl_tape_mark(tape, step, micro, MPL_PHASE_DATA);
        mpl_run_make_batch(run);
        if (run->network.wrapper && run->network.wrapper->set_sync)
            run->network.wrapper->set_sync(&run->network,
                                           is_last || !run->plan->parallelism.no_sync);
        if (run->network.wrapper && run->network.wrapper->set_boundary)
            run->network.wrapper->set_boundary(&run->network, is_last);
        mpl_tape_mark(tape, step, micro, MPL_PHASE_FORWARD);
        loss = forward(run, is_sampled);
        if (t->zero_grad == MPL_ZERO_GRAD_BEFORE_BACKWARD && !micro) {
            mpl_tape_mark(tape, step, micro, MPL_PHASE_DATA); /* neither forward nor backward */
            mpl_optim_zero_grad(tape, &run->optim, t->zero_grad_set_to_none);
        }
        mpl_tape_mark(tape, step, micro, MPL_PHASE_BACKWARD);
        scaled = wrapper && wrapper->scale_loss ? wrapper->scale_loss(tape, loss) : mpl_hold(loss);
        backward(run, scaled);
        mpl_drop(tape, scaled);
        drop_loss(run, loss);
    }
    mpl_tape_mark(tape, step, (uint32_t)t->gradient_accumulation_steps - 1, MPL_PHASE_OPTIMIZER);
}

/* Steps from one pass over sampled labels to the next one; 0: there is none. Two of them are in
 * every run: the second one may still hold the names of the first one. */
static uint32_t sampling_interval(const struct mpl_training *t)
{
    const int64_t most = t->steps / 2 > 1 ? t->steps / 2 : 1;

    if (t->optimizer.name != MPL_SOPHIA)
        return 0;
    return (uint32_t)(t->optimizer.hessian_interval < most ? t->optimizer.hessian_interval : most);
}

/* update_hessian, which works in place, and what surrounds it. */
static void sampling_pass(struct mpl_run *run, uint32_t step)
{
    const struct mpl_training *t = &run->plan->training;

    accumulate(run, step, true);
    if (t->gradient_clipping > 0)
        mpl_clip_grad_norm(run->tape, &run->optim);
    mpl_optim_zero_grad(run->tape, &run->optim, t->zero_grad_set_to_none);
}

static void train_step(struct mpl_run *run, uint32_t step)
{
    const uint32_t interval = sampling_interval(&run->plan->training);

    accumulate(run, step, false);
    if (run->network.wrapper && run->network.wrapper->step)
        run->network.wrapper->step(run->tape, &run->network, &run->local);
    else
        update(run);
    if (interval && step % interval == interval - 1)
        sampling_pass(run, step);
}

/* The loop above depends on nothing but what lives: a family's own loop may collect garbage. */
static enum mpl_repeat repeat_step(struct mpl_run *run, const struct mpl_step_start *last)
{
    const enum mpl_repeat result =
        mpl_timeline_repeat(run->tape->timeline, last, MPL_TAPE_MAX_REQUESTS);

    if (result == MPL_REPEAT_NOMEM)
        mpl_tape_fail(run->tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
    if (result == MPL_REPEAT_LIMIT)
        mpl_tape_fail(run->tape, MEMPLAN_ERR_LIMIT, MPL_TAPE_LIMIT_TEXT);
    return result;
}

/* Traces the first two steps, without and with optimizer state, and copies the second for the rest
 * where it would be the same. Once one is copied, the tape does not know what lives. */
static void train(struct mpl_run *run, bool may_copy)
{
    struct mpl_step_start last = {0};

    for (int64_t step = 0; step < run->plan->training.steps && !run->tape->err.status; step++) {
        const struct mpl_step_start here = mpl_step_start_here(run->tape->timeline);
        const struct mpl_wrapper *wrapper = run->network.wrapper;
        const bool has_settled =
            !wrapper || !wrapper->has_settled || wrapper->has_settled(&run->network);
        const enum mpl_repeat copy =
            may_copy && has_settled && step >= 2 ? repeat_step(run, &last) : MPL_REPEAT_DIFFERS;

        if (copy == MPL_REPEAT_DIFFERS && step > 2 && may_copy)
            mpl_tape_fail(run->tape, MEMPLAN_ERR_INTERNAL, "a copied step cannot be copied");
        may_copy = may_copy && (step < 2 || copy == MPL_REPEAT_DONE);
        if (copy == MPL_REPEAT_DIFFERS && !run->tape->err.status)
            train_step(run, (uint32_t)step);
        last = here;
    }
}

/* The same for a family whose loop has an optimizer step of its own. */
static void family_accumulate(struct mpl_run *run, uint32_t step)
{
    const uint32_t count = (uint32_t)run->plan->training.gradient_accumulation_steps;
    const struct mpl_wrapper *wrapper = run->network.wrapper;
    const struct mpl_loop *loop = run->network.loop;
    struct mpl_tape *tape = run->tape;

    for (uint32_t micro = 0; micro < count && !tape->err.status; micro++) {
        const bool is_last = micro + 1 == count;
        struct mpl_tensor *loss;

        mpl_tape_mark(tape, step, micro, MPL_PHASE_DATA);
        loop->make_batch(tape, &run->network);
        if (wrapper && wrapper->set_sync)
            wrapper->set_sync(&run->network, is_last || !run->plan->parallelism.no_sync);
        mpl_tape_mark(tape, step, micro, MPL_PHASE_FORWARD);
        loss = loop->forward(tape, &run->network);
        mpl_tape_mark(tape, step, micro, MPL_PHASE_BACKWARD);
        mpl_backward(tape, loss);
        if (is_last) {
            mpl_tape_mark(tape, step, micro, MPL_PHASE_OPTIMIZER);
            mpl_masters_step(tape, &run->local);
        }
        loop->end_micro(tape, &run->network, loss);
    }
}

/* The same for a family with a loop of its own. */
static void family_step(struct mpl_run *run, uint32_t step)
{
    const struct mpl_training *t = &run->plan->training;
    const struct mpl_loop *loop = run->network.loop;
    struct mpl_tape *tape = run->tape;
    struct mpl_tensor *loss;

    mpl_tape_mark(tape, step, 0, MPL_PHASE_DATA);
    loop->make_batch(tape, &run->network);
    if (loop->zeroes_first)
        mpl_optim_zero_grad(tape, &run->optim, t->zero_grad_set_to_none);
    mpl_tape_mark(tape, step, 0, MPL_PHASE_FORWARD);
    loss = loop->forward(tape, &run->network);
    mpl_tape_mark(tape, step, 0, MPL_PHASE_DATA); /* neither forward's figures nor backward's */
    if (!loop->zeroes_first)
        mpl_optim_zero_grad(tape, &run->optim, t->zero_grad_set_to_none);
    mpl_tape_mark(tape, step, 0, MPL_PHASE_BACKWARD);
    loss = mpl_hold(loop->divides_loss ? mpl_op_div_scalar(tape, loss) : loss);
    mpl_backward(tape, loss);
    mpl_drop(tape, loss);
    mpl_tape_mark(tape, step, 0, MPL_PHASE_OPTIMIZER);
    if (t->gradient_clipping > 0)
        mpl_clip_grad_norm(tape, &run->optim);
    mpl_optim_step(tape, &run->local);
    if (loop->end_step)
        loop->end_step(tape, &run->network);
}

/* train() returns, or its names are deleted: batch and loss of the last step go. */
static void drop_last(struct mpl_run *run)
{
    mpl_run_drop_batch(run);
    mpl_drop(run->tape, run->last_loss);
    run->last_loss = NULL;
}

void mpl_run_loop(struct mpl_run *run)
{
    const struct mpl_training *t = &run->plan->training;
    const struct mpl_loop *loop = run->network.loop;

    if (loop)
        for (int64_t step = 0; step < t->steps && !run->tape->err.status; step++)
            loop->end_micro ? family_accumulate(run, (uint32_t)step)
                            : family_step(run, (uint32_t)step);
    else
        train(run, !run->traces_all && sampling_interval(t) <= 1 && !t->evaluation.batches &&
                       !t->sequence_lengths.count && !mpl_is_saved_on_card(run->plan));
    run->network.plan = run->plan;
    if (t->evaluation.batches && !run->tape->is_stopped) {
        mpl_tape_mark(run->tape, (uint32_t)t->steps - 1, 0, MPL_PHASE_EVALUATION);
        drop_last(run);
        mpl_evaluate(run->tape, &run->network);
    }
    if (mpl_is_saved_on_card(run->plan) && !run->tape->is_stopped) {
        mpl_tape_mark(run->tape, (uint32_t)t->steps - 1, 0, MPL_PHASE_SAVE);
        drop_last(run);
        if (run->network.wrapper && run->network.wrapper->save)
            run->network.wrapper->save(run->tape, &run->network, &run->local);
    }
}
