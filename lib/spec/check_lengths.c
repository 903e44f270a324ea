/* SPDX-License-Identifier: MIT */
/* Stage "spec": what is modelled of batches whose lengths differ. */
#include "spec/check.h"
#include "spec/config_class.h"
#include "spec/fields.h"
#include "spec/gap.h"

#define PATH "/training/sequence_lengths"
#define WORD "training.sequence_lengths: "

/* What keeps something of the first batch's length, or needs every length to divide. */
static enum memplan_status check_combinations(const struct mpl_plan *plan,
                                              struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const enum mpl_loss_name loss = t->loss.name;
    const struct mpl_gap gaps[] = {
        {mpl_family_of(plan->model.model_type) == MPL_FAMILY_EAGLE3, PATH,
         WORD "not modelled for drafters, whose trainers pad every batch to one length"},
        {plan->observation_count > 0, PATH, WORD "not modelled with observations"},
        {t->attention == MPL_ATTENTION_FLEX, PATH,
         WORD "not modelled with attention flex, which is compiled for a length"},
        {plan->model.rope_type == MPL_ROPE_DYNAMIC || plan->model.rope_type == MPL_ROPE_LONGROPE,
         PATH, WORD "not modelled with rope types dynamic and longrope, which keep a length"},
        {t->float8.recipe != MPL_FLOAT8_NONE || t->te.recipe != MPL_TE_NONE, PATH,
         WORD "not modelled with float8"},
        {loss != MPL_LOSS_CROSS_ENTROPY && loss != MPL_LOSS_FUSED_LINEAR, PATH,
         WORD "modelled with cross_entropy and fused_linear_cross_entropy only"},
        {t->loss.logits_to_keep > 0, PATH, WORD "not modelled with loss.logits_to_keep"},
        {t->optimizer.name == MPL_SOPHIA, PATH, WORD "not modelled with sophia"},
        {t->offload_activations, PATH, WORD "not modelled with offload_activations"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_lengths(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_length_list *list = &t->sequence_lengths;
    int64_t longest = 0;

    if (!list->count)
        return MEMPLAN_OK;
    for (uint32_t i = 0; i < list->count; i++)
        longest = list->of[i] > longest ? list->of[i] : longest;
    if (t->sequence_length != longest)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/sequence_length",
                        "training.sequence_length: found %lld, expected %lld, the longest of "
                        "training.sequence_lengths",
                        (long long)t->sequence_length, (long long)longest);
    if (t->steps * t->gradient_accumulation_steps < list->count)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/steps",
                        "training.steps: found %lld of %lld micro batches, expected enough for the "
                        "%u of training.sequence_lengths",
                        (long long)t->steps, (long long)t->gradient_accumulation_steps,
                        list->count);
    return check_combinations(plan, err);
}
