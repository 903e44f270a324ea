/* SPDX-License-Identifier: MIT */
/* `memplan import`: configurations of trainers and launchers as one plan. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "import.h"
#include "message.h"

static int write_plan(const char *path, const char *json)
{
    FILE *file = path ? fopen(path, "w") : stdout;
    int failed;

    if (!file)
        return message_invalid("%s: %s", path, strerror(errno));
    failed = fprintf(file, "%s\n", json) < 0;
    if (file != stdout)
        failed |= fclose(file) != 0;
    if (!failed)
        return 0;
    message_print("%s: %s", path ? path : "standard output", strerror(errno));
    return CLI_INTERNAL;
}

int cmd_import(const struct settings *settings)
{
    struct input inputs[IMPORT_MOST_FILES];
    size_t count = 0;
    char *json = NULL;
    int code = 0;

    if (!settings->word_count || settings->word_count > IMPORT_MOST_FILES - 1)
        return message_invalid("import: expected 1 to %d files", IMPORT_MOST_FILES - 1);
    while (count < settings->word_count && !code) {
        code = input_read_file(settings->words[count], IMPORT_MOST_BYTES, &inputs[count]);
        count += code == 0;
    }
    if (!code)
        code = import_plan(inputs, count, settings->release, IMPORT_SAYS, &json);
    if (!code)
        code = write_plan(settings->output, json);
    free(json);
    while (count)
        input_free(&inputs[--count]);
    return code;
}
