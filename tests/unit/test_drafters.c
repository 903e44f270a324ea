/* SPDX-License-Identifier: MIT */
/* Drafters of EAGLE-1 and EAGLE-2, and Medusa's heads: what their scripts set, and what they leave
 * no choice in. */
#include <string.h>

#include "spec/check.h"
#include "spec_fixture.h"
#include "test.h"

#define EAGLE                                                                                      \
    "{\"model\": {\"model_type\": \"eagle\", \"hidden_size\": 512, \"intermediate_size\": 1024, "  \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 8, \"vocab_size\": 1000}, "                \
    "\"framework\": {\"name\": \"eagle\"}}"

#define MEDUSA                                                                                     \
    "{\"model\": {\"model_type\": \"medusa\", \"hidden_size\": 512, \"intermediate_size\": 1024, " \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"vocab_size\": 1000}, "                \
    "\"framework\": {\"name\": \"medusa\"}}"

static enum memplan_status try_set(const char *text, const char *assignment)
{
    struct mpl_spec *spec = load(text);
    enum memplan_status status = assignment ? mpl_spec_set(spec, assignment, &err) : MEMPLAN_OK;

    if (!status)
        status = mpl_spec_check(spec, &err);
    if (!status)
        status = mpl_spec_bind(spec, 0, &plan, &notes, &err);
    mpl_spec_free(spec);
    return status;
}

START_TEST(eagle_has_what_its_script_sets)
{
    ck_assert_msg(!try_set(EAGLE, NULL), "%s", err.text);
    ck_assert_int_eq(plan.training.sequence_length, 2048);
    ck_assert_int_eq(plan.training.micro_batch_size, 4);
    ck_assert_int_eq(plan.training.parameter_dtype, MPL_FLOAT32);
    ck_assert_int_eq(plan.training.autocast, MPL_BFLOAT16);
    ck_assert_int_eq(plan.training.activation_checkpointing, MPL_CHECKPOINTING_FULL);
    ck_assert(plan.training.use_reentrant && plan.training.outputs_to_float32);
}
END_TEST

/* TABLE: what is refused, and a word of why. */
static const struct {
    const char *set, *says;
} eagle_refusals[] = {
    {"framework.version=1.0", "cb7e0841"},
    {"model.model_type=llama", "model.model_type eagle"},
    {"model.head_dim=32", "hidden_size / num_attention_heads"},
    {"model.hidden_act=gelu", "silu"},
    {"model.tie_word_embeddings=true", "expected false"},
    {"training.sequence_length=2049", "max_position_embeddings"},
    {"training.attention=sdpa", "eager"},
    {"training.activation_checkpointing=none", "re-entrant"},
    {"training.use_reentrant=false", "re-entrant"},
    {"training.parameter_dtype=bfloat16", "float32"},
    {"training.autocast=float16", "bfloat16"},
    {"training.loss.name=dpo", "script's own"},
    {"training.gradient_accumulation_steps=2", "expected 1"},
    {"training.gradient_clipping=0.5", "clip_grad_value_"},
    {"training.optimizer.name=sgd", "adamw"},
    {"training.padding=true", "padding"},
    {"checkpoint.resume=cuda", "resume"},
};

START_TEST(eagle_refuses)
{
    const enum memplan_status status = try_set(EAGLE, eagle_refusals[_i].set);

    ck_assert_msg(status == MEMPLAN_ERR_UNSUPPORTED && strstr(err.text, eagle_refusals[_i].says),
                  "%s: status %d, %s", eagle_refusals[_i].set, (int)status, err.text);
}
END_TEST

/* Two settings at once: the second alone would not be reached. */
static const char *const eagle_pairs[][2] = {
    {"parallelism.world_size=4", "parallelism.strategy=zero2"},
    {"training.sequence_length=128", "framework.name=loop"},
};

START_TEST(eagle_refuses_pairs)
{
    struct mpl_spec *spec = load(EAGLE);

    for (int i = 0; i < 2; i++)
        ck_assert(!mpl_spec_set(spec, eagle_pairs[_i][i], &err));
    ck_assert_int_eq(mpl_spec_check(spec, &err), MEMPLAN_ERR_UNSUPPORTED);
    mpl_spec_free(spec);
}
END_TEST

START_TEST(medusa_has_what_its_script_sets)
{
    ck_assert_msg(!try_set(MEDUSA, NULL), "%s", err.text);
    ck_assert_str_eq(plan.transformers.text, "4.45.2");
    ck_assert_int_eq(plan.model.medusa_num_heads, 1);
    ck_assert_int_eq(plan.training.sequence_length, 2048);
    ck_assert_int_eq(plan.training.micro_batch_size, 8);
    ck_assert_int_eq(plan.training.parameter_dtype, MPL_BFLOAT16);
    ck_assert_int_eq(plan.training.autocast, MPL_DTYPE_NONE);
    ck_assert(plan.training.gradient_clipping == 1.0 && plan.training.padding);
}
END_TEST

/* TABLE: what is refused, and a word of why. */
static const struct {
    const char *set, *says;
} medusa_refusals[] = {
    {"framework.version=1.0", "e2a5d20c"},
    {"model.model_type=llama", "model.model_type medusa"},
    {"model.tie_word_embeddings=true", "output head trains"},
    {"model.sliding_window=128", "base_model_type mistral"},
    {"model.base_model_type=mixtral", "not modelled"},
    {"model.medusa_num_heads=0", "at least 1"},
    {"software.transformers=4.46.3", "num_items_in_batch"},
    {"software.transformers=5.24.0", "num_items_in_batch"},
    {"training.sequence_length=2", "nothing to predict"},
    {"training.parameter_dtype=float32", "bfloat16"},
    {"training.autocast=float16", "bfloat16"},
    {"training.activation_checkpointing=full", "gradient_checkpointing_enable"},
    {"training.padding=false", "expected true"},
    {"training.loss.num_items_in_batch=true", "script's own"},
    {"training.keep_outputs=true", "keep_outputs"},
    {"training.lora={\"r\": 8, \"alpha\": 8, \"target_modules\": \"all-linear\"}", "lora"},
    {"training.evaluation.batches=1", "evaluation"},
    {"checkpoint.resume=cuda", "resume"},
};

START_TEST(medusa_refuses)
{
    const enum memplan_status status = try_set(MEDUSA, medusa_refusals[_i].set);

    ck_assert_msg(status == MEMPLAN_ERR_UNSUPPORTED && strstr(err.text, medusa_refusals[_i].says),
                  "%s: status %d, %s", medusa_refusals[_i].set, (int)status, err.text);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("drafters");

    tcase_add_test(tcase, eagle_has_what_its_script_sets);
    tcase_add_loop_test(tcase, eagle_refuses, 0,
                        sizeof(eagle_refusals) / sizeof(eagle_refusals[0]));
    tcase_add_loop_test(tcase, eagle_refuses_pairs, 0, 2);
    tcase_add_test(tcase, medusa_has_what_its_script_sets);
    tcase_add_loop_test(tcase, medusa_refuses, 0,
                        sizeof(medusa_refusals) / sizeof(medusa_refusals[0]));
    return test_run("drafters", tcase);
}
