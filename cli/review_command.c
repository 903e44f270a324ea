/* SPDX-License-Identifier: MIT */
/* `memplan review`: the command lines of containers as scripts, for the reader of job scripts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "review.h"

#define MOST_SCRIPT ((size_t)256 << 10)

struct script {
    struct review_plans *plans;
    const json_t *env; /* of the container */
    FILE *out;
};

/* Where containers stand that may train; the first script that is a launch counts. */
static const char *const holders[] = {
    "spec.containers[]",
    "spec.template.spec.containers[]",
    "spec.jobTemplate.spec.template.spec.containers[]",
    "spec.pytorchReplicaSpecs[].template.spec.containers[]",
    "spec.mpiReplicaSpecs[].template.spec.containers[]",
    "spec.replicatedJobs[].template.spec.template.spec.containers[]",
    "spec.tasks[].template.spec.containers[]",
    "spec.trainer",
};

static void quote(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    fputc('\'', out);
}

/* Value of a variable that the container sets to a text; NULL: none. */
static const char *find_variable(const json_t *env, const char *name, size_t len)
{
    const json_t *one;
    size_t i;

    json_array_foreach(env, i, one)
    {
        const char *have = review_text_at(one, "name");

        if (strlen(have) == len && strncmp(have, name, len) == 0)
            return json_string_value(json_object_get(one, "value"));
    }
    return NULL;
}

/* Kubernetes fills in $(NAME) where NAME is known, and reads $$ as $. New; NULL: out of memory. */
static char *expand(const json_t *env, const char *text)
{
    char *whole = NULL;
    size_t size;
    FILE *out = open_memstream(&whole, &size);

    for (; out && *text; text++) {
        const char *end = strncmp(text, "$(", 2) == 0 ? strchr(text, ')') : NULL;
        const char *value = end ? find_variable(env, text + 2, (size_t)(end - text - 2)) : NULL;

        if (value) {
            fputs(value, out);
            text = end;
        } else {
            fputc(*text, out);
            text += strncmp(text, "$$(", 3) == 0;
        }
    }
    if (out)
        fclose(out);
    return whole;
}

static bool is_shell(const char *word)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh"};
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;

    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(shells[i], name) == 0)
            return true;
    return false;
}

/* Command and arguments as one list of texts; new. */
static json_t *list_words(const json_t *container)
{
    static const char *const keys[] = {"command", "args"};
    json_t *words = json_array();

    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        const json_t *word;
        size_t i;

        json_array_foreach(json_object_get(container, keys[k]), i, word)
        {
            if (json_is_string(word))
                json_array_append(words, (json_t *)word);
        }
    }
    return words;
}

/* The text behind -c, -ec, -lc of a shell; NULL: it is none. */
static const char *shell_text(const json_t *words)
{
    const char *word = json_string_value(json_array_get(words, 0));

    if (!word || !is_shell(word))
        return NULL;
    for (size_t i = 1; (word = json_string_value(json_array_get(words, i))) && *word == '-'; i++)
        if (word[1] != '-' && word[strlen(word) - 1] == 'c')
            return json_string_value(json_array_get(words, i + 1));
    return NULL;
}

static void print_variables(const struct script *script)
{
    const json_t *one;
    size_t i;

    json_array_foreach(script->env, i, one)
    {
        const char *name = review_text_at(one, "name");
        const json_t *value = json_object_get(one, "value");
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
                                      "0123456789";

        if (!*name || strspn(name, letters) != strlen(name) || !json_is_string(value) ||
            (*name >= '0' && *name <= '9'))
            continue;
        fprintf(script->out, "%s=", name);
        quote(script->out, json_string_value(value));
        fputc('\n', script->out);
    }
}

static void print_words(const struct script *script, const json_t *words)
{
    const char *text = shell_text(words);
    const json_t *word;
    char *whole;
    size_t i;

    if (text) {
        whole = expand(script->env, text);
        fputs(whole ? whole : "", script->out);
        free(whole);
        return;
    }
    json_array_foreach(words, i, word)
    {
        whole = expand(script->env, json_string_value(word));
        /* The launcher is a word that the reader knows, not a text. */
        if (whole &&
            strspn(whole, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                          "0123456789-_./=:,") == strlen(whole) &&
            *whole)
            fputs(whole, script->out);
        else
            quote(script->out, whole ? whole : "");
        fputc(' ', script->out);
        free(whole);
    }
}

static void add_script(struct script *script, const json_t *words, const char *where)
{
    char *text = NULL;
    size_t size = 0;

    script->out = open_memstream(&text, &size);
    if (!script->out) {
        script->plans->failed = true;
        return;
    }
    fputs("#!/bin/sh\n", script->out);
    print_variables(script);
    print_words(script, words);
    fputc('\n', script->out);
    fclose(script->out);
    if (text && size <= MOST_SCRIPT)
        review_add_plan(script->plans, text, size, true, "the command line of %.60s", where);
    free(text);
}

static bool take_container(const json_t *container, void *data)
{
    struct script *script = data;
    json_t *words = list_words(container);
    const char *name = review_text_at(container, "name");

    script->env = json_object_get(container, "env");
    if (json_array_size(words))
        add_script(script, words, *name ? name : "the trainer");
    json_decref(words);
    return !script->plans->failed && script->plans->count < 16;
}

void review_find_commands(const json_t *object, struct review_plans *plans)
{
    struct script script = {.plans = plans};
    const char *entry = review_text_at(object, "spec.entrypoint");
    json_t *words;

    for (size_t i = 0; i < sizeof(holders) / sizeof(holders[0]); i++)
        review_walk(object, holders[i], take_container, &script);
    if (*entry && (words = json_pack("[s, s, s]", "sh", "-c", entry))) {
        script.env = NULL;
        add_script(&script, words, "the entry point");
        json_decref(words);
    }
}
