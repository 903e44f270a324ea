/* SPDX-License-Identifier: MIT */
/*
 * Where a run stops to fit along one field, found with few judgements: a coarse scan that shows
 * whether there is one boundary at all, halving of the gap at the outermost one, and probes away
 * from it. What a value means is the caller's.
 */
#ifndef MPL_VERDICT_BOUNDARY_H
#define MPL_VERDICT_BOUNDARY_H

#include <memplan.h>
#include <stdbool.h>

#define MPL_BOUNDARY_MOST 256 /* values judged at the most */

enum mpl_side {
    MPL_SIDE_FITS = 0,
    MPL_SIDE_FAILS,   /* or inside the margin */
    MPL_SIDE_INVALID, /* no run at all: passed over */
    MPL_SIDE_END,     /* beyond what can be computed: nothing above is tried */
};

/** One value that was judged. */
struct mpl_judged {
    int64_t value;
    enum mpl_side side;
    bool is_far;    /* fails by so much that more memory is hopeless too */
    uint64_t bytes; /* what it takes: whether that rises, falls or turns is told from it */
};

struct mpl_boundary_search {
    /* Fills *judged but for the value. Anything but MEMPLAN_OK ends the search with it. */
    enum memplan_status (*judge)(void *context, int64_t value, struct mpl_judged *judged,
                                 struct memplan_error *err);
    /* Cheap: a value that is not possible is INVALID unseen. */
    enum memplan_status (*look)(void *context, int64_t value, bool *is_possible,
                                struct memplan_error *err);
    void *context;
    int64_t from, to; /* inclusive */
    int64_t grain;    /* only multiples of it; at least 1 */
    bool wants_least; /* the least value that fits, in place of the largest */
    int64_t hint;     /* a value that may be possible where few are, and its multiples; 0: none */
};

/** How what a run takes depends on the field, over the values judged. */
enum mpl_trend { MPL_TREND_LEVEL = 0, MPL_TREND_RISES, MPL_TREND_FALLS, MPL_TREND_TURNS };

struct mpl_boundary {
    struct mpl_judged judged[MPL_BOUNDARY_MOST]; /* by value, without those that are no run */
    size_t count;
    size_t skipped; /* values that are no run, of those looked at */
    bool is_found;  /* something fits */
    bool is_proven; /* the next possible value, judged[beyond], does not */
    size_t found, beyond;
    bool is_cut;   /* the scan ended below `to`, at the last of judged */
    bool is_spent; /* the gap may not be closed: too many values, or too many that are no run */
    bool has_hole; /* what fits is not one stretch, and neither is what fails; hole[]: an example */
    int64_t hole[3];
    enum mpl_trend trend;
    int64_t turn[3]; /* with MPL_TREND_TURNS: the values around the deepest turn */
};

/**
 * Looks for the boundary. MEMPLAN_ERR_VALUE: no multiple of the grain lies in the range. A boundary
 * that lies between two values of the scan on whose outer sides both agree is not seen.
 */
enum memplan_status mpl_boundary_find(const struct mpl_boundary_search *search,
                                      struct mpl_boundary *boundary, struct memplan_error *err);

#endif
