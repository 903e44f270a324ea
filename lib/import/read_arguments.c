/* SPDX-License-Identifier: MIT */
/*
 * TABLE: transformers' TrainingArguments, with TRL's SFTConfig and ModelConfig and the names that
 * widely copied scripts have beside them; as JSON, as YAML and as flags of a command.
 * source: transformers/training_args.py, releases 4.48.3 to 5.24.0;
 * trl/trainer/{model,sft}_config.py, release 1.16.0
 */
#include <stdio.h>
#include <string.h>

#include "import/import.h"

static const struct mpl_import_word attentions[] = {
    {"sdpa", "\"sdpa\"", NULL},
    {"eager", "\"eager\"", NULL},
    {"flash_attention_2", "\"flash_attention_2\"", NULL},
    {"flash_attention_3", "\"flash_attention_3\"", NULL},
    {"kernels-community/flash-attn2", "\"flash_attention_2\"", NULL},
    {"kernels-community/flash-attn3", "\"flash_attention_3\"", NULL},
    {"kernels-community/vllm-flash-attn3", "\"flash_attention_3\"", NULL},
    {"flex_attention", "\"flex_attention\"", NULL},
    {"auto", NULL, NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word flash[] = {
    {"true", "\"flash_attention_2\"", NULL},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word evaluations[] = {
    {"no", NULL, NULL},
    {"false", NULL, NULL},
    {"steps", NULL, "not counted: an evaluation; give training.evaluation.batches"},
    {"epoch", NULL, "not counted: an evaluation; give training.evaluation.batches"},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word adafactor[] = {
    {"true", "\"adafactor_hf\"", NULL},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word losses[] = {
    {"nll", "\"cross_entropy\"", NULL},
    {"chunked_nll", "\"chunked_nll\"", NULL},
    {"dft", NULL, "not modelled: TRL's DFT loss, taken as its default"},
    {"sigmoid", NULL, NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word precomputed[] = {
    {"true", "\"precomputed\"", NULL},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};

/* A name of a file, or the configuration itself. */
enum memplan_status mpl_import_take_deepspeed(const struct mpl_import_at *at, const json_t *value,
                                              struct memplan_error *err)
{
    enum memplan_status status;

    if (json_is_object(value))
        return mpl_import_walk(at->import, at->doc, value, "deepspeed.", &mpl_import_deepspeed,
                               err);
    if (mpl_import_is_off(value, NULL) || !json_is_string(value))
        return MEMPLAN_OK;
    status = mpl_import_set(at->import, &at->place, "import.deepspeed_file", value, err);
    return status ? status
                  : mpl_import_take_named(at->import, &at->place, json_string_value(value),
                                          &mpl_import_deepspeed, NULL, err);
}

static enum memplan_status take_fsdp_config(const struct mpl_import_at *at, const json_t *value,
                                            struct memplan_error *err)
{
    enum memplan_status status;

    if (json_is_object(value))
        return mpl_import_walk(at->import, at->doc, value, "fsdp_config.", &mpl_import_fsdp, err);
    if (mpl_import_is_off(value, NULL) || !json_is_string(value))
        return MEMPLAN_OK;
    status = mpl_import_set(at->import, &at->place, "import.fsdp_file", value, err);
    return status ? status
                  : mpl_import_take_named(at->import, &at->place, json_string_value(value),
                                          &mpl_import_fsdp,
                                          "the configuration of FSDP that the trainer reads", err);
}

static enum memplan_status take_fsdp_word(const struct mpl_import_at *at, const char *word,
                                          size_t len, struct memplan_error *err)
{
    static const struct {
        const char *word, *path, *json;
    } words[] = {
        {"full_shard", "parallelism.sharding_strategy", "\"FULL_SHARD\""},
        {"shard_grad_op", "parallelism.sharding_strategy", "\"SHARD_GRAD_OP\""},
        {"hybrid_shard", "parallelism.sharding_strategy", "\"HYBRID_SHARD\""},
        {"hybrid_shard_zero2", "parallelism.sharding_strategy", "\"_HYBRID_SHARD_ZERO2\""},
        {"no_shard", "parallelism.sharding_strategy", "\"NO_SHARD\""},
        {"offload", "parallelism.cpu_offload", "true"},
        {"auto_wrap", "import.fsdp_wrap", "true"},
        {"true", "import.fsdp", "true"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i].word) == len && strncmp(words[i].word, word, len) == 0)
            return mpl_import_set_text(at->import, &at->place, words[i].path, words[i].json, err);
    return mpl_import_fail(&at->place, MEMPLAN_ERR_UNSUPPORTED, err,
                           "found %.*s, expected full_shard, shard_grad_op, hybrid_shard, "
                           "hybrid_shard_zero2, no_shard, offload or auto_wrap",
                           (int)(len < 40 ? len : 40), word);
}

/* "full_shard auto_wrap", or a list of such words, or true. */
static enum memplan_status take_fsdp(const struct mpl_import_at *at, const json_t *value,
                                     struct memplan_error *err)
{
    enum memplan_status status;
    const json_t *item;
    char text[160] = "", word[48];
    size_t i, used = 0;

    if (mpl_import_is_off(value, NULL))
        return MEMPLAN_OK;
    json_array_foreach(value, i, item)
    {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s ",
                                 mpl_import_lower(item, word, sizeof(word)));
        if (used >= sizeof(text))
            break;
    }
    if (!json_is_array(value))
        mpl_import_lower(value, text, sizeof(text));
    status = mpl_import_set_text(at->import, &at->place, "import.fsdp", "true", err);
    for (const char *c = text; *c && !status; c += strspn(c, " ,")) {
        size_t len = strcspn(c, " ,");

        if (len)
            status = take_fsdp_word(at, c, len, err);
        c += len;
    }
    return status;
}

/* A key that SFTConfig alone has: the loop is TRL's. */
static enum memplan_status take_sft(const struct mpl_import_at *at, const json_t *value,
                                    struct memplan_error *err)
{
    (void)value;
    return mpl_import_set_text(at->import, &at->place, "import.sft", "true", err);
}

#define CHECKPOINTING(key_)                                                                        \
    {.key = key_,                                                                                  \
     .path = "training.activation_checkpointing",                                                  \
     .kind = MPL_IMPORT_WORD,                                                                      \
     .words = mpl_import_checkpointing},                                                           \
    {                                                                                              \
        .key = key_ "_kwargs.use_reentrant", .path = "training.use_reentrant",                     \
        .kind = MPL_IMPORT_BOOLEAN                                                                 \
    }

#define LENGTH(key_)                                                                               \
    {                                                                                              \
        .key = key_, .path = "training.sequence_length", .kind = MPL_IMPORT_INTEGER                \
    }

static const struct mpl_import_key keys[] = {
    {.key = "model_name_or_path", .path = "import.model", .kind = MPL_IMPORT_TEXT},
    {.key = "per_device_train_batch_size",
     .path = "training.micro_batch_size",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "per_gpu_train_batch_size",
     .path = "training.micro_batch_size",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "gradient_accumulation_steps",
     .path = "training.gradient_accumulation_steps",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "max_grad_norm", .path = "training.gradient_clipping", .kind = MPL_IMPORT_NUMBER},
    {.key = "bf16", .path = "import.bf16", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "fp16", .path = "import.fp16", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "optim",
     .path = "import.optimizer",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_optimizers},
    {.key = "adafactor", .path = "import.optimizer", .kind = MPL_IMPORT_WORD, .words = adafactor},
    {.key = "optim_args", .kind = MPL_IMPORT_UNLESS, .why = "arguments of the optimizer"},
    {.key = "optim_target_modules",
     .kind = MPL_IMPORT_UNLESS,
     .why = "an optimizer of some modules"},
    {.key = "weight_decay", .path = "training.optimizer.weight_decay", .kind = MPL_IMPORT_NUMBER},
    CHECKPOINTING("gradient_checkpointing"),
    CHECKPOINTING("activation_checkpointing"),
    {.key = "gradient_checkpointing_use_reentrant",
     .path = "training.use_reentrant",
     .kind = MPL_IMPORT_BOOLEAN},
    {.key = "activation_offloading",
     .path = "training.offload_activations",
     .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_liger_kernel",
     .path = "training.loss.name",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_liger},
    {.key = "use_liger",
     .path = "training.loss.name",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_liger},
    {.key = "liger_kernel_config", .kind = MPL_IMPORT_UNLESS, .why = "a choice of Liger's kernels"},
    {.key = "loss_type", .path = "training.loss.name", .kind = MPL_IMPORT_WORD, .words = losses},
    {.key = "label_smoothing_factor",
     .path = "training.loss.label_smoothing",
     .kind = MPL_IMPORT_NUMBER},
    {.key = "neftune_noise_alpha",
     .kind = MPL_IMPORT_UNLESS,
     .why = "noise that is added to the embeddings"},
    {.key = "torch_compile", .kind = MPL_IMPORT_UNLESS, .why = "torch.compile"},
    {.key = "auto_find_batch_size", .kind = MPL_IMPORT_UNLESS, .why = "a batch that is searched"},
    {.key = "resume_from_checkpoint",
     .kind = MPL_IMPORT_UNLESS,
     .why = "what resuming loads; give checkpoint.resume"},
    {.key = "eval_strategy", .kind = MPL_IMPORT_WORD, .words = evaluations},
    {.key = "evaluation_strategy", .kind = MPL_IMPORT_WORD, .words = evaluations},
    {.key = "eval_on_start",
     .kind = MPL_IMPORT_UNLESS,
     .why = "an evaluation before the first step"},
    {.key = "deepspeed", .kind = MPL_IMPORT_CALL, .call = mpl_import_take_deepspeed},
    {.key = "deepspeed_config", .kind = MPL_IMPORT_CALL, .call = mpl_import_take_deepspeed},
    {.key = "fsdp", .kind = MPL_IMPORT_CALL, .call = take_fsdp},
    {.key = "fsdp_config", .kind = MPL_IMPORT_CALL, .call = take_fsdp_config},
    {.key = "fsdp_transformer_layer_cls_to_wrap",
     .path = "import.fsdp_layer",
     .kind = MPL_IMPORT_TEXT},
    {.key = "ddp_find_unused_parameters",
     .path = "parallelism.find_unused_parameters",
     .kind = MPL_IMPORT_BOOLEAN},
    {.key = "ddp_bucket_cap_mb", .path = "parallelism.bucket_cap_mb", .kind = MPL_IMPORT_NUMBER},
    {.key = "ddp_broadcast_buffers",
     .path = "parallelism.broadcast_buffers",
     .kind = MPL_IMPORT_BOOLEAN},
    {.key = "ddp_static_graph", .path = "parallelism.static_graph", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "parallelism_config",
     .kind = MPL_IMPORT_UNLESS,
     .why = "tensor, context or sequence parallelism"},
    {.key = "tensor_parallel_size",
     .kind = MPL_IMPORT_UNLESS,
     .off = "1",
     .why = "tensor parallelism"},
    {.key = "dataloader_num_workers",
     .path = "host.dataloader_workers",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "dataloader_prefetch_factor",
     .path = "host.prefetch_factor",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "dataloader_pin_memory", .path = "host.pin_memory", .kind = MPL_IMPORT_BOOLEAN},
    /* ModelConfig, SFTConfig, scripts */
    {.key = "torch_dtype",
     .path = "import.dtype",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_dtypes},
    {.key = "dtype", .path = "import.dtype", .kind = MPL_IMPORT_WORD, .words = mpl_import_dtypes},
    {.key = "attn_implementation",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = attentions},
    {.key = "use_flash_attn",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = flash},
    {.key = "use_flash_attention_2",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = flash},
    LENGTH("max_length"),
    LENGTH("max_seq_length"),
    LENGTH("max_seq_len"),
    LENGTH("model_max_length"),
    LENGTH("block_size"),
    {.key = "use_peft", .path = "import.use_peft", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_lora", .path = "import.use_peft", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "lora_enable", .path = "import.use_peft", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_peft_lora", .path = "import.use_peft", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "lora_r", .path = "training.lora.r", .kind = MPL_IMPORT_INTEGER},
    {.key = "lora_alpha", .path = "training.lora.alpha", .kind = MPL_IMPORT_NUMBER},
    {.key = "lora_dropout", .path = "training.lora.dropout", .kind = MPL_IMPORT_NUMBER},
    {.key = "lora_target_modules",
     .path = "training.lora.target_modules",
     .kind = MPL_IMPORT_NAMES},
    {.key = "lora_modules_to_save",
     .path = "training.lora.modules_to_save",
     .kind = MPL_IMPORT_NAMES},
    {.key = "use_dora", .path = "training.lora.use_dora", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_rslora", .path = "training.lora.use_rslora", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "lora_target_parameters",
     .kind = MPL_IMPORT_UNLESS,
     .why = "adapters of bare parameters"},
    {.key = "load_in_4bit", .path = "import.load_in_4bit", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_4bit_quantization", .path = "import.load_in_4bit", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "load_in_8bit", .kind = MPL_IMPORT_UNLESS, .why = "weights in 8 bits"},
    {.key = "use_8bit_quantization", .kind = MPL_IMPORT_UNLESS, .why = "weights in 8 bits"},
    {.key = "bnb_4bit_quant_type", .path = "training.quantization.type", .kind = MPL_IMPORT_TEXT},
    {.key = "use_bnb_nested_quant",
     .path = "training.quantization.double",
     .kind = MPL_IMPORT_BOOLEAN},
    {.key = "use_nested_quant", .path = "training.quantization.double", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "bnb_4bit_compute_dtype",
     .path = "training.quantization.compute_dtype",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_dtypes},
    {.key = "bnb_4bit_quant_storage",
     .path = "training.quantization.storage_dtype",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_dtypes},
    {.key = "bnb_4bit_quant_storage_dtype",
     .path = "training.quantization.storage_dtype",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_dtypes},
    {.key = "q_lora", .path = "import.load_in_4bit", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "flash_attn", .path = "training.attention", .kind = MPL_IMPORT_WORD, .words = flash},
    {.key = "packing", .kind = MPL_IMPORT_CALL, .call = take_sft},
    {.key = "dataset_text_field", .kind = MPL_IMPORT_CALL, .call = take_sft},
    {.key = "assistant_only_loss", .kind = MPL_IMPORT_CALL, .call = take_sft},
    {.key = "completion_only_loss", .kind = MPL_IMPORT_CALL, .call = take_sft},
    {.key = "max_prompt_length", .path = "import.prompt_length", .kind = MPL_IMPORT_INTEGER},
    {.key = "max_completion_length",
     .path = "import.completion_length",
     .kind = MPL_IMPORT_INTEGER},
    {.key = "beta", .path = "import.beta", .kind = MPL_IMPORT_NUMBER},
    {.key = "use_vllm", .path = "import.use_vllm", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "vllm_mode", .path = "import.vllm_mode", .kind = MPL_IMPORT_TEXT},
    {.key = "precompute_ref_log_probs",
     .path = "training.loss.reference",
     .kind = MPL_IMPORT_WORD,
     .words = precomputed},
    {.key = "num_generations",
     .kind = MPL_IMPORT_UNLESS,
     .why = "generation; give training.loss.name grpo for its step"},
    {.key = "use_unsloth", .kind = MPL_IMPORT_UNLESS, .why = "unsloth's kernels"},
    {.key = "vision_tower", .kind = MPL_IMPORT_UNLESS, .why = "the encoder of pictures"},
    {.key = "packing_strategy", .kind = MPL_IMPORT_UNLESS, .off = "bfd", .why = "how it packs"},
    {.key = "pad_to_multiple_of",
     .kind = MPL_IMPORT_UNLESS,
     .why = "lengths that are rounded up; give training.sequence_length so"},
};

/* What changes no tensor of a step. */
static const char *const harmless[] = {
#include "import/arguments_harmless.inc"
    NULL,
};

const struct mpl_import_reader mpl_import_arguments = {
    .name = "TrainingArguments",
    MPL_IMPORT_KEYS(keys),
    .harmless = harmless,
};
