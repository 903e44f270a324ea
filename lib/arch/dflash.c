/* SPDX-License-Identifier: MIT */
/*
 * The DFlash drafter as the speculators library trains it: parameters, modules, batch, loop.
 *
 * source: speculators/models/dflash/{core,model_definitions}.py, model.py (DraftVocabMixin),
 * train/{trainer,distributed}.py, releases 0.7.0 to 0.9.0
 */
#include "arch/dflash_table.h"
#include "arch/drafter.h"

#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "base/fail.h"

/* ---- description ------------------------------------------------------------------------------
 */

static void add_buffer(struct mpl_network *network, const char *name, int64_t rows,
                       enum mpl_dtype dtype)
{
    const uint32_t i = mpl_network_add_buffer(network, name, mpl_shape1(mpl_dim(rows)));

    mpl_network_set_dtype(network, i, dtype);
}

static void add_layer(struct mpl_network *network, struct mpl_dflash *d, int64_t number)
{
    const struct mpl_eagle3_sizes *s = &d->sizes;
    const struct {
        const char *name;
        int64_t rows, cols;
    } weights[MPL_DFLASH_WEIGHTS] = {
        [MPL_DFLASH_Q] = {"self_attn.q_proj", s->attention, s->hidden},
        [MPL_DFLASH_K] = {"self_attn.k_proj", s->kv, s->hidden},
        [MPL_DFLASH_V] = {"self_attn.v_proj", s->kv, s->hidden},
        [MPL_DFLASH_O] = {"self_attn.o_proj", s->hidden, s->attention},
        [MPL_DFLASH_Q_NORM] = {"self_attn.q_norm", s->head_dim, 0},
        [MPL_DFLASH_K_NORM] = {"self_attn.k_norm", s->head_dim, 0},
        [MPL_DFLASH_GATE] = {"mlp.gate_proj", s->inner, s->hidden},
        [MPL_DFLASH_UP] = {"mlp.up_proj", s->inner, s->hidden},
        [MPL_DFLASH_DOWN] = {"mlp.down_proj", s->hidden, s->inner},
        [MPL_DFLASH_INPUT_NORM] = {"input_layernorm", s->hidden, 0},
        [MPL_DFLASH_POST_NORM] = {"post_attention_layernorm", s->hidden, 0},
    };
    struct mpl_module *module = &network->modules[1 + number];
    struct mpl_dflash_layer *layer = &d->layer[number];
    char path[96];

    layer->dflash = d;
    snprintf(layer->name, sizeof(layer->name), "layers.%lld", (long long)number);
    module->first_parameter = network->parameter_count;
    for (int i = 0; i < MPL_DFLASH_WEIGHTS; i++) {
        snprintf(path, sizeof(path), "%s.%s.weight", layer->name, weights[i].name);
        layer->weights[i] = mpl_drafter_add(network, path, weights[i].rows, weights[i].cols, true);
    }
    module->name = layer->name;
    module->kind = MPL_MODULE_LAYER;
    module->parameter_count = MPL_DFLASH_WEIGHTS;
    module->forward = mpl_dflash_layer;
    module->context = layer;
}

/* In the order of the module's attributes. */
static void describe(struct mpl_network *network, struct mpl_dflash *d)
{
    const struct mpl_eagle3_sizes *s = &d->sizes;

    network->modules[0].name = "root";
    if (s->draft_vocab != s->vocab) {
        add_buffer(network, "t2d", s->vocab, MPL_BOOL);
        add_buffer(network, "d2t", s->draft_vocab, MPL_INT64);
    }
    d->embed = mpl_drafter_add(network, "embed_tokens.weight", s->vocab, s->hidden, false);
    d->head = mpl_drafter_add(network, "lm_head.weight", s->draft_vocab, s->hidden, false);
    d->verifier_head =
        mpl_drafter_add(network, "verifier_lm_head.weight", s->draft_vocab, s->hidden, false);
    for (int64_t i = 0; i < d->layers; i++)
        add_layer(network, d, i);
    d->norm = mpl_drafter_add(network, "norm.weight", s->hidden, 0, true);
    add_buffer(network, "rotary_emb.inv_freq", s->head_dim / 2, MPL_FLOAT32);
    d->fc = mpl_drafter_add(network, "fc.weight", s->hidden, d->fed * s->hidden, true);
    d->hidden_norm = mpl_drafter_add(network, "hidden_norm.weight", s->hidden, 0, true);
    d->verifier_norm = mpl_drafter_add(network, "verifier_norm.weight", s->hidden, 0, false);
}

/* ---- loop -------------------------------------------------------------------------------------
 */

void mpl_dflash_return(struct mpl_dflash *d, struct mpl_tensor *tensor)
{
    if (d->output_count < MPL_DFLASH_OUTPUTS)
        d->outputs[d->output_count++] = tensor;
}

/* The batch of the step before is alive while the next one is made. */
static void make_batch(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_dflash *d = network->family;
    const enum mpl_dtype dtype = network->plan->training.batch_dtype;
    const struct mpl_dim n = d->tokens;
    struct mpl_eagle3_batch old = d->batch;

    tape->category = MPL_CATEGORY_INPUTS;
    d->batch.hidden_states = mpl_drafter_input(tape, dtype, n, d->fed * d->sizes.hidden);
    d->batch.input_ids = mpl_drafter_input(tape, MPL_INT64, n, 0);
    d->batch.last_hidden_states = mpl_drafter_input(tape, dtype, n, d->sizes.hidden);
    d->batch.loss_mask = mpl_drafter_input(tape, MPL_BOOL, n, 0);
    d->batch.position_ids = mpl_drafter_input(tape, MPL_INT64, n, 0);
    d->batch.document_ids = mpl_drafter_input(tape, MPL_INT64, n, 0);
    tape->category = MPL_CATEGORY_TEMPORARY;
    mpl_drop(tape, old.hidden_states);
    mpl_drop(tape, old.input_ids);
    mpl_drop(tape, old.last_hidden_states);
    mpl_drop(tape, old.loss_mask);
    mpl_drop(tape, old.position_ids);
    mpl_drop(tape, old.document_ids);
}

/* _, loss, metrics = model(**batch): the names of the step before end only now. */
static struct mpl_tensor *forward(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_dflash *d = network->family;
    struct mpl_batch none = {0};
    struct mpl_tensor *loss, *logits;

    d->output_count = 0;
    loss = mpl_hold(mpl_network_call(tape, network, &none, &logits));
    for (int i = 0; i < d->old_output_count; i++)
        mpl_drop(tape, d->old_outputs[i]);
    mpl_dflash_return(d, loss);
    memcpy(d->old_outputs, d->outputs, sizeof(d->outputs));
    d->old_output_count = d->output_count;
    return loss;
}

static const struct mpl_loop loop = {
    .materialize = mpl_eagle3_load_shards, .make_batch = make_batch, .forward = forward};

static void set_sizes(struct mpl_dflash *d, const struct mpl_plan *plan)
{
    mpl_eagle3_set_sizes(plan, &d->sizes);
    d->release = d->sizes.release;
    d->layers = plan->model.num_hidden_layers;
    d->fed = plan->model.num_target_layers;
    d->block = plan->model.block_size;
    d->anchors = plan->training.max_anchors;
    d->tokens = d->sizes.tokens;
    d->drafted = mpl_dim(d->anchors * d->block);
    d->keys = (struct mpl_dim){d->tokens.n + d->drafted.n, d->tokens.degree};
}

static enum memplan_status build(struct mpl_network *network, struct memplan_error *err)
{
    const uint32_t layers = (uint32_t)network->plan->model.num_hidden_layers;
    struct mpl_dflash *d = mpl_arena_zalloc(network->arena, sizeof(*d));

    network->parameter_cap = layers * MPL_DFLASH_WEIGHTS + 10;
    network->parameters =
        mpl_arena_zalloc(network->arena, network->parameter_cap * sizeof(*network->parameters));
    network->module_count = layers + 1;
    network->modules =
        mpl_arena_zalloc(network->arena, network->module_count * sizeof(*network->modules));
    if (d)
        d->compiled = mpl_arena_zalloc(network->arena, 2 * sizeof(*d->compiled));
    if (d)
        d->layer = mpl_arena_zalloc(network->arena, layers * sizeof(*d->layer));
    if (!d || !d->layer || !d->compiled || !network->parameters || !network->modules)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    d->network = network;
    set_sizes(d, network->plan);
    describe(network, d);
    network->family = d;
    network->forward = mpl_dflash_forward;
    network->loop = &loop;
    return MEMPLAN_OK;
}

const struct mpl_arch mpl_arch_dflash = {
    .config = {.model_type = "dflash", .help = "DFlash drafter, as speculators trains it"},
    .build = build,
};
