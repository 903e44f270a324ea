/* SPDX-License-Identifier: MIT */
/* What the training loop feeds the model: tensors of a batch, and batches ahead of their turn. */
#include "step/run.h"

static struct mpl_tensor *make_input_of(struct mpl_tape *tape, enum mpl_dtype dtype,
                                        const struct mpl_shape *shape)
{
    struct mpl_tensor *input;

    tape->category = MPL_CATEGORY_INPUTS;
    input = mpl_hold(mpl_empty(tape, "empty.memory_format", dtype, shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    return input;
}

static struct mpl_tensor *make_input(struct mpl_tape *tape, const struct mpl_shape *shape)
{
    return make_input_of(tape, MPL_INT64, shape);
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

void mpl_run_drop_batch(struct mpl_run *run)
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
static void make_grpo_batch(struct mpl_run *run, struct mpl_batch *batch)
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

/* Batch i has this length where lengths are given. */
static int64_t length_of(const struct mpl_plan *plan, uint64_t i)
{
    const struct mpl_length_list *list = &plan->training.sequence_lengths;

    return list->count ? list->of[i % list->count] : plan->training.sequence_length;
}

/* From here on the run is at the length of batch i. */
static void turn_to(struct mpl_run *run, uint64_t i)
{
    if (!run->plan->training.sequence_lengths.count)
        return;
    if (!run->turn)
        run->turn = mpl_arena_alloc(&run->tape->arena, sizeof(*run->turn));
    if (!run->turn) {
        mpl_tape_fail(run->tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    *run->turn = *run->plan;
    run->turn->training.sequence_length = length_of(run->plan, i);
    run->network.plan = run->turn; /* a forward looks up its lengths there */
}

static struct mpl_batch new_batch(struct mpl_run *run)
{
    const struct mpl_plan *plan = run->network.plan;
    const struct mpl_training *t = &plan->training;
    struct mpl_batch batch = {0};

    if (t->loss.name == MPL_LOSS_GRPO) {
        make_grpo_batch(run, &batch);
        return batch;
    }
    batch.input_ids = make_ids(run->tape, plan);
    batch.labels = t->shared_batch ? mpl_hold(mpl_return(mpl_hold(batch.input_ids)))
                                   : make_labels(run->tape, plan);
    if (t->padding)
        batch.attention_mask = make_input_of(
            run->tape, run->network.has_bool_mask ? MPL_BOOL : MPL_INT64, &batch.input_ids->shape);
    if (t->loss.num_items_in_batch)
        batch.item_count = make_input(run->tape, &(struct mpl_shape){0});
    return batch;
}

/* A shared batch (one tensor is ids and labels) lives until the next one is there. With batches
 * ahead the one whose turn it is was made so many batches ago. */
void mpl_run_make_batch(struct mpl_run *run)
{
    const uint32_t wanted = (uint32_t)run->plan->training.prefetch_batches;
    struct mpl_batch batch;

    while (run->ahead_count < wanted + 1) {
        turn_to(run, run->made++);
        run->ahead[(run->ahead_first + run->ahead_count) % MPL_MAX_BATCHES_AHEAD] = new_batch(run);
        run->ahead_count++;
    }
    batch = run->ahead[run->ahead_first];
    run->ahead_first = (run->ahead_first + 1) % MPL_MAX_BATCHES_AHEAD;
    run->ahead_count--;
    mpl_run_drop_batch(run);
    run->batch = batch;
    turn_to(run, run->taken++);
}
