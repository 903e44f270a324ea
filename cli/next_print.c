/* SPDX-License-Identifier: MIT */
/* What to run next: the proposal and its reasons, for people and as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "next.h"
#include "text.h"

static long long value_of(const struct next *next, const struct ledger_entry *entry)
{
    return (long long)entry->id.demands[next->demand].high;
}

static const char *unit_of(const struct next *next)
{
    return next->demand == 0 ? " tokens" : "";
}

static void print_entry(const struct next *next, const struct ledger_entry *entry, const char *what)
{
    char says[64], text[256];

    if (!entry)
        return;
    snprintf(text, sizeof(text), "%lld%s: %s, on %.32s, %s (record %.16s).", value_of(next, entry),
             unit_of(next), ledger_entry_says(entry, says, sizeof(says)),
             ledger_entry_text(entry, "host"), ledger_entry_when(entry).text,
             ledger_entry_text(entry, "id"));
    text_wrap(stdout, what, text);
}

static void print_point(const struct next *next, const struct next_point *point, const char *what)
{
    char needs[64], survival[32], text[256];

    if (!point->value)
        return;
    if (point->refused)
        snprintf(text, sizeof(text), "%lld%s: as much as what failed.", (long long)point->value,
                 unit_of(next));
    else
        snprintf(text, sizeof(text), "%lld%s: needs %s GiB, survival %s.", (long long)point->value,
                 unit_of(next),
                 text_band(point->needs_low_bytes, point->needs_high_bytes, needs, sizeof(needs)),
                 point->survival < 0 ? "not known: no card is given"
                                     : text_chance(point->survival, survival, sizeof(survival)));
    text_wrap(stdout, what, text);
}

static bool ran_before(const struct next *next)
{
    return next->ran && !next->settings->explore &&
           next->ran->id.demands[next->demand].low == next->proposal.value;
}

/* Why this value, or why none. */
static void explain(const struct next *next, char *text, size_t size)
{
    const bool known = next->fits.survival >= 0 || next->fails.survival >= 0;

    if (next->contradicted && next->settings->explore && next->proposal.value)
        snprintf(text, size,
                 "halfway to what failed; the model says that what failed would fit, "
                 "so it is not asked");
    else if (next->contradicted && next->proposal.value)
        snprintf(text, size,
                 "the same run, or more, ran before; the model says that what failed "
                 "would fit, so it proposes nothing");
    else if (next->contradicted)
        snprintf(text, size, "the model says that what failed would fit, so it proposes nothing%s",
                 next->ran ? "" : ", and nothing ran; --explore halves what failed");
    else if (next->settings->explore && next->proposal.value)
        snprintf(text, size, "its outcome would tell most: %.2f bits, survival %.0f %%",
                 next->proposal.bits, 100 * next->proposal.survival);
    else if (next->settings->explore)
        snprintf(text, size,
                 known ? "no run between what is known to run and what is known not "
                         "to would tell anything"
                       : "no card is given, so no outcome is expected");
    else if (ran_before(next))
        snprintf(text, size, "the same run, or more, ran before%s",
                 next->proposal.value == next->fits.value ? ", and it fits" : "");
    else if (next->proposal.value)
        snprintf(text, size,
                 next->failed ? "the largest that fits, and below what failed"
                              : "the largest that fits");
    else
        snprintf(text, size,
                 known || next->failed ? "nothing fits, and nothing ran"
                                       : "no card is given, and nothing ran");
}

static int code_of(const struct next *next)
{
    if (next->proposal.value)
        return MEMPLAN_FITS;
    if (next->contradicted)
        return MEMPLAN_CANNOT_TELL;
    return next->fails.refused || next->fails.survival >= 0 ? MEMPLAN_DOES_NOT_FIT
                                                            : MEMPLAN_CANNOT_TELL;
}

static json_t *point_json(const struct next_point *point)
{
    json_t *json = json_pack("{s:I, s:s}", "value", (json_int_t)point->value, "verdict",
                             memplan_verdict_name((enum memplan_verdict)point->verdict));

    if (point->refused)
        json_object_set_new(json, "refused_by_ledger", json_true());
    if (point->survival >= 0)
        json_object_set_new(json, "survival_probability", json_real(point->survival));
    if (!point->refused)
        json_object_set_new(json, "needs_bytes",
                            json_pack("[I, I]", (json_int_t)point->needs_low_bytes,
                                      (json_int_t)point->needs_high_bytes));
    return json;
}

static int print_json(const struct next *next, const char *why)
{
    json_t *json =
        json_pack("{s:i, s:s, s:I, s:s, s:i}", "schema", 1, "field", next->field, "multiple_of",
                  (json_int_t)next->step, "reason", why, "evaluations", (int)next->evaluations);

    if (next->proposal.value)
        json_object_set_new(json, "proposal", point_json(&next->proposal));
    if (next->proposal.value && next->settings->explore)
        json_object_set_new(json, "information_bits", json_real(next->proposal.bits));
    if (next->fits.value)
        json_object_set_new(json, "fits", point_json(&next->fits));
    if (next->fails.value)
        json_object_set_new(json, "fails", point_json(&next->fails));
    if (next->epoch_steps)
        json_object_set_new(json, "steps_per_epoch", json_integer((json_int_t)next->epoch_steps));
    if (next->contradicted)
        json_object_set_new(json, "model_contradicted", json_true());
    if (next->ran)
        json_object_set_new(json, "ran", json_integer(value_of(next, next->ran)));
    if (next->failed)
        json_object_set_new(json, "failed", json_integer(value_of(next, next->failed)));
    if (!json || json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)))
        message_print("the proposal cannot be written");
    putchar('\n');
    json_decref(json);
    return code_of(next);
}

int next_print(const struct next *next)
{
    char why[192], text[320];

    explain(next, why, sizeof(why));
    if (next->settings->json)
        return print_json(next, why);
    if (next->proposal.value)
        snprintf(text, sizeof(text), "%s = %lld: %s.", next->field, (long long)next->proposal.value,
                 why);
    else
        snprintf(text, sizeof(text), "No value of %s: %s.", next->field, why);
    text_wrap(stdout, "", text);
    print_entry(next, next->ran, "  ran      ");
    print_entry(next, next->failed, "  failed   ");
    print_point(next, &next->fits, "  fits     ");
    print_point(next, &next->fails, "  does not ");
    if (next->epoch_steps)
        printf("  an epoch takes %llu steps at %lld tokens (%s)\n",
               (unsigned long long)next->epoch_steps, (long long)next->proposal.value,
               next->settings->rule);
    return code_of(next);
}
