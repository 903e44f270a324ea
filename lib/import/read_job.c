/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": launch lines of a job script: ranks from the launcher, the trainer's own flags.
 * source: torch/distributed/run.py, release 2.14; accelerate/commands/launch.py, release 1.15.0;
 * deepspeed/launcher/runner.py, release 0.19.8; sbatch(1) and srun(1) of Slurm 22.05;
 * llamafactory/launcher.py, release 0.9.5
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "import/shell.h"
#include "ingest/json.h"

/* A launcher's own options; what is not here is its business and changes no tensor. */
struct option {
    const char *name; /* with underscores */
    const char *path;
};

static const struct option torchrun_options[] = {
    {"nproc_per_node", "import.processes_per_node"},
    {"nnodes", "import.nodes"},
    {NULL, NULL},
};

static const struct option deepspeed_options[] = {
    {"num_gpus", "import.processes_per_node"},
    {"num_nodes", "import.nodes"},
    {NULL, NULL},
};

static const struct option slurm_options[] = {
    {"nodes", "import.slurm_nodes"},
    {"N", "import.slurm_nodes"},
    {"ntasks", "import.slurm_tasks"},
    {"n", "import.slurm_tasks"},
    {"gres", "import.slurm_gpus"},
    {"gpus_per_node", "import.slurm_gpus"},
    {"ntasks_per_node", "import.slurm_each"},
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
    NULL,
};

struct job {
    struct mpl_import *import;
    struct mpl_shell *shell;
    const char *file;
    const struct mpl_shell_command *command;
    size_t at; /* word under way */
    size_t launches;
};

static const char *word(const struct job *job, size_t at)
{
    return at < job->command->count ? job->command->words[at].text : "";
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool is_word(const struct job *job, size_t at, const char *text)
{
    return strcmp(base_name(word(job, at)), text) == 0;
}

static struct mpl_import_place place_of(const struct job *job, size_t at, const char *key)
{
    struct mpl_import_place place = {.file = job->file};

    if (at < job->command->count)
        place.line = job->command->words[at].line;
    snprintf(place.key, sizeof(place.key), "%.*s", (int)mpl_json_cut(key, sizeof(place.key) - 1),
             key);
    return place;
}

/* "--nproc-per-node=8" as "nproc_per_node"; value_out: behind "=", or NULL. False: no option. */
static bool split_option(const char *text, char *name, size_t size, const char **value_out)
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

/* ---- ranks ---- */

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

static enum memplan_status set_count(struct job *job, size_t at, const char *name, const char *path,
                                     const char *value, bool is_open, struct memplan_error *err)
{
    const struct mpl_import_place place = place_of(job, at, name);
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
        return MEMPLAN_OK; /* the node's cards, see fill_ranks */
    if (!count)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                               "found \"%.40s\", expected a count of 1 to 1048576", value);
    snprintf(json, sizeof(json), "%ld", count);
    return mpl_import_set_text(job->import, &place, path, json, err);
}

static const char *option_path(const struct option *options, const char *name)
{
    for (; options->name; options++)
        if (strcmp(options->name, name) == 0)
            return options->path;
    return NULL;
}

/* A launcher's options, up to the first word that is none. doc: of accelerate, which collects
 * them; NULL: counts alone. */
static enum memplan_status take_options(struct job *job, const struct option *options,
                                        struct mpl_import_doc *doc, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    const char *value, *path;
    char name[64];

    while (!status && job->at < job->command->count) {
        size_t at = job->at;
        bool is_open;

        if (!split_option(word(job, at), name, sizeof(name), &value))
            break;
        job->at++;
        if (!value && is_switch(name))
            value = "true";
        else if (!value && job->at < job->command->count && *word(job, job->at) != '-')
            value = word(job, job->at++);
        is_open = job->command->words[job->at - 1].is_open;
        path = options ? option_path(options, name) : NULL;
        if (path && value)
            status = set_count(job, at, name, path, value, is_open, err);
        else if (doc && value) {
            json_object_set_new(doc->root, name,
                                is_open ? json_pack("{s:s}", MPL_IMPORT_OPEN, value)
                                        : json_string(value));
            json_object_set_new(doc->lines, name, json_integer(job->command->words[at].line));
        } else if (value && strcmp(name, "include") == 0 && strchr(value, ':')) {
            char text[24];

            snprintf(text, sizeof(text), "%ld", count_listed(strchr(value, ':') + 1));
            status = set_count(job, at, name, "import.processes_per_node", text, is_open, err);
        }
    }
    return status;
}

/* The variables that Slurm sets from its options. */
static void set_slurm_variable(struct job *job, const char *path, const char *name)
{
    int64_t value = mpl_import_get_integer(job->import, path, 0);
    char text[24];

    if (!value)
        return;
    snprintf(text, sizeof(text), "%lld", (long long)value);
    mpl_shell_set(job->shell, name, text);
}

/* "#SBATCH --nodes=4": options in comments. */
static enum memplan_status take_sbatch(struct job *job, const char *text, size_t len,
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
            status = take_options(job, slurm_options, NULL, err);
        }
        mpl_shell_free(shell);
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
static enum memplan_status fill_ranks(struct job *job, bool is_launched, struct memplan_error *err)
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

/* ---- the trainer's flags ---- */

static bool is_file_of(const char *text, const char *ending)
{
    size_t len = strlen(text), end = strlen(ending);

    return len > end && strcmp(text + len - end, ending) == 0;
}

/* The values behind a flag, joined by spaces: a list has several. */
static json_t *flag_value(struct job *job, bool *is_open)
{
    char text[2048] = "";
    size_t used = 0;
    bool is_any = false;

    while (job->at < job->command->count) {
        const char *next = word(job, job->at);
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

static void take_flag(struct job *job, struct mpl_import_doc *doc)
{
    size_t at = job->at;
    const char *value;
    bool is_open = job->command->words[at].is_open;
    char name[96];
    json_t *json;

    job->at++;
    if (!split_option(word(job, at), name, sizeof(name), &value)) {
        struct mpl_import_place place = place_of(job, at, word(job, at));

        if (is_file_of(word(job, at), ".yaml") || is_file_of(word(job, at), ".yml") ||
            is_file_of(word(job, at), ".json"))
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
static enum memplan_status take_script(struct job *job, const char *script,
                                       struct memplan_error *err)
{
    struct mpl_import_place place = place_of(job, job->at, base_name(script));
    enum memplan_status status;

    status = mpl_import_set_text(job->import, &place, "import.script", "true", err);
    if (!status && strstr(base_name(script), "sft"))
        status = mpl_import_set_text(job->import, &place, "import.sft", "true", err);
    if (!status && strstr(base_name(script), "lora"))
        status = mpl_import_set_text(job->import, &place, "import.use_peft", "true", err);
    if (!status && strstr(base_name(script), "dpo"))
        status = mpl_import_set_text(job->import, &place, "training.loss.name", "\"dpo\"", err);
    return status;
}

static enum memplan_status take_trainer(struct job *job, const char *script,
                                        struct memplan_error *err)
{
    struct mpl_import_doc doc = {job->file, json_object(), json_object()};
    const struct mpl_import_place place = place_of(job, job->at, base_name(script));
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

/* ---- launchers ---- */

static enum memplan_status take_accelerate(struct job *job, struct memplan_error *err)
{
    struct mpl_import_doc doc = {job->file, json_object(), json_object()};
    const struct mpl_import_place place = place_of(job, job->at, "accelerate");
    const char *config;
    enum memplan_status status = doc.root && doc.lines
                                     ? take_options(job, NULL, &doc, err)
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
static const char *skip_python(struct job *job)
{
    while (is_word(job, job->at, "-u") || is_word(job, job->at, "-m") ||
           is_word(job, job->at, "--module"))
        job->at++;
    return word(job, job->at++);
}

static bool is_python(const struct job *job)
{
    return strncmp(base_name(word(job, job->at)), "python", 6) == 0;
}

/* True for flags of a trainer somewhere in what is left of the command. */
static bool has_trainer_flags(const struct job *job)
{
    static const char *const names[] = {"--model_name_or_path",
                                        "--per_device_train_batch_size",
                                        "--gradient_accumulation_steps",
                                        "--deepspeed",
                                        "--bf16",
                                        "--num_train_epochs"};

    for (size_t i = job->at; i < job->command->count; i++)
        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
            if (strncmp(word(job, i), names[n], strlen(names[n])) == 0)
                return true;
    return false;
}

/* A launcher at the word under way: its options are read. False: there is none. */
static bool take_launcher(struct job *job, enum memplan_status *status, struct memplan_error *err)
{
    const size_t at = job->at;

    if (is_word(job, at, "torchrun") || is_word(job, at, "torchrun-hpu")) {
        job->at++;
        *status = take_options(job, torchrun_options, NULL, err);
        return true;
    }
    if (is_python(job) && is_word(job, at + 1, "-m") &&
        (strcmp(word(job, at + 2), "torch.distributed.launch") == 0 ||
         strcmp(word(job, at + 2), "torch.distributed.run") == 0)) {
        job->at += 3;
        *status = take_options(job, torchrun_options, NULL, err);
        return true;
    }
    if (is_word(job, at, "accelerate") && is_word(job, at + 1, "launch")) {
        job->at += 2;
        *status = take_accelerate(job, err);
        return true;
    }
    if (is_word(job, at, "deepspeed") && at + 1 < job->command->count) {
        job->at++;
        *status = take_options(job, deepspeed_options, NULL, err);
        return true;
    }
    return false;
}

/* Environment before a command, and programs that run others. */
static void skip_wrappers(struct job *job)
{
    static const char *const wrappers[] = {"nohup", "exec", "time", "env",
                                           "sudo",  "then", "do",   "else"};

    for (bool again = true; again && job->at < job->command->count;) {
        const char *text = word(job, job->at);
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

static enum memplan_status note_further(struct job *job)
{
    const struct mpl_import_place place = place_of(job, job->at, word(job, job->at));

    mpl_import_note(job->import, &place, "a further launch, which was not read");
    return MEMPLAN_OK;
}

/* llamafactory-cli starts torchrun itself where it sees several cards. */
static enum memplan_status take_factory(struct job *job, struct memplan_error *err)
{
    const char *each = mpl_shell_get(job->shell, "NPROC_PER_NODE");
    const char *nodes = mpl_shell_get(job->shell, "NNODES");
    enum memplan_status status = MEMPLAN_OK;

    job->at += 2; /* llamafactory-cli train */
    if (each)
        status = set_count(job, job->at, "NPROC_PER_NODE", "import.processes_per_node", each, false,
                           err);
    if (!status && nodes)
        status = set_count(job, job->at, "NNODES", "import.nodes", nodes, false, err);
    if (!status)
        status = take_trainer(job, "llamafactory-cli", err);
    return status ? status : fill_ranks(job, true, err);
}

/* One command: a launch is read, any other is left alone. */
static enum memplan_status take_command(struct job *job, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    bool is_launched, is_slurm;
    const size_t before = job->launches;

    job->at = 0;
    skip_wrappers(job);
    is_slurm = is_word(job, job->at, "srun");
    if (is_slurm) {
        job->at++;
        status = take_options(job, slurm_options, NULL, err);
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
    status = take_trainer(job, skip_python(job), err);
    return status ? status : fill_ranks(job, is_launched, err);
}

enum memplan_status mpl_import_read_job(struct mpl_import *import, const char *file,
                                        const char *text, size_t len, struct memplan_error *err)
{
    struct job job = {.import = import, .file = file};
    const struct mpl_import_place place = {.file = file, .key = "the script"};
    struct memplan_error own = {0};
    enum memplan_status status;

    job.shell = mpl_shell_new(file, text, len);
    if (!job.shell)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    status = take_sbatch(&job, text, len, err);
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
