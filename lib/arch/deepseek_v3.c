/* SPDX-License-Identifier: MIT */
/* source: transformers/models/deepseek_v3/modeling_deepseek_v3.py, configuration_deepseek_v3.py;
 * release 5.24.0 */
#include "arch/arch.h"
#include "base/fail.h"
#include "op/op.h"
#include "part/decoder.h"
#include "part/mla.h"

/* cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin]) of the even and the odd elements */
static struct mpl_tensor *turn_pairs(struct mpl_tape *tape, struct mpl_tensor *const x[2],
                                     struct mpl_tensor *cos, struct mpl_tensor *sin)
{
    struct mpl_tensor *first = mpl_op_mul(tape, x[0], cos), *second;

    first = mpl_op_sub(tape, first, mpl_op_mul(tape, x[1], sin));
    second = mpl_op_mul(tape, x[1], cos);
    second = mpl_op_add(tape, second, mpl_op_mul(tape, x[0], sin));
    return mpl_op_cat(tape, first, second, 3);
}

static void take_pairs(struct mpl_tape *tape, struct mpl_tensor *x, struct mpl_tensor *pairs[2])
{
    for (int i = 0; i < 2; i++)
        pairs[i] = mpl_hold(mpl_op_stride_last(tape, x, 2));
}

/* apply_rotary_pos_emb_interleave */
static void turn_interleaved(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_tensor **q,
                             struct mpl_tensor **k)
{
    const struct mpl_dim half = mpl_dim(lm->rotary_dim / 2);
    struct mpl_tensor *cos = mpl_hold(mpl_op_slice_last(tape, lm->cos, half));
    struct mpl_tensor *sin = mpl_hold(mpl_op_slice_last(tape, lm->sin, half));
    struct mpl_tensor *q_pairs[2], *k_pairs[2], *q_embed, *k_embed;

    take_pairs(tape, *q, q_pairs);
    take_pairs(tape, *k, k_pairs);
    q_embed = mpl_hold(turn_pairs(tape, q_pairs, cos, sin));
    k_embed = mpl_hold(turn_pairs(tape, k_pairs, cos, sin));
    for (int i = 0; i < 2; i++) {
        mpl_drop(tape, q_pairs[i]);
        mpl_drop(tape, k_pairs[i]);
    }
    mpl_drop(tape, cos);
    mpl_drop(tape, sin);
    mpl_rebind(tape, q, mpl_return(q_embed));
    mpl_rebind(tape, k, mpl_return(k_embed));
}

/* apply_rotary_pos_emb */
static void turn_halves(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_tensor **q,
                        struct mpl_tensor **k)
{
    struct mpl_tensor *q_embed = mpl_hold(mpl_rotate(tape, *q, lm->cos, lm->sin));
    struct mpl_tensor *k_embed = mpl_hold(mpl_rotate(tape, *k, lm->cos, lm->sin));

    mpl_rebind(tape, q, mpl_return(q_embed));
    mpl_rebind(tape, k, mpl_return(k_embed));
}

/* The two best of each group, added: floating [n, groups]. */
static struct mpl_tensor *score_groups(struct mpl_tape *tape, const struct mpl_model *m,
                                       struct mpl_tensor *scores)
{
    struct mpl_tensor *parts[2];
    const struct mpl_shape shape = mpl_shape3(scores->shape.dim[0], mpl_dim(m->n_group),
                                              mpl_dim(m->num_local_experts / m->n_group));

    mpl_op_topk(tape, mpl_op_reshape(tape, scores, shape), 2, parts);
    mpl_consume(tape, parts[1]);
    return mpl_op_sum_dim(tape, parts[0], 2, false);
}

/* DeepseekV3TopkRouter.forward */
static struct mpl_routing route(struct mpl_tape *tape, const struct mpl_mla_layer *layer,
                                struct mpl_tensor *x)
{
    const struct mpl_network *network = layer->parts.base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    struct mpl_routing routing = {
        .logits = mpl_float_router_logits(tape, mpl_network_weight(network, layer->gate), x)};
    struct mpl_tensor *scores = mpl_hold(mpl_op_sigmoid(tape, routing.logits)), *choice, *parts[2];
    struct mpl_tensor *denominator = NULL, *mask;
    struct mpl_group_locals locals;

    if (scores->is_void)
        return (struct mpl_routing){scores, scores, scores};
    choice = mpl_hold(mpl_op_add(tape, scores, mpl_network_weight(network, layer->correction)));
    mask = mpl_groups_left_out(tape, m, score_groups(tape, m, choice), &locals);
    mpl_rebind(tape, &choice, mpl_op_masked_fill(tape, choice, mask));
    mpl_op_topk(tape, choice, m->num_experts_per_tok, parts);
    mpl_consume(tape, parts[0]);
    routing.index = mpl_hold(parts[1]);
    routing.weights = mpl_hold(mpl_op_gather_last(tape, scores, routing.index));
    if (m->norm_topk_prob) {
        denominator =
            mpl_hold(mpl_op_add_scalar(tape, mpl_op_sum_dim(tape, routing.weights, 1, true)));
        mpl_rebind(tape, &routing.weights, mpl_op_div_in_place(tape, routing.weights, denominator));
    }
    mpl_rebind(tape, &routing.weights, mpl_op_mul_number(tape, routing.weights));
    mpl_drop(tape, scores);
    mpl_drop(tape, choice);
    mpl_drop(tape, denominator);
    mpl_group_locals_drop(tape, &locals);
    return routing;
}

static struct mpl_tensor *feed(struct mpl_tape *tape, void *layer, struct mpl_tensor *x,
                               struct mpl_tensor **other_out)
{
    (void)other_out;
    return mpl_mla_layer_feed(tape, layer, x, route);
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *layer)
{
    mpl_mla_layer_describe(network, (struct mpl_mla_layer *)layer,
                           network->plan->model.rope_interleave ? turn_interleaved : turn_halves,
                           feed, true);
}

static const struct mpl_lm_family family = {
    .past = {.first = 51},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_size = sizeof(struct mpl_mla_layer),
    .layer_room = 20,
    .describe_layer = describe_layer,
    .layer_forward = mpl_parts_layer_forward,
};

static void derive(struct mpl_plan *plan)
{
    plan->model.mlp_bias = false; /* its MLPs have none */
    mpl_mla_derive(plan);
}

/* The score of a group is the sum of its two best. */
static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_needed needed[] = {
        {"n_group", m->n_group}, {"topk_group", m->topk_group}, {NULL, 0}};
    const enum memplan_status status = mpl_check_needed(needed, err);

    if (status)
        return status;
    if (m->num_local_experts < 2 * m->n_group)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/n_group",
                        "model.n_group: found %lld groups of %lld experts, expected at least two "
                        "experts in a group",
                        (long long)m->n_group, (long long)m->num_local_experts);
    return mpl_mla_check(plan, err);
}

static const struct mpl_config_key keys[] = {
    {"num_local_experts", "n_routed_experts", "256"},
    {"num_experts_per_tok", NULL, "8"},
    {"moe_intermediate_size", NULL, "2048"},
    {"n_shared_experts", NULL, "1"},
    {"first_k_dense_replace", NULL, "3"},
    {"n_group", NULL, "8"},
    {"topk_group", NULL, "4"},
    {"norm_topk_prob", NULL, "true"},
    {"q_lora_rank", NULL, "1536"},
    {"kv_lora_rank", NULL, "512"},
    {"qk_nope_head_dim", NULL, "128"},
    {"qk_rope_head_dim", NULL, "64"},
    {"v_head_dim", NULL, "128"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_deepseek_v3 = {
    .config = {.model_type = "deepseek_v3",
               .help = "DeepSeek V3 and R1, Moonlight",
               .keys = keys,
               .derive = derive,
               .check = check},
    .family = &family,
};
