/* SPDX-License-Identifier: MIT */
/* source: transformers/models/bloom/modeling_bloom.py, configuration_bloom.py; release 5.24.0 */
#include "arch/arch.h"
#include "base/fail.h"
#include "op/op.h"
#include "op/rule.h"
#include "part/causal_lm.h"
#include "part/mlp.h"

struct layer {
    struct mpl_lm_layer base;
    struct mpl_norm input_norm, post_norm;
    struct mpl_linear query_key_value, dense, up, down;
};

/* Locals of BloomModel.forward: lm->positions is alibi [b * heads, 1, s]. */
enum { SLOPES, LAST_HIDDEN, LAST_WEIGHTS };

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;
    struct layer *layer = (struct layer *)base;

    layer->input_norm = mpl_norm_add(network, MPL_NORM_LAYER, "input_layernorm", h);
    layer->query_key_value =
        mpl_linear_add(network, "self_attention.query_key_value", 3 * h, h, true);
    layer->dense = mpl_linear_add(network, "self_attention.dense", h, h, true);
    layer->post_norm = mpl_norm_add(network, MPL_NORM_LAYER, "post_attention_layernorm", h);
    layer->up = mpl_linear_add(network, "mlp.dense_h_to_4h", m->intermediate_size, h, true);
    layer->down = mpl_linear_add(network, "mlp.dense_4h_to_h", h, m->intermediate_size, true);
}

/* ---- activation -------------------------------------------------------------------------------
 */

/* out = like(a, b), consuming both, inside a backward rule */
static struct mpl_tensor *step(struct mpl_tape *tape, const char *op, struct mpl_tensor *a,
                               struct mpl_tensor *b)
{
    struct mpl_tensor *out = mpl_rule_like(tape, op, a, b);

    mpl_drop(tape, a);
    mpl_drop(tape, b);
    return out;
}

/* tanh(0.79788456 * x * (1 + 0.044715 * x * x)); held */
static struct mpl_tensor *tanh_of(struct mpl_tape *tape, struct mpl_tensor *x)
{
    struct mpl_tensor *line = mpl_rule_like(tape, "mul.Tensor", x, NULL);
    struct mpl_tensor *square = mpl_rule_like(tape, "mul.Tensor", x, NULL);

    square = step(tape, "mul.Tensor", square, NULL);
    square = step(tape, "add.Tensor", square, NULL);
    return step(tape, "tanh.default", step(tape, "mul.Tensor", line, square), NULL);
}

/* bloom_gelu_back */
static void gelu_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    struct mpl_tensor *x = mpl_saved(tape, node, 0), *tanh_out, *half, *left, *right, *slope;

    if (x->is_void)
        return;
    tanh_out = tanh_of(tape, x);
    half = mpl_rule_like(tape, "mul.Tensor", x, NULL);
    left = mpl_rule_like(tape, "mul.Tensor", tanh_out, NULL);
    left = step(tape, "rsub.Scalar", left, NULL);
    right = mpl_rule_like(tape, "mul.Tensor", x, NULL);
    right = step(tape, "mul.Tensor", right, NULL);
    right = step(tape, "add.Tensor", right, NULL);
    slope = step(tape, "mul.Tensor", half, step(tape, "mul.Tensor", left, right));
    right = mpl_rule_like(tape, "add.Tensor", tanh_out, NULL);
    slope = step(tape, "add.Tensor", slope, step(tape, "mul.Tensor", right, NULL));
    in[0] = mpl_rule_like(tape, "mul.Tensor", slope, out[0]);
    mpl_drop(tape, slope);
    mpl_drop(tape, tanh_out);
}

/* GeLUFunction: keeps its input, computes the rest again. */
static struct mpl_tensor *gelu(struct mpl_tape *tape, struct mpl_tensor *x)
{
    struct mpl_node *node = mpl_node_new(tape, "GeLUFunctionBackward", gelu_backward, &x, 1, 1, 1);
    struct mpl_tensor *half, *curve, *out;

    mpl_save(tape, node, x);
    half = mpl_rule_like(tape, "mul.Tensor", x, NULL);
    curve = step(tape, "add.Tensor", tanh_of(tape, x), NULL);
    out = mpl_return(step(tape, "mul.Tensor", half, curve));
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, x);
    return out;
}

/* ---- layer ------------------------------------------------------------------------------------
 */

/* residual + dropout(x); floating */
static struct mpl_tensor *dropout_add(struct mpl_tape *tape, struct mpl_tensor *x,
                                      struct mpl_tensor *residual, double p)
{
    struct mpl_tensor *kept = mpl_hold(mpl_op_dropout(tape, x, p));
    struct mpl_tensor *out = mpl_op_add(tape, residual, kept);

    mpl_drop(tape, kept);
    return out;
}

/* fused[..., i, :].transpose(1, 2).reshape(b * heads, s, d) for queries, keys, values; held */
static void split_heads(struct mpl_tape *tape, const struct mpl_model *m, struct mpl_tensor *fused,
                        struct mpl_tensor *qkv[3])
{
    const struct mpl_dim heads = mpl_dim(m->num_attention_heads), d = mpl_dim(m->head_dim);
    const struct mpl_dim b = fused->shape.dim[0], s = fused->shape.dim[1];
    struct mpl_tensor *parts = mpl_hold(fused);

    if (!fused->is_void)
        mpl_rebind(
            tape, &parts,
            mpl_op_reshape(tape, fused, (struct mpl_shape){5, {b, s, heads, mpl_dim(3), d}}));
    for (int i = 0; i < 3; i++)
        qkv[i] = mpl_hold(mpl_op_transpose(tape, mpl_op_select(tape, parts, 3), 1, 2));
    mpl_drop(tape, parts);
    for (int i = 0; i < 3; i++)
        mpl_rebind(tape, &qkv[i],
                   mpl_op_reshape(tape, qkv[i], mpl_shape3(mpl_dim_mul(b, heads), s, d)));
    mpl_rebind(tape, &qkv[1], mpl_op_transpose(tape, qkv[1], 1, 2));
}

/* softmax(alibi + q k, + mask) v; *probs_out is held. Gives [b, s, h], held. */
static struct mpl_tensor *attend(struct mpl_tape *tape, const struct layer *layer,
                                 struct mpl_tensor *qkv[3], struct mpl_tensor **probs_out)
{
    const struct mpl_lm *lm = layer->base.lm;
    const struct mpl_model *m = &lm->network->plan->model;
    const struct mpl_dim heads = mpl_dim(m->num_attention_heads), d = mpl_dim(m->head_dim);
    const struct mpl_dim b = lm->input_ids->shape.dim[0], s = lm->input_ids->shape.dim[1];
    struct mpl_tensor *scores = mpl_hold(mpl_op_baddbmm(tape, lm->positions, qkv[0], qkv[1]));
    struct mpl_tensor *sum = mpl_hold(mpl_op_reshape(tape, scores, mpl_shape4(b, heads, s, s)));
    struct mpl_tensor *probs, *context, *v;

    if (lm->full.tensor)
        mpl_rebind(tape, &sum, mpl_op_add(tape, sum, lm->full.tensor));
    probs = mpl_hold(
        mpl_op_to(tape, mpl_op_softmax(tape, sum, MPL_FLOAT32), (enum mpl_dtype)qkv[0]->dtype));
    mpl_rebind(tape, &probs, mpl_dropout_call(tape, probs, m->attention_dropout));
    v = mpl_op_reshape(tape, qkv[2], mpl_shape4(b, heads, s, d));
    context = mpl_hold(mpl_op_matmul(tape, probs, v));
    mpl_rebind(tape, &context, mpl_merge_heads(tape, mpl_op_transpose(tape, context, 1, 2)));
    *probs_out = probs;
    mpl_drop(tape, sum);
    mpl_drop(tape, scores);
    return context;
}

static struct mpl_tensor *attention(struct mpl_tape *tape, const struct layer *layer,
                                    struct mpl_tensor *x, struct mpl_tensor *residual,
                                    struct mpl_tensor **probs_out)
{
    const struct mpl_network *network = layer->base.lm->network;
    const struct mpl_model *m = &network->plan->model;
    struct mpl_tensor *argument = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    struct mpl_tensor *fused =
        mpl_hold(mpl_linear_call(tape, network, &layer->query_key_value, argument));
    struct mpl_tensor *qkv[3], *context, *out;

    split_heads(tape, m, fused, qkv);
    context = attend(tape, layer, qkv, probs_out);
    out = mpl_hold(mpl_linear_call(tape, network, &layer->dense, context));
    mpl_rebind(tape, &out, dropout_add(tape, out, residual, m->hidden_dropout));
    mpl_drop(tape, context);
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, qkv[i]);
    mpl_drop(tape, fused);
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(out));
}

/* BloomGelu: a module */
static struct mpl_tensor *gelu_call(struct mpl_tape *tape, struct mpl_tensor *x)
{
    x = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    return mpl_scope_leave(tape, MPL_NO_MODULE, gelu(tape, x));
}

static struct mpl_tensor *mlp(struct mpl_tape *tape, const struct layer *layer,
                              struct mpl_tensor *x, struct mpl_tensor *residual)
{
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_tensor *argument = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    struct mpl_tensor *h =
        mpl_hold(gelu_call(tape, mpl_linear_call(tape, network, &layer->up, argument)));
    struct mpl_tensor *fed = mpl_hold(mpl_linear_call(tape, network, &layer->down, h)), *out;

    out = dropout_add(tape, fed, residual, network->plan->model.hidden_dropout);
    mpl_drop(tape, fed);
    mpl_drop(tape, h);
    return mpl_scope_leave(tape, MPL_NO_MODULE, out);
}

/* The model's loop keeps the layer's result, a pair, until the next one is there. */
static void keep_outputs(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *out,
                         struct mpl_tensor *probs)
{
    if (tape->is_in_backward) { /* computed again: nobody takes the weights */
        mpl_drop(tape, probs);
        return;
    }
    mpl_rebind(tape, &lm->locals[LAST_HIDDEN], mpl_return(mpl_hold(out)));
    mpl_rebind(tape, &lm->locals[LAST_WEIGHTS], mpl_return(probs));
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct layer *layer = context;
    struct mpl_lm *lm = layer->base.lm;
    const struct mpl_network *network = lm->network;
    const bool is_after_norm = network->plan->model.residual_after_norm;
    struct mpl_tensor *normed = mpl_hold(mpl_norm_call(tape, network, &layer->input_norm, input));
    struct mpl_tensor *probs, *attended, *out;

    attended = mpl_hold(attention(tape, layer, normed, is_after_norm ? normed : input, &probs));
    mpl_rebind(tape, &normed, mpl_norm_call(tape, network, &layer->post_norm, attended));
    out = mpl_hold(mlp(tape, layer, normed, is_after_norm ? normed : attended));
    mpl_drop(tape, normed);
    mpl_drop(tape, attended);
    keep_outputs(tape, lm, out, probs);
    return mpl_return(out);
}

/* ---- around the layers ------------------------------------------------------------------------
 */

/* alibi [b * heads, 1, s] in dtype; held */
static struct mpl_tensor *make_alibi(struct mpl_tape *tape, struct mpl_lm *lm, enum mpl_dtype dtype)
{
    const int64_t count = lm->network->plan->model.num_attention_heads;
    const struct mpl_dim heads = mpl_dim(count), one = mpl_dim(1);
    const struct mpl_dim b = lm->input_ids->shape.dim[0], s = lm->input_ids->shape.dim[1];
    struct mpl_tensor *slopes = mpl_alibi_slopes(tape, count), *places, *alibi;

    if (!lm->attention_mask) {
        lm->locals[SLOPES] = slopes;
        places = mpl_hold_empty(tape, "arange.default", MPL_INT64, mpl_shape1(s));
        alibi = mpl_hold_empty(tape, "mul.Tensor", MPL_FLOAT32, mpl_shape3(heads, one, s));
        mpl_drop(tape, places);
        mpl_rebind(tape, &alibi,
                   mpl_op_to(tape,
                             mpl_return(mpl_hold_empty(tape, "repeat.default", MPL_FLOAT32,
                                                       mpl_shape3(mpl_dim_mul(b, heads), one, s))),
                             dtype));
        return alibi;
    }
    places = mpl_hold_empty(tape, "cumsum.default", MPL_INT64, mpl_shape2(b, s));
    mpl_rebind(tape, &places, mpl_op_map(tape, "sub.Tensor", MPL_INT64, places, NULL));
    mpl_rebind(tape, &places, mpl_op_map(tape, "mul.Tensor", MPL_INT64, places, NULL));
    alibi = mpl_hold_empty(tape, "mul.Tensor", MPL_FLOAT32, mpl_shape3(b, heads, s));
    mpl_rebind(tape, &alibi,
               mpl_op_to(tape,
                         mpl_op_reshape(tape, alibi, mpl_shape3(mpl_dim_mul(b, heads), one, s)),
                         dtype));
    mpl_drop(tape, places);
    mpl_drop(tape, slopes);
    return alibi;
}

static void describe_embedding(struct mpl_lm *lm)
{
    struct mpl_norm *norm = lm->extra = mpl_arena_zalloc(lm->network->arena, sizeof(*norm));

    if (norm)
        *norm = mpl_norm_add(lm->network, MPL_NORM_LAYER, "word_embeddings_layernorm",
                             lm->network->plan->model.hidden_size);
}

static void no_positions(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *mask)
{
    (void)tape;
    (void)mask;
    lm->positions = NULL;
}

static struct mpl_tensor *before_masks(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_tensor *embeds)
{
    struct mpl_tensor *h = mpl_norm_call(tape, lm->network, lm->extra, embeds);

    lm->positions = make_alibi(tape, lm, (enum mpl_dtype)h->dtype);
    return h;
}

static const struct mpl_lm_family family = {
    .base = "transformer",
    .embedding = "word_embeddings",
    .layers = "h",
    .norm = "ln_f",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER,
    .has_no_rotary = true,
    .has_plain_mask = true,
    .has_no_score = true,
    .layer_size = sizeof(struct layer),
    .layer_room = 12,
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
    .describe_embedding = describe_embedding,
    .make_positions = no_positions,
    .before_masks = before_masks,
    .extra_room = 2,
};

static void derive(struct mpl_plan *plan)
{
    plan->model.intermediate_size = 4 * plan->model.hidden_size;
}

static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    if (plan->training.attention != MPL_ATTENTION_EAGER)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/attention",
                        "training.attention: transformers has eager attention only for bloom, "
                        "expected eager");
    return MEMPLAN_OK;
}

static const struct mpl_config_key keys[] = {
    {"hidden_size", "n_embed", NULL},        {"num_hidden_layers", "n_layer", NULL},
    {"num_attention_heads", "n_head", NULL}, {"intermediate_size", NULL, "null"},
    {"tie_word_embeddings", NULL, "true"},   {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_bloom = {
    .config = {.model_type = "bloom",
               .has_scopes = true,
               .help = "BLOOM",
               .has_no_flex = true,
               .has_own_attention = true,
               .keys = keys,
               .attention = "\"eager\"",
               .derive = derive,
               .check = check},
    .family = &family,
};
