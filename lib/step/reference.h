/* SPDX-License-Identifier: MIT */
/* A frozen model beside the one that trains: the reference of dpo, the teacher of forward_kl. */
#ifndef MPL_STEP_REFERENCE_H
#define MPL_STEP_REFERENCE_H

#include "step/network.h"

/** Builds network->reference where the plan's loss wants one; it has no memory yet. */
enum memplan_status mpl_reference_build(struct mpl_network *network, struct memplan_error *err);

#endif
