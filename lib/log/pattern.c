/* SPDX-License-Identifier: MIT */
/* Regular expressions with a limit on the work of one match. */
#include "log/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/fail.h"

/* No pattern of ours comes near on a window of a log; hostile text that does is no message. */
#define MOST_STEPS    200000
#define MOST_DEPTH    2000
#define MOST_HEAP_KIB 1024

struct mpl_log_pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
};

enum memplan_status mpl_log_pattern_new(const char *text, struct mpl_log_pattern **pattern_out,
                                        struct memplan_error *err)
{
    struct mpl_log_pattern *pattern = calloc(1, sizeof(*pattern));
    PCRE2_SIZE offset = 0;
    int code = 0;

    if (pattern) {
        pattern->code =
            pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, &code, &offset, NULL);
        pattern->context = pcre2_match_context_create(NULL);
    }
    if (pattern && pattern->code)
        pattern->match = pcre2_match_data_create_from_pattern(pattern->code, NULL);
    if (!pattern || !pattern->match || !pattern->context) {
        mpl_log_pattern_free(pattern);
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL,
                        "out of memory while making a pattern (PCRE2 says %d at %zu)", code,
                        offset);
    }
    pcre2_set_match_limit(pattern->context, MOST_STEPS);
    pcre2_set_depth_limit(pattern->context, MOST_DEPTH);
    pcre2_set_heap_limit(pattern->context, MOST_HEAP_KIB);
    *pattern_out = pattern;
    return MEMPLAN_OK;
}

void mpl_log_pattern_free(struct mpl_log_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_match_data_free(pattern->match);
    pcre2_match_context_free(pattern->context);
    pcre2_code_free(pattern->code);
    free(pattern);
}

bool mpl_log_pattern_match(struct mpl_log_pattern *pattern, const char *text, size_t len,
                           size_t from, bool is_anchored)
{
    return pcre2_match(pattern->code, (PCRE2_SPTR)text, len, from, is_anchored ? PCRE2_ANCHORED : 0,
                       pattern->match, pattern->context) > 0;
}

void mpl_log_pattern_range(const struct mpl_log_pattern *pattern, size_t *start, size_t *end)
{
    const PCRE2_SIZE *ranges = pcre2_get_ovector_pointer(pattern->match);

    *start = ranges[0];
    *end = ranges[1];
}

bool mpl_log_pattern_group(const struct mpl_log_pattern *pattern, const char *name, size_t *start,
                           size_t *end)
{
    const PCRE2_SIZE *ranges = pcre2_get_ovector_pointer(pattern->match);
    int number = pcre2_substring_number_from_name(pattern->code, (PCRE2_SPTR)name);

    if (number <= 0 || (uint32_t)number >= pcre2_get_ovector_count(pattern->match) ||
        ranges[2 * number] == PCRE2_UNSET)
        return false;
    *start = ranges[2 * number];
    *end = ranges[2 * number + 1];
    return true;
}
