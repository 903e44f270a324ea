/* SPDX-License-Identifier: MIT */
/* source: transformers/models/deepseek_v2/modeling_deepseek_v2.py, configuration_deepseek_v2.py;
 * release 5.24.0 */
#include "arch/arch.h"
#include "base/fail.h"
#include "op/op.h"
#include "part/mla.h"

/* lm->cos is freqs_cis, lm->sin is not there. int64 stands for complex64: it has its size, and no
 * wrapper casts it. */
static void make_rotary(struct mpl_tape *tape, struct mpl_lm *lm, const struct mpl_tensor *h)
{
    const struct mpl_dim one = mpl_dim(1);
    const struct mpl_dim s = h->is_void ? one : h->shape.dim[1];
    const struct mpl_shape table = mpl_shape4(one, one, s, mpl_dim(lm->rotary_dim / 2));
    const struct mpl_shape half = mpl_shape3(one, s, mpl_dim(lm->rotary_dim / 2));
    const struct mpl_shape rows = mpl_shape3(one, s, one);
    struct mpl_tensor *row = mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_FLOAT32, &rows));
    struct mpl_tensor *freqs = mpl_hold(mpl_empty(tape, "mul.Tensor", MPL_FLOAT32, &half));
    struct mpl_tensor *ones, *polar;

    mpl_drop(tape, row);
    ones = mpl_hold(mpl_empty(tape, "ones_like.default", MPL_FLOAT32, &half));
    polar = mpl_hold(mpl_empty(tape, "polar.default", MPL_INT64, &table));
    mpl_drop(tape, ones);
    lm->cos = mpl_hold(mpl_empty(tape, "mul.Tensor", MPL_INT64, &table));
    mpl_drop(tape, polar);
    mpl_drop(tape, freqs);
}

/* apply_rotary_emb */
static void turn(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_tensor **q,
                 struct mpl_tensor **k)
{
    struct mpl_tensor *wide_q = mpl_hold(mpl_op_to(tape, *q, MPL_FLOAT32));
    struct mpl_tensor *wide_k = mpl_hold(mpl_op_to(tape, *k, MPL_FLOAT32));
    struct mpl_tensor *q_out = mpl_hold(
        mpl_op_to(tape, mpl_op_complex_mul(tape, wide_q, lm->cos), (enum mpl_dtype)(*q)->dtype));
    struct mpl_tensor *k_out = mpl_hold(
        mpl_op_to(tape, mpl_op_complex_mul(tape, wide_k, lm->cos), (enum mpl_dtype)(*k)->dtype));

    mpl_drop(tape, wide_q);
    mpl_drop(tape, wide_k);
    mpl_rebind(tape, q, mpl_return(q_out));
    mpl_rebind(tape, k, mpl_return(k_out));
}

/* The best of each group: floating [n, groups]. */
static struct mpl_tensor *score_groups(struct mpl_tape *tape, const struct mpl_model *m,
                                       struct mpl_tensor *scores)
{
    const struct mpl_dim n = scores->shape.dim[0], groups = mpl_dim(m->n_group);
    struct mpl_tensor *best = mpl_op_max_last(
        tape, mpl_op_reshape(tape, scores,
                             mpl_shape3(n, groups, mpl_dim(m->num_local_experts / m->n_group))));

    return best->is_void ? best : mpl_op_reshape(tape, best, mpl_shape2(n, groups));
}

/* DeepseekV2TopkRouter.forward */
static struct mpl_routing route(struct mpl_tape *tape, const struct mpl_mla_layer *layer,
                                struct mpl_tensor *x)
{
    const struct mpl_network *network = layer->parts.base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    struct mpl_routing routing = {
        .logits = mpl_float_router_logits(tape, mpl_network_weight(network, layer->gate), x)};
    struct mpl_tensor *scores = mpl_hold(mpl_op_softmax(tape, routing.logits, MPL_FLOAT32));
    struct mpl_tensor *parts[2], *mask;
    struct mpl_group_locals locals = {0};

    if (scores->is_void)
        return (struct mpl_routing){scores, scores, scores};
    if (m->topk_method == MPL_TOPK_GROUP_LIMITED) {
        mask = mpl_groups_left_out(tape, m, score_groups(tape, m, scores), &locals);
        mpl_rebind(tape, &scores, mpl_op_masked_fill(tape, scores, mask));
    }
    mpl_op_topk(tape, scores, m->num_experts_per_tok, parts);
    routing.weights = mpl_hold(parts[0]);
    routing.index = mpl_hold(parts[1]);
    mpl_rebind(tape, &routing.weights, mpl_op_mul_number(tape, routing.weights));
    mpl_drop(tape, scores);
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
    mpl_mla_layer_describe(network, (struct mpl_mla_layer *)layer, turn, feed, false);
}

static const struct mpl_lm_family family = {
    .past = {.first = 54},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_size = sizeof(struct mpl_mla_layer),
    .layer_room = 22,
    .describe_layer = describe_layer,
    .layer_forward = mpl_parts_layer_forward,
    .make_rotary = make_rotary,
};

static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;

    if (m->topk_method == MPL_TOPK_NOAUX_TC)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/topk_method",
                        "model.topk_method: deepseek_v2 knows greedy and group_limited_greedy");
    if (m->topk_method == MPL_TOPK_GROUP_LIMITED && !m->n_group)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/n_group",
                        "model.n_group: group_limited_greedy needs n_group and topk_group");
    return mpl_mla_check(plan, err);
}

static const struct mpl_config_key keys[] = {
    {"num_local_experts", "n_routed_experts", "64"},
    {"moe_intermediate_size", NULL, "1407"},
    {"n_shared_experts", NULL, "2"},
    {"first_k_dense_replace", NULL, "0"},
    {"q_lora_rank", NULL, "1536"},
    {"kv_lora_rank", NULL, "512"},
    {"qk_nope_head_dim", NULL, "128"},
    {"qk_rope_head_dim", NULL, "64"},
    {"v_head_dim", NULL, "128"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_deepseek_v2 = {
    .config = {.model_type = "deepseek_v2",
               .help = "DeepSeek V2 and V2-Lite",
               .keys = keys,
               .derive = mpl_mla_derive,
               .check = check},
    .family = &family,
};
