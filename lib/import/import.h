/* SPDX-License-Identifier: MIT */
/* Stage "import": the configurations of trainers and launchers, turned into one plan. */
#ifndef MPL_IMPORT_IMPORT_H
#define MPL_IMPORT_IMPORT_H

#include <jansson.h>
#include <memplan.h>
#include <stdbool.h>

#define MPL_IMPORT_MOST_BYTES ((size_t)1 << 20)
#define MPL_IMPORT_MOST_NOTES 64

/** One file as text was made of it. */
struct mpl_import_doc {
    const char *file; /* borrowed */
    json_t *root;     /* an object */
    json_t *lines;    /* "a.b" to the line of that key */
};

/** Where something was read. */
struct mpl_import_place {
    const char *file; /* borrowed; NULL: it follows from several */
    uint32_t line;
    char key[96];
};

/** What a text stands for. */
struct mpl_import_word {
    const char *text; /* lower case; NULL ends the list */
    const char *json; /* value in the plan; NULL: nothing is set */
    const char *note; /* said besides; NULL: nothing */
};

/** A value that a script does not fix is an object with this key. */
#define MPL_IMPORT_OPEN "$"

struct mpl_import;

/** One value under way. */
struct mpl_import_at {
    struct mpl_import *import;
    const struct mpl_import_doc *doc;
    const struct mpl_import_key *row;
    struct mpl_import_place place;
};

typedef enum memplan_status mpl_import_call(const struct mpl_import_at *at, const json_t *value,
                                            struct memplan_error *err);

enum mpl_import_kind {
    MPL_IMPORT_INTEGER, /* a whole number, or text of one; auto: left open */
    MPL_IMPORT_NUMBER,
    MPL_IMPORT_BOOLEAN,
    MPL_IMPORT_TEXT,
    MPL_IMPORT_WORD,   /* one of words */
    MPL_IMPORT_NAMES,  /* a list of names, or text with names between commas or spaces */
    MPL_IMPORT_UNLESS, /* takes memory that no field of a plan describes, unless it is off */
    MPL_IMPORT_CALL,
};

/** A key that changes memory. Paths that begin with "import." are facts for settle.c. */
struct mpl_import_key {
    const char *key;  /* dotted */
    const char *path; /* of the plan */
    enum mpl_import_kind kind;
    bool takes_auto; /* the plan takes "auto", too */
    const struct mpl_import_word *words;
    const char *off; /* of UNLESS: off besides null, false, 0, none and no */
    const char *why; /* of UNLESS: what it is, for the note */
    mpl_import_call *call;
};

/** A format: one table of what changes memory, one of what does not. */
struct mpl_import_reader {
    const char *name; /* "DeepSpeed configuration" */
    const struct mpl_import_key *keys;
    size_t key_count;
    const struct mpl_import_reader *base; /* asked where the tables have no row; NULL: none */
    const char *const *harmless;          /* keys, "a.*" for a section; NULL at the end */
};

#define MPL_IMPORT_KEYS(table) .keys = (table), .key_count = sizeof(table) / sizeof((table)[0])

extern const struct mpl_import_reader mpl_import_deepspeed;
extern const struct mpl_import_reader mpl_import_arguments; /* TrainingArguments */
extern const struct mpl_import_reader mpl_import_adapter;
extern const struct mpl_import_reader mpl_import_accelerate;
extern const struct mpl_import_reader mpl_import_fsdp;
extern const struct mpl_import_reader mpl_import_axolotl;
extern const struct mpl_import_reader mpl_import_llamafactory;
extern const struct mpl_import_reader mpl_import_speculators;
extern const struct mpl_import_reader mpl_import_megatron;
extern const struct mpl_import_reader mpl_import_torchtitan;
extern const struct mpl_import_word mpl_import_dtypes[];
extern const struct mpl_import_word mpl_import_optimizers[];
extern const struct mpl_import_word mpl_import_checkpointing[];
extern const struct mpl_import_word mpl_import_liger[];

/* ---- documents (json.c, yaml.c, toml.c) ---- */

enum memplan_status mpl_import_read_json(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err);
enum memplan_status mpl_import_read_yaml(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err);
/** The one that the text looks like. (import.c) */
enum memplan_status mpl_import_read_text(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err);
/** Fails where there was no toml++ at build time (toml_absent.c). */
enum memplan_status mpl_import_read_toml(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err);
void mpl_import_doc_free(struct mpl_import_doc *doc);

/** What a plain word is in YAML 1.1, as PyYAML reads it, and on a command line: null, a truth
 * value, a number, else text. New; NULL: out of memory, or not UTF-8. */
json_t *mpl_import_scalar(const char *text, size_t len);

/** The line of a key, 0 when it is not known. */
uint32_t mpl_import_line(const struct mpl_import_doc *doc, const char *key);

/* ---- what was found (found.c) ---- */

/** Text as a new one; NULL: out of memory. */
char *mpl_import_copy(const char *text, size_t len);

/** What the caller gives: files, and how to get those that they name. */
struct mpl_import_given {
    const struct memplan_import_file *files; /* borrowed */
    size_t file_count;
    struct memplan_import_options options;
    unsigned opened;
};

struct mpl_import *mpl_import_new(const struct mpl_import_given *given);
struct mpl_import_given *mpl_import_given(struct mpl_import *import);
void mpl_import_free(struct mpl_import *import);

/** Sets a field of the plan or a fact. A value that cannot be fails with the place; one that
 * differs from an earlier one replaces it, with a note. */
enum memplan_status mpl_import_set(struct mpl_import *import, const struct mpl_import_place *place,
                                   const char *path, const json_t *value,
                                   struct memplan_error *err);
enum memplan_status mpl_import_set_text(struct mpl_import *import,
                                        const struct mpl_import_place *place, const char *path,
                                        const char *json, struct memplan_error *err);
/** What is known and not modelled: it stands in the plan, and is refused there by name. */
enum memplan_status mpl_import_set_refused(struct mpl_import *import,
                                           const struct mpl_import_place *place, const char *path,
                                           const char *json, struct memplan_error *err);
/** The same where nothing was set before. */
enum memplan_status mpl_import_default(struct mpl_import *import, const char *path,
                                       const char *json, struct memplan_error *err);

/** Value of a path, or NULL. Borrowed. */
const json_t *mpl_import_get(const struct mpl_import *import, const char *path);
const char *mpl_import_get_text(const struct mpl_import *import, const char *path);
int64_t mpl_import_get_integer(const struct mpl_import *import, const char *path, int64_t absent);
bool mpl_import_is_true(const struct mpl_import *import, const char *path);
void mpl_import_drop(struct mpl_import *import, const char *path);
/** Where a path was set; an empty place where it was not. */
struct mpl_import_place mpl_import_place_of(const struct mpl_import *import, const char *path);

/** Path i that was set, in order, or NULL. place_out may be NULL. */
const char *mpl_import_path(const struct mpl_import *import, size_t i,
                            const struct mpl_import_place **place_out);

void mpl_import_note(struct mpl_import *import, const struct mpl_import_place *place,
                     const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *mpl_import_note_at(const struct mpl_import *import, size_t i);

enum memplan_status mpl_import_fail(const struct mpl_import_place *place,
                                    enum memplan_status status, struct memplan_error *err,
                                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- reading ---- */

/** Every key of an object against a reader's tables (walk.c). prefix: of names in messages. */
enum memplan_status mpl_import_walk(struct mpl_import *import, const struct mpl_import_doc *doc,
                                    const json_t *object, const char *prefix,
                                    const struct mpl_import_reader *reader,
                                    struct memplan_error *err);

/** The value at a place by one row. (convert.c) */
enum memplan_status mpl_import_convert(const struct mpl_import_at *at, const json_t *value,
                                       struct memplan_error *err);
bool mpl_import_is_off(const json_t *value, const char *off);

/** Text of a scalar in lower case. */
const char *mpl_import_lower(const json_t *value, char *text, size_t size);

/** A file that is named, from the caller. False: it cannot be had. (named.c) */
bool mpl_import_open(struct mpl_import *import, const char *from, const char *path,
                     struct memplan_import_file *file_out);

/** Reads a file that is named at a place, unless one of its kind is among those given. kind: its
 * format; NULL: a trainer's. Where it cannot be had, why is said besides; NULL: nothing. (named.c)
 */
enum memplan_status mpl_import_take_named(struct mpl_import *import,
                                          const struct mpl_import_place *place, const char *path,
                                          const struct mpl_import_reader *kind, const char *why,
                                          struct memplan_error *err);

/** The reader of a text, or NULL. (import.c) */
const struct mpl_import_reader *mpl_import_reader_of(const char *text, size_t len);

/** Reads a document by the reader of its format. (import.c) */
enum memplan_status mpl_import_take_doc(struct mpl_import *import, const struct mpl_import_doc *doc,
                                        const struct mpl_import_reader *reader,
                                        struct memplan_error *err);

/** DeepSpeed's configuration, or the name of a file with it. (read_arguments.c) */
mpl_import_call mpl_import_take_deepspeed;

/** Which release of speculators has all of these flags, and its defaults.
 * (settle_speculators.c) */
enum memplan_status mpl_import_speculators_release(struct mpl_import *import,
                                                   const struct mpl_import_doc *doc,
                                                   const struct mpl_import_place *place,
                                                   struct memplan_error *err);

/** Reads a command that is split already. (read_job.c) */
enum memplan_status mpl_import_read_words(struct mpl_import *import, const char *const *words,
                                          size_t count, struct memplan_error *err);

/** Reads a shell script's launch lines. (read_job.c) */
enum memplan_status mpl_import_read_job(struct mpl_import *import, const char *file,
                                        const char *text, size_t len, struct memplan_error *err);
bool mpl_import_is_job(const char *text, size_t len);

/** What mpl_weights_to_json printed, and an index by itself. (read_weights.c) */
enum memplan_status mpl_import_take_weights(struct mpl_import *import,
                                            const struct mpl_import_doc *doc,
                                            struct memplan_error *err);
enum memplan_status mpl_import_take_index(struct mpl_import *import,
                                          const struct memplan_import_file *file,
                                          struct memplan_error *err);

/** A plan of the model alone, whole and unquantised, where the parameters of its weights were
 * counted; else NULL. malloc'ed. */
char *mpl_import_counted_plan(const struct mpl_import *import);

/** Says where the weights have another number of parameters than the model. */
void mpl_import_compare(struct mpl_import *import, uint64_t parameters);

/** Fills in what follows from several facts: strategy, precision, ranks. (settle.c) */
enum memplan_status mpl_import_settle(struct mpl_import *import, struct memplan_error *err);

/** Name of the format of a text, static; NULL: none that is known. (import.c) */
const char *mpl_import_format(const char *text, size_t len);

/** Reads files in order, then the command, and settles. *import_out is new. */
enum memplan_status mpl_import_read(const struct mpl_import_given *given,
                                    struct mpl_import **import_out, struct memplan_error *err);

/** The plan as JSON; malloc'ed. */
enum memplan_status mpl_import_to_json(const struct mpl_import *import, char **json_out,
                                       struct memplan_error *err);

/** Whether a list has names as "model.layers.0.mlp.up_proj", which are of one layer. */
bool mpl_import_names_layers(const json_t *names);

/**
 * A list of names that spells out each of a model's `layers` layers, with the last part of each in
 * place of them. New; NULL: it does not name all layers alike, or there is no memory.
 * (layer_names.c)
 */
json_t *mpl_import_fold_layers(const json_t *names, size_t layers);

#endif
