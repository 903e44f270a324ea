/* SPDX-License-Identifier: MIT */
/* Where the command's memory comes from. */
#include "memory.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEAP_BYTES  ((uintptr_t)8 << 20) /* more than an estimate of one card takes */
#define PAGE_BYTES  ((uintptr_t)2 << 20)
#define LARGE_BYTES (32 << 20) /* the highest threshold that glibc accepts */

/* An estimate touches some thousand pages once; asking the kernel for them one by one is a tenth of
 * its time. So the heap grows in one step, in large pages where the system gives them on request,
 * and nothing goes back before the end. All of it is a wish: what fails changes nothing. */
void memory_prepare(void)
{
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
    void *first;
    uintptr_t from;

    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, 2 * LARGE_BYTES);
    mallopt(M_TOP_PAD, (int)HEAP_BYTES);
    first = malloc(1);
    from = ((uintptr_t)first + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if (first && from + PAGE_BYTES <= (uintptr_t)first + HEAP_BYTES)
        madvise((void *)from, ((uintptr_t)first + HEAP_BYTES - from) / PAGE_BYTES * PAGE_BYTES,
                MADV_HUGEPAGE);
    free(first);
#endif
}
