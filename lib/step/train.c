/* SPDX-License-Identifier: MIT */
/* Stage "step": builds what the plan describes and runs its training loop on the tape. */
#include "step/train.h"

#include "arch/arch.h"
#include "base/fail.h"
#include "op/linear_4bit.h"
#include "op/scratch.h"
#include "parallel/strategy.h"
#include "parallel/zero_redundancy.h"
#include "part/adapter.h"
#include "part/float8.h"
#include "part/te.h"
#include "spec/text.h"
#include "step/around.h"
#include "step/frozen.h"
#include "step/reference.h"
#include "step/run.h"

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
        .passes_kwargs = plan->parallelism.activation_checkpointing ||
                         !mpl_version_at_least(&plan->transformers, 4, 52, 0),
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

static enum memplan_status run_plan(struct mpl_run *run, const struct mpl_trace_options *options,
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
        (status = mpl_float8_check(&run->network, err)) ||
        (status = mpl_te_check(&run->network, err)))
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
    mpl_run_loop(run);
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
    struct mpl_run run = {.plan = plan, .traces_all = options->traces_all};
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
    trace->live_peak = run.tape->live_peak;
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
