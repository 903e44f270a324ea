/* SPDX-License-Identifier: MIT */
/* `memplan estimate`: one plan, its report, its verdict. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "message.h"
#include "report.h"
#include "run.h"

struct stage_name {
    const char *name;
    enum memplan_stage stage;
};

static const struct stage_name stage_names[] = {
    {"spec", MEMPLAN_STAGE_SPEC},
    {"timeline", MEMPLAN_STAGE_TIMELINE},
    {"replay", MEMPLAN_STAGE_REPLAY},
};

/* The stage of --dump; 0 when there is no such stage. */
static uint32_t find_stage(const char *name)
{
    for (size_t i = 0; i < sizeof(stage_names) / sizeof(*stage_names); i++)
        if (strcmp(stage_names[i].name, name) == 0)
            return stage_names[i].stage;
    return 0;
}

static int print_text(enum memplan_status status, char *text, const struct memplan_error *err)
{
    size_t len;

    if (status)
        return message_error(err, "report");
    len = strlen(text);
    fwrite(text, 1, len, stdout);
    if (len && text[len - 1] != '\n')
        putchar('\n');
    memplan_free(text);
    return 0;
}

static int print_dump(const struct run *run, uint32_t stage)
{
    struct memplan_error err = {0};
    char *text = NULL;
    enum memplan_status status =
        memplan_report_dump(run->report, (enum memplan_stage)stage, &text, &err);

    return print_text(status, text, &err);
}

static int print_json(const struct run *run)
{
    struct memplan_error err = {0};
    char *text = NULL;
    enum memplan_status status = run_to_json(run, &text, &err);

    return print_text(status, text, &err);
}

static int print_report(const struct run *run, const char *title)
{
    const char *plain = getenv("NO_COLOR");
    bool colour = isatty(STDOUT_FILENO) && !(plain && *plain);

    if (!run->report) {
        report_print_refusal(stdout, run->json, title, colour);
        return 0;
    }
    if (report_print(stdout, run->json, title, colour))
        return 0;
    message_print("out of memory");
    return CLI_INTERNAL;
}

int cmd_estimate(const struct settings *settings)
{
    bool plain = settings->json || settings->dump;
    uint32_t stage = 0;
    char *title = NULL;
    struct run run;
    int code, printed;

    if (settings->jsonl)
        return jsonl_run(settings);
    if (settings->dump && !(stage = find_stage(settings->dump)))
        return message_invalid("--dump %s: expected spec, timeline or replay", settings->dump);
    if (settings->dump && settings->json)
        return message_invalid("--dump and --json: give one of them");
    code = run_model(settings, (plain ? 0 : RUN_JSON) | (stage ? 0 : RUN_SUGGESTIONS), stage, &run,
                     &title);
    if (run.report || run.json) {
        printed = stage            ? print_dump(&run, stage)
                  : settings->json ? print_json(&run)
                                   : print_report(&run, title);
        code = printed ? printed : code;
    }
    run_free(&run);
    free(title);
    return code;
}
