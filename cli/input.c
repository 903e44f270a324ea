/* SPDX-License-Identifier: MIT */
/* Files: a plan's bytes, from a file, a preset or standard input. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import.h"
#include "message.h"
#include "text.h"
#include "weights.h"

const char *input_folder(size_t i)
{
    const char *named = getenv("MEMPLAN_MODELS");

    if (named && *named) {
        if (i == 0)
            return named;
        i--;
    }
    return i == 0 ? "models" : i == 1 ? MEMPLAN_MODELS_DIR : NULL;
}

static int fail_memory(void)
{
    message_print("out of memory");
    return CLI_INTERNAL;
}

static int fail_size(const char *source, size_t most)
{
    return message_invalid("%s: larger than %zu MiB, the most that a %s may have", source,
                           most >> 20, most == INPUT_MOST_BYTES ? "plan" : "file");
}

/* Whole contents of an open file. */
static int read_all(int fd, const char *source, size_t most, struct input *input)
{
    size_t room = 1 << 16, len = 0;
    char *text = malloc(room), *grown;
    ssize_t got;

    while (text) {
        if (len == room) {
            room *= 2;
            grown = realloc(text, room);
            if (!grown)
                break;
            text = grown;
        }
        got = read(fd, text + len, room - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            message_print("%s: %s", source, strerror(errno));
            free(text);
            return CLI_INVALID;
        }
        if (got == 0) {
            input->text = text;
            input->len = len;
            return 0;
        }
        len += (size_t)got;
        if (len > most) {
            free(text);
            return fail_size(source, most);
        }
    }
    free(text);
    return fail_memory();
}

/* Refuses what can be told from the outside, before anything is read. */
static int read_checked(int fd, const char *source, size_t most, struct input *input)
{
    struct stat info;

    if (fstat(fd, &info))
        return message_invalid("%s: %s", source, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return message_invalid("%s: is a directory, expected a %s", source,
                               most == INPUT_MOST_BYTES ? "plan" : "file");
    if (S_ISREG(info.st_mode) && info.st_size > (off_t)most)
        return fail_size(source, most);
    return read_all(fd, source, most, input);
}

static int finish(int code, const char *source, struct input *input)
{
    if (code)
        return code;
    input->source = strdup(source);
    if (input->source)
        return 0;
    free(input->text);
    return fail_memory();
}

static int read_path(const char *path, const char *source, size_t most, struct input *input)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int code;

    if (fd < 0)
        return message_invalid("%s: %s", path, strerror(errno));
    code = read_checked(fd, path, most, input);
    close(fd);
    return finish(code, source, input);
}

/* Path of the preset of that name, with or without ".json"; new, or NULL when there is none. */
static char *find_preset(const char *name)
{
    static const char *const endings[] = {"", ".json"};
    const char *folder;

    for (size_t i = 0; (folder = input_folder(i)); i++)
        for (size_t e = 0; e < 2; e++) {
            char *path = text_format("%s/%s%s", folder, name, endings[e]);
            struct stat info;

            if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode))
                return path;
            free(path);
        }
    return NULL;
}

bool input_has_preset(const char *name)
{
    char *path = find_preset(name);

    free(path);
    return path != NULL;
}

/* Takes the path of a preset, which is named without its folder. */
static int read_preset(char *path, struct input *input)
{
    int code = read_path(path, strrchr(path, '/') + 1, INPUT_MOST_BYTES, input);

    free(path);
    return code;
}

int input_read_preset(const char *name, struct input *input)
{
    char *path = strchr(name, '/') ? NULL : find_preset(name);

    *input = (struct input){0};
    return path ? read_preset(path, input)
                : message_invalid("%s: no preset of that name; see memplan list", name);
}

int input_read(const char *model, struct input *input)
{
    struct stat info;
    char *preset = NULL;

    *input = (struct input){0};
    if (strcmp(model, "-") == 0)
        return finish(read_checked(STDIN_FILENO, "stdin", INPUT_MOST_BYTES, input), "stdin", input);
    if (stat(model, &info) == 0 && S_ISDIR(info.st_mode))
        return import_folder(model, input);
    if (weights_is_file(model) || weights_is_index(model))
        return message_invalid("%s: weights alone describe no model, expected the folder of their "
                               "config.json",
                               model);
    /* What exists is read, and what cannot be looked at fails with the system's reason. */
    if (stat(model, &info) == 0 || errno != ENOENT)
        return read_path(model, model, INPUT_MOST_BYTES, input);
    if (!strchr(model, '/'))
        preset = find_preset(model);
    if (!preset && strchr(model, '/'))
        return message_invalid("%s: %s", model, strerror(ENOENT));
    if (!preset)
        return message_invalid("%s: no such file, and no preset of that name; see memplan list",
                               model);
    return read_preset(preset, input);
}

int input_read_file(const char *path, size_t most_bytes, struct input *input)
{
    *input = (struct input){0};
    if (strcmp(path, "-") == 0)
        return finish(read_checked(STDIN_FILENO, "stdin", most_bytes, input), "stdin", input);
    return read_path(path, path, most_bytes, input);
}

void input_free(struct input *input)
{
    free(input->text);
    free(input->source);
    *input = (struct input){0};
}
