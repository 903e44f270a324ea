/* SPDX-License-Identifier: MIT */
/* The points of `memplan sweep`, and how they are shown. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include <jansson.h>
#include <memplan.h>

#include "range.h"

#define SWEEP_MOST_FIELDS 2

/** One field and its values. */
struct sweep_axis {
    struct memplan_field field;
    enum range_kind kind;
    struct range range;
};

struct sweep_point {
    size_t at[SWEEP_MOST_FIELDS];   /* into each axis's values */
    struct memplan_summary summary; /* all 0 where text says why */
    char text[512];                 /* why there are no figures; else empty */
};

struct sweep {
    const char *source;
    struct sweep_axis axes[SWEEP_MOST_FIELDS];
    size_t axis_count;
    bool peaks_only;
    struct sweep_point *points; /* the last axis changes fastest; owned */
    size_t count;
    int code;
    json_t *plan, *report; /* of the plan as it stands, for what a drawing has of its observations;
                              NULL: not wanted. Owned */
};

/** The value of a point on one axis. */
const struct range_value *sweep_value(const struct sweep *sweep, size_t point, size_t axis);

/** Each returns 0, or an exit code after a message. */
int sweep_print_table(const struct sweep *sweep);
int sweep_print_tsv(const struct sweep *sweep);
int sweep_print_json(const struct sweep *sweep);

/** Draws a sweep of one field. */
int sweep_draw(const struct sweep *sweep, const char *path);

#endif
