/* SPDX-License-Identifier: MIT */
/* Stage "import": the flags of the trainer that a job script launches. */
#include "import/job.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"

static bool is_file_of(const char *text, const char *ending)
{
    size_t len = strlen(text), end = strlen(ending);

    return len > end && strcmp(text + len - end, ending) == 0;
}

/* The values behind a flag, joined by spaces: a list has several. */
static json_t *flag_value(struct mpl_job *job, bool *is_open)
{
    char text[2048] = "";
    size_t used = 0;
    bool is_any = false;

    while (job->at < job->command->count) {
        const char *next = mpl_job_word(job, job->at);
        const bool is_flag =
            next[0] == '-' && (next[1] == '-' || (next[1] >= 'a' && next[1] <= 'z'));

        if (is_flag || used + strlen(next) + 2 > sizeof(text) || strchr("<>", *next))
            break;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "", next);
        *is_open = *is_open || job->command->words[job->at].is_open;
        is_any = true;
        job->at++;
    }
    if (is_any && *text == '{') {
        json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

        if (json)
            return json;
    }
    return is_any ? json_string(text) : json_true();
}

static void take_flag(struct mpl_job *job, struct mpl_import_doc *doc)
{
    size_t at = job->at;
    const char *value;
    bool is_open = job->command->words[at].is_open;
    char name[96];
    json_t *json;

    job->at++;
    if (!mpl_job_split_option(mpl_job_word(job, at), name, sizeof(name), &value)) {
        struct mpl_import_place place = mpl_job_place(job, at, mpl_job_word(job, at));

        if (is_file_of(mpl_job_word(job, at), ".yaml") ||
            is_file_of(mpl_job_word(job, at), ".yml") || is_file_of(mpl_job_word(job, at), ".json"))
            mpl_import_note(job->import, &place,
                            "a file that the trainer reads; give it, too, if it is not given");
        return;
    }
    json = value ? json_string(value) : flag_value(job, &is_open);
    if (is_open && strcmp(name, "deepspeed") != 0) /* whatever that is, it is asked for */
        json = json_pack("{s:o}", MPL_IMPORT_OPEN, json);
    json_object_set_new(doc->root, name, json);
    json_object_set_new(doc->lines, name, json_integer(job->command->words[at].line));
}

/* What the name of a script says: TRL's and others are called after what they do. */
static enum memplan_status take_script(struct mpl_job *job, const char *script,
                                       struct memplan_error *err)
{
    struct mpl_import_place place = mpl_job_place(job, job->at, mpl_job_base_name(script));
    enum memplan_status status;

    status = mpl_import_set_text(job->import, &place, "import.script", "true", err);
    if (!status && strstr(mpl_job_base_name(script), "sft"))
        status = mpl_import_set_text(job->import, &place, "import.sft", "true", err);
    if (!status && strstr(mpl_job_base_name(script), "lora"))
        status = mpl_import_set_text(job->import, &place, "import.use_peft", "true", err);
    if (!status && strstr(mpl_job_base_name(script), "dpo"))
        status = mpl_import_set_text(job->import, &place, "training.loss.name", "\"dpo\"", err);
    return status;
}

enum memplan_status mpl_job_take_trainer(struct mpl_job *job, const char *script,
                                         struct memplan_error *err)
{
    struct mpl_import_doc doc = {job->file, json_object(), json_object()};
    const struct mpl_import_place place = mpl_job_place(job, job->at, mpl_job_base_name(script));
    enum memplan_status status = MEMPLAN_OK;
    bool is_factory;

    if (!doc.root || !doc.lines)
        status = mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    while (!status && job->at < job->command->count)
        take_flag(job, &doc);
    is_factory = json_object_get(doc.root, "finetuning_type") ||
                 json_object_get(doc.root, "cutoff_len") || strcmp(script, "llamafactory-cli") == 0;
    if (!status)
        status = take_script(job, script, err);
    if (!status && json_object_size(doc.root)) {
        status = mpl_import_set_text(
            job->import, &place, is_factory ? "import.read_llamafactory" : "import.read_arguments",
            "true", err);
        if (!status)
            status =
                mpl_import_walk(job->import, &doc, doc.root, "--",
                                is_factory ? &mpl_import_llamafactory : &mpl_import_arguments, err);
    }
    mpl_import_doc_free(&doc);
    return status;
}
