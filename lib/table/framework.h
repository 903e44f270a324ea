/* SPDX-License-Identifier: MIT */
/* TABLE: what trainers set where nothing is asked for, of what changes memory. */
#ifndef MPL_TABLE_FRAMEWORK_H
#define MPL_TABLE_FRAMEWORK_H

#include <stdbool.h>
#include <stddef.h>

/** Major and minor number of a release. */
struct mpl_release {
    unsigned major, minor;
};

/** The releases that a run is made with. */
struct mpl_framework_releases {
    struct mpl_release framework, transformers, pytorch;
};

struct mpl_framework_default {
    const char *framework;          /* "trl-sft" */
    struct mpl_release from, below; /* of the framework; below {0, 0}: none */
    struct mpl_release transformers_from, transformers_below, pytorch_from;
    const char *path; /* of a plan's field */
    const char *json; /* its value there */
    const char *from_where;
    const char *unless; /* not where this field is given: the trainer has one argument for both */
};

/** What the framework sets for a field, or NULL: no more than a plain loop. */
const struct mpl_framework_default *mpl_framework_default(
    const char *framework, const struct mpl_framework_releases *releases, const char *path);

/** The newest release that was read, "1.16.0"; NULL: the framework has no release of its own here.
 */
const char *mpl_framework_newest(const char *framework);

#endif
