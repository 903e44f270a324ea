/* SPDX-License-Identifier: MIT */
/*
 * `memplan review`: the plans that an object carries. What a user wrote is text or the name of a
 * plan that the webhook has at hand; it is never a path.
 */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "review.h"

#define MOST_PLANS 16 /* of one ConfigMap */

bool review_add_plan(struct review_plans *plans, const char *text, size_t len, bool is_inferred,
                     const char *format, ...)
{
    struct review_plan *grown = realloc(plans->list, (plans->count + 1) * sizeof(*grown)), *plan;
    va_list args;

    if (grown)
        plans->list = grown;
    plans->failed = plans->failed || !grown;
    if (!grown)
        return false;
    plan = &grown[plans->count];
    *plan = (struct review_plan){.len = len, .is_inferred = is_inferred, .is_missing = !text};
    va_start(args, format);
    vsnprintf(plan->where, sizeof(plan->where), format, args);
    va_end(args);
    if (text && !(plan->text = malloc(len + 1))) {
        plans->failed = true;
        return false;
    }
    if (text) {
        memcpy(plan->text, text, len);
        plan->text[len] = '\0';
    }
    plans->count++;
    return true;
}

void review_plans_free(struct review_plans *plans)
{
    for (size_t i = 0; i < plans->count; i++)
        free(plans->list[i].text);
    free(plans->list);
}

/* ---- plans of the webhook ---- */

/* "NAME" or "NAME.json" among the entries of the folder; what begins with a dot is none. The name
 * is only compared, so it can reach nothing else. New; NULL: none. */
static char *find_entry(const char *folder, const char *name)
{
    DIR *dir = opendir(folder);
    char *path = NULL;
    struct dirent *entry;

    while (dir && !path && (entry = readdir(dir))) {
        size_t len = strlen(name);

        if (entry->d_name[0] == '.' || strncmp(entry->d_name, name, len) != 0 ||
            (entry->d_name[len] && strcmp(entry->d_name + len, ".json") != 0))
            continue;
        path = malloc(strlen(folder) + strlen(entry->d_name) + 2);
        if (path)
            sprintf(path, "%s/%s", folder, entry->d_name);
    }
    if (dir)
        closedir(dir);
    return path;
}

static void add_named(const struct settings *settings, const char *name, struct review_plans *plans)
{
    char *path = settings->plans && *name ? find_entry(settings->plans, name) : NULL;
    struct input input = {0};

    if (path && !input_read_file(path, INPUT_MOST_BYTES, &input))
        review_add_plan(plans, input.text, input.len, false, "the plan %.60s", name);
    else
        review_add_plan(plans, NULL, 0, false, "the plan %.60s", name);
    input_free(&input);
    free(path);
}

/* ---- annotations ---- */

/* Where an object and what it makes have annotations; the first one counts. */
static const char *const annotated[] = {
    "metadata",
    "spec", /* of a TrainJob */
    "spec.jobTemplate.metadata",
    "spec.template.metadata",
    "spec.jobTemplate.spec.template.metadata",
    "spec.pytorchReplicaSpecs[].template.metadata",
    "spec.mpiReplicaSpecs[].template.metadata",
    "spec.replicatedJobs[].template.metadata",
    "spec.replicatedJobs[].template.spec.template.metadata",
    "spec.headGroupSpec.template.metadata",
    "spec.workerGroupSpecs[].template.metadata",
    "spec.rayClusterSpec.headGroupSpec.template.metadata",
    "spec.rayClusterSpec.workerGroupSpecs[].template.metadata",
    "spec.tasks[].template.metadata",
    "spec.podTemplateOverrides[].metadata",
};

struct search {
    const struct settings *settings;
    struct review_plans *plans;
    const char *key;
    const char *name_key;
};

static bool take_annotations(const json_t *holder, void *data)
{
    const struct search *search = data;
    const json_t *annotations = json_object_get(holder, "annotations");
    const json_t *plan = json_object_get(annotations, search->key);
    const json_t *name = json_object_get(annotations, search->name_key);
    const char *text = json_string_value(name);

    if (json_is_string(plan))
        review_add_plan(search->plans, json_string_value(plan), json_string_length(plan), false,
                        "annotation %.100s", search->key);
    else if (text)
        add_named(search->settings, strlen(text) == json_string_length(name) ? text : "",
                  search->plans);
    return search->plans->count == 0;
}

/* ---- ConfigMaps ---- */

/* "plan.json", "llama.plan.json" */
static bool is_plan_key(const char *key)
{
    static const char ending[] = "plan.json";
    size_t len = strlen(key), end = sizeof(ending) - 1;

    return len >= end && strcmp(key + len - end, ending) == 0 &&
           (len == end || strchr(".-_", key[len - end - 1]));
}

static void find_data(const json_t *object, struct review_plans *plans)
{
    const json_t *data = json_object_get(object, "data"), *value;
    const char *key;

    json_object_foreach((json_t *)data, key, value)
    {
        if (is_plan_key(key) && json_is_string(value) && plans->count < MOST_PLANS)
            review_add_plan(plans, json_string_value(value), json_string_length(value), false,
                            "%.100s of the ConfigMap", key);
    }
}

void review_find_plans(const struct settings *settings, const json_t *object,
                       struct review_plans *plans)
{
    const char *key = settings->annotation ? settings->annotation : REVIEW_ANNOTATION;
    struct search search = {.settings = settings, .plans = plans, .key = key};
    char *name_key = malloc(strlen(key) + sizeof("-name"));

    if (!name_key) {
        plans->failed = true;
        return;
    }
    sprintf(name_key, "%s-name", key);
    search.name_key = name_key;
    for (size_t i = 0; i < sizeof(annotated) / sizeof(annotated[0]) && !plans->count; i++)
        review_walk(object, annotated[i], take_annotations, &search);
    if (!plans->count && strcmp(review_text_at(object, "kind"), "ConfigMap") == 0 &&
        strcmp(review_text_at(object, "apiVersion"), "v1") == 0)
        find_data(object, plans);
    free(name_key);
}
