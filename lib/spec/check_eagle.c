/* SPDX-License-Identifier: MIT */
/*
 * Stage "spec": what is refused of runs of the EAGLE-1 and EAGLE-2 drafter.
 *
 * source: github.com/SafeAILab/EAGLE, commit cb7e0841: eagle/train/main.py, eagle/model/cnets1.py
 */
#include "spec/gap.h"

#include <string.h>

static enum memplan_status check_model(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_gap gaps[] = {
        {m->num_attention_heads * m->head_dim != m->hidden_size, "/model/head_dim",
         "model.head_dim: the drafter's is hidden_size / num_attention_heads"},
        {m->rope_type != MPL_ROPE_DEFAULT, "/model/rope_scaling",
         "model.rope_scaling: not modelled for eagle"},
        {m->mlp_bias, "/model/mlp_bias", "model.mlp_bias: the drafter has no such biases"},
        {m->hidden_act != MPL_ACTIVATION_SILU, "/model/hidden_act",
         "model.hidden_act: only silu is modelled for eagle"},
        {m->tie_word_embeddings, "/model/tie_word_embeddings",
         "model.tie_word_embeddings: the script loads the target's embedding and its head apart, "
         "expected false"},
        {m->attention_dropout > 0 || m->hidden_dropout > 0 || m->embedding_dropout > 0,
         "/model/attention_dropout", "model: the drafter has no dropout"},
        {plan->training.sequence_length > m->max_position_embeddings, "/training/sequence_length",
         "training.sequence_length: more tokens than model.max_position_embeddings are not "
         "modelled for eagle, whose tables then grow"},
        {plan->training.sequence_length < 2, "/training/sequence_length",
         "training.sequence_length: one token predicts nothing, expected at least 2"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* What accelerate and the script leave no choice in. */
static enum memplan_status check_loop(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_gap gaps[] = {
        {t->attention != MPL_ATTENTION_EAGER, "/training/attention",
         "training.attention: the drafter's own is written out, expected eager"},
        {t->activation_checkpointing != MPL_CHECKPOINTING_FULL || !t->use_reentrant ||
             t->checkpoint_every > 1,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: the drafter checkpoints its layer, re-entrant: "
         "expected full and use_reentrant"},
        {t->parameter_dtype != MPL_FLOAT32, "/training/parameter_dtype",
         "training.parameter_dtype: the script trains float32 weights"},
        {t->autocast != MPL_BFLOAT16 || !t->outputs_to_float32, "/training/autocast",
         "training.autocast: the script asks accelerate for bf16: expected bfloat16 and "
         "outputs_to_float32"},
        {t->loss.name != MPL_LOSS_CROSS_ENTROPY || t->loss.label_smoothing > 0 ||
             t->loss.num_items_in_batch || t->loss.logits_to_keep,
         "/training/loss", "training.loss: the drafter's losses are the script's own"},
        {t->gradient_accumulation_steps != 1, "/training/gradient_accumulation_steps",
         "training.gradient_accumulation_steps: not modelled for eagle, expected 1"},
        {t->gradient_clipping > 0, "/training/gradient_clipping",
         "training.gradient_clipping: the script clips values in place (clip_grad_value_), which "
         "takes no memory, and no norm; expected none"},
        {t->optimizer.name != MPL_ADAMW || t->optimizer.master_weights || t->optimizer.in_backward,
         "/training/optimizer", "training.optimizer: the script uses adamw"},
        {!t->zero_grad_set_to_none, "/training/zero_grad_set_to_none",
         "training.zero_grad_set_to_none: the script sets gradients to none"},
        {t->compile != MPL_COMPILE_NONE, "/training/compile",
         "training.compile: the script compiles nothing"},
        {t->offload_activations || t->keep_outputs || t->loss_scaling || t->padding ||
             t->shared_batch || t->metrics != MPL_METRICS_NONE || t->prefetch_batches ||
             t->frozen_count,
         "/training",
         "training: the script has none of offload_activations, keep_outputs, loss_scaling, "
         "padding, shared_batch, metrics, prefetch_batches, frozen"},
        {t->evaluation.batches > 0, "/training/evaluation/batches",
         "training.evaluation: not modelled for eagle"},
        {t->lora.r || t->quantization.name != MPL_QUANTIZATION_NONE ||
             t->float8.recipe != MPL_FLOAT8_NONE || t->te.recipe != MPL_TE_NONE,
         "/training/lora",
         "training: lora, quantization, float8 and transformer_engine are not modelled for eagle"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_eagle(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const struct mpl_gap gaps[] = {
        {strcmp(plan->framework_name, "eagle") != 0, "/framework/name",
         "framework.name: model_type eagle is modelled as its authors' script trains it, expected "
         "eagle"},
        {*plan->framework_version && strcmp(plan->framework_version, "cb7e0841") != 0,
         "/framework/version",
         "framework.version: this version of EAGLE's script is not modelled; modelled: commit "
         "cb7e0841"},
        {p->strategy != MPL_STRATEGY_NONE && p->strategy != MPL_STRATEGY_DDP,
         "/parallelism/strategy",
         "parallelism.strategy: the drafter is modelled on one card and with ddp, as main.py runs "
         "it; main_deepspeed.py (ZeRO-2 in float16) is not"},
        {plan->checkpoint.resume != 0, "/checkpoint/resume",
         "checkpoint.resume: not modelled for eagle"},
    };
    enum memplan_status status = mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);

    if (!status)
        status = check_model(plan, err);
    return status ? status : check_loop(plan, err);
}
