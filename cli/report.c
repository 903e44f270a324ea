/* SPDX-License-Identifier: MIT */
/* The report that a person reads: header, verdict, notes, and the order of the sections. */
#include "report.h"

#include <memplan.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

struct verdict_word {
    enum memplan_verdict verdict;
    const char *word, *shout, *colour;
};

static const struct verdict_word verdict_words[] = {
    {MEMPLAN_FITS, "fits", "FITS", "\033[1;32m"},
    {MEMPLAN_DOES_NOT_FIT, "does not fit", "DOES NOT FIT", "\033[1;31m"},
    {MEMPLAN_INSIDE_MARGIN, "inside margin", "INSIDE THE MARGIN", "\033[1;33m"},
    {MEMPLAN_CANNOT_TELL, "cannot tell", "CANNOT TELL", "\033[1;33m"},
};

static const struct verdict_word *find_verdict(const json_t *report)
{
    const json_t *code = json_object_get(report, "code");
    const size_t count = sizeof(verdict_words) / sizeof(*verdict_words);

    for (size_t i = 0; i < count; i++)
        if (json_is_integer(code) &&
            json_integer_value(code) == (json_int_t)verdict_words[i].verdict)
            return &verdict_words[i];
    return &verdict_words[count - 1];
}

/* Counts and sizes that do not depend on the step. */
static void print_model(struct page *page, const json_t *report)
{
    uint64_t all = report_bytes(report, "parameters");
    uint64_t trained = report_bytes(report, "trainable_parameters");
    char count[40], trained_count[40];

    fprintf(page->out, "%s parameters, ", text_number(all, count, sizeof(count)));
    if (trained == all)
        fputs("all trained", page->out);
    else
        fprintf(page->out, "%s trained",
                text_number(trained, trained_count, sizeof(trained_count)));
    fprintf(page->out, "; on one rank %.2f GiB, and %.2f GiB of optimizer state\n",
            (double)report_bytes(report, "parameter_bytes") / TEXT_GIB,
            (double)report_bytes(report, "optimizer_bytes") / TEXT_GIB);
}

static void print_header(struct page *page, const json_t *report, const char *title)
{
    const json_t *field = json_object_get(report, "field");
    const char *name = report_text(report, "name"), *gpu = report_text(field, "gpu");
    uint64_t ranks = report_bytes(field, "world_size");
    char *line;

    line = text_format("%s: %s%llu tokens, batch %llu, %llu GPU%s, %s", *name ? name : title,
                       json_object_get(field, "sequence_lengths") ? "lengths in turn, up to " : "",
                       (unsigned long long)report_bytes(field, "sequence_length"),
                       (unsigned long long)report_bytes(field, "micro_batch_size"),
                       (unsigned long long)ranks, ranks == 1 ? "" : "s",
                       *gpu                                  ? gpu
                       : json_object_get(report, "capacity") ? "card as the plan says"
                                                             : "no card");
    if (line)
        text_wrap(page->out, "", line);
    page->failed = page->failed || !line;
    free(line);
    print_model(page, report);
}

void report_describe(const json_t *report, char *text, size_t size)
{
    const json_t *suggestion = json_array_get(json_object_get(report, "suggestions"), 0);
    uint64_t tokens = report_bytes(json_object_get(suggestion, "set"), "training.sequence_length");
    double chance = report_number(json_object_get(report, "peak"), "survival_probability", -1);
    const json_t *ledger = json_object_get(report, "ledger");
    char needs[64] = "?", survival[24], fits[48] = "";
    uint64_t low, high, usable;

    if (ledger) {
        text_cut(report_text(ledger, "text"), text, size);
        return;
    }
    if (report_needs_left(report, &low, &high))
        text_band(low, high, needs, sizeof(needs));
    if (tokens)
        snprintf(fits, sizeof(fits), "; %llu tokens would fit", (unsigned long long)tokens);
    usable = report_bytes(json_object_get(report, "capacity"), "usable_bytes");
    if (!usable || chance < 0)
        snprintf(text, size, "needs %s GiB; %s", needs,
                 strstr(report_text(report, "reason"), "device.context_bytes")
                     ? "give device.context_bytes of the card"
                     : "no card is given");
    else
        snprintf(text, size, "needs %s GiB of %.2f GiB, survival %s%s", needs,
                 (double)usable / TEXT_GIB, text_chance(chance, survival, sizeof(survival)), fits);
}

static void print_suggestions(struct page *page, const json_t *report)
{
    const json_t *suggestion;
    size_t i;

    json_array_foreach(json_object_get(report, "suggestions"), i, suggestion)
    {
        const json_t *set = json_object_get(suggestion, "set");
        uint64_t tokens = report_bytes(set, "training.sequence_length");
        uint64_t fails = report_bytes(suggestion, "fails");

        if (!tokens)
            continue;
        fprintf(page->out, "  Longest sequence that fits: %llu tokens, needs %.2f GiB",
                (unsigned long long)tokens,
                (double)report_bytes(suggestion, "needs_bytes") / TEXT_GIB);
        if (fails)
            fprintf(page->out, "; %llu does not", (unsigned long long)fails);
        fputs(".\n", page->out);
    }
}

static void print_verdict(struct page *page, const json_t *report)
{
    const struct verdict_word *word = find_verdict(report);
    const json_t *peak = json_object_get(report, "peak");
    const char *reason = report_text(report, "reason");
    double chance = report_number(peak, "survival_probability", -1);
    char survival[24];

    fprintf(page->out, "\n%s%s%s", page->colour ? word->colour : "", word->shout,
            page->colour ? "\033[0m" : "");
    if (chance >= 0)
        fprintf(page->out, "   survival %s, asked for %g %%",
                text_chance(chance, survival, sizeof(survival)),
                100 * (1 - report_number(report, "risk", 0)));
    fputc('\n', page->out);
    if (*reason)
        text_wrap(page->out, "  ", reason);
    print_suggestions(page, report);
}

void report_print_notes(struct page *page, const json_t *report)
{
    const json_t *notes = json_object_get(report, "notes"), *note;
    size_t i;

    if (json_array_size(notes))
        report_heading(page, "Notes");
    json_array_foreach(notes, i, note)
    {
        const char *path = report_text(note, "path"), *text = report_text(note, "text");
        char lead[32];
        char *line;

        snprintf(lead, sizeof(lead), "  %-4.8s  ", report_text(note, "code"));
        if (*path && strncmp(text, path, strlen(path)) != 0)
            line = text_format("%s: %s", path, text);
        else
            line = text_format("%s", *text ? text : report_text(note, "title"));
        if (line)
            text_wrap(page->out, lead, line);
        page->failed = page->failed || !line;
        free(line);
    }
}

void report_print_line(FILE *out, const json_t *report, const char *title)
{
    char described[200];

    report_describe(report, described, sizeof(described));
    fprintf(out, "%-13s  %s  %s", find_verdict(report)->word, title, described);
}

void report_print_refusal(FILE *out, const json_t *report, const char *title, bool colour)
{
    struct page page = {.out = out, .colour = colour};
    const char *name = report_text(report, "name");
    char *line = text_format("%s: refused by the ledger; no model was asked (--no-ledger asks it)",
                             *name ? name : title);

    text_wrap(out, "", line ? line : "");
    print_verdict(&page, report);
    free(line);
}

bool report_print(FILE *out, const json_t *report, const char *title, bool colour)
{
    struct page page = {.out = out, .colour = colour};

    print_header(&page, report, title);
    print_verdict(&page, report);
    report_print_peaks(&page, report);
    report_print_ranks(&page, report);
    report_print_parts(&page, report);
    report_print_card(&page, report);
    report_print_host(&page, report);
    report_print_readings(&page, report);
    report_print_alternatives(&page, report);
    report_print_notes(&page, report);
    return !page.failed;
}
