/* SPDX-License-Identifier: MIT */
/* `memplan probe`: the cards of this machine and what is free on them. */
#include <memplan.h>

#include "commands.h"
#include "message.h"
#include "probe/probe.h"
#include "probe/runtime.h"

static int print_document(const struct settings *settings, const json_t *document)
{
    if (settings->json) {
        if (json_dumpf(document, stdout, JSON_COMPACT)) {
            message_print("probe: the answer cannot be written");
            return CLI_INTERNAL;
        }
        putchar('\n');
        return 0;
    }
    if (!json_array_size(json_object_get(document, "cards")) || probe_print(stdout, document))
        return 0;
    message_print("out of memory");
    return CLI_INTERNAL;
}

int cmd_probe(const struct settings *settings)
{
    json_t *document = NULL;
    char why[800];
    int code;

    if (settings->context && !probe_has_runtime())
        return message_invalid("probe --context: this build has no CUDA runtime (-Dcuda=enabled)");
    code = probe_run(settings->timeout ? settings->timeout : PROBE_SECONDS, settings->context,
                     &document);
    if (!code)
        code = print_document(settings, document);
    if (!code && !probe_visible_count(document)) {
        probe_explain_none(document, why, sizeof(why));
        message_print("%s", why);
        code = MEMPLAN_CANNOT_TELL;
    }
    json_decref(document);
    return code;
}
