/* SPDX-License-Identifier: MIT */
/*
 * TRL's best fit decreasing: of each 1000 samples the longest first, into the open pack that it
 * fills best; of those with the same room the one that has had it longest.
 *
 * source: trl 1.16.0, data_utils.py (_pack_bfd); datasets 5.2.0, Dataset.map (batch_size=1000)
 */
#include <string.h>

#include "pack/pack.h"

#define LEVELS 4 /* 64 to the power of 4 is MPL_PACK_LONGEST */
#define NOBODY UINT32_MAX

/* Which rooms some pack has: a set of 0 .. MPL_PACK_LONGEST - 1; a word of one level says which
 * words of the level below hold something. */
struct rooms {
    uint64_t *level[LEVELS];
    size_t words[LEVELS];
};

struct fitting {
    struct mpl_packing *packing;
    struct rooms rooms;
    uint32_t *first, *last;  /* by room: packs that have it, in a queue */
    MPL_VEC(uint32_t) next;  /* by pack: who stands behind it */
    MPL_VEC(uint32_t) items; /* lengths to be packed, at most one map batch's */
    size_t first_pack;       /* of this map batch */
    uint32_t most;
};

static void put_room(struct rooms *rooms, uint32_t room)
{
    for (int i = 0; i < LEVELS; i++, room >>= 6)
        rooms->level[i][room >> 6] |= UINT64_C(1) << (room & 63);
}

static void drop_room(struct rooms *rooms, uint32_t room)
{
    for (int i = 0; i < LEVELS; i++, room >>= 6) {
        rooms->level[i][room >> 6] &= ~(UINT64_C(1) << (room & 63));
        if (rooms->level[i][room >> 6])
            return;
    }
}

/* The smallest room that is at least so large, or NOBODY. */
static uint32_t find_room(const struct rooms *rooms, uint32_t room)
{
    for (int i = 0; i < LEVELS && room >> 6 < rooms->words[i]; i++) {
        const uint64_t bits = rooms->level[i][room >> 6] >> (room & 63);

        if (bits) {
            room += (uint32_t)__builtin_ctzll(bits);
            while (i--)
                room = room << 6 | (uint32_t)__builtin_ctzll(rooms->level[i][room]);
            return room;
        }
        room = (room >> 6) + 1;
    }
    return NOBODY;
}

static bool start(struct fitting *f)
{
    size_t size = f->most + (size_t)1;
    bool has_memory = true;

    for (int i = 0; i < LEVELS; i++) {
        size = size / 64 + 1;
        f->rooms.words[i] = size;
        f->rooms.level[i] = calloc(size, sizeof(uint64_t));
        has_memory = has_memory && f->rooms.level[i];
    }
    f->first = malloc((f->most + (size_t)1) * sizeof(*f->first));
    f->last = malloc((f->most + (size_t)1) * sizeof(*f->last));
    if (f->first)
        memset(f->first, 0xff, (f->most + (size_t)1) * sizeof(*f->first));
    return has_memory && f->first && f->last;
}

static void end(struct fitting *f)
{
    for (int i = 0; i < LEVELS; i++)
        free(f->rooms.level[i]);
    free(f->first);
    free(f->last);
    mpl_vec_free(&f->next);
    mpl_vec_free(&f->items);
}

/* A pack has that room now: it stands at the end of its queue. */
static void enqueue(struct fitting *f, uint32_t pack, uint32_t room)
{
    f->next.data[pack] = NOBODY;
    if (f->first[room] == NOBODY) {
        f->first[room] = pack;
        if (room)
            put_room(&f->rooms, room);
    } else {
        f->next.data[f->last[room]] = pack;
    }
    f->last[room] = pack;
}

static uint32_t dequeue(struct fitting *f, uint32_t room)
{
    const uint32_t pack = f->first[room];

    f->first[room] = f->next.data[pack];
    if (f->first[room] == NOBODY)
        drop_room(&f->rooms, room);
    return pack;
}

static enum memplan_status place(struct fitting *f, uint32_t length)
{
    uint32_t room = find_room(&f->rooms, length), pack;
    struct mpl_pack *packs;

    if (room == NOBODY) {
        if (mpl_vec_reserve(&f->next) || mpl_pack_add(f->packing, 0, 0))
            return mpl_pack_nomem(f->packing);
        pack = (uint32_t)f->next.len++;
        room = f->most;
    } else {
        pack = dequeue(f, room);
    }
    packs = f->packing->packs.data + f->first_pack;
    packs[pack].tokens += length;
    packs[pack].samples++;
    enqueue(f, pack, room - length);
    return MEMPLAN_OK;
}

static int compare_down(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x < y) - (x > y);
}

static enum memplan_status pack_batch(struct fitting *f)
{
    enum memplan_status status = MEMPLAN_OK;

    f->first_pack = f->packing->packs.len;
    f->next.len = 0;
    if (f->items.len)
        qsort(f->items.data, f->items.len, sizeof(*f->items.data), compare_down);
    for (size_t i = 0; i < f->items.len && !status; i++)
        status = place(f, f->items.data[i]);
    for (size_t i = 0; i < f->next.len && !status; i++) { /* as empty as at the start */
        const uint32_t room = f->most - f->packing->packs.data[f->first_pack + i].tokens;

        f->first[room] = NOBODY;
        drop_room(&f->rooms, room);
    }
    f->items.len = 0;
    return status;
}

/* One sample, or its pieces; an empty one is left out. */
static enum memplan_status add_item(struct fitting *f, uint32_t length, bool splits)
{
    struct mpl_packing *p = f->packing;

    if (!length) {
        p->summary.dropped_samples++;
        return MEMPLAN_OK;
    }
    if (!splits)
        mpl_pack_truncate(p, &length);
    if (length / f->most >= MPL_PACK_SAMPLES - f->items.len)
        return mpl_pack_too_many(p);
    p->summary.split_samples += length > f->most;
    while (length) {
        const uint32_t piece = length < f->most ? length : f->most;

        if (mpl_vec_reserve(&f->items))
            return mpl_pack_nomem(p);
        f->items.data[f->items.len++] = piece;
        length -= piece;
    }
    return MEMPLAN_OK;
}

static enum memplan_status best_fit(struct mpl_packing *p, bool splits)
{
    struct fitting f = {.packing = p, .most = (uint32_t)p->options.sequence_length};
    enum memplan_status status = start(&f) ? MEMPLAN_OK : mpl_pack_nomem(p);

    for (size_t i = 0; i < p->count && !status; i++) {
        status = add_item(&f, p->lengths[i], splits);
        if (!status && (i + 1 == p->count || (i + 1) % p->options.map_batch == 0))
            status = pack_batch(&f);
    }
    end(&f);
    return status;
}

enum memplan_status mpl_pack_trl_bfd(struct mpl_packing *p)
{
    return best_fit(p, false);
}

enum memplan_status mpl_pack_trl_bfd_split(struct mpl_packing *p)
{
    return best_fit(p, true);
}
