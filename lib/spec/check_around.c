/* SPDX-License-Identifier: MIT */
/* Stage "spec": what is modelled of evaluations, resuming and batches ahead. */
#include "spec/check.h"
#include "spec/fields.h"
#include "spec/gap.h"

#define GAPS(list) (sizeof(list) / sizeof((list)[0]))

static enum memplan_status check_evaluation(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_model *m = &plan->model;
    const struct mpl_gap gaps[] = {
        {mpl_family_of(m->model_type) == MPL_FAMILY_EAGLE3, "/training/evaluation/batches",
         "training.evaluation: not modelled for eagle3"},
        {plan->parallelism.strategy != MPL_STRATEGY_NONE, "/training/evaluation/batches",
         "training.evaluation: modelled with parallelism.strategy none only"},
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
    const struct mpl_gap gaps[] = {
        {mpl_family_of(plan->model.model_type) == MPL_FAMILY_EAGLE3, "/checkpoint/resume",
         "checkpoint.resume: not modelled for eagle3"},
        {plan->parallelism.strategy != MPL_STRATEGY_NONE, "/checkpoint/resume",
         "checkpoint.resume: modelled with parallelism.strategy none only"},
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

enum memplan_status mpl_check_around(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_gap ahead = {plan->training.prefetch_batches &&
                                      mpl_family_of(plan->model.model_type) == MPL_FAMILY_EAGLE3,
                                  "/training/prefetch_batches",
                                  "training.prefetch_batches: not modelled for eagle3"};
    enum memplan_status status = mpl_gaps_refuse(&ahead, 1, err);

    if (!status && plan->training.evaluation.batches)
        status = check_evaluation(plan, err);
    if (!status && plan->checkpoint.resume)
        status = check_resume(plan, err);
    return status;
}
