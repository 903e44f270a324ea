/* SPDX-License-Identifier: MIT */
/*
 * DDP: which gradients share a bucket, and flat copies for broadcasts.
 *
 * source: torch/csrc/distributed/c10d/reducer.cpp (compute_bucket_assignment_by_size,
 * initialize_buckets, rebuild_buckets, sync_bucket_indices), comm.cpp
 * (broadcast_coalesced)
 */
#include "base/bytes.h"
#include "parallel/ddp.h"
#include "spec/text.h"

#define MIB             ((uint64_t)1 << 20)
#define FIRST_BYTES     MIB
#define BUCKET_BYTES    (25 * MIB)
#define BROADCAST_BYTES (250 * MIB)
#define IN_FLIGHT       2
#define FORMATS         8 /* more than there are formats of parameters */

/** The sizes at which the first bucket and the others are full. */
struct limits {
    uint64_t first, other;
};

/** Buckets that fill up, one for each format at a time. */
struct assignment {
    struct mpl_ddp_bucket *buckets;
    uint32_t count;
    struct limits limits;
    uint32_t format_count;
    struct {
        enum mpl_dtype dtype;
        uint64_t bytes, limit;
        uint32_t bucket;
        bool is_open;
    } formats[FORMATS];
};

static struct limits limits_of(const struct mpl_ddp *ddp)
{
    const double mib = ddp->network->plan->parallelism.bucket_cap_mb;
    const uint64_t given = (uint64_t)(mib * (double)MIB);

    return mib > 0 ? (struct limits){given, given} : (struct limits){FIRST_BYTES, BUCKET_BYTES};
}

/* The place of a format. */
static uint32_t place_of(struct assignment *a, enum mpl_dtype dtype)
{
    uint32_t i = 0;

    while (i < a->format_count && a->formats[i].dtype != dtype)
        i++;
    if (i == a->format_count && i < FORMATS - 1) {
        a->formats[i].dtype = dtype;
        a->formats[i].limit = a->limits.first;
        a->format_count++;
    }
    return i;
}

/* The bucket that the next tensor goes to; a full one is closed behind it. */
static uint32_t assign(struct assignment *a, const struct mpl_parameter *parameter)
{
    const uint64_t numel = mpl_parameter_numel(parameter);
    const uint32_t i = place_of(a, parameter->dtype);
    struct mpl_ddp_bucket *bucket;

    if (!a->formats[i].is_open) {
        a->formats[i].is_open = true;
        a->formats[i].bytes = 0;
        a->formats[i].bucket = a->count;
        a->buckets[a->count++] = (struct mpl_ddp_bucket){.dtype = parameter->dtype};
    }
    bucket = &a->buckets[a->formats[i].bucket];
    bucket->numel = mpl_add(bucket->numel, numel);
    bucket->count++;
    a->formats[i].bytes = mpl_add(a->formats[i].bytes, mpl_dtype_bytes(parameter->dtype, numel));
    if (a->formats[i].bytes >= a->formats[i].limit) {
        a->formats[i].is_open = false;
        a->formats[i].limit = a->limits.other;
    }
    return a->formats[i].bucket;
}

/* shape: [sum of the members' elements]; unit: elements of the parameters' format */
static void take_contents(struct mpl_tape *tape, struct mpl_ddp_bucket *bucket, const char *op)
{
    const struct mpl_shape shape =
        mpl_shape1(mpl_dim(bucket->numel > INT64_MAX ? INT64_MAX : (int64_t)bucket->numel));

    tape->category = MPL_CATEGORY_COMMUNICATION;
    bucket->contents = mpl_hold(mpl_empty(tape, op, bucket->dtype, &shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
}

void mpl_ddp_move_gradient(struct mpl_tape *tape, struct mpl_ddp_member *member)
{
    const struct mpl_tensor *contents = member->ddp->buckets[member->bucket].contents;
    struct mpl_tensor *leaf = member->parameter->tensor, *view;

    if (!member->ddp->is_view || !leaf->grad || leaf->grad->storage == contents->storage)
        return;
    view = mpl_hold(mpl_alias_shaped(tape, contents, &leaf->shape));
    if (view->is_void)
        return;
    mpl_drop(tape, leaf->grad);
    leaf->grad = view;
}

/* initialize_buckets: memory, in the order of reduction; gradients that are there move over. */
static void initialize(struct mpl_tape *tape, struct mpl_ddp *ddp)
{
    for (uint32_t b = 0; b < ddp->bucket_count; b++) {
        take_contents(tape, &ddp->buckets[b], "empty.memory_format");
        for (uint32_t i = 0; i < ddp->count && !tape->is_stopped; i++)
            if (ddp->members[i].bucket == b)
                mpl_ddp_move_gradient(tape, &ddp->members[i]);
    }
}

void mpl_ddp_make_buckets(struct mpl_tape *tape, struct mpl_ddp *ddp)
{
    const struct limits all = {UINT64_MAX, UINT64_MAX};
    struct assignment a = {.buckets = ddp->buckets,
                           .limits = ddp->is_static || !ddp->finds_unused ? all : limits_of(ddp)};

    for (uint32_t i = 0; i < ddp->count; i++)
        ddp->members[i].bucket = assign(&a, ddp->members[i].parameter);
    ddp->bucket_count = a.count;
    /* sorted by their first member, which they are, then the other way round */
    for (uint32_t b = 0; b < a.count / 2; b++) {
        const struct mpl_ddp_bucket swap = a.buckets[b];

        a.buckets[b] = a.buckets[a.count - 1 - b];
        a.buckets[a.count - 1 - b] = swap;
    }
    for (uint32_t i = 0; i < ddp->count; i++)
        ddp->members[i].bucket = a.count - 1 - ddp->members[i].bucket;
    initialize(tape, ddp);
}

static struct mpl_tensor *take_numbers(struct mpl_tape *tape, enum mpl_dtype dtype, uint64_t count)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim((int64_t)count));

    return mpl_hold(mpl_empty(tape, "empty.memory_format", dtype, &shape));
}

void mpl_ddp_drop_stale(struct mpl_tape *tape, struct mpl_ddp *ddp)
{
    while (ddp->stale_count)
        mpl_drop(tape, ddp->stale[--ddp->stale_count]);
}

void mpl_ddp_rebuild_buckets(struct mpl_tape *tape, struct mpl_ddp *ddp)
{
    struct mpl_ddp_bucket *old = ddp->buckets;
    struct assignment a = {.buckets = ddp->spare_buckets, .limits = limits_of(ddp)};
    struct mpl_tensor *indices, *sizes;

    for (uint32_t i = 0; i < ddp->arrival_count; i++)
        ddp->members[ddp->arrivals[i]].bucket =
            assign(&a, ddp->members[ddp->arrivals[i]].parameter);
    indices = take_numbers(tape, MPL_INT32, (uint64_t)ddp->count + 1);
    sizes = take_numbers(tape, MPL_INT32, a.count);
    mpl_drop(tape, sizes);
    mpl_drop(tape, indices);
    for (uint32_t b = 0; b < ddp->bucket_count; b++) /* gradients may still look at them */
        ddp->stale[ddp->stale_count++] = old[b].contents;
    if (!tape->has_kernel_scratch || !mpl_version_at_least(&tape->pytorch, 2, 8, 0) ||
        mpl_ddp_compresses(ddp, old)) /* what was sent is another tensor */
        mpl_ddp_drop_stale(tape, ddp);
    ddp->buckets = a.buckets;
    ddp->bucket_count = a.count;
    ddp->spare_buckets = old;
    ddp->has_rebuilt = ddp->has_changed = true;
    initialize(tape, ddp);
}

/* ---- broadcasts -------------------------------------------------------------------------------
 */

/* A flat copy; a single tensor is sent as it is. */
static void start(struct mpl_tape *tape, struct mpl_ddp_bucket *bucket)
{
    if (bucket->count > 1)
        take_contents(tape, bucket, "cat.default");
}

void mpl_ddp_broadcast(struct mpl_tape *tape, struct mpl_parameter *const *list, uint32_t count)
{
    struct assignment a = {.limits = {BROADCAST_BYTES, BROADCAST_BYTES}};

    a.buckets = mpl_arena_zalloc(&tape->arena, (count + 1) * sizeof(*a.buckets));
    if (!a.buckets || !list) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        assign(&a, list[i]);
    for (uint32_t b = 0; b < a.count + IN_FLIGHT; b++) {
        if (b >= IN_FLIGHT)
            mpl_drop(tape, a.buckets[b - IN_FLIGHT].contents);
        if (b < a.count)
            start(tape, &a.buckets[b]);
    }
}

void mpl_ddp_broadcast_network(struct mpl_tape *tape, const struct mpl_network *network,
                               bool only_buffers)
{
    const uint32_t room = network->parameter_count;
    struct mpl_parameter **list = mpl_arena_zalloc(&tape->arena, (room + 1) * sizeof(*list));
    uint32_t count = 0;

    for (uint32_t i = 0; i < room && list && !only_buffers; i++)
        if (!network->parameters[i].is_buffer)
            list[count++] = &network->parameters[i];
    for (uint32_t i = 0; i < room && list && network->plan->parallelism.broadcast_buffers; i++)
        if (network->parameters[i].is_buffer)
            list[count++] = &network->parameters[i];
    mpl_ddp_broadcast(tape, list, count);
}

/* Ranks compare the number of their parameters, then their shapes and strides.
 * source: torch/csrc/distributed/c10d/reducer.cpp (verify_params_across_processes) */
void mpl_ddp_verify_parameters(struct mpl_tape *tape, const struct mpl_ddp *ddp)
{
    const uint64_t ranks = (uint64_t)ddp->network->plan->parallelism.world_size;
    struct mpl_tensor *mine = take_numbers(tape, MPL_INT64, 1);
    struct mpl_tensor **theirs = mpl_arena_zalloc(&tape->arena, (ranks + 1) * sizeof(*theirs));
    uint64_t numbers = 0;

    for (uint64_t i = 0; i < ranks && theirs; i++)
        theirs[i] = take_numbers(tape, MPL_INT64, 1);
    mpl_drop(tape, take_numbers(tape, MPL_INT64, ranks)); /* NCCL gathers into one tensor */
    for (uint32_t i = 0; i < ddp->count; i++)
        numbers += 2 * (uint64_t)ddp->members[i].parameter->shape.ndim;
    mpl_drop(tape, take_numbers(tape, MPL_INT64, numbers));
    for (uint64_t i = 0; i < ranks && theirs; i++)
        mpl_drop(tape, theirs[i]);
    mpl_drop(tape, mine);
}
