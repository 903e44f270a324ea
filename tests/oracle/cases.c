/* SPDX-License-Identifier: MIT */
/* Recorded runs as test cases: plans with their results, one a line, and the gaps that are known.
 */
#include "cases.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorded.h"
#include "spec/spec.h"

#define LEAST_BYTES 65536.0

struct case_file case_file_read(const char *name)
{
    FILE *file = recorded_open(name);
    struct case_file cases = {0};
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, file) > 0) {
        cases.lines = realloc(cases.lines, (size_t)(cases.count + 1) * sizeof(*cases.lines));
        cases.lines[cases.count++] = strdup(line);
    }
    free(line);
    fclose(file);
    return cases;
}

void case_file_free(struct case_file *file)
{
    for (int i = 0; i < file->count; i++)
        free(file->lines[i]);
    free(file->lines);
}

bool case_run_try(struct case_run *run, const char *line, bool is_card, struct memplan_error *err)
{
    const struct mpl_trace_options options = {.has_kernels = is_card, .has_infos = true};
    struct mpl_spec *spec = NULL;
    bool is_done;

    memset(run, 0, sizeof(*run));
    run->document = json_loads(line, 0, NULL);
    run->id = json_string_value(json_object_get(run->document, "id"));
    run->result = json_object_get(run->document, "result");
    is_done = run->id && !mpl_spec_load(line, strlen(line), run->id, &spec, err) &&
              !mpl_spec_bind(spec, 0, &run->plan, NULL, err) &&
              !mpl_estimator_init(&run->estimator, err) &&
              !mpl_trace_run(&run->plan, &options, &run->estimator.trace, err);
    mpl_spec_free(spec);
    if (is_done)
        mpl_estimate_live(&run->estimator.trace.timeline, &run->estimate);
    return is_done;
}

void case_run_start(struct case_run *run, const char *line, bool is_card)
{
    struct memplan_error err = {0};

    ck_assert_msg(case_run_try(run, line, is_card, &err), "%s: %s: %s", run->id ? run->id : "?",
                  err.path, err.text);
}

void case_run_end(struct case_run *run)
{
    mpl_estimator_free(&run->estimator);
    json_decref(run->document);
}

json_int_t case_step_figure(const struct case_run *run, size_t step, const char *name)
{
    const json_t *figure =
        json_object_get(json_array_get(json_object_get(run->result, "steps"), step), name);

    return json_is_integer(figure) ? json_integer_value(figure) : -1;
}

/* Percent that gaps.tsv allows, or 0 without a line: file, id, figure, percent, cause. */
static double known_gap(const char *file, const char *id, const char *figure)
{
    FILE *gaps = recorded_open("gaps.tsv");
    char line[1024], names[3][160];
    double percent, found = 0;

    while (fgets(line, sizeof(line), gaps)) {
        if (line[0] == '#' ||
            sscanf(line, "%159s %159s %159s %lf", names[0], names[1], names[2], &percent) != 4)
            continue;
        if (!strcmp(names[0], file) && !strcmp(names[1], id) && !strcmp(names[2], figure))
            found = percent;
    }
    fclose(gaps);
    return found;
}

bool case_has_gap(const char *file, const char *id, const char *figure)
{
    return known_gap(file, id, figure) != 0;
}

void case_expect(const char *file, const struct case_run *run, const char *figure, double share,
                 uint64_t mine, json_int_t recorded)
{
    const double off = (double)mine - (double)recorded;
    const double percent = recorded > 0 ? 100 * off / (double)recorded : 0;
    const double gap = known_gap(file, run->id, figure);
    const bool is_near = fabs(off) <= fmax(LEAST_BYTES, share * (double)recorded);

    if (gap == 0) {
        ck_assert_msg(is_near, "%s: %s is %llu, recorded %lld (%+.4f %%)", run->id, figure,
                      (unsigned long long)mine, (long long)recorded, percent);
        return;
    }
    ck_assert_msg(!is_near, "%s: the gap in %s has closed: its line in gaps.tsv must go", run->id,
                  figure);
    ck_assert_msg(fabs(percent - gap) <= 0.1,
                  "%s: %s is off by %+.2f %%, the known gap is %+.2f %%", run->id, figure, percent,
                  gap);
}
