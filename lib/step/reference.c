/* SPDX-License-Identifier: MIT */
/* A frozen model beside the one that trains: the same family, in eval mode, without gradients. */
#include "step/reference.h"

#include "arch/arch.h"
#include "base/fail.h"
#include "spec/check.h"

static void set_if_given(int64_t *size, int64_t given)
{
    if (given)
        *size = given;
}

/* The plan that the frozen model is built by. */
static void describe(struct mpl_plan *plan)
{
    struct mpl_model *model = &plan->model;
    const struct mpl_loss_spec loss = plan->training.loss;
    const bool is_derived = model->head_dim * model->num_attention_heads == model->hidden_size;

    set_if_given(&model->hidden_size, loss.teacher_hidden_size);
    set_if_given(&model->intermediate_size, loss.teacher_intermediate_size);
    set_if_given(&model->num_hidden_layers, loss.teacher_layers);
    set_if_given(&model->num_attention_heads, loss.teacher_heads);
    set_if_given(&model->num_key_value_heads, loss.teacher_kv_heads);
    if (is_derived) /* a configuration class works it out again */
        model->head_dim = model->hidden_size / model->num_attention_heads;
    set_if_given(&model->head_dim, loss.teacher_head_dim);
    model->attention_dropout = model->hidden_dropout = model->embedding_dropout = 0;
    plan->training.lora = (struct mpl_lora){.r = 0};
    plan->training.quantization = (struct mpl_quantization){.name = MPL_QUANTIZATION_NONE};
    plan->training.prepare_for_kbit = false;
    plan->training.loss = (struct mpl_loss_spec){.name = MPL_LOSS_CROSS_ENTROPY};
    plan->training.activation_checkpointing = MPL_CHECKPOINTING_NONE;
}

enum memplan_status mpl_reference_build(struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_loss_spec *loss = &network->plan->training.loss;
    struct mpl_network *reference;
    struct mpl_plan *plan;
    enum memplan_status status;

    if (loss->name != MPL_LOSS_FORWARD_KL &&
        (loss->name != MPL_LOSS_DPO || loss->reference != MPL_REFERENCE_MODEL))
        return MEMPLAN_OK;
    reference = mpl_arena_zalloc(network->arena, sizeof(*reference));
    plan = mpl_arena_alloc(network->arena, sizeof(*plan));
    if (!reference || !plan)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    *plan = *network->plan;
    describe(plan);
    reference->plan = plan;
    reference->arena = network->arena;
    status = mpl_arch_build(mpl_arch_find(plan->model.model_type), reference, err);
    for (uint32_t i = 0; !status && i < reference->parameter_count; i++)
        reference->parameters[i].is_trainable = false;
    network->reference = reference;
    return status;
}
