/* SPDX-License-Identifier: MIT */
/* Fuzz target: any bytes as a plan, or, after a first byte '=', as an assignment to one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char base_plan[] =
    "{\"model\": {\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 688,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 1000},"
    " \"training\": {\"sequence_length\": 128}}";

/* Everything that can be done with a plan, on its first combinations. */
static void use(const struct mpl_spec *spec)
{
    static struct mpl_plan plan;
    static struct mpl_notes notes;
    struct memplan_identity id;
    char text[64], *json = NULL;

    for (size_t i = 0; i < mpl_spec_combination_count(spec) && i < 4; i++) {
        mpl_spec_describe(spec, i, text, sizeof(text));
        if (mpl_spec_bind(spec, i, &plan, &notes, NULL))
            continue;
        if (mpl_spec_bind_reading(spec, i, 0, &plan, NULL) || plan.training.sequence_length < 1)
            continue;
        if (!mpl_spec_to_full_json(spec, i, &json, NULL))
            free(json);
    }
    if (!mpl_spec_to_json(spec, &json, NULL))
        free(json);
    if (mpl_spec_combination_count(spec) <= 16 && !mpl_spec_check(spec, NULL))
        mpl_spec_identity(spec, &id, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memplan_error err = {0};
    struct mpl_spec *spec = NULL;

    if (size && data[0] == '=') {
        char *assignment = malloc(size);

        if (assignment && !mpl_spec_load(base_plan, strlen(base_plan), "base", &spec, NULL)) {
            memcpy(assignment, data + 1, size - 1);
            assignment[size - 1] = '\0';
            if (!mpl_spec_set(spec, assignment, &err))
                use(spec);
        }
        free(assignment);
    } else if (!mpl_spec_load(data, size, "input", &spec, &err)) {
        use(spec);
    }
    if (err.status != MEMPLAN_OK && !err.text[0])
        abort(); /* an error without a sentence helps nobody */
    mpl_spec_free(spec);
    return 0;
}
