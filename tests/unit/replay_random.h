/* SPDX-License-Identifier: MIT */
/* Random requests for tests of the replay: splitmix64, and sizes near the allocator's limits. */
#ifndef TEST_REPLAY_RANDOM_H
#define TEST_REPLAY_RANDOM_H

#include "base/bytes.h"

#ifdef __clang__
__attribute__((no_sanitize("unsigned-integer-overflow"))) /* wraps by design */
#endif
static inline uint64_t
random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
    return random_next(state) % n;
}

/* Sizes near every limit of the allocator, many of them equal. */
static inline uint64_t random_bytes(uint64_t *state)
{
    static const uint64_t edges[] = {1,
                                     512,
                                     513,
                                     4096,
                                     MPL_MIB,
                                     MPL_MIB + 1,
                                     3 * MPL_MIB,
                                     10 * MPL_MIB - 512,
                                     10 * MPL_MIB,
                                     11 * MPL_MIB,
                                     11 * MPL_MIB + 1,
                                     20 * MPL_MIB};

    switch (random_below(state, 4)) {
    case 0:
        return edges[random_below(state, sizeof(edges) / sizeof(edges[0]))];
    case 1:
        return 1 + random_below(state, 4096);
    case 2:
        return 1 + random_below(state, 2 * MPL_MIB);
    default:
        return 1 + random_below(state, 40 * MPL_MIB);
    }
}

#endif
