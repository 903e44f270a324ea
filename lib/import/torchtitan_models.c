/* SPDX-License-Identifier: MIT */
/*
 * TABLE: torchtitan's models, as the fields that their config.json would have.
 * source: torchtitan/models/{llama3,qwen3}/__init__.py, model/args.py, model/model.py
 * (FeedForward), tags v0.2.0 to v0.2.2
 */
#include <stdio.h>
#include <string.h>

#include "import/import.h"
#include "import/settle.h"

static const struct flavor {
    const char *model, *name, *model_type;
    /* dim, hidden_dim as it comes out, n_layers, n_heads, n_kv_heads, head_dim; elements */
    int hidden, intermediate, layers, heads, kv_heads, head_dim, vocab;
    bool is_tied;
    const char *attention; /* a value of the plan; NULL: as by default */
} flavors[] = {
    {"llama3", "debugmodel", "llama", 256, 768, 6, 16, 16, 16, 2048, false, NULL},
    {"llama3", "debugmodel_flex_attn", "llama", 256, 768, 6, 16, 16, 16, 2048, false, "flex"},
    {"llama3", "8B", "llama", 4096, 14336, 32, 32, 8, 128, 128256, false, NULL},
    {"llama3", "8B_flex", "llama", 4096, 14336, 32, 32, 8, 128, 128256, false, "flex"},
    {"llama3", "70B", "llama", 8192, 28672, 80, 64, 8, 128, 128256, false, NULL},
    {"llama3", "405B", "llama", 16384, 53248, 126, 128, 8, 128, 128256, false, NULL},
    {"qwen3", "debugmodel", "qwen3", 256, 3072, 8, 16, 8, 128, 2048, true, NULL},
    {"qwen3", "0.6B", "qwen3", 1024, 3072, 28, 16, 8, 128, 151936, true, NULL},
    {"qwen3", "1.7B", "qwen3", 2048, 6144, 28, 16, 8, 128, 151936, true, NULL},
    {"qwen3", "4B", "qwen3", 2560, 9728, 36, 32, 8, 128, 151936, true, NULL},
    {"qwen3", "8B", "qwen3", 4096, 12288, 36, 32, 8, 128, 151936, false, NULL},
    {"qwen3", "14B", "qwen3", 5120, 17408, 40, 40, 8, 128, 151936, false, NULL},
    {"qwen3", "32B", "qwen3", 5120, 25600, 64, 64, 8, 128, 151936, false, NULL},
};

static const struct flavor *find_flavor(const char *model, const char *name)
{
    for (size_t i = 0; i < sizeof(flavors) / sizeof(flavors[0]); i++)
        if (strcmp(flavors[i].model, model) == 0 && strcmp(flavors[i].name, name) == 0)
            return &flavors[i];
    return NULL;
}

static enum memplan_status set_model(struct mpl_import *import, const struct flavor *flavor,
                                     const struct mpl_import_place *place,
                                     struct memplan_error *err)
{
    char json[512];

    snprintf(json, sizeof(json),
             "{\"model_type\": \"%s\", \"hidden_size\": %d, \"intermediate_size\": %d, "
             "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
             "\"head_dim\": %d, \"vocab_size\": %d, \"max_position_embeddings\": 131072, "
             "\"hidden_act\": \"silu\", \"tie_word_embeddings\": %s}",
             flavor->model_type, flavor->hidden, flavor->intermediate, flavor->layers,
             flavor->heads, flavor->kv_heads, flavor->head_dim, flavor->vocab,
             flavor->is_tied ? "true" : "false");
    return mpl_import_set_text(import, place, "model", json, err);
}

enum memplan_status mpl_settle_torchtitan_model(struct mpl_import *import,
                                                struct memplan_error *err)
{
    const char *model = mpl_import_get_text(import, "import.titan_model");
    const char *name = mpl_import_get_text(import, "import.titan_flavor");
    const struct mpl_import_place place =
        mpl_import_place_of(import, name ? "import.titan_flavor" : "import.titan_model");
    const struct flavor *flavor =
        find_flavor(model ? model : "llama3", name ? name : "debugmodel"); /* the defaults */
    enum memplan_status status;

    if (mpl_settle_has(import, "model")) /* a config.json was given, too */
        return MEMPLAN_OK;
    if (!flavor)
        return mpl_import_fail(
            &place, MEMPLAN_ERR_UNSUPPORTED, err,
            "found the flavor %.60s of %.60s, which is not modelled; expected llama3's debugmodel, "
            "8B, 70B or 405B, qwen3's debugmodel, 0.6B, 1.7B, 4B, 8B, 14B or 32B, or a config.json "
            "beside it",
            name ? name : "debugmodel", model ? model : "llama3");
    status = set_model(import, flavor, &place, err);
    if (status || !flavor->attention)
        return status;
    mpl_import_note(import, &place, "not modelled: a mask of documents, taken as a causal one");
    return mpl_import_default(import, "training.attention", "\"flex_attention\"", err);
}
