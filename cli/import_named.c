/* SPDX-License-Identifier: MIT */
/* Files that a job script or a command names: found beside it, or where the command runs. */
#include "import_named.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import.h"
#include "message.h"
#include "text.h"

/* A device or a pipe would hang, or has no end. */
static bool is_readable(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           info.st_size <= (off_t)IMPORT_MOST_BYTES && access(path, R_OK) == 0;
}

/* path as seen from the folder of another file; new. */
static char *beside(const char *from, const char *path)
{
    const char *slash = from ? strrchr(from, '/') : NULL;

    return slash && *path != '/' ? text_format("%.*s%s", (int)(slash + 1 - from), from, path)
                                 : strdup(path);
}

char *import_find_named(const struct import_named *named, const char *from, const char *path)
{
    char *near = beside(from, path), *here = strdup(path);
    char *first = named->here_first ? here : near, *second = named->here_first ? near : here;

    if (named->is_closed) {
        free(near);
        free(here);
        return NULL;
    }
    if (first && is_readable(first)) {
        free(second);
        return first;
    }
    free(first);
    if (second && is_readable(second))
        return second;
    free(second);
    return NULL;
}

int import_open_named(void *user, const char *from, const char *path,
                      struct memplan_import_file *file_out)
{
    struct import_named *named = user;
    char *found = named->count < IMPORT_MOST_NAMED ? import_find_named(named, from, path) : NULL;
    struct input *input = &named->files[named->count];
    int code = found ? input_read_file(found, IMPORT_MOST_BYTES, input) : CLI_INVALID;

    free(found);
    if (code)
        return code;
    named->count++;
    if (named->says)
        message_print("%s, which %s names, is read", input->source, from ? from : "the command");
    *file_out = (struct memplan_import_file){input->source, input->text, input->len};
    return 0;
}

void import_named_free(struct import_named *named)
{
    while (named->count)
        input_free(&named->files[--named->count]);
}
