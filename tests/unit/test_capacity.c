/* SPDX-License-Identifier: MIT */
/* What a card can give: the sum of docs/devices.md by hand, and where its terms come from. */
#include "verdict/capacity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test.h"

/* A plan as it is bound: nothing given for the card but its name. */
static struct mpl_plan plan_for(const char *gpu, enum mpl_strategy strategy, int64_t ranks)
{
    struct mpl_plan plan = {0};

    snprintf(plan.device.gpu, sizeof(plan.device.gpu), "%s", gpu);
    plan.device.context_bytes = plan.device.nccl_bytes = -1;
    plan.parallelism.strategy = strategy;
    plan.parallelism.world_size = ranks;
    plan.parallelism.replicate = 1;
    return plan;
}

static struct mpl_capacity find(const struct mpl_plan *plan)
{
    struct memplan_error err = {0};
    struct mpl_capacity c;

    ck_assert_msg(mpl_capacity_find(plan, &c, &err) == MEMPLAN_OK, "%s", err.text);
    return c;
}

#define MIB(n) ((n)*MPL_MIB)

/* H100 80GB: total 81082 MiB, context 616, 700, 832 MiB, NCCL over NVLink 288, 480,
 * 1136 MiB (16 to 24 channels; NVLS of four heads). */
START_TEST(sum_of_a_sharded_run)
{
    struct mpl_plan plan = plan_for("NVIDIA H100 80GB HBM3", MPL_STRATEGY_FSDP2, 4);
    struct mpl_capacity c = find(&plan);

    ck_assert_int_eq(c.state, MPL_CAPACITY_KNOWN);
    ck_assert_uint_eq(c.total_bytes, MIB(UINT64_C(81082)));
    ck_assert_uint_eq(c.usable_bytes, MIB(UINT64_C(81082) - 700 - 480));
    ck_assert_uint_eq(c.usable_low_bytes, MIB(UINT64_C(81082) - 832 - 1136));
    ck_assert_uint_eq(c.usable_high_bytes, MIB(UINT64_C(81082) - 616 - 288));
    /* Two 90 % intervals, 216 and 848 MiB wide: each 2 x 1.645 deviations. */
    ck_assert(fabs(c.spread_bytes / (double)MPL_MIB - sqrt(216. * 216 + 848. * 848) / 3.29) < 1e-6);
    ck_assert(!c.total_is_given && !c.context_is_given && !c.nccl_is_given);
}
END_TEST

START_TEST(one_card_has_no_nccl)
{
    struct mpl_plan plan = plan_for("NVIDIA H100 80GB HBM3", MPL_STRATEGY_NONE, 1);
    struct mpl_capacity c = find(&plan);

    ck_assert_uint_eq(c.nccl.high_bytes, 0);
    ck_assert_uint_eq(c.usable_bytes, MIB(UINT64_C(81082) - 700));
    ck_assert_uint_eq(c.usable_low_bytes, MIB(UINT64_C(81082) - 832));
    ck_assert_uint_eq(c.usable_high_bytes, MIB(UINT64_C(81082) - 616));
    ck_assert(fabs(c.spread_bytes / (double)MPL_MIB - 216 / 3.29) < 1e-6);
}
END_TEST

static const struct group_row {
    enum mpl_strategy strategy;
    int64_t ranks, replicate, per_node, extra;
    uint32_t kinds;       /* of communicators */
    uint32_t first, last; /* ranks of the first and of the last kind */
    uint32_t first_nodes, last_nodes;
    bool last_is_uncertain;
} group_table[] = {
    {MPL_STRATEGY_NONE, 1, 1, 8, 0, 0, 0, 0, 0, 0, false},
    {MPL_STRATEGY_DDP, 4, 1, 8, 0, 1, 4, 4, 1, 1, false},
    {MPL_STRATEGY_FSDP1, 16, 1, 8, 0, 1, 16, 16, 2, 2, false},
    {MPL_STRATEGY_FSDP2, 16, 1, 4, 2, 2, 16, 16, 4, 4, false},
    /* HSDP: shards in a node, replicas across, and the default group that nobody may use */
    {MPL_STRATEGY_FSDP2, 16, 2, 8, 0, 3, 8, 16, 1, 2, true},
    {MPL_STRATEGY_FSDP1, 8, 2, 8, 0, 3, 4, 8, 1, 1, true},
    {MPL_STRATEGY_FSDP2, 4, 4, 8, 0, 2, 4, 4, 1, 1, true}, /* one shard: no group */
    {MPL_STRATEGY_ZERO2, 8, 1, 8, 0, 2, 8, 8, 1, 1, true},
};

START_TEST(strategy_makes_groups)
{
    const struct group_row *row = &group_table[_i];
    struct mpl_plan plan = plan_for("NVIDIA H100 80GB HBM3", row->strategy, row->ranks);
    const struct mpl_communicators *list;
    struct mpl_capacity c;

    plan.parallelism.replicate = row->replicate;
    plan.parallelism.gpus_per_node = row->per_node;
    plan.parallelism.extra_process_groups = row->extra;
    c = find(&plan);
    list = &c.communicators;
    ck_assert_uint_eq(list->count, row->kinds);
    if (!row->kinds)
        return;
    ck_assert_uint_eq(list->of[0].group.ranks, row->first);
    ck_assert_uint_eq(list->of[0].group.nodes, row->first_nodes);
    ck_assert_uint_eq(list->of[row->kinds - 1].group.ranks, row->last);
    ck_assert_uint_eq(list->of[row->kinds - 1].group.nodes, row->last_nodes);
    ck_assert(list->of[row->kinds - 1].group.is_uncertain == row->last_is_uncertain);
    ck_assert(!row->last_is_uncertain || list->of[row->kinds - 1].each.expected_bytes == 0);
    if (row->extra)
        ck_assert_uint_eq(c.nccl.expected_bytes, 3 * list->of[0].each.expected_bytes);
}
END_TEST

/* Replicas lie one to a node: shards over NVLink (8 ranks, 480 MiB), replicas over the network (4
 * channels of 20 MiB and 6 MiB of tables). */
START_TEST(replication_is_a_second_communicator)
{
    struct mpl_plan plan = plan_for("NVIDIA H100 80GB HBM3", MPL_STRATEGY_FSDP2, 16);

    plan.parallelism.replicate = 2;
    plan.parallelism.gpus_per_node = 8;
    ck_assert_uint_eq(find(&plan).nccl.expected_bytes, MIB(480 + 4 * 26));
    plan.device.link = MPL_LINK_PCIE; /* 4 channels x 30 MiB */
    ck_assert_uint_eq(find(&plan).nccl.expected_bytes, MIB(4 * 30 + 4 * 26));
}
END_TEST

START_TEST(given_figures_override)
{
    struct mpl_plan plan = plan_for("NVIDIA H100 80GB HBM3", MPL_STRATEGY_FSDP2, 4);
    struct mpl_capacity c;

    plan.device.context_bytes = 500;
    plan.device.nccl_bytes = 0;
    plan.device.other_bytes = 70;
    c = find(&plan);
    ck_assert_uint_eq(c.usable_bytes, MIB(UINT64_C(81082)) - 570);
    ck_assert_uint_eq(c.usable_low_bytes, c.usable_bytes);
    ck_assert_uint_eq(c.usable_high_bytes, c.usable_bytes);
    ck_assert(c.spread_bytes == 0 && c.context_is_given && c.nccl_is_given);
    plan.device.total_bytes = 10000;
    c = find(&plan);
    ck_assert_uint_eq(c.total_bytes, 10000);
    ck_assert_uint_eq(c.usable_bytes, 10000 - 570);
    ck_assert(c.total_is_given);
}
END_TEST

/* H100: two idle contexts of 516, 566, 616 MiB, 100 MiB kept free. */
START_TEST(others_and_what_is_kept_free)
{
    struct mpl_plan plan = plan_for("NVIDIA H100 80GB HBM3", MPL_STRATEGY_NONE, 1);
    struct mpl_capacity c;

    plan.device.other_contexts = 2;
    plan.device.reserve_bytes = 100 * (int64_t)MPL_MIB;
    c = find(&plan);
    ck_assert_uint_eq(c.usable_bytes, MIB(UINT64_C(81082) - 700 - 2 * 566 - 100));
    ck_assert_uint_eq(c.usable_low_bytes, MIB(UINT64_C(81082) - 832 - 2 * 616 - 100));
    ck_assert_uint_eq(c.usable_high_bytes, MIB(UINT64_C(81082) - 616 - 2 * 516 - 100));
    ck_assert(fabs(c.spread_bytes / (double)MPL_MIB - sqrt(216. * 216 + 200. * 200) / 3.29) < 1e-6);
    ck_assert_uint_eq(mpl_capacity_taken(&c), MIB(700 + 2 * 566)); /* free memory is not taken */
    plan.device.reserve_bytes = INT64_MAX;
    ck_assert_uint_eq(find(&plan).usable_high_bytes, 0);
    /* Of a card without a row each is as large as the run's own. */
    plan = plan_for("MI300X", MPL_STRATEGY_NONE, 1);
    plan.device.context_bytes = 1000;
    plan.device.other_contexts = 3;
    c = find(&plan);
    ck_assert_uint_eq(c.usable_bytes, c.row->total_bytes - 4000);
}
END_TEST

/* 616 MiB x 920 / 480 and x 940 / 480; 84 and 216 MiB of other kernels come on top. */
START_TEST(eager_contexts)
{
    struct mpl_plan plan = plan_for("NVIDIA H100 80GB HBM3", MPL_STRATEGY_NONE, 1);
    const uint64_t step = MIB(616) / 480;

    plan.device.module_loading = MPL_MODULES_EAGER;
    ck_assert_uint_eq(find(&plan).context.low_bytes, step * 920);
    ck_assert_uint_eq(find(&plan).context.expected_bytes, step * 940 + MIB(84));
    ck_assert_uint_eq(find(&plan).context.high_bytes, step * 940 + MIB(216));
    plan.device.module_loading = MPL_MODULES_DEFAULT;
    plan.cuda.major = 11;
    plan.cuda.minor = 6;
    ck_assert_uint_eq(find(&plan).context.expected_bytes, step * 1820 + MIB(84));
}
END_TEST

START_TEST(figures_without_a_card)
{
    struct mpl_plan plan = plan_for("", MPL_STRATEGY_NONE, 1);

    ck_assert_int_eq(find(&plan).state, MPL_CAPACITY_NO_DEVICE);
    plan.device.total_bytes = 10000;
    ck_assert_int_eq(find(&plan).state, MPL_CAPACITY_NOT_KNOWN);
    plan.device.context_bytes = 10;
    ck_assert_int_eq(find(&plan).state, MPL_CAPACITY_KNOWN);
    ck_assert_uint_eq(find(&plan).usable_bytes, 9990);
}
END_TEST

/* Over a link that nobody knows NCCL takes from what PCIe takes to what NVLink takes. */
START_TEST(link_is_not_known_without_a_card)
{
    struct mpl_plan plan = plan_for("", MPL_STRATEGY_FSDP2, 2);

    plan.device.total_bytes = 10 * (int64_t)MPL_GIB;
    plan.device.context_bytes = 0;
    ck_assert_uint_eq(find(&plan).usable_high_bytes, 10 * MPL_GIB - MIB(12));
    ck_assert_uint_eq(find(&plan).usable_low_bytes, 10 * MPL_GIB - MIB(24 * 18));
}
END_TEST

START_TEST(nothing_is_left_below_zero)
{
    struct mpl_plan plan = plan_for("", MPL_STRATEGY_NONE, 1);

    plan.device.total_bytes = 1000;
    plan.device.context_bytes = 600;
    plan.device.other_bytes = 600;
    ck_assert_uint_eq(find(&plan).usable_bytes, 0);
    plan.device.other_bytes = INT64_MAX;
    ck_assert_uint_eq(find(&plan).usable_bytes, 0);
    ck_assert_uint_eq(find(&plan).usable_high_bytes, 0);
}
END_TEST

/* The table has no context for AMD cards: a verdict needs one from the plan. */
START_TEST(card_without_context)
{
    struct mpl_plan plan = plan_for("MI300X", MPL_STRATEGY_NONE, 1);
    struct mpl_capacity c = find(&plan);

    ck_assert_int_eq(c.state, MPL_CAPACITY_NOT_KNOWN);
    ck_assert_uint_eq(c.usable_bytes, 0);
    plan.device.context_bytes = 1000;
    c = find(&plan);
    ck_assert_int_eq(c.state, MPL_CAPACITY_KNOWN);
    ck_assert_uint_eq(c.usable_bytes, c.row->total_bytes - 1000);
}
END_TEST

static const struct {
    const char *gpu, *expected;
} unknown_table[] = {
    {"RTX 4091", "did you mean NVIDIA GeForce RTX 4090?"},
    {"A100", "names several cards: NVIDIA A100-SXM4-40GB, NVIDIA A100-PCIE-40GB"},
    {"Ascend 910B", "expected a card of the table"},
};

START_TEST(unknown_card)
{
    struct mpl_plan plan = plan_for(unknown_table[_i].gpu, MPL_STRATEGY_NONE, 1);
    struct memplan_error err = {0};
    struct mpl_capacity c;

    ck_assert_int_eq(mpl_capacity_find(&plan, &c, &err), MEMPLAN_ERR_VALUE);
    ck_assert_str_eq(err.path, "/device/gpu");
    ck_assert_msg(strstr(err.text, unknown_table[_i].gpu) &&
                      strstr(err.text, unknown_table[_i].expected),
                  "%s", err.text);
}
END_TEST

START_TEST(card_completes_the_plan)
{
    struct mpl_plan plan = plan_for("NVIDIA H100 80GB HBM3", MPL_STRATEGY_NONE, 1);
    struct mpl_capacity c = find(&plan);

    mpl_capacity_complete_plan(&c, &plan);
    ck_assert(plan.device.compute_capability == 9.0);
    ck_assert_int_eq(plan.device.multiprocessors, 132);
    plan.device.compute_capability = 8.0;
    plan.device.multiprocessors = 7;
    mpl_capacity_complete_plan(&c, &plan);
    ck_assert(plan.device.compute_capability == 8.0 && plan.device.multiprocessors == 7);
    plan = plan_for("", MPL_STRATEGY_NONE, 1);
    c = find(&plan);
    mpl_capacity_complete_plan(&c, &plan);
    ck_assert(plan.device.compute_capability == 0 && plan.device.multiprocessors == 0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("capacity");

    tcase_add_test(tcase, sum_of_a_sharded_run);
    tcase_add_test(tcase, one_card_has_no_nccl);
    tcase_add_loop_test(tcase, strategy_makes_groups, 0, ROWS(group_table));
    tcase_add_test(tcase, replication_is_a_second_communicator);
    tcase_add_test(tcase, given_figures_override);
    tcase_add_test(tcase, others_and_what_is_kept_free);
    tcase_add_test(tcase, eager_contexts);
    tcase_add_test(tcase, figures_without_a_card);
    tcase_add_test(tcase, link_is_not_known_without_a_card);
    tcase_add_test(tcase, nothing_is_left_below_zero);
    tcase_add_test(tcase, card_without_context);
    tcase_add_loop_test(tcase, unknown_card, 0, ROWS(unknown_table));
    tcase_add_test(tcase, card_completes_the_plan);
    return test_run("capacity", tcase);
}
