/* SPDX-License-Identifier: MIT */
/* Inside of the reader of job scripts: job_ranks.c, job_trainer.c, read_job.c. */
#ifndef MPL_IMPORT_JOB_H
#define MPL_IMPORT_JOB_H

#include "import/import.h"
#include "import/shell.h"

/** A launcher's own option; what is in no list is its business and changes no tensor. */
struct mpl_job_option {
    const char *name; /* with underscores */
    const char *path;
};

struct mpl_job {
    struct mpl_import *import;
    struct mpl_shell *shell;
    const char *file;
    const struct mpl_shell_command *command;
    size_t at; /* word under way */
    size_t launches;
};

extern const struct mpl_job_option mpl_job_torchrun[], mpl_job_deepspeed[], mpl_job_slurm[];

/** Word i of the command, "" behind the last. */
const char *mpl_job_word(const struct mpl_job *job, size_t at);

/** Behind the last slash. */
const char *mpl_job_base_name(const char *path);

struct mpl_import_place mpl_job_place(const struct mpl_job *job, size_t at, const char *key);

/** "--nproc-per-node=8" as "nproc_per_node"; value_out: behind "=", or NULL. False: no option. */
bool mpl_job_split_option(const char *text, char *name, size_t size, const char **value_out);

/** A count of ranks or nodes as it was written; is_open: the script does not fix it. */
enum memplan_status mpl_job_set_count(struct mpl_job *job, size_t at, const char *name,
                                      const char *path, const char *value, bool is_open,
                                      struct memplan_error *err);

/** A launcher's options, up to the first word that is none. doc: collects those that are not in
 * the list; NULL: they are left out. */
enum memplan_status mpl_job_take_options(struct mpl_job *job, const struct mpl_job_option *options,
                                         struct mpl_import_doc *doc, struct memplan_error *err);

/** "#SBATCH --nodes=4": options in comments. */
enum memplan_status mpl_job_take_sbatch(struct mpl_job *job, const char *text, size_t len,
                                        struct memplan_error *err);

/** What launchers take when they are not told: the cards that are visible; Slurm's nodes. */
enum memplan_status mpl_job_fill_ranks(struct mpl_job *job, bool is_launched,
                                       struct memplan_error *err);

/** The flags behind a script. (job_trainer.c) */
enum memplan_status mpl_job_take_trainer(struct mpl_job *job, const char *script,
                                         struct memplan_error *err);

#endif
