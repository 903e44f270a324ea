/* SPDX-License-Identifier: MIT */
/*
 * Stage "spec": what is refused of runs of Medusa's heads, besides what is refused of any model.
 *
 * source: github.com/FasterDecoding/Medusa, commit e2a5d20c: medusa/train/train_legacy.py
 */
#include "spec/gap.h"

#include <string.h>

#include "spec/text.h"

static enum memplan_status check_loop(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_gap gaps[] = {
        {t->loss.name != MPL_LOSS_CROSS_ENTROPY || t->loss.label_smoothing > 0 ||
             t->loss.num_items_in_batch || t->loss.logits_to_keep,
         "/training/loss", "training.loss: the loss of Medusa's heads is the script's own"},
        {t->parameter_dtype != MPL_BFLOAT16, "/training/parameter_dtype",
         "training.parameter_dtype: the script loads the model, and makes the heads, in bfloat16"},
        {t->autocast != MPL_DTYPE_NONE && t->autocast != MPL_BFLOAT16, "/training/autocast",
         "training.autocast: modelled for medusa: bfloat16 (--bf16) or none"},
        {t->activation_checkpointing != MPL_CHECKPOINTING_NONE,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: MedusaModel has no gradient_checkpointing_enable, "
         "which the Trainer would call"},
        {!t->padding, "/training/padding",
         "training.padding: the script pads to its length and passes the mask, expected true"},
        {t->shared_batch || t->keep_outputs || t->loss_scaling || t->offload_activations ||
             t->metrics != MPL_METRICS_NONE || t->frozen_count,
         "/training",
         "training: shared_batch, keep_outputs, loss_scaling, offload_activations, metrics and "
         "frozen are not modelled for medusa"},
        {t->lora.r || t->quantization.name != MPL_QUANTIZATION_NONE ||
             t->float8.recipe != MPL_FLOAT8_NONE || t->te.recipe != MPL_TE_NONE,
         "/training/lora",
         "training: lora, quantization, float8 and transformer_engine are not modelled for medusa; "
         "the script reads load_in_4bit and load_in_8bit, and does not use them"},
        {t->evaluation.batches > 0, "/training/evaluation/batches",
         "training.evaluation: not modelled for medusa"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_medusa(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_parallelism *p = &plan->parallelism;
    const struct mpl_gap gaps[] = {
        {strcmp(plan->framework_name, "medusa") != 0, "/framework/name",
         "framework.name: model_type medusa is modelled as its authors' script trains it, expected "
         "medusa"},
        {*plan->framework_version && strcmp(plan->framework_version, "e2a5d20c") != 0,
         "/framework/version",
         "framework.version: this version of Medusa's script is not modelled; modelled: commit "
         "e2a5d20c"},
        {mpl_version_at_least(&plan->transformers, 4, 46, 0), "/software/transformers",
         "software.transformers: the Trainer of 4.46 and newer passes num_items_in_batch, which "
         "the script's compute_loss does not take; expected 4.40 to 4.45"},
        {m->medusa_num_heads < 1 || m->medusa_num_layers < 1, "/model/medusa_num_heads",
         "model.medusa_num_heads, model.medusa_num_layers: expected at least 1"},
        {plan->training.sequence_length < m->medusa_num_heads + 2, "/training/sequence_length",
         "training.sequence_length: the last head has nothing to predict, expected at least "
         "model.medusa_num_heads + 2"},
        {m->sliding_window > 0 && m->base_model_type == MPL_MEDUSA_ON_LLAMA,
         "/model/sliding_window",
         "model.sliding_window: a Llama has none; expected model.base_model_type mistral"},
        {m->tie_word_embeddings, "/model/tie_word_embeddings",
         "model.tie_word_embeddings: not modelled for medusa, whose output head trains"},
        {p->strategy != MPL_STRATEGY_NONE && p->strategy != MPL_STRATEGY_DDP,
         "/parallelism/strategy",
         "parallelism.strategy: Medusa's heads are modelled on one card and with ddp; its "
         "deepspeed.json (ZeRO-3) is not"},
        {plan->checkpoint.resume != 0, "/checkpoint/resume",
         "checkpoint.resume: not modelled for medusa"},
    };
    enum memplan_status status = mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);

    return status ? status : check_loop(plan, err);
}
