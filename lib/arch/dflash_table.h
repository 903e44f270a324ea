/* SPDX-License-Identifier: MIT */
/* The compiled backward of a DFlash layer. For arch/dflash_layer.c and dflash_table.c only. */
#ifndef MPL_ARCH_DFLASH_TABLE_H
#define MPL_ARCH_DFLASH_TABLE_H

#include "arch/dflash.h"

/** Numbers of the table's values: buffers, then what comes from outside. */
enum {
    MPL_DFLASH_D_DOWN_WEIGHT = 0,
    MPL_DFLASH_D_PRODUCT,
    MPL_DFLASH_D_UPPED,
    MPL_DFLASH_D_UP_WEIGHT,
    MPL_DFLASH_D_FROM_UP,
    MPL_DFLASH_D_GATED,
    MPL_DFLASH_D_GATE_WEIGHT,
    MPL_DFLASH_D_FROM_GATE,
    MPL_DFLASH_POST_PARTIAL,
    MPL_DFLASH_D_POST_NORM,
    MPL_DFLASH_D_RESIDUAL,
    MPL_DFLASH_D_O_WEIGHT,
    MPL_DFLASH_D_ATTENTION,
    MPL_DFLASH_DELTA,
    MPL_DFLASH_D_QUERY,
    MPL_DFLASH_D_VALUE,
    MPL_DFLASH_D_KEY,
    MPL_DFLASH_D_KEY_TURNED,
    MPL_DFLASH_D_K,
    MPL_DFLASH_K_PARTIAL,
    MPL_DFLASH_K_SUM,
    MPL_DFLASH_D_K_NORM,
    MPL_DFLASH_D_V_DRAFTED,
    MPL_DFLASH_V_WEIGHT_DRAFTED,
    MPL_DFLASH_X_FROM_V,
    MPL_DFLASH_D_V_TOKENS,
    MPL_DFLASH_TARGET_FROM_V,
    MPL_DFLASH_D_V_WEIGHT,
    MPL_DFLASH_K_WEIGHT_DRAFTED,
    MPL_DFLASH_X_FROM_K,
    MPL_DFLASH_TARGET_FROM_K,
    MPL_DFLASH_D_TARGET,
    MPL_DFLASH_D_K_WEIGHT,
    MPL_DFLASH_D_QUERY_TURNED,
    MPL_DFLASH_D_Q,
    MPL_DFLASH_Q_PARTIAL,
    MPL_DFLASH_Q_SUM,
    MPL_DFLASH_D_Q_NORM,
    MPL_DFLASH_D_Q_WEIGHT,
    MPL_DFLASH_X_FROM_Q,
    MPL_DFLASH_INPUT_PARTIAL,
    MPL_DFLASH_D_INPUT_NORM,
    MPL_DFLASH_D_X,

    MPL_DFLASH_IN_FIRST,
    MPL_DFLASH_PRODUCT = MPL_DFLASH_IN_FIRST,
    MPL_DFLASH_GATED,
    MPL_DFLASH_UPPED,
    MPL_DFLASH_POST_NORMED,
    MPL_DFLASH_POST_RSTD,
    MPL_DFLASH_PROJECTED,
    MPL_DFLASH_ATTENTION_T,
    MPL_DFLASH_ATTENTION,
    MPL_DFLASH_LSE,
    MPL_DFLASH_QUERY,
    MPL_DFLASH_KEY,
    MPL_DFLASH_VALUE,
    MPL_DFLASH_K_RAW,
    MPL_DFLASH_K_RSTD,
    MPL_DFLASH_Q_RAW,
    MPL_DFLASH_Q_RSTD,
    MPL_DFLASH_NORMED,
    MPL_DFLASH_RSTD,
    MPL_DFLASH_X,
    MPL_DFLASH_TARGET,
    MPL_DFLASH_COS,
    MPL_DFLASH_SIN,
    MPL_DFLASH_IN_END,

    MPL_DFLASH_TANGENT = MPL_DFLASH_IN_END,
    MPL_DFLASH_VALUES,
};

struct mpl_dflash_compiled {
    struct mpl_inductor_graph graph;
    struct mpl_inductor_plan plan;
    bool is_ready;
};

/** The graph that gives a gradient of x, or the one that does not. */
struct mpl_dflash_compiled *mpl_dflash_compiled(const struct mpl_dflash *d, bool needs_x);

#endif
