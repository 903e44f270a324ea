/* SPDX-License-Identifier: MIT */
/* Growable array of plain elements. */
#ifndef MPL_BASE_VEC_H
#define MPL_BASE_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/** Declares an unnamed vector struct; zero-initialized is empty. */
#define MPL_VEC(type)                                                                              \
    struct {                                                                                       \
        type *data;                                                                                \
        size_t len, cap;                                                                           \
    }

/** Room for one more element: 0, or -1 when out of memory (the old array stays valid). */
#define mpl_vec_reserve(vec)                                                                       \
    ((vec)->len < (vec)->cap                                                                       \
         ? 0                                                                                       \
         : mpl_vec_grow((void **)&(vec)->data, &(vec)->cap, sizeof(*(vec)->data)))

#define mpl_vec_free(vec)                                                                          \
    do {                                                                                           \
        free((vec)->data);                                                                         \
        (vec)->data = NULL;                                                                        \
        (vec)->len = (vec)->cap = 0;                                                               \
    } while (0)

/** Doubles a vector's room. */
static inline int mpl_vec_grow(void **data, size_t *cap, size_t element_size)
{
    size_t room = *cap ? *cap * 2 : 16;
    void *grown;

    if (*cap > SIZE_MAX / 2 / element_size || !(grown = realloc(*data, room * element_size)))
        return -1;
    *data = grown;
    *cap = room;
    return 0;
}

#endif
