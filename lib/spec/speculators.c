/* SPDX-License-Identifier: MIT */
/*
 * Stage "spec": the releases of speculators that are modelled.
 *
 * source: speculators/train/trainer.py (setup_model), speculators/model.py (DraftVocabMixin),
 * speculators/models/eagle3/core.py, models/metrics.py, of each release
 */
#include "spec/speculators.h"

#include <stddef.h>
#include <string.h>

#define V     .has_verifier_norm = true
#define CAST  V, .freezes_head = true, .casts_model = true
#define R     .sums_rows = true
#define F     .has_fused_loss = true
#define MIXED V, R, .freezes_head = true, .has_autocast = true

static const struct mpl_speculators releases[] = {
    {.version = "0.3.0"},
    {.version = "661d3ed3"},
    {.version = "0.4.0", V},
    {.version = "0.4.0.1", V},
    {.version = "0.5.0", CAST},
    {.version = "0.6.0", CAST, R},
    {.version = "0.6.0.1", CAST, R},
    {.version = "0.6.0.2", CAST, R},
    {.version = "0.7.0", MIXED},
    {.version = "0.7.0.1", MIXED},
    {.version = "0.7.0.2", MIXED},
    {.version = "0.8.0", MIXED, F},
    {.version = "0.8.1", MIXED, F},
    {.version = "0.9.0", MIXED, F},
};

const struct mpl_speculators *mpl_speculators_find(const char *version)
{
    for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
        if (strcmp(releases[i].version, version) == 0)
            return &releases[i];
    return NULL;
}
