/* SPDX-License-Identifier: MIT */
/* Stage "spec": what is modelled of evaluations, resuming and batches ahead. */
#include "spec/around.h"
#include "spec/check.h"
#include "spec/fields.h"
#include "spec/gap.h"

#define GAPS(list) (sizeof(list) / sizeof((list)[0]))

static bool is_zero(const struct mpl_plan *plan)
{
    const enum mpl_strategy s = plan->parallelism.strategy;

    return s == MPL_STRATEGY_ZERO1 || s == MPL_STRATEGY_ZERO2 || s == MPL_STRATEGY_ZERO3;
}

static bool swaps(const struct mpl_plan *plan)
{
    return plan->parallelism.offload_optimizer == MPL_OFFLOAD_NVME ||
           plan->parallelism.offload_param == MPL_OFFLOAD_NVME;
}

static enum memplan_status check_evaluation(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_model *m = &plan->model;
    const struct mpl_gap gaps[] = {
        {mpl_family_of(m->model_type) != MPL_FAMILY_CAUSAL, "/training/evaluation/batches",
         "training.evaluation: not modelled for eagle3"},
        {t->loss.name != MPL_LOSS_CROSS_ENTROPY || t->loss.label_smoothing > 0 ||
             t->loss.num_items_in_batch,
         "/training/evaluation/batches",
         "training.evaluation: modelled with the model's own cross entropy only"},
        {m->attention_dropout > 0 || m->hidden_dropout > 0 || m->embedding_dropout > 0 ||
             (t->lora.r && t->lora.dropout > 0),
         "/training/evaluation/batches",
         "training.evaluation: not modelled with dropout, which an evaluation leaves out"},
        {t->offload_activations || t->keep_outputs || t->padding || t->quantization.name,
         "/training/evaluation/batches",
         "training.evaluation: not modelled with offload_activations, keep_outputs, padding or "
         "quantization"},
    };

    return mpl_gaps_refuse(gaps, GAPS(gaps), err);
}

static enum memplan_status check_resume(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_optimizer_spec *o = &t->optimizer;
    const enum mpl_resume how = plan->checkpoint.resume;
    const struct mpl_gap gaps[] = {
        {mpl_family_of(plan->model.model_type) != MPL_FAMILY_CAUSAL, "/checkpoint/resume",
         "checkpoint.resume: not modelled for eagle3"},
        {is_zero(plan) && how != MPL_RESUME_SHARDED, "/checkpoint/resume",
         "checkpoint.resume: with DeepSpeed's strategies only sharded is modelled, "
         "engine.load_checkpoint() of each rank's own partitions"},
        {how == MPL_RESUME_BROADCAST && plan->parallelism.strategy != MPL_STRATEGY_FSDP2,
         "/checkpoint/resume", "checkpoint.resume: broadcast is modelled with fsdp2 only"},
        {how == MPL_RESUME_SHARDED && !is_zero(plan) &&
             plan->parallelism.strategy != MPL_STRATEGY_FSDP2,
         "/checkpoint/resume",
         "checkpoint.resume: sharded is modelled with fsdp2 and DeepSpeed's strategies only"},
        {swaps(plan), "/checkpoint/resume", "checkpoint.resume: not modelled with states on NVMe"},
        {(plan->parallelism.cpu_offload && plan->parallelism.strategy != MPL_STRATEGY_FSDP2) ||
             plan->parallelism.zero1,
         "/checkpoint/resume",
         "checkpoint.resume: not modelled with zero1, and with parallelism.cpu_offload under fsdp2 "
         "only"},
        {plan->parallelism.cpu_offload && how == MPL_RESUME_CUDA, "/checkpoint/resume",
         "checkpoint.resume: cuda is not modelled with parallelism.cpu_offload"},
        {(o->name != MPL_ADAMW && o->name != MPL_ADAM) || o->amsgrad || o->master_weights ||
             o->in_backward,
         "/checkpoint/resume",
         "checkpoint.resume: modelled with adamw and adam only, without amsgrad, master_weights "
         "and in_backward"},
        {t->lora.r || t->quantization.name, "/checkpoint/resume",
         "checkpoint.resume: not modelled with adapters or quantization"},
    };

    return mpl_gaps_refuse(gaps, GAPS(gaps), err);
}

/* Optimizers whose states are all of the parameter's shape, but for a number of steps. */
static bool has_plain_states(const struct mpl_optimizer_spec *o)
{
    return (o->name == MPL_ADAMW || o->name == MPL_ADAM || o->name == MPL_SGD) &&
           !o->master_weights && !o->in_backward;
}

const char *mpl_save_gap(const struct mpl_plan *plan)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const struct mpl_training *t = &plan->training;

    if (plan->checkpoint.save == MPL_SAVE_NONE)
        return NULL;
    if (mpl_family_of(plan->model.model_type) == MPL_FAMILY_EAGLE3)
        return "what saving takes on the card is not computed for eagle3";
    if (t->lora.r || t->quantization.name || t->float8.recipe)
        return "what saving takes on the card is not computed with adapters, quantization or "
               "float8";
    switch (p->strategy) {
    case MPL_STRATEGY_NONE:
        return NULL;
    case MPL_STRATEGY_DDP:
        return p->zero1 && plan->checkpoint.has_states
                   ? "what ZeroRedundancyOptimizer.consolidate_state_dict takes on the card is not "
                     "computed"
                   : NULL;
    case MPL_STRATEGY_FSDP1:
    case MPL_STRATEGY_FSDP2:
        if (p->cpu_offload && p->strategy == MPL_STRATEGY_FSDP1)
            return "what saving takes on the card is not computed with fsdp1 and "
                   "parallelism.cpu_offload";
        return plan->checkpoint.has_states && !has_plain_states(&t->optimizer)
                   ? "gathering the states of this optimizer is not computed; of adamw, adam and "
                     "sgd it is"
                   : NULL;
    case MPL_STRATEGY_ZERO1:
    case MPL_STRATEGY_ZERO2: /* weights and the rank's part of the states, as they are */
        return NULL;
    case MPL_STRATEGY_ZERO3:
        return swaps(plan) ? "what saving takes on the card is not computed with weights or states "
                             "on NVMe"
                           : NULL;
    }
    return NULL;
}

bool mpl_is_saved_on_card(const struct mpl_plan *plan)
{
    return plan->checkpoint.save != MPL_SAVE_NONE && !mpl_save_gap(plan);
}

enum memplan_status mpl_check_around(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_gap ahead = {plan->training.prefetch_batches &&
                                      mpl_family_of(plan->model.model_type) != MPL_FAMILY_CAUSAL,
                                  "/training/prefetch_batches",
                                  "training.prefetch_batches: not modelled for eagle3"};
    enum memplan_status status = mpl_gaps_refuse(&ahead, 1, err);

    if (!status && plan->training.evaluation.batches)
        status = check_evaluation(plan, err);
    if (!status && plan->checkpoint.resume)
        status = check_resume(plan, err);
    return status;
}
