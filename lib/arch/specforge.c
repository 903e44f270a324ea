/* SPDX-License-Identifier: MIT */
/*
 * The EAGLE-3 drafter as SpecForge trains it: parameters and loop. The target model
 * is not in the trainer: its hidden states come from files or from a server, and its output head
 * alone lies on the card.
 *
 * source: specforge/modeling/draft/llama3_eagle.py, modeling/target/target_head.py,
 * training/controller.py (TrainerCore), training/strategies/base.py (Eagle3TrainStrategy),
 * release 0.2.0
 */
#include "arch/specforge.h"

#include "base/fail.h"
#include "op/op.h"

#define NUMBERS_OF_A_STEP 6

/* ---- description ------------------------------------------------------------------------------
 */

struct described {
    const char *name;
    int64_t rows, cols; /* cols 0: a vector */
    enum mpl_dtype dtype;
    bool is_buffer, is_frozen;
};

static void describe_one(struct mpl_network *network, struct mpl_specforge *s, int i,
                         const struct described *d)
{
    const struct mpl_shape shape =
        d->cols ? mpl_shape2(mpl_dim(d->rows), mpl_dim(d->cols)) : mpl_shape1(mpl_dim(d->rows));

    s->weight[i] = d->is_buffer ? mpl_network_add_buffer(network, d->name, shape)
                                : mpl_network_add(network, d->name, shape);
    if (s->weight[i] == UINT32_MAX)
        return;
    if (d->is_buffer)
        mpl_network_set_dtype(network, s->weight[i], d->dtype);
    network->parameters[s->weight[i]].is_trainable = !d->is_buffer && !d->is_frozen;
}

/* The tables of cosines reach 20 positions further than the longest sequence. */
static void describe(struct mpl_network *network, struct mpl_specforge *s)
{
    const struct mpl_eagle3_sizes *z = &s->sizes;
    const int64_t h = z->hidden, a = z->attention, kv = z->kv, inner = z->inner;
    const int64_t reach = network->plan->model.max_position_embeddings + 20;
    const enum mpl_dtype e = z->layer_dtype;
    const struct described all[MPL_SPECFORGE_WEIGHTS] = {
        [MPL_SPECFORGE_T2D] = {"draft_model.t2d", z->vocab, 0, MPL_BOOL, true, true},
        [MPL_SPECFORGE_D2T] = {"draft_model.d2t", z->draft_vocab, 0, MPL_INT64, true, true},
        [MPL_SPECFORGE_EMBED] = {"draft_model.embed_tokens.weight", z->vocab, h, e, false, true},
        [MPL_SPECFORGE_Q] = {"draft_model.midlayer.self_attn.q_proj.weight", a, 2 * h, e, 0, 0},
        [MPL_SPECFORGE_K] = {"draft_model.midlayer.self_attn.k_proj.weight", kv, 2 * h, e, 0, 0},
        [MPL_SPECFORGE_V] = {"draft_model.midlayer.self_attn.v_proj.weight", kv, 2 * h, e, 0, 0},
        [MPL_SPECFORGE_O] = {"draft_model.midlayer.self_attn.o_proj.weight", h, a, e, 0, 0},
        [MPL_SPECFORGE_INVERSE_FREQUENCY] = {"draft_model.midlayer.self_attn.rotary_emb.inv_freq",
                                             z->head_dim / 2, 0, e, true, true},
        [MPL_SPECFORGE_COS] = {"draft_model.midlayer.self_attn.rotary_emb.cos_cached", reach,
                               z->head_dim, e, true, true},
        [MPL_SPECFORGE_SIN] = {"draft_model.midlayer.self_attn.rotary_emb.sin_cached", reach,
                               z->head_dim, e, true, true},
        [MPL_SPECFORGE_GATE] = {"draft_model.midlayer.mlp.gate_proj.weight", inner, h, e, 0, 0},
        [MPL_SPECFORGE_UP] = {"draft_model.midlayer.mlp.up_proj.weight", inner, h, e, 0, 0},
        [MPL_SPECFORGE_DOWN] = {"draft_model.midlayer.mlp.down_proj.weight", h, inner, e, 0, 0},
        [MPL_SPECFORGE_HIDDEN_NORM] = {"draft_model.midlayer.hidden_norm.weight", h, 0, e, 0, 0},
        [MPL_SPECFORGE_INPUT_NORM] = {"draft_model.midlayer.input_layernorm.weight", h, 0, e, 0, 0},
        [MPL_SPECFORGE_POST_NORM] = {"draft_model.midlayer.post_attention_layernorm.weight", h, 0,
                                     e, 0, 0},
        [MPL_SPECFORGE_FC] = {"draft_model.fc.weight", h, 3 * h, e, 0, 0},
        [MPL_SPECFORGE_NORM] = {"draft_model.norm.weight", h, 0, e, 0, 0},
        [MPL_SPECFORGE_HEAD] = {"draft_model.lm_head.weight", z->draft_vocab, h, e, 0, 0},
    };

    s->table_rows = reach;
    network->modules[0].name = "root";
    for (int i = 0; i < MPL_SPECFORGE_WEIGHTS; i++)
        describe_one(network, s, i, &all[i]);
}

static void set_sizes(const struct mpl_plan *plan, struct mpl_specforge *s)
{
    const struct mpl_model *m = &plan->model;

    s->batch = mpl_dim(plan->training.micro_batch_size);
    s->is_flex = plan->training.attention == MPL_ATTENTION_FLEX;
    s->length = (struct mpl_dim){plan->training.sequence_length, 1};
    mpl_eagle3_set_sizes(plan, &s->sizes);
    s->sizes.attention = m->num_attention_heads * m->head_dim;
}

/* ---- loop -------------------------------------------------------------------------------------
 */

void mpl_specforge_keep(struct mpl_specforge *s, struct mpl_tensor *number)
{
    s->outputs[s->output_count++] = number;
}

/* The drafter is on the card before the target's head comes, and before FSDP flattens it. */
static void materialize(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_specforge *s = network->family;
    const struct mpl_dim vocab = mpl_dim(s->sizes.vocab), hidden = mpl_dim(s->sizes.hidden);

    mpl_network_materialize(tape, network);
    tape->category = MPL_CATEGORY_PARAMETERS;
    s->target_head = mpl_specforge_make(tape, "empty.memory_format", s->sizes.layer_dtype,
                                        mpl_shape2(vocab, hidden));
    tape->category = MPL_CATEGORY_TEMPORARY;
    if (network->wrapper && network->wrapper->materialize)
        network->wrapper->materialize(tape, network);
}

/* Batches wait in host memory; forward moves them. Python's full collection, when it runs after
 * each step, takes what compiling left. */
static void make_batch(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_specforge *s = network->family;
    const struct mpl_training *t = &network->plan->training;
    const bool is_collected =
        t->python_gc == MPL_GC_EACH_STEP && s->micro++ % t->gradient_accumulation_steps == 0;

    for (int i = 0; i < 3 && is_collected; i++) {
        mpl_drop(tape, s->garbage[i]);
        s->garbage[i] = NULL;
    }
}

static struct mpl_tensor *moved(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_shape shape)
{
    struct mpl_tensor *tensor;

    tape->category = MPL_CATEGORY_INPUTS;
    tensor = mpl_specforge_make(tape, "_to_copy.default", dtype, shape);
    tape->category = MPL_CATEGORY_TEMPORARY;
    return tensor;
}

/* sum(decay ** i * loss) over all steps, begun with the number 0; held */
static struct mpl_tensor *sum_losses(struct mpl_tape *tape, const struct mpl_specforge *s)
{
    struct mpl_tensor *sum = NULL;

    for (int64_t i = 0; i < s->sizes.steps; i++) {
        struct mpl_tensor *term = mpl_hold(mpl_op_mul_scalar(tape, s->losses[i]));

        mpl_rebind(tape, &sum, i ? mpl_op_add(tape, sum, term) : mpl_op_add_scalar(tape, term));
        mpl_drop(tape, term);
    }
    return sum;
}

/* forward_loss and the division by the accumulated steps */
static struct mpl_tensor *forward(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_specforge *s = network->family;
    struct mpl_specforge_locals *l = &s->l;
    struct mpl_batch none = {0};
    struct mpl_tensor *states = moved(tape, s->sizes.layer_dtype,
                                      mpl_specforge_shape(s, s->sizes.hidden)),
                      *logits, *sum, *loss;

    tape->is_grad_enabled = false;
    l->logits = mpl_hold(mpl_op_linear(tape, states, s->target_head, NULL));
    tape->is_grad_enabled = true;
    mpl_drop(tape, states);
    l->ids = moved(tape, MPL_INT64, mpl_specforge_shape(s, 0));
    l->loss_mask = moved(tape, MPL_INT64, mpl_specforge_shape(s, 1));
    l->attention_mask = moved(tape, MPL_INT64, mpl_specforge_shape(s, 0));
    l->states = moved(tape, s->sizes.layer_dtype, mpl_specforge_shape(s, 3 * s->sizes.hidden));
    mpl_drop(tape, mpl_hold(mpl_network_call(tape, network, &none, &logits)));
    sum = sum_losses(tape, s);
    mpl_drop(tape, l->ids);
    mpl_drop(tape, l->loss_mask);
    mpl_drop(tape, l->logits);
    loss = mpl_hold(mpl_op_div_scalar(tape, sum));
    s->outputs[s->output_count++] = sum;
    return loss;
}

static void end_micro(struct mpl_tape *tape, struct mpl_network *network, struct mpl_tensor *loss)
{
    struct mpl_specforge *s = network->family;

    for (uint32_t i = 0; i < s->output_count; i++)
        mpl_drop(tape, s->outputs[i]);
    s->output_count = 0;
    for (int64_t i = 0; i < s->sizes.steps; i++) {
        mpl_drop(tape, s->losses[i]);
        s->losses[i] = NULL;
    }
    mpl_drop(tape, loss);
}

static const struct mpl_loop loop = {
    .materialize = materialize,
    .make_batch = make_batch,
    .forward = forward,
    .end_micro = end_micro,
};

/* ---- build ------------------------------------------------------------------------------------
 */

enum memplan_status mpl_specforge_build(struct mpl_network *network, struct memplan_error *err)
{
    struct mpl_specforge *s = mpl_arena_zalloc(network->arena, sizeof(*s));
    const size_t steps = (size_t)network->plan->training.ttt_steps;

    network->parameter_cap = MPL_SPECFORGE_WEIGHTS;
    network->parameters =
        mpl_arena_zalloc(network->arena, network->parameter_cap * sizeof(*network->parameters));
    network->module_count = 1;
    network->modules = mpl_arena_zalloc(network->arena, sizeof(*network->modules));
    if (!s || !network->parameters || !network->modules)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    s->network = network;
    s->keys = mpl_arena_zalloc(network->arena, steps * sizeof(struct mpl_tensor *));
    s->values = mpl_arena_zalloc(network->arena, steps * sizeof(struct mpl_tensor *));
    s->losses = mpl_arena_zalloc(network->arena, steps * sizeof(struct mpl_tensor *));
    s->outputs = mpl_arena_zalloc(network->arena,
                                  (NUMBERS_OF_A_STEP * steps + 1) * sizeof(struct mpl_tensor *));
    if (!s->keys || !s->values || !s->losses || !s->outputs)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    set_sizes(network->plan, s);
    describe(network, s);
    network->family = s;
    network->forward = mpl_specforge_forward;
    network->loop = &loop;
    return MEMPLAN_OK;
}
