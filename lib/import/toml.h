/* SPDX-License-Identifier: MIT */
/* Stage "import": the one C++ file of the library, seen from C. */
#ifndef MPL_IMPORT_TOML_H
#define MPL_IMPORT_TOML_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mpl_toml_status {
    MPL_TOML_OK,
    MPL_TOML_SYNTAX,
    MPL_TOML_DEPTH,
    MPL_TOML_MEMORY,
};

/** Where the parser stopped, and why. */
struct mpl_toml_error {
    uint32_t line, column; /* from 1; 0: not known */
    char text[224];
};

/** Parses text. *root_out is a new object in the order of the text; lines gets "a.b" to the line of
 * that key, for keys outside of lists. Tables deeper than most_depth are refused. */
enum mpl_toml_status mpl_toml_parse(const char *text, size_t len, size_t most_depth,
                                    json_t **root_out, json_t *lines, struct mpl_toml_error *error);

#ifdef __cplusplus
}
#endif

#endif
