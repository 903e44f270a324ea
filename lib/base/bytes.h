/* SPDX-License-Identifier: MIT */
/* Byte arithmetic that cannot wrap: the top value means "overflowed" and sticks. */
#ifndef MPL_BASE_BYTES_H
#define MPL_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>

#define MPL_BYTES_OVERFLOW UINT64_MAX

#define MPL_KIB (UINT64_C(1) << 10)
#define MPL_MIB (UINT64_C(1) << 20)
#define MPL_GIB (UINT64_C(1) << 30)

/** a + b, or MPL_BYTES_OVERFLOW when the sum or an operand overflowed. */
static inline uint64_t mpl_add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    if (a == MPL_BYTES_OVERFLOW || b == MPL_BYTES_OVERFLOW || __builtin_add_overflow(a, b, &sum))
        return MPL_BYTES_OVERFLOW;
    return sum;
}

/** a * b, or MPL_BYTES_OVERFLOW; 0 times an overflowed operand stays overflowed. */
static inline uint64_t mpl_mul(uint64_t a, uint64_t b)
{
    uint64_t product;

    if (a == MPL_BYTES_OVERFLOW || b == MPL_BYTES_OVERFLOW ||
        __builtin_mul_overflow(a, b, &product))
        return MPL_BYTES_OVERFLOW;
    return product;
}

/** a - b; the caller knows that b <= a. */
static inline uint64_t mpl_sub(uint64_t a, uint64_t b)
{
    return a == MPL_BYTES_OVERFLOW ? a : a - b;
}

/** Smallest multiple of step that is at least a. */
static inline uint64_t mpl_round_up(uint64_t a, uint64_t step)
{
    uint64_t rest = a % step;

    return rest ? mpl_add(a, step - rest) : a;
}

/** a / b, rounded up. */
static inline uint64_t mpl_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

#endif
