/* SPDX-License-Identifier: MIT */
/* source: transformers/models/gptj/modeling_gptj.py, configuration_gptj.py; release 5.24.0 */
#include "arch/arch.h"
#include "op/op.h"
#include "part/causal_lm.h"
#include "part/decoder.h"

struct layer {
    struct mpl_lm_layer base;
    struct mpl_norm ln_1;
    struct mpl_linear k, v, q, out;
    struct mpl_plain_mlp mlp;
};

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;
    struct layer *layer = (struct layer *)base;

    layer->ln_1 = mpl_norm_add(network, MPL_NORM_LAYER, "ln_1", h);
    layer->k = mpl_linear_add(network, "attn.k_proj", h, h, false);
    layer->v = mpl_linear_add(network, "attn.v_proj", h, h, false);
    layer->q = mpl_linear_add(network, "attn.q_proj", h, h, false);
    layer->out = mpl_linear_add(network, "attn.out_proj", h, h, false);
    layer->mlp.up = mpl_linear_add(network, "mlp.fc_in", m->intermediate_size, h, true);
    layer->mlp.down = mpl_linear_add(network, "mlp.fc_out", h, m->intermediate_size, true);
}

/* repeat_interleave(table[:, :, None, :], 2, 3): half a table to [1, s, 1, rotary_dim]; held */
static struct mpl_tensor *repeat_twice(struct mpl_tape *tape, const struct mpl_lm *lm)
{
    const struct mpl_tensor *table = lm->cos;
    struct mpl_shape shape;

    if (table->is_void)
        return mpl_hold(tape->void_tensor);
    shape = mpl_shape4(mpl_dim(1), table->shape.dim[1], mpl_dim(1), mpl_dim(lm->rotary_dim));
    return mpl_hold(mpl_empty(tape, "clone.default", (enum mpl_dtype)table->dtype, &shape));
}

/* tensor * cos + rotate_every_two(tensor) * sin, of [b, s, heads, rotary_dim] */
static struct mpl_tensor *rotate(struct mpl_tape *tape, const struct mpl_lm *lm,
                                 struct mpl_tensor *x)
{
    const struct mpl_dim half = mpl_dim(lm->rotary_dim / 2);
    struct mpl_tensor *sin = repeat_twice(tape, lm), *cos = repeat_twice(tape, lm);
    struct mpl_tensor *straight = mpl_op_mul(tape, x, cos), *x1, *x2, *turned, *out;

    x1 = mpl_hold(mpl_op_slice_last(tape, x, half));
    x2 = mpl_hold(mpl_op_slice_last(tape, x, half));
    turned = mpl_op_interleave(tape, mpl_op_neg(tape, x2), x1);
    mpl_drop(tape, x1);
    mpl_drop(tape, x2);
    out = mpl_op_add(tape, straight, mpl_op_mul(tape, turned, sin));
    mpl_drop(tape, sin);
    mpl_drop(tape, cos);
    return out;
}

/* proj(x).view(b, s, heads, d); held */
static struct mpl_tensor *project(struct mpl_tape *tape, const struct mpl_network *network,
                                  const struct mpl_linear *linear, struct mpl_tensor *x)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_tensor *out = mpl_linear_call(tape, network, linear, x);

    if (out->is_void)
        return mpl_hold(out);
    return mpl_hold(
        mpl_op_reshape(tape, out,
                       mpl_shape4(out->shape.dim[0], out->shape.dim[1],
                                  mpl_dim(m->num_attention_heads), mpl_dim(m->head_dim))));
}

/* Names that live until attention returns: of keys, of queries. */
struct parts {
    struct mpl_tensor *rot[2], *pass[2];
};

static void turn(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_attention_call *call,
                 struct parts *parts)
{
    struct mpl_tensor **const states[2] = {&call->k, &call->q};
    const int64_t dim = lm->rotary_dim, rest = lm->network->plan->model.head_dim - dim;

    for (int i = 0; i < 2; i++) {
        parts->rot[i] = mpl_hold(rest ? mpl_op_slice_last(tape, *states[i], mpl_dim(dim))
                                      : mpl_return(mpl_hold(*states[i])));
        parts->pass[i] = mpl_hold(mpl_op_slice_last(tape, *states[i], mpl_dim(rest)));
    }
    for (int i = 0; i < 2; i++)
        mpl_rebind(tape, &parts->rot[i], rotate(tape, lm, parts->rot[i]));
    for (int i = 0; i < 2; i++)
        mpl_rebind(tape, states[i], mpl_op_cat(tape, parts->rot[i], parts->pass[i], 3));
    mpl_rebind(tape, &call->q, mpl_op_transpose(tape, call->q, 1, 2));
    mpl_rebind(tape, &call->k, mpl_op_transpose(tape, call->k, 1, 2));
}

static struct mpl_tensor *attention(struct mpl_tape *tape, const struct layer *layer,
                                    struct mpl_tensor *x, struct mpl_tensor **weights_out)
{
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_attention_call call = mpl_lm_attention_call(&layer->base);
    struct parts parts;
    struct mpl_tensor *out;

    mpl_scope_enter(tape, MPL_NO_MODULE, NULL);
    call.is_wide = true;
    call.softmax = MPL_SOFTMAX_CAST_AT_ONCE;
    call.q = project(tape, network, &layer->q, x);
    call.k = project(tape, network, &layer->k, x);
    call.v = project(tape, network, &layer->v, x);
    mpl_rebind(tape, &call.v, mpl_op_transpose(tape, call.v, 1, 2));
    turn(tape, layer->base.lm, &call, &parts);
    out = mpl_attention_interface(tape, network->plan, &call, weights_out);
    out = mpl_hold(mpl_merge_heads(tape, out));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &layer->out, out));
    mpl_rebind(tape, &out, mpl_dropout_call(tape, out, network->plan->model.hidden_dropout));
    for (int i = 0; i < 2; i++) {
        mpl_drop(tape, parts.rot[i]);
        mpl_drop(tape, parts.pass[i]);
    }
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(out));
}

static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct layer *layer = context;
    const struct mpl_network *network = layer->base.lm->network;
    struct mpl_tensor *h = mpl_hold(mpl_norm_call(tape, network, &layer->ln_1, input));
    struct mpl_tensor *weights = NULL, *fed, *out;
    struct mpl_tensor *attended = mpl_hold(attention(tape, layer, h, &weights));

    fed = mpl_hold(mpl_plain_mlp_forward(tape, network, &layer->mlp, h));
    mpl_rebind(tape, &fed, mpl_dropout_call(tape, fed, network->plan->model.hidden_dropout));
    out = mpl_op_add(tape, mpl_op_add(tape, attended, fed), input);
    mpl_drop(tape, h);
    mpl_drop(tape, fed);
    mpl_drop(tape, attended);
    mpl_drop(tape, weights);
    return out;
}

static struct mpl_tensor *enter(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *h)
{
    return mpl_dropout_call(tape, h, lm->network->plan->model.embedding_dropout);
}

/* sin and cos are halves of one tensor: embed_positions[position_ids].to(dtype) */
static void make_rotary(struct mpl_tape *tape, struct mpl_lm *lm, const struct mpl_tensor *h)
{
    struct mpl_shape shape;
    struct mpl_tensor *rows;

    if (h->is_void) {
        lm->cos = mpl_hold(tape->void_tensor);
        return;
    }
    shape = mpl_shape3(mpl_dim(1), h->shape.dim[1], mpl_dim(lm->rotary_dim));
    rows = mpl_empty(tape, "index.Tensor", MPL_FLOAT32, &shape);
    lm->cos = mpl_hold(mpl_op_to(tape, rows, (enum mpl_dtype)h->dtype));
}

static void describe_end(struct mpl_lm *lm)
{
    const struct mpl_model *m = &lm->network->plan->model;

    mpl_network_add_buffer(
        lm->network, "transformer.rotary_emb.embed_positions",
        mpl_shape2(mpl_dim(m->max_position_embeddings), mpl_dim(lm->rotary_dim)));
}

static const struct mpl_lm_family family = {
    .base = "transformer",
    .embedding = "wte",
    .layers = "h",
    .norm = "ln_f",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER,
    .has_head_bias = true,
    .has_no_rotary = true,
    .has_no_score = true,
    .layer_size = sizeof(struct layer),
    .layer_room = 10,
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
    .describe_end = describe_end,
    .enter = enter,
    .make_rotary = make_rotary,
    .extra_room = 1,
};

static void derive(struct mpl_plan *plan)
{
    if (!plan->model.intermediate_size)
        plan->model.intermediate_size = 4 * plan->model.hidden_size;
}

static const struct mpl_config_key keys[] = {
    {"hidden_size", "n_embd", NULL},
    {"num_hidden_layers", "n_layer", NULL},
    {"num_attention_heads", "n_head", NULL},
    {"intermediate_size", "n_inner", "null"},
    {"max_position_embeddings", "n_positions", "2048"},
    {"hidden_act", "activation_function", "\"gelu_new\""},
    {"attention_dropout", "attn_pdrop", "0.0"},
    {"hidden_dropout", "resid_pdrop", "0.0"},
    {"embedding_dropout", "embd_pdrop", "0.0"},
    {"rotary_dim", NULL, "64"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_gptj = {
    .config = {.model_type = "gptj",
               .has_scopes = true,
               .help = "GPT-J",
               .has_position_table = true,
               .keys = keys,
               .derive = derive},
    .family = &family,
};
