/* SPDX-License-Identifier: MIT */
/* TABLE: the losses of causal language models. */
#include "part/loss.h"

static mpl_loss_rule *const loss_table[] = {
    [MPL_LOSS_CROSS_ENTROPY] = mpl_loss_causal_lm,
    [MPL_LOSS_CHUNKED] = mpl_loss_chunked,
    [MPL_LOSS_TORCHTITAN] = mpl_loss_torchtitan,
    [MPL_LOSS_DPO] = mpl_loss_dpo,
    [MPL_LOSS_GRPO] = mpl_loss_grpo,
    [MPL_LOSS_FORWARD_KL] = mpl_loss_forward_kl,
    [MPL_LOSS_FUSED_LINEAR] = mpl_loss_fused_linear,
    [MPL_LOSS_CHUNKED_NLL] = mpl_loss_chunked_nll,
    [MPL_LOSS_FUSED_LM_HEAD] = mpl_loss_fused_lm_head,
    [MPL_LOSS_CLASSIFICATION] = mpl_loss_classification,
};

mpl_loss_rule *mpl_loss_rule_of(const struct mpl_plan *plan)
{
    const struct mpl_loss_spec *loss = &plan->training.loss;

    return loss->label_smoothing > 0 ? mpl_loss_label_smoothing : loss_table[loss->name];
}
