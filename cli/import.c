/* SPDX-License-Identifier: MIT */
/* Configurations of trainers as a plan, with the model from a preset or a folder. */
#include "import.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import_files.h"
#include "import_named.h"
#include "message.h"
#include "text.h"

/* What is read besides the files by name. */
struct request {
    const struct input *inputs;
    size_t count;
    struct memplan_import_options options;
    struct import_named named;
    bool quiet; /* nothing is said but what fails */
};

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
static int find_model(const struct request *request, const char *model, struct input *input,
                      bool *is_found)
{
    char *inside = text_format("%s/config.json", model);
    char *path = inside
                     ? import_find_named(&request->named,
                                         request->count ? request->inputs[0].source : NULL, inside)
                     : NULL;
    int code = 0;

    free(inside);
    *is_found = path != NULL;
    if (*is_found) {
        code = input_read_file(path, IMPORT_MOST_BYTES, input);
    } else if (import_preset(model, input)) {
        *is_found = true;
        if (!request->quiet)
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

static const char *name_of(const struct request *request)
{
    return request->count ? request->inputs[0].source : "the command";
}

static int read_files(struct request *request, const struct input *model,
                      struct memplan_import **import_out)
{
    struct memplan_import_file files[IMPORT_MOST_FILES];
    struct memplan_error err = {0};
    size_t used = 0;

    if (model)
        files[used++] = (struct memplan_import_file){model->source, model->text, model->len};
    for (size_t i = 0; i < request->count; i++)
        files[used++] = (struct memplan_import_file){
            request->inputs[i].source, request->inputs[i].text, request->inputs[i].len};
    request->options.size = sizeof(request->options);
    request->options.open = import_open_named;
    request->options.user = &request->named;
    return memplan_import_read_with(files, used, &request->options, import_out, &err)
               ? message_error(&err, name_of(request))
               : 0;
}

/* Reads the files again, with the model that they name before them. */
static int add_model(struct request *request, struct memplan_import **import)
{
    const char *model = memplan_import_model(*import);
    struct memplan_import *whole = NULL;
    struct input input = {0};
    bool is_found = false;
    int code;

    if (!model || request->count + 1 > IMPORT_MOST_FILES)
        return 0;
    code = find_model(request, model, &input, &is_found);
    if (code || !is_found)
        return code;
    import_named_free(&request->named);
    request->named.says = false; /* it was said before */
    code = read_files(request, &input, &whole);
    if (!code) {
        memplan_import_free(*import);
        *import = whole;
    }
    input_free(&input);
    return code;
}

static int make_plan(struct request *request, char **json_out)
{
    const bool says = request->named.says;
    struct memplan_import *import = NULL;
    struct memplan_error err = {0};
    const char *note;
    char *json = NULL;
    int code = read_files(request, NULL, &import);

    if (!code)
        code = add_model(request, &import);
    for (size_t i = 0; !code && says && (note = memplan_import_note(import, i)); i++)
        message_print("%s", note);
    if (!code && memplan_import_to_json(import, &json, &err))
        code = message_error(&err, name_of(request));
    if (!code && !(*json_out = strdup(json))) {
        message_print("out of memory");
        code = CLI_INTERNAL;
    }
    memplan_free(json);
    memplan_import_free(import);
    import_named_free(&request->named);
    return code;
}

static bool is_piped(const struct input *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(inputs[i].source, "stdin") == 0)
            return true;
    return false;
}

int import_plan(const struct input *inputs, size_t count, const char *release, unsigned how,
                char **json_out)
{
    struct request request = {
        .inputs = inputs,
        .count = count,
        .options = {.release = release},
        .named = {.says = how & IMPORT_SAYS,
                  .is_closed = how & IMPORT_NO_FILES || is_piped(inputs, count)},
    };

    return make_plan(&request, json_out);
}

int import_command(char **words, size_t count, const char *release, struct input *input)
{
    struct request request = {
        .options = {.words = (const char *const *)words,
                    .word_count = count,
                    .environment = (const char *const *)environ,
                    .release = release},
        .named = {.here_first = true},
        .quiet = true,
    };
    char *json = NULL;
    int code = make_plan(&request, &json);

    if (code)
        return code;
    *input = (struct input){.text = json, .len = strlen(json), .source = strdup("the command")};
    if (input->source)
        return 0;
    input_free(input);
    message_print("out of memory");
    return CLI_INTERNAL;
}

int import_input(const char *release, unsigned how, struct input *input)
{
    const char *format = memplan_import_format(input->text, input->len);
    char *json = NULL;
    int code;

    /* What is no configuration that is known is refused as a plan is. */
    if (!format || strcmp(format, "plan") == 0 || strcmp(format, "config.json of a model") == 0)
        return 0;
    code = import_plan(input, 1, release, how, &json);
    if (code)
        return code;
    free(input->text);
    input->text = json;
    input->len = strlen(json);
    return 0;
}

int import_folder(const char *path, struct input *input)
{
    struct import_files files = {0};
    char *json = NULL;
    int code = import_files_add(&files, path);

    if (!code)
        code = import_files_end(&files);
    if (!code)
        code = import_plan(files.inputs, files.count, NULL, 0, &json);
    import_files_free(&files);
    if (code)
        return code;
    *input = (struct input){.text = json, .len = strlen(json), .source = strdup(path)};
    if (input->source)
        return 0;
    free(json);
    return message_invalid("%s: out of memory", path);
}
