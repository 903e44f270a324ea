/* SPDX-License-Identifier: MIT */
/* Memory that lives and dies together: many small pieces, one call frees them all. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 << 10)

struct mpl_arena_chunk {
    struct mpl_arena_chunk *next;
    size_t room;
    alignas(max_align_t) char data[];
};

static void use_chunk(struct mpl_arena *arena, struct mpl_arena_chunk *chunk)
{
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->next = chunk->data;
    arena->left = chunk->room;
}

static int add_chunk(struct mpl_arena *arena, size_t size)
{
    size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
    struct mpl_arena_chunk *chunk = arena->spare;

    if (chunk && chunk->room >= size) {
        arena->spare = chunk->next;
        use_chunk(arena, chunk);
        return 0;
    }
    if (room > SIZE_MAX - sizeof(*chunk) || !(chunk = malloc(sizeof(*chunk) + room)))
        return -1;
    chunk->room = room;
    use_chunk(arena, chunk);
    return 0;
}

void *mpl_arena_alloc(struct mpl_arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t);
    void *piece;

    if (size > SIZE_MAX - align)
        return NULL;
    size = (size + align - 1) / align * align;
    if (size > arena->left && add_chunk(arena, size))
        return NULL;
    piece = arena->next;
    arena->next += size;
    arena->left -= size;
    return piece;
}

void *mpl_arena_zalloc(struct mpl_arena *arena, size_t size)
{
    void *piece = mpl_arena_alloc(arena, size);

    return piece ? memset(piece, 0, size) : NULL;
}

char *mpl_arena_strdup(struct mpl_arena *arena, const char *text)
{
    size_t len = strlen(text) + 1;
    char *copy = mpl_arena_alloc(arena, len);

    return copy ? memcpy(copy, text, len) : NULL;
}

void mpl_arena_reset(struct mpl_arena *arena)
{
    while (arena->chunks) {
        struct mpl_arena_chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        chunk->next = arena->spare;
        arena->spare = chunk;
    }
    arena->next = NULL;
    arena->left = 0;
}

void mpl_arena_free(struct mpl_arena *arena)
{
    mpl_arena_reset(arena);
    while (arena->spare) {
        struct mpl_arena_chunk *chunk = arena->spare;

        arena->spare = chunk->next;
        free(chunk);
    }
    arena->next = NULL;
    arena->left = 0;
}
