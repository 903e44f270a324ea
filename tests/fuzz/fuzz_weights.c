/* SPDX-License-Identifier: MIT */
/* Fuzz target: any text as the header of weights and as their index, beside a model. */
#include <memplan.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char model[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"vocab_size\": 256}";

/* What was found is a document that an import takes, and a plan comes of it or a sentence. */
static void use(struct memplan_weights *weights)
{
    struct memplan_import *import = NULL;
    struct memplan_error err = {0};
    char *json = NULL;

    if (memplan_weights_to_json(weights, &json, &err)) {
        if (!err.text[0])
            abort(); /* an error without a sentence helps nobody */
        return;
    }
    const struct memplan_import_file files[] = {{"config.json", model, sizeof(model) - 1},
                                                {"weights", json, strlen(json)}};

    if (strcmp(memplan_import_format(json, strlen(json)), "weights") != 0)
        abort();
    if (memplan_import_read(files, 2, &import, &err) && !err.text[0])
        abort();
    memplan_import_free(import);
    memplan_free(json);
}

/* The last number of the text: where a header that is sound says that the data end. */
static uint64_t last_number(const uint8_t *data, size_t size)
{
    uint64_t number = 0, scale = 1;

    while (size && (data[size - 1] < '0' || data[size - 1] > '9'))
        size--;
    for (; size && data[size - 1] >= '0' && data[size - 1] <= '9' && scale < UINT64_MAX / 100;
         size--, scale *= 10)
        number += scale * (uint64_t)(data[size - 1] - '0');
    return number;
}

static void try(const uint8_t *data, size_t size, uint64_t file_bytes, int is_index)
{
    struct memplan_weights *weights = NULL;
    struct memplan_error err = {0};
    enum memplan_status status;

    if (memplan_weights_new(&weights, &err))
        return;
    status = is_index ? memplan_weights_add_index(weights, "index", data, size, &err)
                      : memplan_weights_add(weights, "weights", data, size, file_bytes, &err);
    if (status && !err.text[0])
        abort();
    if (!status)
        use(weights);
    memplan_weights_free(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *file = malloc(size + 8);

    if (!file)
        return 0;
    for (size_t i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)size >> (8 * i));
    if (size)
        memcpy(file + 8, data, size);
    try(file, size + 8, size + 8 + last_number(data, size), 0);
    try(file, size + 8, size + 8, 0);
    if (size >= 8)
        try(data,
            size < memplan_weights_header(data, size) ? size : memplan_weights_header(data, size),
            size, 0);
    try(data ? data : file, size, 0, 1);
    free(file);
    return 0;
}
