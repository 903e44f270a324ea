/* SPDX-License-Identifier: MIT */
/*
 * TABLE: programs that run another one and change nothing of its memory.
 * source: their manuals: env, nice, timeout (coreutils 9), taskset (util-linux 2.38), numactl 2.0,
 * nsys 2025, singularity 4, uv 0.9, conda 25, poetry 2
 */
#include <stdio.h>
#include <string.h>

#include "import/job.h"

struct wrapper {
    const char *name, *verb; /* verb: a word that follows; NULL: none */
    const char *valued;      /* options whose value is the next word, between spaces */
    int words;               /* that stand before the command */
};

static const struct wrapper wrappers[] = {
    {"nohup", NULL, "", 0},
    {"exec", NULL, " -a ", 0},
    {"eval", NULL, "", 0},
    {"command", NULL, "", 0},
    {"then", NULL, "", 0},
    {"do", NULL, "", 0},
    {"else", NULL, "", 0},
    {"time", NULL, " -f -o --format --output ", 0},
    {"env", NULL, " -u --unset -C --chdir ", 0},
    {"sudo", NULL, " -u -g -h -p -C -D -R -T -U -r -t --user --group ", 0},
    {"nice", NULL, " -n --adjustment ", 0},
    {"ionice", NULL, " -c -n --class --classdata ", 0},
    {"setsid", NULL, "", 0},
    {"stdbuf", NULL, " -i -o -e --input --output --error ", 0},
    {"timeout", NULL, " -k -s --kill-after --signal ", 1},
    {"taskset", NULL, "", 1},
    {"numactl", NULL,
     " -C -N -m -i -p -w --physcpubind --cpunodebind --membind --interleave --preferred ", 0},
    {"nsys", "profile",
     " -o -t -s -c -e -n -d -y -w -x -f -p -b --output --trace --sample --capture-range --env-var "
     "--duration --delay --force-overwrite --stats --wait --backtrace --cuda-memory-usage "
     "--gpu-metrics-device --gpu-metrics-devices --cudabacktrace --python-sampling --kill "
     "--capture-range-end --show-output --stop-on-exit --session-new ",
     0},
    {"ncu", NULL, " -o -k -c -s --set --section --export --kernel-name --launch-count ", 0},
    {"singularity", "exec", " -B -H -W -S --bind --home --env --env-file --pwd --overlay --mount ",
     1},
    {"singularity", "run", " -B -H -W -S --bind --home --env --env-file --pwd --overlay --mount ",
     1},
    {"apptainer", "exec",
     " -B -H -W -S --bind --home --env --env-file --cwd --pwd --overlay --mount ", 1},
    {"apptainer", "run",
     " -B -H -W -S --bind --home --env --env-file --cwd --pwd --overlay --mount ", 1},
    {"uv", "run",
     " -p --with --with-editable --with-requirements --extra --group --python --project "
     "--directory --env-file --index --index-url --package --no-group --only-group ",
     0},
    {"conda", "run", " -n -p --name --prefix --cwd ", 0},
    {"micromamba", "run", " -n -p -r --name --prefix --root-prefix --cwd ", 0},
    {"mamba", "run", " -n -p --name --prefix --cwd ", 0},
    {"poetry", "run", "", 0},
    {"pipenv", "run", "", 0},
    {"pdm", "run", " -p --project ", 0},
    {"pixi", "run", " -e --environment --manifest-path ", 0},
};

static const struct wrapper *find(const struct mpl_job *job)
{
    const char *name = mpl_job_base_name(mpl_job_word(job, job->at));

    for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
        if (strcmp(wrappers[i].name, name) == 0 &&
            (!wrappers[i].verb || strcmp(wrappers[i].verb, mpl_job_word(job, job->at + 1)) == 0))
            return &wrappers[i];
    return NULL;
}

static bool takes_value(const struct wrapper *wrapper, const char *option)
{
    char text[64];

    return !strchr(option, '=') &&
           (size_t)snprintf(text, sizeof(text), " %s ", option) < sizeof(text) &&
           strstr(wrapper->valued, text);
}

/* The wrapper's name, its options and its own words. */
static void skip(struct mpl_job *job, const struct wrapper *wrapper)
{
    job->at += wrapper->verb ? 2 : 1;
    while (*mpl_job_word(job, job->at) == '-') {
        const char *option = mpl_job_word(job, job->at++);

        if (strcmp(option, "--") == 0)
            break;
        job->at += takes_value(wrapper, option);
    }
    job->at += (size_t)wrapper->words;
}

static bool take_assignment(struct mpl_job *job)
{
    const char *text = mpl_job_word(job, job->at);
    const size_t len = mpl_shell_assignment(text);
    char unknown[65] = "$", *name = unknown + 1; /* what the script does not set is as it was */

    if (!len)
        return false;
    snprintf(name, sizeof(unknown) - 1, "%.*s", (int)len, text);
    mpl_shell_set(job->shell, name,
                  job->command->words[job->at].is_open ? unknown : text + len + 1);
    job->at++;
    return true;
}

void mpl_job_skip_wrappers(struct mpl_job *job)
{
    const struct wrapper *wrapper;

    while (job->at < job->command->count) {
        if (take_assignment(job))
            continue;
        wrapper = find(job);
        if (!wrapper)
            return;
        skip(job, wrapper);
    }
}
