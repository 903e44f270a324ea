/* SPDX-License-Identifier: MIT */
/* Model families. Adding one is a file with a struct mpl_arch and its line in arch_list.c. */
#ifndef MPL_ARCH_ARCH_H
#define MPL_ARCH_ARCH_H

#include "spec/config_class.h"
#include "step/network.h"

struct mpl_lm_family;

struct mpl_arch {
    struct mpl_config_class config;     /* model_type, names and defaults of its config.json */
    const struct mpl_lm_family *family; /* a language model of part/causal_lm.h, or NULL: then */
    enum memplan_status (*build)(struct mpl_network *network, struct memplan_error *err);
};

/** Describes the family's parameters and modules, sets forward. */
enum memplan_status mpl_arch_build(const struct mpl_arch *arch, struct mpl_network *network,
                                   struct memplan_error *err);

/** The family of that name, or NULL. */
const struct mpl_arch *mpl_arch_find(const char *model_type);

/** The i-th family's name; NULL past the last one. */
const char *mpl_arch_name(size_t i);

#endif
