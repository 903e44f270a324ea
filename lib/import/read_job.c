/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": launch lines of a job script.
 * source: accelerate/commands/launch.py, release 1.15.0; llamafactory/launcher.py, release 0.9.5
 */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/job.h"

static bool is_word(const struct mpl_job *job, size_t at, const char *text)
{
    return strcmp(mpl_job_base_name(mpl_job_word(job, at)), text) == 0;
}

static enum memplan_status take_accelerate(struct mpl_job *job, struct memplan_error *err)
{
    struct mpl_import_doc doc = {job->file, json_object(), json_object()};
    const struct mpl_import_place place = mpl_job_place(job, job->at, "accelerate");
    const char *config;
    enum memplan_status status = doc.root && doc.lines
                                     ? mpl_job_take_options(job, NULL, &doc, err)
                                     : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");

    config = json_string_value(json_object_get(doc.root, "config_file"));
    if (config)
        mpl_import_note(job->import, &place,
                        "--config_file %.120s is a file that accelerate reads; give it, too, if it "
                        "is not given",
                        config);
    if (!status)
        status = mpl_import_set_text(job->import, &place, "import.read_accelerate", "true", err);
    if (!status)
        status = mpl_import_walk(job->import, &doc, doc.root, "--", &mpl_import_accelerate, err);
    mpl_import_doc_free(&doc);
    return status;
}

/* python [-u] [-m MODULE] SCRIPT; leaves the scan behind it. Borrowed. */
static const char *skip_python(struct mpl_job *job)
{
    while (is_word(job, job->at, "-u") || is_word(job, job->at, "-m") ||
           is_word(job, job->at, "--module"))
        job->at++;
    return mpl_job_word(job, job->at++);
}

static bool is_python(const struct mpl_job *job)
{
    return strncmp(mpl_job_base_name(mpl_job_word(job, job->at)), "python", 6) == 0;
}

/* True for flags of a trainer somewhere in what is left of the command. */
static bool has_trainer_flags(const struct mpl_job *job)
{
    static const char *const names[] = {"--model_name_or_path",
                                        "--per_device_train_batch_size",
                                        "--gradient_accumulation_steps",
                                        "--deepspeed",
                                        "--bf16",
                                        "--num_train_epochs"};

    for (size_t i = job->at; i < job->command->count; i++)
        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
            if (strncmp(mpl_job_word(job, i), names[n], strlen(names[n])) == 0)
                return true;
    return false;
}

/* A launcher at the word under way: its options are read. False: there is none. */
static bool take_launcher(struct mpl_job *job, enum memplan_status *status,
                          struct memplan_error *err)
{
    const size_t at = job->at;

    if (is_word(job, at, "torchrun") || is_word(job, at, "torchrun-hpu")) {
        job->at++;
        *status = mpl_job_take_options(job, mpl_job_torchrun, NULL, err);
        return true;
    }
    if (is_python(job) && is_word(job, at + 1, "-m") &&
        (strcmp(mpl_job_word(job, at + 2), "torch.distributed.launch") == 0 ||
         strcmp(mpl_job_word(job, at + 2), "torch.distributed.run") == 0)) {
        job->at += 3;
        *status = mpl_job_take_options(job, mpl_job_torchrun, NULL, err);
        return true;
    }
    if (is_word(job, at, "accelerate") && is_word(job, at + 1, "launch")) {
        job->at += 2;
        *status = take_accelerate(job, err);
        return true;
    }
    if (is_word(job, at, "deepspeed") && at + 1 < job->command->count) {
        job->at++;
        *status = mpl_job_take_options(job, mpl_job_deepspeed, NULL, err);
        return true;
    }
    return false;
}

/* Environment before a command, and programs that run others. */
static void skip_wrappers(struct mpl_job *job)
{
    static const char *const wrappers[] = {"nohup", "exec", "time", "env",
                                           "sudo",  "then", "do",   "else"};

    for (bool again = true; again && job->at < job->command->count;) {
        const char *text = mpl_job_word(job, job->at);
        size_t len = mpl_shell_assignment(text);

        again = false;
        if (len) {
            char name[64];

            snprintf(name, sizeof(name), "%.*s", (int)len, text);
            if (!job->command->words[job->at].is_open)
                mpl_shell_set(job->shell, name, text + len + 1);
            again = true;
        }
        for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
            again = again || strcmp(text, wrappers[i]) == 0;
        job->at += again;
    }
}

static enum memplan_status note_further(struct mpl_job *job)
{
    const struct mpl_import_place place = mpl_job_place(job, job->at, mpl_job_word(job, job->at));

    mpl_import_note(job->import, &place, "a further launch, which was not read");
    return MEMPLAN_OK;
}

/* llamafactory-cli starts torchrun itself where it sees several cards. */
static enum memplan_status take_factory(struct mpl_job *job, struct memplan_error *err)
{
    const char *each = mpl_shell_get(job->shell, "NPROC_PER_NODE");
    const char *nodes = mpl_shell_get(job->shell, "NNODES");
    enum memplan_status status = MEMPLAN_OK;

    job->at += 2; /* llamafactory-cli train */
    if (each)
        status = mpl_job_set_count(job, job->at, "NPROC_PER_NODE", "import.processes_per_node",
                                   each, false, err);
    if (!status && nodes)
        status = mpl_job_set_count(job, job->at, "NNODES", "import.nodes", nodes, false, err);
    if (!status)
        status = mpl_job_take_trainer(job, "llamafactory-cli", err);
    return status ? status : mpl_job_fill_ranks(job, true, err);
}

/* One command: a launch is read, any other is left alone. */
static enum memplan_status take_command(struct mpl_job *job, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    bool is_launched, is_slurm;
    const size_t before = job->launches;

    job->at = 0;
    skip_wrappers(job);
    is_slurm = is_word(job, job->at, "srun");
    if (is_slurm) {
        job->at++;
        status = mpl_job_take_options(job, mpl_job_slurm, NULL, err);
        skip_wrappers(job);
    }
    if (status)
        return status;
    if (is_word(job, job->at, "llamafactory-cli") && is_word(job, job->at + 1, "train"))
        return job->launches++ ? note_further(job) : take_factory(job, err);
    if (before &&
        (is_word(job, job->at, "torchrun") || is_word(job, job->at, "accelerate") ||
         is_word(job, job->at, "deepspeed") || (is_python(job) && has_trainer_flags(job))))
        return note_further(job);
    is_launched = take_launcher(job, &status, err);
    if (status)
        return status;
    if (!is_launched && !is_slurm && !(is_python(job) && has_trainer_flags(job)))
        return MEMPLAN_OK;
    job->launches++;
    if (is_python(job))
        job->at++;
    status = mpl_job_take_trainer(job, skip_python(job), err);
    return status ? status : mpl_job_fill_ranks(job, is_launched, err);
}

enum memplan_status mpl_import_read_job(struct mpl_import *import, const char *file,
                                        const char *text, size_t len, struct memplan_error *err)
{
    struct mpl_job job = {.import = import, .file = file};
    const struct mpl_import_place place = {.file = file, .key = "the script"};
    struct memplan_error own = {0};
    enum memplan_status status;

    job.shell = mpl_shell_new(file, text, len);
    if (!job.shell)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    status = mpl_job_take_sbatch(&job, text, len, err);
    while (!status && mpl_shell_next(job.shell, &own)) {
        job.command = mpl_shell_command(job.shell);
        status = take_command(&job, err);
    }
    if (!status && own.status) {
        status = own.status;
        if (err)
            *err = own;
    }
    if (!status && !job.launches)
        status = mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                                 "no launch was found, expected torchrun, accelerate launch, "
                                 "deepspeed, srun, llamafactory-cli or python with a trainer's "
                                 "flags");
    mpl_shell_free(job.shell);
    return status;
}

/* A script says so in its first line, or names a launcher outside of comments. */
bool mpl_import_is_job(const char *text, size_t len)
{
    static const char *const marks[] = {"torchrun ", "accelerate launch", "deepspeed ", "srun ",
                                        "llamafactory-cli train"};
    const char *end = text + len, *stop;

    if (len > 2 && memcmp(text, "#!", 2) == 0)
        return true;
    for (; text < end; text = stop + 1) {
        char line[256];

        stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        snprintf(line, sizeof(line), "%.*s", (int)(stop - text < 255 ? stop - text : 255), text);
        if (strncmp(line, "#SBATCH", 7) == 0)
            return true;
        line[strcspn(line, "#:")] = '\0'; /* a comment, or a key of YAML */
        for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
            if (strstr(line, marks[i]))
                return true;
    }
    return false;
}
