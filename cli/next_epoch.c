/* SPDX-License-Identifier: MIT */
/* Steps of one epoch with what `memplan next` proposes: the samples packed at that length. */
#include <string.h>

#include "message.h"
#include "next.h"
#include "pack.h"

static int count_steps(struct next *next, const struct memplan_pack_rule *rule,
                       const struct lengths *lengths)
{
    struct memplan_pack_options options = {.size = sizeof(options),
                                           .rule = rule->name,
                                           .sequence_length = (uint64_t)next->proposal.value,
                                           .shuffle = lengths->is_histogram};
    struct memplan_pack_summary summary = {.size = sizeof(summary)};
    struct memplan_packs *packs = NULL;
    struct memplan_error err = {0};
    int code = 0;

    if (pack_settle(next->plan, &options, &err))
        code = message_error(&err, next->source);
    else if (memplan_pack(lengths->of, lengths->count, &options, &packs, &err) ||
             memplan_packs_summary(packs, &summary, &err))
        code = message_error(&err, lengths->source);
    next->epoch_steps = summary.steps;
    memplan_packs_free(packs);
    return code;
}

int next_epoch(struct next *next)
{
    const struct settings *settings = next->settings;
    struct memplan_pack_rule rule;
    struct lengths lengths = {0};
    int code;

    if (!settings->samples)
        return settings->rule ? message_invalid("--rule %s: needs --lengths FILE", settings->rule)
                              : 0;
    if (strcmp(next->field, "training.sequence_length") != 0)
        return message_invalid("--lengths %s: belongs to proposals of training.sequence_length, "
                               "found %s",
                               settings->samples, next->field);
    if ((code = pack_find_rule(settings, &rule)) || !next->proposal.value)
        return code;
    if (!(code = lengths_read(settings->samples, NULL, &lengths)))
        code = count_steps(next, &rule, &lengths);
    lengths_free(&lengths);
    return code;
}
