/* SPDX-License-Identifier: MIT */
/* What a plan's trainer sets for fields that are absent. */
#include "ingest/preset.h"

#include "spec/text.h"

static struct mpl_release release_of(const char *text)
{
    struct mpl_version version = {0};

    if (text)
        mpl_version_parse(text, &version); /* a wrong one is refused where its field is bound */
    return (struct mpl_release){version.major, version.minor};
}

struct mpl_preset mpl_preset_of(const char *name, const char *version, const char *transformers,
                                const char *pytorch)
{
    const char *newest = name ? mpl_framework_newest(name) : NULL;
    struct mpl_preset preset = {name, version ? version : newest, {{0, 0}, {0, 0}, {0, 0}}};

    preset.releases.framework = release_of(preset.version);
    preset.releases.transformers = release_of(transformers);
    preset.releases.pytorch = release_of(pytorch);
    return preset;
}

const struct mpl_framework_default *mpl_preset_row(const struct mpl_preset *preset,
                                                   const char *path)
{
    return preset->framework ? mpl_framework_default(preset->framework, &preset->releases, path)
                             : NULL;
}
