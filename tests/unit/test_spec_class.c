/* SPDX-License-Identifier: MIT */
/* Unit tests of stage "spec": a config.json as a plan, and what configuration classes say. */
#include <stdio.h>

#include "spec_fixture.h"
#include "test.h"

START_TEST(config_json_is_a_plan)
{
    struct mpl_spec *spec =
        load("{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
             "\"hidden_size\": 256, \"intermediate_size\": 688, \"num_hidden_layers\": 2, "
             "\"num_attention_heads\": 4, \"vocab_size\": 1000, \"torch_dtype\": \"bfloat16\", "
             "\"use_cache\": true, \"rope_scaling\": null, \"time_step_limit\": [0.0, Infinity]}");

    ck_assert_int_eq(mpl_spec_check(spec, &err), MEMPLAN_ERR_VALUE);
    ck_assert_str_eq(err.path, "/training/sequence_length");
    memset(&err, 0, sizeof(err));
    ck_assert_int_eq(mpl_spec_set(spec, "training.sequence_length=64", &err), MEMPLAN_OK);
    ck_assert_int_eq(mpl_spec_bind(spec, 0, &plan, &notes, &err), MEMPLAN_OK);
    ck_assert_int_eq(plan.training.parameter_dtype, MPL_BFLOAT16);
    ck_assert_int_eq(plan.model.num_key_value_heads, 4);
    ck_assert_int_eq(mpl_spec_set(spec, "training.parameter_dtype=float32", &err), MEMPLAN_OK);
    ck_assert_int_eq(mpl_spec_bind(spec, 0, &plan, &notes, &err), MEMPLAN_OK);
    ck_assert_int_eq(plan.training.parameter_dtype, MPL_FLOAT32);
    mpl_spec_free(spec);
}
END_TEST

/* A model_type in a plan that assumes qwen2: what it is read as, and the note. */
static const struct {
    const char *model_type; /* JSON */
    const char *family;
    enum mpl_note_kind kind;
    const char *says;
} assumed_table[] = {
    {"\"mystery\"", "qwen2", MPL_NOTE_ASSUMED, "\"mystery\" is read as qwen2"},
    {"\"mamba\"", "qwen2", MPL_NOTE_ASSUMED, "\"mamba\" is read as qwen2"},
    {"null", "qwen2", MPL_NOTE_ASSUMED, "is read as qwen2"},
    {"\"llama\"", "llama", MPL_NOTE_IGNORED, "no effect"},
};

START_TEST(unknown_family_is_read_as_another)
{
    struct mpl_spec *spec = load(PLAN);
    char text[64];

    snprintf(text, sizeof(text), "model.model_type=%s", assumed_table[_i].model_type);
    ck_assert_int_eq(mpl_spec_set(spec, "model.assume=qwen2", &err), MEMPLAN_OK);
    ck_assert_int_eq(mpl_spec_set(spec, text, &err), MEMPLAN_OK);
    ck_assert_msg(mpl_spec_check(spec, &err) == MEMPLAN_OK, "%s", err.text);
    ck_assert_int_eq(mpl_spec_bind(spec, 0, &plan, &notes, &err), MEMPLAN_OK);
    ck_assert_str_eq(plan.model.model_type, assumed_table[_i].family);
    ck_assert_int_eq(notes.notes[0].kind, assumed_table[_i].kind);
    ck_assert_msg(strstr(notes.notes[0].text, assumed_table[_i].says) != NULL, "%s",
                  notes.notes[0].text);
    mpl_spec_free(spec);
}
END_TEST

#define SIZES                                                                                      \
    "\"hidden_size\": 256, \"intermediate_size\": 688, \"num_hidden_layers\": 7, "                 \
    "\"num_attention_heads\": 4, \"vocab_size\": 1000"

/* What configuration classes say: a config.json, and what is bound from it. */
static const struct {
    const char *model_type, *more;
    int64_t window;
    const char *layers; /* S: slides; of the 7 layers */
    double partial, logit_cap;
    bool is_tied;
    enum mpl_rope_type rope;
} class_table[] = {
    {"mistral", "", 4096, "SSSSSSS", 1, 0, false, MPL_ROPE_DEFAULT},
    {"mistral", ", \"sliding_window\": null", 0, ".......", 1, 0, false, MPL_ROPE_DEFAULT},
    {"gemma", "", 0, ".......", 1, 0, true, MPL_ROPE_DEFAULT},
    {"gemma2", "", 4096, "S.S.S.S", 1, 30, true, MPL_ROPE_DEFAULT},
    {"gemma2", ", \"final_logit_softcapping\": null, \"sliding_window\": 9", 9, "S.S.S.S", 1, 0,
     true, MPL_ROPE_DEFAULT},
    {"gemma3_text", "", 4096, "SSSSS.S", 1, 0, true, MPL_ROPE_DEFAULT},
    {"gemma3_text", ", \"sliding_window_pattern\": 2", 4096, "S.S.S.S", 1, 0, true,
     MPL_ROPE_DEFAULT},
    {"gemma3_text", ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\"}}",
     4096, "SSSSS.S", 1, 0, true, MPL_ROPE_STATIC},
    {"cohere2", "", 4096, "SSS.SSS", 1, 0, true, MPL_ROPE_DEFAULT},
    {"smollm3", "", 0, ".......", 1, 0, true, MPL_ROPE_DEFAULT},
    {"smollm3",
     ", \"use_sliding_window\": true, \"sliding_window\": 8, \"no_rope_layers\": [1, 0, 1, 1, 1, "
     "1, "
     "0]",
     8, ".S....S", 1, 0, true, MPL_ROPE_DEFAULT},
    {"phi3", ", \"rope_scaling\": {\"type\": \"yarn\"}, \"partial_rotary_factor\": 0.75", 0,
     ".......", 0.75, 0, false, MPL_ROPE_LONGROPE},
    {"phi3", ", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}, \"sliding_window\": 12", 12,
     "SSSSSSS", 0.5, 0, false, MPL_ROPE_DEFAULT},
    {"nemotron", "", 0, ".......", 0.5, 0, false, MPL_ROPE_DEFAULT},
    {"stablelm", "", 0, ".......", 0.25, 0, false, MPL_ROPE_DEFAULT},
    {"glm4", "", 0, ".......", 0.5, 0, false, MPL_ROPE_DEFAULT},
    {"granite", "", 0, ".......", 1, 0, false, MPL_ROPE_DEFAULT},
    {"starcoder2", "", 0, ".......", 1, 0, true, MPL_ROPE_DEFAULT},
    {"olmo", "", 0, ".......", 1, 0, false, MPL_ROPE_DEFAULT},
    {"olmo2", "", 0, ".......", 1, 0, false, MPL_ROPE_DEFAULT},
    {"cohere", "", 0, ".......", 1, 0, true, MPL_ROPE_DEFAULT},
};

START_TEST(classes_set_defaults)
{
    struct mpl_spec *spec;
    char text[640];

    snprintf(text, sizeof(text),
             "{\"model\": {\"model_type\": \"%s\", " SIZES "%s}, \"training\": "
             "{\"sequence_length\": 64, \"attention\": \"eager\"}}",
             class_table[_i].model_type, class_table[_i].more);
    spec = load(text);
    ck_assert_int_eq(mpl_spec_bind(spec, 0, &plan, &notes, &err), MEMPLAN_OK);
    ck_assert_int_eq(plan.model.sliding_window, class_table[_i].window);
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(plan.model.layer_types.of[i],
                         class_table[_i].layers[i] == 'S' ? MPL_LAYER_SLIDING : MPL_LAYER_FULL);
    ck_assert_double_eq(plan.model.partial_rotary_factor, class_table[_i].partial);
    ck_assert_double_eq(plan.model.final_logit_softcapping, class_table[_i].logit_cap);
    ck_assert_int_eq(plan.model.tie_word_embeddings, class_table[_i].is_tied);
    ck_assert_int_eq(plan.model.rope_type, class_table[_i].rope);
    mpl_spec_free(spec);
}
END_TEST

START_TEST(assumed_family_does_not_excuse_a_number)
{
    struct mpl_spec *spec = load(PLAN);

    ck_assert_int_eq(mpl_spec_set(spec, "model.assume=qwen2", &err), MEMPLAN_OK);
    ck_assert_int_eq(mpl_spec_set(spec, "model.model_type=7", &err), MEMPLAN_OK);
    ck_assert_int_eq(mpl_spec_check(spec, &err), MEMPLAN_ERR_VALUE);
    ck_assert_str_eq(err.path, "/model/model_type");
    mpl_spec_free(spec);
}
END_TEST

/* Settings of families that are refused by name. */
static const struct {
    const char *model, *attention;
    enum memplan_status status;
    const char *path;
} refused_table[] = {
    {"\"model_type\": \"gemma2\", " SIZES, "sdpa", MEMPLAN_ERR_VALUE, "/training/attention"},
    {"\"model_type\": \"stablelm\", \"qk_layernorm\": true, \"hidden_size\": 1024, "
     "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 256, "
     "\"vocab_size\": 8",
     "sdpa", MEMPLAN_ERR_UNSUPPORTED, "/model/qk_layernorm"},
    {"\"model_type\": \"gemma\", \"use_bidirectional_attention\": true, " SIZES, "sdpa",
     MEMPLAN_ERR_UNSUPPORTED, "/model/use_bidirectional_attention"},
    {"\"model_type\": \"cohere2\", \"sliding_window\": null, " SIZES, "sdpa", MEMPLAN_ERR_VALUE,
     "/model/sliding_window"},
    {"\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"sliding_attention\": "
     "{\"rope_type\": "
     "\"dynamic\"}}, " SIZES,
     "sdpa", MEMPLAN_ERR_UNSUPPORTED, "/model/rope_parameters/sliding_attention/rope_type"},
    {"\"model_type\": \"smollm3\", \"no_rope_layers\": [2], " SIZES, "sdpa", MEMPLAN_ERR_VALUE,
     "/model/no_rope_layers"},
    {"\"model_type\": \"falcon\", \"alibi\": true, " SIZES,
     "flash_attention_2\", \"parameter_dtype\": \"bfloat16", MEMPLAN_ERR_VALUE,
     "/training/attention"},
    {"\"model_type\": \"llama\", \"head_dim\": 20, " SIZES,
     "flash_attention_3\", \"parameter_dtype\": \"bfloat16", MEMPLAN_ERR_UNSUPPORTED,
     "/model/head_dim"},
    {"\"model_type\": \"bloom\", " SIZES, "flex_attention", MEMPLAN_ERR_VALUE,
     "/training/attention"},
    {"\"model_type\": \"gpt2\", \"attn_pdrop\": 0, " SIZES, "flex_attention",
     MEMPLAN_ERR_UNSUPPORTED, "/training/attention"},
    {"\"model_type\": \"llama\", \"attention_dropout\": 0.1, " SIZES, "flex_attention",
     MEMPLAN_ERR_UNSUPPORTED, "/model/attention_dropout"},
    {"\"model_type\": \"llama\", \"head_dim\": 264, " SIZES,
     "flash_attention_2\", \"parameter_dtype\": \"bfloat16", MEMPLAN_ERR_UNSUPPORTED,
     "/model/head_dim"},
};

START_TEST(classes_refuse)
{
    struct mpl_spec *spec;
    char text[640];

    memset(&err, 0, sizeof(err));
    snprintf(text, sizeof(text),
             "{\"model\": {%s}, \"training\": {\"sequence_length\": 64, \"attention\": \"%s\"}}",
             refused_table[_i].model, refused_table[_i].attention);
    spec = load(text);
    ck_assert_int_eq(mpl_spec_bind(spec, 0, &plan, &notes, &err), refused_table[_i].status);
    ck_assert_str_eq(err.path, refused_table[_i].path);
    mpl_spec_free(spec);
}
END_TEST

/* text_config of a file for text and pictures, and a note that says what is left out */
START_TEST(gemma3_is_its_text_part)
{
    struct mpl_spec *spec =
        load("{\"model\": {\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 256, "
             "\"intermediate_size\": 688, \"num_hidden_layers\": 7, \"sliding_window\": 16}, "
             "\"vision_config\": {\"hidden_size\": 64}}, \"training\": {\"sequence_length\": 64}}");
    bool is_noted = false;

    ck_assert_int_eq(mpl_spec_bind(spec, 0, &plan, &notes, &err), MEMPLAN_OK);
    ck_assert_int_eq(plan.model.hidden_size, 256);
    ck_assert_int_eq(plan.model.num_attention_heads, 8);
    ck_assert_int_eq(plan.model.num_key_value_heads, 4);
    ck_assert_int_eq(plan.model.vocab_size, 262208);
    ck_assert_int_eq(plan.model.sliding_window, 16);
    ck_assert_int_eq(plan.model.layer_types.of[5], MPL_LAYER_FULL);
    for (size_t i = 0; i < notes.count; i++)
        is_noted |= strstr(notes.notes[i].text, "vision tower") != NULL;
    ck_assert(is_noted);
    mpl_spec_free(spec);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("spec_class");

    tcase_add_test(tcase, config_json_is_a_plan);
    tcase_add_loop_test(tcase, unknown_family_is_read_as_another, 0, ROWS(assumed_table));
    tcase_add_test(tcase, assumed_family_does_not_excuse_a_number);
    tcase_add_loop_test(tcase, classes_set_defaults, 0, ROWS(class_table));
    tcase_add_loop_test(tcase, classes_refuse, 0, ROWS(refused_table));
    tcase_add_test(tcase, gemma3_is_its_text_part);
    return test_run("spec_class", tcase);
}
