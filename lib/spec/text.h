/* SPDX-License-Identifier: MIT */
/* Stage "spec": sizes with a unit and version numbers, from text. Independent of the locale. */
#ifndef MPL_SPEC_TEXT_H
#define MPL_SPEC_TEXT_H

#include "spec/plan.h"

/** A size as it was written. */
struct mpl_size {
    uint64_t whole;     /* digits before the point */
    uint64_t fraction;  /* digits after it, as an integer */
    uint32_t decimals;  /* how many digits after it, at most 6 */
    uint64_t unit;      /* bytes of one unit; 0: none was written */
    bool unit_is_power; /* KiB to TiB: a power of 1024 */
};

/** Reads "28.5 GB", "39.8GiB", "512". False when text is not a size. */
bool mpl_size_parse(const char *text, struct mpl_size *size_out);

/** The bytes of a size with a unit, rounded to the nearest; false when above INT64_MAX. */
bool mpl_size_bytes(const struct mpl_size *size, int64_t *bytes_out);

/** Reads "2.9.1", "2.14.1+cu130", "5.24". False when text is not a version. */
bool mpl_version_parse(const char *text, struct mpl_version *version_out);

/** True when version is at least major.minor.patch. */
bool mpl_version_at_least(const struct mpl_version *version, unsigned major, unsigned minor,
                          unsigned patch);

/** A plain decimal number ("9.0", "12"), to a double; false when text is something else. */
bool mpl_number_parse(const char *text, double *number_out);

#endif
