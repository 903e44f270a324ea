/* SPDX-License-Identifier: MIT */
/* Where the command's memory comes from. */
#ifndef MEMORY_H
#define MEMORY_H

/** Before anything else is allocated. */
void memory_prepare(void);

#endif
