/* SPDX-License-Identifier: MIT */
/*
 * The forms of messages: a table of one row each. Sources: c10/cuda/CUDACachingAllocator.cpp of
 * PyTorch 1.0 to 2.14, CUDAMallocAsyncAllocator.cpp, NCCL's alloc.h and checks.h, recorded messages
 * of 2.14.1, and public logs (tests/oracle/data/log-messages.jsonl).
 */
#include "log/forms.h"

#include "log/pattern.h"

#define SIZE(group) "(?<" group ">" MPL_LOG_SIZE ")"

/* The head may be lost where a text was quoted. */
#define HEAD "(?:(?<api>CUDA|HIP) out of memory\\. ?)?Tried to allocate " SIZE("requested")

/* PyTorch 1.0 to 2.0: one parenthesis. */
#define PAREN_TOTAL HEAD " \\(GPU (?<gpu>\\d+); " SIZE("total") " total capacity"
#define PAREN       PAREN_TOTAL "; " SIZE("allocated") " already allocated; " SIZE("free") " free"
#define PAREN_LIMIT "(?:; " SIZE("allowed") " allowed)?"

/* PyTorch 2.1 and later: sentences. Some callers of the allocator give no index. */
#define SENTENCE(capacity)                                                                         \
    HEAD "\\. GPU (?:(?<gpu>\\d+) )?has a total " capacity " of " SIZE("total")
#define OF_WHICH " of which " SIZE("free") " is free\\."
#define PROCESSES                                                                                  \
    "(?<processes>(?: (?:Process \\d+ has|Including non-PyTorch memory, this process "             \
    "has) " MPL_LOG_SIZE " memory in use\\.)*)"
#define ALLOCATED " Of the allocated memory " SIZE("allocated") " is allocated by PyTorch,"
#define POOLS                                                                                      \
    " with " SIZE("private_pools") " allocated in private pools \\(e\\.g\\., [A-Z]+ Graphs\\),"
#define UNALLOCATED " and " SIZE("unallocated") " is reserved by PyTorch but unallocated\\.(?<end>)"
#define HINT        "(?<hint> ?If reserved)?"
/* All that follows the card's size may have been cut off. */
#define REST(limit, pools)                                                                         \
    "(?:" OF_WHICH PROCESSES limit "(?:" ALLOCATED pools "(?:" UNALLOCATED HINT ")?)?)?"

static const struct mpl_log_form forms[] = {
    {"warning-allocation", "2.14", MEMPLAN_LOG_WARNING, "failed with OOM on device",
     "memory allocation failed with OOM on device (?<gpu>\\d+) while trying to allocate"
     " (?<requested>\\d{1,20} bytes)(?: \\(free: (?<free_count>\\d{1,20}), total:"
     " (?<total_count>\\d{1,20})\\)(?<end>))?"},
    {"warning-mapping", "2.14", MEMPLAN_LOG_WARNING, "failed with OOM on device",
     "(?<expandable>expandable_segments): memory mapping failed with OOM on device (?<gpu>\\d+)"
     " while trying to map (?<requested>\\d{1,20} bytes)(?: \\(free: (?<free_count>\\d{1,20}),"
     " total: (?<total_count>\\d{1,20})\\)(?<end>))?"},
    {"pytorch-1.0", "1.0 to 1.3", MEMPLAN_LOG_ALLOCATOR, "total capac",
     PAREN "; " SIZE("unallocated") " cached\\)?(?<end>)"},
    {"pytorch-1.4", "1.4 to 2.0", MEMPLAN_LOG_ALLOCATOR, "total capac",
     PAREN PAREN_LIMIT "; " SIZE("reserved") " reserved in total by PyTorch\\)?(?<end>)"},
    {"pytorch-1-cut", "1.0 to 2.0", MEMPLAN_LOG_ALLOCATOR, "total capac",
     PAREN_TOTAL "(?:; " SIZE("allocated") " already allocated(?:; " SIZE(
         "free") " free" PAREN_LIMIT ")?)?(?<partial>)"},
    {"pytorch-2.1", "2.1", MEMPLAN_LOG_ALLOCATOR, "total capac",
     SENTENCE("capacty") REST("", "") "(?<partial>)"},
    {"pytorch-2.5", "2.5 on", MEMPLAN_LOG_ALLOCATOR, "total capac",
     SENTENCE("capacity") OF_WHICH PROCESSES
     " " SIZE("allowed") " allowed;(?:" ALLOCATED "(?:" POOLS ")?(?:" UNALLOCATED HINT
                         ")?)?(?<partial>)"},
    {"pytorch-2.4", "2.4 on", MEMPLAN_LOG_ALLOCATOR, "total capac",
     SENTENCE("capacity") OF_WHICH PROCESSES ALLOCATED POOLS "(?:" UNALLOCATED HINT
                                                             ")?(?<partial>)"},
    {"pytorch-2.2", "2.2 on", MEMPLAN_LOG_ALLOCATOR, "total capac",
     SENTENCE("capacity") REST("", "") "(?<partial>)"},
    {"pytorch-1eb", "1.9 on", MEMPLAN_LOG_ALLOCATOR, "Tried to allocate",
     "(?<api>CUDA|HIP) out of memory\\. Tried to allocate more than 1EB memory(?<end>)"},
    {"pytorch-rejected", "2.14", MEMPLAN_LOG_LIMIT, "preemptively rejected",
     "(?:(?<api>CUDA|HIP) out of memory\\. ?)?Allocation was preemptively rejected because it would"
     " exceed per_process_memory_fraction limit\\.(?: Requested size: " SIZE(
         "requested") "(?<end>))?(?<partial>)"},
    {"pytorch-async", "", MEMPLAN_LOG_ASYNC, "exceed allowed memory",
     "Allocation on device (?<gpu>\\d+) would exceed allowed memory\\. \\(out of memory\\)"
     "(?: Currently allocated ?: " SIZE("allocated") "(?: Requested ?: " SIZE(
         "requested") "(?: Device limit ?: " SIZE("total") "(?: Free \\(according to "
                                                           "CUDA\\): " SIZE(
                                                               "free") "(?: PyTorch "
                                                                       "limit \\(set "
                                                                       "by "
                                                                       "user-supplied "
                                                                       "memory "
                                                                       "fraction\\) "
                                                                       "?: " SIZE(
                                                                           "all"
                                                                           "owe"
                                                                           "d") "(?<end>))?)?)?)?)?"
                                                                                "(?<partial>)"},
    {"pytorch-cut", "", MEMPLAN_LOG_ALLOCATOR, "Tried to allocate",
     "(?<api>CUDA|HIP) out of memory\\. ?Tried to allocate " SIZE("requested") "(?<partial>)"},
    {"pytorch-cut-size", "", MEMPLAN_LOG_ALLOCATOR, "out of memory",
     "(?:OutOfMemoryError|RuntimeError): ?\\K(?<api>CUDA|HIP) out of memory(?<partial>)"},
    {"thc", "0.1 to 0.4", MEMPLAN_LOG_DRIVER, "out of memory",
     "(?i:cuda) runtime error \\(2\\) ?: out of memory(?<end>)"},
    {"cuda-error", "0.4 on", MEMPLAN_LOG_DRIVER, "out of memory",
     "(?<api>CUDA|HIP) (?:driver )?error: out of memory(?: ?Search for"
     " .cudaErrorMemoryAllocation.?)?(?<end>)"},
    {"cuda-error-name", "", MEMPLAN_LOG_DRIVER, "cudaErrorMemoryAllocation",
     "cudaErrorMemoryAllocation(?::? out of memory)?(?<end>)"},
    {"hip-error-name", "", MEMPLAN_LOG_DRIVER, "hipErrorOutOfMemory",
     "(?<hip>hipErrorOutOfMemory)(?<end>)"},
    {"triton", "", MEMPLAN_LOG_DRIVER, "out of memory",
     "Triton Error \\[(?<api>CUDA|HIP)\\]: out of memory(?<end>)"},
    {"cublas", "1.0 on", MEMPLAN_LOG_LIBRARY, "_ALLOC_FAILED",
     "CUDA error: CUBLAS_STATUS_ALLOC_FAILED(?<end>)"},
    {"cublas-create", "1.0 on", MEMPLAN_LOG_LIBRARY, "_NOT_INITIALIZED",
     "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling .cublasCreate\\(handle\\)(?<end>)"},
    {"cudnn", "", MEMPLAN_LOG_LIBRARY, "_ALLOC_FAILED",
     "(?i:cudnn) error: CUDNN_STATUS_ALLOC_FAILED(?<end>)"},
    {"cudnn-create", "", MEMPLAN_LOG_LIBRARY, "_NOT_INITIALIZED",
     "(?i:cudnn) error: CUDNN_STATUS_NOT_INITIALIZED(?<end>)"},
    {"cusolver", "", MEMPLAN_LOG_LIBRARY, "_ALLOC_FAILED",
     "(?i:cusolver|cusparse|cuda) error: (?:CUSOLVER|CUSPARSE)_STATUS_ALLOC_FAILED(?<end>)"},
    {"nccl-cuda", "", MEMPLAN_LOG_NCCL, "out of memory",
     "(?:\\[(?<gpu>\\d+)\\] \\S{1,80} NCCL WARN )?Cuda failure (?:2 )?'out of memory'(?<end>)"},
    {"nccl-alloc", "", MEMPLAN_LOG_NCCL, "Failed to CUDA",
     "(?:\\[(?<gpu>\\d+)\\] \\S{1,80} NCCL WARN )?Failed to CUDA (?:host )?[mc]alloc(?: async)?"
     " (?<requested>\\d{1,20} bytes)(?<end>)"},
};

static const char *const triggers[] = {
    "out of memory",
    "Tried to allocate",
    "total capac",
    "already allocated",
    "preemptively rejected",
    "exceed allowed memory",
    "failed with OOM on device",
    "cudaErrorMemoryAllocation",
    "hipErrorOutOfMemory",
    "_ALLOC_FAILED",
    "_NOT_INITIALIZED",
    "Failed to CUDA",
};

_Static_assert(sizeof(forms) / sizeof(forms[0]) <= MPL_LOG_FORMS, "room for each form");

const struct mpl_log_form *mpl_log_form_at(size_t i)
{
    return i < sizeof(forms) / sizeof(forms[0]) ? &forms[i] : NULL;
}

const char *mpl_log_form_trigger(size_t i)
{
    return i < sizeof(triggers) / sizeof(triggers[0]) ? triggers[i] : NULL;
}
