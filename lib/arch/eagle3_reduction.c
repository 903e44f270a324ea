/* SPDX-License-Identifier: MIT */
/*
 * How Inductor cuts the sums over tokens that give a norm's weight gradient.
 *
 * source: torch/_inductor/choices.py (reduction_split_factor), scheduler.py and codegen/triton.py
 * (mixed-order reduction), release 2.13
 */
#include "arch/eagle3.h"

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The divisor of n that lies nearest to wanted; the smaller one of two. */
static int64_t nearest_divisor(int64_t n, int64_t wanted)
{
    int64_t best = 1;

    for (int64_t d = 1; d * d <= n; d++)
        for (int side = 0; side < 2 && n % d == 0; side++) {
            const int64_t c = side ? n / d : d;
            const int64_t far = c > wanted ? c - wanted : wanted - c;
            const int64_t best_far = best > wanted ? best - wanted : wanted - best;

            if (far < best_far || (far == best_far && c < best))
                best = c;
        }
    return best;
}

/* outer_reduction_splits of a sum over n rows for each of h columns */
int64_t mpl_eagle3_split(const struct mpl_eagle3_sizes *s)
{
    const int64_t n = s->tokens.n, resident = s->multiprocessors * s->threads;
    const int64_t column_blocks = ceil_div(s->hidden, 128), numel = n * s->hidden;
    const int64_t values = 4; /* of one thread */
    int64_t size = 32, divisor;

    if (numel >= 32 * resident && numel < 512 * resident) {
        const int64_t blocks = ceil_div(resident / 256, column_blocks);
        const int64_t wanted = ceil_div(n, values * blocks);

        divisor = nearest_divisor(n, wanted);
        size = wanted;
        if (divisor - wanted < 20 && wanted - divisor < 20)
            size = divisor > 32 ? divisor : 32;
    } else if (numel >= 512 * resident) {
        divisor = nearest_divisor(n, 512);
        size = divisor - 512 < 50 && 512 - divisor < 50 ? divisor : 512;
    }
    return ceil_div(n, values * size);
}

bool mpl_eagle3_is_mixed_order(const struct mpl_eagle3_sizes *s)
{
    const int64_t n = s->tokens.n, h = s->hidden;

    return s->has_mixed_order && n * h >= INT64_C(5) << 20 && n >= 2 * h && n >= 4096 && h <= 16384;
}

struct mpl_dim mpl_eagle3_mixed_rows(const struct mpl_eagle3_sizes *s)
{
    const int64_t wanted = s->tokens.n / (s->multiprocessors * 8);
    int64_t split = 1;

    while (split * 2 <= wanted)
        split *= 2;
    split = split < 16 ? 16 : split > 128 ? 128 : split;
    return (struct mpl_dim){ceil_div(s->tokens.n, split), s->tokens.degree};
}
