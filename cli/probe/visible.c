/* SPDX-License-Identifier: MIT */
/*
 * Probe: which cards a program would see, and as which number.
 *
 * source: CUDA C programming guide, "CUDA Environment Variables": unset is all, empty is none, the
 * order of the list is the order of the devices, the first invalid entry ends it, a UUID may be cut
 * short while it is unique. ROCm, "GPU isolation techniques": ROCR_VISIBLE_DEVICES filters first,
 * then HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES number what is left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"

/** Cards that may be chosen from, by their index in the probe. */
struct choice {
    int32_t of[PROBE_MOST_CARDS];
    int32_t count;
};

/* A container has nodes of the cards that it was given. Without the control node (WSL) nodes say
 * nothing. */
static bool has_node(const struct probe_card *card)
{
    char path[256];

    probe_path(path, sizeof(path), "/dev/nvidiactl");
    if (card->node < 0 || access(path, F_OK))
        return true;
    probe_path(path, sizeof(path), "/dev/nvidia%d", card->node);
    return access(path, R_OK | W_OK) == 0;
}

/* The card that an entry names: its place in the list, or a UUID or the beginning of one.
 * Returns -1 when there is none. */
static int32_t find_entry(const struct probe *probe, const struct choice *from, const char *entry,
                          size_t len)
{
    int32_t found = -1;
    char *end;
    long place;

    if (len > 4 && (strncmp(entry, "GPU-", 4) == 0 || strncmp(entry, "MIG-", 4) == 0)) {
        for (uint32_t i = 0; i < probe->count; i++) {
            if (strncmp(probe->cards[i].uuid, entry, len) != 0)
                continue;
            if (found >= 0)
                return -1; /* not unique */
            found = (int32_t)i;
        }
        return found;
    }
    place = strtol(entry, &end, 10);
    if (end != entry + len || len == 0 || place < 0 || place >= from->count)
        return -1;
    return from->of[place];
}

/* Replaces the choice by what a variable lists; unset: leaves it. */
static void apply_list(const struct probe *probe, const char *variable, struct choice *choice)
{
    const char *list = getenv(variable);
    struct choice left = {.count = 0};

    if (!list)
        return;
    while (*list && left.count < PROBE_MOST_CARDS) {
        size_t len;
        int32_t card;

        list += strspn(list, " ");
        len = strcspn(list, ", ");
        card = find_entry(probe, choice, list, len);
        for (int32_t i = 0; i < left.count && card >= 0; i++)
            if (left.of[i] == card)
                card = -1; /* named twice: an invalid entry */
        if (card < 0)
            break;
        left.of[left.count++] = card;
        list += len;
        list += strspn(list, " ,");
    }
    *choice = left;
}

static void number_cards(struct probe *probe, const struct choice *choice, int32_t from)
{
    for (int32_t i = 0; i < choice->count; i++)
        probe->cards[choice->of[i]].visible = from + i;
}

static void find_nvidia(struct probe *probe)
{
    struct choice choice = {.count = 0};

    if (probe->cuda_has_order)
        return;
    for (uint32_t i = 0; i < probe->count; i++) {
        struct probe_card *card = &probe->cards[i];

        if (card->source != PROBE_NVML || card->has_instances)
            continue;
        if (has_node(card))
            choice.of[choice.count++] = (int32_t)i;
        else
            snprintf(card->remark, sizeof(card->remark), "/dev/nvidia%d cannot be opened",
                     card->node);
    }
    apply_list(probe, "CUDA_VISIBLE_DEVICES", &choice);
    number_cards(probe, &choice, 0);
}

static void find_amd(struct probe *probe)
{
    struct choice choice = {.count = 0};

    for (uint32_t i = 0; i < probe->count; i++)
        if (probe->cards[i].source == PROBE_AMD)
            choice.of[choice.count++] = (int32_t)i;
    apply_list(probe, "ROCR_VISIBLE_DEVICES", &choice);
    apply_list(probe,
               getenv("HIP_VISIBLE_DEVICES") ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES",
               &choice);
    number_cards(probe, &choice, 0);
}

void probe_find_visible(struct probe *probe)
{
    find_nvidia(probe);
    find_amd(probe);
}
