/* SPDX-License-Identifier: MIT */
/*
 * TABLE: what trainers set where nothing is asked for, one row a field and range of releases.
 *
 * source: transformers/training_args.py (TrainingArguments), trainer.py, releases 4.48.3 to 5.24.0;
 * trl/trainer/{base_config,sft_config,sft_trainer}.py, releases 0.12.2 to 1.16.0;
 * accelerate/accelerator.py (prepare_model, _prepare_fsdp2), utils/fsdp_utils.py
 * (fsdp2_prepare_model), releases 1.6.0 to 1.15.0;
 * axolotl/utils/schemas/{config,training}.py, utils/config, release 0.19.0;
 * llamafactory/hparams, model/{adapter,patcher}.py, release 0.9.5;
 * torchtitan/config/job_config.py, models/llama3/infra/parallelize.py, distributed/
 * activation_checkpoint.py, releases 0.2.0 to 0.3.0;
 * torchtune/recipes/configs, recipes/full_finetune_*.py, training/_distributed.py, release 0.6.1;
 * lightning/pytorch/{trainer,loops,strategies}, release 2.6.6;
 * deepspeed/runtime/config.py, release 0.19.8;
 * speculators/train/{trainer,distributed}.py, releases 0.7.0 to 0.9.0;
 * github.com/SafeAILab/EAGLE, commit cb7e0841: eagle/train/main.py;
 * github.com/FasterDecoding/Medusa, commit e2a5d20c: medusa/train/train_legacy.py
 */
#include "table/framework.h"

#include <string.h>

#define TRAINER     "transformers-trainer"
#define SFT         "trl-sft"
#define AXOLOTL     "axolotl"
#define FACTORY     "llamafactory"
#define TITAN       "torchtitan"
#define TUNE        "torchtune"
#define LIGHTNING   "lightning"
#define SPECULATORS "speculators"
#define EAGLE       "eagle"
#define MEDUSA      "medusa"

#define FROM(major_, minor_)              .from = {major_, minor_}
#define BELOW(major_, minor_)             .below = {major_, minor_}
#define TRANSFORMERS_FROM(major_, minor_) .transformers_from = {major_, minor_}
#define BEFORE_TRANSFORMERS_5             .transformers_below = {5, 0}
#define PYTORCH_FROM(major_, minor_)      .pytorch_from = {major_, minor_}
#define ON(strategies_)                   .strategies = (strategies_)
#define ONE_CARD                          MPL_PRESET_ON_NONE
#define DDP                               MPL_PRESET_ON_DDP
#define FSDP1                             MPL_PRESET_ON_FSDP1
#define FSDP2                             MPL_PRESET_ON_FSDP2
#define ZERO                              MPL_PRESET_ON_ZERO

static const struct mpl_framework_default default_table[] = {
#include "table/framework_rows.inc"
};

static const struct framework {
    const char *name, *newest; /* the last release that was read; NULL: it has none of its own */
    struct mpl_release oldest; /* that is modelled */
    struct mpl_release ends;   /* first one that is not; {0, 0}: none */
    bool uses_accelerate;
    const char *end_reason, *note;
} framework_table[] = {
    {.name = TRAINER, .uses_accelerate = true},
    {.name = SFT, .newest = "1.16.0", .oldest = {0, 12}, .uses_accelerate = true},
    {.name = "accelerate", .newest = "1.15.0", .uses_accelerate = true},
    {.name = AXOLOTL, .newest = "0.19.0", .oldest = {0, 19}, .uses_accelerate = true},
    {.name = FACTORY, .newest = "0.9.5", .oldest = {0, 9}, .uses_accelerate = true},
    {.name = TITAN,
     .newest = "0.2.2",
     .oldest = {0, 2},
     .ends = {0, 3},
     .end_reason = "captures forward and backward in a CUDA graph, has one matrix for queries, "
                   "keys and values, compiled flex_attention and zeroed gradients that stay",
     .note = "the model is transformers', not torchtitan's own: its complex rotary positions keep "
             "other tensors (docs/accuracy.md has recorded steps of both)"},
    {.name = TUNE,
     .newest = "0.6.1",
     .oldest = {0, 6},
     .note = "the model is transformers', not torchtune's own: its rotary positions and norms in "
             "float32 keep other tensors (docs/accuracy.md has recorded steps of both)"},
    {.name = LIGHTNING, .newest = "2.6.6", .oldest = {2, 0}},
    {.name = "deepspeed", .newest = "0.19.8", .oldest = {0, 10}},
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
           !is_before(releases->pytorch, row->pytorch_from) &&
           !is_before(releases->accelerate, row->accelerate_from) &&
           is_below(releases->accelerate, row->accelerate_below);
}

static bool suits(const struct mpl_framework_default *row, const struct mpl_framework_run *run)
{
    return (!row->strategies || (row->strategies & run->strategy)) &&
           (!row->only_with_lora || run->has_lora) && (!row->only_without_lora || !run->has_lora) &&
           (!row->only_accumulating || run->is_accumulating) &&
           (!row->only_without_checkpointing || !run->is_checkpointing) &&
           (!row->drafter || (run->drafter && strcmp(row->drafter, run->drafter) == 0));
}

static const struct framework *find_framework(const char *name)
{
    for (size_t i = 0; i < sizeof(framework_table) / sizeof(framework_table[0]); i++)
        if (strcmp(framework_table[i].name, name) == 0)
            return &framework_table[i];
    return NULL;
}

size_t mpl_framework_row_count(void)
{
    return sizeof(default_table) / sizeof(default_table[0]);
}

const struct mpl_framework_default *mpl_framework_rows(const char *framework, size_t *count_out)
{
    const size_t count = mpl_framework_row_count();
    size_t first = 0, end;

    while (first < count && strcmp(default_table[first].framework, framework) != 0)
        first++;
    for (end = first; end < count && strcmp(default_table[end].framework, framework) == 0;)
        end++;
    *count_out = end - first;
    return &default_table[first < count ? first : 0];
}

const struct mpl_framework_default *mpl_framework_default(const struct mpl_framework_default *rows,
                                                          size_t count,
                                                          const struct mpl_framework_run *run,
                                                          const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].path, path) == 0 && applies(&rows[i], &run->releases) &&
            suits(&rows[i], run))
            return &rows[i];
    return NULL;
}

const char *mpl_framework_newest(const char *framework)
{
    const struct framework *row = find_framework(framework);

    return row ? row->newest : NULL;
}

const char *mpl_framework_note(const char *framework)
{
    const struct framework *row = find_framework(framework);

    return row ? row->note : NULL;
}

bool mpl_framework_uses_accelerate(const char *framework)
{
    const struct framework *row = find_framework(framework);

    return row && row->uses_accelerate;
}

struct mpl_release mpl_framework_oldest(const char *framework)
{
    const struct framework *row = find_framework(framework);

    return row ? row->oldest : (struct mpl_release){0, 0};
}

const char *mpl_framework_end(const char *framework, struct mpl_release release)
{
    const struct framework *row = find_framework(framework);

    return row && row->end_reason && !is_before(release, row->ends) ? row->end_reason : NULL;
}

unsigned mpl_framework_strategy(const char *strategy)
{
    static const struct {
        const char *word;
        unsigned bit;
    } strategy_table[] = {
        {"none", ONE_CARD}, {"ddp", DDP},    {"fsdp1", FSDP1}, {"fsdp2", FSDP2},
        {"zero1", ZERO},    {"zero2", ZERO}, {"zero3", ZERO},
    };

    for (size_t i = 0; i < sizeof(strategy_table) / sizeof(strategy_table[0]); i++)
        if (strcmp(strategy_table[i].word, strategy) == 0)
            return strategy_table[i].bit;
    return ONE_CARD;
}
