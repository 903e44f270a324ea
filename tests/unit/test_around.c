/* SPDX-License-Identifier: MIT */
/*
 * What stands around the steps: evaluations, resuming, batches ahead. Peaks of real runs on a
 * simulated card (PyTorch 2.14.1, transformers 5.24.0; the Trainer's prediction_step and
 * EvalLoopContainer), to the byte.
 */
#include <stdio.h>
#include <string.h>

#include "pipeline.h"
#include "test.h"

#define PLAN                                                                                       \
    "{\"model\": {\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 688, "   \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "           \
    "\"vocab_size\": 8192, \"max_position_embeddings\": 131072}, "                                 \
    "\"training\": {\"sequence_length\": 256, \"micro_batch_size\": 2, \"steps\": 2, "             \
    "\"shared_batch\": true, \"packing_check\": false, \"from_config\": true, %s}, "               \
    "\"checkpoint\": {\"resume\": \"%s\"}, "                                                       \
    "\"software\": {\"pytorch\": \"2.14.1\", \"transformers\": \"5.24.0\"}, "                      \
    "\"device\": {\"compute_capability\": 8.9, \"multiprocessors\": 128}}"

static enum memplan_status try_plan(const char *training, const char *resume,
                                    struct memplan_report **report, struct memplan_error *err)
{
    const struct memplan_options options = {.size = sizeof(options), .no_suggestions = 1};
    struct mpl_spec *spec = NULL;
    enum memplan_status status;
    char json[2048];

    snprintf(json, sizeof(json), PLAN, training, resume);
    status = mpl_spec_load(json, strlen(json), "plan", &spec, err);
    if (!status)
        status = mpl_pipeline_run(spec, &options, NULL, NULL, report, err);
    mpl_spec_free(spec);
    return status;
}

static const struct recorded_row {
    const char *training, *resume;
    uint64_t resume_peak;               /* 0: none */
    uint64_t training_peak;             /* of all steps */
    uint64_t evaluation_peak, reserved; /* of the whole run */
    const char *worst;                  /* moment */
} recorded_table[] = {
    {"\"parameter_dtype\": \"bfloat16\", \"optimizer\": {\"name\": \"adamw\"}, \"evaluation\": "
     "{\"batches\": 3, \"keep_logits\": true, \"accumulation_steps\": 0, \"gradients\": false}",
     "none", 0, 113796608, 118311936, 178257920, "evaluation"},
    {"\"parameter_dtype\": \"float32\", \"optimizer\": {\"name\": \"adamw\"}, \"evaluation\": "
     "{\"batches\": 5, \"batch_size\": 4, \"keep_logits\": true, \"accumulation_steps\": 2, "
     "\"gradients\": false}",
     "cuda", 90340864, 157576704, 219033088, 354418688, "evaluation"},
    {"\"parameter_dtype\": \"bfloat16\", \"optimizer\": {\"name\": \"adamw\"}, \"evaluation\": "
     "{\"batches\": 2, \"batch_size\": 8, \"keep_logits\": false, \"accumulation_steps\": 0, "
     "\"gradients\": true}",
     "cpu", 33874432, 113796608, 269832704, 312475648, "evaluation"},
    {"\"parameter_dtype\": \"float32\", \"autocast\": \"bfloat16\", \"activation_checkpointing\": "
     "\"full\", \"optimizer\": {\"name\": \"adamw\"}, \"evaluation\": {\"batches\": 3, "
     "\"keep_logits\": true, \"accumulation_steps\": 0, \"gradients\": false}",
     "none", 0, 141812736, 159541760, 226492416, "evaluation"},
};

START_TEST(peaks_are_the_recorded_ones)
{
    const struct recorded_row *row = &recorded_table[_i];
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};
    const struct mpl_replay_result *run;
    const uint64_t *peaks;

    ck_assert_msg(!try_plan(row->training, row->resume, &report, &err), "%s", err.text);
    run = &report->alternatives[0].estimate.unlimited;
    peaks = run->phase_peaks;
    ck_assert_uint_eq(peaks[MPL_PHASE_RESUME], row->resume_peak);
    ck_assert_uint_eq(peaks[MPL_PHASE_BACKWARD], row->training_peak);
    ck_assert_uint_eq(peaks[MPL_PHASE_EVALUATION], row->evaluation_peak);
    ck_assert_uint_eq(run->reserved_peak, row->reserved);
    ck_assert_str_eq(mpl_phase_name(report->alternatives[0].estimate.composition.phase),
                     row->worst);
    memplan_report_free(report);
}
END_TEST

/* A batch of 2 x 256 int64 ids, which are the labels too: 4096 bytes. With three ahead, one more in
 * place of the one that a shared batch's successor finds. */
START_TEST(batches_ahead_lie_on_the_card)
{
    struct memplan_report *none = NULL, *three = NULL;
    struct memplan_error err = {0};

    ck_assert(!try_plan("\"prefetch_batches\": 0", "none", &none, &err));
    ck_assert(!try_plan("\"prefetch_batches\": 3", "none", &three, &err));
    ck_assert_uint_eq(three->alternatives[0].estimate.live_peak,
                      none->alternatives[0].estimate.live_peak + 3 * UINT64_C(4096));
    ck_assert_uint_eq(three->alternatives[0].estimate.live_steps[1].after_step,
                      none->alternatives[0].estimate.live_steps[1].after_step + 3 * UINT64_C(4096));
    memplan_report_free(none);
    memplan_report_free(three);
}
END_TEST

static const struct refused_row {
    const char *training, *resume, *says;
} refused_table[] = {
    {"\"evaluation\": {\"batches\": 1}, \"keep_outputs\": true", "none", "keep_outputs"},
    {"\"evaluation\": {\"batches\": 1}, \"offload_activations\": true", "none",
     "offload_activations"},
    {"\"optimizer\": {\"name\": \"sgd\"}", "cuda", "adamw"},
    {"\"optimizer\": {\"name\": \"adamw\"}", "sharded", "fsdp2"},
    {"\"lora\": {\"r\": 8, \"target_modules\": [\"q_proj\"]}", "cpu", "adapters"},
};

START_TEST(the_rest_is_refused_by_name)
{
    const struct refused_row *row = &refused_table[_i];
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};

    ck_assert_int_eq(try_plan(row->training, row->resume, &report, &err), MEMPLAN_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, row->says) != NULL, "%s", err.text);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("around");

    tcase_add_loop_test(tcase, peaks_are_the_recorded_ones, 0, ROWS(recorded_table));
    tcase_add_test(tcase, batches_ahead_lie_on_the_card);
    tcase_add_loop_test(tcase, the_rest_is_refused_by_name, 0, ROWS(refused_table));
    return test_run("around", tcase);
}
