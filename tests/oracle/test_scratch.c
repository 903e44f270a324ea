/* SPDX-License-Identifier: MIT */
/* Memory that kernels take inside one operator against what PyTorch's CUDA build requested. The
 * data's form is described in data/README.md, "scratch". */
#include <check.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/scratch.h"
#include "recorded.h"
#include "test.h"

/* ---- comparing --------------------------------------------------------------------------------
 */

/* Requests in order as the data writes them: bytes, or minus the number of the request that is
 * released; results count as requests. */
static int flatten(const struct mpl_scratch *list, int64_t *flat)
{
    int64_t number[MPL_SCRATCH_STEPS] = {0}, requests = 0;
    int takes = 0;

    for (int i = 0; i < list->count; i++) {
        const struct mpl_scratch_step *step = &list->steps[i];

        if (step->kind == MPL_SCRATCH_GIVE) {
            flat[i] = -number[step->which];
            continue;
        }
        requests++;
        flat[i] = (int64_t)step->bytes;
        if (step->kind == MPL_SCRATCH_TAKE)
            number[takes++] = requests;
    }
    return list->count;
}

static bool is_same(const struct mpl_scratch *list, const json_t *requests)
{
    int64_t flat[MPL_SCRATCH_STEPS];
    const int count = flatten(list, flat);

    if ((size_t)count != json_array_size(requests))
        return false;
    for (int i = 0; i < count; i++)
        if (flat[i] != json_integer_value(json_array_get(requests, (size_t)i)))
            return false;
    return true;
}

/* ---- rows -------------------------------------------------------------------------------------
 */

static void reduce_row(const struct mpl_scratch_card *card, const json_t *row,
                       struct mpl_scratch *list)
{
    const enum mpl_dtype from = mpl_dtype_from_name(recorded_text(row, "dtype"));
    const enum mpl_dtype to = mpl_dtype_from_name(recorded_text(row, "to"));

    if (strcmp(recorded_text(row, "over"), "rows") == 0)
        mpl_scratch_reduce_rows(card, from, to, recorded_whole(row, "rows"),
                                recorded_whole(row, "columns"), list);
    else
        mpl_scratch_reduce_columns(card, from, to, recorded_whole(row, "rows"),
                                   recorded_whole(row, "columns"), list);
}

static struct mpl_scratch_attention read_attention(const json_t *row)
{
    static const char *const kernels[] = {"math", "flash", "efficient", "cudnn"};

    return (struct mpl_scratch_attention){
        .kernel = (enum mpl_sdpa_kernel)recorded_index_of(recorded_text(row, "kernel"), kernels,
                                                          ROWS(kernels)),
        .dtype = mpl_dtype_from_name(recorded_text(row, "dtype")),
        .batch = recorded_whole(row, "batch"),
        .query_tokens = recorded_whole(row, "tokens"),
        .key_tokens = recorded_whole(row, "tokens"),
        .heads = recorded_whole(row, "heads"),
        .kv_heads = recorded_whole(row, "kv_heads"),
        .head_dim = recorded_whole(row, "head_dim"),
        .value_head_dim = recorded_whole(row, "head_dim"),
        .has_dropout = json_real_value(json_object_get(row, "dropout")) > 0.0,
        .is_token_major = json_is_true(json_object_get(row, "token_major")),
    };
}

static void list_row(const json_t *row, struct mpl_scratch *list)
{
    const char *kind = recorded_text(row, "kind");
    const struct mpl_scratch_card card = {
        json_real_value(json_object_get(row, "compute_capability")),
        recorded_whole(row, "multiprocessors"),
    };
    struct mpl_scratch_attention call;

    *list = (struct mpl_scratch){0};
    if (strcmp(kind, "reduce") == 0) {
        reduce_row(&card, row, list);
    } else if (strcmp(kind, "embedding") == 0) {
        mpl_scratch_embedding_backward(&card, recorded_whole(row, "tokens"),
                                       recorded_whole(row, "rows"), recorded_whole(row, "columns"),
                                       mpl_dtype_from_name(recorded_text(row, "dtype")), list);
    } else if (strcmp(kind, "topk") == 0) {
        mpl_scratch_topk(&card, recorded_whole(row, "rows"), recorded_whole(row, "columns"),
                         recorded_whole(row, "k"), mpl_dtype_from_name(recorded_text(row, "dtype")),
                         list);
    } else if (strcmp(kind, "foreach_norm") == 0) {
        mpl_scratch_take(list, mpl_scratch_foreach_norm(
                                   recorded_whole(row, "tensors"), recorded_whole(row, "max_numel"),
                                   mpl_dtype_from_name(recorded_text(row, "dtype"))));
    } else {
        call = read_attention(row);
        if (strcmp(kind, "attention_forward") == 0)
            mpl_scratch_attention_forward(&card, &call, list);
        else
            mpl_scratch_attention_backward(&card, &call, list);
    }
}

START_TEST(requests_what_pytorch_requested)
{
    FILE *file = recorded_open("scratch.jsonl");
    char line[4096];
    int rows = 0, wrong = 0;

    while (fgets(line, sizeof(line), file)) {
        json_t *row = json_loads(line, 0, NULL);
        struct mpl_scratch list;

        ck_assert_msg(row != NULL, "line %d is not JSON", rows + 1);
        list_row(row, &list);
        if (!is_same(&list, json_object_get(row, "requests")) && wrong++ < 5) {
            int64_t flat[MPL_SCRATCH_STEPS];
            const int count = flatten(&list, flat);

            fprintf(stderr, "%sgave", line);
            for (int i = 0; i < count; i++)
                fprintf(stderr, " %" PRId64, flat[i]);
            fprintf(stderr, "\n");
        }
        json_decref(row);
        rows++;
    }
    fclose(file);
    ck_assert_int_eq(wrong, 0);
    ck_assert_int_gt(rows, 1000);
}
END_TEST

START_TEST(workspace_is_larger_from_hopper_on)
{
    const struct mpl_version newer = {2, 14, 1, "2.14.1"}, older = {2, 10, 0, "2.10.0"};

    ck_assert_uint_eq(mpl_scratch_cublas_workspace(&newer, 8.9), 8519680);
    ck_assert_uint_eq(mpl_scratch_cublas_workspace(&newer, 9.0), 33554432);
    ck_assert_uint_eq(mpl_scratch_cublas_workspace(&newer, 12.0), 33554432);
    ck_assert_uint_eq(mpl_scratch_cublas_workspace(&older, 9.0), 33554432);
    ck_assert_uint_eq(mpl_scratch_cublas_workspace(&older, 12.0), 8519680);
}
END_TEST

/* 2^63 tokens never meet a card, but must not wrap either. */
START_TEST(huge_sizes_stay_huge)
{
    const struct mpl_scratch_card card = {9.0, 132};
    struct mpl_scratch list;
    uint64_t most = 0;

    mpl_scratch_embedding_backward(&card, INT64_MAX / 16, 128256, INT32_MAX, MPL_BFLOAT16, &list);
    for (int i = 0; i < list.count; i++)
        if (list.steps[i].kind == MPL_SCRATCH_TAKE && list.steps[i].bytes > most)
            most = list.steps[i].bytes;
    ck_assert_uint_eq(most, MPL_BYTES_OVERFLOW);
    mpl_scratch_reduce_rows(&card, MPL_BFLOAT16, MPL_BFLOAT16, INT64_MAX, INT64_MAX, &list);
    ck_assert_int_gt(list.count, 0);
    ck_assert_uint_eq(list.steps[0].bytes, MPL_BYTES_OVERFLOW);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("scratch");

    tcase_add_test(tcase, requests_what_pytorch_requested);
    tcase_add_test(tcase, workspace_is_larger_from_hopper_on);
    tcase_add_test(tcase, huge_sizes_stay_huge);
    return test_run("scratch", tcase);
}
