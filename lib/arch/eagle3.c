/* SPDX-License-Identifier: MIT */
/*
 * The EAGLE-3 drafter as the speculators library trains it: parameters, modules, batch, loop.
 *
 * source: speculators/models/eagle3/core.py, train/trainer.py, train/utils.py
 * (apply_fully_sharded), releases 0.3.0 to 0.6.0.2 and commit 661d3ed3
 */
#include "arch/eagle3.h"
#include "arch/drafter.h"

#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/specforge.h"
#include "base/fail.h"
#include "parallel/fsdp2.h"
#include "spec/speculators.h"

/* ---- description ------------------------------------------------------------------------------
 */

static bool is_at_least(const struct mpl_version *v, unsigned major, unsigned minor)
{
    return v->major != major ? v->major > major : v->minor >= minor;
}

static void add_layer(struct mpl_network *network, struct mpl_eagle3 *e)
{
    const struct mpl_eagle3_sizes *s = &e->sizes;
    const struct {
        const char *name;
        int64_t rows, cols;
    } weights[MPL_EAGLE3_WEIGHTS] = {
        [MPL_EAGLE3_Q] = {"self_attn.q_proj", s->attention, 2 * s->hidden},
        [MPL_EAGLE3_K] = {"self_attn.k_proj", s->kv, 2 * s->hidden},
        [MPL_EAGLE3_V] = {"self_attn.v_proj", s->kv, 2 * s->hidden},
        [MPL_EAGLE3_O] = {"self_attn.o_proj", s->hidden, s->attention},
        [MPL_EAGLE3_GATE] = {"mlp.gate_proj", s->inner, s->hidden},
        [MPL_EAGLE3_UP] = {"mlp.up_proj", s->inner, s->hidden},
        [MPL_EAGLE3_DOWN] = {"mlp.down_proj", s->hidden, s->inner},
        [MPL_EAGLE3_INPUT_NORM] = {"input_layernorm", s->hidden, 0},
        [MPL_EAGLE3_POST_NORM] = {"post_attention_layernorm", s->hidden, 0},
        [MPL_EAGLE3_HIDDEN_NORM] = {"hidden_norm", s->hidden, 0},
    };
    struct mpl_module *layer = &network->modules[1];
    char path[96];

    layer->first_parameter = network->parameter_count;
    for (int i = 0; i < MPL_EAGLE3_WEIGHTS; i++) {
        snprintf(path, sizeof(path), "layers.0.%s.weight", weights[i].name);
        e->layer[i] = mpl_drafter_add(network, path, weights[i].rows, weights[i].cols, true);
    }
    layer->name = "layer";
    layer->kind = MPL_MODULE_LAYER;
    layer->parameter_count = MPL_EAGLE3_WEIGHTS;
    layer->forward = e->code->layer;
    layer->context = e;
    layer->kwargs[0] = &e->cos;
    layer->kwargs[1] = &e->sin;
}

static void add_selectors(struct mpl_network *network, struct mpl_eagle3 *e)
{
    const struct mpl_eagle3_sizes *s = &e->sizes;
    const char *const names[] = {"d2t", "t2d"};
    const int64_t rows[] = {s->draft_vocab, s->vocab};
    const enum mpl_dtype dtypes[] = {MPL_INT64, MPL_BOOL};

    if (s->release->has_autocast && s->draft_vocab == s->vocab)
        return; /* one vocabulary needs no maps */
    for (int i = 0; i < 2; i++) {
        const int of = s->release->freezes_head ? 1 - i : i;

        e->selectors[i] = mpl_network_add_buffer(network, names[of], mpl_shape1(mpl_dim(rows[of])));
        mpl_network_set_dtype(network, e->selectors[i], dtypes[of]);
    }
}

static void add_vocabulary(struct mpl_network *network, struct mpl_eagle3 *e)
{
    const struct mpl_eagle3_sizes *s = &e->sizes;

    e->embed = mpl_drafter_add(network, "embed_tokens.weight", s->vocab, s->hidden, false);
    e->head = mpl_drafter_add(network, "lm_head.weight", s->draft_vocab, s->hidden,
                              !s->release->freezes_head);
    e->verifier_head =
        mpl_drafter_add(network, "verifier_lm_head.weight", s->draft_vocab, s->hidden, false);
}

static void add_norm(struct mpl_network *network, struct mpl_eagle3 *e)
{
    e->norm = mpl_drafter_add(network, "norm.weight", e->sizes.hidden, 0, true);
}

/* In the order of the module's attributes. */
static void describe(struct mpl_network *network, struct mpl_eagle3 *e)
{
    const struct mpl_eagle3_sizes *s = &e->sizes;
    const bool is_late = s->release->freezes_head;

    network->modules[0].name = "root";
    add_selectors(network, e);
    if (is_late)
        add_vocabulary(network, e);
    e->fc = mpl_drafter_add(network, "fc.weight", s->hidden, 3 * s->hidden, true);
    add_layer(network, e);
    if (!is_late)
        add_norm(network, e);
    e->inverse_frequency = mpl_network_add_buffer(network, "rotary_emb.inv_freq",
                                                  mpl_shape1(mpl_dim(s->head_dim / 2)));
    if (is_late) {
        mpl_network_set_dtype(network, e->inverse_frequency,
                              network->plan->training.parameter_dtype);
        add_norm(network, e);
    } else {
        add_vocabulary(network, e);
    }
    if (s->release->has_verifier_norm)
        e->verifier_norm = mpl_drafter_add(network, "verifier_norm.weight", s->hidden, 0, false);
}

/* The formats that the layer and the rest compute in. */
static void set_formats(const struct mpl_plan *plan, struct mpl_eagle3_sizes *s)
{
    const struct mpl_fsdp2_options options = mpl_fsdp2_options_of(plan);

    s->layer_dtype = s->root_dtype = plan->training.parameter_dtype;
    s->cast_dtype = MPL_DTYPE_NONE;
    if (plan->parallelism.strategy == MPL_STRATEGY_NONE)
        s->cast_dtype = plan->training.autocast;
    if (plan->parallelism.strategy != MPL_STRATEGY_FSDP2)
        return;
    if (options.group.param_dtype != MPL_DTYPE_NONE)
        s->layer_dtype = options.group.param_dtype;
    if (options.root.param_dtype != MPL_DTYPE_NONE)
        s->root_dtype = options.root.param_dtype;
}

/* What Inductor knows of the device: threads of a multiprocessor by compute capability (CUDA C
 * programming guide, technical specifications); before 2.10 it takes 2048 for all. */
static int64_t believed_threads(const struct mpl_plan *plan)
{
    const int cc = (int)(plan->device.compute_capability * 10 + 0.5);

    if (!is_at_least(&plan->pytorch, 2, 10))
        return 2048;
    if (cc >= 70 && cc < 80)
        return cc == 75 ? 1024 : 2048;
    return (cc >= 81 && cc < 90) || cc >= 120 ? 1536 : 2048;
}

void mpl_eagle3_set_sizes(const struct mpl_plan *plan, struct mpl_eagle3_sizes *s)
{
    const struct mpl_model *m = &plan->model;
    const double cc = plan->device.compute_capability;

    *s = (struct mpl_eagle3_sizes){
        .tokens = {plan->training.sequence_length * plan->training.micro_batch_size, 1},
        .hidden = m->hidden_size,
        .inner = m->intermediate_size,
        .heads = m->num_attention_heads,
        .head_dim = m->head_dim,
        .attention = m->num_attention_heads * m->head_dim,
        .kv = m->num_key_value_heads * m->head_dim,
        .draft_vocab = m->draft_vocab_size,
        .vocab = m->vocab_size,
        .steps = plan->training.ttt_steps,
        .release = mpl_speculators_find(plan->framework_version),
        .has_mixed_order = is_at_least(&plan->pytorch, 2, 10),
        .results_are_free = !is_at_least(&plan->pytorch, 2, 11),
        .multiprocessors = plan->device.multiprocessors > 0 ? plan->device.multiprocessors : 108,
        .threads = believed_threads(plan),
        .inner_split = cc >= 10 && is_at_least(&plan->pytorch, 2, 11) ? 524288 : 8192,
    };
    s->is_broken =
        s->release && s->release->has_verifier_norm && is_at_least(&plan->pytorch, 2, 10);
    s->is_eager = plan->training.compile != MPL_COMPILE_INDUCTOR;
    set_formats(plan, s);
}

static enum memplan_status check(const struct mpl_network *network,
                                 const struct mpl_eagle3_sizes *s, struct memplan_error *err)
{
    const struct mpl_plan *plan = network->plan;
    const bool is_cast = plan->parallelism.strategy == MPL_STRATEGY_FSDP2 &&
                         mpl_fsdp2_options_of(plan).root.param_dtype != MPL_DTYPE_NONE;

    if (plan->model.num_hidden_layers > 1)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/num_hidden_layers",
                        "model.num_hidden_layers: found %lld, expected 1: a drafter of several "
                        "layers is not modelled",
                        (long long)plan->model.num_hidden_layers);
    if (!plan->model.norm_before_residual)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/norm_before_residual",
                        "model.norm_before_residual: found false, expected true: the other order "
                        "is not modelled");
    if (plan->training.batch_dtype != s->root_dtype && !is_cast && s->cast_dtype == MPL_DTYPE_NONE)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/batch_dtype",
                        "training.batch_dtype: found %s, expected %s: nothing casts the batch",
                        mpl_dtype_name(plan->training.batch_dtype), mpl_dtype_name(s->root_dtype));
    /* The masks of later steps are put together from whole blocks, and flex_attention refuses a
     * mask that is longer than its input (torch/nn/attention/flex_attention.py). */
    if (s->steps > 1 && s->tokens.n % MPL_EAGLE3_BLOCK)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/sequence_length",
                        "training.sequence_length: found %lld tokens, expected a multiple of %d: "
                        "flex_attention refuses the masks of later steps",
                        (long long)s->tokens.n, MPL_EAGLE3_BLOCK);
    return MEMPLAN_OK;
}

/* ---- loop -------------------------------------------------------------------------------------
 */

void mpl_eagle3_return(struct mpl_eagle3 *e, struct mpl_tensor *tensor)
{
    if (e->output_count < e->output_cap)
        e->outputs[e->output_count++] = tensor;
}

void mpl_eagle3_leave(struct mpl_eagle3 *e, struct mpl_tensor *tensor)
{
    const bool has_garbage = !e->sizes.is_eager && is_at_least(&e->network->plan->pytorch, 2, 11);

    if (e->is_first && has_garbage && tensor && !tensor->is_void &&
        e->garbage_count < MPL_EAGLE3_GARBAGE)
        e->garbage[e->garbage_count++] = mpl_hold(tensor);
}

static struct mpl_tensor *input(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_shape shape)
{
    return mpl_hold(mpl_empty(tape, "empty.memory_format", dtype, &shape));
}

static void drop_batch(struct mpl_tape *tape, struct mpl_eagle3_batch *b)
{
    mpl_drop(tape, b->input_ids);
    mpl_drop(tape, b->hidden_states);
    mpl_drop(tape, b->last_hidden_states);
    mpl_drop(tape, b->loss_mask);
    mpl_drop(tape, b->lengths);
    mpl_drop(tape, b->position_ids);
    mpl_drop(tape, b->document_ids);
}

/* Python's full collection, when it runs after each step, takes what compiling left. */
static void collect_garbage(struct mpl_tape *tape, struct mpl_eagle3 *e)
{
    if (e->network->plan->training.python_gc != MPL_GC_EACH_STEP)
        return;
    for (int i = 0; i < e->garbage_count; i++)
        mpl_drop(tape, e->garbage[i]);
    e->garbage_count = 0;
}

/* The batch of the step before is alive while the next one is made. */
static void make_batch(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_eagle3 *e = network->family;
    const struct mpl_training *t = &network->plan->training;
    const struct mpl_dim n = e->sizes.tokens;
    const int64_t h = e->sizes.hidden;
    struct mpl_eagle3_batch batch = {0};

    e->is_first = !e->batch.input_ids;
    collect_garbage(tape, e);
    tape->category = MPL_CATEGORY_INPUTS;
    batch.input_ids = input(tape, MPL_INT64, mpl_shape1(n));
    batch.hidden_states = input(tape, t->batch_dtype, mpl_eagle3_shape(e, 3 * h));
    batch.last_hidden_states = input(tape, t->batch_dtype, mpl_eagle3_shape(e, h));
    batch.loss_mask = input(tape, MPL_BOOL, mpl_shape1(n));
    if (!e->sizes.release->has_autocast)
        batch.lengths = input(tape, MPL_INT64, mpl_shape1(mpl_dim(t->documents)));
    batch.position_ids = input(tape, MPL_INT64, mpl_shape1(n));
    if (e->sizes.release->has_autocast)
        batch.document_ids = input(tape, MPL_INT64, mpl_shape1(n));
    tape->category = MPL_CATEGORY_TEMPORARY;
    drop_batch(tape, &e->batch);
    e->batch = batch;
}

/* A name of the call's arguments in the root's format, for the time of the call. */
static struct mpl_tensor *cast_argument(struct mpl_tape *tape, const struct mpl_network *network,
                                        struct mpl_tensor *argument)
{
    const struct mpl_module *root = &network->modules[0];

    argument = mpl_hold(argument);
    return root->hooks ? root->hooks->cast_input(tape, root->wrapper, argument) : argument;
}

/* _draft_tokens, loss, metrics = model(**batch): the names of the step before end only now. */
static struct mpl_tensor *forward(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_eagle3 *e = network->family;
    const struct mpl_eagle3_batch whole = e->batch;
    struct mpl_batch none = {0};
    struct mpl_tensor *loss, *logits, **swap;

    e->batch.hidden_states = cast_argument(tape, network, whole.hidden_states);
    e->batch.last_hidden_states = cast_argument(tape, network, whole.last_hidden_states);
    tape->autocast = e->sizes.cast_dtype;
    loss = mpl_hold(mpl_network_call(tape, network, &none, &logits));
    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    mpl_drop(tape, e->batch.hidden_states);
    mpl_drop(tape, e->batch.last_hidden_states);
    e->batch = whole;
    for (uint32_t i = 0; i < e->old_output_count; i++)
        mpl_drop(tape, e->old_outputs[i]);
    mpl_eagle3_return(e, loss);
    swap = e->old_outputs;
    e->old_outputs = e->outputs;
    e->old_output_count = e->output_count;
    e->outputs = swap;
    e->output_count = 0;
    return loss;
}

static const struct mpl_loop loop = {
    .materialize = mpl_eagle3_load, .make_batch = make_batch, .forward = forward};

static enum memplan_status build_speculators(struct mpl_network *network, struct memplan_error *err)
{
    struct mpl_eagle3 *e = mpl_arena_zalloc(network->arena, sizeof(*e));
    enum memplan_status status;

    network->parameter_cap = MPL_EAGLE3_PARAMETERS;
    network->parameters =
        mpl_arena_zalloc(network->arena, network->parameter_cap * sizeof(*network->parameters));
    network->module_count = 2;
    network->modules =
        mpl_arena_zalloc(network->arena, network->module_count * sizeof(*network->modules));
    if (!e || !network->parameters || !network->modules)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    e->network = network;
    mpl_eagle3_set_sizes(network->plan, &e->sizes);
    e->code = e->sizes.is_eager                  ? &mpl_eagle3_eager_code
              : e->sizes.release->has_fused_loss ? &mpl_eagle3_fused_code
              : e->sizes.release->sums_rows      ? &mpl_eagle3_rows_code
                                                 : &mpl_eagle3_compiled_code;
    if ((status = check(network, &e->sizes, err)))
        return status;
    e->output_cap = (uint32_t)(7 * e->sizes.steps + 3);
    e->outputs = mpl_arena_zalloc(network->arena, e->output_cap * sizeof(*e->outputs));
    e->old_outputs = mpl_arena_zalloc(network->arena, e->output_cap * sizeof(*e->outputs));
    if (!e->outputs || !e->old_outputs)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while building the model");
    describe(network, e);
    network->family = e;
    network->forward = mpl_eagle3_forward;
    network->loop = &loop;
    return MEMPLAN_OK;
}

static enum memplan_status build(struct mpl_network *network, struct memplan_error *err)
{
    return strcmp(network->plan->framework_name, "specforge") == 0
               ? mpl_specforge_build(network, err)
               : build_speculators(network, err);
}

const struct mpl_arch mpl_arch_eagle3 = {
    .config = {.model_type = "eagle3",
               .help = "EAGLE-3 drafter, as speculators or SpecForge trains it"},
    .build = build,
};
