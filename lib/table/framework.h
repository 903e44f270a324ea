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
    struct mpl_release framework, transformers, pytorch, accelerate;
};

/** Strategies that a row is for, as bits; zero1 to zero3 are one. */
enum mpl_preset_strategy {
    MPL_PRESET_ON_NONE = 1,
    MPL_PRESET_ON_DDP = 2,
    MPL_PRESET_ON_FSDP1 = 4,
    MPL_PRESET_ON_FSDP2 = 8,
    MPL_PRESET_ON_ZERO = 16,
};

/** Of a run, what its trainer's defaults hang on. */
struct mpl_framework_run {
    struct mpl_framework_releases releases;
    unsigned strategy; /* enum mpl_preset_strategy */
    bool has_lora, is_accumulating, is_checkpointing;
    const char *drafter; /* model_type; NULL: none that differs */
};

struct mpl_framework_default {
    const char *framework;          /* "trl-sft" */
    struct mpl_release from, below; /* of the framework; below {0, 0}: none */
    struct mpl_release transformers_from, transformers_below, pytorch_from;
    struct mpl_release accelerate_from, accelerate_below;
    unsigned strategies; /* enum mpl_preset_strategy; 0: all */
    const char *drafter; /* model_type; NULL: all */
    bool only_with_lora, only_without_lora, only_accumulating, only_without_checkpointing;
    const char *path; /* of a plan's field */
    const char *json; /* its value there */
    const char *from_where;
    const char *unless; /* not where this field is given: the trainer has one argument for both */
};

/** The rows of a framework, which stand together; *count_out 0: there are none. */
const struct mpl_framework_default *mpl_framework_rows(const char *framework, size_t *count_out);

/** Rows of all frameworks together. */
size_t mpl_framework_row_count(void);

/** What a framework sets for a field, of its rows; NULL: no more than a plain loop. */
const struct mpl_framework_default *mpl_framework_default(const struct mpl_framework_default *rows,
                                                          size_t count,
                                                          const struct mpl_framework_run *run,
                                                          const char *path);

/** The newest release that was read, "1.16.0"; NULL: the framework has no release of its own here.
 */
const char *mpl_framework_newest(const char *framework);

/** The oldest release that is modelled; {0, 0}: any. */
struct mpl_release mpl_framework_oldest(const char *framework);

/** Why a release is not modelled: what newer ones do that older ones did not; NULL: it is. */
const char *mpl_framework_end(const char *framework, struct mpl_release release);

/** What the figures do not follow the framework in; NULL: nothing known. */
const char *mpl_framework_note(const char *framework);

/** Whether accelerate's prepare() wraps its models. */
bool mpl_framework_uses_accelerate(const char *framework);

/** The bit of parallelism.strategy; that of none for any other word. */
unsigned mpl_framework_strategy(const char *strategy);

#endif
