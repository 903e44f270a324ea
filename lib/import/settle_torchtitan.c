/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": what torchtitan makes of its configuration.
 * source: torchtitan/distributed/{parallel_dims,activation_checkpoint}.py, train.py,
 * components/{optimizer,quantization/float8}.py, models/llama3/infra/parallelize.py, tag v0.2.2
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "import/settle.h"

#define MOST_RANKS 1048576

static enum memplan_status set_number(struct mpl_import *import, const char *path, int64_t number,
                                      struct memplan_error *err)
{
    char json[32];

    snprintf(json, sizeof(json), "%" PRId64, number);
    return mpl_import_default(import, path, json, err);
}

/* ---- ranks ---- */

static enum memplan_status fail_degree(const struct mpl_import *import, const char *fact,
                                       int64_t found, struct memplan_error *err)
{
    const struct mpl_import_place place = mpl_import_place_of(import, fact);

    return mpl_import_fail(
        &place, MEMPLAN_ERR_VALUE, err, "found %" PRId64 ", expected 1 to %d%s", found, MOST_RANKS,
        strcmp(fact, "import.titan_shard") == 0 ? ", or -1 for what is left" : "");
}

/* The number of shards; 0: what is left of a number of ranks that no file says. */
static enum memplan_status find_shards(struct mpl_import *import, int64_t replicas,
                                       int64_t *shards_out, struct memplan_error *err)
{
    const int64_t shards = mpl_import_get_integer(import, "import.titan_shard", -1);
    const int64_t world = mpl_import_get_integer(import, "parallelism.world_size", 0);
    const struct mpl_import_place place = mpl_import_place_of(
        import, mpl_settle_has(import, "import.titan_shard") ? "import.titan_shard"
                                                             : "import.titan_replicate");

    if (replicas < 1 || replicas > MOST_RANKS)
        return fail_degree(import, "import.titan_replicate", replicas, err);
    if (shards != -1 && (shards < 1 || shards > MOST_RANKS))
        return fail_degree(import, "import.titan_shard", shards, err);
    *shards_out = shards > 0 ? shards : world / replicas;
    if (world && *shards_out * replicas != world)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                               "found %" PRId64 " shards in each of %" PRId64
                               " replicas, expected as many as the %" PRId64 " ranks",
                               shards, replicas, world);
    return MEMPLAN_OK;
}

static enum memplan_status settle_ranks(struct mpl_import *import, struct memplan_error *err)
{
    const int64_t replicas = mpl_import_get_integer(import, "import.titan_replicate", 1);
    int64_t shards = 0;
    enum memplan_status status = find_shards(import, replicas, &shards, err);

    if (status)
        return status;
    if (!shards)
        MPL_SETTLE_NOTE(import,
                        "no file says on how many cards it runs, taken as %d; give --gpus N",
                        (int)replicas);
    if (shards || replicas > 1)
        status =
            set_number(import, "parallelism.world_size", (shards ? shards : 1) * replicas, err);
    if (!status && shards != 1) {
        status = mpl_import_default(import, "parallelism.strategy", "\"fsdp2\"", err);
        return status || replicas == 1 ? status
                                       : set_number(import, "parallelism.replicate", replicas, err);
    }
    if (!status && replicas > 1)
        status = mpl_import_default(import, "parallelism.strategy", "\"ddp\"", err);
    if (!status && replicas > 1) /* apply_ddp */
        status = mpl_import_default(import, "parallelism.bucket_cap_mb", "100", err);
    return status;
}

/* train.py: global batch / (batch of a rank x ranks). */
static enum memplan_status settle_batch(struct mpl_import *import, struct memplan_error *err)
{
    const int64_t all = mpl_import_get_integer(import, "import.titan_global_batch", -1);
    const int64_t world = mpl_import_get_integer(import, "parallelism.world_size", 1);
    const int64_t micro = mpl_import_get_integer(import, "training.micro_batch_size", 8);
    const struct mpl_import_place place = mpl_import_place_of(import, "import.titan_global_batch");

    if (all < 0)
        return MEMPLAN_OK;
    if (!mpl_settle_has(import, "parallelism.world_size")) {
        mpl_import_note(import, &place,
                        "depends on the number of ranks; give "
                        "training.gradient_accumulation_steps");
        return MEMPLAN_OK;
    }
    if (!all || micro < 1 || micro > INT64_MAX / world || all % (micro * world))
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                               "found %" PRId64 ", expected a multiple of %" PRId64
                               " ranks times %" PRId64,
                               all, world, micro);
    return set_number(import, "training.gradient_accumulation_steps", all / (micro * world), err);
}

/* ---- what the fields of a plan are called otherwise ---- */

static enum memplan_status settle_precision(struct mpl_import *import, struct memplan_error *err)
{
    const char *param = mpl_import_get_text(import, "parallelism.param_dtype");

    if (!param || strcmp(mpl_settle_strategy_of(import), "fsdp2") == 0)
        return MEMPLAN_OK;
    return mpl_import_default(import, "training.autocast",
                              strcmp(param, "float32") == 0 ? "null" : "\"bfloat16\"", err);
}

static enum memplan_status settle_optimizer(struct mpl_import *import, struct memplan_error *err)
{
    const char *how = mpl_import_get_text(import, "import.titan_implementation");
    const json_t *old = mpl_import_get(import, "import.titan_fused");
    const bool is_fused = how ? strcmp(how, "fused") == 0 : !json_is_false(old);
    enum memplan_status status =
        mpl_import_default(import, "training.optimizer.name", "\"adamw\"", err);

    if (!status)
        status = mpl_import_default(import, "training.optimizer.fused", is_fused ? "true" : "false",
                                    err);
    if (!status && how && !is_fused)
        status = mpl_import_default(import, "training.optimizer.foreach",
                                    strcmp(how, "foreach") == 0 ? "true" : "false", err);
    return status;
}

/* _apply_layer_sac: of layers that are counted from 1, those that the number divides; 0: all. */
static enum memplan_status settle_every(struct mpl_import *import, const char *option,
                                        struct memplan_error *err)
{
    const struct mpl_import_place place = mpl_import_place_of(import, "import.titan_option");
    const long every = strlen(option) < 5 ? strtol(option, NULL, 10) : -1;
    enum memplan_status status;

    if (!*option || strspn(option, "0123456789") != strlen(option) || every < 0 || every > 4096)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                               "found \"%.40s\", expected \"op\" or a number of 0 to 4096", option);
    status = mpl_import_default(import, "training.activation_checkpointing", "\"full\"", err);
    if (!status && every > 1)
        status = set_number(import, "training.checkpoint_every", every, err);
    return status || every <= 1 ? status
                                : set_number(import, "training.checkpoint_first", every - 1, err);
}

static enum memplan_status settle_checkpointing(struct mpl_import *import,
                                                struct memplan_error *err)
{
    const char *mode = mpl_import_get_text(import, "import.titan_checkpointing");
    const char *option = mpl_import_get_text(import, "import.titan_option");
    char json[32];

    option = option ? option : "2";
    mode = mode ? mode : "selective";
    if (strcmp(mode, "selective") == 0 && strcmp(option, "op") != 0)
        return settle_every(import, option, err);
    snprintf(json, sizeof(json), "\"%s\"", mode);
    return mpl_import_default(import, "training.activation_checkpointing", json, err);
}

/* ---- float8 ---- */

static void drop_float8(struct mpl_import *import)
{
    const char *path;

    for (size_t i = 0; (path = mpl_import_path(import, i, NULL));)
        if (strncmp(path, "training.float8.", 16) == 0)
            mpl_import_drop(import, path);
        else
            i++;
}

/* Names of torchtitan's modules as transformers calls them. */
static json_t *as_transformers(const json_t *names)
{
    static const char *const pairs[][2] = {
        {"output", "lm_head"},
        {"attention.wq", "q_proj"},
        {"attention.wk", "k_proj"},
        {"attention.wv", "v_proj"},
        {"attention.wo", "o_proj"},
        {"wq", "q_proj"},
        {"wk", "k_proj"},
        {"wv", "v_proj"},
        {"wo", "o_proj"},
        {"feed_forward.w1", "gate_proj"},
        {"feed_forward.w2", "down_proj"},
        {"feed_forward.w3", "up_proj"},
        {"w1", "gate_proj"},
        {"w2", "down_proj"},
        {"w3", "up_proj"},
        {"attention", "self_attn"},
        {"feed_forward", "mlp"},
    };
    json_t *list = json_array();
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
    {
        const char *text = json_string_value(name);

        for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++)
            if (strcmp(text, pairs[p][0]) == 0) {
                text = pairs[p][1];
                break;
            }
        json_array_append_new(list, json_string(text));
    }
    return list;
}

static enum memplan_status rename_filters(struct mpl_import *import, struct memplan_error *err)
{
    static const char path[] = "training.float8.filter_fqns";
    const struct mpl_import_place place = mpl_import_place_of(import, path);
    json_t *names;
    enum memplan_status status;

    if (!json_is_array(mpl_import_get(import, path)))
        return MEMPLAN_OK;
    names = as_transformers(mpl_import_get(import, path));
    mpl_import_drop(import, path);
    status = mpl_import_set(import, &place, path, names, err);
    json_decref(names);
    return status;
}

/* Without its converter a section of float8 has no effect. */
static enum memplan_status settle_float8(struct mpl_import *import, struct memplan_error *err)
{
    const struct mpl_import_place place = mpl_import_place_of(import, "import.titan_converters");
    const json_t *converters = mpl_import_get(import, "import.titan_converters"), *name;
    bool is_on = false;
    enum memplan_status status;
    size_t i;

    json_array_foreach(converters, i, name)
    {
        const char *text = json_string_value(name);

        is_on = true;
        if (strcmp(text, "float8") != 0 && strcmp(text, "quantize.linear.float8") != 0)
            return mpl_import_fail(&place, MEMPLAN_ERR_UNSUPPORTED, err,
                                   "found \"%.60s\", which is not modelled; expected float8", text);
    }
    if (!is_on) {
        drop_float8(import);
        return MEMPLAN_OK;
    }
    status = mpl_import_default(import, "training.float8.recipe_name", "\"tensorwise\"", err);
    return status ? status : rename_filters(import, err);
}

static enum memplan_status settle_saves(struct mpl_import *import, struct memplan_error *err)
{
    const char *how = mpl_import_get_text(import, "import.titan_save");
    char json[32];

    if (!mpl_import_is_true(import, "import.titan_saves"))
        return MEMPLAN_OK;
    snprintf(json, sizeof(json), "\"%s\"", how ? how : "sharded");
    return mpl_import_default(import, "checkpoint.save", json, err);
}

enum memplan_status mpl_settle_torchtitan(struct mpl_import *import, struct memplan_error *err)
{
    enum memplan_status (*const steps[])(struct mpl_import *, struct memplan_error *) = {
        mpl_settle_torchtitan_model,
        settle_ranks,
        settle_batch,
        settle_precision,
        settle_optimizer,
        settle_checkpointing,
        settle_float8,
        settle_saves,
    };
    enum memplan_status status = MEMPLAN_OK;

    if (!mpl_settle_has(import, "import.read_torchtitan"))
        return MEMPLAN_OK;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !status; i++)
        status = steps[i](import, err);
    return status;
}
