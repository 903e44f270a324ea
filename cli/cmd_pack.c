/* SPDX-License-Identifier: MIT */
/* `memplan pack`: what training code makes of samples of given lengths, at each sequence length. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "pack.h"
#include "run.h"

int pack_find_rule(const struct settings *settings, struct memplan_pack_rule *rule)
{
    char known[512] = "";

    for (size_t i = 0; memplan_pack_rule_entry(i, rule); i++) {
        if (settings->rule && !strcmp(settings->rule, rule->name))
            return 0;
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "",
                 rule->name);
    }
    if (!settings->rule)
        return message_invalid("no --rule, expected one of %s", known);
    return message_invalid("--rule %s: expected one of %s", settings->rule, known);
}

/* "4096,8192": up to PACK_MOST_LENGTHS whole numbers. */
static int read_candidates(const char *list, struct pack_result *result)
{
    const char *at = list;
    char *end;

    if (!list)
        return message_invalid("pack: no --seq, expected sequence lengths, as --seq 4096,8192");
    do {
        const uint64_t length = strtoull(at, &end, 10);

        if (end == at || *at < '0' || *at > '9' || (*end && *end != ',') || !length ||
            length > UINT32_MAX)
            return message_invalid("--seq %s: expected whole numbers above 0, as 4096,8192", list);
        if (result->count == PACK_MOST_LENGTHS)
            return message_invalid("--seq %s: more than %d lengths", list, PACK_MOST_LENGTHS);
        result->candidates[result->count++].sequence_length = length;
        at = end + 1;
    } while (*end);
    return 0;
}

/* ---- the plan ---------------------------------------------------------------------------------
 */

/* A number of the plan with its defaults, or what an option says, which then holds for the plan. */
static enum memplan_status settle(struct memplan_plan *plan, const json_t *spec,
                                  const char *section, const char *name, uint64_t *number,
                                  struct memplan_error *err)
{
    const json_t *value = json_object_get(json_object_get(spec, section), name);
    char assignment[96];

    if (!*number) {
        *number = json_is_integer(value) ? (uint64_t)json_integer_value(value) : 1;
        return MEMPLAN_OK;
    }
    snprintf(assignment, sizeof(assignment), "%s.%s=%" PRIu64, section, name, *number);
    return memplan_plan_set(plan, assignment, err);
}

enum memplan_status pack_settle(struct memplan_plan *plan, struct memplan_pack_options *o,
                                struct memplan_error *err)
{
    enum memplan_status status;
    char *text = NULL;
    json_t *spec;

    if ((status = memplan_plan_to_json(plan, &text, err)))
        return status;
    spec = json_loads(text, 0, NULL);
    memplan_free(text);
    if (!(status = settle(plan, spec, "parallelism", "world_size", &o->world_size, err)) &&
        !(status = settle(plan, spec, "training", "micro_batch_size", &o->micro_batch_size, err)))
        status =
            settle(plan, spec, "training", "gradient_accumulation_steps", &o->accumulation, err);
    json_decref(spec);
    return status;
}

static int load_plan(const struct settings *settings, struct pack_result *result,
                     struct memplan_plan **plan)
{
    struct memplan_error err = {0};
    struct input input;
    int code;

    if (!settings->model)
        return 0;
    if ((code = run_read(settings, &input)))
        return code;
    if (run_load(settings, &input, plan, &err) || pack_settle(*plan, &result->options, &err))
        code = message_error(&err, input.source);
    input_free(&input);
    return code;
}

/* ---- packing ----------------------------------------------------------------------------------
 */

static int pack_one(struct pack_result *result, struct pack_candidate *candidate)
{
    struct memplan_pack_options options = result->options;
    struct memplan_error err = {0};

    options.sequence_length = candidate->sequence_length;
    options.shuffle = result->lengths.is_histogram;
    candidate->summary.size = sizeof(candidate->summary);
    if (memplan_pack(result->lengths.of, result->lengths.count, &options, &candidate->packs,
                     &err) ||
        memplan_packs_summary(candidate->packs, &candidate->summary, &err))
        return message_error(&err, result->lengths.source);
    return 0;
}

static int pack_all(const struct settings *settings, struct pack_result *result,
                    struct memplan_plan *plan)
{
    struct memplan_pack_options *o = &result->options;
    int code = 0;

    o->world_size = o->world_size ? o->world_size : 1;
    o->micro_batch_size = o->micro_batch_size ? o->micro_batch_size : 1;
    o->accumulation = o->accumulation ? o->accumulation : 1;
    for (size_t i = 0; i < result->count && !code; i++) {
        code = pack_one(result, &result->candidates[i]);
        if (!code && plan)
            code = pack_memory_find(&result->candidates[i], plan, settings);
    }
    return code;
}

static int run(const struct settings *settings, struct pack_result *result)
{
    struct memplan_plan *plan = NULL;
    int code;

    result->options = (struct memplan_pack_options){.size = sizeof(result->options),
                                                    .rule = settings->rule,
                                                    .world_size = settings->world,
                                                    .micro_batch_size = settings->rows,
                                                    .accumulation = settings->accumulate,
                                                    .map_batch = settings->map_batch,
                                                    .multiple_of = settings->step,
                                                    .seed = settings->draw};
    if (!(code = load_plan(settings, result, &plan)) &&
        !(code = lengths_read(settings->words[0], settings->member, &result->lengths)))
        code = pack_all(settings, result, plan);
    memplan_plan_free(plan);
    return code;
}

int cmd_pack(const struct settings *settings)
{
    struct pack_result *result = calloc(1, sizeof(*result));
    int code;

    if (!result) {
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    if (!(code = pack_find_rule(settings, &result->rule)))
        code = read_candidates(settings->lengths_list, result);
    if (!code && settings->word_count != 1)
        code = message_invalid("pack: expected one file of LENGTHS, \"-\" for standard input");
    if (!code)
        code = run(settings, result);
    if (!code)
        code = settings->json ? pack_print_json(result, settings) : pack_print(result, settings);
    for (size_t i = 0; i < result->count; i++)
        memplan_packs_free(result->candidates[i].packs);
    lengths_free(&result->lengths);
    free(result);
    return code;
}
