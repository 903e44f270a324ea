/* SPDX-License-Identifier: MIT */
/* All messages of a window. */
#include "log/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* What no text of a window holds: no form matches across it. */
#define TAKEN '\n'

enum memplan_status mpl_log_scanner_init(struct mpl_log_scanner *scanner, struct memplan_error *err)
{
    const struct mpl_log_form *form;
    enum memplan_status status = mpl_log_pattern_new(mpl_log_event_item, &scanner->item, err);

    for (size_t i = 0; !status && (form = mpl_log_form_at(i)); i++)
        status = mpl_log_pattern_new(form->pattern, &scanner->forms[i], err);
    return status ? status : mpl_log_prefixes_init(&scanner->prefixes, err);
}

void mpl_log_scanner_free(struct mpl_log_scanner *scanner)
{
    for (size_t i = 0; i < MPL_LOG_FORMS; i++)
        mpl_log_pattern_free(scanner->forms[i]);
    mpl_log_pattern_free(scanner->item);
    mpl_log_prefixes_free(&scanner->prefixes);
}

/* One match of a form: an event, unless another window has it. */
static enum memplan_status take(struct mpl_log_scanner *scanner, size_t form, size_t start,
                                const struct mpl_log_span *span, struct mpl_log_events *events,
                                struct memplan_error *err)
{
    const struct mpl_log_text *joined = &scanner->window.joined;
    const uint32_t at = joined->at[start];
    const struct mpl_log_line *line;
    struct memplan_log_event *event;

    if (at < span->from || at >= span->to)
        return MEMPLAN_OK;
    if (mpl_vec_reserve(events))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading a log");
    event = &events->data[events->len++];
    mpl_log_event_make(mpl_log_form_at(form), scanner->forms[form], scanner->item, joined->bytes,
                       &scanner->memory, event);
    line = mpl_log_window_line(&scanner->window, at);
    event->offset = span->offset + at;
    event->line = span->line + line->number;
    event->rank = line->writer.rank;
    event->local_rank = line->writer.local_rank;
    return MEMPLAN_OK;
}

/* All matches of one form in the joined text. What matched is taken out for the forms after it. */
static enum memplan_status scan_form(struct mpl_log_scanner *scanner, size_t form,
                                     const struct mpl_log_span *span, struct mpl_log_events *events,
                                     struct memplan_error *err)
{
    struct mpl_log_text *joined = &scanner->window.joined;
    enum memplan_status status = MEMPLAN_OK;
    size_t start, end = 0;

    if (!strstr(joined->bytes, mpl_log_form_at(form)->trigger))
        return MEMPLAN_OK;
    while (!status &&
           mpl_log_pattern_match(scanner->forms[form], joined->bytes, joined->len, end, false)) {
        mpl_log_pattern_range(scanner->forms[form], &start, &end);
        status = take(scanner, form, start, span, events, err);
        memset(joined->bytes + start, TAKEN, end - start);
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    const struct memplan_log_event *left = a, *right = b;

    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

enum memplan_status mpl_log_scan(struct mpl_log_scanner *scanner, const char *bytes, size_t len,
                                 const struct mpl_log_span *span, struct mpl_log_events *events,
                                 struct memplan_error *err)
{
    struct mpl_log_window *window = &scanner->window;
    enum memplan_status status = MEMPLAN_OK;
    const size_t before = events->len;

    mpl_log_window_read(window, &scanner->prefixes, bytes, len, span->is_line_start);
    for (size_t group = 0; group < window->group_count && !status; group++) {
        mpl_log_window_join(window, group);
        for (size_t form = 0; !status && mpl_log_form_at(form); form++)
            status = scan_form(scanner, form, span, events, err);
    }
    if (status || events->len == before)
        return status;
    qsort(events->data + before, events->len - before, sizeof(events->data[0]), compare);
    for (size_t i = before; i < events->len; i++)
        mpl_log_event_refine(&scanner->memory, &events->data[i]);
    return MEMPLAN_OK;
}
