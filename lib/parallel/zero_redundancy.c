/* SPDX-License-Identifier: MIT */
/* ZeroRedundancyOptimizer: which parameters a rank updates, and buckets of weights. */
#include "parallel/zero_redundancy.h"

#include "base/bytes.h"
#include "base/fail.h"
#include "parallel/ranks.h"

/** Who updates what. */
struct partition {
    uint32_t *order; /* of parameters: largest first, equal ones as they come */
    uint32_t *rank;  /* of each parameter */
    uint64_t *load;  /* elements of each rank */
    uint32_t ranks;
};

static uint64_t numel_of(const struct mpl_optim *all, uint32_t i)
{
    return mpl_parameter_numel(all->parameters[i]);
}

/* Insertion keeps equal ones in order; there are at most some thousands, nearly all of few sizes.
 */
static void sort(const struct mpl_optim *all, uint32_t *order)
{
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t k = i;

        for (; k && numel_of(all, order[k - 1]) < numel_of(all, i); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}

static uint32_t least_loaded(const struct partition *p)
{
    uint32_t least = 0;

    for (uint32_t r = 1; r < p->ranks; r++)
        if (p->load[r] < p->load[least])
            least = r;
    return least;
}

/* _partition_parameters: each goes to the rank with the fewest elements so far. Ranks beyond the
 * number of parameters stay empty. */
static bool deal(struct partition *p, const struct mpl_optim *all, const struct mpl_plan *plan,
                 struct mpl_arena *arena)
{
    const size_t room = (size_t)all->count + 1;

    *p = (struct partition){
        .ranks = plan->parallelism.world_size < (int64_t)room
                     ? (uint32_t)plan->parallelism.world_size
                     : (uint32_t)room,
        .order = mpl_arena_zalloc(arena, room * sizeof(*p->order)),
        .rank = mpl_arena_zalloc(arena, room * sizeof(*p->rank)),
        .load = mpl_arena_zalloc(arena, room * sizeof(*p->load)),
    };
    if (!p->order || !p->rank || !p->load)
        return false;
    sort(all, p->order);
    for (uint32_t i = 0; i < all->count; i++) {
        const uint32_t r = least_loaded(p);

        p->rank[p->order[i]] = r;
        p->load[r] = mpl_add(p->load[r], numel_of(all, p->order[i]));
    }
    return true;
}

enum memplan_status mpl_zero_redundancy_select(const struct mpl_plan *plan,
                                               const struct mpl_optim *all, struct mpl_arena *arena,
                                               struct mpl_optim *local, struct memplan_error *err)
{
    struct partition p;
    uint32_t most = 0;

    *local = *all;
    if (!plan->parallelism.zero1)
        return MEMPLAN_OK;
    local->parameters = mpl_arena_zalloc(arena, (all->count + 1) * sizeof(*local->parameters));
    if (!local->parameters || !deal(&p, all, plan, arena))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while making the optimizer");
    for (uint32_t r = 1; r < p.ranks; r++)
        if (p.load[r] > p.load[most])
            most = r;
    if (plan->parallelism.rank >= 0)
        most = (uint32_t)plan->parallelism.rank;
    local->count = 0;
    for (uint32_t i = 0; i < all->count; i++)
        if (p.rank[p.order[i]] == most)
            local->parameters[local->count++] = all->parameters[p.order[i]];
    return MEMPLAN_OK;
}

/* _build_param_buckets: shape: [elements of the rank's parameters], of the first one's format */
static void move_into_bucket(struct mpl_tape *tape, const struct mpl_optim *all,
                             const struct partition *p, uint32_t rank)
{
    const uint64_t numel = p->load[rank] ? p->load[rank] : 1; /* a dummy where there is none */
    const struct mpl_shape shape =
        mpl_shape1(mpl_dim(numel > INT64_MAX ? INT64_MAX : (int64_t)numel));
    enum mpl_dtype dtype = MPL_FLOAT32;
    struct mpl_tensor *bucket;

    for (uint32_t i = 0; i < all->count; i++)
        if (p->rank[i] == rank)
            dtype = all->parameters[i]->dtype;
    tape->category = MPL_CATEGORY_PARAMETERS;
    bucket = mpl_hold(mpl_empty(tape, "empty.memory_format", dtype, &shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    for (uint32_t i = 0; i < all->count; i++)
        if (p->rank[p->order[i]] == rank)
            mpl_set_data(tape, all->parameters[p->order[i]]->tensor, bucket);
    if (p->load[rank]) /* else it is kept by the list of buckets alone */
        mpl_drop(tape, bucket);
}

void mpl_zero_redundancy_construct(struct mpl_tape *tape, const struct mpl_plan *plan,
                                   const struct mpl_optim *all)
{
    struct partition p;

    if (!plan->parallelism.zero1 || !plan->parallelism.parameters_as_bucket_view)
        return;
    if (!deal(&p, all, plan, &tape->arena)) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (uint32_t r = 0; r < p.ranks && !tape->is_stopped; r++)
        move_into_bucket(tape, all, &p, r);
}

enum memplan_status mpl_zero_redundancy_sign(const struct mpl_plan *plan,
                                             const struct mpl_optim *all, struct mpl_arena *arena,
                                             struct mpl_rank_signs *signs,
                                             struct memplan_error *err)
{
    struct partition p;

    if (!deal(&p, all, plan, arena))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while comparing the ranks");
    for (uint32_t i = 0; i < all->count; i++) {
        const struct mpl_parameter *parameter = all->parameters[p.order[i]];

        mpl_rank_sign(signs, p.rank[p.order[i]],
                      mpl_dtype_bytes(parameter->dtype, mpl_parameter_numel(parameter)),
                      parameter->dtype);
    }
    return MEMPLAN_OK;
}
