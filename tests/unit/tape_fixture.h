/* SPDX-License-Identifier: MIT */
/*
 * A tape with its timeline for tests of small graphs: leaves by hand, and the log of what was born
 * and died, as text: "neg:24" is 24 bytes that operator neg asked for, "~neg:24" their end.
 */
#ifndef TAPE_FIXTURE_H
#define TAPE_FIXTURE_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "op/op.h"
#include "test.h"

struct fixture {
    struct mpl_timeline timeline;
    struct mpl_tape *tape;
    size_t seen; /* events that the log has shown */
    char log[4096];
};

static inline void fixture_begin(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->tape = mpl_tape_new(&f->timeline);
    ck_assert_ptr_nonnull(f->tape);
    f->tape->has_infos = true;
}

/** Bytes that live: the sum of requests, not rounded. Checks that every event makes sense. */
static inline uint64_t fixture_live(const struct fixture *f)
{
    const struct mpl_timeline *t = &f->timeline;
    bool *is_live = calloc(t->requests.len + 1, sizeof(*is_live));
    uint64_t live = 0, rounded = 0;

    for (size_t i = 0; i < t->events.len; i++) {
        const mpl_event e = t->events.data[i];
        const uint32_t id = mpl_event_id(e);

        if (mpl_event_kind(e) == MPL_EVENT_MARK)
            continue;
        ck_assert_uint_lt(id, t->requests.len);
        ck_assert_msg(is_live[id] == (mpl_event_kind(e) == MPL_EVENT_FREE),
                      "request %u is %s twice", id, is_live[id] ? "allocated" : "freed");
        is_live[id] = !is_live[id];
    }
    for (size_t i = 0; i < t->requests.len; i++) {
        live += is_live[i] ? t->requests.data[i].bytes : 0;
        rounded += is_live[i] ? mpl_round_up(t->requests.data[i].bytes, 512) : 0;
    }
    free(is_live);
    ck_assert_uint_eq(rounded, f->tape->live_bytes);
    return live;
}

/** Frees the tape; whatever a test made must be gone by then. */
static inline void fixture_end(struct fixture *f)
{
    ck_assert_uint_eq(fixture_live(f), 0);
    mpl_tape_free(f->tape);
    mpl_timeline_free(&f->timeline);
}

/** The log since the last look: operators without their overload, and bytes. */
static inline const char *fixture_log(struct fixture *f)
{
    const struct mpl_timeline *t = &f->timeline;
    size_t at = 0;

    f->log[0] = 0;
    for (; f->seen < t->events.len; f->seen++) {
        const mpl_event e = t->events.data[f->seen];
        const uint32_t id = mpl_event_id(e);

        if (mpl_event_kind(e) == MPL_EVENT_MARK)
            continue;
        ck_assert_uint_lt(at, sizeof(f->log) - 128);
        at += (size_t)snprintf(f->log + at, sizeof(f->log) - at, "%s%s%.*s:%" PRIu64, at ? " " : "",
                               mpl_event_kind(e) == MPL_EVENT_FREE ? "~" : "",
                               (int)strcspn(t->infos.data[id].op, "."), t->infos.data[id].op,
                               t->requests.data[id].bytes);
    }
    return f->log;
}

static inline struct mpl_shape shape_of(int ndim, const int64_t *sizes)
{
    struct mpl_shape shape = {.ndim = (uint8_t)ndim};

    for (int i = 0; i < ndim; i++)
        shape.dim[i] = mpl_dim(sizes[i]);
    return shape;
}

/** SHAPE(2, 3): a struct mpl_shape. */
#define SHAPE(...)                                                                                 \
    shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/** A held leaf; is_trained: it wants a gradient. */
static inline struct mpl_tensor *fixture_leaf(struct fixture *f, enum mpl_dtype dtype,
                                              struct mpl_shape shape, bool is_trained)
{
    struct mpl_tensor *leaf = mpl_hold(mpl_empty(f->tape, "leaf", dtype, &shape));

    if (!leaf->is_void)
        leaf->requires_grad = is_trained;
    return leaf;
}

/** Bytes of the storages that a tensor's node keeps for backward, each once. */
static inline uint64_t fixture_saved(const struct mpl_tensor *tensor)
{
    const struct mpl_node *node = tensor->grad_fn;
    uint64_t sum = 0;

    for (int i = 0; node && i < node->saved_count; i++) {
        bool is_new = node->saved[i].tensor != NULL;

        for (int k = 0; k < i && is_new; k++)
            is_new = node->saved[k].tensor->storage != node->saved[i].tensor->storage;
        sum += is_new ? node->saved[i].tensor->storage->bytes : 0;
    }
    return sum;
}

#endif
