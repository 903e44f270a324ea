/* SPDX-License-Identifier: MIT */
/*
 * TABLE: keys of a DeepSpeed configuration.
 * source: deepspeed/runtime/config.py, runtime/zero/config.py, runtime/zero/offload_config.py,
 * runtime/precision_config.py, release 0.19.8
 */
#include <string.h>

#include "import/import.h"

/* Both are FusedAdam with adam_w_mode unless its parameters say otherwise. */
static const struct mpl_import_word optimizers[] = {
    {"adamw", "\"adamw\"", NULL},
    {"adam", "\"adamw\"", NULL},
    {"auto", NULL, NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word devices[] = {
    {"none", "\"none\"", NULL},
    {"cpu", "\"cpu\"", NULL},
    {"nvme", "\"nvme\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word truths[] = {
    {"true", "\"cpu\"", NULL},
    {"false", "\"none\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word scatters[] = {
    {"true", NULL, NULL},
    {"auto", NULL, NULL},
    {"false", NULL, "not modelled: gradients that are reduced whole on every rank"},
    {NULL, NULL, NULL},
};

#define ZERO "zero_optimization."

static enum memplan_status take_old_bf16(const struct mpl_import_at *at, const json_t *value,
                                         struct memplan_error *err)
{
    const struct mpl_import_key row = {
        .key = "bfloat16.enabled", .path = "import.deepspeed_bf16", .kind = MPL_IMPORT_BOOLEAN};
    struct mpl_import_at own = *at;

    own.row = &row;
    return mpl_import_convert(&own, value, err);
}

/* stage3.py, _create_fp16_sub_groups: 0 ends a group behind each weight, as 1 does. */
static enum memplan_status take_sub_group(const struct mpl_import_at *at, const json_t *value,
                                          struct memplan_error *err)
{
    const struct mpl_import_key row = {.path = "parallelism.sub_group_size",
                                       .kind = MPL_IMPORT_INTEGER};
    struct mpl_import_at own = *at;

    own.row = &row;
    return json_is_integer(value) && json_integer_value(value) == 0
               ? mpl_import_set_text(at->import, &at->place, row.path, "1", err)
               : mpl_import_convert(&own, value, err);
}

static const struct mpl_import_key keys[] = {
    {.key = "train_batch_size", .path = "import.train_batch_size", .kind = MPL_IMPORT_INTEGER},
    {.key = "train_micro_batch_size_per_gpu",
     .path = "training.micro_batch_size",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "gradient_accumulation_steps",
     .path = "training.gradient_accumulation_steps",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "gradient_clipping", .path = "training.gradient_clipping", .kind = MPL_IMPORT_NUMBER},
    {.key = ZERO "stage", .path = "import.zero_stage", .kind = MPL_IMPORT_INTEGER},
    {.key = ZERO "reduce_bucket_size",
     .path = "parallelism.reduce_bucket_size",
     .kind = MPL_IMPORT_INTEGER,
     .takes_auto = true},
    {.key = ZERO "allgather_bucket_size",
     .path = "parallelism.allgather_bucket_size",
     .kind = MPL_IMPORT_INTEGER},
    {.key = ZERO "overlap_comm", .path = "parallelism.overlap_comm", .kind = MPL_IMPORT_BOOLEAN},
    {.key = ZERO "contiguous_gradients",
     .path = "parallelism.contiguous_gradients",
     .kind = MPL_IMPORT_BOOLEAN},
    {.key = ZERO "offload_optimizer.device",
     .path = "parallelism.offload_optimizer",
     .kind = MPL_IMPORT_WORD,
     .words = devices},
    {.key = ZERO "offload_param.device",
     .path = "parallelism.offload_param",
     .kind = MPL_IMPORT_WORD,
     .words = devices},
    {.key = ZERO "cpu_offload",
     .path = "parallelism.offload_optimizer",
     .kind = MPL_IMPORT_WORD,
     .words = truths},
    {.key = ZERO "cpu_offload_params",
     .path = "parallelism.offload_param",
     .kind = MPL_IMPORT_WORD,
     .words = truths},
    {.key = ZERO "offload_optimizer.ratio",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1.0",
     .why = "a part of the optimizer that stays on the card"},
    {.key = ZERO "stage3_prefetch_bucket_size",
     .path = "parallelism.stage3_prefetch_bucket_size",
     .kind = MPL_IMPORT_INTEGER,
     .takes_auto = true},
    {.key = ZERO "stage3_param_persistence_threshold",
     .path = "parallelism.stage3_param_persistence_threshold",
     .kind = MPL_IMPORT_INTEGER,
     .takes_auto = true},
    {.key = ZERO "stage3_model_persistence_threshold",
     .path = "parallelism.stage3_model_persistence_threshold",
     .kind = MPL_IMPORT_INTEGER},
    {.key = ZERO "stage3_max_live_parameters",
     .path = "parallelism.stage3_max_live_parameters",
     .kind = MPL_IMPORT_INTEGER},
    {.key = ZERO "stage3_max_reuse_distance",
     .path = "parallelism.stage3_max_reuse_distance",
     .kind = MPL_IMPORT_INTEGER},
    {.key = ZERO "sub_group_size", .kind = MPL_IMPORT_CALL, .call = take_sub_group},
    {.key = ZERO "round_robin_gradients",
     .kind = MPL_IMPORT_UNLESS,
     .why = "another order of the flat buffer"},
    {.key = ZERO "reduce_scatter", .kind = MPL_IMPORT_WORD, .words = scatters},
    {.key = ZERO "stage3_module_granularity_threshold",
     .kind = MPL_IMPORT_UNLESS,
     .why = "modules that are gathered as a whole"},
    {.key = ZERO "zero_hpz_partition_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "a second copy of the partitions in each node (ZeRO++)"},
    {.key = ZERO "zero_quantized_weights",
     .kind = MPL_IMPORT_UNLESS,
     .why = "weights that are gathered in 8 bits (ZeRO++)"},
    {.key = ZERO "zero_quantized_gradients",
     .kind = MPL_IMPORT_UNLESS,
     .why = "gradients that are reduced in few bits (ZeRO++)"},
    {.key = ZERO "zero_quantized_nontrainable_weights",
     .kind = MPL_IMPORT_UNLESS,
     .why = "frozen weights that are kept in 8 bits (ZeRO++)"},
    {.key = ZERO "mics_shard_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "-1",
     .why = "partitions inside of groups (MiCS)"},
    {.key = "bf16.enabled", .path = "import.deepspeed_bf16", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "bfloat16.enabled", .kind = MPL_IMPORT_CALL, .call = take_old_bf16},
    {.key = "fp16.enabled", .path = "import.deepspeed_fp16", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "fp16.auto_cast", .kind = MPL_IMPORT_UNLESS, .why = "inputs cast to float16"},
    {.key = "bf16.bf16_master_weights_and_grads",
     .kind = MPL_IMPORT_UNLESS,
     .why = "master weights in bfloat16"},
    {.key = "bf16.bf16_optimizer_states",
     .kind = MPL_IMPORT_UNLESS,
     .why = "optimizer states in bfloat16"},
    {.key = "bf16.immediate_grad_update",
     .kind = MPL_IMPORT_UNLESS,
     .off = "true",
     .why = "gradients that are added late"},
    {.key = "fp16.fp16_master_weights_and_grads",
     .kind = MPL_IMPORT_UNLESS,
     .why = "master weights in float16"},
    {.key = "amp.enabled", .kind = MPL_IMPORT_UNLESS, .why = "NVIDIA's apex"},
    {.key = "torch_autocast.enabled",
     .kind = MPL_IMPORT_UNLESS,
     .why = "DeepSpeed's own use of torch.autocast"},
    {.key = "optimizer.type",
     .path = "import.deepspeed_optimizer",
     .kind = MPL_IMPORT_WORD,
     .words = optimizers},
    {.key = "optimizer.params.torch_adam",
     .kind = MPL_IMPORT_UNLESS,
     .why = "PyTorch's Adam in place of FusedAdam"},
    {.key = "communication_data_type",
     .path = "parallelism.communication_data_type",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_dtypes},
    {.key = "data_types.grad_accum_dtype",
     .path = "parallelism.grad_accum_dtype",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_dtypes},
    {.key = "activation_checkpointing.partition_activations",
     .kind = MPL_IMPORT_UNLESS,
     .why = "DeepSpeed's own checkpointing, which a program must call"},
    {.key = "activation_checkpointing.cpu_checkpointing",
     .kind = MPL_IMPORT_UNLESS,
     .why = "DeepSpeed's own checkpointing, which a program must call"},
    {.key = "activation_checkpointing.contiguous_memory_optimization",
     .kind = MPL_IMPORT_UNLESS,
     .why = "DeepSpeed's own checkpointing, which a program must call"},
    {.key = "sparse_gradients", .kind = MPL_IMPORT_UNLESS, .why = "sparse gradients"},
    {.key = "sparse_attention", .kind = MPL_IMPORT_UNLESS, .why = "sparse attention"},
    {.key = "tensor_parallel.autotp_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "tensor parallelism"},
    {.key = "sequence_parallel_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "sequence parallelism"},
    {.key = "compile.enabled", .kind = MPL_IMPORT_UNLESS, .why = "torch.compile"},
    {.key = "compression_training", .kind = MPL_IMPORT_UNLESS, .why = "compression of weights"},
    {.key = "quantize_training", .kind = MPL_IMPORT_UNLESS, .why = "quantisation in training"},
    {.key = "pipeline", .kind = MPL_IMPORT_UNLESS, .why = "pipeline parallelism"},
    {.key = "autotuning.enabled", .kind = MPL_IMPORT_UNLESS, .why = "batches that are searched"},
    {.key = "elasticity.enabled", .kind = MPL_IMPORT_UNLESS, .why = "batches that change"},
    {.key = "zero_force_ds_cpu_optimizer",
     .kind = MPL_IMPORT_UNLESS,
     .off = "true",
     .why = "PyTorch's optimizer on the host"},
};

/* What changes no tensor of a step. */
static const char *const harmless[] = {
    "optimizer.params.*",
    "optimizer.legacy_fusion",
    "scheduler.*",
    "fp16.*",
    "bf16.*",
    "amp.*",
    "torch_autocast.*",
    "steps_per_print",
    "wall_clock_breakdown",
    "memory_breakdown",
    "dump_state",
    "prescale_gradients",
    "gradient_predivide_factor",
    "zero_allow_untested_optimizer",
    "disable_allgather",
    "seq_parallel_communication_data_type",
    "tensorboard.*",
    "wandb.*",
    "comet.*",
    "csv_monitor.*",
    "monitor_config.*",
    "comms_logger.*",
    "flops_profiler.*",
    "aio.*",
    "checkpoint.*",
    "data_efficiency.*",
    "curriculum_learning.*",
    "autotuning.*",
    "elasticity.*",
    "activation_checkpointing.*",
    "nebula.*",
    "dataloader_drop_last",
    "graph_harvesting",
    "use_data_before_expert_parallel_",
    "timers.*",
    "gradient_accumulation_dtype",
    ZERO "allgather_partitions",
    ZERO "stage3_gather_16bit_weights_on_model_save",
    ZERO "stage3_gather_fp16_weights_on_model_save",
    ZERO "stage3_use_all_reduce_for_fetch_params",
    ZERO "gather_16bit_weights_on_model_save",
    ZERO "ignore_unused_parameters",
    ZERO "load_from_fp32_weights",
    ZERO "elastic_checkpoint",
    ZERO "legacy_stage1",
    ZERO "use_multi_rank_bucket_allreduce",
    ZERO "cpu_offload_use_pin_memory",
    ZERO "memory_efficient_linear",
    ZERO "override_module_apply",
    ZERO "log_trace_cache_warnings",
    ZERO "pipeline_loading_checkpoint",
    ZERO "offload_optimizer.*",
    ZERO "offload_param.*",
    NULL,
};

const struct mpl_import_reader mpl_import_deepspeed = {
    .name = "DeepSpeed configuration",
    MPL_IMPORT_KEYS(keys),
    .harmless = harmless,
};
