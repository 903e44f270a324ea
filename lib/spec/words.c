/* SPDX-License-Identifier: MIT */
/* TABLE: the words that fields of a plan accept, know but do not model, or explain. */
#include "spec/words.h"

#include <stdio.h>
#include <string.h>

#define YES(text, number)                                                                          \
    {                                                                                              \
        .word = (text), .value = (number)                                                          \
    }
/* A word with a line for people. */
#define SAY(text, number, line)                                                                    \
    {                                                                                              \
        .word = (text), .value = (number), .help = (line)                                          \
    }
#define NOT(text)                                                                                  \
    {                                                                                              \
        .word = (text), .unsupported = true                                                        \
    }
#define HINT(text, other)                                                                          \
    {                                                                                              \
        .word = (text), .hint = (other)                                                            \
    }
#define END                                                                                        \
    {                                                                                              \
        .word = NULL                                                                               \
    }

const struct mpl_word mpl_model_type_words[] = {NOT("baichuan"),
                                                NOT("bert"),
                                                NOT("bloom"),
                                                NOT("chatglm"),
                                                NOT("cohere"),
                                                NOT("cohere2"),
                                                NOT("dbrx"),
                                                NOT("deepseek_v2"),
                                                NOT("dflash2"),
                                                NOT("dspark"),
                                                NOT("deepseek_v3"),
                                                NOT("exaone"),
                                                NOT("falcon"),
                                                NOT("falcon_mamba"),
                                                NOT("gemma"),
                                                NOT("gemma2"),
                                                NOT("gemma3"),
                                                NOT("gemma3_text"),
                                                NOT("glm"),
                                                NOT("glm4"),
                                                NOT("gpt2"),
                                                NOT("gpt_bigcode"),
                                                NOT("gpt_neo"),
                                                NOT("gpt_neox"),
                                                NOT("gpt_oss"),
                                                NOT("gptj"),
                                                NOT("granite"),
                                                NOT("granitemoe"),
                                                NOT("internlm2"),
                                                NOT("jamba"),
                                                NOT("kimi_k2"),
                                                NOT("llama4"),
                                                NOT("llama4_text"),
                                                NOT("mamba"),
                                                NOT("mamba2"),
                                                NOT("mistral"),
                                                NOT("mixtral"),
                                                NOT("mllama"),
                                                NOT("mpt"),
                                                NOT("peagle"),
                                                NOT("nemotron"),
                                                NOT("olmo"),
                                                NOT("olmo2"),
                                                NOT("olmoe"),
                                                NOT("opt"),
                                                NOT("persimmon"),
                                                NOT("phi"),
                                                NOT("phi3"),
                                                NOT("phimoe"),
                                                NOT("qwen2"),
                                                NOT("qwen2_moe"),
                                                NOT("qwen2_vl"),
                                                NOT("qwen3"),
                                                NOT("qwen3_moe"),
                                                NOT("recurrent_gemma"),
                                                NOT("roberta"),
                                                NOT("smollm3"),
                                                NOT("stablelm"),
                                                NOT("starcoder2"),
                                                NOT("t5"),
                                                NOT("vit"),
                                                NOT("whisper"),
                                                NOT("xpress"),
                                                END};

const struct mpl_word mpl_medusa_base_words[] = {YES("llama", MPL_MEDUSA_ON_LLAMA),
                                                 YES("mistral", MPL_MEDUSA_ON_MISTRAL),
                                                 NOT("qwen2"), NOT("mixtral"), END};

const struct mpl_word mpl_activation_words[] = {YES("silu", MPL_ACTIVATION_SILU),
                                                HINT("swish", "silu"),
                                                YES("gelu", MPL_ACTIVATION_GELU),
                                                YES("gelu_new", MPL_ACTIVATION_GELU_NEW),
                                                YES("gelu_fast", MPL_ACTIVATION_GELU_FAST),
                                                YES("gelu_pytorch_tanh", MPL_ACTIVATION_GELU_TANH),
                                                YES("quick_gelu", MPL_ACTIVATION_QUICK_GELU),
                                                YES("relu", MPL_ACTIVATION_RELU),
                                                YES("relu2", MPL_ACTIVATION_RELU2),
                                                YES("tanh", MPL_ACTIVATION_TANH),
                                                NOT("sigmoid"),
                                                END};

const struct mpl_word mpl_layer_type_words[] = {
    YES("full_attention", MPL_LAYER_FULL), YES("sliding_attention", MPL_LAYER_SLIDING),
    NOT("chunked_attention"), NOT("linear_attention"), END};

const struct mpl_word mpl_topk_method_words[] = {
    YES("greedy", MPL_TOPK_GREEDY), YES("group_limited_greedy", MPL_TOPK_GROUP_LIMITED),
    YES("noaux_tc", MPL_TOPK_NOAUX_TC), END};

const struct mpl_word mpl_rope_words[] = {
    YES("default", MPL_ROPE_DEFAULT), YES("linear", MPL_ROPE_STATIC),
    YES("llama3", MPL_ROPE_STATIC),   YES("yarn", MPL_ROPE_YARN),
    YES("dynamic", MPL_ROPE_DYNAMIC), YES("longrope", MPL_ROPE_LONGROPE),
    YES("su", MPL_ROPE_LONGROPE),     END};

const struct mpl_word mpl_rope_static_words[] = {YES("default", 0),
                                                 YES("linear", 0),
                                                 YES("llama3", 0),
                                                 YES("yarn", 0),
                                                 NOT("dynamic"),
                                                 NOT("longrope"),
                                                 END};

const struct mpl_word mpl_weight_dtype_words[] = {YES("float32", MPL_FLOAT32),
                                                  YES("bfloat16", MPL_BFLOAT16),
                                                  YES("float16", MPL_FLOAT16),
                                                  HINT("fp32", "float32"),
                                                  HINT("float", "float32"),
                                                  HINT("bf16", "bfloat16"),
                                                  HINT("fp16", "float16"),
                                                  HINT("half", "float16"),
                                                  HINT("torch.float32", "float32"),
                                                  HINT("torch.bfloat16", "bfloat16"),
                                                  HINT("torch.float16", "float16"),
                                                  NOT("float64"),
                                                  NOT("float8_e4m3fn"),
                                                  NOT("float8_e5m2"),
                                                  NOT("int8"),
                                                  NOT("int4"),
                                                  NOT("auto"),
                                                  END};

const struct mpl_word mpl_half_dtype_words[] = {YES("bfloat16", MPL_BFLOAT16),
                                                YES("float16", MPL_FLOAT16),
                                                HINT("bf16", "bfloat16"),
                                                HINT("fp16", "float16"),
                                                NOT("float32"),
                                                NOT("float8_e4m3fn"),
                                                END};

const struct mpl_word mpl_attention_words[] = {
    SAY("sdpa", MPL_ATTENTION_SDPA,
        "scaled_dot_product_attention, with the kernel that PyTorch chooses"),
    SAY("eager", MPL_ATTENTION_EAGER,
        "scores and weights as tensors of their own, quadratic in length"),
    SAY("flash_attention_2", MPL_ATTENTION_FLASH_2,
        "the package flash-attn 2.8: linear in length; bfloat16 and float16"),
    SAY("flash_attention_3", MPL_ATTENTION_FLASH_3,
        "the package flash-attn-3, on Hopper: as flash_attention_2, without dropout"),
    SAY("flex_attention", MPL_ATTENTION_FLEX,
        "compiled flex_attention with a block mask: linear in length but for the mask"),
    NOT("paged_attention"),
    NOT("xformers"),
    HINT("flex", "flex_attention"),
    HINT("flash", "flash_attention_2"),
    END};

const struct mpl_word mpl_experts_words[] = {YES("grouped_mm", MPL_EXPERTS_GROUPED_MM),
                                             YES("batched_mm", MPL_EXPERTS_BATCHED_MM),
                                             YES("eager", MPL_EXPERTS_EAGER),
                                             NOT("deepgemm"),
                                             NOT("sonicmoe"),
                                             END};

const struct mpl_word mpl_task_words[] = {
    YES("causal_lm", MPL_TASK_CAUSAL_LM), YES("masked_lm", MPL_TASK_MASKED_LM),
    NOT("token_classification"), NOT("sequence_classification"), END};

const struct mpl_word mpl_lora_target_words[] = {YES("all-linear", 0), END};

const struct mpl_word mpl_lora_bias_words[] = {YES("none", 0), NOT("all"), NOT("lora_only"), END};

const struct mpl_word mpl_adapter_code_words[] = {YES("peft", MPL_ADAPTER_PEFT),
                                                  YES("plain", MPL_ADAPTER_PLAIN), END};

const struct mpl_word mpl_quantization_words[] = {
    YES("none", MPL_QUANTIZATION_NONE),
    YES("bitsandbytes", MPL_QUANTIZATION_BITSANDBYTES),
    NOT("bitsandbytes_8bit"),
    NOT("gptq"),
    NOT("awq"),
    NOT("hqq"),
    NOT("aqlm"),
    NOT("eetq"),
    NOT("fp8"),
    NOT("fbgemm_fp8"),
    NOT("compressed-tensors"),
    NOT("mxfp4"),
    NOT("quanto"),
    NOT("torchao"),
    HINT("bnb", "bitsandbytes"),
    END};

const struct mpl_word mpl_quantization_type_words[] = {YES("nf4", 0), YES("fp4", 0), NOT("int8"),
                                                       NOT("int4"), END};

const struct mpl_word mpl_checkpointing_words[] = {
    YES("none", MPL_CHECKPOINTING_NONE),
    YES("full", MPL_CHECKPOINTING_FULL),
    YES("selective", MPL_CHECKPOINTING_SELECTIVE),
    YES("core_attention", MPL_CHECKPOINTING_CORE_ATTENTION),
    NOT("memory_budget"),
    HINT("offload", "training.offload_activations"),
    END};
const struct mpl_word mpl_float8_recipe_words[] = {
    YES("none", MPL_FLOAT8_NONE),
    YES("tensorwise", MPL_FLOAT8_TENSORWISE),
    YES("rowwise", MPL_FLOAT8_ROWWISE),
    YES("rowwise_with_gw_hp", MPL_FLOAT8_ROWWISE_WITH_GW_HP),
    NOT("mxfp8"),
    NOT("blockwise"),
    END};
const struct mpl_word mpl_te_recipe_words[] = {YES("none", MPL_TE_NONE),
                                               YES("delayed", MPL_TE_DELAYED),
                                               YES("current", MPL_TE_CURRENT),
                                               NOT("mxfp8"),
                                               NOT("float8_block"),
                                               NOT("nvfp4"),
                                               END};

const struct mpl_word mpl_loss_words[] = {
    SAY("cross_entropy", MPL_LOSS_CROSS_ENTROPY,
        "the model's own loss in transformers: all logits, in float32"),
    SAY("fused_linear_cross_entropy", MPL_LOSS_FUSED_LINEAR,
        "Liger: head and loss in one, by chunks of tokens"),
    SAY("chunked_cross_entropy", MPL_LOSS_CHUNKED,
        "torchtune: logits in parts of the sequence, all kept"),
    SAY("chunked_nll", MPL_LOSS_CHUNKED_NLL,
        "TRL: logits of a few tokens at a time, computed again in backward"),
    SAY("fused_lm_head", MPL_LOSS_FUSED_LM_HEAD,
        "TRL from 1.15: log-probabilities from tiles of logits, which are never whole"),
    SAY("torchtitan", MPL_LOSS_TORCHTITAN,
        "torchtitan: head, loss and their backward for one part after another"),
    SAY("sequence_classification", MPL_LOSS_CLASSIFICATION,
        "transformers: a head of num_labels on the last token"),
    SAY("dpo", MPL_LOSS_DPO, "TRL: chosen against rejected answers, with a frozen reference"),
    SAY("grpo", MPL_LOSS_GRPO,
        "TRL: the step on completions that were generated elsewhere, without a reference"),
    SAY("forward_kl", MPL_LOSS_FORWARD_KL,
        "torchtune: distillation, whole logits against a frozen teacher's"),
    SAY("kl_div", MPL_LOSS_KL_DIV, "the drafter's logits against the verifier's, eagle3 only"),
    HINT("liger", "fused_linear_cross_entropy"),
    HINT("torchtune", "chunked_cross_entropy"),
    HINT("distillation", "forward_kl"),
    HINT("nll", "cross_entropy"),
    NOT("cut_cross_entropy"),
    NOT("loss_parallel"),
    NOT("gkd"),
    NOT("grpo"),
    NOT("kto"),
    NOT("orpo"),
    NOT("reward"),
    END};

const struct mpl_word mpl_reference_words[] = {
    YES("model", MPL_REFERENCE_MODEL), YES("precomputed", MPL_REFERENCE_PRECOMPUTED),
    YES("adapters_disabled", MPL_REFERENCE_ADAPTERS_DISABLED), END};

const struct mpl_word mpl_zero_grad_words[] = {
    YES("after_step", MPL_ZERO_GRAD_AFTER_STEP),
    YES("before_backward", MPL_ZERO_GRAD_BEFORE_BACKWARD), END};

const struct mpl_word mpl_metrics_words[] = {
    YES("none", MPL_METRICS_NONE), YES("token_accuracy", MPL_METRICS_ACCURACY),
    YES("entropy_and_token_accuracy", MPL_METRICS_ENTROPY), END};

const struct mpl_word mpl_compile_words[] = {YES("inductor", MPL_COMPILE_INDUCTOR),
                                             YES("attention", MPL_COMPILE_ATTENTION),
                                             YES("none", MPL_COMPILE_NONE), END};

/* speculators/models/mtp/model_definitions.py, mtp_model_classes */
const struct mpl_word mpl_mtp_layer_words[] = {YES("qwen3", 0), NOT("qwen3_next"),
                                               NOT("qwen3_5_text"), NOT("qwen3_5_moe_text"), END};

const struct mpl_word mpl_gc_words[] = {YES("auto", MPL_GC_AUTO), YES("off", MPL_GC_OFF),
                                        YES("each step", MPL_GC_EACH_STEP), END};

const struct mpl_word mpl_packing_words[] = {YES("fixed", 0), NOT("lengths"), NOT("varying"), END};

const struct mpl_word mpl_strategy_words[] = {YES("none", MPL_STRATEGY_NONE),
                                              YES("fsdp2", MPL_STRATEGY_FSDP2),
                                              YES("ddp", MPL_STRATEGY_DDP),
                                              YES("fsdp1", MPL_STRATEGY_FSDP1),
                                              YES("zero1", MPL_STRATEGY_ZERO1),
                                              YES("zero2", MPL_STRATEGY_ZERO2),
                                              YES("zero3", MPL_STRATEGY_ZERO3),
                                              NOT("deepspeed"),
                                              NOT("tp"),
                                              NOT("megatron"),
                                              HINT("fsdp", "fsdp2"),
                                              END};

const struct mpl_word mpl_sharding_words[] = {
    YES("FULL_SHARD", MPL_FULL_SHARD),      YES("SHARD_GRAD_OP", MPL_SHARD_GRAD_OP),
    YES("HYBRID_SHARD", MPL_HYBRID_SHARD),  YES("_HYBRID_SHARD_ZERO2", MPL_HYBRID_SHARD_ZERO2),
    YES("NO_SHARD", MPL_NO_SHARD),          HINT("full_shard", "FULL_SHARD"),
    HINT("shard_grad_op", "SHARD_GRAD_OP"), HINT("hybrid_shard", "HYBRID_SHARD"),
    HINT("no_shard", "NO_SHARD"),           END};

const struct mpl_word mpl_comm_hook_words[] = {YES("none", MPL_COMM_HOOK_NONE),
                                               YES("allreduce_hook", MPL_COMM_HOOK_ALLREDUCE),
                                               YES("fp16_compress_hook", MPL_COMM_HOOK_FP16),
                                               YES("bf16_compress_hook", MPL_COMM_HOOK_BF16),
                                               NOT("powerSGD_hook"),
                                               NOT("batched_powerSGD_hook"),
                                               NOT("fp16_compress_wrapper"),
                                               NOT("bf16_compress_wrapper"),
                                               NOT("quantization_pertensor_hook"),
                                               NOT("noop_hook"),
                                               HINT("fp16", "fp16_compress_hook"),
                                               HINT("bf16", "bf16_compress_hook"),
                                               END};

const struct mpl_word mpl_prefetch_words[] = {
    YES("backward_pre", MPL_PREFETCH_PRE),  YES("backward_post", MPL_PREFETCH_POST),
    YES("none", MPL_PREFETCH_NONE),         HINT("BACKWARD_PRE", "backward_pre"),
    HINT("BACKWARD_POST", "backward_post"), END};

const struct mpl_word mpl_offload_words[] = {
    YES("none", MPL_OFFLOAD_NONE), YES("cpu", MPL_OFFLOAD_CPU), YES("nvme", MPL_OFFLOAD_NVME), END};

const struct mpl_word mpl_wrap_words[] = {
    YES("layer", MPL_WRAP_LAYER),
    YES("layer+embeddings", MPL_WRAP_LAYER_EMBEDDINGS),
    YES("root", MPL_WRAP_ROOT),
    YES("layer+adapters", MPL_WRAP_LAYER_ADAPTERS),
    YES("layer+embedding+tail", MPL_WRAP_LAYER_EMBEDDING_TAIL),
    END};

const struct mpl_word mpl_framework_words[] = {YES("loop", 0),
                                               YES("speculators", 0),
                                               YES("specforge", 0),
                                               YES("transformers-trainer", 0),
                                               YES("trl-sft", 0),
                                               YES("accelerate", 0),
                                               YES("axolotl", 0),
                                               YES("llamafactory", 0),
                                               YES("torchtitan", 0),
                                               YES("torchtune", 0),
                                               YES("lightning", 0),
                                               YES("deepspeed", 0),
                                               YES("eagle", 0),
                                               YES("medusa", 0),
                                               HINT("transformers", "transformers-trainer"),
                                               HINT("trainer", "transformers-trainer"),
                                               HINT("trl", "trl-sft"),
                                               HINT("llama-factory", "llamafactory"),
                                               HINT("pytorch-lightning", "lightning"),
                                               NOT("megatron-lm"),
                                               NOT("nemo"),
                                               NOT("unsloth"),
                                               NOT("eagle"),
                                               NOT("lightning"),
                                               END};

const struct mpl_word mpl_metric_words[] = {
    YES("allocated", MPL_METRIC_ALLOCATED), YES("reserved", MPL_METRIC_RESERVED),
    YES("device", MPL_METRIC_DEVICE), HINT("nvidia-smi", "device"), END};

const struct mpl_word mpl_unit_words[] = {YES("B", MPL_UNIT_BYTES), YES("GB", MPL_UNIT_GB),
                                          YES("GiB", MPL_UNIT_GIB), END};

const struct mpl_word mpl_outcome_words[] = {YES("ran", MPL_OUTCOME_RAN),
                                             YES("oom", MPL_OUTCOME_OOM), END};

const struct mpl_word *mpl_word_find(const struct mpl_word *words, const char *word)
{
    for (; words->word; words++)
        if (strcmp(words->word, word) == 0)
            return words;
    return NULL;
}

const char *mpl_word_of(const struct mpl_word *words, int value)
{
    for (; words->word; words++)
        if (!words->unsupported && !words->hint && words->value == value)
            return words->word;
    return NULL;
}

void mpl_word_list(const struct mpl_word *words, char *text, size_t size)
{
    static const char more[] = ", ...";
    size_t used = 0;

    text[0] = '\0';
    for (; words->word; words++) {
        if (words->unsupported || words->hint)
            continue;
        if (used + strlen(words->word) + 2 + sizeof(more) > size) {
            snprintf(text + used, size - used, "%s", more);
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", words->word);
    }
}

enum mpl_family mpl_family_of(const char *model_type)
{
    if (strcmp(model_type, "mtp") == 0)
        return MPL_FAMILY_MTP;
    if (strcmp(model_type, "dflash") == 0)
        return MPL_FAMILY_DFLASH;
    return strcmp(model_type, "eagle3") == 0 ? MPL_FAMILY_EAGLE3 : MPL_FAMILY_CAUSAL;
}

const struct mpl_word mpl_module_loading_words[] = {YES("lazy", MPL_MODULES_LAZY),
                                                    YES("eager", MPL_MODULES_EAGER), END};

const struct mpl_word mpl_link_words[] = {YES("pcie", MPL_LINK_PCIE),
                                          YES("nvlink", MPL_LINK_NVLINK), END};

const struct mpl_word mpl_resume_words[] = {
    YES("none", MPL_RESUME_NONE),       YES("cpu", MPL_RESUME_CPU),
    YES("cuda", MPL_RESUME_CUDA),       YES("broadcast", MPL_RESUME_BROADCAST),
    YES("sharded", MPL_RESUME_SHARDED), END};

const struct mpl_word mpl_save_words[] = {YES("none", MPL_SAVE_NONE), YES("full", MPL_SAVE_FULL),
                                          YES("sharded", MPL_SAVE_SHARDED),
                                          YES("async", MPL_SAVE_ASYNC), END};

const struct mpl_word mpl_loading_words[] = {
    YES("every_rank", MPL_LOADING_EVERY_RANK), YES("rank0", MPL_LOADING_RANK0),
    YES("meta", MPL_LOADING_META), YES("mmap", MPL_LOADING_MMAP), END};
