/* SPDX-License-Identifier: MIT */
/* Order of kernels and reuse of buffers in compiled graphs: answers worked out by hand. */
#include "compile/inductor.h"
#include "test.h"

#define END        MPL_INDUCTOR_NONE
#define READS(...) ((const uint8_t[]){__VA_ARGS__, END})

enum { A, B, C, D, E, Z };

static struct mpl_inductor_graph graph;
static struct mpl_inductor_plan plan;

static void setup(void)
{
    graph = (struct mpl_inductor_graph){0};
}

/* A buffer of so many bytes that the kernel added last makes. */
static struct mpl_inductor_value *buf(uint8_t number, int64_t bytes)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "z"};

    return mpl_inductor_buffer(&graph, number, names[number], mpl_dim(bytes), mpl_dim(1),
                               MPL_UINT8);
}

static void ck_events(const struct mpl_inductor_event *want, int count)
{
    ck_assert_int_eq(plan.event_count, count);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(plan.events[i].action, want[i].action);
        ck_assert_int_eq(plan.events[i].value, want[i].value);
    }
}

#define CK_EVENTS(...)                                                                             \
    do {                                                                                           \
        const struct mpl_inductor_event want[] = {__VA_ARGS__};                                    \
        ck_events(want, ROWS(want));                                                               \
    } while (0)

#define TAKE(value)                                                                                \
    {                                                                                              \
        MPL_INDUCTOR_ALLOC, value                                                                  \
    }
#define GIVE(value)                                                                                \
    {                                                                                              \
        MPL_INDUCTOR_FREE, value                                                                   \
    }

/* a -> b -> c. a ends with the second kernel, so c can lie in it. */
START_TEST(buffer_is_taken_by_the_next_kernel)
{
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 100);
    mpl_inductor_kernel(&graph, READS(A), NULL);
    buf(B, 100);
    mpl_inductor_kernel(&graph, READS(B), NULL);
    buf(C, 100)->is_result = true;
    mpl_inductor_plan(&graph, &plan);
    CK_EVENTS(TAKE(A), TAKE(B), GIVE(B));
    ck_assert_int_eq(plan.home[C], A);
}
END_TEST

START_TEST(other_size_is_no_match)
{
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 100);
    mpl_inductor_kernel(&graph, READS(A), NULL);
    buf(B, 100);
    mpl_inductor_kernel(&graph, READS(B), NULL);
    buf(C, 101)->is_result = true;
    mpl_inductor_plan(&graph, &plan);
    CK_EVENTS(TAKE(A), TAKE(B), GIVE(A), TAKE(C), GIVE(B));
}
END_TEST

START_TEST(symbolic_size_matches_no_static_one)
{
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 100);
    mpl_inductor_kernel(&graph, READS(A), NULL);
    buf(B, 100);
    mpl_inductor_kernel(&graph, READS(B), NULL);
    buf(C, 100)->is_result = true;
    graph.values[C].is_symbolic = true;
    mpl_inductor_plan(&graph, &plan);
    CK_EVENTS(TAKE(A), TAKE(B), GIVE(A), TAKE(C), GIVE(B));
}
END_TEST

/* a and b end together, in the order of their names; d takes the one freed last. */
START_TEST(last_freed_goes_first)
{
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 100);
    buf(B, 100);
    mpl_inductor_kernel(&graph, READS(A, B), NULL);
    buf(C, 50);
    mpl_inductor_kernel(&graph, READS(C), NULL);
    buf(D, 100)->is_result = true;
    mpl_inductor_plan(&graph, &plan);
    CK_EVENTS(TAKE(A), TAKE(B), TAKE(C), GIVE(A), GIVE(C));
    ck_assert_int_eq(plan.home[D], B);
}
END_TEST

/* Between a and e lie kernels whose level is 10 + 1000. With first_bytes beside a the expected peak
 * is 100 + first_bytes + 10, else 1010. */
static void far_apart(int64_t first_bytes)
{
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 100);
    if (first_bytes)
        buf(Z, first_bytes);
    mpl_inductor_kernel(&graph, first_bytes ? READS(A, Z) : READS(A), NULL);
    buf(B, 10);
    mpl_inductor_kernel(&graph, READS(B), NULL);
    buf(C, 1000);
    mpl_inductor_kernel(&graph, READS(C), NULL);
    buf(D, 10);
    mpl_inductor_kernel(&graph, READS(D), NULL);
    buf(E, 100)->is_result = true;
    mpl_inductor_plan(&graph, &plan);
}

START_TEST(reuse_may_not_raise_the_peak)
{
    far_apart(0);
    ck_assert_int_eq(plan.estimate, 1010);
    ck_assert_int_eq(plan.home[E], E);
}
END_TEST

/* 1010 + 100 = 1110 is just the peak of 100 + 1000 + 10. */
START_TEST(reuse_up_to_the_peak)
{
    far_apart(1000);
    ck_assert_int_eq(plan.estimate, 1110);
    ck_assert_int_eq(plan.home[E], A);
}
END_TEST

START_TEST(in_place_at_the_last_reader)
{
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 100);
    mpl_inductor_kernel(&graph, READS(A), NULL);
    buf(B, 100)->in_place_of = A;
    mpl_inductor_kernel(&graph, READS(B), NULL);
    buf(C, 10)->is_result = true;
    mpl_inductor_plan(&graph, &plan);
    CK_EVENTS(TAKE(A), TAKE(C), GIVE(A));
    ck_assert_int_eq(plan.home[B], A);
}
END_TEST

START_TEST(not_in_place_while_read_later)
{
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 100);
    mpl_inductor_kernel(&graph, READS(A), NULL);
    buf(B, 100)->in_place_of = A;
    mpl_inductor_kernel(&graph, READS(A, B), NULL);
    buf(C, 10)->is_result = true;
    mpl_inductor_plan(&graph, &plan);
    CK_EVENTS(TAKE(A), TAKE(B), TAKE(C), GIVE(A), GIVE(B));
}
END_TEST

/* Two pairs, a large one and a small one; c and d are results of one byte. */
static void two_branches(void)
{
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 1000);
    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(B, 10);
    mpl_inductor_kernel(&graph, READS(A), NULL);
    buf(C, 1)->is_result = true;
    mpl_inductor_kernel(&graph, READS(B), NULL);
    buf(D, 1)->is_result = true;
}

/* Greedy: the small kernel raises the peak least, then its reader frees it; depth first: the same
 * by weight; breadth first: both producers first. */
static const struct {
    enum mpl_inductor_order method;
    uint8_t order[4];
    int64_t peak;
} candidates[] = {
    {MPL_INDUCTOR_BASELINE, {0, 1, 2, 3}, 1011},
    {MPL_INDUCTOR_LPMF, {1, 3, 0, 2}, 1002},
    {MPL_INDUCTOR_BFS, {0, 1, 2, 3}, 1011},
    {MPL_INDUCTOR_DFS, {1, 3, 0, 2}, 1002},
};

START_TEST(candidate_orders)
{
    uint8_t order[4];

    two_branches();
    mpl_inductor_order(&graph, candidates[_i].method, order);
    ck_assert_mem_eq(order, candidates[_i].order, sizeof(order));
    ck_assert_int_eq(mpl_inductor_estimate(&graph, order, NULL), candidates[_i].peak);
}
END_TEST

START_TEST(lowest_peak_wins)
{
    two_branches();
    mpl_inductor_plan(&graph, &plan);
    ck_assert_int_eq(plan.method, MPL_INDUCTOR_LPMF);
    ck_assert_int_eq(plan.estimate, 1002);
}
END_TEST

/* Before 2.11 the results' two bytes do not count. */
START_TEST(results_that_are_free)
{
    const uint8_t baseline[] = {0, 1, 2, 3};

    two_branches();
    graph.results_are_free = true;
    ck_assert_int_eq(mpl_inductor_estimate(&graph, baseline, NULL), 1009);
}
END_TEST

/* An input counts from the start to its last reader. */
START_TEST(inputs_count_until_their_last_reader)
{
    const uint8_t order[] = {0, 1};
    int64_t levels[3];

    mpl_inductor_input(&graph, Z, "z", MPL_INDUCTOR_INPUT, mpl_dim(500), mpl_dim(1), MPL_UINT8);
    mpl_inductor_kernel(&graph, READS(Z), NULL);
    buf(A, 100);
    mpl_inductor_kernel(&graph, READS(A), NULL);
    buf(B, 7)->is_result = true;
    ck_assert_int_eq(mpl_inductor_estimate(&graph, order, levels), 600);
    ck_assert_int_eq(levels[0], 600);
    ck_assert_int_eq(levels[1], 107);
    ck_assert_int_eq(levels[2], 7);
}
END_TEST

/* Two reductions in a row work in one workspace [8, 4] float32; their bfloat16 sums are cast. */
START_TEST(reductions_share_a_workspace)
{
    static const uint64_t bytes[] = {8 * 4 * 4, 4 * 4, 4 * 2, 4 * 4, 4 * 2};
    struct mpl_tensor *values[MPL_INDUCTOR_MAX_VALUES] = {NULL};
    struct mpl_timeline timeline = {0};
    struct mpl_tape *tape = mpl_tape_new(&timeline);

    graph.workspace_rows = mpl_dim(8);
    graph.workspace_cols = mpl_dim(4);
    for (uint8_t i = A; i <= B; i++) {
        struct mpl_inductor_value *value;

        mpl_inductor_kernel(&graph, NULL, NULL)->summed = i;
        value = mpl_inductor_buffer(&graph, i, i == A ? "a" : "b", mpl_dim(1), mpl_dim(4),
                                    MPL_BFLOAT16);
        value->is_result = value->is_unbooked = true;
    }
    mpl_inductor_plan(&graph, &plan);
    CK_EVENTS({MPL_INDUCTOR_ALLOC_WORKSPACE, END}, {MPL_INDUCTOR_SUM, A}, {MPL_INDUCTOR_SUM, B},
              {MPL_INDUCTOR_FREE_WORKSPACE, END});
    ck_assert_ptr_nonnull(tape);
    mpl_inductor_run(tape, &graph, &plan, values, 1, 1);
    ck_assert_uint_eq(timeline.requests.len, ROWS(bytes));
    for (int i = 0; i < ROWS(bytes); i++)
        ck_assert_uint_eq(timeline.requests.data[i].bytes, bytes[i]);
    ck_assert_uint_eq(tape->live_bytes, 2 * 512); /* the two sums */
    mpl_tape_free(tape);
    mpl_timeline_free(&timeline);
}
END_TEST

/* Planned for three blocks of 100, run for five: what is symbolic grows. */
START_TEST(symbolic_sizes_follow_the_run)
{
    struct mpl_tensor *values[MPL_INDUCTOR_MAX_VALUES] = {NULL}, *taken;
    struct mpl_timeline timeline = {0};
    struct mpl_tape *tape = mpl_tape_new(&timeline);

    mpl_inductor_kernel(&graph, NULL, NULL);
    buf(A, 300)->is_symbolic = true;
    mpl_inductor_kernel(&graph, READS(A), NULL);
    buf(B, 300)->is_result = true;
    mpl_inductor_plan(&graph, &plan);
    ck_assert_ptr_nonnull(tape);
    mpl_inductor_run(tape, &graph, &plan, values, 5, 3);
    ck_assert_uint_eq(timeline.requests.data[0].bytes, 500);
    ck_assert_uint_eq(timeline.requests.data[1].bytes, 300);
    taken = mpl_inductor_take(&plan, values, B);
    ck_assert_ptr_nonnull(taken);
    ck_assert_ptr_null(mpl_inductor_take(&plan, values, B));
    mpl_drop(tape, taken);
    ck_assert_uint_eq(tape->live_bytes, 0);
    mpl_tape_free(tape);
    mpl_timeline_free(&timeline);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("inductor");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, buffer_is_taken_by_the_next_kernel);
    tcase_add_test(tcase, other_size_is_no_match);
    tcase_add_test(tcase, symbolic_size_matches_no_static_one);
    tcase_add_test(tcase, last_freed_goes_first);
    tcase_add_test(tcase, reuse_may_not_raise_the_peak);
    tcase_add_test(tcase, reuse_up_to_the_peak);
    tcase_add_test(tcase, in_place_at_the_last_reader);
    tcase_add_test(tcase, not_in_place_while_read_later);
    tcase_add_loop_test(tcase, candidate_orders, 0, ROWS(candidates));
    tcase_add_test(tcase, lowest_peak_wins);
    tcase_add_test(tcase, results_that_are_free);
    tcase_add_test(tcase, inputs_count_until_their_last_reader);
    tcase_add_test(tcase, reductions_share_a_workspace);
    tcase_add_test(tcase, symbolic_sizes_follow_the_run);
    return test_run("inductor", tcase);
}
