/* SPDX-License-Identifier: MIT */
/* `--gpu auto`: a plan's card is the one of this machine. */
#include "auto_card.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "probe/probe.h"
#include "text.h"

/* Totals of one card differ by driver by less than this share. */
#define SAME_CARD 0.02

static enum memplan_status fail(struct memplan_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum memplan_status fail(struct memplan_error *err, const char *format, ...)
{
    va_list args;

    *err = (struct memplan_error){.status = MEMPLAN_ERR_UNSUPPORTED};
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    return err->status;
}

/* Ranks of one node, which take visible cards in their order. */
static size_t ranks_of_node(const struct memplan_plan *plan)
{
    char *text = NULL;
    json_t *root, *parallelism;
    json_int_t world, node;

    if (memplan_plan_to_json(plan, &text, NULL))
        return 1;
    root = json_loads(text, 0, NULL);
    memplan_free(text);
    parallelism = json_object_get(root, "parallelism");
    world = json_integer_value(json_object_get(parallelism, "world_size"));
    node = json_integer_value(json_object_get(parallelism, "gpus_per_node"));
    json_decref(root);
    if (node > 0 && world > node)
        world = node;
    return world > 0 ? (size_t)world : 1;
}

static uint64_t number(const json_t *card, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(card, key));
}

/* Room that a card leaves; 0: its memory is not told. */
static uint64_t room(const json_t *card)
{
    const uint64_t total = number(card, "total_bytes"), used = number(card, "used_bytes");

    return total > used ? total - used : 0;
}

/* Of the first cards the one that leaves least. */
static const json_t *find_tightest(const json_t *document, size_t ranks, size_t *place)
{
    const json_t *found = NULL, *card;

    for (size_t i = 0; i < ranks && (card = probe_visible_card(document, i)); i++)
        if (room(card) && (!found || room(card) < room(found))) {
            found = card;
            *place = i;
        }
    return found;
}

static bool is_near(uint64_t total, const struct memplan_gpu *gpu)
{
    return (double)total >= (double)gpu->total_low_bytes * (1 - SAME_CARD) &&
           (double)total <= (double)gpu->total_high_bytes * (1 + SAME_CARD);
}

/* The table's row of a card: by its name, or where several have that name by its memory too. */
static bool find_row(const json_t *card, struct memplan_gpu *gpu)
{
    const char *name = json_string_value(json_object_get(card, "name"));
    const char *arch = json_string_value(json_object_get(card, "arch"));
    const bool is_instance = json_object_get(card, "parent") != NULL;
    struct memplan_error err;

    gpu->size = sizeof(*gpu);
    if (name && memplan_gpu_find(name, gpu, &err) == MEMPLAN_OK)
        return true;
    for (size_t i = 0; name && arch; i++) {
        gpu->size = sizeof(*gpu);
        if (!memplan_gpu_entry(i, gpu))
            return false;
        if ((gpu->is_mig_instance != 0) == is_instance && strcmp(gpu->arch, arch) == 0 &&
            strncmp(gpu->name, name, strlen(name)) == 0 &&
            is_near(number(card, "total_bytes"), gpu))
            return true;
    }
    return false;
}

static enum memplan_status set(struct memplan_plan *plan, struct memplan_error *err,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum memplan_status set(struct memplan_plan *plan, struct memplan_error *err,
                               const char *format, ...)
{
    char assignment[768];
    va_list args;

    va_start(args, format);
    vsnprintf(assignment, sizeof(assignment), format, args);
    va_end(args);
    return memplan_plan_set(plan, assignment, err);
}

static enum memplan_status set_text(struct memplan_plan *plan, const char *path, const char *value,
                                    struct memplan_error *err)
{
    char *quoted = text_quote(value);
    enum memplan_status status =
        quoted ? set(plan, err, "%s=%s", path, quoted) : fail(err, "%s is not text", path);

    free(quoted);
    return status;
}

/* Where the figures are from, what differs from one probe to the next first. */
static void describe(const json_t *document, const json_t *card, size_t place, char *text,
                     size_t size)
{
    const json_t *used = json_object_get(card, "used_bytes");
    const bool is_amd = strcmp(json_string_value(json_object_get(card, "vendor")), "amd") == 0;
    const char *driver =
        json_string_value(json_object_get(document, is_amd ? "amd_driver" : "driver"));
    char now[64] = "use by others not told";

    if (json_is_integer(used))
        snprintf(now, sizeof(now), "%.2f GiB in use now",
                 (double)json_integer_value(used) / TEXT_GIB);
    snprintf(text, size, "card %zu of %zu of this machine, %s; total from %s%s%s", place,
             probe_visible_count(document), now,
             json_string_value(json_object_get(card, "total_source")), driver ? ", driver " : "",
             driver ? driver : "");
}

static enum memplan_status set_identity(struct memplan_plan *plan, const json_t *card,
                                        struct memplan_error *err)
{
    const char *arch = json_string_value(json_object_get(card, "arch"));
    const uint64_t multiprocessors = number(card, "multiprocessors");
    struct memplan_gpu gpu;
    bool is_known = find_row(card, &gpu);
    enum memplan_status status =
        is_known ? set_text(plan, "device.gpu", gpu.name, err) : set(plan, err, "device.gpu=\"\"");

    if (!status && arch && strncmp(arch, "sm_", 3) == 0)
        status = set(plan, err, "device.compute_capability=%.1f", strtod(arch + 3, NULL) / 10);
    if (!status && multiprocessors)
        status = set(plan, err, "device.multiprocessors=%llu", (unsigned long long)multiprocessors);
    return status;
}

enum memplan_status auto_card_set(struct memplan_plan *plan, const json_t *document,
                                  struct memplan_error *err)
{
    char text[480];
    size_t place = 0;
    const json_t *card = find_tightest(document, ranks_of_node(plan), &place);
    enum memplan_status status;

    if (!card && document && !probe_visible_count(document)) {
        probe_explain_none(document, text, sizeof(text));
        return fail(err, "%s", text);
    }
    if (!card)
        return fail(err, "%s",
                    document ? "the memory of this machine's cards is not told, or none "
                               "of it is free"
                             : "this machine could not be probed");
    describe(document, card, place, text, sizeof(text));
    status = set_identity(plan, card, err);
    if (!status)
        status = set(plan, err, "device.total_bytes=%llu",
                     (unsigned long long)number(card, "total_bytes"));
    if (!status)
        status = set(plan, err, "device.other_bytes=%llu",
                     (unsigned long long)number(card, "used_bytes"));
    if (!status)
        status = set_text(plan, "device.source", text, err);
    return status;
}
