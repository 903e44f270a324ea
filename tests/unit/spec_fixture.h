/* SPDX-License-Identifier: MIT */
/* A plan's document for tests of stage "spec", and where what is bound goes. */
#ifndef SPEC_FIXTURE_H
#define SPEC_FIXTURE_H

#include <check.h>
#include <string.h>

#include "spec/spec.h"

#define LLAMA                                                                                      \
    "\"model\": {\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 688, "    \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "           \
    "\"vocab_size\": 1000}"
#define PLAN "{" LLAMA ", \"training\": {\"sequence_length\": 128}}"

static struct memplan_error err;
static struct mpl_plan plan;
static struct mpl_notes notes;

static struct mpl_spec *load(const char *text)
{
    struct mpl_spec *spec = NULL;

    memset(&err, 0, sizeof(err));
    ck_assert_msg(mpl_spec_load(text, strlen(text), "test.json", &spec, &err) == MEMPLAN_OK, "%s",
                  err.text);
    return spec;
}

#endif
