/* SPDX-License-Identifier: MIT */
/*
 * Attention of transformers' decoders: the interface (eager, sdpa) and the usual module around it.
 *
 * source: transformers/models/llama/modeling_llama.py (LlamaAttention, eager_attention_forward),
 * gpt2/modeling_gpt2.py, gptj, bert (softmax), gemma2/modeling_gemma2.py (softcap),
 * gpt_oss/modeling_gpt_oss.py (sinks), qwen3/modeling_qwen3.py (q_norm, k_norm),
 * integrations/sdpa_attention.py; releases 4.48.3 to 4.57.6, 5.24.0
 */
#include "part/attention.h"

#include "base/join.h"
#include "op/op.h"
#include "part/decoder.h"
#include "spec/text.h"

void mpl_attention_cap(struct mpl_tape *tape, struct mpl_tensor **scores)
{
    mpl_rebind(tape, scores, mpl_op_div_scalar(tape, *scores));
    mpl_rebind(tape, scores, mpl_op_tanh(tape, *scores));
    mpl_rebind(tape, scores, mpl_op_mul_number(tape, *scores));
}

struct mpl_tensor *mpl_repeat_kv(struct mpl_tape *tape, struct mpl_tensor *x, int64_t groups)
{
    struct mpl_shape wide, flat = x->shape;

    if (x->is_void || groups == 1)
        return mpl_return(mpl_hold(x));
    wide = (struct mpl_shape){
        5, {flat.dim[0], flat.dim[1], mpl_dim(groups), flat.dim[2], flat.dim[3]}};
    flat.dim[1].n *= groups;
    x = mpl_op_expand(tape, mpl_op_unsqueeze(tape, x, 2), wide);
    return mpl_op_reshape(tape, x, flat);
}

static int64_t groups_of(const struct mpl_attention_call *call)
{
    return call->q->is_void || call->k->is_void ? 1
                                                : call->q->shape.dim[1].n / call->k->shape.dim[1].n;
}

/* q times k transposed */
static struct mpl_tensor *multiply(struct mpl_tape *tape, struct mpl_tensor *q,
                                   struct mpl_tensor *k, bool is_wide)
{
    if (is_wide) {
        q = mpl_op_to(tape, q, MPL_FLOAT32);
        k = mpl_op_to(tape, k, MPL_FLOAT32);
    }
    return mpl_op_matmul(tape, q, mpl_op_transpose(tape, k, 2, 3));
}

/* *scores become weights. */
static void normalize(struct mpl_tape *tape, const struct mpl_attention_call *call,
                      struct mpl_tensor **scores)
{
    if (call->softmax == MPL_SOFTMAX_WIDE) {
        mpl_rebind(tape, scores,
                   mpl_op_to(tape, mpl_op_softmax(tape, *scores, MPL_FLOAT32),
                             (enum mpl_dtype)call->q->dtype));
        return;
    }
    if (call->softmax == MPL_SOFTMAX_CAST_AT_ONCE) {
        mpl_rebind(tape, scores,
                   mpl_op_to(tape, mpl_op_softmax(tape, *scores, MPL_DTYPE_NONE),
                             (enum mpl_dtype)call->v->dtype));
        return;
    }
    mpl_rebind(tape, scores, mpl_op_softmax(tape, *scores, MPL_DTYPE_NONE));
    if (call->softmax == MPL_SOFTMAX_CAST)
        mpl_rebind(tape, scores, mpl_op_to(tape, *scores, (enum mpl_dtype)call->v->dtype));
}

/* The sink joins the scores, their largest is taken off, and the softmax gives it up again. The
 * weights, floating; kept takes names that live until attention returns. */
static struct mpl_tensor *weights_with_sinks(struct mpl_tape *tape,
                                             const struct mpl_attention_call *call,
                                             struct mpl_tensor *scores, struct mpl_tensor *kept[2])
{
    struct mpl_tensor *sinks = call->sinks, *wide, *probs;
    struct mpl_shape column = scores->shape;

    if (scores->is_void)
        return scores;
    column.dim[3] = mpl_dim(1);
    wide = mpl_hold(mpl_op_expand(
        tape,
        mpl_op_reshape(tape, sinks,
                       mpl_shape4(mpl_dim(1), sinks->shape.dim[0], mpl_dim(1), mpl_dim(1))),
        column));
    kept[0] = mpl_hold(mpl_op_cat(tape, scores, wide, 3));
    mpl_rebind(tape, &kept[0], mpl_op_sub(tape, kept[0], mpl_op_max_last(tape, kept[0])));
    probs = mpl_op_softmax(tape, kept[0], (enum mpl_dtype)kept[0]->dtype);
    kept[1] = mpl_hold(mpl_op_slice_last(tape, probs, scores->shape.dim[3]));
    mpl_drop(tape, wide);
    return mpl_op_to(tape, mpl_op_dropout(tape, kept[1], call->dropout),
                     (enum mpl_dtype)call->v->dtype);
}

static struct mpl_tensor *eager(struct mpl_tape *tape, const struct mpl_attention_call *call,
                                struct mpl_tensor **weights_out)
{
    const int64_t groups = groups_of(call);
    struct mpl_tensor *keys = mpl_hold(mpl_repeat_kv(tape, call->k, groups));
    struct mpl_tensor *values = mpl_hold(mpl_repeat_kv(tape, call->v, groups)), *out;
    struct mpl_tensor *kept[2] = {NULL, NULL};
    struct mpl_tensor *scores =
        mpl_hold(mpl_op_mul_number(tape, multiply(tape, call->q, keys, call->is_wide)));

    if (call->is_capped)
        mpl_attention_cap(tape, &scores);
    if (call->mask)
        mpl_rebind(tape, &scores, mpl_op_add(tape, scores, call->mask));
    if (call->sinks) {
        mpl_rebind(tape, &scores, weights_with_sinks(tape, call, scores, kept));
    } else {
        normalize(tape, call, &scores);
        mpl_rebind(tape, &scores, mpl_op_dropout(tape, scores, call->dropout));
    }
    out = mpl_op_matmul(tape, scores, values);
    out = mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2));
    mpl_drop(tape, keys);
    mpl_drop(tape, values);
    mpl_drop(tape, kept[0]);
    mpl_drop(tape, kept[1]);
    *weights_out = scores;
    return out;
}

/* use_gqa_in_sdpa: grouped heads are left to the kernel; before 4.54 never */
static bool leaves_groups(const struct mpl_version *transformers,
                          const struct mpl_attention_call *call)
{
    if (!mpl_version_at_least(transformers, 4, 54, 0))
        return false;
    if (call->mask || call->k->is_void || call->v->is_void)
        return !call->mask;
    return call->k->shape.dim[3].n == call->v->shape.dim[3].n && call->k->shape.dim[3].n <= 256;
}

static struct mpl_tensor *sdpa(struct mpl_tape *tape, const struct mpl_version *transformers,
                               const struct mpl_attention_call *call)
{
    const int64_t groups = leaves_groups(transformers, call) ? 1 : groups_of(call);
    const struct mpl_sdpa_options options = {
        .mask = call->mask, .is_causal = call->is_causal, .dropout = call->dropout};
    struct mpl_tensor *queries = mpl_hold(mpl_return(mpl_hold(call->q)));
    struct mpl_tensor *keys = mpl_hold(mpl_repeat_kv(tape, call->k, groups));
    struct mpl_tensor *values = mpl_hold(mpl_repeat_kv(tape, call->v, groups)), *out;

    if (!mpl_version_at_least(transformers, 4, 56, 0)) { /* what the kernel takes is contiguous */
        mpl_rebind(tape, &queries, mpl_op_contiguous(tape, queries));
        mpl_rebind(tape, &keys, mpl_op_contiguous(tape, keys));
        mpl_rebind(tape, &values, mpl_op_contiguous(tape, values));
    }
    out = mpl_op_sdpa_with(tape, queries, keys, values, &options);
    out = mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2));
    mpl_drop(tape, queries);
    mpl_drop(tape, keys);
    mpl_drop(tape, values);
    return out;
}

/* flex_attention_forward: heads in groups are left to the kernel where their number is a power of
 * two. The log-sum-exp is returned in the place of weights. */
static struct mpl_tensor *flex(struct mpl_tape *tape, const struct mpl_attention_call *call,
                               struct mpl_tensor **weights_out)
{
    const int64_t heads = call->q->is_void ? 1 : call->q->shape.dim[1].n;
    const int64_t groups = heads & (heads - 1) ? groups_of(call) : 1;
    struct mpl_tensor *keys = mpl_hold(mpl_repeat_kv(tape, call->k, groups));
    struct mpl_tensor *values = mpl_hold(mpl_repeat_kv(tape, call->v, groups)), *sums, *out;

    out = mpl_hold(mpl_op_flex_attention(tape, call->q, keys, values, call->mask, &sums));
    mpl_hold(sums);
    *weights_out = mpl_hold(mpl_op_to(tape, sums, (enum mpl_dtype)values->dtype));
    mpl_rebind(tape, &out, mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2)));
    mpl_drop(tape, keys);
    mpl_drop(tape, values);
    mpl_drop(tape, sums);
    return mpl_return(out);
}

static struct mpl_tensor *attend(struct mpl_tape *tape, const struct mpl_plan *plan,
                                 const struct mpl_attention_call *call,
                                 struct mpl_tensor **weights_out)
{
    *weights_out = NULL;
    if (mpl_is_flash(plan->training.attention))
        return mpl_flash_attention(tape, plan, call);
    if (plan->training.attention == MPL_ATTENTION_FLEX)
        return flex(tape, call, weights_out);
    return plan->training.attention == MPL_ATTENTION_EAGER ? eager(tape, call, weights_out)
                                                           : sdpa(tape, &plan->transformers, call);
}

/* What is checkpointed of one layer: it outlives the layer's forward. */
struct core {
    const struct mpl_plan *plan;
    struct mpl_attention_call call;
};

static struct mpl_tensor *core_forward(struct mpl_tape *tape, void *context,
                                       struct mpl_tensor *input)
{
    const struct core *core = context;
    struct mpl_tensor *weights, *out = mpl_hold(attend(tape, core->plan, &core->call, &weights));

    (void)input; /* the queries, which the call has too */
    mpl_drop(tape, weights);
    return mpl_return(out);
}

/* checkpoint(attention without its weights, query, key, value, attention_mask), as Megatron's
 * _checkpointed_attention_forward has it: only the arguments stay. */
static struct mpl_tensor *checkpointed(struct mpl_tape *tape, const struct mpl_plan *plan,
                                       const struct mpl_attention_call *call)
{
    struct core *core = mpl_arena_zalloc(&tape->arena, sizeof(*core));

    if (!core) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return tape->void_tensor;
    }
    *core = (struct core){.plan = plan, .call = *call};
    return mpl_checkpoint_many(tape, core_forward, core,
                               (struct mpl_tensor * *const[MPL_MAX_KWARGS]){
                                   &core->call.q, &core->call.k, &core->call.v, &core->call.mask});
}

struct mpl_tensor *mpl_attention_interface(struct mpl_tape *tape, const struct mpl_plan *plan,
                                           const struct mpl_attention_call *call,
                                           struct mpl_tensor **weights_out)
{
    if (plan->training.activation_checkpointing != MPL_CHECKPOINTING_CORE_ATTENTION ||
        !tape->is_grad_enabled)
        return attend(tape, plan, call, weights_out);
    *weights_out = NULL;
    return checkpointed(tape, plan, call);
}

struct mpl_tensor *mpl_merge_heads(struct mpl_tape *tape, struct mpl_tensor *x)
{
    if (x->is_void)
        return x;
    return mpl_op_reshape(tape, x,
                          mpl_shape3(x->shape.dim[0], x->shape.dim[1],
                                     mpl_dim_mul(x->shape.dim[2], x->shape.dim[3])));
}

struct mpl_attention_module mpl_attention_add(struct mpl_network *network, const char *name,
                                              bool has_qkv_bias, bool has_o_bias)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size;
    struct mpl_attention_module module = {
        .q_norm.weight = MPL_NO_PARAMETER,
        .k_norm.weight = MPL_NO_PARAMETER,
        .heads = m->num_attention_heads,
        .kv_heads = m->num_key_value_heads,
        .head_dim = m->head_dim,
    };
    char path[64];

    mpl_join(path, sizeof(path), (const char *[]){name, ".q_proj"}, 2);
    module.q = mpl_linear_add(network, path, module.heads * module.head_dim, h, has_qkv_bias);
    mpl_join(path, sizeof(path), (const char *[]){name, ".k_proj"}, 2);
    module.k = mpl_linear_add(network, path, module.kv_heads * module.head_dim, h, has_qkv_bias);
    mpl_join(path, sizeof(path), (const char *[]){name, ".v_proj"}, 2);
    module.v = mpl_linear_add(network, path, module.kv_heads * module.head_dim, h, has_qkv_bias);
    mpl_join(path, sizeof(path), (const char *[]){name, ".o_proj"}, 2);
    module.o = mpl_linear_add(network, path, h, module.heads * module.head_dim, has_o_bias);
    return module;
}

static bool is_normed(const struct mpl_norm *norm, enum mpl_qk_norm_place place,
                      const struct mpl_attention_module *module)
{
    return norm && norm->weight != MPL_NO_PARAMETER && module->norm_place == place;
}

/* One of q, k, v; norm NULL: none. */
struct projection {
    const struct mpl_linear *linear;
    const struct mpl_norm *norm;
    int64_t heads;
};

/* norm(proj(x).view(b, s, heads, d)).transpose(1, 2); held */
static struct mpl_tensor *project(struct mpl_tape *tape, const struct mpl_network *network,
                                  const struct mpl_attention_module *module,
                                  const struct projection *p, struct mpl_tensor *x)
{
    struct mpl_tensor *out = mpl_linear_call(tape, network, p->linear, x);
    const struct mpl_norm *norm = p->norm;
    const int64_t heads = p->heads, d = out->is_void ? 1 : out->shape.dim[2].n / heads;

    if (module->clip > 0)
        return mpl_hold(out); /* cut into heads later */
    if (is_normed(norm, MPL_QK_NORM_WHOLE, module))
        out = mpl_norm_call(tape, network, norm, out);
    if (is_normed(norm, MPL_QK_NORM_BY_HEAD, module) && !out->is_void) {
        out = mpl_op_reshape(
            tape, out,
            mpl_shape4(out->shape.dim[0], out->shape.dim[1], mpl_dim(heads), mpl_dim(d)));
        out = mpl_op_transpose(tape, mpl_norm_call(tape, network, norm, out), 1, 2);
    } else {
        out = mpl_split_heads(tape, out, heads, d);
    }
    return mpl_hold(out);
}

/* x = norm(x), by head, on [b, s, heads, d] (cohere) or on [b, heads, s, d] (gemma3) */
static void norm_late(struct mpl_tape *tape, const struct mpl_network *network,
                      const struct mpl_attention_module *module, const struct mpl_norm *norm,
                      struct mpl_tensor **x)
{
    if (is_normed(norm, MPL_QK_NORM_TRANSPOSED, module)) {
        mpl_rebind(tape, x, mpl_norm_call(tape, network, norm, *x));
    } else if (is_normed(norm, MPL_QK_NORM_LATE, module) && !(*x)->is_void) {
        mpl_rebind(tape, x, mpl_op_transpose(tape, *x, 1, 2));
        mpl_rebind(tape, x, mpl_norm_call(tape, network, norm, *x));
        mpl_rebind(tape, x, mpl_op_transpose(tape, *x, 1, 2));
    }
}

/* x.clamp_() for each of the three, then their heads */
static void clip(struct mpl_tape *tape, const struct mpl_attention_module *module,
                 struct mpl_attention_call *call)
{
    struct mpl_tensor **const names[] = {&call->q, &call->k, &call->v};

    for (int i = 0; i < 3; i++)
        mpl_rebind(tape, names[i], mpl_op_clamp_in_place(tape, *names[i]));
    for (int i = 0; i < 3; i++)
        mpl_rebind(tape, names[i],
                   mpl_split_heads(tape, *names[i], i ? module->kv_heads : module->heads,
                                   module->head_dim));
}

/* q_proj, k_proj, v_proj; call takes the held names */
static void project_all(struct mpl_tape *tape, const struct mpl_network *network,
                        const struct mpl_attention_module *module, struct mpl_tensor *x,
                        struct mpl_attention_call *call)
{
    const struct projection q = {&module->q, &module->q_norm, module->heads};
    const struct projection k = {&module->k, &module->k_norm, module->kv_heads};
    const struct projection v = {&module->v, NULL, module->kv_heads};

    call->q = project(tape, network, module, &q, x);
    call->k = project(tape, network, module, &k, x);
    call->v = project(tape, network, module, &v, x);
    if (module->clip > 0)
        clip(tape, module, call);
    norm_late(tape, network, module, &module->q_norm, &call->q);
    norm_late(tape, network, module, &module->k_norm, &call->k);
}

/* qkv = qkv_proj(x), then slices of it; the name qkv stays */
static struct mpl_tensor *split_joined(struct mpl_tape *tape, const struct mpl_network *network,
                                       const struct mpl_attention_module *module,
                                       struct mpl_tensor *x, struct mpl_attention_call *call)
{
    const struct mpl_dim q_width = mpl_dim(module->heads * module->head_dim);
    const struct mpl_dim k_width = mpl_dim(module->kv_heads * module->head_dim);
    struct mpl_tensor *qkv = mpl_hold(mpl_linear_call(tape, network, &module->q, x));
    struct mpl_tensor *q = mpl_op_slice_last(tape, qkv, q_width);
    struct mpl_tensor *k = mpl_op_slice_last(tape, qkv, k_width);
    struct mpl_tensor *v = mpl_op_slice_last(tape, qkv, k_width);

    call->q = mpl_hold(mpl_split_heads(tape, q, module->heads, module->head_dim));
    call->k = mpl_hold(mpl_split_heads(tape, k, module->kv_heads, module->head_dim));
    call->v = mpl_hold(mpl_split_heads(tape, v, module->kv_heads, module->head_dim));
    return qkv;
}

/* rotary_emb of the layer itself */
static void past_rotary(struct mpl_tape *tape, struct mpl_attention_call *call,
                        enum mpl_rotary_kind kind, struct mpl_past_tables *tables,
                        struct mpl_rotary_parts *parts)
{
    struct mpl_rotary_call rotary = {.kind = mpl_past_rotary_kind(kind)};

    mpl_past_tables_make(tape, call->past, call->v, tables);
    rotary.cos = tables->cos;
    rotary.sin = tables->sin;
    mpl_rotary_apply(tape, &rotary, &call->q, &call->k, parts);
    mpl_past_tables_applied(tape, call->past, tables);
}

struct mpl_tensor *mpl_attention_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                         const struct mpl_attention_module *module,
                                         struct mpl_tensor *x, const struct mpl_attention_call *how,
                                         struct mpl_tensor *cos, struct mpl_tensor *sin,
                                         struct mpl_tensor **weights_out)
{
    const struct mpl_rotary_call rotary = {module->rotary, cos, sin};
    struct mpl_past_tables tables = {.cos = NULL};
    struct mpl_rotary_parts parts = {{NULL}};
    struct mpl_attention_call call = *how;
    struct mpl_tensor *out, *joined = NULL;

    mpl_scope_enter(tape, MPL_NO_MODULE, NULL);
    if (module->is_joined)
        joined = split_joined(tape, network, module, x, &call);
    else
        project_all(tape, network, module, x, &call);
    if (call.past && !cos)
        past_rotary(tape, &call, module->rotary, &tables, &parts);
    else if (cos)
        mpl_rotary_apply(tape, &rotary, &call.q, &call.k, &parts);
    out = call.past ? mpl_past_attention(tape, network->plan, &call, weights_out)
                    : mpl_attention_interface(tape, network->plan, &call, weights_out);
    out = mpl_hold(mpl_merge_heads(tape, out));
    mpl_rebind(tape, &out, mpl_linear_call(tape, network, &module->o, out));
    mpl_rebind(tape, &out, mpl_op_dropout(tape, out, module->out_dropout));
    for (int i = 0; i < 4; i++)
        mpl_drop(tape, parts.part[i]);
    mpl_past_tables_drop(tape, &tables);
    if (call.past) { /* attn_weights = None */
        mpl_drop(tape, *weights_out);
        *weights_out = NULL;
    }
    mpl_drop(tape, joined);
    mpl_drop(tape, call.q);
    mpl_drop(tape, call.k);
    mpl_drop(tape, call.v);
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(out));
}
