/* SPDX-License-Identifier: MIT */
/* What `memplan pack` computes for one sequence length: packs, and memory of its batches. */
#ifndef CLI_PACK_H
#define CLI_PACK_H

#include <memplan.h>
#include <stdbool.h>

#include "lengths.h"
#include "options.h"

#define PACK_MOST_LENGTHS 32
#define PACK_MOST_POINTS  10

/** One estimate: batches of so many rows of one length. */
struct pack_point {
    uint64_t length;
    struct memplan_summary summary;
};

/** Memory over the batches of one epoch: estimates at a few of their lengths, between which lines
 * are drawn; none of a figure falls as the length grows. */
struct pack_memory {
    struct pack_point points[PACK_MOST_POINTS]; /* ascending */
    size_t count;
};

/** One sequence length. */
struct pack_candidate {
    uint64_t sequence_length;
    struct memplan_packs *packs;
    struct memplan_pack_summary summary;
    struct pack_memory memory; /* count 0: no plan was given */
};

struct pack_result {
    struct memplan_pack_rule rule;
    struct memplan_pack_options options;
    struct pack_candidate candidates[PACK_MOST_LENGTHS];
    size_t count;
    struct lengths lengths;
};

/** The figures that are asked of the memory at one length. */
enum pack_figure { PACK_ALLOCATED = 0, PACK_RESERVED, PACK_NEEDS };

/** The row of --rule; its text is static. Returns 0, or an exit code after a message. */
int pack_find_rule(const struct settings *settings, struct memplan_pack_rule *rule);

/** Ranks, rows and accumulation: of the plan where the options give none; what they give then holds
 * for the plan. */
enum memplan_status pack_settle(struct memplan_plan *plan, struct memplan_pack_options *options,
                                struct memplan_error *err);

/** Estimates the plan at lengths of the candidate's batches. Returns 0, or an exit code after a
 * message. (pack_memory.c) */
int pack_memory_find(struct pack_candidate *candidate, struct memplan_plan *plan,
                     const struct settings *settings);

/** Bytes at a length, between the estimates. */
uint64_t pack_memory_at(const struct pack_memory *memory, enum pack_figure figure, uint64_t length);

/** The chance that the run has failed before `steps` optimizer steps are done; -1: no card. The
 * verdict's chance is one for the whole run, so that the longest batch so far decides. */
double pack_memory_failure(const struct pack_candidate *candidate,
                           const struct memplan_pack_options *options, uint64_t steps);

/** The length that a share of the batches does not exceed. */
uint64_t pack_length_at(const struct memplan_packs *packs, uint64_t batches, double share);

/** For people, and for programs. Returns 0, or an exit code after a message. (pack_print.c) */
int pack_print(const struct pack_result *result, const struct settings *settings);
int pack_print_json(const struct pack_result *result, const struct settings *settings);

#endif
