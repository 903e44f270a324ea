/* SPDX-License-Identifier: MIT */
/* Full names of the layers of a stack, as PEFT writes "all-linear" out, as the one name of each. */
#include <stdlib.h>
#include <string.h>

#include "import/import.h"

/* Layers of a stack; more is no model. */
#define MOST_LAYERS 4096

/* Names that differ in more than their layer; a plan has at most 32. */
#define MOST_NAMES 64

/* "model.layers.12.self_attn.q_proj": the number between two dots; NULL: a name without one. */
static const char *find_index(const char *name, unsigned long *index, const char **rest)
{
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        char *end;

        if (dot[1] < '0' || dot[1] > '9')
            continue;
        *index = strtoul(dot + 1, &end, 10);
        if (*end == '.' && *index < MOST_LAYERS) {
            *rest = end + 1;
            return dot;
        }
    }
    return NULL;
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot ? dot + 1 : name;
}

/* Whether list names `rest` in exactly the layers 0 to count - 1, all of one stack. */
static bool is_in_every_layer(const json_t *list, const char *rest, size_t stack_len,
                              const char *stack, size_t count)
{
    bool seen[MOST_LAYERS] = {false};
    size_t i, found = 0;
    const json_t *name;

    json_array_foreach(list, i, name)
    {
        const char *text = json_string_value(name), *other, *dot;
        unsigned long index;

        dot = find_index(text, &index, &other);
        /* the same last part elsewhere would be found by the short name as well */
        if (!dot || strcmp(last_part(other), last_part(rest)) != 0)
            continue;
        if (strcmp(other, rest) != 0 || (size_t)(dot - text) != stack_len ||
            strncmp(text, stack, stack_len) != 0 || index >= count || seen[index])
            return false;
        seen[index] = true;
        found++;
    }
    return found == count;
}

static bool has_name(const json_t *list, const char *text)
{
    const json_t *name;
    size_t i;

    json_array_foreach(list, i, name)
    {
        if (strcmp(json_string_value(name), text) == 0)
            return true;
    }
    return false;
}

bool mpl_import_names_layers(const json_t *names)
{
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
    {
        const char *rest;
        unsigned long index;

        if (find_index(json_string_value(name), &index, &rest))
            return true;
    }
    return false;
}

json_t *mpl_import_fold_layers(const json_t *names, size_t layers)
{
    json_t *folded = json_array();
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
    {
        const char *text = json_string_value(name), *last, *rest, *dot;
        unsigned long index;

        dot = find_index(text, &index, &rest);
        last = dot ? last_part(rest) : text;
        if (has_name(folded, last))
            continue;
        if (json_array_size(folded) == MOST_NAMES ||
            (dot && !is_in_every_layer(names, rest, (size_t)(dot - text), text, layers)) ||
            json_array_append_new(folded, json_string(last)))
            break;
    }
    if (i == json_array_size(names) && json_array_size(folded) < json_array_size(names))
        return folded;
    json_decref(folded);
    return NULL;
}
