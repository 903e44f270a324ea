/* SPDX-License-Identifier: MIT */
/*
 * What stands around a linear layer: low-rank adapters, weights in 4 bits, copies that train in
 * place of a frozen module. Layers are chosen by name; no family knows of it.
 */
#ifndef MPL_PART_ADAPTER_H
#define MPL_PART_ADAPTER_H

#include "part/linear.h"

/** Parameters of one adapter. */
struct mpl_adapter {
    uint32_t a, b;      /* [r, in], [out, r] */
    uint32_t magnitude; /* DoRA: [out]; else MPL_NO_PARAMETER */
};

/** What the plan puts around a linear layer of that name (network->prefix and name). */
bool mpl_is_adapted(struct mpl_network *network, const char *name);
bool mpl_is_quantized(const struct mpl_network *network, const char *name);

/** Refuses names of the plan that fit no module, or one that cannot have what it is to have. */
enum memplan_status mpl_adapter_check(const struct mpl_network *network, struct memplan_error *err);

/** Adds the adapter behind a linear layer's own parameters. */
void mpl_adapter_add(struct mpl_network *network, const char *name, const struct mpl_linear *linear,
                     int64_t out, int64_t in);

/** Keeps a linear layer's weight in 4 bits. */
void mpl_quantized_add(struct mpl_network *network, const struct mpl_linear *linear, int64_t out,
                       int64_t in);

/** The adapter's forward around the layer's own: x [.., in] to [.., out]. Consumes a floating x;
 * the result is floating. */
struct mpl_tensor *mpl_adapter_call(struct mpl_tape *tape, const struct mpl_network *network,
                                    const struct mpl_linear *linear, struct mpl_tensor *x);

/** Disables the adapters, and the copies of modules that train as a whole, or enables them again.
 */
void mpl_adapters_set(struct mpl_network *network, bool are_enabled);

/** The layer without its adapter. */
struct mpl_tensor *mpl_linear_base_call(struct mpl_tape *tape, const struct mpl_network *network,
                                        const struct mpl_linear *linear, struct mpl_tensor *x);

#endif
