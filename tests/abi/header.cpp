/* SPDX-License-Identifier: MIT */
/* The public header compiles alone as C++. */
#include <memplan.h>

static_assert(sizeof(struct memplan_error) == 792, "memplan_error has the layout it has in C");
