/* SPDX-License-Identifier: MIT */
/* Stage "import": scripts that a command starts: "bash job.sh", "bash -c ...", "sbatch job.sh". */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "import/job.h"

#define MOST_DEPTH 4

static bool is_shell(const char *name)
{
    static const char *const names[] = {"bash", "sh", "dash", "zsh", "ksh", "source", "."};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* What stands behind the script is $1, $2 and so on in it. */
static bool set_arguments(struct mpl_job *job, const struct mpl_job *from)
{
    const size_t count = from->at < from->command->count ? from->command->count - from->at : 0;
    const char **words = calloc(count + 1, sizeof(*words));
    bool is_set;

    for (size_t i = 0; words && i < count; i++)
        words[i] = mpl_job_word(from, from->at + i);
    is_set = words && mpl_shell_set_arguments(job->shell, words, count);
    free(words);
    return is_set;
}

static enum memplan_status take_text(struct mpl_job *job, const char *file, const char *text,
                                     size_t len, uint32_t line, const struct mpl_job *options,
                                     bool is_sourced, struct memplan_error *err)
{
    struct mpl_job inner = {.import = job->import,
                            .file = file,
                            .launches = job->launches,
                            .depth = job->depth + 1,
                            .outer = options};
    enum memplan_status status;

    inner.shell = mpl_shell_new(file, text, len);
    if (!inner.shell || !mpl_shell_inherit(inner.shell, job->shell, line) ||
        (!is_sourced && !set_arguments(&inner, job))) {
        mpl_shell_free(inner.shell);
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    }
    status = mpl_job_take_sbatch(&inner, text, len, err);
    if (!status)
        status = mpl_job_take_script(&inner, err);
    job->launches = inner.launches;
    /* What "source" read is set for what follows. */
    if (!status && is_sourced && !mpl_shell_inherit(job->shell, inner.shell, 0))
        status = mpl_fail(err, MEMPLAN_ERR_LIMIT, NULL, "more variables than are kept");
    mpl_shell_free(inner.shell);
    return status;
}

/* The script at the word under way; options: those of sbatch before it, or NULL. */
static enum memplan_status take_file(struct mpl_job *job, const struct mpl_job *options,
                                     bool is_sourced, struct memplan_error *err)
{
    const char *path = mpl_job_word(job, job->at);
    const struct mpl_import_place place = mpl_job_place(job, job->at, path);
    struct memplan_import_file file;

    job->at++;
    if (job->command->words[job->at - 1].is_open || job->depth == MOST_DEPTH ||
        !mpl_import_open(job->import, job->file, path, &file)) {
        if (options || !job->file) /* what a script starts besides is nobody's business */
            mpl_import_note(job->import, &place, "a script, which was not read");
        return MEMPLAN_OK;
    }
    return take_text(job, file.name, file.bytes, file.len, 1, options, is_sourced, err);
}

/* sbatch [OPTIONS] script, or sbatch [OPTIONS] --wrap=COMMAND */
static enum memplan_status take_sbatch(struct mpl_job *job, struct memplan_error *err)
{
    const struct mpl_job options = {.import = job->import,
                                    .shell = job->shell,
                                    .file = job->file,
                                    .command = job->command,
                                    .at = job->at};
    struct mpl_import_doc doc = {job->file, json_object(), json_object()};
    enum memplan_status status = doc.root && doc.lines
                                     ? mpl_job_take_options(job, mpl_job_slurm, &doc, err)
                                     : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    const char *wrap = json_string_value(json_object_get(doc.root, "wrap"));

    if (!status && wrap && job->depth < MOST_DEPTH)
        status = take_text(job, job->file, wrap, strlen(wrap), 1, NULL, false, err);
    else if (!status && job->at < job->command->count)
        status = take_file(job, &options, false, err);
    mpl_import_doc_free(&doc);
    return status;
}

/* The -c of "bash -lc"; 0: there is none. */
static bool is_text_option(const char *word)
{
    return *word == '-' && word[1] != '-' && strchr(word, 'c');
}

bool mpl_job_take_nested(struct mpl_job *job, enum memplan_status *status,
                         struct memplan_error *err)
{
    const char *name = mpl_job_base_name(mpl_job_word(job, job->at));
    bool is_sourced;

    if (job->at + 1 >= job->command->count)
        return false;
    if (strcmp(name, "sbatch") == 0 || strcmp(name, "salloc") == 0) {
        job->at++;
        *status = take_sbatch(job, err);
        return true;
    }
    if (!is_shell(name))
        return false;
    is_sourced = strcmp(name, "source") == 0 || strcmp(name, ".") == 0;
    for (job->at++; *mpl_job_word(job, job->at) == '-'; job->at++) {
        const char *text = mpl_job_word(job, job->at + 1);
        const bool is_text = is_text_option(mpl_job_word(job, job->at));

        if (is_text && job->at + 1 < job->command->count && job->depth < MOST_DEPTH) {
            const uint32_t line = job->command->words[job->at + 1].line;

            job->at += job->at + 2 < job->command->count ? 3 : 2; /* the next one is $0 */
            *status = take_text(job, job->file, text, strlen(text), line, NULL, false, err);
            return true;
        }
        /* "set -o pipefail" as an option of the shell */
        job->at += strcmp(mpl_job_word(job, job->at), "-o") == 0;
    }
    *status = job->at < job->command->count ? take_file(job, NULL, is_sourced, err) : MEMPLAN_OK;
    return true;
}
