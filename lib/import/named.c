/* SPDX-License-Identifier: MIT */
/* Stage "import": files that other files and commands name, where the caller can have them. */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"

#define MOST_OPENED 16

bool mpl_import_open(struct mpl_import *import, const char *from, const char *path,
                     struct memplan_import_file *file_out)
{
    struct mpl_import_given *given = mpl_import_given(import);

    if (!given->options.open || !*path || given->opened == MOST_OPENED)
        return false;
    *file_out = (struct memplan_import_file){0};
    if (given->options.open(given->options.user, from, path, file_out) || !file_out->name ||
        !file_out->bytes || file_out->len > MPL_IMPORT_MOST_BYTES)
        return false;
    given->opened++;
    return true;
}

static bool is_of_trainer(const struct mpl_import_reader *reader)
{
    return reader == &mpl_import_arguments || reader == &mpl_import_llamafactory ||
           reader == &mpl_import_axolotl;
}

/* What was given by hand stands for what a script names. */
static bool is_given(struct mpl_import *import, const struct mpl_import_reader *kind)
{
    const struct mpl_import_given *given = mpl_import_given(import);

    for (size_t i = 0; i < given->file_count; i++) {
        const struct mpl_import_reader *reader =
            mpl_import_reader_of(given->files[i].bytes, given->files[i].len);

        if (reader && (kind ? reader == kind : is_of_trainer(reader)))
            return true;
    }
    return false;
}

static enum memplan_status take(struct mpl_import *import, const struct memplan_import_file *file,
                                const struct mpl_import_reader *kind, struct memplan_error *err)
{
    struct mpl_import_doc doc = {0};
    enum memplan_status status =
        mpl_import_read_text(file->name, file->bytes, file->len, &doc, err);

    if (!status)
        status = mpl_import_take_doc(import, &doc, kind, err);
    mpl_import_doc_free(&doc);
    return status;
}

enum memplan_status mpl_import_take_named(struct mpl_import *import,
                                          const struct mpl_import_place *place, const char *path,
                                          const struct mpl_import_reader *kind, const char *why,
                                          struct memplan_error *err)
{
    struct memplan_import_file file;

    if (is_given(import, kind))
        return MEMPLAN_OK;
    if (!mpl_import_open(import, place->file, path, &file)) {
        if (why)
            mpl_import_note(import, place, "%.120s is %s; give it, too", path, why);
        return MEMPLAN_OK;
    }
    if (!kind && !(kind = mpl_import_reader_of(file.bytes, file.len))) {
        mpl_import_note(import, place, "%.120s: not a configuration that is known", path);
        return MEMPLAN_OK;
    }
    return take(import, &file, kind, err);
}
