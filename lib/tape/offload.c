/* SPDX-License-Identifier: MIT */
/*
 * Saved tensors that wait on the host.
 *
 * source: torch/autograd/graph.py (save_on_cpu: pack_to_cpu, unpack_from_cpu), release 2.13.0. What
 * comes back is a contiguous tensor of its own, of the saved view's size, at every unpacking.
 */
#include "tape/tape.h"

const struct mpl_host_copy *mpl_host_pack(struct mpl_tape *tape, const struct mpl_tensor *tensor)
{
    struct mpl_host_copy *copy = mpl_arena_zalloc(&tape->arena, sizeof(*copy));

    if (!copy) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return NULL;
    }
    copy->shape = tensor->shape;
    copy->dtype = tensor->dtype;
    copy->requires_grad = tensor->requires_grad;
    return copy;
}

struct mpl_tensor *mpl_host_unpack(struct mpl_tape *tape, const struct mpl_host_copy *copy)
{
    struct mpl_tensor *tensor =
        mpl_hold(mpl_empty(tape, "_to_copy.default", (enum mpl_dtype)copy->dtype, &copy->shape));

    if (!tensor->is_void)
        tensor->requires_grad = copy->requires_grad;
    return tensor;
}
