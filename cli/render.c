/* SPDX-License-Identifier: MIT */
/* For tests: the report that a person reads, from JSON on standard input, without the library. */
#include <jansson.h>
#include <stdio.h>

#include "report.h"

int main(void)
{
    json_error_t error;
    json_t *report = json_loadf(stdin, 0, &error);
    bool good;

    if (!report) {
        fprintf(stderr, "render: %s\n", error.text);
        return 1;
    }
    good = report_print(stdout, report, "untitled", false);
    fputs("\n", stdout);
    report_print_line(stdout, report, "untitled");
    fputs("\n", stdout);
    json_decref(report);
    return good ? 0 : 1;
}
