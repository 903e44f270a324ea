/* SPDX-License-Identifier: MIT */
/* Inside of struct mpl_spec, for the files that read, change and bind it. */
#ifndef MPL_INGEST_DOCUMENT_H
#define MPL_INGEST_DOCUMENT_H

#include <jansson.h>

#include "spec/fields.h"
#include "spec/spec.h"

#define MPL_SPEC_MOST_CHOICES 64

/** A field that the plan leaves open. */
struct mpl_axis {
    const struct mpl_field *field;
    const json_t *choices; /* list; borrowed from the document */
    const char *why;       /* borrowed; NULL: not said */
};

struct mpl_spec {
    json_t *document;
    bool is_bare;         /* was a config.json: pointers leave "/model" out */
    bool has_known_names; /* mpl_spec_check_names finds nothing in the document */
    char source[128];
    struct mpl_axis axes[MPL_FIELD_LIMIT];
    size_t axis_count, combination_count;
    json_t *fallbacks[MPL_FAMILY_COUNT][MPL_FIELD_LIMIT]; /* parsed defaults; NULL: none */
};

/** Status and error as a caller gets them: source filled in, pointer as in the input. */
enum memplan_status mpl_spec_finish(const struct mpl_spec *spec, enum memplan_status status,
                                    struct memplan_error *err);

/** True for {"any_of": ...}. */
bool mpl_spec_is_open(const json_t *json);

/** True when a field may be left open. */
bool mpl_spec_can_open(const struct mpl_field *field);

/** Finds what the document leaves open, into axes; checks its form. */
enum memplan_status mpl_spec_find_axes(struct mpl_spec *spec, struct memplan_error *err);

/** Moves fields with another name to the name that is bound. */
enum memplan_status mpl_spec_move_names(json_t *document, struct memplan_error *err);

/** Refuses names that are not in the table, outside of the model section. */
enum memplan_status mpl_spec_check_names(const json_t *document, struct memplan_error *err);

/** Fails for an unknown name, with the nearest known one. */
enum memplan_status mpl_spec_fail_name(const char *path, const char *pointer,
                                       struct memplan_error *err);

/** True for members that hold remarks: about, source, comment, why. */
bool mpl_spec_is_remark(const char *name);

/** Checks the value of one field, or each of its choices. */
enum memplan_status mpl_spec_check_value(const struct mpl_field *field, const json_t *json,
                                         struct memplan_error *err);

/** The observations of the document, into *plan. */
enum memplan_status mpl_spec_read_observations(const struct mpl_spec *spec, struct mpl_plan *plan,
                                               struct memplan_error *err);

#endif
