/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stage 3: gathering and giving up weights around modules.
 *
 * source: deepspeed/runtime/zero/partitioned_param_coordinator.py (PartitionedParameterCoordinator:
 * reset_step, fetch_sub_module, release_sub_module, __params_to_release, release_and_reset_all,
 * release_backward_leftovers), parameter_offload.py (setup_zero_stage3_hooks)
 */
#include <string.h>

#include "parallel/zero3.h"

/* ---- the trace --------------------------------------------------------------------------------
 */

/* The module with that number; NULL where it has no weights of its own. */
static struct mpl_zero3_module *module_at(const struct mpl_zero3 *zero, uint64_t number)
{
    uint32_t first, last;

    if (number == MPL_NO_MODULE)
        return NULL;
    if (!mpl_module_range(number, &first, &last))
        return &zero->modules[number];
    return number & MPL_MODULE_BLOCK ? &zero->modules[mpl_module_of_weight(first, true)] : NULL;
}

static void record(struct mpl_tape *tape, struct mpl_zero3 *zero, uint64_t number)
{
    if (zero->trace_count == zero->trace_cap) {
        const size_t cap = zero->trace_cap ? 2 * zero->trace_cap : 256;
        uint64_t *trace = mpl_arena_alloc(&tape->arena, cap * sizeof(*trace));

        if (!trace) {
            mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
            return;
        }
        if (zero->trace_count)
            memcpy(trace, zero->trace, zero->trace_count * sizeof(*trace));
        zero->trace = trace;
        zero->trace_cap = cap;
    }
    zero->trace[zero->trace_count++] = number;
}

/* construct_parameter_trace_from_module_trace */
static void list_uses(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    size_t room = 1;

    for (size_t i = 0; i < zero->trace_count; i++) {
        const struct mpl_zero3_module *module = module_at(zero, zero->trace[i]);

        room += module ? module->count : 0;
    }
    zero->uses = mpl_arena_alloc(&tape->arena, room * sizeof(*zero->uses));
    if (!zero->uses) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (size_t i = 0; i < zero->trace_count; i++) {
        const struct mpl_zero3_module *module = module_at(zero, zero->trace[i]);

        for (uint32_t k = 0; module && k < module->count; k++)
            zero->uses[zero->use_count++] = (struct mpl_zero3_use){module->weights[k], (uint32_t)i};
    }
}

static bool is_active(const struct mpl_zero3_weight *weight)
{
    return (weight->owners[0] && weight->owners[0]->is_active) ||
           (weight->owners[1] && weight->owners[1]->is_active);
}

/* __release_param */
static void release(struct mpl_tape *tape, struct mpl_zero3_weight *weight)
{
    if (weight->status != MPL_ZERO3_AVAILABLE || is_active(weight))
        return;
    mpl_zero3_give_up(tape, weight);
    weight->zero->available -= (int64_t)weight->numel;
}

/* _clean_inflight_param_registry: what was gathered ahead and not asked for */
static void clean(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->count; i++)
        if (zero->weights[i].gather) {
            mpl_zero3_ask_for(tape, &zero->weights[i], MPL_STREAM_DEFAULT);
            release(tape, &zero->weights[i]);
        }
}

void mpl_zero3_reset_step(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    clean(tape, zero);
    if (zero->mode == MPL_ZERO3_RECORD)
        list_uses(tape, zero);
    if (zero->mode != MPL_ZERO3_COMPLETE)
        zero->mode++;
    for (uint32_t i = 0; i < zero->count; i++)
        zero->weights[i].fetched_for = -1;
    zero->next_use = 0;
    zero->step = 0;
    zero->available = 0;
}

/* ---- fetching ---------------------------------------------------------------------------------
 */

/* What this module needs is not to be gathered ahead any more. */
static void skip_uses(struct mpl_zero3 *zero, const struct mpl_zero3_module *module)
{
    uint32_t wanted = 0, met = 0;

    for (uint32_t i = 0; i < module->count; i++)
        wanted += module->weights[i]->fetched_for < (int64_t)zero->step;
    for (; zero->next_use < zero->use_count && met < wanted; met++) {
        const struct mpl_zero3_use *use = &zero->uses[zero->next_use++];

        use->weight->fetched_for = use->step;
    }
}

/* The next weights in the order of use, up to the bucket's size and the room for live ones. */
static void prefetch(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    const struct mpl_parallelism *p = &zero->network->plan->parallelism;
    const int64_t room = p->stage3_max_live_parameters - zero->available;
    const int64_t most =
        room < p->stage3_prefetch_bucket_size ? room : p->stage3_prefetch_bucket_size;
    int64_t numel = 0;
    uint32_t count = 0;

    for (; zero->next_use < zero->use_count && numel < most; zero->next_use++) {
        const struct mpl_zero3_use *use = &zero->uses[zero->next_use];
        struct mpl_zero3_weight *weight = use->weight;

        if (weight->is_swapped && !weight->has_buffer)
            break; /* not past what was not read yet */
        if (weight->fetched_for < (int64_t)use->step)
            weight->fetched_for = use->step;
        if (weight->status != MPL_ZERO3_PARTITIONED || weight->is_listed)
            continue;
        weight->is_listed = true;
        zero->list[count++] = weight;
        numel += (int64_t)weight->numel;
    }
    for (uint32_t i = 0; i < count; i++)
        zero->list[i]->is_listed = false;
    mpl_zero3_begin_gather(tape, zero, count);
}

/* fetch_sub_module */
static void fetch(struct mpl_tape *tape, struct mpl_zero3 *zero, uint64_t number, bool is_forward)
{
    static const struct mpl_zero3_module none;
    struct mpl_zero3_module *module = module_at(zero, number);
    uint32_t count = 0;

    if (zero->mode == MPL_ZERO3_RECORD)
        record(tape, zero, number);
    if (module) {
        module->is_active = true;
        if (!is_forward && !module->backward_number)
            module->backward_number = ++zero->backward_number;
    }
    for (uint32_t i = 0; module && i < module->count; i++) {
        module->weights[i]->was_fetched = true;
        if (module->weights[i]->status == MPL_ZERO3_PARTITIONED)
            zero->list[count++] = module->weights[i];
    }
    mpl_zero3_begin_gather(tape, zero, count);
    for (uint32_t i = 0; module && i < module->count; i++)
        mpl_zero3_ask_for(tape, module->weights[i], zero->gather_stream);
    if (zero->mode == MPL_ZERO3_COMPLETE) {
        skip_uses(zero, module ? module : &none);
        prefetch(tape, zero);
        if (zero->network->plan->parallelism.stage3_prefetch_bucket_size)
            mpl_zero3_read_ahead(tape, zero);
    }
    zero->step++;
}

/* ---- releasing --------------------------------------------------------------------------------
 */

/* iter_params(recurse=True) of a module: elements, and whether a weight is among them. */
static uint64_t look_inside(const struct mpl_zero3 *zero, uint64_t number,
                            const struct mpl_zero3_module *wanted, bool *releases)
{
    const struct mpl_zero3_module *module = module_at(zero, number);
    uint64_t numel = 0;
    uint32_t first, last;

    if (mpl_module_range(number, &first, &last)) {
        for (uint32_t i = 0; i < wanted->count; i++) {
            const uint32_t at =
                (uint32_t)(wanted->weights[i]->parameter - zero->network->parameters);

            releases[i] &= at < first || at > last;
        }
        return zero->numel_before[last + 1] - zero->numel_before[first];
    }
    for (uint32_t n = 0; module && n < module->count; n++)
        numel += module->weights[n]->numel;
    return numel;
}

/* A weight stays for its next use within stage3_max_reuse_distance elements. Beside a leaf modules
 * count with all that is in them, beside others a leaf has nothing of its own. */
static void find_answer(const struct mpl_zero3 *zero, const struct mpl_zero3_module *module,
                        struct mpl_zero3_answer *answer)
{
    const int64_t most = zero->network->plan->parallelism.stage3_max_reuse_distance;
    int64_t passed = 0;

    answer->step = zero->step;
    for (uint32_t i = 0; i < module->count; i++)
        answer->releases[i] =
            !module->weights[i]->persists && module->weights[i]->fetched_for <= (int64_t)zero->step;
    for (size_t k = zero->step; k < zero->trace_count && passed < most; k++) {
        const struct mpl_zero3_module *other = module_at(zero, zero->trace[k]);

        if (module->is_leaf) {
            passed += (int64_t)look_inside(zero, zero->trace[k], module, answer->releases);
            continue;
        }
        for (uint32_t n = 0; other && !other->is_leaf && n < other->count; n++) {
            for (uint32_t i = 0; i < module->count; i++)
                answer->releases[i] &= other->weights[n] != module->weights[i];
            passed += (int64_t)other->weights[n]->numel;
        }
    }
}

/* __params_to_release: the answer of the first time (lru_cache) */
static const struct mpl_zero3_answer *answer_of(struct mpl_tape *tape, struct mpl_zero3 *zero,
                                                struct mpl_zero3_module *module)
{
    struct mpl_zero3_answer *answer = module->answers;

    while (answer && answer->step != zero->step)
        answer = answer->next;
    if (answer)
        return answer;
    answer = mpl_arena_zalloc(&tape->arena,
                              sizeof(*answer) + module->count * sizeof(answer->releases[0]));
    if (!answer) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return NULL;
    }
    find_answer(zero, module, answer);
    answer->next = module->answers;
    module->answers = answer;
    return answer;
}

/* release_sub_module */
static void release_module(struct mpl_tape *tape, struct mpl_zero3 *zero, uint64_t number,
                           bool is_forward)
{
    struct mpl_zero3_module *module = module_at(zero, number);
    const struct mpl_zero3_answer *answer = NULL;

    if (!module)
        return;
    if (zero->mode == MPL_ZERO3_COMPLETE && !(answer = answer_of(tape, zero, module)))
        return;
    module->is_active = false;
    if (!is_forward)
        module->backward_number = 0;
    for (uint32_t i = 0; i < module->count; i++)
        if (!answer || answer->releases[i])
            release(tape, module->weights[i]);
}

void mpl_zero3_release_leftovers(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    for (;;) {
        struct mpl_zero3_module *last = NULL;

        for (uint32_t i = 0; i < zero->module_count; i++)
            if (zero->modules[i].backward_number > (last ? last->backward_number : 0))
                last = &zero->modules[i];
        if (!last)
            return;
        last->backward_number = 0;
        last->is_active = false;
        for (uint32_t i = 0; i < last->count; i++)
            if (!last->weights[i]->persists)
                release(tape, last->weights[i]);
    }
}

void mpl_zero3_release_all(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->module_count; i++)
        zero->modules[i].is_active = false;
    for (uint32_t i = 0; i < zero->count; i++) {
        mpl_zero3_ask_for(tape, &zero->weights[i], MPL_STREAM_DEFAULT);
        release(tape, &zero->weights[i]);
    }
}

/* ---- around a module --------------------------------------------------------------------------
 */

static void pre_backward(struct mpl_tape *tape, struct mpl_node *node,
                         struct mpl_tensor **grads_out, struct mpl_tensor **grads_in)
{
    struct mpl_zero3_module *module = module_at(node->context, (uint64_t)node->arg[0]);

    fetch(tape, node->context, (uint64_t)node->arg[0], false);
    if (module && module->is_leaf && grads_out[0]) { /* its full backward hook keeps it */
        mpl_drop(tape, module->held);
        module->held = mpl_hold(grads_out[0]);
    }
    if (grads_out[0])
        grads_in[0] = mpl_hold(grads_out[0]);
}

static void post_backward(struct mpl_tape *tape, struct mpl_node *node,
                          struct mpl_tensor **grads_out, struct mpl_tensor **grads_in)
{
    struct mpl_zero3_module *module = module_at(node->context, (uint64_t)node->arg[0]);

    if (module && module->is_leaf) {
        mpl_zero3_reduce_leaf(tape, module);
        mpl_drop(tape, module->held);
        module->held = NULL;
    }
    release_module(tape, node->context, (uint64_t)node->arg[0], false);
    if (grads_out[0])
        grads_in[0] = mpl_hold(grads_out[0]);
}

/* The tensor behind a node of the wrapper's own; the tensor itself where it has no gradient. */
static struct mpl_tensor *watch(struct mpl_tape *tape, struct mpl_zero3 *zero, uint64_t number,
                                mpl_backward_rule *rule, struct mpl_tensor *tensor)
{
    struct mpl_node *node = mpl_node_new(
        tape, rule == pre_backward ? "PreBackwardFunctionForModule" : "PostBackwardFunctionModule",
        rule, &tensor, 1, 1, 0);
    struct mpl_tensor *watched;

    if (!node)
        return tensor;
    node->context = zero;
    node->arg[0] = (int64_t)number;
    watched = mpl_alias(tape, tensor);
    mpl_set_history(tape, watched, node, 0);
    mpl_consume(tape, tensor);
    return watched;
}

static bool is_leaf(const struct mpl_zero3 *zero, uint64_t number)
{
    const struct mpl_zero3_module *module = module_at(zero, number);

    return module && module->is_leaf;
}

static struct mpl_tensor *enter(struct mpl_tape *tape, void *wrapper, uint64_t number,
                                struct mpl_tensor *input)
{
    struct mpl_zero3 *zero = wrapper;
    const bool is_inside = zero->leaf_depth > 0;

    zero->leaf_depth += is_leaf(zero, number);
    if (tape->is_stopped || is_inside)
        return input;
    fetch(tape, zero, number, true);
    return module_at(zero, number) ? watch(tape, zero, number, post_backward, input) : input;
}

static struct mpl_tensor *leave(struct mpl_tape *tape, void *wrapper, uint64_t number,
                                struct mpl_tensor *output)
{
    struct mpl_zero3 *zero = wrapper;

    zero->leaf_depth -= is_leaf(zero, number);
    if (tape->is_stopped || zero->leaf_depth)
        return output;
    release_module(tape, wrapper, number, true);
    return watch(tape, wrapper, number, pre_backward, output);
}

/* ZeROOrderedDict: what a forward looks at while it is partitioned is gathered at once, and from
 * then on with the module that looked. */
static void read(struct mpl_tape *tape, void *wrapper, uint64_t reader, uint32_t parameter)
{
    struct mpl_zero3 *zero = wrapper;
    struct mpl_zero3_module *module = &zero->modules[reader];
    struct mpl_zero3_weight *weight = zero->weights;

    while (weight->parameter != &zero->network->parameters[parameter])
        weight++;
    if (tape->is_stopped || tape->is_in_backward || weight->status != MPL_ZERO3_PARTITIONED)
        return;
    if (!module->count) {
        module->weights = mpl_arena_alloc(&tape->arena, sizeof(*module->weights));
        if (!module->weights) {
            mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
            return;
        }
        module->weights[module->count++] = weight;
        module->is_active = false; /* it was not fetched with it */
        weight->owners[1] = module;
    }
    mpl_zero3_gather_now(tape, zero, &weight, 1);
}

const struct mpl_scopes mpl_zero3_scopes = {.enter = enter, .leave = leave, .read = read};
