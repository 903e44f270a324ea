/* SPDX-License-Identifier: MIT */
/* The forms of messages: a table of one row each. */
#ifndef MPL_LOG_FORMS_H
#define MPL_LOG_FORMS_H

#include <memplan.h>
#include <stddef.h>

/** One form. Its groups are named after members of the event: requested, total, free, allowed,
 * allocated, unallocated, reserved, private_pools; gpu; api; processes, the text that names them;
 * end, empty, where the message is complete; hint, what follows it. */
struct mpl_log_form {
    const char *name;
    const char *releases; /* of PyTorch */
    enum memplan_log_kind kind;
    const char *trigger; /* stands in every message of this form */
    const char *pattern; /* white space is one space */
};

/** Form i in the order in which they are tried, or NULL past the last. */
const struct mpl_log_form *mpl_log_form_at(size_t i);

/** Word i of those that say where to look; every message holds one near its start, also where a
 * line broke within another. NULL past the last. */
const char *mpl_log_form_trigger(size_t i);

#define MPL_LOG_FORMS 32 /* at most */

#endif
