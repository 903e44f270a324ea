/* SPDX-License-Identifier: MIT */
/* Stage "spec": what must hold between the fields of one plan. */
#include "spec/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "spec/config_class.h"
#include "spec/fields.h"
#include "spec/gap.h"
#include "spec/optimizers.h"
#include "spec/text.h"

static bool is_drafter(const struct mpl_plan *plan)
{
    return mpl_family_of(plan->model.model_type) != MPL_FAMILY_CAUSAL;
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
    if (!plan->training.loss.reference)
        plan->training.loss.reference =
            plan->training.lora.r > 0 ? MPL_REFERENCE_ADAPTERS_DISABLED : MPL_REFERENCE_MODEL;
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
    if (is_drafter(plan) && m->draft_vocab_size > m->vocab_size)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/draft_vocab_size",
                        "model.draft_vocab_size: found %lld, expected at most the verifier's %lld",
                        (long long)m->draft_vocab_size, (long long)m->vocab_size);
    return MEMPLAN_OK;
}

/* reshard_after_forward and ignored_params of fully_shard(). */
static enum memplan_status check_fsdp2(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const int64_t shards = p->world_size / p->replicate;
    const struct {
        const char *path;
        int64_t ranks;
    } keepers[] = {{"/parallelism/reshard_after_forward", p->reshard_after_forward},
                   {"/parallelism/root_reshard_after_forward", p->root_reshard_after_forward}};

    for (int i = 0; i < 2; i++)
        if (keepers[i].ranks > 0 && (shards < keepers[i].ranks || shards % keepers[i].ranks))
            return mpl_fail(err, MEMPLAN_ERR_VALUE, keepers[i].path,
                            "parallelism.%s: found %lld ranks, expected a divisor of the %lld "
                            "shards",
                            keepers[i].path + sizeof("/parallelism"), (long long)keepers[i].ranks,
                            (long long)shards);
    if (!p->ignored_params.count)
        return MEMPLAN_OK;
    if (plan->training.optimizer.foreach != MPL_FALSE || plan->training.gradient_clipping > 0)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/ignored_params",
                        "parallelism.ignored_params: PyTorch's lists of tensors may not mix whole "
                        "and sharded weights; expected optimizer.foreach false and no clipping");
    if (p->cpu_offload || p->param_dtype != MPL_DTYPE_NONE)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/ignored_params",
                        "parallelism.ignored_params: with param_dtype or cpu_offload not modelled");
    return MEMPLAN_OK;
}

static enum memplan_status check_zero(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_optimizer_spec *o = &plan->training.optimizer;
    const bool is_stage3 = plan->parallelism.strategy == MPL_STRATEGY_ZERO3;
    const struct mpl_config_class *config = mpl_config_class_find(plan->model.model_type);

    if (plan->training.autocast != MPL_DTYPE_NONE)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/autocast",
                        "training.autocast: DeepSpeed over autocast is not modelled; weights in "
                        "bfloat16 or float16 are");
    if (is_stage3 && config && !config->has_scopes)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/strategy",
                        "parallelism.strategy: zero3 is not modelled for %s: which of its modules "
                        "gather weights was not compared",
                        plan->model.model_type);
    if (!is_stage3 && plan->parallelism.offload_optimizer == MPL_OFFLOAD_NVME)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/offload_optimizer",
                        "parallelism.offload_optimizer: found nvme, which DeepSpeed has with zero3 "
                        "alone; expected none or cpu");
    if (is_stage3 && plan->model.num_local_experts && plan->training.experts == MPL_EXPERTS_EAGER)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/experts",
                        "training.experts: eager is not modelled with zero3");
    if (is_stage3 && (o->in_backward || o->offload_gradients || o->name == MPL_ADAMW_CPU_OFFLOAD))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer",
                        "training.optimizer: with zero3 an optimizer is stepped by DeepSpeed; its "
                        "own offload is parallelism.offload_optimizer");
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
    if (p->cpu_offload && (p->world_size == p->replicate || (p->strategy == MPL_STRATEGY_FSDP1 &&
                                                             p->sharding_strategy == MPL_NO_SHARD)))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/cpu_offload",
                        "parallelism.cpu_offload: with one shard not modelled");
    if (p->cpu_offload && p->no_sync && p->strategy == MPL_STRATEGY_FSDP1)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/cpu_offload",
                        "parallelism.cpu_offload: with fsdp1 and no_sync not modelled");
    if (p->strategy == MPL_STRATEGY_FSDP1 && p->param_dtype == MPL_DTYPE_NONE &&
        (p->reduce_dtype != MPL_DTYPE_NONE || p->buffer_dtype != MPL_DTYPE_NONE))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/parallelism/param_dtype",
                        "parallelism.param_dtype: needed where reduce_dtype or buffer_dtype is "
                        "given with fsdp1");
    if (p->world_size % p->replicate)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/replicate",
                        "parallelism.replicate: found %lld, expected a divisor of the %lld ranks",
                        (long long)p->replicate, (long long)p->world_size);
    if (p->strategy == MPL_STRATEGY_FSDP2)
        return check_fsdp2(plan, err);
    return p->strategy >= MPL_STRATEGY_ZERO1 ? check_zero(plan, err) : MEMPLAN_OK;
}

enum memplan_status mpl_gaps_refuse(const struct mpl_gap *gaps, size_t count,
                                    struct memplan_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (gaps[i].is_here)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, gaps[i].path, "%s", gaps[i].text);
    return MEMPLAN_OK;
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

/* What the family's trainer does, or transformers' models. */
static enum memplan_status check_family(const struct mpl_plan *plan, struct memplan_error *err)
{
    enum memplan_status status;

    if (mpl_family_of(plan->model.model_type) == MPL_FAMILY_EAGLE3)
        return mpl_check_eagle3(plan, err);
    if (mpl_family_of(plan->model.model_type) == MPL_FAMILY_DFLASH)
        return mpl_check_dflash(plan, err);
    if (mpl_family_of(plan->model.model_type) == MPL_FAMILY_MTP)
        return mpl_check_mtp(plan, err);
    if (!strcmp(plan->model.model_type, "eagle"))
        return mpl_check_eagle(plan, err);
    if (!strcmp(plan->model.model_type, "medusa") && (status = mpl_check_medusa(plan, err)))
        return status;
    return mpl_check_causal(plan, err);
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
        status = mpl_check_adapters(plan, err);
    if (!status)
        status = mpl_check_float8(plan, err);
    if (!status)
        status = mpl_check_te(plan, err);
    if (!status)
        status = check_family(plan, err);
    if (!status)
        status = mpl_check_around(plan, err);
    if (!status)
        status = mpl_check_lengths(plan, err);
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
    if ((mpl_version_at_least(transformers, 4, 48, 0) &&
         !mpl_version_at_least(transformers, 4, 57, 0)) ||
        mpl_version_at_least(transformers, 5, 25, 0))
        mpl_note_add(notes, MPL_NOTE_UNTESTED, "software.transformers",
                     "predictions were compared with transformers 4.40 to 4.47 and 4.57 to 5.24, "
                     "not with %s",
                     transformers->text);
}
