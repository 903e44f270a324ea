/* SPDX-License-Identifier: MIT */
/* A plan's trainer, and what it sets for fields that are absent. */
#ifndef MPL_INGEST_PRESET_H
#define MPL_INGEST_PRESET_H

#include <jansson.h>
#include <stdint.h>

#include "table/framework.h"

struct mpl_preset {
    const char *framework; /* NULL: a plain loop */
    const char *version;   /* NULL: the framework has none of its own */
    struct mpl_framework_run run;
    const struct mpl_framework_default *rows; /* of the framework */
    size_t row_count;
};

/** Of a plan, as texts that must live as long as the result; NULL: not given. */
struct mpl_preset_facts {
    const char *name, *version, *transformers, *accelerate, *pytorch, *strategy;
};

struct mpl_preset mpl_preset_of(const struct mpl_preset_facts *facts);

/** The row of a path, or NULL: nothing is set there. */
const struct mpl_framework_default *mpl_preset_row(const struct mpl_preset *preset,
                                                   const char *path);

/** What stands for "auto" in DeepSpeed's configuration, as a new value: transformers and accelerate
 * fill it in (transformers/integrations/deepspeed.py, trainer_config_finalize). NULL: nobody does.
 */
json_t *mpl_preset_auto(const struct mpl_preset *preset, const char *path, int64_t hidden_size);

/** Whether a value is "auto", and the field one that a trainer may fill in. */
bool mpl_preset_is_auto(const char *path, const json_t *value);

#endif
