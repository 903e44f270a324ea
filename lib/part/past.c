/* SPDX-License-Identifier: MIT */
/*
 * What families did otherwise in transformers 4.40 to 4.47: what is refused, rotary tables of a
 * layer, attention inside the module.
 *
 * source: transformers/models/llama/modeling_llama.py (LlamaRotaryEmbedding, LlamaAttention,
 * LlamaSdpaAttention), mistral/modeling_mistral.py (MistralRotaryEmbedding), releases 4.40.2 to
 * 4.47.1
 */
#include "part/past.h"

#include "base/fail.h"
#include "op/op.h"
#include "part/attention.h"
#include "spec/gap.h"
#include "spec/text.h"

#define FIRST_MINOR 40
#define LAST_MINOR  47

bool mpl_past_is(const struct mpl_version *transformers)
{
    return transformers->major == 4 && transformers->minor >= FIRST_MINOR &&
           transformers->minor <= LAST_MINOR;
}

bool mpl_past_has(const struct mpl_past_run *run, uint8_t since)
{
    return since && run->minor >= since;
}

/* ---- refusals --------------------------------------------------------------------------------
 */

static enum memplan_status check_family(const struct mpl_plan *plan, const struct mpl_past *facts,
                                        struct memplan_error *err)
{
    if (!facts->first && mpl_past_is(&plan->transformers))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/software/transformers",
                        "software.transformers: %s is modelled from 4.48 on, found %s",
                        plan->model.model_type, plan->transformers.text);
    if (plan->transformers.minor < facts->first)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/software/transformers",
                        "software.transformers: %s came with 4.%d, found %s",
                        plan->model.model_type, facts->first, plan->transformers.text);
    if (plan->training.attention == MPL_ATTENTION_SDPA && plan->transformers.minor < facts->sdpa)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/attention",
                        "training.attention: transformers has sdpa for %s from 4.%d on, found %s "
                        "with %s",
                        plan->model.model_type, facts->sdpa, "sdpa", plan->transformers.text);
    return MEMPLAN_OK;
}

enum memplan_status mpl_past_check(const struct mpl_plan *plan, const struct mpl_past *facts,
                                   struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_past_run run = {.facts = facts, .minor = plan->transformers.minor};
    const bool has_function = mpl_past_has(&run, facts->loss_function);
    const bool has_tables = !mpl_past_has(&run, facts->position_rotary);
    const struct mpl_model *m = &plan->model;
    const bool is_flash = t->attention == MPL_ATTENTION_FLASH_2;
    const bool is_static = m->rope_type == MPL_ROPE_STATIC;
    const struct mpl_gap gaps[] = {
        {is_flash && facts->flash == MPL_PAST_FLASH_NONE, "/training/attention",
         "training.attention: this family has flash_attention_2 in newer releases of transformers"},
        {is_flash && facts->flash == MPL_PAST_FLASH_BARE && t->autocast != MPL_DTYPE_NONE &&
             (m->qk_norm || mpl_past_has(&run, facts->shared_rotary)),
         "/training/attention",
         "training.attention: flash_attention_2 of this family fails under autocast in this "
         "release of transformers, which leaves queries in float32"},
        {is_flash && (run.minor < facts->flash_works || mpl_past_has(&run, facts->flash_fails)),
         "/training/attention",
         "training.attention: flash_attention_2 of this family fails in this release of "
         "transformers"},
        {t->loss.name != MPL_LOSS_CROSS_ENTROPY, "/training/loss/name",
         "training.loss.name: before transformers 4.48 only cross_entropy is modelled"},
        {t->loss.label_smoothing > 0, "/training/loss/label_smoothing",
         "training.loss.label_smoothing: modelled with transformers 4.48 or newer"},
        {t->loss.logits_to_keep > 0, "/training/loss/logits_to_keep",
         "training.loss.logits_to_keep: modelled with transformers 4.48 or newer"},
        {t->loss.num_items_in_batch && !has_function, "/training/loss/num_items_in_batch",
         "training.loss.num_items_in_batch: this family takes it in a newer release of "
         "transformers"},
        {m->alibi, "/model/alibi",
         "model.alibi: falcon with alibi is modelled with transformers 4.48 or newer"},
        {m->rope_type != MPL_ROPE_DEFAULT &&
             !(is_static && mpl_past_has(&run, facts->shared_rotary)),
         "/model/rope_parameters",
         "model.rope_parameters: this type is modelled with newer releases of transformers, whose "
         "models make cos and sin once"},
        {facts->turns_whole_heads && m->partial_rotary_factor > 0 && m->partial_rotary_factor < 1,
         "/model/partial_rotary_factor",
         "model.partial_rotary_factor: this family turns whole heads before transformers 4.48"},
        {m->head_dim * m->num_attention_heads != m->hidden_size &&
             !mpl_past_has(&run, facts->free_head_dim),
         "/model/head_dim",
         "model.head_dim: this release of transformers does not read it for this family, expected "
         "hidden_size / num_attention_heads"},
        {m->mlp_bias && run.minor < 41, "/model/mlp_bias",
         "model.mlp_bias: transformers has it from 4.41 on"},
        {has_tables && t->sequence_length > m->max_position_embeddings, "/training/sequence_length",
         "training.sequence_length: longer than max_position_embeddings is modelled with newer "
         "releases of transformers, which do not keep tables of positions"},
    };
    enum memplan_status status = MEMPLAN_OK;

    if (plan->transformers.major == 4)
        status = check_family(plan, facts, err);
    if (status || !mpl_past_is(&plan->transformers))
        return status;
    return mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}

void mpl_past_add_bias(struct mpl_network *network)
{
    const struct mpl_dim n = mpl_dim(network->plan->model.max_position_embeddings);

    mpl_network_set_dtype(network, mpl_network_add_buffer(network, "bias", mpl_shape2(n, n)),
                          MPL_BOOL);
    mpl_network_add_buffer(network, "masked_bias", (struct mpl_shape){0});
}

/* ---- rotary tables of a layer ----------------------------------------------------------------
 */

/* cos_cached[:s].to(dtype)[position_ids].unsqueeze(1): the slice has a name if it was cast */
static struct mpl_tensor *rows(struct mpl_tape *tape, const struct mpl_past_run *run,
                               enum mpl_dtype dtype, struct mpl_dim s, struct mpl_tensor **kept)
{
    const struct mpl_dim one = mpl_dim(1), d = mpl_dim(run->rotary_dim);

    *kept = run->table_dtype == dtype
                ? NULL
                : mpl_hold_empty(tape, "_to_copy.default", dtype, mpl_shape2(s, d));
    return mpl_hold_empty(tape, "index.Tensor", dtype, mpl_shape4(one, one, s, d));
}

static struct mpl_tensor *in_format(struct mpl_tape *tape, struct mpl_tensor *table,
                                    enum mpl_dtype dtype)
{
    return mpl_hold(mpl_op_unsqueeze(tape, mpl_op_to(tape, table, dtype), 1));
}

/* Angles in float32, their cos and sin, cast. */
static void angles(struct mpl_tape *tape, const struct mpl_past_run *run, enum mpl_dtype dtype,
                   struct mpl_dim s, struct mpl_past_tables *out)
{
    const struct mpl_dim one = mpl_dim(1), d = mpl_dim(run->rotary_dim);
    const struct mpl_shape table = mpl_shape3(one, s, d);
    struct mpl_tensor *positions =
        mpl_hold_empty(tape, "_to_copy.default", MPL_FLOAT32, mpl_shape3(one, one, s));
    struct mpl_tensor *half = mpl_hold_empty(tape, "bmm.default", MPL_FLOAT32,
                                             mpl_shape3(one, mpl_dim(run->rotary_dim / 2), s));
    struct mpl_tensor *both = mpl_hold_empty(tape, "cat.default", MPL_FLOAT32, table);
    struct mpl_tensor *cos = mpl_hold_empty(tape, "cos.default", MPL_FLOAT32, table);
    struct mpl_tensor *sin = mpl_hold_empty(tape, "sin.default", MPL_FLOAT32, table);

    out->cos = in_format(tape, cos, dtype);
    out->sin = in_format(tape, sin, dtype);
    mpl_drop(tape, positions);
    mpl_drop(tape, half);
    mpl_drop(tape, both);
    mpl_drop(tape, cos);
    mpl_drop(tape, sin);
}

enum mpl_rotary_kind mpl_past_rotary_kind(enum mpl_rotary_kind kind)
{
    return kind == MPL_ROTARY_CAST || kind == MPL_ROTARY_PARTIAL ? MPL_ROTARY_HALVES : kind;
}

void mpl_past_tables_make(struct mpl_tape *tape, const struct mpl_past_run *run,
                          const struct mpl_tensor *values, struct mpl_past_tables *out)
{
    const enum mpl_dtype dtype =
        run->facts->has_float_tables ? MPL_FLOAT32 : (enum mpl_dtype)values->dtype;
    const struct mpl_dim s = values->is_void ? mpl_dim(0) : values->shape.dim[2];

    *out = (struct mpl_past_tables){.cos = NULL};
    if (values->is_void) {
        out->cos = mpl_hold(tape->void_tensor);
        out->sin = mpl_hold(tape->void_tensor);
    } else if (mpl_past_has(run, run->facts->position_rotary)) {
        angles(tape, run, dtype, s, out);
    } else {
        out->cos = rows(tape, run, dtype, s, &out->kept[0]);
        out->sin = rows(tape, run, dtype, s, &out->kept[1]);
    }
}

void mpl_past_tables_applied(struct mpl_tape *tape, const struct mpl_past_run *run,
                             struct mpl_past_tables *tables)
{
    if (mpl_past_has(run, run->facts->position_rotary))
        return;
    mpl_drop(tape, tables->cos);
    mpl_drop(tape, tables->sin);
    tables->cos = tables->sin = NULL;
}

void mpl_past_tables_drop(struct mpl_tape *tape, struct mpl_past_tables *tables)
{
    mpl_drop(tape, tables->cos);
    mpl_drop(tape, tables->sin);
    mpl_drop(tape, tables->kept[0]);
    mpl_drop(tape, tables->kept[1]);
    *tables = (struct mpl_past_tables){.cos = NULL};
}

/* ---- attention -------------------------------------------------------------------------------
 */

/* heads of queries to one of keys */
static int64_t groups_of(const struct mpl_attention_call *call)
{
    return call->q->is_void || call->k->is_void ? 1
                                                : call->q->shape.dim[1].n / call->k->shape.dim[1].n;
}

/* (scores + mask[:, :, :, :s]), softmax in float32, dropout, times values */
static struct mpl_tensor *eager(struct mpl_tape *tape, struct mpl_attention_call *call,
                                struct mpl_tensor **weights_out)
{
    struct mpl_tensor *q = call->q, *k = call->k, *scores, *probs, *out;

    if (call->is_wide) {
        q = mpl_op_to(tape, q, MPL_FLOAT32);
        k = mpl_op_to(tape, k, MPL_FLOAT32);
    }
    scores = mpl_op_matmul(tape, q, mpl_op_transpose(tape, k, 2, 3));
    scores = mpl_hold(mpl_op_div_scalar(tape, scores));
    if (call->is_capped)
        mpl_attention_cap(tape, &scores);
    if (call->mask)
        mpl_rebind(tape, &scores, mpl_op_add(tape, scores, call->mask));
    if (call->softmax == MPL_SOFTMAX_OWN) {
        probs = mpl_hold(mpl_op_softmax(tape, scores, MPL_DTYPE_NONE)); /* scores keep their name */
    } else {
        probs = mpl_hold(mpl_op_to(tape, mpl_op_softmax(tape, scores, MPL_FLOAT32),
                                   (enum mpl_dtype)call->q->dtype));
        mpl_drop(tape, scores);
        scores = NULL;
    }
    mpl_rebind(tape, &probs, mpl_op_dropout(tape, probs, call->dropout));
    out = mpl_hold(mpl_op_matmul(tape, probs, call->v));
    mpl_rebind(tape, &out, mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2)));
    mpl_drop(tape, scores);
    *weights_out = probs;
    return mpl_return(out);
}

/* What the kernel takes is contiguous where there is a mask. */
static struct mpl_tensor *sdpa(struct mpl_tape *tape, struct mpl_attention_call *call)
{
    const struct mpl_sdpa_options options = {
        .mask = call->mask, .is_causal = call->is_causal, .dropout = call->dropout};
    struct mpl_tensor *out;

    if (call->mask && !call->past->facts->keeps_strides) {
        mpl_rebind(tape, &call->q, mpl_op_contiguous(tape, call->q));
        mpl_rebind(tape, &call->k, mpl_op_contiguous(tape, call->k));
        mpl_rebind(tape, &call->v, mpl_op_contiguous(tape, call->v));
    }
    out = mpl_hold(mpl_op_sdpa_with(tape, call->q, call->k, call->v, &options));
    mpl_rebind(tape, &out, mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2)));
    return mpl_return(out);
}

struct mpl_tensor *mpl_past_attention(struct mpl_tape *tape, const struct mpl_plan *plan,
                                      struct mpl_attention_call *call,
                                      struct mpl_tensor **weights_out)
{
    const int64_t groups = groups_of(call);

    if (plan->training.attention == MPL_ATTENTION_EAGER &&
        call->past->facts->eager != MPL_PAST_EAGER_MASK)
        return mpl_past_eager_gpt(tape, call, weights_out);
    if (mpl_past_has(call->past, call->past->facts->attention_function))
        return mpl_attention_interface(tape, plan, call, weights_out);
    *weights_out = NULL;
    if (mpl_is_flash(plan->training.attention))
        return mpl_past_flash(tape, plan, call);
    mpl_rebind(tape, &call->k, mpl_repeat_kv(tape, call->k, groups));
    mpl_rebind(tape, &call->v, mpl_repeat_kv(tape, call->v, groups));
    return plan->training.attention == MPL_ATTENTION_EAGER ? eager(tape, call, weights_out)
                                                           : sdpa(tape, call);
}
