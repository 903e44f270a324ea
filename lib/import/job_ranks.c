/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": ranks of a job script: options of launchers and of Slurm.
 * source: torch/distributed/run.py, release 2.14; deepspeed/launcher/runner.py, release 0.19.8;
 * sbatch(1) and srun(1) of Slurm 22.05
 */
#include "import/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/json.h"

const struct mpl_job_option mpl_job_torchrun[] = {
    {"nproc_per_node", "import.processes_per_node"},
    {"nnodes", "import.nodes"},
    {NULL, NULL},
};

const struct mpl_job_option mpl_job_deepspeed[] = {
    {"num_gpus", "import.processes_per_node"},
    {"num_nodes", "import.nodes"},
    {NULL, NULL},
};

const struct mpl_job_option mpl_job_slurm[] = {
    {"nodes", "import.slurm_nodes"},
    {"N", "import.slurm_nodes"},
    {"ntasks", "import.slurm_tasks"},
    {"n", "import.slurm_tasks"},
    {"gres", "import.slurm_gpus"},
    {"gpus_per_node", "import.slurm_gpus"},
    {"ntasks_per_node", "import.slurm_each"},
    {NULL, NULL},
};

const struct mpl_job_option mpl_job_mpirun[] = {
    {"np", "import.num_processes"},
    {"n", "import.num_processes"},
    {"npernode", "import.processes_per_node"},
    {"ppn", "import.processes_per_node"},
    {NULL, NULL},
};

/* Options of launchers that stand alone. */
static const char *const switches[] = {
    "standalone",
    "no_python",
    "use_env",
    "module",
    "m",
    "multi_gpu",
    "use_fsdp",
    "same_network",
    "debug",
    "quiet",
    "use_deepspeed",
    "cpu",
    "force_multi",
    "no_local_rank",
    "no_ssh",
    "enable_cpu_affinity",
    "u",
    "exclusive",
    "overlap",
    "label",
    "l",
    "allow_run_as_root",
    "oversubscribe",
    "parsable",
    "requeue",
    "W",
    "kill_on_bad_exit",
    NULL,
};

const char *mpl_job_word(const struct mpl_job *job, size_t at)
{
    return at < job->command->count ? job->command->words[at].text : "";
}

const char *mpl_job_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

struct mpl_import_place mpl_job_place(const struct mpl_job *job, size_t at, const char *key)
{
    struct mpl_import_place place = {.file = job->file};

    if (at < job->command->count)
        place.line = job->command->words[at].line;
    snprintf(place.key, sizeof(place.key), "%.*s", (int)mpl_json_cut(key, sizeof(place.key) - 1),
             key);
    return place;
}

/* "--nproc-per-node=8" as "nproc_per_node"; value_out: behind "=", or NULL. False: no option. */
bool mpl_job_split_option(const char *text, char *name, size_t size, const char **value_out)
{
    const char *start = text + strspn(text, "-"), *equals = strchr(start, '=');
    size_t len = equals ? (size_t)(equals - start) : strlen(start);

    *value_out = equals ? equals + 1 : NULL;
    if (start == text || !len || len >= size || (*start >= '0' && *start <= '9'))
        return false;
    for (size_t i = 0; i < len; i++)
        name[i] = (char)(start[i] == '-' ? '_' : start[i]);
    name[len] = '\0';
    return true;
}

static bool is_switch(const char *name)
{
    for (const char *const *one = switches; *one; one++)
        if (strcmp(*one, name) == 0)
            return true;
    return false;
}

/* "8", "1:8" (elastic: the most), "gpu:h100:4", "localhost:0,1,2,3"; 0: not a count. */
static long count_of(const char *text)
{
    const char *colon = strrchr(text, ':'), *number = colon ? colon + 1 : text;
    char *end;
    long value = strtol(number, &end, 10);

    return end != number && !*end && value > 0 && value <= 1048576 ? value : 0;
}

static long count_listed(const char *text)
{
    long count = *text != '\0';

    for (; *text; text++)
        count += *text == ',';
    return count;
}

enum memplan_status mpl_job_set_count(struct mpl_job *job, size_t at, const char *name,
                                      const char *path, const char *value, bool is_open,
                                      struct memplan_error *err)
{
    const struct mpl_import_place place = mpl_job_place(job, at, name);
    long count = is_open ? 0 : count_of(value);
    char json[24];

    if (is_open) {
        mpl_import_note(job->import, &place,
                        "depends on what the script does not set (%.60s); "
                        "give --gpus N",
                        value);
        return MEMPLAN_OK;
    }
    if (strcmp(value, "gpu") == 0 || strcmp(value, "auto") == 0)
        return MEMPLAN_OK; /* the node's cards, see mpl_job_fill_ranks */
    if (!count)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                               "found \"%.40s\", expected a count of 1 to 1048576", value);
    snprintf(json, sizeof(json), "%ld", count);
    return mpl_import_set_text(job->import, &place, path, json, err);
}

static const char *option_path(const struct mpl_job_option *options, const char *name)
{
    for (; options->name; options++)
        if (strcmp(options->name, name) == 0)
            return options->path;
    return NULL;
}

/* A launcher's options, up to the first word that is none. doc: of accelerate, which collects
 * them; NULL: counts alone. */
enum memplan_status mpl_job_take_options(struct mpl_job *job, const struct mpl_job_option *options,
                                         struct mpl_import_doc *doc, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    const char *value, *path;
    char name[64];

    while (!status && job->at < job->command->count) {
        size_t at = job->at;
        bool is_open;

        if (!mpl_job_split_option(mpl_job_word(job, at), name, sizeof(name), &value))
            break;
        job->at++;
        if (!value && is_switch(name))
            value = "true";
        else if (!value && job->at < job->command->count && *mpl_job_word(job, job->at) != '-')
            value = mpl_job_word(job, job->at++);
        if (strcmp(name, "mca") == 0 && job->at < job->command->count)
            job->at++; /* mpirun: a name and a value */
        is_open = job->command->words[job->at - 1].is_open;
        path = options ? option_path(options, name) : NULL;
        if (path && value)
            status = mpl_job_set_count(job, at, name, path, value, is_open, err);
        else if (doc && value) {
            json_object_set_new(doc->root, name,
                                is_open ? json_pack("{s:s}", MPL_IMPORT_OPEN, value)
                                        : json_string(value));
            json_object_set_new(doc->lines, name, json_integer(job->command->words[at].line));
        } else if (value && strcmp(name, "include") == 0 && strchr(value, ':')) {
            char text[24];

            snprintf(text, sizeof(text), "%ld", count_listed(strchr(value, ':') + 1));
            status =
                mpl_job_set_count(job, at, name, "import.processes_per_node", text, is_open, err);
        }
    }
    return status;
}

/* The variables that Slurm sets from its options. */
static void set_slurm_variable(struct mpl_job *job, const char *path, const char *name)
{
    int64_t value = mpl_import_get_integer(job->import, path, 0);
    char text[24];

    if (!value)
        return;
    snprintf(text, sizeof(text), "%lld", (long long)value);
    mpl_shell_set(job->shell, name, text);
}

/* "#SBATCH --nodes=4": options in comments. */
enum memplan_status mpl_job_take_sbatch(struct mpl_job *job, const char *text, size_t len,
                                        struct memplan_error *err)
{
    static const char mark[] = "#SBATCH";
    enum memplan_status status = MEMPLAN_OK;
    const char *end = text + len, *stop;
    uint32_t line = 1;

    for (; text < end && !status; text = stop + 1, line++) {
        struct mpl_shell *shell;

        stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        if ((size_t)(stop - text) <= sizeof(mark) || strncmp(text, mark, sizeof(mark) - 1) != 0)
            continue;
        shell = mpl_shell_new(job->file, text + sizeof(mark) - 1,
                              (size_t)(stop - text) - (sizeof(mark) - 1));
        if (!shell)
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
        if (mpl_shell_next(shell, err)) {
            job->command = mpl_shell_command(shell);
            for (size_t i = 0; i < job->command->count; i++)
                ((struct mpl_shell_command *)job->command)->words[i].line = line;
            job->at = 0;
            status = mpl_job_take_options(job, mpl_job_slurm, NULL, err);
        }
        mpl_shell_free(shell);
    }
    if (!status && job->outer) { /* the command line goes before the script */
        struct mpl_job options = *job->outer;

        status = mpl_job_take_options(&options, mpl_job_slurm, NULL, err);
    }
    set_slurm_variable(job, "import.slurm_nodes", "SLURM_NNODES");
    set_slurm_variable(job, "import.slurm_nodes", "SLURM_JOB_NUM_NODES");
    set_slurm_variable(job, "import.slurm_tasks", "SLURM_NTASKS");
    set_slurm_variable(job, "import.slurm_each", "SLURM_NTASKS_PER_NODE");
    set_slurm_variable(job, "import.slurm_gpus", "SLURM_GPUS_ON_NODE");
    set_slurm_variable(job, "import.slurm_gpus", "SLURM_GPUS_PER_NODE");
    return status;
}

/* What launchers take when they are not told: the cards that are visible; Slurm's nodes. */
enum memplan_status mpl_job_fill_ranks(struct mpl_job *job, bool is_launched,
                                       struct memplan_error *err)
{
    const char *visible = mpl_shell_get(job->shell, "CUDA_VISIBLE_DEVICES");
    const int64_t nodes = mpl_import_get_integer(job->import, "import.slurm_nodes", 0);
    const int64_t gpus = mpl_import_get_integer(job->import, "import.slurm_gpus", 0);
    const int64_t tasks = mpl_import_get_integer(job->import, "import.slurm_tasks", 0);
    const int64_t each = mpl_import_get_integer(job->import, "import.slurm_each", 0);
    const struct mpl_import_place place = {.file = job->file, .key = "ranks"};
    enum memplan_status status = MEMPLAN_OK;
    char json[24];

    if (nodes && !mpl_import_get(job->import, "import.nodes")) {
        snprintf(json, sizeof(json), "%lld", (long long)nodes);
        status = mpl_import_set_text(job->import, &place, "import.nodes", json, err);
    }
    if (status || mpl_import_get(job->import, "import.processes_per_node") ||
        mpl_import_get(job->import, "import.num_processes"))
        return status;
    if (!is_launched) { /* srun alone starts every rank */
        snprintf(json, sizeof(json), "%lld", (long long)(each ? each : tasks));
        return each || tasks
                   ? mpl_import_set_text(
                         job->import, &place,
                         each ? "import.processes_per_node" : "import.num_processes", json, err)
                   : MEMPLAN_OK;
    }
    snprintf(json, sizeof(json), "%lld",
             gpus ? (long long)gpus : (long long)count_listed(visible ? visible : ""));
    return gpus || visible
               ? mpl_import_set_text(job->import, &place, "import.processes_per_node", json, err)
               : MEMPLAN_OK;
}
