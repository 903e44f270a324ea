/* SPDX-License-Identifier: MIT */
/*
 * The MTP drafter as the speculators library trains it: one layer of the verifier's kind, fed with
 * the verifier's last hidden states and, for later steps, with its own.
 *
 * source: speculators/models/mtp/{core,data,model_definitions}.py, model.py (DraftVocabMixin),
 * train/{trainer,distributed}.py, releases 0.7.0 to 0.9.0
 */
#include "arch/mtp.h"
#include "arch/drafter.h"

#include <stdio.h>

#include "arch/arch.h"
#include "arch/mtp_table.h"
#include "base/fail.h"

#define OUTPUTS_OF_A_STEP   2  /* logits, and the step's loss */
#define EFFICIENT_LSE_ALIGN 32 /* tokens */
#define OUTPUTS_OF_ALL      3  /* the sum of losses, how many, and the loss */

/* ---- description ------------------------------------------------------------------------------
 */

static void add_layer(struct mpl_network *network, struct mpl_mtp *m)
{
    const struct mpl_eagle3_sizes *s = &m->sizes;
    const struct {
        const char *name;
        int64_t rows, cols;
    } weights[MPL_MTP_WEIGHTS] = {
        [MPL_MTP_Q] = {"self_attn.q_proj", s->attention, s->hidden},
        [MPL_MTP_K] = {"self_attn.k_proj", s->kv, s->hidden},
        [MPL_MTP_V] = {"self_attn.v_proj", s->kv, s->hidden},
        [MPL_MTP_O] = {"self_attn.o_proj", s->hidden, s->attention},
        [MPL_MTP_Q_NORM] = {"self_attn.q_norm", s->head_dim, 0},
        [MPL_MTP_K_NORM] = {"self_attn.k_norm", s->head_dim, 0},
        [MPL_MTP_GATE] = {"mlp.gate_proj", s->inner, s->hidden},
        [MPL_MTP_UP] = {"mlp.up_proj", s->inner, s->hidden},
        [MPL_MTP_DOWN] = {"mlp.down_proj", s->hidden, s->inner},
        [MPL_MTP_INPUT_NORM] = {"input_layernorm", s->hidden, 0},
        [MPL_MTP_POST_NORM] = {"post_attention_layernorm", s->hidden, 0},
        [MPL_MTP_HIDDEN_NORM] = {"hidden_layernorm", s->hidden, 0},
        [MPL_MTP_TOKEN_NORM] = {"token_layernorm", s->hidden, 0},
        [MPL_MTP_PROJECTION] = {"input_proj", s->hidden, 2 * s->hidden},
        [MPL_MTP_FINAL_NORM] = {"final_layernorm", s->hidden, 0},
    };
    struct mpl_module *layer = &network->modules[1];
    char path[96];

    layer->first_parameter = network->parameter_count;
    for (int i = 0; i < MPL_MTP_WEIGHTS; i++) {
        snprintf(path, sizeof(path), "mtp_layers.0.%s.weight", weights[i].name);
        m->layer[i] = mpl_drafter_add(network, path, weights[i].rows, weights[i].cols, true);
    }
    layer->name = "mtp_layers.0";
    layer->kind = MPL_MODULE_LAYER;
    layer->parameter_count = MPL_MTP_WEIGHTS;
    layer->forward = mpl_mtp_layer;
    layer->context = m;
}

/* In the order of the module's attributes. The verifier's own head is let go after it was read. */
static void describe(struct mpl_network *network, struct mpl_mtp *m)
{
    static const char *const frequencies[] = {"rotary_emb.inv_freq",
                                              "rotary_emb.original_inv_freq"};
    const struct mpl_eagle3_sizes *s = &m->sizes;

    network->modules[0].name = "root";
    m->embed = mpl_drafter_add(network, "embed_tokens.weight", s->vocab, s->hidden, false);
    m->head = mpl_drafter_add(network, "lm_head.weight", s->vocab, s->hidden, false);
    add_layer(network, m);
    for (int i = 0; i < 2; i++)
        mpl_network_set_dtype(
            network,
            mpl_network_add_buffer(network, frequencies[i], mpl_shape1(mpl_dim(s->head_dim / 2))),
            MPL_FLOAT32);
}

/* ---- loop -------------------------------------------------------------------------------------
 */

void mpl_mtp_return(struct mpl_mtp *m, struct mpl_tensor *tensor)
{
    if (m->output_count < m->output_cap)
        m->outputs[m->output_count++] = tensor;
}

/* The batch of the step before is alive while the next one is made. */
static void make_batch(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_mtp *m = network->family;
    const struct mpl_dim n = m->tokens;
    struct mpl_eagle3_batch old = m->batch;

    tape->category = MPL_CATEGORY_INPUTS;
    m->batch.input_ids = mpl_drafter_input(tape, MPL_INT64, n, 0);
    m->batch.hidden_states =
        mpl_drafter_input(tape, network->plan->training.batch_dtype, n, m->sizes.hidden);
    m->batch.loss_mask = mpl_drafter_input(tape, MPL_BOOL, n, 0);
    m->batch.position_ids = mpl_drafter_input(tape, MPL_INT64, n, 0);
    m->batch.document_ids = mpl_drafter_input(tape, MPL_INT64, n, 0);
    tape->category = MPL_CATEGORY_TEMPORARY;
    mpl_drop(tape, old.input_ids);
    mpl_drop(tape, old.hidden_states);
    mpl_drop(tape, old.loss_mask);
    mpl_drop(tape, old.position_ids);
    mpl_drop(tape, old.document_ids);
}

/* _, loss, metrics = model(**batch): the names of the step before end only now. */
static struct mpl_tensor *forward(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_mtp *m = network->family;
    struct mpl_tensor **before = m->old_outputs, *loss, *logits;
    struct mpl_batch none = {0};

    m->output_count = 0;
    loss = mpl_hold(mpl_network_call(tape, network, &none, &logits));
    for (uint32_t i = 0; i < m->old_output_count; i++)
        mpl_drop(tape, before[i]);
    mpl_mtp_return(m, loss);
    m->old_outputs = m->outputs;
    m->old_output_count = m->output_count;
    m->outputs = before;
    return loss;
}

static const struct mpl_loop loop = {
    .materialize = mpl_eagle3_load_shards, .make_batch = make_batch, .forward = forward};

/* The steps' slices have one length: every step is moved by one token more, and predicts the one
 * after. */
static void set_sizes(struct mpl_mtp *m, const struct mpl_plan *plan)
{
    mpl_eagle3_set_sizes(plan, &m->sizes);
    m->release = m->sizes.release;
    m->steps = plan->training.num_speculative_steps;
    m->tokens = m->sizes.tokens;
    m->sizes.tokens.n = m->tokens.n - m->steps - 1;
}

/* The kernel that reads a mask: the efficient one pads what it keeps, cuDNN's does not. */
static enum memplan_status choose_kernel(struct mpl_mtp *m, const struct mpl_plan *plan,
                                         struct memplan_error *err)
{
    const struct mpl_eagle3_sizes *s = &m->sizes;
    const double cc = plan->device.compute_capability;
    const enum mpl_sdpa_kernel kernel = mpl_sdpa_choose(&(struct mpl_sdpa_call){
        .pytorch = plan->pytorch,
        .compute_capability = cc > 0 ? cc : 8.0, /* as on a tape without a card */
        .dtype = s->layer_dtype,
        .batch = 1,
        .query_tokens = s->tokens.n,
        .key_tokens = s->tokens.n,
        .heads = s->heads,
        .kv_heads = s->heads,
        .head_dim = s->head_dim,
        .value_head_dim = s->head_dim,
        .mask = MPL_SDPA_MASK_BOOL,
        .requires_grad = true,
        .cudnn_allowed = plan->device.cudnn_attention != MPL_FALSE,
    });

    if (kernel != MPL_SDPA_EFFICIENT && kernel != MPL_SDPA_CUDNN)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/head_dim",
                        "model.head_dim: found %lld: no fused kernel of attention takes it, and "
                        "others are not modelled for mtp",
                        (long long)s->head_dim);
    m->kernel = kernel;
    m->lse_align = kernel == MPL_SDPA_EFFICIENT ? EFFICIENT_LSE_ALIGN : 1;
    return MEMPLAN_OK;
}

static enum memplan_status build(struct mpl_network *network, struct memplan_error *err)
{
    struct mpl_mtp *m = mpl_arena_zalloc(network->arena, sizeof(*m));

    network->parameter_cap = MPL_MTP_WEIGHTS + 4;
    network->parameters =
        mpl_arena_zalloc(network->arena, network->parameter_cap * sizeof(*network->parameters));
    network->module_count = 2;
    network->modules =
        mpl_arena_zalloc(network->arena, network->module_count * sizeof(*network->modules));
    if (m) {
        set_sizes(m, network->plan);
        m->compiled = mpl_arena_zalloc(network->arena, 2 * sizeof(*m->compiled));
        m->output_cap = (uint32_t)m->steps * OUTPUTS_OF_A_STEP + OUTPUTS_OF_ALL;
        m->outputs = mpl_arena_zalloc(network->arena, m->output_cap * sizeof(struct mpl_tensor *));
        m->old_outputs =
            mpl_arena_zalloc(network->arena, m->output_cap * sizeof(struct mpl_tensor *));
    }
    if (!m || !m->compiled || !m->outputs || !m->old_outputs || !network->parameters ||
        !network->modules)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    m->network = network;
    describe(network, m);
    network->family = m;
    network->forward = mpl_mtp_forward;
    network->loop = &loop;
    return choose_kernel(m, network->plan, err);
}

const struct mpl_arch mpl_arch_mtp = {
    .config = {.model_type = "mtp", .help = "MTP drafter, as speculators trains it"},
    .build = build,
};
