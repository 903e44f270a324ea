/* SPDX-License-Identifier: MIT */
/* The tape: who lives how long, which storages views share, how results are laid out, and what
 * happens past a limit. Layouts and copies were read off PyTorch 2.13. */
#include "op/rule.h"
#include "tape_fixture.h"

/* ---- lifetimes --------------------------------------------------------------------------------
 */

START_TEST(floating_dies_with_its_taker)
{
    struct fixture f;
    struct mpl_tensor *x, *y;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 3), false);
    y = mpl_op_neg(f.tape, mpl_op_rsqrt(f.tape, x));
    ck_assert_str_eq(fixture_log(&f), "leaf:24 rsqrt:24 neg:24 ~rsqrt:24");
    mpl_consume(f.tape, y);
    mpl_consume(f.tape, x); /* has a name: stays */
    ck_assert_str_eq(fixture_log(&f), "~neg:24");
    mpl_drop(f.tape, x);
    ck_assert_str_eq(fixture_log(&f), "~leaf:24");
    fixture_end(&f);
}
END_TEST

START_TEST(held_lives_until_its_names_end)
{
    struct fixture f;
    struct mpl_tensor *x, *other;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 3), false);
    other = mpl_hold(x);
    mpl_consume(f.tape, mpl_op_neg(f.tape, x));
    mpl_drop(f.tape, x);
    ck_assert_str_eq(fixture_log(&f), "leaf:24 neg:24 ~neg:24");
    mpl_drop(f.tape, other);
    mpl_drop(f.tape, NULL);
    ck_assert_str_eq(fixture_log(&f), "~leaf:24");
    fixture_end(&f);
}
END_TEST

START_TEST(rebinding_frees_the_old_value_last)
{
    struct fixture f;
    struct mpl_tensor *x;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 3), false);
    mpl_rebind(f.tape, &x, mpl_op_neg(f.tape, x));
    ck_assert_str_eq(fixture_log(&f), "leaf:24 neg:24 ~leaf:24");
    mpl_rebind(f.tape, &x, x); /* x = x */
    ck_assert_str_eq(fixture_log(&f), "");
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

START_TEST(returned_local_is_a_temporary)
{
    struct fixture f;
    struct mpl_tensor *x;

    fixture_begin(&f);
    x = mpl_return(fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 3), false));
    x = mpl_op_neg(f.tape, x);
    ck_assert_str_eq(fixture_log(&f), "leaf:24 neg:24 ~leaf:24");
    /* twice the same temporary in one call: let go of once */
    mpl_consume(f.tape, mpl_op_mul(f.tape, x, x));
    ck_assert_str_eq(fixture_log(&f), "mul:24 ~neg:24 ~mul:24");
    fixture_end(&f);
}
END_TEST

/* x is kept by silu and by square: one storage, freed by whichever node is done last. */
START_TEST(saved_by_two_nodes_counts_once)
{
    struct fixture f;
    struct mpl_tensor *leaf, *x, *a, *b, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = mpl_hold(mpl_op_neg(f.tape, leaf));
    a = mpl_op_silu(f.tape, x);
    b = mpl_op_square(f.tape, x);
    y = mpl_hold(mpl_op_add(f.tape, a, b));
    mpl_drop(f.tape, x);
    ck_assert_str_eq(fixture_log(&f), "leaf:16 neg:16 silu:16 pow:16 add:16 ~silu:16 ~pow:16");
    ck_assert_uint_eq(fixture_live(&f), 3 * 16);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:16 pow:16 mul:16 mul:16 ~mul:16 ~pow:16 "
                                      "silu_backward:16 ~neg:16 ~silu_backward:16 "
                                      "neg:16 ~mul:16 ~ones_like:16");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

START_TEST(a_graph_that_is_dropped_lets_go_of_what_it_kept)
{
    struct fixture f;
    struct mpl_tensor *leaf, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_op_silu(f.tape, mpl_op_silu(f.tape, mpl_op_silu(f.tape, leaf))));
    mpl_drop(f.tape, leaf);
    ck_assert_uint_eq(fixture_live(&f), 4 * 16); /* the leaf too: its accumulator has it */
    mpl_drop(f.tape, y);
    fixture_end(&f);
}
END_TEST

START_TEST(deep_graphs_need_no_stack)
{
    struct fixture f;
    struct mpl_tensor *leaf, *y;

    fixture_begin(&f);
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    y = mpl_hold(mpl_op_neg(f.tape, leaf));
    for (int i = 0; i < 100000; i++)
        mpl_rebind(f.tape, &y, mpl_op_neg(f.tape, y));
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

START_TEST(storages_can_be_emptied_and_refilled)
{
    struct fixture f;
    struct mpl_tensor *x, *view;

    fixture_begin(&f);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 3), false);
    view = mpl_hold(mpl_op_reshape(f.tape, x, SHAPE(6)));
    mpl_storage_refill(f.tape, x, "again"); /* nothing to do */
    mpl_storage_release(f.tape, x->storage);
    mpl_storage_release(f.tape, x->storage);
    ck_assert_str_eq(fixture_log(&f), "leaf:12 ~leaf:12");
    mpl_storage_refill(f.tape, view, "again");
    ck_assert_str_eq(fixture_log(&f), "again:12");
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, view);
    ck_assert_str_eq(fixture_log(&f), "~again:12");
    mpl_scratch(f.tape, "kernel", 7);
    mpl_scratch(f.tape, "kernel", 0);
    ck_assert_str_eq(fixture_log(&f), "kernel:7 ~kernel:7");
    fixture_end(&f);
}
END_TEST

START_TEST(requests_say_what_they_are_for)
{
    struct fixture f;
    struct mpl_shape shape = mpl_shape3(mpl_dim(2), (struct mpl_dim){3, 1}, (struct mpl_dim){3, 1});
    struct mpl_tensor *leaf, *x, *y;

    fixture_begin(&f);
    mpl_tape_mark(f.tape, 0, 0, MPL_PHASE_INIT);
    f.tape->category = MPL_CATEGORY_PARAMETERS;
    leaf = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    f.tape->category = MPL_CATEGORY_TEMPORARY;
    mpl_tape_mark(f.tape, 0, 0, MPL_PHASE_FORWARD);
    x = mpl_op_neg(f.tape, leaf);
    y = mpl_hold(mpl_op_silu(f.tape, x));
    f.tape->stream = MPL_STREAM_ALL_GATHER;
    mpl_drop(f.tape, mpl_hold(mpl_empty(f.tape, "square", MPL_BOOL, &shape)));
    f.tape->stream = MPL_STREAM_DEFAULT;
    mpl_tape_mark(f.tape, 0, 0, MPL_PHASE_BACKWARD);
    mpl_backward(f.tape, y);
    ck_assert_int_eq(f.timeline.requests.data[0].category, MPL_CATEGORY_PARAMETERS);
    ck_assert_int_eq(f.timeline.requests.data[0].phase, MPL_PHASE_INIT);
    /* silu keeps it */
    ck_assert_int_eq(f.timeline.requests.data[1].category, MPL_CATEGORY_ACTIVATIONS);
    ck_assert_int_eq(f.timeline.requests.data[1].phase, MPL_PHASE_FORWARD);
    ck_assert_int_eq(f.timeline.requests.data[2].category, MPL_CATEGORY_TEMPORARY);
    ck_assert_int_eq(f.timeline.requests.data[3].stream, MPL_STREAM_ALL_GATHER);
    ck_assert_int_eq(f.timeline.requests.data[3].order, MPL_QUADRATIC);
    ck_assert_int_eq(f.timeline.infos.data[3].shape[2], 3);
    ck_assert_int_eq(f.timeline.infos.data[3].dtype, MPL_BOOL);
    /* the last one is neg's backward, the leaf's gradient */
    ck_assert_int_eq(f.timeline.requests.data[f.timeline.requests.len - 1].category,
                     MPL_CATEGORY_GRADIENTS);
    ck_assert_uint_eq(f.timeline.marks.len, 3);
    ck_assert_uint_eq(f.timeline.step_count, 1);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, leaf);
    fixture_end(&f);
}
END_TEST

/* ---- views ------------------------------------------------------------------------------------
 */

/* A base, two of its dimensions swapped (i == j: none), reshaped: strides of the view, or a copy.
 */
static const struct {
    int ndim;
    int64_t base[4];
    int i, j;
    int to_ndim;
    int64_t to[4];
    bool is_copy;
    int64_t stride[4];
} reshape_table[] = {
    {3, {2, 3, 4}, 0, 0, 2, {6, 4}, false, {4, 1}},
    {3, {2, 3, 4}, 0, 0, 2, {2, 12}, false, {12, 1}},
    {3, {2, 3, 4}, 0, 1, 2, {6, 4}, true, {4, 1}},
    {3, {2, 3, 4}, 0, 1, 2, {3, 8}, true, {8, 1}},
    {2, {2, 12}, 0, 0, 3, {2, 3, 4}, false, {12, 4, 1}},
    /* heads after transpose(1, 2): joined back only where one of the two is of size 1 */
    {4, {1, 5, 4, 8}, 1, 2, 3, {1, 4, 40}, true, {160, 40, 1}},
    {4, {1, 5, 4, 8}, 1, 2, 3, {4, 5, 8}, false, {8, 32, 1}},
    {4, {2, 5, 4, 8}, 1, 2, 3, {8, 5, 8}, true, {40, 8, 1}},
    {4, {2, 5, 4, 8}, 1, 2, 3, {2, 4, 40}, true, {160, 40, 1}},
    {4, {1, 1, 4, 8}, 1, 2, 3, {1, 4, 8}, false, {32, 8, 1}},
    {4, {1, 1, 4, 8}, 1, 2, 3, {1, 1, 32}, false, {32, 32, 1}},
    {4, {2, 5, 1, 8}, 1, 2, 3, {2, 5, 8}, false, {40, 8, 1}},
    {4, {2, 5, 1, 8}, 1, 2, 2, {2, 40}, false, {40, 1}},
    /* sizes of 1 do not matter, and splitting always works */
    {3, {3, 1, 4}, 0, 1, 1, {12}, false, {1}},
    {2, {4, 3}, 0, 1, 3, {3, 2, 2}, false, {1, 6, 3}},
    {2, {3, 4}, 0, 1, 3, {2, 2, 3}, false, {2, 1, 4}},
    {2, {3, 4}, 0, 1, 3, {4, 3, 1}, false, {1, 4, 4}},
    {2, {3, 4}, 0, 1, 1, {12}, true, {1}},
    {2, {3, 4}, 0, 1, 2, {2, 6}, true, {6, 1}},
};

START_TEST(reshape_copies_only_when_strides_demand_it)
{
    const int ndim = reshape_table[_i].ndim, to_ndim = reshape_table[_i].to_ndim;
    struct fixture f;
    struct mpl_shape shape;
    struct mpl_tensor *base, *seen, *out;

    fixture_begin(&f);
    base = fixture_leaf(&f, MPL_BFLOAT16, shape_of(ndim, reshape_table[_i].base), false);
    seen = mpl_hold(reshape_table[_i].i == reshape_table[_i].j
                        ? mpl_op_reshape(f.tape, base, base->shape)
                        : mpl_op_transpose(f.tape, base, reshape_table[_i].i, reshape_table[_i].j));
    out = mpl_hold(mpl_op_reshape(f.tape, seen, shape_of(to_ndim, reshape_table[_i].to)));
    ck_assert_int_eq(out->storage != base->storage, reshape_table[_i].is_copy);
    for (int k = 0; k < to_ndim; k++) {
        ck_assert_int_eq(out->shape.dim[k].n, reshape_table[_i].to[k]);
        ck_assert_int_eq(out->stride[k], reshape_table[_i].stride[k]);
    }
    ck_assert_uint_eq(f.timeline.requests.len, reshape_table[_i].is_copy ? 2 : 1);
    /* the rule that backward uses decides the same */
    mpl_drop(f.tape, out);
    shape = shape_of(to_ndim, reshape_table[_i].to);
    out = mpl_rule_reshape(f.tape, seen, &shape);
    ck_assert_int_eq(out->storage != base->storage, reshape_table[_i].is_copy);
    ck_assert_int_eq(out->stride[0], reshape_table[_i].stride[0]);
    mpl_drop(f.tape, out);
    mpl_drop(f.tape, seen);
    mpl_drop(f.tape, base);
    fixture_end(&f);
}
END_TEST

START_TEST(view_keeps_the_whole_base)
{
    struct fixture f;
    struct mpl_tensor *base, *view;

    fixture_begin(&f);
    base = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(4, 8), false);
    view = mpl_hold(mpl_op_slice_last(f.tape, base, mpl_dim(1)));
    mpl_drop(f.tape, base);
    ck_assert_uint_eq(fixture_live(&f), 64);
    ck_assert(view->is_view);
    ck_assert(!view->is_contiguous);
    mpl_rebind(f.tape, &view, mpl_op_contiguous(f.tape, view));
    ck_assert_str_eq(fixture_log(&f), "leaf:64 clone:8 ~leaf:64");
    mpl_drop(f.tape, view);
    fixture_end(&f);
}
END_TEST

static const struct {
    int ndim;
    int64_t base[4];
    int i, j;
    bool is_contiguous;
} contiguous_table[] = {
    {2, {1, 5}, 0, 1, true},       {2, {5, 1}, 0, 1, true},        {2, {2, 3}, 0, 1, false},
    {3, {2, 1, 3}, 0, 1, true},    {3, {2, 1, 3}, 1, 2, true},     {3, {2, 1, 3}, 0, 2, false},
    {4, {1, 1, 4, 8}, 1, 2, true}, {4, {1, 5, 4, 8}, 1, 2, false}, {4, {2, 5, 1, 8}, 1, 2, true},
};

START_TEST(contiguous_ignores_dimensions_of_one)
{
    const int i = contiguous_table[_i].i, j = contiguous_table[_i].j;
    const bool expected = contiguous_table[_i].is_contiguous;
    struct mpl_shape shape = shape_of(contiguous_table[_i].ndim, contiguous_table[_i].base);
    struct fixture f;
    struct mpl_tensor *base, *seen, *strided, *out;

    fixture_begin(&f);
    base = fixture_leaf(&f, MPL_FLOAT32, shape, false);
    seen = mpl_hold(mpl_op_transpose(f.tape, base, i, j));
    ck_assert_int_eq(seen->is_contiguous, expected);
    out = mpl_hold(mpl_op_contiguous(f.tape, seen));
    ck_assert_int_eq(out->storage == base->storage, expected);
    ck_assert(out->is_contiguous);
    /* the same said by strides */
    strided =
        mpl_hold(mpl_empty_strided(f.tape, "strided", MPL_FLOAT32, &seen->shape, seen->stride));
    ck_assert_int_eq(strided->is_contiguous, expected);
    mpl_drop(f.tape, strided);
    mpl_drop(f.tape, out);
    mpl_drop(f.tape, seen);
    mpl_drop(f.tape, base);
    fixture_end(&f);
}
END_TEST

START_TEST(expanded_dimensions_have_no_stride)
{
    struct fixture f;
    struct mpl_tensor *base, *wide, *out;

    fixture_begin(&f);
    base = fixture_leaf(&f, MPL_FLOAT32, SHAPE(1, 4), false);
    wide = mpl_hold(mpl_op_expand(f.tape, base, SHAPE(3, 4)));
    ck_assert_int_eq(wide->stride[0], 0);
    ck_assert_int_eq(wide->stride[1], 1);
    ck_assert(!wide->is_contiguous);
    out = mpl_hold(mpl_op_reshape(f.tape, wide, SHAPE(3, 2, 2)));
    ck_assert_int_eq(out->stride[0], 0);
    mpl_rebind(f.tape, &out, mpl_op_reshape(f.tape, wide, SHAPE(12)));
    ck_assert_str_eq(fixture_log(&f), "leaf:16 clone:48");
    mpl_drop(f.tape, out);
    mpl_drop(f.tape, wide);
    mpl_drop(f.tape, base);
    fixture_end(&f);
}
END_TEST

/* ---- layout of results ------------------------------------------------------------------------
 */

/* Two operands (the second may be none): shape in memory, then two dimensions swapped. */
static const struct {
    int ndim;
    int64_t a[4];
    int ai, aj, b_ndim;
    int64_t b[4];
    int bi, bj;
    int64_t stride[4]; /* of the result */
} layout_table[] = {
    {2, {3, 4}, 0, 1, 0, {0}, 0, 0, {1, 4}},
    {2, {4, 3}, 0, 0, 2, {3, 4}, 0, 1, {3, 1}}, /* the first operand decides */
    {2, {3, 4}, 0, 1, 2, {4, 3}, 0, 0, {1, 4}},
    {2, {1, 3}, 0, 0, 2, {3, 4}, 0, 1, {1, 4}}, /* what is broadcast has no say */
    {1, {3}, 0, 0, 2, {3, 4}, 0, 1, {1, 4}},
    {2, {3, 4}, 0, 1, 1, {3}, 0, 0, {1, 4}},
    {2, {2, 3}, 0, 0, 2, {1, 3}, 0, 0, {3, 1}},
    {2, {1, 3}, 0, 0, 2, {4, 1}, 0, 0, {3, 1}},
    /* queries with their heads inside, times cos of [1, 1, s, d] */
    {4, {2, 5, 4, 8}, 1, 2, 4, {1, 1, 5, 8}, 0, 0, {160, 8, 32, 1}},
    {4, {1, 1, 5, 8}, 0, 0, 4, {2, 5, 4, 8}, 1, 2, {160, 8, 32, 1}},
    {3, {2, 3, 4}, 0, 2, 0, {0}, 0, 0, {1, 4, 12}},
    {3, {2, 3, 4}, 0, 2, 3, {4, 2, 3}, 1, 2, {1, 4, 12}},
};

START_TEST(results_are_laid_out_like_their_operands)
{
    struct fixture f;
    struct mpl_tensor *a, *b = NULL, *out;

    fixture_begin(&f);
    a = mpl_return(
        fixture_leaf(&f, MPL_FLOAT32, shape_of(layout_table[_i].ndim, layout_table[_i].a), false));
    if (layout_table[_i].ai != layout_table[_i].aj)
        a = mpl_op_transpose(f.tape, a, layout_table[_i].ai, layout_table[_i].aj);
    if (layout_table[_i].b_ndim)
        b = mpl_return(fixture_leaf(&f, MPL_FLOAT32,
                                    shape_of(layout_table[_i].b_ndim, layout_table[_i].b), false));
    if (layout_table[_i].bi != layout_table[_i].bj)
        b = mpl_op_transpose(f.tape, b, layout_table[_i].bi, layout_table[_i].bj);
    out = mpl_hold(b ? mpl_op_add(f.tape, a, b) : mpl_op_neg(f.tape, a));
    for (int i = 0; i < out->shape.ndim; i++)
        ck_assert_int_eq(out->stride[i], layout_table[_i].stride[i]);
    ck_assert_uint_eq(fixture_live(&f), (uint64_t)mpl_numel(out) * 4);
    mpl_drop(f.tape, out);
    fixture_end(&f);
}
END_TEST

/* A slice is not dense: its results are, in the order of its strides. */
START_TEST(results_of_slices_are_dense)
{
    struct fixture f;
    struct mpl_tensor *x, *out;

    fixture_begin(&f);
    x = mpl_hold(mpl_op_transpose(
        f.tape, mpl_return(fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 5, 4, 8), false)), 1, 2));
    out = mpl_hold(mpl_op_neg(f.tape, mpl_op_slice_last(f.tape, x, mpl_dim(4))));
    ck_assert_int_eq(out->stride[0], 80);
    ck_assert_int_eq(out->stride[1], 4);
    ck_assert_int_eq(out->stride[2], 16);
    ck_assert_str_eq(fixture_log(&f), "leaf:1280 neg:640");
    mpl_drop(f.tape, out);
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

/* ---- limits -----------------------------------------------------------------------------------
 */

#define PIB (INT64_C(1) << 50)

/* float32: past 1 PiB, past 64 bits of bytes, of elements. */
static const struct {
    int64_t a, b;
    bool is_fine;
} size_table[] = {
    {PIB / 4, 1, true},
    {PIB / 4 + 1, 1, false},
    {INT64_MAX / 2, 1, false},
    {INT64_MAX, INT64_MAX, false},
    {INT64_C(1) << 32, INT64_C(1) << 32, false}, /* 2^64 elements would wrap to none */
    {0, INT64_MAX, true},
};

START_TEST(one_tensor_has_a_largest_size)
{
    struct fixture f;
    struct mpl_shape shape = SHAPE(size_table[_i].a, size_table[_i].b);
    struct mpl_tensor *x;

    fixture_begin(&f);
    x = mpl_hold(mpl_empty(f.tape, "x", MPL_FLOAT32, &shape));
    ck_assert_int_eq(f.tape->err.status,
                     size_table[_i].is_fine ? MEMPLAN_OK : MEMPLAN_ERR_OVERFLOW);
    ck_assert_int_eq(x->is_void, !size_table[_i].is_fine);
    mpl_drop(f.tape, x);
    fixture_end(&f);
}
END_TEST

START_TEST(all_tensors_together_have_a_largest_size)
{
    struct fixture f;
    struct mpl_shape shape = SHAPE(PIB);
    struct mpl_tensor *kept[257];
    int count = 0;

    fixture_begin(&f);
    while (count < 256)
        kept[count++] = mpl_hold(mpl_empty(f.tape, "x", MPL_UINT8, &shape));
    ck_assert_int_eq(f.tape->err.status, MEMPLAN_OK);
    kept[count++] = mpl_hold(mpl_empty(f.tape, "x", MPL_UINT8, &shape));
    ck_assert_int_eq(f.tape->err.status, MEMPLAN_ERR_OVERFLOW);
    while (count)
        mpl_drop(f.tape, kept[--count]);
    fixture_end(&f);
}
END_TEST

#define MOST_REQUESTS ((size_t)1 << 22)

START_TEST(requests_have_a_largest_number)
{
    struct mpl_timeline timeline = {0};
    struct mpl_tape *tape = mpl_tape_new(&timeline);

    /* room for all, and all but one are there */
    timeline.requests.data = malloc(MOST_REQUESTS * sizeof(*timeline.requests.data));
    timeline.requests.cap = MOST_REQUESTS;
    timeline.requests.len = MOST_REQUESTS - 1;
    mpl_scratch(tape, "last", 8);
    ck_assert_int_eq(tape->err.status, MEMPLAN_OK);
    ck_assert_uint_eq(timeline.requests.len, MOST_REQUESTS);
    mpl_scratch(tape, "too many", 8);
    ck_assert_int_eq(tape->err.status, MEMPLAN_ERR_LIMIT);
    ck_assert_uint_eq(timeline.requests.len, MOST_REQUESTS);
    mpl_tape_free(tape);
    mpl_timeline_free(&timeline);
}
END_TEST

START_TEST(first_failure_stays)
{
    struct fixture f;

    fixture_begin(&f);
    mpl_tape_fail(f.tape, MEMPLAN_ERR_LIMIT, "first");
    mpl_tape_fail(f.tape, MEMPLAN_ERR_NOMEM, "second");
    ck_assert_int_eq(f.tape->err.status, MEMPLAN_ERR_LIMIT);
    ck_assert_str_eq(f.tape->err.text, "first");
    fixture_end(&f);
}
END_TEST

/* Every operator on a stopped tape: void results, nothing booked. */
START_TEST(stopped_tape_does_nothing)
{
    struct fixture f;
    struct mpl_tape *tape;
    struct mpl_tensor *v, *out[24], *name;
    struct mpl_shape shape = SHAPE(2, 2);
    size_t events;
    int count = 0;

    fixture_begin(&f);
    tape = f.tape;
    mpl_tape_fail(tape, MEMPLAN_ERR_OVERFLOW, "stop");
    events = f.timeline.events.len;
    v = mpl_empty(tape, "x", MPL_FLOAT32, &shape);
    out[count++] = mpl_alias(tape, v);
    out[count++] = mpl_empty_like(tape, "x", MPL_FLOAT32, v, v);
    out[count++] = mpl_op_add(tape, v, v);
    out[count++] = mpl_op_mul(tape, v, v);
    out[count++] = mpl_op_add_scalar(tape, v);
    out[count++] = mpl_op_mul_scalar(tape, v);
    out[count++] = mpl_op_square(tape, v);
    out[count++] = mpl_op_rsqrt(tape, v);
    out[count++] = mpl_op_silu(tape, v);
    out[count++] = mpl_op_to(tape, v, MPL_BFLOAT16);
    out[count++] = mpl_op_map(tape, "x", MPL_BOOL, v, NULL);
    out[count++] = mpl_op_mean_last(tape, v);
    out[count++] = mpl_op_softmax(tape, v, MPL_FLOAT32);
    out[count++] = mpl_op_reshape(tape, v, shape);
    out[count++] = mpl_op_transpose(tape, v, 0, 1);
    out[count++] = mpl_op_unsqueeze(tape, v, 0);
    out[count++] = mpl_op_contiguous(tape, v);
    out[count++] = mpl_op_cat(tape, v, v, 0);
    out[count++] = mpl_op_linear(tape, v, v, v);
    out[count++] = mpl_op_matmul(tape, v, v);
    out[count++] = mpl_op_embedding(tape, v, v);
    out[count++] = mpl_op_sdpa(tape, v, v, v, NULL, true);
    out[count++] = mpl_op_cross_entropy(tape, v, v);
    for (int i = 0; i < count; i++) {
        ck_assert_msg(out[i]->is_void, "operator %d", i);
        mpl_consume(tape, out[i]);
    }
    name = mpl_hold(v);
    mpl_rebind(tape, &name, mpl_return(v));
    mpl_backward(tape, name);
    mpl_drop(tape, name);
    mpl_scratch(tape, "x", 8);
    mpl_cublas_workspace(tape);
    mpl_tape_mark(tape, 0, 0, MPL_PHASE_FORWARD);
    ck_assert_uint_eq(f.timeline.events.len, events);
    fixture_end(&f);
}
END_TEST

/* A failure in the middle of a graph: what is there can still be dropped. */
START_TEST(failure_inside_a_graph_leaks_nothing)
{
    struct fixture f;
    struct mpl_tensor *w, *x, *y;

    fixture_begin(&f);
    w = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4), true);
    x = mpl_hold(mpl_op_silu(f.tape, w));
    mpl_tape_fail(f.tape, MEMPLAN_ERR_LIMIT, "stop");
    y = mpl_hold(mpl_op_mul(f.tape, x, w));
    mpl_backward(f.tape, y);
    ck_assert(y->is_void);
    ck_assert_ptr_null(w->grad);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, w);
    fixture_end(&f);
}
END_TEST

START_TEST(huge_dimensions_stop_every_operator)
{
    struct fixture f;
    struct mpl_tensor *wide, *tall, *out;

    fixture_begin(&f);
    /* broadcast of two fine tensors to 2^80 elements */
    wide = fixture_leaf(&f, MPL_UINT8, SHAPE(1, INT64_C(1) << 40), true);
    tall = fixture_leaf(&f, MPL_UINT8, SHAPE(INT64_C(1) << 40, 1), true);
    out = mpl_hold(mpl_op_add(f.tape, wide, tall));
    ck_assert(out->is_void);
    ck_assert_int_eq(f.tape->err.status, MEMPLAN_ERR_OVERFLOW);
    mpl_drop(f.tape, out);
    mpl_drop(f.tape, wide);
    mpl_drop(f.tape, tall);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("tape");

    tcase_add_test(tcase, floating_dies_with_its_taker);
    tcase_add_test(tcase, held_lives_until_its_names_end);
    tcase_add_test(tcase, rebinding_frees_the_old_value_last);
    tcase_add_test(tcase, returned_local_is_a_temporary);
    tcase_add_test(tcase, saved_by_two_nodes_counts_once);
    tcase_add_test(tcase, a_graph_that_is_dropped_lets_go_of_what_it_kept);
    tcase_add_test(tcase, deep_graphs_need_no_stack);
    tcase_add_test(tcase, storages_can_be_emptied_and_refilled);
    tcase_add_test(tcase, requests_say_what_they_are_for);
    tcase_add_loop_test(tcase, reshape_copies_only_when_strides_demand_it, 0, ROWS(reshape_table));
    tcase_add_test(tcase, view_keeps_the_whole_base);
    tcase_add_loop_test(tcase, contiguous_ignores_dimensions_of_one, 0, ROWS(contiguous_table));
    tcase_add_test(tcase, expanded_dimensions_have_no_stride);
    tcase_add_loop_test(tcase, results_are_laid_out_like_their_operands, 0, ROWS(layout_table));
    tcase_add_test(tcase, results_of_slices_are_dense);
    tcase_add_loop_test(tcase, one_tensor_has_a_largest_size, 0, ROWS(size_table));
    tcase_add_test(tcase, all_tensors_together_have_a_largest_size);
    tcase_add_test(tcase, requests_have_a_largest_number);
    tcase_add_test(tcase, first_failure_stays);
    tcase_add_test(tcase, stopped_tape_does_nothing);
    tcase_add_test(tcase, failure_inside_a_graph_leaks_nothing);
    tcase_add_test(tcase, huge_dimensions_stop_every_operator);
    return test_run("tape", tcase);
}
