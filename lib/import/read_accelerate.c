/* SPDX-License-Identifier: MIT */
/*
 * TABLE: accelerate's configuration, as YAML and as flags of accelerate launch.
 * source: accelerate/commands/{launch,config/config_args}.py, release 1.15.0
 */
#include "import/import.h"

static const struct mpl_import_word kinds[] = {
    {"no", "\"no\"", NULL},     {"multi_gpu", "\"multi_gpu\"", NULL},
    {"fsdp", "\"fsdp\"", NULL}, {"deepspeed", "\"deepspeed\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word precisions[] = {
    {"no", "\"no\"", NULL},
    {"false", "\"no\"", NULL}, /* YAML's reading of no */
    {"fp16", "\"fp16\"", NULL},
    {"bf16", "\"bf16\"", NULL},
    {"fp8", "\"bf16\"",
     "not modelled: the products in float8; give training.float8, or "
     "training.transformer_engine"},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word devices[] = {
    {"none", "\"none\"", NULL},
    {"cpu", "\"cpu\"", NULL},
    {"nvme", "\"nvme\"", NULL},
    {NULL, NULL, NULL},
};

static enum memplan_status take_fsdp(const struct mpl_import_at *at, const json_t *value,
                                     struct memplan_error *err)
{
    if (!json_is_object(value))
        return mpl_import_is_off(value, NULL) ? MEMPLAN_OK
                                              : mpl_import_fail(&at->place, MEMPLAN_ERR_VALUE, err,
                                                                "expected a mapping of settings");
    return mpl_import_walk(at->import, at->doc, value, "fsdp_config.", &mpl_import_fsdp, err);
}

static enum memplan_status take_distributed(const struct mpl_import_at *at, const json_t *value,
                                            struct memplan_error *err)
{
    const struct mpl_import_key row = {
        .path = "import.distributed", .kind = MPL_IMPORT_WORD, .words = kinds};
    struct mpl_import_at own = *at;

    own.row = &row;
    /* YAML reads an unquoted NO as false. */
    return json_is_false(value)
               ? mpl_import_set_text(at->import, &at->place, row.path, "\"no\"", err)
               : mpl_import_convert(&own, value, err);
}

/* Names of deepspeed_config in YAML, and of flags without that section. */
#define DEEPSPEED(name_, ...)                                                                      \
    {.key = "deepspeed_config." name_, __VA_ARGS__},                                               \
    {                                                                                              \
        .key = name_, __VA_ARGS__                                                                  \
    }

static const struct mpl_import_key keys[] = {
    {.key = "distributed_type", .kind = MPL_IMPORT_CALL, .call = take_distributed},
    {.key = "mixed_precision",
     .path = "import.precision",
     .kind = MPL_IMPORT_WORD,
     .words = precisions},
    {.key = "num_processes", .path = "import.num_processes", .kind = MPL_IMPORT_INTEGER},
    {.key = "num_machines", .path = "import.nodes", .kind = MPL_IMPORT_INTEGER},
    {.key = "multi_gpu", .path = "import.multi_gpu", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_fsdp", .path = "import.fsdp", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_deepspeed", .path = "import.deepspeed", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "fsdp_config", .kind = MPL_IMPORT_CALL, .call = take_fsdp},
    DEEPSPEED("zero_stage", .path = "import.zero_stage", .kind = MPL_IMPORT_INTEGER),
    DEEPSPEED("offload_optimizer_device", .path = "parallelism.offload_optimizer",
              .kind = MPL_IMPORT_WORD, .words = devices),
    DEEPSPEED("offload_param_device", .path = "parallelism.offload_param", .kind = MPL_IMPORT_WORD,
              .words = devices),
    DEEPSPEED("gradient_accumulation_steps", .path = "import.deepspeed_accumulation",
              .kind = MPL_IMPORT_INTEGER),
    DEEPSPEED("gradient_clipping", .path = "import.deepspeed_clipping", .kind = MPL_IMPORT_NUMBER),
    DEEPSPEED("deepspeed_config_file", .kind = MPL_IMPORT_CALL, .call = mpl_import_take_deepspeed),
    {.key = "dynamo_config.dynamo_backend", .kind = MPL_IMPORT_UNLESS, .why = "torch.compile"},
    {.key = "dynamo_backend", .kind = MPL_IMPORT_UNLESS, .why = "torch.compile"},
    {.key = "use_megatron_lm", .kind = MPL_IMPORT_UNLESS, .why = "Megatron-LM"},
    {.key = "megatron_lm_config", .kind = MPL_IMPORT_UNLESS, .why = "Megatron-LM"},
    {.key = "parallelism_config.parallelism_config_dp_replicate_size",
     .path = "parallelism.replicate",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "parallelism_config.parallelism_config_tp_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "tensor parallelism"},
    {.key = "parallelism_config.parallelism_config_cp_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "context parallelism"},
    {.key = "parallelism_config.parallelism_config_sp_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "sequence parallelism"},
};

/* Where processes run and meet. */
static const char *const harmless[] = {
    "compute_environment",
    "command_file",
    "commands",
    "debug",
    "downcast_bf16",
    "dynamo_config.*",
    "enable_cpu_affinity",
    "fp8_config.*",
    "gpu_ids",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "main_training_function",
    "mpirun_config.*",
    "parallelism_config.*",
    "use_parallelism_config",
    "rdzv_backend",
    "rdzv_conf",
    "same_network",
    "tpu_env",
    "tpu_name",
    "tpu_zone",
    "tpu_use_cluster",
    "tpu_use_sudo",
    "tpu_vm",
    "use_cpu",
    "config_file",
    "num_cpu_threads_per_process",
    "max_restarts",
    "monitor_interval",
    "role",
    "log_dir",
    "tee",
    "zero3_init_flag",
    "zero3_save_16bit_model",
    "zero3_save_16bit_model",
    "deepspeed_hostfile",
    "deepspeed_multinode_launcher",
    "deepspeed_exclusion_filter",
    "deepspeed_inclusion_filter",
    "deepspeed_moe_layer_cls_names",
    "deepspeed_config.*",
    NULL,
};

const struct mpl_import_reader mpl_import_accelerate = {
    .name = "configuration of accelerate",
    MPL_IMPORT_KEYS(keys),
    .base = &mpl_import_fsdp,
    .harmless = harmless,
};
