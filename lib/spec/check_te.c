/* SPDX-License-Identifier: MIT */
/*
 * Stage "spec": what Transformer Engine's modules need, and what of them is not modelled.
 *
 * source: accelerate 1.15.0: accelerator.py (_prepare_te), utils/transformer_engine.py; Transformer
 * Engine 2.18: pytorch/quantization.py, pytorch/utils.py (assert_dim_for_fp8_exec)
 */
#include "spec/gap.h"

#include "spec/fields.h"

#define ALIGNMENT 16 /* of a product's inner size: tokens, for the weight's gradient */

/* What is around the layers. */
static enum memplan_status check_around(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_gap gaps[] = {
        {mpl_family_of(plan->model.model_type) != MPL_FAMILY_CAUSAL, "/training/transformer_engine",
         "training.transformer_engine: not modelled for eagle3"},
        {plan->model.num_local_experts > 0, "/training/transformer_engine",
         "training.transformer_engine: not modelled with mixtures of experts"},
        {plan->parallelism.strategy != MPL_STRATEGY_NONE, "/parallelism/strategy",
         "training.transformer_engine: modelled on one card, without a strategy"},
        {t->lora.r || t->quantization.name != MPL_QUANTIZATION_NONE, "/training/transformer_engine",
         "training.transformer_engine: not modelled with training.lora or training.quantization"},
        {t->float8.recipe != MPL_FLOAT8_NONE, "/training/float8/recipe_name",
         "training.float8: layers are converted by torchao or by Transformer Engine, not by both"},
        {t->frozen_count > 0, "/training/frozen",
         "training.frozen: accelerate's convert_model makes parameters that train again; not "
         "modelled with training.transformer_engine"},
        {t->optimizer.in_backward || t->optimizer.offload_gradients, "/training/optimizer",
         "training.optimizer: what hangs on the parameters' hooks is lost when accelerate replaces "
         "them; not modelled with training.transformer_engine"},
        {t->loss_scaling, "/training/loss_scaling",
         "training.loss_scaling: not modelled with training.transformer_engine"},
        {t->metrics != MPL_METRICS_NONE, "/training/metrics",
         "training.metrics: not modelled with training.transformer_engine"},
        {t->evaluation.batches > 0, "/training/evaluation/batches",
         "training.evaluation: not modelled with training.transformer_engine"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_te(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const enum mpl_dtype format = t->autocast == MPL_DTYPE_NONE ? t->parameter_dtype : t->autocast;
    const struct mpl_gap gaps[] = {
        {plan->device.compute_capability < 8.9, "/device/compute_capability",
         "device.compute_capability: Transformer Engine's float8 needs a card of 8.9 or newer, and "
         "what it keeps depends on it"},
        {format != MPL_BFLOAT16, "/training/autocast",
         "training.transformer_engine: modelled under training.autocast bfloat16, which accelerate "
         "sets, or with weights in bfloat16"},
        {t->sequence_length % ALIGNMENT * t->micro_batch_size % ALIGNMENT != 0,
         "/training/sequence_length",
         "training.sequence_length: float8 products of the weights' gradients need a number of "
         "tokens that is a multiple of 16"},
        {t->activation_checkpointing != MPL_CHECKPOINTING_NONE,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: recomputation is outside te.autocast, so layers "
         "compute in bfloat16 there and PyTorch's check of what they keep fails; te.checkpoint is "
         "not modelled"},
        {t->offload_activations, "/training/offload_activations",
         "training.offload_activations: not modelled with training.transformer_engine"},
        {t->loss.name != MPL_LOSS_CROSS_ENTROPY, "/training/loss/name",
         "training.transformer_engine: modelled with training.loss.name cross_entropy"},
        {plan->model.tie_word_embeddings && plan->model.vocab_size % ALIGNMENT == 0,
         "/model/tie_word_embeddings",
         "model.tie_word_embeddings: accelerate's convert_model unties the head, whose new weight "
         "the optimizer never sees; not modelled"},
    };
    enum memplan_status status;

    if (t->te.recipe == MPL_TE_NONE)
        return MEMPLAN_OK;
    status = check_around(plan, err);
    return status ? status : mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}
