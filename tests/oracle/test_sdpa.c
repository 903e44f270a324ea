/* SPDX-License-Identifier: MIT */
/* The choice of attention kernel against what PyTorch's CUDA build chose. The data's form is
 * described in data/README.md, "sdpa". */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/sdpa_choice.h"
#include "test.h"

static FILE *open_data(const char *name)
{
    const char *dir = getenv("MPL_TEST_DATA");
    char path[4096];
    FILE *file;

    ck_assert_msg(dir != NULL, "MPL_TEST_DATA is not set");
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "r");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    return file;
}

static const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));

    ck_assert_msg(value != NULL, "no %s", key);
    return value;
}

static int64_t whole(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);

    ck_assert_msg(json_is_integer(value), "no %s", key);
    return json_integer_value(value);
}

static int index_of(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    ck_abort_msg("unknown word %s", name);
    return 0;
}

static const char *const kernels[] = {"math", "flash", "efficient", "cudnn"};
static const char *const masks[] = {"none", "causal", "bool", "float"};

static struct mpl_sdpa_call read_call(const json_t *row)
{
    return (struct mpl_sdpa_call){
        .pytorch = {2, 14, 1, "2.14.1"},
        .compute_capability = json_real_value(json_object_get(row, "compute_capability")),
        .dtype = mpl_dtype_from_name(text(row, "dtype")),
        .batch = whole(row, "batch"),
        .query_tokens = whole(row, "tokens"),
        .key_tokens = whole(row, "tokens"),
        .heads = whole(row, "heads"),
        .kv_heads = whole(row, "kv_heads"),
        .head_dim = whole(row, "head_dim"),
        .value_head_dim = whole(row, "head_dim"),
        .mask = (enum mpl_sdpa_mask)index_of(text(row, "mask"), masks, ROWS(masks)),
        .requires_grad = true,
        .cudnn_allowed = true,
    };
}

START_TEST(takes_the_kernel_that_pytorch_took)
{
    FILE *file = open_data("sdpa.jsonl");
    char line[4096];
    int rows = 0;

    while (fgets(line, sizeof(line), file)) {
        json_t *row = json_loads(line, 0, NULL);
        struct mpl_sdpa_call call;

        ck_assert_msg(row != NULL, "line %d is not JSON", rows + 1);
        call = read_call(row);
        ck_assert_msg(strcmp(kernels[mpl_sdpa_choose(&call)], text(row, "kernel")) == 0,
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
