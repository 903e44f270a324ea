/* SPDX-License-Identifier: MIT */
/*
 * EAGLE's drafter: its forward.
 *
 * source: github.com/SafeAILab/EAGLE, commit cb7e0841: eagle/model/cnets1.py
 */
#include "arch/eagle.h"
#include "part/decoder.h"

static struct mpl_tensor *make(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               struct mpl_shape shape)
{
    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/* ---- masks ------------------------------------------------------------------------------------
 */

/* _make_causal_mask: float32 [length, length]; held */
static struct mpl_tensor *causal_mask(struct mpl_tape *tape, const struct mpl_eagle *e)
{
    const struct mpl_shape square = mpl_shape2(e->length, e->length), row = mpl_shape1(e->length);
    struct mpl_tensor *mask = make(tape, "full.default", MPL_FLOAT32, square);
    struct mpl_tensor *places = make(tape, "arange.default", MPL_INT64, row);
    struct mpl_tensor *next = make(tape, "add.Tensor", MPL_INT64, row);
    struct mpl_tensor *before = make(tape, "lt.Tensor", MPL_BOOL, square);

    mpl_drop(tape, next);
    mpl_drop(tape, before);
    mpl_drop(tape, places);
    return mask;
}

/* _expand_mask of the attention mask: float32 [batch, 1, length, length]; held */
static struct mpl_tensor *padding_mask(struct mpl_tape *tape, const struct mpl_eagle *e)
{
    const struct mpl_shape all = mpl_shape4(e->batch, mpl_dim(1), e->length, e->length);
    struct mpl_tensor *expanded = make(tape, "_to_copy.default", MPL_FLOAT32, all);
    struct mpl_tensor *inverted = make(tape, "rsub.Scalar", MPL_FLOAT32, all);
    struct mpl_tensor *where = make(tape, "_to_copy.default", MPL_BOOL, all);
    struct mpl_tensor *mask = make(tape, "masked_fill.Scalar", MPL_FLOAT32, all);

    mpl_drop(tape, where);
    mpl_drop(tape, expanded);
    mpl_drop(tape, inverted);
    return mask;
}

/* _prepare_decoder_attention_mask: float32 whatever autocast does; held */
static struct mpl_tensor *make_mask(struct mpl_tape *tape, const struct mpl_eagle *e)
{
    const struct mpl_shape all = mpl_shape4(e->batch, mpl_dim(1), e->length, e->length);
    struct mpl_tensor *causal = causal_mask(tape, e), *padding = padding_mask(tape, e);
    struct mpl_tensor *mask = make(tape, "add.Tensor", MPL_FLOAT32, all);

    mpl_drop(tape, causal);
    mpl_drop(tape, padding);
    return mask;
}

/* ---- attention --------------------------------------------------------------------------------
 */

/* cos_cached[:, :, :seq_len].to(dtype): [1, 1, length, head_dim]; held */
static struct mpl_tensor *table(struct mpl_tape *tape, const struct mpl_eagle *e, uint32_t buffer,
                                enum mpl_dtype dtype)
{
    const struct mpl_shape shape =
        mpl_shape4(mpl_dim(1), mpl_dim(1), e->length, mpl_dim(e->head_dim));

    return dtype == MPL_FLOAT32 ? mpl_hold(mpl_network_weight(e->network, buffer))
                                : make(tape, "_to_copy.default", dtype, shape);
}

/* apply_rotary_pos_emb, which looks positions up in its copies of the tables. */
static void rotate(struct mpl_tape *tape, const struct mpl_eagle *e, struct mpl_tensor **q,
                   struct mpl_tensor **k)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)(*q)->dtype;
    const struct mpl_shape shape =
        mpl_shape4(mpl_dim(1), mpl_dim(1), e->length, mpl_dim(e->head_dim));
    struct mpl_tensor *cos = make(tape, "index.Tensor", dtype, shape);
    struct mpl_tensor *sin = make(tape, "index.Tensor", dtype, shape), *q_embed, *k_embed;

    q_embed = mpl_hold(mpl_rotate(tape, *q, cos, sin));
    k_embed = mpl_hold(mpl_rotate(tape, *k, cos, sin));
    mpl_drop(tape, cos);
    mpl_drop(tape, sin);
    mpl_rebind(tape, q, mpl_return(q_embed));
    mpl_rebind(tape, k, mpl_return(k_embed));
}

/* repeat_kv: [b, heads, s, d] from [b, kv, s, d] */
static void repeat_heads(struct mpl_tape *tape, const struct mpl_eagle *e, struct mpl_tensor **x)
{
    struct mpl_shape wide = {.ndim = 5};
    struct mpl_tensor *spread;

    if (e->heads == e->kv_heads || (*x)->is_void)
        return;
    spread = mpl_op_unsqueeze(tape, *x, 2);
    wide.dim[0] = e->batch;
    wide.dim[1] = mpl_dim(e->kv_heads);
    wide.dim[2] = mpl_dim(e->heads / e->kv_heads);
    wide.dim[3] = e->length;
    wide.dim[4] = mpl_dim(e->head_dim);
    spread = mpl_op_expand(tape, spread, wide);
    mpl_rebind(
        tape, x,
        mpl_op_reshape(tape, spread,
                       mpl_shape4(e->batch, mpl_dim(e->heads), e->length, mpl_dim(e->head_dim))));
}

static struct mpl_tensor *project(struct mpl_tape *tape, const struct mpl_eagle *e,
                                  struct mpl_tensor *x, uint32_t weight, uint32_t bias)
{
    struct mpl_tensor *out;

    x = mpl_hold(x); /* nn.Linear.forward's argument, while it runs */
    out = mpl_op_linear(tape, x, mpl_eagle_weight(e, weight), mpl_eagle_weight(e, bias));
    mpl_drop(tape, x);
    return out;
}

/* softmax(q k / sqrt(d) + mask, float32) in the format of q: [b, heads, s, s]; held */
static struct mpl_tensor *scores(struct mpl_tape *tape, struct mpl_tensor *q, struct mpl_tensor *k,
                                 struct mpl_tensor *mask)
{
    struct mpl_tensor *weights = mpl_hold(mpl_op_matmul(tape, q, mpl_op_transpose(tape, k, 2, 3)));

    mpl_rebind(tape, &weights, mpl_op_div_scalar(tape, weights));
    mpl_rebind(tape, &weights, mpl_op_add(tape, weights, mask));
    mpl_rebind(
        tape, &weights,
        mpl_op_to(tape, mpl_op_softmax(tape, weights, MPL_FLOAT32), (enum mpl_dtype)q->dtype));
    return weights;
}

/* LlamaAttention.forward of a held x; floating. */
static struct mpl_tensor *attention(struct mpl_tape *tape, const struct mpl_eagle_layer *layer,
                                    struct mpl_tensor *x)
{
    const struct mpl_eagle *e = layer->eagle;
    struct mpl_tensor *q = mpl_hold(project(tape, e, x, layer->q, layer->q_bias));
    struct mpl_tensor *k = mpl_hold(project(tape, e, x, layer->k, layer->k_bias));
    struct mpl_tensor *v = mpl_hold(project(tape, e, x, layer->v, layer->v_bias));
    struct mpl_tensor *cos, *sin, *weights, *out;

    mpl_rebind(tape, &q, mpl_split_heads(tape, q, e->heads, e->head_dim));
    mpl_rebind(tape, &k, mpl_split_heads(tape, k, e->kv_heads, e->head_dim));
    mpl_rebind(tape, &v, mpl_split_heads(tape, v, e->kv_heads, e->head_dim));
    cos = table(tape, e, layer->cos, (enum mpl_dtype)v->dtype);
    sin = table(tape, e, layer->sin, (enum mpl_dtype)v->dtype);
    rotate(tape, e, &q, &k);
    repeat_heads(tape, e, &k);
    repeat_heads(tape, e, &v);
    weights = scores(tape, q, k, layer->mask);
    out = mpl_hold(mpl_op_matmul(tape, weights, v));
    mpl_rebind(tape, &out, mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2)));
    mpl_rebind(tape, &out, mpl_op_reshape(tape, out, mpl_eagle_shape(e, e->hidden)));
    mpl_rebind(tape, &out, project(tape, e, out, layer->o, MPL_NO_PARAMETER));
    mpl_drop(tape, weights); /* attn_weights = None */
    mpl_drop(tape, q);
    mpl_drop(tape, k);
    mpl_drop(tape, v);
    mpl_drop(tape, cos);
    mpl_drop(tape, sin);
    return mpl_return(out);
}

/* ---- layer ------------------------------------------------------------------------------------
 */

static struct mpl_tensor *mlp(struct mpl_tape *tape, const struct mpl_eagle_layer *layer,
                              struct mpl_tensor *x)
{
    const struct mpl_eagle *e = layer->eagle;
    struct mpl_tensor *gate = mpl_op_silu(tape, project(tape, e, x, layer->gate, MPL_NO_PARAMETER));
    struct mpl_tensor *up = project(tape, e, x, layer->up, MPL_NO_PARAMETER);

    return project(tape, e, mpl_op_mul(tape, gate, up), layer->down, MPL_NO_PARAMETER);
}

struct mpl_tensor *mpl_eagle_layer_forward(struct mpl_tape *tape, void *context,
                                           struct mpl_tensor *input)
{
    const struct mpl_eagle_layer *layer = context;
    const struct mpl_eagle *e = layer->eagle;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input)));
    struct mpl_tensor *h = mpl_hold(mpl_return(mpl_hold(input)));

    if (layer->input_norm != MPL_NO_PARAMETER)
        mpl_rebind(tape, &h, mpl_rms_norm(tape, mpl_eagle_weight(e, layer->input_norm), h));
    mpl_rebind(tape, &h, attention(tape, layer, h));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_rebind(tape, &residual, mpl_return(mpl_hold(h)));
    mpl_rebind(tape, &h, mpl_rms_norm(tape, mpl_eagle_weight(e, layer->post_norm), h));
    mpl_rebind(tape, &h, mlp(tape, layer, h));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_drop(tape, residual);
    return mpl_return(h);
}

/* ---- model ------------------------------------------------------------------------------------
 */

/* torch.utils.checkpoint of the layer: hidden states, mask and positions are its arguments. */
static struct mpl_tensor *call_layer(struct mpl_tape *tape, struct mpl_eagle_layer *layer,
                                     struct mpl_tensor *h, struct mpl_tensor *mask,
                                     struct mpl_tensor *positions)
{
    struct mpl_tensor **const names[MPL_MAX_KWARGS] = {&layer->input, &layer->mask,
                                                       &layer->positions};

    layer->input = h;
    layer->mask = mask;
    layer->positions = positions;
    return mpl_checkpoint_many(tape, mpl_eagle_layer_forward, layer, names);
}

struct mpl_tensor *mpl_eagle_forward(struct mpl_tape *tape, struct mpl_network *network,
                                     struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_eagle *e = network->family;
    struct mpl_tensor *embeds, *positions, *mask, *h;

    (void)batch; /* the drafter has a batch of its own */
    *logits_out = NULL;
    tape->is_grad_enabled = false;
    embeds = mpl_hold(mpl_op_embedding(tape, mpl_eagle_weight(e, e->embed), e->data.input_ids));
    tape->is_grad_enabled = true;
    positions = make(tape, "arange.start", MPL_INT64, mpl_shape1(e->length));
    mask = make_mask(tape, e);
    h = mpl_op_cat(tape, embeds, e->data.hidden_states, 2);
    h = mpl_hold(project(tape, e, h, e->fc, e->fc_bias));
    for (int64_t i = 0; i < e->layer_count && !tape->is_stopped; i++)
        mpl_rebind(tape, &h, call_layer(tape, &e->layers[i], h, mask, positions));
    mpl_drop(tape, positions);
    mpl_drop(tape, mask);
    mpl_drop(tape, embeds);
    return mpl_return(h);
}
