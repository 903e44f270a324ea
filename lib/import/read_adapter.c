/* SPDX-License-Identifier: MIT */
/*
 * TABLE: keys of PEFT's adapter_config.json.
 * source: peft/config.py, peft/tuners/lora/config.py, release 0.21.2
 */
#include "import/import.h"

static const struct mpl_import_word kinds[] = {
    {"lora", "\"lora\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word biases[] = {
    {"none", "\"none\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_key keys[] = {
    {.key = "peft_type", .path = "import.adapter", .kind = MPL_IMPORT_WORD, .words = kinds},
    {.key = "base_model_name_or_path", .path = "import.model", .kind = MPL_IMPORT_TEXT},
    {.key = "r", .path = "training.lora.r", .kind = MPL_IMPORT_INTEGER},
    {.key = "lora_alpha", .path = "training.lora.alpha", .kind = MPL_IMPORT_NUMBER},
    {.key = "lora_dropout", .path = "training.lora.dropout", .kind = MPL_IMPORT_NUMBER},
    {.key = "target_modules", .path = "training.lora.target_modules", .kind = MPL_IMPORT_NAMES},
    {.key = "modules_to_save", .path = "training.lora.modules_to_save", .kind = MPL_IMPORT_NAMES},
    {.key = "use_dora", .path = "training.lora.use_dora", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_rslora", .path = "training.lora.use_rslora", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "bias", .path = "training.lora.bias", .kind = MPL_IMPORT_WORD, .words = biases},
    {.key = "exclude_modules", .kind = MPL_IMPORT_UNLESS, .why = "excluded modules"},
    {.key = "layers_to_transform", .kind = MPL_IMPORT_UNLESS, .why = "adapters in some layers"},
    {.key = "layers_pattern", .kind = MPL_IMPORT_UNLESS, .why = "adapters in some layers"},
    {.key = "rank_pattern", .kind = MPL_IMPORT_UNLESS, .why = "ranks that differ by layer"},
    {.key = "trainable_token_indices", .kind = MPL_IMPORT_UNLESS, .why = "trainable tokens"},
    {.key = "target_parameters", .kind = MPL_IMPORT_UNLESS, .why = "adapters of bare parameters"},
    {.key = "lora_bias", .kind = MPL_IMPORT_UNLESS, .why = "biases of the adapters"},
    {.key = "layer_replication", .kind = MPL_IMPORT_UNLESS, .why = "layers that are repeated"},
    {.key = "use_qalora", .kind = MPL_IMPORT_UNLESS, .why = "QALoRA"},
    {.key = "use_bdlora", .kind = MPL_IMPORT_UNLESS, .why = "block-diagonal adapters"},
    {.key = "alora_invocation_tokens", .kind = MPL_IMPORT_UNLESS, .why = "activated LoRA"},
    {.key = "arrow_config", .kind = MPL_IMPORT_UNLESS, .why = "routed adapters"},
    {.key = "velora_config", .kind = MPL_IMPORT_UNLESS, .why = "VeLoRA"},
    {.key = "monteclora_config", .kind = MPL_IMPORT_UNLESS, .why = "MonteCLoRA"},
    {.key = "kasa_config", .kind = MPL_IMPORT_UNLESS, .why = "KaSA"},
    {.key = "ensure_weight_tying",
     .kind = MPL_IMPORT_UNLESS,
     .why = "trained copies of tied weights"},
    {.key = "megatron_config", .kind = MPL_IMPORT_UNLESS, .why = "Megatron's linear layers"},
};

static const char *const harmless[] = {
    "alpha_pattern",
    "auto_mapping",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "loftq_config.*",
    "megatron_core",
    "peft_version",
    "revision",
    "task_type",
    "corda_config.*",
    "eva_config.*",
    "runtime_config.*",
    "qalora_group_size",
    "lora_ga_config.*",
    "rank_alpha",
    NULL,
};

const struct mpl_import_reader mpl_import_adapter = {
    .name = "PEFT configuration",
    MPL_IMPORT_KEYS(keys),
    .harmless = harmless,
};
