/* SPDX-License-Identifier: MIT */
/* Stage "spec": the framework's release, and what of a framework is not modelled. */
#include <string.h>

#include "base/fail.h"
#include "spec/check.h"
#include "spec/gap.h"
#include "spec/text.h"
#include "spec/words.h"
#include "table/framework.h"

/* The Trainer's release is that of transformers. */
static enum memplan_status check_trainer(const struct mpl_plan *plan,
                                         const struct mpl_version *version,
                                         struct memplan_error *err)
{
    if (version->major == plan->transformers.major && version->minor == plan->transformers.minor)
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_VALUE, "/framework/version",
                    "framework.version: found %s with software.transformers %s, expected the "
                    "same: the Trainer is part of it",
                    plan->framework_version, plan->transformers.text);
}

/* A release says which defaults absent fields had. */
static enum memplan_status check_release(const struct mpl_plan *plan, struct memplan_error *err)
{
    const char *name = plan->framework_name, *text = plan->framework_version;
    const bool is_trainer = strcmp(name, "transformers-trainer") == 0;
    const struct mpl_release oldest = mpl_framework_oldest(name);
    struct mpl_version version = {0};
    const char *end;

    if (!*text || (!is_trainer && !mpl_framework_newest(name)))
        return MEMPLAN_OK;
    if (!mpl_version_parse(text, &version))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/framework/version",
                        "framework.version: found \"%s\", expected a release of %s, such as %s",
                        text, name, is_trainer ? "5.24.0" : mpl_framework_newest(name));
    if (is_trainer)
        return check_trainer(plan, &version, err);
    if (!mpl_version_at_least(&version, oldest.major, oldest.minor, 0))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/framework/version",
                        "framework.version: releases of %s before %u.%u are not modelled", name,
                        oldest.major, oldest.minor);
    end = mpl_framework_end(name, (struct mpl_release){version.major, version.minor});
    if (end)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/framework/version",
                        "framework.version: %s %s is not modelled: it %s; the last release that "
                        "is: %s",
                        name, text, end, mpl_framework_newest(name));
    return MEMPLAN_OK;
}

/* What a framework does not do, or what of it was not compared. */
enum memplan_status mpl_check_framework(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const char *name = plan->framework_name;
    const bool is_titan = strcmp(name, "torchtitan") == 0, is_tune = strcmp(name, "torchtune") == 0;
    const bool is_lightning = strcmp(name, "lightning") == 0;
    const bool is_zero =
        mpl_framework_strategy(mpl_word_of(mpl_strategy_words, (int)p->strategy)) ==
        MPL_PRESET_ON_ZERO;
    const struct mpl_gap gaps[] = {
        {p->strategy == MPL_STRATEGY_FSDP2 && mpl_framework_uses_accelerate(name) &&
             plan->training.autocast != MPL_DTYPE_NONE,
         "/training/autocast",
         "training.autocast: accelerate's mixed precision under FSDP2 is a policy without "
         "autocast; "
         "give parallelism.param_dtype and reduce_dtype, and training.autocast null"},
        {strcmp(name, "deepspeed") == 0 && !is_zero, "/parallelism/strategy",
         "parallelism.strategy: deepspeed is modelled with zero1, zero2 and zero3; its stage 0, "
         "which reduces in buckets of its own, is not"},
        {is_titan && p->strategy != MPL_STRATEGY_NONE && p->strategy != MPL_STRATEGY_FSDP2 &&
             p->strategy != MPL_STRATEGY_DDP,
         "/parallelism/strategy",
         "parallelism.strategy: torchtitan has FSDP2 and DDP; expected fsdp2, ddp or none"},
        {is_tune && p->strategy != MPL_STRATEGY_NONE && p->strategy != MPL_STRATEGY_FSDP2,
         "/parallelism/strategy",
         "parallelism.strategy: torchtune has FSDP2; expected fsdp2 or none"},
        {is_lightning && is_zero, "/parallelism/strategy",
         "parallelism.strategy: Lightning's DeepSpeed strategy is not modelled; modelled: none, "
         "ddp, fsdp1, fsdp2"},
        {(is_titan || is_tune) && strcmp(plan->model.model_type, "llama") != 0 &&
             strcmp(plan->model.model_type, "qwen2") != 0 &&
             strcmp(plan->model.model_type, "qwen3") != 0 &&
             strcmp(plan->model.model_type, "mistral") != 0,
         "/model/model_type",
         "model.model_type: torchtitan and torchtune have models of their own, which stand close "
         "to llama, mistral, qwen2 and qwen3 only"},
    };
    enum memplan_status status = check_release(plan, err);

    return status ? status : mpl_gaps_refuse(gaps, sizeof(gaps) / sizeof(gaps[0]), err);
}
