/* SPDX-License-Identifier: MIT */
/* Stage "spec": what must hold between the fields of one plan. */
#ifndef MPL_SPEC_CHECK_H
#define MPL_SPEC_CHECK_H

#include <memplan.h>

#include "spec/spec.h"

/** Fills in what follows from other fields (head_dim, key and value heads, weight decay). A field
 * that is not given holds its "unset" value: 0, or a negative weight decay. */
void mpl_plan_derive(struct mpl_plan *plan);

/** Checks relations between fields; an error names the field at fault. */
enum memplan_status mpl_plan_check(const struct mpl_plan *plan, struct memplan_error *err);

/** Adds a note; dropped when there is no room. notes may be NULL. */
void mpl_note_add(struct mpl_notes *notes, enum mpl_note_kind kind, const char *path,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/** Notes about versions that predictions were not compared with. */
void mpl_plan_note_versions(const struct mpl_plan *plan, struct mpl_notes *notes);

/** What is modelled of batches whose lengths differ. (spec/check_lengths.c) */
enum memplan_status mpl_check_lengths(const struct mpl_plan *plan, struct memplan_error *err);

/** What is modelled of evaluations, resuming and batches ahead. (spec/check_around.c) */
enum memplan_status mpl_check_around(const struct mpl_plan *plan, struct memplan_error *err);

#endif
