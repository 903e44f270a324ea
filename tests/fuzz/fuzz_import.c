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

/* The same bytes as a command: words end with their lines. */
static void use_as_command(const uint8_t *data, size_t size)
{
    const char *words[64];
    struct memplan_import_options options = {.size = sizeof(options), .words = words};
    struct memplan_import *import = NULL;
    char *text = malloc(size + 1);

    if (!text)
        return;
    for (size_t i = 0; i < size; i++)
        text[i] = (char)(data[i] == '\n' || !data[i] ? '\0' : data[i]);
    text[size] = '\0';
    for (size_t at = 0; at < size && options.word_count < 64; at += strlen(text + at) + 1)
        words[options.word_count++] = text + at;
    if (!memplan_import_read_with(NULL, 0, &options, &import, NULL)) {
        use(import);
        memplan_import_free(import);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct memplan_import_file files[] = {{"input", data ? (const void *)data : "", size},
                                                {"other", other, sizeof(other) - 1}};

    memplan_import_format(data, size);
    use_as_command(data, size);
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
