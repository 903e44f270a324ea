/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of experts: routers, and the experts' forward.
 *
 * source: transformers/integrations/moe.py (grouped_mm_experts_forward,
 * batched_mm_experts_forward), models/mixtral/modeling_mixtral.py (MixtralTopKRouter),
 * deepseek_v2/modeling_deepseek_v2.py (DeepseekV2TopkRouter), gpt_oss/modeling_gpt_oss.py
 * (GptOssExperts); release 5.24.0
 */
#include "part/experts.h"

#include <stdio.h>

#include "op/op.h"

void mpl_routing_drop(struct mpl_tape *tape, struct mpl_routing *routing)
{
    mpl_drop(tape, routing->logits);
    mpl_drop(tape, routing->weights);
    mpl_drop(tape, routing->index);
    *routing = (struct mpl_routing){0};
}

/* Hooks record while forward runs, not when a layer is computed again. */
void mpl_routing_record(struct mpl_tape *tape, struct mpl_lm *lm, const struct mpl_routing *routing)
{
    struct mpl_outputs *outputs = &lm->network->outputs;

    if (lm->network->plan->model.output_router_logits && !tape->is_in_backward &&
        !routing->logits->is_void)
        outputs->of[outputs->count++] = mpl_hold(routing->logits);
}

struct mpl_tensor *mpl_token_rows(struct mpl_tape *tape, struct mpl_tensor *x)
{
    struct mpl_dim rows = mpl_dim(1);

    if (x->is_void)
        return x;
    for (int i = 0; i + 1 < x->shape.ndim; i++)
        rows = mpl_dim_mul(rows, x->shape.dim[i]);
    return mpl_op_reshape(tape, x, mpl_shape2(rows, x->shape.dim[x->shape.ndim - 1]));
}

/* ---- routers ----------------------------------------------------------------------------------
 */

struct mpl_routing mpl_softmax_router_call(struct mpl_tape *tape, const struct mpl_network *network,
                                           const struct mpl_softmax_router *router,
                                           struct mpl_tensor *x)
{
    struct mpl_tensor *weight = mpl_network_weight(network, router->weight);
    struct mpl_tensor *logits =
        mpl_hold(tape->scopes ? mpl_op_linear_function(tape, x, weight, NULL)
                              : mpl_op_linear(tape, x, weight, NULL));
    struct mpl_tensor *probs = mpl_hold(mpl_op_softmax(tape, logits, MPL_FLOAT32)), *parts[2];

    mpl_op_topk(tape, probs, network->plan->model.num_experts_per_tok, parts);
    mpl_hold(parts[0]);
    mpl_hold(parts[1]);
    if (router->normalises)
        mpl_rebind(tape, &parts[0],
                   mpl_op_div_in_place(tape, parts[0], mpl_op_sum_dim(tape, parts[0], 1, true)));
    if (router->casts_to_logits)
        mpl_rebind(tape, &parts[0], mpl_op_to(tape, parts[0], (enum mpl_dtype)logits->dtype));
    mpl_drop(tape, probs);
    return (struct mpl_routing){logits, parts[0], parts[1]};
}

struct mpl_tensor *mpl_float_router_logits(struct mpl_tape *tape, struct mpl_tensor *weight,
                                           struct mpl_tensor *x)
{
    struct mpl_tensor *rows = mpl_hold(mpl_token_rows(tape, x));
    struct mpl_tensor *wide = mpl_op_to(tape, rows, MPL_FLOAT32);
    struct mpl_tensor *logits =
        mpl_hold(mpl_op_linear(tape, wide, mpl_op_to(tape, weight, MPL_FLOAT32), NULL));

    mpl_drop(tape, rows);
    return logits;
}

struct mpl_tensor *mpl_groups_left_out(struct mpl_tape *tape, const struct mpl_model *model,
                                       struct mpl_tensor *group_scores,
                                       struct mpl_group_locals *locals)
{
    const struct mpl_dim groups = mpl_dim(model->n_group);
    const struct mpl_dim size = mpl_dim(model->num_local_experts / model->n_group);
    struct mpl_tensor *parts[2], *mask, *kept;
    struct mpl_dim n;

    *locals = (struct mpl_group_locals){.group_scores = mpl_hold(group_scores)};
    if (group_scores->is_void)
        return group_scores;
    n = group_scores->shape.dim[0];
    mpl_op_topk(tape, group_scores, model->topk_group, parts);
    mpl_consume(tape, parts[0]);
    locals->group_idx = mpl_hold(parts[1]);
    locals->group_mask =
        mpl_hold_empty(tape, "zeros_like.default", MPL_FLOAT32, group_scores->shape);
    mask = mpl_op_expand(tape, mpl_op_unsqueeze(tape, locals->group_mask, 2),
                         mpl_shape3(n, groups, size));
    locals->score_mask =
        mpl_hold(mpl_op_reshape(tape, mask, mpl_shape2(n, mpl_dim(model->num_local_experts))));
    kept = mpl_op_map(tape, "_to_copy.default", MPL_BOOL, locals->score_mask, NULL);
    return mpl_op_map(tape, "bitwise_not.default", MPL_BOOL, kept, NULL);
}

void mpl_group_locals_drop(struct mpl_tape *tape, struct mpl_group_locals *locals)
{
    mpl_drop(tape, locals->group_scores);
    mpl_drop(tape, locals->group_idx);
    mpl_drop(tape, locals->group_mask);
    mpl_drop(tape, locals->score_mask);
}

/* ---- experts ----------------------------------------------------------------------------------
 */

static uint32_t add(struct mpl_network *network, const char *name, const char *suffix, int64_t out,
                    int64_t in)
{
    const struct mpl_dim count = mpl_dim(network->plan->model.num_local_experts);

    return mpl_network_add_under(network, name, suffix,
                                 in ? mpl_shape3(count, mpl_dim(out), mpl_dim(in))
                                    : mpl_shape2(count, mpl_dim(out)));
}

struct mpl_experts mpl_experts_add(struct mpl_network *network, const char *name,
                                   int64_t intermediate_size, bool is_gpt_oss)
{
    const int64_t h = network->plan->model.hidden_size, wide = 2 * intermediate_size;
    struct mpl_experts experts = {
        .gate_up_bias = MPL_NO_PARAMETER, .down_bias = MPL_NO_PARAMETER, .is_gpt_oss = is_gpt_oss};

    if (!is_gpt_oss) {
        experts.gate_up = add(network, name, ".gate_up_proj", wide, h);
        experts.down = add(network, name, ".down_proj", h, intermediate_size);
        return experts;
    }
    experts.gate_up = add(network, name, ".gate_up_proj", h, wide);
    experts.gate_up_bias = add(network, name, ".gate_up_proj_bias", wide, 0);
    experts.down = add(network, name, ".down_proj", intermediate_size, h);
    experts.down_bias = add(network, name, ".down_proj_bias", h, 0);
    return experts;
}

/* GptOssExperts._apply_gate: (up + 1) * gate * sigmoid(gate * alpha), both clamped. */
static struct mpl_tensor *apply_clamped_gate(struct mpl_tape *tape, struct mpl_tensor *both)
{
    struct mpl_tensor *gate = mpl_hold(mpl_op_stride_last(tape, both, 2));
    struct mpl_tensor *up = mpl_hold(mpl_op_stride_last(tape, both, 2)), *glu, *out;

    mpl_rebind(tape, &gate, mpl_op_clamp(tape, gate, false));
    mpl_rebind(tape, &up, mpl_op_clamp(tape, up, true));
    glu = mpl_hold(mpl_op_mul(tape, gate, mpl_op_sigmoid(tape, mpl_op_mul_number(tape, gate))));
    out = mpl_op_mul(tape, mpl_op_add_scalar(tape, up), glu);
    mpl_drop(tape, gate);
    mpl_drop(tape, up);
    mpl_drop(tape, glu);
    return out;
}

struct mpl_tensor *mpl_experts_apply_gate(struct mpl_tape *tape, const struct mpl_network *network,
                                          const struct mpl_experts *experts,
                                          struct mpl_tensor *both)
{
    struct mpl_tensor *parts[2], *out;

    if (both->is_void)
        return both;
    if (experts->is_gpt_oss)
        return apply_clamped_gate(tape, both);
    mpl_op_split_last(tape, both, 2, NULL, parts);
    mpl_hold(parts[0]);
    mpl_hold(parts[1]);
    out = mpl_op_mul(tape, mpl_activation_call(tape, network->plan->model.hidden_act, parts[0]),
                     parts[1]);
    mpl_drop(tape, parts[0]);
    mpl_drop(tape, parts[1]);
    return out;
}

/* One of the two projections, its bias by row or NULL. */
struct projection {
    struct mpl_tensor *weight, *bias; /* borrowed */
    bool is_transposed;               /* weight [.., in, out] */
};

/* _grouped_linear: rows x sorted by expert. */
static struct mpl_tensor *grouped_linear(struct mpl_tape *tape, const struct projection *p,
                                         struct mpl_tensor *x, struct mpl_tensor *offsets)
{
    struct mpl_tensor *weight =
        mpl_hold(p->is_transposed ? p->weight : mpl_op_transpose(tape, p->weight, 1, 2));
    struct mpl_tensor *out =
        mpl_op_grouped_mm(tape, mpl_op_to(tape, x, (enum mpl_dtype)weight->dtype), weight, offsets);

    mpl_drop(tape, weight);
    return p->bias ? mpl_op_add_in_place(tape, out, p->bias) : out;
}

/* _batched_linear: each row with its own copy of a matrix. */
static struct mpl_tensor *batched_linear(struct mpl_tape *tape, const struct projection *p,
                                         struct mpl_tensor *x)
{
    struct mpl_tensor *out;

    if (x->is_void || p->weight->is_void)
        return tape->void_tensor;
    out = p->is_transposed ? mpl_op_bmm(tape, mpl_op_unsqueeze(tape, x, 1), p->weight)
                           : mpl_op_bmm(tape, p->weight, mpl_op_unsqueeze(tape, x, 2));
    if (out->is_void)
        return out;
    if (p->bias)
        return mpl_op_add_to_view(tape, out, p->bias);
    return mpl_op_reshape(tape, out,
                          mpl_shape2(out->shape.dim[0], out->shape.dim[p->is_transposed ? 2 : 1]));
}

/* weighted [n * k, h] summed over the k experts of a token, in the dtype of like */
static struct mpl_tensor *add_up(struct mpl_tape *tape, struct mpl_tensor *weighted,
                                 const struct mpl_tensor *like, int64_t top_k)
{
    struct mpl_tensor *sum;

    if (weighted->is_void)
        return weighted;
    sum = mpl_hold(mpl_op_sum_dim(
        tape,
        mpl_op_reshape(tape, weighted,
                       mpl_shape3(like->shape.dim[0], mpl_dim(top_k), like->shape.dim[1])),
        1, false));
    mpl_rebind(tape, &sum, mpl_op_to(tape, sum, (enum mpl_dtype)like->dtype));
    return mpl_return(sum);
}

static struct mpl_tensor *flat(struct mpl_tape *tape, struct mpl_tensor *x)
{
    if (x->is_void)
        return x;
    return mpl_op_reshape(tape, x, mpl_shape1(mpl_dim_mul(x->shape.dim[0], x->shape.dim[1])));
}

static struct mpl_tensor *bias_rows(struct mpl_tape *tape, const struct mpl_network *network,
                                    uint32_t bias, struct mpl_tensor *ids)
{
    return bias == MPL_NO_PARAMETER
               ? NULL
               : mpl_hold(mpl_op_index(tape, mpl_network_weight(network, bias), ids));
}

/* Tokens per expert as offsets: int32 [experts], held; other locals go to kept. */
static struct mpl_tensor *count_offsets(struct mpl_tape *tape, struct mpl_tensor *ids,
                                        int64_t experts, struct mpl_tensor *kept[2])
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(experts));

    kept[0] = mpl_hold(mpl_op_map(tape, "_to_copy.default", MPL_INT32, ids, NULL));
    kept[1] = mpl_hold_empty(tape, "histc.default", MPL_INT32, shape);
    return mpl_hold_empty(tape, "cumsum.default", MPL_INT32, shape);
}

/* inv_perm[perm] = arange: int64, held */
static struct mpl_tensor *invert(struct mpl_tape *tape, const struct mpl_tensor *perm)
{
    struct mpl_tensor *inverse = mpl_hold_empty(tape, "empty_like.default", MPL_INT64, perm->shape);

    mpl_drop(tape, mpl_hold_empty(tape, "arange.default", MPL_INT64, perm->shape));
    return inverse;
}

/* The two projections of grouped_mm_experts_forward around the gate; held. */
static struct mpl_tensor *grouped_projections(struct mpl_tape *tape,
                                              const struct mpl_network *network,
                                              const struct mpl_experts *experts,
                                              struct mpl_tensor *ids, struct mpl_tensor *offsets,
                                              struct mpl_tensor *rows, struct mpl_tensor **bias_out)
{
    struct projection p = {mpl_network_weight(network, experts->gate_up),
                           bias_rows(tape, network, experts->gate_up_bias, ids),
                           experts->is_gpt_oss};
    struct mpl_tensor *out = mpl_hold(grouped_linear(tape, &p, rows, offsets)), *first = p.bias;

    mpl_rebind(tape, &out, mpl_experts_apply_gate(tape, network, experts, out));
    p.weight = mpl_network_weight(network, experts->down);
    p.bias = bias_rows(tape, network, experts->down_bias, ids);
    mpl_drop(tape, first);
    mpl_rebind(tape, &out, grouped_linear(tape, &p, out, offsets));
    *bias_out = p.bias;
    return out;
}

static struct mpl_tensor *grouped_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                          const struct mpl_experts *experts, struct mpl_tensor *x,
                                          const struct mpl_routing *routing)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_tensor *sample_weights = mpl_hold(flat(tape, routing->weights)), *sorted[2];
    struct mpl_tensor *ids = mpl_hold(flat(tape, routing->index)), *rows, *weights, *counts[2];
    struct mpl_tensor *offsets, *proj, *weighted, *inverse, *bias, *out;

    if (ids->is_void)
        return tape->void_tensor;
    mpl_op_sort(tape, mpl_return(mpl_hold(ids)), sorted);
    mpl_hold(sorted[0]);
    mpl_hold(sorted[1]);
    rows = mpl_hold(mpl_op_index(
        tape, x, mpl_op_map(tape, "floor_divide.default", MPL_INT64, sorted[1], NULL)));
    weights = mpl_hold(mpl_op_index(tape, sample_weights, sorted[1]));
    offsets = count_offsets(tape, sorted[0], m->num_local_experts, counts);
    proj = grouped_projections(tape, network, experts, sorted[0], offsets, rows, &bias);
    weighted = mpl_hold(mpl_op_mul(tape, proj, mpl_op_unsqueeze(tape, weights, 1)));
    inverse = invert(tape, sorted[1]);
    mpl_rebind(tape, &weighted, mpl_op_index(tape, weighted, inverse));
    out = add_up(tape, weighted, x, m->num_experts_per_tok);
    struct mpl_tensor *const locals[] = {sample_weights, ids,       sorted[0], sorted[1], rows,
                                         weights,        counts[0], counts[1], offsets,   proj,
                                         weighted,       inverse,   bias};
    for (size_t i = 0; i < sizeof(locals) / sizeof(locals[0]); i++)
        mpl_drop(tape, locals[i]);
    return out;
}

static struct mpl_tensor *batched_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                          const struct mpl_experts *experts, struct mpl_tensor *x,
                                          const struct mpl_routing *routing)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_tensor *rows = mpl_hold(mpl_op_repeat_rows(tape, x, m->num_experts_per_tok));
    struct mpl_tensor *sample_weights = mpl_hold(flat(tape, routing->weights));
    struct mpl_tensor *ids = mpl_hold(flat(tape, routing->index)), *proj, *weighted, *out;
    struct projection p = {.is_transposed = experts->is_gpt_oss}, first;

    p.weight = mpl_hold(mpl_op_index(tape, mpl_network_weight(network, experts->gate_up), ids));
    p.bias = bias_rows(tape, network, experts->gate_up_bias, ids);
    proj = mpl_hold(batched_linear(tape, &p, rows));
    mpl_rebind(tape, &proj, mpl_experts_apply_gate(tape, network, experts, proj));
    first = p;
    p.weight = mpl_hold(mpl_op_index(tape, mpl_network_weight(network, experts->down), ids));
    mpl_drop(tape, first.weight);
    p.bias = bias_rows(tape, network, experts->down_bias, ids);
    mpl_drop(tape, first.bias);
    mpl_rebind(tape, &proj, batched_linear(tape, &p, proj));
    weighted = mpl_hold(mpl_op_mul(tape, proj, mpl_op_unsqueeze(tape, sample_weights, 1)));
    out = add_up(tape, weighted, x, m->num_experts_per_tok);
    mpl_drop(tape, rows);
    mpl_drop(tape, sample_weights);
    mpl_drop(tape, ids);
    mpl_drop(tape, p.weight);
    mpl_drop(tape, p.bias);
    mpl_drop(tape, proj);
    mpl_drop(tape, weighted);
    return out;
}

struct mpl_tensor *mpl_experts_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                       const struct mpl_experts *experts, struct mpl_tensor *x,
                                       const struct mpl_routing *routing)
{
    if (network->plan->training.experts == MPL_EXPERTS_EAGER)
        return mpl_experts_loop(tape, network, experts, x, routing);
    return network->plan->training.experts == MPL_EXPERTS_BATCHED_MM
               ? batched_forward(tape, network, experts, x, routing)
               : grouped_forward(tape, network, experts, x, routing);
}
