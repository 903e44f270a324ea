/* SPDX-License-Identifier: MIT */
/*
 * Probe: the CUDA runtime. cudaMemGetInfo is what PyTorch prints, and what a bare context takes is
 * the difference to what was free before it; both need a context, for as long as the call.
 */
#include "runtime.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

bool probe_has_runtime(void)
{
    return true;
}

static cudaError_t ask_card(struct probe_card *card)
{
    cudaError_t code = cudaSetDevice(card->visible);
    size_t free_bytes = 0, total = 0;

    if (!code)
        code = cudaMemGetInfo(&free_bytes, &total);
    if (code)
        return code;
    card->total_bytes = total;
    card->total_source = "cudaMemGetInfo";
    if (card->free_bytes != PROBE_UNKNOWN && card->free_bytes >= free_bytes)
        card->context_bytes = card->free_bytes - free_bytes;
    else if (card->free_bytes == PROBE_UNKNOWN)
        card->free_bytes = free_bytes;
    return cudaDeviceReset();
}

void probe_ask_runtime(struct probe *probe)
{
    struct probe_answer *answer = &probe->answers[PROBE_RUNTIME];
    int version = 0;

    answer->state = PROBE_ABSENT;
    snprintf(answer->text, sizeof(answer->text), "no NVIDIA card is visible");
    for (uint32_t i = 0; i < probe->count; i++) {
        struct probe_card *card = &probe->cards[i];
        cudaError_t code;

        if (card->source == PROBE_AMD || card->visible < 0)
            continue;
        code = ask_card(card);
        if (code) {
            answer->state = PROBE_FAILED;
            snprintf(answer->text, sizeof(answer->text), "CUDA runtime: %.120s (error %d)",
                     cudaGetErrorString(code), (int)code);
            return;
        }
        cudaRuntimeGetVersion(&version);
        answer->state = PROBE_ANSWERED;
        snprintf(answer->text, sizeof(answer->text), "CUDA runtime %d.%d", version / 1000,
                 version % 1000 / 10);
    }
}
