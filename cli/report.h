/* SPDX-License-Identifier: MIT */
/* The report that a person reads, made from the report as JSON (docs/json.md). */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** Where and how to print. */
struct page {
    FILE *out;
    bool colour;
    bool failed; /* a table could not be made */
};

/** Prints a whole report. title is used when the plan has no name. False: out of memory. */
bool report_print(FILE *out, const json_t *report, const char *title, bool colour);

/** Prints a refusal of the ledger: a report without figures. */
void report_print_refusal(FILE *out, const json_t *report, const char *title, bool colour);

/** One line of `memplan check`, without newline: verdict, title, needs, survival. */
void report_print_line(FILE *out, const json_t *report, const char *title);

/** Why a launch is refused or let through, for a message: needs, what the card gives, survival and
 * what would fit. */
void report_describe(const json_t *report, char *text, size_t size);

/* Sections, in the order of the page. */
void report_print_peaks(struct page *page, const json_t *report);
void report_print_ranks(struct page *page, const json_t *report);
void report_print_parts(struct page *page, const json_t *report);
void report_print_card(struct page *page, const json_t *report);
void report_print_host(struct page *page, const json_t *report);
void report_print_readings(struct page *page, const json_t *report);
void report_print_alternatives(struct page *page, const json_t *report);
void report_print_deciders(struct page *page, const json_t *report);
void report_print_notes(struct page *page, const json_t *report);

/* Reading the JSON. */

/** A heading on a line of its own, after an empty line. */
void report_heading(struct page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Member of bytes or a count; 0 when it is missing. */
uint64_t report_bytes(const json_t *object, const char *key);

/** Member that is a number; fallback when it is missing. */
double report_number(const json_t *object, const char *key, double fallback);

/** Member that is text; "" when it is missing. Borrowed. */
const char *report_text(const json_t *object, const char *key);

/** Both ends of needs_bytes of a peak; false when it is missing. */
bool report_needs(const json_t *peak, uint64_t *low, uint64_t *high);

/** Lowest and highest needs over the alternatives that are left, or of the peak without any. */
bool report_needs_left(const json_t *report, uint64_t *low, uint64_t *high);

/** What the card can give: "93.20 .. 93.90", GiB; false without a device. */
bool report_usable(const json_t *report, char *text, size_t size);

/** True for an alternative that the readings leave. */
bool report_is_left(const json_t *alternative);

/** "112, 2.9.1": the values of an alternative's "set"; cut off at size. */
void report_label(const json_t *alternative, char *text, size_t size);

/** A value of a "set" as people write it. */
void report_value(const json_t *value, char *text, size_t size);

#endif
