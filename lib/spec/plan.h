/* SPDX-License-Identifier: MIT */
/*
 * Stage "spec": one run, validated, defaults filled in, no alternatives left.
 *
 * Every member is a row of the field table (spec/fields.c); names are those of the plan file.
 */
#ifndef MPL_SPEC_PLAN_H
#define MPL_SPEC_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "table/device.h"
#include "table/dtype.h"
#include "table/outside.h"

enum mpl_attention {
    MPL_ATTENTION_SDPA = 0,
    MPL_ATTENTION_EAGER,
    MPL_ATTENTION_FLEX,
    MPL_ATTENTION_FLASH_2,
    MPL_ATTENTION_FLASH_3,
};

/** Is it one of the flash-attn packages? */
static inline bool mpl_is_flash(enum mpl_attention attention)
{
    return attention == MPL_ATTENTION_FLASH_2 || attention == MPL_ATTENTION_FLASH_3;
}

/** What a model is trained for: the head and the loss. Unset: what its family is modelled with. */
enum mpl_task { MPL_TASK_UNSET = 0, MPL_TASK_CAUSAL_LM, MPL_TASK_MASKED_LM };
enum mpl_checkpointing {
    MPL_CHECKPOINTING_NONE = 0,
    MPL_CHECKPOINTING_FULL,
    MPL_CHECKPOINTING_SELECTIVE,
    MPL_CHECKPOINTING_CORE_ATTENTION,
};
enum mpl_optimizer_name {
    MPL_ADAMW = 0,
    MPL_SGD,
    MPL_ADAM,
    MPL_RMSPROP,
    MPL_ADAGRAD,
    MPL_ADAFACTOR,
    MPL_MUON,
    MPL_NADAM,
    MPL_RADAM,
    MPL_ADAMAX,
    MPL_ADADELTA,
    MPL_ASGD,
    MPL_RPROP,
    MPL_ADAFACTOR_HF,
    MPL_LION,
    MPL_ADAMW_8BIT,
    MPL_PAGED_ADAMW,
    MPL_PAGED_ADAMW_8BIT,
    MPL_LION_32BIT,
    MPL_LION_8BIT,
    MPL_PAGED_LION,
    MPL_PAGED_LION_8BIT,
    MPL_ADAMW_CPU_OFFLOAD,
    MPL_ADAMW_TORCHAO_8BIT,
    MPL_ADAMW_TORCHAO_4BIT,
    MPL_ADAMW_TORCHAO_FP8,
    MPL_GALORE_ADAMW,
    MPL_LAMB,
    MPL_SOAP,
    MPL_SHAMPOO,
    MPL_SOPHIA,
    MPL_OPTIMIZER_COUNT,
};
enum mpl_strategy {
    MPL_STRATEGY_NONE = 0,
    MPL_STRATEGY_FSDP2,
    MPL_STRATEGY_DDP,
    MPL_STRATEGY_FSDP1,
    MPL_STRATEGY_ZERO1,
    MPL_STRATEGY_ZERO2,
    MPL_STRATEGY_ZERO3,
};
enum mpl_sharding {
    MPL_FULL_SHARD = 0,
    MPL_SHARD_GRAD_OP,
    MPL_HYBRID_SHARD,
    MPL_HYBRID_SHARD_ZERO2,
    MPL_NO_SHARD,
};
/** reshard_after_forward where it is no number of ranks to share the weights. */
enum mpl_reshard { MPL_RESHARD_UNSET = 0, MPL_RESHARD_FALSE = -1, MPL_RESHARD_TRUE = -2 };
enum mpl_offload { MPL_OFFLOAD_NONE = 0, MPL_OFFLOAD_CPU, MPL_OFFLOAD_NVME };
enum mpl_comm_hook {
    MPL_COMM_HOOK_NONE = 0,
    MPL_COMM_HOOK_ALLREDUCE,
    MPL_COMM_HOOK_FP16,
    MPL_COMM_HOOK_BF16,
};
enum mpl_prefetch { MPL_PREFETCH_PRE = 0, MPL_PREFETCH_POST, MPL_PREFETCH_NONE };
enum mpl_wrap {
    MPL_WRAP_LAYER = 0,
    MPL_WRAP_LAYER_EMBEDDINGS,
    MPL_WRAP_ROOT,
    MPL_WRAP_LAYER_ADAPTERS,       /* fsdp1: peft's fsdp_auto_wrap_policy */
    MPL_WRAP_LAYER_EMBEDDING_TAIL, /* fsdp2: the last norm and the head are one group */
};
enum mpl_compile { MPL_COMPILE_INDUCTOR = 0, MPL_COMPILE_ATTENTION, MPL_COMPILE_NONE };
enum mpl_python_gc { MPL_GC_AUTO = 0, MPL_GC_OFF, MPL_GC_EACH_STEP };

enum mpl_activation {
    MPL_ACTIVATION_SILU = 0,
    MPL_ACTIVATION_GELU,
    MPL_ACTIVATION_GELU_NEW,
    MPL_ACTIVATION_GELU_FAST,
    MPL_ACTIVATION_GELU_TANH,
    MPL_ACTIVATION_QUICK_GELU,
    MPL_ACTIVATION_RELU,
    MPL_ACTIVATION_RELU2,
    MPL_ACTIVATION_TANH,
};
enum mpl_rope_type {
    MPL_ROPE_DEFAULT = 0,
    MPL_ROPE_STATIC, /* linear, llama3: other numbers in the same places */
    MPL_ROPE_YARN,
    MPL_ROPE_DYNAMIC,  /* frequencies grow with the sequence */
    MPL_ROPE_LONGROPE, /* two sets of frequencies */
};
/** Who runs the experts of a mixture (experts_implementation). */
enum mpl_experts_kind { MPL_EXPERTS_GROUPED_MM = 0, MPL_EXPERTS_BATCHED_MM, MPL_EXPERTS_EAGER };
/** Which experts a DeepSeek router may choose from. */
enum mpl_topk_method { MPL_TOPK_GREEDY = 0, MPL_TOPK_GROUP_LIMITED, MPL_TOPK_NOAUX_TC };
enum mpl_layer_type { MPL_LAYER_FULL = 0, MPL_LAYER_SLIDING };

#define MPL_MAX_LAYERS        4096
#define MPL_MEDUSA_MOST_HEADS 32

/** Something that is said of each layer, or of some; count 0: not given. */
struct mpl_layer_list {
    uint32_t count;
    uint8_t of[MPL_MAX_LAYERS]; /* by layer: a word's value, or 1 for a member of a set */
};

/** true, false or null in a plan. */
enum mpl_tristate { MPL_UNSET = 0, MPL_FALSE, MPL_TRUE };

struct mpl_version {
    uint16_t major, minor, patch;
    char text[32]; /* as written */
};

/** The model below Medusa's heads. */
enum mpl_medusa_base { MPL_MEDUSA_ON_LLAMA = 0, MPL_MEDUSA_ON_MISTRAL };

struct mpl_model {
    char model_type[48];
    int64_t hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim;
    int64_t vocab_size, max_position_embeddings;
    int64_t draft_vocab_size; /* eagle3 */
    int64_t medusa_num_heads, medusa_num_layers;
    enum mpl_medusa_base base_model_type;
    int64_t pad_token_id; /* -1: none */
    bool tie_word_embeddings, attention_bias, mlp_bias;
    bool norm_before_residual;             /* eagle3 */
    int64_t block_size, num_target_layers; /* dflash */
    enum mpl_activation hidden_act;
    double attention_dropout, hidden_dropout, embedding_dropout; /* 0: the module does nothing */
    double partial_rotary_factor;                                /* share of the head that turns */
    enum mpl_rope_type rope_type;
    double attn_logit_softcapping, final_logit_softcapping; /* 0: none */
    int64_t sliding_window;                                 /* tokens; 0: none */
    int64_t max_window_layers;            /* qwen: the first layers do not slide */
    int64_t sliding_window_pattern;       /* gemma3, cohere2: every so many layers one is full */
    int64_t no_rope_layer_interval;       /* smollm3: every so many layers one has no positions */
    struct mpl_layer_list no_rope_layers; /* smollm3: 1 for a layer with rotary positions */
    double clip_qkv;                      /* olmo: 0: none */
    bool use_sliding_window, qk_norm, parallel_residual;
    int64_t embedding_size; /* width of the embedding where it differs: opt; 0: hidden_size */
    bool do_layer_norm_before, remove_final_layer_norm, layer_norm_affine; /* opt */
    bool residual_after_norm;                                              /* bloom */
    int64_t rotary_dim; /* elements of a head that turn, where that is said; 0: by the factor */
    bool alibi, multi_query, parallel_attention, new_decoder_architecture; /* falcon */
    int64_t num_ln_in_parallel_attn;   /* falcon; 0: not given */
    int64_t type_vocab_size;           /* bert: kinds of tokens */
    struct mpl_layer_list layer_types; /* enum mpl_layer_type */
    /* mixtures of experts */
    int64_t num_local_experts, num_experts_per_tok, moe_intermediate_size;
    int64_t n_shared_experts, shared_expert_intermediate_size;
    int64_t first_k_dense_replace, decoder_sparse_step;
    int64_t n_group, topk_group; /* 0: no groups */
    enum mpl_topk_method topk_method;
    bool norm_topk_prob, output_router_logits, qkv_bias;
    double router_jitter_noise;
    struct mpl_layer_list mlp_only_layers; /* 1: a dense layer */
    /* attention with latent keys and values */
    int64_t q_lora_rank; /* 0: queries are projected at once */
    int64_t kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
    bool rope_interleave;
};

struct mpl_optimizer_spec {
    enum mpl_optimizer_name name;
    enum mpl_tristate fused, foreach;
    double momentum, weight_decay;
    enum mpl_tristate nesterov;   /* null: PyTorch's default, on for muon, off for sgd */
    int64_t ns_steps;             /* muon: rounds of Newton-Schulz */
    int64_t rank;                 /* galore_adamw: columns of a projected gradient */
    int64_t max_precondition_dim; /* soap: longer sides are left as they are */
    int64_t hessian_interval;     /* sophia: steps between passes over sampled labels */
    bool amsgrad, centered, maximize;
    bool decoupled_weight_decay; /* nadam, radam */
    bool master_weights;         /* float32 copies are what the optimizer updates */
    bool in_backward;            /* each parameter's step runs when its gradient is there */
    bool offload_gradients;      /* adamw_cpu_offload: gradients leave the card in backward */
    bool stochastic_rounding;    /* torchao's: of bfloat16 parameters */
};

enum mpl_loss_name {
    MPL_LOSS_CROSS_ENTROPY = 0,
    MPL_LOSS_FUSED_LINEAR,  /* Liger */
    MPL_LOSS_CHUNKED,       /* torchtune */
    MPL_LOSS_CHUNKED_NLL,   /* TRL */
    MPL_LOSS_FUSED_LM_HEAD, /* TRL from 1.15 */
    MPL_LOSS_TORCHTITAN,
    MPL_LOSS_CLASSIFICATION,
    MPL_LOSS_DPO,
    MPL_LOSS_GRPO,
    MPL_LOSS_FORWARD_KL,
    MPL_LOSS_KL_DIV, /* eagle3 */
};
enum mpl_reference {
    MPL_REFERENCE_UNSET = 0, /* adapters disabled where there are any, else a frozen copy */
    MPL_REFERENCE_MODEL,
    MPL_REFERENCE_PRECOMPUTED,
    MPL_REFERENCE_ADAPTERS_DISABLED,
};

struct mpl_loss_spec {
    enum mpl_loss_name name;
    bool num_items_in_batch;      /* summed, then divided by a count that the trainer gives */
    double label_smoothing;       /* of the Trainer; 0: none */
    int64_t logits_to_keep;       /* tokens at the end that get logits; 0: all */
    int64_t num_labels;           /* sequence_classification */
    int64_t chunks;               /* chunked_cross_entropy, torchtitan */
    int64_t chunk_tokens;         /* chunked_nll */
    enum mpl_dtype accum_dtype;   /* fused_linear_cross_entropy; MPL_DTYPE_NONE: the weight's */
    enum mpl_reference reference; /* dpo */
    /* forward_kl: what the teacher has otherwise than the model; 0: the same */
    int64_t teacher_hidden_size, teacher_intermediate_size, teacher_layers;
    int64_t teacher_heads, teacher_kv_heads, teacher_head_dim;
};

#define MPL_MAX_FROZEN 16
#define MPL_MAX_NAMES  32

/** Names of modules, in a list or the word "all-linear" alone. */
struct mpl_names {
    uint32_t count;
    char of[MPL_MAX_NAMES][64];
};

enum mpl_adapter_code { MPL_ADAPTER_PEFT = 0, MPL_ADAPTER_PLAIN };

/** Low-rank adapters. */
struct mpl_lora {
    int64_t r; /* 0: none */
    double dropout;
    struct mpl_names targets, saved;
    enum mpl_dtype adapter_dtype;
    enum mpl_adapter_code code;
    bool use_dora;
};

enum mpl_quantization_name { MPL_QUANTIZATION_NONE = 0, MPL_QUANTIZATION_BITSANDBYTES };

/** Weights of linear layers in 4 bits. */
struct mpl_quantization {
    enum mpl_quantization_name name;
    bool is_double; /* the statistics are quantised, too */
    struct mpl_names skip;
    enum mpl_dtype compute_dtype; /* MPL_DTYPE_NONE: that of the input */
    enum mpl_dtype storage_dtype; /* of the packed weights' tensors; MPL_DTYPE_NONE: uint8 */
};

/** When gradients go. */
enum mpl_zero_grad { MPL_ZERO_GRAD_AFTER_STEP = 0, MPL_ZERO_GRAD_BEFORE_BACKWARD };

/** TRL's, by release: 0.15 to 0.21, 0.22 to 1.6. */
enum mpl_metrics { MPL_METRICS_NONE = 0, MPL_METRICS_ACCURACY, MPL_METRICS_ENTROPY };

/** float8.recipe_name: recipes of torchao's Float8LinearConfig. */
enum mpl_float8_recipe {
    MPL_FLOAT8_NONE = 0,
    MPL_FLOAT8_TENSORWISE,
    MPL_FLOAT8_ROWWISE,
    MPL_FLOAT8_ROWWISE_WITH_GW_HP,
};

/** Products of linear layers in float8 (torchao). */
struct mpl_float8_spec {
    enum mpl_float8_recipe recipe;
    struct mpl_names filter;    /* layers whose names contain one stay as they are */
    bool filter_first_and_last; /* the first linear layer and the last one stay */
    enum mpl_tristate rounds_scales;
    bool gathers_weights; /* FSDP2 gathers weights in float8 */
};

/** Recipes of Transformer Engine that are modelled. */
enum mpl_te_recipe {
    MPL_TE_NONE = 0,
    MPL_TE_DELAYED, /* DelayedScaling */
    MPL_TE_CURRENT, /* Float8CurrentScaling */
};

/** te.Linear in place of nn.Linear. */
struct mpl_te_spec {
    enum mpl_te_recipe recipe;
    int64_t amax_history_len; /* delayed: rows of each layer's history */
};

/** An evaluation after the last step. */
struct mpl_evaluation {
    int64_t batches;                     /* 0: none */
    int64_t batch_size, sequence_length; /* 0: as in training */
    int64_t accumulation_steps;          /* 0: everything is gathered on the card */
    bool keeps_logits, has_gradients;
};

#define MPL_MAX_LENGTHS 256

/** Lengths of batches in turn, tokens; count 0: all have one. */
struct mpl_length_list {
    uint32_t count;
    int32_t of[MPL_MAX_LENGTHS];
};

struct mpl_training {
    struct mpl_length_list sequence_lengths;
    int64_t sequence_length, micro_batch_size, gradient_accumulation_steps, steps;
    enum mpl_dtype parameter_dtype, autocast; /* autocast: MPL_DTYPE_NONE when null */
    enum mpl_task task;
    enum mpl_attention attention;
    enum mpl_experts_kind experts;
    enum mpl_checkpointing activation_checkpointing;
    int64_t checkpoint_first;
    int64_t checkpoint_every;   /* of that many layers the first is computed again */
    bool use_reentrant;         /* of torch.utils.checkpoint */
    bool checkpoint_early_stop; /* recomputation ends with the last tensor that is needed */
    bool offload_activations;   /* what forward keeps for backward waits on the host */
    struct mpl_optimizer_spec optimizer;
    struct mpl_loss_spec loss;
    bool loss_scaling;        /* torch.amp.GradScaler */
    double gradient_clipping; /* 0: none */
    enum mpl_zero_grad zero_grad;
    bool zero_grad_set_to_none, keep_outputs;
    bool outputs_to_float32;         /* accelerate's copy of the output, after autocast */
    enum mpl_metrics metrics;        /* what a trainer computes from the logits */
    bool padding;                    /* an attention mask with zeros in it is passed */
    char frozen[MPL_MAX_FROZEN][96]; /* shell patterns: parameters that do not train */
    uint32_t frozen_count;
    struct mpl_lora lora;
    struct mpl_quantization quantization;
    struct mpl_float8_spec float8;
    struct mpl_te_spec te;
    bool prepare_for_kbit;       /* peft's prepare_model_for_kbit_training was called */
    bool embeddings_to_bfloat16; /* TRL's peft_module_casting_to_bf16 after that */
    bool from_config;            /* the model is made on the card with random weights, not loaded */
    bool packing_check;          /* transformers looks for packed sequences in the positions */
    int64_t prefetch_batches;
    struct mpl_evaluation evaluation;
    bool shared_batch; /* one tensor is input_ids and labels, and lives until the next batch */
    /* eagle3 */
    int64_t ttt_steps, documents;
    int64_t max_anchors;           /* dflash */
    int64_t num_speculative_steps; /* mtp */
    enum mpl_compile compile;
    enum mpl_python_gc python_gc;
    enum mpl_dtype batch_dtype;
    bool use_off_policy_tokens;
};

struct mpl_parallelism {
    enum mpl_strategy strategy;
    int64_t world_size, replicate;
    int64_t gpus_per_node, extra_process_groups;
    int64_t nccl_channels;                    /* 0: from the table */
    int64_t nccl_buffer_bytes;                /* 0: NCCL's own */
    int64_t rank;                             /* -1: the one that holds most */
    enum mpl_dtype param_dtype, reduce_dtype; /* MPL_DTYPE_NONE: no policy for that part */
    enum mpl_dtype root_dtype;                /* eagle3 */
    enum mpl_wrap wrap;
    int64_t reshard_after_forward, root_reshard_after_forward; /* or one of enum mpl_reshard */
    struct mpl_names ignored_params;                           /* fsdp2 */
    bool no_sync, cpu_offload;
    /* ddp */
    bool gradient_as_bucket_view, static_graph, find_unused_parameters, broadcast_buffers;
    double bucket_cap_mb; /* MiB; 0: PyTorch's default */
    bool zero1;           /* torch.distributed.optim.ZeroRedundancyOptimizer */
    bool parameters_as_bucket_view;
    enum mpl_comm_hook comm_hook;
    /* fsdp1 */
    enum mpl_sharding sharding_strategy;
    enum mpl_prefetch backward_prefetch;
    enum mpl_dtype buffer_dtype; /* MPL_DTYPE_NONE: param_dtype */
    /* zero1, zero2, zero3: of DeepSpeed */
    int64_t reduce_bucket_size, allgather_bucket_size; /* elements */
    enum mpl_tristate overlap_comm;                    /* unset: with zero3 alone */
    bool decay_groups; /* norms and biases are a group of their own, without weight decay */
    enum mpl_offload offload_optimizer;
    /* zero3; sizes in elements */
    int64_t stage3_prefetch_bucket_size, stage3_param_persistence_threshold;
    int64_t stage3_model_persistence_threshold, stage3_max_live_parameters;
    int64_t stage3_max_reuse_distance, sub_group_size;
    bool contiguous_gradients;
    enum mpl_offload offload_param;
    int64_t offload_param_buffer_count, offload_param_buffer_size; /* of nvme; elements */
    int64_t offload_param_max_in_cpu;                              /* elements */
    enum mpl_dtype communication_data_type, grad_accum_dtype; /* MPL_DTYPE_NONE: the weights' */
    bool use_orig_params, sync_module_states, limit_all_gathers, forward_prefetch;
    bool activation_checkpointing; /* checkpoint_wrapper within FSDP1's units */
};

struct mpl_device {
    char gpu[96];               /* name in the card table; empty: none */
    double compute_capability;  /* 0: from the table, else 8.0 */
    int64_t multiprocessors;    /* 0: from the table */
    enum mpl_link link;         /* MPL_LINK_UNKNOWN: from the table */
    int64_t total_bytes;        /* 0: from the table */
    uint64_t table_total_bytes; /* what the table says, 0: nothing; mpl_capacity_complete_plan */
    int64_t context_bytes;      /* -1: from the table */
    int64_t nccl_bytes;         /* -1: from the table */
    int64_t other_bytes;        /* other processes on the card */
    int64_t other_contexts;     /* of processes that hold no tensor */
    int64_t reserve_bytes;      /* kept free */
    enum mpl_module_loading module_loading;
    char source[512];         /* of the figures; empty: the plan */
    char allocator_conf[256]; /* PYTORCH_CUDA_ALLOC_CONF */
    enum mpl_tristate cudnn_attention;
};

enum mpl_save { MPL_SAVE_NONE = 0, MPL_SAVE_FULL, MPL_SAVE_SHARDED, MPL_SAVE_ASYNC };
enum mpl_resume {
    MPL_RESUME_NONE = 0,
    MPL_RESUME_CPU,
    MPL_RESUME_CUDA,
    MPL_RESUME_BROADCAST,
    MPL_RESUME_SHARDED,
};

struct mpl_checkpoint_spec {
    enum mpl_resume resume; /* where torch.load puts what it reads */
    enum mpl_save save;
    bool offloads;   /* what is gathered goes to the host, one by one */
    bool has_states; /* of the optimizer, beside the weights */
};

/** Who reads the model on the host. */
enum mpl_loading {
    MPL_LOADING_UNSET = 0,
    MPL_LOADING_EVERY_RANK,
    MPL_LOADING_RANK0,
    MPL_LOADING_META,
    MPL_LOADING_MMAP,
};

/** One node's host: reported, never judged. */
struct mpl_host {
    int64_t memory_bytes; /* 0: not given */
    enum mpl_loading loading;
    int64_t dataloader_workers, prefetch_factor;
    bool pin_memory;
};

enum mpl_metric {
    MPL_METRIC_UNKNOWN = 0,
    MPL_METRIC_ALLOCATED,
    MPL_METRIC_RESERVED,
    MPL_METRIC_DEVICE,
};

enum mpl_unit { MPL_UNIT_BYTES = 0, MPL_UNIT_GB, MPL_UNIT_GIB, MPL_UNIT_UNKNOWN };

enum mpl_outcome { MPL_OUTCOME_NUMBER = 0, MPL_OUTCOME_RAN, MPL_OUTCOME_OOM };

/**
 * One reading: a number, or only an outcome, at one sequence length.
 *
 * What is not known for sure is a set: bit (1 << MPL_METRIC_DEVICE) of metrics says that the number
 * may be the card's. unit and metric hold the only member of their set, or UNKNOWN when there are
 * several. Other fields that differed from the plan: mpl_spec_bind_reading.
 */
struct mpl_observation {
    int64_t sequence_length;
    double value;      /* in unit; 0 for an outcome without number */
    double resolution; /* in unit: value was rounded to a multiple of it (28.5 GB: 0.1) */
    enum mpl_unit unit;
    uint32_t units; /* bits 1 << enum mpl_unit, never UNKNOWN; 0 without number */
    enum mpl_metric metric;
    uint32_t metrics; /* bits 1 << enum mpl_metric, never UNKNOWN; 0 without number */
    enum mpl_outcome outcome;
    bool has_set; /* more than the sequence length differed from the plan */
    char source[160];
};

#define MPL_MAX_OBSERVATIONS 64

struct mpl_plan {
    char name[128];
    struct mpl_model model;
    struct mpl_training training;
    struct mpl_parallelism parallelism;
    struct mpl_device device;
    struct mpl_checkpoint_spec checkpoint;
    struct mpl_host host;
    struct mpl_version pytorch, transformers, nccl, cuda, deepspeed;
    char framework_name[48];
    char framework_version[48];
    struct mpl_observation observations[MPL_MAX_OBSERVATIONS];
    uint32_t observation_count;
};

#endif
