/* SPDX-License-Identifier: MIT */
/* Segments and blocks as SVG: one row a segment, the largest over the whole width. */
#include <stdlib.h>

#include "base/fail.h"
#include "base/strbuf.h"
#include "emit/recording_json.h"

#define WIDTH     1200.0 /* of the largest segment */
#define LEFT      230.0
#define TOP       64
#define ROW       18
#define BAR       14
#define MOST_ROWS 500
#define MIB       1048576.0

static const struct {
    const char *color, *name;
} state_table[] = {
    [MPL_LAYOUT_IDLE] = {"#e4e4e4", "free"},
    [MPL_LAYOUT_IN_USE] = {"#3b7dd8", "in use"},
    [MPL_LAYOUT_WAITING] = {"#e0962e", "waits for another stream"},
};

#define STATES (sizeof(state_table) / sizeof(state_table[0]))

static void put_head(struct mpl_strbuf *out, const struct mpl_recording_result *result, size_t rows)
{
    mpl_strbuf_printf(out,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
                      "font-family=\"sans-serif\" font-size=\"11\">\n"
                      "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                      (int)(LEFT + WIDTH + 20), TOP + rows * ROW + 16);
    mpl_strbuf_printf(out,
                      "<text x=\"10\" y=\"20\" font-size=\"14\">after %u events: ", result->events);
    mpl_strbuf_fixed(out, (double)result->end.reserved / MIB, 1);
    mpl_strbuf_put(out, " MiB reserved, ");
    mpl_strbuf_fixed(out, (double)result->end.allocated / MIB, 1);
    mpl_strbuf_printf(out, " MiB allocated, %zu segments</text>\n", result->segments.len);
    for (size_t i = 0; i < STATES; i++)
        mpl_strbuf_printf(out,
                          "<rect x=\"%zu\" y=\"32\" width=\"12\" height=\"12\" fill=\"%s\" "
                          "stroke=\"#888888\"/><text x=\"%zu\" y=\"42\">%s</text>\n",
                          10 + i * 90, state_table[i].color, 26 + i * 90, state_table[i].name);
}

static void put_block(struct mpl_strbuf *out, const struct mpl_recording_block *block, double x,
                      double width, size_t y)
{
    mpl_strbuf_put(out, "<rect x=\"");
    mpl_strbuf_fixed(out, x, 2);
    mpl_strbuf_printf(out, "\" y=\"%zu\" width=\"", y);
    mpl_strbuf_fixed(out, width, 2);
    mpl_strbuf_printf(out,
                      "\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.3\">"
                      "<title>%llu bytes, %s</title></rect>\n",
                      BAR, state_table[block->state].color, (unsigned long long)block->bytes,
                      state_table[block->state].name);
}

static void put_segment(struct mpl_strbuf *out, const struct mpl_recording_result *result,
                        const int64_t *streams, size_t index, double scale)
{
    const struct mpl_recording_segment *segment = &result->segments.data[index];
    const size_t y = TOP + index * ROW;
    double x = LEFT;

    mpl_strbuf_printf(out, "<text x=\"10\" y=\"%zu\">", y + BAR - 3);
    mpl_strbuf_fixed(out, (double)segment->bytes / MIB, 1);
    mpl_strbuf_printf(out, " MiB %s, stream %lld%s</text>\n", segment->is_small ? "small" : "large",
                      (long long)streams[segment->stream],
                      segment->is_expandable ? ", expandable" : "");
    for (uint32_t i = 0; i < segment->count; i++) {
        const struct mpl_recording_block *block = &result->blocks.data[segment->first + i];
        const double width = (double)block->bytes * scale;

        put_block(out, block, x, width, y);
        x += width;
    }
}

enum memplan_status mpl_recording_to_svg(const struct mpl_recording_result *result,
                                         const int64_t *streams, char **svg_out,
                                         struct memplan_error *err)
{
    const size_t rows = result->segments.len < MOST_ROWS ? result->segments.len : MOST_ROWS;
    struct mpl_strbuf out = {0};
    uint64_t largest = 1;

    for (size_t i = 0; i < rows; i++)
        if (result->segments.data[i].bytes > largest)
            largest = result->segments.data[i].bytes;
    put_head(&out, result, rows);
    for (size_t i = 0; i < rows; i++)
        put_segment(&out, result, streams, i, WIDTH / (double)largest);
    if (rows < result->segments.len)
        mpl_strbuf_printf(&out, "<text x=\"10\" y=\"%zu\">and %zu more segments</text>\n",
                          TOP + rows * ROW + 10, result->segments.len - rows);
    mpl_strbuf_put(&out, "</svg>\n");
    *svg_out = mpl_strbuf_steal(&out);
    return *svg_out ? MEMPLAN_OK
                    : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while drawing");
}
