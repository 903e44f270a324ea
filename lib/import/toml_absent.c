/* SPDX-License-Identifier: MIT */
/* Stage "import": in place of toml.c where toml++ was not there at build time. */
#include <stdio.h>

#include "base/fail.h"
#include "import/import.h"

enum memplan_status mpl_import_read_toml(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err)
{
    (void)text;
    (void)len;
    *doc = (struct mpl_import_doc){.file = file};
    if (err && !err->source[0])
        snprintf(err->source, sizeof(err->source), "%s", file);
    return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, NULL,
                    "TOML (torchtitan) is not read: this memplan was built without toml++ "
                    "(Debian: libtomlplusplus-dev; Meson: -Dtoml=enabled)");
}
