/* SPDX-License-Identifier: MIT */
/* FSDP2: how often what is gathered and reduced, on which stream, in which format, and what is left
 * when a step is over. */
#include <string.h>

#include "base/bytes.h"
#include "op/op.h"
#include "parallel/fsdp2.h"
#include "step/train.h"
#include "test.h"

enum { LAYERS = 3, RANKS = 8 };

/* Sizes that eight ranks do not divide. */
static struct mpl_plan small_plan(void)
{
    struct mpl_plan plan = {
        .model = {.hidden_size = 100,
                  .intermediate_size = 270,
                  .num_hidden_layers = LAYERS,
                  .num_attention_heads = 10,
                  .num_key_value_heads = 5,
                  .head_dim = 10,
                  .vocab_size = 1001},
        .training = {.sequence_length = 64,
                     .micro_batch_size = 1,
                     .gradient_accumulation_steps = 1,
                     .steps = 1,
                     .parameter_dtype = MPL_FLOAT32,
                     .optimizer = {.name = MPL_ADAMW},
                     .zero_grad_set_to_none = true},
        .parallelism = {.strategy = MPL_STRATEGY_FSDP2,
                        .world_size = RANKS,
                        .replicate = 1,
                        .param_dtype = MPL_BFLOAT16,
                        .reduce_dtype = MPL_FLOAT32},
    };

    strcpy(plan.model.model_type, "llama");
    return plan;
}

static void trace_plan(const struct mpl_plan *plan, struct mpl_trace *trace)
{
    const struct mpl_trace_options options = {.has_infos = true};
    struct memplan_error err = {0};

    ck_assert_msg(mpl_trace_run(plan, &options, trace, &err) == MEMPLAN_OK, "%s", err.text);
}

/* Requests of a stream; dtype MPL_DTYPE_NONE: of any format. */
static int count_requests(const struct mpl_timeline *t, enum mpl_stream stream,
                          enum mpl_dtype dtype)
{
    int count = 0;

    for (size_t i = 0; i < t->requests.len; i++)
        count += t->requests.data[i].stream == stream &&
                 (dtype == MPL_DTYPE_NONE || t->infos.data[i].dtype == dtype);
    return count;
}

/* Bytes that are never freed, of a stream. */
static uint64_t bytes_left(const struct mpl_timeline *t, enum mpl_stream stream)
{
    uint64_t left = 0;

    for (size_t i = 0; i < t->events.len; i++) {
        const mpl_event e = t->events.data[i];
        const struct mpl_request *r;

        if (mpl_event_kind(e) == MPL_EVENT_MARK)
            continue;
        r = &t->requests.data[mpl_event_id(e)];
        if (r->stream != stream)
            continue;
        left += mpl_event_kind(e) == MPL_EVENT_ALLOC ? r->bytes : -r->bytes;
    }
    return left;
}

/* ---- what is gathered -------------------------------------------------------------------------
 */

static const struct {
    enum mpl_wrap wrap;
    int64_t reshard, root_reshard;
    int gathers; /* in a step: groups, and again in backward what was resharded */
} gather_table[] = {
    {MPL_WRAP_LAYER, MPL_RESHARD_UNSET, MPL_RESHARD_UNSET, 1 + 2 * LAYERS},
    {MPL_WRAP_LAYER, MPL_RESHARD_TRUE, MPL_RESHARD_UNSET, 2 + 2 * LAYERS},
    {MPL_WRAP_LAYER, MPL_RESHARD_FALSE, MPL_RESHARD_UNSET, 1 + LAYERS},
    {MPL_WRAP_LAYER, MPL_RESHARD_TRUE, MPL_RESHARD_FALSE, 1 + 2 * LAYERS},
    /* the embedding needs no weight in backward, and is gathered all the same */
    {MPL_WRAP_LAYER_EMBEDDINGS, MPL_RESHARD_UNSET, MPL_RESHARD_UNSET, 1 + 2 * (LAYERS + 2)},
    /* the last norm with the head is gathered once, unless told otherwise */
    {MPL_WRAP_LAYER_EMBEDDING_TAIL, MPL_RESHARD_UNSET, MPL_RESHARD_UNSET, 1 + 2 * (LAYERS + 1)},
    {MPL_WRAP_LAYER_EMBEDDING_TAIL, MPL_RESHARD_TRUE, MPL_RESHARD_UNSET, 1 + 2 * (LAYERS + 1)},
    {MPL_WRAP_LAYER_EMBEDDING_TAIL, MPL_RESHARD_TRUE, MPL_RESHARD_TRUE, 2 + 2 * (LAYERS + 1)},
    {MPL_WRAP_ROOT, MPL_RESHARD_UNSET, MPL_RESHARD_UNSET, 1},
    {MPL_WRAP_ROOT, MPL_RESHARD_TRUE, MPL_RESHARD_UNSET, 2},
};

START_TEST(gathers)
{
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};

    plan.parallelism.wrap = gather_table[_i].wrap;
    plan.parallelism.reshard_after_forward = gather_table[_i].reshard;
    plan.parallelism.root_reshard_after_forward = gather_table[_i].root_reshard;
    trace_plan(&plan, &trace);
    /* a cast of the shards, and the flat output */
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_ALL_GATHER_COPY_IN, MPL_BFLOAT16),
                     2 * gather_table[_i].gathers);
    ck_assert_uint_eq(bytes_left(&trace.timeline, MPL_STREAM_ALL_GATHER_COPY_IN), 0);
    mpl_trace_free(&trace);
    /* no policy: no cast */
    plan.parallelism.param_dtype = plan.parallelism.reduce_dtype = MPL_DTYPE_NONE;
    trace_plan(&plan, &trace);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_ALL_GATHER_COPY_IN, MPL_FLOAT32),
                     gather_table[_i].gathers);
    mpl_trace_free(&trace);
}
END_TEST

START_TEST(one_shard_is_copied_not_gathered)
{
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};

    plan.parallelism.world_size = 1;
    trace_plan(&plan, &trace);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_ALL_GATHER_COPY_IN, MPL_DTYPE_NONE),
                     0);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_REDUCE_SCATTER, MPL_FLOAT32),
                     1 + LAYERS);
    mpl_trace_free(&trace);
}
END_TEST

/* ---- what is kept -----------------------------------------------------------------------------
 */

START_TEST(shards_are_the_largest_chunk)
{
    const uint64_t rows = (1001 + RANKS - 1) / RANKS, hidden = (100 + RANKS - 1) / RANKS;
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};
    uint64_t layer, expected;

    trace_plan(&plan, &trace);
    /* q, k, v, o, gate and up, down, two norms: float32, each rounded up to 512 bytes */
    layer = mpl_round_up(hidden * 100 * 4, 512) * 2 + mpl_round_up(7 * 100 * 4, 512) * 2 +
            mpl_round_up(34 * 100 * 4, 512) * 2 + mpl_round_up(hidden * 270 * 4, 512) +
            mpl_round_up(hidden * 4, 512) * 2;
    expected =
        LAYERS * layer + 2 * mpl_round_up(rows * 100 * 4, 512) + mpl_round_up(hidden * 4, 512);
    ck_assert_uint_eq(trace.parameter_bytes, expected);
    ck_assert_uint_eq(trace.optimizer_bytes, 2 * expected);
    /* after zero_grad nothing is left of gradients */
    ck_assert_uint_eq(bytes_left(&trace.timeline, MPL_STREAM_REDUCE_SCATTER), 0);
    ck_assert_uint_eq(bytes_left(&trace.timeline, MPL_STREAM_ALL_REDUCE), 0);
    mpl_trace_free(&trace);
}
END_TEST

/* ---- what is reduced --------------------------------------------------------------------------
 */

START_TEST(replicas_cast_on_the_all_reduce_stream)
{
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};

    plan.parallelism.reduce_dtype = MPL_BFLOAT16;
    plan.parallelism.replicate = 2;
    trace_plan(&plan, &trace);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_REDUCE_SCATTER, MPL_BFLOAT16),
                     1 + LAYERS);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_REDUCE_SCATTER, MPL_FLOAT32), 0);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_ALL_REDUCE, MPL_FLOAT32),
                     1 + LAYERS);
    mpl_trace_free(&trace);
    plan.parallelism.replicate = 1;
    trace_plan(&plan, &trace);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_REDUCE_SCATTER, MPL_FLOAT32),
                     1 + LAYERS);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_ALL_REDUCE, MPL_DTYPE_NONE), 0);
    mpl_trace_free(&trace);
}
END_TEST

START_TEST(accumulation_reduces_each_time_or_once)
{
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};

    plan.training.gradient_accumulation_steps = 3;
    trace_plan(&plan, &trace);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_REDUCE_SCATTER, MPL_FLOAT32),
                     3 * (1 + LAYERS));
    ck_assert_uint_eq(bytes_left(&trace.timeline, MPL_STREAM_REDUCE_SCATTER), 0);
    mpl_trace_free(&trace);
    plan.parallelism.no_sync = true;
    trace_plan(&plan, &trace);
    ck_assert_int_eq(count_requests(&trace.timeline, MPL_STREAM_REDUCE_SCATTER, MPL_FLOAT32),
                     1 + LAYERS);
    ck_assert_uint_eq(bytes_left(&trace.timeline, MPL_STREAM_REDUCE_SCATTER), 0);
    mpl_trace_free(&trace);
}
END_TEST

/* ---- a module that is called several times ----------------------------------------------------
 */

enum { CALLS = 3 };

/* A root with a head, and one layer with one square weight: [8, 8] both. */
static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context, struct mpl_tensor *x)
{
    return mpl_op_linear(tape, x, mpl_network_weight(context, 0), NULL);
}

static struct mpl_tensor *repeated_forward(struct mpl_tape *tape, struct mpl_network *network,
                                           struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const struct mpl_shape ids = mpl_shape2(mpl_dim(1), mpl_dim(8));
    struct mpl_tensor *x = mpl_hold(mpl_op_embedding(tape, mpl_network_weight(network, 1),
                                                     mpl_empty(tape, "ids", MPL_INT64, &ids)));
    struct mpl_tensor *targets = mpl_hold(mpl_empty(tape, "targets", MPL_INT64, &ids));

    (void)batch;
    for (int i = 0; i < CALLS; i++)
        mpl_rebind(tape, &x, mpl_module_call(tape, &network->modules[1], x));
    x = mpl_return(x);
    *logits_out = NULL;
    x = mpl_op_cross_entropy(tape, mpl_op_reshape(tape, x, mpl_shape2(mpl_dim(8), mpl_dim(8))),
                             mpl_op_reshape(tape, mpl_return(targets), mpl_shape1(mpl_dim(8))));
    return x;
}

START_TEST(uses_of_a_module_are_reduced_once)
{
    const struct mpl_plan plan = {.training = {.parameter_dtype = MPL_FLOAT32},
                                  .parallelism = {.world_size = 2, .replicate = 1}};
    const struct mpl_fsdp2_options options = mpl_fsdp2_options_of(&plan);
    struct mpl_timeline timeline = {0};
    struct mpl_tape *tape = mpl_tape_new(&timeline);
    struct mpl_parameter parameters[2] = {0};
    struct mpl_module modules[2] = {0};
    struct mpl_network network = {.plan = &plan,
                                  .arena = &tape->arena,
                                  .parameters = parameters,
                                  .parameter_cap = 2,
                                  .modules = modules,
                                  .module_count = 2,
                                  .forward = repeated_forward};
    struct memplan_error err = {0};
    struct mpl_tensor *loss, *logits;

    tape->has_infos = true;
    mpl_network_add(&network, "layer.weight", mpl_shape2(mpl_dim(8), mpl_dim(8)));
    mpl_network_add(&network, "embed.weight", mpl_shape2(mpl_dim(8), mpl_dim(8)));
    modules[1] = (struct mpl_module){.name = "layer",
                                     .kind = MPL_MODULE_LAYER,
                                     .parameter_count = 1,
                                     .forward = layer_forward,
                                     .context = &network};
    ck_assert_int_eq(mpl_fsdp2_wrap(&network, &options, &err), MEMPLAN_OK);
    mpl_network_materialize(tape, &network);
    loss = mpl_hold(mpl_network_call(tape, &network, NULL, &logits));
    mpl_backward(tape, loss);
    mpl_drop(tape, loss);
    ck_assert_int_eq(tape->err.status, MEMPLAN_OK);
    /* the layer once, the root once */
    ck_assert_int_eq(count_requests(&timeline, MPL_STREAM_REDUCE_SCATTER, MPL_FLOAT32), 2);
    /* the root, each call of the layer, and each call again in backward */
    ck_assert_int_eq(count_requests(&timeline, MPL_STREAM_ALL_GATHER_COPY_IN, MPL_FLOAT32),
                     1 + 2 * CALLS);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(parameters[i].shard->grad);
        ck_assert_int_eq(parameters[i].shard->grad->shape.dim[0].n, 4);
        ck_assert_ptr_null(parameters[i].tensor->grad);
        ck_assert_uint_eq(parameters[i].tensor->storage->bytes, 0);
    }
    mpl_tape_free(tape);
    mpl_timeline_free(&timeline);
}
END_TEST

/* ---- policies ---------------------------------------------------------------------------------
 */

START_TEST(root_dtype_is_the_roots_alone)
{
    struct mpl_plan plan = small_plan();
    struct mpl_fsdp2_options options = mpl_fsdp2_options_of(&plan);

    ck_assert_int_eq(options.root.param_dtype, MPL_BFLOAT16);
    ck_assert_int_eq(options.root.reduce_dtype, MPL_FLOAT32);
    plan.parallelism.root_dtype = MPL_BFLOAT16;
    options = mpl_fsdp2_options_of(&plan);
    ck_assert_int_eq(options.root.param_dtype, MPL_BFLOAT16);
    plan.parallelism.root_dtype = MPL_FLOAT32; /* the parameters' own format: no policy */
    options = mpl_fsdp2_options_of(&plan);
    ck_assert_int_eq(options.root.param_dtype, MPL_DTYPE_NONE);
    ck_assert_int_eq(options.root.reduce_dtype, MPL_DTYPE_NONE);
    ck_assert(!options.root.cast_forward_inputs);
    ck_assert_int_eq(options.group.param_dtype, MPL_BFLOAT16);
}
END_TEST

START_TEST(refusals)
{
    const struct mpl_trace_options options = {0};
    struct mpl_plan plan = small_plan();
    struct memplan_error err = {0};
    struct mpl_trace trace = {0};

    plan.parallelism.wrap = MPL_WRAP_LAYER_EMBEDDINGS;
    plan.model.tie_word_embeddings = true;
    ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), MEMPLAN_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "lm_head"));
    plan = small_plan();
    plan.training.optimizer.name = MPL_MUON;
    err = (struct memplan_error){0};
    ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), MEMPLAN_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "muon"));
    plan = small_plan();
    plan.parallelism.replicate = 3;
    ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), MEMPLAN_ERR_VALUE);
    mpl_trace_free(&trace);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("fsdp2");

    tcase_add_loop_test(tcase, gathers, 0, ROWS(gather_table));
    tcase_add_test(tcase, one_shard_is_copied_not_gathered);
    tcase_add_test(tcase, shards_are_the_largest_chunk);
    tcase_add_test(tcase, replicas_cast_on_the_all_reduce_stream);
    tcase_add_test(tcase, accumulation_reduces_each_time_or_once);
    tcase_add_test(tcase, uses_of_a_module_are_reduced_once);
    tcase_add_test(tcase, root_dtype_is_the_roots_alone);
    tcase_add_test(tcase, refusals);
    return test_run("fsdp2", tcase);
}
