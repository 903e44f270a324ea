/* SPDX-License-Identifier: MIT */
/*
 * Probe: which cards a program would see, and as which number.
 *
 * source: CUDA C programming guide, "CUDA Environment Variables": unset is all, empty is none, the
 * order of the list is the order of the devices, the first invalid entry ends it, a UUID may be cut
 * short while it is unique. PyTorch 2.13: torch/cuda/__init__.py (_parse_visible_devices): numbers
 * are read like strtoul, one that is named twice empties the list. ROCm, "GPU isolation
 * techniques": ROCR_VISIBLE_DEVICES filters first, then HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES
 * number what is left.
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

/* The one card whose UUID begins so; -1: none, or several. */
static int32_t find_uuid(const struct probe *probe, const char *entry, size_t len)
{
    int32_t found = -1;

    for (uint32_t i = 0; i < probe->count; i++) {
        if (strncmp(probe->cards[i].uuid, entry, len) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = (int32_t)i;
    }
    return found;
}

/* The card at a place: the number that the entry begins with, "1st" is 1. -1: none. */
static int32_t find_place(const struct choice *from, const char *entry)
{
    char *end;
    long place = strtol(entry, &end, 10);

    return end == entry || place < 0 || place >= from->count ? -1 : from->of[place];
}

static bool holds(const struct choice *choice, int32_t card)
{
    for (int32_t i = 0; i < choice->count; i++)
        if (choice->of[i] == card)
            return true;
    return false;
}

/* Replaces the choice by what a variable lists; unset: leaves it. A list is of UUIDs or of places,
 * as it begins. */
static void apply_list(const struct probe *probe, const char *variable, struct choice *choice)
{
    const char *list = getenv(variable);
    const bool has_uuids = list && (strncmp(list, "GPU-", 4) == 0 || strncmp(list, "MIG-", 4) == 0);
    struct choice left = {.count = 0};
    char prefix[5] = "";

    if (!list)
        return;
    snprintf(prefix, sizeof(prefix), "%.4s", has_uuids ? list : "");
    while (*list && left.count < PROBE_MOST_CARDS) {
        const size_t len = strcspn(list, ",");
        int32_t card = !has_uuids                      ? find_place(choice, list)
                       : strncmp(list, prefix, 4) == 0 ? find_uuid(probe, list, len)
                                                       : -1;

        if (card < 0)
            break;
        if (holds(&left, card)) {
            left.count = 0; /* named twice: no card at all */
            break;
        }
        left.of[left.count++] = card;
        list += len;
        list += *list == ',';
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
