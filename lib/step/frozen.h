/* SPDX-License-Identifier: MIT */
/* Parameters that do not train, chosen by shell patterns on their names. */
#ifndef MPL_STEP_FROZEN_H
#define MPL_STEP_FROZEN_H

#include "step/network.h"

/** fnmatch.fnmatchcase(name, pattern) of Python: *, ?, [set], [!set]; nothing is escaped. */
bool mpl_pattern_matches(const char *pattern, const char *name);

/** requires_grad_(False) on every parameter that one of the plan's patterns matches.
 * MEMPLAN_ERR_VALUE when none is left that trains: torch.optim refuses an empty list. */
enum memplan_status mpl_network_freeze(struct mpl_network *network, struct memplan_error *err);

#endif
