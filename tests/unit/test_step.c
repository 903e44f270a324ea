/* SPDX-License-Identifier: MIT */
/* Steps: networks and modules, the order of a training loop, who keeps batch, loss and output; the
 * Llama family's parameters, masks and tables. */
#include "arch/arch.h"
#include "part/masking.h"
#include "spec/text.h"
#include "step/frozen.h"
#include "step/train.h"
#include "tape_fixture.h"

/* Hidden 64, inner 96, 2 layers, 4 heads of 16, 2 for keys and values, 1000 tokens known. */
static struct mpl_plan small_plan(void)
{
    struct mpl_plan plan = {
        .model = {.hidden_size = 64,
                  .intermediate_size = 96,
                  .num_hidden_layers = 2,
                  .num_attention_heads = 4,
                  .num_key_value_heads = 2,
                  .head_dim = 16,
                  .vocab_size = 1000},
        .training = {.sequence_length = 128,
                     .micro_batch_size = 2,
                     .gradient_accumulation_steps = 1,
                     .steps = 2,
                     .parameter_dtype = MPL_FLOAT32,
                     .optimizer = {.name = MPL_SGD},
                     .zero_grad_set_to_none = true},
        .parallelism = {.world_size = 1, .replicate = 1},
        .pytorch = {.major = 2, .minor = 13},
        .transformers = {.major = 5, .minor = 24},
    };

    strcpy(plan.model.model_type, "llama");
    return plan;
}

static void trace_plan(const struct mpl_plan *plan, struct mpl_trace *trace)
{
    const struct mpl_trace_options options = {.has_infos = true};
    struct memplan_error err = {0};

    ck_assert_msg(!mpl_trace_run(plan, &options, trace, &err), "%s", err.text);
}

/* ---- networks ---------------------------------------------------------------------------------
 */

START_TEST(parameters_are_counted)
{
    const struct mpl_plan plan = small_plan();
    struct mpl_parameter room[2] = {0};
    struct mpl_network network = {.plan = &plan, .parameters = room, .parameter_cap = 2};

    ck_assert_uint_eq(mpl_network_add(&network, "a.weight", SHAPE(10, 3)), 0);
    ck_assert_uint_eq(mpl_network_add_buffer(&network, "a.table", SHAPE(7)), 1);
    ck_assert_uint_eq(mpl_network_add(&network, "no.room", SHAPE(1)), UINT32_MAX);
    ck_assert_uint_eq(mpl_network_add_buffer(&network, "no.room", SHAPE(1)), UINT32_MAX);
    ck_assert(room[0].is_trainable && !room[0].is_buffer);
    ck_assert(!room[1].is_trainable && room[1].is_buffer);
    ck_assert_uint_eq(mpl_parameter_numel(&room[0]), 30);
    ck_assert_uint_eq(mpl_parameter_local_numel(&room[0]), 30);
    room[0].shards = 4; /* rows 3, 3, 3, 1 */
    ck_assert_uint_eq(mpl_parameter_local_numel(&room[0]), 9);
    ck_assert_uint_eq(mpl_parameter_numel(&room[0]), 30);
    room[0].shape = SHAPE(INT64_MAX, INT64_MAX);
    ck_assert_uint_eq(mpl_parameter_numel(&room[0]), MPL_BYTES_OVERFLOW);
}
END_TEST

/* h = 64, q and o 64 x 64, k and v 32 x 64, three of 96 x 64, two norms; embedding, last norm. */
#define LAYER      (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64 + 2 * 64)
#define EMBEDDING  (1000 * 64)
#define PARAMETERS (EMBEDDING + 2 * LAYER + 64)

static const struct {
    bool is_tied, attention_bias, mlp_bias;
    const char *frozen;
    uint64_t parameters, trainable;
} count_table[] = {
    {true, false, false, NULL, PARAMETERS, PARAMETERS},
    {false, false, false, NULL, PARAMETERS + EMBEDDING, PARAMETERS + EMBEDDING},
    {true, true, false, NULL, PARAMETERS + 2 * (64 + 32 + 32 + 64), PARAMETERS + 2 * 192},
    {true, false, true, NULL, PARAMETERS + 2 * (96 + 96 + 64), PARAMETERS + 2 * 256},
    {true, false, false, "model.layers.0.*", PARAMETERS, PARAMETERS - LAYER},
    {false, false, false, "lm_head*", PARAMETERS + EMBEDDING, PARAMETERS},
};

START_TEST(llama_parameters)
{
    struct mpl_plan plan = small_plan();
    struct mpl_tape *tape;
    struct mpl_timeline timeline = {0};
    struct mpl_network network = {.plan = &plan};
    struct memplan_error err = {0};
    uint64_t all = 0, trainable = 0;

    plan.model.tie_word_embeddings = count_table[_i].is_tied;
    plan.model.attention_bias = count_table[_i].attention_bias;
    plan.model.mlp_bias = count_table[_i].mlp_bias;
    if (count_table[_i].frozen) {
        strcpy(plan.training.frozen[0], count_table[_i].frozen);
        plan.training.frozen_count = 1;
    }
    tape = mpl_tape_new(&timeline);
    network.arena = &tape->arena;
    ck_assert_int_eq(mpl_arch_build(mpl_arch_find("llama"), &network, &err), MEMPLAN_OK);
    ck_assert_int_eq(mpl_network_freeze(&network, &err), MEMPLAN_OK);
    for (uint32_t i = 0; i < network.parameter_count; i++) {
        const struct mpl_parameter *p = &network.parameters[i];

        all += p->is_buffer ? 0 : mpl_parameter_numel(p);
        trainable += p->is_trainable ? mpl_parameter_numel(p) : 0;
    }
    ck_assert_uint_eq(all, count_table[_i].parameters);
    ck_assert_uint_eq(trainable, count_table[_i].trainable);
    mpl_tape_free(tape);
    mpl_timeline_free(&timeline);
}
END_TEST

START_TEST(families_are_found_by_name)
{
    ck_assert_ptr_null(mpl_arch_find("llam"));
    ck_assert_ptr_null(mpl_arch_find(""));
    for (size_t i = 0; mpl_arch_name(i); i++)
        ck_assert_str_eq(mpl_arch_find(mpl_arch_name(i))->config.model_type, mpl_arch_name(i));
}
END_TEST

/* ---- modules ----------------------------------------------------------------------------------
 */

static char call_log[16];

static struct mpl_tensor *log_cast(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *input)
{
    struct mpl_tensor *out = input;

    strcat(call_log, wrapper);
    mpl_rebind(tape, &out, mpl_op_to(tape, input, MPL_BFLOAT16));
    return out;
}

static struct mpl_tensor *log_pre(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *input)
{
    (void)tape;
    (void)wrapper;
    ck_assert_int_eq(input->dtype, MPL_BFLOAT16);
    strcat(call_log, "p");
    return input;
}

static void log_post(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                     int count)
{
    (void)tape;
    (void)wrapper;
    ck_assert_int_eq(count, 1);
    ck_assert(outputs[0]->is_floating);
    strcat(call_log, "q");
}

static struct mpl_tensor *add_local(struct mpl_tape *tape, void *context, struct mpl_tensor *input)
{
    struct mpl_tensor **local = context;

    strcat(call_log, "f");
    ck_assert_int_eq((*local)->dtype, MPL_BFLOAT16);
    return mpl_op_add(tape, input, *local);
}

/* Input and named locals are cast for the time of the call; the caller's temporary lives on. */
START_TEST(hooks_stand_around_a_call)
{
    const struct mpl_hooks hooks = {
        .cast_input = log_cast, .pre_forward = log_pre, .post_forward = log_post};
    struct fixture f;
    struct mpl_tensor *local, *y, *before;
    struct mpl_module module = {.forward = add_local,
                                .context = &local,
                                .hooks = &hooks,
                                .wrapper = "c",
                                .kwargs = {NULL, &local}};

    fixture_begin(&f);
    call_log[0] = 0;
    before = local = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), false);
    y = mpl_return(fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 4), false));
    fixture_log(&f);
    y = mpl_hold(mpl_module_call(f.tape, &module, y));
    ck_assert_str_eq(call_log, "ccpfq");
    ck_assert_ptr_eq(local, before);
    ck_assert_str_eq(fixture_log(&f), "_to_copy:16 _to_copy:8 add:16 ~_to_copy:8 ~_to_copy:16 "
                                      "~leaf:32");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, local);
    fixture_end(&f);
}
END_TEST

/* ---- the loop ---------------------------------------------------------------------------------
 */

START_TEST(phases_come_in_order)
{
    static const uint8_t cycle[] = {MPL_PHASE_DATA, MPL_PHASE_FORWARD, MPL_PHASE_BACKWARD};
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};
    const struct mpl_mark *mark;

    plan.training.gradient_accumulation_steps = 3;
    trace_plan(&plan, &trace);
    mark = trace.timeline.marks.data;
    ck_assert_uint_eq(trace.timeline.marks.len, 1 + 2 * (3 * 3 + 1));
    ck_assert_int_eq((mark++)->phase, MPL_PHASE_INIT);
    for (int step = 0; step < 2; step++) {
        for (int micro = 0; micro < 3; micro++)
            for (int i = 0; i < 3; i++, mark++) {
                ck_assert_int_eq(mark->step, step);
                ck_assert_int_eq(mark->micro, micro);
                ck_assert_int_eq(mark->phase, cycle[i]);
            }
        ck_assert_int_eq((mark++)->phase, MPL_PHASE_OPTIMIZER);
    }
    ck_assert_uint_eq(trace.timeline.step_count, 2);
    mpl_trace_free(&trace);
}
END_TEST

/* Bytes that live after the last event of the given kind of phase in step 1. */
static uint64_t live_after(const struct mpl_timeline *t, enum mpl_phase phase)
{
    uint64_t live = 0, found = 0;
    bool is_here = false;

    for (size_t i = 0; i < t->events.len; i++) {
        const mpl_event e = t->events.data[i];
        const uint32_t id = mpl_event_id(e);

        if (mpl_event_kind(e) == MPL_EVENT_MARK)
            is_here = t->marks.data[id].phase == phase && t->marks.data[id].step == 1;
        else if (mpl_event_kind(e) == MPL_EVENT_ALLOC)
            live += t->requests.data[id].bytes;
        else
            live -= t->requests.data[id].bytes;
        if (is_here)
            found = live;
    }
    return found;
}

/* 2 x 128 tokens of 8 bytes; a loss of 4; logits [2, 128, 1000] in the parameters' float32. */
#define IDS    (2 * 128 * 8)
#define LOGITS (UINT64_C(2) * 128 * 1000 * 4)
#define STATIC (4 * (uint64_t)(PARAMETERS + 8 + 8)) /* SGD has no state; two rope buffers of 8 */

static const struct {
    bool keep_outputs, shared_batch, padding, zeros;
    uint64_t after_data, after_step; /* besides parameters and buffers */
} life_table[] = {
    {false, false, false, false, 2 * IDS, 0},
    {false, false, true, false, 3 * IDS, 0}, /* and a mask */
    /* one tensor is both; it and the loss live until their names are bound again */
    {false, true, false, false, IDS + 4, IDS + 4},
    {true, false, false, false, 2 * IDS + LOGITS + 4, LOGITS + 4},
    {false, false, false, true, 2 * IDS + 4 * (uint64_t)PARAMETERS, 4 * (uint64_t)PARAMETERS},
};

START_TEST(batch_loss_and_output_live_as_long_as_their_names)
{
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};

    plan.model.tie_word_embeddings = true;
    plan.training.keep_outputs = life_table[_i].keep_outputs;
    plan.training.shared_batch = life_table[_i].shared_batch;
    plan.training.padding = life_table[_i].padding;
    plan.training.zero_grad_set_to_none = !life_table[_i].zeros;
    trace_plan(&plan, &trace);
    ck_assert_uint_eq(live_after(&trace.timeline, MPL_PHASE_DATA),
                      STATIC + life_table[_i].after_data);
    ck_assert_uint_eq(live_after(&trace.timeline, MPL_PHASE_OPTIMIZER),
                      STATIC + life_table[_i].after_step);
    /* after backward: gradients, and what the loop keeps */
    ck_assert_uint_ge(live_after(&trace.timeline, MPL_PHASE_BACKWARD),
                      STATIC + 4 * (uint64_t)PARAMETERS);
    mpl_trace_free(&trace);
}
END_TEST

START_TEST(sums_of_a_run)
{
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};

    plan.model.tie_word_embeddings = true;
    plan.training.optimizer.name = MPL_ADAMW;
    strcpy(plan.training.frozen[0], "model.embed_tokens.weight");
    plan.training.frozen_count = 1;
    trace_plan(&plan, &trace);
    ck_assert_uint_eq(trace.parameters, PARAMETERS);
    ck_assert_uint_eq(trace.trainable_parameters, PARAMETERS - EMBEDDING);
    /* norms of 256 bytes take 512 */
    ck_assert_uint_eq(trace.parameter_bytes, 4 * (uint64_t)PARAMETERS + 5 * 256);
    ck_assert_uint_eq(trace.buffer_bytes, 2 * 512);
    ck_assert_uint_eq(trace.optimizer_bytes,
                      2 * (4 * (uint64_t)(PARAMETERS - EMBEDDING) + 5 * 256));
    mpl_trace_free(&trace);
}
END_TEST

/* A model made on the card makes its tied weight twice. */
START_TEST(models_made_in_place_tie_late)
{
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};
    size_t loaded, made;

    plan.model.tie_word_embeddings = true;
    plan.training.steps = 1;
    trace_plan(&plan, &trace);
    loaded = trace.timeline.requests.len;
    plan.training.from_config = true;
    trace_plan(&plan, &trace);
    made = trace.timeline.requests.len;
    ck_assert_uint_eq(made, loaded + 1);
    plan.model.tie_word_embeddings = false;
    trace_plan(&plan, &trace);
    loaded = trace.timeline.requests.len;
    plan.training.from_config = false;
    trace_plan(&plan, &trace);
    ck_assert_uint_eq(trace.timeline.requests.len, loaded);
    mpl_trace_free(&trace);
}
END_TEST

START_TEST(failures_are_reported_and_leave_nothing)
{
    const struct mpl_trace_options options = {.has_kernels = true};
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};
    struct memplan_error err = {0};

    strcpy(plan.model.model_type, "lama");
    ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), MEMPLAN_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.path, "/model/model_type");
    for (int i = 0; i < 4; i++) {
        plan = small_plan();
        err = (struct memplan_error){0};
        if (i == 0)
            plan.model.vocab_size = INT64_MAX;
        else if (i == 1)
            plan.training.sequence_length = INT64_C(1) << 40;
        else if (i == 2)
            plan.training.micro_batch_size = INT64_MAX;
        else
            plan.model.hidden_size = INT64_C(1) << 44;
        plan.training.attention = i % 2 ? MPL_ATTENTION_EAGER : MPL_ATTENTION_SDPA;
        ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), MEMPLAN_ERR_OVERFLOW);
        ck_assert_uint_gt(strlen(err.text), 0);
    }
    /* the trace can be used again */
    plan = small_plan();
    ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), MEMPLAN_OK);
    mpl_trace_free(&trace);
}
END_TEST

/* TABLE: what a release of transformers before 4.48 has, and what is refused of it. */
static const struct {
    const char *model_type, *transformers;
    enum mpl_attention attention;
    enum memplan_status status;
    const char *text; /* part of the message */
} release_table[] = {
    {"llama", "4.40.2", MPL_ATTENTION_SDPA, MEMPLAN_OK, ""},
    {"llama", "4.44.2", MPL_ATTENTION_FLASH_2, MEMPLAN_OK, ""},
    {"gemma2", "4.42.4", MPL_ATTENTION_FLASH_2, MEMPLAN_ERR_UNSUPPORTED, "fails in this release"},
    {"gemma2", "4.43.4", MPL_ATTENTION_FLASH_2, MEMPLAN_OK, ""},
    {"gemma2", "4.47.1", MPL_ATTENTION_FLASH_2, MEMPLAN_ERR_UNSUPPORTED, "fails in this release"},
    {"bert", "4.47.1", MPL_ATTENTION_FLASH_2, MEMPLAN_ERR_UNSUPPORTED, "in newer releases"},
    {"gpt2", "4.41.2", MPL_ATTENTION_SDPA, MEMPLAN_ERR_VALUE, "sdpa for gpt2 from 4.42 on"},
    {"phi3", "4.40.2", MPL_ATTENTION_EAGER, MEMPLAN_ERR_VALUE, "phi3 came with 4.41"},
    {"phi3", "4.41.2", MPL_ATTENTION_EAGER, MEMPLAN_OK, ""},
    {"olmo2", "4.46.3", MPL_ATTENTION_SDPA, MEMPLAN_ERR_VALUE, "olmo2 came with 4.47"},
    {"qwen3", "4.47.1", MPL_ATTENTION_SDPA, MEMPLAN_ERR_VALUE, "qwen3 came with 4.51"},
    {"qwen3", "4.50.3", MPL_ATTENTION_SDPA, MEMPLAN_ERR_VALUE, "qwen3 came with 4.51"},
    {"qwen3", "4.57.6", MPL_ATTENTION_SDPA, MEMPLAN_OK, ""},
    {"gptj", "4.47.1", MPL_ATTENTION_EAGER, MEMPLAN_ERR_UNSUPPORTED, "from 4.48 on"},
};

START_TEST(families_come_with_a_release)
{
    const struct mpl_trace_options options = {.has_kernels = true};
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};
    struct memplan_error err = {0};

    strcpy(plan.model.model_type, release_table[_i].model_type);
    ck_assert(mpl_version_parse(release_table[_i].transformers, &plan.transformers));
    plan.training.attention = release_table[_i].attention;
    ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), release_table[_i].status);
    ck_assert_ptr_nonnull(strstr(err.text, release_table[_i].text));
    mpl_trace_free(&trace);
}
END_TEST

/* From 4.45 on its queries stay in float32 under autocast, which the kernel does not take. */
START_TEST(stablelm_has_flash_without_autocast)
{
    const struct mpl_trace_options options = {.has_kernels = true};
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};
    struct memplan_error err = {0};

    strcpy(plan.model.model_type, "stablelm");
    plan.model.max_position_embeddings = 128;
    plan.training.attention = MPL_ATTENTION_FLASH_2;
    plan.training.autocast = MPL_BFLOAT16;
    ck_assert(mpl_version_parse("4.44.2", &plan.transformers));
    ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), MEMPLAN_OK);
    ck_assert(mpl_version_parse("4.45.2", &plan.transformers));
    ck_assert_int_eq(mpl_trace_run(&plan, &options, &trace, &err), MEMPLAN_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "queries in float32"));
    mpl_trace_free(&trace);
}
END_TEST

/* Autocast's copies of weights go when forward is over; the loop then runs without it. */
START_TEST(autocast_copies_end_with_forward)
{
    struct mpl_plan plan = small_plan();
    struct mpl_trace trace = {0};
    uint64_t with, without;

    plan.model.tie_word_embeddings = true;
    plan.training.autocast = MPL_BFLOAT16;
    trace_plan(&plan, &trace);
    with = live_after(&trace.timeline, MPL_PHASE_BACKWARD);
    plan.training.autocast = MPL_DTYPE_NONE;
    trace_plan(&plan, &trace);
    without = live_after(&trace.timeline, MPL_PHASE_BACKWARD);
    ck_assert_uint_eq(with, without);
    ck_assert_uint_eq(with, STATIC + 4 * (uint64_t)PARAMETERS);
    mpl_trace_free(&trace);
}
END_TEST

/* ---- masks and tables -------------------------------------------------------------------------
 */

static const struct {
    enum mpl_attention attention;
    bool is_padded;
    enum mpl_dtype dtype; /* of the mask; none: no mask */
    int64_t batch;        /* its first dimension */
} mask_table[] = {
    {MPL_ATTENTION_SDPA, false, MPL_DTYPE_NONE, 0},
    {MPL_ATTENTION_SDPA, true, MPL_BOOL, 3},
    {MPL_ATTENTION_EAGER, false, MPL_BFLOAT16, 3},
    {MPL_ATTENTION_EAGER, true, MPL_BFLOAT16, 3},
};

START_TEST(causal_masks)
{
    struct mpl_plan plan = small_plan();
    struct fixture f;
    struct mpl_tensor *embeds, *padding = NULL;
    struct mpl_mask mask;
    uint64_t before;

    fixture_begin(&f);
    plan.training.attention = mask_table[_i].attention;
    embeds = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(3, 7, 64), false);
    if (mask_table[_i].is_padded)
        padding = fixture_leaf(&f, MPL_INT64, SHAPE(3, 7), false);
    before = fixture_live(&f);
    mask = mpl_causal_mask(f.tape, &plan, embeds, padding, 0);
    ck_assert_int_eq(mask.is_causal, mask_table[_i].dtype == MPL_DTYPE_NONE);
    ck_assert_int_eq(mask.tensor == NULL, mask.is_causal);
    if (mask.tensor) {
        ck_assert_int_eq(mask.tensor->dtype, mask_table[_i].dtype);
        ck_assert_int_eq(mask.tensor->shape.dim[0].n, mask_table[_i].batch);
        ck_assert_int_eq(mask.tensor->shape.dim[1].n, 1);
        /* all that stays of making it */
        ck_assert_uint_eq(fixture_live(&f) - before,
                          mpl_dtype_bytes(mask_table[_i].dtype, 3 * 7 * 7));
    }
    mpl_drop(f.tape, mask.tensor);
    mpl_drop(f.tape, padding);
    mpl_drop(f.tape, embeds);
    fixture_end(&f);
}
END_TEST

START_TEST(rotary_tables_in_the_format_asked_for)
{
    struct fixture f;
    struct mpl_tensor *ids, *positions, *cos, *sin;
    uint64_t before;

    fixture_begin(&f);
    ids = fixture_leaf(&f, MPL_INT64, SHAPE(3, 7), false);
    positions = mpl_hold(mpl_position_ids(f.tape, ids));
    ck_assert_int_eq(positions->dtype, MPL_INT64);
    before = fixture_live(&f);
    mpl_rotary_tables(f.tape, 16, MPL_BFLOAT16, positions, &cos, &sin);
    ck_assert_uint_eq(fixture_live(&f) - before, 2 * 2 * 7 * 16);
    ck_assert_int_eq(cos->shape.ndim, 4);
    ck_assert_int_eq(cos->shape.dim[2].n, 7);
    ck_assert_int_eq(cos->shape.dim[3].n, 16);
    mpl_drop(f.tape, cos);
    mpl_drop(f.tape, sin);
    mpl_drop(f.tape, positions);
    mpl_drop(f.tape, ids);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("step");

    tcase_add_test(tcase, parameters_are_counted);
    tcase_add_loop_test(tcase, llama_parameters, 0, ROWS(count_table));
    tcase_add_test(tcase, families_are_found_by_name);
    tcase_add_test(tcase, hooks_stand_around_a_call);
    tcase_add_test(tcase, phases_come_in_order);
    tcase_add_loop_test(tcase, batch_loss_and_output_live_as_long_as_their_names, 0,
                        ROWS(life_table));
    tcase_add_test(tcase, sums_of_a_run);
    tcase_add_test(tcase, models_made_in_place_tie_late);
    tcase_add_test(tcase, failures_are_reported_and_leave_nothing);
    tcase_add_loop_test(tcase, families_come_with_a_release, 0, ROWS(release_table));
    tcase_add_test(tcase, stablelm_has_flash_without_autocast);
    tcase_add_test(tcase, autocast_copies_end_with_forward);
    tcase_add_loop_test(tcase, causal_masks, 0, ROWS(mask_table));
    tcase_add_test(tcase, rotary_tables_in_the_format_asked_for);
    return test_run("step", tcase);
}
