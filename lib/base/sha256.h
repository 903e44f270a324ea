/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4), for identities: the same text has the same name everywhere. */
#ifndef MPL_BASE_SHA256_H
#define MPL_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define MPL_SHA256_BYTES 32

/** The digest of len bytes, fewer than 2^61. */
void mpl_sha256(const void *bytes, size_t len, uint8_t digest_out[MPL_SHA256_BYTES]);

#endif
