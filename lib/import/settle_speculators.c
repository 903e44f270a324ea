/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": what speculators' training command trains: the drafter's layer made of the
 * verifier's configuration, and its defaults by release.
 * source: scripts/train.py, releases 0.3.0 to 0.7.0 (create_transformer_layer_config);
 * speculators/train/config/schema.py, 0.7.0 to 0.9.0 (_resolve_derived_defaults);
 * speculators/train/trainer.py, 0.3.0 to 0.9.0 (setup_model)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "import/settle.h"
#include "import/speculators.h"

/* ---- what is not modelled ---- */

static bool is_kind(const struct mpl_import *import, const char *kind)
{
    const char *text = mpl_import_get_text(import, "import.drafter");

    return strcmp(text ? text : "eagle3", kind) == 0;
}

static bool is_on(const struct mpl_import *import, const char *fact, bool absent)
{
    return mpl_settle_has(import, fact) ? mpl_import_is_true(import, fact) : absent;
}

static enum memplan_status refuse(const struct mpl_import *import, const char *fact,
                                  const char *flag, const char *text, struct memplan_error *err)
{
    struct mpl_import_place place = mpl_import_place_of(import, fact);
    const char *version = mpl_import_get_text(import, "framework.version");

    if (*place.key)
        return mpl_import_fail(&place, MEMPLAN_ERR_UNSUPPORTED, err, "%s", text);
    /* a default of the release */
    place = mpl_import_place_of(import, "framework.version");
    snprintf(place.key, sizeof(place.key), "%s", flag);
    return mpl_import_fail(
        &place, MEMPLAN_ERR_UNSUPPORTED, err, "%s (of release %s%s)", text, version,
        mpl_settle_has(import, "import.release_assumed") ? ", which is assumed: give it" : "");
}

/* What no field describes, and is too large for a note. */
static enum memplan_status check_drafter(const struct mpl_import *import, int since,
                                         struct memplan_error *err)
{
    const bool is_eagle = is_kind(import, "eagle3");
    const bool has_norms = is_eagle && since >= SINCE_07;
    const size_t targets = json_array_size(mpl_import_get(import, "import.drafter_targets"));

    if (mpl_settle_has(import, "import.drafter_config"))
        return refuse(import, "import.drafter_config", "", "a drafter from a file is not read",
                      err);
    if (is_on(import, "import.drafter_embedding", false))
        return refuse(import, "import.drafter_embedding", "",
                      "a drafter that trains its embedding is not modelled", err);
    if (is_on(import, "import.norm_before_fc", has_norms))
        return refuse(import, "import.norm_before_fc", "--norm-before-fc",
                      "the norm before the projection, a default of eagle3 from 0.7.0 on, is not "
                      "modelled; --no-norm-before-fc is",
                      err);
    if (is_on(import, "import.norm_output", has_norms))
        return refuse(import, "import.norm_output", "--norm-output",
                      "normed states between steps, a default of eagle3 from 0.7.0 on, are not "
                      "modelled; --no-norm-output is",
                      err);
    if (is_on(import, "import.fc_norm", false))
        return refuse(import, "import.fc_norm", "", "norms before the projection are not modelled",
                      err);
    if (is_eagle && targets && targets != 3)
        return refuse(import, "import.drafter_targets", "",
                      "eagle3 is modelled with three layers of the verifier", err);
    return MEMPLAN_OK;
}

/* ---- the model ---- */

static void put(json_t *model, const char *key, int64_t value)
{
    json_object_set_new(model, key, json_integer(value));
}

static void copy(json_t *model, const json_t *verifier, const char *key)
{
    json_t *value = json_object_get(verifier, key);

    if (value && !json_is_null(value))
        json_object_set(model, key, value);
}

static int64_t size_of(const json_t *verifier, const char *key)
{
    return json_integer_value(json_object_get(verifier, key));
}

/* Heads that do not divide the width are counted anew, from 0.6.0 on. */
static void put_heads(json_t *model, const json_t *verifier, int since)
{
    const int64_t hidden = size_of(verifier, "hidden_size"), dim = size_of(verifier, "head_dim");
    int64_t heads = size_of(verifier, "num_attention_heads");
    int64_t pairs = size_of(verifier, "num_key_value_heads");

    if (since >= SINCE_06 && dim > 0 && heads > 0 && hidden % heads != 0 && hidden % dim == 0) {
        heads = hidden / dim;
        if (pairs > 0 && heads % pairs != 0)
            pairs = heads;
    }
    put(model, "num_attention_heads", heads);
    if (pairs)
        put(model, "num_key_value_heads", pairs);
    copy(model, verifier, "head_dim");
}

/* Sizes of the verifier's layer, which the drafter's has. */
static void put_sizes(struct mpl_import *import, json_t *model, const json_t *verifier, int since)
{
    const char *act = mpl_import_get_text(import, "import.drafter_act");
    const int64_t hidden = size_of(verifier, "hidden_size");

    copy(model, verifier, "hidden_size");
    copy(model, verifier, "intermediate_size");
    copy(model, verifier, "vocab_size");
    copy(model, verifier, "max_position_embeddings");
    copy(model, verifier, "rope_scaling");
    copy(model, verifier, "rope_parameters");
    put_heads(model, verifier, since);
    if (act || since >= SINCE_06)
        json_object_set_new(model, "hidden_act", json_string(act ? act : "silu"));
    else
        copy(model, verifier, "hidden_act");
    if (!json_object_get(model, "intermediate_size") && since >= SINCE_07) {
        put(model, "intermediate_size", hidden < (int64_t)1 << 40 ? 3 * hidden : hidden);
        MPL_SETTLE_NOTE(import, "the verifier has no dense intermediate_size: the drafter's is 3 "
                                "times hidden_size");
    }
}

/* Rows of the drafter's head. */
static void put_draft_vocab(struct mpl_import *import, json_t *model)
{
    const int64_t given = mpl_import_get_integer(import, "import.draft_vocab", 0);
    json_t *whole = json_object_get(model, "vocab_size");

    if (given > 0) {
        put(model, "draft_vocab_size", given);
        return;
    }
    if (mpl_settle_has(import, "import.draft_map")) {
        MPL_SETTLE_NOTE(import, "the drafter's vocabulary is as long as the file of --d2t-path "
                                "says; give model.draft_vocab_size");
        return;
    }
    if (whole)
        json_object_set(model, "draft_vocab_size", whole);
    MPL_SETTLE_NOTE(import,
                    "no --draft-vocab-size: taken as the verifier's whole vocabulary, as it "
                    "is where the data's folder has no d2t.npy");
}

/* Layers slide from 0.7.0 on, unless they are named; in 0.6 where they are. */
static void put_windows(struct mpl_import *import, json_t *model, int since, int64_t layers)
{
    const size_t full = json_array_size(mpl_import_get(import, "import.drafter_full"));
    const bool slides = since >= SINCE_07 ? (int64_t)full < layers
                                          : mpl_settle_has(import, "import.drafter_slides");

    if (slides)
        put(model, "sliding_window", mpl_import_get_integer(import, "import.drafter_window", 2048));
}

static void put_dflash(struct mpl_import *import, json_t *model, int since)
{
    const size_t targets = json_array_size(mpl_import_get(import, "import.drafter_targets"));

    put(model, "block_size",
        mpl_import_get_integer(import, "import.drafter_block", since >= SINCE_08 ? 16 : 8));
    put(model, "num_target_layers", targets ? (int64_t)targets : 3);
}

static enum memplan_status put_model(struct mpl_import *import, int since,
                                     struct memplan_error *err)
{
    const json_t *verifier = mpl_import_get(import, "model");
    const struct mpl_import_place place = mpl_import_place_of(import, "import.read_speculators");
    const bool is_dflash = is_kind(import, "dflash"), is_mtp = is_kind(import, "mtp");
    const char *act = json_string_value(json_object_get(verifier, "model_type"));
    const int64_t layers = mpl_import_get_integer(import, "import.drafter_layers",
                                                  is_dflash && since >= SINCE_08 ? 5 : 1);
    const char *arch = mpl_import_get_text(import, "import.drafter_arch");
    enum memplan_status status;
    json_t *model;

    if (!verifier)
        return MEMPLAN_OK; /* its name is known: the caller may find it */
    if (is_mtp && act && strcmp(act, "qwen3") != 0)
        return mpl_import_fail(
            &place, MEMPLAN_ERR_UNSUPPORTED, err,
            "an mtp drafter with layers of %.60s is not modelled; expected qwen3", act);
    if (is_kind(import, "eagle3") && arch && strcmp(arch, "llama") != 0)
        return refuse(import, "import.drafter_arch", "",
                      "an eagle3 drafter is modelled with layers of llama", err);
    model = json_object();
    json_object_set_new(model, "model_type",
                        json_string(is_dflash ? "dflash"
                                    : is_mtp  ? "mtp"
                                              : "eagle3"));
    put_sizes(import, model, verifier, since);
    put(model, "num_hidden_layers", layers);
    if (is_dflash)
        put_dflash(import, model, since);
    if (is_mtp)
        json_object_set_new(model, "layer_model_type", json_string("qwen3"));
    else {
        put_draft_vocab(import, model);
        put_windows(import, model, since, layers);
    }
    if (mpl_settle_has(import, "import.norm_before_residual") && !is_mtp && !is_dflash)
        json_object_set(model, "norm_before_residual",
                        (json_t *)mpl_import_get(import, "import.norm_before_residual"));
    mpl_import_drop(import, "model");
    status = mpl_import_set(import, &place, "model", model, err);
    json_decref(model);
    return status;
}

/* ---- the step ---- */

static enum memplan_status set_integer(struct mpl_import *import, const char *path, int64_t value,
                                       struct memplan_error *err)
{
    char json[24];

    snprintf(json, sizeof(json), "%" PRId64, value);
    return mpl_import_default(import, path, json, err);
}

static enum memplan_status put_steps(struct mpl_import *import, int since,
                                     struct memplan_error *err)
{
    if (is_kind(import, "eagle3"))
        return set_integer(import, "training.ttt_steps",
                           mpl_import_get_integer(import, "import.drafter_steps", 3), err);
    if (is_kind(import, "mtp")) {
        mpl_import_drop(import, "training.loss.name"); /* its loss is its own */
        return set_integer(import, "training.num_speculative_steps",
                           mpl_import_get_integer(import, "import.drafter_tokens", 3), err);
    }
    return set_integer(import, "training.max_anchors",
                       mpl_import_get_integer(import, "import.drafter_anchors",
                                              since >= SINCE_08   ? 512
                                              : since == SINCE_07 ? 3072
                                                                  : 256),
                       err);
}

/* 0.5 and 0.6 cast the whole drafter to the format of the hidden states. */
static enum memplan_status put_formats(struct mpl_import *import, struct memplan_error *err)
{
    static const char *const paths[] = {"training.parameter_dtype", "training.batch_dtype",
                                        "parallelism.root_dtype"};
    const char *given = mpl_import_get_text(import, "training.batch_dtype");
    enum memplan_status status = MEMPLAN_OK;
    char json[32];

    snprintf(json, sizeof(json), "\"%.20s\"", given ? given : "bfloat16");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && !status; i++)
        status = mpl_import_default(import, paths[i], json, err);
    return status;
}

static enum memplan_status put_strategy(struct mpl_import *import, int since,
                                        struct memplan_error *err)
{
    const int64_t world = mpl_import_get_integer(import, "parallelism.world_size", 1);
    const bool shards = since < SINCE_07 || mpl_import_is_true(import, "import.fsdp_shard");

    if (world < 2)
        return MEMPLAN_OK;
    return mpl_import_default(import, "parallelism.strategy", shards ? "\"fsdp2\"" : "\"ddp\"",
                              err);
}

enum memplan_status mpl_settle_speculators(struct mpl_import *import, struct memplan_error *err)
{
    const int since = (int)mpl_import_get_integer(import, "import.speculators", SINCE_09);
    enum memplan_status status;

    if (!mpl_settle_has(import, "import.read_speculators"))
        return MEMPLAN_OK;
    if ((status = check_drafter(import, since, err)) || (status = put_model(import, since, err)))
        return status;
    status = set_integer(import, "training.sequence_length", 8192, err);
    if (!status)
        status = put_steps(import, since, err);
    if (!status && since >= SINCE_07)
        status = mpl_import_default(import, "training.optimizer.name", "\"muon\"", err);
    if (!status && since == SINCE_07 && is_kind(import, "dflash"))
        status = mpl_import_default(import, "training.loss.name", "\"kl_div\"", err);
    if (!status && (since == SINCE_05 || since == SINCE_06))
        status = put_formats(import, err);
    return status ? status : put_strategy(import, since, err);
}
