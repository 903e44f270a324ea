/* SPDX-License-Identifier: MIT */
/* Stage "spec": what float8 products (torchao) refuse, and what of them was not compared. */
#include "spec/gap.h"

#include "spec/fields.h"
#include "spec/text.h"

#define ALIGNMENT 16 /* what _scaled_mm takes */

enum memplan_status mpl_check_float8(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const enum mpl_strategy strategy = plan->parallelism.strategy;
    const double cc = plan->device.compute_capability;
    const bool is_rowwise = t->float8.recipe != MPL_FLOAT8_TENSORWISE;
    const struct mpl_gap gaps[] = {
        {mpl_family_of(plan->model.model_type) != MPL_FAMILY_CAUSAL, "/training/float8",
         "training.float8: not modelled for eagle3"},
        {cc > 0 && cc < 8.9, "/device/compute_capability",
         "device.compute_capability: products in float8 need 8.9 or newer"},
        {is_rowwise && cc > 0 && (cc < 9.0 || cc >= 10.0), "/device/compute_capability",
         "device.compute_capability: float8 products with scales by rows are modelled on 9.0; "
         "elsewhere a kernel with a workspace of its own computes them"},
        {is_rowwise && !mpl_version_at_least(&plan->pytorch, 2, 9, 0), "/software/pytorch",
         "software.pytorch: float8 products with scales by rows are modelled from 2.9 on"},
        {t->float8.recipe != MPL_FLOAT8_ROWWISE_WITH_GW_HP &&
             t->sequence_length % ALIGNMENT * t->micro_batch_size % ALIGNMENT != 0,
         "/training/sequence_length",
         "training.sequence_length: float8 products of the weights' gradients need a number of "
         "tokens that is a multiple of 16"},
        {t->lora.r || t->quantization.name != MPL_QUANTIZATION_NONE, "/training/float8",
         "training.float8: not modelled with training.lora or training.quantization"},
        {plan->model.num_local_experts > 0, "/training/float8",
         "training.float8: not modelled with mixtures of experts"},
        {t->activation_checkpointing == MPL_CHECKPOINTING_SELECTIVE,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: selective is not modelled with training.float8"},
        {t->offload_activations, "/training/offload_activations",
         "training.offload_activations: not modelled with training.float8"},
        {t->loss.name == MPL_LOSS_DPO || t->loss.name == MPL_LOSS_FORWARD_KL, "/training/loss/name",
         "training.loss.name: a second model beside one in float8 is not modelled"},
        {t->float8.gathers_weights &&
             (is_rowwise || strategy != MPL_STRATEGY_FSDP2 || plan->parallelism.cpu_offload ||
              plan->parallelism.replicate > 1 || plan->parallelism.world_size == 1),
         "/training/float8/enable_fsdp_float8_all_gather",
         "training.float8.enable_fsdp_float8_all_gather: modelled with fsdp2 over two or more "
         "ranks, recipe tensorwise, without replicas and offload"},
        {strategy != MPL_STRATEGY_NONE && strategy != MPL_STRATEGY_FSDP2, "/training/float8",
         "training.float8: modelled on one card and with fsdp2"},
    };

    if (t->float8.recipe == MPL_FLOAT8_NONE)
        return MEMPLAN_OK;
    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}
