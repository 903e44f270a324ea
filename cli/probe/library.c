/* SPDX-License-Identifier: MIT */
/* Probe: a driver's shared library, opened at run time. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *find_symbol(void *library, const struct probe_symbol *symbol)
{
    void *found = NULL;

    for (size_t i = 0; i < 3 && symbol->names[i] && !found; i++)
        found = dlsym(library, symbol->names[i]);
    return found;
}

bool probe_open(const char *variable, const char *soname, const struct probe_symbol *symbols,
                void *functions, struct probe_answer *answer)
{
    const char *named = getenv(variable);
    void *library = dlopen(named && *named ? named : soname, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        /* A library that is there and cannot be loaded is a fault; none is the usual answer. */
        const char *why = dlerror();
        bool is_absent = !why || strstr(why, "No such file");

        answer->state = is_absent ? PROBE_ABSENT : PROBE_FAILED;
        if (is_absent)
            snprintf(answer->text, sizeof(answer->text), "%s is not installed", soname);
        else
            snprintf(answer->text, sizeof(answer->text), "%s", why);
        return false;
    }
    for (size_t i = 0; symbols[i].names[0]; i++) {
        void *found = find_symbol(library, &symbols[i]);

        if (!found && symbols[i].is_needed) {
            answer->state = PROBE_FAILED;
            snprintf(answer->text, sizeof(answer->text), "%s has no %s", soname,
                     symbols[i].names[0]);
            return false;
        }
        memcpy((char *)functions + symbols[i].offset, &found, sizeof(found));
    }
    return true;
}
