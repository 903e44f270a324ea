/* SPDX-License-Identifier: MIT */
/* Configurations of trainers as a plan, with the model from a preset or a folder. */
#include "import.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "message.h"
#include "text.h"

static bool is_file(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* "meta-llama/Meta-Llama-3.1-8B-Instruct" as presets are named: "llama-3.1-8b". New. */
static char *preset_name(const char *model)
{
    static const char *const endings[] = {"-instruct-2507", "-instruct", "-it",   "-chat-hf",
                                          "-chat",          "-base",     "-hf",   "-fp16",
                                          "-instruct-v0.1", "-bnb-4bit", "-2407", "-2501"};
    const char *base = strrchr(model, '/');
    char *name = strdup(base ? base + 1 : model);

    if (!name)
        return NULL;
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t len = strlen(name), end = strlen(endings[i]);

        if (len > end && strcmp(name + len - end, endings[i]) == 0) {
            name[len - end] = '\0';
            i = (size_t)-1; /* more endings may stand before */
        }
    }
    if (strncmp(name, "meta-", 5) == 0)
        memmove(name, name + 5, strlen(name) - 4);
    return name;
}

/* The model section of a preset, in place of its text. */
static int keep_model(struct input *input)
{
    json_t *plan = json_loadb(input->text, input->len, 0, NULL);
    char *text = json_dumps(json_object_get(plan, "model"), 0);

    json_decref(plan);
    if (!text)
        return message_invalid("%s: a preset without a model", input->source);
    free(input->text);
    input->text = text;
    input->len = strlen(text);
    return 0;
}

bool import_preset(const char *model, struct input *input)
{
    char *name = preset_name(model);
    bool is_found = name && input_has_preset(name) && !input_read_preset(name, input);

    if (is_found && keep_model(input)) {
        input_free(input);
        is_found = false;
    }
    free(name);
    return is_found;
}

/* The model that a configuration names: a folder with its config.json, else a preset. is_found
 * says whether there is one. */
static int find_model(const char *model, unsigned how, struct input *input, bool *is_found)
{
    char *path = how & IMPORT_NO_FILES ? NULL : text_format("%s/config.json", model);
    int code = 0;

    *is_found = path && is_file(path);
    if (*is_found) {
        code = input_read_file(path, IMPORT_MOST_BYTES, input);
    } else if (import_preset(model, input)) {
        *is_found = true;
        message_print("the model %s is taken from the preset %.*s", model,
                      (int)(strlen(input->source) - strlen(".json")), input->source);
    } else {
        message_print("the model %s is neither a folder with a config.json nor a preset; give its "
                      "config.json, too",
                      model);
    }
    free(path);
    return code;
}

static int read_files(const struct input *inputs, size_t count, const struct input *model,
                      struct memplan_import **import_out)
{
    struct memplan_import_file files[IMPORT_MOST_FILES];
    struct memplan_error err = {0};
    size_t used = 0;

    if (model)
        files[used++] = (struct memplan_import_file){model->source, model->text, model->len};
    for (size_t i = 0; i < count; i++)
        files[used++] =
            (struct memplan_import_file){inputs[i].source, inputs[i].text, inputs[i].len};
    return memplan_import_read(files, used, import_out, &err)
               ? message_error(&err, inputs[0].source)
               : 0;
}

/* Reads the files again, with the model that they name before them. */
static int add_model(const struct input *inputs, size_t count, unsigned how,
                     struct memplan_import **import)
{
    const char *model = memplan_import_model(*import);
    struct memplan_import *whole = NULL;
    struct input input = {0};
    bool is_found = false;
    int code;

    if (!model || count + 1 > IMPORT_MOST_FILES)
        return 0;
    code = find_model(model, how, &input, &is_found);
    if (code || !is_found)
        return code;
    code = read_files(inputs, count, &input, &whole);
    if (!code) {
        memplan_import_free(*import);
        *import = whole;
    }
    input_free(&input);
    return code;
}

int import_plan(const struct input *inputs, size_t count, unsigned how, char **json_out)
{
    struct memplan_import *import = NULL;
    struct memplan_error err = {0};
    const char *note;
    char *json = NULL;
    int code = read_files(inputs, count, NULL, &import);

    if (!code)
        code = add_model(inputs, count, how, &import);
    for (size_t i = 0; !code && (how & IMPORT_SAYS) && (note = memplan_import_note(import, i)); i++)
        message_print("%s", note);
    if (!code && memplan_import_to_json(import, &json, &err))
        code = message_error(&err, inputs[0].source);
    if (!code && !(*json_out = strdup(json))) {
        message_print("out of memory");
        code = CLI_INTERNAL;
    }
    memplan_free(json);
    memplan_import_free(import);
    return code;
}

int import_input(struct input *input, unsigned how)
{
    const char *format = memplan_import_format(input->text, input->len);
    char *json = NULL;
    int code;

    /* What is no configuration that is known is refused as a plan is. */
    if (!format || strcmp(format, "plan") == 0 || strcmp(format, "config.json of a model") == 0)
        return 0;
    code = import_plan(input, 1, how, &json);
    if (code)
        return code;
    free(input->text);
    input->text = json;
    input->len = strlen(json);
    return 0;
}
