/* SPDX-License-Identifier: MIT */
/*
 * TABLE: Megatron-LM's arguments. Its loop is not modelled: the plan says what the arguments are,
 * and is refused by framework.name.
 * source: megatron/training/arguments.py, megatron/core/transformer/transformer_config.py, 0.20.0,
 * commit d98e8a64
 */
#include "import/import.h"

static const struct mpl_import_word norms[] = {
    {"layernorm", "\"LayerNorm\"", NULL},
    {"rmsnorm", "\"RMSNorm\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word positions[] = {
    {"learned_absolute", "\"learned_absolute\"", NULL},
    {"rope", "\"rope\"", NULL},
    {"none", "\"none\"", NULL},
    {"yarn", "\"yarn\"", NULL},
    {"mrope", "\"mrope\"", NULL},
    {"relative", "\"relative\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word backends[] = {
    {"auto", NULL, NULL},
    {"flash", "\"flash_attention_2\"", NULL},
    {"fused", NULL, "not modelled: attention of cuDNN"},
    {"unfused", "\"eager\"", NULL},
    {"local", "\"eager\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word flash[] = {
    {"true", "\"flash_attention_2\"", NULL},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word granularities[] = {
    {"full", "\"full\"", NULL},
    {"selective", "\"core_attention\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word recomputed[] = {
    {"true", "\"core_attention\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word optimizers[] = {
    {"adam", "\"adamw\"", NULL}, /* decoupled_weight_decay is its default */
    {"sgd", "\"sgd\"", NULL},    {"muon", "\"muon\"", NULL}, {"dist_muon", "\"muon\"", NULL},
    {"lion", "\"lion\"", NULL},  {NULL, NULL, NULL},
};

#define FACT(key_, kind_)                                                                          \
    {                                                                                              \
        .key = key_, .path = "import.megatron." key_, .kind = kind_                                \
    }
#define UNLESS(key_, why_)                                                                         \
    {                                                                                              \
        .key = key_, .kind = MPL_IMPORT_UNLESS, .why = why_                                        \
    }
#define INT  MPL_IMPORT_INTEGER
#define BOOL MPL_IMPORT_BOOLEAN

static const struct mpl_import_key keys[] = {
    /* the model: settle_megatron.c */
    FACT("num_layers", INT),
    FACT("hidden_size", INT),
    FACT("ffn_hidden_size", INT),
    FACT("num_attention_heads", INT),
    FACT("group_query_attention", BOOL),
    FACT("num_query_groups", INT),
    FACT("kv_channels", INT),
    FACT("max_position_embeddings", INT),
    FACT("vocab_size", INT),
    FACT("padded_vocab_size", INT),
    FACT("make_vocab_size_divisible_by", INT),
    FACT("swiglu", BOOL),
    FACT("squared_relu", BOOL),
    FACT("quick_geglu", BOOL),
    FACT("enable_gpt_oss", BOOL),
    FACT("untie_embeddings_and_output_weights", BOOL),
    FACT("disable_bias_linear", BOOL),
    FACT("add_qkv_bias", BOOL),
    FACT("qk_layernorm", BOOL),
    FACT("use_rotary_position_embeddings", BOOL),
    FACT("num_experts", INT),
    FACT("moe_router_topk", INT),
    FACT("moe_ffn_hidden_size", INT),
    FACT("multi_latent_attention", BOOL),
    FACT("global_batch_size", INT),
    FACT("tensor_model_parallel_size", INT),
    FACT("pipeline_model_parallel_size", INT),
    FACT("context_parallel_size", INT),
    FACT("expert_model_parallel_size", INT),
    FACT("tokenizer_type", MPL_IMPORT_TEXT),
    {.key = "normalization",
     .path = "import.megatron.normalization",
     .kind = MPL_IMPORT_WORD,
     .words = norms},
    {.key = "position_embedding_type",
     .path = "import.megatron.positions",
     .kind = MPL_IMPORT_WORD,
     .words = positions},
    /* the step */
    {.key = "seq_length", .path = "training.sequence_length", .kind = INT},
    {.key = "micro_batch_size", .path = "training.micro_batch_size", .kind = INT},
    {.key = "bf16", .path = "import.bf16", .kind = BOOL},
    {.key = "fp16", .path = "import.fp16", .kind = BOOL},
    {.key = "attention_backend",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = backends},
    {.key = "use_flash_attn",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = flash},
    {.key = "recompute_granularity",
     .path = "training.activation_checkpointing",
     .kind = MPL_IMPORT_WORD,
     .words = granularities},
    {.key = "recompute_activations",
     .path = "training.activation_checkpointing",
     .kind = MPL_IMPORT_WORD,
     .words = recomputed},
    {.key = "optimizer",
     .path = "training.optimizer.name",
     .kind = MPL_IMPORT_WORD,
     .words = optimizers},
    {.key = "clip_grad", .path = "training.gradient_clipping", .kind = MPL_IMPORT_NUMBER},
    {.key = "weight_decay", .path = "training.optimizer.weight_decay", .kind = MPL_IMPORT_NUMBER},
    /* what no field describes */
    UNLESS("sequence_parallel", "activations that are split over the ranks of tensor parallelism"),
    UNLESS("use_distributed_optimizer", "optimizer states that are split over data-parallel ranks"),
    UNLESS("num_layers_per_virtual_pipeline_stage", "an interleaved pipeline"),
    UNLESS("num_virtual_stages_per_pipeline_rank", "an interleaved pipeline"),
    UNLESS("expert_tensor_parallel_size", "tensor parallelism of experts"),
    UNLESS("recompute_method", "which layers are computed again"),
    UNLESS("recompute_num_layers", "how many layers are computed again"),
    UNLESS("recompute_modules", "which modules are computed again"),
    UNLESS("distribute_saved_activations", "activations that are split over ranks"),
    UNLESS("cpu_offloading", "activations on the host"),
    UNLESS("cpu_offloading_num_layers", "activations on the host"),
    UNLESS("optimizer_cpu_offload", "optimizer states on the host"),
    UNLESS("use_precision_aware_optimizer", "formats of the optimizer's states"),
    UNLESS("main_grads_dtype", "the format of the gradient buffer"),
    UNLESS("main_params_dtype", "the format of the optimizer's weights"),
    UNLESS("exp_avg_dtype", "the format of an optimizer state"),
    UNLESS("exp_avg_sq_dtype", "the format of an optimizer state"),
    UNLESS("accumulate_allreduce_grads_in_fp32", "a gradient buffer in float32"),
    UNLESS("grad_reduce_in_bf16", "a gradient buffer in bfloat16"),
    UNLESS("fp8_format", "products in float8"),
    UNLESS("fp8_recipe", "products in float8"),
    UNLESS("fp8_param_gather", "weights in float8"),
    UNLESS("fp4_format", "products in 4 bits"),
    UNLESS("transformer_impl", "which layers: Megatron's own or Transformer Engine's"),
    UNLESS("cross_entropy_loss_fusion", "a fused loss"),
    UNLESS("use_torch_fsdp2", "FSDP2"),
    UNLESS("use_megatron_fsdp", "Megatron's FSDP"),
    UNLESS("use_custom_fsdp", "Megatron's FSDP"),
    UNLESS("data_parallel_sharding_strategy", "Megatron's FSDP"),
    UNLESS("overlap_param_gather", "gathers ahead of their use"),
    UNLESS("ddp_bucket_size", "the size of buckets"),
    UNLESS("ddp_num_buckets", "the number of buckets"),
    UNLESS("enable_cuda_graph", "CUDA graphs"),
    UNLESS("cuda_graph_scope", "CUDA graphs"),
    UNLESS("external_cuda_graph", "CUDA graphs"),
    UNLESS("use_nccl_ub", "buffers that NCCL registers"),
    UNLESS("mtp_num_layers", "layers that predict further tokens"),
    UNLESS("moe_shared_expert_intermediate_size", "a shared expert"),
    UNLESS("moe_layer_freq", "layers with experts among dense ones"),
    UNLESS("moe_grouped_gemm", "how experts are computed"),
    UNLESS("moe_token_dispatcher_type", "how tokens reach their experts"),
    UNLESS("moe_expert_capacity_factor", "how many tokens an expert takes"),
    UNLESS("moe_pad_expert_input_to_capacity", "how many tokens an expert takes"),
    UNLESS("window_size", "sliding windows"),
    UNLESS("apply_layernorm_1p", "another norm"),
    UNLESS("tp_comm_overlap", "buffers of tensor parallelism"),
    UNLESS("rampup_batch_size", "a batch that grows"),
    UNLESS("step_batch_size_schedule", "a batch that grows"),
    UNLESS("decoder_first_pipeline_num_layers", "uneven stages"),
    UNLESS("decoder_last_pipeline_num_layers", "uneven stages"),
    UNLESS("pipeline_model_parallel_layout", "uneven stages"),
    UNLESS("yaml_cfg", "a file of arguments"),
    UNLESS("spec", "layers of a module"),
    UNLESS("moe_permute_fusion", "how tokens reach their experts"),
    UNLESS("fsdp_double_buffer", "Megatron's FSDP"),
    UNLESS("init_model_with_meta_device", "how the model is made"),
    UNLESS("softmax_type", "another softmax"),
    UNLESS("window_attn_skip_freq", "sliding windows"),
    UNLESS("empty_unused_memory_level", "caches that are emptied in a step"),
    {.key = "num_workers", .path = "host.dataloader_workers", .kind = INT},
    {.key = "attention_dropout",
     .path = "import.megatron.attention_dropout",
     .kind = MPL_IMPORT_NUMBER},
    {.key = "hidden_dropout", .path = "import.megatron.hidden_dropout", .kind = MPL_IMPORT_NUMBER},
};

static const char *const harmless[] = {
#include "import/megatron_harmless.inc"
    NULL,
};

const struct mpl_import_reader mpl_import_megatron = {
    .name = "command of Megatron-LM",
    MPL_IMPORT_KEYS(keys),
    .harmless = harmless,
};
