/* SPDX-License-Identifier: MIT */
/*
 * Stage "step": an evaluation after a step, as transformers' Trainer runs it.
 *
 * source: transformers/trainer.py (evaluation_loop, prediction_step), trainer_pt_utils.py
 * (EvalLoopContainer, nested_concat), release 5.24
 */
#include "step/around.h"

#include "base/bytes.h"
#include "op/op.h"

/* The loop's names: what the last prediction_step gave, and what was gathered so far. */
struct evaluation {
    struct mpl_tape *tape;
    struct mpl_network *network;
    const struct mpl_evaluation *spec;
    int64_t ranks; /* that see a part of each batch: all of the strategies here are data-parallel */
    struct mpl_tensor *ids, *labels;              /* of the batch */
    struct mpl_tensor *loss, *logits, *predicted; /* of the last step; predicted: its labels */
    struct mpl_tensor *losses, *all_logits, *all_labels; /* containers */
};

static struct mpl_tensor *make_ids(struct evaluation *e)
{
    const struct mpl_training *t = &e->network->plan->training;
    const struct mpl_shape shape =
        mpl_shape2(mpl_dim(t->micro_batch_size), (struct mpl_dim){t->sequence_length, 1});
    struct mpl_tensor *ids;

    e->tape->category = MPL_CATEGORY_INPUTS;
    ids = mpl_hold(mpl_empty(e->tape, "empty.memory_format", MPL_INT64, &shape));
    e->tape->category = MPL_CATEGORY_TEMPORARY;
    return ids;
}

static void drop_names(struct evaluation *e)
{
    struct mpl_tensor **names[] = {&e->loss, &e->logits, &e->predicted, &e->labels, &e->ids};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mpl_drop(e->tape, *names[i]);
        *names[i] = NULL;
    }
}

static void make_batch(struct evaluation *e)
{
    struct mpl_tensor *ids = make_ids(e);
    struct mpl_tensor *labels =
        e->network->plan->training.shared_batch ? mpl_hold(mpl_return(mpl_hold(ids))) : make_ids(e);

    mpl_drop(e->tape, e->ids);
    mpl_drop(e->tape, e->labels);
    e->ids = ids;
    e->labels = labels;
}

static void drop_outputs(struct evaluation *e)
{
    struct mpl_outputs *outputs = &e->network->outputs;

    for (uint32_t i = 0; i < outputs->count; i++)
        mpl_drop(e->tape, outputs->of[i]);
    outputs->count = 0;
}

/* The names are bound to the new values when prediction_step has returned: old ones live as long.
 */
static void prediction_step(struct evaluation *e)
{
    struct mpl_tape *tape = e->tape;
    struct mpl_batch batch = {.input_ids = e->ids, .labels = e->labels};
    struct mpl_tensor *logits = NULL, *loss, *mean;

    tape->is_grad_enabled = e->spec->has_gradients;
    tape->autocast = e->network->plan->training.autocast;
    loss = mpl_hold(mpl_network_call(tape, e->network, &batch, &logits));
    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    tape->is_grad_enabled = false;
    mean = mpl_hold(mpl_empty_like(tape, "mean.default", (enum mpl_dtype)loss->dtype, loss, NULL));
    drop_outputs(e);
    mpl_drop(tape, loss);
    mpl_drop(tape, e->loss);
    e->loss = mean;
    mpl_drop(tape, e->logits);
    mpl_drop(tape, e->predicted);
    e->logits = e->spec->keeps_logits && logits && !logits->is_void
                    ? mpl_hold(mpl_alias(tape, logits)) /* detached: the graph goes */
                    : NULL;
    e->predicted = e->spec->keeps_logits ? mpl_hold(mpl_return(mpl_hold(e->labels))) : NULL;
    mpl_drop(tape, logits);
}

/* container.add(): the first time the tensor itself; then a new one along dimension 0 that holds
 * both, before the old one goes. */
static void gather(struct evaluation *e, struct mpl_tensor **container, struct mpl_tensor *tensor)
{
    struct mpl_shape shape;

    if (!tensor)
        return;
    if (!*container) {
        *container = mpl_hold(mpl_return(mpl_hold(tensor)));
        return;
    }
    shape = (*container)->shape;
    if (shape.ndim)
        shape.dim[0].n += tensor->shape.dim[0].n;
    mpl_rebind(e->tape, container,
               mpl_empty(e->tape, "cat.default", (enum mpl_dtype)tensor->dtype, &shape));
}

/* accelerate's gather_for_metrics: one buffer of all ranks' values, which the name becomes.
 * shape: [ranks x dimension 0, the rest] */
static void gather_ranks(struct evaluation *e, struct mpl_tensor **name)
{
    const struct mpl_tensor *own = *name;
    struct mpl_shape shape;

    if (!own || e->ranks == 1)
        return;
    shape = own->shape;
    shape.dim[0].n = (int64_t)mpl_mul((uint64_t)shape.dim[0].n, (uint64_t)e->ranks);
    mpl_rebind(e->tape, name,
               mpl_empty(e->tape, "empty.memory_format", (enum mpl_dtype)own->dtype, &shape));
}

/* accelerate's pad_across_processes: ranks tell each other their shapes, and here none differs.
 * shape: [1, dimensions] and [ranks, dimensions] int64 */
static void compare_shapes(struct evaluation *e, const struct mpl_tensor *tensor)
{
    struct mpl_shape shape = mpl_shape2(mpl_dim(1), mpl_dim(0));
    struct mpl_tensor *size, *sizes;

    if (!tensor || e->ranks == 1)
        return;
    shape.dim[1].n = tensor->shape.ndim;
    size = mpl_hold(mpl_empty(e->tape, "_to_copy.default", MPL_INT64, &shape));
    shape.dim[0].n = e->ranks;
    sizes = mpl_hold(mpl_empty(e->tape, "empty.memory_format", MPL_INT64, &shape));
    mpl_drop(e->tape, size);
    mpl_drop(e->tape, sizes);
}

static void drop_gathered(struct evaluation *e)
{
    struct mpl_tensor **containers[] = {&e->losses, &e->all_logits, &e->all_labels};

    for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]); i++) {
        mpl_drop(e->tape, *containers[i]);
        *containers[i] = NULL;
    }
}

static void run_batch(struct evaluation *e, int64_t number)
{
    const struct mpl_training *t = &e->network->plan->training;
    const struct mpl_shape repeated = mpl_shape1(mpl_dim(t->micro_batch_size));
    const int64_t every = e->spec->accumulation_steps;

    make_batch(e);
    prediction_step(e);
    mpl_rebind(e->tape, &e->loss,
               mpl_empty(e->tape, "repeat.default", (enum mpl_dtype)e->loss->dtype, &repeated));
    gather_ranks(e, &e->loss);
    gather(e, &e->losses, e->loss);
    compare_shapes(e, e->predicted);
    compare_shapes(e, e->logits);
    gather_ranks(e, &e->logits);
    gather(e, &e->all_logits, e->logits);
    gather_ranks(e, &e->predicted);
    gather(e, &e->all_labels, e->predicted);
    if (!every || (number + 1) % every)
        return;
    drop_gathered(e);
    drop_names(e);
    mpl_tape_empty_cache(e->tape);
    mpl_tape_mark(e->tape, (uint32_t)t->steps - 1, 0, MPL_PHASE_EVALUATION);
}

void mpl_evaluate(struct mpl_tape *tape, struct mpl_network *network)
{
    const struct mpl_plan *plan = network->plan;
    const bool was_grad_enabled = tape->is_grad_enabled;
    const bool is_checkpointed = plan->training.activation_checkpointing != MPL_CHECKPOINTING_NONE;
    struct evaluation e = {.tape = tape,
                           .network = network,
                           .spec = &plan->training.evaluation,
                           .ranks = plan->parallelism.strategy == MPL_STRATEGY_NONE
                                        ? 1
                                        : plan->parallelism.world_size};
    struct mpl_plan *own = mpl_arena_alloc(&tape->arena, sizeof(*own));

    if (!e.spec->batches || tape->is_stopped)
        return;
    if (!own) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    *own = *plan;
    if (e.spec->batch_size)
        own->training.micro_batch_size = e.spec->batch_size;
    if (e.spec->sequence_length)
        own->training.sequence_length = e.spec->sequence_length;
    network->plan = own; /* a forward looks up its lengths there */
    for (uint32_t i = 0; i < network->module_count && is_checkpointed; i++)
        network->modules[i].is_checkpointed = false; /* not in model.eval() */
    for (int64_t i = 0; i < e.spec->batches && !tape->is_stopped; i++)
        run_batch(&e, i);
    drop_gathered(&e);
    drop_names(&e);
    tape->is_grad_enabled = was_grad_enabled;
    network->plan = plan;
}
