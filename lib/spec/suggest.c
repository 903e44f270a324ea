/* SPDX-License-Identifier: MIT */
/* Stage "spec": the known name that an unknown one was probably meant to be. */
#include "spec/suggest.h"

#include <string.h>

#define LONGEST 64 /* longer names are not compared */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b. */
static size_t edits(const char *a, const char *b)
{
    size_t row[3][LONGEST + 1];
    size_t a_len = strlen(a), b_len = strlen(b);

    if (a_len > LONGEST || b_len > LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *here = row[i % 3], *above = row[(i + 2) % 3], *higher = row[(i + 1) % 3];

        here[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            here[j] = least(least(above[j], here[j - 1]) + 1,
                            above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                here[j] = least(here[j], higher[j - 2] + 1);
        }
    }
    return row[a_len % 3][b_len];
}

/* Edits beyond which two names have nothing to do with each other. */
static size_t tolerance(const char *name)
{
    size_t len = strlen(name);

    return len < 4 ? 1 : len < 9 ? 2 : len / 3;
}

const char *mpl_suggest_word(const struct mpl_word *words, const char *word)
{
    const char *best = NULL;
    size_t best_edits = tolerance(word) + 1;

    for (; words->word; words++) {
        size_t n = words->hint ? SIZE_MAX : edits(word, words->word);

        if (n < best_edits) {
            best = words->word;
            best_edits = n;
        }
    }
    return best;
}

const char *mpl_suggest_model_type(const char *word)
{
    const struct mpl_config_class *config;
    const char *best = NULL;
    size_t best_edits = tolerance(word) + 1;

    for (size_t i = 0; (config = mpl_config_class_at(i)); i++) {
        const size_t n = edits(word, config->model_type);

        if (n < best_edits) {
            best = config->model_type;
            best_edits = n;
        }
    }
    return best;
}

static const char *leaf(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

const char *mpl_suggest_field(const char *path)
{
    const char *best = NULL;
    size_t best_edits = tolerance(leaf(path)) + 1;

    for (size_t i = 0; i < mpl_field_count(); i++) {
        const size_t n = edits(path, mpl_field_at(i)->path);

        if (n < best_edits) {
            best = mpl_field_at(i)->path;
            best_edits = n;
        }
    }
    if (best)
        return best;
    /* A right name in the wrong section is nearer than a wrong name. */
    for (size_t i = 0; i < mpl_field_count(); i++) {
        const struct mpl_field *field = mpl_field_at(i);

        if (!(field->flags & (MPL_FIELD_SAME_AS | MPL_FIELD_READING)) &&
            strcmp(leaf(field->path), leaf(path)) == 0)
            return field->path;
    }
    for (size_t i = 0; i < mpl_field_count(); i++) {
        const char *known = mpl_field_at(i)->path;
        size_t n = least(edits(path, known), edits(leaf(path), leaf(known)) + 1);

        if (n < best_edits) {
            best = known;
            best_edits = n;
        }
    }
    return best;
}
