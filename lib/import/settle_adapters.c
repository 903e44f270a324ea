/* SPDX-License-Identifier: MIT */
/* Stage "import": whether there are adapters and weights in 4 bits, and what trainers set then. */
#include "import/settle.h"

#include <string.h>

#include "spec/plan.h"

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

/* Layers of the model, under the names that config.json files have for them; 0: not known. */
static size_t count_layers(const struct mpl_import *import)
{
    static const char *const names[] = {"num_hidden_layers", "n_layer", "num_layers", "n_layers"};
    const json_t *model = mpl_import_get(import, "model");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_int_t layers = json_integer_value(json_object_get(model, names[i]));

        if (layers > 0)
            return (size_t)layers;
    }
    return 0;
}

/* "all-linear" as PEFT writes it out. Without the model names stay as they are, where a plan has
 * room for them: such a plan is not whole anyway. */
static enum memplan_status fold_names(struct mpl_import *import, struct memplan_error *err)
{
    const json_t *names = mpl_import_get(import, "import.layer_names");
    const struct mpl_import_place place = mpl_import_place_of(import, "import.layer_names");
    const size_t layers = count_layers(import);
    enum memplan_status status;
    json_t *folded;

    if (!names || (!layers && json_array_size(names) > MPL_MAX_NAMES))
        return MEMPLAN_OK;
    folded = mpl_import_fold_layers(names, layers);
    status = mpl_import_set(import, &place, "training.lora.target_modules", folded ? folded : names,
                            err);
    json_decref(folded);
    return status;
}

enum memplan_status mpl_settle_adapters(struct mpl_import *import, struct memplan_error *err)
{
    const char *kind = mpl_import_get_text(import, "import.adapter");
    const bool is_lora = mpl_import_is_true(import, "import.use_peft") || kind;
    enum memplan_status status = MEMPLAN_OK;

    if (!is_lora || (kind && strcmp(kind, "none") == 0)) {
        if (!kind && mpl_settle_has_adapters(import) &&
            !mpl_settle_has(import, "import.use_peft") &&
            !mpl_settle_has(import, "import.read_axolotl"))
            MPL_SETTLE_NOTE(
                import, "the rank of adapters is given, and nothing asks for adapters (use_peft): "
                        "none are taken");
        drop_below(import, "training.lora.");
        /* LLaMA-Factory has adapters unless it is told otherwise. */
        if (kind && mpl_settle_has(import, "import.read_llamafactory"))
            status = mpl_import_default(import, "training.lora.r", "0", err);
        return status;
    }
    /* transformers/trainer.py: with PEFT under FSDP1 the units are peft's fsdp_auto_wrap_policy. */
    if (strcmp(mpl_settle_strategy_of(import), "fsdp1") == 0 &&
        !mpl_settle_has(import, "parallelism.wrap"))
        status = mpl_import_default(import, "parallelism.wrap", "\"layer+adapters\"", err);
    if (!status &&
        !mpl_settle_has(import, "import.read_llamafactory")) /* TRL's and PEFT's own default */
        status =
            mpl_import_default(import, "training.lora.r",
                               mpl_settle_has(import, "import.read_arguments") ? "16" : "8", err);
    if (!status)
        status = fold_names(import, err);
    if (!status && !mpl_settle_has(import, "training.lora.target_modules") &&
        !mpl_settle_has(import, "import.layer_names") &&
        !mpl_settle_has(import, "import.read_llamafactory")) {
        MPL_SETTLE_NOTE(import,
                        "training.lora.target_modules is not given, taken as q_proj and v_proj, as "
                        "PEFT takes it for llama, mistral, qwen2 and their like");
        status = mpl_import_default(import, "training.lora.target_modules",
                                    "[\"q_proj\", \"v_proj\"]", err);
    }
    return status;
}

enum memplan_status mpl_settle_quantization(struct mpl_import *import, struct memplan_error *err)
{
    enum memplan_status status;
    const bool is_trl = !mpl_settle_has(import, "import.read_axolotl") &&
                        !mpl_settle_has(import, "import.read_llamafactory");

    if (!mpl_import_is_true(import, "import.load_in_4bit")) {
        drop_below(import, "training.quantization.");
        return MEMPLAN_OK;
    }
    status = mpl_import_default(import, "training.quantization.name", "\"bitsandbytes\"", err);
    if (!status)
        status = mpl_import_default(import, "training.quantization.type", "\"nf4\"", err);
    if (!status)
        status = mpl_import_default(import, "training.quantization.double",
                                    is_trl ? "false" : "true", err);
    if (!status)
        status =
            mpl_import_default(import, "training.quantization.compute_dtype", "\"bfloat16\"", err);
    if (!status && !is_trl) /* for FSDP's sake, and on one card too */
        status =
            mpl_import_default(import, "training.quantization.storage_dtype", "\"bfloat16\"", err);
    if (!status && mpl_settle_has(import, "import.read_axolotl") &&
        strncmp(mpl_settle_strategy_of(import), "fsdp", 4) != 0 &&
        strcmp(mpl_settle_strategy_of(import), "zero3") != 0)
        status = mpl_import_default(import, "training.prepare_for_kbit", "true", err);
    return status;
}
