/* SPDX-License-Identifier: MIT */
/*
 * Stage "spec": what the configuration class of a model family says (transformers,
 * configuration_<family>.py): how its config.json names the fields of "model", and their defaults.
 *
 * The list of families is that of lib/arch/arch_list.c; each family's file holds its class.
 */
#ifndef MPL_SPEC_CONFIG_CLASS_H
#define MPL_SPEC_CONFIG_CLASS_H

#include <stddef.h>

#include "base/fail.h"
#include "spec/plan.h"

/** One field of "model" in one family. */
struct mpl_config_key {
    const char *field;    /* as in the field table, without "model."; NULL ends a list */
    const char *name;     /* in this family's config.json; NULL: the same (attribute_map) */
    const char *fallback; /* JSON text; "null": not needed; NULL: as in the field table */
};

struct mpl_config_class {
    const char *model_type;
    const char *help;        /* one line for people */
    const char *note;        /* what a report on this family must say; NULL: nothing */
    enum mpl_task task;      /* UNSET: causal_lm */
    bool has_own_attention;  /* does not go through the attention interface */
    bool has_scopes;         /* all its modules are called in scopes: ZeRO-3 */
    bool has_no_flex;        /* _supports_flex_attn is not set, or it was not compared */
    bool has_position_table; /* a row for each position: no sequence is longer, or none modelled */
    int64_t reserved_positions;        /* rows of that table that no token of a sequence takes */
    const struct mpl_config_key *keys; /* NULL: all as in the field table */
    const char *attention; /* JSON text: what transformers takes where it has no sdpa; NULL: sdpa */
    /** Works out what was not given, before the general rules do. NULL: nothing. */
    void (*derive)(struct mpl_plan *plan);
    /** Refuses what the family does not have or memplan does not model. NULL: nothing. */
    enum memplan_status (*check)(const struct mpl_plan *plan, struct memplan_error *err);
};

/** The class of a model_type, or NULL. */
const struct mpl_config_class *mpl_config_class_find(const char *model_type);

/** Class i; NULL past the last one. */
const struct mpl_config_class *mpl_config_class_at(size_t i);

/** What a class says of a field of the table ("model.hidden_size"), or NULL. */
const struct mpl_config_key *mpl_config_key_find(const struct mpl_config_class *config,
                                                 const char *path);

/** JSON text of what the family takes for a field that is not of its config.json, where nothing is
 * asked for; NULL: as in the field table. */
const char *mpl_config_default(const struct mpl_config_class *config, const char *path);

/** Tokens of the longest sequence that the model has positions for; INT64_MAX: any. */
int64_t mpl_longest_sequence(const struct mpl_model *model);

/** Known model types, separated by ", ", into text of size bytes. */
void mpl_config_class_list(char *text, size_t size);

#endif
