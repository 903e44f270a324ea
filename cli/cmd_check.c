/* SPDX-License-Identifier: MIT */
/* `memplan check`: one line per plan, for hooks. */
#include <stdlib.h>

#include "commands.h"
#include "message.h"
#include "report.h"
#include "run.h"

static int check_one(const struct settings *settings, const char *model)
{
    struct settings one = *settings;
    char *title = NULL;
    struct run run;
    int code;

    one.model = model;
    code = run_model(&one, RUN_JSON, 0, &run, &title);
    if (run.json) {
        report_print_line(stdout, run.json, model);
        putchar('\n');
    } else {
        /* Every plan has its line; the reason stands on standard error. */
        printf("%-13s  %s\n", code == MEMPLAN_CANNOT_TELL ? "cannot tell" : "invalid", model);
    }
    run_free(&run);
    free(title);
    return code;
}

int cmd_check(const struct settings *settings)
{
    int code = MEMPLAN_FITS;

    if (settings->model)
        code = check_one(settings, settings->model);
    else if (!settings->word_count)
        return message_invalid("check: no plan given");
    for (size_t i = 0; i < settings->word_count; i++)
        code = message_fold(code, check_one(settings, settings->words[i]));
    return code;
}
