/* SPDX-License-Identifier: MIT */
/*
 * TABLE: what trainers set where nothing is asked for, one row a field and range of releases.
 *
 * source: transformers/training_args.py (TrainingArguments), trainer.py, releases 4.48.3 to 5.24.0;
 * trl/trainer/{base_config,sft_config,sft_trainer}.py, releases 0.12.2 to 1.16.0;
 * accelerate/accelerator.py (prepare_model), release 1.15.0
 */
#include "table/framework.h"

#include <string.h>

#define TRAINER "transformers-trainer"
#define SFT     "trl-sft"

/* Every framework here calls accelerate's prepare_model. */
#define FROM(major_, minor_)              .from = {major_, minor_}
#define BELOW(major_, minor_)             .below = {major_, minor_}
#define TRANSFORMERS_FROM(major_, minor_) .transformers_from = {major_, minor_}
#define BEFORE_TRANSFORMERS_5             .transformers_below = {5, 0}
#define PYTORCH_FROM(major_, minor_)      .pytorch_from = {major_, minor_}

static const struct mpl_framework_default default_table[] = {
    {TRAINER, .path = "training.micro_batch_size", .json = "8",
     .from_where = "per_device_train_batch_size"},
    {TRAINER, .path = "training.gradient_clipping", .json = "1.0", .from_where = "max_grad_norm"},
    {TRAINER, TRANSFORMERS_FROM(4, 54), PYTORCH_FROM(2, 8), .path = "training.optimizer.fused",
     .json = "true", .from_where = "optim: adamw_torch_fused", .unless = "training.optimizer.name"},
    {TRAINER, BEFORE_TRANSFORMERS_5, .path = "training.use_reentrant", .json = "true",
     .from_where = "gradient_checkpointing_kwargs"},
    {TRAINER, BEFORE_TRANSFORMERS_5, .path = "training.parameter_dtype", .json = "\"float32\"",
     .from_where = "from_pretrained without a dtype"},
    {TRAINER, .path = "training.outputs_to_float32", .json = "true",
     .from_where = "convert_outputs_to_fp32"},

    {SFT, .path = "training.sequence_length", .json = "1024", .from_where = "max_length"},
    {SFT, .path = "training.micro_batch_size", .json = "8",
     .from_where = "per_device_train_batch_size"},
    {SFT, .path = "training.gradient_clipping", .json = "1.0", .from_where = "max_grad_norm"},
    {SFT, TRANSFORMERS_FROM(4, 54), PYTORCH_FROM(2, 8), .path = "training.optimizer.fused",
     .json = "true", .from_where = "optim: adamw_torch_fused", .unless = "training.optimizer.name"},
    {SFT, FROM(0, 19), .path = "training.autocast", .json = "\"bfloat16\"", .from_where = "bf16"},
    {SFT, FROM(0, 22), .path = "training.activation_checkpointing", .json = "\"full\"",
     .from_where = "gradient_checkpointing"},
    {SFT, BELOW(0, 29), BEFORE_TRANSFORMERS_5, .path = "training.use_reentrant", .json = "true",
     .from_where = "gradient_checkpointing_kwargs"},
    {SFT, BEFORE_TRANSFORMERS_5, .path = "training.parameter_dtype", .json = "\"float32\"",
     .from_where = "from_pretrained without a dtype"},
    {SFT, FROM(0, 15), BELOW(0, 22), .path = "training.metrics", .json = "\"token_accuracy\"",
     .from_where = "mean_token_accuracy", .unless = "training.loss.name"},
    {SFT, FROM(0, 22), BELOW(1, 6), .path = "training.metrics",
     .json = "\"entropy_and_token_accuracy\"", .from_where = "entropy, mean_token_accuracy",
     .unless = "training.loss.name"},
    {SFT, FROM(1, 6), BELOW(1, 15), .path = "training.loss.name", .json = "\"chunked_nll\"",
     .from_where = "loss_type"},
    {SFT, FROM(1, 15), .path = "training.loss.name", .json = "\"fused_lm_head\"",
     .from_where = "add_fused_lm_head"},
    {SFT, .path = "training.outputs_to_float32", .json = "true",
     .from_where = "convert_outputs_to_fp32"},

    {"accelerate", .path = "training.outputs_to_float32", .json = "true",
     .from_where = "convert_outputs_to_fp32"},
};

static bool is_before(struct mpl_release a, struct mpl_release b)
{
    return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

static bool is_below(struct mpl_release release, struct mpl_release below)
{
    return (!below.major && !below.minor) || is_before(release, below);
}

static bool applies(const struct mpl_framework_default *row,
                    const struct mpl_framework_releases *releases)
{
    return !is_before(releases->framework, row->from) &&
           is_below(releases->framework, row->below) &&
           !is_before(releases->transformers, row->transformers_from) &&
           is_below(releases->transformers, row->transformers_below) &&
           !is_before(releases->pytorch, row->pytorch_from);
}

const struct mpl_framework_default *mpl_framework_default(
    const char *framework, const struct mpl_framework_releases *releases, const char *path)
{
    for (size_t i = 0; i < sizeof(default_table) / sizeof(default_table[0]); i++) {
        const struct mpl_framework_default *row = &default_table[i];

        if (strcmp(row->framework, framework) == 0 && strcmp(row->path, path) == 0 &&
            applies(row, releases))
            return row;
    }
    return NULL;
}

const char *mpl_framework_newest(const char *framework)
{
    return strcmp(framework, SFT) == 0 ? "1.16.0" : NULL;
}
