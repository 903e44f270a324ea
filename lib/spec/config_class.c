/* SPDX-License-Identifier: MIT */
/* Stage "spec": looks into the configuration classes of model families. */
#include "spec/config_class.h"

#include <stdio.h>
#include <string.h>

#define SECTION "model."

const struct mpl_config_class *mpl_config_class_find(const char *model_type)
{
    const struct mpl_config_class *config;

    for (size_t i = 0; (config = mpl_config_class_at(i)); i++)
        if (!strcmp(config->model_type, model_type))
            return config;
    return NULL;
}

const struct mpl_config_key *mpl_config_key_find(const struct mpl_config_class *config,
                                                 const char *path)
{
    if (!config || !config->keys || strncmp(path, SECTION, strlen(SECTION)) != 0)
        return NULL;
    for (const struct mpl_config_key *key = config->keys; key->field; key++)
        if (!strcmp(key->field, path + strlen(SECTION)))
            return key;
    return NULL;
}

const char *mpl_config_default(const struct mpl_config_class *config, const char *path)
{
    return config && strcmp(path, "training.attention") == 0 ? config->attention : NULL;
}

int64_t mpl_longest_sequence(const struct mpl_model *model)
{
    const struct mpl_config_class *config = mpl_config_class_find(model->model_type);

    if (!config || !config->has_position_table)
        return INT64_MAX;
    return model->max_position_embeddings - config->reserved_positions;
}

void mpl_config_class_list(char *text, size_t size)
{
    const struct mpl_config_class *config;
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; (config = mpl_config_class_at(i)) && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", config->model_type);
}
