/* SPDX-License-Identifier: MIT */
/* Stage "spec": what is refused of runs of transformers' models. */
#include "spec/gap.h"

#include <string.h>

#include "spec/config_class.h"
#include "spec/fields.h"
#include "spec/text.h"

/* Does attention run in float32? */
static bool is_wide(const struct mpl_plan *plan)
{
    const enum mpl_dtype policy = plan->parallelism.param_dtype;

    return plan->training.autocast == MPL_DTYPE_NONE &&
           plan->training.parameter_dtype == MPL_FLOAT32 &&
           (policy == MPL_DTYPE_NONE || policy == MPL_FLOAT32);
}

/* Ways of checkpointing that PyTorch refuses, or that were not compared. */
static enum memplan_status check_checkpointing(const struct mpl_plan *plan,
                                               struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const bool is_selective = t->activation_checkpointing == MPL_CHECKPOINTING_SELECTIVE;
    const bool is_core = t->activation_checkpointing == MPL_CHECKPOINTING_CORE_ATTENTION;
    const bool is_full = t->activation_checkpointing == MPL_CHECKPOINTING_FULL;
    const struct mpl_config_class *config = mpl_config_class_find(plan->model.model_type);
    const bool is_sharded = plan->parallelism.strategy != MPL_STRATEGY_NONE;
    const bool is_zero = plan->parallelism.strategy == MPL_STRATEGY_ZERO1 ||
                         plan->parallelism.strategy == MPL_STRATEGY_ZERO2;
    const struct mpl_gap gaps[] = {
        {is_selective && t->use_reentrant, "/training/use_reentrant",
         "training.use_reentrant: selective checkpointing needs use_reentrant false"},
        {is_selective && t->offload_activations, "/training/offload_activations",
         "training.offload_activations: not modelled with selective checkpointing"},
        {is_selective && plan->model.num_local_experts, "/training/activation_checkpointing",
         "training.activation_checkpointing: selective is not modelled with experts"},
        {is_core && config && (config->has_own_attention || config->task == MPL_TASK_MASKED_LM),
         "/training/activation_checkpointing",
         "training.activation_checkpointing: core_attention is not modelled for this family"},
        {is_core && t->attention != MPL_ATTENTION_EAGER && t->attention != MPL_ATTENTION_SDPA,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: core_attention is modelled with eager and sdpa"},
        {is_core && plan->model.kv_lora_rank > 0, "/training/activation_checkpointing",
         "training.activation_checkpointing: core_attention is not modelled with latent attention"},
        {is_core && t->checkpoint_every > 1, "/training/checkpoint_every",
         "training.checkpoint_every: core_attention is of all layers, expected 1"},
        {is_core && t->offload_activations, "/training/offload_activations",
         "training.offload_activations: not modelled with core_attention"},
        {is_core && t->loss.name != MPL_LOSS_CROSS_ENTROPY, "/training/activation_checkpointing",
         "training.activation_checkpointing: core_attention is modelled with cross_entropy only"},
        {is_core && is_sharded, "/training/activation_checkpointing",
         "training.activation_checkpointing: core_attention is not modelled with a sharding "
         "strategy"},
        {t->use_reentrant && plan->model.output_router_logits, "/training/use_reentrant",
         "training.use_reentrant: not modelled with model.output_router_logits"},
        {t->offload_activations && t->quantization.name != MPL_QUANTIZATION_NONE,
         "/training/offload_activations",
         "training.offload_activations: not modelled with weights in 4 bits"},
        {is_zero && is_selective, "/training/activation_checkpointing",
         "training.activation_checkpointing: selective is not modelled with DeepSpeed"},
        {plan->parallelism.strategy == MPL_STRATEGY_FSDP1 && t->use_reentrant &&
             !plan->parallelism.activation_checkpointing &&
             mpl_version_at_least(&plan->transformers, 4, 52, 0) &&
             !mpl_version_at_least(&plan->transformers, 4, 53, 0),
         "/training/use_reentrant",
         "training.use_reentrant: not modelled with FSDP1 and transformers 4.52, some of whose "
         "families checkpoint around the unit and some within"},
        {plan->parallelism.activation_checkpointing && !is_full,
         "/parallelism/"
         "activation_checkpointing",
         "parallelism.activation_checkpointing: needs training.activation_checkpointing full"},
        {is_sharded && t->offload_activations, "/training/offload_activations",
         "training.offload_activations: not modelled with a sharding strategy"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* Weights in float16 that train: adapters over them may be in float32. */
static bool has_half_gradients(const struct mpl_training *t)
{
    const bool has_wide_adapters =
        t->lora.r && t->lora.adapter_dtype == MPL_FLOAT32 && !t->lora.saved.count;

    return t->parameter_dtype == MPL_FLOAT16 && !has_wide_adapters;
}

static enum memplan_status check_loss(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_loss_spec *l = &t->loss;
    const struct mpl_config_class *config = mpl_config_class_find(plan->model.model_type);
    const bool is_plain = l->name == MPL_LOSS_CROSS_ENTROPY, is_grpo = l->name == MPL_LOSS_GRPO;
    const struct mpl_gap gaps[] = {
        {t->loss_scaling && has_half_gradients(t), "/training/loss_scaling",
         "training.loss_scaling: GradScaler refuses gradients in float16"},
        {t->loss_scaling && t->optimizer.fused == MPL_TRUE, "/training/loss_scaling",
         "training.loss_scaling: not modelled with a fused optimizer"},
        {t->loss_scaling && plan->parallelism.strategy != MPL_STRATEGY_NONE &&
             plan->parallelism.strategy != MPL_STRATEGY_DDP &&
             plan->parallelism.strategy != MPL_STRATEGY_FSDP2,
         "/training/loss_scaling", "training.loss_scaling: not modelled with a sharding strategy"},
        {t->loss_scaling && (t->optimizer.in_backward || t->optimizer.master_weights ||
                             t->optimizer.offload_gradients),
         "/training/loss_scaling",
         "training.loss_scaling: not modelled with steps in backward, master weights or gradients "
         "on the host"},
        {l->label_smoothing > 0 && !is_plain, "/training/loss/label_smoothing",
         "training.loss.label_smoothing: modelled with cross_entropy only"},
        {l->label_smoothing > 0 && (l->num_items_in_batch || l->logits_to_keep),
         "/training/loss/label_smoothing",
         "training.loss.label_smoothing: not modelled with num_items_in_batch or logits_to_keep"},
        {l->logits_to_keep && !is_plain && !is_grpo, "/training/loss/logits_to_keep",
         "training.loss.logits_to_keep: modelled with cross_entropy and grpo only"},
        {is_grpo && (l->logits_to_keep < 1 || l->logits_to_keep >= t->sequence_length),
         "/training/loss/logits_to_keep",
         "training.loss.logits_to_keep: grpo needs the tokens of a completion, fewer than "
         "training.sequence_length"},
        {is_grpo && !t->padding, "/training/padding",
         "training.padding: grpo passes an attention mask, expected true"},
        {l->num_items_in_batch && !is_plain && l->name != MPL_LOSS_FUSED_LINEAR,
         "/training/loss/num_items_in_batch",
         "training.loss.num_items_in_batch: modelled with cross_entropy and "
         "fused_linear_cross_entropy"},
        {l->name == MPL_LOSS_FORWARD_KL && l->teacher_heads &&
             (l->teacher_hidden_size ? l->teacher_hidden_size : plan->model.hidden_size) %
                 l->teacher_heads,
         "/training/loss/teacher/num_attention_heads",
         "training.loss.teacher.num_attention_heads: expected a divisor of the teacher's "
         "hidden_size"},
        {l->name == MPL_LOSS_FORWARD_KL && l->teacher_layers > plan->model.num_hidden_layers &&
             plan->model.sliding_window > 0,
         "/training/loss/teacher/num_hidden_layers",
         "training.loss.teacher.num_hidden_layers: more layers than the model is not modelled "
         "with a sliding window"},
        {(l->name == MPL_LOSS_CHUNKED_NLL || is_grpo) && t->keep_outputs, "/training/keep_outputs",
         "training.keep_outputs: not modelled with chunked_nll or grpo"},
        {(l->name == MPL_LOSS_CHUNKED || l->name == MPL_LOSS_TORCHTITAN) &&
             t->sequence_length % l->chunks,
         "/training/loss/chunks",
         "training.loss.chunks: expected a divisor of training.sequence_length"},
        {l->name != MPL_LOSS_CROSS_ENTROPY && t->offload_activations,
         "/training/offload_activations",
         "training.offload_activations: modelled with cross_entropy only"},
        {l->name != MPL_LOSS_CROSS_ENTROPY && t->shared_batch, "/training/shared_batch",
         "training.shared_batch: modelled with cross_entropy only"},
        {t->quantization.name != MPL_QUANTIZATION_NONE &&
             (l->name == MPL_LOSS_FORWARD_KL ||
              (l->name == MPL_LOSS_DPO && l->reference == MPL_REFERENCE_MODEL)),
         "/training/loss",
         "training.loss: a second model is not modelled beside weights in 4 bits"},
        {l->reference == MPL_REFERENCE_ADAPTERS_DISABLED && !t->lora.r, "/training/loss/reference",
         "training.loss.reference: adapters_disabled needs training.lora"},
        {l->name == MPL_LOSS_CLASSIFICATION && plan->model.pad_token_id < 0 &&
             t->micro_batch_size > 1 && !(config && config->task == MPL_TASK_MASKED_LM),
         "/model/pad_token_id",
         "model.pad_token_id: sequence_classification of more than one sequence needs a padding "
         "token"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* What a loss meets in a model that is wrapped. */
static enum memplan_status check_wrapped_loss(const struct mpl_plan *plan,
                                              struct memplan_error *err)
{
    const struct mpl_loss_spec *l = &plan->training.loss;
    const struct mpl_parallelism *p = &plan->parallelism;
    const bool is_ddp = p->strategy == MPL_STRATEGY_DDP;
    const bool reads_head = l->name == MPL_LOSS_FUSED_LINEAR || l->name == MPL_LOSS_CHUNKED_NLL ||
                            l->name == MPL_LOSS_FUSED_LM_HEAD;
    const bool has_model = l->name == MPL_LOSS_FORWARD_KL ||
                           (l->name == MPL_LOSS_DPO && l->reference == MPL_REFERENCE_MODEL);
    const struct mpl_gap gaps[] = {
        {l->name == MPL_LOSS_TORCHTITAN, "/training/loss/name",
         "training.loss.name: torchtitan is not modelled with a sharding strategy"},
        {l->name != MPL_LOSS_CROSS_ENTROPY &&
             (p->strategy == MPL_STRATEGY_ZERO1 || p->strategy == MPL_STRATEGY_ZERO2 ||
              p->strategy == MPL_STRATEGY_ZERO3),
         "/training/loss/name",
         "training.loss.name: only cross_entropy is modelled with zero1, zero2 and zero3"},
        {l->name == MPL_LOSS_CHUNKED && is_ddp && (p->static_graph || p->find_unused_parameters),
         "/training/loss/name",
         "training.loss.name: chunked_cross_entropy is not modelled with static_graph or "
         "find_unused_parameters"},
        {reads_head && p->wrap == MPL_WRAP_LAYER_EMBEDDINGS && !is_ddp, "/parallelism/wrap",
         "parallelism.wrap: this loss reads the head's weight outside the head, which layer+"
         "embeddings has not gathered there; expected layer"},
        {p->wrap == MPL_WRAP_LAYER_EMBEDDING_TAIL && p->strategy != MPL_STRATEGY_FSDP2,
         "/parallelism/wrap",
         "parallelism.wrap: layer+embedding+tail is of fsdp2; with fsdp1 expected layer, "
         "layer+embeddings, layer+adapters or root"},
        {p->wrap == MPL_WRAP_LAYER_EMBEDDING_TAIL && l->name != MPL_LOSS_CROSS_ENTROPY,
         "/training/loss/name",
         "training.loss.name: only cross_entropy is modelled with parallelism.wrap "
         "layer+embedding+tail, whose group ends with one call of the head"},
        {has_model && !is_ddp, "/training/loss",
         "training.loss: a second model (forward_kl, or dpo with reference model) is not modelled "
         "over sharded weights"},
    };

    if (p->strategy == MPL_STRATEGY_NONE)
        return MEMPLAN_OK;
    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* A learned position, or a row of a table, for each token. */
static enum memplan_status check_positions(const struct mpl_plan *plan, struct memplan_error *err)
{
    const int64_t longest = mpl_longest_sequence(&plan->model);

    if (plan->training.sequence_length <= longest)
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/sequence_length",
                    "training.sequence_length: found %lld, expected at most the %lld positions of "
                    "this %s",
                    (long long)plan->training.sequence_length, (long long)longest,
                    plan->model.model_type);
}

/* What the package's kernels do not take. */
static enum memplan_status check_flash(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_model *m = &plan->model;
    const double cc = plan->device.compute_capability;
    const bool is_third = t->attention == MPL_ATTENTION_FLASH_3;
    const int64_t latent = m->qk_nope_head_dim + m->qk_rope_head_dim;
    const struct mpl_gap gaps[] = {
        {is_wide(plan), "/training/attention",
         "training.attention: flash attention takes bfloat16 and float16 only: give "
         "training.autocast or training.parameter_dtype"},
        {m->head_dim > 256 || latent > 256, "/model/head_dim",
         "model.head_dim: flash attention takes heads of at most 256 elements"},
        {is_third && (latent ? latent : m->head_dim) % 8, "/model/head_dim",
         "model.head_dim: flash_attention_3 takes heads of a multiple of 8 elements"},
        {!is_third && m->attn_logit_softcapping > 0 && m->attention_dropout > 0,
         "/model/attention_dropout",
         "model.attention_dropout: flash_attention_2 has no dropout of capped scores"},
        {cc > 0 && cc < 8.0, "/device/compute_capability",
         "device.compute_capability: flash attention needs 8.0 or newer"},
        {is_third && cc >= 10.0, "/device/compute_capability",
         "device.compute_capability: flash_attention_3 has kernels for 8.x and 9.0 only"},
        {is_third && !mpl_version_at_least(&plan->transformers, 5, 0, 0), "/software/transformers",
         "software.transformers: flash_attention_3 is modelled from 5.0 on"},
    };

    if (!mpl_is_flash(t->attention))
        return MEMPLAN_OK;
    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* Compiled flex_attention: what transformers or the kernels refuse, and what was not compared. */
static enum memplan_status check_flex(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_config_class *config = mpl_config_class_find(plan->model.model_type);
    const struct mpl_training *t = &plan->training;
    const struct mpl_model *m = &plan->model;
    const struct mpl_gap gaps[] = {
        {m->attention_dropout > 0, "/model/attention_dropout",
         "model.attention_dropout: flex_attention has no dropout, expected 0"},
        {config && config->has_no_flex, "/training/attention",
         "training.attention: this family has no flex_attention, or it is not modelled"},
        {m->kv_lora_rank > 0, "/training/attention",
         "training.attention: flex_attention of latent attention is not modelled"},
        {plan->parallelism.strategy != MPL_STRATEGY_NONE &&
             plan->parallelism.strategy != MPL_STRATEGY_DDP &&
             plan->parallelism.strategy != MPL_STRATEGY_FSDP1 &&
             plan->parallelism.strategy != MPL_STRATEGY_FSDP2,
         "/training/attention",
         "training.attention: flex_attention is not modelled with DeepSpeed"},
        {!mpl_version_at_least(&plan->pytorch, 2, 9, 0), "/software/pytorch",
         "software.pytorch: flex_attention is modelled from 2.9 on"},
        {!mpl_version_at_least(&plan->transformers, 5, 0, 0), "/software/transformers",
         "software.transformers: flex_attention is modelled from 5.0 on"},
    };

    if (t->attention != MPL_ATTENTION_FLEX)
        return MEMPLAN_OK;
    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_causal(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_gap gaps[] = {
        {t->loss.name == MPL_LOSS_KL_DIV, "/training/loss/name",
         "training.loss.name: kl_div is modelled for eagle3 only"},
        {t->zero_grad == MPL_ZERO_GRAD_BEFORE_BACKWARD &&
             (t->optimizer.in_backward || t->optimizer.offload_gradients ||
              t->optimizer.name == MPL_SOPHIA || plan->parallelism.strategy == MPL_STRATEGY_ZERO1 ||
              plan->parallelism.strategy == MPL_STRATEGY_ZERO2 ||
              plan->parallelism.strategy == MPL_STRATEGY_ZERO3),
         "/training/zero_grad",
         "training.zero_grad: before_backward is not modelled with DeepSpeed, sophia, steps in "
         "backward or gradients on the host"},
        {t->compile != MPL_COMPILE_NONE, "/training/compile",
         "training.compile: torch.compile is modelled for eagle3 only"},
        {strcmp(plan->framework_name, "speculators") == 0, "/framework/name",
         "framework.name: speculators trains eagle3 only"},
        {strcmp(plan->framework_name, "eagle") == 0, "/framework/name",
         "framework.name: EAGLE's script trains its drafter only, whose config.json says llama: "
         "expected model.model_type eagle"},
        {strcmp(plan->framework_name, "medusa") == 0 &&
             strcmp(plan->model.model_type, "medusa") != 0,
         "/framework/name",
         "framework.name: Medusa's script trains its heads: expected model.model_type medusa, with "
         "the fields of the model below them, a Llama"},
        {!mpl_version_at_least(&plan->transformers, 4, 40, 0), "/software/transformers",
         "software.transformers: versions before 4.40 are not modelled"},
        {mpl_version_at_least(&plan->transformers, 4, 48, 0) &&
             !mpl_version_at_least(&plan->transformers, 4, 53, 0) &&
             (t->attention == MPL_ATTENTION_EAGER || t->padding),
         "/software/transformers",
         "software.transformers: masks of versions 4.48 to 4.52 are not modelled; modelled: sdpa "
         "without padding"},
        {!mpl_version_at_least(&plan->pytorch, 2, 0, 0), "/software/pytorch",
         "software.pytorch: versions before 2.0 are not modelled"},
    };
    enum memplan_status status = mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);

    if (!status)
        status = mpl_check_framework(plan, err);
    if (!status)
        status = check_positions(plan, err);
    if (!status)
        status = check_checkpointing(plan, err);
    if (!status)
        status = check_loss(plan, err);
    if (!status)
        status = check_wrapped_loss(plan, err);
    if (!status)
        status = check_flash(plan, err);
    return status ? status : check_flex(plan, err);
}

/* Adapters, weights in 4 bits, and what is needed for them. */
enum memplan_status mpl_check_adapters(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const bool has_lora = t->lora.r > 0,
               is_sharded = plan->parallelism.strategy != MPL_STRATEGY_NONE &&
                            plan->parallelism.strategy != MPL_STRATEGY_DDP;
    const bool is_quantized = t->quantization.name != MPL_QUANTIZATION_NONE;
    const bool keeps_whole = plan->parallelism.strategy == MPL_STRATEGY_ZERO1 ||
                             plan->parallelism.strategy == MPL_STRATEGY_ZERO2;
    const struct mpl_gap gaps[] = {
        {(has_lora || is_quantized) && (mpl_family_of(plan->model.model_type) != MPL_FAMILY_CAUSAL),
         "/training/lora", "training.lora, training.quantization: not modelled for eagle3"},
        {is_quantized && t->quantization.storage_dtype != MPL_DTYPE_NONE && is_sharded &&
             (t->quantization.storage_dtype != t->parameter_dtype ||
              (plan->parallelism.param_dtype != MPL_DTYPE_NONE &&
               plan->parallelism.param_dtype != t->parameter_dtype)),
         "/training/quantization/storage_dtype",
         "training.quantization.storage_dtype: over shards expected the format of the weights, and "
         "of parallelism.param_dtype"},
        {is_quantized && plan->parallelism.strategy == MPL_STRATEGY_ZERO3, "/training/quantization",
         "training.quantization: not modelled with zero3; modelled: zero1, zero2, fsdp1, fsdp2, "
         "ddp"},
        {is_quantized && plan->parallelism.strategy == MPL_STRATEGY_FSDP1 &&
             t->quantization.storage_dtype == MPL_DTYPE_NONE,
         "/training/quantization/storage_dtype",
         "training.quantization.storage_dtype: FSDP1 cannot flatten uint8 (null); give the format "
         "of the weights"},
        {is_quantized && is_sharded && !keeps_whole &&
             t->quantization.storage_dtype == MPL_DTYPE_NONE,
         "/training/quantization/storage_dtype",
         "training.quantization.storage_dtype: uint8 (null), which fsdp2 leaves whole on every "
         "rank, "
         "is not modelled over shards; give the format of the weights"},
        {is_quantized && t->prepare_for_kbit && is_sharded, "/training/prepare_for_kbit",
         "training.prepare_for_kbit: not modelled over sharded weights"},
        {has_lora && plan->parallelism.cpu_offload &&
             plan->parallelism.strategy != MPL_STRATEGY_FSDP1,
         "/parallelism/cpu_offload",
         "parallelism.cpu_offload: with training.lora modelled for fsdp1 only"},
        {has_lora && plan->parallelism.strategy == MPL_STRATEGY_ZERO3 &&
             (t->lora.use_dora || t->lora.saved.count || t->lora.code != MPL_ADAPTER_PEFT),
         "/training/lora",
         "training.lora: with zero3 only peft's LoRA without use_dora and modules_to_save is "
         "modelled"},
        {is_quantized && !has_lora, "/training/quantization",
         "training.quantization: quantised weights do not train; modelled with training.lora"},
        {t->prepare_for_kbit && !has_lora, "/training/prepare_for_kbit",
         "training.prepare_for_kbit: freezes the whole model; modelled with training.lora"},
        {t->lora.saved.count && plan->model.tie_word_embeddings, "/training/lora/modules_to_save",
         "training.lora.modules_to_save: not modelled with tied embeddings"},
        {t->lora.use_dora && is_quantized && plan->parallelism.strategy != MPL_STRATEGY_NONE,
         "/training/lora/use_dora",
         "training.lora.use_dora: over weights in 4 bits modelled on one card only"},
        {t->lora.use_dora && t->lora.code == MPL_ADAPTER_PLAIN, "/training/lora/use_dora",
         "training.lora.use_dora: modelled as peft does it only"},
    };

    if (has_lora && !t->lora.targets.count)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/lora/target_modules",
                        "training.lora.target_modules: not given, expected a list of names or "
                        "all-linear");
    if (!has_lora && (t->lora.targets.count || t->lora.saved.count))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/lora/r",
                        "training.lora.r: not given, expected 1 .. 65536");
    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}
