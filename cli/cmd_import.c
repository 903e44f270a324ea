/* SPDX-License-Identifier: MIT */
/* `memplan import`: configurations of trainers and launchers as one plan. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "import_files.h"
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
    struct import_files files = {0};
    char *json = NULL;
    int code = 0;

    if (!settings->word_count || settings->word_count > IMPORT_MOST_FILES - 2)
        return message_invalid("import: expected 1 to %d files", IMPORT_MOST_FILES - 2);
    for (size_t i = 0; i < settings->word_count && !code; i++)
        code = import_files_add(&files, settings->words[i]);
    if (!code)
        code = import_files_end(&files);
    if (!code)
        code = import_plan(files.inputs, files.count, settings->release, IMPORT_SAYS, &json);
    if (!code)
        code = write_plan(settings->output, json);
    free(json);
    import_files_free(&files);
    return code;
}
