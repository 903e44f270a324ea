/* SPDX-License-Identifier: MIT */
/* Stage "spec": the table of all fields of a plan. Binding, validation, suggestions, the JSON
 * schema and the documentation are made from it. */
#ifndef MPL_SPEC_FIELDS_H
#define MPL_SPEC_FIELDS_H

#include <stddef.h>

#include "spec/plan.h"

enum mpl_field_type {
    MPL_FIELD_INTEGER = 0, /* int64_t */
    MPL_FIELD_NUMBER,      /* double */
    MPL_FIELD_BYTES,       /* int64_t; an integer, or text with a unit */
    MPL_FIELD_STRING,      /* char[size] */
    MPL_FIELD_BOOLEAN,     /* bool */
    MPL_FIELD_TRISTATE,    /* enum mpl_tristate */
    MPL_FIELD_WORD,        /* an enum of the size of int: one of words */
    MPL_FIELD_NAME,        /* char[size]: one of words */
    MPL_FIELD_VERSION,     /* struct mpl_version */
    MPL_FIELD_ANY,         /* accepted as it is; changes no size */
    MPL_FIELD_REFUSED,     /* known to change memory, not modelled: only empty or the default */
    MPL_FIELD_LIST,        /* the list of observations */
    MPL_FIELD_PATTERNS,    /* the list of frozen parameters' patterns: training.frozen */
    MPL_FIELD_NAMES,       /* struct mpl_names: a list of names, or one of words alone */
    MPL_FIELD_MODEL_TYPE,  /* char[size]: a model_type with a configuration class */
    MPL_FIELD_LAYER_WORDS, /* struct mpl_layer_list: one of words for each layer */
    MPL_FIELD_LAYER_FLAGS, /* struct mpl_layer_list: 0 or 1 for each layer */
    MPL_FIELD_LENGTHS,     /* struct mpl_length_list: a list of numbers of tokens */
    MPL_FIELD_LAYER_SET,   /* struct mpl_layer_list: the list of the layers that are set */
};

/** Families that differ in their defaults and in which fields they know. */
enum mpl_family {
    MPL_FAMILY_CAUSAL = 0,
    MPL_FAMILY_EAGLE3,
    MPL_FAMILY_DFLASH,
    MPL_FAMILY_MTP,
    MPL_FAMILY_COUNT
};

enum {
    MPL_FIELD_ONLY_EAGLE3 = 1 << 0, /* no meaning for other families */
    MPL_FIELD_ONLY_MTP = 1 << 1,
    MPL_FIELD_TOLD = 1 << 2,        /* a person wants to know when its default is taken */
    MPL_FIELD_TEXT_NUMBER = 1 << 3, /* a number may be written as text: "9.0" */
    MPL_FIELD_BOOL_NUMBER = 1 << 4, /* true is 1, false is 0; of an INTEGER, see enum mpl_reshard */
    MPL_FIELD_READING = 1 << 5,     /* a member of one observation */
    MPL_FIELD_SAME_AS = 1 << 6,     /* another name: moved to same_as when a plan is read */
    MPL_FIELD_ONLY_DFLASH = 1 << 7,
    MPL_FIELD_ONLY_DRAFT = MPL_FIELD_ONLY_EAGLE3 | MPL_FIELD_ONLY_DFLASH | MPL_FIELD_ONLY_MTP,
    /* parallelism.strategy: with any other a field has no meaning; none of them: always a meaning
     */
    MPL_FIELD_OF_FSDP2 = 1 << 8,
    MPL_FIELD_OF_DDP = 1 << 9,
    MPL_FIELD_OF_FSDP1 = 1 << 10,
    MPL_FIELD_OF_ZERO = 1 << 11,
    MPL_FIELD_OF_ZERO3 = 1 << 12,
    MPL_FIELD_OF_STRATEGIES = MPL_FIELD_OF_FSDP2 | MPL_FIELD_OF_DDP | MPL_FIELD_OF_FSDP1 |
                              MPL_FIELD_OF_ZERO | MPL_FIELD_OF_ZERO3,
};

/** One word that a field accepts, or knows. */
struct mpl_word {
    const char *word; /* NULL ends a list */
    int value;
    bool unsupported; /* exists, is not modelled */
    const char *hint; /* not accepted; what to write in its place */
    const char *help; /* one line for people, of words that memplan_list_entry lists */
};

struct mpl_field {
    const char *path; /* "training.optimizer.name" */
    const char *help; /* one sentence */
    const char *range;
    const char *fallback;        /* JSON text; "" when needed; NULL: none, worked out or unset */
    const char *fallback_eagle3; /* the same for drafters; NULL: as fallback */
    const char *fallback_dflash; /* the same for dflash and mtp; NULL: as for drafters */
    const struct mpl_word *words;
    const char *same_as; /* the path it is moved to */
    int64_t min, max;    /* of INTEGER, NUMBER, BYTES; scale applies afterwards */
    int64_t scale;       /* of a SAME_AS row: what one unit is in the other field; 0: no scale */
    size_t offset;       /* into struct mpl_plan; MPL_FIELD_NOWHERE: only checked */
    size_t size;         /* of STRING and NAME */
    enum mpl_field_type type;
    uint32_t flags;
};

#define MPL_FIELD_NOWHERE SIZE_MAX
#define MPL_FIELD_LIMIT   384 /* most rows that the table may have */

/** Number of rows. */
size_t mpl_field_count(void);

/** Row i, which is less than mpl_field_count(). */
const struct mpl_field *mpl_field_at(size_t i);

/** The row of that path, or NULL. */
const struct mpl_field *mpl_field_find(const char *path);

/** Position of a row of the table. */
size_t mpl_field_index(const struct mpl_field *field);

/** True when a row lies below path: "training" and "training.optimizer" are sections. */
bool mpl_field_is_section(const char *path);

/** The default of a family as JSON text: "" when needed, NULL when there is none. */
const char *mpl_field_fallback(const struct mpl_field *field, enum mpl_family family);

/** Type as documentation names it: "integer", "number", "string", "boolean", "bytes", "any". */
const char *mpl_field_type_name(const struct mpl_field *field);

/** The word in a list, or NULL. */
const struct mpl_word *mpl_word_find(const struct mpl_word *words, const char *word);

/** True when models of the family have the field. */
bool mpl_field_is_of(const struct mpl_field *field, enum mpl_family family);

/** True when a field says something of a run with that strategy. */
bool mpl_field_applies(const struct mpl_field *field, enum mpl_strategy strategy);

/** The word of a value; NULL: none has it. */
const char *mpl_word_of(const struct mpl_word *words, int value);

/** Accepted words, separated by ", ", into text of size bytes; "..." where they are too many. */
void mpl_word_list(const struct mpl_word *words, char *text, size_t size);

/** The family of a model_type that the table accepts. */
enum mpl_family mpl_family_of(const char *model_type);

#endif
