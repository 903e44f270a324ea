/* SPDX-License-Identifier: MIT */
/* Memory that lives and dies together: many small pieces, one call frees them all. */
#ifndef MPL_BASE_ARENA_H
#define MPL_BASE_ARENA_H

#include <stddef.h>

struct mpl_arena_chunk;

/** Zero-initialized is empty. */
struct mpl_arena {
    struct mpl_arena_chunk *chunks, *spare;
    char *next;
    size_t left;
};

/** size bytes, aligned for any object, not cleared; NULL when the process is out of memory. */
void *mpl_arena_alloc(struct mpl_arena *arena, size_t size);

/** As mpl_arena_alloc, cleared. */
void *mpl_arena_zalloc(struct mpl_arena *arena, size_t size);

/** Copy of a string; NULL when out of memory. */
char *mpl_arena_strdup(struct mpl_arena *arena, const char *text);

/** Forgets everything and keeps the memory for what comes next. */
void mpl_arena_reset(struct mpl_arena *arena);

/** Frees everything; the arena is empty and can be used again. */
void mpl_arena_free(struct mpl_arena *arena);

#endif
