/* SPDX-License-Identifier: MIT */
/* The engine: in which order nodes run, what becomes of gradients, what autocast keeps. Logs are
 * worked out by hand from torch/csrc/autograd (engine.cpp, input_buffer.cpp, accumulate_grad.h). */
#include "op/rule.h"
#include "tape_fixture.h"

/* ---- order ------------------------------------------------------------------------------------
 */

/* Both branches are ready at once: the one made last runs first, wherever it stands in the sum. */
static const struct {
    bool is_swapped;
} order_table[] = {{false}, {true}};

START_TEST(newest_node_first)
{
    struct fixture f;
    struct mpl_tensor *u, *v, *a, *b, *y;

    fixture_begin(&f);
    u = fixture_leaf(&f, MPL_FLOAT32, SHAPE(1, 4), true);
    v = fixture_leaf(&f, MPL_FLOAT32, SHAPE(1, 4), true);
    a = mpl_op_silu(f.tape, u);
    b = mpl_op_rsqrt(f.tape, v);
    y = mpl_hold(order_table[_i].is_swapped ? mpl_op_add(f.tape, b, a) : mpl_op_add(f.tape, a, b));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    /* rsqrt: cube, half, product; its result goes when it is done, with the node */
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 pow:16 mul:16 mul:16 ~mul:16 ~pow:16 "
                                      "~rsqrt:16 silu_backward:16 ~ones_like:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, u);
    mpl_drop(f.tape, v);
    fixture_end(&f);
}
END_TEST

/* 40 chains of random length are joined; nodes must come in falling order of their numbers. */
static uint64_t last_sequence;
static int visited;

static void watch_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    (void)tape;
    ck_assert_uint_lt(node->sequence, last_sequence);
    last_sequence = node->sequence;
    visited++;
    for (int i = 0; i < node->edge_count; i++)
        if (mpl_needs(node, i))
            in[i] = mpl_hold(out[0]);
}

static struct mpl_tensor *watch(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_tensor *out = mpl_alias(tape, a);

    mpl_set_history(
        tape, out,
        mpl_node_new(tape, "Watch", watch_backward, (struct mpl_tensor *[]){a, b}, 2, 1, 0), 0);
    return out;
}

START_TEST(ready_nodes_are_a_heap)
{
    enum { CHAINS = 40 };
    struct fixture f;
    struct mpl_tensor *leaf, *chains[CHAINS], *sum;

    fixture_begin(&f);
    last_sequence = UINT64_MAX;
    visited = 0;
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(1), true);
    for (int i = 0; i < CHAINS; i++)
        chains[i] = mpl_hold(watch(f.tape, leaf, NULL));
    /* lengthen them in an order that mixes their numbers */
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < CHAINS; i++)
            if ((i * 7 + round * 3) % 5 != 0)
                mpl_rebind(f.tape, &chains[i * 17 % CHAINS],
                           watch(f.tape, chains[i * 17 % CHAINS], NULL));
    sum = mpl_hold(chains[0]);
    for (int i = 1; i < CHAINS; i++)
        mpl_rebind(f.tape, &sum, watch(f.tape, chains[i * 3 % CHAINS], sum));
    mpl_backward(f.tape, sum);
    ck_assert_int_eq(visited, CHAINS + 5 * CHAINS * 4 / 5 + CHAINS - 1);
    for (int i = 0; i < CHAINS; i++)
        mpl_drop(f.tape, chains[i]);
    mpl_drop(f.tape, sum);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* The second gradient of w is added in place and is gone before the older node runs. */
START_TEST(leaves_accumulate_at_once)
{
    struct fixture f;
    struct mpl_tensor *w, *x, *y;

    fixture_begin(&f);
    w = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    w->grad = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), false);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_op_mul(f.tape, mpl_op_neg(f.tape, x), w));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f),
                     "ones_like:16 mul:16 mul:16 ~neg:16 ~mul:16 neg:16 ~mul:16 ~ones_like:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, w);
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

/* ---- sums -------------------------------------------------------------------------------------
 */

/* x is used three times. The first gradient is nobody else's: the others are added to it. */
START_TEST(own_gradient_is_summed_in_place)
{
    struct fixture f;
    struct mpl_tensor *leaf, *x, *a, *b, *c, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    a = mpl_op_neg(f.tape, x);
    b = mpl_op_neg(f.tape, x);
    c = mpl_op_neg(f.tape, x);
    y = mpl_hold(mpl_op_add(f.tape, mpl_op_add(f.tape, a, b), c));
    mpl_drop(f.tape, x);
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 neg:16 neg:16 ~neg:16 neg:16 ~neg:16 "
                                      "neg:16 ~neg:16 ~ones_like:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* x + x: both gradients are the incoming tensor, which others hold. */
START_TEST(shared_gradient_needs_a_new_sum)
{
    struct fixture f;
    struct mpl_tensor *leaf, *x, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    y = mpl_hold(mpl_op_add(f.tape, x, x));
    mpl_drop(f.tape, x);
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 add:16 neg:16 ~add:16 ~ones_like:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* The first gradient of x comes through transpose: a view, though of a storage of its own. */
START_TEST(view_as_gradient_needs_a_new_sum)
{
    struct fixture f;
    struct mpl_tensor *leaf, *x, *a, *b, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 3), true);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    a = mpl_op_neg(f.tape, x);
    b = mpl_op_neg(f.tape, mpl_op_transpose(f.tape, x, 0, 1));
    y = mpl_hold(mpl_op_add(f.tape, a, mpl_op_transpose(f.tape, b, 0, 1)));
    mpl_drop(f.tape, x);
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:24 neg:24 neg:24 add:24 ~neg:24 ~neg:24 "
                                      "neg:24 ~add:24 ~ones_like:24");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* bfloat16 [4, 3] times float32 [3]: gradients are float32 [4, 3], then fitted in order. */
START_TEST(gradients_get_the_shape_and_format_of_inputs)
{
    struct fixture f;
    struct mpl_tensor *x, *w, *y;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(4, 3), true);
    w = fixture_leaf(&f, MPL_FLOAT32, SHAPE(3), true);
    y = mpl_hold(mpl_op_mul(f.tape, x, w));
    ck_assert_str_eq(fixture_log(&f), "leaf:24 leaf:12 mul:48");
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:48 mul:48 mul:48 _to_copy:24 ~mul:48 sum:12 "
                                      "~mul:48 ~ones_like:48");
    ck_assert_int_eq(x->grad->dtype, MPL_BFLOAT16);
    ck_assert_int_eq(w->grad->shape.ndim, 1);
    ck_assert_int_eq(w->grad->shape.dim[0].n, 3);
    ck_assert_int_eq(w->grad->stride[0], 1);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, w);
    fixture_end(&f);
}
END_TEST

/* Each link keeps its input: it goes right after its node, behind the incoming gradient. */
START_TEST(saved_tensors_go_with_their_node)
{
    struct fixture f;
    struct mpl_tensor *leaf, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_op_silu(f.tape, mpl_op_silu(f.tape, mpl_op_neg(f.tape, leaf))));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 silu_backward:16 ~silu:16 silu_backward:16 "
                                      "~silu_backward:16 ~neg:16 neg:16 ~silu_backward:16 "
                                      "~ones_like:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* ---- leaves -----------------------------------------------------------------------------------
 */

START_TEST(first_gradient_is_taken_the_next_is_added)
{
    struct fixture f;
    struct mpl_tensor *leaf, *y;
    struct mpl_storage *grad;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_op_neg(f.tape, leaf));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 neg:16 ~ones_like:16");
    grad = leaf->grad->storage;
    mpl_rebind(f.tape, &y, mpl_op_neg(f.tape, leaf));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 neg:16 ~neg:16 ~ones_like:16");
    ck_assert_ptr_eq(leaf->grad->storage, grad);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* A gradient that something else holds is copied: .grad must be the leaf's own. The seed is both
 * gradients of a sum. */
START_TEST(shared_gradient_of_a_leaf_is_copied)
{
    struct fixture f;
    struct mpl_tensor *u, *v, *y;

    fixture_begin(&f);
    u = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    v = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_op_add(f.tape, u, v));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 new_empty_strided:16 "
                                      "new_empty_strided:16 ~ones_like:16");
    ck_assert_ptr_ne(u->grad->storage, v->grad->storage);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, u);
    mpl_drop(f.tape, v);
    fixture_end(&f);
}
END_TEST

static int hook_calls;
static size_t hook_events; /* when the last one came */

static void count_hook(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    ck_assert_ptr_nonnull(leaf->grad);
    hook_calls++;
    hook_events = tape->timeline->events.len;
}

/* Embedding and head share w [5, 4]: .grad comes once, when both gradients are there. The head's is
 * a transposed view, so the sum is a third buffer. */
START_TEST(tied_leaf_waits_for_both)
{
    struct fixture f;
    struct mpl_tensor *w, *ids, *y;

    fixture_begin(&f);
    hook_calls = 0;
    w = fixture_leaf(&f, MPL_FLOAT32, SHAPE(5, 4), true);
    w->grad_hook = count_hook;
    ids = mpl_return(fixture_leaf(&f, MPL_INT64, SHAPE(1, 3), false));
    y = mpl_hold(mpl_op_linear(f.tape, mpl_op_embedding(f.tape, w, ids), w, NULL));
    ck_assert_str_eq(fixture_log(&f), "leaf:80 leaf:24 embedding:48 mm:60");
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f),
                     "ones_like:60 mm:80 mm:48 ~embedding:48 embedding_dense_backward:80 ~mm:48 "
                     "~leaf:24 add:80 ~mm:80 ~embedding_dense_backward:80 ~ones_like:60");
    ck_assert_int_eq(hook_calls, 1);
    ck_assert_uint_eq(hook_events, f.timeline.events.len - 1); /* all but the seed's end */
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, w);
    fixture_end(&f);
}
END_TEST

START_TEST(no_graph_without_need)
{
    struct fixture f;
    struct mpl_tensor *x, *w, *y;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), false);
    w = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_op_silu(f.tape, x));
    ck_assert_ptr_null(y->grad_fn);
    mpl_rebind(f.tape, &y, mpl_op_mul(f.tape, x, w));
    ck_assert_ptr_nonnull(y->grad_fn);
    ck_assert(!mpl_needs(y->grad_fn, 0));
    ck_assert(mpl_needs(y->grad_fn, 1));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 mul:16 ~ones_like:16");
    ck_assert_ptr_null(x->grad);
    f.tape->is_grad_enabled = false;
    mpl_rebind(f.tape, &y, mpl_op_mul(f.tape, x, w));
    ck_assert_ptr_null(y->grad_fn);
    ck_assert(!y->requires_grad);
    mpl_backward(f.tape, y); /* nothing to run */
    ck_assert_str_eq(fixture_log(&f), "mul:16 ~mul:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, w);
    fixture_end(&f);
}
END_TEST

static char order_log[16];

static void log_word(struct mpl_tape *tape, void *context)
{
    ck_assert(tape->is_in_backward);
    strcat(order_log, context);
}

static void log_and_queue(struct mpl_tape *tape, void *context)
{
    log_word(tape, context);
    mpl_queue_callback(tape, log_word, "q");
}

START_TEST(hooks_run_before_their_node_and_callbacks_at_the_end)
{
    struct fixture f;
    struct mpl_tensor *leaf, *x, *y;

    fixture_begin(&f);
    order_log[0] = 0;
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    mpl_add_pre_hook(f.tape, x, log_and_queue, "a");
    mpl_add_pre_hook(f.tape, x, log_word, "b");
    mpl_add_pre_hook(f.tape, leaf, log_word, "never");
    y = mpl_hold(mpl_op_neg(f.tape, x));
    mpl_add_pre_hook(f.tape, y, log_word, "y");
    mpl_backward(f.tape, y);
    ck_assert_str_eq(order_log, "yabq");
    ck_assert(!f.tape->is_in_backward);
    ck_assert(f.tape->is_grad_enabled);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* ---- autocast ---------------------------------------------------------------------------------
 */

/* Two uses of a float32 weight [3, 4] under bfloat16: one cast, 24 bytes, kept to the exit. */
START_TEST(weight_is_cast_once)
{
    struct fixture f;
    struct mpl_tensor *x, *w, *a, *b;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 4), false);
    w = fixture_leaf(&f, MPL_FLOAT32, SHAPE(3, 4), true);
    f.tape->autocast = MPL_BFLOAT16;
    f.tape->is_grad_enabled = true;
    a = mpl_hold(mpl_op_linear(f.tape, x, w, NULL));
    b = mpl_hold(mpl_op_linear(f.tape, x, w, NULL));
    ck_assert_str_eq(fixture_log(&f), "leaf:16 leaf:48 _to_copy:24 mm:12 mm:12");
    mpl_autocast_exit(f.tape);
    /* x needs no gradient: nothing else keeps the copy */
    ck_assert_str_eq(fixture_log(&f), "~_to_copy:24");
    f.tape->autocast = MPL_DTYPE_NONE;
    /* both uses end at one cast node: bfloat16 gradients are summed, then cast to float32 */
    mpl_rebind(f.tape, &a, mpl_op_add(f.tape, a, b));
    mpl_drop(f.tape, b);
    fixture_log(&f);
    mpl_backward(f.tape, a);
    ck_assert_str_eq(fixture_log(&f), "ones_like:12 mm:24 mm:24 add:24 ~mm:24 ~mm:24 _to_copy:48 "
                                      "~add:24 ~ones_like:12");
    ck_assert_int_eq(w->grad->dtype, MPL_FLOAT32);
    mpl_drop(f.tape, a);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, w);
    fixture_end(&f);
}
END_TEST

/* What autocast is asked about: format, leaf or result, trained or not; is the copy cached? */
static const struct {
    enum mpl_dtype dtype;
    bool is_result, is_trained, is_cast, is_cached;
} autocast_table[] = {
    {MPL_FLOAT32, false, true, true, true},    {MPL_FLOAT32, false, false, true, false},
    {MPL_FLOAT32, true, true, true, false},    {MPL_FLOAT16, false, true, true, false},
    {MPL_BFLOAT16, false, true, false, false}, {MPL_INT64, false, false, false, false},
};

START_TEST(only_trained_float32_leaves_are_cached)
{
    struct fixture f;
    struct mpl_tensor *x, *a, *b;

    fixture_begin(&f);
    x = fixture_leaf(&f, autocast_table[_i].dtype, SHAPE(8), autocast_table[_i].is_trained);
    if (autocast_table[_i].is_result)
        mpl_rebind(f.tape, &x, mpl_op_neg(f.tape, x));
    f.tape->autocast = MPL_BFLOAT16;
    a = mpl_hold(mpl_autocast(f.tape, x));
    b = mpl_hold(mpl_autocast(f.tape, x));
    ck_assert_int_eq(a != x, autocast_table[_i].is_cast);
    ck_assert_int_eq(a == b, autocast_table[_i].is_cached || !autocast_table[_i].is_cast);
    mpl_drop(f.tape, a);
    mpl_drop(f.tape, b);
    fixture_log(&f);
    mpl_autocast_exit(f.tape);
    ck_assert_str_eq(fixture_log(&f), autocast_table[_i].is_cached ? "~_to_copy:16" : "");
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

START_TEST(autocast_off_changes_nothing)
{
    struct fixture f;
    struct mpl_tensor *x;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(8), true);
    ck_assert_ptr_eq(mpl_autocast(f.tape, x), x);
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("engine");

    tcase_add_loop_test(tcase, newest_node_first, 0, ROWS(order_table));
    tcase_add_test(tcase, ready_nodes_are_a_heap);
    tcase_add_test(tcase, leaves_accumulate_at_once);
    tcase_add_test(tcase, own_gradient_is_summed_in_place);
    tcase_add_test(tcase, shared_gradient_needs_a_new_sum);
    tcase_add_test(tcase, view_as_gradient_needs_a_new_sum);
    tcase_add_test(tcase, gradients_get_the_shape_and_format_of_inputs);
    tcase_add_test(tcase, saved_tensors_go_with_their_node);
    tcase_add_test(tcase, first_gradient_is_taken_the_next_is_added);
    tcase_add_test(tcase, shared_gradient_of_a_leaf_is_copied);
    tcase_add_test(tcase, tied_leaf_waits_for_both);
    tcase_add_test(tcase, no_graph_without_need);
    tcase_add_test(tcase, hooks_run_before_their_node_and_callbacks_at_the_end);
    tcase_add_test(tcase, weight_is_cast_once);
    tcase_add_loop_test(tcase, only_trained_float32_leaves_are_cached, 0, ROWS(autocast_table));
    tcase_add_test(tcase, autocast_off_changes_nothing);
    return test_run("engine", tcase);
}
