/* SPDX-License-Identifier: MIT */
/* Defaults of trainers: which release sets what, and what a plan itself says stands above them. */
#include <stdio.h>
#include <string.h>

#include "spec/spec.h"
#include "table/framework.h"
#include "test.h"

static const struct mpl_framework_default *row_of(const char *framework,
                                                  const struct mpl_framework_run *run,
                                                  const char *path)
{
    size_t count = 0;
    const struct mpl_framework_default *rows = mpl_framework_rows(framework, &count);

    return mpl_framework_default(rows, count, run, path);
}

static const char *json_of(const char *framework, struct mpl_release release, const char *path)
{
    const struct mpl_framework_run run = {.releases = {release, {5, 24}, {2, 14}, {1, 15}},
                                          .strategy = MPL_PRESET_ON_NONE};
    const struct mpl_framework_default *row = row_of(framework, &run, path);

    return row ? row->json : "none";
}

START_TEST(a_release_has_its_own_row)
{
    ck_assert_str_eq(json_of("trl-sft", (struct mpl_release){0, 14}, "training.metrics"), "none");
    ck_assert_str_eq(json_of("trl-sft", (struct mpl_release){0, 15}, "training.metrics"),
                     "\"token_accuracy\"");
    ck_assert_str_eq(json_of("trl-sft", (struct mpl_release){0, 24}, "training.metrics"),
                     "\"entropy_and_token_accuracy\"");
    ck_assert_str_eq(json_of("trl-sft", (struct mpl_release){1, 6}, "training.metrics"), "none");
    ck_assert_str_eq(json_of("trl-sft", (struct mpl_release){1, 5}, "training.loss.name"), "none");
    ck_assert_str_eq(json_of("trl-sft", (struct mpl_release){1, 14}, "training.loss.name"),
                     "\"chunked_nll\"");
    ck_assert_str_eq(json_of("trl-sft", (struct mpl_release){1, 15}, "training.loss.name"),
                     "\"fused_lm_head\"");
}
END_TEST

START_TEST(the_fused_optimizer_needs_both_releases)
{
    struct mpl_framework_run run = {
        {{1, 16}, {4, 54}, {2, 8}, {1, 15}}, MPL_PRESET_ON_NONE, false, false, false, NULL};

    ck_assert_ptr_nonnull(row_of("trl-sft", &run, "training.optimizer.fused"));
    run.releases.pytorch = (struct mpl_release){2, 7};
    ck_assert_ptr_null(row_of("trl-sft", &run, "training.optimizer.fused"));
    run.releases.pytorch = (struct mpl_release){2, 8};
    run.releases.transformers = (struct mpl_release){4, 53};
    ck_assert_ptr_null(row_of("trl-sft", &run, "training.optimizer.fused"));
}
END_TEST

/* The rows are found by their ends: a framework whose rows stood in two places would lose some. */
START_TEST(rows_of_a_framework_stand_together)
{
    static const char *const names[] = {"transformers-trainer",
                                        "trl-sft",
                                        "accelerate",
                                        "axolotl",
                                        "llamafactory",
                                        "torchtitan",
                                        "torchtune",
                                        "lightning",
                                        "deepspeed",
                                        "speculators",
                                        "eagle",
                                        "medusa"};
    size_t total = 0, count;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mpl_framework_rows(names[i], &count);
        total += count;
    }
    ck_assert_uint_eq(total, mpl_framework_row_count());
    mpl_framework_rows("nonesuch", &count);
    ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(no_framework_has_none)
{
    ck_assert_str_eq(json_of("loop", (struct mpl_release){0, 0}, "training.micro_batch_size"),
                     "none");
    ck_assert_ptr_null(mpl_framework_newest("transformers-trainer"));
    ck_assert_str_eq(mpl_framework_newest("trl-sft"), "1.16.0");
}
END_TEST

/* ---- in a plan --------------------------------------------------------------------------------
 */

#define MODEL                                                                                      \
    "\"model\": {\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128,"      \
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 100}"

static struct mpl_plan bound(const char *rest)
{
    char text[1024];
    struct memplan_error err = {0};
    struct mpl_plan plan;
    struct mpl_spec *spec;

    snprintf(text, sizeof(text), "{" MODEL ", %s}", rest);
    ck_assert_msg(!mpl_spec_load(text, strlen(text), "plan", &spec, &err), "%s", err.text);
    ck_assert_msg(!mpl_spec_bind(spec, 0, &plan, NULL, &err), "%s", err.text);
    mpl_spec_free(spec);
    return plan;
}

START_TEST(a_plan_that_names_a_trainer_has_its_defaults)
{
    const struct mpl_plan plan = bound("\"framework\": {\"name\": \"trl-sft\"}");

    ck_assert_int_eq(plan.training.sequence_length, 1024);
    ck_assert_int_eq(plan.training.micro_batch_size, 8);
    ck_assert_int_eq(plan.training.autocast, MPL_BFLOAT16);
    ck_assert_int_eq(plan.training.activation_checkpointing, MPL_CHECKPOINTING_FULL);
    ck_assert_int_eq(plan.training.loss.name, MPL_LOSS_FUSED_LM_HEAD);
    ck_assert_int_eq(plan.training.optimizer.fused, MPL_TRUE);
}
END_TEST

START_TEST(what_the_plan_says_stands_above_them)
{
    const struct mpl_plan plan =
        bound("\"framework\": {\"name\": \"trl-sft\", \"version\": \"0.24.0\"},"
              "\"software\": {\"transformers\": \"4.57.1\"},"
              "\"training\": {\"sequence_length\": 64, \"autocast\": null,"
              " \"activation_checkpointing\": \"none\", \"optimizer\": {\"name\": \"sgd\"}}");

    ck_assert_int_eq(plan.training.sequence_length, 64);
    ck_assert_int_eq(plan.training.autocast, MPL_DTYPE_NONE);
    ck_assert_int_eq(plan.training.activation_checkpointing, MPL_CHECKPOINTING_NONE);
    ck_assert_int_eq(plan.training.loss.name, MPL_LOSS_CROSS_ENTROPY);
    ck_assert_int_eq(plan.training.optimizer.fused, MPL_UNSET);
    ck_assert_int_eq(plan.training.metrics, MPL_METRICS_ENTROPY);
    ck_assert(plan.training.use_reentrant);
}
END_TEST

START_TEST(trl_casts_embeddings_back)
{
    static const struct {
        const char *version, *lora;
        bool is_cast;
    } row_table[] = {{"0.13.0", "{\"r\": 8, \"target_modules\": \"all-linear\"}", true},
                     {"0.25.1", "{\"r\": 8, \"target_modules\": \"all-linear\"}", true},
                     {"0.26.0", "{\"r\": 8, \"target_modules\": \"all-linear\"}", false},
                     {"0.13.0", "null", false}};

    for (size_t i = 0; i < 4; i++) {
        char rest[256];

        snprintf(rest, sizeof(rest),
                 "\"framework\": {\"name\": \"trl-sft\", \"version\": \"%s\"}, "
                 "\"training\": {\"lora\": %s}",
                 row_table[i].version, row_table[i].lora);
        ck_assert(bound(rest).training.embeddings_to_bfloat16 == row_table[i].is_cast);
    }
}
END_TEST

START_TEST(the_trainers_release_is_that_of_transformers)
{
    const struct mpl_plan plan =
        bound("\"framework\": {\"name\": \"transformers-trainer\", \"version\": \"4.57.1\"},"
              "\"training\": {\"sequence_length\": 64}");

    ck_assert_int_eq(plan.transformers.major, 4);
    ck_assert_int_eq(plan.transformers.minor, 57);
    ck_assert(plan.training.use_reentrant);
    ck_assert_int_eq(plan.training.parameter_dtype, MPL_FLOAT32);
}
END_TEST

START_TEST(accelerate_reduces_after_the_last_of_several_micro_steps)
{
    static const struct {
        const char *framework, *strategy;
        int micro_steps;
        bool no_sync;
    } run_table[] = {
        {"transformers-trainer", "fsdp1", 2, true},
        {"axolotl", "fsdp2", 2, true},
        {"accelerate", "ddp", 2, true},
        {"transformers-trainer", "zero2", 2, false},
        {"transformers-trainer", "ddp", 1, false},
        {"torchtitan", "fsdp2", 2, false},
        {"lightning", "ddp", 2, true},
        {"lightning", "fsdp2", 2, false},
    };

    for (size_t i = 0; i < sizeof(run_table) / sizeof(run_table[0]); i++) {
        char rest[256];

        snprintf(rest, sizeof(rest),
                 "\"framework\": {\"name\": \"%s\"}, \"training\": {\"sequence_length\": 64, "
                 "\"gradient_accumulation_steps\": %d}, "
                 "\"parallelism\": {\"strategy\": \"%s\", \"world_size\": 4}",
                 run_table[i].framework, run_table[i].micro_steps, run_table[i].strategy);
        ck_assert_msg(bound(rest).parallelism.no_sync == run_table[i].no_sync, "%s", rest);
    }
}
END_TEST

/* Trainer.accelerator_args: what is no PreTrainedModel, and what does not checkpoint. */
START_TEST(the_trainers_ddp_looks_for_unused_parameters)
{
    static const struct {
        const char *framework, *training;
        bool looks;
    } run_table[] = {
        {"transformers-trainer", "\"activation_checkpointing\": \"none\"", true},
        {"transformers-trainer", "\"activation_checkpointing\": \"full\"", false},
        {"transformers-trainer",
         "\"activation_checkpointing\": \"full\", \"lora\": {\"r\": 8, \"target_modules\": "
         "[\"q_proj\"]}",
         true},
        {"trl-sft", "\"optimizer\": {\"name\": \"sgd\"}", false}, /* checkpoints by itself */
        {"accelerate", "\"activation_checkpointing\": \"none\"", false},
    };

    for (size_t i = 0; i < sizeof(run_table) / sizeof(run_table[0]); i++) {
        char rest[320];

        snprintf(rest, sizeof(rest),
                 "\"framework\": {\"name\": \"%s\"}, \"training\": {\"sequence_length\": 64, %s}, "
                 "\"parallelism\": {\"strategy\": \"ddp\", \"world_size\": 4}",
                 run_table[i].framework, run_table[i].training);
        ck_assert_msg(bound(rest).parallelism.find_unused_parameters == run_table[i].looks, "%s",
                      rest);
    }
}
END_TEST

START_TEST(what_accelerate_wraps_hangs_on_its_release)
{
    static const struct {
        const char *software;
        enum mpl_wrap wrap;
    } release_table[] = {{"1.13.0", MPL_WRAP_LAYER}, {"1.14.0", MPL_WRAP_LAYER_EMBEDDING_TAIL}};

    for (size_t i = 0; i < 2; i++) {
        char rest[256];
        struct mpl_plan plan;

        snprintf(rest, sizeof(rest),
                 "\"framework\": {\"name\": \"transformers-trainer\"}, \"software\": "
                 "{\"accelerate\": \"%s\"}, \"training\": {\"sequence_length\": 64}, "
                 "\"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 4}",
                 release_table[i].software);
        plan = bound(rest);
        ck_assert_int_eq(plan.parallelism.wrap, release_table[i].wrap);
        ck_assert(!plan.training.outputs_to_float32);
    }
}
END_TEST

START_TEST(bf16_is_a_policy_over_shards)
{
    const struct mpl_plan plan = bound("\"framework\": {\"name\": \"axolotl\"}, \"parallelism\": "
                                       "{\"strategy\": \"fsdp2\", \"world_size\": 4}");

    ck_assert_int_eq(plan.training.autocast, MPL_DTYPE_NONE);
    ck_assert_int_eq(plan.training.parameter_dtype, MPL_FLOAT32);
    ck_assert_int_eq(plan.parallelism.param_dtype, MPL_BFLOAT16);
    ck_assert_int_eq(plan.training.sequence_length, 512);
}
END_TEST

START_TEST(adapters_are_a_default_too)
{
    const struct mpl_plan lora = bound("\"framework\": {\"name\": \"llamafactory\"}");
    const struct mpl_plan full = bound("\"framework\": {\"name\": \"llamafactory\"}, "
                                       "\"training\": {\"lora\": {\"r\": 0}}");

    ck_assert_int_eq(lora.training.lora.r, 8);
    ck_assert_int_eq(lora.training.parameter_dtype, MPL_BFLOAT16);
    ck_assert_int_eq(full.training.lora.targets.count, 0);
    ck_assert_int_eq(full.training.parameter_dtype, MPL_FLOAT32);
}
END_TEST

START_TEST(auto_is_filled_in_from_the_width)
{
    const struct mpl_plan plan =
        bound("\"framework\": {\"name\": \"accelerate\"}, \"training\": {\"sequence_length\": 64}, "
              "\"parallelism\": {\"strategy\": \"zero3\", \"world_size\": 4, "
              "\"reduce_bucket_size\": \"auto\", \"stage3_prefetch_bucket_size\": \"auto\", "
              "\"stage3_param_persistence_threshold\": \"auto\"}");

    ck_assert_int_eq(plan.parallelism.reduce_bucket_size, 4096);
    ck_assert_int_eq(plan.parallelism.stage3_prefetch_bucket_size, 3686);
    ck_assert_int_eq(plan.parallelism.stage3_param_persistence_threshold, 640);
}
END_TEST

/* Found in a plan, and what the error names. */
static const struct {
    const char *rest, *text;
} refused_table[] = {
    {"\"framework\": {\"name\": \"torchtitan\", \"version\": \"0.3.0\"}", "CUDA graph"},
    {"\"framework\": {\"name\": \"torchtitan\", \"version\": \"0.1.0\"}", "before 0.2"},
    {"\"framework\": {\"name\": \"deepspeed\"}, \"training\": {\"sequence_length\": 64}",
     "stage 0"},
    {"\"framework\": {\"name\": \"accelerate\"}, \"training\": {\"sequence_length\": 64, "
     "\"autocast\": \"bfloat16\"}, \"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 4}",
     "without autocast"},
    {"\"framework\": {\"name\": \"torchtune\"}, \"training\": {\"sequence_length\": 64}, "
     "\"parallelism\": {\"strategy\": \"ddp\", \"world_size\": 4}",
     "torchtune has FSDP2"},
};

START_TEST(what_is_not_modelled_is_refused_by_name)
{
    char text[1024];
    struct memplan_error err = {0};
    struct mpl_plan plan;
    struct mpl_spec *spec;

    snprintf(text, sizeof(text), "{" MODEL ", %s}", refused_table[_i].rest);
    ck_assert(!mpl_spec_load(text, strlen(text), "plan", &spec, &err));
    ck_assert(mpl_spec_bind(spec, 0, &plan, NULL, &err));
    ck_assert_msg(strstr(err.text, refused_table[_i].text) != NULL, "%s", err.text);
    mpl_spec_free(spec);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("framework");

    tcase_add_test(tcase, a_release_has_its_own_row);
    tcase_add_test(tcase, the_fused_optimizer_needs_both_releases);
    tcase_add_test(tcase, rows_of_a_framework_stand_together);
    tcase_add_test(tcase, no_framework_has_none);
    tcase_add_test(tcase, a_plan_that_names_a_trainer_has_its_defaults);
    tcase_add_test(tcase, what_the_plan_says_stands_above_them);
    tcase_add_test(tcase, trl_casts_embeddings_back);
    tcase_add_test(tcase, the_trainers_release_is_that_of_transformers);
    tcase_add_test(tcase, accelerate_reduces_after_the_last_of_several_micro_steps);
    tcase_add_test(tcase, the_trainers_ddp_looks_for_unused_parameters);
    tcase_add_test(tcase, what_accelerate_wraps_hangs_on_its_release);
    tcase_add_test(tcase, bf16_is_a_policy_over_shards);
    tcase_add_test(tcase, adapters_are_a_default_too);
    tcase_add_test(tcase, auto_is_filled_in_from_the_width);
    tcase_add_loop_test(tcase, what_is_not_modelled_is_refused_by_name, 0,
                        sizeof(refused_table) / sizeof(refused_table[0]));
    return test_run("framework", tcase);
}
