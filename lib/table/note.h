/* SPDX-License-Identifier: MIT */
/*
 * TABLE: notes. Whatever a report must admit (a default taken, a part not modelled) has a row here.
 * A number is never reused and never changes its meaning; new rows go at the end.
 */
#ifndef MPL_TABLE_NOTE_H
#define MPL_TABLE_NOTE_H

/** The value is the number in the code: 3 is "N003". */
enum mpl_note_code {
    MPL_NOTE_NONE = 0,
    MPL_NOTE_DEFAULT_TAKEN = 1,
    MPL_NOTE_NOT_MODELLED = 2,
    MPL_NOTE_NO_DEVICE = 3,
    MPL_NOTE_DEVICE_FIRST_OF_SEVERAL = 4,
    MPL_NOTE_DEVICE_TOTAL_NOT_MEASURED = 5,
    MPL_NOTE_DEVICE_TOTAL_VARIES = 6,
    MPL_NOTE_CONTEXT_FROM_TABLE = 7,
    MPL_NOTE_CONTEXT_NOT_KNOWN = 8,
    MPL_NOTE_NCCL_FROM_TABLE = 9,
    MPL_NOTE_READING_UNIT_OPEN = 10,
    MPL_NOTE_READING_METRIC_OPEN = 11,
    MPL_NOTE_ALTERNATIVE_EXCLUDED = 12,
    MPL_NOTE_READINGS_CONTRADICT = 13,
    MPL_NOTE_FIELD_IGNORED = 14,
    MPL_NOTE_VERSION_UNTESTED = 15,
    MPL_NOTE_FAMILY_ASSUMED = 16,
    MPL_NOTE_FRAMEWORK_CODE = 17,
    MPL_NOTE_IMPORTED = 18,
    MPL_NOTE_READINGS_DISAGREE = 19,
    MPL_NOTE_COUNT,
};

/** One note. All text is static. */
struct mpl_note_row {
    char code[8];            /* "N003" */
    const char *title;       /* a few words, no full stop */
    const char *explanation; /* a few sentences: what it means, what to do */
};

/** The row of a note; NULL for NONE and for numbers past the end. */
const struct mpl_note_row *mpl_note_row(enum mpl_note_code note);

/** The note of a code ("N003", any case), or MPL_NOTE_NONE. */
enum mpl_note_code mpl_note_from_code(const char *code);

#endif
