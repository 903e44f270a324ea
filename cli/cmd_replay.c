/* SPDX-License-Identifier: MIT */
/* `memplan replay`: a recorded trace through the allocator, under the settings that one gives. */
#include <errno.h>
#include <inttypes.h>
#include <memplan.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "input.h"
#include "lines.h"
#include "message.h"
#include "table.h"
#include "text.h"

#define MOST_BYTES ((size_t)1 << 30)

/* One replay: the trace's own settings, or those of one --conf. */
struct row {
    const char *conf; /* NULL: the trace's */
    struct memplan_replay *replay;
    struct memplan_counters counters;
};

struct rows {
    struct row row[1 + SETTINGS_MOST_CONFS];
    size_t count;
};

static struct memplan_replay_options options_of(const struct settings *settings, const char *conf)
{
    return (struct memplan_replay_options){.size = sizeof(struct memplan_replay_options),
                                           .conf = conf,
                                           .pytorch = settings->pytorch,
                                           .fraction = settings->fraction,
                                           .total_bytes = settings->total_bytes,
                                           .context_bytes = settings->context_bytes,
                                           .until = settings->until};
}

static void rows_free(struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        memplan_replay_free(rows->row[i].replay);
}

static int run_row(const struct settings *settings, const struct memplan_trace *trace,
                   const char *conf, struct rows *rows)
{
    struct memplan_replay_options options = options_of(settings, conf);
    struct memplan_error err = {0};
    struct row *row = &rows->row[rows->count];

    *row = (struct row){.conf = conf, .counters.size = sizeof(row->counters)};
    if (memplan_trace_replay(trace, &options, &row->replay, &err))
        return message_error(&err, conf ? "--conf" : "trace");
    rows->count++;
    return memplan_replay_counters(row->replay, &row->counters, &err) ? message_error(&err, "trace")
                                                                      : 0;
}

static int run_rows(const struct settings *settings, const struct memplan_trace *trace,
                    struct rows *rows)
{
    int code = run_row(settings, trace, NULL, rows);

    for (size_t i = 0; i < settings->conf_count && !code; i++)
        code = run_row(settings, trace, settings->confs[i], rows);
    return code;
}

/* ---- what people read -------------------------------------------------------------------------
 */

static uint64_t failed(const struct row *row)
{
    return row->counters.ooms + row->counters.rejections;
}

static void print_head(const struct memplan_trace_info *info, const char *source)
{
    char size[32], total[32];

    printf("%s: %" PRIu64 " events", source, info->events);
    if (info->total_bytes)
        printf(info->has_history ? ", on a card that can give %s" : ", on a card of %s",
               text_size(info->total_bytes, total, sizeof(total)));
    if (info->initial_blocks)
        printf(", %" PRIu64 " blocks held before the first", info->initial_blocks);
    printf("\n");
    if (info->has_history)
        printf("recorded: at most %s reserved, %" PRIu64 " request%s failed\n",
               text_size(info->reserved_peak, size, sizeof(size)), info->ooms,
               info->ooms == 1 ? "" : "s");
    printf("\n");
}

static void print_row(struct table *table, const struct row *row,
                      const struct memplan_trace_info *info)
{
    const struct memplan_counters *c = &row->counters;
    struct libscols_line *line = table_row(table);
    char text[32];

    table_cell(table, line, 0, "%s",
               row->conf     ? *row->conf ? row->conf : "defaults"
               : *info->conf ? info->conf
                             : "as recorded: defaults");
    if (failed(row))
        table_cell(table, line, 1, "%" PRIu64 " failed, first at %" PRIu64, failed(row),
                   c->first_oom);
    else
        table_cell(table, line, 1, "ran");
    table_cell(table, line, 2, "%s", text_size(c->peak_allocated, text, sizeof(text)));
    table_cell(table, line, 3, "%s", text_size(c->peak_reserved, text, sizeof(text)));
    table_cell(table, line, 4, "%" PRIu64, c->retries);
    table_cell(table, line, 5, "%" PRIu64, c->segments);
}

/* What a setting changes against the first row, in one sentence. */
static void print_change(const struct row *row, const struct row *first)
{
    const uint64_t mine = row->counters.peak_reserved, then = first->counters.peak_reserved;
    const uint64_t apart = mine > then ? mine - then : then - mine;
    char size[32], text[256], lead[96];

    snprintf(lead, sizeof(lead), "%.80s: ", *row->conf ? row->conf : "defaults");
    if (apart)
        snprintf(text, sizeof(text), "%s %s reserved at most (%.1f %%)",
                 text_size(apart, size, sizeof(size)), mine > then ? "more" : "less",
                 then ? 100.0 * (double)apart / (double)then : 0.0);
    else
        snprintf(text, sizeof(text), "as much reserved at most");
    if (failed(row) != failed(first))
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 ", %" PRIu64 " requests fail instead of %" PRIu64, failed(row), failed(first));
    if (row->counters.retries != first->counters.retries)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 ", the cache is emptied to make room %" PRIu64 " times instead of %" PRIu64,
                 row->counters.retries, first->counters.retries);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), ".");
    text_wrap(stdout, lead, text);
}

static int print_rows(const struct rows *rows, const struct memplan_trace_info *info,
                      const char *source)
{
    static const char *const names[] = {
        "settings", "outcome", ">peak allocated", ">peak reserved", ">retries", ">segments", NULL};
    struct table table;

    print_head(info, source);
    table_begin(&table, names);
    for (size_t i = 0; i < rows->count; i++)
        print_row(&table, &rows->row[i], info);
    if (!table_end(&table, stdout)) {
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    if (rows->count > 1)
        printf("\n");
    for (size_t i = 1; i < rows->count; i++)
        print_change(&rows->row[i], &rows->row[0]);
    return 0;
}

/* ---- what programs read -----------------------------------------------------------------------
 */

static int print_result(const struct memplan_replay *replay)
{
    struct memplan_error err = {0};
    char *json = NULL;

    if (memplan_replay_to_json(replay, &json, &err))
        return message_error(&err, "trace");
    fputs(json, stdout);
    memplan_free(json);
    return 0;
}

/* {"results": [{"conf": ..., "result": {...}}, ...]} */
static int print_json(const struct rows *rows, const struct memplan_trace_info *info)
{
    int code = 0;

    printf("{\"schema\":1,\"results\":[");
    for (size_t i = 0; i < rows->count && !code; i++) {
        char *conf = text_quote(rows->row[i].conf ? rows->row[i].conf : info->conf);

        printf("%s{\"conf\":%s,\"result\":", i ? "," : "", conf ? conf : "null");
        code = print_result(rows->row[i].replay);
        printf("}");
        free(conf);
    }
    printf("]}\n");
    return code;
}

static int write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    if (!file)
        return message_invalid("%s: %s", path, strerror(errno));
    if (fputs(text, file) == EOF || fclose(file)) {
        message_print("%s: %s", path, strerror(errno));
        return CLI_INTERNAL;
    }
    return 0;
}

/* The moment that tells most: the first failure, else where reserved memory is highest. Of the last
 * settings that were asked for. */
static int draw(const struct settings *settings, const struct memplan_trace *trace,
                const struct row *row)
{
    struct memplan_replay_options options = options_of(settings, row->conf);
    struct memplan_replay *replay = NULL;
    struct memplan_error err = {0};
    char *svg = NULL;
    int code;

    if (!options.until)
        options.until = 1 + (failed(row) ? row->counters.first_oom : row->counters.peak_event);
    if (memplan_trace_replay(trace, &options, &replay, &err) ||
        memplan_replay_to_svg(replay, &svg, &err))
        code = message_error(&err, "trace");
    else
        code = write_file(settings->svg, svg);
    memplan_free(svg);
    memplan_replay_free(replay);
    return code;
}

static int show(const struct settings *settings, const struct memplan_trace *trace,
                const char *source)
{
    struct memplan_trace_info info = {.size = sizeof(info)};
    struct memplan_error err = {0};
    struct rows rows = {0};
    int code;

    if (memplan_trace_describe(trace, &info, &err))
        return message_error(&err, source);
    code = run_rows(settings, trace, &rows);
    if (!code)
        code = settings->json ? print_json(&rows, &info) : print_rows(&rows, &info, source);
    if (!code && settings->svg)
        code = draw(settings, trace, &rows.row[rows.count - 1]);
    rows_free(&rows);
    return code;
}

/* ---- many cases -------------------------------------------------------------------------------
 */

static int run_line(const struct settings *settings, const struct lines *line, size_t number)
{
    struct memplan_replay_options options =
        options_of(settings, settings->conf_count ? settings->confs[0] : NULL);
    struct memplan_error err = {.status = MEMPLAN_ERR_LIMIT};
    struct memplan_trace *trace = NULL;
    struct memplan_replay *replay = NULL;
    char *json = NULL, *quoted;
    int code = 0;

    if (line->too_long)
        snprintf(err.text, sizeof(err.text), "the line is larger than %zu MiB", MOST_BYTES >> 20);
    else if (!memplan_trace_load(line->text, line->len, "stdin", &trace, &err) &&
             !memplan_trace_replay(trace, &options, &replay, &err))
        memplan_replay_to_json(replay, &json, &err);
    if (json) {
        puts(json);
    } else {
        char text[800];

        snprintf(text, sizeof(text), "%s%s%s", err.path, err.path[0] ? ": " : "", err.text);
        quoted = text_quote(text);
        printf("{\"error\":%s}\n", quoted ? quoted : "\"\"");
        free(quoted);
        message_print("stdin:%zu: %s", number, text);
        code = message_code(err.status);
    }
    memplan_free(json);
    memplan_replay_free(replay);
    memplan_trace_free(trace);
    return code;
}

static int run_lines(const struct settings *settings)
{
    struct lines line = {0};
    int code = 0, got;

    if (settings->word_count || settings->svg || settings->conf_count > 1)
        return message_invalid(
            "replay: --jsonl reads cases from standard input, expected no TRACE, "
            "no --svg and one --conf at most");
    for (size_t number = 1; !(got = lines_read(&line, MOST_BYTES)); number++) {
        if (lines_is_blank(&line))
            continue;
        code = message_fold(code, run_line(settings, &line, number));
        fflush(stdout);
    }
    lines_free(&line);
    return got != EOF ? got : code;
}

int cmd_replay(const struct settings *settings)
{
    struct memplan_trace *trace = NULL;
    struct memplan_error err = {0};
    struct input input;
    int code;

    if (settings->jsonl)
        return run_lines(settings);
    if (settings->word_count != 1)
        return message_invalid("replay: expected one TRACE, or --jsonl");
    if ((code = input_read_file(settings->words[0], MOST_BYTES, &input)))
        return code;
    if (memplan_trace_load(input.text, input.len, input.source, &trace, &err))
        code = message_error(&err, input.source);
    else
        code = show(settings, trace, input.source);
    memplan_trace_free(trace);
    input_free(&input);
    return code;
}
