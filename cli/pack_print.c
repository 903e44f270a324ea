/* SPDX-License-Identifier: MIT */
/* What `memplan pack` prints: a table of the lengths, and what each says of memory. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "message.h"
#include "pack.h"
#include "table.h"
#include "text.h"

/* Shares of the batches that are shown. */
static const double shown[] = {0.5, 0.9, 0.99, 1};

static double share_of(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static uint64_t steps_asked(const struct settings *settings, const struct pack_candidate *c)
{
    return settings->within ? settings->within : c->summary.steps;
}

static const struct memplan_summary *longest_of(const struct pack_candidate *c)
{
    return &c->memory.points[c->memory.count - 1].summary;
}

/* ---- for people -------------------------------------------------------------------------------
 */

static void print_head(const struct pack_result *result)
{
    const struct memplan_pack_options *o = &result->options;
    const struct memplan_pack_summary *s = &result->candidates[0].summary;
    char samples[32], tokens[32];

    printf("%s: %s samples, %s tokens%s\n", result->lengths.source,
           text_count(s->samples, samples, sizeof(samples)),
           text_count(s->tokens, tokens, sizeof(tokens)),
           result->lengths.is_histogram ? "; in an order that is drawn, as a histogram has none"
                                        : "");
    text_wrap(stdout, "rule ", result->rule.name);
    text_wrap(stdout, "  ", result->rule.help);
    text_wrap(stdout, "  read from ", result->rule.source);
    printf("%" PRIu64 " rank%s, micro batch %" PRIu64 ", accumulation %" PRIu64 "\n\n",
           o->world_size, o->world_size == 1 ? "" : "s", o->micro_batch_size, o->accumulation);
}

static int end_table(struct table *table)
{
    if (table_end(table, stdout))
        return 0;
    message_print("out of memory");
    return CLI_INTERNAL;
}

static int print_packs(const struct pack_result *result)
{
    static const char *const names[] = {
        ">length",      ">packs", ">samples a pack", ">steps an epoch", ">padding",
        ">samples cut", ">split", ">dropped",        ">tokens lost",    NULL};
    struct table table;
    char text[32];

    table_begin(&table, names);
    for (size_t i = 0; i < result->count; i++) {
        const struct memplan_pack_summary *s = &result->candidates[i].summary;
        struct libscols_line *row = table_row(&table);

        table_cell(&table, row, 0, "%" PRIu64, result->candidates[i].sequence_length);
        table_cell(&table, row, 1, "%s", text_count(s->packs, text, sizeof(text)));
        table_cell(&table, row, 2, "%.2f", share_of(s->pieces, s->packs));
        table_cell(&table, row, 3, "%s", text_count(s->steps, text, sizeof(text)));
        table_cell(&table, row, 4, "%.2f %%", 100 * share_of(s->padding_tokens, s->batch_tokens));
        table_cell(&table, row, 5, "%s", text_count(s->truncated_samples, text, sizeof(text)));
        table_cell(&table, row, 6, "%s", text_count(s->split_samples, text, sizeof(text)));
        table_cell(&table, row, 7, "%s", text_count(s->dropped_samples, text, sizeof(text)));
        table_cell(&table, row, 8, "%s (%.2f %%)",
                   text_count(s->truncated_tokens + s->dropped_tokens, text, sizeof(text)),
                   100 * share_of(s->truncated_tokens + s->dropped_tokens, s->tokens));
    }
    return end_table(&table);
}

static void memory_row(struct table *table, const struct pack_candidate *c, double share)
{
    const uint64_t length = pack_length_at(c->packs, c->summary.batches, share);
    struct libscols_line *row = table_row(table);
    char text[32];

    table_cell(table, row, 0, "%" PRIu64, c->sequence_length);
    if (share < 1)
        table_cell(table, row, 1, "%.0f %%", 100 * share);
    else
        table_cell(table, row, 1, "%s", "all");
    table_cell(table, row, 2, "%" PRIu64, length);
    for (int figure = PACK_ALLOCATED; figure <= PACK_NEEDS; figure++)
        table_cell(table, row, 3 + (size_t)figure, "%s",
                   text_size(pack_memory_at(&c->memory, (enum pack_figure)figure, length), text,
                             sizeof(text)));
    if (share == 1)
        table_cell(table, row, 6, "%s", memplan_verdict_name(longest_of(c)->verdict));
}

/* The rows of one length: one where all batches are alike. */
static void memory_rows(struct table *table, const struct pack_candidate *c)
{
    for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
        if (c->memory.count > 1 || shown[i] == 1)
            memory_row(table, c, shown[i]);
}

static void print_failure(const struct pack_result *result, const struct pack_candidate *c,
                          const struct settings *settings)
{
    const uint64_t steps = steps_asked(settings, c);
    const double chance = pack_memory_failure(c, &result->options, steps);
    char lead[32], sentence[256], share[24], count[32];

    if (chance < 0)
        return;
    snprintf(lead, sizeof(lead), "%" PRIu64 ": ", c->sequence_length);
    snprintf(sentence, sizeof(sentence), "chance of running out of memory within %s steps: %s.",
             text_count(steps, count, sizeof(count)), text_chance(chance, share, sizeof(share)));
    text_wrap(stdout, lead, sentence);
}

static int print_memory(const struct pack_result *result, const struct settings *settings)
{
    static const char *const names[] = {">length",   ">batches", ">up to",      ">allocated",
                                        ">reserved", ">needs",   "longest one", NULL};
    bool varies = false;
    struct table table;
    int code;

    printf("\n");
    table_begin(&table, names);
    for (size_t i = 0; i < result->count; i++)
        if (result->candidates[i].memory.count) {
            memory_rows(&table, &result->candidates[i]);
            varies = varies || result->candidates[i].memory.count > 1;
        }
    if ((code = end_table(&table)))
        return code;
    printf("\n");
    for (size_t i = 0; i < result->count; i++)
        if (result->candidates[i].memory.count)
            print_failure(result, &result->candidates[i], settings);
    if (varies)
        text_wrap(stdout, "",
                  "Each figure is that of a run whose batches all have one length. A few lengths "
                  "are estimated, and lines are drawn between them; figures never fall with the "
                  "length. What mixing lengths leaves in the allocator's cache is in none of them: "
                  "training.sequence_lengths replays batches in turn.");
    return 0;
}

int pack_print(const struct pack_result *result, const struct settings *settings)
{
    int code;

    print_head(result);
    code = print_packs(result);
    if (!code && settings->model)
        code = print_memory(result, settings);
    return code;
}

/* ---- for programs -----------------------------------------------------------------------------
 */

static void put(json_t *object, const char *name, uint64_t number)
{
    json_object_set_new(object, name, json_integer((json_int_t)number));
}

static json_t *summary_json(const struct pack_candidate *c)
{
    const struct memplan_pack_summary *s = &c->summary;
    const struct {
        const char *name;
        uint64_t number;
    } rows[] = {{"sequence_length", c->sequence_length},
                {"packs", s->packs},
                {"packed_tokens", s->packed_tokens},
                {"pieces", s->pieces},
                {"fewest_samples", s->fewest_samples},
                {"most_samples", s->most_samples},
                {"steps_per_epoch", s->steps},
                {"batches", s->batches},
                {"batch_tokens", s->batch_tokens},
                {"padding_tokens", s->padding_tokens},
                {"truncated_samples", s->truncated_samples},
                {"truncated_tokens", s->truncated_tokens},
                {"split_samples", s->split_samples},
                {"dropped_samples", s->dropped_samples},
                {"dropped_tokens", s->dropped_tokens},
                {"added_tokens", s->added_tokens},
                {"target_tokens", s->target_tokens},
                {"shortest_batch", s->shortest},
                {"longest_batch", s->longest}};
    json_t *object = json_object();

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        put(object, rows[i].name, rows[i].number);
    return object;
}

static json_t *figures_json(const struct pack_memory *memory, uint64_t length)
{
    json_t *object = json_object();

    put(object, "length", length);
    put(object, "allocated_bytes", pack_memory_at(memory, PACK_ALLOCATED, length));
    put(object, "reserved_bytes", pack_memory_at(memory, PACK_RESERVED, length));
    put(object, "needs_bytes", pack_memory_at(memory, PACK_NEEDS, length));
    return object;
}

static json_t *memory_json(const struct pack_result *result, const struct pack_candidate *c,
                           const struct settings *settings)
{
    json_t *points = json_array(), *batches = json_array(), *one;
    const double chance = pack_memory_failure(c, &result->options, steps_asked(settings, c));

    for (size_t i = 0; i < c->memory.count; i++) {
        const struct pack_point *p = &c->memory.points[i];

        one = figures_json(&c->memory, p->length);
        json_object_set_new(one, "verdict", json_string(memplan_verdict_name(p->summary.verdict)));
        json_object_set_new(one, "survival",
                            p->summary.survival_probability < 0
                                ? json_null()
                                : json_real(p->summary.survival_probability));
        json_array_append_new(points, one);
    }
    for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++) {
        one = figures_json(&c->memory, pack_length_at(c->packs, c->summary.batches, shown[i]));
        json_object_set_new(one, "share", json_real(shown[i]));
        json_array_append_new(batches, one);
    }
    return json_pack("{s:o, s:o, s:{s:I, s:o}}", "estimated", points, "batches", batches,
                     "out_of_memory", "within_steps", (json_int_t)steps_asked(settings, c),
                     "chance", chance < 0 ? json_null() : json_real(chance));
}

int pack_print_json(const struct pack_result *result, const struct settings *settings)
{
    const struct memplan_pack_options *o = &result->options;
    const struct memplan_pack_summary *s = &result->candidates[0].summary;
    json_t *root, *list = json_array();
    int failed;

    for (size_t i = 0; i < result->count; i++) {
        json_t *one = summary_json(&result->candidates[i]);

        if (result->candidates[i].memory.count)
            json_object_set_new(one, "memory",
                                memory_json(result, &result->candidates[i], settings));
        json_array_append_new(list, one);
    }
    root = json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "schema", 1, "rule",
                     result->rule.name, "source", result->rule.source, "samples",
                     (json_int_t)s->samples, "tokens", (json_int_t)s->tokens, "world_size",
                     (json_int_t)o->world_size, "micro_batch_size", (json_int_t)o->micro_batch_size,
                     "accumulation", (json_int_t)o->accumulation, "lengths", list);
    failed = !root || json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(10));
    putchar('\n');
    json_decref(root);
    if (failed)
        message_print("out of memory");
    return failed ? CLI_INTERNAL : 0;
}
