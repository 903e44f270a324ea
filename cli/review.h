/* SPDX-License-Identifier: MIT */
/* `memplan review`: what a Kubernetes object asks for, the plans it carries, and the answer. */
#ifndef CLI_REVIEW_H
#define CLI_REVIEW_H

#include <jansson.h>
#include <memplan.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

#define REVIEW_MOST_BYTES    ((size_t)8 << 20) /* an object has at most 3 MiB, and comes twice */
#define REVIEW_MOST_WARNINGS 6
#define REVIEW_SECONDS       2
#define REVIEW_ANNOTATION    "memplan/plan"

/* ---- objects (review_object.c) ---- */

/** Called for each value at a path; false ends the walk. */
typedef bool review_visit(const json_t *value, void *data);

/** Every value at a path of names between dots; "[]" behind one: each member of a list or object.
 */
void review_walk(const json_t *root, const char *path, review_visit *visit, void *data);

/** The one value at a path without "[]"; NULL: none. */
const json_t *review_at(const json_t *root, const char *path);

/** Text at a path; "" when it is missing, or holds a zero byte. Borrowed. */
const char *review_text_at(const json_t *root, const char *path);

/** A whole number of 0 to 1048576, as a number or as text; fallback for anything else. */
int64_t review_number(const json_t *value, int64_t fallback);

/* ---- what is asked for (review_request.c, with the cards that pods select) ---- */

struct review_request {
    int64_t ranks;           /* GPUs of one run; 0: not known */
    int64_t node;            /* GPUs of one pod, the largest; 0: none */
    bool is_known;           /* a kind whose pods are known */
    bool is_open;            /* how many pods there are is decided later */
    bool is_shared;          /* cards are shared with other pods */
    size_t card_count;       /* different cards that the pods may get */
    struct memplan_gpu card; /* the largest of them; where card_count is above 0 */
    char strange[64];        /* a card that is not in the table */
};

void review_read_request(const json_t *object, struct review_request *request);

/* ---- plans (review_text.c, review_command.c) ---- */

/** Text that stands for a plan. */
struct review_plan {
    char *text; /* owned */
    size_t len;
    char where[128];  /* "annotation memplan/plan", "plan.json of the ConfigMap" */
    bool is_inferred; /* made of a command line, which nobody called a plan */
    bool is_missing;  /* named, and not there: text is NULL */
};

struct review_plans {
    struct review_plan *list; /* owned */
    size_t count;
    bool failed; /* out of memory */
};

/** Adds a copy of text; false: out of memory, which is remembered. */
bool review_add_plan(struct review_plans *plans, const char *text, size_t len, bool is_inferred,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/** Plans in annotations, of the folder that annotations name them in, or in a ConfigMap's data. */
void review_find_plans(const struct settings *settings, const json_t *object,
                       struct review_plans *plans);

/** The scripts that containers with GPUs, or a Ray job's entry point, run. */
void review_find_commands(const json_t *object, struct review_plans *plans);

void review_plans_free(struct review_plans *plans);

/* ---- answers (review_answer.c) ---- */

struct review_answer {
    const char *uid;
    const char *verdict; /* for the audit log, static */
    bool is_refused;
    char message[400];
    char warnings[REVIEW_MOST_WARNINGS][121]; /* Kubernetes asks for at most 120 characters */
    size_t warning_count;
};

/** Adds a line, cut to its room; what is too much is left out. */
void review_warn(struct review_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The reason of a refusal. */
void review_refuse(struct review_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The whole AdmissionReview on one line with its newline, new; NULL: out of memory. */
char *review_answer_write(const struct review_answer *answer);

/* ---- judging (review_judge.c) ---- */

/** Called when the answer so far is worth keeping. */
typedef void review_keep(const struct review_answer *answer, void *data);

/** Judges one plan; what is wrong with it is a warning. False: one that was inferred, and cannot be
 * judged; nothing is said. */
bool review_judge(const struct settings *settings, const struct review_plan *plan,
                  const struct review_request *request, struct review_answer *answer,
                  review_keep *keep, void *data);

/* ---- in a process of its own (review_guard.c) ---- */

/** Fills the answer; may keep one on the way. Runs in the child. */
typedef void review_work(struct review_answer *answer, review_keep *keep, void *keep_data,
                         const void *data);

/** Runs work in a child for at most some seconds. *line_out, new, is the last answer that it gave,
 * or the one at hand with a warning where it gave none. Returns 0, or an exit code after a
 * message. */
int review_guard(unsigned seconds, struct review_answer *answer, review_work *work,
                 const void *data, char **line_out);

#endif
