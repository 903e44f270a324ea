/* SPDX-License-Identifier: MIT */
/* Stage "step": runs the plan's training loop on the tape, in the real code's order. */
#include "step/train.h"

#include "arch/arch.h"
#include "base/fail.h"
#include "op/linear_4bit.h"
#include "op/op.h"
#include "op/scratch.h"
#include "optim/optim.h"
#include "parallel/strategy.h"
#include "parallel/zero_redundancy.h"
#include "part/adapter.h"
#include "part/float8.h"
#include "part/loss_sampled.h"
#include "step/around.h"
#include "step/frozen.h"
#include "step/reference.h"
#include "step/repeat.h"
#include "step/scaler.h"
#include "step/trainer_metrics.h"

#define MPL_MAX_BATCHES_AHEAD 65 /* training.prefetch_batches, and the one in use */

/* Everything one run needs, on the stack of mpl_trace_run. */
struct run {
    const struct mpl_plan *plan;
    struct mpl_tape *tape;
    struct mpl_network network;
    struct mpl_optim optim; /* over all trained parameters */
    struct mpl_optim local; /* what this rank's step updates */
    struct mpl_scaler scaler;
    struct mpl_batch batch;
    struct mpl_batch ahead[MPL_MAX_BATCHES_AHEAD]; /* on the card before their turn, a ring */
    uint32_t ahead_count, ahead_first;
    struct mpl_tensor *last_loss;
    struct mpl_sampled sampled;                 /* of the last pass over sampled labels */
    struct mpl_tensor *kept_logits, *kept_loss; /* of an output object that outlives its step */
    bool traces_all;
};

/* ---- the batch --------------------------------------------------------------------------------
 */

static struct mpl_tensor *make_input(struct mpl_tape *tape, const struct mpl_shape *shape)
{
    struct mpl_tensor *ids;

    tape->category = MPL_CATEGORY_INPUTS;
    ids = mpl_hold(mpl_empty(tape, "empty.memory_format", MPL_INT64, shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    return ids;
}

/* Chosen and rejected answers go through the model together. */
static struct mpl_tensor *make_ids(struct mpl_tape *tape, const struct mpl_plan *plan)
{
    const struct mpl_dim s = {plan->training.sequence_length, 1};
    const int64_t rows = plan->training.loss.name == MPL_LOSS_DPO ? 2 : 1;
    struct mpl_shape shape = mpl_shape2(mpl_dim(rows * plan->training.micro_batch_size), s);

    return make_input(tape, &shape);
}

static struct mpl_tensor *make_labels(struct mpl_tape *tape, const struct mpl_plan *plan)
{
    const struct mpl_shape one_each = mpl_shape1(mpl_dim(plan->training.micro_batch_size));

    return plan->training.loss.name == MPL_LOSS_CLASSIFICATION ? make_input(tape, &one_each)
                                                               : make_ids(tape, plan);
}

static void drop_batch(struct run *run)
{
    mpl_drop(run->tape, run->batch.input_ids);
    mpl_drop(run->tape, run->batch.labels);
    mpl_drop(run->tape, run->batch.attention_mask);
    mpl_drop(run->tape, run->batch.item_count);
    mpl_drop(run->tape, run->batch.completion_mask);
    mpl_drop(run->tape, run->batch.advantages);
    run->batch = (struct mpl_batch){0};
}

/* Prompts and completions apart, int64, and an advantage (float32) for each completion. */
static void make_grpo_batch(struct run *run, struct mpl_batch *batch)
{
    const struct mpl_training *t = &run->plan->training;
    const struct mpl_dim b = mpl_dim(t->micro_batch_size);
    const int64_t kept = t->loss.logits_to_keep;
    const struct mpl_shape prompt = mpl_shape2(b, (struct mpl_dim){t->sequence_length - kept, 1});
    const struct mpl_shape completion = mpl_shape2(b, (struct mpl_dim){kept, 1});
    const struct mpl_shape each = mpl_shape1(b);

    batch->input_ids = make_input(run->tape, &prompt);
    batch->attention_mask = make_input(run->tape, &prompt);
    batch->labels = make_input(run->tape, &completion);
    batch->completion_mask = make_input(run->tape, &completion);
    run->tape->category = MPL_CATEGORY_INPUTS;
    batch->advantages = mpl_hold(mpl_empty(run->tape, "empty.memory_format", MPL_FLOAT32, &each));
    run->tape->category = MPL_CATEGORY_TEMPORARY;
    batch->item_count = make_input(run->tape, &(struct mpl_shape){0});
}

static struct mpl_batch new_batch(struct run *run)
{
    const struct mpl_training *t = &run->plan->training;
    struct mpl_batch batch = {0};

    if (t->loss.name == MPL_LOSS_GRPO) {
        make_grpo_batch(run, &batch);
        return batch;
    }
    batch.input_ids = make_ids(run->tape, run->plan);
    batch.labels = t->shared_batch ? mpl_hold(mpl_return(mpl_hold(batch.input_ids)))
                                   : make_labels(run->tape, run->plan);
    if (t->padding)
        batch.attention_mask = make_ids(run->tape, run->plan);
    if (t->loss.num_items_in_batch)
        batch.item_count = make_input(run->tape, &(struct mpl_shape){0});
    return batch;
}

/* A shared batch (one tensor is ids and labels) lives until the next one is there. With batches
 * ahead the one whose turn it is was made so many batches ago. */
static void make_batch(struct run *run)
{
    const uint32_t wanted = (uint32_t)run->plan->training.prefetch_batches;
    struct mpl_batch batch;

    while (run->ahead_count < wanted + 1) {
        run->ahead[(run->ahead_first + run->ahead_count) % MPL_MAX_BATCHES_AHEAD] = new_batch(run);
        run->ahead_count++;
    }
    batch = run->ahead[run->ahead_first];
    run->ahead_first = (run->ahead_first + 1) % MPL_MAX_BATCHES_AHEAD;
    run->ahead_count--;
    drop_batch(run);
    run->batch = batch;
}

/* ---- one step ---------------------------------------------------------------------------------
 */

static void drop_outputs(struct mpl_tape *tape, struct mpl_outputs *outputs)
{
    for (uint32_t i = 0; i < outputs->count; i++)
        mpl_drop(tape, outputs->of[i]);
    outputs->count = 0;
}

/* The rest of the output object goes, or stays in the place of the last one's. */
static void take_outputs(struct run *run)
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
static void drop_last_loss(struct run *run)
{
    mpl_drop(run->tape, run->last_loss);
    run->last_loss = NULL;
}

/* loss = F.cross_entropy(logits, y_sample): outside autocast and model. */
static void sample(struct run *run, struct mpl_tensor **loss)
{
    mpl_rebind(run->tape, loss, mpl_sampled_loss(run->tape, &run->sampled, *loss));
    drop_last_loss(run);
    if (!run->plan->training.keep_outputs)
        mpl_sampled_drop(run->tape, &run->sampled);
}

/* is_sampled: the model is called without labels, which are drawn from its logits. */
static struct mpl_tensor *forward(struct run *run, bool is_sampled)
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
    mpl_drop(tape, run->kept_logits); /* the name is bound to the new output only now */
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
    if (!t->shared_batch)
        drop_batch(run);
    return loss;
}

/* A loop that reuses its names keeps the loss until the next one is bound to the name. */
static void drop_loss(struct run *run, struct mpl_tensor *loss)
{
    if (run->plan->training.shared_batch)
        run->last_loss = loss;
    else
        mpl_drop(run->tape, loss);
}

static void backward(struct run *run, struct mpl_tensor *loss)
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

static void update(struct run *run)
{
    const struct mpl_training *t = &run->plan->training;

    mpl_optim_begin(run->tape, &run->local);
    if (t->loss_scaling)
        mpl_scaler_unscale(run->tape, &run->scaler);
    if (t->gradient_clipping > 0)
        mpl_clip_grad_norm(run->tape, &run->optim);
    mpl_optim_step(run->tape, &run->local);
    mpl_scaler_update(run->tape, &run->scaler);
    mpl_optim_zero_grad(run->tape, &run->optim, t->zero_grad_set_to_none);
}

static void accumulate(struct run *run, uint32_t step, bool is_sampled)
{
    const struct mpl_training *t = &run->plan->training;
    struct mpl_tape *tape = run->tape;

    for (uint32_t micro = 0; micro < (uint32_t)t->gradient_accumulation_steps && !tape->err.status;
         micro++) {
        const bool is_last = micro + 1 == (uint32_t)t->gradient_accumulation_steps;
        const struct mpl_wrapper *wrapper = run->network.wrapper;
        struct mpl_tensor *loss, *scaled;

        mpl_tape_mark(tape, step, micro, MPL_PHASE_DATA);
        make_batch(run);
        if (run->network.wrapper && run->network.wrapper->set_sync)
            run->network.wrapper->set_sync(&run->network,
                                           is_last || !run->plan->parallelism.no_sync);
        if (run->network.wrapper && run->network.wrapper->set_boundary)
            run->network.wrapper->set_boundary(&run->network, is_last);
        mpl_tape_mark(tape, step, micro, MPL_PHASE_FORWARD);
        loss = forward(run, is_sampled);
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
static void sampling_pass(struct run *run, uint32_t step)
{
    const struct mpl_training *t = &run->plan->training;

    accumulate(run, step, true);
    if (t->gradient_clipping > 0)
        mpl_clip_grad_norm(run->tape, &run->optim);
    mpl_optim_zero_grad(run->tape, &run->optim, t->zero_grad_set_to_none);
}

static void train_step(struct run *run, uint32_t step)
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
static enum mpl_repeat repeat_step(struct run *run, const struct mpl_step_start *last)
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
static void train(struct run *run, bool may_copy)
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
static void family_accumulate(struct run *run, uint32_t step)
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
static void family_step(struct run *run, uint32_t step)
{
    const struct mpl_training *t = &run->plan->training;
    const struct mpl_loop *loop = run->network.loop;
    struct mpl_tape *tape = run->tape;
    struct mpl_tensor *loss;

    mpl_tape_mark(tape, step, 0, MPL_PHASE_DATA);
    loop->make_batch(tape, &run->network);
    mpl_tape_mark(tape, step, 0, MPL_PHASE_FORWARD);
    loss = loop->forward(tape, &run->network);
    mpl_tape_mark(tape, step, 0, MPL_PHASE_DATA); /* neither forward's figures nor backward's */
    mpl_optim_zero_grad(tape, &run->optim, t->zero_grad_set_to_none);
    mpl_tape_mark(tape, step, 0, MPL_PHASE_BACKWARD);
    mpl_backward(tape, loss);
    mpl_tape_mark(tape, step, 0, MPL_PHASE_OPTIMIZER);
    if (t->gradient_clipping > 0)
        mpl_clip_grad_norm(tape, &run->optim);
    mpl_optim_step(tape, &run->local);
}

/* train() returns, or its names are deleted: batch and loss of the last step go. */
static void drop_last(struct run *run)
{
    drop_batch(run);
    mpl_drop(run->tape, run->last_loss);
    run->last_loss = NULL;
}

/* ---- sums that the report wants ---------------------------------------------------------------
 */

static void count_parameters(const struct mpl_network *network, struct mpl_trace *trace)
{
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        const struct mpl_parameter *p = &network->parameters[i];
        const uint64_t numel = mpl_parameter_numel(p);
        const uint64_t local =
            mpl_round_up(mpl_dtype_bytes(p->dtype, mpl_parameter_local_numel(p)), 512);
        const uint64_t bytes =
            p->quantized ? mpl_add(mpl_quantized_bytes(p->quantized), p->shards ? local : 0)
                         : local;

        if (p->is_buffer) {
            trace->buffer_bytes = mpl_add(trace->buffer_bytes, bytes);
            continue;
        }
        trace->parameters = mpl_add(trace->parameters, numel);
        trace->parameter_bytes = mpl_add(trace->parameter_bytes, bytes);
        if (p->is_trainable)
            trace->trainable_parameters = mpl_add(trace->trainable_parameters, numel);
    }
    if (network->wrapper && network->wrapper->parameter_bytes)
        trace->parameter_bytes = network->wrapper->parameter_bytes(network);
}

static uint64_t optimizer_bytes(const struct mpl_optim *optim)
{
    uint64_t sum = mpl_masters_bytes(optim);

    for (uint32_t i = 0; i < optim->count; i++)
        for (int k = 0; k < MPL_MAX_STATES; k++) {
            const struct mpl_tensor *state = optim->states[i].tensors[k];

            if (state && !state->is_void)
                sum = mpl_add(sum, mpl_round_up(state->storage->bytes, 512));
        }
    return sum;
}

/* ---- entry ------------------------------------------------------------------------------------
 */

static void set_up_tape(struct mpl_tape *tape, const struct mpl_plan *plan,
                        const struct mpl_trace_options *options)
{
    tape->pytorch = plan->pytorch;
    tape->checkpoint = (struct mpl_checkpoint_options){
        .is_reentrant = plan->training.use_reentrant,
        .is_selective = plan->training.activation_checkpointing == MPL_CHECKPOINTING_SELECTIVE,
        .has_no_early_stop = !plan->training.checkpoint_early_stop,
    };
    tape->cudnn_attention = plan->device.cudnn_attention != MPL_FALSE;
    if (plan->device.compute_capability > 0)
        tape->compute_capability = plan->device.compute_capability;
    if (plan->device.multiprocessors > 0)
        tape->multiprocessors = plan->device.multiprocessors;
    tape->has_kernel_scratch = options->has_kernels;
    if (options->has_kernels)
        tape->workspace_bytes =
            mpl_scratch_cublas_workspace(&tape->pytorch, tape->compute_capability);
    tape->has_infos = options->has_infos;
}

static enum memplan_status run_plan(struct run *run, const struct mpl_trace_options *options,
                                    struct mpl_trace *trace, struct memplan_error *err)
{
    const struct mpl_arch *arch = mpl_arch_find(run->plan->model.model_type);
    const struct mpl_loop *loop;
    enum memplan_status status;

    if (!arch)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/model_type",
                        "model_type \"%s\" is not known", run->plan->model.model_type);
    run->network.plan = run->plan;
    run->network.arena = &run->tape->arena;
    if ((status = mpl_arch_build(arch, &run->network, err)) ||
        (status = mpl_adapter_check(&run->network, err)) ||
        (status = mpl_float8_check(&run->network, err)))
        return status;
    if ((status = mpl_reference_build(&run->network, err)) ||
        (status = mpl_network_freeze(&run->network, err)) ||
        (status = mpl_strategy_wrap(&run->network, err)) ||
        (status = mpl_optim_init(&run->optim, &run->network, err)) ||
        (status = mpl_zero_redundancy_select(run->plan, &run->optim, run->network.arena,
                                             &run->local, err)) ||
        (options->ranks &&
         (status = mpl_ranks_classify(&run->network, &run->optim, options->ranks_arena,
                                      options->ranks, err))))
        return status;
    loop = run->network.loop;
    mpl_tape_mark(run->tape, 0, 0, MPL_PHASE_INIT);
    if (loop)
        loop->materialize(run->tape, &run->network);
    else if (run->network.wrapper && run->network.wrapper->materialize)
        run->network.wrapper->materialize(run->tape, &run->network);
    else
        mpl_network_materialize(run->tape, &run->network);
    if (run->network.reference)
        mpl_network_materialize(run->tape, run->network.reference);
    if (run->network.wrapper && run->network.wrapper->construct)
        run->network.wrapper->construct(run->tape, &run->network);
    mpl_zero_redundancy_construct(run->tape, run->plan, &run->optim);
    mpl_optim_create(run->tape, &run->local);
    mpl_resume(run->tape, &run->network, &run->local);
    if (loop)
        for (int64_t step = 0; step < run->plan->training.steps && !run->tape->err.status; step++)
            loop->end_micro ? family_accumulate(run, (uint32_t)step)
                            : family_step(run, (uint32_t)step);
    else
        train(run, !run->traces_all && sampling_interval(&run->plan->training) <= 1 &&
                       !run->plan->training.evaluation.batches);
    if (run->plan->training.evaluation.batches && !run->tape->is_stopped) {
        mpl_tape_mark(run->tape, (uint32_t)run->plan->training.steps - 1, 0, MPL_PHASE_EVALUATION);
        drop_last(run);
        mpl_evaluate(run->tape, &run->network);
    }
    count_parameters(&run->network, trace);
    trace->optimizer_bytes = optimizer_bytes(&run->local);
    return MEMPLAN_OK;
}

static void clear(struct mpl_trace *trace)
{
    struct mpl_trace kept = *trace;

    mpl_timeline_reset(&kept.timeline);
    mpl_arena_reset(&kept.arena);
    *trace = (struct mpl_trace){.timeline = kept.timeline, .arena = kept.arena};
}

enum memplan_status mpl_trace_run(const struct mpl_plan *plan,
                                  const struct mpl_trace_options *options, struct mpl_trace *trace,
                                  struct memplan_error *err)
{
    struct run run = {.plan = plan, .traces_all = options->traces_all};
    enum memplan_status status;

    clear(trace);
    run.tape = mpl_tape_new(&trace->timeline);
    if (!run.tape)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while tracing the step");
    run.tape->arena = trace->arena; /* lent for the run */
    set_up_tape(run.tape, plan, options);
    status = run_plan(&run, options, trace, err);
    if (!status && run.tape->err.status)
        status = mpl_fail(err, run.tape->err.status, NULL, "%s", run.tape->err.text);
    trace->arena = run.tape->arena;
    run.tape->arena = (struct mpl_arena){0};
    mpl_tape_free(run.tape);
    return status;
}

void mpl_trace_free(struct mpl_trace *trace)
{
    mpl_timeline_free(&trace->timeline);
    mpl_arena_free(&trace->arena);
    *trace = (struct mpl_trace){0};
}
