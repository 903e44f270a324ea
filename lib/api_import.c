/* SPDX-License-Identifier: MIT */
/* The public entry points to configurations of trainers: check arguments, call lib/import. */
#include <memplan.h>

#include <stdlib.h>
#include <string.h>

#include "api_struct.h"
#include "base/fail.h"
#include "import/import.h"

struct memplan_import {
    struct mpl_import *found;
};

const char *memplan_import_format(const void *bytes, size_t len)
{
    return bytes ? mpl_import_format(bytes, len) : NULL;
}

/* Parameters of the model that a plan describes; 0: not known, and what is wrong with it is said
 * where the plan itself is read. */
static uint64_t count_parameters(const char *json)
{
    struct memplan_options options = {
        .size = sizeof(options), .no_suggestions = 1, .peaks_only = 1};
    struct memplan_summary summary = {.size = sizeof(summary)};
    struct memplan_report *report = NULL;
    struct memplan_plan *plan = NULL;

    if (!memplan_plan_load(json, strlen(json), "config.json", &plan, NULL) &&
        !memplan_estimate(plan, &options, &report, NULL))
        memplan_report_summary(report, &summary, NULL);
    memplan_report_free(report);
    memplan_plan_free(plan);
    return summary.parameters;
}

enum memplan_status memplan_import_read_with(const struct memplan_import_file *files, size_t count,
                                             const struct memplan_import_options *options,
                                             struct memplan_import **import_out,
                                             struct memplan_error *err)
{
    struct mpl_import_given given = {.files = files, .file_count = count};
    struct memplan_import *import;
    enum memplan_status status;
    char *json;
    uint64_t parameters;

    mpl_fail_clear(err);
    if (!import_out || (count && !files))
        return mpl_api_missing(err, import_out ? "files" : "import_out");
    if (options && (status = mpl_api_take(&given.options, sizeof(given.options), options, err)))
        return status;
    if (!count && !given.options.word_count)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "neither files nor a command");
    for (size_t i = 0; i < count; i++)
        if (!files[i].name || !files[i].bytes)
            return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "a file needs a name and bytes");
    for (size_t i = 0; i < given.options.word_count; i++)
        if (!given.options.words || !given.options.words[i])
            return mpl_api_missing(err, "words");
    import = calloc(1, sizeof(*import));
    if (!import)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while importing");
    status = mpl_import_read(&given, &import->found, err);
    if (status) {
        free(import);
        return status;
    }
    json = mpl_import_counted_plan(import->found);
    parameters = json ? count_parameters(json) : 0;
    free(json);
    if (parameters)
        mpl_import_compare(import->found, parameters);
    *import_out = import;
    return MEMPLAN_OK;
}

enum memplan_status memplan_import_read(const struct memplan_import_file *files, size_t count,
                                        struct memplan_import **import_out,
                                        struct memplan_error *err)
{
    return memplan_import_read_with(files, count, NULL, import_out, err);
}

enum memplan_status memplan_import_to_json(const struct memplan_import *import, char **json_out,
                                           struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!import || !json_out)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "%s must not be NULL",
                        import ? "json_out" : "import");
    return mpl_import_to_json(import->found, json_out, err);
}

const char *memplan_import_note(const struct memplan_import *import, size_t i)
{
    return import ? mpl_import_note_at(import->found, i) : NULL;
}

const char *memplan_import_model(const struct memplan_import *import)
{
    if (!import || mpl_import_get(import->found, "model"))
        return NULL;
    return mpl_import_get_text(import->found, "import.model");
}

void memplan_import_free(struct memplan_import *import)
{
    if (!import)
        return;
    mpl_import_free(import->found);
    free(import);
}
