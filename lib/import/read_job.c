/* SPDX-License-Identifier: MIT */
#include "import/import.h"
bool mpl_import_is_job(const char *text, size_t len)
{
    (void)text;
    (void)len;
    return false;
}
enum memplan_status mpl_import_read_job(struct mpl_import *import, const char *file,
                                        const char *text, size_t len, struct memplan_error *err)
{
    (void)import;
    (void)file;
    (void)text;
    (void)len;
    (void)err;
    return MEMPLAN_OK;
}
