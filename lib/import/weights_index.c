/* SPDX-License-Identifier: MIT */
/* Stage "import": model.safetensors.index.json, which says in which file each tensor lies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "import/weights.h"
#include "ingest/json.h"

/* A file beside the index, and nothing else: the command opens it. */
static bool is_shard(const char *name)
{
    static const char ending[] = ".safetensors";
    const size_t len = name ? strlen(name) : 0;

    return len > sizeof(ending) - 1 && len < 256 && !strchr(name, '/') &&
           strcmp(name + len - (sizeof(ending) - 1), ending) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of a set, sorted. */
static enum memplan_status keep_shards(struct memplan_weights *weights, json_t *set,
                                       struct memplan_error *err)
{
    const json_t *value;
    const char *name;

    if (json_object_size(set) > MPL_WEIGHTS_MOST_FILES)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, NULL, "weight_map: more than %d files",
                        MPL_WEIGHTS_MOST_FILES);
    json_object_foreach(set, name, value)
    {
        char *copy = mpl_import_copy(name, strlen(name));

        if (!copy || mpl_vec_reserve(&weights->shards)) {
            free(copy);
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
        }
        weights->shards.data[weights->shards.len++] = copy;
    }
    if (weights->shards.len)
        qsort(weights->shards.data, weights->shards.len, sizeof(char *), by_name);
    return MEMPLAN_OK;
}

/* One tensor of the map; set gets its file. */
static enum memplan_status take_entry(const char *name, const json_t *file, json_t *set,
                                      struct memplan_error *err)
{
    char found[128];

    if (strlen(name) > MPL_WEIGHTS_MOST_NAME)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, NULL,
                        "weight_map: a name of %zu bytes, expected at most %d", strlen(name),
                        MPL_WEIGHTS_MOST_NAME);
    if (!is_shard(json_string_value(file)))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "weight_map.%.*s: found %s, expected the name of a .safetensors file "
                        "beside the index",
                        (int)mpl_json_cut(name, 100), name,
                        mpl_json_describe(file, found, sizeof(found)));
    return json_object_set_new(set, json_string_value(file), json_null())
               ? mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory")
               : MEMPLAN_OK;
}

static enum memplan_status take_map(struct memplan_weights *weights, const json_t *map,
                                    struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    const json_t *file;
    const char *name;
    json_t *set;

    if (!json_is_object(map))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "weight_map: expected an object of names and files");
    if (json_object_size(map) > MPL_WEIGHTS_MOST_TENSORS)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, NULL, "weight_map: more than %zu tensors",
                        MPL_WEIGHTS_MOST_TENSORS);
    set = json_object();
    json_object_foreach((json_t *)map, name, file)
    {
        if ((status = take_entry(name, file, set, err)))
            break;
    }
    if (!status)
        status = keep_shards(weights, set, err);
    json_decref(set);
    return status;
}

static enum memplan_status take(struct memplan_weights *weights, const json_t *root,
                                struct memplan_error *err)
{
    const json_t *total = json_object_get(json_object_get(root, "metadata"), "total_size");
    enum memplan_status status = take_map(weights, json_object_get(root, "weight_map"), err);

    if (status)
        return status;
    /* Some writers make a real number of it. */
    if (json_is_number(total) && json_number_value(total) > 0 && json_number_value(total) < 9e15)
        weights->index_total_bytes = (uint64_t)json_number_value(total);
    else if (total)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "metadata.total_size: expected a number of bytes");
    weights->map = json_incref(json_object_get(root, "weight_map"));
    return MEMPLAN_OK;
}

enum memplan_status mpl_weights_add_index(struct memplan_weights *weights, const char *name,
                                          const void *text, size_t len, struct memplan_error *err)
{
    enum memplan_status status;
    json_t *root = NULL;

    if (weights->map)
        status = mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "a second index, expected one");
    else
        status = mpl_json_read(text, len, &root, err);
    if (!status)
        status = take(weights, root, err);
    json_decref(root);
    if (!status && !(weights->index_name = mpl_import_copy(name, strlen(name))))
        status = mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    if (status && err && !err->source[0])
        snprintf(err->source, sizeof(err->source), "%s", name);
    return status;
}
