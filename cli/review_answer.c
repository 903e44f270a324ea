/* SPDX-License-Identifier: MIT */
/* `memplan review`: the answer, an AdmissionReview of admission.k8s.io/v1. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "review.h"

#define PREFIX "memplan: "

/* A line for people: no control characters, whole UTF-8 characters, "..." where it was cut. */
static void write_line(char *line, size_t size, const char *format, va_list args)
{
    char whole[1024];
    size_t len;

    vsnprintf(whole, sizeof(whole), format, args);
    for (unsigned char *c = (unsigned char *)whole; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
    len = strlen(whole);
    if (len > size - sizeof(PREFIX)) {
        len = size - sizeof(PREFIX "...");
        while (len && ((unsigned char)whole[len] & 0xc0) == 0x80)
            len--;
        while (len && strchr(" ,;:", whole[len - 1]))
            len--;
        memcpy(whole + len, "...", sizeof("..."));
    }
    snprintf(line, size, PREFIX "%s", whole);
}

void review_warn(struct review_answer *answer, const char *format, ...)
{
    va_list args;

    if (answer->warning_count == REVIEW_MOST_WARNINGS)
        return;
    va_start(args, format);
    write_line(answer->warnings[answer->warning_count++], sizeof(answer->warnings[0]), format,
               args);
    va_end(args);
}

void review_refuse(struct review_answer *answer, const char *format, ...)
{
    va_list args;

    answer->is_refused = true;
    va_start(args, format);
    write_line(answer->message, sizeof(answer->message), format, args);
    va_end(args);
}

/* Text as JSON; what is not UTF-8 must not keep an answer from being written. */
static json_t *text_of(const char *text)
{
    json_t *value = json_string(text);

    return value ? value : json_string(PREFIX "a message that is not UTF-8");
}

static json_t *list_warnings(const struct review_answer *answer)
{
    json_t *list = json_array();

    for (size_t i = 0; i < answer->warning_count; i++)
        json_array_append_new(list, text_of(answer->warnings[i]));
    return list;
}

char *review_answer_write(const struct review_answer *answer)
{
    json_t *response = json_pack("{s:s, s:b}", "uid", answer->uid, "allowed", !answer->is_refused);
    json_t *root = NULL;
    char *text = NULL, *line = NULL;

    if (response && answer->is_refused)
        json_object_set_new(response, "status",
                            json_pack("{s:i, s:s, s:o}", "code", 403, "reason", "Forbidden",
                                      "message", text_of(answer->message)));
    if (response && answer->warning_count)
        json_object_set_new(response, "warnings", list_warnings(answer));
    if (response)
        json_object_set_new(response, "auditAnnotations",
                            json_pack("{s:s}", "verdict", answer->verdict));
    if (response)
        root = json_pack("{s:s, s:s, s:o}", "apiVersion", "admission.k8s.io/v1", "kind",
                         "AdmissionReview", "response", response);
    text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    if (text && (line = malloc(strlen(text) + 2)))
        sprintf(line, "%s\n", text);
    free(text);
    json_decref(root);
    return line;
}
