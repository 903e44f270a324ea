/* SPDX-License-Identifier: MIT */
/*
 * numpy's default generator, as far as a permutation needs it.
 *
 * source: numpy 2.4: numpy/random/bit_generator.pyx (SeedSequence), src/pcg64/pcg64.h (PCG XSL RR
 * 128/64), src/distributions/distributions.c (random_interval), _generator.pyx (shuffle)
 */
#include "pack/random.h"

__extension__ typedef unsigned __int128 uint128;

#define POOL_WORDS 4

struct generator {
    uint128 state, increment;
    uint32_t half; /* the upper half of the last draw waits here... */
    int has_half;  /* ...when this is set */
};

static uint32_t shifted(uint32_t value)
{
    return value ^ value >> 16;
}

static uint32_t hashed(uint32_t value, uint32_t *constant, uint32_t factor)
{
    value ^= *constant;
    *constant *= factor;
    return shifted(value * *constant);
}

/* SeedSequence(seed).generate_state(4, uint64) */
static void spread_seed(uint64_t seed, uint64_t words[4])
{
    const uint32_t entropy[POOL_WORDS] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t pool[POOL_WORDS], constant = 0x43b0d7e5, halves[8];

    for (int i = 0; i < POOL_WORDS; i++)
        pool[i] = hashed(entropy[i], &constant, 0x931e8875);
    for (int from = 0; from < POOL_WORDS; from++)
        for (int to = 0; to < POOL_WORDS; to++)
            if (from != to)
                pool[to] = shifted(0xca01f9ddU * pool[to] -
                                   0x4973f715U * hashed(pool[from], &constant, 0x931e8875));
    constant = 0x8b51f9dd;
    for (int i = 0; i < 8; i++)
        halves[i] = hashed(pool[i % POOL_WORDS], &constant, 0x58f38ded);
    for (int i = 0; i < 4; i++)
        words[i] = halves[2 * i] | (uint64_t)halves[2 * i + 1] << 32;
}

static void advance(struct generator *g)
{
    const uint128 multiplier = (uint128)2549297995355413924U << 64 | 4865540595714422341U;

    g->state = g->state * multiplier + g->increment;
}

static void start(struct generator *g, uint64_t seed)
{
    uint64_t words[4];

    spread_seed(seed, words);
    *g = (struct generator){.increment = ((uint128)words[2] << 64 | words[3]) << 1 | 1};
    advance(g);
    g->state += (uint128)words[0] << 64 | words[1];
    advance(g);
}

static uint32_t draw(struct generator *g)
{
    uint64_t high, mixed;
    unsigned turn;

    if (g->has_half) {
        g->has_half = 0;
        return g->half;
    }
    advance(g);
    high = (uint64_t)(g->state >> 64);
    mixed = high ^ (uint64_t)g->state;
    turn = (unsigned)(high >> 58);
    mixed = mixed >> turn | mixed << (-turn & 63);
    g->half = (uint32_t)(mixed >> 32);
    g->has_half = 1;
    return (uint32_t)mixed;
}

/* One of 0 .. most, each as likely: bits that give more are drawn again. */
static uint32_t draw_up_to(struct generator *g, uint32_t most)
{
    const uint32_t mask = UINT32_MAX >> __builtin_clz(most);
    uint32_t value;

    do
        value = draw(g) & mask;
    while (value > most);
    return value;
}

void mpl_random_permute(uint64_t seed, uint32_t *values, size_t count)
{
    struct generator g;

    start(&g, seed);
    for (size_t i = count; i-- > 1;) {
        const uint32_t j = draw_up_to(&g, (uint32_t)i), value = values[i];

        values[i] = values[j];
        values[j] = value;
    }
}
