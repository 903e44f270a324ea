/* SPDX-License-Identifier: MIT */
/* The probability that a run survives on a card. */
#include "verdict/survival.h"

#include <math.h>

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

/* What is known of the nodes. One replay may decide many. */
struct nodes {
    uint64_t budget[NODE_COUNT];
    double weight[NODE_COUNT];
    signed char survives[NODE_COUNT]; /* 1 survives, 0 fails, -1 not known yet */
    uint64_t same_from[NODE_COUNT];   /* of the replay that says so: lowest budget of its kind */
};

static struct nodes nodes_of(const struct mpl_survival_case *c)
{
    const struct mpl_replay_result *unlimited = &c->estimate->unlimited;
    struct nodes n;

    for (int i = 0; i < NODE_COUNT; i++) {
        n.budget[i] = node_budget(c, i);
        n.weight[i] = node_weight(i);
        n.survives[i] = -1;
        if (n.budget[i] < c->estimate->live_peak)
            n.survives[i] = 0;
        else if (unlimited->survived && n.budget[i] >= unlimited->same_from) {
            n.survives[i] = 1;
            n.same_from[i] = unlimited->same_from;
        }
    }
    return n;
}

static double weight_of(const struct nodes *n, int survives)
{
    double weight = 0;

    for (int i = 0; i < NODE_COUNT; i++)
        if (n->survives[i] == survives)
            weight += n->weight[i];
    return weight;
}

static enum memplan_status replay_at(const struct mpl_survival_case *c, struct nodes *n, int node,
                                     struct memplan_error *err)
{
    struct mpl_replay_result result;
    enum memplan_status status = mpl_replay_run(c->estimator->replay, &c->estimator->trace.timeline,
                                                n->budget[node], &result, err);

    for (int i = 0; i < NODE_COUNT && !status; i++)
        if (n->budget[i] >= result.same_from && n->budget[i] < result.same_below) {
            n->survives[i] = result.survived;
            n->same_from[i] = result.same_from;
        }
    return status;
}

/*
 * The lowest node that alone outweighs the risk: a run that fails there is refused. The search
 * begins here.
 */
static int deciding_node(double risk)
{
    int node = 0;

    while (node < MIDDLE && node_weight(node) <= risk)
        node++;
    return node;
}

/* The lowest node below which all others together do not outweigh the risk: of a run that fails
 * below some budget and survives from there on it says both, so a search that wants either begins
 * there. */
static int boundary_node(double risk)
{
    double below = 0;
    int node = 0;

    while (node < MIDDLE && below + node_weight(node) <= risk)
        below += node_weight(node++);
    return node;
}

/*
 * The next node to try, -1: all are known. First the one that may refuse alone; then those below it
 * that cannot stay unknown, where a run at the boundary fails; then upward, and the rest.
 */
static int next_node(const struct nodes *n, int first, double enough)
{
    double open_below = weight_of(n, 0);
    int below = -1;

    if (n->survives[first] < 0)
        return first;
    for (int node = 0; node < first; node++)
        if (n->survives[node] < 0) {
            open_below += n->weight[node];
            below = node;
        }
    if (open_below >= enough && below >= 0)
        return below;
    for (int node = first; node < NODE_COUNT; node++)
        if (n->survives[node] < 0)
            return node;
    return below;
}

static enum memplan_status replay_nodes(const struct mpl_survival_case *c,
                                        struct mpl_survival *survival, struct memplan_error *err)
{
    struct nodes n = nodes_of(c);
    const int first = c->enough > 0 ? boundary_node(c->risk) : deciding_node(c->risk);
    double failed = weight_of(&n, 0), unknown = weight_of(&n, -1);
    enum memplan_status status = MEMPLAN_OK;
    uint32_t replays = 0;
    int node;

    if (!c->estimate->unlimited.survived) /* its first replays: few go further down than this */
        mpl_replay_follow(c->estimator->replay, &c->estimator->trace.timeline,
                          n.budget[first > 0 ? first - 1 : 0]);
    while (!status && failed <= c->risk && failed + unknown >= c->enough &&
           !(c->most_replays && replays == c->most_replays) &&
           (node = next_node(&n, first, c->enough)) >= 0) {
        replays++;
        status = replay_at(c, &n, node, err);
        failed = weight_of(&n, 0);
        unknown = weight_of(&n, -1);
    }
    survival->probability = 1 - failed;
    survival->at_least = 1 - (failed + unknown);
    for (node = NODE_COUNT - 1; node >= 0 && n.survives[node] != 0; node--)
        if (n.survives[node] > 0) /* what was not tried says nothing */
            survival->enough_bytes = n.same_from[node];
    return status;
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

uint64_t mpl_survival_boundary_budget(const struct mpl_survival_case *c)
{
    return node_budget(c, boundary_node(c->risk));
}

enum memplan_status mpl_survival_judge(const struct mpl_survival_case *c,
                                       struct mpl_survival *survival, struct memplan_error *err)
{
    const double usable = (double)c->capacity->usable_bytes, spread = spread_of(c);
    const uint64_t live = c->estimate->live_peak;
    const uint64_t reserved = c->estimate->unlimited.reserved_peak; /* 0: not known */
    const double surely_failed = weight_below(c, live);
    enum memplan_status status;

    *survival = (struct mpl_survival){.probability = 1 - surely_failed};
    if ((double)live > usable + FAR * spread)
        survival->at_least = survival->probability;
    if (surely_failed > c->risk || (double)live > usable + FAR * spread)
        return MEMPLAN_OK;
    if (reserved && c->estimate->unlimited.survived && (double)reserved < usable - FAR * spread) {
        *survival = (struct mpl_survival){1, 1, reserved};
        return MEMPLAN_OK;
    }
    status = mpl_estimator_set_conf(c->estimator, c->plan, err);
    return status ? status : replay_nodes(c, survival, err);
}
