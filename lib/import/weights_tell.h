/* SPDX-License-Identifier: MIT */
/* What was found out of a set of tensors, between weights_tell.c and weights_print.c. */
#ifndef MPL_IMPORT_WEIGHTS_TELL_H
#define MPL_IMPORT_WEIGHTS_TELL_H

#include "import/weights.h"

struct mpl_weights_told {
    uint64_t parameters, beside; /* elements: of the language model, of other parts */
    const char *beside_name;     /* one of these parts */
    size_t base_tensors, unread; /* without adapters; known by name alone */
    const char *unlisted;        /* a tensor that the index does not know; NULL: none */
    const char *head;            /* name of the output head; NULL: none */
    const char *kind, *example;  /* of quantisation, a tensor that shows it; NULL: none */
    const char *odd;             /* a tensor in a format that no weight trains in; NULL: none */
    const struct mpl_weights_dtype *odd_dtype;
    bool is_double;  /* bitsandbytes' nested scales */
    json_t *dtypes;  /* format to parameters */
    json_t *ranks;   /* of adapters: rank to their number */
    json_t *targets; /* names of the layers that have some */
    json_t *saved;   /* of those that are trained as a whole */
    const struct mpl_weights_dtype *adapter_dtype;
    const char *adapter_file_tensor; /* one of them */
    bool has_dora;
    MPL_VEC(struct mpl_weight) names; /* that only the index knows */
};

/** One tensor of an adapter. (weights_print.c) */
void mpl_weights_tell_adapter(const struct mpl_weight *weight, struct mpl_weights_told *told);

enum memplan_status mpl_weights_print(const struct memplan_weights *weights,
                                      const struct mpl_weights_told *told, char **json_out,
                                      struct memplan_error *err);

#endif
