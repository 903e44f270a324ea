/* SPDX-License-Identifier: MIT */
/* The messages of one log as JSON. */
#include "log_messages.h"

static json_t *size_to_json(const struct memplan_log_size *size)
{
    json_t *json =
        json_pack("{s:I, s:I}", "bytes", (json_int_t)size->bytes, "low", (json_int_t)size->low);

    /* A lower bound has no high. */
    if (json && size->high <= INT64_MAX)
        json_object_set_new(json, "high", json_integer((json_int_t)size->high));
    return json;
}

static json_t *places_to_json(const struct log_places *places)
{
    json_t *list = json_array();

    for (size_t i = 0; i < places->count; i++)
        json_array_append_new(list, json_integer((json_int_t)places->list[i]));
    return list;
}

static json_t *processes_to_json(const struct memplan_log_event *event)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < event->process_count; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:o}", "number", (int)event->processes[i].number,
                                        "in_use", size_to_json(&event->processes[i].in_use)));
    return list;
}

static json_t *findings_to_json(const struct log_message *message)
{
    struct memplan_log_finding finding;
    json_t *list = json_array();

    for (size_t i = 0; log_message_find(message, i, &finding); i++) {
        json_t *item = json_pack("{s:s, s:s}", "name", finding.name, "text", finding.text);

        if (item && finding.size.known)
            json_object_set_new(item, "size", size_to_json(&finding.size));
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *message_to_json(const struct log_message *message)
{
    const struct memplan_log_event *event = &message->event;
    const struct memplan_log_size *size;
    const char *title, *key;
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:b, s:s}", "kind",
                  memplan_log_kind_name(event->kind), "form", event->form, "releases",
                  event->releases, "api", event->api, "count", (json_int_t)message->count, "lines",
                  places_to_json(&message->lines), "ranks", places_to_json(&message->ranks),
                  "local_ranks", places_to_json(&message->local_ranks), "gpus",
                  places_to_json(&message->gpus), "cut", (int)event->cut, "expandable_segments",
                  event->expandable == MEMPLAN_LOG_EXPANDABLE_ON ? "on" : "unknown");

    for (size_t i = 0; json && (size = log_message_size(event, i, &title, &key)); i++)
        if (size->known)
            json_object_set_new(json, key, size_to_json(size));
    if (json && event->process_count)
        json_object_set_new(json, "processes", processes_to_json(event));
    if (json)
        json_object_set_new(json, "findings", findings_to_json(message));
    return json;
}

json_t *log_messages_to_json(const struct log_messages *messages, const char *name)
{
    json_t *list = json_array();

    for (size_t i = 0; i < messages->count; i++)
        if (json_array_append_new(list, message_to_json(&messages->list[i]))) {
            json_decref(list);
            return NULL;
        }
    return json_pack("{s:s+, s:I, s:I, s:I, s:I, s:o}", "name", name, "", "lines",
                     (json_int_t)messages->lines, "bytes", (json_int_t)messages->bytes, "count",
                     (json_int_t)messages->all, "left_out", (json_int_t)messages->left_out,
                     "messages", list);
}
