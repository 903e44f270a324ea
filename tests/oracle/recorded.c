/* SPDX-License-Identifier: MIT */
/* Reading what was recorded: files, and rows of a .jsonl. */
#include "recorded.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

FILE *recorded_open(const char *name)
{
    const char *folder = getenv("MPL_TEST_DATA");
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder ? folder : "oracle/data", name);
    file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(EXIT_FAILURE);
    }
    return file;
}

const char *recorded_text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));

    ck_assert_msg(value != NULL, "no %s", key);
    return value;
}

int64_t recorded_whole(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);

    ck_assert_msg(json_is_integer(value), "no %s", key);
    return json_integer_value(value);
}

int recorded_index_of(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    ck_abort_msg("unknown word %s", name);
    return 0;
}
