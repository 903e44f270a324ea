/* SPDX-License-Identifier: MIT */
/* One JSON value against one row of the field table: type, range, words; then into the plan. */
#ifndef MPL_INGEST_VALUE_H
#define MPL_INGEST_VALUE_H

#include <jansson.h>
#include <memplan.h>

#include "spec/fields.h"

/** A value of a field, and the JSON pointer that messages name. */
struct mpl_value {
    const struct mpl_field *field;
    const json_t *json;
    const char *pointer;
};

/**
 * Checks a value, and stores it in *plan when plan is not NULL. null leaves the plan as it is,
 * except where null is a word of its own (training.autocast).
 */
enum memplan_status mpl_value_store(const struct mpl_value *value, struct mpl_plan *plan,
                                    struct memplan_error *err);

/** An integer inside the field's range; a real number only when it is exact. */
enum memplan_status mpl_value_integer(const struct mpl_value *value, int64_t *out,
                                      struct memplan_error *err);

/** One of the field's words. */
enum memplan_status mpl_value_word(const struct mpl_value *value, const struct mpl_word **out,
                                   struct memplan_error *err);

/** The word of a JSON text in a list that is not the field's own. */
enum memplan_status mpl_value_word_of(const struct mpl_value *value, const struct mpl_word *words,
                                      const struct mpl_word **out, struct memplan_error *err);

#endif
