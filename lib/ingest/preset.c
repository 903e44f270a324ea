/* SPDX-License-Identifier: MIT */
/* What a plan's trainer sets for fields that are absent. */
#include "ingest/preset.h"

#include <string.h>

#include "spec/text.h"

#define ACCELERATE "accelerate"

static struct mpl_release release_of(const char *text)
{
    struct mpl_version version = {0};

    if (text)
        mpl_version_parse(text, &version); /* a wrong one is refused where its field is bound */
    return (struct mpl_release){version.major, version.minor};
}

struct mpl_preset mpl_preset_of(const struct mpl_preset_facts *facts)
{
    const char *newest = facts->name ? mpl_framework_newest(facts->name) : NULL;
    struct mpl_preset preset = {.framework = facts->name,
                                .version = facts->version ? facts->version : newest};
    struct mpl_framework_releases *releases = &preset.run.releases;

    releases->framework = release_of(preset.version);
    releases->transformers = release_of(facts->transformers);
    releases->pytorch = release_of(facts->pytorch);
    releases->accelerate =
        release_of(facts->name && strcmp(facts->name, ACCELERATE) == 0 ? preset.version
                   : facts->accelerate                                 ? facts->accelerate
                                       : mpl_framework_newest(ACCELERATE));
    if (facts->name)
        preset.rows = mpl_framework_rows(facts->name, &preset.row_count);
    preset.run.strategy = mpl_framework_strategy(facts->strategy ? facts->strategy : "none");
    return preset;
}

const struct mpl_framework_default *mpl_preset_row(const struct mpl_preset *preset,
                                                   const char *path)
{
    return mpl_framework_default(preset->rows, preset->row_count, &preset->run, path);
}

static const struct {
    const char *path;
    double widths, squares; /* elements: of hidden_size and of its square */
} auto_table[] = {
    {"parallelism.reduce_bucket_size", 0, 1},
    {"parallelism.stage3_prefetch_bucket_size", 0, 0.9},
    {"parallelism.stage3_param_persistence_threshold", 10, 0},
};

bool mpl_preset_is_auto(const char *path, const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || strcmp(text, "auto") != 0)
        return false;
    for (size_t i = 0; i < sizeof(auto_table) / sizeof(auto_table[0]); i++)
        if (strcmp(auto_table[i].path, path) == 0)
            return true;
    return false;
}

json_t *mpl_preset_auto(const struct mpl_preset *preset, const char *path, int64_t hidden_size)
{
    const double width = (double)hidden_size;

    for (size_t i = 0; i < sizeof(auto_table) / sizeof(auto_table[0]); i++)
        if (strcmp(auto_table[i].path, path) == 0 && preset->framework &&
            mpl_framework_uses_accelerate(preset->framework))
            return json_integer(
                (json_int_t)(auto_table[i].widths * width + auto_table[i].squares * width * width));
    return NULL;
}
