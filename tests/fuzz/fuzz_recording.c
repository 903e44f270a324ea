/* SPDX-License-Identifier: MIT */
/* Fuzz target: any bytes as a recorded trace, run and written out; after a first byte '=' as
 * settings of the allocator. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "emit/recording_json.h"
#include "ingest/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_settings(const uint8_t *data, size_t size)
{
    struct memplan_error err = {0};
    struct mpl_alloc_conf conf;
    char *text = malloc(size + 1);

    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    for (uint16_t minor = 8; minor <= 14; minor += 6)
        if (mpl_alloc_conf_parse(text, (struct mpl_alloc_release){2, minor}, &conf, &err) &&
            !err.text[0])
            abort(); /* an error without a sentence helps nobody */
    free(text);
}

static void run(const struct mpl_recording *recording)
{
    static const struct mpl_recording_settings none;
    struct mpl_recording_result result = {0};
    char *text = NULL;

    if (!mpl_recording_run(recording, &none, &result, NULL)) {
        if (!mpl_recording_to_json(&result, recording->streams, &text, NULL))
            free(text);
        if (!mpl_recording_to_svg(&result, recording->streams, &text, NULL))
            free(text);
    }
    mpl_recording_result_free(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mpl_recording recording = {0};
    struct memplan_error err = {0};

    if (size && data[0] == '=') {
        read_settings(data + 1, size - 1);
        return 0;
    }
    if (!mpl_recording_load(data, size, "input", &recording, &err))
        run(&recording);
    else if (!err.text[0])
        abort();
    mpl_recording_free(&recording);
    return 0;
}
