/* SPDX-License-Identifier: MIT */
/* The public entry points to headers of weights: check arguments, call lib/import. */
#include <memplan.h>

#include <stdlib.h>

#include "api_struct.h"
#include "base/fail.h"
#include "import/weights.h"

enum memplan_status memplan_weights_new(struct memplan_weights **weights_out,
                                        struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!weights_out)
        return mpl_api_missing(err, "weights_out");
    *weights_out = calloc(1, sizeof(**weights_out));
    return *weights_out ? MEMPLAN_OK : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}

size_t memplan_weights_header(const void *bytes, uint64_t file_bytes)
{
    const unsigned char *length = bytes;
    uint64_t value = 0;

    if (!bytes || file_bytes < 8)
        return 8;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | length[i];
    return value > MPL_WEIGHTS_MOST_HEADER || value > file_bytes - 8 ? 8 : (size_t)value + 8;
}

enum memplan_status memplan_weights_add(struct memplan_weights *weights, const char *name,
                                        const void *bytes, size_t len, uint64_t file_bytes,
                                        struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!weights || !name || !bytes)
        return mpl_api_missing(err, !weights ? "weights" : !name ? "name" : "bytes");
    return mpl_weights_add(weights, name, bytes, len, file_bytes, err);
}

enum memplan_status memplan_weights_add_index(struct memplan_weights *weights, const char *name,
                                              const void *json, size_t len,
                                              struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!weights || !name || !json)
        return mpl_api_missing(err, !weights ? "weights" : !name ? "name" : "json");
    return mpl_weights_add_index(weights, name, json, len, err);
}

const char *memplan_weights_shard(const struct memplan_weights *weights, size_t i)
{
    return weights && i < weights->shards.len ? weights->shards.data[i] : NULL;
}

enum memplan_status memplan_weights_to_json(struct memplan_weights *weights, char **json_out,
                                            struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!weights || !json_out)
        return mpl_api_missing(err, weights ? "json_out" : "weights");
    return mpl_weights_to_json(weights, json_out, err);
}

void memplan_weights_free(struct memplan_weights *weights)
{
    mpl_weights_free(weights);
}
