/* SPDX-License-Identifier: MIT */
/*
 * `memplan review`: the GPUs that an object's pods ask for, and which cards they select.
 * source: the API types of Kubernetes 1.31 (core/v1, batch/v1, apps/v1), Kubeflow's training
 * operator 1.9 and trainer 2.1, mpi-operator v2beta1, KubeRay 1.4 (ray.io/v1), JobSet 0.10
 * (jobset.x-k8s.io/v1alpha2), Volcano 1.10; the labels of NVIDIA's GPU feature discovery
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "review.h"

/* Where the pods of a kind stand. */
struct pods_row {
    const char *group; /* API group; "": the core */
    const char *kind;
    const char *path;      /* to what holds a template and its counts */
    const char *spec;      /* from there to the pod's spec */
    const char *counts[2]; /* from there; how many pods; absent: 1 */
    const char *limit;     /* from there; the most pods at a time; absent: no limit */
    const char *together;  /* from there; pods are one run where it says so; NULL: they are */
    const char *together_word;
    const char *each; /* from the object; ranks of a pod, where they are fewer than its GPUs */
    const char *open; /* from the object; where it is set pods come and go */
};

#define JOB_COUNTS                                                                                 \
    .spec = "template.spec", .counts = {"parallelism"}, .limit = "completions",                    \
    .together = "completionMode", .together_word = "Indexed"
#define RAY_WORKERS .spec = "template.spec", .counts = {"replicas", "numOfHosts"}

static const struct pods_row pods_table[] = {
    {.group = "", .kind = "Pod", .path = "", .spec = "spec"},
    {.group = "batch", .kind = "Job", .path = "spec", JOB_COUNTS},
    {.group = "batch", .kind = "CronJob", .path = "spec.jobTemplate.spec", JOB_COUNTS},
    /* Replicas of a Deployment do not know each other. */
    {.group = "apps", .kind = "Deployment", .path = "spec", .spec = "template.spec"},
    {.group = "apps",
     .kind = "StatefulSet",
     .path = "spec",
     .spec = "template.spec",
     .counts = {"replicas"}},
    {.group = "kubeflow.org",
     .kind = "PyTorchJob",
     .path = "spec.pytorchReplicaSpecs[]",
     .spec = "template.spec",
     .counts = {"replicas"},
     .each = "spec.nprocPerNode",
     .open = "spec.elasticPolicy"},
    {.group = "kubeflow.org",
     .kind = "MPIJob",
     .path = "spec.mpiReplicaSpecs[]",
     .spec = "template.spec",
     .counts = {"replicas"}},
    {.group = "jobset.x-k8s.io",
     .kind = "JobSet",
     .path = "spec.replicatedJobs[]",
     .spec = "template.spec.template.spec",
     .counts = {"replicas", "template.spec.parallelism"},
     .limit = "template.spec.completions"},
    {.group = "ray.io",
     .kind = "RayCluster",
     .path = "spec.headGroupSpec",
     .spec = "template.spec",
     .open = "spec.enableInTreeAutoscaling"},
    {.group = "ray.io", .kind = "RayCluster", .path = "spec.workerGroupSpecs[]", RAY_WORKERS},
    {.group = "ray.io",
     .kind = "RayJob",
     .path = "spec.rayClusterSpec.headGroupSpec",
     .spec = "template.spec",
     .open = "spec.rayClusterSpec.enableInTreeAutoscaling"},
    {.group = "ray.io",
     .kind = "RayJob",
     .path = "spec.rayClusterSpec.workerGroupSpecs[]",
     RAY_WORKERS},
    {.group = "batch.volcano.sh",
     .kind = "Job",
     .path = "spec.tasks[]",
     .spec = "template.spec",
     .counts = {"replicas"}},
};

#define PODS_COUNT (sizeof(pods_table) / sizeof(pods_table[0]))

/* GPUs of one pod. */
struct pod {
    int64_t gpus;
    char profile[24]; /* of MIG instances, "1g.10gb"; "": whole cards */
    bool is_shared;
};

/* One walk over an object. */
struct reading {
    const struct pods_row *row;
    struct review_request *request;
    struct pod pod; /* under way */
    int64_t each;   /* ranks of a pod; 0: one a GPU */
};

/* ---- cards ---- */

static void add_card(struct review_request *request, const struct memplan_gpu *gpu)
{
    if (request->card_count && strcmp(gpu->name, request->card.name) == 0)
        return;
    if (!request->card_count || gpu->total_bytes > request->card.total_bytes)
        request->card = *gpu;
    request->card_count++;
}

/* Names that do not say by themselves which card of several they are.
 * source: GKE's documentation of its GPUs */
static const struct {
    const char *label, *name;
} clouds[] = {
    {"nvidia-tesla-a100", "A100-SXM4-40GB"},
    {"nvidia-tesla-v100", "V100-SXM2-16GB"},
    {"nvidia-h100-80gb", "H100 80GB HBM3"},
    {"nvidia-h100-mega-80gb", "H100 80GB HBM3"},
};

/* Length of a label's value without an ending. */
static size_t without(const char *label, size_t len, const char *ending)
{
    size_t end = strlen(ending);

    return len > end && strncmp(label + len - end, ending, end) == 0 ? len - end : len;
}

/* A label's value and, of an instance that is asked for by its profile, that: as the table has it.
 */
static void take_label(struct reading *reading, const char *label)
{
    struct memplan_gpu gpu = {.size = sizeof(gpu)};
    size_t len = without(label, strlen(label), "-SHARED");
    char name[128];

    reading->request->is_shared = reading->request->is_shared || label[len];
    len = without(label, len, "_OAM"); /* AMD's, of the module */
    snprintf(name, sizeof(name), "%.*s", len < 90 ? (int)len : 90, label);
    for (size_t i = 0; i < sizeof(clouds) / sizeof(clouds[0]); i++)
        if (strcmp(clouds[i].label, name) == 0)
            snprintf(name, sizeof(name), "%s", clouds[i].name);
    len = strlen(name);
    if (reading->pod.profile[0] && !strstr(name, "MIG-"))
        snprintf(name + len, sizeof(name) - len, "%sMIG %s", len ? " " : "", reading->pod.profile);
    if (memplan_gpu_find(name, &gpu, NULL) == MEMPLAN_OK)
        add_card(reading->request, &gpu);
    else if (*label)
        snprintf(reading->request->strange, sizeof(reading->request->strange), "%.63s", name);
}

static bool is_card_label(const char *key)
{
    static const char *const keys[] = {"nvidia.com/gpu.product", "amd.com/gpu.product-name",
                                       "cloud.google.com/gke-accelerator"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

static bool take_selector(const json_t *selector, void *data)
{
    const json_t *value;
    const char *key;

    json_object_foreach((json_t *)selector, key, value)
    {
        if (is_card_label(key) && json_is_string(value))
            take_label(data, json_string_value(value));
    }
    return true;
}

static bool take_expression(const json_t *expression, void *data)
{
    const json_t *value;
    size_t i;

    if (is_card_label(review_text_at(expression, "key")) &&
        strcmp(review_text_at(expression, "operator"), "In") == 0)
        json_array_foreach(json_object_get(expression, "values"), i, value)
        {
            if (json_is_string(value))
                take_label(data, json_string_value(value));
        }
    return true;
}

/* nodeSelector and what affinity requires, of a pod's spec. */
static void take_cards(const json_t *spec, struct reading *reading)
{
    const size_t before = reading->request->card_count;

    review_walk(spec, "nodeSelector", take_selector, reading);
    review_walk(spec,
                "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                "nodeSelectorTerms[].matchExpressions[]",
                take_expression, reading);
    if (reading->pod.profile[0] && before == reading->request->card_count &&
        !reading->request->strange[0])
        take_label(reading, ""); /* a profile that only cards of one memory have */
}

/* ---- counts ---- */

/* Extended resources: requests equal limits, and either may be left out. */
static void take_resource(const char *name, const json_t *value, struct pod *pod)
{
    static const char mig[] = "nvidia.com/mig-", shared[] = ".shared";
    const int64_t count = review_number(value, 0);
    const char *end = strstr(name, shared);
    bool is_shared = end && strcmp(end, shared) == 0;
    size_t len = end ? (size_t)(end - name) : strlen(name);

    if (!count)
        return;
    if (strncmp(name, mig, sizeof(mig) - 1) == 0)
        snprintf(pod->profile, sizeof(pod->profile), "%.*s", (int)(len - (sizeof(mig) - 1)),
                 name + sizeof(mig) - 1);
    else if ((len != strlen("nvidia.com/gpu") || strncmp(name, "nvidia.com/gpu", len) != 0) &&
             strcmp(name, "amd.com/gpu") != 0)
        return;
    pod->gpus += count;
    pod->is_shared = pod->is_shared || is_shared;
}

/* An object with limits, or requests, or both. */
static bool take_resources(const json_t *resources, void *data)
{
    const json_t *limits = json_object_get(resources, "limits");
    const json_t *requests = json_object_get(resources, "requests"), *value;
    const char *name;

    json_object_foreach((json_t *)limits, name, value) take_resource(name, value, data);
    json_object_foreach((json_t *)requests, name, value)
    {
        if (!json_object_get(limits, name))
            take_resource(name, value, data);
    }
    return true;
}

/* Pods of one holder that are one run. */
static int64_t count_pods(const struct pods_row *row, const json_t *holder)
{
    const json_t *limit = row->limit ? review_at(holder, row->limit) : NULL;
    const size_t most = sizeof(row->counts) / sizeof(row->counts[0]);
    int64_t pods = 1;

    if (row->together && strcmp(review_text_at(holder, row->together), row->together_word) != 0)
        return 1;
    for (size_t i = 0; i < most && row->counts[i]; i++) {
        int64_t count = review_number(review_at(holder, row->counts[i]), 1);
        bool is_last = i + 1 == most || !row->counts[i + 1];

        if (limit && is_last && review_number(limit, count) < count)
            count = review_number(limit, count);
        pods *= count;
    }
    return pods;
}

static void add_pods(struct reading *reading, int64_t pods)
{
    struct review_request *request = reading->request;

    if (reading->each && reading->pod.gpus > reading->each)
        reading->pod.gpus = reading->each;
    request->ranks += pods * reading->pod.gpus;
    if (reading->pod.gpus > request->node)
        request->node = reading->pod.gpus;
    request->is_shared = request->is_shared || reading->pod.is_shared;
}

static bool take_holder(const json_t *holder, void *data)
{
    struct reading *reading = data;
    const json_t *spec = review_at(holder, reading->row->spec);

    reading->pod = (struct pod){0};
    review_walk(spec, "containers[].resources", take_resources, &reading->pod);
    /* Claims of dynamic allocation say in other objects what they are. */
    if (json_array_size(json_object_get(spec, "resourceClaims")))
        reading->request->is_open = true;
    if (!reading->pod.gpus)
        return true;
    add_pods(reading, count_pods(reading->row, holder));
    take_cards(spec, reading);
    return true;
}

static bool take_spec(const json_t *spec, void *data)
{
    take_cards(spec, data);
    return true;
}

/* Of a TrainJob, whose pods are made of a runtime that is elsewhere. */
static void take_train_job(const json_t *object, struct reading *reading)
{
    const json_t *trainer = review_at(object, "spec.trainer");
    const int64_t nodes = review_number(json_object_get(trainer, "numNodes"), 0);

    reading->request->is_known = true;
    review_walk(trainer, "resourcesPerNode", take_resources, &reading->pod);
    reading->each = review_number(json_object_get(trainer, "numProcPerNode"), 0);
    reading->request->is_open = !nodes || !reading->pod.gpus;
    add_pods(reading, nodes ? nodes : 1);
    review_walk(object, "spec.podTemplateOverrides[].spec", take_spec, reading);
    review_walk(object,
                "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[]."
                "template.spec.template.spec",
                take_spec, reading);
}

/* "batch/v1" is of the group "batch", "v1" of none. */
static bool is_group(const char *version, const char *group)
{
    const char *slash = strchr(version, '/');
    size_t len = slash ? (size_t)(slash - version) : 0;

    return len == strlen(group) && strncmp(version, group, len) == 0;
}

void review_read_request(const json_t *object, struct review_request *request)
{
    const char *version = review_text_at(object, "apiVersion");
    const char *kind = review_text_at(object, "kind");
    struct reading reading = {.request = request};

    *request = (struct review_request){.card.size = sizeof(request->card)};
    if (strcmp(kind, "TrainJob") == 0 && is_group(version, "trainer.kubeflow.org"))
        take_train_job(object, &reading);
    for (size_t i = 0; i < PODS_COUNT; i++) {
        const struct pods_row *row = &pods_table[i];
        const json_t *open = row->open ? review_at(object, row->open) : NULL;

        if (strcmp(row->kind, kind) != 0 || !is_group(version, row->group))
            continue;
        request->is_known = true;
        request->is_open = request->is_open || json_is_object(open) || json_is_true(open);
        reading.row = row;
        reading.each = row->each ? review_number(review_at(object, row->each), 0) : 0;
        review_walk(object, row->path, take_holder, &reading);
    }
}
