/* SPDX-License-Identifier: MIT */
/* TABLE: contexts by how they load their kernels, and what libraries take. */
#include "table/outside.h"

#include <stdbool.h>

/* One card was read with both ways of loading: an A100 80GB with one tensor, MiB. */
#define LAZY_MIB      480  /* PyTorch 2.1.1, CUDA 12.1 */
#define EAGER_MIB     940  /* the same */
#define EAGER_LOW_MIB 920  /* PyTorch 1.13.1 */
#define OLD_CUDA_MIB  1820 /* PyTorch 1.10.2, before lazy loading */

/* The most that a card's low figure has beyond a bare context. */
#define KERNELS_IN_LOW (100 * MPL_MIB)

static uint64_t scaled(uint64_t bytes, uint64_t by)
{
    return bytes / LAZY_MIB * by;
}

static bool is_old_cuda(const struct mpl_context_setup *setup)
{
    return setup->cuda_major &&
           (setup->cuda_major < 11 || (setup->cuda_major == 11 && setup->cuda_minor < 7));
}

struct mpl_range mpl_context_bytes(const struct mpl_range *card,
                                   const struct mpl_context_setup *setup)
{
    const uint64_t more = card->expected_bytes - card->low_bytes;
    const uint64_t most = card->high_bytes - card->low_bytes;
    struct mpl_range range = *card;

    if (is_old_cuda(setup)) {
        range.low_bytes = scaled(card->low_bytes, EAGER_LOW_MIB);
        range.expected_bytes = mpl_add(scaled(card->low_bytes, OLD_CUDA_MIB), more);
        range.high_bytes = mpl_add(scaled(card->low_bytes, OLD_CUDA_MIB), most);
        range.source = "every kernel is loaded before CUDA 11.7: 920 to 1820 MiB where 480 are "
                       "lazy, on one card, an A100 (ml-engineering book); scaled to this one";
    } else if (setup->loading == MPL_MODULES_EAGER) {
        range.low_bytes = scaled(card->low_bytes, EAGER_LOW_MIB);
        range.expected_bytes = mpl_add(scaled(card->low_bytes, EAGER_MIB), more);
        range.high_bytes = mpl_add(scaled(card->low_bytes, EAGER_MIB), most);
        range.source = "CUDA_MODULE_LOADING=EAGER: 920 to 940 MiB where 480 are lazy, on one "
                       "card, an A100 (ml-engineering book); scaled to this one";
    }
    return range;
}

struct mpl_range mpl_bare_context_bytes(const struct mpl_range *card)
{
    const uint64_t low = card->low_bytes > KERNELS_IN_LOW ? card->low_bytes - KERNELS_IN_LOW : 0;

    return (struct mpl_range){
        low, low + (card->low_bytes - low) / 2, card->low_bytes,
        "the context's low figure, which has up to 100 MiB of kernels; 414 to 418 MiB were seen on "
        "A100, 516 to 532 on H100, 618 on B300"};
}

#define INSIDE    "PyTorch's allocator"
#define OUTSIDE   "outside"
#define ALLOCATED "the allocated figure, as workspaces"
#define CONTEXT   "the CUDA context's range"
#define OTHER     "not counted; give device.other_bytes"

/* clang-format off */
static const struct mpl_library_row library_table[] = {
    {"cuBLAS workspace, one a handle and stream", INSIDE, ALLOCATED, 1, 90, 8519680, 8519680,
     "aten/src/ATen/cuda/CublasHandlePool.cpp; torch 2.14 on 7.5 to 8.9"},
    {"cuBLAS workspace, one a handle and stream", INSIDE, ALLOCATED, 90, 0, 32 * MPL_MIB,
     32 * MPL_MIB, "aten/src/ATen/cuda/CublasHandlePool.cpp; torch 2.14 on 9.0, 10.0 and 12.0"},
    {"cuBLASLt workspace", INSIDE, "the cuBLAS workspace, which it shares", 1, 0, 0, MPL_MIB,
     "aten/src/ATen/cuda/CUDABlas.cpp: shared since TORCH_CUBLASLT_UNIFIED_WORKSPACE; up to 2.4 a "
     "temporary of CUBLASLT_WORKSPACE_SIZE, 1 MiB"},
    {"Transformer Engine's workspace", INSIDE, ALLOCATED, 80, 90, 4 * MPL_MIB, 4 * MPL_MIB,
     "transformer_engine/pytorch/module/base.py (get_cublas_workspace_size_bytes)"},
    {"Transformer Engine's workspace", INSIDE, ALLOCATED, 90, 0, 32 * MPL_MIB + 1024,
     32 * MPL_MIB + 1024, "transformer_engine/pytorch/module/base.py"},
    {"kernels of cuBLAS, cuDNN, attention, Triton and Inductor", OUTSIDE, CONTEXT, 1, 0,
     100 * MPL_MIB, 300 * MPL_MIB, "processes before and after their first step, public logs"},
    {"cuDNN's workspace of a call", INSIDE, "the allocated figure, where a model has it", 1, 0, 0,
     0, "taken from the allocator for one call; its size is cuDNN's choice"},
    {"Triton's autotuning, while it measures", INSIDE, "not counted: no part of a step", 1, 0,
     256 * MPL_MIB, 256 * MPL_MIB, "triton/testing.py, triton/backends (get_empty_cache_for_benchmark)"},
    {"device heap and printf buffer, once a kernel uses them", OUTSIDE, CONTEXT, 1, 0, 0,
     9 * MPL_MIB, "CUDA programming guide: 8 MiB and 1 MiB"},
    {"NVSHMEM's symmetric heap", OUTSIDE, OTHER, 1, 0, MPL_GIB, MPL_GIB,
     "NVSHMEM: NVSHMEM_SYMMETRIC_SIZE, where a program uses it"},
    {"desktop on the same card", OUTSIDE, OTHER, 1, 0, 350 * MPL_MIB, 920 * MPL_MIB,
     "nvidia-smi screens, Linux; 740 to 2200 MiB under Windows"},
};
/* clang-format on */

const struct mpl_library_row *mpl_library_at(size_t i)
{
    return i < sizeof(library_table) / sizeof(library_table[0]) ? &library_table[i] : NULL;
}

bool mpl_library_applies(const struct mpl_library_row *row, uint32_t compute_capability)
{
    return compute_capability >= row->from && (!row->below || compute_capability < row->below);
}
