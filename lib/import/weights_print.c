/* SPDX-License-Identifier: MIT */
/* Stage "import": what was found out of a set of tensors as a document, which read_weights.c reads.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "import/weights_tell.h"

/* The name between the last dot before end and end: "q_proj". */
static void keep_module(json_t *set, const char *name, const char *end)
{
    const char *start = end;
    char module[MPL_WEIGHTS_MOST_NAME + 1];

    while (start > name && start[-1] != '.')
        start--;
    snprintf(module, sizeof(module), "%.*s", (int)(end - start), start);
    if (*module)
        json_object_set_new(set, module, json_true());
}

/* lora_A is [rank, in], the one of an embedding too; what has no lora_ was trained as a whole. */
void mpl_weights_tell_adapter(const struct mpl_weight *weight, struct mpl_weights_told *told)
{
    const char *lora = strstr(weight->name, ".lora_");
    char rank[32];

    told->adapter_file_tensor = weight->name;
    if (weight->dtype)
        told->adapter_dtype = weight->dtype;
    if (!lora) {
        const char *end = strrchr(weight->name, '.');

        keep_module(told->saved, weight->name, end ? end : weight->name);
        return;
    }
    if (strncmp(lora, ".lora_magnitude_vector", 22) == 0)
        told->has_dora = true;
    if (strncmp(lora, ".lora_A", 7) != 0 && strncmp(lora, ".lora_embedding_A", 17) != 0)
        return;
    keep_module(told->targets, weight->name, lora);
    if (!weight->dtype)
        return;
    snprintf(rank, sizeof(rank), "%" PRIu64, weight->dims[0]);
    json_object_set_new(told->ranks, rank,
                        json_integer(json_integer_value(json_object_get(told->ranks, rank)) + 1));
}

static void put_count(json_t *json, const char *key, uint64_t count)
{
    json_object_set_new(json, key, json_integer(count > INT64_MAX ? INT64_MAX : (json_int_t)count));
}

static void put_text(json_t *json, const char *key, const char *text)
{
    if (text)
        json_object_set_new(json, key, json_string(text));
}

static json_t *names_of(json_t *set)
{
    json_t *list = json_array(), *value;
    const char *name;

    json_object_foreach(set, name, value)
    {
        json_array_append_new(list, json_string(name));
    }
    return list;
}

static json_t *describe_adapters(const struct mpl_weights_told *told)
{
    json_t *json = json_object();

    json_object_set(json, "ranks", told->ranks);
    json_object_set_new(json, "target_modules", names_of(told->targets));
    json_object_set_new(json, "modules_to_save", names_of(told->saved));
    json_object_set_new(json, "use_dora", json_boolean(told->has_dora));
    put_text(json, "dtype", told->adapter_dtype ? told->adapter_dtype->json : NULL);
    return json;
}

static json_t *describe(const struct memplan_weights *weights, const struct mpl_weights_told *told)
{
    json_t *json = json_object();

    put_count(json, "files", weights->files.len);
    put_count(json, "shards", weights->shards.len);
    put_count(json, "tensors", told->base_tensors);
    put_count(json, "unread", told->unread);
    put_count(json, "bytes", weights->data_bytes);
    put_count(json, "total_size", weights->index_total_bytes);
    put_count(json, "parameters", told->parameters);
    put_count(json, "beside", told->beside);
    put_text(json, "beside_name", told->beside_name);
    put_text(json, "unlisted", told->unlisted);
    put_text(json, "head", told->head);
    put_text(json, "quantization", told->kind);
    put_text(json, "example", told->example);
    put_text(json, "odd", told->odd);
    put_text(json, "odd_dtype", told->odd ? told->odd_dtype->json : NULL);
    json_object_set_new(json, "double", json_boolean(told->is_double));
    json_object_set(json, "dtypes", told->dtypes);
    if (told->adapter_file_tensor)
        json_object_set_new(json, "adapters", describe_adapters(told));
    return json;
}

enum memplan_status mpl_weights_print(const struct memplan_weights *weights,
                                      const struct mpl_weights_told *told, char **json_out,
                                      struct memplan_error *err)
{
    json_t *root = json_object();

    json_object_set_new(root, "safetensors", describe(weights, told));
    *json_out = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return *json_out ? MEMPLAN_OK : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}
