/* SPDX-License-Identifier: MIT */
/* The choice of attention kernel against what PyTorch's CUDA build chose. The data's form is
 * described in data/README.md, "sdpa". */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/sdpa_choice.h"
#include "recorded.h"
#include "test.h"

static const char *const kernels[] = {"math", "flash", "efficient", "cudnn"};
static const char *const masks[] = {"none", "causal", "bool", "float"};

static struct mpl_sdpa_call read_call(const json_t *row)
{
    return (struct mpl_sdpa_call){
        .pytorch = {2, 14, 1, "2.14.1"},
        .compute_capability = json_real_value(json_object_get(row, "compute_capability")),
        .dtype = mpl_dtype_from_name(recorded_text(row, "dtype")),
        .batch = recorded_whole(row, "batch"),
        .query_tokens = recorded_whole(row, "tokens"),
        .key_tokens = recorded_whole(row, "tokens"),
        .heads = recorded_whole(row, "heads"),
        .kv_heads = recorded_whole(row, "kv_heads"),
        .head_dim = recorded_whole(row, "head_dim"),
        .value_head_dim = recorded_whole(row, "head_dim"),
        .mask =
            (enum mpl_sdpa_mask)recorded_index_of(recorded_text(row, "mask"), masks, ROWS(masks)),
        .requires_grad = true,
        .cudnn_allowed = true,
    };
}

START_TEST(takes_the_kernel_that_pytorch_took)
{
    FILE *file = recorded_open("sdpa.jsonl");
    char line[4096];
    int rows = 0;

    while (fgets(line, sizeof(line), file)) {
        json_t *row = json_loads(line, 0, NULL);
        struct mpl_sdpa_call call;

        ck_assert_msg(row != NULL, "line %d is not JSON", rows + 1);
        call = read_call(row);
        ck_assert_msg(strcmp(kernels[mpl_sdpa_choose(&call)], recorded_text(row, "kernel")) == 0,
                      "took %s: %s", kernels[mpl_sdpa_choose(&call)], line);
        json_decref(row);
        rows++;
    }
    fclose(file);
    ck_assert_int_eq(rows, 1659);
}
END_TEST

/* A call that every kernel takes, to be changed in one respect. */
static struct mpl_sdpa_call plain(double compute_capability)
{
    return (struct mpl_sdpa_call){
        .pytorch = {2, 14, 1, "2.14.1"},
        .compute_capability = compute_capability,
        .dtype = MPL_BFLOAT16,
        .batch = 2,
        .query_tokens = 128,
        .key_tokens = 128,
        .heads = 8,
        .kv_heads = 8,
        .head_dim = 64,
        .value_head_dim = 64,
        .mask = MPL_SDPA_MASK_CAUSAL,
        .requires_grad = true,
        .cudnn_allowed = true,
    };
}

START_TEST(cudnn_gives_way_when_it_is_not_allowed)
{
    struct mpl_sdpa_call call = plain(9.0);

    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_CUDNN);
    call.cudnn_allowed = false;
    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_FLASH);
}
END_TEST

START_TEST(grouped_heads_in_float32_need_2_14)
{
    struct mpl_sdpa_call call = plain(8.0);

    call.dtype = MPL_FLOAT32;
    call.kv_heads = 2;
    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_EFFICIENT);
    call.pytorch.minor = 13;
    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_MATH);
    call.kv_heads = call.heads;
    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_EFFICIENT);
}
END_TEST

START_TEST(other_value_sizes_exclude_flash)
{
    struct mpl_sdpa_call call = plain(8.0);

    call.head_dim = 192;
    call.value_head_dim = 128;
    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_EFFICIENT);
    call.compute_capability = 9.0;
    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_CUDNN);
}
END_TEST

START_TEST(causal_needs_equal_lengths_for_flash)
{
    struct mpl_sdpa_call call = plain(8.0);

    call.key_tokens = 256;
    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_EFFICIENT);
    call.mask = MPL_SDPA_MASK_NONE;
    ck_assert_int_eq(mpl_sdpa_choose(&call), MPL_SDPA_FLASH);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("sdpa");

    tcase_add_test(tcase, takes_the_kernel_that_pytorch_took);
    tcase_add_test(tcase, cudnn_gives_way_when_it_is_not_allowed);
    tcase_add_test(tcase, grouped_heads_in_float32_need_2_14);
    tcase_add_test(tcase, other_value_sizes_exclude_flash);
    tcase_add_test(tcase, causal_needs_equal_lengths_for_flash);
    return test_run("sdpa", tcase);
}
