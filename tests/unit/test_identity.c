/* SPDX-License-Identifier: MIT */
/* Unit tests of identities: spellings of one run agree, other runs differ, and what asks for more
 * dominates. */
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>

#include "base/sha256.h"
#include "ingest/canonical.h"
#include "ingest/document.h"
#include "spec_fixture.h"
#include "test.h"

/* FIPS 180-4 examples, and lengths around the padding; checked with coreutils' sha256sum. */
static const struct {
    const char *piece;
    size_t times;
    const char *digest;
} hash_table[] = {
    {"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
    {"a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
    {"a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
    {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

START_TEST(sha256_is_the_standards)
{
    const size_t len = strlen(hash_table[_i].piece);
    char *text = calloc(1, len * hash_table[_i].times + 1), hex[65];
    uint8_t digest[MPL_SHA256_BYTES];

    for (size_t i = 0; i < hash_table[_i].times; i++)
        memcpy(text + i * len, hash_table[_i].piece, len);
    mpl_sha256(text, len * hash_table[_i].times, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    ck_assert_str_eq(hex, hash_table[_i].digest);
    free(text);
}
END_TEST

static struct memplan_identity identify(const char *assignment)
{
    struct memplan_identity id = {.size = sizeof(id)};
    struct memplan_plan *p = NULL;
    char one[256];

    ck_assert_int_eq(memplan_plan_load(PLAN, strlen(PLAN), "test.json", &p, &err), MEMPLAN_OK);
    /* Several assignments are parted by spaces. */
    for (const char *at = assignment; *at; at += strspn(at, " ")) {
        const size_t len = strcspn(at, " ");

        snprintf(one, sizeof(one), "%.*s", (int)len, at);
        ck_assert_msg(memplan_plan_set(p, one, &err) == MEMPLAN_OK, "%s: %s", one, err.text);
        at += len;
    }
    ck_assert_msg(memplan_plan_identity(p, &id, &err) == MEMPLAN_OK, "%s", err.text);
    memplan_plan_free(p);
    return id;
}

/* Which hashes of two plans are the same: run, set-up, kin. */
static const struct {
    const char *a, *b;
    bool run, setup, kin;
} pair_table[] = {
    /* spellings of one run */
    {"", "training.micro_batch_size=1", 1, 1, 1},
    {"", "model.head_dim=64", 1, 1, 1},
    {"", "name=other host.memory_bytes=1TiB parallelism.rank=0", 1, 1, 1},
    {"", "observations=[{\"sequence_length\":64,\"outcome\":\"ran\"}]", 1, 1, 1},
    {"device.total_bytes=85899345920", "device.total_bytes=\"80GiB\"", 1, 1, 1},
    {"device.gpu=H100-80GB-HBM3", "device.gpu=\"nvidia-h100-80gb-hbm3\"", 1, 1, 1},
    {"training.frozen=[\"a*\",\"b*\"]", "training.frozen=[\"b*\",\"a*\"]", 1, 1, 1},
    {"training.sequence_length={\"any_of\":[128,256]}",
     "training.sequence_length={\"why\":\"?\",\"any_of\":[256,128]}", 1, 1, 1},
    {"software.pytorch=2.9.0", "software.pytorch=\"2.9\"", 1, 1, 1},
    {"device.total_bytes=80GiB", "device.total_bytes=80GiB device.reserve_bytes=1GiB", 1, 1, 1},
    /* demands */
    {"", "training.sequence_length=256", 0, 1, 1},
    {"", "training.micro_batch_size=2", 0, 1, 1},
    {"", "training.gradient_accumulation_steps=2", 0, 1, 1},
    {"", "training.steps=7", 0, 1, 1},
    /* other runs */
    {"", "model.num_hidden_layers=3", 0, 1, 0},
    {"", "training.optimizer.name=sgd", 0, 1, 0},
    {"", "training.autocast=bfloat16", 0, 1, 0},
    {"", "parallelism.world_size=2 parallelism.strategy=ddp", 0, 1, 0},
    {"", "software.pytorch=2.9.0", 0, 0, 0},
    {"", "framework.name=trl-sft", 0, 1, 0},
    {"", "training.sequence_length={\"any_of\":[128,256]}", 0, 1, 1},
    {"model.num_hidden_layers={\"any_of\":[2,3]}", "model.num_hidden_layers={\"any_of\":[2,4]}", 0,
     1, 0},
    /* other cards: the same kernels or others */
    {"device.gpu=A100-SXM4-80GB", "device.gpu=A100-SXM4-40GB", 1, 0, 1},
    {"device.gpu=A100-SXM4-80GB", "device.gpu=H100", 1, 0, 0},
    {"device.total_bytes=80GiB", "device.total_bytes=40GiB", 1, 0, 1},
    {"", "device.allocator.conf=expandable_segments:True", 1, 0, 0},
};

START_TEST(spellings_agree_and_runs_differ)
{
    const struct memplan_identity a = identify(pair_table[_i].a), b = identify(pair_table[_i].b);

    ck_assert_uint_eq(strlen(a.run), MEMPLAN_IDENTITY_TEXT - 1);
    ck_assert_msg((strcmp(a.run, b.run) == 0) == pair_table[_i].run, "run: %s", pair_table[_i].b);
    ck_assert_msg((strcmp(a.setup, b.setup) == 0) == pair_table[_i].setup, "setup: %s",
                  pair_table[_i].b);
    ck_assert_msg((strcmp(a.kin, b.kin) == 0) == pair_table[_i].kin, "kin: %s", pair_table[_i].b);
}
END_TEST

#define CARD "device.total_bytes=80GiB "

/* Is a plan at least as much as a record? */
static const struct {
    const char *plan, *record;
    int dominates;
} order_table[] = {
    {CARD, CARD, 1},
    {CARD "training.sequence_length=256", CARD, 1},
    {CARD "training.sequence_length=64", CARD, 0},
    {CARD "training.sequence_length=256 training.micro_batch_size=2", CARD, 1},
    {CARD "training.sequence_length=256", CARD "training.micro_batch_size=2", 0},
    {"device.total_bytes=40GiB", CARD, 1},
    {CARD, "device.total_bytes=40GiB", 0},
    {CARD "device.other_bytes=1GiB", CARD, 1},
    {CARD, CARD "device.other_bytes=1GiB", 0},
    {"", "", 1},
    {CARD, "", 0},
    {"", CARD, 0},
    {CARD "training.optimizer.name=sgd", CARD, 0},
    {"device.gpu=A100-SXM4-40GB", "device.gpu=A100-SXM4-80GB", 1},
    {"device.gpu=A100-SXM4-80GB", "device.gpu=A100-SXM4-40GB", 0},
    /* what is open asks for its least, and failed at its most */
    {CARD "training.sequence_length={\"any_of\":[128,256]}", CARD, 1},
    {CARD "training.sequence_length={\"any_of\":[64,256]}", CARD, 0},
    {CARD "training.sequence_length=192", CARD "training.sequence_length={\"any_of\":[128,256]}",
     0},
};

START_TEST(more_dominates)
{
    const struct memplan_identity a = identify(order_table[_i].plan);
    const struct memplan_identity b = identify(order_table[_i].record);

    ck_assert_int_eq(memplan_identity_dominates(&a, &b), order_table[_i].dominates);
}
END_TEST

/* printf %s '<the text below>' | sha256sum | cut -c -32 */
#define RUN_HASH "578c2e8afb03a9653b0bc2e4006ad7a2"

/* The canonical form is a promise: records of years ago must be found. */
START_TEST(canonical_form_is_as_promised)
{
    struct mpl_canonical *canonical = calloc(1, sizeof(*canonical));
    struct mpl_spec *spec = load(PLAN);
    json_t *object;
    char *text;

    ck_assert_int_eq(mpl_spec_bind(spec, 0, &plan, &notes, &err), MEMPLAN_OK);
    mpl_canonical_begin(canonical, MPL_FAMILY_CAUSAL, spec->fallbacks[MPL_FAMILY_CAUSAL]);
    object = mpl_canonical_part(canonical, &plan, MPL_CANONICAL_RUN);
    text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
    ck_assert_str_eq(
        text,
        "{\"framework.version\":\"\",\"model.head_dim\":64,\"model.hidden_size\":256,"
        "\"model.intermediate_size\":688,\"model.model_type\":\"llama\","
        "\"model.num_attention_heads\":4,\"model.num_hidden_layers\":2,"
        "\"model.num_key_value_heads\":2,\"model.vocab_size\":1000,\"software.pytorch\":[2,14,1],"
        "\"software.transformers\":[5,24,0],\"training.activation_checkpointing\":\"none\","
        "\"training.attention\":\"sdpa\",\"training.loss.reference\":\"model\","
        "\"training.micro_batch_size\":1,\"training.optimizer.name\":\"adamw\","
        "\"training.optimizer.weight_decay\":0.01,\"training.parameter_dtype\":\"float32\","
        "\"training.sequence_length\":128}");
    ck_assert_str_eq(identify("").run, RUN_HASH);
    free(text);
    json_decref(object);
    mpl_spec_free(spec);
    free(canonical);
}
END_TEST

static char *read_text(const char *folder, const char *name)
{
    char path[512], *text = calloc(1, 1 << 16);
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "r");
    ck_assert_msg(file && text, "%s", path);
    ck_assert(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

/* A preset, and what it is with all its defaults written out: one run. */
static void compare_with_full(const char *text, const char *name)
{
    struct memplan_identity a, b;
    struct mpl_spec *spec = load(text), *full;
    char *json = NULL;

    ck_assert_msg(mpl_spec_identity(spec, &a, &err) == MEMPLAN_OK, "%s: %s", name, err.text);
    if (mpl_spec_combination_count(spec) == 1) {
        ck_assert_int_eq(mpl_spec_to_full_json(spec, 0, &json, &err), MEMPLAN_OK);
        full = load(json);
        ck_assert_msg(mpl_spec_identity(full, &b, &err) == MEMPLAN_OK, "%s: %s", name, err.text);
        ck_assert_msg(strcmp(a.run, b.run) == 0 && strcmp(a.setup, b.setup) == 0 &&
                          strcmp(a.kin, b.kin) == 0,
                      "%s in full is another run: %s, %s", name, a.run, b.run);
        mpl_spec_free(full);
        free(json);
    }
    mpl_spec_free(spec);
}

START_TEST(defaults_written_out_are_the_same_run)
{
    const char *folder = getenv("MEMPLAN_MODELS");
    DIR *models = opendir(folder ? folder : "../models");
    struct dirent *entry;
    int count = 0;

    ck_assert_ptr_nonnull(models);
    while ((entry = readdir(models))) {
        char *text;

        if (!strstr(entry->d_name, ".json"))
            continue;
        text = read_text(folder ? folder : "../models", entry->d_name);
        compare_with_full(text, entry->d_name);
        free(text);
        count++;
    }
    closedir(models);
    ck_assert_int_gt(count, 50);
}
END_TEST

START_TEST(arguments_are_checked)
{
    struct memplan_identity id = {.size = 4};
    struct memplan_plan *p = NULL;

    ck_assert_int_eq(memplan_plan_identity(NULL, &id, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_plan_load(PLAN, strlen(PLAN), "t", &p, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_plan_identity(p, NULL, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_plan_identity(p, &id, &err), MEMPLAN_ERR_ARG);
    /* An older caller knows fewer members. */
    id.size = offsetof(struct memplan_identity, setup);
    ck_assert_int_eq(memplan_plan_identity(p, &id, &err), MEMPLAN_OK);
    ck_assert_uint_eq(strlen(id.run), 32);
    ck_assert_str_eq(id.setup, "");
    ck_assert_str_eq(memplan_demand_field(0), "training.sequence_length");
    ck_assert_ptr_null(memplan_demand_field(MEMPLAN_MOST_DEMANDS));
    ck_assert_int_eq(memplan_identity_dominates(NULL, &id), 0);
    memplan_plan_free(p);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("identity");

    tcase_add_loop_test(tcase, sha256_is_the_standards, 0, ROWS(hash_table));
    tcase_add_loop_test(tcase, spellings_agree_and_runs_differ, 0, ROWS(pair_table));
    tcase_add_loop_test(tcase, more_dominates, 0, ROWS(order_table));
    tcase_add_test(tcase, canonical_form_is_as_promised);
    tcase_add_test(tcase, defaults_written_out_are_the_same_run);
    tcase_add_test(tcase, arguments_are_checked);
    return test_run("identity", tcase);
}
