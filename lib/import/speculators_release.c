/* SPDX-License-Identifier: MIT */
/*
 * TABLE: which releases of speculators have a flag of its training command, and so which one it is.
 * source: scripts/train.py, releases 0.3.0 to 0.6.0; speculators/train/config/schema.py, releases
 * 0.7.0 to 0.9.0
 */
#include "import/speculators.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"

static const struct {
    const char *version;
    int since;
} releases[] = {
    {"0.3.0", SINCE_03}, {"661d3ed3", SINCE_03}, {"0.4.0", SINCE_04},   {"0.4.0.1", SINCE_04},
    {"0.5.0", SINCE_05}, {"0.6.0", SINCE_06},    {"0.6.0.1", SINCE_06}, {"0.6.0.2", SINCE_06},
    {"0.7.0", SINCE_07}, {"0.7.0.1", SINCE_07},  {"0.7.0.2", SINCE_07}, {"0.8.0", SINCE_08},
    {"0.8.1", SINCE_08}, {"0.9.0", SINCE_09},
};

/* The last release of each. */
static const char *const newest[SINCE_COUNT] = {"0.3.0",   "0.4.0.1", "0.5.0", "0.6.0.2",
                                                "0.7.0.2", "0.8.1",   "0.9.0"};

/* Flags that not every release has. */
static const struct {
    const char *flag;
    int from, to;
} flags[] = {
    {"data_format_version", SINCE_03, SINCE_03},
    {"speculator_type", SINCE_04, SINCE_09},
    {"draft_arch", SINCE_04, SINCE_09},
    {"deterministic_cuda", SINCE_04, SINCE_09},
    {"use_off_policy_tokens", SINCE_04, SINCE_06},
    {"noise_std", SINCE_04, SINCE_08},
    {"from_pretrained", SINCE_05, SINCE_09},
    {"hidden_states_path", SINCE_05, SINCE_09},
    {"hidden_states_dtype", SINCE_05, SINCE_09},
    {"vllm_endpoint", SINCE_05, SINCE_09},
    {"on_missing", SINCE_05, SINCE_09},
    {"on_generate", SINCE_05, SINCE_09},
    {"draft_vocab_size", SINCE_05, SINCE_09},
    {"target_layer_ids", SINCE_05, SINCE_09},
    {"token_freq_path", SINCE_05, SINCE_09},
    {"mask_token_id", SINCE_05, SINCE_09},
    {"block_size", SINCE_05, SINCE_09},
    {"max_anchors", SINCE_05, SINCE_09},
    {"checkpoint_freq", SINCE_05, SINCE_09},
    {"save_best", SINCE_05, SINCE_09},
    {"norm_before_fc", SINCE_05, SINCE_09},
    {"legacy_data", SINCE_05, SINCE_07},
    {"num_speculative_steps", SINCE_06, SINCE_09},
    {"loss_fn", SINCE_06, SINCE_09},
    {"step_weight_beta", SINCE_06, SINCE_09},
    {"trust_remote_code", SINCE_06, SINCE_09},
    {"sliding_window", SINCE_06, SINCE_09},
    {"sliding_window_indices", SINCE_06, SINCE_06},
    {"full_attention_indices", SINCE_07, SINCE_09},
    {"draft_config", SINCE_07, SINCE_09},
    {"draft_attn_impl", SINCE_07, SINCE_09},
    {"fsdp_shard", SINCE_07, SINCE_09},
    {"optimizer", SINCE_07, SINCE_09},
    {"weight_decay", SINCE_07, SINCE_09},
    {"muon_lr", SINCE_07, SINCE_09},
    {"max_steps", SINCE_07, SINCE_09},
    {"norm_output", SINCE_07, SINCE_09},
    {"no_norm_output", SINCE_07, SINCE_09},
    {"no_norm_before_fc", SINCE_07, SINCE_09},
    {"fc_norm", SINCE_07, SINCE_09},
    {"train_data_ratio", SINCE_07, SINCE_09},
    {"scheduler_warmup_ratio", SINCE_07, SINCE_09},
    {"per_position_loss_weight", SINCE_07, SINCE_09},
    {"dry_run", SINCE_07, SINCE_09},
    {"loss_implementation", SINCE_08, SINCE_09},
    {"generation_validation_retries", SINCE_08, SINCE_09},
    {"gradient_checkpointing", SINCE_09, SINCE_09},
};

static struct mpl_import_place flag_place(const struct mpl_import_doc *doc, const char *flag)
{
    struct mpl_import_place place = {.file = doc->file, .line = mpl_import_line(doc, flag)};

    snprintf(place.key, sizeof(place.key), "--%s", flag);
    return place;
}

/* Which releases have all of the flags. */
static enum memplan_status find_range(const struct mpl_import_doc *doc, int *from, int *to,
                                      struct memplan_error *err)
{
    *from = SINCE_03;
    *to = SINCE_09;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const struct mpl_import_place place = flag_place(doc, flags[i].flag);

        if (!json_object_get(doc->root, flags[i].flag))
            continue;
        *from = *from < flags[i].from ? flags[i].from : *from;
        *to = *to > flags[i].to ? flags[i].to : *to;
        if (*from > *to)
            return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                                   "no release of speculators has this flag and the others");
    }
    return MEMPLAN_OK;
}

/* The release that the caller names, among those. */
static enum memplan_status take_release(const char *version, int from, int to,
                                        const struct mpl_import_place *place, int *since,
                                        struct memplan_error *err)
{
    for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++) {
        if (strcmp(releases[i].version, version) != 0)
            continue;
        *since = releases[i].since;
        return *since >= from && *since <= to
                   ? MEMPLAN_OK
                   : mpl_import_fail(
                         place, MEMPLAN_ERR_VALUE, err,
                         "the flags are those of speculators %s to %s, found release %s",
                         newest[from], newest[to], version);
    }
    return mpl_import_fail(place, MEMPLAN_ERR_UNSUPPORTED, err,
                           "speculators %.40s is not modelled, expected a release from 0.3.0 to "
                           "0.9.0",
                           version);
}

enum memplan_status mpl_import_speculators_release(struct mpl_import *import,
                                                   const struct mpl_import_doc *doc,
                                                   const struct mpl_import_place *place,
                                                   struct memplan_error *err)
{
    const char *version = mpl_import_given(import)->options.release;
    int from, to, since = SINCE_09;
    enum memplan_status status = find_range(doc, &from, &to, err);
    char json[48];

    if (status)
        return status;
    if (version && (status = take_release(version, from, to, place, &since, err)))
        return status;
    if (!version) {
        since = to;
        version = newest[to];
        if (from < to) {
            mpl_import_note(import, place,
                            "the flags are those of speculators %s to %s, whose defaults differ, "
                            "taken as %s; give the release",
                            newest[from], newest[to], version);
            status = mpl_import_set_text(import, place, "import.release_assumed", "true", err);
        }
    }
    snprintf(json, sizeof(json), "\"%.40s\"", version);
    if (!status)
        status = mpl_import_set_text(import, place, "framework.version", json, err);
    snprintf(json, sizeof(json), "%d", since);
    return status ? status : mpl_import_set_text(import, place, "import.speculators", json, err);
}
