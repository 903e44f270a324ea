/* SPDX-License-Identifier: MIT */
/* Memory over one field as SVG: allocated, reserved, the band of needs, the card, observations. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "message.h"
#include "report.h"
#include "sweep.h"
#include "text.h"

#define WIDTH  760.0 /* of the plane */
#define HEIGHT 400.0
#define LEFT   80.0
#define TOP    70.0
#define TICKS  5
#define LABELS 12 /* at most, below the plane */
#define MARGIN 1.05

struct drawing {
    FILE *out;
    const struct sweep *sweep;
    bool is_log;
    double low, high; /* of the field; its logarithm when is_log */
    double top;       /* bytes at the upper edge */
};

/* Places: what has no number stands in the order of the list. */
static double place(const struct drawing *d, double number)
{
    return d->is_log ? log2(number) : number;
}

static double number_of(const struct drawing *d, size_t point)
{
    const double number = sweep_value(d->sweep, point, 0)->number;

    return d->sweep->axes[0].kind == RANGE_TEXT || isnan(number) ? (double)point : number;
}

static double x_of(const struct drawing *d, double number)
{
    const double width = d->high - d->low;

    return LEFT + (width > 0 ? (place(d, number) - d->low) / width : 0.5) * WIDTH;
}

static double y_of(const struct drawing *d, double bytes)
{
    return TOP + HEIGHT * (1 - bytes / d->top);
}

static bool has_figures(const struct sweep_point *point)
{
    return !point->text[0];
}

/* ---- the plane --------------------------------------------------------------------------------
 */

static double observed_bytes(const struct sweep *sweep, size_t i)
{
    return report_number(json_array_get(json_object_get(sweep->report, "readings"), i), "bytes", 0);
}

static void find_extent(struct drawing *d)
{
    const size_t count = d->sweep->count;
    double least = INFINITY, most = -INFINITY;

    for (size_t i = 0; i < count; i++) {
        const struct memplan_summary *s = &d->sweep->points[i].summary;
        const double number = number_of(d, i);

        least = fmin(least, number);
        most = fmax(most, number);
        if (!has_figures(&d->sweep->points[i]))
            continue;
        d->top = fmax(d->top, fmax((double)s->reserved_bytes, (double)s->needs_high_bytes));
    }
    d->is_log = d->sweep->axes[0].range.is_geometric && least > 0;
    d->low = place(d, least);
    d->high = place(d, most);
    for (size_t i = 0; i < count; i++) /* the card's line stands in the picture */
        d->top = fmax(d->top, (double)d->sweep->points[i].summary.usable_bytes);
    for (size_t i = 0; i < json_array_size(json_object_get(d->sweep->report, "readings")); i++)
        d->top = fmax(d->top, observed_bytes(d->sweep, i));
    d->top = d->top > 0 ? d->top * MARGIN : TEXT_GIB;
}

static void put_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, out);
}

static void put_frame(const struct drawing *d)
{
    fprintf(d->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"%d\" y=\"20\" "
            "font-size=\"14\">",
            (int)(LEFT + WIDTH + 30), (int)(TOP + HEIGHT + 60), (int)LEFT);
    put_text(d->out, d->sweep->source);
    fprintf(d->out, ": GiB over %s</text>\n", d->sweep->axes[0].field.path);
    for (int i = 0; i <= TICKS; i++) {
        const double bytes = d->top * i / TICKS;

        fprintf(d->out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n",
                LEFT, y_of(d, bytes), LEFT + WIDTH, y_of(d, bytes), LEFT - 6, y_of(d, bytes) + 4,
                bytes / TEXT_GIB);
    }
}

static void put_labels(const struct drawing *d)
{
    const size_t every = (d->sweep->count + LABELS - 1) / LABELS;

    for (size_t i = 0; i < d->sweep->count; i += every) {
        const struct range_value *value = sweep_value(d->sweep, i, 0);
        char text[64];

        if (d->sweep->axes[0].kind == RANGE_SIZE && value->number > 0)
            text_size((uint64_t)value->number, text, sizeof(text));
        else
            snprintf(text, sizeof(text), "%s", value->text);
        fprintf(d->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
                x_of(d, number_of(d, i)), TOP + HEIGHT + 18);
        put_text(d->out, text);
        fputs("</text>\n", d->out);
    }
}

/* ---- curves -----------------------------------------------------------------------------------
 */

enum curve { ALLOCATED, RESERVED, NEEDS_LOW, NEEDS_HIGH, CAN_GIVE };

static const struct {
    enum curve curve;
    const char *name, *color, *dashes;
} curve_table[] = {
    {ALLOCATED, "allocated", "#3b7dd8", ""},
    {RESERVED, "reserved", "#e0962e", ""},
    {CAN_GIVE, "the card can give", "#c0392b", "6 4"},
};

#define CURVES (sizeof(curve_table) / sizeof(curve_table[0]))

static double bytes_of(const struct sweep_point *point, enum curve curve)
{
    const struct memplan_summary *s = &point->summary;

    switch (curve) {
    case ALLOCATED:
        return (double)s->allocated_bytes;
    case RESERVED:
        return (double)s->reserved_bytes;
    case NEEDS_LOW:
        return (double)s->needs_low_bytes;
    case NEEDS_HIGH:
        return (double)s->needs_high_bytes;
    case CAN_GIVE:
        return (double)s->usable_bytes;
    }
    return 0;
}

static void put_place(const struct drawing *d, size_t i, enum curve curve)
{
    if (has_figures(&d->sweep->points[i]))
        fprintf(d->out, "%.2f,%.2f ", x_of(d, number_of(d, i)),
                y_of(d, bytes_of(&d->sweep->points[i], curve)));
}

static void put_band(const struct drawing *d)
{
    if (d->sweep->peaks_only)
        return;
    fputs("<polygon fill=\"#2e8b57\" fill-opacity=\"0.25\" stroke=\"#2e8b57\" points=\"", d->out);
    for (size_t i = 0; i < d->sweep->count; i++)
        put_place(d, i, NEEDS_LOW);
    for (size_t i = d->sweep->count; i-- > 0;)
        put_place(d, i, NEEDS_HIGH);
    fputs("\"/>\n", d->out);
}

static void put_curve(const struct drawing *d, size_t row)
{
    const enum curve curve = curve_table[row].curve;

    fprintf(d->out,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" "
            "stroke-dasharray=\"%s\" points=\"",
            curve_table[row].color, curve_table[row].dashes);
    for (size_t i = 0; i < d->sweep->count; i++)
        if (bytes_of(&d->sweep->points[i], curve) > 0)
            put_place(d, i, curve);
    fputs("\"/>\n", d->out);
}

/* Each point with its verdict's colour, and its figures where a mouse rests. */
static void put_points(const struct drawing *d)
{
    for (size_t i = 0; i < d->sweep->count; i++) {
        const struct sweep_point *point = &d->sweep->points[i];
        const enum memplan_verdict verdict = point->summary.verdict;

        if (!has_figures(point))
            continue;
        fprintf(d->out, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"3.5\" fill=\"%s\"><title>",
                x_of(d, number_of(d, i)), y_of(d, (double)point->summary.allocated_bytes),
                verdict == MEMPLAN_FITS           ? "#2e8b57"
                : verdict == MEMPLAN_DOES_NOT_FIT ? "#c0392b"
                                                  : "#e0c02e");
        put_text(d->out, sweep_value(d->sweep, i, 0)->text);
        fprintf(d->out, ": %s, allocated %.2f GiB</title></circle>\n",
                memplan_verdict_name(verdict), (double)point->summary.allocated_bytes / TEXT_GIB);
    }
}

/* ---- observations -----------------------------------------------------------------------------
 */

/* The field's value when an observation was made; NAN: not known. */
static double observed_at(const struct sweep *sweep, const json_t *observation)
{
    const char *path = sweep->axes[0].field.path;
    const json_t *value = json_object_get(json_object_get(observation, "set"), path);
    const json_t *here = sweep->plan;
    char part[64];

    if (strcmp(path, "training.sequence_length") == 0)
        return report_number(observation, "sequence_length", NAN);
    for (const char *at = path; !value && here;) {
        const size_t len = strcspn(at, ".");

        snprintf(part, sizeof(part), "%.*s", (int)len, at);
        here = json_object_get(here, part);
        if (!at[len])
            value = here;
        at += len + (at[len] != '\0');
    }
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* A number stands where it was read; an outcome at the card's line, a cross for a failure. */
static void put_observation(const struct drawing *d, size_t i)
{
    const json_t *observation = json_array_get(json_object_get(d->sweep->plan, "observations"), i);
    const char *outcome = report_text(observation, "outcome");
    const double number = observed_at(d->sweep, observation);
    const double bytes = observed_bytes(d->sweep, i);
    double x, y;

    if (isnan(number) || (d->is_log && number <= 0) || place(d, number) < d->low ||
        place(d, number) > d->high)
        return;
    x = x_of(d, number);
    y = bytes > 0 ? y_of(d, bytes) : y_of(d, (double)d->sweep->points[0].summary.usable_bytes);
    if (strcmp(outcome, "oom") == 0)
        fprintf(d->out,
                "<path d=\"M%.2f %.2fl10 10m0 -10l-10 10\" stroke=\"#000000\" stroke-width=\"2\">"
                "<title>observed: out of memory</title></path>\n",
                x - 5, y - 5);
    else
        fprintf(d->out,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"8\" height=\"8\" fill=\"none\" "
                "stroke=\"#000000\" stroke-width=\"1.5\"><title>observed: %s %.2f GiB</title>"
                "</rect>\n",
                x - 4, y - 4, bytes > 0 ? "read" : "ran, no figure", bytes / TEXT_GIB);
}

static void put_legend(const struct drawing *d)
{
    double x = LEFT;

    for (size_t i = 0; i < CURVES; i++, x += 140)
        fprintf(d->out,
                "<line x1=\"%.1f\" y1=\"42\" x2=\"%.1f\" y2=\"42\" stroke=\"%s\" "
                "stroke-width=\"2\" stroke-dasharray=\"%s\"/><text x=\"%.1f\" y=\"46\">%s</text>\n",
                x, x + 24, curve_table[i].color, curve_table[i].dashes, x + 30,
                curve_table[i].name);
    if (!d->sweep->peaks_only)
        fprintf(d->out,
                "<rect x=\"%.1f\" y=\"36\" width=\"24\" height=\"12\" fill=\"#2e8b57\" "
                "fill-opacity=\"0.25\" stroke=\"#2e8b57\"/><text x=\"%.1f\" y=\"46\">needs"
                "</text>\n",
                x, x + 30);
    if (json_array_size(json_object_get(d->sweep->report, "readings")))
        fprintf(d->out,
                "<rect x=\"%.1f\" y=\"38\" width=\"8\" height=\"8\" fill=\"none\" "
                "stroke=\"#000000\"/><text x=\"%.1f\" y=\"46\">observed; cross: out of memory"
                "</text>\n",
                x + 90, x + 104);
}

int sweep_draw(const struct sweep *sweep, const char *path)
{
    struct drawing d = {.sweep = sweep, .out = fopen(path, "w")};
    bool has_failed;

    if (!d.out)
        return message_invalid("%s: %s", path, strerror(errno));
    find_extent(&d);
    put_frame(&d);
    put_legend(&d);
    put_labels(&d);
    put_band(&d);
    for (size_t i = 0; i < CURVES; i++)
        put_curve(&d, i);
    put_points(&d);
    for (size_t i = 0; i < json_array_size(json_object_get(sweep->report, "readings")); i++)
        put_observation(&d, i);
    fputs("</svg>\n", d.out);
    has_failed = ferror(d.out);
    if (fclose(d.out) || has_failed) {
        message_print("%s: %s", path, strerror(errno));
        return CLI_INTERNAL;
    }
    return 0;
}
