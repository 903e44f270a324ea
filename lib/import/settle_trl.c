/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": what TRL's losses on prompts and completions need, and the defaults of its
 * scripts.
 * source: trl/trainer/{base,dpo,grpo,model}_config.py, trl/scripts/{dpo,grpo}.py, release 1.16.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "import/settle.h"

static bool is_loss(const struct mpl_import *import, const char *name)
{
    const char *text = mpl_import_get_text(import, "training.loss.name");

    return text && strcmp(text, name) == 0;
}

/* ModelConfig's adapters have dropout. */
static enum memplan_status put_adapters(struct mpl_import *import, struct memplan_error *err)
{
    return mpl_settle_has(import, "import.trl") && mpl_import_is_true(import, "import.use_peft")
               ? mpl_import_default(import, "training.lora.dropout", "0.05", err)
               : MEMPLAN_OK;
}

/* DPOConfig's and GRPOConfig's own, and ModelConfig's format; SFTConfig's come with framework.name.
 */
static enum memplan_status put_defaults(struct mpl_import *import, struct memplan_error *err)
{
    enum memplan_status status;

    if (!mpl_settle_has(import, "import.trl"))
        return MEMPLAN_OK;
    MPL_SETTLE_NOTE(import,
                    "checkpointing, formats and lengths that are not given are those of TRL "
                    "1.16");
    status = mpl_import_default(import, "training.activation_checkpointing", "\"full\"", err);
    if (!status && !mpl_settle_has(import, "import.fp16"))
        status = mpl_import_default(import, "import.bf16", "true", err);
    return status ? status : mpl_import_default(import, "import.dtype", "\"float32\"", err);
}

static enum memplan_status check_grpo(struct mpl_import *import, struct memplan_error *err)
{
    const char *mode = mpl_import_get_text(import, "import.vllm_mode");
    const struct mpl_import_place vllm = mpl_import_place_of(import, "import.use_vllm");
    const struct mpl_import_place beta = mpl_import_place_of(import, "import.beta");
    const bool uses_vllm = mpl_import_is_true(import, "import.use_vllm");

    if (uses_vllm && (!mode || strcmp(mode, "server") != 0))
        return mpl_import_fail(&vllm, MEMPLAN_ERR_UNSUPPORTED, err,
                               "vLLM on the cards that train is not modelled; expected vllm_mode "
                               "server");
    if (json_number_value(mpl_import_get(import, "import.beta")) > 0)
        return mpl_import_fail(&beta, MEMPLAN_ERR_UNSUPPORTED, err,
                               "a reference beside grpo is not modelled; expected 0");
    if (!uses_vllm)
        MPL_SETTLE_NOTE(import, "not modelled: completions that grpo generates on the cards that "
                                "train; the figures are those of its step");
    return MEMPLAN_OK;
}

/* A sequence is a prompt and a completion; only tokens of the latter get logits. */
static enum memplan_status put_lengths(struct mpl_import *import, struct memplan_error *err)
{
    const int64_t prompt = mpl_import_get_integer(import, "import.prompt_length", 0);
    const int64_t completion = mpl_import_get_integer(import, "import.completion_length", 512);
    const struct mpl_import_place place = mpl_import_place_of(import, "import.completion_length");
    enum memplan_status status;
    char json[24];

    if (completion < 1 || completion > 1 << 30 || prompt < 0 || prompt > 1 << 30)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                               "prompts of %" PRId64 " and completions of %" PRId64
                               " tokens, expected 1 to 1073741824",
                               prompt, completion);
    snprintf(json, sizeof(json), "%" PRId64, completion);
    status = mpl_import_default(import, "training.loss.logits_to_keep", json, err);
    if (!status)
        status = mpl_import_default(import, "training.padding", "true", err);
    if (status || !prompt) {
        if (!status && !mpl_settle_has(import, "training.sequence_length"))
            MPL_SETTLE_NOTE(import, "how long prompts are is not said; give "
                                    "training.sequence_length, of prompt and completion");
        return status;
    }
    snprintf(json, sizeof(json), "%" PRId64, prompt + completion);
    return mpl_import_default(import, "training.sequence_length", json, err);
}

enum memplan_status mpl_settle_trl(struct mpl_import *import, struct memplan_error *err)
{
    const struct mpl_import_place prompt = mpl_import_place_of(import, "import.prompt_length");
    const bool is_dpo = is_loss(import, "dpo"), is_grpo = is_loss(import, "grpo");
    enum memplan_status status = put_adapters(import, err);

    if (status)
        return status;
    if (!is_dpo && !is_grpo) {
        if (mpl_settle_has(import, "import.prompt_length") ||
            mpl_settle_has(import, "import.completion_length"))
            mpl_import_note(import, *prompt.key ? &prompt : NULL,
                            "not modelled: the loss of a trainer on prompts and completions; give "
                            "training.loss.name");
        mpl_import_drop(import, "training.loss.reference");
        return MEMPLAN_OK;
    }
    status = put_defaults(import, err);
    if (!status && is_dpo && mpl_settle_has(import, "import.trl"))
        status = mpl_import_default(import, "training.sequence_length", "1024", err);
    if (!status && is_grpo)
        status = check_grpo(import, err);
    return status || is_dpo ? status : put_lengths(import, err);
}
