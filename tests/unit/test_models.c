/* SPDX-License-Identifier: MIT */
/* The presets: each has a row of oracle/data/parameter-counts.tsv and a source, is a valid plan,
 * and memplan counts the parameters that transformers counts. */
#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "spec/config_class.h"
#include "spec/spec.h"
#include "step/train.h"
#include "test.h"

#define COUNTS "oracle/data/parameter-counts.tsv"
#define FOLDER "../models"

enum { MOST_ROWS = 256, MOST_BYTES = 1 << 16 };

static struct row {
    char preset[64];
    uint64_t parameters;
} rows[MOST_ROWS];
static int row_count;

static struct memplan_error err;

static void read_rows(void)
{
    FILE *file = fopen(COUNTS, "r");
    char line[128];

    while (file && row_count < MOST_ROWS && fgets(line, sizeof(line), file)) {
        struct row *row = &rows[row_count++];

        if (sscanf(line, "%63s\t%" SCNu64, row->preset, &row->parameters) != 2) {
            fprintf(stderr, COUNTS ": %s", line);
            exit(EXIT_FAILURE);
        }
    }
    if (file)
        fclose(file);
}

/* A file's text, in a buffer of its own. */
static const char *read_text(const char *path)
{
    static char text[MOST_BYTES];
    FILE *file = fopen(path, "r");
    size_t len;

    ck_assert_msg(file != NULL, "%s", path);
    len = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    ck_assert_uint_lt(len, sizeof(text) - 1);
    text[len] = '\0';
    return text;
}

static struct mpl_spec *load(const char *preset)
{
    struct mpl_spec *spec = NULL;
    char path[128];
    const char *text;

    snprintf(path, sizeof(path), FOLDER "/%s.json", preset);
    text = read_text(path);
    ck_assert_msg(!mpl_spec_load(text, strlen(text), preset, &spec, &err), "%s", err.text);
    return spec;
}

/* One short step on one rank: the count does not depend on it. */
static uint64_t count_parameters(struct mpl_spec *spec, const char *preset)
{
    static const char *const shortened[] = {
        "training.sequence_length=8", "training.micro_batch_size=1", "training.steps=1",
        "parallelism.strategy=none",  "parallelism.world_size=1",
    };
    /* drafters are always wrapped, and not modelled below */
    static const char *const shortened_drafter[] = {
        "training.sequence_length=512", "training.micro_batch_size=1", "training.steps=1",
        "training.ttt_steps=1",         "parallelism.world_size=1",
    };
    static const char *const shortened_dflash[] = {
        "training.sequence_length=512", "training.micro_batch_size=1", "training.steps=1",
        "training.max_anchors=16",      "parallelism.world_size=1",
    };
    const char *const *settings = strstr(preset, "-eagle3-")   ? shortened_drafter
                                  : strstr(preset, "-dflash-") ? shortened_dflash
                                                               : shortened;
    static const struct mpl_trace_options options = {0};
    static struct mpl_plan plan;
    struct mpl_trace trace = {0};
    uint64_t parameters;

    for (size_t i = 0; i < sizeof(shortened) / sizeof(shortened[0]); i++)
        ck_assert_msg(!mpl_spec_set(spec, settings[i], &err), "%s", err.text);
    ck_assert_msg(!mpl_spec_bind(spec, 0, &plan, NULL, &err), "%s", err.text);
    ck_assert_msg(!mpl_trace_run(&plan, &options, &trace, &err), "%s", err.text);
    parameters = trace.parameters;
    mpl_trace_free(&trace);
    return parameters;
}

START_TEST(counts_are_those_of_transformers)
{
    const struct row *row = &rows[_i];
    struct mpl_spec *spec = load(row->preset);
    const enum memplan_status status = mpl_spec_check(spec, &err);

    ck_assert_msg(!status, "%s: %s", row->preset, err.text);
    ck_assert_msg(count_parameters(spec, row->preset) == row->parameters,
                  "%s: not %" PRIu64 " parameters", row->preset, row->parameters);
    mpl_spec_free(spec);
}
END_TEST

START_TEST(sources_name_every_preset)
{
    const char *sources = read_text(FOLDER "/SOURCES.md");
    char name[80];

    snprintf(name, sizeof(name), "| `%s` |", rows[_i].preset);
    ck_assert_msg(strstr(sources, name) != NULL, "SOURCES.md has no row for %s", rows[_i].preset);
}
END_TEST

/* The drafter is a module of its own, with no count in transformers. */
START_TEST(every_preset_has_a_row)
{
    DIR *folder = opendir(FOLDER);
    const struct dirent *entry;
    int presets = 0;

    ck_assert_ptr_nonnull(folder);
    while ((entry = readdir(folder))) {
        const char *end = strstr(entry->d_name, ".json");
        int i = 0;

        if (!end || strcmp(entry->d_name, "eagle3.json") == 0)
            continue;
        presets++;
        while (i < row_count &&
               (strncmp(rows[i].preset, entry->d_name, (size_t)(end - entry->d_name)) != 0 ||
                rows[i].preset[end - entry->d_name]))
            i++;
        ck_assert_msg(i < row_count, COUNTS " has no row for %s", entry->d_name);
    }
    closedir(folder);
    ck_assert_int_eq(presets, row_count);
    ck_assert_int_ge(presets, 40);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("models");

    read_rows();
    tcase_add_loop_test(tcase, counts_are_those_of_transformers, 0, row_count);
    tcase_add_loop_test(tcase, sources_name_every_preset, 0, row_count);
    tcase_add_test(tcase, every_preset_has_a_row);
    return test_run("models", tcase);
}
