/* SPDX-License-Identifier: MIT */
/*
 * Books what CUDA kernels take inside one operator (op/scratch.h) on the tape, around the results
 * of the operator. Where the run is not on a card (tape->has_kernel_scratch is false) only the
 * results are made.
 */
#ifndef MPL_OP_SCRATCH_BOOK_H
#define MPL_OP_SCRATCH_BOOK_H

#include "op/scratch.h"
#include "tape/tape.h"

/** Makes result number `which` of an operator; held. */
typedef struct mpl_tensor *mpl_book_result(struct mpl_tape *tape, void *context, int which);

/** One operator: its name, how its memory grows with the sequence, and its results. */
struct mpl_book {
    const char *op;
    uint8_t degree;
    mpl_book_result *make; /* NULL: the operator's result is made elsewhere */
    void *context;
    struct mpl_tensor **results; /* what make returned, by number */
};

/** Runs a list: requests are taken and given back, results are made in their place. */
void mpl_book_run(struct mpl_tape *tape, const struct mpl_scratch *list,
                  const struct mpl_book *book);

/** A held buffer of a kernel. */
struct mpl_tensor *mpl_book_buffer(struct mpl_tape *tape, const char *op, uint64_t bytes,
                                   uint8_t degree);

struct mpl_scratch_card mpl_book_card(const struct mpl_tape *tape);

#endif
