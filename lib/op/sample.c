/* SPDX-License-Identifier: MIT */
/*
 * Drawing one index from each row of probabilities.
 *
 * source: aten/src/ATen/native/Distributions.cpp (multinomial_out, one sample a row); requests seen
 * with PyTorch 2.14.1
 */
#include "op/rule.h"
#include "op/scratch_book.h"

#define NAME "multinomial.default"

static struct mpl_tensor *scalar(struct mpl_tape *tape, enum mpl_dtype dtype)
{
    return mpl_book_buffer(tape, NAME, mpl_dtype_bytes(dtype, 1), 0);
}

/* min and max of all elements: the kernel's partial results are pairs. */
static void book_range(struct mpl_tape *tape, const struct mpl_tensor *a)
{
    const struct mpl_scratch_card card = mpl_book_card(tape);
    const struct mpl_book book = {.op = NAME};
    struct mpl_scratch list;

    mpl_scratch_reduce_columns(&card, MPL_FLOAT32, MPL_FLOAT32, 1, mpl_numel(a), &list);
    if (list.count) /* the first request holds the partial results, four bytes each */
        list.steps[0].bytes =
            list.steps[0].bytes / 4 * (2 * mpl_dtype_size((enum mpl_dtype)a->dtype));
    mpl_book_run(tape, &list, &book);
}

/* What is checked: elements between 0 and infinity, no row that adds up to 0. */
static void book_checks(struct mpl_tape *tape, const struct mpl_tensor *a)
{
    const struct mpl_scratch_card card = mpl_book_card(tape);
    const struct mpl_book book = {.op = NAME};
    const enum mpl_dtype dtype = (enum mpl_dtype)a->dtype;
    const uint64_t rows = (uint64_t)a->shape.dim[0].n;
    struct mpl_tensor *below = scalar(tape, MPL_BOOL), *above = scalar(tape, MPL_BOOL);
    struct mpl_tensor *is_valid = scalar(tape, MPL_BOOL), *sums, *are_zero, *is_any;
    struct mpl_scratch list;

    mpl_drop(tape, above);
    mpl_drop(tape, below);
    sums = mpl_book_buffer(tape, NAME, mpl_dtype_bytes(dtype, rows), a->shape.dim[0].degree);
    mpl_scratch_reduce_columns(&card, dtype, dtype, a->shape.dim[0].n, a->shape.dim[1].n, &list);
    mpl_book_run(tape, &list, &book);
    are_zero = mpl_book_buffer(tape, NAME, rows, a->shape.dim[0].degree);
    is_any = scalar(tape, MPL_BOOL);
    mpl_drop(tape, are_zero);
    mpl_drop(tape, sums);
    mpl_drop(tape, scalar(tape, MPL_BOOL));
    mpl_drop(tape, mpl_book_buffer(tape, NAME, mpl_dtype_bytes(dtype, (uint64_t)mpl_numel(a)),
                                   (uint8_t)(a->shape.dim[0].degree + a->shape.dim[1].degree)));
    mpl_drop(tape, is_any);
    mpl_drop(tape, is_valid);
}

struct mpl_tensor *mpl_op_multinomial(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_tensor *out, *least, *most;
    struct mpl_shape shape;

    if (a->is_void)
        return a;
    shape = mpl_shape2(a->shape.dim[0], mpl_dim(1));
    out = mpl_empty(tape, NAME, MPL_INT64, &shape);
    if (tape->has_kernel_scratch && !out->is_void) {
        least = scalar(tape, (enum mpl_dtype)a->dtype);
        most = scalar(tape, (enum mpl_dtype)a->dtype);
        book_range(tape, a);
        book_checks(tape, a);
        mpl_drop(tape, least);
        mpl_drop(tape, most);
    }
    mpl_consume(tape, a);
    return out;
}
