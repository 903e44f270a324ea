/* SPDX-License-Identifier: MIT */
/* Probe: the CUDA runtime, which makes a context. Only in builds with -Dcuda=enabled. */
#ifndef CLI_PROBE_RUNTIME_H
#define CLI_PROBE_RUNTIME_H

#include "probe.h"

/** Whether this build can make contexts. */
bool probe_has_runtime(void);

/** Makes a context on each visible NVIDIA card, one after the other, and asks cudaMemGetInfo in it.
 * After the other drivers. */
void probe_ask_runtime(struct probe *probe);

#endif
