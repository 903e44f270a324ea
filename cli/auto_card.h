/* SPDX-License-Identifier: MIT */
/* `--gpu auto`: a plan's card is the one of this machine. */
#ifndef CLI_AUTO_CARD_H
#define CLI_AUTO_CARD_H

#include <jansson.h>
#include <memplan.h>

/**
 * Sets what the plan says of its card from a probe: of the cards that its ranks would run on, the
 * one that leaves them least. document is NULL when the probe could not be made.
 * errors  MEMPLAN_ERR_UNSUPPORTED: no card, or none whose memory is told
 */
enum memplan_status auto_card_set(struct memplan_plan *plan, const json_t *document,
                                  struct memplan_error *err);

#endif
