/* SPDX-License-Identifier: MIT */
/* Options: one row each, which drives parsing, --help and the test of the manual. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "text.h"

#define AT(member)   offsetof(struct settings, member)
#define MOST_OPTIONS 32

const struct option_row options_plan[] = {
    {"model", "PLAN", "plan, config.json, folder of a model, \"-\" for standard input, or a preset",
     OPTION_TEXT, AT(model), NULL},
    {"assume", "FAMILY", "read a model whose model_type is not known as one of this family",
     OPTION_NAME, 0, "model.assume"},
    {"seq", "N", "sequence length, tokens", OPTION_FIELD, 0, "training.sequence_length"},
    {"batch", "N", "micro batch of one rank, sequences", OPTION_FIELD, 0,
     "training.micro_batch_size"},
    {"gpu", "NAME", "card, by a part of its name; auto: of this machine", OPTION_NAME, 0,
     "device.gpu"},
    {"gpus", "N", "ranks over all nodes", OPTION_FIELD, 0, "parallelism.world_size"},
    {"capacity", "SIZE", "the card's memory (80 GiB), in place of the card table's", OPTION_FIELD,
     0, "device.total_bytes"},
    {"set", "FIELD=VALUE", "set any field of the plan; may be repeated", OPTION_SET, 0, NULL},
    {"risk", "R", "largest accepted chance that a \"fits\" is wrong (0.01)", OPTION_RISK, AT(risk),
     NULL},
    {"no-readings", NULL, "leave the plan's observations out", OPTION_FLAG, AT(no_readings), NULL},
    {0},
};

const struct option_row options_estimate[] = {
    {"no-suggestions", NULL, "do not search for the longest sequence that fits", OPTION_FLAG,
     AT(no_suggestions), NULL},
    {"ranks", NULL, "compute every rank that differs, and print a table of them", OPTION_FLAG,
     AT(all_ranks), NULL},
    {"json", NULL, "print the report as JSON", OPTION_FLAG, AT(json), NULL},
    {"jsonl", NULL, "read plans from standard input, one a line; print one report a line",
     OPTION_FLAG, AT(jsonl), NULL},
    {"dump", "STAGE", "print one stage in place of the report: spec, timeline or replay",
     OPTION_TEXT, AT(dump), NULL},
    {0},
};

const struct option_row options_calibrated[] = {
    {"calibration", "FILE", "correct the prediction by what memplan calibrate wrote", OPTION_TEXT,
     AT(calibration), NULL},
    {0},
};

const struct option_row options_calibrate[] = {
    {"readings", "FILE", "readings to add to the plan's own: a JSON list of observations",
     OPTION_TEXT, AT(readings), NULL},
    {"output", "FILE", "write the calibration there, for --calibration", OPTION_TEXT, AT(output),
     NULL},
    {"json", NULL, "print the calibration as JSON", OPTION_FLAG, AT(json), NULL},
    {0},
};

const struct option_row options_check[] = {
    {"no-files", NULL, "open no file that a PLAN names: a model is a preset, not a folder",
     OPTION_FLAG, AT(no_files), NULL},
    {0},
};

const struct option_row options_exec[] = {
    {"accept-margin", NULL, "run when the answer is \"inside the margin\" too", OPTION_FLAG,
     AT(accept_margin), NULL},
    {"force", NULL, "run whatever the answer, even for an invalid plan", OPTION_FLAG, AT(force),
     NULL},
    {"record", NULL, "stay, and record in the ledger whether CMD ran or ran out of memory",
     OPTION_FLAG, AT(record), NULL},
    {0},
};

const struct option_row options_review[] = {
    {"annotation", "KEY", "annotation that holds a plan (memplan/plan); KEY-name names one of DIR",
     OPTION_TEXT, AT(annotation), NULL},
    {"plans", "DIR", "folder of plans that annotations may name, as a mounted ConfigMap is one",
     OPTION_TEXT, AT(plans), NULL},
    {"commands", NULL, "where there is no plan, read the containers' command lines", OPTION_FLAG,
     AT(commands), NULL},
    {"refuse-margin", NULL, "refuse what is inside the margin, too", OPTION_FLAG, AT(refuse_margin),
     NULL},
    {"timeout", "SECONDS", "how long a review may take; then it is allowed (2)", OPTION_TIME,
     AT(timeout), NULL},
    {"gpu", "NAME", "card, where the request names none", OPTION_NAME, 0, "device.gpu"},
    {"capacity", "SIZE", "the card's memory, where the request names no card", OPTION_FIELD, 0,
     "device.total_bytes"},
    {"set", "FIELD=VALUE", "set any field of the plan; may be repeated", OPTION_SET, 0, NULL},
    {"risk", "R", "largest accepted chance that a \"fits\" is wrong (0.01)", OPTION_RISK, AT(risk),
     NULL},
    {0},
};

const struct option_row options_search[] = {
    {"from", "A", "least value that is tried; else the field's own", OPTION_TEXT, AT(from), NULL},
    {"to", "B", "largest value that is tried; else the field's own", OPTION_TEXT, AT(to), NULL},
    {"multiple-of", "N", "only multiples of N (1 MiB of sizes, 128 of sequence_length, else 1)",
     OPTION_TEXT, AT(multiple_of), NULL},
    {"json", NULL, "print the answer and every value tried as JSON", OPTION_FLAG, AT(json), NULL},
    {0},
};

const struct option_row options_sweep[] = {
    {"peaks-only", NULL, "leave the band of needs out, which takes most of the time", OPTION_FLAG,
     AT(peaks_only), NULL},
    {"tsv", NULL, "print tab separated values, sizes in bytes", OPTION_FLAG, AT(tsv), NULL},
    {"svg", "FILE", "draw memory over the field, the card and the plan's observations", OPTION_TEXT,
     AT(svg), NULL},
    {"json", NULL, "print the points as JSON", OPTION_FLAG, AT(json), NULL},
    {0},
};

const struct option_row options_import[] = {
    {"output", "PLAN", "file to write the plan to, in place of standard output", OPTION_TEXT,
     AT(output), NULL},
    {"release", "VERSION", "release of the trainer, where its defaults depend on it", OPTION_TEXT,
     AT(release), NULL},
    {0},
};

const struct option_row options_replay[] = {
    {"conf", "SETTINGS",
     "allocator settings to try, as in PYTORCH_CUDA_ALLOC_CONF; may be repeated", OPTION_CONF, 0,
     NULL},
    {"total", "SIZE", "the card's total (80 GiB); else the trace's", OPTION_SIZE, AT(total_bytes),
     NULL},
    {"context", "SIZE", "taken from the card before the first request", OPTION_SIZE,
     AT(context_bytes), NULL},
    {"fraction", "F", "argument of torch.cuda.set_per_process_memory_fraction", OPTION_SHARE,
     AT(fraction), NULL},
    {"pytorch", "RELEASE", "whose settings these are (the newest known)", OPTION_TEXT, AT(pytorch),
     NULL},
    {"until", "N", "stop after so many events", OPTION_COUNT, AT(until), NULL},
    {"svg", "FILE", "draw segments and blocks where reserved memory is highest, or a request fails",
     OPTION_TEXT, AT(svg), NULL},
    {"json", NULL, "print the results as JSON", OPTION_FLAG, AT(json), NULL},
    {"jsonl", NULL, "read cases from standard input, one a line; print one result a line",
     OPTION_FLAG, AT(jsonl), NULL},
    {0},
};

const struct option_row options_pack[] = {
    {"rule", "RULE", "how samples are packed: speculators, trl-bfd and others", OPTION_TEXT,
     AT(rule), NULL},
    {"seq", "N[,N...]", "sequence lengths to compare, tokens", OPTION_TEXT, AT(lengths_list), NULL},
    {"model", "PLAN", "plan of the run, a file or a preset's name: memory at each length",
     OPTION_TEXT, AT(model), NULL},
    {"gpu", "NAME", "card, by a part of its name; auto: of this machine", OPTION_NAME, 0,
     "device.gpu"},
    {"set", "FIELD=VALUE", "set any field of the plan; may be repeated", OPTION_SET, 0, NULL},
    {"risk", "R", "largest accepted chance that a \"fits\" is wrong (0.01)", OPTION_RISK, AT(risk),
     NULL},
    {"no-readings", NULL, "leave the plan's observations out", OPTION_FLAG, AT(no_readings), NULL},
    {"world", "N", "data-parallel ranks (the plan's, or 1)", OPTION_COUNT, AT(world), NULL},
    {"batch", "N", "rows of one rank's micro batch (the plan's, or 1)", OPTION_COUNT, AT(rows),
     NULL},
    {"accumulate", "N", "micro batches of one step (the plan's, or 1)", OPTION_COUNT,
     AT(accumulate), NULL},
    {"member", "NAME", "of a line that is an object: the member that holds length or token ids",
     OPTION_TEXT, AT(member), NULL},
    {"map-batch", "N", "samples that TRL packs at once (1000)", OPTION_COUNT, AT(map_batch), NULL},
    {"multiple-of", "N", "padded rows are a multiple of N tokens (1)", OPTION_COUNT, AT(step),
     NULL},
    {"seed", "N", "of the order in which samples or packs are drawn (0)", OPTION_WHOLE, AT(draw),
     NULL},
    {"within", "N", "steps for the chance of running out of memory (an epoch's)", OPTION_COUNT,
     AT(within), NULL},
    {"json", NULL, "print the results as JSON", OPTION_FLAG, AT(json), NULL},
    {0},
};

const struct option_row options_read_log[] = {
    {"json", NULL, "print the messages as JSON", OPTION_FLAG, AT(json), NULL},
    {0},
};

const struct option_row options_probe[] = {
    {"json", NULL, "print what was found as JSON", OPTION_FLAG, AT(json), NULL},
    {"context", NULL, "make a CUDA context on each visible card, and measure it", OPTION_FLAG,
     AT(context), NULL},
    {"timeout", "SECONDS", "how long a driver may take to answer (20)", OPTION_TIME, AT(timeout),
     NULL},
    {0},
};

const struct option_row options_help[] = {
    {"markdown", NULL, "print the list of fields in Markdown", OPTION_FLAG, AT(markdown), NULL},
    {0},
};

const struct option_row options_ledger[] = {
    {"ledger", "PATH", "folder, or file, of what became of runs (see memplan history)", OPTION_TEXT,
     AT(ledger), NULL},
    {"no-ledger", NULL, "ask the model alone, not what became of runs", OPTION_FLAG, AT(no_ledger),
     NULL},
    {0},
};

const struct option_row options_record[] = {
    {"bytes", "SIZE", "what was read of a run that ran: 28.5GB, 26.5GiB, or 28.5 if nobody knows",
     OPTION_TEXT, AT(bytes), NULL},
    {"metric", "METRIC", "what SIZE is: allocated, reserved or device", OPTION_TEXT, AT(metric),
     NULL},
    {"ran", NULL, "the run ran", OPTION_FLAG, AT(ran), NULL},
    {"oom", NULL, "the run ran out of memory", OPTION_FLAG, AT(oom), NULL},
    {"log", "FILE", "the run's log, which holds an out-of-memory message", OPTION_TEXT, AT(log),
     NULL},
    {0},
};

const struct option_row options_history[] = {
    {"json", NULL, "print the records as JSON", OPTION_FLAG, AT(json), NULL},
    {0},
};

const struct option_row options_next[] = {
    {"field", "FIELD", "what to change (training.sequence_length)", OPTION_TEXT, AT(field), NULL},
    {"multiple-of", "N", "propose multiples of N (128 tokens, 1 of other fields)", OPTION_COUNT,
     AT(step), NULL},
    {"explore", NULL, "propose the run that would tell most, not the largest safe one", OPTION_FLAG,
     AT(explore), NULL},
    {"lengths", "FILE", "lengths of the samples, as of pack: also say the steps of an epoch",
     OPTION_TEXT, AT(samples), NULL},
    {"rule", "RULE", "how the samples are packed, for --lengths", OPTION_TEXT, AT(rule), NULL},
    {"json", NULL, "print the proposal as JSON", OPTION_FLAG, AT(json), NULL},
    {0},
};

const struct option_row options_common[] = {
    {"help", "[=TOPIC]", "this text; --help=fields lists the fields of a plan", OPTION_HELP,
     AT(help), NULL},
    {"version", NULL, "print the version", OPTION_FLAG, AT(version), NULL},
    {0},
};

/* Adds an assignment; takes text, which is NULL when there was no memory for it. */
static int add_assignment(struct settings *settings, char *option, char *text)
{
    struct assignment *grown =
        realloc(settings->assignments, (settings->assignment_count + 1) * sizeof(*grown));

    if (grown)
        settings->assignments = grown;
    if (!grown || !text || !option) {
        free(text);
        free(option);
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    grown[settings->assignment_count++] = (struct assignment){option, text};
    return 0;
}

static int assign_field(const struct option_row *row, const char *argument,
                        struct settings *settings)
{
    char *option = text_format("--%s %s", row->name, argument);

    if (row->kind == OPTION_SET)
        return add_assignment(settings, option, text_format("%s", argument));
    return add_assignment(settings, option, text_format("%s=%s", row->path, argument));
}

/* A name that is a number, as in "--gpu 4090", stays text: it is written as JSON. */
static int assign_name(const struct option_row *row, const char *argument,
                       struct settings *settings)
{
    char *quoted = text_quote(argument);
    int code;

    if (!quoted)
        return message_invalid("--%s: the name is not UTF-8 text", row->name);
    code = add_assignment(settings, text_format("--%s %s", row->name, argument),
                          text_format("%s=%s", row->path, quoted));
    free(quoted);
    return code;
}

static int read_risk(const char *argument, double *risk)
{
    char *end;

    errno = 0;
    *risk = strtod(argument, &end);
    if (errno || end == argument || *end || !(*risk > 0 && *risk < 0.5))
        return message_invalid("--risk %s: expected a number above 0 and below 0.5", argument);
    return 0;
}

static int read_share(const char *argument, double *share)
{
    char *end;

    errno = 0;
    *share = strtod(argument, &end);
    if (errno || end == argument || *end || !(*share > 0 && *share <= 1))
        return message_invalid("--fraction %s: expected a number above 0, up to 1", argument);
    return 0;
}

static int read_count(const struct option_row *row, const char *argument, uint64_t *count)
{
    char *end;

    errno = 0;
    *count = strtoull(argument, &end, 10);
    if (errno || end == argument || *end || *argument == '-' || *count == 0)
        return message_invalid("--%s %s: expected a whole number above 0", row->name, argument);
    return 0;
}

static int read_whole(const struct option_row *row, const char *argument, uint64_t *count)
{
    char *end;

    errno = 0;
    *count = strtoull(argument, &end, 10);
    if (errno || end == argument || *end || *argument == '-')
        return message_invalid("--%s %s: expected a whole number", row->name, argument);
    return 0;
}

static int read_size(const struct option_row *row, const char *argument, uint64_t *bytes)
{
    if (text_read_size(argument, bytes))
        return 0;
    return message_invalid("--%s %s: expected a size above 0 with its unit, as 80 GiB or 81090 MiB",
                           row->name, argument);
}

static int add_conf(struct settings *settings, const char *argument)
{
    if (settings->conf_count == SETTINGS_MOST_CONFS)
        return message_invalid("--conf %s: more than %d settings", argument, SETTINGS_MOST_CONFS);
    settings->confs[settings->conf_count++] = argument;
    return 0;
}

static int read_time(const char *argument, unsigned *seconds)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(argument, &end, 10);
    if (errno || end == argument || *end || value < 1 || value > 3600)
        return message_invalid("--timeout %s: expected seconds, 1 to 3600", argument);
    *seconds = (unsigned)value;
    return 0;
}

static int apply(const struct option_row *row, const char *argument, struct settings *settings)
{
    void *target = (char *)settings + row->offset;

    switch (row->kind) {
    case OPTION_HELP:
        settings->topic = argument;
        *(bool *)target = true;
        return 0;
    case OPTION_FLAG:
        *(bool *)target = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)target = argument;
        return 0;
    case OPTION_CONF:
        return add_conf(settings, argument);
    case OPTION_SIZE:
        return read_size(row, argument, target);
    case OPTION_COUNT:
        return read_count(row, argument, target);
    case OPTION_WHOLE:
        return read_whole(row, argument, target);
    case OPTION_SHARE:
        return read_share(argument, target);
    case OPTION_RISK:
        return read_risk(argument, target);
    case OPTION_TIME:
        return read_time(argument, target);
    case OPTION_NAME:
        return assign_name(row, argument, settings);
    case OPTION_FIELD:
    case OPTION_SET:
        return assign_field(row, argument, settings);
    }
    return CLI_INTERNAL;
}

/* getopt's table and, beside it, our rows. Returns their number. */
static int list_options(const struct option_set *set, struct option *options,
                        const struct option_row **rows)
{
    int count = 0;

    for (size_t t = 0; t < OPTION_TABLES && set->tables[t]; t++)
        for (const struct option_row *row = set->tables[t]; row->name; row++) {
            options[count] = (struct option){
                .name = row->name,
                .has_arg = row->kind == OPTION_HELP ? optional_argument
                           : row->argument          ? required_argument
                                                    : no_argument,
                .val = count + 1,
            };
            rows[count++] = row;
        }
    options[count] = (struct option){0};
    return count;
}

/* Says what was wrong with the word that getopt stopped at. */
static int refuse(const struct option_row **rows, int count, int found, const char *word)
{
    int index = optopt - 1;

    if (index >= 0 && index < count && strncmp(word, "--", 2) == 0)
        return found == ':'
                   ? message_invalid("--%s: needs %s", rows[index]->name, rows[index]->argument)
                   : message_invalid("--%s: takes no value", rows[index]->name);
    for (int i = 0; i < count; i++)
        if (strncmp(word, "--", 2) == 0 && text_is_near(word + 2, rows[i]->name))
            return message_invalid("unknown option %s, did you mean --%s?", word, rows[i]->name);
    return message_invalid("unknown option %s; see memplan help", word);
}

/* What getopt would return for the long form of -o; '?': the command has none. */
static int long_form(const struct option_row **rows, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i]->name, "output") == 0)
            return i + 1;
    return '?';
}

int options_parse(const struct option_set *set, int argc, char **argv, struct settings *settings)
{
    struct option options[MOST_OPTIONS + 1];
    const struct option_row *rows[MOST_OPTIONS];
    int count = list_options(set, options, rows);
    int found, before;

    opterr = 0;
    optind = 1;
    while (before = optind,
           (found = getopt_long(argc, argv, set->stop_at_word ? "+:ho:" : ":ho:", options, NULL)) !=
               -1) {
        int code;

        if (found == ':' && optopt == 'o')
            return message_invalid("-o: needs the name of a file");
        if (found == 'o' && (found = long_form(rows, count)) == '?')
            return message_invalid("unknown option -o; see memplan help");
        if (found == '?' || found == ':')
            return refuse(rows, count, found, argv[optind > before ? optind - 1 : before]);
        if (found == 'h') {
            settings->help = true;
            continue;
        }
        code = apply(rows[found - 1], optarg, settings);
        if (code)
            return code;
    }
    settings->words = argv + optind;
    settings->word_count = (size_t)(argc - optind);
    return 0;
}

bool options_is_auto(const struct assignment *one)
{
    return strcmp(one->option, "--gpu auto") == 0;
}

void options_print(const struct option_set *set, FILE *out)
{
    for (size_t t = 0; t < OPTION_TABLES && set->tables[t]; t++)
        for (const struct option_row *row = set->tables[t]; row->name; row++) {
            char name[48];

            snprintf(name, sizeof(name), "%s--%s%s%s",
                     strcmp(row->name, "output") == 0 ? "-o, " : "", row->name,
                     row->argument && row->kind != OPTION_HELP ? " " : "",
                     row->argument ? row->argument : "");
            fprintf(out, "  %-20s %s\n", name, row->help);
        }
}

void options_free(struct settings *settings)
{
    for (size_t i = 0; i < settings->assignment_count; i++) {
        free(settings->assignments[i].option);
        free(settings->assignments[i].text);
    }
    free(settings->assignments);
    json_decref(settings->probe);
}
