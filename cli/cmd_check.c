/* SPDX-License-Identifier: MIT */
/* `memplan check`: one line per plan, for hooks. */
#include <stdlib.h>

#include "commands.h"
#include "message.h"
#include "report.h"
#include "run.h"
#include "text.h"

/* A name on one line: what would start a second one, or reach a terminal as a command, is "?". */
static char *clean(const char *name)
{
    char *text = text_format("%s", name);

    for (unsigned char *c = (unsigned char *)text; c && *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
    return text;
}

static const char *failure_word(int code)
{
    return code == MEMPLAN_CANNOT_TELL ? "cannot tell" : code == CLI_INVALID ? "invalid" : "failed";
}

static int check_one(const struct settings *settings, const char *model)
{
    struct settings one = *settings;
    char *name = clean(model);
    struct run run;
    int code;

    one.model = model;
    code = run_model(&one, RUN_JSON, 0, &run, NULL);
    if (run.json) {
        report_print_line(stdout, run.json, name ? name : "");
        putchar('\n');
    } else {
        /* Every plan has its line; the reason stands on standard error. */
        printf("%-13s  %s\n", failure_word(code), name ? name : "");
    }
    /* Where both streams end in one file, a reason stays beside its line. */
    fflush(stdout);
    run_free(&run);
    free(name);
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
