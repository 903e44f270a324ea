/* SPDX-License-Identifier: MIT */
/* `memplan review`: one plan, on the cards and with the ranks that the object asks for. */
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "message.h"
#include "report.h"
#include "review.h"
#include "run.h"
#include "text.h"

/* One plan under way. */
struct judging {
    const struct settings *settings;
    const struct review_plan *text;
    const struct review_request *request;
    struct review_answer *answer;
    struct memplan_plan *plan;
    bool has_notes;     /* the import did not understand everything */
    bool is_ranks_open; /* so many ranks as nobody says share the model */
    struct memplan_error err;
};

/* ---- from text to a plan ---- */

static enum memplan_status read_import(struct judging *judging, const struct input *model,
                                       struct memplan_import **import_out)
{
    const struct review_plan *text = judging->text;
    struct memplan_import_file files[2];
    size_t used = 0;

    if (model)
        files[used++] = (struct memplan_import_file){model->source, model->text, model->len};
    files[used++] = (struct memplan_import_file){text->where, text->text, text->len};
    return memplan_import_read(files, used, import_out, &judging->err);
}

/* A trainer's configuration as a plan, new. A model that it names is a preset, never a folder. */
static enum memplan_status import_text(struct judging *judging, char **json_out)
{
    struct memplan_import *import = NULL;
    struct input model = {0};
    enum memplan_status status = read_import(judging, NULL, &import);
    const char *name = status ? NULL : memplan_import_model(import);

    if (name && import_preset(name, &model)) {
        memplan_import_free(import);
        import = NULL;
        status = read_import(judging, &model, &import);
    }
    if (!status) {
        judging->has_notes = memplan_import_note(import, 0) != NULL;
        status = memplan_import_to_json(import, json_out, &judging->err);
    }
    input_free(&model);
    memplan_import_free(import);
    return status;
}

/* True for what --model would take as a plan. */
static bool is_plan(const struct review_plan *text)
{
    const char *format = memplan_import_format(text->text, text->len);

    return !format || strcmp(format, "plan") == 0 || strcmp(format, "config.json of a model") == 0;
}

static enum memplan_status load(struct judging *judging)
{
    char source[sizeof(judging->text->where)];
    struct input input = {judging->text->text, judging->text->len, source};
    char *json = NULL;
    enum memplan_status status = MEMPLAN_OK;

    snprintf(source, sizeof(source), "%s", judging->text->where);
    if (judging->text->is_inferred || !is_plan(judging->text))
        status = import_text(judging, &json);
    if (json) {
        input.text = json;
        input.len = strlen(json);
    }
    if (!status)
        status = run_load(judging->settings, &input, &judging->plan, &judging->err);
    memplan_free(json);
    return status;
}

/* ---- what is asked for ---- */

static bool set_number(struct judging *judging, const char *path, int64_t value)
{
    char assignment[96];

    snprintf(assignment, sizeof(assignment), value ? "%s=%lld" : "%s=null", path, (long long)value);
    return memplan_plan_set(judging->plan, assignment, NULL) == MEMPLAN_OK;
}

/* A plan that leaves its ranks open gets those of the request, where it can have so many. */
static void fill_ranks(struct judging *judging, bool has_node)
{
    const struct review_request *request = judging->request;
    bool sets_node = !has_node && request->ranks > request->node;

    if (request->ranks == 1)
        judging->is_ranks_open = false;
    if (request->ranks == 1 || memplan_plan_check(judging->plan, NULL))
        return;
    set_number(judging, "parallelism.world_size", request->ranks);
    if (sets_node)
        set_number(judging, "parallelism.gpus_per_node", request->node);
    if (!memplan_plan_check(judging->plan, NULL)) {
        judging->is_ranks_open = false;
        return;
    }
    set_number(judging, "parallelism.world_size", 0);
    if (sets_node)
        set_number(judging, "parallelism.gpus_per_node", 0);
    review_warn(judging->answer, "the plan is of 1 rank, the request of %lld GPUs",
                (long long)request->ranks);
}

static bool is_sharded(const json_t *document)
{
    const char *strategy = review_text_at(document, "parallelism.strategy");

    return *strategy && strcmp(strategy, "none") != 0 && strcmp(strategy, "ddp") != 0;
}

static void apply_ranks(struct judging *judging, const json_t *document)
{
    const struct review_request *request = judging->request;
    const json_t *world = review_at(document, "parallelism.world_size");
    const json_t *node = review_at(document, "parallelism.gpus_per_node");

    judging->is_ranks_open = (!world || json_is_null(world)) && is_sharded(document);
    if (!request->is_known || request->is_open)
        return;
    if (!request->ranks)
        review_warn(judging->answer, "the request asks for no GPU");
    else if (!world || json_is_null(world))
        fill_ranks(judging, node && !json_is_null(node));
    else if (json_is_integer(world) && json_integer_value(world) != request->ranks)
        review_warn(judging->answer, "the plan has %lld ranks, the request %lld GPUs",
                    (long long)json_integer_value(world), (long long)request->ranks);
}

static bool is_option_of_card(const struct settings *settings)
{
    for (size_t i = 0; i < settings->assignment_count; i++)
        if (strncmp(settings->assignments[i].option, "--gpu ", 6) == 0)
            return true;
    return false;
}

/* Where the pods will run counts more than where the plan says they do. */
static void apply_card(struct judging *judging, const json_t *document)
{
    const struct review_request *request = judging->request;
    const char *own = review_text_at(document, "device.gpu");
    struct memplan_gpu gpu = {.size = sizeof(gpu)};
    char *quoted, *assignment;

    /* Who knows how large it is. */
    if (request->strange[0] && !run_forget_card(judging->plan, &judging->err)) {
        memplan_plan_set(judging->plan, "device.gpu=\"\"", &judging->err);
        return;
    }
    if (!request->card_count || (memplan_gpu_find(own, &gpu, NULL) == MEMPLAN_OK &&
                                 strcmp(gpu.name, request->card.name) == 0))
        return;
    quoted = text_quote(request->card.name);
    assignment = quoted ? text_format("device.gpu=%s", quoted) : NULL;
    if (assignment && !run_forget_card(judging->plan, &judging->err))
        memplan_plan_set(judging->plan, assignment, &judging->err);
    if (*own && !is_option_of_card(judging->settings))
        review_warn(judging->answer, "judged on %s, as the pods select; the plan has %s",
                    request->card.name, own);
    free(assignment);
    free(quoted);
}

static void apply_request(struct judging *judging)
{
    const struct review_request *request = judging->request;
    char *json = NULL;
    json_t *document;

    if (memplan_plan_to_json(judging->plan, &json, NULL))
        return;
    document = json_loads(json, 0, NULL);
    memplan_free(json);
    apply_ranks(judging, document);
    apply_card(judging, document);
    json_decref(document);
    if (request->card_count > 1 && !request->strange[0])
        review_warn(judging->answer, "judged on %s, the largest of the cards that the pods may get",
                    request->card.name);
    if (request->strange[0])
        review_warn(judging->answer, "the card %s is not in the table", request->strange);
    if (request->is_shared)
        review_warn(judging->answer, "judged as if a pod had its card alone, which is shared");
}

/* ---- the answer ---- */

static void warn_invalid(struct judging *judging)
{
    const struct memplan_error *err = &judging->err;
    bool is_unknown = message_code(err->status) == MEMPLAN_CANNOT_TELL;

    judging->answer->verdict = is_unknown ? "cannot_tell" : "invalid_plan";
    review_warn(judging->answer, "%s: %s%s%s", is_unknown ? "cannot tell" : judging->text->where,
                err->path, err->path[0] ? ": " : "",
                err->text[0] ? message_sentence(err) : memplan_status_name(err->status));
}

/* Refuses, and says so once more with what would fit: that takes time. */
static void refuse(struct judging *judging, const struct run *run, const char *verdict,
                   review_keep *keep, void *data)
{
    const char *gpu = review_text_at(run->json, "field.gpu");
    struct memplan_error err;
    char described[200];
    struct run longer;

    report_describe(run->json, described, sizeof(described));
    review_refuse(judging->answer, "%s %s %s: %s", judging->text->where, verdict,
                  *gpu ? gpu : "the card", described);
    keep(judging->answer, data);
    if (json_object_get(run->json, "ledger") ||
        run_plan(judging->settings, judging->plan, RUN_JSON | RUN_SUGGESTIONS, 0, &longer, &err))
        return;
    report_describe(longer.json, described, sizeof(described));
    review_refuse(judging->answer, "%s %s %s: %s", judging->text->where, verdict,
                  *gpu ? gpu : "the card", described);
    run_free(&longer);
}

static void answer(struct judging *judging, const struct run *run, review_keep *keep, void *data)
{
    const int verdict = run_verdict(run);
    /* What a reader of command lines did not understand may need less; so do more ranks. */
    const bool is_sure =
        !judging->is_ranks_open && !(judging->text->is_inferred && judging->has_notes);
    char described[200];

    report_describe(run->json, described, sizeof(described));
    switch (verdict) {
    case MEMPLAN_FITS:
        judging->answer->verdict = "fits";
        return;
    case MEMPLAN_DOES_NOT_FIT:
        judging->answer->verdict = "does_not_fit";
        if (is_sure)
            refuse(judging, run, "does not fit", keep, data);
        else
            review_warn(judging->answer, "may not fit%s: %s",
                        judging->is_ranks_open ? " on 1 rank, the ranks are not known" : "",
                        described);
        return;
    case MEMPLAN_INSIDE_MARGIN:
        judging->answer->verdict = "inside_margin";
        if (is_sure && judging->settings->refuse_margin)
            refuse(judging, run, "is inside the margin of", keep, data);
        else
            review_warn(judging->answer, "may not fit: %s", described);
        return;
    default:
        judging->answer->verdict = "cannot_tell";
        review_warn(judging->answer, "cannot tell: %s", described);
    }
}

bool review_judge(const struct settings *settings, const struct review_plan *plan,
                  const struct review_request *request, struct review_answer *answer_out,
                  review_keep *keep, void *data)
{
    struct judging judging = {
        .settings = settings, .text = plan, .request = request, .answer = answer_out};
    struct run run = {0};
    bool is_done = false;

    if (plan->is_missing) {
        answer_out->verdict = "invalid_plan";
        review_warn(answer_out, "%s is not at hand: not judged", plan->where);
        return true;
    }
    if (!load(&judging)) {
        if (!plan->is_inferred)
            apply_request(&judging);
        else if (!memplan_plan_check(judging.plan, NULL))
            apply_request(&judging);
        is_done = !run_plan(settings, judging.plan, RUN_JSON, 0, &run, &judging.err);
    }
    if (is_done && !(plan->is_inferred && run_verdict(&run) == MEMPLAN_CANNOT_TELL))
        answer(&judging, &run, keep, data);
    else if (plan->is_inferred)
        is_done = false;
    else
        warn_invalid(&judging);
    run_free(&run);
    memplan_plan_free(judging.plan);
    return is_done || !plan->is_inferred;
}
