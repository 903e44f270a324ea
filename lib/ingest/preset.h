/* SPDX-License-Identifier: MIT */
/* A plan's trainer, and what it sets for fields that are absent. */
#ifndef MPL_INGEST_PRESET_H
#define MPL_INGEST_PRESET_H

#include "table/framework.h"

struct mpl_preset {
    const char *framework; /* NULL: a plain loop */
    const char *version;   /* NULL: the framework has none of its own */
    struct mpl_framework_releases releases;
};

/** Of framework.name, framework.version (NULL: not given), software.transformers and
 * software.pytorch, texts that must live as long as the result. */
struct mpl_preset mpl_preset_of(const char *name, const char *version, const char *transformers,
                                const char *pytorch);

/** The row of a path, or NULL: nothing is set there. */
const struct mpl_framework_default *mpl_preset_row(const struct mpl_preset *preset,
                                                   const char *path);

#endif
