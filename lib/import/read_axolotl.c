/* SPDX-License-Identifier: MIT */
/*
 * TABLE: axolotl's configuration.
 * source: axolotl/utils/schemas, release 0.19.0
 */
#include <string.h>

#include "import/import.h"

static const struct mpl_import_word adapters[] = {
    {"lora", "\"lora\"", NULL},
    {"qlora", "\"qlora\"", NULL},
    {"", "\"none\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word linear[] = {
    {"true", "\"all-linear\"", NULL},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};

#define ATTENTION(name_, key_, json_)                                                              \
    static const struct mpl_import_word name_[] = {                                                \
        {"true", json_, NULL},                                                                     \
        {"false", NULL, NULL},                                                                     \
        {NULL, NULL, NULL},                                                                        \
    }

ATTENTION(flash, "flash_attention", "\"flash_attention_2\"");
ATTENTION(sdp, "sdp_attention", "\"sdpa\"");
ATTENTION(eager, "eager_attention", "\"eager\"");
ATTENTION(flex, "flex_attention", "\"flex_attention\"");

static const struct mpl_import_word liger_loss[] = {
    {"true", "\"fused_linear_cross_entropy\"", NULL},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word offloading[] = {
    {"true", "true", NULL},
    {"legacy", "true", "not modelled: axolotl's older code, taken as torch's save_on_cpu"},
    {"disk", "true", "not modelled: activations that wait on disk, taken as on the host"},
    {"hidden_states", NULL, "not modelled: hidden states that wait on the host"},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};

/* true, false, auto (true where the card can), or full: no autocast, everything in the format. */
static enum memplan_status take_bf16(const struct mpl_import_at *at, const json_t *value,
                                     struct memplan_error *err)
{
    const struct mpl_import_key row = {.path = "import.bf16", .kind = MPL_IMPORT_BOOLEAN};
    struct mpl_import_at own = *at;
    const char *text = json_string_value(value);

    own.row = &row;
    if (text && strcmp(text, "full") == 0)
        return mpl_import_set_text(at->import, &at->place, "import.pure_bf16", "true", err);
    if (text && strcmp(text, "auto") == 0)
        return mpl_import_set_text(at->import, &at->place, row.path, "true", err);
    return mpl_import_convert(&own, value, err);
}

static const struct mpl_import_key keys[] = {
    {.key = "base_model", .path = "import.model", .kind = MPL_IMPORT_TEXT},
    {.key = "sequence_len", .path = "training.sequence_length", .kind = MPL_IMPORT_INTEGER},
    {.key = "micro_batch_size", .path = "training.micro_batch_size", .kind = MPL_IMPORT_INTEGER},
    {.key = "batch_size",
     .kind = MPL_IMPORT_UNLESS,
     .why = "batch_size; give gradient_accumulation_steps"},
    {.key = "adapter", .path = "import.adapter", .kind = MPL_IMPORT_WORD, .words = adapters},
    {.key = "lora_target_linear",
     .path = "training.lora.target_modules",
     .kind = MPL_IMPORT_WORD,
     .words = linear},
    {.key = "peft_use_dora", .path = "training.lora.use_dora", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "peft_use_rslora", .path = "training.lora.use_rslora", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "peft_layers_to_transform",
     .kind = MPL_IMPORT_UNLESS,
     .why = "adapters in some layers"},
    {.key = "lora_rank_pattern", .kind = MPL_IMPORT_UNLESS, .why = "ranks that differ by layer"},
    {.key = "lora_mlp_kernel", .kind = MPL_IMPORT_UNLESS, .why = "axolotl's kernels for adapters"},
    {.key = "lora_qkv_kernel", .kind = MPL_IMPORT_UNLESS, .why = "axolotl's kernels for adapters"},
    {.key = "lora_o_kernel", .kind = MPL_IMPORT_UNLESS, .why = "axolotl's kernels for adapters"},
    {.key = "lora_embedding_kernel",
     .kind = MPL_IMPORT_UNLESS,
     .why = "axolotl's kernels for adapters"},
    {.key = "bf16", .kind = MPL_IMPORT_CALL, .call = take_bf16},
    {.key = "bfloat16", .kind = MPL_IMPORT_CALL, .call = take_bf16},
    {.key = "float16", .path = "import.fp16", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "fp8", .kind = MPL_IMPORT_UNLESS, .why = "products in float8; give training.float8"},
    {.key = "optimizer",
     .path = "import.optimizer",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_optimizers},
    {.key = "flash_attention",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = flash},
    {.key = "sdp_attention", .path = "training.attention", .kind = MPL_IMPORT_WORD, .words = sdp},
    {.key = "eager_attention",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = eager},
    {.key = "flex_attention", .path = "training.attention", .kind = MPL_IMPORT_WORD, .words = flex},
    {.key = "activation_offloading",
     .path = "training.offload_activations",
     .kind = MPL_IMPORT_WORD,
     .words = offloading},
    {.key = "xformers_attention", .kind = MPL_IMPORT_UNLESS, .why = "xFormers' attention"},
    {.key = "sage_attention", .kind = MPL_IMPORT_UNLESS, .why = "SageAttention"},
    {.key = "flash_attn_cross_entropy", .kind = MPL_IMPORT_UNLESS, .why = "flash-attn's loss"},
    {.key = "flash_attn_rms_norm", .kind = MPL_IMPORT_UNLESS, .why = "flash-attn's norms"},
    {.key = "flash_attn_fuse_mlp", .kind = MPL_IMPORT_UNLESS, .why = "a fused MLP"},
    {.key = "flash_attn_fuse_qkv", .kind = MPL_IMPORT_UNLESS, .why = "fused projections"},
    {.key = "val_set_size",
     .kind = MPL_IMPORT_UNLESS,
     .why = "the evaluation; give training.evaluation.batches"},
    {.key = "fsdp_version", .path = "import.fsdp_version", .kind = MPL_IMPORT_INTEGER},
    {.key = "liger_fused_linear_cross_entropy",
     .path = "training.loss.name",
     .kind = MPL_IMPORT_WORD,
     .words = liger_loss},
    {.key = "liger_rope", .kind = MPL_IMPORT_UNLESS, .why = "Liger's rotary kernel"},
    {.key = "liger_rms_norm", .kind = MPL_IMPORT_UNLESS, .why = "Liger's norms"},
    {.key = "liger_layer_norm", .kind = MPL_IMPORT_UNLESS, .why = "Liger's norms"},
    {.key = "liger_swiglu", .kind = MPL_IMPORT_UNLESS, .why = "Liger's MLP"},
    {.key = "liger_glu_activation", .kind = MPL_IMPORT_UNLESS, .why = "Liger's MLP"},
    {.key = "liger_cross_entropy", .kind = MPL_IMPORT_UNLESS, .why = "Liger's loss over logits"},
    {.key = "cut_cross_entropy", .kind = MPL_IMPORT_UNLESS, .why = "cut cross-entropy"},
    {.key = "chunked_cross_entropy", .kind = MPL_IMPORT_UNLESS, .why = "axolotl's loss in chunks"},
    {.key = "chunked_cross_entropy_num_chunks",
     .kind = MPL_IMPORT_UNLESS,
     .why = "axolotl's loss in chunks"},
    {.key = "unfrozen_parameters",
     .kind = MPL_IMPORT_UNLESS,
     .why = "weights that alone train; give training.frozen"},
    {.key = "rl", .kind = MPL_IMPORT_UNLESS, .why = "its loss; give training.loss.name"},
    {.key = "reward_model", .kind = MPL_IMPORT_UNLESS, .why = "a reward model"},
    {.key = "relora", .kind = MPL_IMPORT_UNLESS, .why = "ReLoRA"},
    {.key = "lisa_n_layers", .kind = MPL_IMPORT_UNLESS, .why = "LISA"},
    {.key = "gptq", .kind = MPL_IMPORT_UNLESS, .why = "GPTQ"},
    {.key = "qat", .kind = MPL_IMPORT_UNLESS, .why = "training for quantisation"},
    {.key = "quantize_moe_experts", .kind = MPL_IMPORT_UNLESS, .why = "experts in few bits"},
    {.key = "model_quantization_config", .kind = MPL_IMPORT_UNLESS, .why = "its quantisation"},
    {.key = "bnb_config_kwargs", .kind = MPL_IMPORT_UNLESS, .why = "its own bitsandbytes settings"},
    {.key = "use_onebitllms", .kind = MPL_IMPORT_UNLESS, .why = "one-bit weights"},
    {.key = "tiled_mlp", .kind = MPL_IMPORT_UNLESS, .why = "an MLP in tiles"},
    {.key = "noisy_embedding_alpha",
     .kind = MPL_IMPORT_UNLESS,
     .why = "noise that is added to the embeddings"},
    {.key = "context_parallel_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "context parallelism"},
    {.key = "sequence_parallel_degree",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "sequence parallelism"},
    {.key = "dp_replicate_size", .path = "parallelism.replicate", .kind = MPL_IMPORT_INTEGER},
    {.key = "layer_offloading", .kind = MPL_IMPORT_UNLESS, .why = "layers that wait on the host"},
    {.key = "lora_on_cpu", .kind = MPL_IMPORT_UNLESS, .why = "adapters on the host"},
    {.key = "embeddings_skip_upcast",
     .kind = MPL_IMPORT_UNLESS,
     .why = "embeddings that stay in half precision"},
    {.key = "deepcompile", .kind = MPL_IMPORT_UNLESS, .why = "DeepCompile"},
    {.key = "selective_checkpointing", .kind = MPL_IMPORT_UNLESS, .why = "selective checkpointing"},
    {.key = "recompute_layer_types", .kind = MPL_IMPORT_UNLESS, .why = "selective checkpointing"},
    {.key = "overrides_of_model_config",
     .kind = MPL_IMPORT_UNLESS,
     .why = "changes of the model; give them in the model section"},
    {.key = "overrides_of_model_kwargs",
     .kind = MPL_IMPORT_UNLESS,
     .why = "changes of how the model is loaded"},
    {.key = "gpu_memory_limit", .kind = MPL_IMPORT_UNLESS, .why = "a limit of memory"},
    {.key = "gc_steps", .kind = MPL_IMPORT_UNLESS, .why = "emptied caches every few steps"},
};

static const char *const harmless[] = {
#include "import/axolotl_harmless.inc"
    NULL,
};

const struct mpl_import_reader mpl_import_axolotl = {
    .name = "configuration of axolotl",
    MPL_IMPORT_KEYS(keys),
    .base = &mpl_import_arguments,
    .harmless = harmless,
};
