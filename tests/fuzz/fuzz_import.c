/* SPDX-License-Identifier: MIT */
/* Fuzz target: any bytes as a trainer's configuration or a job script, alone and beside another. */
#include <memplan.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char other[] =
    "{\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": true}}";

/* What was read is a plan as JSON, whose fields may still be wrong. */
static void use(const struct memplan_import *import)
{
    struct memplan_plan *plan = NULL;
    struct memplan_error err = {0};
    char *json = NULL;

    for (size_t i = 0; memplan_import_note(import, i); i++)
        ;
    if (memplan_import_to_json(import, &json, &err))
        return;
    if (!memplan_plan_load(json, strlen(json), "plan", &plan, &err))
        memplan_plan_check(plan, &err);
    else if (err.status == MEMPLAN_ERR_SYNTAX)
        abort();
    memplan_plan_free(plan);
    memplan_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct memplan_import_file files[] = {{"input", data ? (const void *)data : "", size},
                                                {"other", other, sizeof(other) - 1}};

    memplan_import_format(data, size);
    for (size_t count = 1; count <= 2; count++) {
        struct memplan_import *import = NULL;
        struct memplan_error err = {0};

        if (!memplan_import_read(files, count, &import, &err))
            use(import);
        else if (!err.text[0])
            abort(); /* an error without a sentence helps nobody */
        memplan_import_free(import);
    }
    return 0;
}
