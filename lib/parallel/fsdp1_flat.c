/* SPDX-License-Identifier: MIT */
/*
 * FSDP1: flat parameters: how they are laid out, made, gathered and looked at.
 *
 * source: torch/distributed/fsdp/_flat_param.py (FlatParamHandle: _init_flat_param_and_metadata,
 * shard, init_flat_param_attributes, pre_unshard, unshard, post_unshard, reshard, post_reshard,
 * _use_unsharded_views), _runtime_utils.py (_unshard, _reshard)
 */
#include "base/bytes.h"
#include "op/linear_4bit.h"
#include "parallel/fsdp1_unit.h"
#include "parallel/ranks.h"

#define ALIGNMENT_BYTES 16

/* ---- layout -----------------------------------------------------------------------------------
 */

static void add_padding(struct mpl_fsdp1_unit *unit, uint64_t multiple)
{
    const uint64_t over = unit->numel % multiple;

    if (!over)
        return;
    unit->pieces[unit->count++] = (struct mpl_fsdp1_piece){NULL, unit->numel, multiple - over};
    unit->numel = mpl_add(unit->numel, multiple - over);
}

/* With use_orig_params each parameter begins at a multiple of 16 bytes, and the whole divides by
 * the ranks. The list has room for it. */
void mpl_fsdp1_lay_out(struct mpl_fsdp1_unit *unit)
{
    const struct mpl_fsdp1 *fsdp = unit->fsdp;
    const uint32_t count = unit->count;
    const struct mpl_fsdp1_piece *parameters = unit->pieces + count; /* copied to the far end */
    const uint64_t aligned = ALIGNMENT_BYTES / mpl_dtype_size(unit->compute_dtype);
    uint64_t numel;

    for (uint32_t i = count; i--;)
        unit->pieces[count + i] = unit->pieces[i];
    unit->count = 0;
    unit->numel = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct mpl_parameter *p = parameters[i].parameter;

        if (fsdp->uses_originals)
            add_padding(unit, aligned);
        numel = mpl_parameter_stored_numel(p);
        unit->pieces[unit->count++] = (struct mpl_fsdp1_piece){p, unit->numel, numel};
        unit->numel = mpl_add(unit->numel, numel);
    }
    if (fsdp->uses_originals)
        add_padding(unit, (uint64_t)fsdp->network->plan->parallelism.world_size /
                              (uint64_t)fsdp->network->plan->parallelism.replicate);
    unit->shard_numel = mpl_ceil_div(unit->numel, fsdp->shards);
}

/* ---- making one -------------------------------------------------------------------------------
 */

/* The leaf that an optimizer sees: what of a parameter lies in this rank's shard; without
 * use_orig_params the first one stands for the whole shard. */
static void make_leaf(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit, uint32_t i)
{
    const struct mpl_fsdp1_piece *piece = &unit->pieces[i];
    const int64_t rank = unit->fsdp->network->plan->parallelism.rank;
    const uint64_t low = unit->fsdp->shards > 1 && rank > 0
                             ? mpl_mul((uint64_t)rank % unit->fsdp->shards, unit->shard_numel)
                             : 0;
    const uint64_t high = mpl_add(low, unit->shard_numel);
    uint64_t first = piece->start > low ? piece->start : low, last = piece->start + piece->numel;
    struct mpl_shape shape;

    if (last > high)
        last = high;
    if (!unit->fsdp->uses_originals) {
        first = 0;
        last = i ? 0 : unit->shard_numel;
    }
    shape = mpl_shape1(mpl_dim(last > first ? (int64_t)(last - first) : 0));
    piece->parameter->shard = mpl_hold(mpl_alias_shaped(tape, unit->shard, &shape));
    if (!piece->parameter->shard->is_void)
        piece->parameter->shard->requires_grad = piece->parameter->is_trainable;
}

/* The modules let go of their weights; a list of flat ones goes from its end. */
static void drop_originals(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    for (uint32_t i = 0; i < unit->count; i++) {
        const uint32_t k = unit->fsdp->uses_originals ? i : unit->count - 1 - i;
        struct mpl_parameter *p = unit->pieces[k].parameter;

        if (!p)
            continue;
        mpl_drop(tape, p->tensor);
        p->tensor = NULL;
        if (p->quantized)
            p->quantized->packed = NULL;
    }
}

void mpl_fsdp1_flatten(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    const struct mpl_shape flat_shape =
        mpl_shape1(mpl_dim(unit->numel > INT64_MAX ? INT64_MAX : (int64_t)unit->numel));
    struct mpl_tensor *flat = mpl_take_flat(tape, tape->stream, MPL_CATEGORY_PARAMETERS,
                                            "cat.default", unit->dtype, unit->numel);

    unit->shard = flat;
    if (unit->fsdp->shards > 1)
        unit->shard = mpl_take_flat(tape, tape->stream, MPL_CATEGORY_PARAMETERS, "clone.default",
                                    unit->dtype, unit->shard_numel);
    if (unit->fsdp->shards > 1)
        mpl_drop(tape, flat);
    drop_originals(tape, unit);
    for (uint32_t i = 0; i < unit->count; i++)
        if (unit->pieces[i].parameter)
            make_leaf(tape, unit, i);
    unit->leaf = mpl_hold(mpl_alias_shaped(tape, unit->shard, &flat_shape));
    if (unit->leaf->is_void)
        return;
    unit->leaf->requires_grad = unit->is_trained;
    unit->leaf->dtype = (uint8_t)unit->compute_dtype;
    if (unit->fsdp->offloads) /* to the host */
        mpl_storage_release(tape, unit->shard->storage);
}

/* An emptied buffer. */
static struct mpl_tensor *make_empty(struct mpl_tape *tape, enum mpl_category category,
                                     const char *op, enum mpl_dtype dtype, uint64_t numel)
{
    struct mpl_tensor *buffer = mpl_take_flat(tape, tape->stream, category, op, dtype, numel);

    if (!buffer->is_void)
        mpl_storage_release(tape, buffer->storage);
    return buffer;
}

/* Low-precision shard, gathered parameter, and with another format one in full precision that
 * training never fills. */
void mpl_fsdp1_init_buffers(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    const uint64_t whole = mpl_mul(unit->shard_numel, unit->fsdp->shards);
    const bool is_mixed = unit->compute_dtype != unit->dtype; /* _uses_param_mixed_precision */

    if (is_mixed)
        unit->low_shard = make_empty(tape, MPL_CATEGORY_COMMUNICATION, "empty_like.default",
                                     unit->compute_dtype, unit->shard_numel);
    if (unit->fsdp->shards == 1)
        return;
    unit->gathered = make_empty(tape, MPL_CATEGORY_PARAMETERS, "empty.memory_format",
                                unit->compute_dtype, whole);
    if (is_mixed)
        mpl_drop(tape, make_empty(tape, MPL_CATEGORY_PARAMETERS, "empty.memory_format", unit->dtype,
                                  whole));
}

/* ---- gathering --------------------------------------------------------------------------------
 */

static void refill(struct mpl_tape *tape, enum mpl_stream stream, enum mpl_category category,
                   struct mpl_tensor *buffer)
{
    const enum mpl_stream old = tape->stream;

    if (!buffer || buffer->is_void)
        return;
    tape->stream = stream;
    tape->category = category;
    mpl_storage_refill(tape, buffer, "resize_storage");
    tape->stream = old;
    tape->category = MPL_CATEGORY_TEMPORARY;
}

static void release(struct mpl_tape *tape, struct mpl_tensor *buffer)
{
    if (buffer && !buffer->is_void)
        mpl_storage_release(tape, buffer->storage);
}

/* A shard that lies on the host comes to the device every time, even to a unit that is gathered:
 * shape [shard]. A cast frees it at once, and a flat parameter when it looks at what is gathered;
 * original parameters look at it until the reshard. Held, or NULL. */
static struct mpl_tensor *bring_shard(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    struct mpl_tensor *shard;

    if (!unit->fsdp->offloads)
        return NULL;
    shard = mpl_take_flat(tape, MPL_STREAM_PRE_UNSHARD, MPL_CATEGORY_COMMUNICATION,
                          "_to_copy.default", unit->dtype, unit->shard_numel);
    if (!unit->low_shard && !unit->fsdp->uses_originals)
        return shard;
    if (!unit->low_shard) {
        mpl_drop(tape, unit->brought);
        unit->brought = shard;
        return NULL;
    }
    mpl_drop(tape, shard);
    return NULL;
}

void mpl_fsdp1_unshard(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    const bool is_sharded = unit->fsdp->shards > 1;
    struct mpl_tensor *shard;

    if (tape->is_stopped || (is_sharded && unit->gathered->storage->bytes && !unit->fsdp->offloads))
        return;
    refill(tape, MPL_STREAM_PRE_UNSHARD,
           is_sharded ? MPL_CATEGORY_COMMUNICATION : MPL_CATEGORY_PARAMETERS, unit->low_shard);
    shard = bring_shard(tape, unit);
    if (!is_sharded)
        return;
    refill(tape, MPL_STREAM_UNSHARD, MPL_CATEGORY_PARAMETERS, unit->gathered);
    mpl_drop(tape, shard);
    release(tape, unit->low_shard);
}

void mpl_fsdp1_reshard(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit, bool frees_gathered)
{
    if (frees_gathered || unit->fsdp->is_resharded) { /* _use_sharded_views */
        mpl_drop(tape, unit->brought);
        unit->brought = NULL;
    }
    if (unit->fsdp->shards == 1)
        release(tape, unit->low_shard);
    else if (frees_gathered)
        release(tape, unit->gathered);
    unit->is_prefetched = false;
}

/* ---- views ------------------------------------------------------------------------------------
 */

/* Backward of split: the flat gradient [numel]; pieces without a gradient are zeros meanwhile.
 * The engine runs a node on the stream of its forward, and the views are made while the unit is
 * gathered (_use_unsharded_flat_param). */
static void split_backward(struct mpl_tape *tape, struct mpl_node *node,
                           struct mpl_tensor **grads_out, struct mpl_tensor **grads_in)
{
    const struct mpl_fsdp1_unit *unit = node->context;

    for (uint32_t i = 0; i < unit->count; i++)
        if (!grads_out[i])
            grads_out[i] =
                mpl_take_flat(tape, MPL_STREAM_UNSHARD, MPL_CATEGORY_TEMPORARY, "zeros.default",
                              unit->compute_dtype, unit->pieces[i].numel);
    grads_in[0] = mpl_take_flat(tape, MPL_STREAM_UNSHARD, MPL_CATEGORY_GRADIENTS, "cat.default",
                                unit->compute_dtype, unit->numel);
}

void mpl_fsdp1_use_views(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    struct mpl_tensor *source = unit->gathered    ? unit->gathered
                                : unit->low_shard ? unit->low_shard
                                                  : unit->shard;
    struct mpl_node *node = mpl_node_new(tape, "SplitWithSizesBackward0", split_backward,
                                         &unit->leaf, 1, (int)unit->count, 0);

    if (node) {
        node->context = unit;
        node->refs++; /* ours, until every view has its own */
    }
    for (uint32_t i = 0; i < unit->count; i++) {
        struct mpl_parameter *p = unit->pieces[i].parameter;
        struct mpl_tensor *view;

        if (!p)
            continue;
        view = mpl_hold(mpl_alias_shaped(tape, source, &p->shape));
        if (node) {
            node->refs++;
            mpl_set_history(tape, view, node, 0);
            view->output_nr = view->is_void ? 0 : (uint8_t)i;
        }
        mpl_drop(tape, p->tensor);
        p->tensor = view;
    }
    if (node) {
        mpl_node_unref(tape, node);
        mpl_node_unref(tape, node);
    }
}

/* ---- ranks ------------------------------------------------------------------------------------
 */

uint64_t mpl_fsdp1_shards(const struct mpl_network *network)
{
    const struct mpl_fsdp1 *fsdp = network->wrapped;

    return fsdp->shards;
}

void mpl_fsdp1_sign(const struct mpl_network *network, struct mpl_rank_signs *signs)
{
    const struct mpl_fsdp1 *fsdp = network->wrapped;

    for (uint32_t u = 0; u < fsdp->count; u++)
        for (uint32_t i = 0; i < fsdp->units[u].count; i++) {
            const struct mpl_fsdp1_piece *piece = &fsdp->units[u].pieces[i];

            if (piece->parameter && piece->parameter->is_trainable)
                mpl_rank_sign_row(signs, piece->start, piece->numel, fsdp->units[u].shard_numel,
                                  fsdp->units[u].dtype);
        }
}
