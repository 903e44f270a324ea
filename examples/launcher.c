/* SPDX-License-Identifier: MIT */
/* A launcher that asks before it launches: usage: launcher PLAN [SEQUENCE_LENGTH]. */
#include <memplan.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_BYTES (1 << 20) /* more than any plan written by hand */

/* Reads a whole file; new, or NULL. The library itself opens no files. */
static char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(MOST_BYTES) : NULL;

    if (text)
        *len = fread(text, 1, MOST_BYTES, file);
    if (file)
        fclose(file);
    return text;
}

static enum memplan_status estimate(const char *path, const char *length,
                                    struct memplan_report **report, struct memplan_error *err)
{
    /* Only the verdict is wanted: the search for what would fit is left out. */
    struct memplan_options options = {.size = sizeof(options), .no_suggestions = 1};
    struct memplan_plan *plan = NULL;
    enum memplan_status status;
    size_t len = 0;
    char *text = read_file(path, &len);
    char assignment[64];

    if (!text) {
        snprintf(err->text, sizeof(err->text), "the file cannot be read");
        return err->status = MEMPLAN_ERR_VALUE;
    }
    status = memplan_plan_load(text, len, path, &plan, err);
    free(text);
    if (!status && length) {
        snprintf(assignment, sizeof(assignment), "training.sequence_length=%s", length);
        status = memplan_plan_set(plan, assignment, err);
    }
    if (!status)
        status = memplan_estimate(plan, &options, report, err);
    memplan_plan_free(plan);
    return status;
}

int main(int argc, char **argv)
{
    struct memplan_summary summary = {.size = sizeof(summary)};
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};
    enum memplan_verdict verdict;

    if (argc < 2) {
        fprintf(stderr, "usage: launcher PLAN [SEQUENCE_LENGTH]\n");
        return 2;
    }
    if (estimate(argv[1], argc > 2 ? argv[2] : NULL, &report, &err) ||
        memplan_report_summary(report, &summary, &err)) {
        fprintf(stderr, "launcher: %s: %s %s\n", argv[1], err.path, err.text);
        memplan_report_free(report);
        return err.status == MEMPLAN_ERR_UNSUPPORTED ? MEMPLAN_CANNOT_TELL : 2;
    }
    verdict = memplan_report_verdict(report);
    if (verdict == MEMPLAN_FITS)
        printf("would launch: %.1f of %.1f GiB at most\n",
               (double)summary.needs_high_bytes / 1073741824.0,
               (double)summary.usable_bytes / 1073741824.0);
    else
        printf("refused: %s\n", memplan_report_reason(report));
    memplan_report_free(report);
    return (int)verdict;
}
