/* SPDX-License-Identifier: MIT */
/*
 * Stage "spec": what is refused of runs of the EAGLE-3 drafter under SpecForge.
 *
 * source: specforge/config/schema.py, training/backend.py, algorithms/eagle3, release 0.2.0
 */
#include "spec/gap.h"

#include <string.h>

#include "spec/text.h"

/* Below, the compiler sums the rows of a norm or of the teacher otherwise. */
#define FEWEST_TOKENS 512

static enum memplan_status check_model(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_training *t = &plan->training;
    const struct mpl_gap gaps[] = {
        {strcmp(plan->framework_version, "0.2.0") != 0, "/framework/version",
         "framework.version: this version of SpecForge is not modelled; modelled: 0.2.0"},
        {m->num_hidden_layers != 1, "/model/num_hidden_layers",
         "model.num_hidden_layers: SpecForge's EAGLE-3 drafter has one layer"},
        {m->rope_type != MPL_ROPE_DEFAULT, "/model/rope_scaling",
         "model.rope_scaling: not modelled for specforge"},
        {m->attention_bias || m->mlp_bias, "/model/attention_bias",
         "model.attention_bias, model.mlp_bias: SpecForge's drafter has no biases"},
        {m->hidden_act != MPL_ACTIVATION_SILU, "/model/hidden_act",
         "model.hidden_act: only silu is modelled for specforge"},
        {m->tie_word_embeddings, "/model/tie_word_embeddings",
         "model.tie_word_embeddings: the drafter's head is its own"},
        {m->draft_vocab_size >= m->vocab_size, "/model/draft_vocab_size",
         "model.draft_vocab_size: a drafter of all words is not modelled for specforge"},
        {t->sequence_length * t->micro_batch_size < FEWEST_TOKENS, "/training/sequence_length",
         "training.sequence_length: fewer than 512 tokens a batch are not modelled for specforge"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

static enum memplan_status check_loop(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_gap gaps[] = {
        {t->attention != MPL_ATTENTION_SDPA && t->attention != MPL_ATTENTION_FLEX,
         "/training/attention",
         "training.attention: modelled for specforge: sdpa and flex_attention; its fa and usp are "
         "not"},
        {t->compile != MPL_COMPILE_INDUCTOR, "/training/compile",
         "training.compile: SpecForge compiles norms and rotary embedding; expected inductor"},
        {t->loss.name != MPL_LOSS_KL_DIV, "/training/loss/name",
         "training.loss.name: SpecForge's loss is kl_div; its LK losses are not modelled"},
        {t->parameter_dtype != MPL_BFLOAT16 || t->batch_dtype != MPL_BFLOAT16,
         "/training/parameter_dtype",
         "training.parameter_dtype, training.batch_dtype: modelled for specforge: bfloat16"},
        {t->optimizer.name != MPL_ADAMW || !t->optimizer.master_weights ||
             t->optimizer.fused == MPL_TRUE || t->optimizer.foreach == MPL_FALSE ||
             t->optimizer.amsgrad || t->optimizer.maximize || t->optimizer.in_backward,
         "/training/optimizer",
         "training.optimizer: SpecForge uses adamw over float32 copies: expected adamw with "
         "master_weights"},
        {!(t->gradient_clipping > 0), "/training/gradient_clipping",
         "training.gradient_clipping: SpecForge always clips, to 0.5 by default"},
        {!t->zero_grad_set_to_none, "/training/zero_grad_set_to_none",
         "training.zero_grad_set_to_none: SpecForge sets gradients to none"},
        {t->autocast != MPL_DTYPE_NONE, "/training/autocast",
         "training.autocast: SpecForge's trainer has no such option"},
        {t->activation_checkpointing != MPL_CHECKPOINTING_NONE,
         "/training/activation_checkpointing",
         "training.activation_checkpointing: SpecForge's trainer has no such option"},
        {t->offload_activations || t->keep_outputs || t->loss_scaling || t->use_off_policy_tokens,
         "/training",
         "training: SpecForge's trainer has none of offload_activations, keep_outputs, "
         "loss_scaling, use_off_policy_tokens"},
    };

    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

enum memplan_status mpl_check_specforge(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const bool is_fsdp = p->strategy == MPL_STRATEGY_FSDP1;
    const struct mpl_gap gaps[] = {
        {!is_fsdp, "/parallelism/strategy",
         "parallelism.strategy: SpecForge wraps the drafter in FSDP1, on one card too: expected "
         "fsdp1; its DDP (NO_SHARD) is not modelled"},
        {p->wrap != MPL_WRAP_ROOT, "/parallelism/wrap",
         "parallelism.wrap: SpecForge's EAGLE-3 drafter is one unit: expected root"},
        {(p->param_dtype != MPL_BFLOAT16 || p->reduce_dtype != MPL_BFLOAT16 ||
          p->buffer_dtype != MPL_FLOAT32),
         "/parallelism/param_dtype",
         "parallelism: SpecForge gathers and reduces in bfloat16, with buffers in float32: "
         "expected "
         "param_dtype and reduce_dtype bfloat16, buffer_dtype float32"},
        {!p->use_orig_params, "/parallelism/use_orig_params",
         "parallelism.use_orig_params: SpecForge sets it, expected true"},
        {plan->training.gradient_accumulation_steps > 1 && !p->no_sync, "/parallelism/no_sync",
         "parallelism.no_sync: SpecForge reduces once a step, expected true"},
        {p->cpu_offload, "/parallelism/cpu_offload",
         "parallelism.cpu_offload: SpecForge's trainer has no such option"},
    };
    enum memplan_status status = check_model(plan, err);

    if (!status)
        status = check_loop(plan, err);
    return status ? status : mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}
