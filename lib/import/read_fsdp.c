/* SPDX-License-Identifier: MIT */
/*
 * TABLE: FSDP's settings, as accelerate's YAML has them (fsdp_ before each name) and as
 * TrainingArguments.fsdp_config has them (with or without it).
 * source: accelerate/utils/dataclasses.py (FullyShardedDataParallelPlugin), release 1.15.0;
 * transformers/training_args.py (_process_fsdp_args), release 5.24.0
 */
#include <string.h>
#include <strings.h>

#include "import/import.h"

static const struct mpl_import_word strategies[] = {
    {"full_shard", "\"FULL_SHARD\"", NULL},
    {"1", "\"FULL_SHARD\"", NULL},
    {"shard_grad_op", "\"SHARD_GRAD_OP\"", NULL},
    {"2", "\"SHARD_GRAD_OP\"", NULL},
    {"no_shard", "\"NO_SHARD\"", NULL},
    {"3", "\"NO_SHARD\"", NULL},
    {"hybrid_shard", "\"HYBRID_SHARD\"", NULL},
    {"4", "\"HYBRID_SHARD\"", NULL},
    {"hybrid_shard_zero2", "\"_HYBRID_SHARD_ZERO2\"", NULL},
    {"5", "\"_HYBRID_SHARD_ZERO2\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word wraps[] = {
    {"transformer_based_wrap", "true", NULL},
    {"no_wrap", "false", NULL},
    {"size_based_wrap", "true", "not modelled: units by size; taken as one for each layer"},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word prefetches[] = {
    {"backward_pre", "\"backward_pre\"", NULL},
    {"backward_post", "\"backward_post\"", NULL},
    {"no_prefetch", "\"none\"", NULL},
    {"none", "\"none\"", NULL},
    {NULL, NULL, NULL},
};

/* A truth value of FSDP2, or FSDP1's sharding strategy under its newer name. */
static enum memplan_status take_reshard(const struct mpl_import_at *at, const json_t *value,
                                        struct memplan_error *err)
{
    struct mpl_import_key row = {.path = "import.reshard_after_forward",
                                 .kind = MPL_IMPORT_BOOLEAN};
    struct mpl_import_at own = *at;
    const char *text = json_string_value(value);

    if (text && strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0)
        row = (struct mpl_import_key){
            .path = "parallelism.sharding_strategy", .kind = MPL_IMPORT_WORD, .words = strategies};
    own.row = &row;
    return mpl_import_convert(&own, value, err);
}

#define BOTH(name_, ...)                                                                           \
    {.key = name_, __VA_ARGS__},                                                                   \
    {                                                                                              \
        .key = "fsdp_" name_, __VA_ARGS__                                                          \
    }
#define TRUTH(name_, path_) BOTH(name_, .path = (path_), .kind = MPL_IMPORT_BOOLEAN)

static const struct mpl_import_key keys[] = {
    BOTH("version", .path = "import.fsdp_version", .kind = MPL_IMPORT_INTEGER),
    BOTH("sharding_strategy", .path = "parallelism.sharding_strategy", .kind = MPL_IMPORT_WORD,
         .words = strategies),
    BOTH("reshard_after_forward", .kind = MPL_IMPORT_CALL, .call = take_reshard),
    TRUTH("offload_params", "parallelism.cpu_offload"),
    TRUTH("cpu_offload", "parallelism.cpu_offload"),
    BOTH("auto_wrap_policy", .path = "import.fsdp_wrap", .kind = MPL_IMPORT_WORD, .words = wraps),
    BOTH("min_num_params", .kind = MPL_IMPORT_UNLESS,
         .why = "units by size; taken as one for each layer"),
    BOTH("backward_prefetch", .path = "parallelism.backward_prefetch", .kind = MPL_IMPORT_WORD,
         .words = prefetches),
    BOTH("backward_prefetch_policy", .path = "parallelism.backward_prefetch",
         .kind = MPL_IMPORT_WORD, .words = prefetches),
    TRUTH("forward_prefetch", "parallelism.forward_prefetch"),
    TRUTH("use_orig_params", "parallelism.use_orig_params"),
    TRUTH("sync_module_states", "parallelism.sync_module_states"),
    TRUTH("limit_all_gathers", "parallelism.limit_all_gathers"),
    TRUTH("activation_checkpointing", "import.fsdp_checkpointing"),
    BOTH("activation_checkpointing_offload", .kind = MPL_IMPORT_UNLESS,
         .why = "inputs of layers that wait on the host"),
    BOTH("mixed_precision_policy", .kind = MPL_IMPORT_UNLESS, .why = "a policy of its own"),
    BOTH("ignored_modules", .kind = MPL_IMPORT_UNLESS, .why = "modules that are not sharded"),
    {.key = "xla", .kind = MPL_IMPORT_UNLESS, .why = "XLA's FSDP"},
};

/* Names of layers, and how checkpoints are loaded and saved. */
static const char *const harmless[] = {
    "transformer_layer_cls_to_wrap",
    "fsdp_transformer_layer_cls_to_wrap",
    "state_dict_type",
    "fsdp_state_dict_type",
    "final_state_dict_type",
    "fsdp_final_state_dict_type",
    "cpu_ram_efficient_loading",
    "fsdp_cpu_ram_efficient_loading",
    "cpu_offload_pin_memory",
    "fsdp_cpu_offload_pin_memory",
    "xla_fsdp_v2",
    "xla_fsdp_grad_ckpt",
    "xla_fsdp_settings.*",
    NULL,
};

const struct mpl_import_reader mpl_import_fsdp = {
    .name = "configuration of FSDP",
    MPL_IMPORT_KEYS(keys),
    .harmless = harmless,
};
