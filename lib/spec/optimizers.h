/* SPDX-License-Identifier: MIT */
/* TABLE: the names of optimizers, what each is, and the keys that its constructor takes. */
#ifndef MPL_SPEC_OPTIMIZERS_H
#define MPL_SPEC_OPTIMIZERS_H

#include <memplan.h>

#include "spec/plan.h"
#include "spec/spec.h"

/** The word of training.optimizer.name. */
const char *mpl_optimizer_word(enum mpl_optimizer_name name);

/** The constructor's default weight decay. */
double mpl_optimizer_weight_decay(enum mpl_optimizer_name name);

/** True when a step works on each shard of a parameter alone, so that FSDP2 changes no form. */
bool mpl_optimizer_is_local(enum mpl_optimizer_name name);

/** Notes what an optimizer takes that is not counted. */
void mpl_optimizer_note(const struct mpl_optimizer_spec *optimizer, struct mpl_notes *notes);

/** Checks training.optimizer: keys that the constructor would refuse, and what is not modelled. */
enum memplan_status mpl_optimizer_check(const struct mpl_plan *plan, struct memplan_error *err);

#endif
