/* SPDX-License-Identifier: MIT */
/* `memplan exec --record`: runs the command as a child, and records what became of it. */
#ifndef CLI_EXEC_RECORD_H
#define CLI_EXEC_RECORD_H

#include "options.h"

/** Runs words with this process's own streams, passes signals on, and appends to the ledger whether
 * it ran or ran out of memory. Returns the command's exit code, or dies of the command's signal. */
int exec_record(const struct settings *settings);

#endif
