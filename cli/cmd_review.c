/* SPDX-License-Identifier: MIT */
/*
 * `memplan review`: reads one AdmissionReview, writes one. Only what does not fit is refused: where
 * it cannot tell, or the plan is bad, the object is allowed with a warning.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "input.h"
#include "message.h"
#include "review.h"

#define MOST_UID 128

/* What the child is told. */
struct question {
    const struct settings *settings;
    const json_t *object;
};

/* Keys of an object by which an update is a launch. */
static bool is_same(const json_t *object, const json_t *old)
{
    static const char *const parts[] = {"spec", "data", "metadata.annotations"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const json_t *a = review_at(object, parts[i]), *b = review_at(old, parts[i]);

        if ((a || b) && !json_equal(a, b))
            return false;
    }
    return true;
}

/* Whether somebody launches something: what exists already, or was judged with what owns it, must
 * go on. */
static bool is_launch(const json_t *request, const json_t *object)
{
    const char *operation = review_text_at(request, "operation");

    if (*review_text_at(request, "subResource"))
        return false;
    if (strcmp(operation, "CREATE") != 0 && strcmp(operation, "UPDATE") != 0)
        return false;
    if (json_array_size(review_at(object, "metadata.ownerReferences")) ||
        *review_text_at(object, "metadata.deletionTimestamp"))
        return false;
    return strcmp(operation, "CREATE") == 0 ||
           !is_same(object, json_object_get(request, "oldObject"));
}

static int rank_of(const char *verdict)
{
    static const char *const order[] = {"no_plan",     "fits",          "invalid_plan",
                                        "cannot_tell", "inside_margin", "does_not_fit"};

    for (int i = 0; i < (int)(sizeof(order) / sizeof(order[0])); i++)
        if (strcmp(order[i], verdict) == 0)
            return i;
    return 0;
}

/* Each plan that somebody gave; of command lines the first that can be judged. */
static void judge_all(struct review_answer *answer, review_keep *keep, void *keep_data,
                      const void *data)
{
    const struct question *question = data;
    struct review_plans plans = {0};
    struct review_request request;
    const char *worst = answer->verdict;

    review_find_plans(question->settings, question->object, &plans);
    if (!plans.count && question->settings->commands)
        review_find_commands(question->object, &plans);
    if (plans.failed)
        _exit(CLI_INTERNAL);
    review_read_request(question->object, &request);
    for (size_t i = 0; i < plans.count && !answer->is_refused; i++) {
        bool is_judged =
            review_judge(question->settings, &plans.list[i], &request, answer, keep, keep_data);

        if (rank_of(answer->verdict) > rank_of(worst))
            worst = answer->verdict;
        if (is_judged && plans.list[i].is_inferred)
            break;
    }
    answer->verdict = worst;
    review_plans_free(&plans);
}

static int refuse_input(const char *path, const json_t *found, const char *expected)
{
    char *text = found ? json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    message_print("stdin: %s: found %.60s, expected %s", path, text ? text : "nothing", expected);
    free(text);
    return CLI_INVALID;
}

static bool has_text(const json_t *root, const char *key, const char *text)
{
    return strcmp(review_text_at(root, key), text) == 0;
}

/* Whether it is a request that can be answered. Returns 0, or an exit code after a message. */
static int check_review(const json_t *root)
{
    const json_t *request = json_object_get(root, "request");
    const char *uid = review_text_at(request, "uid");

    if (!has_text(root, "kind", "AdmissionReview"))
        return refuse_input("kind", json_object_get(root, "kind"), "AdmissionReview");
    if (!has_text(root, "apiVersion", "admission.k8s.io/v1"))
        return refuse_input("apiVersion", json_object_get(root, "apiVersion"),
                            "admission.k8s.io/v1");
    if (!json_is_object(request))
        return refuse_input("request", request, "an object");
    if (!*uid || strlen(uid) > MOST_UID)
        return refuse_input("request.uid", json_object_get(request, "uid"),
                            "text of 1 to 128 bytes");
    if (!*review_text_at(request, "operation"))
        return refuse_input("request.operation", json_object_get(request, "operation"),
                            "CREATE, UPDATE, DELETE or CONNECT");
    if ((has_text(request, "operation", "CREATE") || has_text(request, "operation", "UPDATE")) &&
        !json_is_object(json_object_get(request, "object")))
        return refuse_input("request.object", json_object_get(request, "object"), "an object");
    return 0;
}

static int answer_review(const struct settings *settings, const json_t *root)
{
    const json_t *request = json_object_get(root, "request");
    const json_t *object = json_object_get(request, "object");
    const struct question question = {.settings = settings, .object = object};
    struct review_answer answer = {.uid = review_text_at(request, "uid"), .verdict = "no_plan"};
    unsigned seconds = settings->timeout ? settings->timeout : REVIEW_SECONDS;
    char *line = NULL;
    int code = 0;

    if (is_launch(request, object))
        code = review_guard(seconds, &answer, judge_all, &question, &line);
    else if (!(line = review_answer_write(&answer)))
        code = CLI_INTERNAL;
    if (line)
        fputs(line, stdout);
    free(line);
    return code;
}

int cmd_review(const struct settings *settings)
{
    struct input input;
    json_error_t where;
    json_t *root;
    int code = input_read_file("-", REVIEW_MOST_BYTES, &input);

    if (code)
        return code;
    root = json_loadb(input.text, input.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!root)
        code = message_invalid("stdin:%d:%d: %s, expected an AdmissionReview", where.line,
                               where.column, where.text);
    else if (!json_is_object(root))
        code = refuse_input("the input", root, "an AdmissionReview");
    else if (!(code = check_review(root)))
        code = answer_review(settings, root);
    json_decref(root);
    input_free(&input);
    return code;
}
