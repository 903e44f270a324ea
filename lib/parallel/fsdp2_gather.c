/* SPDX-License-Identifier: MIT */
/*
 * FSDP2: all-gathers, and the buffers of unsharded parameters.
 *
 * source: torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py (foreach_all_gather,
 * foreach_all_gather_copy_out), _fsdp_param_group.py (unshard, wait_for_unshard), _fsdp_param.py
 */
#include "op/linear_float8.h"
#include "parallel/fsdp2_group.h"
#include "parallel/strategy.h"

struct mpl_tensor *mpl_fsdp2_take(struct mpl_tape *tape, enum mpl_stream stream,
                                  enum mpl_category category, const char *op, enum mpl_dtype dtype,
                                  int64_t numel)
{
    return mpl_take_flat(tape, stream, category, op, dtype, (uint64_t)numel);
}

static int64_t multiply(int64_t a, int64_t b)
{
    const uint64_t product = mpl_mul((uint64_t)a, (uint64_t)b);

    return product > INT64_MAX ? INT64_MAX : (int64_t)product;
}

static int64_t add(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Elements of one rank's part of a parameter: its shard, or what it keeps after forward. */
static int64_t part_of(const struct mpl_fsdp2_group *group, const struct mpl_fsdp2_parameter *p)
{
    return multiply(p->shard_numel, group->fsdp->shards) / mpl_fsdp2_sources(group);
}

/* Elements, and the format, of one rank's part of the all-gather: shards [shard_numel] one after
 * another; bytes when their formats differ (_get_all_gather_input_metadatas). */
static int64_t gather_input(const struct mpl_fsdp2_group *group, enum mpl_dtype *dtype_out)
{
    enum mpl_dtype dtype = mpl_fsdp2_gathered_dtype(&group->parameters[0]);
    int64_t numel = 0;

    for (uint32_t i = 0; i < group->count; i++)
        if (mpl_fsdp2_gathered_dtype(&group->parameters[i]) != dtype)
            dtype = MPL_UINT8;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct mpl_fsdp2_parameter *p = &group->parameters[i];

        const uint32_t size = mpl_dtype_size(mpl_fsdp2_gathered_dtype(p));
        const int64_t part = part_of(group, p);

        numel = add(numel, dtype == MPL_UINT8 ? multiply(part, size) : part);
    }
    *dtype_out = dtype;
    return numel;
}

/* Elements of the shards that are cast before they are gathered. */
static int64_t cast_numel(const struct mpl_fsdp2_group *group)
{
    int64_t numel = 0;

    for (uint32_t i = 0; i < group->count; i++) {
        const struct mpl_fsdp2_parameter *p = &group->parameters[i];

        if (!p->is_float8 && p->dtype != p->parameter->dtype)
            numel = add(numel, p->shard_numel);
    }
    return numel;
}

/* Shards that are gathered in float8 are cast one by one. */
static void cast_to_float8(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    const enum mpl_stream current = tape->stream;

    tape->stream = MPL_STREAM_ALL_GATHER_COPY_IN;
    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];
        struct mpl_float8_operand operand;

        if (!p->is_float8)
            continue;
        operand = mpl_float8_cast_shard(tape, p->parameter->shard, p->parameter->float8);
        mpl_drop(tape, p->scale); /* of an all-gather that nobody waited for */
        p->codes = operand.codes;
        p->scale = operand.scale;
    }
    tape->stream = current;
}

/* fsdp_post_all_gather: the parameters get the scales that came with their codes. */
static void set_scales(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];

        if (!p->is_float8)
            continue;
        mpl_drop(tape, p->parameter->float8_scale);
        p->parameter->float8_scale = p->scale;
        p->scale = NULL;
    }
}

/* Shards on the host are copied to the device one by one, and there cast one by one; held, in
 * list. */
static void bring_shards(struct mpl_tape *tape, const struct mpl_fsdp2_group *group,
                         struct mpl_tensor **list)
{
    for (uint32_t i = 0; i < group->count && list; i++) {
        const struct mpl_fsdp2_parameter *p = &group->parameters[i];
        struct mpl_tensor *copy =
            mpl_fsdp2_take(tape, MPL_STREAM_ALL_GATHER_COPY_IN, MPL_CATEGORY_COMMUNICATION,
                           "_to_copy.default", p->parameter->dtype, p->shard_numel);

        list[i] = copy;
        if (p->dtype == p->parameter->dtype)
            continue;
        list[i] = mpl_fsdp2_take(tape, MPL_STREAM_ALL_GATHER_COPY_IN, MPL_CATEGORY_COMMUNICATION,
                                 "_to_copy.default", p->dtype, p->shard_numel);
        mpl_drop(tape, copy);
    }
    if (!list)
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
}

void mpl_fsdp2_unshard(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    const int64_t cast = group->is_kept ? 0 : cast_numel(group); /* is kept in that format */
    struct mpl_tensor *copies = NULL, **list = NULL;
    enum mpl_dtype dtype;
    int64_t numel;

    if (group->is_pending || group->is_unsharded || !group->count || tape->is_stopped)
        return;
    group->is_pending = true;
    if (group->fsdp->shards == 1)
        return;
    cast_to_float8(tape, group);
    if (group->fsdp->offloads && !group->is_kept) {
        list = mpl_arena_zalloc(&tape->arena, (group->count + 1) * sizeof(*list));
        bring_shards(tape, group, list);
    } else if (cast)
        copies = mpl_fsdp2_take(tape, MPL_STREAM_ALL_GATHER_COPY_IN, MPL_CATEGORY_COMMUNICATION,
                                "empty.memory_format", group->policy.param_dtype, cast);
    numel = gather_input(group, &dtype);
    group->gather =
        mpl_fsdp2_take(tape, MPL_STREAM_ALL_GATHER_COPY_IN, MPL_CATEGORY_COMMUNICATION,
                       "empty.memory_format", dtype, multiply(numel, mpl_fsdp2_sources(group)));
    mpl_drop(tape, copies);
    for (uint32_t i = group->count; i-- && list;)
        mpl_drop(tape, list[i]);
    for (uint32_t i = group->count; i--;) {
        mpl_drop(tape, group->parameters[i].codes);
        group->parameters[i].codes = NULL;
    }
}

/* The buffer of one unsharded parameter: made once, then freed and filled again. */
static void fill(struct mpl_tape *tape, struct mpl_fsdp2_group *group,
                 struct mpl_fsdp2_parameter *p)
{
    struct mpl_parameter *parameter = p->parameter;
    const struct mpl_shape shape = mpl_parameter_stored_shape(parameter);

    if (p->gathered) {
        tape->category = MPL_CATEGORY_PARAMETERS;
        mpl_storage_refill(tape, p->gathered, "resize_storage");
        tape->category = MPL_CATEGORY_TEMPORARY;
        return;
    }
    p->gathered =
        mpl_fsdp2_take(tape, tape->stream, MPL_CATEGORY_PARAMETERS, "empty.memory_format",
                       mpl_fsdp2_gathered_dtype(p), multiply(p->shard_numel, group->fsdp->shards));
    parameter->tensor = mpl_hold(mpl_alias_shaped(tape, p->gathered, &shape));
    if (!parameter->tensor->is_void) {
        parameter->tensor->requires_grad = parameter->is_trainable;
        parameter->tensor->dtype = (uint8_t)p->dtype; /* codes pass for what they stand for */
    }
}

/* With one shard there is no collective: shards are cast and copied one by one; the cast copy is a
 * Python local, gone at the next one. */
static void copy_shards(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_tensor *copy = NULL;

    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];
        struct mpl_tensor *next = NULL;

        if (p->dtype != p->parameter->dtype)
            next = mpl_fsdp2_take(tape, tape->stream, MPL_CATEGORY_COMMUNICATION,
                                  "_to_copy.default", p->dtype, p->shard_numel);
        mpl_drop(tape, copy);
        copy = next;
        fill(tape, group, p);
    }
    mpl_drop(tape, copy);
}

/* _to_unsharded(): parts that were kept after forward go. */
static void drop_kept(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    for (uint32_t i = 0; i < group->count && group->is_kept; i++) {
        mpl_drop(tape, group->parameters[i].kept);
        group->parameters[i].kept = NULL;
    }
    group->is_kept = false;
}

void mpl_fsdp2_wait(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_fsdp2 *fsdp = group->fsdp;
    struct mpl_tensor *previous = NULL;

    if (!group->is_pending)
        return;
    if (fsdp->shards == 1) {
        copy_shards(tape, group);
    } else {
        for (uint32_t i = 0; i < group->count; i++)
            fill(tape, group, &group->parameters[i]);
        mpl_fsdp2_book_copy_out(tape, group);
        set_scales(tape, group);
    }
    drop_kept(tape, group);
    group->is_pending = false;
    group->is_unsharded = true;
    if (group->activity == MPL_FSDP2_FORWARD) {
        /* the buffer stays until the next group's copy-out is over: a local of wait_for_unshard
         * holds the previous one until then */
        previous = fsdp->last_gather;
        fsdp->last_gather = group->gather;
    } else {
        previous = group->gather;
    }
    group->gather = NULL;
    mpl_drop(tape, previous);
}

void mpl_fsdp2_reshard(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    drop_kept(tape, group);
    if (!group->is_unsharded)
        return;
    group->is_unsharded = false;
    for (uint32_t i = 0; i < group->count; i++)
        if (group->parameters[i].gathered && !group->parameters[i].gathered->is_void)
            mpl_storage_release(tape, group->parameters[i].gathered->storage);
}

/* shape: [gathered / keepers] of each parameter, a copy before its buffer goes */
void mpl_fsdp2_reshard_after_forward(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    if (!group->keepers || !group->is_unsharded) {
        mpl_fsdp2_reshard(tape, group);
        return;
    }
    group->is_unsharded = false;
    group->is_kept = true;
    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];

        p->kept = mpl_fsdp2_take(tape, tape->stream, MPL_CATEGORY_PARAMETERS, "clone.default",
                                 p->dtype, part_of(group, p));
        if (p->gathered && !p->gathered->is_void)
            mpl_storage_release(tape, p->gathered->storage);
    }
}
