/* SPDX-License-Identifier: MIT */
/* Stage "spec": what is refused of runs of the MTP drafter. */
#include "spec/gap.h"

#include <string.h>

#include "base/fail.h"
#include "spec/speculators.h"

static enum memplan_status check_model(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_gap gaps[] = {
        {m->attention_bias || m->mlp_bias, "/model/attention_bias",
         "model.attention_bias, model.mlp_bias: biases are not modelled for mtp"},
        {m->hidden_act != MPL_ACTIVATION_SILU, "/model/hidden_act",
         "model.hidden_act: only silu is modelled for mtp"},
        {m->attention_dropout > 0, "/model/attention_dropout",
         "model.attention_dropout: not modelled for mtp"},
        {m->sliding_window > 0, "/model/sliding_window",
         "model.sliding_window: not modelled for mtp"},
        {m->rope_type == MPL_ROPE_DYNAMIC || m->rope_type == MPL_ROPE_LONGROPE,
         "/model/rope_scaling",
         "model.rope_scaling: dynamic and longrope are not modelled for mtp"},
        {m->num_key_value_heads == m->num_attention_heads, "/model/num_key_value_heads",
         "model.num_key_value_heads: as many as query heads are not modelled for mtp, whose "
         "compiled code repeats keys and values"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_mtp(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_speculators *release = mpl_speculators_find(plan->framework_version);
    const struct mpl_training *t = &plan->training;
    const bool is_known =
        strcmp(plan->framework_name, "speculators") == 0 && release && release->has_autocast;
    const struct mpl_gap gaps[] = {
        {!is_known, "/framework/version",
         "framework.version: mtp is modelled as speculators 0.7.0, 0.7.0.1, 0.7.0.2, 0.8.0, 0.8.1 "
         "and 0.9.0 train it"},
        {is_known && !release->has_fused_loss, "/framework/version",
         "framework.version: before 0.8.0 the mtp drafter has eager attention, which is not "
         "modelled"},
        {t->python_gc == MPL_GC_OFF, "/training/python_gc",
         "training.python_gc: what compiling leaves is not modelled for mtp, and with off it is "
         "never collected"},
        {t->loss.name != MPL_LOSS_CROSS_ENTROPY, "/training/loss/name",
         "training.loss.name: the mtp drafter's loss is cross_entropy"},
        {t->attention != MPL_ATTENTION_SDPA, "/training/attention",
         "training.attention: from 0.8.0 on the mtp drafter has sdpa only"},
    };
    enum memplan_status status = mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);

    if (status || (status = check_model(plan, err)))
        return status;
    if (t->sequence_length < t->num_speculative_steps + 2)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/sequence_length",
                        "training.sequence_length: found %lld tokens, expected at least "
                        "training.num_speculative_steps + 2, %lld",
                        (long long)t->sequence_length, (long long)t->num_speculative_steps + 2);
    return mpl_check_drafter_loop(plan, err);
}
