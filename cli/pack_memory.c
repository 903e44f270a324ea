/* SPDX-License-Identifier: MIT */
/* Memory of batches whose lengths differ: a few lengths are estimated, the rest lies between. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "message.h"
#include "pack.h"
#include "text.h"

/* Shares of the batches whose lengths are estimated; the longest one always is. */
static const double shares[] = {0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1};

#define SHARES (sizeof(shares) / sizeof(*shares))

_Static_assert(SHARES <= PACK_MOST_POINTS, "more points than room");

uint64_t pack_length_at(const struct memplan_packs *packs, uint64_t batches, double share)
{
    const double wanted = share * (double)batches;
    struct memplan_pack_length length = {0};
    uint64_t seen = 0;

    for (size_t i = 0; memplan_packs_length(packs, i, &length); i++) {
        seen += length.count;
        if ((double)seen >= wanted)
            break;
    }
    return length.length;
}

static enum memplan_status set_number(struct memplan_plan *plan, const char *path, uint64_t number,
                                      struct memplan_error *err)
{
    char assignment[96];

    snprintf(assignment, sizeof(assignment), "%s=%" PRIu64, path, number);
    return memplan_plan_set(plan, assignment, err);
}

static int estimate(struct memplan_plan *plan, const struct settings *settings, uint64_t rows,
                    struct pack_point *point)
{
    const struct memplan_options options = {.size = sizeof(options),
                                            .risk = settings->risk,
                                            .ignore_readings = settings->no_readings,
                                            .no_suggestions = 1};
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};
    int code = 0;

    point->summary = (struct memplan_summary){.size = sizeof(point->summary)};
    if (set_number(plan, "training.sequence_length", point->length, &err) ||
        set_number(plan, "training.micro_batch_size", rows, &err) ||
        memplan_estimate(plan, &options, &report, &err) ||
        memplan_report_summary(report, &point->summary, &err)) {
        code = message_error(&err, settings->model);
        message_print("%s: that was with batches of %" PRIu64 " x %" PRIu64 " tokens",
                      settings->model, rows, point->length);
    }
    memplan_report_free(report);
    return code;
}

/* A longer batch takes no less: what an estimate may say else is the allocator's luck. */
static void make_monotone(struct pack_memory *memory)
{
    for (size_t i = 1; i < memory->count; i++) {
        const struct memplan_summary *before = &memory->points[i - 1].summary;
        struct memplan_summary *s = &memory->points[i].summary;

        if (s->allocated_bytes < before->allocated_bytes)
            s->allocated_bytes = before->allocated_bytes;
        if (s->reserved_bytes < before->reserved_bytes)
            s->reserved_bytes = before->reserved_bytes;
        if (s->needs_high_bytes < before->needs_high_bytes)
            s->needs_high_bytes = before->needs_high_bytes;
        if (s->survival_probability > before->survival_probability &&
            before->survival_probability >= 0)
            s->survival_probability = before->survival_probability;
    }
}

int pack_memory_find(struct pack_candidate *candidate, struct memplan_plan *plan,
                     const struct settings *settings)
{
    struct pack_memory *memory = &candidate->memory;
    struct memplan_pack_length first;
    int code = 0;

    if (!memplan_packs_length(candidate->packs, 0, &first))
        return 0;
    for (size_t i = 0; i < SHARES && !code; i++) {
        uint64_t length = pack_length_at(candidate->packs, candidate->summary.batches, shares[i]);

        length = length ? length : 1; /* a batch of empty samples */
        if (memory->count && memory->points[memory->count - 1].length == length)
            continue;
        memory->points[memory->count].length = length;
        code = estimate(plan, settings, first.rows, &memory->points[memory->count++]);
    }
    make_monotone(memory);
    return code;
}

/* The estimate at or above a length, and how far the length lies from the one below it: 0 .. 1. */
static size_t find_place(const struct pack_memory *memory, uint64_t length, double *part)
{
    size_t above = 0;

    while (above + 1 < memory->count && memory->points[above].length < length)
        above++;
    *part = 1;
    if (above && length < memory->points[above].length)
        *part = (double)(length - memory->points[above - 1].length) /
                (double)(memory->points[above].length - memory->points[above - 1].length);
    return above;
}

static uint64_t figure_of(const struct memplan_summary *s, enum pack_figure figure)
{
    return figure == PACK_ALLOCATED  ? s->allocated_bytes
           : figure == PACK_RESERVED ? s->reserved_bytes
                                     : s->needs_high_bytes;
}

uint64_t pack_memory_at(const struct pack_memory *memory, enum pack_figure figure, uint64_t length)
{
    double part;
    const size_t above = find_place(memory, length, &part);
    const uint64_t high = figure_of(&memory->points[above].summary, figure);
    const uint64_t low = above ? figure_of(&memory->points[above - 1].summary, figure) : high;

    return low + (uint64_t)(part * (double)(high - low));
}

static double survival_at(const struct pack_memory *memory, uint64_t length)
{
    double part;
    const size_t above = find_place(memory, length, &part);
    const double high = memory->points[above].summary.survival_probability;
    const double low = above ? memory->points[above - 1].summary.survival_probability : high;

    return low + part * (high - low);
}

/* The chance that none of `drawn` batches is among the longer ones: batches are not put back. */
static double chance_of_none(uint64_t batches, uint64_t short_ones, uint64_t drawn)
{
    if (short_ones < drawn)
        return 0;
    return exp(lgamma((double)short_ones + 1) - lgamma((double)(short_ones - drawn) + 1) -
               lgamma((double)batches + 1) + lgamma((double)(batches - drawn) + 1));
}

double pack_memory_failure(const struct pack_candidate *candidate,
                           const struct memplan_pack_options *options, uint64_t steps)
{
    const uint64_t batches = candidate->summary.batches;
    const uint64_t each = options->world_size * options->accumulation;
    const uint64_t drawn = steps > batches / each ? batches : steps * each;
    struct memplan_pack_length length;
    double failure = 0, before = 0;
    uint64_t seen = 0;

    if (!candidate->memory.count || candidate->memory.points[0].summary.survival_probability < 0)
        return -1;
    for (size_t i = 0; drawn && memplan_packs_length(candidate->packs, i, &length); i++) {
        double chance;

        seen += length.count;
        chance = chance_of_none(batches, seen, drawn);
        failure += (chance - before) * (1 - survival_at(&candidate->memory, length.length));
        before = chance;
    }
    return failure < 0 ? 0 : failure > 1 ? 1 : failure;
}
