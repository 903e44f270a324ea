/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": TRL's command and scripts: which trainer, and how its launcher starts it.
 * source: trl/cli/{accelerate_config,accelerate_launcher}.py, trl/accelerate_configs/,
 * trl/scripts/, examples/scripts/, release 1.16.0
 */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/job.h"

/* What each trains with. NULL: not modelled. */
static const struct {
    const char *name, *path, *json;
} trainers[] = {
    {"sft", "import.sft", "true"},
    {"dpo", "training.loss.name", "\"dpo\""},
    {"grpo", "training.loss.name", "\"grpo\""},
    {"reward", NULL, NULL},
    {"reward_modeling", NULL, NULL},
    {"kto", NULL, NULL},
    {"rloo", NULL, NULL},
    {"ppo", NULL, NULL},
    {"ppo_tldr", NULL, NULL},
    {"online_dpo", NULL, NULL},
    {"nash_md", NULL, NULL},
    {"xpo", NULL, NULL},
    {"bco", NULL, NULL},
    {"cpo", NULL, NULL},
    {"orpo", NULL, NULL},
    {"gkd", NULL, NULL},
    {"gold", NULL, NULL},
    {"distillation", NULL, NULL},
    {"prm", NULL, NULL},
};

/* Files of TRL that --accelerate_config names; each is for eight processes in bf16. */
static const struct {
    const char *name, *path, *json;
} templates[] = {
    {"single_gpu", "import.distributed", "\"no\""},
    {"multi_gpu", "import.distributed", "\"multi_gpu\""},
    {"zero1", "import.zero_stage", "1"},
    {"zero2", "import.zero_stage", "2"},
    {"zero3", "import.zero_stage", "3"},
    {"fsdp1", "import.fsdp_version", "1"},
    {"fsdp2", "import.fsdp_version", "2"},
};

static enum memplan_status take_template(struct mpl_job *job, const struct mpl_import_place *place,
                                         size_t i, struct memplan_error *err)
{
    const bool is_single = i == 0, is_fsdp = strncmp(templates[i].name, "fsdp", 4) == 0;
    enum memplan_status status;

    status = mpl_import_set_text(job->import, place, templates[i].path, templates[i].json, err);
    if (!status && is_fsdp)
        status = mpl_import_set_text(job->import, place, "import.fsdp", "true", err);
    if (!status)
        status = mpl_import_set_text(job->import, place, "import.precision", "\"bf16\"", err);
    return status ? status
                  : mpl_import_default(job->import, "import.num_processes", is_single ? "1" : "8",
                                       err);
}

/* --accelerate_config zero2, or a file. */
static enum memplan_status take_accelerate_config(struct mpl_job *job,
                                                  const struct mpl_import_doc *doc,
                                                  struct memplan_error *err)
{
    const char *name = json_string_value(json_object_get(doc->root, "accelerate_config"));
    const struct mpl_import_place place = {doc->file, mpl_import_line(doc, "accelerate_config"),
                                           "--accelerate_config"};

    if (!name)
        return MEMPLAN_OK;
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        if (strcmp(templates[i].name, name) == 0)
            return take_template(job, &place, i, err);
    return mpl_import_take_named(job->import, &place, name, &mpl_import_accelerate,
                                 "the file that accelerate reads", err);
}

static bool has_key(const struct mpl_import_reader *reader, const char *key)
{
    for (size_t i = 0; i < reader->key_count; i++)
        if (strcmp(reader->keys[i].key, key) == 0)
            return true;
    return false;
}

/* "trl sft --num_processes 4": options of accelerate launch among the trainer's flags. */
static enum memplan_status take_launcher_flags(struct mpl_job *job, struct mpl_import_doc *doc,
                                               struct memplan_error *err)
{
    struct mpl_import_doc own = {doc->file, json_object(), json_incref(doc->lines)};
    enum memplan_status status = own.root ? take_accelerate_config(job, doc, err)
                                          : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe(doc->root, next, key, value)
    {
        if (!has_key(&mpl_import_accelerate, key) || has_key(&mpl_import_arguments, key))
            continue;
        json_object_set(own.root, key, value);
        json_object_del(doc->root, key);
    }
    json_object_del(doc->root, "accelerate_config");
    if (!status && json_object_size(own.root))
        status = mpl_import_walk(job->import, &own, own.root, "--", &mpl_import_accelerate, err);
    mpl_import_doc_free(&own);
    return status;
}

/* "sft" of ".../sft.py" and of "trl sft". */
static enum memplan_status take_name(struct mpl_job *job, const char *name, size_t len, bool is_own,
                                     struct memplan_error *err)
{
    struct mpl_import_place place = mpl_job_place(job, 0, name);

    for (size_t i = 0; i < sizeof(trainers) / sizeof(trainers[0]); i++) {
        enum memplan_status status = MEMPLAN_OK;

        if (strlen(trainers[i].name) != len || strncmp(trainers[i].name, name, len) != 0)
            continue;
        if (is_own) /* whose defaults are known */
            status = mpl_import_set_text(job->import, &place, "import.trl", "true", err);
        if (status)
            return status;
        return trainers[i].path
                   ? mpl_import_set_text(job->import, &place, trainers[i].path, trainers[i].json,
                                         err)
                   : mpl_import_fail(&place, MEMPLAN_ERR_UNSUPPORTED, err,
                                     "the loss of this trainer is not modelled; expected sft, dpo "
                                     "or grpo");
    }
    return MEMPLAN_OK;
}

enum memplan_status mpl_job_take_trl(struct mpl_job *job, const char *script,
                                     struct mpl_import_doc *doc, struct memplan_error *err)
{
    const char *name = mpl_job_base_name(script);
    const size_t len = strlen(name);
    const bool is_python = len > 3 && strcmp(name + len - 3, ".py") == 0;
    const bool is_command = strncmp(script, "trl ", 4) == 0;
    const bool is_own =
        is_command || strstr(script, "trl/scripts/") || strstr(script, "examples/scripts/");
    enum memplan_status status = MEMPLAN_OK;

    if (!is_command && !is_python)
        return MEMPLAN_OK;
    if (is_command)
        status = take_launcher_flags(job, doc, err);
    return status ? status
                  : take_name(job, is_command ? script + 4 : name, is_command ? len - 4 : len - 3,
                              is_own, err);
}
