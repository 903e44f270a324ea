/* SPDX-License-Identifier: MIT */
/* A packing from beginning to end: options are checked, the rule is run, batches are made. */
#include "pack/pack.h"

#include <string.h>

#include "base/fail.h"
#include "pack/random.h"

enum memplan_status mpl_pack_nomem(struct mpl_packing *p)
{
    return mpl_fail(p->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while packing samples");
}

enum memplan_status mpl_pack_too_many(struct mpl_packing *p)
{
    return mpl_fail(p->err, MEMPLAN_ERR_LIMIT, NULL,
                    "sequence length %llu: more than %u packs, expected a longer one",
                    (unsigned long long)p->options.sequence_length, MPL_PACK_SAMPLES);
}

enum memplan_status mpl_pack_add(struct mpl_packing *p, uint64_t tokens, uint64_t samples)
{
    if (p->packs.len == MPL_PACK_SAMPLES)
        return mpl_pack_too_many(p);
    if (mpl_vec_reserve(&p->packs))
        return mpl_pack_nomem(p);
    p->packs.data[p->packs.len++] = (struct mpl_pack){(uint32_t)tokens, (uint32_t)samples};
    return MEMPLAN_OK;
}

void mpl_pack_truncate(struct mpl_packing *p, uint32_t *length)
{
    const uint32_t most = (uint32_t)p->options.sequence_length;

    if (*length <= most)
        return;
    p->summary.truncated_samples++;
    p->summary.truncated_tokens += *length - most;
    *length = most;
}

/* A sample a row; the empty ones, too. */
enum memplan_status mpl_pack_none(struct mpl_packing *p)
{
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; i < p->count && !status; i++) {
        mpl_pack_truncate(p, &p->lengths[i]);
        status = mpl_pack_add(p, p->lengths[i], 1);
    }
    return status;
}

static enum memplan_status check_number(struct mpl_packing *p, const char *name, uint64_t found,
                                        uint64_t most)
{
    if (found >= 1 && found <= most)
        return MEMPLAN_OK;
    return mpl_fail(p->err, MEMPLAN_ERR_VALUE, NULL, "%s: found %llu, expected 1 .. %llu", name,
                    (unsigned long long)found, (unsigned long long)most);
}

static enum memplan_status check(struct mpl_packing *p)
{
    struct memplan_pack_options *o = &p->options;
    enum memplan_status status;

    o->world_size = o->world_size ? o->world_size : 1;
    o->micro_batch_size = o->micro_batch_size ? o->micro_batch_size : 1;
    o->accumulation = o->accumulation ? o->accumulation : 1;
    o->map_batch = o->map_batch ? o->map_batch : MPL_PACK_MAP_BATCH;
    o->multiple_of = o->multiple_of ? o->multiple_of : 1;
    if (p->count > MPL_PACK_SAMPLES)
        return mpl_fail(p->err, MEMPLAN_ERR_LIMIT, NULL, "%zu samples, expected at most %u",
                        p->count, MPL_PACK_SAMPLES);
    if ((status = check_number(p, "sequence length", o->sequence_length, MPL_PACK_LONGEST)) ||
        (status = check_number(p, "world size", o->world_size, MPL_PACK_RANKS)) ||
        (status = check_number(p, "micro batch size", o->micro_batch_size, MPL_PACK_RANKS)) ||
        (status = check_number(p, "accumulation", o->accumulation, MPL_PACK_RANKS)) ||
        (status = check_number(p, "map batch", o->map_batch, MPL_PACK_SAMPLES)))
        return status;
    return check_number(p, "multiple to pad to", o->multiple_of, MPL_PACK_LONGEST);
}

static enum memplan_status take_lengths(struct mpl_packing *p, const uint32_t *lengths)
{
    p->lengths = malloc((p->count + 1) * sizeof(*lengths));
    if (!p->lengths)
        return mpl_pack_nomem(p);
    for (size_t i = 0; i < p->count; i++) {
        if (lengths[i] > MPL_PACK_SAMPLE)
            return mpl_fail(p->err, MEMPLAN_ERR_VALUE, NULL,
                            "sample %zu: found %u tokens, expected at most %u", i + 1, lengths[i],
                            MPL_PACK_SAMPLE);
        p->lengths[i] = lengths[i];
        p->summary.tokens += lengths[i];
    }
    p->summary.samples = p->count;
    if (p->options.shuffle)
        mpl_random_permute(p->options.seed, p->lengths, p->count);
    return MEMPLAN_OK;
}

static void count_packs(struct mpl_packing *p)
{
    struct memplan_pack_summary *s = &p->summary;

    s->packs = p->packs.len;
    for (size_t i = 0; i < p->packs.len; i++) {
        const struct mpl_pack *pack = &p->packs.data[i];

        s->packed_tokens += pack->tokens;
        s->pieces += pack->samples;
        if (!i || pack->samples < s->fewest_samples)
            s->fewest_samples = pack->samples;
        if (pack->samples > s->most_samples)
            s->most_samples = pack->samples;
    }
}

enum memplan_status mpl_pack_run(struct mpl_packing *p, const uint32_t *lengths, size_t count,
                                 const struct memplan_pack_options *options,
                                 struct memplan_error *err)
{
    enum memplan_status status;

    p->options = *options;
    p->count = count;
    p->err = err;
    p->rule = options->rule ? mpl_pack_rule_find(options->rule) : NULL;
    if (!p->rule)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, NULL, "packing rule \"%s\" is not known",
                        options->rule ? options->rule : "");
    if ((status = check(p)) || (status = take_lengths(p, lengths)) || (status = p->rule->pack(p)))
        return status;
    count_packs(p);
    return mpl_pack_make_batches(p);
}

void mpl_pack_free(struct mpl_packing *p)
{
    free(p->lengths);
    mpl_vec_free(&p->packs);
    mpl_vec_free(&p->batches);
    mpl_vec_free(&p->lengths_of_batches);
}
