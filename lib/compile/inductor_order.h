/* SPDX-License-Identifier: MIT */
/* The chosen order of kernels. For compile/inductor*.c only. */
#ifndef MPL_COMPILE_INDUCTOR_ORDER_H
#define MPL_COMPILE_INDUCTOR_ORDER_H

#include "compile/inductor.h"

/** Sets the plan's order, method and estimate; levels takes kernel_count + 1 sums. Returns the
 * expected peak, bytes. */
int64_t mpl_inductor_choose(const struct mpl_inductor_graph *graph, struct mpl_inductor_plan *plan,
                            int64_t *levels);

#endif
