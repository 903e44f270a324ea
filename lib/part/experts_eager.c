/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of experts: experts_implementation="eager", one expert after another over the tokens
 * that chose it. Which tokens choose which expert is in the data: here they are shared evenly, and
 * the first experts take one more where that does not come out even.
 *
 * source: transformers/models/mixtral/modeling_mixtral.py (MixtralExperts.forward; qwen2_moe,
 * qwen3_moe, deepseek_v2, deepseek_v3 have the same), gpt_oss/modeling_gpt_oss.py
 * (GptOssExperts.forward); release 5.24.0
 */
#include "op/op.h"
#include "part/experts.h"

static const struct mpl_shape scalar = {0};

/* Locals of the loop, all held; what one turn names stays until the next one names it again. */
struct loop {
    struct mpl_tensor *mask; /* int64 [k, n] of one expert; a view of that of all */
    struct mpl_tensor *position, *token;
    struct mpl_tensor *state, *gate, *up, *hidden, *gated, *out;
    struct mpl_tensor *final;
};

/* expert_hit: which experts anything chose; held. Takes the place of expert_mask's sums. */
static struct mpl_tensor *find_hit(struct mpl_tape *tape, int64_t classes, int64_t hit)
{
    const struct mpl_shape line = mpl_shape1(mpl_dim(classes));
    struct mpl_tensor *sums = mpl_hold_empty(tape, "sum.dim_IntList", MPL_INT64, line), *is_hit,
                      *found;

    is_hit = mpl_hold_empty(tape, "gt.Scalar", MPL_BOOL, line);
    mpl_drop(tape, sums);
    found = mpl_hold(mpl_op_nonzero(tape, is_hit, mpl_dim(hit)));
    mpl_drop(tape, is_hit);
    return found;
}

/* top_k_pos, token_idx = torch.where(expert_mask[expert_idx]): two views of one storage */
static void find_tokens(struct mpl_tape *tape, struct loop *l, struct mpl_dim count)
{
    struct mpl_tensor *both;

    mpl_drop(tape, mpl_hold_empty(tape, "eq.Scalar", MPL_BOOL,
                                  scalar)); /* the index that stands for none */
    both = mpl_hold(mpl_op_nonzero(tape, l->mask, count));
    mpl_rebind(tape, &l->position, mpl_op_select(tape, both, 1));
    mpl_rebind(tape, &l->token, mpl_op_select(tape, both, 1));
    mpl_drop(tape, both);
}

static struct mpl_tensor *expert_of(struct mpl_tape *tape, const struct mpl_network *network,
                                    uint32_t parameter)
{
    return mpl_op_select(tape, mpl_network_weight(network, parameter), 0);
}

/* The two products and what lies between them; l->out is bound to the result. */
static void run_expert(struct mpl_tape *tape, const struct mpl_network *network,
                       const struct mpl_experts *experts, struct loop *l)
{
    struct mpl_tensor *both = mpl_op_linear(tape, l->state,
                                            expert_of(tape, network, experts->gate_up), NULL),
                      *parts[2];

    if (both->is_void)
        return;
    mpl_op_split_last(tape, both, 2, NULL, parts);
    mpl_rebind(tape, &l->gate, parts[0]);
    mpl_rebind(tape, &l->up, parts[1]);
    mpl_rebind(tape, &l->out,
               mpl_op_mul(tape, mpl_activation_call(tape, network->plan->model.hidden_act, l->gate),
                          l->up));
    mpl_rebind(tape, &l->out,
               mpl_op_linear(tape, l->out, expert_of(tape, network, experts->down), NULL));
}

/* x @ weight[expert] + bias[expert] */
static struct mpl_tensor *biased(struct mpl_tape *tape, const struct mpl_network *network,
                                 struct mpl_tensor *x, uint32_t weight, uint32_t bias)
{
    struct mpl_tensor *out = mpl_op_mm(tape, x, expert_of(tape, network, weight));

    return mpl_op_add(tape, out, expert_of(tape, network, bias));
}

static void run_gpt_oss(struct mpl_tape *tape, const struct mpl_network *network,
                        const struct mpl_experts *experts, struct loop *l)
{
    mpl_rebind(tape, &l->hidden,
               biased(tape, network, l->state, experts->gate_up, experts->gate_up_bias));
    mpl_rebind(tape, &l->gated, mpl_experts_apply_gate(tape, network, experts, l->hidden));
    mpl_rebind(tape, &l->out, biased(tape, network, l->gated, experts->down, experts->down_bias));
}

/* One turn: count tokens go through an expert and are added to where they came from. */
static void turn(struct mpl_tape *tape, const struct mpl_network *network,
                 const struct mpl_experts *experts, struct loop *l, struct mpl_tensor *x,
                 const struct mpl_routing *routing, struct mpl_dim count)
{
    const struct mpl_shape column = mpl_shape2(count, mpl_dim(1));
    struct mpl_tensor *weights;

    find_tokens(tape, l, count);
    mpl_rebind(tape, &l->state, mpl_op_index(tape, x, l->token));
    (experts->is_gpt_oss ? run_gpt_oss : run_expert)(tape, network, experts, l);
    if (!l->out || l->out->is_void)
        return;
    weights = mpl_op_index_keys(tape, mpl_op_unsqueeze(tape, routing->weights, 2),
                                (struct mpl_tensor *[]){l->token, l->position}, 2, &column);
    mpl_rebind(tape, &l->out, mpl_op_mul(tape, l->out, weights));
    mpl_rebind(tape, &l->final,
               mpl_op_index_add_in_place(tape, l->final, l->token,
                                         mpl_op_to(tape, l->out, (enum mpl_dtype)l->final->dtype)));
}

struct mpl_tensor *mpl_experts_loop(struct mpl_tape *tape, const struct mpl_network *network,
                                    const struct mpl_experts *experts, struct mpl_tensor *x,
                                    const struct mpl_routing *routing)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t count = m->num_local_experts, classes = experts->is_gpt_oss ? count : count + 1;
    struct loop l = {0};
    struct mpl_tensor *all, *hit;
    struct mpl_dim pairs;
    int64_t hits;

    if (x->is_void || routing->index->is_void)
        return tape->void_tensor;
    pairs = mpl_dim_mul(x->shape.dim[0], mpl_dim(m->num_experts_per_tok));
    hits = pairs.n < count ? pairs.n : count;
    l.final = mpl_hold_empty(tape, "zeros_like.default", (enum mpl_dtype)x->dtype, x->shape);
    all = mpl_hold_empty(
        tape, "zeros.default", MPL_INT64,
        mpl_shape3(x->shape.dim[0], mpl_dim(m->num_experts_per_tok), mpl_dim(classes)));
    hit = find_hit(tape, classes, hits);
    l.mask = mpl_hold(mpl_op_select(tape, mpl_op_transpose(tape, all, 0, 2), 0));
    for (int64_t i = 0; i < hits && !tape->is_stopped; i++) {
        const int64_t rows = pairs.n / count + (i < pairs.n % count ? 1 : 0);

        turn(tape, network, experts, &l, x, routing, (struct mpl_dim){rows, pairs.degree});
    }
    struct mpl_tensor *const locals[] = {l.mask,   l.position, l.token, l.state, l.gate, l.up,
                                         l.hidden, l.gated,    l.out,   all,     hit};
    for (size_t i = 0; i < sizeof(locals) / sizeof(locals[0]); i++)
        mpl_drop(tape, locals[i]);
    return mpl_return(l.final);
}
