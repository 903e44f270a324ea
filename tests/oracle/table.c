/* SPDX-License-Identifier: MIT */
/*
 * The worst error of every recorded run, as a table by family and by setting.
 *
 * usage: table; fails when a bound of the project is broken: half of the runs within 64 KiB in
 * every figure, 95 of 100 within 0.1 %, none over 1 %.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

#define LEAST_BYTES 65536.0
#define MAX_GROUPS  96

/* Errors of the runs that belong to one line of the table. */
struct group {
    char name[64];
    double *errors; /* worst relative error of each run; 0: all within LEAST_BYTES */
    size_t count, room;
};

struct table {
    struct group groups[MAX_GROUPS];
    size_t count;
};

static const char *const figure_names[] = {"forward_peak",   "after_forward",  "backward_peak",
                                           "after_backward", "optimizer_peak", "after_step"};

static void add_error(struct table *table, const char *name, double error)
{
    struct group *group = NULL;

    for (size_t i = 0; i < table->count && !group; i++)
        if (!strcmp(table->groups[i].name, name))
            group = &table->groups[i];
    if (!group && table->count < MAX_GROUPS) {
        group = &table->groups[table->count++];
        snprintf(group->name, sizeof(group->name), "%s", name);
    }
    if (!group)
        return;
    if (group->count == group->room) {
        group->room = group->room ? 2 * group->room : 64;
        group->errors = realloc(group->errors, group->room * sizeof(*group->errors));
        if (!group->errors)
            abort();
    }
    group->errors[group->count++] = error;
}

static double error_of(double mine, json_int_t recorded)
{
    const double off = fabs(mine - (double)recorded);

    return recorded > 0 && off > LEAST_BYTES ? off / (double)recorded : 0;
}

/* Worst error over all figures of all steps. */
static double worst_error(const struct case_run *run)
{
    double worst = 0;

    for (size_t s = 0; s < run->estimate.step_count; s++) {
        const struct mpl_step_bytes *step = &run->estimate.live_steps[s];
        const uint64_t mine[] = {step->forward_peak,   step->after_forward,  step->backward_peak,
                                 step->after_backward, step->optimizer_peak, step->after_step};

        for (size_t i = 0; i < sizeof(mine) / sizeof(mine[0]); i++)
            worst =
                fmax(worst, error_of((double)mine[i], case_step_figure(run, s, figure_names[i])));
    }
    return worst;
}

static const char *text_at(const json_t *object, const char *name, const char *fallback)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : fallback;
}

static void add_settings(struct table *table, const json_t *training, double error)
{
    const json_t *optimizer = json_object_get(training, "optimizer");
    const json_t *clip = json_object_get(training, "gradient_clipping");
    char name[64];

    snprintf(name, sizeof(name), "attention %s", text_at(training, "attention", "sdpa"));
    add_error(table, name, error);
    snprintf(name, sizeof(name), "weights %s", text_at(training, "parameter_dtype", "float32"));
    add_error(table, name, error);
    snprintf(name, sizeof(name), "autocast %s", text_at(training, "autocast", "none"));
    add_error(table, name, error);
    snprintf(name, sizeof(name), "checkpointing %s",
             text_at(training, "activation_checkpointing", "none"));
    add_error(table, name, error);
    snprintf(name, sizeof(name), "optimizer %s", text_at(optimizer, "name", "adamw"));
    add_error(table, name, error);
    if (json_is_number(clip))
        add_error(table, "gradient clipping", error);
    if (json_object_get(training, "lora"))
        add_error(table, "LoRA", error);
    if (json_object_get(training, "frozen"))
        add_error(table, "frozen parameters", error);
    if (json_is_true(json_object_get(training, "padding")))
        add_error(table, "padding", error);
    if (json_is_true(json_object_get(training, "keep_outputs")))
        add_error(table, "outputs kept", error);
    if (json_is_false(json_object_get(training, "zero_grad_set_to_none")))
        add_error(table, "gradients zeroed", error);
    if (json_integer_value(json_object_get(training, "gradient_accumulation_steps")) > 1)
        add_error(table, "accumulation", error);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Share of the sorted errors that are at most limit. */
static double share_within(const struct group *group, double limit)
{
    size_t within = 0;

    while (within < group->count && group->errors[within] <= limit)
        within++;
    return (double)within / (double)group->count;
}

static void print_table(struct table *table, const char *title)
{
    printf("%-28s %6s %10s %10s %10s\n", title, "runs", "median", "95 of 100", "worst");
    for (size_t i = 0; i < table->count; i++) {
        struct group *group = &table->groups[i];

        qsort(group->errors, group->count, sizeof(*group->errors), compare);
        printf("%-28s %6zu %9.4f%% %9.4f%% %9.4f%%\n", group->name, group->count,
               100 * group->errors[group->count / 2],
               100 * group->errors[(group->count - 1) * 95 / 100],
               100 * group->errors[group->count - 1]);
    }
    printf("\n");
}

static void free_table(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->groups[i].errors);
}

int main(void)
{
    static const char *const files[] = {
        "llama-trace.jsonl",      "family-trace.jsonl",  "decoders-trace.jsonl",
        "gpt-trace.jsonl",        "moe-trace.jsonl",     "lora-trace.jsonl",
        "adapters-trace.jsonl",   "optim-trace.jsonl",   "training-trace.jsonl",
        "flash-trace.jsonl",      "experts-trace.jsonl", "flash3-trace.jsonl",
        "past-flash-trace.jsonl", "loss-trace.jsonl"};
    struct table families = {.count = 0}, settings = {.count = 0}, all = {.count = 0};
    size_t refused = 0;
    bool holds;

    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        struct case_file cases = case_file_read(files[f]);

        for (int i = 0; i < cases.count; i++) {
            struct memplan_error err = {0};
            struct case_run run;
            double error;

            if (!case_run_try(&run, cases.lines[i], false, &err)) {
                printf("%s: refused: %s\n", run.id ? run.id : "?", err.text);
                refused++;
                case_run_end(&run);
                continue;
            }
            error = worst_error(&run);
            add_error(&families, run.plan.model.model_type, error);
            add_error(&all, "all traced runs", error);
            add_settings(&settings, json_object_get(run.document, "training"), error);
            case_run_end(&run);
        }
        case_file_free(&cases);
    }
    print_table(&families, "family");
    print_table(&settings, "setting");
    print_table(&all, "");
    holds = !refused && all.count && share_within(&all.groups[0], 0) >= 0.5 &&
            share_within(&all.groups[0], 0.001) >= 0.95 && share_within(&all.groups[0], 0.01) >= 1;
    free_table(&families);
    free_table(&settings);
    free_table(&all);
    return holds ? EXIT_SUCCESS : EXIT_FAILURE;
}
