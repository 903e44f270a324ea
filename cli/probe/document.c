/* SPDX-License-Identifier: MIT */
/* Probe: what was found, as JSON (docs/json.md). */
#include <stdlib.h>
#include <string.h>

#include "probe.h"

static const char *const source_names[PROBE_SOURCE_COUNT] = {"nvml", "cuda", "amdgpu",
                                                             "cuda runtime"};
static const char *const state_names[] = {"absent", "failed", "answered"};

/* What decides which cards a program sees. */
static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                                        "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"};

static json_t *text_or_null(const char *text)
{
    json_t *value = text && *text ? json_string(text) : NULL;

    return value ? value : json_null(); /* a driver's name that is not UTF-8 */
}

static json_t *bytes_or_null(uint64_t bytes)
{
    return bytes == PROBE_UNKNOWN ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *count_or_null(int64_t count)
{
    return count < 0 ? json_null() : json_integer(count);
}

/* Bytes that others hold now. The driver's own share is no part of them where it is known. */
static uint64_t used_bytes(const struct probe_card *card)
{
    uint64_t total = card->total_bytes;

    if (card->free_bytes == PROBE_UNKNOWN || total == PROBE_UNKNOWN)
        return PROBE_UNKNOWN;
    if (card->source == PROBE_NVML && card->reserved_bytes != PROBE_UNKNOWN)
        total = card->driver_total_bytes - card->reserved_bytes;
    return total > card->free_bytes ? total - card->free_bytes : 0;
}

static json_t *processes(const struct probe_card *card)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < card->process_count && i < PROBE_MOST_PROCESSES; i++)
        json_array_append_new(array,
                              json_pack("{s:i, s:o, s:o}", "pid", (int)card->processes[i].pid,
                                        "name", text_or_null(card->processes[i].name), "used_bytes",
                                        bytes_or_null(card->processes[i].used_bytes)));
    return array;
}

static json_t *card_object(const struct probe_card *card)
{
    json_t *object = json_object();

    json_object_set_new(object, "visible", count_or_null(card->visible));
    json_object_set_new(object, "number", count_or_null(card->number));
    json_object_set_new(object, "vendor",
                        json_string(card->source == PROBE_AMD ? "amd" : "nvidia"));
    json_object_set_new(object, "name", text_or_null(card->name));
    json_object_set_new(object, "uuid", text_or_null(card->uuid));
    json_object_set_new(object, "pci", text_or_null(card->pci));
    json_object_set_new(object, "arch", text_or_null(card->arch));
    json_object_set_new(object, "multiprocessors",
                        count_or_null(card->multiprocessors ? (int64_t)card->multiprocessors : -1));
    json_object_set_new(object, "mig", json_boolean(card->has_instances));
    if (card->parent >= 0) {
        json_object_set_new(object, "parent", json_integer(card->parent));
        json_object_set_new(object, "gpu_instance", count_or_null(card->instance));
    }
    json_object_set_new(object, "total_bytes", bytes_or_null(card->total_bytes));
    json_object_set_new(object, "total_source", text_or_null(card->total_source));
    json_object_set_new(object, "driver_total_bytes", bytes_or_null(card->driver_total_bytes));
    json_object_set_new(object, "reserved_bytes", bytes_or_null(card->reserved_bytes));
    json_object_set_new(object, "free_bytes", bytes_or_null(card->free_bytes));
    json_object_set_new(object, "used_bytes", bytes_or_null(used_bytes(card)));
    json_object_set_new(object, "process_count", json_integer(card->process_count));
    json_object_set_new(object, "processes", processes(card));
    if (card->context_bytes != PROBE_UNKNOWN)
        json_object_set_new(object, "context_bytes", bytes_or_null(card->context_bytes));
    if (card->remark[0])
        json_object_set_new(object, "remark", text_or_null(card->remark));
    return object;
}

static json_t *sources(const struct probe *probe)
{
    json_t *array = json_array();

    for (int i = 0; i < PROBE_SOURCE_COUNT; i++)
        if (i != PROBE_RUNTIME || probe->answers[i].text[0]) /* asked on request alone */
            json_array_append_new(array, json_pack("{s:s, s:s, s:o}", "name", source_names[i],
                                                   "state", state_names[probe->answers[i].state],
                                                   "text", text_or_null(probe->answers[i].text)));
    return array;
}

json_t *probe_document(const struct probe *probe)
{
    json_t *object = json_object(), *environment = json_object(), *cards = json_array();

    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
        const char *value = getenv(variables[i]);

        if (value)
            json_object_set_new(environment, variables[i], json_string(value));
    }
    for (uint32_t i = 0; i < probe->count; i++)
        json_array_append_new(cards, card_object(&probe->cards[i]));
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "driver", text_or_null(probe->driver));
    json_object_set_new(object, "cuda", text_or_null(probe->cuda));
    json_object_set_new(object, "amd_driver", text_or_null(probe->amd_driver));
    json_object_set_new(object, "order", json_string(probe->cuda_has_order ? "cuda" : "pci"));
    json_object_set_new(object, "environment", environment);
    json_object_set_new(object, "sources", sources(probe));
    if (json_object_set_new(object, "cards", cards)) {
        json_decref(object);
        return NULL;
    }
    return object;
}
