/* SPDX-License-Identifier: MIT */
/*
 * Reads PYTORCH_CUDA_ALLOC_CONF (c10/core/AllocatorConfig.h, c10/cuda/CUDAAllocatorConfig.cpp).
 *
 * From 2.9 on the string is read twice. First by the CUDA allocator, which knows its own keys and
 * passes over those that are common to all accelerators, then for the common ones; the first fault
 * is the one that is told. Nobody looks at the marks between a key and its value there, so that
 * "expandable_segments;True" is a key, and "a=b" too. Before 2.9 it is read once, and strictly.
 */
#include "replay/conf.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "replay/conf_tokens.h"

#define MIB          (UINT64_C(1) << 20)
#define DEFAULT_MIB  UINT64_C(20) /* kLargeBuffer */
#define SMALLEST_MIB UINT64_C(10) /* kMinLargeAlloc */
#define MAX_THREADS  UINT64_C(128)

/* Where the parser is: at a key, then at its value. */
struct parser {
    struct mpl_conf_tokens tokens;
    struct mpl_alloc_release release;
    bool is_strict;             /* before 2.9 */
    uint64_t large_segment_mib; /* what max_split_size_mb may not be below */
    struct mpl_alloc_conf conf;
    struct memplan_error *err;
};

typedef enum memplan_status (*parse_value)(struct parser *p, size_t at, const char *key);

static enum memplan_status refuse(struct parser *p, const char *format, const char *what)
{
    char shown[MPL_CONF_SHOWN];

    return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH, format, mpl_conf_shown(what, shown));
}

/* Looks at the mark that should stand here. From 2.9 on only its being there matters. */
static enum memplan_status mark(struct parser *p, size_t at, const char *wanted)
{
    if (p->is_strict) {
        if (at < p->tokens.count && !strcmp(p->tokens.at[at], wanted))
            return MEMPLAN_OK;
        return refuse(p, "Error parsing CachingAllocator settings, expected %s", wanted);
    }
    if (at < p->tokens.count)
        return MEMPLAN_OK;
    return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH, MPL_CONF_OUT_OF_BOUNDS);
}

/* ---- values ---------------------------------------------------------------------------------- */

static enum memplan_status parse_bool(struct parser *p, size_t at, const char *key, bool *value)
{
    char shown[MPL_CONF_SHOWN];
    const char *token = p->tokens.at[at];

    if (strcmp(token, "True") && strcmp(token, "False")) {
        if (p->is_strict)
            return refuse(p, "Expected a single True/False argument for %s", key);
        return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH,
                        "Expected 'True' or 'False' at index %zu in ConfigTokenizer but got '%s'",
                        at, mpl_conf_shown(token, shown));
    }
    *value = token[0] == 'T';
    return MEMPLAN_OK;
}

static enum memplan_status parse_size(struct parser *p, size_t at, uint64_t *value)
{
    if (mpl_conf_unsigned(p->tokens.at[at], value))
        return MEMPLAN_OK;
    return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH, p->is_strict ? "stoi" : "stoull");
}

static enum memplan_status parse_double(struct parser *p, size_t at, double *value)
{
    if (mpl_conf_double(p->tokens.at[at], value))
        return MEMPLAN_OK;
    return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH, "stod");
}

static enum memplan_status expandable_segments(struct parser *p, size_t at, const char *key)
{
    return parse_bool(p, at, key, &p->conf.is_expandable);
}

static enum memplan_status throw_on_oom(struct parser *p, size_t at, const char *key)
{
    return parse_bool(p, at, key, &p->conf.rejects_early);
}

/* About host memory, locks or captures: device memory does not depend on it. */
static enum memplan_status bool_apart(struct parser *p, size_t at, const char *key)
{
    bool ignored;

    return parse_bool(p, at, key, &ignored);
}

static enum memplan_status size_apart(struct parser *p, size_t at, const char *key)
{
    uint64_t ignored;

    (void)key;
    return parse_size(p, at, &ignored);
}

static enum memplan_status reserve_segment(struct parser *p, size_t at, const char *key)
{
    uint64_t value;
    enum memplan_status status = parse_size(p, at, &value);

    if (!status && value == 0)
        return refuse(p, "Pinned reserve segment size has to be greater than 0%s", "");
    (void)key;
    return status;
}

static enum memplan_status register_threads(struct parser *p, size_t at, const char *key)
{
    uint64_t value;
    enum memplan_status status = parse_size(p, at, &value);

    (void)key;
    if (status)
        return status;
    if (!mpl_conf_is_power_of_2(value))
        return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH,
                        "Number of register threads has to be power of 2, got %llu",
                        (unsigned long long)value);
    if (value > MAX_THREADS)
        return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH,
                        "Number of register threads should be less than or equal to %llu, got %llu",
                        (unsigned long long)MAX_THREADS, (unsigned long long)value);
    return MEMPLAN_OK;
}

/* A size in MiB of at least the large segment's (before 2.9: above it). */
static enum memplan_status least(struct parser *p, size_t at, const char *key, uint64_t *bytes)
{
    uint64_t value;
    enum memplan_status status = parse_size(p, at, &value);
    bool is_large;

    if (status)
        return status;
    is_large = p->is_strict ? value > p->large_segment_mib : value >= p->large_segment_mib;
    if (!is_large)
        return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH,
                        "CachingAllocator option %s too small, must be %s %llu", key,
                        p->is_strict ? ">" : ">=", (unsigned long long)p->large_segment_mib);
    *bytes = (value < UINT64_MAX / MIB ? value : UINT64_MAX / MIB) * MIB;
    return MEMPLAN_OK;
}

static enum memplan_status max_split_size(struct parser *p, size_t at, const char *key)
{
    return least(p, at, key, &p->conf.max_split_bytes);
}

static enum memplan_status max_non_split_rounding(struct parser *p, size_t at, const char *key)
{
    return least(p, at, key, &p->conf.non_split_bytes);
}

static enum memplan_status large_segment_size(struct parser *p, size_t at, const char *key)
{
    uint64_t value;
    enum memplan_status status = parse_size(p, at, &value);

    if (status)
        return status;
    if (value <= SMALLEST_MIB)
        return refuse(p, "CachingAllocator option %s must be > 10 MB", key);
    p->large_segment_mib = value < UINT64_MAX / MIB ? value : UINT64_MAX / MIB;
    p->conf.large_segment_bytes = p->large_segment_mib * MIB;
    return MEMPLAN_OK;
}

static enum memplan_status gc_threshold(struct parser *p, size_t at, const char *key)
{
    double value;
    enum memplan_status status = parse_double(p, at, &value);

    if (!status && !(value > 0 && value < 1))
        return refuse(p, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)%s", "");
    p->conf.gc_threshold = value;
    (void)key;
    return status;
}

static enum memplan_status fraction(struct parser *p, size_t at, const char *key)
{
    double value;
    enum memplan_status status = parse_double(p, at, &value);

    if (!status && !(value >= 0 && value <= 1))
        return refuse(p, "%s is invalid, set it in [0.0, 1.0]", key);
    p->conf.fraction = value;
    p->conf.has_fraction = true;
    return status;
}

static enum memplan_status backend(struct parser *p, size_t at, const char *key)
{
    const char *token = p->tokens.at[at];

    if (!strcmp(token, "native"))
        return MEMPLAN_OK;
    if (strcmp(token, "cudaMallocAsync"))
        return refuse(p, "Unknown allocator backend, options are native and cudaMallocAsync%s", "");
    return mpl_fail(p->err, MEMPLAN_ERR_UNSUPPORTED, MPL_CONF_PATH, "%s:%s is not modelled", key,
                    token);
}

/* One pair of a list, "256:1"; the first one holds for all smaller sizes too, and ">" for all above
 * the last one. */
static enum memplan_status division(struct parser *p, const char *interval, uint64_t value,
                                    size_t *last, bool *is_first)
{
    uint64_t *table = p->conf.divisions, mib;
    size_t i;

    if (value && !mpl_conf_is_power_of_2(value))
        return refuse(p,
                      "For roundups, the divisions has to be power of 2 or 0 to disable "
                      "roundup %s",
                      "");
    if (!strcmp(interval, ">")) {
        for (i = *last + 1; i < MPL_ALLOC_DIVISIONS; i++)
            table[i] = value;
        return MEMPLAN_OK;
    }
    if (!mpl_conf_unsigned(interval, &mib))
        return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH,
                        p->is_strict ? "stoul" : "stoull");
    if (!mpl_conf_is_power_of_2(mib))
        return refuse(p, "For roundups, the intervals have to be power of 2 %s", "");
    *last = (size_t)__builtin_ctzll(mib);
    if (*last >= MPL_ALLOC_DIVISIONS)
        *last = MPL_ALLOC_DIVISIONS - 1;
    for (i = *is_first ? 0 : *last; i <= *last; i++)
        table[i] = value;
    *is_first = false;
    return MEMPLAN_OK;
}

static enum memplan_status division_list(struct parser *p, size_t at)
{
    size_t last = 0;
    bool is_first = true;
    enum memplan_status status;
    uint64_t value;

    /* at is the bracket; a pair is interval, colon, value, and a comma unless it is the last. */
    for (at++; at < p->tokens.count && strcmp(p->tokens.at[at], "]"); at += 2) {
        const char *interval = p->tokens.at[at];

        if (at + 2 >= p->tokens.count)
            return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH, MPL_CONF_OUT_OF_BOUNDS);
        at += 2;
        if ((status = mark(p, at - 1, ":")) || (status = parse_size(p, at, &value)) ||
            (status = division(p, interval, value, &last, &is_first)))
            return status;
        if (at + 1 < p->tokens.count && !strcmp(p->tokens.at[at + 1], "]"))
            break;
    }
    return MEMPLAN_OK;
}

static enum memplan_status divisions(struct parser *p, size_t at, const char *key)
{
    uint64_t value;
    enum memplan_status status;

    (void)key;
    if (!strcmp(p->tokens.at[at], "["))
        return division_list(p, at);
    if ((status = parse_size(p, at, &value)))
        return status;
    if (!mpl_conf_is_power_of_2(value))
        return refuse(p, "For roundups, the divisions has to be power of 2 %s", "");
    for (size_t i = 0; i < MPL_ALLOC_DIVISIONS; i++)
        p->conf.divisions[i] = value;
    return MEMPLAN_OK;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* TABLE: keys, whether all accelerators have them (from 2.9 on), and the first release whose header
 * c10/cuda/CUDAAllocatorConfig.h or c10/core/AllocatorConfig.h has them. */
static const struct conf_key {
    const char *name;
    parse_value parse;
    bool is_common;
    uint16_t since; /* minor release of PyTorch 2 */
} key_table[] = {
    /* The size of large segments first: others are held against it, in whatever order they come. */
    {"large_segment_size_mb", large_segment_size, true, 11},
    {"max_split_size_mb", max_split_size, true, 0},
    {"max_non_split_rounding_mb", max_non_split_rounding, true, 6},
    {"garbage_collection_threshold", gc_threshold, true, 0},
    {"roundup_power2_divisions", divisions, true, 0},
    {"expandable_segments", expandable_segments, true, 1},
    {"pinned_use_background_threads", bool_apart, true, 6},
    {"pinned_max_cached_size_mb", size_apart, true, 13},
    {"pinned_max_round_threshold_mb", size_apart, true, 13},
    {"backend", backend, false, 0},
    {"per_process_memory_fraction", fraction, false, 10},
    {"throw_on_cudamalloc_oom", throw_on_oom, false, 12},
    {"pinned_free_catch_all", bool_apart, false, 12},
    {"graph_capture_record_stream_reuse", bool_apart, false, 9},
    {"release_lock_on_cudamalloc", bool_apart, false, 0},
    {"release_lock_on_hipmalloc", bool_apart, false, 0},
    {"pinned_use_cuda_host_register", bool_apart, false, 0},
    {"pinned_use_hip_host_register", bool_apart, false, 0},
    {"pinned_num_register_threads", register_threads, false, 1},
    {"pinned_reserve_segment_size_mb", reserve_segment, false, 10},
};

static const struct conf_key *find_key(const char *name)
{
    for (size_t i = 0; i < sizeof(key_table) / sizeof(key_table[0]); i++)
        if (!strcmp(key_table[i].name, name))
            return &key_table[i];
    return NULL;
}

static bool is_known(const struct parser *p, const struct conf_key *key)
{
    return key && (p->release.major != 2 || key->since <= p->release.minor);
}

static enum memplan_status unknown(struct parser *p, const struct conf_key *key, const char *token)
{
    char shown[MPL_CONF_SHOWN];

    if (key)
        return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH,
                        "found key \"%s\", which PyTorch has since 2.%u and %u.%u does not know",
                        key->name, key->since, p->release.major, p->release.minor);
    return mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH,
                    p->is_strict ? "Unrecognized CachingAllocator option: %s"
                                 : "Unrecognized key '%s' in CUDA allocator config.",
                    mpl_conf_shown(token, shown));
}

/* From a key to the last token of its value: itself, or a closing bracket. */
static enum memplan_status last_of_value(struct parser *p, size_t *at)
{
    enum memplan_status status;

    if ((status = mark(p, ++*at, ":")))
        return status;
    if (++*at >= p->tokens.count)
        return p->is_strict
                   ? refuse(p, "Error, expecting %s value", p->tokens.at[*at - 2])
                   : mpl_fail(p->err, MEMPLAN_ERR_VALUE, MPL_CONF_PATH, MPL_CONF_OUT_OF_BOUNDS);
    if (strcmp(p->tokens.at[*at], "["))
        return MEMPLAN_OK;
    while (++*at < p->tokens.count && strcmp(p->tokens.at[*at], "]"))
        ;
    if (*at < p->tokens.count)
        return MEMPLAN_OK;
    return refuse(p, "Expected closing bracket ']' in ConfigTokenizer but reached end of config%s",
                  "");
}

/* One time through the string: reads what a filter takes, and passes over the rest. */
static enum memplan_status pass(struct parser *p,
                                bool (*takes)(const struct parser *, const struct conf_key *))
{
    enum memplan_status status;

    for (size_t at = 0; at < p->tokens.count; at++) {
        const char *token = p->tokens.at[at];
        const struct conf_key *key = find_key(token);
        const size_t value = at + 2;

        if (!is_known(p, key))
            return unknown(p, key, token);
        if ((status = last_of_value(p, &at)))
            return status;
        if (takes(p, key) && (status = key->parse(p, value, token)))
            return status;
        if (at + 1 < p->tokens.count && (status = mark(p, ++at, ",")))
            return status;
    }
    return MEMPLAN_OK;
}

static bool is_of_cuda(const struct parser *p, const struct conf_key *key)
{
    return p->is_strict || !key->is_common;
}

static bool is_segment_size(const struct parser *p, const struct conf_key *key)
{
    (void)p;
    return key == &key_table[0];
}

static bool is_of_all(const struct parser *p, const struct conf_key *key)
{
    return !p->is_strict && key->is_common && key != &key_table[0];
}

enum memplan_status mpl_alloc_conf_parse(const char *text, struct mpl_alloc_release release,
                                         struct mpl_alloc_conf *conf_out, struct memplan_error *err)
{
    struct parser p = {.release = release, .large_segment_mib = DEFAULT_MIB, .err = err};
    enum memplan_status status;

    if (!text || !*text) {
        *conf_out = (struct mpl_alloc_conf){0};
        return MEMPLAN_OK;
    }
    p.is_strict = release.major == 2 && release.minor < 9;
    if ((status = mpl_conf_tokenize(text, &p.tokens, err)) || (status = pass(&p, is_of_cuda)) ||
        (status = pass(&p, is_segment_size)) || (status = pass(&p, is_of_all)))
        return status;
    for (size_t i = 0; i < MPL_ALLOC_DIVISIONS; i++)
        if (p.conf.divisions[i] == 1 && release.major == 2 && release.minor < 4)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, MPL_CONF_PATH,
                            "roundup_power2_divisions of 1 is not modelled before PyTorch 2.4, "
                            "where sizes are then not multiples of 512");
    *conf_out = p.conf;
    return MEMPLAN_OK;
}

bool mpl_alloc_conf_is_same(const struct mpl_alloc_conf *a, const struct mpl_alloc_conf *b)
{
    for (size_t i = 0; i < MPL_ALLOC_DIVISIONS; i++)
        if (a->divisions[i] != b->divisions[i])
            return false;
    return a->is_expandable == b->is_expandable && a->rejects_early == b->rejects_early &&
           a->has_fraction == b->has_fraction && a->fraction == b->fraction &&
           a->gc_threshold == b->gc_threshold && a->max_split_bytes == b->max_split_bytes &&
           a->non_split_bytes == b->non_split_bytes &&
           a->large_segment_bytes == b->large_segment_bytes;
}
