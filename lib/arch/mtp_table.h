/* SPDX-License-Identifier: MIT */
/* The compiled backward of an MTP layer. For arch/mtp*.c only. */
#ifndef MPL_ARCH_MTP_TABLE_H
#define MPL_ARCH_MTP_TABLE_H

#include "arch/mtp.h"

/** Numbers of the table's values: buffers, then what comes from outside. */
enum {
    MPL_MTP_FINAL_PARTIAL = 0,
    MPL_MTP_D_FINAL_NORM,
    MPL_MTP_D_OUTPUT,
    MPL_MTP_D_DOWN_WEIGHT,
    MPL_MTP_D_PRODUCT,
    MPL_MTP_D_UPPED,
    MPL_MTP_D_UP_WEIGHT,
    MPL_MTP_D_FROM_UP,
    MPL_MTP_D_GATED,
    MPL_MTP_D_GATE_WEIGHT,
    MPL_MTP_D_FROM_GATE,
    MPL_MTP_POST_PARTIAL,
    MPL_MTP_D_POST_NORM,
    MPL_MTP_D_RESIDUAL,
    MPL_MTP_D_O_WEIGHT,
    MPL_MTP_D_ATTENTION,
    MPL_MTP_D_QUERY,
    MPL_MTP_D_KEY,
    MPL_MTP_D_VALUE,
    MPL_MTP_D_KEY_SUM, /* over the queries of a group */
    MPL_MTP_D_V,
    MPL_MTP_D_V_WEIGHT,
    MPL_MTP_D_FROM_V,
    MPL_MTP_D_K_NORMED,
    MPL_MTP_K_PARTIAL,
    MPL_MTP_K_SUM,
    MPL_MTP_D_K_NORM,
    MPL_MTP_D_K,
    MPL_MTP_D_K_WEIGHT,
    MPL_MTP_D_FROM_K,
    MPL_MTP_D_Q_NORMED,
    MPL_MTP_Q_PARTIAL,
    MPL_MTP_Q_SUM,
    MPL_MTP_D_Q_NORM,
    MPL_MTP_D_Q,
    MPL_MTP_D_Q_WEIGHT,
    MPL_MTP_D_FROM_Q,
    MPL_MTP_INPUT_PARTIAL,
    MPL_MTP_D_INPUT_NORM,
    MPL_MTP_D_PROJECTED,
    MPL_MTP_D_PROJECTION,
    MPL_MTP_D_JOINED,
    MPL_MTP_TOKEN_PARTIAL,
    MPL_MTP_D_TOKEN_NORM,
    MPL_MTP_HIDDEN_PARTIAL,
    MPL_MTP_D_HIDDEN_NORM,
    MPL_MTP_D_X,

    MPL_MTP_IN_FIRST,
    MPL_MTP_X = MPL_MTP_IN_FIRST,
    MPL_MTP_EMBEDS,
    MPL_MTP_COS,
    MPL_MTP_SIN,
    MPL_MTP_HIDDEN_RSTD,
    MPL_MTP_TOKEN_RSTD,
    MPL_MTP_JOINED,
    MPL_MTP_PROJECTED,
    MPL_MTP_RSTD,
    MPL_MTP_NORMED,
    MPL_MTP_Q_RAW,
    MPL_MTP_Q_RSTD,
    MPL_MTP_K_RAW,
    MPL_MTP_K_RSTD,
    MPL_MTP_QUERY,
    MPL_MTP_KEY,
    MPL_MTP_VALUE,
    MPL_MTP_MASK,
    MPL_MTP_ATTENTION,
    MPL_MTP_LSE,
    MPL_MTP_SEED,
    MPL_MTP_OFFSET,
    MPL_MTP_RESIDUAL,
    MPL_MTP_POST_RSTD,
    MPL_MTP_POST_NORMED,
    MPL_MTP_GATED,
    MPL_MTP_UPPED,
    MPL_MTP_PRODUCT,
    MPL_MTP_OUTPUT,
    MPL_MTP_FINAL_RSTD,
    MPL_MTP_IN_END,

    MPL_MTP_TANGENT = MPL_MTP_IN_END,
    MPL_MTP_VALUES,
};

struct mpl_mtp_compiled {
    struct mpl_inductor_graph graph;
    struct mpl_inductor_plan plan;
    bool is_ready;
};

/** What attention's backward takes inside itself. context: const struct mpl_mtp. */
void mpl_mtp_attention_scratch(struct mpl_tape *tape, const void *context);

/** The graph that gives a gradient of x, or the one that does not. */
struct mpl_mtp_compiled *mpl_mtp_compiled(const struct mpl_mtp *m, bool needs_x);

#endif
