/* SPDX-License-Identifier: MIT */
/* Stage "spec": which run a plan is, as a hash of its canonical form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/sha256.h"
#include "ingest/canonical.h"
#include "ingest/document.h"
#include "ingest/json.h"

#define PARTS  3
#define DIGEST 16 /* bytes of SHA-256 that are kept: 128 bits */

struct digest {
    uint8_t bytes[DIGEST];
};

/* One identity under way. */
struct identities {
    const struct mpl_spec *spec;
    struct mpl_plan plan;
    struct mpl_canonical canonical;
    struct digest *digests[PARTS]; /* of each combination */
    struct memplan_identity *out;
};

static enum memplan_status fail_memory(struct memplan_error *err)
{
    return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}

static void hash(const void *bytes, size_t len, struct digest *out)
{
    uint8_t whole[MPL_SHA256_BYTES];

    mpl_sha256(bytes, len, whole);
    memcpy(out->bytes, whole, DIGEST);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct digest));
}

/* A plan without alternatives: its own digest. Else that of the set of its combinations', in
 * whatever order the choices stand. */
static void fold(struct digest *list, size_t count, char *text)
{
    struct digest folded = list[0];
    size_t kept = 1;

    qsort(list, count, sizeof(*list), compare);
    for (size_t i = 1; i < count; i++)
        if (compare(&list[i], &list[kept - 1]) != 0)
            list[kept++] = list[i];
    if (kept > 1)
        hash(list, kept * sizeof(*list), &folded);
    for (size_t i = 0; i < DIGEST; i++)
        snprintf(text + 2 * i, 3, "%02x", folded.bytes[i]);
}

static enum memplan_status hash_part(struct identities *ids, enum mpl_canonical_part part,
                                     struct digest *out, struct memplan_error *err)
{
    json_t *object = mpl_canonical_part(&ids->canonical, &ids->plan, part);
    char *text =
        object ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(15)) : NULL;

    json_decref(object);
    if (!text)
        return fail_memory(err);
    hash(text, strlen(text), out);
    free(text);
    return MEMPLAN_OK;
}

/* The lowest and the highest value of what the plan leaves open. */
static void take_demands(struct identities *ids, size_t combination)
{
    struct memplan_identity *out = ids->out;
    const uint64_t card = mpl_canonical_card(&ids->plan);
    const char *path;

    for (size_t i = 0; (path = mpl_demand_at(i)) && i < MEMPLAN_MOST_DEMANDS; i++) {
        int64_t value;

        memcpy(&value, (const char *)&ids->plan + mpl_field_find(path)->offset, sizeof(value));
        if (combination == 0 || value < out->demands[i].low)
            out->demands[i].low = value;
        if (combination == 0 || value > out->demands[i].high)
            out->demands[i].high = value;
    }
    if (combination == 0 || card < out->card_low_bytes)
        out->card_low_bytes = card;
    if (combination == 0 || card > out->card_high_bytes)
        out->card_high_bytes = card;
}

static enum memplan_status take_combination(struct identities *ids, size_t i,
                                            struct memplan_error *err)
{
    enum memplan_status status = mpl_spec_bind(ids->spec, i, &ids->plan, NULL, err);
    enum mpl_family family;

    if (status)
        return status;
    family = mpl_family_of(ids->plan.model.model_type);
    mpl_canonical_begin(&ids->canonical, family, ids->spec->fallbacks[family]);
    for (int part = 0; part < PARTS && !status; part++)
        status = hash_part(ids, (enum mpl_canonical_part)part, &ids->digests[part][i], err);
    take_demands(ids, i);
    return status;
}

static enum memplan_status identify(struct identities *ids, struct memplan_error *err)
{
    const size_t count = ids->spec->combination_count;
    char *const texts[PARTS] = {ids->out->run, ids->out->setup, ids->out->kin};
    enum memplan_status status = MEMPLAN_OK;

    for (int part = 0; part < PARTS; part++)
        if (!(ids->digests[part] = calloc(count, sizeof(struct digest))))
            status = fail_memory(err);
    for (size_t i = 0; i < count && !status; i++)
        status = take_combination(ids, i, err);
    for (int part = 0; part < PARTS; part++) {
        if (!status)
            fold(ids->digests[part], count, texts[part]);
        free(ids->digests[part]);
    }
    return status;
}

enum memplan_status mpl_spec_identity(const struct mpl_spec *spec, struct memplan_identity *out,
                                      struct memplan_error *err)
{
    struct identities *ids = calloc(1, sizeof(*ids));
    enum memplan_status status;

    if (!ids)
        return fail_memory(err);
    memset(out, 0, sizeof(*out));
    out->size = sizeof(*out);
    ids->spec = spec;
    ids->out = out;
    status = identify(ids, err);
    free(ids);
    return status;
}
