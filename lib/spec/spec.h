/* SPDX-License-Identifier: MIT */
/*
 * Stage "spec": a plan file as a document that can be changed, with what it leaves open.
 *
 * A scalar of a plan may be {"any_of": [a, b], "why": "..."}: an axis. The combinations of all axes
 * are numbered from 0; the last axis changes fastest. Each combination binds to one struct mpl_plan
 * without alternatives.
 */
#ifndef MPL_SPEC_SPEC_H
#define MPL_SPEC_SPEC_H

#include <memplan.h>

#include "spec/plan.h"

#define MPL_SPEC_MOST_COMBINATIONS 4096
#define MPL_SPEC_MOST_NOTES        96

struct mpl_spec;

enum mpl_note_kind {
    MPL_NOTE_DEFAULT = 0, /* the plan does not say; this is what is taken */
    MPL_NOTE_IGNORED,     /* the plan says it, and it has no effect */
    MPL_NOTE_UNTESTED,    /* outside of what predictions were compared with */
    MPL_NOTE_ASSUMED,     /* read as something else, because the plan asks for it */
    MPL_NOTE_OWN_CODE,    /* the framework has code of its own that is not followed */
    MPL_NOTE_IMPORT,      /* memplan import could not turn it into a field */
};

struct mpl_note {
    enum mpl_note_kind kind;
    char path[64];
    char text[384]; /* one sentence */
};

/** What a person would want to know about a bound plan. */
struct mpl_notes {
    struct mpl_note notes[MPL_SPEC_MOST_NOTES];
    uint32_t count;
};

/**
 * Reads a plan, or a bare Hugging Face config.json. source names it in messages. Checks the JSON
 * only; values are checked by mpl_spec_check and mpl_spec_bind. *spec_out is new.
 */
enum memplan_status mpl_spec_load(const void *json, size_t len, const char *source,
                                  struct mpl_spec **spec_out, struct memplan_error *err);

/** Sets one field: "training.optimizer.name=sgd". On failure the spec is as before. */
enum memplan_status mpl_spec_set(struct mpl_spec *spec, const char *assignment,
                                 struct memplan_error *err);

/** Checks names and values of the document and binds every combination. */
enum memplan_status mpl_spec_check(const struct mpl_spec *spec, struct memplan_error *err);

/** The document as JSON, in the form of a plan. *json_out is malloc'ed. */
enum memplan_status mpl_spec_to_json(const struct mpl_spec *spec, char **json_out,
                                     struct memplan_error *err);

/** One combination with its defaults filled in, as JSON. *json_out is malloc'ed. */
enum memplan_status mpl_spec_to_full_json(const struct mpl_spec *spec, size_t combination,
                                          char **json_out, struct memplan_error *err);

void mpl_spec_free(struct mpl_spec *spec); /* NULL is accepted */

/** Value of the member "id" when it is text, else NULL. Borrowed until the spec changes. */
const char *mpl_spec_id(const struct mpl_spec *spec);

size_t mpl_spec_axis_count(const struct mpl_spec *spec);
const char *mpl_spec_axis_path(const struct mpl_spec *spec, size_t axis);
const char *mpl_spec_axis_why(const struct mpl_spec *spec, size_t axis); /* NULL: not said */
size_t mpl_spec_axis_choices(const struct mpl_spec *spec, size_t axis);

/** At least 1, at most MPL_SPEC_MOST_COMBINATIONS. */
size_t mpl_spec_combination_count(const struct mpl_spec *spec);

/** Which choice of an axis a combination holds. */
size_t mpl_spec_choice(const struct mpl_spec *spec, size_t combination, size_t axis);

/** A choice as JSON text; malloc'ed, NULL when out of memory. */
char *mpl_spec_choice_json(const struct mpl_spec *spec, size_t axis, size_t choice);

/** "model.head_dim = 112, software.pytorch = 2.9.1"; empty without axes; cut off at size. */
void mpl_spec_describe(const struct mpl_spec *spec, size_t combination, char *text, size_t size);

/** One combination as a validated plan with defaults. notes may be NULL. */
enum memplan_status mpl_spec_bind(const struct mpl_spec *spec, size_t combination,
                                  struct mpl_plan *plan, struct mpl_notes *notes,
                                  struct memplan_error *err);

/** As mpl_spec_bind, as it was when observation i of the plan was read: with its sequence length
 * and the fields of its "set". */
enum memplan_status mpl_spec_bind_reading(const struct mpl_spec *spec, size_t combination,
                                          size_t observation, struct mpl_plan *plan,
                                          struct memplan_error *err);

/** Which run a plan is. *out is filled to its own size. (ingest/identity.c) */
enum memplan_status mpl_spec_identity(const struct mpl_spec *spec, struct memplan_identity *out,
                                      struct memplan_error *err);

/** Path of the i-th demand, NULL past the last: a larger value asks for more memory. */
const char *mpl_demand_at(size_t i);
/**
 * Writes down in each observation that the plan's value of a field was its own, where it says
 * nothing of that field: so that the field may be changed and the readings stay what they were. A
 * field that the plan leaves open, and the length, which each observation has, are left as they
 * are.
 */
enum memplan_status mpl_spec_pin_readings(struct mpl_spec *spec, const char *path,
                                          struct memplan_error *err);

/**
 * The row of a dotted path, or of its last names: of those that end so, the one in the fewest
 * sections. MEMPLAN_ERR_VALUE: none, several, or a name that stands for another field.
 */
enum memplan_status mpl_spec_find_field(const char *name, size_t *index_out,
                                        struct memplan_error *err);

/** The first observation that says the same as observation i of a bound plan: of the same settings,
 * and the same digits or outcome. A run that is written down twice, or repeats to the digit, tells
 * nothing more. i itself when there is none before it. */
uint32_t mpl_spec_same_reading(const struct mpl_spec *spec, const struct mpl_plan *plan,
                               uint32_t i);

/** Appends observations: a list of them, or an object with a list "observations". On failure the
 * spec is as before. source names the input in messages. */
enum memplan_status mpl_spec_add_readings(struct mpl_spec *spec, const void *json, size_t len,
                                          const char *source, struct memplan_error *err);

/** Row i of the field table in its public form; false past the last row. */
bool mpl_spec_field(size_t i, struct memplan_field *field_out);

/** Entry i of a reference list in its public form; false past the last one, or without a list. */
bool mpl_spec_entry(enum memplan_list list, size_t i, struct memplan_entry *entry_out);

/** The JSON schema of a plan. *json_out is malloc'ed. */
enum memplan_status mpl_spec_schema(char **json_out, struct memplan_error *err);

#endif
