/* SPDX-License-Identifier: MIT */
/* Stage "spec": what is refused of runs of the DFlash drafter. */
#include "spec/gap.h"

#include <string.h>

#include "base/fail.h"
#include "spec/speculators.h"
#include "spec/text.h"

static enum memplan_status check_model(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_gap gaps[] = {
        {m->attention_bias || m->mlp_bias, "/model/attention_bias",
         "model.attention_bias, model.mlp_bias: biases are not modelled for dflash"},
        {m->hidden_act != MPL_ACTIVATION_SILU, "/model/hidden_act",
         "model.hidden_act: only silu is modelled for dflash"},
        {m->attention_dropout > 0, "/model/attention_dropout",
         "model.attention_dropout: not modelled for dflash"},
        {m->sliding_window > 0, "/model/sliding_window",
         "model.sliding_window: not modelled for dflash"},
        {m->rope_type == MPL_ROPE_DYNAMIC || m->rope_type == MPL_ROPE_LONGROPE,
         "/model/rope_scaling",
         "model.rope_scaling: dynamic and longrope are not modelled for dflash"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* The loss that the release trains with where nothing is asked for. */
static bool has_default_loss(const struct mpl_plan *plan, const struct mpl_speculators *release)
{
    return plan->training.loss.name ==
           (release->has_fused_loss ? MPL_LOSS_CROSS_ENTROPY : MPL_LOSS_KL_DIV);
}

enum memplan_status mpl_check_dflash(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_speculators *release = mpl_speculators_find(plan->framework_version);
    const bool is_known =
        strcmp(plan->framework_name, "speculators") == 0 && release && release->has_autocast;
    const struct mpl_gap gaps[] = {
        {!is_known, "/framework/version",
         "framework.version: dflash is modelled as speculators 0.7.0, 0.7.0.1, 0.7.0.2, 0.8.0, "
         "0.8.1 and 0.9.0 train it"},
        {plan->training.python_gc == MPL_GC_OFF, "/training/python_gc",
         "training.python_gc: what compiling leaves is not modelled for dflash, and with off it is "
         "never collected"},
        {is_known && !has_default_loss(plan, release), "/training/loss/name",
         "training.loss.name: dflash is modelled with the loss that its release takes by itself: "
         "kl_div up to 0.7.0.2, cross_entropy with D-PACE weights from 0.8.0 on"},
    };
    enum memplan_status status = mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);

    if (status || (status = check_model(plan, err)))
        return status;
    /* Anchors are chosen among all tokens but the last block's. */
    if (plan->training.sequence_length <= plan->model.block_size)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/sequence_length",
                        "training.sequence_length: found %lld tokens, expected more than "
                        "model.block_size, %lld",
                        (long long)plan->training.sequence_length,
                        (long long)plan->model.block_size);
    return mpl_check_drafter_loop(plan, err);
}
