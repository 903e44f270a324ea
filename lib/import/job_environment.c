/* SPDX-License-Identifier: MIT */
/*
 * TABLE: variables of a launch's environment that change memory.
 * source: pytorch/c10/core/AllocatorConfig.cpp, c10/cuda/CUDAAllocatorConfig.cpp, release 2.14;
 * pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp; CUDA C++ Programming Guide, environment
 * variables; NCCL's guide, environment variables
 */
#include "import/job.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"

static const struct mpl_import_word loading[] = {
    {"lazy", "\"lazy\"", NULL},
    {"eager", "\"eager\"", NULL},
    {NULL, NULL, NULL},
};

/* The key is the variable's name. PyTorch reads the first one that is set of the two of its
 * allocator. */
static const struct mpl_import_key variables[] = {
    {.key = "PYTORCH_ALLOC_CONF", .path = "device.allocator.conf", .kind = MPL_IMPORT_TEXT},
    {.key = "PYTORCH_CUDA_ALLOC_CONF", .path = "device.allocator.conf", .kind = MPL_IMPORT_TEXT},
    {.key = "CUDA_MODULE_LOADING",
     .path = "device.module_loading",
     .kind = MPL_IMPORT_WORD,
     .words = loading},
    {.key = "NCCL_BUFFSIZE", .path = "parallelism.nccl_buffer_bytes", .kind = MPL_IMPORT_INTEGER},
    {.key = "PYTORCH_NO_CUDA_MEMORY_CACHING",
     .kind = MPL_IMPORT_UNLESS,
     .why = "an allocator without a cache"},
    {.key = "TORCH_NCCL_AVOID_RECORD_STREAMS",
     .kind = MPL_IMPORT_UNLESS,
     .why = "collectives that hold their tensors instead"},
    {.key = "CUBLAS_WORKSPACE_CONFIG",
     .kind = MPL_IMPORT_UNLESS,
     .why = "cuBLAS workspaces of another size"},
    {.key = "NCCL_MIN_CTAS", .kind = MPL_IMPORT_UNLESS, .why = "NCCL's channels"},
    {.key = "NCCL_MAX_CTAS", .kind = MPL_IMPORT_UNLESS, .why = "NCCL's channels"},
    {.key = "NCCL_MIN_NCHANNELS", .kind = MPL_IMPORT_UNLESS, .why = "NCCL's channels"},
    {.key = "NCCL_MAX_NCHANNELS", .kind = MPL_IMPORT_UNLESS, .why = "NCCL's channels"},
};

#define VARIABLES (sizeof(variables) / sizeof(variables[0]))

static enum memplan_status take(struct mpl_job *job, const struct mpl_import_key *row,
                                const char *value, struct memplan_error *err)
{
    struct mpl_import_at at = {.import = job->import, .row = row, .place = {.file = job->file}};
    enum memplan_status status;
    json_t *json;

    snprintf(at.place.key, sizeof(at.place.key), "%s", row->key);
    if (strchr(value, '$')) {
        mpl_import_note(job->import, &at.place, "depends on what the script does not set");
        return MEMPLAN_OK;
    }
    /* Bytes that are no UTF-8 are no value that any of them takes. */
    if (!(json = json_string(value)))
        return mpl_import_fail(&at.place, MEMPLAN_ERR_VALUE, err, "not UTF-8");
    status = mpl_import_convert(&at, json, err);
    json_decref(json);
    return status;
}

enum memplan_status mpl_job_take_environment(struct mpl_job *job, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; i < VARIABLES && !status; i++) {
        const char *value = mpl_shell_get(job->shell, variables[i].key);

        if (value && *value &&
            !(variables[i].path && mpl_import_get(job->import, variables[i].path)))
            status = take(job, &variables[i], value, err);
    }
    return status;
}
