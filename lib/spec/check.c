/* SPDX-License-Identifier: MIT */
/* Stage "spec": what must hold between the fields of one plan. */
#include "spec/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "spec/config_class.h"
#include "spec/fields.h"
#include "spec/optimizers.h"
#include "spec/text.h"

static bool is_eagle3(const struct mpl_plan *plan)
{
    return mpl_family_of(plan->model.model_type) == MPL_FAMILY_EAGLE3;
}

void mpl_plan_derive(struct mpl_plan *plan)
{
    struct mpl_model *model = &plan->model;
    struct mpl_optimizer_spec *optimizer = &plan->training.optimizer;
    const struct mpl_config_class *config = mpl_config_class_find(model->model_type);

    if (config && config->derive)
        config->derive(plan);
    if (!model->num_key_value_heads)
        model->num_key_value_heads = model->num_attention_heads;
    if (!model->head_dim && model->num_attention_heads)
        model->head_dim = model->hidden_size / model->num_attention_heads;
    if (optimizer->weight_decay < 0)
        optimizer->weight_decay = mpl_optimizer_weight_decay(optimizer->name);
    if (plan->parallelism.strategy == MPL_STRATEGY_NONE) {
        plan->parallelism.param_dtype = MPL_DTYPE_NONE;
        plan->parallelism.reduce_dtype = MPL_DTYPE_NONE;
        plan->parallelism.root_dtype = MPL_DTYPE_NONE;
    }
}

static enum memplan_status check_model(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;

    if (m->num_attention_heads % m->num_key_value_heads)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/num_key_value_heads",
                        "model.num_key_value_heads: found %lld, expected a divisor of the %lld "
                        "query heads",
                        (long long)m->num_key_value_heads, (long long)m->num_attention_heads);
    if (m->hidden_size % m->num_attention_heads)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/hidden_size",
                        "model.hidden_size: found %lld, expected a multiple of the %lld heads",
                        (long long)m->hidden_size, (long long)m->num_attention_heads);
    if (m->head_dim % 2)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/head_dim",
                        "model.head_dim: found %lld, expected an even number: rotary positions "
                        "turn pairs",
                        (long long)m->head_dim);
    if (is_eagle3(plan) && m->draft_vocab_size > m->vocab_size)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/draft_vocab_size",
                        "model.draft_vocab_size: found %lld, expected at most the verifier's %lld",
                        (long long)m->draft_vocab_size, (long long)m->vocab_size);
    return MEMPLAN_OK;
}

static enum memplan_status check_parallelism(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &plan->parallelism;

    if (p->strategy == MPL_STRATEGY_NONE && p->world_size != 1)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/world_size",
                        "parallelism.world_size: found %lld with strategy none, expected 1 or "
                        "another strategy",
                        (long long)p->world_size);
    if (p->rank >= p->world_size)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/rank",
                        "parallelism.rank: found %lld of %lld ranks, expected less",
                        (long long)p->rank, (long long)p->world_size);
    if (p->parameters_as_bucket_view && !p->zero1)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/parameters_as_bucket_view",
                        "parallelism.parameters_as_bucket_view: needs zero1");
    if (p->strategy == MPL_STRATEGY_FSDP1 &&
        (p->sharding_strategy == MPL_HYBRID_SHARD ||
         p->sharding_strategy == MPL_HYBRID_SHARD_ZERO2) != (p->replicate > 1))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/replicate",
                        "parallelism.replicate: found %lld, expected more than 1 with HYBRID_SHARD "
                        "and 1 with other sharding strategies",
                        (long long)p->replicate);
    if ((p->strategy == MPL_STRATEGY_ZERO1 || p->strategy == MPL_STRATEGY_ZERO2) &&
        plan->training.autocast != MPL_DTYPE_NONE)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/autocast",
                        "training.autocast: DeepSpeed over autocast is not modelled; weights in "
                        "bfloat16 or float16 are");
    if (p->cpu_offload && p->world_size == p->replicate)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/cpu_offload",
                        "parallelism.cpu_offload: with one shard not modelled");
    if (p->strategy == MPL_STRATEGY_FSDP1 && !p->limit_all_gathers)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/limit_all_gathers",
                        "parallelism.limit_all_gathers: found false, modelled: true");
    if (p->strategy == MPL_STRATEGY_FSDP1 && p->param_dtype == MPL_DTYPE_NONE &&
        (p->reduce_dtype != MPL_DTYPE_NONE || p->buffer_dtype != MPL_DTYPE_NONE))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/param_dtype",
                        "parallelism.param_dtype: needed where reduce_dtype or buffer_dtype is "
                        "given with fsdp1");
    if (p->world_size % p->replicate)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/replicate",
                        "parallelism.replicate: found %lld, expected a divisor of the %lld ranks",
                        (long long)p->replicate, (long long)p->world_size);
    return MEMPLAN_OK;
}

/* Combinations that exist and are not modelled. */
struct gap {
    bool is_here;
    const char *path, *text;
};

static enum memplan_status refuse_gaps(const struct gap *gaps, size_t count,
                                       struct memplan_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (gaps[i].is_here)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, gaps[i].path, "%s", gaps[i].text);
    return MEMPLAN_OK;
}

/* Ways of checkpointing that PyTorch refuses, or that were not compared. */
static enum memplan_status check_checkpointing(const struct mpl_plan *plan,
                                               struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const bool is_selective = t->activation_checkpointing == MPL_CHECKPOINTING_SELECTIVE;
    const bool is_sharded = plan->parallelism.strategy != MPL_STRATEGY_NONE;
    const struct gap gaps[] = {
        {is_selective && t->use_reentrant, "/training/use_reentrant",
         "training.use_reentrant: selective checkpointing needs use_reentrant false"},
        {is_selective && t->offload_activations, "/training/offload_activations",
         "training.offload_activations: not modelled with selective checkpointing"},
        {is_selective && t->attention == MPL_ATTENTION_SDPA && t->parameter_dtype == MPL_FLOAT32 &&
             t->autocast == MPL_DTYPE_NONE,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: selective is not modelled with float32 attention"},
        {is_selective && (t->lora.r || plan->model.num_local_experts),
         "/training/activation_checkpointing",
         "training.activation_checkpointing: selective is not modelled with adapters or experts"},
        {t->use_reentrant && plan->model.output_router_logits, "/training/use_reentrant",
         "training.use_reentrant: not modelled with model.output_router_logits"},
        {t->offload_activations && t->quantization.name != MPL_QUANTIZATION_NONE,
         "/training/offload_activations",
         "training.offload_activations: not modelled with weights in 4 bits"},
        {is_sharded && is_selective, "/training/activation_checkpointing",
         "training.activation_checkpointing: selective is not modelled with a sharding strategy"},
        {is_sharded && t->use_reentrant, "/training/use_reentrant",
         "training.use_reentrant: not modelled with a sharding strategy"},
        {is_sharded && t->offload_activations, "/training/offload_activations",
         "training.offload_activations: not modelled with a sharding strategy"},
    };

    return refuse_gaps(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

static enum memplan_status check_loss(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_loss_spec *l = &t->loss;
    const bool is_plain = l->name == MPL_LOSS_CROSS_ENTROPY;
    const struct gap gaps[] = {
        {t->loss_scaling && t->parameter_dtype == MPL_FLOAT16, "/training/loss_scaling",
         "training.loss_scaling: GradScaler refuses gradients in float16"},
        {t->loss_scaling && t->optimizer.fused == MPL_TRUE, "/training/loss_scaling",
         "training.loss_scaling: not modelled with a fused optimizer"},
        {t->loss_scaling && plan->parallelism.strategy != MPL_STRATEGY_NONE,
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
        {l->logits_to_keep && !is_plain, "/training/loss/logits_to_keep",
         "training.loss.logits_to_keep: modelled with cross_entropy only"},
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
        {l->name == MPL_LOSS_CHUNKED_NLL && t->keep_outputs, "/training/keep_outputs",
         "training.keep_outputs: not modelled with chunked_nll"},
        {(l->name == MPL_LOSS_CHUNKED || l->name == MPL_LOSS_TORCHTITAN) &&
             t->sequence_length % l->chunks,
         "/training/loss/chunks",
         "training.loss.chunks: expected a divisor of training.sequence_length"},
        {l->name != MPL_LOSS_CROSS_ENTROPY && plan->parallelism.strategy != MPL_STRATEGY_NONE,
         "/training/loss/name",
         "training.loss.name: only cross_entropy is modelled with a sharding strategy"},
        {l->name != MPL_LOSS_CROSS_ENTROPY && t->offload_activations,
         "/training/offload_activations",
         "training.offload_activations: modelled with cross_entropy only"},
        {l->name != MPL_LOSS_CROSS_ENTROPY && t->lora.r, "/training/loss/name",
         "training.loss.name: only cross_entropy is modelled with adapters"},
        {l->name != MPL_LOSS_CROSS_ENTROPY && t->shared_batch, "/training/shared_batch",
         "training.shared_batch: modelled with cross_entropy only"},
        {l->name == MPL_LOSS_CLASSIFICATION && plan->model.pad_token_id < 0 &&
             t->micro_batch_size > 1,
         "/model/pad_token_id",
         "model.pad_token_id: sequence_classification of more than one sequence needs a padding "
         "token"},
    };

    return refuse_gaps(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* What the package's kernels do not take. */
static enum memplan_status check_flash(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_model *m = &plan->model;
    const enum mpl_dtype policy = plan->parallelism.param_dtype;
    const bool is_wide = t->autocast == MPL_DTYPE_NONE && t->parameter_dtype == MPL_FLOAT32 &&
                         (policy == MPL_DTYPE_NONE || policy == MPL_FLOAT32);
    const double cc = plan->device.compute_capability;
    const struct gap gaps[] = {
        {is_wide, "/training/attention",
         "training.attention: flash_attention_2 takes bfloat16 and float16 only: give "
         "training.autocast or training.parameter_dtype"},
        {m->head_dim > 256 || m->qk_nope_head_dim + m->qk_rope_head_dim > 256, "/model/head_dim",
         "model.head_dim: flash_attention_2 takes heads of at most 256 elements"},
        {m->attn_logit_softcapping > 0 && m->attention_dropout > 0, "/model/attention_dropout",
         "model.attention_dropout: flash_attention_2 has no dropout of capped scores"},
        {cc > 0 && cc < 8.0, "/device/compute_capability",
         "device.compute_capability: flash_attention_2 needs 8.0 or newer"},
    };

    if (t->attention != MPL_ATTENTION_FLASH_2)
        return MEMPLAN_OK;
    return refuse_gaps(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* Compiled flex_attention: what transformers or the kernels refuse, and what was not compared. */
static enum memplan_status check_flex(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_config_class *config = mpl_config_class_find(plan->model.model_type);
    const struct mpl_training *t = &plan->training;
    const struct mpl_model *m = &plan->model;
    const struct gap gaps[] = {
        {m->attention_dropout > 0, "/model/attention_dropout",
         "model.attention_dropout: flex_attention has no dropout, expected 0"},
        {config && config->has_no_flex, "/training/attention",
         "training.attention: this family has no flex_attention, or it is not modelled"},
        {m->kv_lora_rank > 0, "/training/attention",
         "training.attention: flex_attention of latent attention is not modelled"},
        {plan->parallelism.strategy != MPL_STRATEGY_NONE, "/training/attention",
         "training.attention: flex_attention is not modelled over sharded weights"},
        {!mpl_version_at_least(&plan->pytorch, 2, 9, 0), "/software/pytorch",
         "software.pytorch: flex_attention is modelled from 2.9 on"},
        {!mpl_version_at_least(&plan->transformers, 5, 0, 0), "/software/transformers",
         "software.transformers: flex_attention is modelled from 5.0 on"},
    };

    if (t->attention != MPL_ATTENTION_FLEX)
        return MEMPLAN_OK;
    return refuse_gaps(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

static enum memplan_status check_causal(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct gap gaps[] = {
        {t->loss.name == MPL_LOSS_KL_DIV, "/training/loss/name",
         "training.loss.name: kl_div is modelled for eagle3 only"},
        {t->compile != MPL_COMPILE_NONE, "/training/compile",
         "training.compile: torch.compile is modelled for eagle3 only"},
        {strcmp(plan->framework_name, "loop") != 0, "/framework/name",
         "framework.name: speculators trains eagle3; for the other families only loop is "
         "modelled"},
        {!mpl_version_at_least(&plan->transformers, 4, 48, 0), "/software/transformers",
         "software.transformers: attention, masks and rotary tables of versions before 4.48 are "
         "not modelled"},
        {!mpl_version_at_least(&plan->transformers, 4, 53, 0) &&
             (t->attention == MPL_ATTENTION_EAGER || t->padding),
         "/software/transformers",
         "software.transformers: masks of versions before 4.53 are not modelled; modelled: sdpa "
         "without padding"},
        {!mpl_version_at_least(&plan->pytorch, 2, 0, 0), "/software/pytorch",
         "software.pytorch: versions before 2.0 are not modelled"},
    };
    enum memplan_status status = refuse_gaps(gaps, sizeof(gaps) / sizeof(gaps[0]), err);

    if (!status)
        status = check_checkpointing(plan, err);
    if (!status)
        status = check_loss(plan, err);
    if (!status)
        status = check_flash(plan, err);
    return status ? status : check_flex(plan, err);
}

/* Adapters, weights in 4 bits, and what is needed for them. */
static enum memplan_status check_adapters(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const bool has_lora = t->lora.r > 0,
               is_sharded = plan->parallelism.strategy != MPL_STRATEGY_NONE;
    const bool is_quantized = t->quantization.name != MPL_QUANTIZATION_NONE;
    const struct gap gaps[] = {
        {(has_lora || is_quantized) && is_eagle3(plan), "/training/lora",
         "training.lora, training.quantization: not modelled for eagle3"},
        {(has_lora || is_quantized) && is_sharded, "/training/lora",
         "training.lora, training.quantization: not modelled over sharded weights"},
        {is_quantized && !has_lora, "/training/quantization",
         "training.quantization: quantised weights do not train; modelled with training.lora"},
        {t->prepare_for_kbit && !has_lora, "/training/prepare_for_kbit",
         "training.prepare_for_kbit: freezes the whole model; modelled with training.lora"},
        {t->lora.saved.count && plan->model.tie_word_embeddings, "/training/lora/modules_to_save",
         "training.lora.modules_to_save: not modelled with tied embeddings"},
        {t->lora.use_dora && is_quantized, "/training/lora/use_dora",
         "training.lora.use_dora: not modelled over weights in 4 bits"},
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
    return refuse_gaps(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

/* The library's trainer leaves no choice in these. */
static enum memplan_status check_eagle3_loop(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct gap gaps[] = {
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

    return refuse_gaps(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

static enum memplan_status check_eagle3(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const char *version = plan->framework_version;
    const struct gap gaps[] = {
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

    return status ? status : refuse_gaps(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

static enum memplan_status check_task(const struct mpl_plan *plan,
                                      const struct mpl_config_class *config,
                                      struct memplan_error *err)
{
    const enum mpl_task has = config && config->task ? config->task : MPL_TASK_CAUSAL_LM;

    if (!plan->training.task || plan->training.task == has)
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/task",
                    "training.task: %s is modelled as a %s language model only",
                    plan->model.model_type, has == MPL_TASK_MASKED_LM ? "masked" : "causal");
}

enum memplan_status mpl_plan_check(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_config_class *config = mpl_config_class_find(plan->model.model_type);
    enum memplan_status status = check_model(plan, err);

    if (!status && config && config->check)
        status = config->check(plan, err);
    if (!status)
        status = check_task(plan, config, err);
    if (!status)
        status = mpl_optimizer_check(plan, err);
    if (!status)
        status = check_parallelism(plan, err);
    if (!status)
        status = check_adapters(plan, err);
    if (!status)
        status = is_eagle3(plan) ? check_eagle3(plan, err) : check_causal(plan, err);
    return status;
}

void mpl_note_add(struct mpl_notes *notes, enum mpl_note_kind kind, const char *path,
                  const char *format, ...)
{
    struct mpl_note *note;
    va_list args;

    if (!notes || notes->count == MPL_SPEC_MOST_NOTES)
        return;
    note = &notes->notes[notes->count++];
    note->kind = kind;
    snprintf(note->path, sizeof(note->path), "%s", path);
    va_start(args, format);
    vsnprintf(note->text, sizeof(note->text), format, args);
    va_end(args);
}

void mpl_plan_note_versions(const struct mpl_plan *plan, struct mpl_notes *notes)
{
    const struct mpl_version *torch = &plan->pytorch, *transformers = &plan->transformers;

    mpl_optimizer_note(&plan->training.optimizer, notes);
    if (!mpl_version_at_least(torch, 2, 9, 0) || mpl_version_at_least(torch, 2, 15, 0))
        mpl_note_add(notes, MPL_NOTE_UNTESTED, "software.pytorch",
                     "predictions were compared with PyTorch 2.9 to 2.14, not with %s",
                     torch->text);
    if (!mpl_version_at_least(transformers, 4, 57, 0) ||
        mpl_version_at_least(transformers, 5, 25, 0))
        mpl_note_add(notes, MPL_NOTE_UNTESTED, "software.transformers",
                     "predictions were compared with transformers 4.57 to 5.24, not with %s",
                     transformers->text);
}
