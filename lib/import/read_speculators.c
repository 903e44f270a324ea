/* SPDX-License-Identifier: MIT */
/*
 * TABLE: flags of speculators' training command, scripts/train.py and, from 0.9.0 on, "speculators
 * train".
 * source: scripts/train.py, releases 0.3.0 to 0.6.0; speculators/train/config/schema.py, releases
 * 0.7.0 to 0.9.0
 */
#include "import/import.h"

static const struct mpl_import_word kinds[] = {
    {"eagle3", "\"eagle3\"", NULL},
    {"dflash", "\"dflash\"", NULL},
    {"mtp", "\"mtp\"", NULL},
    {NULL, NULL, NULL},
};

/* lib/arch: the drafters' layers are llama's and qwen3's, with the family and not by choice. */
static const struct mpl_import_word layers[] = {
    {"llama", "\"llama\"", NULL},
    {"qwen3", "\"qwen3\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word attentions[] = {
    {"simple_flex_attention", NULL, NULL},
    {"sdpa", "\"sdpa\"", NULL},
    {"eager", "\"eager\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word losses[] = {
    {"kl_div", "\"kl_div\"", NULL},
    {"ce", "\"cross_entropy\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word loss_code[] = {
    {"fused", "\"fused\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word optimizers[] = {
    {"adamw", "\"adamw\"", NULL},
    {"muon", "\"muon\"", NULL},
    {NULL, NULL, NULL},
};

#define SWITCH(key_, path_, on_, off_)                                                             \
    {.key = key_, .path = path_, .kind = MPL_IMPORT_WORD, .words = on_},                           \
    {                                                                                              \
        .key = "no_" key_, .path = path_, .kind = MPL_IMPORT_WORD, .words = off_                   \
    }

static const struct mpl_import_word on[] = {{"true", "true", NULL}, {NULL, NULL, NULL}};
static const struct mpl_import_word off[] = {{"true", "false", NULL}, {NULL, NULL, NULL}};

static const struct mpl_import_key keys[] = {
    {.key = "verifier_name_or_path", .path = "import.model", .kind = MPL_IMPORT_TEXT},
    {.key = "speculator_type", .path = "import.drafter", .kind = MPL_IMPORT_WORD, .words = kinds},
    {.key = "from_pretrained", .path = "import.drafter_config", .kind = MPL_IMPORT_TEXT},
    {.key = "draft_config", .path = "import.drafter_config", .kind = MPL_IMPORT_TEXT},
    {.key = "num_layers", .path = "import.drafter_layers", .kind = MPL_IMPORT_INTEGER},
    {.key = "draft_arch", .path = "import.drafter_arch", .kind = MPL_IMPORT_WORD, .words = layers},
    {.key = "draft_hidden_act", .path = "import.drafter_act", .kind = MPL_IMPORT_TEXT},
    {.key = "target_layer_ids", .path = "import.drafter_targets", .kind = MPL_IMPORT_NAMES},
    {.key = "draft_vocab_size", .path = "import.draft_vocab", .kind = MPL_IMPORT_INTEGER},
    {.key = "d2t_path", .path = "import.draft_map", .kind = MPL_IMPORT_TEXT},
    {.key = "block_size", .path = "import.drafter_block", .kind = MPL_IMPORT_INTEGER},
    {.key = "max_anchors", .path = "import.drafter_anchors", .kind = MPL_IMPORT_INTEGER},
    {.key = "ttt_steps", .path = "import.drafter_steps", .kind = MPL_IMPORT_INTEGER},
    {.key = "num_speculative_steps", .path = "import.drafter_tokens", .kind = MPL_IMPORT_INTEGER},
    {.key = "total_seq_len", .path = "training.sequence_length", .kind = MPL_IMPORT_INTEGER},
    {.key = "hidden_states_dtype",
     .path = "training.batch_dtype",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_dtypes},
    {.key = "use_off_policy_tokens",
     .path = "training.use_off_policy_tokens",
     .kind = MPL_IMPORT_BOOLEAN},
    {.key = "loss_fn", .path = "training.loss.name", .kind = MPL_IMPORT_WORD, .words = losses},
    {.key = "loss_implementation",
     .path = "import.drafter_loss",
     .kind = MPL_IMPORT_WORD,
     .words = loss_code},
    {.key = "optimizer",
     .path = "training.optimizer.name",
     .kind = MPL_IMPORT_WORD,
     .words = optimizers},
    {.key = "weight_decay", .path = "training.optimizer.weight_decay", .kind = MPL_IMPORT_NUMBER},
    {.key = "gradient_checkpointing",
     .path = "training.activation_checkpointing",
     .kind = MPL_IMPORT_WORD,
     .words = mpl_import_checkpointing},
    {.key = "fsdp_shard", .path = "import.fsdp_shard", .kind = MPL_IMPORT_BOOLEAN},
    {.key = "draft_attn_impl",
     .path = "training.attention",
     .kind = MPL_IMPORT_WORD,
     .words = attentions},
    {.key = "sliding_window", .path = "import.drafter_window", .kind = MPL_IMPORT_INTEGER},
    {.key = "sliding_window_indices", .path = "import.drafter_slides", .kind = MPL_IMPORT_NAMES},
    {.key = "full_attention_indices", .path = "import.drafter_full", .kind = MPL_IMPORT_NAMES},
    SWITCH("norm_before_residual", "import.norm_before_residual", on, off),
    SWITCH("embed_requires_grad", "import.drafter_embedding", on, off),
    SWITCH("norm_before_fc", "import.norm_before_fc", on, off),
    SWITCH("norm_output", "import.norm_output", on, off),
    SWITCH("fc_norm", "import.fc_norm", on, off),
    {.key = "num_workers", .path = "host.dataloader_workers", .kind = MPL_IMPORT_INTEGER},
    {.key = "prefetch_factor", .path = "host.prefetch_factor", .kind = MPL_IMPORT_INTEGER},
};

static const char *const harmless[] = {
    "base_anchor_full_weight",
    "base_anchor_weight",
    "ce_from_data",
    "checkpoint_freq",
    "confidence_head_alpha",
    "confidence_head_with_markov",
    "consistency_passes",
    "consistency_weight",
    "conv_group_size",
    "conv_kernel_size",
    "data_format_version",
    "data_path",
    "deterministic_cuda",
    "dflash_decay_gamma",
    "down_sample_ratio",
    "down_sample_ratio_min",
    "dpace_alpha",
    "draft_mrope_full_head_hack",
    "dry_run",
    "enable_confidence_head",
    "epochs",
    "generation_validation_retries",
    "hidden_states_backend",
    "hidden_states_path",
    "legacy_data",
    "log_dir",
    "log_freq",
    "logger",
    "lr",
    "markov_head_type",
    "markov_rank",
    "mask_token_id",
    "max_consecutive_generation_failures",
    "max_retries",
    "max_steps",
    "muon_adjust_lr_fn",
    "muon_lr",
    "muon_momentum",
    "muon_ns_steps",
    "muon_weight_decay",
    "no_draft_mrope_full_head_hack",
    "no_resume_from_checkpoint",
    "no_sample_from_anchor",
    "noise_std",
    "num_depths",
    "num_jacobi_passes",
    "on_generate",
    "on_missing",
    "per_position_loss_weight",
    "request_timeout",
    "run_name",
    "sample_from_anchor",
    "save_best",
    "save_path",
    "scheduler_num_cosine_cycles",
    "scheduler_total_steps",
    "scheduler_type",
    "scheduler_warmup_ratio",
    "scheduler_warmup_steps",
    "seed",
    "selector_loss_alpha",
    "selector_rank",
    "selector_top_k",
    "sliding_window_non_causal",
    "step_weight_beta",
    "t2d_path",
    "token_freq_path",
    "train_data_ratio",
    "trust_remote_code",
    "ttt_step_loss_decay",
    "vllm_endpoint",
    "xpress_mlp_ratio",
    "xpress_rank",
    NULL,
};

const struct mpl_import_reader mpl_import_speculators = {
    .name = "command of speculators",
    MPL_IMPORT_KEYS(keys),
    .harmless = harmless,
};
