/* SPDX-License-Identifier: MIT */
/* Reads PYTORCH_CUDA_ALLOC_CONF (c10/core/AllocatorConfig.h, c10/cuda/CUDAAllocatorConfig.cpp). */
#include "replay/conf.h"

#include "base/fail.h"
#include "base/utf8.h"

#include <stddef.h>
#include <string.h>

#define CONF_PATH "/device/allocator/conf"

/* Longer than any key or value that is accepted. */
#define TOKEN_MAX 64

enum key_kind {
    KEY_EXPANDABLE = 0,
    KEY_BACKEND,
    KEY_HOST, /* about host memory or speed: device memory does not depend on it */
    KEY_NOT_MODELLED,
};

static const struct {
    const char *name;
    enum key_kind kind;
} key_table[] = {
    {"expandable_segments", KEY_EXPANDABLE},
    {"backend", KEY_BACKEND},
    {"release_lock_on_cudamalloc", KEY_HOST},
    {"pinned_use_cuda_host_register", KEY_HOST},
    {"pinned_num_register_threads", KEY_HOST},
    {"pinned_use_background_threads", KEY_HOST},
    {"pinned_reserve_segment_size_mb", KEY_HOST},
    {"pinned_max_cached_size_mb", KEY_HOST},
    {"max_split_size_mb", KEY_NOT_MODELLED},
    {"max_non_split_rounding_mb", KEY_NOT_MODELLED},
    {"garbage_collection_threshold", KEY_NOT_MODELLED},
    {"roundup_power2_divisions", KEY_NOT_MODELLED},
    {"large_segment_size_mb", KEY_NOT_MODELLED},
    {"per_process_memory_fraction", KEY_NOT_MODELLED},
    {"graph_capture_record_stream_reuse", KEY_NOT_MODELLED},
    {"throw_on_cudamalloc_oom", KEY_NOT_MODELLED},
};

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Copies up to the next end mark (outside square brackets) without white space; gives the place of
 * that mark. What does not fit is cut: no such token is known. */
static const char *read_token(const char *at, const char *ends, char token[TOKEN_MAX])
{
    size_t len = 0;
    int depth = 0;

    for (; *at && (depth > 0 || !strchr(ends, *at)); at++) {
        depth += (*at == '[') - (*at == ']');
        if (!is_space(*at) && len + 1 < TOKEN_MAX)
            token[len++] = *at;
    }
    token[len] = '\0';
    token[mpl_utf8_whole(token)] = '\0';
    return at;
}

static enum memplan_status set_key(struct mpl_alloc_conf *conf, const char *key, const char *value,
                                   struct memplan_error *err)
{
    size_t i, count = sizeof(key_table) / sizeof(key_table[0]);

    for (i = 0; i < count && strcmp(key_table[i].name, key); i++)
        ;
    if (i == count)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, CONF_PATH,
                        "found unknown key \"%s\", expected a key of PYTORCH_CUDA_ALLOC_CONF", key);
    switch (key_table[i].kind) {
    case KEY_EXPANDABLE:
        if (strcmp(value, "True") && strcmp(value, "False"))
            return mpl_fail(err, MEMPLAN_ERR_VALUE, CONF_PATH,
                            "found %s:%s, expected True or False", key, value);
        conf->is_expandable = value[0] == 'T';
        return MEMPLAN_OK;
    case KEY_BACKEND:
        if (!strcmp(value, "native"))
            return MEMPLAN_OK;
        if (strcmp(value, "cudaMallocAsync"))
            return mpl_fail(err, MEMPLAN_ERR_VALUE, CONF_PATH,
                            "found %s:%s, expected native or cudaMallocAsync", key, value);
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, CONF_PATH, "%s:%s is not modelled", key,
                        value);
    case KEY_HOST:
        return MEMPLAN_OK;
    case KEY_NOT_MODELLED:
        break;
    }
    return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, CONF_PATH, "allocator setting %s is not modelled",
                    key);
}

enum memplan_status mpl_alloc_conf_parse(const char *text, struct mpl_alloc_conf *conf_out,
                                         struct memplan_error *err)
{
    struct mpl_alloc_conf conf = {0};
    char key[TOKEN_MAX], value[TOKEN_MAX];
    const char *at = text ? text : "";
    enum memplan_status st;

    while (*at) {
        at = read_token(at, ":,", key);
        if (!*at && !key[0])
            break; /* white space or a comma at the end is accepted */
        if (*at != ':')
            return mpl_fail(err, MEMPLAN_ERR_VALUE, CONF_PATH,
                            "found \"%s\" without a value, expected key:value", key);
        at = read_token(at + 1, ",", value);
        if ((st = set_key(&conf, key, value, err)))
            return st;
        at += *at == ',';
    }
    *conf_out = conf;
    return MEMPLAN_OK;
}
