/* SPDX-License-Identifier: MIT */
/* `memplan exec`: check, then become the command. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "exec_record.h"
#include "message.h"
#include "report.h"
#include "run.h"

static const char *verdict_text(int code)
{
    return code == MEMPLAN_DOES_NOT_FIT    ? "does not fit"
           : code == MEMPLAN_INSIDE_MARGIN ? "is inside the margin"
                                           : "cannot be told to fit";
}

static const char *way_out(int code)
{
    return code == MEMPLAN_INSIDE_MARGIN ? "--accept-margin runs it all the same"
                                         : "--force runs it all the same";
}

static bool may_run(const struct settings *settings, int code)
{
    return code == MEMPLAN_FITS || settings->force ||
           (code == MEMPLAN_INSIDE_MARGIN && settings->accept_margin);
}

/* One line on why it is not run, or is run although it should not be. */
static void explain(const struct settings *settings, const struct run *run, const char *title,
                    int code)
{
    bool goes = may_run(settings, code);
    char described[200];
    struct run longer;

    report_describe(run->json, described, sizeof(described));
    if (goes) {
        message_print("running although %s %s: %s", title, verdict_text(code), described);
        return;
    }
    /* The search for what would fit costs time that only a refusal is worth. */
    if (code != MEMPLAN_CANNOT_TELL && (!settings->model || strcmp(settings->model, "-") != 0)) {
        run_model(settings, RUN_JSON | RUN_SUGGESTIONS, 0, &longer, NULL);
        if (longer.json)
            report_describe(longer.json, described, sizeof(described));
        run_free(&longer);
    }
    message_print("refused: %s %s: %s; %s", title, verdict_text(code), described, way_out(code));
}

static int become(char **words)
{
    int code;

    execvp(words[0], words);
    code = errno == ENOENT || errno == ENOTDIR ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
    message_print("%s: %s", words[0], strerror(errno));
    return code;
}

int cmd_exec(const struct settings *given)
{
    struct settings own = *given;
    const struct settings *settings = &own;
    char *title = NULL;
    struct run run;
    int code;

    if (!settings->word_count)
        return message_invalid("exec: no command given, expected exec [OPTION...] -- CMD [ARG...]");
    own.from_words = !settings->model;
    code = run_model(settings, RUN_JSON | RUN_BRIEF, 0, &run, &title);
    if (run.json && code != MEMPLAN_FITS)
        explain(settings, &run, title, code);
    else if (code != MEMPLAN_FITS && may_run(settings, code))
        message_print("running although the plan could not be judged: %s", settings->words[0]);
    run_free(&run);
    free(title);
    if (!may_run(settings, code))
        return code;
    return settings->record ? exec_record(settings) : become(settings->words);
}
