/* SPDX-License-Identifier: MIT */
/* Stage "spec": the known name that an unknown one was probably meant to be. */
#ifndef MPL_SPEC_SUGGEST_H
#define MPL_SPEC_SUGGEST_H

#include "spec/config_class.h"
#include "spec/fields.h"

/** The accepted or known word nearest to word, or NULL when none is near. */
const char *mpl_suggest_word(const struct mpl_word *words, const char *word);

/** The known model_type nearest to word, or NULL when none is near. */
const char *mpl_suggest_model_type(const char *word);

/** The path of the field nearest to path, or NULL when none is near. */
const char *mpl_suggest_field(const char *path);

#endif
