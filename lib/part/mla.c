/* SPDX-License-Identifier: MIT */
/*
 * Attention with latent keys and values, and the layer around it.
 *
 * source: transformers/models/deepseek_v3/modeling_deepseek_v3.py (DeepseekV3Attention,
 * DeepseekV3MoE), deepseek_v2/modeling_deepseek_v2.py; release 5.24.0
 */
#include "part/mla.h"

#include "base/fail.h"
#include "op/op.h"
#include "part/decoder.h"

struct mpl_mla mpl_mla_add(struct mpl_network *network, mpl_turn *turn)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size, heads = m->num_attention_heads;
    const int64_t q_width = heads * (m->qk_nope_head_dim + m->qk_rope_head_dim);
    struct mpl_mla mla = {.turn = turn};

    if (!m->q_lora_rank) {
        mla.q = mpl_linear_add(network, "self_attn.q_proj", q_width, h, false);
    } else {
        mla.q_a =
            mpl_linear_add(network, "self_attn.q_a_proj", m->q_lora_rank, h, m->attention_bias);
        mla.q_a_norm =
            mpl_norm_add(network, MPL_NORM_RMS, "self_attn.q_a_layernorm", m->q_lora_rank);
        mla.q_b = mpl_linear_add(network, "self_attn.q_b_proj", q_width, m->q_lora_rank, false);
    }
    mla.kv_a = mpl_linear_add(network, "self_attn.kv_a_proj_with_mqa",
                              m->kv_lora_rank + m->qk_rope_head_dim, h, m->attention_bias);
    mla.kv_a_norm =
        mpl_norm_add(network, MPL_NORM_RMS, "self_attn.kv_a_layernorm", m->kv_lora_rank);
    mla.kv_b =
        mpl_linear_add(network, "self_attn.kv_b_proj",
                       heads * (m->qk_nope_head_dim + m->v_head_dim), m->kv_lora_rank, false);
    mla.o =
        mpl_linear_add(network, "self_attn.o_proj", h, heads * m->v_head_dim, m->attention_bias);
    return mla;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

static struct mpl_tensor *project_queries(struct mpl_tape *tape, const struct mpl_network *network,
                                          const struct mpl_mla *mla, struct mpl_tensor *x)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_tensor *q;

    if (!m->q_lora_rank) {
        q = mpl_linear_call(tape, network, &mla->q, x);
    } else {
        q = mpl_norm_call(tape, network, &mla->q_a_norm,
                          mpl_linear_call(tape, network, &mla->q_a, x));
        q = mpl_linear_call(tape, network, &mla->q_b, q);
    }
    return mpl_split_heads(tape, q, m->num_attention_heads,
                           m->qk_nope_head_dim + m->qk_rope_head_dim);
}

/* a [b, s, d] as [b, 1, s, d] */
static struct mpl_tensor *as_one_head(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return mpl_op_unsqueeze(tape, a, 1);
}

/* expand_kv: keys and values of all heads from the latent [b, 1, s, rank] and the turned key
 * [b, 1, s, d]; both held. */
static void expand_kv(struct mpl_tape *tape, const struct mpl_network *network,
                      const struct mpl_mla *mla, struct mpl_tensor *latent,
                      struct mpl_tensor *k_rot, struct mpl_tensor *kv_out[2])
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t widths[2] = {m->qk_nope_head_dim, m->v_head_dim};
    struct mpl_tensor *kv = mpl_linear_call(tape, network, &mla->kv_b, latent), *parts[2], *keys;
    struct mpl_shape shape;

    kv_out[0] = kv_out[1] = tape->void_tensor;
    if (kv->is_void)
        return;
    kv =
        mpl_op_reshape(tape, kv,
                       mpl_shape4(kv->shape.dim[0], kv->shape.dim[2],
                                  mpl_dim(m->num_attention_heads), mpl_dim(widths[0] + widths[1])));
    mpl_op_split_last(tape, mpl_op_transpose(tape, kv, 1, 2), 2, widths, parts);
    mpl_hold(parts[0]);
    mpl_hold(parts[1]);
    shape = parts[0]->shape;
    shape.dim[3] = mpl_dim(m->qk_rope_head_dim);
    k_rot = mpl_op_expand(tape, k_rot, shape);
    shape.dim[3].n += m->qk_nope_head_dim;
    keys = mpl_empty(tape, "new_empty.default", (enum mpl_dtype)parts[0]->dtype, &shape);
    keys = mpl_op_copy_into_slice(tape, keys, parts[0]);
    kv_out[0] = mpl_hold(mpl_op_copy_into_slice(tape, keys, k_rot));
    kv_out[1] = parts[1];
    mpl_drop(tape, parts[0]);
}

/* Attention over what the projections gave; the names of forward are dropped. */
static struct mpl_tensor *attend(struct mpl_tape *tape, void *context, struct mpl_tensor *x,
                                 struct mpl_tensor **other_out)
{
    const struct mpl_mla_layer *layer = context;
    const struct mpl_lm *lm = layer->parts.base.lm;
    const struct mpl_network *network = lm->network;
    const struct mpl_model *m = &network->plan->model;
    const struct mpl_mla *mla = &layer->attention;
    const int64_t q_widths[2] = {m->qk_nope_head_dim, m->qk_rope_head_dim};
    const int64_t kv_widths[2] = {m->kv_lora_rank, m->qk_rope_head_dim};
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->parts.base);
    struct mpl_tensor *states = mpl_hold(project_queries(tape, network, mla, x)), *q[2], *kv[2];
    struct mpl_tensor *compressed, *out, *keys_values[2];

    mpl_op_split_last(tape, states, 2, q_widths, q);
    mpl_hold(q[0]);
    mpl_hold(q[1]);
    compressed = mpl_hold(mpl_linear_call(tape, network, &mla->kv_a, x));
    mpl_op_split_last(tape, compressed, 2, kv_widths, kv);
    mpl_hold(kv[0]);
    mpl_hold(kv[1]);
    mpl_rebind(tape, &kv[0], mpl_norm_call(tape, network, &mla->kv_a_norm, kv[0]));
    mpl_rebind(tape, &kv[0], as_one_head(tape, kv[0]));
    mpl_rebind(tape, &kv[1], as_one_head(tape, kv[1]));
    mla->turn(tape, lm, &q[1], &kv[1]);
    call.q = mpl_hold(mpl_op_cat(tape, q[0], q[1], 3));
    expand_kv(tape, network, mla, kv[0], kv[1], keys_values);
    call.k = keys_values[0];
    call.v = keys_values[1];
    out = mpl_hold(
        mpl_merge_heads(tape, mpl_attention_interface(tape, network->plan, &call, other_out)));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &mla->o, out));
    struct mpl_tensor *const locals[] = {states, q[0],   q[1],   compressed, kv[0],
                                         kv[1],  call.q, call.k, call.v};
    for (size_t i = 0; i < sizeof(locals) / sizeof(locals[0]); i++)
        mpl_drop(tape, locals[i]);
    return mpl_return(out);
}

/* ---- the layer --------------------------------------------------------------------------------
 */

static struct mpl_tensor *feed_dense(struct mpl_tape *tape, void *context, struct mpl_tensor *x,
                                     struct mpl_tensor **other_out)
{
    const struct mpl_mla_layer *layer = context;

    (void)other_out;
    return mpl_gated_mlp_forward(tape, layer->parts.base.lm->network, &layer->mlp, x);
}

void mpl_mla_layer_describe(struct mpl_network *network, struct mpl_mla_layer *layer,
                            mpl_turn *turn, mpl_layer_part *feed, bool has_correction)
{
    const struct mpl_model *m = &network->plan->model;
    const struct mpl_dim experts = mpl_dim(m->num_local_experts);

    layer->parts.attend = attend;
    layer->attention = mpl_mla_add(network, turn);
    if (layer->parts.base.index < (uint32_t)m->first_k_dense_replace) {
        layer->parts.feed = feed_dense;
        layer->mlp = mpl_gated_mlp_add(network, "mlp", m->intermediate_size, m->mlp_bias);
    } else {
        layer->parts.feed = feed;
        layer->experts = mpl_experts_add(network, "mlp.experts", m->moe_intermediate_size, false);
        layer->gate = mpl_network_add_under(network, "mlp.gate", ".weight",
                                            mpl_shape2(experts, mpl_dim(m->hidden_size)));
        /* made in float32, and kept so when weights are loaded (_keep_in_fp32_modules_strict) */
        mpl_network_set_dtype(network, layer->gate, MPL_FLOAT32);
        layer->correction =
            has_correction
                ? mpl_network_add_buffer_under(network, "mlp.gate", ".e_score_correction_bias",
                                               mpl_shape1(experts))
                : MPL_NO_PARAMETER;
        layer->mlp = mpl_gated_mlp_add(network, "mlp.shared_experts",
                                       m->moe_intermediate_size * m->n_shared_experts, m->mlp_bias);
    }
    mpl_parts_layer_add_norms(network, &layer->parts, MPL_NORM_RMS);
}

struct mpl_tensor *mpl_mla_layer_feed(struct mpl_tape *tape, struct mpl_mla_layer *layer,
                                      struct mpl_tensor *x, mpl_mla_router *router)
{
    struct mpl_lm *lm = layer->parts.base.lm;
    const struct mpl_shape shape = x->shape;
    struct mpl_routing routing = router(tape, layer, x);
    struct mpl_tensor *h, *shared;

    mpl_routing_record(tape, lm, &routing);
    h = mpl_hold(mpl_token_rows(tape, x));
    mpl_rebind(tape, &h, mpl_experts_forward(tape, lm->network, &layer->experts, h, &routing));
    if (!h->is_void)
        mpl_rebind(tape, &h, mpl_op_reshape(tape, h, shape));
    shared = mpl_gated_mlp_forward(tape, lm->network, &layer->mlp, x);
    mpl_rebind(tape, &h, mpl_op_add(tape, h, shared));
    mpl_routing_drop(tape, &routing);
    return mpl_return(h);
}

void mpl_mla_derive(struct mpl_plan *plan)
{
    struct mpl_model *m = &plan->model;

    m->head_dim = m->qk_rope_head_dim;
    mpl_lm_fill_layer_types(m, MPL_LAYER_FULL);
}

enum memplan_status mpl_mla_check(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_needed needed[] = {{"moe_intermediate_size", m->moe_intermediate_size},
                                        {"n_shared_experts", m->n_shared_experts},
                                        {"kv_lora_rank", m->kv_lora_rank},
                                        {"qk_nope_head_dim", m->qk_nope_head_dim},
                                        {"qk_rope_head_dim", m->qk_rope_head_dim},
                                        {"v_head_dim", m->v_head_dim},
                                        {NULL, 0}};
    const enum memplan_status status = mpl_check_needed(needed, err);

    if (status)
        return status;
    if (m->num_key_value_heads != m->num_attention_heads)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/num_key_value_heads",
                        "model.num_key_value_heads: found %lld, expected %lld: every head has its "
                        "own keys once the latent ones are expanded",
                        (long long)m->num_key_value_heads, (long long)m->num_attention_heads);
    if (m->n_group &&
        (m->num_local_experts % m->n_group || m->topk_group > m->n_group || !m->topk_group))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/n_group",
                        "model.n_group: found %lld groups, %lld of them to choose, for %lld "
                        "experts, expected a divisor of the experts and topk_group at most n_group",
                        (long long)m->n_group, (long long)m->topk_group,
                        (long long)m->num_local_experts);
    return mpl_experts_check(plan, err);
}
