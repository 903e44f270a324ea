/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": launch lines of a job script.
 * source: accelerate/commands/launch.py, release 1.15.0; llamafactory/launcher.py, release 0.9.5
 */
#include <stdio.h>
#include <stdlib.h>
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
    if (!status && config) /* what stands on the command line goes before it */
        status = mpl_import_take_named(job->import, &place, config, &mpl_import_accelerate,
                                       "the file that accelerate reads", err);
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

/* A script that starts by itself: "uv run train.py". */
static bool is_script(const struct mpl_job *job)
{
    const char *text = mpl_job_word(job, job->at);
    const size_t len = strlen(text);

    return len > 3 && strcmp(text + len - 3, ".py") == 0;
}

/* "trl sft", "speculators train": a trainer with a command of its own. */
static bool is_own_command(const struct mpl_job *job)
{
    return (is_word(job, job->at, "trl") && job->at + 1 < job->command->count) ||
           (is_word(job, job->at, "speculators") && is_word(job, job->at + 1, "train"));
}

/* What takes flags of a trainer, without a launcher before it. */
static bool is_trainer(const struct mpl_job *job)
{
    return is_own_command(job) ||
           ((is_python(job) || is_script(job)) && mpl_job_has_trainer_flags(job));
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
    if (!status)
        status = mpl_job_take_environment(job, err);
    return status ? status : mpl_job_fill_ranks(job, true, err);
}

/* srun and mpirun, with the ranks that they start. */
static bool take_starter(struct mpl_job *job, enum memplan_status *status,
                         struct memplan_error *err)
{
    const bool is_slurm = is_word(job, job->at, "srun");

    if (!is_slurm && !is_word(job, job->at, "mpirun") && !is_word(job, job->at, "mpiexec"))
        return false;
    job->at++;
    *status = mpl_job_take_options(job, is_slurm ? mpl_job_slurm : mpl_job_mpirun, NULL, err);
    mpl_job_skip_wrappers(job);
    return true;
}

static bool is_launch(const struct mpl_job *job)
{
    return is_word(job, job->at, "torchrun") || is_word(job, job->at, "accelerate") ||
           is_word(job, job->at, "deepspeed") || is_trainer(job);
}

/* Behind launchers: the script, and its flags. */
static enum memplan_status take_script_of(struct mpl_job *job, bool is_launched,
                                          struct memplan_error *err)
{
    const char *script;
    char own[48];
    enum memplan_status status;

    job->launches++;
    mpl_job_skip_wrappers(job);
    if (is_own_command(job)) {
        const bool is_trl = is_word(job, job->at, "trl");

        snprintf(own, sizeof(own), "trl %.40s", mpl_job_word(job, job->at + 1));
        script = is_trl ? own : "speculators.train";
        job->at += 2;
    } else {
        if (is_python(job))
            job->at++;
        script = skip_python(job);
    }
    status = mpl_job_take_trainer(job, script, err);
    if (!status)
        status = mpl_job_take_environment(job, err);
    return status ? status : mpl_job_fill_ranks(job, is_launched, err);
}

/* One command: a launch is read, any other is left alone. */
static enum memplan_status take_command(struct mpl_job *job, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    bool is_launched, is_started;

    job->at = 0;
    mpl_job_skip_wrappers(job);
    is_started = take_starter(job, &status, err);
    if (status || mpl_job_take_nested(job, &status, err))
        return status;
    if (is_word(job, job->at, "llamafactory-cli") && is_word(job, job->at + 1, "train"))
        return job->launches++ ? note_further(job) : take_factory(job, err);
    if (job->launches && is_launch(job))
        return note_further(job);
    /* "trl sft" starts accelerate's launcher itself */
    is_launched = take_launcher(job, &status, err) || is_word(job, job->at, "trl");
    if (status || (!is_launched && !is_started && !is_trainer(job)))
        return status;
    return take_script_of(job, is_launched, err);
}

/* Both branches of a condition are read: what the later one sets counts. */
static void note_branch(struct mpl_job *job)
{
    const struct mpl_import_place place = mpl_job_place(job, 0, mpl_job_word(job, 0));

    if (!job->launches &&
        (strcmp(mpl_job_word(job, 0), "else") == 0 || strcmp(mpl_job_word(job, 0), "elif") == 0))
        mpl_import_note(job->import, &place,
                        "conditions are not judged: what the last branch sets is taken");
}

/* "shift": which arguments are which is not followed. */
static void forget_arguments(struct mpl_job *job)
{
    if (strcmp(mpl_job_word(job, 0), "shift") != 0 || !mpl_shell_get(job->shell, "@"))
        return;
    mpl_shell_set(job->shell, "@", "$");
    for (char digit = '1'; digit <= '9'; digit++) {
        const char name[2] = {digit, '\0'}, value[3] = {'$', digit, '\0'};

        mpl_shell_set(job->shell, name, value);
    }
}

enum memplan_status mpl_job_take_script(struct mpl_job *job, struct memplan_error *err)
{
    struct memplan_error own = {0};
    enum memplan_status status = MEMPLAN_OK;

    while (!status && mpl_shell_next(job->shell, &own)) {
        job->command = mpl_shell_command(job->shell);
        note_branch(job);
        forget_arguments(job);
        status = take_command(job, err);
    }
    if (!status && own.status) {
        status = own.status;
        if (err)
            *err = own;
    }
    return status;
}

static enum memplan_status check_launches(const struct mpl_job *job,
                                          const struct mpl_import_place *place,
                                          struct memplan_error *err)
{
    return job->launches
               ? MEMPLAN_OK
               : mpl_import_fail(place, MEMPLAN_ERR_VALUE, err,
                                 "no launch was found, expected torchrun, accelerate launch, "
                                 "deepspeed, srun, llamafactory-cli, trl or python with a "
                                 "trainer's flags%s",
                                 place->file ? "" : ", or a plan beside the command");
}

/* What the caller's environment says; room is left for what the script sets itself. */
static void set_environment(struct mpl_job *job)
{
    const char *const *one = mpl_import_given(job->import)->options.environment;

    for (int left = 512; one && *one && left; one++, left--) {
        const size_t len = mpl_shell_assignment(*one);
        char name[64];

        if (!len || strlen(*one) > 1024)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)len, *one);
        mpl_shell_set(job->shell, name, *one + len + 1);
    }
}

enum memplan_status mpl_import_read_job(struct mpl_import *import, const char *file,
                                        const char *text, size_t len, struct memplan_error *err)
{
    struct mpl_job job = {.import = import, .file = file};
    const struct mpl_import_place place = {.file = file, .key = "the script"};
    enum memplan_status status;

    job.shell = mpl_shell_new(file, text, len);
    if (!job.shell)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    set_environment(&job);
    status = mpl_job_take_sbatch(&job, text, len, err);
    if (!status)
        status = mpl_job_take_script(&job, err);
    if (!status)
        status = check_launches(&job, &place, err);
    mpl_shell_free(job.shell);
    return status;
}

enum memplan_status mpl_import_read_words(struct mpl_import *import, const char *const *words,
                                          size_t count, struct memplan_error *err)
{
    const struct mpl_import_place place = {0};
    struct mpl_job job = {.import = import};
    struct mpl_shell_command *command;
    enum memplan_status status;

    if (count > MPL_SHELL_MOST_WORDS)
        return mpl_import_fail(&place, MEMPLAN_ERR_LIMIT, err, "more than %d words",
                               MPL_SHELL_MOST_WORDS);
    job.shell = mpl_shell_new(NULL, "", 0);
    command = calloc(1, sizeof(*command));
    if (!job.shell || !command) {
        mpl_shell_free(job.shell);
        free(command);
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    }
    set_environment(&job);
    for (size_t i = 0; i < count; i++)
        command->words[command->count++].text = (char *)words[i];
    job.command = command;
    status = take_command(&job, err);
    if (!status)
        status = check_launches(&job, &place, err);
    mpl_shell_free(job.shell);
    free(command);
    return status;
}

/* A line that starts a trainer without a launcher. */
static bool starts_trainer(const char *line)
{
    static const char *const commands[] = {"trl ", "speculators train"};

    line += strspn(line, " \t");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strncmp(line, commands[i], strlen(commands[i])) == 0)
            return true;
    return strncmp(line, "python", 6) == 0 && strstr(line, ".py ");
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
        if (starts_trainer(line))
            return true;
        for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
            if (strstr(line, marks[i]))
                return true;
    }
    return false;
}
