/* SPDX-License-Identifier: MIT */
/* Activation checkpointing: what the first pass keeps, where recomputation stops, when its tensors
 * go. Logs are worked out by hand from torch/utils/checkpoint.py (use_reentrant=False). */
#include "op/rule.h"
#include "step/module.h"
#include "tape_fixture.h"

/* What the checkpointed functions see besides their input. */
struct scene {
    struct mpl_tensor *weight, *local;
    int calls;
    enum mpl_dtype autocast; /* that the last call ran under */
    bool is_framed;          /* the last call was a checkpointed one */
};

static struct mpl_tensor **const no_kwargs[MPL_MAX_KWARGS];

/* neg(square(silu(x * weight))); silu's input and square's input are locals. The last tensor that
 * is kept is square's input. */
static struct mpl_tensor *chain(struct mpl_tape *tape, void *context, struct mpl_tensor *input)
{
    struct scene *scene = context;
    struct mpl_tensor *a = mpl_hold(mpl_op_mul(tape, input, scene->weight));
    struct mpl_tensor *b = mpl_hold(mpl_op_silu(tape, a));
    struct mpl_tensor *out = mpl_op_neg(tape, mpl_op_square(tape, b));

    scene->calls++;
    scene->autocast = tape->autocast;
    scene->is_framed = tape->frame != NULL;
    mpl_drop(tape, a);
    mpl_drop(tape, b);
    return out;
}

START_TEST(recomputation_stops_at_the_last_saved_tensor)
{
    struct scene scene = {0};
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    scene.weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    fixture_log(&f);
    y = mpl_hold(mpl_checkpoint(f.tape, chain, &scene, x, no_kwargs));
    ck_assert_str_eq(fixture_log(&f), "mul:16 silu:16 pow:16 neg:16 ~pow:16 ~mul:16 ~silu:16");
    ck_assert_ptr_null(f.tape->frame);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f),
                     /* neg; then square asks: no second pow, no second neg */
                     "ones_like:16 neg:16 mul:16 silu:16 "
                     /* square: its own input goes before the incoming gradient */
                     "pow:16 mul:16 mul:16 ~mul:16 ~pow:16 ~silu:16 ~neg:16 "
                     /* silu */
                     "silu_backward:16 ~mul:16 ~mul:16 "
                     /* product: both leaves take their gradients */
                     "mul:16 mul:16 ~silu_backward:16 ~ones_like:16");
    ck_assert_int_eq(scene.calls, 2);
    ck_assert(!f.tape->is_stopped);
    ck_assert_ptr_nonnull(x->grad);
    ck_assert_ptr_nonnull(scene.weight->grad);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, scene.weight);
    fixture_end(&f);
}
END_TEST

/* The same graph without a checkpoint, to show what the above saves: three tensors. */
START_TEST(first_pass_keeps_only_the_input)
{
    struct scene scene = {0};
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    scene.weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = mpl_hold(mpl_op_neg(f.tape, scene.weight));
    y = mpl_hold(chain(f.tape, &scene, x));
    mpl_drop(f.tape, x);
    ck_assert_uint_eq(fixture_live(&f), 5 * 16); /* weight, x, product, silu, result */
    mpl_drop(f.tape, y);
    x = mpl_hold(mpl_op_neg(f.tape, scene.weight));
    y = mpl_hold(mpl_checkpoint(f.tape, chain, &scene, x, no_kwargs));
    mpl_drop(f.tape, x);
    ck_assert_uint_eq(fixture_live(&f), 3 * 16); /* weight, x, result */
    mpl_drop(f.tape, y);                         /* never run backward: the input goes, too */
    ck_assert_uint_eq(fixture_live(&f), 16);
    mpl_drop(f.tape, scene.weight);
    fixture_end(&f);
}
END_TEST

/* A call whose operators keep nothing keeps no input. */
static struct mpl_tensor *negate(struct mpl_tape *tape, void *context, struct mpl_tensor *input)
{
    (void)context;
    return mpl_op_neg(tape, input);
}

START_TEST(nothing_saved_nothing_kept)
{
    struct fixture f;
    struct mpl_tensor *leaf, *x, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    y = mpl_hold(mpl_checkpoint(f.tape, negate, NULL, x, no_kwargs));
    mpl_drop(f.tape, x);
    ck_assert_uint_eq(fixture_live(&f), 2 * 16);
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 neg:16 neg:16 ~neg:16 ~ones_like:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* A local of the caller that the call gets by name lives as long as the call may run again. */
static struct mpl_tensor *times_local(struct mpl_tape *tape, void *context,
                                      struct mpl_tensor *input)
{
    struct scene *scene = context;

    scene->calls++;
    return mpl_op_mul(tape, input, scene->local);
}

static const struct {
    bool is_passed;
    uint64_t live; /* weight [4] float32, result, and local [4] when it is kept */
} kwargs_table[] = {{true, 48}, {false, 32}};

START_TEST(kwargs_live_until_the_node_is_done)
{
    struct scene scene = {0};
    struct mpl_tensor **const kwargs[MPL_MAX_KWARGS] = {
        NULL, kwargs_table[_i].is_passed ? &scene.local : NULL};
    struct fixture f;
    struct mpl_tensor *weight, *y, *kept;

    fixture_begin(&f);
    weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    scene.local = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), false);
    y = mpl_hold(mpl_checkpoint(f.tape, times_local, &scene, weight, kwargs));
    kept = scene.local;
    mpl_drop(f.tape, scene.local);
    ck_assert_uint_eq(fixture_live(&f), kwargs_table[_i].live);
    fixture_log(&f);
    if (kwargs_table[_i].is_passed) {
        ck_assert_uint_eq(kept->refs, 1);
        mpl_backward(f.tape, y);
        ck_assert_int_eq(scene.calls, 2);
        ck_assert_str_eq(fixture_log(&f), "ones_like:16 mul:16 ~leaf:16 ~ones_like:16");
    }
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, weight);
    fixture_end(&f);
}
END_TEST

/* ---- autocast ---------------------------------------------------------------------------------
 */

static struct mpl_tensor *project(struct mpl_tape *tape, void *context, struct mpl_tensor *input)
{
    struct scene *scene = context;

    scene->calls++;
    scene->autocast = tape->autocast;
    return mpl_op_linear(tape, input, scene->weight, NULL);
}

/* x [2, 4] bfloat16, weight [3, 4] float32: the cast is made again in backward, with a cache of its
 * own that is emptied when the recomputation is over. */
START_TEST(autocast_is_entered_again)
{
    struct scene scene = {0};
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    scene.weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(3, 4), true);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 4), true);
    fixture_log(&f);
    f.tape->autocast = MPL_BFLOAT16;
    y = mpl_hold(mpl_checkpoint(f.tape, project, &scene, x, no_kwargs));
    mpl_autocast_exit(f.tape);
    f.tape->autocast = MPL_DTYPE_NONE;
    ck_assert_str_eq(fixture_log(&f), "_to_copy:24 mm:12 ~_to_copy:24");
    mpl_backward(f.tape, y);
    ck_assert_int_eq(scene.calls, 2);
    ck_assert_int_eq(scene.autocast, MPL_BFLOAT16);
    ck_assert_int_eq(f.tape->autocast, MPL_DTYPE_NONE);
    ck_assert_uint_eq(f.tape->autocast_cache.len, 0);
    /* cast again, no product again; gradients of weight and x; the copy goes with the node */
    ck_assert_str_eq(fixture_log(&f), "ones_like:12 _to_copy:24 mm:24 mm:16 ~_to_copy:24 "
                                      "_to_copy:48 ~mm:24 ~ones_like:12");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, scene.weight);
    fixture_end(&f);
}
END_TEST

/* ---- calls in calls, failures -----------------------------------------------------------------
 */

static struct mpl_tensor *outer(struct mpl_tape *tape, void *context, struct mpl_tensor *input)
{
    struct mpl_tensor *a = mpl_hold(mpl_op_silu(tape, input));
    struct mpl_tensor *out = mpl_checkpoint(tape, chain, context, a, no_kwargs);

    mpl_drop(tape, a);
    return mpl_op_silu(tape, out);
}

START_TEST(nested_frames_let_go)
{
    struct scene scene = {0};
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    scene.weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_checkpoint(f.tape, outer, &scene, x, no_kwargs));
    ck_assert_ptr_null(f.tape->frame);
    mpl_backward(f.tape, y);
    ck_assert_ptr_null(f.tape->frame);
    ck_assert_ptr_nonnull(x->grad);
    ck_assert_ptr_nonnull(scene.weight->grad);
    ck_assert_int_eq(f.tape->err.status, MEMPLAN_OK);
    mpl_drop(f.tape, y);
    ck_assert_uint_eq(fixture_live(&f), 4 * 16); /* two leaves, two gradients */
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, scene.weight);
    fixture_end(&f);
}
END_TEST

/* Two calls in a row: each is run again when its own turn comes, the last one first. */
START_TEST(each_call_is_recomputed_in_its_turn)
{
    struct scene scene = {0};
    struct fixture f;
    struct mpl_tensor *x, *y;
    uint64_t peak = 0, live = 0;

    fixture_begin(&f);
    scene.weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(x);
    for (int i = 0; i < 3; i++)
        mpl_rebind(f.tape, &y, mpl_checkpoint(f.tape, chain, &scene, y, no_kwargs));
    ck_assert_uint_eq(fixture_live(&f), 5 * 16); /* two leaves, two inputs, the result */
    mpl_backward(f.tape, y);
    ck_assert_int_eq(scene.calls, 6);
    for (size_t i = 0; i < f.timeline.events.len; i++) {
        const mpl_event e = f.timeline.events.data[i];
        const uint64_t bytes = f.timeline.requests.data[mpl_event_id(e)].bytes;

        live = mpl_event_kind(e) == MPL_EVENT_ALLOC ? live + bytes : live - bytes;
        if (live > peak)
            peak = live;
    }
    /* in the last call's square: the five above, the seed, product and silu again, the incoming
     * gradient and three of square's own */
    ck_assert_uint_eq(peak, 12 * 16);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, scene.weight);
    fixture_end(&f);
}
END_TEST

static struct mpl_tensor *fail_second_time(struct mpl_tape *tape, void *context,
                                           struct mpl_tensor *input)
{
    struct scene *scene = context;
    struct mpl_tensor *a = mpl_hold(mpl_op_silu(tape, input));

    if (scene->calls++)
        mpl_tape_fail(tape, MEMPLAN_ERR_LIMIT, "stop");
    a = mpl_return(a);
    return mpl_op_silu(tape, a);
}

START_TEST(failure_while_recomputing_leaks_nothing)
{
    struct scene scene = {0};
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_checkpoint(f.tape, fail_second_time, &scene, x, no_kwargs));
    mpl_backward(f.tape, y);
    ck_assert_int_eq(f.tape->err.status, MEMPLAN_ERR_LIMIT);
    ck_assert(f.tape->is_stopped);
    ck_assert_ptr_null(x->grad);
    mpl_tape_free(f.tape); /* its memory is the arena's */
    mpl_timeline_free(&f.timeline);
}
END_TEST

/* ---- modules ----------------------------------------------------------------------------------
 */

START_TEST(modules_are_checkpointed_only_when_a_graph_is_made)
{
    struct scene scene = {0};
    struct mpl_module module = {.forward = chain, .context = &scene, .is_checkpointed = true};
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    scene.weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_module_call(f.tape, &module, x));
    ck_assert_uint_eq(fixture_live(&f), 3 * 16);
    ck_assert(scene.is_framed);
    mpl_drop(f.tape, y);
    f.tape->is_grad_enabled = false;
    y = mpl_hold(mpl_module_call(f.tape, &module, x));
    ck_assert_uint_eq(fixture_live(&f), 3 * 16);
    ck_assert_ptr_null(y->grad_fn);
    ck_assert(!scene.is_framed);
    mpl_drop(f.tape, y);
    f.tape->is_grad_enabled = true;
    module.is_checkpointed = false;
    y = mpl_hold(mpl_module_call(f.tape, &module, x));
    ck_assert_uint_eq(fixture_live(&f), 5 * 16);
    ck_assert(!scene.is_framed);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, scene.weight);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("checkpoint");

    tcase_add_test(tcase, recomputation_stops_at_the_last_saved_tensor);
    tcase_add_test(tcase, first_pass_keeps_only_the_input);
    tcase_add_test(tcase, nothing_saved_nothing_kept);
    tcase_add_loop_test(tcase, kwargs_live_until_the_node_is_done, 0, ROWS(kwargs_table));
    tcase_add_test(tcase, autocast_is_entered_again);
    tcase_add_test(tcase, nested_frames_let_go);
    tcase_add_test(tcase, each_call_is_recomputed_in_its_turn);
    tcase_add_test(tcase, failure_while_recomputing_leaks_nothing);
    tcase_add_test(tcase, modules_are_checkpointed_only_when_a_graph_is_made);
    return test_run("checkpoint", tcase);
}
