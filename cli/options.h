/* SPDX-License-Identifier: MIT */
/* Options: one row each, which drives parsing, --help and the test of the manual. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** A field of the plan that an option set, in the order of the command line. */
struct assignment {
    char *option; /* as typed, for messages; owned */
    char *text;   /* "path=value"; owned */
};

#define SETTINGS_MOST_CONFS 16

/** What the command line said. Text is borrowed from argv. */
struct settings {
    const char *model, *dump, *topic;
    double risk;      /* 0: the library's default */
    unsigned timeout; /* of a probe, seconds; 0: the default */
    bool json, jsonl, no_readings, no_suggestions, all_ranks;
    bool accept_margin, force, markdown, context;
    bool no_files; /* of check */
    bool help, version;
    /* of the ledger */
    const char *ledger;
    bool no_ledger, record;
    const char *bytes, *metric, *log;
    bool ran, oom;
    const char *field;
    uint64_t step; /* of pack, too */
    bool explore;
    /* of replay */
    const char *confs[SETTINGS_MOST_CONFS];
    size_t conf_count;
    const char *svg, *pytorch;
    const char *output;  /* of import and calibrate */
    const char *release; /* of import */
    const char *calibration, *readings;
    double fraction;
    uint64_t total_bytes, context_bytes, until;
    /* of max, min and sweep; read once the field is known */
    const char *from, *to, *multiple_of;
    bool tsv, peaks_only;
    /* of pack */
    const char *rule, *lengths_list, *member;
    const char *samples; /* of next: a file of lengths */
    uint64_t world, rows, accumulate, map_batch, draw, within;
    /* of review */
    const char *annotation, *plans;
    bool commands, refuse_margin;
    struct assignment *assignments;
    size_t assignment_count;
    json_t *probe;   /* of this machine, for --gpu auto; owned */
    bool from_words; /* of exec: without --model the command itself is the plan */
    char **words;    /* what follows the options; borrowed, ends in NULL */
    size_t word_count;
};

enum option_kind {
    OPTION_FLAG,  /* bool at offset becomes true */
    OPTION_TEXT,  /* const char * at offset */
    OPTION_CONF,  /* one more of confs */
    OPTION_SIZE,  /* uint64_t at offset, bytes: a number and B, KiB, MiB, GiB, KB, MB or GB */
    OPTION_COUNT, /* uint64_t at offset, above 0 */
    OPTION_WHOLE, /* uint64_t at offset */
    OPTION_SHARE, /* double at offset, above 0, up to 1 */
    OPTION_RISK,  /* double at offset, above 0, below 0.5 */
    OPTION_TIME,  /* unsigned at offset, seconds, 1 to 3600 */
    OPTION_FIELD, /* one more assignment to path */
    OPTION_NAME,  /* the same, always text */
    OPTION_SET,   /* one more assignment as it stands */
    OPTION_HELP,  /* bool at offset, and an optional topic */
};

struct option_row {
    const char *name;     /* NULL ends a table */
    const char *argument; /* as --help shows it; NULL: none */
    const char *help;
    enum option_kind kind;
    size_t offset;    /* into struct settings */
    const char *path; /* of OPTION_FIELD and OPTION_NAME */
};

#define OPTION_TABLES 6

/** Options of a command: tables that commands share, NULL after the last. */
struct option_set {
    const struct option_row *tables[OPTION_TABLES];
    bool stop_at_word; /* what follows the first word belongs to another program */
};

extern const struct option_row options_plan[];     /* what to estimate */
extern const struct option_row options_estimate[]; /* how to print it */
extern const struct option_row options_check[];
extern const struct option_row options_exec[];
extern const struct option_row options_review[];
extern const struct option_row options_search[]; /* of max and min */
extern const struct option_row options_sweep[];
extern const struct option_row options_calibrated[]; /* what applies a calibration */
extern const struct option_row options_calibrate[];
extern const struct option_row options_import[];
extern const struct option_row options_replay[];
extern const struct option_row options_pack[];
extern const struct option_row options_read_log[];
extern const struct option_row options_probe[];
extern const struct option_row options_help[];
extern const struct option_row options_ledger[]; /* what became of runs */
extern const struct option_row options_record[];
extern const struct option_row options_history[];
extern const struct option_row options_next[];
extern const struct option_row options_common[];

/** Parses argv[1..] into *settings. Returns 0, or an exit code after a message. */
int options_parse(const struct option_set *set, int argc, char **argv, struct settings *settings);

/** Whether an option asks for the card of this machine. */
bool options_is_auto(const struct assignment *one);

/** Prints one line per option. */
void options_print(const struct option_set *set, FILE *out);

void options_free(struct settings *settings);

#endif
