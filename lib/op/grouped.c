/* SPDX-License-Identifier: MIT */
/*
 * Grouped products: rows of one matrix, sorted by group, each with its group's matrix.
 *
 * source: torch/nn/functional.py (grouped_mm), torch/csrc/autograd/FunctionsManual.cpp
 * (_grouped_mm_mat1_backward, _grouped_mm_mat2_backward),
 * aten/src/ATen/native/GroupedMMUtils.h (create_grouped_gemm_output_tensor); PyTorch 2.13.0
 */
#include "op/rule.h"

/* [rows, columns] whose rows begin at multiples of 16 bytes. */
static struct mpl_tensor *make_result(struct mpl_tape *tape, enum mpl_dtype dtype,
                                      const struct mpl_shape *shape)
{
    const int64_t align = 16 / (int64_t)mpl_dtype_size(dtype);
    const int last = shape->ndim - 1;
    int64_t stride[MPL_MAX_DIMS] = {0}, step;

    if (shape->dim[last].n % align == 0)
        return mpl_empty(tape, "_grouped_mm.default", dtype, shape);
    stride[last] = 1;
    step = (shape->dim[last].n + align - 1) / align * align;
    for (int i = last - 1; i >= 0; i--) {
        stride[i] = step;
        step *= shape->dim[i].n;
    }
    return mpl_empty_strided(tape, "_grouped_mm.default", dtype, shape, stride);
}

/* saved: self [rows, k], mat2 [groups, k, n], offsets. mat2's gradient lies as mat2 does; it comes
 * first. */
static void grouped_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)out[0]->dtype;
    struct mpl_tensor *self = NULL, *mat2 = NULL;
    int slot = 0;

    if (mpl_needs(node, 1))
        self = mpl_saved(tape, node, slot++);
    if (mpl_needs(node, 0))
        mat2 = mpl_saved(tape, node, slot++);
    (void)mpl_saved(tape, node, slot);
    if (self && !self->is_void) {
        const struct mpl_edge *edge = &node->edges[1];
        const bool is_transposed = node->arg[0];
        struct mpl_shape shape = mpl_shape3(edge->dim[0], edge->dim[is_transposed ? 2 : 1],
                                            edge->dim[is_transposed ? 1 : 2]);

        in[1] = mpl_hold(make_result(tape, dtype, &shape));
        if (is_transposed && !in[1]->is_void) {
            struct mpl_tensor *view = mpl_hold(mpl_op_transpose(tape, in[1], 1, 2));

            mpl_drop(tape, in[1]);
            in[1] = view;
        }
    }
    if (mat2 && !mat2->is_void) {
        struct mpl_shape shape = mpl_shape2(out[0]->shape.dim[0], node->edges[0].dim[1]);

        in[0] = mpl_hold(make_result(tape, dtype, &shape));
    }
}

struct mpl_tensor *mpl_op_grouped_mm(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *mat2, struct mpl_tensor *offsets)
{
    struct mpl_node *node = mpl_node_new(tape, "GroupedMmBackward0", grouped_backward,
                                         (struct mpl_tensor *[]){a, mat2}, 2, 1, 3);
    struct mpl_tensor *out = tape->void_tensor;

    if (!a->is_void && !mat2->is_void && !offsets->is_void) {
        const struct mpl_shape shape = mpl_shape2(a->shape.dim[0], mat2->shape.dim[2]);

        if (node)
            node->arg[0] = mat2->stride[1] == 1 && mat2->stride[2] == mat2->shape.dim[1].n;
        if (mpl_needs(node, 1))
            mpl_save(tape, node, a);
        if (mpl_needs(node, 0))
            mpl_save(tape, node, mat2);
        mpl_save(tape, node, offsets);
        out = make_result(tape, (enum mpl_dtype)a->dtype, &shape);
    }
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    mpl_consume(tape, mat2);
    return out;
}
