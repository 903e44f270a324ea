/* SPDX-License-Identifier: MIT */
/* What the files that settle facts share: settle.c, settle_*.c. */
#ifndef MPL_IMPORT_SETTLE_H
#define MPL_IMPORT_SETTLE_H

#include "import/import.h"

/** A sentence on several facts, which no one place in a file says. */
#define MPL_SETTLE_NOTE(import, ...) mpl_import_note(import, NULL, __VA_ARGS__)

/** Whether a reader found it. The import.* paths end in these files: they are no fields of a plan.
 */
static inline bool mpl_settle_has(const struct mpl_import *import, const char *path)
{
    return mpl_import_get(import, path) != NULL;
}

/** parallelism.strategy as far as it is settled. */
const char *mpl_settle_strategy_of(const struct mpl_import *import);

bool mpl_settle_has_adapters(const struct mpl_import *import);
enum memplan_status mpl_settle_adapters(struct mpl_import *import, struct memplan_error *err);
enum memplan_status mpl_settle_quantization(struct mpl_import *import, struct memplan_error *err);

/** What TRL's losses on prompts and completions need. (settle_trl.c) */
enum memplan_status mpl_settle_trl(struct mpl_import *import, struct memplan_error *err);
enum memplan_status mpl_settle_speculators(struct mpl_import *import, struct memplan_error *err);
enum memplan_status mpl_settle_megatron(struct mpl_import *import, struct memplan_error *err);

/** What torchtitan makes of its configuration (settle_torchtitan.c), and its models
 * (torchtitan_models.c). */
enum memplan_status mpl_settle_torchtitan(struct mpl_import *import, struct memplan_error *err);
enum memplan_status mpl_settle_torchtitan_model(struct mpl_import *import,
                                                struct memplan_error *err);

/** What the weights say, against config.json (read_weights.c). */
enum memplan_status mpl_settle_weights(struct mpl_import *import, struct memplan_error *err);

#endif
