/* SPDX-License-Identifier: MIT */
/* From a plan's bytes and the command line to a report. */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auto_card.h"
#include "import.h"
#include "ledger_entry.h"
#include "message.h"

/* Another card by name: what the plan says of the old one's memory does not hold for it. */
enum memplan_status run_forget_card(struct memplan_plan *plan, struct memplan_error *err)
{
    static const char *const figures[] = {
        "device.total_bytes=null",     "device.context_bytes=null",      "device.nccl_bytes=null",
        "device.multiprocessors=null", "device.compute_capability=null", "device.source=\"\"",
    };
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; !status && i < sizeof(figures) / sizeof(*figures); i++)
        status = memplan_plan_set(plan, figures[i], err);
    return status;
}

/* The card of this machine depends on how many ranks the plan has, which later options may set:
 * those are assigned first, and again afterwards, so that they override what was probed. */
static enum memplan_status assign_auto(const struct settings *settings, size_t from,
                                       struct memplan_plan *plan, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = from + 1; !status && i < settings->assignment_count; i++)
        if (strncmp(settings->assignments[i].option, "--gpu ", 6) == 0)
            return MEMPLAN_OK; /* the last one counts */
        else
            status = memplan_plan_set(plan, settings->assignments[i].text, err);
    /* A later option that is wrong is found again, and named, in its turn. */
    return status ? MEMPLAN_OK : auto_card_set(plan, settings->probe, err);
}

static bool is_option(const struct assignment *one, const char *name)
{
    return strncmp(one->option, name, strlen(name)) == 0;
}

/* A capacity holds whether it stands before or behind the card that it is of. */
static enum memplan_status assign_capacity(const struct settings *settings, size_t before,
                                           struct memplan_plan *plan, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; !status && i < before; i++)
        if (is_option(&settings->assignments[i], "--capacity "))
            status = memplan_plan_set(plan, settings->assignments[i].text, err);
    return status;
}

static enum memplan_status assign_all(const struct settings *settings, struct memplan_plan *plan,
                                      struct memplan_error *err)
{
    for (size_t i = 0; i < settings->assignment_count; i++) {
        const struct assignment *one = &settings->assignments[i];
        enum memplan_status status = MEMPLAN_OK;

        if (is_option(one, "--gpu "))
            status = run_forget_card(plan, err);
        if (!status && options_is_auto(one))
            status = assign_auto(settings, i, plan, err);
        else if (!status)
            status = memplan_plan_set(plan, one->text, err);
        if (!status && is_option(one, "--gpu "))
            status = assign_capacity(settings, i, plan, err);
        if (status) {
            snprintf(err->source, sizeof(err->source), "%s", one->option);
            err->line = err->column = 0;
            return status;
        }
    }
    return MEMPLAN_OK;
}

static enum memplan_status read_json(struct run *run, struct memplan_error *err)
{
    char *text = NULL;
    enum memplan_status status = memplan_report_to_json(run->report, &text, err);

    if (status)
        return status;
    run->json = json_loads(text, 0, NULL);
    memplan_free(text);
    if (run->json)
        return MEMPLAN_OK;
    err->status = MEMPLAN_ERR_INTERNAL;
    snprintf(err->text, sizeof(err->text), "the report is not JSON");
    return err->status;
}

enum memplan_status run_load(const struct settings *settings, const struct input *input,
                             struct memplan_plan **plan_out, struct memplan_error *err)
{
    struct memplan_plan *plan = NULL;
    enum memplan_status status;

    *err = (struct memplan_error){0};
    status = memplan_plan_load(input->text, input->len, input->source, &plan, err);
    if (!status)
        status = assign_all(settings, plan, err);
    if (status)
        memplan_plan_free(plan);
    else
        *plan_out = plan;
    return status;
}

enum memplan_status run_to_json(const struct run *run, char **text_out, struct memplan_error *err)
{
    if (run->report)
        return memplan_report_to_json(run->report, text_out, err);
    *text_out = json_dumps(run->json, JSON_COMPACT | JSON_REAL_PRECISION(15));
    return *text_out ? MEMPLAN_OK : MEMPLAN_ERR_NOMEM;
}

int run_verdict(const struct run *run)
{
    return run->report ? (int)memplan_report_verdict(run->report) : (int)MEMPLAN_DOES_NOT_FIT;
}

/* The calibration that settings name; NULL when they name none. */
static enum memplan_status load_calibration(const struct settings *settings,
                                            struct memplan_calibration **calibration_out,
                                            struct memplan_error *err)
{
    struct input input;
    enum memplan_status status;

    if (!settings->calibration)
        return MEMPLAN_OK;
    /* What is missing is told once, in the caller's words. */
    if (access(settings->calibration, R_OK) ||
        input_read_file(settings->calibration, INPUT_MOST_BYTES, &input)) {
        err->status = MEMPLAN_ERR_VALUE;
        snprintf(err->source, sizeof(err->source), "%s", settings->calibration);
        snprintf(err->text, sizeof(err->text), "the calibration cannot be read: %s",
                 strerror(errno));
        return err->status;
    }
    status = memplan_calibration_load(input.text, input.len, input.source, calibration_out, err);
    input_free(&input);
    return status;
}

static enum memplan_status estimate_plan(const struct memplan_plan *plan,
                                         struct memplan_options *options, unsigned want,
                                         struct run *run, struct memplan_error *err)
{
    enum memplan_status status;

    options->verdict_only = (want & RUN_BRIEF) != 0;
    status = memplan_estimate(plan, options, &run->report, err);
    if (!status && options->verdict_only && run_verdict(run) == MEMPLAN_FITS)
        return MEMPLAN_OK;
    if (!status && options->verdict_only) {
        memplan_report_free(run->report);
        run->report = NULL;
        options->verdict_only = 0;
        status = memplan_estimate(plan, options, &run->report, err);
    }
    return !status && (want & RUN_JSON) ? read_json(run, err) : status;
}

enum memplan_status run_plan(const struct settings *settings, struct memplan_plan *plan,
                             unsigned want, uint32_t stage, struct run *run,
                             struct memplan_error *err)
{
    struct memplan_options options = {
        .size = sizeof(options),
        .risk = settings->risk,
        .ignore_readings = settings->no_readings,
        .no_suggestions = !(want & RUN_SUGGESTIONS) || settings->no_suggestions,
        .all_ranks = settings->all_ranks,
        .dump_stages = stage,
    };
    struct memplan_calibration *calibration = NULL;
    enum memplan_status status = MEMPLAN_OK;

    *run = (struct run){0};
    if (!stage)
        status = ledger_consult(settings, plan, &run->json, err);
    if (!status && !run->json)
        status = load_calibration(settings, &calibration, err);
    options.calibration = calibration;
    if (!status && !run->json)
        status = estimate_plan(plan, &options, want, run, err);
    memplan_calibration_free(calibration);
    if (status)
        run_free(run);
    return status;
}

enum memplan_status run_estimate(const struct settings *settings, const struct input *input,
                                 unsigned want, uint32_t stage, struct run *run,
                                 struct memplan_error *err)
{
    struct memplan_plan *plan = NULL;
    enum memplan_status status;

    *run = (struct run){0};
    status = run_load(settings, input, &plan, err);
    if (!status)
        status = run_plan(settings, plan, want, stage, run, err);
    memplan_plan_free(plan);
    return status;
}

/* The release of the trainer, whose defaults an import needs to know: the last one counts. */
static const char *release_of(const struct settings *settings)
{
    static const char path[] = "framework.version=";

    for (size_t i = settings->assignment_count; i--;)
        if (strncmp(settings->assignments[i].text, path, sizeof(path) - 1) == 0)
            return settings->assignments[i].text + sizeof(path) - 1;
    return NULL;
}

int run_read(const struct settings *settings, struct input *input)
{
    int code;

    if (!settings->model && settings->from_words)
        return import_command(settings->words, settings->word_count, release_of(settings), input);
    if (!settings->model)
        return message_invalid("no plan: give --model PLAN; see memplan list for presets");
    code = input_read(settings->model, input);
    if (!code && (code = import_input(release_of(settings),
                                      settings->no_files ? IMPORT_NO_FILES : 0, input)))
        input_free(input);
    return code;
}

int run_model(const struct settings *settings, unsigned want, uint32_t stage, struct run *run,
              char **title_out)
{
    struct input input;
    struct memplan_error err;
    int code;

    *run = (struct run){0};
    code = run_read(settings, &input);
    if (code)
        return code;
    if (run_estimate(settings, &input, want, stage, run, &err))
        code = message_error(&err, input.source);
    else
        code = run_verdict(run);
    if (title_out) {
        *title_out = input.source;
        input.source = NULL;
    }
    input_free(&input);
    return code;
}

void run_free(struct run *run)
{
    memplan_report_free(run->report);
    json_decref(run->json);
    *run = (struct run){0};
}
