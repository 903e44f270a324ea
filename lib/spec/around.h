/* SPDX-License-Identifier: MIT */
/* Which moments around the steps are modelled on the card. */
#ifndef MPL_SPEC_AROUND_H
#define MPL_SPEC_AROUND_H

#include "spec/plan.h"

/** Why saving the plan's checkpoint is not computed on the card; NULL: it is, or nothing is saved.
 */
const char *mpl_save_gap(const struct mpl_plan *plan);

/** True when the moment of saving is part of the timeline. */
bool mpl_is_saved_on_card(const struct mpl_plan *plan);

#endif
