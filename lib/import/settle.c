/* SPDX-License-Identifier: MIT */
/* Stage "import": what follows from several facts: whose loop, strategy, ranks, precision. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "import/settle.h"
#include "spec/fields.h"
#include "spec/words.h"

static enum memplan_status set_number(struct mpl_import *import, const char *path, int64_t number,
                                      struct memplan_error *err)
{
    char json[32];

    snprintf(json, sizeof(json), "%" PRId64, number);
    return mpl_import_default(import, path, json, err);
}

/* ---- whose loop ---- */

static enum memplan_status settle_framework(struct mpl_import *import, struct memplan_error *err)
{
    static const struct {
        const char *fact, *json;
    } frameworks[] = {
        {"import.read_speculators", "\"speculators\""},
        {"import.read_torchtitan", "\"torchtitan\""},
        {"import.read_axolotl", "\"axolotl\""},
        {"import.read_llamafactory", "\"llamafactory\""},
        {"import.sft", "\"trl-sft\""},
        {"import.read_arguments", "\"transformers-trainer\""},
        {"import.read_accelerate", "\"accelerate\""},
    };

    if (mpl_settle_has(import, "import.read_arguments") &&
        !mpl_settle_has(import, "import.script") && !mpl_settle_has(import, "import.sft") &&
        mpl_settle_has(import, "training.sequence_length"))
        MPL_SETTLE_NOTE(
            import, "framework.name is taken as transformers-trainer; where the script is TRL's "
                    "for supervised fine-tuning it is trl-sft");
    for (size_t i = 0; i < sizeof(frameworks) / sizeof(frameworks[0]); i++)
        if (mpl_settle_has(import, frameworks[i].fact))
            return mpl_import_default(import, "framework.name", frameworks[i].json, err);
    /* A DeepSpeed configuration that says auto is filled in by the Trainer. */
    if (!mpl_settle_has(import, "import.read_deepspeed"))
        return MEMPLAN_OK;
    if (!mpl_settle_has(import, "import.auto"))
        return mpl_import_default(import, "framework.name", "\"deepspeed\"", err);
    MPL_SETTLE_NOTE(import,
                    "framework.name is taken as transformers-trainer, which fills in what the "
                    "DeepSpeed configuration leaves at auto");
    return mpl_import_default(import, "framework.name", "\"transformers-trainer\"", err);
}

/* ---- ranks ---- */

static enum memplan_status settle_ranks(struct mpl_import *import, struct memplan_error *err)
{
    const int64_t nodes = mpl_import_get_integer(import, "import.nodes", 1);
    int64_t each = mpl_import_get_integer(import, "import.processes_per_node", 0);
    int64_t world = mpl_import_get_integer(import, "import.num_processes", 0);
    enum memplan_status status = MEMPLAN_OK;

    if (nodes < 1 || nodes > 1048576 || each < 0 || each > 1048576 || world < 0)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "%" PRId64 " nodes with %" PRId64 " processes, %" PRId64
                        " in all: expected 1 to 1048576",
                        nodes, each, world);
    if (!world && each)
        world = nodes * each;
    if (world && !each && world % nodes == 0)
        each = world / nodes;
    if (world)
        status = set_number(import, "parallelism.world_size", world, err);
    if (!status && each && world > 1)
        status = set_number(import, "parallelism.gpus_per_node", each, err);
    return status;
}

/* ---- strategy ---- */

static bool is_distributed(const struct mpl_import *import, const char *word)
{
    const char *text = mpl_import_get_text(import, "import.distributed");

    return text && strcmp(text, word) == 0;
}

static bool uses_deepspeed(const struct mpl_import *import)
{
    return mpl_settle_has(import, "import.read_deepspeed") ||
           mpl_settle_has(import, "import.zero_stage") ||
           mpl_settle_has(import, "import.deepspeed_file") ||
           mpl_import_is_true(import, "import.deepspeed") || is_distributed(import, "deepspeed");
}

static bool uses_fsdp(const struct mpl_import *import)
{
    return mpl_import_is_true(import, "import.fsdp") || is_distributed(import, "fsdp") ||
           mpl_settle_has(import, "import.read_fsdp");
}

static enum memplan_status settle_zero(struct mpl_import *import, struct memplan_error *err)
{
    const char *file = mpl_import_get_text(import, "import.deepspeed_file");
    const int64_t stage = mpl_import_get_integer(import, "import.zero_stage", -1);
    const struct mpl_import_place place = mpl_import_place_of(import, "import.zero_stage");
    const struct mpl_import_place named = mpl_import_place_of(import, "import.deepspeed_file");
    char json[16];

    if (stage < 0 && file && !mpl_settle_has(import, "import.read_deepspeed"))
        return mpl_import_fail(&named, MEMPLAN_ERR_VALUE, err,
                               "the DeepSpeed configuration %.160s is not given, expected it among "
                               "the files",
                               file);
    if (stage < 1)
        return mpl_import_fail(&place, MEMPLAN_ERR_UNSUPPORTED, err,
                               "DeepSpeed's stage 0 is not modelled, expected 1 to 3");
    if (stage > 3)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err, "found %" PRId64 ", expected 1 to 3",
                               stage);
    snprintf(json, sizeof(json), "\"zero%d\"", (int)stage);
    return mpl_import_default(import, "parallelism.strategy", json, err);
}

/* transformers/training_args.py, _process_fsdp_args of 5.24.0: 2 unless told; accelerate's own
 * default and that of older releases is 1. */
static int64_t default_fsdp_version(struct mpl_import *import)
{
    if (mpl_settle_has(import, "import.read_axolotl") ||
        mpl_settle_has(import, "import.read_accelerate") ||
        (!mpl_settle_has(import, "import.read_arguments") &&
         !mpl_settle_has(import, "import.read_fsdp")))
        return 1;
    if (!mpl_settle_has(import, "import.fsdp_version"))
        MPL_SETTLE_NOTE(
            import, "the version of FSDP is not given, taken as 2, as transformers 5.24 takes it; "
                    "older releases took 1 (parallelism.strategy fsdp1)");
    return 2;
}

static enum memplan_status settle_fsdp(struct mpl_import *import, struct memplan_error *err)
{
    const int64_t version =
        mpl_import_get_integer(import, "import.fsdp_version", default_fsdp_version(import));
    const char *sharding = mpl_import_get_text(import, "parallelism.sharding_strategy");
    const bool is_second = version == 2;
    const struct mpl_import_place place = mpl_import_place_of(import, "import.fsdp_version");
    const json_t *wrap = mpl_import_get(import, "import.fsdp_wrap");
    const json_t *reshard = mpl_import_get(import, "import.reshard_after_forward");
    enum memplan_status status;

    if (version != 1 && version != 2)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err, "found %" PRId64 ", expected 1 or 2",
                               version);
    status = mpl_import_default(import, "parallelism.strategy",
                                is_second ? "\"fsdp2\"" : "\"fsdp1\"", err);
    if (!status && json_is_false(wrap))
        status = mpl_import_default(import, "parallelism.wrap", "\"root\"", err);
    if (!status && is_second && reshard)
        status = mpl_import_default(import, "parallelism.reshard_after_forward",
                                    json_is_true(reshard) ? "true" : "false", err);
    else if (!status && is_second && sharding && strcmp(sharding, "SHARD_GRAD_OP") == 0)
        status = mpl_import_default(import, "parallelism.reshard_after_forward", "false", err);
    else if (!status && reshard)
        status =
            mpl_import_default(import, "parallelism.sharding_strategy",
                               json_is_true(reshard) ? "\"FULL_SHARD\"" : "\"SHARD_GRAD_OP\"", err);
    if (!status && mpl_import_is_true(import, "import.fsdp_checkpointing"))
        status =
            is_second
                ? mpl_import_default(import, "training.activation_checkpointing", "\"full\"", err)
                : mpl_import_default(import, "parallelism.activation_checkpointing", "true", err);
    return status;
}

static enum memplan_status settle_strategy(struct mpl_import *import, struct memplan_error *err)
{
    const int64_t world = mpl_import_get_integer(import, "parallelism.world_size", 0);

    if (is_distributed(import, "no") && !uses_deepspeed(import) && !uses_fsdp(import))
        return MEMPLAN_OK;
    if (uses_deepspeed(import) && uses_fsdp(import))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "the files ask for DeepSpeed and for FSDP, expected one of them");
    if ((uses_deepspeed(import) || uses_fsdp(import)) && !world)
        MPL_SETTLE_NOTE(import,
                        "no file says on how many cards it runs, taken as 1; give --gpus N");
    if (uses_deepspeed(import))
        return settle_zero(import, err);
    if (uses_fsdp(import))
        return settle_fsdp(import, err);
    if (is_distributed(import, "multi_gpu") || world > 1)
        return mpl_import_default(import, "parallelism.strategy", "\"ddp\"", err);
    return MEMPLAN_OK;
}

const char *mpl_settle_strategy_of(const struct mpl_import *import)
{
    const char *text = mpl_import_get_text(import, "parallelism.strategy");

    return text ? text : "none";
}

static bool is_zero(const struct mpl_import *import)
{
    return strncmp(mpl_settle_strategy_of(import), "zero", 4) == 0;
}

/* ---- precision ---- */

/* "bf16", "fp16" or NULL. What the Trainer is told goes before accelerate's configuration. */
static const char *precision_of(const struct mpl_import *import)
{
    const char *text = mpl_import_get_text(import, "import.precision");

    if (is_zero(import) && mpl_import_is_true(import, "import.deepspeed_bf16"))
        return "bf16";
    if (is_zero(import) && mpl_import_is_true(import, "import.deepspeed_fp16"))
        return "fp16";
    if (mpl_import_is_true(import, "import.bf16"))
        return "bf16";
    if (mpl_import_is_true(import, "import.fp16"))
        return "fp16";
    return text && strcmp(text, "no") != 0 ? text : NULL;
}

static enum memplan_status settle_autocast(struct mpl_import *import, const char *format,
                                           struct memplan_error *err)
{
    enum memplan_status status = mpl_import_default(import, "training.autocast", format, err);

    if (!status && strcmp(format, "\"float16\"") == 0)
        status = mpl_import_default(import, "training.loss_scaling", "true", err);
    return status;
}

/* accelerate: under FSDP what trains is kept in float32, and gathered and reduced in the format. */
static enum memplan_status settle_policy(struct mpl_import *import, const char *format,
                                         struct memplan_error *err)
{
    enum memplan_status status = mpl_import_default(import, "parallelism.param_dtype", format, err);

    if (!status)
        status = mpl_import_default(import, "parallelism.reduce_dtype", format, err);
    if (!status && strcmp(mpl_settle_strategy_of(import), "fsdp1") == 0)
        status = settle_autocast(import, format, err);
    if (!status && !mpl_settle_has_adapters(import)) {
        mpl_import_drop(import, "training.parameter_dtype");
        status = mpl_import_default(import, "training.parameter_dtype", "\"float32\"", err);
    }
    return status;
}

static enum memplan_status settle_precision(struct mpl_import *import, struct memplan_error *err)
{
    const char *precision = precision_of(import);
    const char *format =
        precision && strcmp(precision, "fp16") == 0 ? "\"float16\"" : "\"bfloat16\"";
    const json_t *dtype = mpl_import_get(import, "import.dtype");
    const struct mpl_import_place place = {.key = "dtype"};
    enum memplan_status status = MEMPLAN_OK;
    const bool is_off = json_is_false(mpl_import_get(import, "import.bf16"));

    if (dtype && !(is_zero(import) && precision))
        status = mpl_import_set(import, &place, "training.parameter_dtype", dtype, err);
    if (status)
        return status;
    if (mpl_import_is_true(import, "import.pure_bf16")) {
        mpl_import_drop(import, "training.parameter_dtype");
        status = mpl_import_default(import, "training.autocast", "null", err);
        return status ? status
                      : mpl_import_default(import, "training.parameter_dtype", "\"bfloat16\"", err);
    }
    if (!precision) /* trainers that set one themselves are told that there is none */
        return is_off && !is_zero(import)
                   ? mpl_import_default(import, "training.autocast", "null", err)
                   : MEMPLAN_OK;
    if (is_zero(import))
        return mpl_import_default(import, "training.parameter_dtype", format, err);
    if (strncmp(mpl_settle_strategy_of(import), "fsdp", 4) == 0)
        return settle_policy(import, format, err);
    return settle_autocast(import, format, err);
}

/* ---- optimizer, batch ---- */

static enum memplan_status settle_optimizer(struct mpl_import *import, struct memplan_error *err)
{
    const char *name = mpl_import_get_text(import, "import.optimizer");
    const char *device = mpl_import_get_text(import, "parallelism.offload_optimizer");
    const bool is_offloaded = device && strcmp(device, "none") != 0;
    enum memplan_status status;
    char json[64];

    if (is_zero(import) && mpl_settle_has(import, "import.deepspeed_optimizer")) {
        if (name && strncmp(name, "adamw", 5) != 0)
            MPL_SETTLE_NOTE(import, "the optimizer is DeepSpeed's AdamW, and not %s", name);
        status = mpl_import_default(import, "training.optimizer.name", "\"adamw\"", err);
        return status || is_offloaded
                   ? status
                   : mpl_import_default(import, "training.optimizer.fused", "true", err);
    }
    if (!name)
        return MEMPLAN_OK;
    if (strcmp(name, "adamw fused") == 0) {
        status = mpl_import_default(import, "training.optimizer.name", "\"adamw\"", err);
        return status ? status
                      : mpl_import_default(import, "training.optimizer.fused", "true", err);
    }
    snprintf(json, sizeof(json), "\"%s\"", name);
    return mpl_import_default(import, "training.optimizer.name", json, err);
}

static enum memplan_status take_fact(struct mpl_import *import, const char *fact, const char *path,
                                     struct memplan_error *err)
{
    const json_t *value = mpl_import_get(import, fact);
    const struct mpl_import_place place = {.key = "deepspeed_config"};

    return value && !mpl_settle_has(import, path) ? mpl_import_set(import, &place, path, value, err)
                                                  : MEMPLAN_OK;
}

/* DeepSpeed: train_batch_size = micro batch x accumulation x ranks. */
static enum memplan_status settle_batch(struct mpl_import *import, struct memplan_error *err)
{
    const int64_t all = mpl_import_get_integer(import, "import.train_batch_size", 0);
    const int64_t world = mpl_import_get_integer(import, "parallelism.world_size", 1);
    const int64_t micro = mpl_import_get_integer(import, "training.micro_batch_size", 0);
    const int64_t steps = mpl_import_get_integer(import, "training.gradient_accumulation_steps", 0);
    const int64_t known = micro ? micro : steps ? steps : 1;
    const struct mpl_import_place place = mpl_import_place_of(import, "import.train_batch_size");
    enum memplan_status status = take_fact(import, "import.deepspeed_accumulation",
                                           "training.gradient_accumulation_steps", err);

    if (!status)
        status = take_fact(import, "import.deepspeed_clipping", "training.gradient_clipping", err);
    if (status || !all)
        return status;
    if (all < 0 || world < 1 || known < 1 || known > INT64_MAX / world ||
        all % (world * known) != 0)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                               "found %" PRId64 ", expected a multiple of %" PRId64
                               " ranks times %" PRId64,
                               all, world, known);
    if (micro && steps)
        return all == world * micro * steps
                   ? MEMPLAN_OK
                   : mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                                     "found %" PRId64 ", expected %" PRId64
                                     ": ranks times micro batch times accumulation",
                                     all, world * micro * steps);
    return set_number(import,
                      micro ? "training.gradient_accumulation_steps" : "training.micro_batch_size",
                      all / (world * known), err);
}

/* Settings of other strategies: DeepSpeed's stage 2 does not look at those of stage 3, DDP's are
 * not FSDP's. What changes the size of a step is said. */
static void drop_other_strategies(struct mpl_import *import)
{
    const struct mpl_word *word = mpl_word_find(mpl_strategy_words, mpl_settle_strategy_of(import));
    const struct mpl_import_place *place;
    const char *path;

    for (size_t i = 0; (path = mpl_import_path(import, i, &place));) {
        const struct mpl_field *field = mpl_field_find(path);

        if (!field || strcmp(path, "parallelism.strategy") == 0 || !word ||
            mpl_field_applies(field, (enum mpl_strategy)word->value)) {
            i++;
            continue;
        }
        if (strstr(path, "offload") && !mpl_import_is_off(mpl_import_get(import, path), NULL))
            mpl_import_note(import, place, "has no effect with parallelism.strategy %s",
                            mpl_settle_strategy_of(import));
        mpl_import_drop(import, path);
    }
}

enum memplan_status mpl_import_settle(struct mpl_import *import, struct memplan_error *err)
{
    enum memplan_status (*const steps[])(struct mpl_import *, struct memplan_error *) = {
        settle_framework,      settle_ranks,
        mpl_settle_torchtitan, mpl_settle_speculators,
        mpl_settle_megatron,   mpl_settle_trl,
        settle_strategy,       mpl_settle_weights,
        mpl_settle_adapters,   mpl_settle_quantization,
        settle_precision,      settle_optimizer,
        settle_batch,
    };
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !status; i++)
        status = steps[i](import, err);
    if (!status)
        drop_other_strategies(import);
    return status;
}
