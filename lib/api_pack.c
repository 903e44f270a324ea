/* SPDX-License-Identifier: MIT */
/* The public entry points to packing: check arguments, call lib/pack, hand out figures. */
#include <memplan.h>

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "pack/pack.h"

struct memplan_packs {
    struct mpl_packing packing;
};

/* Copies what both sides know of a struct; the caller's size stays. */
static void hand_out(void *out, size_t room, const void *own, size_t size)
{
    const size_t shared = room < size ? room : size;

    memset((char *)out + sizeof(size_t), 0, room - sizeof(size_t));
    memcpy((char *)out + sizeof(size_t), (const char *)own + sizeof(size_t),
           shared - sizeof(size_t));
}

static enum memplan_status take_options(const struct memplan_pack_options *options,
                                        struct memplan_pack_options *own, struct memplan_error *err)
{
    const char *bytes = (const char *)options;

    if (!options || options->size < offsetof(struct memplan_pack_options, world_size))
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "options must not be NULL, and say its size");
    for (size_t i = sizeof(*own); i < options->size; i++)
        if (bytes[i])
            return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "options: a member is not known");
    hand_out(own, sizeof(*own), options,
             options->size < sizeof(*own) ? options->size : sizeof(*own));
    return MEMPLAN_OK;
}

enum memplan_status memplan_pack(const uint32_t *lengths, size_t count,
                                 const struct memplan_pack_options *options,
                                 struct memplan_packs **packs_out, struct memplan_error *err)
{
    struct memplan_pack_options own = {0};
    struct memplan_packs *packs;
    enum memplan_status status;

    mpl_fail_clear(err);
    if ((!lengths && count) || !packs_out)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "%s must not be NULL",
                        packs_out ? "lengths" : "packs_out");
    if ((status = take_options(options, &own, err)))
        return status;
    packs = calloc(1, sizeof(*packs));
    if (!packs)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while packing samples");
    status = mpl_pack_run(&packs->packing, lengths, count, &own, err);
    packs->packing.err = NULL;
    if (status)
        memplan_packs_free(packs);
    else
        *packs_out = packs;
    return status;
}

enum memplan_status memplan_packs_summary(const struct memplan_packs *packs,
                                          struct memplan_pack_summary *summary,
                                          struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!packs || !summary || summary->size < sizeof(size_t))
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL,
                        "packs and summary must not be NULL, and summary must say its size");
    hand_out(summary, summary->size, &packs->packing.summary, sizeof(packs->packing.summary));
    return MEMPLAN_OK;
}

int memplan_packs_entry(const struct memplan_packs *packs, size_t i, uint32_t *tokens_out,
                        uint32_t *samples_out)
{
    if (!packs || i >= packs->packing.packs.len)
        return 0;
    if (tokens_out)
        *tokens_out = packs->packing.packs.data[i].tokens;
    if (samples_out)
        *samples_out = packs->packing.packs.data[i].samples;
    return 1;
}

int memplan_packs_length(const struct memplan_packs *packs, size_t i,
                         struct memplan_pack_length *length_out)
{
    if (!packs || !length_out || i >= packs->packing.lengths_of_batches.len)
        return 0;
    *length_out = packs->packing.lengths_of_batches.data[i];
    return 1;
}

void memplan_packs_free(struct memplan_packs *packs)
{
    if (!packs)
        return;
    mpl_pack_free(&packs->packing);
    free(packs);
}

int memplan_pack_rule_entry(size_t i, struct memplan_pack_rule *rule_out)
{
    const struct mpl_pack_rule *rule = mpl_pack_rule_at(i);

    if (!rule || !rule_out)
        return 0;
    *rule_out = (struct memplan_pack_rule){rule->name, rule->help, rule->source};
    return 1;
}
