/* SPDX-License-Identifier: MIT */
/* Stage "import": the flags of the trainer that a job script launches. */
#include "import/job.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"

/* Whose flags they are: told by what no other has, or by the script's name; tried in order. */
static const struct trainer {
    const struct mpl_import_reader *reader;
    const char *fact;
    const char *keys[4];
    const char *scripts[4];
} trainers[] = {
    {&mpl_import_speculators,
     "import.read_speculators",
     {"verifier_name_or_path"},
     {"speculators.train"}},
    {&mpl_import_megatron,
     "import.read_megatron",
     {"num_attention_heads", "tensor_model_parallel_size", "global_batch_size",
      "encoder_num_layers"},
     {"pretrain_gpt.py", "pretrain_bert.py", "pretrain_mamba.py", "pretrain_t5.py"}},
    {&mpl_import_llamafactory,
     "import.read_llamafactory",
     {"finetuning_type", "cutoff_len"},
     {"llamafactory-cli"}},
    {&mpl_import_torchtitan, "import.read_torchtitan", {"job.config_file"}, {"torchtitan.train"}},
    {&mpl_import_arguments, "import.read_arguments", {NULL}, {NULL}},
};

static const struct trainer *find_trainer(const json_t *flags, const char *script)
{
    for (size_t i = 0; i < sizeof(trainers) / sizeof(trainers[0]); i++) {
        const struct trainer *one = &trainers[i];

        for (size_t k = 0; k < 4; k++)
            if ((one->keys[k] && json_object_get(flags, one->keys[k])) ||
                (one->scripts[k] && strcmp(one->scripts[k], script) == 0))
                return one;
    }
    return &trainers[sizeof(trainers) / sizeof(trainers[0]) - 1];
}

bool mpl_job_has_trainer_flags(const struct mpl_job *job)
{
    static const char *const names[] = {"model_name_or_path",
                                        "per_device_train_batch_size",
                                        "gradient_accumulation_steps",
                                        "deepspeed",
                                        "bf16",
                                        "num_train_epochs",
                                        "verifier_name_or_path",
                                        "num_attention_heads"};

    for (size_t i = job->at; i < job->command->count; i++) {
        const char *value;
        char name[64];

        if (!mpl_job_split_option(mpl_job_word(job, i), name, sizeof(name), &value))
            continue;
        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
            if (strcmp(name, names[n]) == 0)
                return true;
    }
    return false;
}

static bool is_file_of(const char *text, const char *ending)
{
    size_t len = strlen(text), end = strlen(ending);

    return len > end && strcmp(text + len - end, ending) == 0;
}

static bool is_configuration(const char *text)
{
    return is_file_of(text, ".yaml") || is_file_of(text, ".yml") || is_file_of(text, ".json") ||
           is_file_of(text, ".toml");
}

/* TRL's --config, torchtitan's --job.config_file. */
static bool names_configuration(const char *flag)
{
    return strcmp(flag, "config") == 0 || strcmp(flag, "job.config_file") == 0;
}

/* Text as JSON has it: bytes that are no UTF-8, as names of files may have, are replaced. */
static json_t *to_json(const char *text)
{
    json_t *json = json_string(text);
    char copy[2048];

    if (json)
        return json;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(copy);
}

/* "$@" of a script whose arguments are not known. */
static bool is_arguments(const struct mpl_job *job, size_t at)
{
    return job->command->words[at].is_open && strcmp(mpl_job_word(job, at), "$") == 0;
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

        if (is_flag || is_arguments(job, job->at) || used + strlen(next) + 2 > sizeof(text) ||
            *next == '<' || *next == '>')
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
    return is_any ? to_json(text) : json_true();
}

/* A file of settings beside the flags, which go before it. */
static enum memplan_status take_configuration(struct mpl_job *job, const char *path,
                                              struct memplan_error *err)
{
    struct mpl_import_place place = mpl_job_place(job, job->at, path);

    return mpl_import_take_named(job->import, &place, path, NULL, "a file that the trainer reads",
                                 err);
}

static enum memplan_status take_flag(struct mpl_job *job, struct mpl_import_doc *doc,
                                     struct memplan_error *err)
{
    const size_t at = job->at;
    const char *value, *text;
    bool is_open = job->command->words[at].is_open;
    char name[96];
    json_t *json;

    job->at++;
    if (is_arguments(job, at)) {
        const struct mpl_import_place place = mpl_job_place(job, at, "$@");

        mpl_import_note(job->import, &place, "the script's arguments are not known");
        return MEMPLAN_OK;
    }
    if (!mpl_job_split_option(mpl_job_word(job, at), name, sizeof(name), &value))
        return is_configuration(mpl_job_word(job, at))
                   ? take_configuration(job, mpl_job_word(job, at), err)
                   : MEMPLAN_OK;
    json = value ? to_json(value) : flag_value(job, &is_open);
    text = json_string_value(json);
    if (names_configuration(name) && text && is_configuration(text) && !is_open) {
        enum memplan_status status = take_configuration(job, text, err);

        json_decref(json);
        return status;
    }
    if (is_open && strcmp(name, "deepspeed") != 0) /* whatever that is, it is asked for */
        json = json_pack("{s:o}", MPL_IMPORT_OPEN, json);
    json_object_set_new(doc->root, name, json);
    json_object_set_new(doc->lines, name, json_integer(job->command->words[at].line));
    return MEMPLAN_OK;
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
    if (!status && strstr(mpl_job_base_name(script), "dpo") &&
        !mpl_import_get(job->import, "training.loss.name"))
        status = mpl_import_set_text(job->import, &place, "training.loss.name", "\"dpo\"", err);
    return status;
}

static enum memplan_status walk(struct mpl_job *job, const struct mpl_import_doc *doc,
                                const struct mpl_import_place *place, const struct trainer *trainer,
                                struct memplan_error *err)
{
    enum memplan_status status =
        mpl_import_set_text(job->import, place, trainer->fact, "true", err);

    if (!status && trainer->reader == &mpl_import_speculators)
        status = mpl_import_speculators_release(job->import, doc, place, err);
    return status ? status
                  : mpl_import_walk(job->import, doc, doc->root, "--", trainer->reader, err);
}

enum memplan_status mpl_job_take_trainer(struct mpl_job *job, const char *script,
                                         struct memplan_error *err)
{
    struct mpl_import_doc doc = {job->file, json_object(), json_object()};
    const struct mpl_import_place place = mpl_job_place(job, job->at, mpl_job_base_name(script));
    enum memplan_status status = MEMPLAN_OK;

    if (!doc.root || !doc.lines)
        status = mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    while (!status && job->at < job->command->count)
        status = take_flag(job, &doc, err);
    if (!status)
        status = mpl_job_take_trl(job, script, &doc, err);
    if (!status)
        status = take_script(job, script, err);
    if (!status && json_object_size(doc.root))
        status = walk(job, &doc, &place, find_trainer(doc.root, mpl_job_base_name(script)), err);
    mpl_import_doc_free(&doc);
    return status;
}
