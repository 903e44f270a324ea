/* SPDX-License-Identifier: MIT */
/* Books what CUDA kernels take inside one operator on the tape. */
#include "op/scratch_book.h"

struct mpl_scratch_card mpl_book_card(const struct mpl_tape *tape)
{
    return (struct mpl_scratch_card){tape->compute_capability, tape->multiprocessors};
}

struct mpl_tensor *mpl_book_buffer(struct mpl_tape *tape, const char *op, uint64_t bytes,
                                   uint8_t degree)
{
    const struct mpl_shape shape = mpl_shape1((struct mpl_dim){(int64_t)bytes, degree});
    struct mpl_tensor *buffer;

    tape->is_booking_scratch = true;
    buffer = mpl_hold(mpl_empty(tape, op, MPL_UINT8, &shape));
    tape->is_booking_scratch = false;
    return buffer;
}

void mpl_book_run(struct mpl_tape *tape, const struct mpl_scratch *list,
                  const struct mpl_book *book)
{
    const bool is_spared = mpl_frame_spares(tape, book->op);
    struct mpl_tensor *taken[MPL_SCRATCH_STEPS];
    int count = 0;

    for (int i = 0; i < list->count; i++) {
        const struct mpl_scratch_step *step = &list->steps[i];

        if (is_spared && step->kind != MPL_SCRATCH_RESULT)
            continue;
        if (step->kind == MPL_SCRATCH_TAKE)
            taken[count++] = mpl_book_buffer(tape, book->op, step->bytes, book->degree);
        else if (step->kind == MPL_SCRATCH_GIVE)
            mpl_drop(tape, taken[step->which]);
        else if (book->make)
            book->results[step->which] = book->make(tape, book->context, step->which);
    }
}
