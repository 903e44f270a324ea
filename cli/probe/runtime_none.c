/* SPDX-License-Identifier: MIT */
/* Probe: a build without the CUDA runtime, which is the usual one. */
#include "runtime.h"

bool probe_has_runtime(void)
{
    return false;
}

void probe_ask_runtime(struct probe *probe)
{
    (void)probe;
}
