/* SPDX-License-Identifier: MIT */
/* The ledger: the frame of one line, by which a torn one is found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"
#include "text.h"

#define HEAD  "{\"crc32\":\""
#define NECK  "\",\"record\":"
#define FRAME (sizeof(HEAD) - 1 + 8 + sizeof(NECK) - 1) /* bytes before the record */

/* CRC-32 of ISO 3309, as zlib and Python's binascii compute it, four bits at a time. */
static uint32_t checksum(const char *bytes, size_t len)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t sum = 0xffffffff;

    for (size_t i = 0; i < len; i++) {
        sum ^= (unsigned char)bytes[i];
        sum = sum >> 4 ^ table[sum & 15];
        sum = sum >> 4 ^ table[sum & 15];
    }
    return ~sum;
}

char *ledger_line_write(const json_t *record, size_t *len_out)
{
    char *text = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(15));
    char *line = NULL;

    if (text && strlen(text) + FRAME + 2 <= LEDGER_MOST_LINE)
        line = text_format(HEAD "%08x" NECK "%s}\n", (unsigned)checksum(text, strlen(text)), text);
    free(text);
    if (line)
        *len_out = strlen(line);
    return line;
}

const char *ledger_line_check(const char *line, size_t len, const char **text_out,
                              size_t *text_len_out)
{
    const size_t digits = sizeof(HEAD) - 1;
    char sum[9];

    if (len > LEDGER_MOST_LINE)
        return "longer than a record may be";
    if (len < FRAME + 3 || memcmp(line, HEAD, digits) != 0 ||
        memcmp(line + digits + 8, NECK, sizeof(NECK) - 1) != 0)
        return "not a record, or one without its beginning";
    if (line[len - 1] != '}' || line[len - 2] != '}')
        return "torn: a record without its end";
    snprintf(sum, sizeof(sum), "%08x", (unsigned)checksum(line + FRAME, len - FRAME - 1));
    if (memcmp(sum, line + digits, 8) != 0)
        return "torn or changed: the checksum does not match";
    *text_out = line + FRAME;
    *text_len_out = len - FRAME - 1;
    return NULL;
}
