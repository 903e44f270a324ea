/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": the model, the batch and the ranks that Megatron-LM's arguments stand for. The
 * plan names the family whose layers have the same weights; framework.name refuses it.
 * source: megatron/training/arguments.py (validate_args), megatron/training/tokenizer/tokenizer.py
 * (_vocab_size_with_padding), 0.20.0, commit d98e8a64
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "import/settle.h"

#define FACT(name) "import.megatron." name

static int64_t number(const struct mpl_import *import, const char *fact, int64_t absent)
{
    return mpl_import_get_integer(import, fact, absent);
}

static bool is_on(const struct mpl_import *import, const char *fact)
{
    return mpl_import_is_true(import, fact);
}

static bool is_word(const struct mpl_import *import, const char *fact, const char *word,
                    const char *absent)
{
    const char *text = mpl_import_get_text(import, fact);

    return strcmp(text ? text : absent, word) == 0;
}

/* A count that sizes are divided by, within what a cluster has. */
static enum memplan_status read_count(const struct mpl_import *import, const char *fact,
                                      int64_t *out, struct memplan_error *err)
{
    const struct mpl_import_place place = mpl_import_place_of(import, fact);

    *out = number(import, fact, 1);
    return *out >= 1 && *out <= 1048576
               ? MEMPLAN_OK
               : mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                                 "found %" PRId64 ", expected 1 to 1048576", *out);
}

/* ---- the model ---- */

static const char *family_of(const struct mpl_import *import)
{
    const bool is_rotary = is_word(import, FACT("positions"), "rope", "learned_absolute") ||
                           is_on(import, FACT("use_rotary_position_embeddings"));
    const bool is_rms = is_word(import, FACT("normalization"), "RMSNorm", "LayerNorm");
    const bool has_bias = !is_on(import, FACT("disable_bias_linear"));

    if (is_on(import, FACT("multi_latent_attention")) || is_on(import, FACT("squared_relu")) ||
        is_on(import, FACT("quick_geglu")) || is_on(import, FACT("enable_gpt_oss")))
        return NULL;
    if (is_on(import, FACT("swiglu")) && is_rms && is_rotary && !has_bias) {
        const bool is_normed = is_on(import, FACT("qk_layernorm"));

        if (number(import, FACT("num_experts"), 0) > 0)
            return is_normed ? "qwen3_moe" : "mixtral";
        return is_normed ? "qwen3" : is_on(import, FACT("add_qkv_bias")) ? "qwen2" : "llama";
    }
    return !is_on(import, FACT("swiglu")) && !is_rms && !is_rotary && has_bias &&
                   !number(import, FACT("num_experts"), 0)
               ? "gpt2"
               : NULL;
}

static void put(json_t *model, const char *key, int64_t value)
{
    if (value > 0)
        json_object_set_new(model, key, json_integer(value));
}

/* Rows of the embedding, which Megatron fills up for all ranks of tensor parallelism. */
static int64_t vocabulary(const struct mpl_import *import, int64_t tensor)
{
    const json_t *named = json_object_get(mpl_import_get(import, "model"), "vocab_size");
    const int64_t padded = number(import, FACT("padded_vocab_size"), 0);
    const int64_t unit = number(import, FACT("make_vocab_size_divisible_by"), 128);
    int64_t rows = number(import, FACT("vocab_size"), json_integer_value(named));

    if (padded > 0 || rows < 1)
        return padded > 0 ? padded : 0;
    if (is_word(import, FACT("tokenizer_type"), "NullTokenizer", ""))
        rows++; /* its end of documents */
    if (unit < 1 || unit > 1048576 || rows > (int64_t)1 << 40)
        return rows;
    return (rows + unit * tensor - 1) / (unit * tensor) * (unit * tensor);
}

static int64_t mlp_width(const struct mpl_import *import, int64_t hidden)
{
    const int64_t given = number(import, FACT("ffn_hidden_size"), 0);

    if (given > 0 || hidden < 1 || hidden > (int64_t)1 << 40)
        return given;
    return is_on(import, FACT("swiglu")) ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden;
}

static json_t *make_model(const struct mpl_import *import, const char *family, int64_t tensor)
{
    const int64_t hidden = number(import, FACT("hidden_size"), 0);
    const int64_t heads = number(import, FACT("num_attention_heads"), 0);
    const int64_t experts = number(import, FACT("num_experts"), 0);
    json_t *model = json_object();

    json_object_set_new(model, "model_type", json_string(family));
    put(model, "hidden_size", hidden);
    put(model, "intermediate_size", mlp_width(import, hidden));
    put(model, "num_hidden_layers", number(import, FACT("num_layers"), 0));
    put(model, "num_attention_heads", heads);
    if (strcmp(family, "gpt2") != 0) { /* whose heads are as many, and as wide as they can be */
        put(model, "num_key_value_heads",
            is_on(import, FACT("group_query_attention"))
                ? number(import, FACT("num_query_groups"), 1)
                : heads);
        put(model, "head_dim", number(import, FACT("kv_channels"), heads > 0 ? hidden / heads : 0));
    }
    put(model, "vocab_size", vocabulary(import, tensor));
    put(model, "max_position_embeddings", number(import, FACT("max_position_embeddings"), 0));
    json_object_set_new(model, "tie_word_embeddings",
                        json_boolean(!is_on(import, FACT("untie_embeddings_and_output_weights"))));
    if (experts > 0) {
        const bool is_mixtral = strcmp(family, "mixtral") == 0;

        put(model, is_mixtral ? "num_local_experts" : "num_experts", experts);
        put(model, "num_experts_per_tok", number(import, FACT("moe_router_topk"), 2));
        put(model, is_mixtral ? "intermediate_size" : "moe_intermediate_size",
            number(import, FACT("moe_ffn_hidden_size"), mlp_width(import, hidden)));
    }
    return model;
}

static enum memplan_status put_model(struct mpl_import *import, int64_t tensor,
                                     struct memplan_error *err)
{
    const struct mpl_import_place place = mpl_import_place_of(import, "import.read_megatron");
    const char *family = family_of(import);
    enum memplan_status status;
    json_t *model;

    if (!family)
        return mpl_import_fail(
            &place, MEMPLAN_ERR_UNSUPPORTED, err,
            "Megatron-LM's loop is not modelled, nor a family with these layers; "
            "expected those of llama, qwen2, qwen3, mixtral or gpt2");
    model = make_model(import, family, tensor);
    if (!json_object_get(model, "vocab_size"))
        mpl_import_note(import, &place,
                        "the vocabulary is as large as the tokenizer's; give model.vocab_size");
    mpl_import_drop(import, "model");
    status = mpl_import_set(import, &place, "model", model, err);
    json_decref(model);
    return status;
}

/* ---- ranks and batch ---- */

/* Ranks that see the same samples. */
static enum memplan_status put_parallelism(struct mpl_import *import, int64_t *same,
                                           struct memplan_error *err)
{
    static const struct {
        const char *fact, *path;
        bool divides;
    } rows[] = {
        {FACT("tensor_model_parallel_size"), "parallelism.tensor_parallel_size", true},
        {FACT("pipeline_model_parallel_size"), "parallelism.pipeline_parallel_size", true},
        {FACT("context_parallel_size"), "parallelism.context_parallel_size", true},
        {FACT("expert_model_parallel_size"), "parallelism.expert_parallel_size", false},
    };
    enum memplan_status status = MEMPLAN_OK;

    *same = 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !status; i++) {
        const struct mpl_import_place place = mpl_import_place_of(import, rows[i].fact);
        char json[24];
        int64_t count;

        status = read_count(import, rows[i].fact, &count, err);
        snprintf(json, sizeof(json), "%" PRId64, count);
        if (!status && count > 1)
            status = mpl_import_set_refused(import, &place, rows[i].path, json, err);
        if (!status && rows[i].divides && *same <= 1048576)
            *same *= count;
    }
    return status;
}

/* global batch = micro batch x accumulation x data-parallel ranks */
static enum memplan_status put_batch(struct mpl_import *import, int64_t same,
                                     struct memplan_error *err)
{
    const int64_t world = number(import, "parallelism.world_size", 1);
    const int64_t micro = number(import, "training.micro_batch_size", 1);
    const int64_t all = number(import, FACT("global_batch_size"), 0);
    const struct mpl_import_place place = mpl_import_place_of(import, FACT("global_batch_size"));
    const struct mpl_import_place read = mpl_import_place_of(import, "import.read_megatron");
    char json[24];

    if (world % same != 0) {
        mpl_import_note(import, &read,
                        "%" PRId64 " ranks are no multiple of the %" PRId64
                        " of one copy of the model; give --gpus N",
                        world, same);
        return MEMPLAN_OK;
    }
    if (!all)
        return MEMPLAN_OK;
    if (all < 1 || micro < 1 || micro > (int64_t)1 << 30 || all % (micro * (world / same)) != 0)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                               "found %" PRId64 ", expected a multiple of %" PRId64
                               " data-parallel ranks times %" PRId64,
                               all, world / same, micro);
    snprintf(json, sizeof(json), "%" PRId64, all / (micro * (world / same)));
    return mpl_import_default(import, "training.gradient_accumulation_steps", json, err);
}

enum memplan_status mpl_settle_megatron(struct mpl_import *import, struct memplan_error *err)
{
    const struct mpl_import_place place = mpl_import_place_of(import, "import.read_megatron");
    int64_t tensor, same;
    enum memplan_status status;

    if (!mpl_settle_has(import, "import.read_megatron"))
        return MEMPLAN_OK;
    status = mpl_import_set_refused(import, &place, "framework.name", "\"megatron-lm\"", err);
    if (!status)
        status = read_count(import, FACT("tensor_model_parallel_size"), &tensor, err);
    if (!status)
        status = put_model(import, tensor, err);
    if (!status)
        status = put_parallelism(import, &same, err);
    if (!status)
        status = put_batch(import, same, err);
    if (!status)
        status = mpl_import_default(import, "training.optimizer.name", "\"adamw\"", err);
    if (!status)
        status = mpl_import_default(import, "training.gradient_clipping", "1.0", err);
    if (!status)
        mpl_import_note(import, &place,
                        "not modelled: Megatron-LM's layers, its gradient buffer and its "
                        "optimizer; no figure can be given of it");
    return status;
}
