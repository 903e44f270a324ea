/* SPDX-License-Identifier: MIT */
/* `memplan next`: what to run next, given what ran and what failed. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "next.h"
#include "run.h"

/* --field by its path, or by its last name. */
static int find_field(struct next *next)
{
    const char *name = next->settings->field ? next->settings->field : "sequence_length";
    char list[256] = "";

    for (size_t i = 0; (next->field = memplan_demand_field(i)); i++) {
        next->demand = i;
        if (strcmp(next->field, name) == 0 || strcmp(strrchr(next->field, '.') + 1, name) == 0)
            return 0;
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
                 next->field);
    }
    return message_invalid("--field %s: a failure says nothing of other values of it; expected one "
                           "of: %s",
                           name, list);
}

static int read_ledger(struct next *next)
{
    char *path = next->settings->no_ledger ? NULL : ledger_path(next->settings);
    struct memplan_identity id = {.size = sizeof(id)};
    struct memplan_error err;
    int code = 0;

    if (memplan_plan_identity(next->plan, &id, &err))
        code = message_error(&err, next->source);
    else if (path)
        code = ledger_entries_read(path, id.kin, &next->entries);
    if (!code)
        ledger_losses_print(&next->entries.losses);
    free(path);
    return code;
}

static int propose(const struct settings *settings, const struct input *input)
{
    struct next next = {.settings = settings, .source = input->source};
    struct memplan_error err;
    int code = find_field(&next);

    next.step = settings->step     ? (int64_t)(settings->step >> 30 ? 1 << 30 : settings->step)
                : next.demand == 0 ? 128
                                   : 1;
    if (!code && run_load(settings, input, &next.plan, &err))
        code = message_error(&err, input->source);
    if (!code)
        code = read_ledger(&next);
    if (!code)
        code = next_search(&next);
    if (!code)
        code = next_epoch(&next);
    if (!code)
        code = next_print(&next);
    json_decref(next.at_failed);
    ledger_entries_free(&next.entries);
    memplan_plan_free(next.plan);
    return code;
}

int cmd_next(const struct settings *settings)
{
    struct input input;
    int code;

    if (!settings->model)
        return message_invalid("no plan: give --model PLAN; see memplan list for presets");
    if ((code = run_read(settings, &input)))
        return code;
    code = propose(settings, &input);
    input_free(&input);
    return code;
}
