/* SPDX-License-Identifier: MIT */
/*
 * FSDP2: which modules become groups, with which parameters and policies.
 *
 * source: torch/distributed/fsdp/_fully_shard/_fully_shard.py (fully_shard), _fsdp_init.py,
 * _fsdp_state.py (_register_group_forward_hooks)
 */
#include "base/fail.h"
#include "parallel/fsdp2.h"
#include "parallel/fsdp2_group.h"
#include "spec/optimizers.h"

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
        .tail_reshard = p->root_reshard_after_forward,
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
            (module->kind == MPL_MODULE_EMBEDDING || module->kind == MPL_MODULE_HEAD)) ||
           (wrap == MPL_WRAP_LAYER_EMBEDDING_TAIL && module->kind == MPL_MODULE_EMBEDDING);
}

/* Where the group of the last norm and the head stands among the others: by the first of its
 * modules in named_modules(). */
static bool is_tail(const struct mpl_network *network, uint32_t i, enum mpl_wrap wrap)
{
    return wrap == MPL_WRAP_LAYER_EMBEDDING_TAIL &&
           network->modules[i].kind ==
               (network->plan->model.tie_word_embeddings ? MPL_MODULE_EMBEDDING : MPL_MODULE_HEAD);
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
                        "expected layer, layer+embeddings, layer+embedding+tail or root");
    if (options->wrap == MPL_WRAP_LAYER_EMBEDDING_TAIL && !network->last_norm.forward)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/wrap",
                        "parallelism.wrap: layer+embedding+tail is not modelled for %s, which has "
                        "no norm of its own before the head; modelled: layer, layer+embeddings",
                        network->plan->model.model_type);
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

/* Every parameter of the module, or for the root every one that is still free. Frozen ones too.
 * trained: the format of those that train so far. */
static enum memplan_status take_module(struct mpl_fsdp2_group *group,
                                       const struct mpl_module *module, enum mpl_dtype *trained,
                                       struct memplan_error *err)
{
    struct mpl_network *network = group->fsdp->network;
    const bool is_root = module == network->modules;
    const uint32_t first = is_root ? 0 : module->first_parameter;
    const uint32_t count = is_root ? network->parameter_count : module->parameter_count;

    for (uint32_t i = first; i < first + count; i++) {
        struct mpl_parameter *parameter = &network->parameters[i];

        if (parameter->is_buffer || parameter->shards || is_ignored(network->plan, parameter) ||
            (parameter->quantized && !parameter->packed_numel)) /* uint8: ignored_params */
            continue;
        if (parameter->is_trainable && *trained != MPL_DTYPE_NONE && *trained != parameter->dtype)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/wrap",
                            "FSDP2 group \"%s\": found trained parameters of formats %s and %s, "
                            "expected one format",
                            module->name, mpl_dtype_name(*trained),
                            mpl_dtype_name(parameter->dtype));
        if (parameter->is_trainable)
            *trained = parameter->dtype;
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

/* modules: what one call of fully_shard() takes. */
static enum memplan_status fill_group(struct mpl_fsdp2_group *group,
                                      struct mpl_module *const *modules, int count,
                                      struct memplan_error *err)
{
    struct mpl_network *network = group->fsdp->network;
    enum memplan_status status = MEMPLAN_OK;
    enum mpl_dtype trained = MPL_DTYPE_NONE;
    uint32_t room = 1;

    for (int i = 0; i < count; i++)
        room +=
            modules[i] == network->modules ? network->parameter_count : modules[i]->parameter_count;
    group->parameters = mpl_arena_zalloc(network->arena, room * sizeof(*group->parameters));
    if (!group->parameters)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while sharding the model");
    for (int i = 0; i < count && !status; i++)
        status = take_module(group, modules[i], &trained, err);
    return status;
}

static void start_group(struct mpl_fsdp2 *fsdp, struct mpl_fsdp2_group *group,
                        const struct mpl_fsdp2_options *options, bool is_root, bool is_tail)
{
    const int64_t reshard = is_tail   ? options->tail_reshard
                            : is_root ? options->root_reshard
                                      : options->reshard;

    *group = (struct mpl_fsdp2_group){
        .fsdp = fsdp,
        .policy = is_root ? options->root : options->group,
        .is_resharded_after_forward = reshard == MPL_RESHARD_UNSET
                                          ? !is_root && !is_tail
                                          : reshard == MPL_RESHARD_TRUE || reshard > 1,
        .keepers = reshard > 1 && reshard < fsdp->shards ? reshard : 0,
        .last_use = -1,
    };
    if (group->policy.reduce_dtype != group->policy.param_dtype)
        group->reduce_dtype = group->policy.reduce_dtype;
}

static enum memplan_status make_group(struct mpl_fsdp2 *fsdp, struct mpl_fsdp2_group *group,
                                      struct mpl_module *module,
                                      const struct mpl_fsdp2_options *options,
                                      struct memplan_error *err)
{
    start_group(fsdp, group, options, module == fsdp->network->modules, false);
    module->hooks = &mpl_fsdp2_hooks;
    module->wrapper = group;
    return fill_group(group, &module, 1, err);
}

/* fully_shard([norm, head]), with the embedding where they share a weight: hooks of the first one
 * that runs before its forward, of the last one after it (_register_group_forward_hooks). */
static enum memplan_status make_tail(struct mpl_fsdp2 *fsdp, struct mpl_fsdp2_group *group,
                                     const struct mpl_fsdp2_options *options,
                                     struct memplan_error *err)
{
    struct mpl_network *network = fsdp->network;
    struct mpl_module *embedding = network->modules, *head;
    const bool is_tied = network->plan->model.tie_word_embeddings;
    struct mpl_module *modules[3] = {&network->last_norm, NULL, NULL};

    while (embedding->kind != MPL_MODULE_EMBEDDING)
        embedding++;
    head = &network->modules[network->module_count - 1];
    modules[1] = is_tied ? embedding : head;
    modules[2] = head;
    start_group(fsdp, group, options, false, true);
    (is_tied ? embedding : &network->last_norm)->hooks = &mpl_fsdp2_first_hooks;
    (is_tied ? embedding : &network->last_norm)->wrapper = group;
    head->hooks = &mpl_fsdp2_last_hooks;
    head->wrapper = group;
    return fill_group(group, modules, is_tied ? 3 : 2, err);
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
    (void)network;
    (void)optim;
}

static const struct mpl_wrapper offloading_wrapper = {.materialize = materialize_on_host,
                                                      .set_sync = set_sync,
                                                      .step = host_step,
                                                      .save = mpl_fsdp2_save,
                                                      .resume = mpl_fsdp2_resume,
                                                      .parameter_bytes = no_bytes};

enum memplan_status mpl_fsdp2_wrap(struct mpl_network *network,
                                   const struct mpl_fsdp2_options *options,
                                   struct memplan_error *err)
{
    struct mpl_fsdp2 *fsdp = mpl_arena_zalloc(network->arena, sizeof(*fsdp));
    enum memplan_status status = check(network, options, err);

    if (status)
        return status;
    if (fsdp)
        fsdp->groups =
            mpl_arena_zalloc(network->arena, network->module_count * sizeof(*fsdp->groups));
    if (!fsdp || !fsdp->groups)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while sharding the model");
    fsdp->network = network;
    fsdp->shards = options->world_size / options->replicate;
    fsdp->shard_index =
        network->plan->parallelism.rank > 0 ? network->plan->parallelism.rank % fsdp->shards : 0;
    fsdp->is_replicated = options->replicate > 1;
    fsdp->is_syncing = true;
    fsdp->offloads = network->plan->parallelism.cpu_offload;
    fsdp->count = 1; /* groups[0] is the root's, made last: it takes what is left */
    for (uint32_t i = 1; i < network->module_count && !status; i++)
        if (is_tail(network, i, options->wrap))
            status = make_tail(fsdp, &fsdp->groups[fsdp->count++], options, err);
        else if (is_group(&network->modules[i], options->wrap))
            status =
                make_group(fsdp, &fsdp->groups[fsdp->count++], &network->modules[i], options, err);
    if (!status)
        status = make_group(fsdp, fsdp->groups, network->modules, options, err);
    if (!status) {
        network->sharding = fsdp;
        network->wrapper = fsdp->offloads                 ? &offloading_wrapper
                           : mpl_fsdp2_has_short(network) ? &short_wrapper
                                                          : &fsdp2_wrapper;
        if (network->plan->training.quantization.name != MPL_QUANTIZATION_NONE)
            network->wrapper = &cutting_wrapper;
    }
    return status;
}
