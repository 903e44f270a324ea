/* SPDX-License-Identifier: MIT */
/* The public entry points of calibration. */
#include <memplan.h>

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "api_struct.h"
#include "base/fail.h"
#include "calib/calibrate.h"
#include "emit/calibration_json.h"
#include "ingest/calibration.h"

struct memplan_calibration {
    struct mpl_calibration *own;
};

const struct mpl_calibration *mpl_api_calibration(const struct memplan_calibration *calibration)
{
    return calibration ? calibration->own : NULL;
}

enum memplan_status memplan_plan_add_readings(struct memplan_plan *plan, const void *json,
                                              size_t len, const char *source,
                                              struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!plan || !json)
        return mpl_api_missing(err, plan ? "json" : "plan");
    return mpl_spec_add_readings(plan->spec, json, len, source, err);
}

enum memplan_status memplan_calibration_load(const void *json, size_t len, const char *source,
                                             struct memplan_calibration **calibration_out,
                                             struct memplan_error *err)
{
    struct memplan_calibration *calibration;
    enum memplan_status status;

    mpl_fail_clear(err);
    if (!json || !calibration_out)
        return mpl_api_missing(err, json ? "calibration_out" : "json");
    calibration = calloc(1, sizeof(*calibration));
    if (!calibration)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading a calibration");
    status = mpl_calibration_load(json, len, source, &calibration->own, err);
    if (status)
        free(calibration);
    else
        *calibration_out = calibration;
    return status;
}

enum memplan_status memplan_calibrate(const struct memplan_plan *plan, double risk,
                                      struct memplan_calibration **calibration_out,
                                      struct memplan_error *err)
{
    struct mpl_calib_report *report = NULL;
    enum memplan_status status;
    char *json = NULL;

    mpl_fail_clear(err);
    if (!plan || !calibration_out)
        return mpl_api_missing(err, plan ? "calibration_out" : "plan");
    if (!(risk >= 0 && risk < 0.5))
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "risk must be at least 0 and below 0.5");
    if ((status = mpl_spec_check(plan->spec, err)))
        return status;
    status = mpl_calibrate(plan->spec, risk, &report, err);
    if (!status)
        status = mpl_calibration_to_json(report, &json, err);
    /* What is handed out is what a file would give. */
    if (!status)
        status = memplan_calibration_load(json, strlen(json), "", calibration_out, err);
    free(json);
    mpl_calib_free(report);
    return status;
}

enum memplan_status memplan_calibration_to_json(const struct memplan_calibration *calibration,
                                                char **json_out, struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!calibration || !json_out)
        return mpl_api_missing(err, calibration ? "json_out" : "calibration");
    *json_out = malloc(strlen(calibration->own->json) + 1);
    if (!*json_out)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while copying a calibration");
    strcpy(*json_out, calibration->own->json);
    return MEMPLAN_OK;
}

void memplan_calibration_free(struct memplan_calibration *calibration)
{
    if (!calibration)
        return;
    mpl_calibration_free(calibration->own);
    free(calibration);
}
