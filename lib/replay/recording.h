/* SPDX-License-Identifier: MIT */
/*
 * A recorded sequence of allocator events, and what a card and its settings answer to it. Beside
 * the stage "replay", whose timeline is one that memplan traced itself.
 */
#ifndef MPL_REPLAY_RECORDING_H
#define MPL_REPLAY_RECORDING_H

#include "replay/allocator.h"

#define MPL_NO_SLOT UINT32_MAX

enum mpl_recorded_kind {
    MPL_RECORDED_REQUEST = 0,
    MPL_RECORDED_RELEASE,
    MPL_RECORDED_RELEASE_BEGIN, /* another stream still uses it */
    MPL_RECORDED_RELEASE_END,
    MPL_RECORDED_RECORD_STREAM,
    MPL_RECORDED_EMPTY_CACHE,
    MPL_RECORDED_WAIT,
    MPL_RECORDED_WAIT_STREAM,
    MPL_RECORDED_RESET_PEAKS,
    MPL_RECORDED_ENTER_POOL,
    MPL_RECORDED_LEAVE_POOL,
    MPL_RECORDED_MARK, /* counters are written down */
};

struct mpl_recorded_event {
    uint64_t bytes; /* of a request */
    uint32_t slot;  /* what is held; MPL_NO_SLOT: nothing that ever was */
    uint8_t kind;   /* enum mpl_recorded_kind */
    uint8_t stream; /* index into streams */
    uint8_t pool;   /* private pool, 1 .. */
};

/** Zero-initialized is an empty recording. */
struct mpl_recording {
    uint64_t total_bytes;   /* of the card; 0: not known */
    uint64_t context_bytes; /* taken before the first request */
    double fraction;        /* set_per_process_memory_fraction; 0: not called */
    bool is_lazy;           /* the card stands still until the host waits for it */
    char *conf;             /* PYTORCH_CUDA_ALLOC_CONF; NULL: not set */
    MPL_VEC(struct mpl_recorded_event) events;
    uint32_t slot_count;
    int64_t streams[MPL_ALLOCATOR_STREAMS]; /* as the recording names them */
    uint32_t stream_count;
    bool has_history;        /* what the allocator did was recorded too */
    uint64_t reserved_peak;  /* then */
    uint32_t failures;       /* then: requests that failed */
    uint32_t initial_blocks; /* then: held before the first event */
};

void mpl_recording_free(struct mpl_recording *recording);

/** What is different from what the recording says. Zero: nothing. */
struct mpl_recording_settings {
    const char *conf; /* NULL: the recording's */
    struct mpl_alloc_release release;
    double fraction;
    uint64_t total_bytes, context_bytes;
    bool has_context;
    uint64_t until; /* events to run; 0: all */
};

struct mpl_recording_mark {
    uint32_t event;
    struct mpl_counters counters;
};

struct mpl_recording_failure {
    uint32_t event;
    char *message; /* first line of the exception */
};

struct mpl_recording_change {
    uint32_t event;
    uint64_t reserved; /* after it */
};

/** A segment, or a run of mapped pages of an expandable one. */
struct mpl_recording_segment {
    uint64_t bytes;
    uint32_t first, count; /* of layout_blocks */
    uint8_t stream;
    bool is_small, is_expandable;
};

enum mpl_layout_state { MPL_LAYOUT_IDLE = 0, MPL_LAYOUT_IN_USE, MPL_LAYOUT_WAITING };

struct mpl_recording_block {
    uint64_t bytes;
    uint8_t state; /* enum mpl_layout_state */
};

struct mpl_recording_result {
    struct mpl_counters end;
    bool has_card;         /* its total is known */
    uint64_t free_on_card; /* bytes, at the end */
    uint32_t events;       /* that were run */
    uint32_t peak_event;   /* where reserved was highest, first time */
    MPL_VEC(struct mpl_recording_mark) marks;
    MPL_VEC(struct mpl_recording_failure) failures;
    MPL_VEC(struct mpl_recording_change) changes;   /* of reserved bytes */
    MPL_VEC(struct mpl_recording_segment) segments; /* at the end, by address */
    MPL_VEC(struct mpl_recording_block) blocks;
};

/** Runs a recording; it goes on after a failure. *result must be zero; free it, also on failure.
 * Errors: settings that PyTorch refuses, a fraction of a card that is not known, no memory. */
enum memplan_status mpl_recording_run(const struct mpl_recording *recording,
                                      const struct mpl_recording_settings *settings,
                                      struct mpl_recording_result *result,
                                      struct memplan_error *err);

void mpl_recording_result_free(struct mpl_recording_result *result);

/* ---- between the files of a recording ---- */

/** What is taken from the card before the first request counts, besides used_bytes. */
struct mpl_recording_card {
    uint64_t total_bytes, context_bytes;
};

/** torch.OutOfMemoryError's first line for a request that just failed; NULL when out of memory. */
char *mpl_recording_message(const struct mpl_allocator *a, const struct mpl_recording_card *card,
                            uint64_t bytes);

/** Writes down where segments and blocks lie now; false when out of memory. */
bool mpl_recording_layout(const struct mpl_allocator *a, struct mpl_recording_result *result);

#endif
