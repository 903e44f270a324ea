/* SPDX-License-Identifier: MIT */
/* The probability that a run survives on a card. */
#include "verdict/survival.h"

#include <math.h>
#include <string.h>

/* Budgets are tried at every quarter of a deviation, up to 3.5 of them to either side. */
#define NODE_STEP  0.25
#define NODE_COUNT 29
#define MIDDLE     (NODE_COUNT / 2)

/* Beyond this many deviations a chance is 0 or 1 for any risk that is asked for. */
#define FAR 6.0

static double normal_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2.0));
}

static double spread_of(const struct mpl_survival_case *c)
{
    return hypot(c->capacity->spread_bytes, c->error * (double)c->capacity->usable_bytes);
}

/* Share of a normal distribution that lies nearest to a node. */
static double node_weight(int node)
{
    const double z = (node - MIDDLE) * NODE_STEP;
    const double low = node ? normal_cdf(z - NODE_STEP / 2) : 0;
    const double high = node < NODE_COUNT - 1 ? normal_cdf(z + NODE_STEP / 2) : 1;

    return high - low;
}

static uint64_t node_budget(const struct mpl_survival_case *c, int node)
{
    const double place =
        (double)c->capacity->usable_bytes + (node - MIDDLE) * NODE_STEP * spread_of(c);

    return place > 0 ? (uint64_t)place : 0;
}

/* What is known of the nodes: 1 survives, 0 fails, -1 not tried yet. One replay may decide many. */
struct nodes {
    signed char survives[NODE_COUNT];
    struct memplan_error *err;
    enum memplan_status status;
};

static bool survives_at(const struct mpl_survival_case *c, struct nodes *n, int node)
{
    struct mpl_replay_result result;

    if (n->survives[node] >= 0 || n->status)
        return n->survives[node] > 0;
    n->status = mpl_replay_run(c->estimator->replay, &c->estimator->trace.timeline,
                               node_budget(c, node), &result, n->err);
    if (n->status)
        return false;
    for (int i = 0; i < NODE_COUNT; i++) {
        const uint64_t budget = node_budget(c, i);

        if (budget >= result.same_from && budget < result.same_below)
            n->survives[i] = result.survived;
    }
    n->survives[node] = result.survived;
    return result.survived;
}

/*
 * The lowest node that alone outweighs the risk: a run that fails there is refused. The search
 * goes from here outward, and a run at the boundary is decided after few replays.
 */
static int deciding_node(double risk)
{
    int node = 0;

    while (node < MIDDLE && node_weight(node) <= risk)
        node++;
    return node;
}

/* The i-th node in order of distance from the first; -1 outside the row. */
static int node_at(int first, int i)
{
    const int node = i % 2 ? first - (i + 1) / 2 : first + i / 2;

    return node < NODE_COUNT ? node : -1;
}

static enum memplan_status replay_nodes(const struct mpl_survival_case *c,
                                        struct mpl_survival *survival, struct memplan_error *err)
{
    struct nodes n = {.err = err};
    const int first = deciding_node(c->risk);
    double failed = 0;

    memset(n.survives, -1, sizeof(n.survives));
    for (int i = 0; i < 2 * NODE_COUNT && failed <= c->risk && !n.status; i++) {
        const int node = node_at(first, i);

        if (node >= 0 && !survives_at(c, &n, node))
            failed += node_weight(node);
    }
    survival->probability = 1 - failed;
    for (int node = NODE_COUNT - 1; node >= 0 && n.survives[node] > 0; node--)
        survival->enough_bytes = node_budget(c, node);
    return n.status;
}

/* Share of the budgets that hold not even what lives at one moment. Of the same nodes as the
 * replays, so that a search and a verdict agree on every run. */
static double weight_below(const struct mpl_survival_case *c, uint64_t bytes)
{
    double weight = 0;

    for (int node = 0; node < NODE_COUNT && node_budget(c, node) < bytes; node++)
        weight += node_weight(node);
    return weight;
}

double mpl_survival_if_needs(const struct mpl_survival_case *c, double bytes)
{
    const double room = (double)c->capacity->usable_bytes - bytes, spread = spread_of(c);

    return spread > 0 ? normal_cdf(room / spread) : room >= 0;
}

enum memplan_status mpl_survival_judge(const struct mpl_survival_case *c,
                                       struct mpl_survival *survival, struct memplan_error *err)
{
    const double usable = (double)c->capacity->usable_bytes, spread = spread_of(c);
    const uint64_t live = c->estimate->live_peak;
    const uint64_t reserved = c->estimate->unlimited.reserved_peak; /* 0: not known */
    const double surely_failed = weight_below(c, live);
    enum memplan_status status;

    *survival = (struct mpl_survival){1 - surely_failed, 0};
    if (surely_failed > c->risk || (double)live > usable + FAR * spread)
        return MEMPLAN_OK;
    if (reserved && (double)reserved < usable - FAR * spread) {
        *survival = (struct mpl_survival){1, reserved};
        return MEMPLAN_OK;
    }
    status = mpl_replay_set_conf(c->estimator->replay, c->plan->device.allocator_conf, err);
    return status ? status : replay_nodes(c, survival, err);
}
