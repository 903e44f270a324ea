/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of experts: layers that families share, and what is refused.
 *
 * source: transformers/models/mixtral/modeling_mixtral.py (MixtralSparseMoeBlock),
 * qwen2_moe/modeling_qwen2_moe.py (Qwen2MoeSparseMoeBlock, Qwen2MoeDecoderLayer); release 5.24.0
 */
#include "part/experts.h"

#include <stdio.h>

#include "base/fail.h"
#include "op/op.h"
#include "spec/text.h"

void mpl_parts_layer_add_norms(struct mpl_network *network, struct mpl_parts_layer *layer,
                               enum mpl_norm_kind kind)
{
    const int64_t h = network->plan->model.hidden_size;

    layer->input_norm = mpl_norm_add(network, kind, "input_layernorm", h);
    layer->post_norm = mpl_norm_add(network, kind, "post_attention_layernorm", h);
}

struct mpl_tensor *mpl_parts_layer_forward(struct mpl_tape *tape, void *context,
                                           struct mpl_tensor *input)
{
    struct mpl_parts_layer *layer = context;
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *other = NULL;
    struct mpl_tensor *h = mpl_hold(mpl_norm_call(tape, network, &layer->input_norm, input));
    struct mpl_tensor *second = NULL;

    mpl_rebind(tape, &h, layer->attend(tape, layer, h, &other));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_rebind(tape, &residual, mpl_return(mpl_hold(h)));
    mpl_rebind(tape, &h, mpl_norm_call(tape, network, &layer->post_norm, h));
    mpl_rebind(tape, &h, layer->feed(tape, layer, h, &second));
    if (second) { /* the same name takes it */
        mpl_drop(tape, other);
        other = second;
    }
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_drop(tape, residual);
    mpl_drop(tape, other);
    return mpl_return(h);
}

/* ---- the layer of mixtral and qwen ------------------------------------------------------------
 */

static struct mpl_tensor *attend(struct mpl_tape *tape, void *context, struct mpl_tensor *x,
                                 struct mpl_tensor **other_out)
{
    const struct mpl_moe_layer *layer = context;
    const struct mpl_lm *lm = layer->parts.base.lm;
    const struct mpl_attention_call how = mpl_lm_attention_call(&layer->parts.base);

    return mpl_attention_forward(tape, lm->network, &layer->attention, x, &how, lm->cos, lm->sin,
                                 other_out);
}

void mpl_moe_layer_set_attention(struct mpl_moe_layer *layer,
                                 const struct mpl_attention_module *attention)
{
    layer->attention = *attention;
    layer->parts.attend = attend;
}

bool mpl_moe_layer_is_dense(const struct mpl_model *model, uint32_t index)
{
    return model->mlp_only_layers.of[index] || !model->num_local_experts ||
           (index + 1) % (uint32_t)model->decoder_sparse_step;
}

static struct mpl_tensor *feed_dense(struct mpl_tape *tape, void *context, struct mpl_tensor *x,
                                     struct mpl_tensor **other_out)
{
    const struct mpl_moe_layer *layer = context;

    (void)other_out;
    return mpl_gated_mlp_forward(tape, layer->parts.base.lm->network, &layer->mlp, x);
}

void mpl_moe_layer_add_dense(struct mpl_network *network, struct mpl_moe_layer *layer)
{
    layer->mlp = mpl_gated_mlp_add(network, "mlp", network->plan->model.intermediate_size, false);
    layer->parts.feed = feed_dense;
}

/* expert_output + sigmoid(gate(x)) * shared(x); takes over the held names. */
static struct mpl_tensor *add_shared(struct mpl_tape *tape, const struct mpl_moe_layer *layer,
                                     struct mpl_tensor *rows, struct mpl_tensor *output,
                                     struct mpl_tensor *shared)
{
    const struct mpl_network *network = layer->parts.base.lm->network;
    struct mpl_tensor *gate =
        mpl_op_sigmoid(tape, mpl_linear_call(tape, network, &layer->shared_gate, rows));

    mpl_rebind(tape, &shared, mpl_op_mul(tape, gate, shared));
    mpl_rebind(tape, &output, mpl_op_add(tape, output, shared));
    mpl_drop(tape, shared);
    return output;
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* SparseMoeBlock: router, experts, and what is for all. */
static uint64_t block_of(const struct mpl_moe_layer *layer)
{
    const uint32_t gate = layer->router.weight, experts = layer->experts.gate_up;
    const uint32_t last = later(gate, layer->experts.down);

    return MPL_MODULE_BLOCK | mpl_module_around(gate < experts ? gate : experts,
                                                layer->shared_gate.weight == MPL_NO_PARAMETER
                                                    ? last
                                                    : later(last, layer->shared_gate.weight));
}

struct mpl_tensor *mpl_moe_layer_feed_sparse(struct mpl_tape *tape, void *context,
                                             struct mpl_tensor *argument,
                                             struct mpl_tensor **other_out)
{
    const struct mpl_moe_layer *layer = context;
    const struct mpl_network *network = layer->parts.base.lm->network;
    const bool has_shared = layer->shared_gate.weight != MPL_NO_PARAMETER;
    const struct mpl_shape shape = argument->shape;
    struct mpl_tensor *x = mpl_hold(mpl_scope_enter(tape, block_of(layer), argument));
    struct mpl_tensor *rows = mpl_hold(mpl_token_rows(tape, x)), *shared = NULL, *out;
    struct mpl_routing routing;

    (void)other_out;
    if (has_shared)
        shared = mpl_hold(mpl_gated_mlp_forward(tape, network, &layer->shared, rows));
    routing = mpl_softmax_router_call(tape, network, &layer->router, rows);
    mpl_routing_record(tape, layer->parts.base.lm, &routing);
    out = mpl_hold(mpl_experts_forward(tape, network, &layer->experts, rows, &routing));
    if (has_shared)
        out = add_shared(tape, layer, rows, out, shared);
    if (!out->is_void)
        mpl_rebind(tape, &out, mpl_op_reshape(tape, out, shape));
    mpl_drop(tape, rows);
    mpl_routing_drop(tape, &routing);
    mpl_drop(tape, x);
    return mpl_scope_leave(tape, block_of(layer), mpl_return(out));
}

/* ---- limits -----------------------------------------------------------------------------------
 */

static enum memplan_status refuse(struct memplan_error *err, const char *path, const char *text)
{
    return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, path, "%s", text);
}

enum memplan_status mpl_check_needed(const struct mpl_needed *list, struct memplan_error *err)
{
    char path[64];

    for (; list->name; list++)
        if (!list->value) {
            snprintf(path, sizeof(path), "/model/%s", list->name);
            return mpl_fail(err, MEMPLAN_ERR_VALUE, path,
                            "model.%s: found none, expected a number above 0", list->name);
        }
    return MEMPLAN_OK;
}

/* The fused kernel wants rows that begin at multiples of 16 bytes. */
static enum memplan_status check_widths(const struct mpl_plan *plan, struct memplan_error *err)
{
    const int64_t align = 16 / (int64_t)mpl_dtype_size(plan->training.parameter_dtype);
    const int64_t inner = plan->model.moe_intermediate_size ? plan->model.moe_intermediate_size
                                                            : plan->model.intermediate_size;

    if (plan->training.experts != MPL_EXPERTS_GROUPED_MM ||
        (plan->model.hidden_size % align == 0 && inner % align == 0))
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/experts",
                    "training.experts: grouped_mm needs widths that are multiples of %lld, found "
                    "%lld and %lld",
                    (long long)align, (long long)plan->model.hidden_size, (long long)inner);
}

enum memplan_status mpl_experts_check(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;

    const struct mpl_needed needed[] = {{"num_local_experts", m->num_local_experts},
                                        {"num_experts_per_tok", m->num_experts_per_tok},
                                        {NULL, 0}};
    const enum memplan_status status = mpl_check_needed(needed, err);

    if (status)
        return status;
    if (m->num_experts_per_tok > m->num_local_experts)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/num_experts_per_tok",
                        "model.num_experts_per_tok: found %lld, expected at most the %lld experts",
                        (long long)m->num_experts_per_tok, (long long)m->num_local_experts);
    if (m->router_jitter_noise > 0)
        return refuse(err, "/model/router_jitter_noise",
                      "model.router_jitter_noise: noise on the experts' input is not modelled");
    if (!mpl_version_at_least(&plan->transformers, 5, 0, 0))
        return refuse(err, "/software/transformers",
                      "software.transformers: before 5.0 experts ran one by one, over as many "
                      "tokens as chose them; not modelled");
    if (plan->training.experts == MPL_EXPERTS_GROUPED_MM &&
        !mpl_version_at_least(&plan->pytorch, 2, 9, 0))
        return refuse(err, "/software/pytorch",
                      "software.pytorch: grouped_mm of versions before 2.9 is not modelled");
    if (plan->training.experts == MPL_EXPERTS_GROUPED_MM && plan->device.compute_capability > 0 &&
        plan->device.compute_capability < 8.0)
        return refuse(err, "/device/compute_capability",
                      "device.compute_capability: grouped_mm on cards before 8.0 is not modelled");
    return check_widths(plan, err);
}
