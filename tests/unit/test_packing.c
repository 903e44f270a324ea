/* SPDX-License-Identifier: MIT */
/* Packing: what holds for every rule on any list of lengths, and what is refused. */
#include "test.h"

#include <memplan.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES 3000

/* TABLE: lists of lengths; the longest of each is at most this. */
static const uint32_t longest_table[] = {1, 7, 64, 500, 5000};

static uint32_t lengths[SAMPLES];

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill(uint32_t longest)
{
    uint32_t state = longest;

    for (size_t i = 0; i < SAMPLES; i++)
        lengths[i] = draw(&state) % (longest + 1);
}

static struct memplan_packs *pack(const char *rule, size_t count, uint64_t length,
                                  struct memplan_pack_summary *s)
{
    const struct memplan_pack_options options = {.size = sizeof(options),
                                                 .rule = rule,
                                                 .sequence_length = length,
                                                 .world_size = 4,
                                                 .accumulation = 2,
                                                 .seed = 3};
    struct memplan_packs *packs = NULL;
    struct memplan_error err = {0};

    ck_assert_msg(!memplan_pack(lengths, count, &options, &packs, &err), "%s: %s", rule, err.text);
    *s = (struct memplan_pack_summary){.size = sizeof(*s)};
    ck_assert(!memplan_packs_summary(packs, s, &err));
    return packs;
}

/* Every token is somewhere; no pack is too long; the sums are those of the packs and batches. */
static void check_sums(const struct memplan_packs *packs, const struct memplan_pack_summary *s,
                       uint64_t length)
{
    uint64_t tokens = 0, samples = 0, batches = 0;
    struct memplan_pack_length one;
    uint32_t own = 0, pieces = 0;
    size_t count = 0;

    for (; memplan_packs_entry(packs, count, &own, &pieces); count++) {
        ck_assert_uint_le(own, length);
        tokens += own;
        samples += pieces;
    }
    ck_assert_uint_eq(count, s->packs);
    ck_assert_uint_eq(tokens, s->packed_tokens);
    ck_assert_uint_eq(samples, s->pieces);
    ck_assert_uint_eq(s->tokens + s->added_tokens, s->packed_tokens + s->truncated_tokens +
                                                       s->dropped_tokens + s->target_tokens);
    ck_assert_uint_le(s->dropped_samples, s->samples);
    for (size_t i = 0; memplan_packs_length(packs, i, &one); i++) {
        ck_assert_uint_ge(one.length, s->shortest);
        ck_assert_uint_le(one.length, s->longest);
        batches += one.count;
    }
    ck_assert_uint_eq(batches, s->batches);
    ck_assert_uint_le(s->steps * 2 * 4, s->batches + 2 * 4 - 1 + 4);
}

START_TEST(every_rule_accounts_for_every_token)
{
    static const uint64_t sequence_lengths[] = {1, 13, 512, 8192};
    struct memplan_pack_rule rule;

    fill(longest_table[_i]);
    for (size_t r = 0; memplan_pack_rule_entry(r, &rule); r++)
        for (size_t i = 0; i < sizeof(sequence_lengths) / sizeof(*sequence_lengths); i++)
            for (size_t count = 0; count <= SAMPLES; count = count ? count * 55 : 1) {
                struct memplan_pack_summary s;
                struct memplan_packs *packs = pack(rule.name, count, sequence_lengths[i], &s);

                check_sums(packs, &s, sequence_lengths[i]);
                memplan_packs_free(packs);
            }
}
END_TEST

/* TABLE: options that are refused, and how. */
static const struct {
    struct memplan_pack_options options;
    enum memplan_status status;
    const char *says;
} bad_table[] = {
    {{.rule = "best", .sequence_length = 8}, MEMPLAN_ERR_UNSUPPORTED, "\"best\" is not known"},
    {{.sequence_length = 8}, MEMPLAN_ERR_UNSUPPORTED, "\"\" is not known"},
    {{.rule = "none"}, MEMPLAN_ERR_VALUE, "sequence length: found 0"},
    {{.rule = "none", .sequence_length = 16777217}, MEMPLAN_ERR_VALUE, "1 .. 16777216"},
    {{.rule = "none", .sequence_length = 8, .world_size = 1048577},
     MEMPLAN_ERR_VALUE,
     "world size"},
    {{.rule = "none", .sequence_length = 8, .micro_batch_size = UINT64_MAX},
     MEMPLAN_ERR_VALUE,
     "micro batch size"},
    {{.rule = "none", .sequence_length = 8, .multiple_of = UINT64_MAX},
     MEMPLAN_ERR_VALUE,
     "multiple"},
    {{.rule = "speculators", .sequence_length = 8, .micro_batch_size = 2},
     MEMPLAN_ERR_UNSUPPORTED,
     "expected 1"},
};

START_TEST(bad_options_are_refused)
{
    struct memplan_pack_options options = bad_table[_i].options;
    struct memplan_packs *packs = NULL;
    struct memplan_error err = {0};

    fill(5);
    options.size = sizeof(options);
    ck_assert_int_eq(memplan_pack(lengths, 10, &options, &packs, &err), bad_table[_i].status);
    ck_assert_ptr_null(packs);
    ck_assert_msg(strstr(err.text, bad_table[_i].says), "%s", err.text);
}
END_TEST

START_TEST(arguments_are_checked)
{
    struct {
        struct memplan_pack_options options;
        uint64_t newer;
    } newer = {{.size = sizeof(newer), .rule = "none", .sequence_length = 8}, 1};
    uint32_t long_one = UINT32_C(1) << 31;
    struct memplan_packs *packs = NULL;
    struct memplan_error err = {0};

    ck_assert_int_eq(memplan_pack(lengths, 1, NULL, &packs, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_pack(NULL, 1, &newer.options, &packs, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_pack(lengths, 1, &newer.options, NULL, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_pack(lengths, 1, &newer.options, &packs, &err), MEMPLAN_ERR_ARG);
    newer.newer = 0;
    ck_assert_int_eq(memplan_pack(&long_one, 1, &newer.options, &packs, &err), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(memplan_pack(lengths, 1, &newer.options, &packs, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_packs_summary(packs, NULL, &err), MEMPLAN_ERR_ARG);
    memplan_packs_free(packs);
    memplan_packs_free(NULL);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("pack");

    tcase_add_loop_test(tcase, every_rule_accounts_for_every_token, 0, ROWS(longest_table));
    tcase_add_loop_test(tcase, bad_options_are_refused, 0, ROWS(bad_table));
    tcase_add_test(tcase, arguments_are_checked);
    return test_run("packing", tcase);
}
