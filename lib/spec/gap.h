/* SPDX-License-Identifier: MIT */
/* Combinations that exist and are not modelled: rows of what, where and why, refused by name. */
#ifndef MPL_SPEC_GAP_H
#define MPL_SPEC_GAP_H

#include "base/fail.h"
#include "spec/plan.h"

struct mpl_gap {
    bool is_here;
    const char *path, *text;
};

/** Refuses the first row that is here. */
enum memplan_status mpl_gaps_refuse(const struct mpl_gap *gaps, size_t count,
                                    struct memplan_error *err);

/** What transformers' models do not do, or was not compared: check_causal.c. */
enum memplan_status mpl_check_causal(const struct mpl_plan *plan, struct memplan_error *err);
/** The framework's release, and what of it is not modelled. */
enum memplan_status mpl_check_framework(const struct mpl_plan *plan, struct memplan_error *err);
enum memplan_status mpl_check_adapters(const struct mpl_plan *plan, struct memplan_error *err);

/** What products in float8 need, or was not compared: check_float8.c. */
enum memplan_status mpl_check_float8(const struct mpl_plan *plan, struct memplan_error *err);

/** What Transformer Engine's modules need, or is not modelled: check_te.c. */
enum memplan_status mpl_check_te(const struct mpl_plan *plan, struct memplan_error *err);

/** What speculators' trainer does not do, or was not compared: check_eagle3.c. */
enum memplan_status mpl_check_dflash(const struct mpl_plan *plan, struct memplan_error *err);
enum memplan_status mpl_check_mtp(const struct mpl_plan *plan, struct memplan_error *err);
/** What the trainer of speculators leaves no choice in, whatever the drafter. */
enum memplan_status mpl_check_drafter_loop(const struct mpl_plan *plan, struct memplan_error *err);
enum memplan_status mpl_check_eagle3(const struct mpl_plan *plan, struct memplan_error *err);

/** What the script of EAGLE-1 and EAGLE-2 does not do, or was not compared: check_eagle.c. */
enum memplan_status mpl_check_eagle(const struct mpl_plan *plan, struct memplan_error *err);

/** The same of Medusa's, besides the rest of a causal model's: check_medusa.c. */
enum memplan_status mpl_check_medusa(const struct mpl_plan *plan, struct memplan_error *err);

/** The same of SpecForge's: check_specforge.c. */
enum memplan_status mpl_check_specforge(const struct mpl_plan *plan, struct memplan_error *err);

#endif
