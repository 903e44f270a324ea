/* SPDX-License-Identifier: MIT */
/* Packing rules against what the real code made of the same lengths, pack by pack. */
#include "cases.h"
#include "recorded.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "pack/random.h"

static struct case_file cases;

static uint64_t whole_or_0(const json_t *row, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(row, key));
}

static uint32_t *read_lengths(const json_t *row, size_t *count)
{
    const json_t *list = json_object_get(row, "lengths");
    uint32_t *lengths;

    *count = json_array_size(list);
    lengths = malloc((*count + 1) * sizeof(*lengths));
    ck_assert_ptr_nonnull(lengths);
    for (size_t i = 0; i < *count; i++)
        lengths[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    return lengths;
}

static void check_order(const json_t *row)
{
    const json_t *order = json_object_get(row, "order");
    size_t count;
    uint32_t *values = read_lengths(row, &count);

    mpl_random_permute(strtoull(recorded_text(row, "seed"), NULL, 10), values, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(values[i], json_integer_value(json_array_get(order, i)));
    free(values);
}

static void check_packs(const json_t *row, const struct memplan_packs *packs)
{
    const json_t *list = json_object_get(row, "packs");
    uint32_t tokens = 0, samples = 0;
    size_t i = 0;

    for (; memplan_packs_entry(packs, i, &tokens, &samples); i++) {
        const json_t *pack = json_array_get(list, i);

        ck_assert_msg(tokens == json_integer_value(json_array_get(pack, 0)) &&
                          samples == json_integer_value(json_array_get(pack, 1)),
                      "pack %zu: %u tokens of %u samples, recorded %lld of %lld", i, tokens,
                      samples, (long long)json_integer_value(json_array_get(pack, 0)),
                      (long long)json_integer_value(json_array_get(pack, 1)));
    }
    ck_assert_uint_eq(i, json_array_size(list));
}

/* Recorded, ascending: [length, rows, padding] of each batch of all ranks. */
static void check_batches(const json_t *row, const struct memplan_packs *packs,
                          const struct memplan_pack_summary *summary)
{
    const json_t *list = json_object_get(row, "batches"), *batch;
    struct memplan_pack_length length;
    uint64_t padding = 0;
    size_t at = 0, k;

    if (!list)
        return;
    for (size_t i = 0; memplan_packs_length(packs, i, &length); i++)
        for (uint64_t n = 0; n < length.count; n++, at++) {
            batch = json_array_get(list, at);
            ck_assert_int_eq((int64_t)length.length, json_integer_value(json_array_get(batch, 0)));
            ck_assert_int_eq((int64_t)length.rows, json_integer_value(json_array_get(batch, 1)));
        }
    ck_assert_uint_eq(at, json_array_size(list));
    json_array_foreach(list, k, batch) padding +=
        (uint64_t)json_integer_value(json_array_get(batch, 2));
    ck_assert_uint_eq(summary->padding_tokens, padding);
    ck_assert_uint_eq(summary->batches, at);
    ck_assert_uint_eq(summary->steps, whole_or_0(row, "batches_per_rank"));
}

START_TEST(packs_are_the_recorded_ones)
{
    json_t *row = json_loads(cases.lines[_i], 0, NULL);
    struct memplan_pack_summary s = {.size = sizeof(s)};
    struct memplan_pack_options options = {.size = sizeof(options)};
    struct memplan_packs *packs = NULL;
    struct memplan_error err = {0};
    uint32_t *lengths;
    size_t count;

    ck_assert_ptr_nonnull(row);
    options.rule = recorded_text(row, "rule");
    if (!strcmp(options.rule, "permutation")) {
        check_order(row);
        json_decref(row);
        return;
    }
    options.sequence_length = whole_or_0(row, "sequence_length");
    options.world_size = whole_or_0(row, "world_size");
    options.micro_batch_size = whole_or_0(row, "micro_batch_size");
    options.map_batch = whole_or_0(row, "map_batch");
    options.multiple_of = whole_or_0(row, "multiple_of");
    options.seed = whole_or_0(row, "seed");
    lengths = read_lengths(row, &count);
    ck_assert_msg(!memplan_pack(lengths, count, &options, &packs, &err), "%s", err.text);
    ck_assert(!memplan_packs_summary(packs, &s, &err));
    check_packs(row, packs);
    check_batches(row, packs, &s);
    ck_assert_uint_eq(s.tokens + s.added_tokens,
                      s.packed_tokens + s.truncated_tokens + s.dropped_tokens + s.target_tokens);
    memplan_packs_free(packs);
    free(lengths);
    json_decref(row);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("pack");
    int status;

    cases = case_file_read("packs.jsonl");
    tcase_add_loop_test(tcase, packs_are_the_recorded_ones, 0, cases.count);
    status = test_run("pack", tcase);
    case_file_free(&cases);
    return status;
}
