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

static const struct mpl_speculators releases[] = {
    {"0.3.0", false, false, false}, {"661d3ed3", false, false, false},
    {"0.4.0", true, false, false},  {"0.4.0.1", true, false, false},
    {"0.5.0", true, false, true},   {"0.6.0", true, true, true},
    {"0.6.0.1", true, true, true},  {"0.6.0.2", true, true, true},
};

const struct mpl_speculators *mpl_speculators_find(const char *version)
{
    for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
        if (strcmp(releases[i].version, version) == 0)
            return &releases[i];
    return NULL;
}
