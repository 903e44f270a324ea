/* SPDX-License-Identifier: MIT */
/* Free blocks of one pool and stream: the rare parts. */
#include "replay/freeset.h"

#include <string.h>

/* Joins two heaps of equal sizes; links of the lower root other than child are the caller's. */
static uint32_t meld(struct mpl_block *blocks, uint32_t a, uint32_t b)
{
    uint32_t low = blocks[a].position < blocks[b].position ? a : b, high = a ^ b ^ low;

    blocks[high].sibling = blocks[low].child;
    if (blocks[low].child)
        blocks[blocks[low].child].back = high;
    blocks[high].back = low;
    blocks[low].child = high;
    return low;
}

/* Joins a chain of siblings into one heap, as pairing heaps do; 0 for an empty chain. */
static uint32_t join(struct mpl_block *blocks, uint32_t first)
{
    uint32_t pairs = 0, rest, a, b;

    /* Forward: join neighbours two by two, keep the results in reverse order. */
    for (; first; first = rest) {
        a = first;
        b = blocks[a].sibling;
        rest = b ? blocks[b].sibling : 0;
        if (b)
            a = meld(blocks, a, b);
        blocks[a].sibling = pairs;
        pairs = a;
    }
    /* Backward: join the results into one. */
    for (a = pairs, pairs = pairs ? blocks[pairs].sibling : 0; pairs; pairs = rest) {
        rest = blocks[pairs].sibling;
        a = meld(blocks, a, pairs);
    }
    if (a)
        blocks[a].sibling = 0;
    return a;
}

/* Puts root (0: nothing) in the list of sizes where old stands. */
static void replace(struct mpl_freeset *set, struct mpl_block *blocks, uint32_t old, uint32_t root)
{
    uint32_t larger = blocks[old].larger, smaller = blocks[old].smaller;

    if (root) {
        blocks[root].larger = larger;
        blocks[root].smaller = smaller;
        blocks[root].back = 0;
    }
    if (larger)
        blocks[larger].smaller = root ? root : smaller;
    if (smaller) {
        blocks[smaller].larger = root ? root : larger;
        return;
    }
    set->heads[blocks[old].class] = root ? root : larger;
    if (!root && !larger)
        mpl_freeset_empty_class(set, blocks[old].class);
}

void mpl_freeset_add_to_class(struct mpl_freeset *set, struct mpl_block *blocks, uint32_t b)
{
    struct mpl_block *block = &blocks[b];
    uint32_t before = 0, at = set->heads[block->class];

    while (at && blocks[at].size < block->size) {
        before = at;
        at = blocks[at].larger;
    }
    if (at && blocks[at].size == block->size) {
        if (block->position < blocks[at].position)
            replace(set, blocks, at, b);
        meld(blocks, at, b);
        return;
    }
    block->larger = at;
    block->smaller = before;
    if (at)
        blocks[at].smaller = b;
    if (before)
        blocks[before].larger = b;
    else
        set->heads[block->class] = b;
}

void mpl_freeset_remove_from_class(struct mpl_freeset *set, struct mpl_block *blocks, uint32_t b)
{
    struct mpl_block *block = &blocks[b];
    uint32_t rest = block->child ? join(blocks, block->child) : 0, put;

    if (!block->back) {
        replace(set, blocks, b, rest);
        return;
    }
    /* Its children lie above it, so above its parent: their heap can take its place. */
    put = rest ? rest : block->sibling;
    if (rest) {
        blocks[rest].sibling = block->sibling;
        if (block->sibling)
            blocks[block->sibling].back = rest;
    }
    if (put)
        blocks[put].back = block->back;
    if (blocks[block->back].child == b)
        blocks[block->back].child = put;
    else
        blocks[block->back].sibling = put;
}

void mpl_freeset_clear(struct mpl_freeset *set)
{
    memset(set->summary, 0, sizeof(set->summary));
    memset(set->bits, 0, sizeof(set->bits));
    set->unmapped = 0;
}

void mpl_freeset_copy(struct mpl_freeset *to, const struct mpl_freeset *from)
{
    memcpy(to->summary, from->summary, sizeof(to->summary));
    memcpy(to->bits, from->bits, sizeof(to->bits));
    to->unmapped = from->unmapped;
    for (uint32_t word = 0; word < MPL_FREESET_WORDS; word++)
        if (from->bits[word])
            memcpy(&to->heads[word * 64], &from->heads[word * 64], 64 * sizeof(to->heads[0]));
}
