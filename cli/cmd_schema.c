/* SPDX-License-Identifier: MIT */
/* `memplan schema`: the JSON schema of a plan. */
#include <stdio.h>

#include "commands.h"
#include "message.h"
#include "run.h"

int cmd_schema(const struct settings *settings)
{
    struct memplan_error err = {0};
    char *text = NULL;

    (void)settings;
    if (memplan_plan_schema(&text, &err))
        return message_error(&err, "schema");
    puts(text);
    memplan_free(text);
    return 0;
}
