/* SPDX-License-Identifier: MIT */
/* Stage "spec": a bound plan in the one form that all its spellings have, for its identity. */
#include "ingest/canonical.h"

#include <stdlib.h>
#include <string.h>

#include "ingest/value.h"

/* More tokens, sequences, micro-steps, steps and test-time steps hold more tensors at a time, or
 * the same ones more often. Rounding and the allocator's holes make small exceptions
 * (docs/ledger.md). A plan's identity counts them apart, so that a failure can stand for
 * all that asks for more. Adding a row changes MEMPLAN_IDENTITY_VERSION. */
static const char *const demands[] = {
    "training.sequence_length", "training.micro_batch_size", "training.gradient_accumulation_steps",
    "training.steps",           "training.ttt_steps",
};

const char *mpl_demand_at(size_t i)
{
    return i < sizeof(demands) / sizeof(*demands) ? demands[i] : NULL;
}

static bool is_demand(const char *path)
{
    for (size_t i = 0; i < sizeof(demands) / sizeof(*demands); i++)
        if (strcmp(demands[i], path) == 0)
            return true;
    return false;
}

static bool is_below(const char *path, const char *section)
{
    const size_t len = strlen(section);

    return strncmp(path, section, len) == 0 && path[len] == '.';
}

static bool is_one_of(const char *path, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(path, *list) == 0)
            return true;
    return false;
}

/* Does a path belong to a part? */
static bool belongs(const char *path, enum mpl_canonical_part part)
{
    static const char *const run[] = {"model",     "training",   "parallelism", "software",
                                      "framework", "checkpoint", NULL};
    /* Questions and remarks, not the run: whose memory is asked for, what one keeps in hand. */
    static const char *const asked[] = {"parallelism.rank", "device.source", "device.reserve_bytes",
                                        NULL};
    /* The card by name and by size, which mpl_canonical_card compares. */
    static const char *const card[] = {"device.gpu",
                                       "device.total_bytes",
                                       "device.other_bytes",
                                       "device.compute_capability",
                                       "device.multiprocessors",
                                       NULL};

    if (is_one_of(path, asked))
        return false;
    if (part == MPL_CANONICAL_SETUP)
        return is_below(path, "device") || is_below(path, "software");
    if (part == MPL_CANONICAL_KIN && is_below(path, "device"))
        return !is_one_of(path, card);
    if (part == MPL_CANONICAL_KIN && is_demand(path))
        return false;
    for (size_t i = 0; run[i]; i++)
        if (is_below(path, run[i]))
            return true;
    return false;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names as a sorted list: their order says nothing. */
static json_t *sorted(const char *first, size_t stride, uint32_t count)
{
    const char *names[MPL_MAX_NAMES > MPL_MAX_FROZEN ? MPL_MAX_NAMES : MPL_MAX_FROZEN];
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; i++)
        names[i] = first + i * stride;
    qsort(names, count, sizeof(*names), compare_text);
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *layers(const struct mpl_field *field, const struct mpl_layer_list *list)
{
    const bool is_set = field->type == MPL_FIELD_LAYER_SET;
    json_t *json = json_array();

    for (uint32_t i = 0; i < (is_set ? MPL_MAX_LAYERS : list->count); i++)
        if (!is_set || list->of[i])
            json_array_append_new(json, json_integer(is_set ? (json_int_t)i : list->of[i]));
    return json;
}

static json_t *lengths(const struct mpl_length_list *list)
{
    json_t *json = json_array();

    for (uint32_t i = 0; i < list->count; i++)
        json_array_append_new(json, json_integer(list->of[i]));
    return json;
}

static json_t *word(const struct mpl_field *field, int value)
{
    const char *name = mpl_word_of(field->words, value);

    return name ? json_string(name) : json_integer(value);
}

static json_t *version(const struct mpl_version *v)
{
    return json_pack("[i, i, i]", v->major, v->minor, v->patch);
}

/* What a plan holds in one field; NULL: nothing that can be written. */
static json_t *value_of(const struct mpl_field *field, const struct mpl_plan *plan)
{
    const void *place = (const char *)plan + field->offset;
    enum mpl_tristate state;
    int64_t integer;
    double number;
    int choice;

    switch (field->type) {
    case MPL_FIELD_INTEGER:
    case MPL_FIELD_BYTES:
        memcpy(&integer, place, sizeof(integer));
        return json_integer(integer);
    case MPL_FIELD_NUMBER:
        memcpy(&number, place, sizeof(number));
        return json_real(number);
    case MPL_FIELD_STRING:
    case MPL_FIELD_NAME:
    case MPL_FIELD_MODEL_TYPE:
        return json_string(place);
    case MPL_FIELD_BOOLEAN:
        return json_boolean(*(const bool *)place);
    case MPL_FIELD_TRISTATE:
        memcpy(&state, place, sizeof(state));
        return state == MPL_UNSET ? json_null() : json_boolean(state == MPL_TRUE);
    case MPL_FIELD_WORD:
        memcpy(&choice, place, sizeof(choice));
        return word(field, choice);
    case MPL_FIELD_VERSION:
        return version(place);
    case MPL_FIELD_PATTERNS:
        return sorted(plan->training.frozen[0], sizeof(plan->training.frozen[0]),
                      plan->training.frozen_count);
    case MPL_FIELD_NAMES: {
        const struct mpl_names *names = place;

        return sorted(names->of[0], sizeof(names->of[0]), names->count);
    }
    case MPL_FIELD_LAYER_WORDS:
    case MPL_FIELD_LAYER_FLAGS:
    case MPL_FIELD_LAYER_SET:
        return layers(field, place);
    case MPL_FIELD_LENGTHS:
        return lengths(place);
    case MPL_FIELD_ANY:
    case MPL_FIELD_REFUSED:
    case MPL_FIELD_LIST:
        break;
    }
    return NULL;
}

static const struct mpl_device_row *card_row(const struct mpl_plan *plan)
{
    enum mpl_device_match match;

    return plan->device.gpu[0] ? mpl_device_find(plan->device.gpu, &match, NULL, 0) : NULL;
}

/* The card by what kernels see of it, or by its name in the table. */
static bool put_card(json_t *object, const struct mpl_plan *plan, enum mpl_canonical_part part)
{
    const struct mpl_device_row *row = card_row(plan);
    const struct mpl_device *d = &plan->device;
    const double capability = d->compute_capability > 0 ? d->compute_capability
                              : row                     ? row->compute_capability / 10.0
                                                        : 0;
    const int64_t processors = d->multiprocessors > 0 ? d->multiprocessors
                               : row                  ? row->multiprocessors
                                                      : 0;

    if (part == MPL_CANONICAL_RUN)
        return true;
    if (part == MPL_CANONICAL_SETUP)
        return !d->gpu[0] ||
               !json_object_set_new(object, "device.gpu", json_string(row ? row->name : d->gpu));
    if (d->gpu[0] && !row && json_object_set_new(object, "device.gpu", json_string(d->gpu)))
        return false;
    return !json_object_set_new(object, "device.arch", json_string(row ? row->arch : "")) &&
           !json_object_set_new(object, "device.compute_capability", json_real(capability)) &&
           !json_object_set_new(object, "device.multiprocessors", json_integer(processors));
}

void mpl_canonical_begin(struct mpl_canonical *canonical, enum mpl_family family,
                         json_t *const *fallbacks)
{
    struct mpl_plan *defaults = &canonical->defaults;

    memset(canonical, 0, sizeof(*canonical));
    canonical->family = family;
    for (size_t i = 0; i < mpl_field_count(); i++) {
        const struct mpl_value value = {mpl_field_at(i), fallbacks[i], ""};

        /* A default that does not fit its own field ("" where a value is needed) stays unset. */
        if (fallbacks[i] && mpl_field_at(i)->offset != MPL_FIELD_NOWHERE)
            mpl_value_store(&value, defaults, NULL);
    }
    defaults->device.context_bytes = defaults->device.nccl_bytes = -1;
    defaults->model.pad_token_id = -1;
}

static bool put_field(const struct mpl_canonical *canonical, const struct mpl_field *field,
                      const struct mpl_plan *plan, json_t *object)
{
    json_t *value, *fallback;
    bool is_done;

    if (field->offset == MPL_FIELD_NOWHERE || !mpl_field_applies(field, plan->parallelism.strategy))
        return true;
    if (!mpl_field_is_of(field, canonical->family))
        return true;
    value = value_of(field, plan);
    fallback = value_of(field, &canonical->defaults);
    if (value && fallback && json_equal(value, fallback) && !(field->flags & MPL_FIELD_TOLD)) {
        json_decref(value);
        is_done = true;
    } else {
        is_done = value && !json_object_set_new(object, field->path, value);
    }
    json_decref(fallback);
    return is_done;
}

json_t *mpl_canonical_part(const struct mpl_canonical *canonical, const struct mpl_plan *plan,
                           enum mpl_canonical_part part)
{
    json_t *object = json_object();
    bool is_done = object != NULL;

    for (size_t i = 0; i < mpl_field_count() && is_done; i++)
        if (belongs(mpl_field_at(i)->path, part))
            is_done = put_field(canonical, mpl_field_at(i), plan, object);
    if (is_done && put_card(object, plan, part))
        return object;
    json_decref(object);
    return NULL;
}

uint64_t mpl_canonical_card(const struct mpl_plan *plan)
{
    const struct mpl_device_row *row = card_row(plan);
    const uint64_t total = plan->device.total_bytes > 0 ? (uint64_t)plan->device.total_bytes
                           : row                        ? row->total_bytes
                                                        : 0;
    const uint64_t others = (uint64_t)plan->device.other_bytes;

    return total > others ? total - others : 0;
}
