/* SPDX-License-Identifier: MIT */
/* What launchers put before each line: the rank it is from. */
#include "log/prefix.h"

#include <string.h>

#include "log/pattern.h"

#define MOST_NESTED 4
#define LONGEST     200

#define RAY                                                                                        \
    "\\([A-Za-z_][\\w.:]{0,80}(?: rank=(?<rank>\\d{1,7}))?,? pid=(?<process>\\d{1,9})"             \
    "(?:, ip=[^)]{1,60})?\\) ?"

/* One row a form; white space is one space. The group is rank, local or process. */
static const char *const rows[] = {
    /* a time, as CI systems, kubectl and logging write it: says nothing of the rank */
    "\\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d:\\d\\d\\S{0,20} (?:std(?:out|err) [FP] )?",
    /* PyTorch 2.3 on; Lightning; others by hand */
    "\\[(?i:rank)[: ]{0,2}(?<rank>\\d{1,7})\\]:? ?",
    /* torchrun --tee and --redirects: the role's name and the local rank */
    "\\[[A-Za-z_]{1,40}(?<local>\\d{1,5})\\]: ?",
    /* mpirun and its like: host and local rank */
    "\\[[A-Za-z][\\w.-]{0,80}:(?<local>\\d{1,5})\\]: ?",
    /* mpirun --tag-output */
    "\\[\\d{1,9},(?<rank>\\d{1,7})\\]<std(?:out|err)>: ?",
    /* srun --label */
    "(?<rank>\\d{1,7}): ",
    /* Ray, vLLM */
    RAY,
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) <= MPL_LOG_PREFIXES, "room for each form");

#define ROWS (sizeof(rows) / sizeof(rows[0]))

enum memplan_status mpl_log_prefixes_init(struct mpl_log_prefixes *prefixes,
                                          struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; i < ROWS && !status; i++)
        status = mpl_log_pattern_new(rows[i], &prefixes->patterns[i], err);
    return status;
}

void mpl_log_prefixes_free(struct mpl_log_prefixes *prefixes)
{
    for (size_t i = 0; i < ROWS; i++)
        mpl_log_pattern_free(prefixes->patterns[i]);
}

static bool number(const struct mpl_log_pattern *pattern, const char *group, const char *line,
                   int64_t *value)
{
    size_t start, end;

    if (!mpl_log_pattern_group(pattern, group, &start, &end))
        return false;
    *value = 0;
    for (; start < end; start++) /* at most nine digits, the patterns say */
        *value = 10 * *value + (line[start] - '0');
    return true;
}

/* True when the pattern says who wrote the line. The innermost word stands: PyTorch's own is of the
 * rank, srun's around torchrun is of the node. */
static bool take(const struct mpl_log_pattern *pattern, const char *line,
                 struct mpl_log_writer *writer)
{
    int64_t value;
    bool is_named = false;

    if (number(pattern, "rank", line, &value)) {
        writer->rank = (int32_t)value;
        is_named = true;
    }
    if (number(pattern, "local", line, &value)) {
        writer->local_rank = (int32_t)value;
        is_named = true;
    }
    if (number(pattern, "process", line, &value)) {
        writer->process = value;
        is_named = true;
    }
    return is_named;
}

static bool may_begin(char c)
{
    return c == '[' || c == '(' || (c >= '0' && c <= '9');
}

size_t mpl_log_prefixes_read(const struct mpl_log_prefixes *prefixes, const char *line, size_t len,
                             struct mpl_log_writer *writer, bool *is_named)
{
    size_t used = 0, end;

    *writer = (struct mpl_log_writer){-1, -1, -1};
    *is_named = false;
    for (int n = 0; n < MOST_NESTED && used < len && may_begin(line[used]); n++) {
        size_t most = len - used < LONGEST ? len : used + LONGEST, i = 0, start = used;

        while (i < ROWS && !mpl_log_pattern_match(prefixes->patterns[i], line, most, used, true))
            i++;
        if (i == ROWS)
            break;
        *is_named = take(prefixes->patterns[i], line, writer) || *is_named;
        mpl_log_pattern_range(prefixes->patterns[i], &start, &end);
        used = end;
    }
    return used;
}
