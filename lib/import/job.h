/* SPDX-License-Identifier: MIT */
/* Inside of the reader of job scripts and commands: job_*.c, read_job.c. */
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
    unsigned depth;              /* of scripts that start others */
    const struct mpl_job *outer; /* "sbatch OPTIONS script": whose options those are; else NULL */
};

extern const struct mpl_job_option mpl_job_torchrun[], mpl_job_deepspeed[], mpl_job_slurm[],
    mpl_job_mpirun[];

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

/** Assignments, and programs that run the rest of the command, from the word under way on.
 * (job_wrappers.c) */
void mpl_job_skip_wrappers(struct mpl_job *job);

/** Variables of the launch that change memory: the allocator's settings and their like.
 * (job_environment.c) */
enum memplan_status mpl_job_take_environment(struct mpl_job *job, struct memplan_error *err);

/** "bash script.sh", "bash -c ...", "sbatch script.sh": reads what that runs. False: it is none.
 * (job_nested.c) */
bool mpl_job_take_nested(struct mpl_job *job, enum memplan_status *status,
                         struct memplan_error *err);

/** Reads every command of a script. (read_job.c) */
enum memplan_status mpl_job_take_script(struct mpl_job *job, struct memplan_error *err);

/** "#SBATCH --nodes=4": options in comments. */
enum memplan_status mpl_job_take_sbatch(struct mpl_job *job, const char *text, size_t len,
                                        struct memplan_error *err);

/** What launchers take when they are not told: the cards that are visible; Slurm's nodes. */
enum memplan_status mpl_job_fill_ranks(struct mpl_job *job, bool is_launched,
                                       struct memplan_error *err);

/** The flags behind a script. (job_trainer.c) */
enum memplan_status mpl_job_take_trainer(struct mpl_job *job, const char *script,
                                         struct memplan_error *err);

/** TRL's own command and scripts: what the name says, and accelerate's options among the flags.
 * (job_trl.c) */
enum memplan_status mpl_job_take_trl(struct mpl_job *job, const char *script,
                                     struct mpl_import_doc *doc, struct memplan_error *err);

/** True for flags of a trainer somewhere in what is left of the command. (job_trainer.c) */
bool mpl_job_has_trainer_flags(const struct mpl_job *job);

#endif
