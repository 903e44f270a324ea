/* SPDX-License-Identifier: MIT */
/* The order that numpy gives: np.random.default_rng(seed).permutation(n). */
#ifndef MPL_PACK_RANDOM_H
#define MPL_PACK_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/** Shuffles count values in place, as Generator.permutation orders a copy of them. */
void mpl_random_permute(uint64_t seed, uint32_t *values, size_t count);

#endif
