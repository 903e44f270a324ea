/* SPDX-License-Identifier: MIT */
/* The words of an allocator settings string, and numbers as the C++ library reads them. */
#ifndef MPL_REPLAY_CONF_TOKENS_H
#define MPL_REPLAY_CONF_TOKENS_H

#include <memplan.h>
#include <stdbool.h>

#define MPL_CONF_PATH          "/device/allocator/conf"
#define MPL_CONF_OUT_OF_BOUNDS "Index out of bounds in ConfigTokenizer"

#define MPL_CONF_MOST_BYTES  4096
#define MPL_CONF_MOST_TOKENS 512
#define MPL_CONF_SHOWN       72 /* bytes of a token that a message shows, and its end */

/** Keys, values and the marks , : [ ] between them, without white space. */
struct mpl_conf_tokens {
    size_t count;
    const char *at[MPL_CONF_MOST_TOKENS];
    char text[2 * MPL_CONF_MOST_BYTES + 1];
};

/** Cuts a string up; one that is too long gives MEMPLAN_ERR_LIMIT. */
enum memplan_status mpl_conf_tokenize(const char *text, struct mpl_conf_tokens *tokens,
                                      struct memplan_error *err);

/** std::stoull: a number in front is enough, and -1 is the largest one; false: it throws. */
bool mpl_conf_unsigned(const char *token, uint64_t *value);

/** std::stod; false: it throws. */
bool mpl_conf_double(const char *token, double *value);

bool mpl_conf_is_power_of_2(uint64_t value);

/** A token for a message: as much of it as has room, in whole characters. */
const char *mpl_conf_shown(const char *token, char shown[MPL_CONF_SHOWN]);

#endif
