/* SPDX-License-Identifier: MIT */
/* What a report must admit: defaults taken, figures from tables, open readings. */
#include "verdict/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "spec/around.h"
#include "spec/fields.h"
#include "verdict/readings.h"

static void add(struct memplan_report *report, enum mpl_note_code code, const char *path,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

static void add(struct memplan_report *report, enum mpl_note_code code, const char *path,
                const char *format, ...)
{
    struct mpl_report_note *note;
    va_list args;

    if (report->note_count == MPL_MAX_NOTES)
        return;
    note = &report->notes[report->note_count++];
    note->code = code;
    snprintf(note->path, sizeof(note->path), "%s", path);
    va_start(args, format);
    vsnprintf(note->text, sizeof(note->text), format, args);
    va_end(args);
}

static void add_range(struct memplan_report *report, enum mpl_note_code code, const char *path,
                      const struct mpl_range *range)
{
    add(report, code, path, "%llu to %llu MiB: %s",
        (unsigned long long)(range->low_bytes / MPL_MIB),
        (unsigned long long)(range->high_bytes / MPL_MIB), range->source);
}

static void add_communicators(struct memplan_report *report, const struct mpl_communicators *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct mpl_communicator *c = &list->of[i];

        add(report, MPL_NOTE_NCCL_FROM_TABLE, "device.nccl_bytes",
            "%u x %s (%s), %u ranks on %u node%s, each %llu to %llu MiB: %s", c->count,
            c->group.name, c->group.why, c->group.ranks, c->group.nodes,
            c->group.nodes == 1 ? "" : "s", (unsigned long long)(c->each.low_bytes / MPL_MIB),
            (unsigned long long)(c->each.high_bytes / MPL_MIB), c->each.source);
    }
}

static void add_capacity(struct memplan_report *report)
{
    const struct mpl_capacity *c = &report->alternatives[report->best].capacity;

    if (c->state == MPL_CAPACITY_NO_DEVICE) {
        add(report, MPL_NOTE_NO_DEVICE, "device",
            "the plan names no card and gives no total_bytes");
        return;
    }
    if (c->remark[0])
        add(report, MPL_NOTE_DEVICE_FIRST_OF_SEVERAL, "device.gpu", "%s", c->remark);
    if (!c->total_is_given && c->row->total_status != MPL_MEASURED)
        add(report, MPL_NOTE_DEVICE_TOTAL_NOT_MEASURED, "device.total_bytes", "%s", c->row->source);
    if (!c->total_is_given && c->row->total_low_bytes != c->row->total_high_bytes)
        add(report, MPL_NOTE_DEVICE_TOTAL_VARIES, "device.total_bytes",
            "%llu to %llu MiB were seen", (unsigned long long)(c->row->total_low_bytes / MPL_MIB),
            (unsigned long long)(c->row->total_high_bytes / MPL_MIB));
    if (c->state == MPL_CAPACITY_NOT_KNOWN)
        add(report, MPL_NOTE_CONTEXT_NOT_KNOWN, "device.context_bytes",
            "the table has no figure for this card");
    else if (!c->context_is_given)
        add_range(report, MPL_NOTE_CONTEXT_FROM_TABLE, "device.context_bytes", &c->context);
    if (!c->nccl_is_given)
        add_communicators(report, &c->communicators);
}

static void add_readings(struct memplan_report *report)
{
    for (size_t i = 0; i < report->alternative_count; i++)
        if (report->alternatives[i].is_excluded) {
            add(report, MPL_NOTE_ALTERNATIVE_EXCLUDED, "observations",
                "%zu of %zu alternatives are excluded by the readings",
                report->alternative_count - report->kept_count, report->alternative_count);
            break;
        }
    for (uint32_t i = 0; i < report->plan.observation_count; i++) {
        const struct mpl_observation *failed = &report->plan.observations[i], *ran;

        if (failed->outcome == MPL_OUTCOME_OOM &&
            (ran = mpl_readings_ran_beside(&report->plan, failed)))
            add(report, MPL_NOTE_READINGS_DISAGREE, "observations",
                "out of memory at %lld tokens (reading %u), though %lld ran (reading %u)",
                (long long)failed->sequence_length, (unsigned)i + 1,
                (long long)ran->sequence_length, (unsigned)(ran - report->plan.observations) + 1);
    }
    if (report->readings_contradict)
        add(report, MPL_NOTE_READINGS_CONTRADICT, "observations",
            "no alternative comes near all readings");
}

/* What depends on how far the host is ahead of the card. */
static void add_timing(struct memplan_report *report)
{
    const struct mpl_parallelism *p = &report->plan.parallelism;

    if (p->strategy == MPL_STRATEGY_DDP)
        add(report, MPL_NOTE_NOT_MODELLED, "parallelism.strategy",
            "NCCL lets go of DDP's first buckets at some collective after they were rebuilt; taken "
            "is the first of that step's backward");
    if (p->strategy == MPL_STRATEGY_FSDP1 || p->overlap_comm)
        add(report, MPL_NOTE_NOT_MODELLED, "parallelism.strategy",
            "memory that another stream has used is taken to be free at once; where the card is "
            "far behind the host, more is reserved");
}

/* What is in the data only. */
static void add_routing(struct memplan_report *report, const struct mpl_plan *plan)
{
    if (plan->training.experts == MPL_EXPERTS_EAGER && plan->model.num_local_experts)
        add(report, MPL_NOTE_NOT_MODELLED, "training.experts",
            "the router's choices are not known; tokens are taken to be shared evenly by the "
            "experts");
}

static void add_ranks(struct memplan_report *report)
{
    if (report->alternatives[report->best].ranks.is_partial)
        add(report, MPL_NOTE_NOT_MODELLED, "parallelism.world_size",
            "ranks may differ, and over more than %d shards are not compared; the figures are of "
            "rank 0",
            MPL_MOST_SHARDS);
}

/* Moments whose memory on the card is not computed. */
static void add_saving(struct memplan_report *report)
{
    const char *gap = mpl_save_gap(&report->plan);

    if (gap)
        add(report, MPL_NOTE_NOT_MODELLED, "checkpoint.save", "%s", gap);
}

/* What compiling leaves in reference cycles that is in no figure. */
static void add_garbage(struct memplan_report *report, const struct mpl_plan *plan)
{
    if (mpl_family_of(plan->model.model_type) == MPL_FAMILY_DFLASH &&
        plan->training.python_gc != MPL_GC_EACH_STEP)
        add(report, MPL_NOTE_NOT_MODELLED, "training.python_gc",
            "tensors that compiling leaves in reference cycles until Python's collector runs (100 "
            "to 140 MB in recorded first steps) are in no figure");
}

/* What attention takes that is in no figure. */
static void add_attention(struct memplan_report *report, const struct mpl_plan *plan)
{
    if (plan->training.attention == MPL_ATTENTION_FLEX &&
        mpl_family_of(plan->model.model_type) == MPL_FAMILY_CAUSAL)
        add(report, MPL_NOTE_NOT_MODELLED, "training.attention",
            "what Inductor takes in the first step to compile and time flex_attention (50 MiB at "
            "a time were seen) is not counted, and may stay reserved");
}

enum memplan_status mpl_notes_collect(const struct mpl_spec *spec, struct memplan_report *report,
                                      struct memplan_error *err)
{
    struct mpl_notes *notes = mpl_arena_alloc(&report->arena, sizeof(*notes));
    struct mpl_plan *plan = mpl_arena_alloc(&report->arena, sizeof(*plan));
    enum memplan_status status;

    if (!notes || !plan)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory for the notes");
    status = mpl_spec_bind(spec, report->alternatives[report->best].combination, plan, notes, err);
    if (status)
        return status;
    for (uint32_t i = 0; i < notes->count; i++) {
        static const enum mpl_note_code codes[] = {
            [MPL_NOTE_DEFAULT] = MPL_NOTE_DEFAULT_TAKEN,
            [MPL_NOTE_IGNORED] = MPL_NOTE_FIELD_IGNORED,
            [MPL_NOTE_UNTESTED] = MPL_NOTE_VERSION_UNTESTED,
            [MPL_NOTE_ASSUMED] = MPL_NOTE_FAMILY_ASSUMED,
            [MPL_NOTE_OWN_CODE] = MPL_NOTE_FRAMEWORK_CODE,
            [MPL_NOTE_IMPORT] = MPL_NOTE_IMPORTED,
        };

        add(report, codes[notes->notes[i].kind], notes->notes[i].path, "%s", notes->notes[i].text);
    }
    add_timing(report);
    add_ranks(report);
    add_saving(report);
    add_garbage(report, plan);
    add_attention(report, plan);
    add_routing(report, plan);
    add_capacity(report);
    if (report->uses_readings)
        add_readings(report);
    return MEMPLAN_OK;
}
