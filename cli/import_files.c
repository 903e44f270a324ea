/* SPDX-License-Identifier: MIT */
/* Files: what the words of an import name: configurations, weights, folders of a model. */
#include "import_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "message.h"
#include "text.h"
#include "weights.h"

bool import_is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

static int add_plain(struct import_files *files, const char *path)
{
    int code;

    if (files->count == IMPORT_MOST_FILES - 2)
        return message_invalid("import: more than %d files", IMPORT_MOST_FILES - 2);
    code = input_read_file(path, IMPORT_MOST_BYTES, &files->inputs[files->count]);
    files->count += code == 0;
    return code;
}

static int add_weights(struct import_files *files, const char *path)
{
    struct memplan_error err = {0};

    if (!files->weights && memplan_weights_new(&files->weights, &err))
        return message_error(&err, path);
    if (!files->weights_name && !(files->weights_name = strdup(path)))
        return message_invalid("%s: out of memory", path);
    return weights_is_index(path) ? weights_add_index(files->weights, path)
                                  : weights_add(files->weights, path);
}

/* Adds a file of a folder where it is there. */
static int add_member(struct import_files *files, const char *folder, const char *name,
                      bool *is_there)
{
    char *path = text_format("%s%s%s", folder,
                             *folder && folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    int code = 0;

    if (!path)
        return message_invalid("%s: out of memory", folder);
    *is_there = exists(path);
    if (*is_there)
        code = weights_is_file(name) || weights_is_index(name) ? add_weights(files, path)
                                                               : add_plain(files, path);
    free(path);
    return code;
}

/* A folder as Hugging Face's repositories are: what else lies there changes no memory. */
static int add_folder(struct import_files *files, const char *folder)
{
    bool has_config = false, has_adapter = false, has_index = false, is_there = false;
    int code = add_member(files, folder, "config.json", &has_config);

    if (!code)
        code = add_member(files, folder, "adapter_config.json", &has_adapter);
    if (!code && !has_config && !has_adapter)
        return message_invalid("%s: a folder without config.json and adapter_config.json", folder);
    if (!code && has_config)
        code = add_member(files, folder, "model.safetensors.index.json", &has_index);
    if (!code && has_config && !has_index)
        code = add_member(files, folder, "model.safetensors", &is_there);
    if (!code && has_adapter)
        code = add_member(files, folder, "adapter_model.safetensors", &is_there);
    return code;
}

int import_files_add(struct import_files *files, const char *path)
{
    if (import_is_folder(path))
        return add_folder(files, path);
    if (weights_is_file(path) || weights_is_index(path))
        return add_weights(files, path);
    return add_plain(files, path);
}

int import_files_end(struct import_files *files)
{
    struct memplan_error err = {0};
    struct input *input = &files->inputs[files->count];
    char *json = NULL;

    if (!files->weights)
        return 0;
    if (memplan_weights_to_json(files->weights, &json, &err))
        return message_error(&err, files->weights_name);
    *input = (struct input){.text = strdup(json), .source = strdup(files->weights_name)};
    memplan_free(json);
    files->count++;
    if (!input->text || !input->source)
        return message_invalid("%s: out of memory", files->weights_name);
    input->len = strlen(input->text);
    return 0;
}

void import_files_free(struct import_files *files)
{
    while (files->count)
        input_free(&files->inputs[--files->count]);
    memplan_weights_free(files->weights);
    free(files->weights_name);
    *files = (struct import_files){0};
}
