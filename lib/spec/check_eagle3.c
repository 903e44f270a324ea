/* SPDX-License-Identifier: MIT */
/* Stage "spec": what is refused of runs of the EAGLE-3 drafter. */
#include "spec/gap.h"

#include <string.h>

#include "spec/text.h"

/* The library's trainer leaves no choice in these. */
static enum memplan_status check_eagle3_loop(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_gap gaps[] = {
        {t->attention != MPL_ATTENTION_FLEX, "/training/attention",
         "training.attention: the drafter has flex_attention only"},
        {t->loss.name != MPL_LOSS_KL_DIV, "/training/loss/name",
         "training.loss.name: the drafter's loss is kl_div"},
        {t->autocast != MPL_DTYPE_NONE, "/training/autocast",
         "training.autocast: not modelled for eagle3"},
        {t->activation_checkpointing != MPL_CHECKPOINTING_NONE,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: not modelled for eagle3"},
        {t->offload_activations, "/training/offload_activations",
         "training.offload_activations: not modelled for eagle3"},
        {t->loss_scaling || t->loss.label_smoothing > 0 || t->loss.num_items_in_batch ||
             t->loss.logits_to_keep,
         "/training/loss", "training.loss: the drafter's loss is its own"},
        {t->micro_batch_size != 1, "/training/micro_batch_size",
         "training.micro_batch_size: the drafter's batch is one packed sequence, expected 1"},
        {t->gradient_accumulation_steps != 1, "/training/gradient_accumulation_steps",
         "training.gradient_accumulation_steps: not modelled for eagle3"},
        {t->parameter_dtype != MPL_FLOAT32, "/training/parameter_dtype",
         "training.parameter_dtype: the drafter is trained from float32 weights"},
        {t->optimizer.name != MPL_ADAMW || t->optimizer.fused == MPL_TRUE ||
             t->optimizer.foreach == MPL_FALSE || t->optimizer.amsgrad || t->optimizer.maximize ||
             t->optimizer.in_backward || t->optimizer.master_weights,
         "/training/optimizer", "training.optimizer: the trainer uses adamw with its defaults"},
        {!(t->gradient_clipping > 0), "/training/gradient_clipping",
         "training.gradient_clipping: the trainer always clips to 1.0"},
        {!t->zero_grad_set_to_none, "/training/zero_grad_set_to_none",
         "training.zero_grad_set_to_none: the trainer sets gradients to none"},
        {t->keep_outputs, "/training/keep_outputs",
         "training.keep_outputs: not modelled for eagle3"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_eagle3(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const char *version = plan->framework_version;
    const struct mpl_gap gaps[] = {
        {p->strategy != MPL_STRATEGY_NONE && p->strategy != MPL_STRATEGY_FSDP2,
         "/parallelism/strategy",
         "parallelism.strategy: the drafter is modelled on one card and with fsdp2"},
        {strcmp(plan->framework_name, "speculators") != 0, "/framework/name",
         "framework.name: eagle3 is modelled as speculators trains it"},
        {strcmp(version, "0.3.0") != 0 && strcmp(version, "0.4.0.1") != 0 &&
             strcmp(version, "661d3ed3") != 0,
         "/framework/version",
         "framework.version: this version of speculators is not modelled; modelled: 0.3.0, "
         "0.4.0.1, commit 661d3ed3"},
        {plan->model.num_hidden_layers != 1, "/model/num_hidden_layers",
         "model.num_hidden_layers: a drafter of more than one layer is not modelled"},
        {plan->model.rope_type == MPL_ROPE_DYNAMIC || plan->model.rope_type == MPL_ROPE_LONGROPE,
         "/model/rope_scaling",
         "model.rope_scaling: dynamic and longrope are not modelled for eagle3"},
        {plan->model.attention_bias || plan->model.mlp_bias, "/model/attention_bias",
         "model.attention_bias, model.mlp_bias: biases are not modelled for eagle3"},
        {plan->model.hidden_act != MPL_ACTIVATION_SILU, "/model/hidden_act",
         "model.hidden_act: only silu is modelled for eagle3"},
        {plan->model.attention_dropout > 0, "/model/attention_dropout",
         "model.attention_dropout: not modelled for eagle3"},
        {plan->model.tie_word_embeddings, "/model/tie_word_embeddings",
         "model.tie_word_embeddings: the drafter's head is its own"},
        {p->replicate != 1, "/parallelism/replicate",
         "parallelism.replicate: not modelled for eagle3"},
        {p->cpu_offload, "/parallelism/cpu_offload",
         "parallelism.cpu_offload: not modelled for eagle3"},
        {p->wrap != MPL_WRAP_LAYER, "/parallelism/wrap",
         "parallelism.wrap: the trainer wraps each layer; modelled: layer"},
        {p->reshard_after_forward != MPL_UNSET || p->root_reshard_after_forward != MPL_UNSET,
         "/parallelism/reshard_after_forward",
         "parallelism.reshard_after_forward: the trainer leaves PyTorch's choice"},
        {p->no_sync, "/parallelism/no_sync", "parallelism.no_sync: not modelled for eagle3"},
    };
    enum memplan_status status = check_eagle3_loop(plan, err);

    return status ? status : mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}
