/* SPDX-License-Identifier: MIT */
/*
 * TABLE: LLaMA-Factory's configuration.
 * source: llamafactory/hparams, release 0.9.5
 */
#include <string.h>

#include "import/import.h"

static const struct mpl_import_word stages[] = {
    {"sft", NULL, NULL},
    {"pt", NULL, NULL},
    {"dpo", "\"dpo\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word kinds[] = {
    {"lora", "\"lora\"", NULL},
    {"full", "\"none\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word attentions[] = {
    {"auto", NULL, NULL},
    {"disabled", "\"eager\"", NULL},
    {"sdpa", "\"sdpa\"", NULL},
    {"fa2", "\"flash_attention_2\"", NULL},
    {"fa3", "\"flash_attention_3\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word bits[] = {
    {"4", "true", NULL},
    {"8", NULL, "not modelled: weights in 8 bits"},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word methods[] = {
    {"bnb", NULL, NULL},
    {"bitsandbytes", NULL, NULL},
    {NULL, NULL, NULL},
};

/* It is on unless it is switched off. */
static const struct mpl_import_word disabled[] = {
    {"true", "\"none\"", NULL},
    {"false", "\"full\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word galore[] = {
    {"true", "\"galore_adamw\"", NULL},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_key keys[] = {
    {.key = "stage", .path = "training.loss.name", .kind = MPL_IMPORT_WORD, .words = stages},
    {.key = "finetuning_type", .path = "import.adapter", .kind = MPL_IMPORT_WORD, .words = kinds},
    {.key = "lora_rank", .path = "training.lora.r", .kind = MPL_IMPORT_INTEGER},
    {.key = "lora_target", .path = "training.lora.target_modules", .kind = MPL_IMPORT_NAMES},
    {.key = "additional_target", .path = "training.lora.modules_to_save", .kind = MPL_IMPORT_NAMES},
    {.key = "cutoff_len", .path = "training.sequence_length", .kind = MPL_IMPORT_INTEGER},
    {.key = "flash_attn",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = attentions},
    {.key = "disable_gradient_checkpointing",
     .path = "training.activation_checkpointing",
     .kind = MPL_IMPORT_WORD,
     .words = disabled},
    {.key = "use_reentrant_gc", .path = "training.use_reentrant", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "quantization_bit",
     .path = "import.load_in_4bit",
     .kind = MPL_IMPORT_WORD,
     .words = bits},
    {.key = "quantization_method", .kind = MPL_IMPORT_WORD, .words = methods},
    {.key = "quantization_type", .path = "training.quantization.type", .kind = MPL_IMPORT_TEXT},
    {.key = "double_quantization",
     .path = "training.quantization.double",
     .kind = MPL_IMPORT_BOOLEAN},
    {.key = "pure_bf16", .path = "import.pure_bf16", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "enable_liger_kernel",
     .path = "training.loss.name",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_liger},
    {.key = "use_galore", .path = "import.optimizer", .kind = MPL_IMPORT_WORD, .words = galore},
    {.key = "galore_rank", .path = "training.optimizer.rank", .kind = MPL_IMPORT_INTEGER},
    {.key = "galore_layerwise", .kind = MPL_IMPORT_UNLESS, .why = "GaLore layer by layer"},
    {.key = "use_apollo", .kind = MPL_IMPORT_UNLESS, .why = "APOLLO"},
    {.key = "use_badam", .kind = MPL_IMPORT_UNLESS, .why = "BAdam"},
    {.key = "use_adam_mini", .kind = MPL_IMPORT_UNLESS, .why = "Adam-mini"},
    {.key = "use_muon", .kind = MPL_IMPORT_UNLESS, .why = "its Muon; give training.optimizer"},
    {.key = "loraplus_lr_ratio", .kind = MPL_IMPORT_UNLESS, .why = "LoRA+'s groups of parameters"},
    {.key = "create_new_adapter", .kind = MPL_IMPORT_UNLESS, .why = "an adapter beside others"},
    {.key = "adapter_name_or_path", .kind = MPL_IMPORT_UNLESS, .why = "adapters that are loaded"},
    {.key = "module_dropout", .kind = MPL_IMPORT_UNLESS, .why = "OFT"},
    {.key = "freeze_trainable_layers", .kind = MPL_IMPORT_UNLESS, .off = "2", .why = "freezing"},
    {.key = "use_llama_pro", .kind = MPL_IMPORT_UNLESS, .why = "blocks that are added"},
    {.key = "mixture_of_depths", .kind = MPL_IMPORT_UNLESS, .why = "mixture of depths"},
    {.key = "shift_attn", .kind = MPL_IMPORT_UNLESS, .why = "shifted sparse attention"},
    {.key = "upcast_layernorm", .kind = MPL_IMPORT_UNLESS, .why = "norms in float32"},
    {.key = "upcast_lmhead_output", .kind = MPL_IMPORT_UNLESS, .why = "logits in float32"},
    {.key = "use_unsloth_gc", .kind = MPL_IMPORT_UNLESS, .why = "unsloth's checkpointing"},
    {.key = "use_kt", .kind = MPL_IMPORT_UNLESS, .why = "KTransformers' experts on the host"},
    {.key = "use_mca", .kind = MPL_IMPORT_UNLESS, .why = "Megatron"},
    {.key = "use_megatron_bridge", .kind = MPL_IMPORT_UNLESS, .why = "Megatron"},
    {.key = "use_hyper_parallel", .kind = MPL_IMPORT_UNLESS, .why = "its parallelism"},
    {.key = "fp8", .kind = MPL_IMPORT_UNLESS, .why = "products in float8; give training.float8"},
    {.key = "use_eaft_loss", .kind = MPL_IMPORT_UNLESS, .why = "the EAFT loss"},
    {.key = "use_dft_loss", .kind = MPL_IMPORT_UNLESS, .why = "the DFT loss"},
    {.key = "use_asft_loss", .kind = MPL_IMPORT_UNLESS, .why = "the ASFT loss, with its reference"},
    {.key = "ref_model", .kind = MPL_IMPORT_UNLESS, .why = "a reference model of its own"},
    {.key = "pref_loss", .kind = MPL_IMPORT_UNLESS, .off = "sigmoid", .why = "its loss"},
    {.key = "pref_ftx", .kind = MPL_IMPORT_UNLESS, .why = "a supervised loss beside"},
    {.key = "sequence_parallel_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "sequence parallelism"},
    {.key = "context_parallel_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "context parallelism"},
    {.key = "val_size",
     .kind = MPL_IMPORT_UNLESS,
     .why = "the evaluation; give training.evaluation.batches"},
    {.key = "eval_dataset",
     .kind = MPL_IMPORT_UNLESS,
     .why = "the evaluation; give training.evaluation.batches"},
    {.key = "resize_vocab", .kind = MPL_IMPORT_UNLESS, .why = "an embedding that grows"},
    {.key = "add_tokens", .kind = MPL_IMPORT_UNLESS, .why = "an embedding that grows"},
    {.key = "rope_scaling", .kind = MPL_IMPORT_UNLESS, .why = "scaled positions"},
};

static const char *const harmless[] = {
#include "import/llamafactory_harmless.inc"
    NULL,
};

const struct mpl_import_reader mpl_import_llamafactory = {
    .name = "configuration of LLaMA-Factory",
    MPL_IMPORT_KEYS(keys),
    .base = &mpl_import_arguments,
    .harmless = harmless,
};
