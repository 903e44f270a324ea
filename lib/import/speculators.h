/* SPDX-License-Identifier: MIT */
/* Releases of speculators' training command: speculators_release.c, settle_speculators.c. */
#ifndef MPL_IMPORT_SPECULATORS_H
#define MPL_IMPORT_SPECULATORS_H

/* Releases with the same flags and defaults, oldest first. */
enum { SINCE_03, SINCE_04, SINCE_05, SINCE_06, SINCE_07, SINCE_08, SINCE_09, SINCE_COUNT };

#endif
