/* SPDX-License-Identifier: MIT */
/* Stage "spec": what is refused of runs of the EAGLE-3 drafter. */
#include "spec/gap.h"

#include <string.h>

#include "spec/fields.h"
#include "spec/speculators.h"
#include "spec/text.h"

/* From 0.5.0 the whole model has the format of the hidden states, and the root no policy. */
static bool is_cast_well(const struct mpl_plan *plan, const struct mpl_speculators *release)
{
    const enum mpl_dtype dtype = plan->training.parameter_dtype;

    if (!release || !release->casts_model)
        return true;
    return plan->training.batch_dtype == dtype &&
           (plan->parallelism.strategy != MPL_STRATEGY_FSDP2 ||
            plan->parallelism.root_dtype == dtype);
}

/* From 0.7.0 on all groups have one policy. */
static bool is_mixed_well(const struct mpl_plan *plan)
{
    const struct mpl_parallelism *p = &plan->parallelism;

    return p->param_dtype == MPL_BFLOAT16 && p->root_dtype == MPL_BFLOAT16 &&
           p->reduce_dtype == MPL_FLOAT32;
}

static bool is_mtp(const struct mpl_plan *plan)
{
    return mpl_family_of(plan->model.model_type) == MPL_FAMILY_MTP;
}

static bool is_on_one_card(const struct mpl_plan *plan)
{
    return plan->parallelism.strategy == MPL_STRATEGY_NONE &&
           mpl_family_of(plan->model.model_type) == MPL_FAMILY_EAGLE3;
}

/* The library's trainer leaves no choice in these. */
static enum memplan_status check_loop(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_speculators *release = mpl_speculators_find(plan->framework_version);
    const struct mpl_training *t = &plan->training;
    const bool has_autocast = release && release->has_autocast;
    const struct mpl_gap gaps[] = {
        {t->attention != MPL_ATTENTION_FLEX && !is_mtp(plan), "/training/attention",
         "training.attention: the drafter has flex_attention only"},
        {release && release->sums_rows && t->compile != MPL_COMPILE_INDUCTOR, "/training/compile",
         "training.compile: speculators is modelled with inductor only from 0.6.0 on"},
        {release && release->sums_rows && !has_autocast && t->sequence_length > 8192,
         "/training/sequence_length",
         "training.sequence_length: more than 8192 tokens are not modelled for speculators 0.6.0, "
         "whose sums over tokens are compiled otherwise"},
        {t->autocast != MPL_DTYPE_NONE && !has_autocast, "/training/autocast",
         "training.autocast: before 0.7.0 the trainer has no such option"},
        {has_autocast && (t->autocast != MPL_BFLOAT16 || t->batch_dtype != MPL_BFLOAT16),
         "/training/autocast",
         "training.autocast: from 0.7.0 on the trainer runs forward under autocast to the format "
         "of "
         "the hidden states; modelled with training.autocast and training.batch_dtype bfloat16"},
        {has_autocast && t->use_off_policy_tokens, "/training/use_off_policy_tokens",
         "training.use_off_policy_tokens: from 0.7.0 on every step takes the real tokens; expected "
         "false"},
        {t->activation_checkpointing != MPL_CHECKPOINTING_NONE,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: the trainer has no such option"},
        {t->offload_activations, "/training/offload_activations",
         "training.offload_activations: the trainer has no such option"},
        {t->loss_scaling || t->loss.label_smoothing > 0 || t->loss.num_items_in_batch ||
             t->loss.logits_to_keep,
         "/training/loss", "training.loss: the drafter's loss is its own"},
        {t->micro_batch_size != 1, "/training/micro_batch_size",
         "training.micro_batch_size: the drafter's batch is one packed sequence, expected 1"},
        {t->gradient_accumulation_steps != 1, "/training/gradient_accumulation_steps",
         "training.gradient_accumulation_steps: the trainer has no such option, expected 1"},
        {t->parameter_dtype != MPL_FLOAT32 && !(release && release->casts_model),
         "/training/parameter_dtype",
         "training.parameter_dtype: before 0.5.0 and from 0.7.0 on the drafter is trained from "
         "float32 weights"},
        {!is_cast_well(plan, release), "/training/parameter_dtype",
         "training.parameter_dtype: from 0.5.0 on the trainer casts the whole drafter to the "
         "format of the hidden states (bfloat16 by default): expected training.parameter_dtype, "
         "training.batch_dtype and parallelism.root_dtype to be the same"},
        {has_autocast && t->optimizer.name == MPL_MUON, "/training/optimizer/name",
         "training.optimizer.name: Muon, speculators' default from 0.7.0 on, is not modelled "
         "there; "
         "expected adamw"},
        {t->optimizer.name != MPL_ADAMW || t->optimizer.fused == MPL_TRUE ||
             t->optimizer.foreach == MPL_FALSE || t->optimizer.amsgrad || t->optimizer.maximize ||
             t->optimizer.in_backward || t->optimizer.master_weights,
         "/training/optimizer", "training.optimizer: the trainer uses adamw with its defaults"},
        {!(t->gradient_clipping > 0), "/training/gradient_clipping",
         "training.gradient_clipping: the trainer always clips to 1.0"},
        {!t->zero_grad_set_to_none, "/training/zero_grad_set_to_none",
         "training.zero_grad_set_to_none: the trainer sets gradients to none"},
        {t->keep_outputs, "/training/keep_outputs",
         "training.keep_outputs: what the trainer keeps is modelled; it has no such option"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

static enum memplan_status check_wrapping(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const struct mpl_speculators *release = mpl_speculators_find(plan->framework_version);
    const bool has_autocast = release && release->has_autocast;
    const struct mpl_gap gaps[] = {
        {has_autocast && p->strategy != MPL_STRATEGY_FSDP2 && !is_on_one_card(plan),
         "/parallelism/strategy",
         "parallelism.strategy: from 0.7.0 on drafters are modelled with fsdp2 (fsdp_shard), and "
         "eagle3 on one card; with DDP, the default of several cards, compiled graphs are cut by "
         "its buckets"},
        {has_autocast && p->strategy == MPL_STRATEGY_FSDP2 && !is_mixed_well(plan),
         "/parallelism/root_dtype",
         "parallelism.root_dtype: from 0.7.0 on param_dtype and root_dtype are bfloat16 and "
         "reduce_dtype is float32"},
        {p->strategy != MPL_STRATEGY_NONE && p->strategy != MPL_STRATEGY_FSDP2,
         "/parallelism/strategy",
         "parallelism.strategy: the drafter is modelled on one card and with fsdp2"},
        {p->replicate != 1, "/parallelism/replicate",
         "parallelism.replicate: the trainer shards over all ranks"},
        {p->cpu_offload, "/parallelism/cpu_offload",
         "parallelism.cpu_offload: the trainer has no such option"},
        {p->wrap != MPL_WRAP_LAYER, "/parallelism/wrap",
         "parallelism.wrap: the trainer wraps each layer; modelled: layer"},
        {p->reshard_after_forward != MPL_RESHARD_UNSET ||
             p->root_reshard_after_forward != MPL_RESHARD_UNSET,
         "/parallelism/reshard_after_forward",
         "parallelism.reshard_after_forward: the trainer leaves PyTorch's choice"},
        {p->no_sync, "/parallelism/no_sync",
         "parallelism.no_sync: the trainer has no accumulation"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* On one card, from 0.7.0 on, compiled code casts the weights. */
static enum memplan_status check_one_card(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_speculators *release = mpl_speculators_find(plan->framework_version);
    const bool casts = release && release->has_autocast && is_on_one_card(plan);
    const struct mpl_gap gaps[] = {
        {casts && plan->model.num_key_value_heads == plan->model.num_attention_heads,
         "/model/num_key_value_heads",
         "model.num_key_value_heads: as many as query heads are not modelled on one card from "
         "speculators 0.7.0 on, where compiled code casts the weights"},
        {casts && plan->pytorch.major == 2 && plan->pytorch.minor < 10, "/software/pytorch",
         "software.pytorch: before 2.10 the drafter is not modelled on one card from speculators "
         "0.7.0 on, where compiled code casts the weights"},
        {casts && plan->training.python_gc == MPL_GC_OFF, "/training/python_gc",
         "training.python_gc: off is not modelled on one card from speculators 0.7.0 on: what "
         "compiling leaves there is never collected"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_drafter_loop(const struct mpl_plan *plan, struct memplan_error *err)
{
    enum memplan_status status = check_loop(plan, err);

    if (!status)
        status = check_one_card(plan, err);
    return status ? status : check_wrapping(plan, err);
}

static enum memplan_status check_speculators(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_gap gaps[] = {
        {plan->training.loss.name != MPL_LOSS_KL_DIV, "/training/loss/name",
         "training.loss.name: the drafter's loss is kl_div"},
        {strcmp(plan->framework_name, "speculators") != 0, "/framework/name",
         "framework.name: eagle3 is modelled as speculators and specforge train it"},
        {!mpl_speculators_find(plan->framework_version), "/framework/version",
         "framework.version: this version of speculators is not modelled; modelled: 0.3.0, 0.4.0, "
         "0.4.0.1, 0.5.0, 0.6.0, 0.6.0.1, 0.6.0.2, 0.7.0, 0.7.0.1, 0.7.0.2, 0.8.0, 0.8.1, 0.9.0, "
         "commit 661d3ed3"},
        {plan->model.num_hidden_layers != 1, "/model/num_hidden_layers",
         "model.num_hidden_layers: a drafter of more than one layer is not modelled"},
        {plan->model.rope_type == MPL_ROPE_DYNAMIC || plan->model.rope_type == MPL_ROPE_LONGROPE,
         "/model/rope_scaling",
         "model.rope_scaling: dynamic and longrope are not modelled for eagle3"},
        {plan->model.sliding_window > 0, "/model/sliding_window",
         "model.sliding_window: not modelled for eagle3"},
        {plan->model.attention_bias || plan->model.mlp_bias, "/model/attention_bias",
         "model.attention_bias, model.mlp_bias: biases are not modelled for eagle3"},
        {plan->model.hidden_act != MPL_ACTIVATION_SILU, "/model/hidden_act",
         "model.hidden_act: only silu is modelled for eagle3"},
        {plan->model.attention_dropout > 0, "/model/attention_dropout",
         "model.attention_dropout: not modelled for eagle3"},
        {plan->model.tie_word_embeddings, "/model/tie_word_embeddings",
         "model.tie_word_embeddings: the drafter's head is its own"},
    };
    enum memplan_status status = mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);

    return status ? status : mpl_check_drafter_loop(plan, err);
}

enum memplan_status mpl_check_eagle3(const struct mpl_plan *plan, struct memplan_error *err)
{
    return strcmp(plan->framework_name, "specforge") == 0 ? mpl_check_specforge(plan, err)
                                                          : check_speculators(plan, err);
}
