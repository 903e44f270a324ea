/* SPDX-License-Identifier: MIT */
/* Readers of trainers' configurations: their tables, and which of two files is taken. */
#include "import/import.h"

#include <string.h>

#include "ingest/document.h"
#include "ingest/preset.h"
#include "spec/fields.h"
#include "test.h"

#if HAVE_TOML
#define TOML_NAME "torchtitan configuration"
#else
#define TOML_NAME "TOML" /* known, and not read */
#endif

static const struct mpl_import_reader *const readers[] = {
    &mpl_import_deepspeed,    &mpl_import_arguments,   &mpl_import_adapter,
    &mpl_import_accelerate,   &mpl_import_fsdp,        &mpl_import_axolotl,
    &mpl_import_llamafactory, &mpl_import_speculators, &mpl_import_megatron,
    &mpl_import_torchtitan,
};

/* A word's value is one that its field takes. */
static void check_words(const struct mpl_import_key *row, const struct mpl_field *field)
{
    for (const struct mpl_import_word *word = row->words; word->text; word++) {
        struct memplan_error err = {0};
        json_t *json = word->json ? json_loads(word->json, JSON_DECODE_ANY, NULL) : NULL;

        ck_assert_msg(!word->json || json, "%s: %s", row->key, word->text);
        if (json && field)
            ck_assert_msg(mpl_spec_check_value(field, json, &err) != MEMPLAN_ERR_VALUE, "%s: %s",
                          row->key, err.text); /* what is known and not modelled is refused */
        json_decref(json);
    }
}

START_TEST(every_row_names_a_field)
{
    const struct mpl_import_reader *reader = readers[_i];

    for (size_t i = 0; i < reader->key_count; i++) {
        const struct mpl_import_key *row = &reader->keys[i];
        const struct mpl_field *field = row->path ? mpl_field_find(row->path) : NULL;

        ck_assert_msg(!row->path || field || strncmp(row->path, "import.", 7) == 0, "%s: %s",
                      row->key, row->path);
        ck_assert_msg(row->kind != MPL_IMPORT_UNLESS || (row->why && !row->path), "%s", row->key);
        ck_assert_msg(row->kind != MPL_IMPORT_CALL || row->call, "%s", row->key);
        ck_assert_msg((row->kind == MPL_IMPORT_WORD) == (row->words != NULL), "%s", row->key);
        if (row->words)
            check_words(row, field);
    }
}
END_TEST

START_TEST(no_key_stands_in_both_tables)
{
    const struct mpl_import_reader *reader = readers[_i];

    for (size_t i = 0; i < reader->key_count; i++) {
        for (const char *const *name = reader->harmless; *name; name++)
            ck_assert_msg(strcmp(*name, reader->keys[i].key) != 0, "%s: %s", reader->name, *name);
        for (size_t j = 0; j < i; j++)
            ck_assert_msg(strcmp(reader->keys[i].key, reader->keys[j].key) != 0, "%s: %s",
                          reader->name, reader->keys[j].key);
    }
}
END_TEST

static const struct {
    const char *text, *format;
} format_table[] = {
    {"{\"model_type\": \"llama\", \"hidden_size\": 64}", "config.json of a model"},
    {"{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": \"mistral\"}}",
     "config.json of a model of text and more"},
    {"{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\"}}",
     "config.json of a model"},
    {"{\"peft_type\": \"LORA\", \"r\": 8}", "PEFT configuration"},
    {"{\"zero_optimization\": {}}", "DeepSpeed configuration"},
    {"{\"fsdp_version\": 2}", "configuration of FSDP"},
    {"{\"model\": {}, \"training\": {}}", "plan"},
    {"output_dir: x\nlearning_rate: 1e-5\n", "TrainingArguments"},
    {"compute_environment: LOCAL_MACHINE\n", "configuration of accelerate"},
    {"base_model: x\nmodel_type: LlamaForCausalLM\n", "configuration of axolotl"},
    {"stage: sft\nmodel_name_or_path: x\n", "configuration of LLaMA-Factory"},
    {"# run it with torchrun --nproc_per_node=8\nbase_model: x\n", "configuration of axolotl"},
    {"torchrun --nproc_per_node=8 train.py\n", "job script"},
    {"#!/bin/sh\n", "job script"},
    {"trl sft --model_name_or_path x\n", "job script"},
    {"python scripts/train.py --bf16\n", "job script"},
    {"python: 3.12\nbase_model: x.py --y\n", "configuration of axolotl"},
    {"[training]\nsteps = 3\n", TOML_NAME},
    {"{\"weight_map\": {}}", "index of weights"},
    {"{\"safetensors\": {}}", "weights"},
    {"[1, 2]\n", NULL},
    {"{\"a\": 1}", NULL},
    {"{\"a\": ", NULL},
    {"", NULL},
};

START_TEST(a_format_is_told_by_its_keys)
{
    const char *text = format_table[_i].text, *want = format_table[_i].format;
    const char *found = memplan_import_format(text, strlen(text));

    ck_assert_msg(want ? found && strcmp(found, want) == 0 : !found, "%s: %s", text,
                  found ? found : "NULL");
}
END_TEST

static const struct {
    const char *text, *json;
} scalar_table[] = {
    {"", "null"},           {"~", "null"},
    {"yes", "true"},        {"Off", "false"},
    {"12", "12"},           {"-3", "-3"},
    {"5_000", "5000"},      {"1e-5", "1e-5"},
    {"2.", "2.0"},          {"0.", "0.0"},
    {"5e8", "500000000.0"}, {"1.2.3", "\"1.2.3\""},
    {"12a", "\"12a\""},     {"e5", "\"e5\""},
    {"_", "\"_\""},         {"-", "\"-\""},
    {"1e", "\"1e\""},       {"99999999999999999999", "\"99999999999999999999\""},
};

START_TEST(a_plain_word_is_read_as_yaml_has_it)
{
    json_t *json = mpl_import_scalar(scalar_table[_i].text, strlen(scalar_table[_i].text));
    char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

    ck_assert_str_eq(text, scalar_table[_i].json);
    free(text);
    json_decref(json);
}
END_TEST

START_TEST(the_later_file_is_taken_and_said)
{
    static const char first[] = "{\"output_dir\": \"x\",\n \"per_device_train_batch_size\": 4}";
    static const char second[] = "output_dir: x\nper_device_train_batch_size: 2\n";
    const struct memplan_import_file files[] = {{"a.json", first, sizeof(first) - 1},
                                                {"b.yaml", second, sizeof(second) - 1}};
    struct memplan_import *import = NULL;
    struct memplan_error err;
    char *json = NULL;

    ck_assert_msg(!memplan_import_read(files, 2, &import, &err), "%s", err.text);
    ck_assert(!memplan_import_to_json(import, &json, &err));
    ck_assert_ptr_nonnull(strstr(json, "\"micro_batch_size\": 2"));
    ck_assert_str_eq(memplan_import_note(import, 0),
                     "b.yaml:2: per_device_train_batch_size: 2 is taken, and not 4 of a.json:2: "
                     "per_device_train_batch_size");
    ck_assert_ptr_null(memplan_import_note(import, 1));
    ck_assert_ptr_null(memplan_import_model(import));
    memplan_free(json);
    memplan_import_free(import);
}
END_TEST

/* A caller's files: what is named, and how often it was asked for. */
struct shelf {
    const char *name, *text;
    int asked;
    const char *from;
};

static int take_from_shelf(void *user, const char *from, const char *path,
                           struct memplan_import_file *file_out)
{
    struct shelf *shelf = user;

    shelf->asked++;
    shelf->from = from;
    if (strcmp(shelf->name, path) != 0)
        return 1;
    *file_out = (struct memplan_import_file){shelf->name, shelf->text, strlen(shelf->text)};
    return 0;
}

static const struct {
    const char *words[12];
    const char *json; /* in the plan; NULL: refused */
} command_table[] = {
    {{"torchrun", "--nproc-per-node", "4", "t.py", "--per_device_train_batch_size", "3"},
     "\"world_size\": 4"},
    {{"torchrun", "--nproc-per-node=4", "t.py", "--per_device_train_batch_size=3"},
     "\"micro_batch_size\": 3"},
    {{"env", "-u", "X", "A=1", "python", "-u", "t.py", "--per_device_train_batch_size", "3"},
     "\"micro_batch_size\": 3"},
    {{"timeout", "-k", "5", "10", "torchrun", "t.py", "--per_device_train_batch_size", "3"},
     "\"micro_batch_size\": 3"},
    {{"apptainer", "exec", "--nv", "-B", "/data", "image.sif", "torchrun", "--nproc_per_node", "2",
      "t.py", "--bf16"},
     "\"world_size\": 2"},
    {{"mpirun", "-np", "4", "-mca", "a", "b", "-x", "N", "python", "t.py", "--bf16"},
     "\"world_size\": 4"},
    {{"sh", "-c", "torchrun --nproc_per_node $1 t.py --bf16 # $2", "sh", "8"}, "\"world_size\": 8"},
    {{"bash", "-c", "N=8; torchrun --nproc_per_node $N t.py --bf16"}, "\"world_size\": 8"},
    {{"sbatch", "--wrap", "torchrun --nproc_per_node 8 t.py --bf16"}, "\"world_size\": 8"},
    {{"uv", "run", "--with", "trl", "t.py", "--per_device_train_batch_size", "3"},
     "\"micro_batch_size\": 3"},
    {{"torchrun", "t.py", "--per_device_train_batch_size", "$HOME"}, NULL},
    {{"torchrun", "t.py", "--per_device_train_batch_size", "\xff"}, NULL},
    {{"true"}, NULL},
    {{""}, NULL},
    {{"bash"}, NULL},
    {{"bash", "-c"}, NULL},
    {{"timeout"}, NULL},
};

START_TEST(a_command_is_read_as_it_is_split)
{
    struct memplan_import_options options = {.size = sizeof(options),
                                             .words = command_table[_i].words};
    const char *want = command_table[_i].json;
    struct memplan_import *import = NULL;
    struct memplan_error err;
    char *json = NULL;

    while (options.words[options.word_count])
        options.word_count++;
    if (!want) {
        ck_assert(memplan_import_read_with(NULL, 0, &options, &import, &err));
        ck_assert_msg(err.text[0] && !import, "%s", options.words[0]);
        return;
    }
    ck_assert_msg(!memplan_import_read_with(NULL, 0, &options, &import, &err), "%s", err.text);
    ck_assert(!memplan_import_to_json(import, &json, &err));
    ck_assert_msg(strstr(json, want), "%s", json);
    memplan_free(json);
    memplan_import_free(import);
}
END_TEST

START_TEST(what_is_named_is_asked_for)
{
    static const char text[] = "{\"zero_optimization\": {\"stage\": 2}}";
    const char *const words[] = {"deepspeed", "--num_gpus",  "2",      "t.py",
                                 "--bf16",    "--deepspeed", "ds.json"};
    struct shelf shelf = {.name = "ds.json", .text = text, .from = "?"};
    struct memplan_import_options options = {.size = sizeof(options),
                                             .words = words,
                                             .word_count = ROWS(words),
                                             .open = take_from_shelf,
                                             .user = &shelf};
    const struct memplan_import_file given = {"other.json", text, sizeof(text) - 1};
    struct memplan_import *import = NULL;
    struct memplan_error err;

    ck_assert_msg(!memplan_import_read_with(NULL, 0, &options, &import, &err), "%s", err.text);
    ck_assert_int_eq(shelf.asked, 1);
    ck_assert_ptr_null(shelf.from);
    memplan_import_free(import);
    import = NULL;
    /* One that is given stands for the one that is named. */
    ck_assert(!memplan_import_read_with(&given, 1, &options, &import, &err));
    ck_assert_int_eq(shelf.asked, 1);
    memplan_import_free(import);
    import = NULL;
    shelf.name = "none";
    ck_assert_int_eq(memplan_import_read_with(NULL, 0, &options, &import, &err), MEMPLAN_ERR_VALUE);
    ck_assert_ptr_null(import);
}
END_TEST

START_TEST(variables_of_the_caller_are_known)
{
    static const char script[] = "torchrun --nproc_per_node $N t.py --bf16 $A\n";
    const char *const environment[] = {"N=3", "A=--per_device_train_batch_size 7", "odd", "=",
                                       NULL};
    struct memplan_import_options options = {.size = sizeof(options), .environment = environment};
    const struct memplan_import_file file = {"job.sh", script, sizeof(script) - 1};
    struct memplan_import *import = NULL;
    struct memplan_error err;
    char *json = NULL;

    ck_assert_msg(!memplan_import_read_with(&file, 1, &options, &import, &err), "%s", err.text);
    ck_assert(!memplan_import_to_json(import, &json, &err));
    ck_assert_ptr_nonnull(strstr(json, "\"world_size\": 3"));
    ck_assert_ptr_nonnull(strstr(json, "\"micro_batch_size\": 7"));
    memplan_free(json);
    memplan_import_free(import);
}
END_TEST

START_TEST(arguments_are_checked)
{
    const char *const words[] = {NULL};
    struct memplan_import_options options = {
        .size = sizeof(options), .words = words, .word_count = 1};
    const struct memplan_import_file file = {NULL, "", 0};
    struct memplan_import *import = NULL;

    ck_assert_int_eq(memplan_import_read(NULL, 1, &import, NULL), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_import_read(&file, 1, &import, NULL), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_import_read_with(NULL, 0, NULL, &import, NULL), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_import_read_with(NULL, 0, &options, &import, NULL), MEMPLAN_ERR_ARG);
    options.word_count = 0;
    ck_assert_int_eq(memplan_import_read_with(NULL, 0, &options, &import, NULL), MEMPLAN_ERR_ARG);
    options.size = 1 << 20;
    ck_assert_int_eq(memplan_import_read_with(NULL, 0, &options, &import, NULL), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_import_to_json(NULL, NULL, NULL), MEMPLAN_ERR_ARG);
    ck_assert_ptr_null(memplan_import_note(NULL, 0));
    ck_assert_ptr_null(memplan_import_format(NULL, 0));
    memplan_import_free(NULL);
    ck_assert_ptr_null(import);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("import");

    tcase_add_loop_test(tcase, every_row_names_a_field, 0, ROWS(readers));
    tcase_add_loop_test(tcase, no_key_stands_in_both_tables, 0, ROWS(readers));
    tcase_add_loop_test(tcase, a_format_is_told_by_its_keys, 0, ROWS(format_table));
    tcase_add_loop_test(tcase, a_plain_word_is_read_as_yaml_has_it, 0, ROWS(scalar_table));
    tcase_add_test(tcase, the_later_file_is_taken_and_said);
    tcase_add_loop_test(tcase, a_command_is_read_as_it_is_split, 0, ROWS(command_table));
    tcase_add_test(tcase, what_is_named_is_asked_for);
    tcase_add_test(tcase, variables_of_the_caller_are_known);
    tcase_add_test(tcase, arguments_are_checked);
    return test_run("import", tcase);
}
