/* SPDX-License-Identifier: MIT */
/* The ledger: what became of runs, one record a line, in files that have one writer at a time. */
#ifndef CLI_LEDGER_H
#define CLI_LEDGER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_MOST_LINE  ((size_t)1 << 20) /* bytes of a record with its line's frame */
#define LEDGER_MOST_FILE  ((size_t)1 << 30)
#define LEDGER_MOST_FILES 65536
#define LEDGER_MOST_LOSSES                                                                         \
    64 /* lines that cannot be read and are named; further ones are counted */

/* ---- one line ---------------------------------------------------------------------------------
 * {"crc32":"1a2b3c4d","record":{...}} and a newline: JSON Lines, and the record's text can be told
 * from a torn one.
 */

/** A record as a line with its newline, new; NULL: out of memory, or too long. */
char *ledger_line_write(const json_t *record, size_t *len_out);

/** Checks the frame of a line without its newline. Returns NULL and the record's text inside of it,
 * or why it is no record: one phrase, static. */
const char *ledger_line_check(const char *line, size_t len, const char **text_out,
                              size_t *text_len_out);

/* ---- files ------------------------------------------------------------------------------------
 */

/** Appends one record to the ledger at path: a folder, or a file (what is one, or ends in .jsonl).
 * Returns 0 once it is on the disk, or an exit code after a message. file_out, new, is where it
 * stands; it may be NULL. */
int ledger_append(const char *path, const json_t *record, char **file_out);

/** Whether a record could be appended, as far as that can be told; makes the folder. Returns as
 * ledger_append. */
int ledger_prepare(const char *path);

/** What could not be read, by file and line. */
struct ledger_losses {
    size_t count;
    json_t *list; /* {"file", "line", "reason"}; owned; NULL: none */
};

struct ledger_query {
    /** Called for each record, in the order of files and lines; borrowed. Returns 0 to go on; sets
     * *reason_out, static, where it is no record after all. */
    int (*visit)(void *data, const json_t *record, const char **reason_out);
    void *data;
    const char *needle; /* only lines that hold this text are parsed; NULL: all */
    struct ledger_losses losses;
};

/** Reads a ledger. Lines that are torn, forged or foreign are skipped and named in losses. Returns
 * 0, or an exit code after a message; a ledger that does not exist is empty. */
int ledger_read(const char *path, struct ledger_query *query);

/** Says on standard error what could not be read, in one line. */
void ledger_losses_print(const struct ledger_losses *losses);

void ledger_losses_free(struct ledger_losses *losses);

/** True for a path that names a single file. */
bool ledger_is_file(const char *path);

#endif
