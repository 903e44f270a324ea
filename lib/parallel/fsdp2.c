/* SPDX-License-Identifier: MIT */
/*
 * FSDP2: what a group's hooks do around a module's forward and backward.
 *
 * source: torch/distributed/fsdp/_fully_shard/_fsdp_state.py (_pre_forward, _post_forward,
 * _pre_backward, _root_post_backward_final_callback), _fsdp_param_group.py (pre_forward,
 * post_forward, pre_backward, _backward_prefetch)
 */
#include "parallel/fsdp2.h"

#include <string.h>

#include "base/fail.h"
#include "op/op.h"
#include "parallel/fsdp2_group.h"

/* ---- forward ----------------------------------------------------------------------------------
 */

static struct mpl_tensor *cast_input(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *input)
{
    const struct mpl_fsdp2_group *group = wrapper;
    const enum mpl_dtype dtype = group->policy.param_dtype;
    struct mpl_tensor *cast;

    if (tape->is_stopped || !group->policy.cast_forward_inputs || dtype == MPL_DTYPE_NONE ||
        !mpl_dtype_is_floating((enum mpl_dtype)input->dtype) || input->dtype == dtype)
        return input;
    cast = mpl_hold(mpl_op_to(tape, input, dtype));
    mpl_drop(tape, input);
    return cast;
}

static void post_backward_rule(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **grads_out, struct mpl_tensor **grads_in)
{
    mpl_fsdp2_post_backward(tape, node->context);
    if (grads_out[0])
        grads_in[0] = mpl_hold(grads_out[0]);
}

/* RegisterPostBackwardFunction: a node on the input, whose backward comes when everything behind
 * it in this module is done. */
static struct mpl_tensor *watch_input(struct mpl_tape *tape, struct mpl_fsdp2_group *group,
                                      struct mpl_tensor *input)
{
    struct mpl_tensor *watched;
    struct mpl_node *node = mpl_node_new(tape, "RegisterPostBackwardFunctionBackward",
                                         post_backward_rule, &input, 1, 1, 0);

    if (!node)
        return input;
    node->context = group;
    watched = mpl_hold(mpl_alias(tape, input));
    mpl_set_history(tape, watched, node, 0);
    mpl_drop(tape, input);
    return watched;
}

/* On a tape that has stopped nothing is gathered, and forwards still read their weights. */
static void stand_in(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (!group->parameters[i].parameter->tensor)
            group->parameters[i].parameter->tensor = mpl_hold(tape->void_tensor);
}

static struct mpl_tensor *pre_forward(struct mpl_tape *tape, void *wrapper,
                                      struct mpl_tensor *input)
{
    struct mpl_fsdp2_group *group = wrapper;
    bool is_entering;

    if (tape->is_stopped) {
        stand_in(tape, group);
        return input;
    }
    if (group->state_activity == MPL_FSDP2_PRE_BACKWARD) { /* a recomputation */
        mpl_fsdp2_unshard(tape, group);
        mpl_fsdp2_wait(tape, group);
        return input;
    }
    group->state_activity = MPL_FSDP2_FORWARD;
    is_entering = group->activity != MPL_FSDP2_FORWARD;
    group->activity = MPL_FSDP2_FORWARD;
    mpl_fsdp2_unshard(tape, group);
    mpl_fsdp2_wait(tape, group);
    return input && is_entering ? watch_input(tape, group, input) : input;
}

/* _record_post_forward */
static void record_use(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_fsdp2 *fsdp = group->fsdp;

    if (fsdp->use_count == fsdp->use_cap) {
        const size_t cap = fsdp->use_cap ? 2 * fsdp->use_cap : 64;
        struct mpl_fsdp2_use *uses = mpl_arena_alloc(&tape->arena, cap * sizeof(*uses));

        if (!uses) {
            mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
            return;
        }
        if (fsdp->use_count)
            memcpy(uses, fsdp->uses, fsdp->use_count * sizeof(*uses));
        fsdp->uses = uses;
        fsdp->use_cap = cap;
    }
    fsdp->uses[fsdp->use_count] = (struct mpl_fsdp2_use){group, group->last_use};
    group->last_use = (int64_t)fsdp->use_count++;
}

static void pre_backward(struct mpl_tape *tape, void *context);

static void post_forward(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                         int count)
{
    struct mpl_fsdp2_group *group = wrapper;
    struct mpl_fsdp2 *fsdp = group->fsdp;

    if (tape->is_stopped || group->state_activity == MPL_FSDP2_PRE_BACKWARD)
        return;
    if (!tape->is_in_backward) {
        if (group->is_resharded_after_forward)
            mpl_fsdp2_reshard_after_forward(tape, group);
        if (group->count) /* a root that owns nothing is no group */
            record_use(tape, group);
    }
    group->activity = group->state_activity = MPL_FSDP2_IDLE;
    for (int i = 0; i < count && tape->is_grad_enabled; i++)
        if (outputs[i])
            mpl_add_pre_hook(tape, outputs[i], pre_backward, group);
    if (group == fsdp->groups) { /* the root: no group after it will free the last buffer */
        mpl_drop(tape, fsdp->last_gather);
        fsdp->last_gather = NULL;
    }
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* The root's callback: groups whose inputs had no gradient come now, last buffers go. */
static void finish_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_fsdp2 *fsdp = context;

    for (uint32_t i = 0; i < fsdp->count; i++) {
        struct mpl_fsdp2_group *group = &fsdp->groups[i];

        if (group->activity != MPL_FSDP2_POST_BACKWARD)
            mpl_fsdp2_post_backward(tape, group);
        group->activity = group->state_activity = MPL_FSDP2_IDLE;
        mpl_drop(tape, group->all_reduced);
        group->all_reduced = NULL;
        mpl_drop(tape, group->gather); /* gathered for a backward that never came */
        group->gather = NULL;
        group->is_pending = false;
        group->last_use = -1;
    }
    fsdp->use_count = 0;
    mpl_drop(tape, fsdp->reduce_input);
    fsdp->reduce_input = NULL;
    fsdp->is_final_queued = false;
}

/* _backward_prefetch: the group that ran before this use of this one is gathered next. */
static void prefetch(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_fsdp2 *fsdp = group->fsdp;
    const int64_t use = group->last_use;

    if (use < 0)
        return;
    group->last_use = fsdp->uses[use].previous_use;
    if (use > 0)
        mpl_fsdp2_unshard(tape, fsdp->uses[use - 1].group);
}

static void pre_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_fsdp2_group *group = context;
    struct mpl_fsdp2 *fsdp = group->fsdp;

    if (tape->is_stopped)
        return;
    group->state_activity = MPL_FSDP2_PRE_BACKWARD;
    if (!fsdp->is_final_queued) {
        fsdp->is_final_queued = true;
        mpl_queue_callback(tape, finish_backward, fsdp);
    }
    if (group->activity == MPL_FSDP2_PRE_BACKWARD)
        return;
    group->activity = MPL_FSDP2_PRE_BACKWARD;
    mpl_fsdp2_unshard(tape, group);
    mpl_fsdp2_wait(tape, group);
    prefetch(tape, group);
}

const struct mpl_hooks mpl_fsdp2_hooks = {
    .cast_input = cast_input, .pre_forward = pre_forward, .post_forward = post_forward};

static void no_post_forward(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                            int count)
static struct mpl_fsdp2_policy root_policy(const struct mpl_plan *plan,
                                           struct mpl_fsdp2_policy group)
{
    const enum mpl_dtype dtype = plan->parallelism.root_dtype;

    if (dtype == plan->training.parameter_dtype)
        return (struct mpl_fsdp2_policy){MPL_DTYPE_NONE, MPL_DTYPE_NONE, false};
    if (dtype == MPL_DTYPE_NONE || dtype == group.param_dtype)
        return group;
    return (struct mpl_fsdp2_policy){dtype, MPL_DTYPE_NONE, true};
}

struct mpl_fsdp2_options mpl_fsdp2_options_of(const struct mpl_plan *plan)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const struct mpl_fsdp2_policy policy = {p->param_dtype, p->reduce_dtype, true};

    return (struct mpl_fsdp2_options){
        .group = policy,
        .root = root_policy(plan, policy),
        .wrap = p->wrap,
        .world_size = p->world_size,
        .replicate = p->replicate > 0 ? p->replicate : 1,
        .reshard = p->reshard_after_forward,
        .root_reshard = p->root_reshard_after_forward != MPL_RESHARD_UNSET
                            ? p->root_reshard_after_forward
                            : p->reshard_after_forward,
    };
}

static bool is_group(const struct mpl_module *module, enum mpl_wrap wrap)
{
    if (wrap == MPL_WRAP_ROOT)
        return false;
    return module->kind == MPL_MODULE_LAYER ||
           (wrap == MPL_WRAP_LAYER_EMBEDDINGS &&
            (module->kind == MPL_MODULE_EMBEDDING || module->kind == MPL_MODULE_HEAD));
}

static enum memplan_status check(const struct mpl_network *network,
                                 const struct mpl_fsdp2_options *options, struct memplan_error *err)
{
    const enum mpl_optimizer_name optimizer = network->plan->training.optimizer.name;

    if (options->world_size < 1 || options->world_size % options->replicate)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/replicate",
                        "parallelism.replicate: found %lld, expected a divisor of the %lld ranks",
                        (long long)options->replicate, (long long)options->world_size);
    if (options->wrap == MPL_WRAP_LAYER_ADAPTERS)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/wrap",
                        "parallelism.wrap: layer+adapters is a policy of fsdp1; with fsdp2 "
                        "expected layer, layer+embeddings or root");
    if (!mpl_optimizer_is_local(optimizer))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/name",
                        "training.optimizer.name: found %s with FSDP2, expected one that works on "
                        "each shard alone (%s)",
                        mpl_optimizer_word(optimizer),
                        optimizer == MPL_ADAFACTOR ? "PyTorch's own fails on sharded tensors"
                                                   : "over shards it is not modelled");
    for (uint32_t i = 1; i < network->module_count; i++)
        if (is_group(&network->modules[i], options->wrap) && !network->modules[i].parameter_count)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/wrap",
                            "parallelism.wrap: found a group for \"%s\", which owns no parameter "
                            "(tied weights); PyTorch refuses that, expected \"layer\"",
                            network->modules[i].name);
    return MEMPLAN_OK;
}

/* Takes one parameter into the group. shard_numel: ceil(rows / shards) rows of the rest. */
static void add_parameter(struct mpl_fsdp2_group *group, struct mpl_parameter *parameter)
{
    struct mpl_fsdp2_parameter *p = &group->parameters[group->count++];
    const enum mpl_dtype dtype = group->policy.param_dtype;
    uint64_t numel;

    parameter->shards = group->fsdp->shards;
    parameter->shard_index = group->fsdp->shard_index;
    numel = mpl_parameter_local_numel(parameter);
    p->parameter = parameter;
    p->dtype = dtype != MPL_DTYPE_NONE && mpl_dtype_is_floating(parameter->dtype)
                   ? dtype
                   : parameter->dtype;
    p->is_float8 = parameter->float8 && group->fsdp->network->plan->training.float8.gathers_weights;
    p->shard_numel = numel > INT64_MAX ? INT64_MAX : (int64_t)numel;
}

/* The end of its name is one of ignored_params. */
static bool is_ignored(const struct mpl_plan *plan, const struct mpl_parameter *parameter)
{
    const struct mpl_names *names = &plan->parallelism.ignored_params;

    for (uint32_t i = 0; i < names->count; i++)
        if (mpl_name_ends_with(parameter->name, names->of[i]))
            return true;
    return false;
}

/* Every parameter of the module, or for the root every one that is still free. Frozen ones too. */
static enum memplan_status fill_group(struct mpl_fsdp2_group *group,
                                      const struct mpl_module *module, struct memplan_error *err)
{
    struct mpl_network *network = group->fsdp->network;
    const bool is_root = module == network->modules;
    const uint32_t first = is_root ? 0 : module->first_parameter;
    const uint32_t count = is_root ? network->parameter_count : module->parameter_count;
    enum mpl_dtype trained = MPL_DTYPE_NONE;

    group->parameters = mpl_arena_zalloc(network->arena, (count + 1) * sizeof(*group->parameters));
    if (!group->parameters)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while sharding the model");
    for (uint32_t i = first; i < first + count; i++) {
        struct mpl_parameter *parameter = &network->parameters[i];

        if (parameter->is_buffer || parameter->shards || is_ignored(network->plan, parameter) ||
            (parameter->quantized && !parameter->packed_numel)) /* uint8: ignored_params */
            continue;
        if (parameter->is_trainable && trained != MPL_DTYPE_NONE && trained != parameter->dtype)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/wrap",
                            "FSDP2 group \"%s\": found trained parameters of formats %s and %s, "
                            "expected one format",
                            module->name, mpl_dtype_name(trained),
                            mpl_dtype_name(parameter->dtype));
        if (parameter->is_trainable)
            trained = parameter->dtype;
        add_parameter(group, parameter);
        if (group->parameters[group->count - 1].is_float8 &&
            parameter->shape.dim[0].n % group->fsdp->shards)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED,
                            "/training/float8/enable_fsdp_float8_all_gather",
                            "training.float8.enable_fsdp_float8_all_gather: the %lld rows of %s "
                            "do not divide by %lld ranks, which FSDP2 refuses",
                            (long long)parameter->shape.dim[0].n, parameter->name,
                            (long long)group->fsdp->shards);
    }
    return MEMPLAN_OK;
}

static enum memplan_status make_group(struct mpl_fsdp2 *fsdp, struct mpl_fsdp2_group *group,
                                      struct mpl_module *module,
                                      const struct mpl_fsdp2_options *options,
                                      struct memplan_error *err)
{
    const bool is_root = module == fsdp->network->modules;
    const int64_t reshard = is_root ? options->root_reshard : options->reshard;

    *group = (struct mpl_fsdp2_group){
        .fsdp = fsdp,
        .policy = is_root ? options->root : options->group,
        .is_resharded_after_forward =
            reshard == MPL_RESHARD_UNSET ? !is_root : reshard == MPL_RESHARD_TRUE || reshard > 1,
        .keepers = reshard > 1 && reshard < fsdp->shards ? reshard : 0,
        .last_use = -1,
    };
    if (group->policy.reduce_dtype != group->policy.param_dtype)
        group->reduce_dtype = group->policy.reduce_dtype;
    module->hooks = &fsdp2_hooks;
    module->wrapper = group;
    return fill_group(group, module, err);
}

/* set_requires_gradient_sync(is_wanted) on the root. */
static void set_sync(struct mpl_network *network, bool is_wanted)
{
    network->sharding->is_syncing = is_wanted;
}

static const struct mpl_wrapper fsdp2_wrapper = {
    .set_sync = set_sync, .save = mpl_fsdp2_save, .resume = mpl_fsdp2_resume};
static const struct mpl_wrapper short_wrapper = {.materialize = mpl_fsdp2_to_empty,
                                                 .set_sync = set_sync,
                                                 .save = mpl_fsdp2_save,
                                                 .resume = mpl_fsdp2_resume};

static const struct mpl_wrapper cutting_wrapper = {.materialize = mpl_fsdp2_cut,
                                                   .set_sync = set_sync};

/* CPUOffloadPolicy: shards are made on the host, and so are gradients and the optimizer's states;
 * a leaf without memory stands for each. */
static void materialize_on_host(struct mpl_tape *tape, struct mpl_network *network)
{
    const struct mpl_shape none = mpl_shape1(mpl_dim(0));

    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (network->parameters[i].is_buffer)
            mpl_network_materialize_one(tape, network, i);
        else
            network->parameters[i].shard = mpl_hold(
                mpl_empty(tape, "empty_like.default", network->parameters[i].dtype, &none));
}

static uint64_t no_bytes(const struct mpl_network *network)
{
    (void)network;
    return 0;
}

static void host_step(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    (void)tape;
    (void)wrapper;
    (void)outputs;
    (void)count;
}

const struct mpl_hooks mpl_fsdp2_first_hooks = {
    .cast_input = cast_input, .pre_forward = pre_forward, .post_forward = no_post_forward};
const struct mpl_hooks mpl_fsdp2_last_hooks = {
    .cast_input = mpl_hook_pass, .pre_forward = mpl_hook_pass, .post_forward = post_forward};
