/* SPDX-License-Identifier: MIT */
/* Stage "import": whether there are adapters and weights in 4 bits, and what trainers set then. */
#include "import/settle.h"

#include <string.h>

#define NOTE(import, ...) mpl_import_note(import, NULL, __VA_ARGS__)

static bool has(const struct mpl_import *import, const char *path)
{
    return mpl_import_get(import, path) != NULL;
}

static enum memplan_status set(struct mpl_import *import, const char *path, const char *json,
                               struct memplan_error *err)
{
    return mpl_import_default(import, path, json, err);
}

bool mpl_settle_has_adapters(const struct mpl_import *import)
{
    const char *kind = mpl_import_get_text(import, "import.adapter");

    return mpl_import_get_integer(import, "training.lora.r", 0) > 0 ||
           (kind && strcmp(kind, "none") != 0);
}

static void drop_below(struct mpl_import *import, const char *prefix)
{
    const char *path;

    for (size_t i = 0; (path = mpl_import_path(import, i, NULL));)
        if (strncmp(path, prefix, strlen(prefix)) == 0)
            mpl_import_drop(import, path);
        else
            i++;
}

enum memplan_status mpl_settle_adapters(struct mpl_import *import, struct memplan_error *err)
{
    const char *kind = mpl_import_get_text(import, "import.adapter");
    const bool is_lora = mpl_import_is_true(import, "import.use_peft") || kind;
    enum memplan_status status = MEMPLAN_OK;

    if (!is_lora || (kind && strcmp(kind, "none") == 0)) {
        if (!kind && mpl_settle_has_adapters(import) && !has(import, "import.use_peft") &&
            !has(import, "import.read_axolotl"))
            NOTE(import, "the rank of adapters is given, and nothing asks for adapters (use_peft): "
                         "none are taken");
        drop_below(import, "training.lora.");
        /* LLaMA-Factory has adapters unless it is told otherwise. */
        if (kind && has(import, "import.read_llamafactory"))
            status = set(import, "training.lora.r", "0", err);
        return status;
    }
    /* transformers/trainer.py: with PEFT under FSDP1 the units are peft's fsdp_auto_wrap_policy. */
    if (strcmp(mpl_settle_strategy_of(import), "fsdp1") == 0 && !has(import, "parallelism.wrap"))
        status = set(import, "parallelism.wrap", "\"layer+adapters\"", err);
    if (!status && !has(import, "import.read_llamafactory")) /* TRL's and PEFT's own default */
        status =
            set(import, "training.lora.r", has(import, "import.read_arguments") ? "16" : "8", err);
    if (!status && !has(import, "training.lora.target_modules") &&
        !has(import, "import.read_llamafactory")) {
        NOTE(import, "training.lora.target_modules is not given, taken as q_proj and v_proj, as "
                     "PEFT takes it for llama, mistral, qwen2 and their like");
        status = set(import, "training.lora.target_modules", "[\"q_proj\", \"v_proj\"]", err);
    }
    return status;
}

enum memplan_status mpl_settle_quantization(struct mpl_import *import, struct memplan_error *err)
{
    enum memplan_status status;
    const bool is_trl =
        !has(import, "import.read_axolotl") && !has(import, "import.read_llamafactory");

    if (!mpl_import_is_true(import, "import.load_in_4bit")) {
        drop_below(import, "training.quantization.");
        return MEMPLAN_OK;
    }
    status = set(import, "training.quantization.name", "\"bitsandbytes\"", err);
    if (!status)
        status = set(import, "training.quantization.type", "\"nf4\"", err);
    if (!status)
        status = set(import, "training.quantization.double", is_trl ? "false" : "true", err);
    if (!status)
        status = set(import, "training.quantization.compute_dtype", "\"bfloat16\"", err);
    if (!status && !is_trl) /* for FSDP's sake, and on one card too */
        status = set(import, "training.quantization.storage_dtype", "\"bfloat16\"", err);
    if (!status && has(import, "import.read_axolotl") &&
        strncmp(mpl_settle_strategy_of(import), "fsdp", 4) != 0 &&
        strcmp(mpl_settle_strategy_of(import), "zero3") != 0)
        status = set(import, "training.prepare_for_kbit", "true", err);
    return status;
}
