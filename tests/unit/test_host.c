/* SPDX-License-Identifier: MIT */
/* Memory of one node's host, added up by hand. */
#include "verdict/host.h"

#include <string.h>

#include "test.h"

/* A million float32 weights, half of them trained with AdamW: 4 and 2 MB, states 4 MB. */
static struct mpl_plan plan;
static struct mpl_estimate estimate;

static void start(enum mpl_strategy strategy, int64_t ranks)
{
    memset(&plan, 0, sizeof(plan));
    estimate = (struct mpl_estimate){.parameters = 1000000, .trainable_parameters = 500000};
    plan.training.parameter_dtype = MPL_FLOAT32;
    plan.training.micro_batch_size = 3;
    plan.training.sequence_length = 100;
    plan.training.optimizer.name = MPL_ADAMW;
    plan.parallelism.strategy = strategy;
    plan.parallelism.world_size = ranks;
    plan.parallelism.replicate = 1;
    plan.parallelism.gpus_per_node = 4;
    plan.host.prefetch_factor = 2;
}

static struct mpl_host_sum sum(void)
{
    struct mpl_host_sum result;

    mpl_host_add_up(&plan, &estimate, &result);
    return result;
}

static const struct loading_row {
    enum mpl_strategy strategy;
    int64_t ranks;
    enum mpl_loading loading;
    uint64_t bytes;
} loading_table[] = {
    {MPL_STRATEGY_NONE, 1, MPL_LOADING_UNSET, 4000000},
    {MPL_STRATEGY_FSDP2, 2, MPL_LOADING_UNSET, 8000000},
    {MPL_STRATEGY_FSDP2, 16, MPL_LOADING_EVERY_RANK, 16000000}, /* four ranks of a node */
    {MPL_STRATEGY_FSDP2, 16, MPL_LOADING_RANK0, 4000000},
    {MPL_STRATEGY_FSDP2, 16, MPL_LOADING_META, 0},
    {MPL_STRATEGY_FSDP2, 16, MPL_LOADING_MMAP, 0}, /* page cache: listed, not added */
};

START_TEST(loading_is_of_those_who_load)
{
    const struct loading_row *row = &loading_table[_i];
    struct mpl_host_sum s;

    start(row->strategy, row->ranks);
    plan.host.loading = row->loading;
    s = sum();
    ck_assert_uint_eq(s.loading_bytes, row->bytes);
    ck_assert_uint_eq(s.peak_bytes, row->bytes);
    ck_assert_uint_eq(s.count, row->loading == MPL_LOADING_META ? 0 : 1);
    ck_assert(s.is_asked_for == (row->loading != MPL_LOADING_UNSET));
}
END_TEST

/* Four of eight shards on a node: 4 x (4 + 2) / 8 MB, states 4 x 4 / 8. */
START_TEST(offloaded_shards_and_states)
{
    struct mpl_host_sum s;

    start(MPL_STRATEGY_FSDP2, 8);
    plan.parallelism.cpu_offload = true;
    s = sum();
    ck_assert_uint_eq(s.training_bytes, 4 * 750000 + 4 * 500000);
    ck_assert_uint_eq(s.saving_bytes, s.training_bytes);
    plan.checkpoint.offloads = true;
    plan.checkpoint.save = MPL_SAVE_FULL; /* rank 0 gathers 4 and 4 MB */
    ck_assert_uint_eq(sum().saving_bytes, s.training_bytes + 8000000);
    plan.checkpoint.save = MPL_SAVE_ASYNC;
    ck_assert_uint_eq(sum().training_bytes, s.training_bytes + 4 * 1000000);
    ck_assert(s.is_asked_for);
}
END_TEST

/* Masters, two moments and gradients in float32 of 500,000 / 4 parameters a rank. */
START_TEST(deepspeed_offloads_its_partition)
{
    start(MPL_STRATEGY_ZERO2, 4);
    plan.parallelism.offload_optimizer = MPL_OFFLOAD_CPU;
    ck_assert_uint_eq(sum().training_bytes, 4 * 125000 * 16);
}
END_TEST

/* A quarter of the weights each on the host; or on NVMe but for 100,000 of 125,000 trained
 * elements, with two buffers of 30,208 elements and one for a sub-group of 50,000. */
START_TEST(deepspeed_offloads_weights)
{
    struct mpl_host_sum s;

    start(MPL_STRATEGY_ZERO3, 4);
    plan.parallelism.offload_param = MPL_OFFLOAD_CPU;
    s = sum();
    ck_assert_uint_eq(s.training_bytes, 4 * 1000000);
    plan.parallelism.offload_param = MPL_OFFLOAD_NVME;
    plan.parallelism.offload_param_max_in_cpu = 100000;
    plan.parallelism.offload_param_buffer_count = 2;
    plan.parallelism.offload_param_buffer_size = 30001;
    plan.parallelism.sub_group_size = 50000;
    s = sum();
    ck_assert_uint_eq(s.training_bytes, 4 * 400000 + 4 * 4 * (2 * 30208 + 50000));
    ck_assert(s.is_asked_for);
}
END_TEST

/* Masters and two moments of 125,000 parameters a rank; with zero2 all weights beside them. */
START_TEST(deepspeed_loads_its_partition)
{
    uint64_t before;

    start(MPL_STRATEGY_ZERO3, 4);
    before = sum().loading_bytes;
    plan.checkpoint.resume = MPL_RESUME_SHARDED;
    ck_assert_uint_eq(sum().loading_bytes, before + 4 * 125000 * 12);
    plan.parallelism.strategy = MPL_STRATEGY_ZERO2;
    ck_assert_uint_eq(sum().loading_bytes, before + 4 * (125000 * 12 + 4000000));
    plan.checkpoint.offloads = true;
    plan.checkpoint.save = MPL_SAVE_FULL; /* tensors go to the file one by one */
    ck_assert_uint_eq(sum().saving_bytes, 0);
    plan.parallelism.strategy = MPL_STRATEGY_ZERO3;
    ck_assert_uint_eq(sum().saving_bytes, 4000000);
}
END_TEST

/* A tensor of 3 x 100 int64: 2400 bytes, pinned 4096. Two workers have two batches each. */
START_TEST(batches_wait_and_are_pinned)
{
    start(MPL_STRATEGY_DDP, 4);
    plan.host.dataloader_workers = 2;
    ck_assert_uint_eq(sum().training_bytes, 4 * 4 * 2 * 2400);
    plan.host.pin_memory = true;
    ck_assert_uint_eq(sum().training_bytes, 4 * 4 * 2 * (2400 + 4096));
    plan.training.padding = true;
    ck_assert_uint_eq(sum().training_bytes, 4 * 4 * 3 * (2400 + 4096));
    plan.host.dataloader_workers = 0; /* the batch at hand */
    ck_assert_uint_eq(sum().training_bytes, 4 * 3 * 4096);
}
END_TEST

START_TEST(more_than_the_node_has)
{
    start(MPL_STRATEGY_DDP, 2);
    plan.checkpoint.resume = MPL_RESUME_CPU; /* 2 x (4 + 4) MB beside 2 x 4 */
    plan.host.memory_bytes = 24000000;
    ck_assert_uint_eq(sum().peak_bytes, 24000000);
    ck_assert(!sum().exceeds);
    plan.host.memory_bytes--;
    ck_assert(sum().exceeds);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("host");

    tcase_add_loop_test(tcase, loading_is_of_those_who_load, 0, ROWS(loading_table));
    tcase_add_test(tcase, offloaded_shards_and_states);
    tcase_add_test(tcase, deepspeed_offloads_its_partition);
    tcase_add_test(tcase, deepspeed_offloads_weights);
    tcase_add_test(tcase, deepspeed_loads_its_partition);
    tcase_add_test(tcase, batches_wait_and_are_pinned);
    tcase_add_test(tcase, more_than_the_node_has);
    return test_run("host", tcase);
}
