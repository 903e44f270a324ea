/* SPDX-License-Identifier: MIT */
/*
 * FSDP1: units, and what their hooks do around a module's forward and backward.
 *
 * source: torch/distributed/fsdp/_runtime_utils.py (_root_pre_forward, _pre_forward, _post_forward,
 * _pre_backward_hook, _post_backward_hook, _post_backward_final_callback, _prefetch_handle),
 * _exec_order_utils.py
 */
#include "parallel/fsdp1.h"

#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"
#include "op/linear_4bit.h"
#include "parallel/fsdp1_unit.h"
#include "spec/text.h"

/* ---- forward ----------------------------------------------------------------------------------
 */

static bool is_root(const struct mpl_fsdp1_unit *unit)
{
    return unit == unit->fsdp->units;
}

/* Inputs of the root are cast (cast_root_forward_inputs): a model's are numbers of tokens. */
static struct mpl_tensor *cast_input(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *input)
{
    (void)tape;
    (void)wrapper;
    return input;
}

/* Buffers in the policy's format: each is made anew. */
static void cast_buffers(struct mpl_tape *tape, const struct mpl_fsdp1 *fsdp)
{
    const struct mpl_network *network = fsdp->network;
    const enum mpl_dtype given = network->plan->parallelism.buffer_dtype;
    const enum mpl_dtype dtype = given != MPL_DTYPE_NONE ? given : fsdp->units->compute_dtype;

    for (uint32_t i = 0; i < network->parameter_count && fsdp->has_policy; i++) {
        struct mpl_parameter *p = &network->parameters[i];

        if (!p->is_buffer || p->dtype == dtype || !mpl_dtype_is_floating(p->dtype))
            continue;
        tape->category = MPL_CATEGORY_BUFFERS;
        mpl_rebind(tape, &p->tensor, mpl_empty(tape, "_to_copy.default", dtype, &p->shape));
        tape->category = MPL_CATEGORY_TEMPORARY;
        p->dtype = dtype;
    }
}

void mpl_fsdp1_lazy_init(struct mpl_tape *tape, struct mpl_fsdp1 *fsdp)
{
    if (fsdp->is_initialized)
        return;
    fsdp->is_initialized = true;
    cast_buffers(tape, fsdp);
    for (uint32_t i = 0; i < fsdp->count; i++)
        mpl_fsdp1_init_buffers(tape, &fsdp->units[i]);
}

/* _root_pre_forward: what the first forward makes; gradients that zero_grad left. */
static void begin_forward(struct mpl_tape *tape, struct mpl_fsdp1 *fsdp)
{
    mpl_fsdp1_lazy_init(tape, fsdp);
    for (uint32_t i = 0; i < fsdp->count && fsdp->network->plan->parallelism.forward_prefetch;
         i++) {
        fsdp->units[i].needs_forward_unshard = true;
        fsdp->units[i].is_prefetched = false;
    }
    for (uint32_t i = 0; i < fsdp->count; i++)
        mpl_fsdp1_reset_gradient(tape, &fsdp->units[i]);
}

/* record_pre_forward: the order of the first iteration stays. */
static void record_call(struct mpl_fsdp1_unit *unit)
{
    struct mpl_fsdp1 *fsdp = unit->fsdp;

    if (fsdp->knows_calls || unit->first_call >= 0)
        return;
    unit->first_call = fsdp->call_count;
    fsdp->calls[fsdp->call_count++] = unit;
}

/* _prefetch_handle in forward: the unit that was called after this one. */
static void prefetch_in_forward(struct mpl_tape *tape, const struct mpl_fsdp1_unit *unit)
{
    const struct mpl_fsdp1 *fsdp = unit->fsdp;
    struct mpl_fsdp1_unit *next;

    if (!fsdp->network->plan->parallelism.forward_prefetch ||
        unit->first_call + 1 >= fsdp->call_count)
        return;
    next = fsdp->calls[unit->first_call + 1];
    if (!next->needs_forward_unshard || next->is_prefetched)
        return;
    mpl_fsdp1_unshard(tape, next);
    next->is_prefetched = true;
}

/* On a tape that has stopped nothing is gathered, and forwards still read their weights. */
static void stand_in(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    for (uint32_t i = 0; i < unit->count; i++)
        if (unit->pieces[i].parameter && !unit->pieces[i].parameter->tensor)
            unit->pieces[i].parameter->tensor = mpl_hold(tape->void_tensor);
}

static void reshard_frozen(struct mpl_tape *tape, void *context);

static void reshard_behind_leaf(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    reshard_frozen(tape, leaf->grad_hook_context);
}

/* _register_post_backward_reshard_only_hook: the first input of an iteration only. A leaf, which
 * checkpointing with re-entrance makes of each call's input, is held with its gradient until the
 * hook is removed: the hook's closure holds the node that holds the leaf. */
static void watch_input(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit,
                        struct mpl_tensor *input)
{
    if (unit->is_watching)
        return;
    unit->is_watching = true;
    mpl_add_pre_hook(tape, input, reshard_frozen, unit);
    if (input->grad_fn || !input->requires_grad)
        return;
    unit->watched = mpl_hold(input);
    input->grad_hook = reshard_behind_leaf;
    input->grad_hook_context = unit;
}

static struct mpl_tensor *pre_forward(struct mpl_tape *tape, void *wrapper,
                                      struct mpl_tensor *input)
{
    struct mpl_fsdp1_unit *unit = wrapper;

    if (tape->is_stopped) {
        stand_in(tape, unit);
        return input;
    }
    if (is_root(unit))
        begin_forward(tape, unit->fsdp);
    record_call(unit);
    if (!unit->is_prefetched)
        mpl_fsdp1_unshard(tape, unit);
    unit->needs_forward_unshard = false;
    prefetch_in_forward(tape, unit);
    mpl_fsdp1_use_views(tape, unit);
    if (!unit->is_trained && input && tape->is_grad_enabled)
        watch_input(tape, unit, input);
    return input;
}

/* record_post_forward */
static void record_use(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    struct mpl_fsdp1 *fsdp = unit->fsdp;

    if (fsdp->use_count == fsdp->use_cap) {
        const size_t cap = fsdp->use_cap ? 2 * fsdp->use_cap : 64;
        struct mpl_fsdp1_unit **uses = mpl_arena_alloc(&tape->arena, cap * sizeof(*uses));

        if (!uses) {
            mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
            return;
        }
        if (fsdp->use_count)
            memcpy(uses, fsdp->uses, fsdp->use_count * sizeof(*uses));
        fsdp->uses = uses;
        fsdp->use_cap = cap;
    }
    if (unit->use <= 0) /* a first index of 0 passes for none */
        unit->use = (int64_t)fsdp->use_count;
    fsdp->uses[fsdp->use_count++] = unit;
}

static void pre_backward(struct mpl_tape *tape, void *context);

static void post_forward(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                         int count)
{
    struct mpl_fsdp1_unit *unit = wrapper;

    if (tape->is_stopped)
        return;
    record_use(tape, unit);
    mpl_fsdp1_reshard(tape, unit, !is_root(unit) && unit->fsdp->is_resharded);
    if (tape->is_grad_enabled)
        unit->ran_pre_backward = unit->needs_backward_unshard = false;
    for (int i = 0; i < count && tape->is_grad_enabled; i++)
        if (outputs[i] && outputs[i]->grad_fn) {
            unit->needs_backward_unshard = true;
            mpl_add_pre_hook(tape, outputs[i], pre_backward, unit);
        }
}

/* ---- backward ---------------------------------------------------------------------------------
 */

static bool frees_in_backward(const struct mpl_fsdp1 *fsdp)
{
    return fsdp->is_syncing || fsdp->is_resharded;
}

/* _post_backward_final_callback */
static void finish_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_fsdp1 *fsdp = context;

    for (uint32_t i = 0; i < fsdp->count; i++) {
        struct mpl_fsdp1_unit *unit = &fsdp->units[i];

        mpl_fsdp1_reshard(tape, unit, frees_in_backward(fsdp));
        mpl_drop(tape, unit->watched); /* _finalize_params */
        unit->watched = NULL;
        unit->is_watching = false;
        if (fsdp->is_syncing)
            mpl_fsdp1_hand_out_gradient(tape, unit);
        unit->ran_pre_backward = unit->needs_backward_unshard = unit->is_prefetched = false;
        unit->use = -1;
    }
    fsdp->use_count = 0;
    fsdp->knows_calls = true;
    fsdp->is_final_queued = false;
}

/* _prefetch_handle: the unit whose forward ended before this one's is gathered next. */
static void prefetch(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit, enum mpl_prefetch when)
{
    struct mpl_fsdp1_unit *next;

    if (unit->use <= 0 || unit->fsdp->network->plan->parallelism.backward_prefetch != when)
        return;
    next = unit->fsdp->uses[unit->use - 1];
    if (!next->needs_backward_unshard || next->is_prefetched)
        return;
    mpl_fsdp1_unshard(tape, next);
    next->is_prefetched = true;
}

static void pre_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_fsdp1_unit *unit = context;
    struct mpl_fsdp1 *fsdp = unit->fsdp;

    if (tape->is_stopped || unit->ran_pre_backward)
        return;
    if (!fsdp->is_final_queued) {
        fsdp->is_final_queued = true;
        mpl_queue_callback(tape, finish_backward, fsdp);
        for (uint32_t i = 0; i < fsdp->count; i++) /* zero_grad() may come after forward */
            mpl_fsdp1_reset_gradient(tape, &fsdp->units[i]);
    }
    if (!unit->is_prefetched)
        mpl_fsdp1_unshard(tape, unit);
    unit->needs_backward_unshard = false;
    prefetch(tape, unit, MPL_PREFETCH_PRE);
    mpl_fsdp1_take_back_gradient(tape, unit);
    unit->ran_pre_backward = true;
}

/* _post_backward_hook: on the flat parameter, after its gradient came. */
static void post_backward(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    struct mpl_fsdp1_unit *unit = leaf->grad_hook_context;

    if (tape->is_stopped || !leaf->grad)
        return;
    mpl_fsdp1_reshard(tape, unit, frees_in_backward(unit->fsdp));
    prefetch(tape, unit, MPL_PREFETCH_POST);
    if (unit->fsdp->is_syncing)
        mpl_fsdp1_reduce(tape, unit);
}

/* _post_backward_reshard_only_hook: the gradient of the unit's input came. */
static void reshard_frozen(struct mpl_tape *tape, void *context)
{
    struct mpl_fsdp1_unit *unit = context;

    if (tape->is_stopped)
        return;
    mpl_fsdp1_reshard(tape, unit, frees_in_backward(unit->fsdp));
    prefetch(tape, unit, MPL_PREFETCH_POST);
}

/* ---- set-up -----------------------------------------------------------------------------------
 */

static const struct mpl_hooks fsdp1_hooks = {.cast_input = cast_input,
                                             .pre_forward = pre_forward,
                                             .post_forward = post_forward,
                                             .is_outside_checkpoint = true};

/* Before GradientCheckpointingLayer models checkpoint what they find in their list of layers: the
 * wrapper. Without re-entrance its hooks do nothing when it runs again (BACKWARD_PRE), as if it
 * stood outside. */
static const struct mpl_hooks hooks_inside = {
    .cast_input = cast_input, .pre_forward = pre_forward, .post_forward = post_forward};

static bool is_inside_checkpoint(const struct mpl_plan *plan)
{
    return plan->training.use_reentrant && !plan->parallelism.activation_checkpointing &&
           !mpl_version_at_least(&plan->transformers, 4, 52, 0);
}

static void set_sync(struct mpl_network *network, bool is_wanted)
{
    struct mpl_fsdp1 *fsdp = network->wrapped;

    fsdp->is_syncing = is_wanted;
}

/* The innermost units are made first. */
static void materialize(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_fsdp1 *fsdp = network->wrapped;

    mpl_fsdp1_load(tape, network);
    for (uint32_t i = 1; i <= fsdp->count; i++) {
        struct mpl_fsdp1_unit *unit = &fsdp->units[i % fsdp->count];

        mpl_fsdp1_bring(tape, unit);
        mpl_fsdp1_flatten(tape, unit);
        if (unit->leaf->is_void || !unit->is_trained)
            continue;
        unit->leaf->grad_hook = post_backward;
        unit->leaf->grad_hook_context = unit;
    }
}

static uint64_t parameter_bytes(const struct mpl_network *network)
{
    const struct mpl_fsdp1 *fsdp = network->wrapped;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < fsdp->count && !fsdp->offloads; i++)
        sum = mpl_add(
            sum,
            mpl_round_up(mpl_dtype_bytes(fsdp->units[i].dtype, fsdp->units[i].shard_numel), 512));
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (network->parameters[i].quantized) /* whole on every rank */
            sum = mpl_add(sum, mpl_quantized_bytes(network->parameters[i].quantized));
    return sum;
}

static const struct mpl_wrapper fsdp1_wrapper = {.materialize = materialize,
                                                 .set_sync = set_sync,
                                                 .save = mpl_fsdp1_save,
                                                 .resume = mpl_fsdp1_resume,
                                                 .parameter_bytes = parameter_bytes};

static bool is_unit(const struct mpl_module *module, enum mpl_wrap wrap)
{
    return wrap != MPL_WRAP_ROOT &&
           (module->kind == MPL_MODULE_LAYER ||
            (wrap == MPL_WRAP_LAYER_EMBEDDINGS &&
             (module->kind == MPL_MODULE_EMBEDDING || module->kind == MPL_MODULE_HEAD)));
}

#define MOST_PIECES 255 /* gradients that one node of the tape takes */

/* Takes the parameters that no unit has yet; owned marks those that one has. */
static enum memplan_status fill_unit(struct mpl_fsdp1_unit *unit, bool *owned,
                                     struct memplan_error *err)
{
    struct mpl_network *network = unit->fsdp->network;
    const bool root = unit->module == network->modules;
    const uint32_t first = root ? 0 : unit->module->first_parameter;
    const uint32_t count = root ? network->parameter_count : unit->module->parameter_count;

    unit->pieces = mpl_arena_zalloc(network->arena, (2 * count + 2) * sizeof(*unit->pieces));
    if (!unit->pieces)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while sharding the model");
    for (uint32_t i = first; i < first + count; i++) {
        struct mpl_parameter *p = &network->parameters[i];

        if (p->is_buffer || owned[i])
            continue;
        owned[i] = true;
        if (unit->count && p->dtype != unit->dtype)
            return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/wrap",
                            "FSDP1 unit \"%s\": found weights of formats %s and %s, expected one",
                            unit->module->name, mpl_dtype_name(unit->dtype),
                            mpl_dtype_name(p->dtype));
        unit->dtype = p->dtype;
        unit->is_trained |= p->is_trainable;
        unit->pieces[unit->count++].parameter = p;
    }
    if (!unit->count)
        return mpl_fail(
            err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/wrap",
            "parallelism.wrap: found a unit \"%s\", which owns no weight (tied weights); "
            "expected \"layer\"",
            unit->module->name);
    return MEMPLAN_OK;
}

enum memplan_status mpl_fsdp1_make_unit(struct mpl_fsdp1 *fsdp, struct mpl_module *module,
                                        bool *owned, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &fsdp->network->plan->parallelism;
    struct mpl_fsdp1_unit *unit =
        module == fsdp->network->modules ? fsdp->units : &fsdp->units[fsdp->count++];
    enum memplan_status status;

    *unit = (struct mpl_fsdp1_unit){.fsdp = fsdp, .module = module, .use = -1, .first_call = -1};
    module->hooks = is_inside_checkpoint(fsdp->network->plan) ? &hooks_inside : &fsdp1_hooks;
    module->wrapper = unit;
    if ((status = fill_unit(unit, owned, err)))
        return status;
    unit->compute_dtype = fsdp->has_policy ? p->param_dtype : unit->dtype;
    unit->reduce_dtype = p->reduce_dtype != MPL_DTYPE_NONE ? p->reduce_dtype : unit->compute_dtype;
    mpl_fsdp1_lay_out(unit);
    if (unit->count > MOST_PIECES)
        return mpl_fail(
            err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/wrap",
            "parallelism.wrap: found a unit \"%s\" of %u weights and paddings, modelled: "
            "at most %d",
            module->name, unit->count, MOST_PIECES);
    return MEMPLAN_OK;
}

/* One rank alone is not sharded ("switching to use NO_SHARD"). */
static void set_options(struct mpl_fsdp1 *fsdp)
{
    const struct mpl_parallelism *p = &fsdp->network->plan->parallelism;
    const enum mpl_sharding how = p->sharding_strategy;

    fsdp->is_replicated = how == MPL_HYBRID_SHARD || how == MPL_HYBRID_SHARD_ZERO2;
    fsdp->shards = how == MPL_NO_SHARD ? 1 : (uint64_t)(p->world_size / p->replicate);
    fsdp->is_resharded = fsdp->shards > 1 && (how == MPL_FULL_SHARD || how == MPL_HYBRID_SHARD);
    fsdp->has_policy = p->param_dtype != MPL_DTYPE_NONE;
    fsdp->uses_originals = p->use_orig_params;
    fsdp->offloads = p->cpu_offload;
    fsdp->is_syncing = true;
}

enum memplan_status mpl_fsdp1_wrap(struct mpl_network *network, struct memplan_error *err)
{
    struct mpl_fsdp1 *fsdp = mpl_arena_zalloc(network->arena, sizeof(*fsdp));
    bool *owned = mpl_arena_zalloc(network->arena, (network->parameter_count + 1) * sizeof(*owned));
    enum memplan_status status = MEMPLAN_OK;

    if (fsdp)
        fsdp->units =
            mpl_arena_zalloc(network->arena, (network->module_count + network->parameter_count) *
                                                 sizeof(*fsdp->units));
    if (fsdp)
        fsdp->calls = mpl_arena_zalloc(
            network->arena, (network->module_count + network->parameter_count) * sizeof(void *));
    if (!fsdp || !owned || !fsdp->units || !fsdp->calls)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while sharding the model");
    fsdp->network = network;
    set_options(fsdp);
    fsdp->count = 1; /* units[0] is the root's, filled last: it takes what is left */
    for (uint32_t i = 1; i < network->module_count && !status; i++) {
        if (network->plan->parallelism.wrap == MPL_WRAP_LAYER_ADAPTERS)
            status = mpl_fsdp1_wrap_adapters(fsdp, &network->modules[i], owned, err);
        if (!status && is_unit(&network->modules[i], network->plan->parallelism.wrap))
            status = mpl_fsdp1_make_unit(fsdp, &network->modules[i], owned, err);
    }
    if (!status)
        status = mpl_fsdp1_make_unit(fsdp, network->modules, owned, err);
    network->wrapper = &fsdp1_wrapper;
    network->wrapped = fsdp;
    return status;
}
