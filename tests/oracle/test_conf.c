/* SPDX-License-Identifier: MIT */
/* Settings of the allocator against the answers of PyTorch 2.14.1: what is taken, what is refused
 * in which words, and what two requests reserve then. The form: data/README.md, "allocator-conf".
 */
#include <string.h>

#include "base/bytes.h"
#include "recorded.h"
#include "replay/allocator.h"
#include "test.h"

#define ROWS_OF_FILE 84
#define CARD_BYTES   (UINT64_C(81090) * MPL_MIB)

/* What PyTorch says without the exception's class, and without the place of a failed assertion. */
static const char *words(const char *error)
{
    static const char place[] = "please report a bug to PyTorch. ";
    const char *at = strstr(error, place);

    if (at)
        return at + strlen(place);
    at = strstr(error, ": ");
    return at ? at + 2 : error;
}

static void expect_refused(const json_t *row, enum memplan_status status,
                           const struct memplan_error *err)
{
    const char *conf = recorded_text(row, "conf"), *wanted = words(recorded_text(row, "error"));

    if (strstr(conf, "cudaMallocAsync")) {
        ck_assert_int_eq(status, MEMPLAN_ERR_UNSUPPORTED);
        return;
    }
    ck_assert_msg(status == MEMPLAN_ERR_VALUE, "\"%s\" is taken", conf);
    ck_assert_msg(!strcmp(err->text, wanted), "\"%s\": found \"%s\", expected \"%s\"", conf,
                  err->text, wanted);
    ck_assert_str_eq(err->path, "/device/allocator/conf");
}

static void expect_figure(const json_t *row, const char *name, uint64_t mine)
{
    ck_assert_msg((int64_t)mine == recorded_whole(row, name), "\"%s\": %s is %llu, expected %lld",
                  recorded_text(row, "conf"), name, (unsigned long long)mine,
                  (long long)recorded_whole(row, name));
}

static void expect_taken(const json_t *row, const struct mpl_alloc_conf *conf)
{
    struct mpl_allocator a = {.conf = *conf};

    mpl_allocator_reset(&a, CARD_BYTES, CARD_BYTES);
    ck_assert_uint_ne(mpl_allocator_request(&a, 3 * MPL_MIB, 0), 0);
    expect_figure(row, "reserved_for_3MiB", a.now.reserved);
    expect_figure(row, "allocated_for_3MiB", a.now.allocated);
    ck_assert_uint_ne(mpl_allocator_request(&a, 15 * MPL_MIB, 0), 0);
    expect_figure(row, "reserved_after_15MiB_more", a.now.reserved);
    mpl_allocator_free(&a);
}

/* A setting that is taken, and leaves no memory. */
static void expect_no_room(const struct mpl_alloc_conf *conf)
{
    struct mpl_allocator a = {.conf = *conf};

    mpl_allocator_reset(&a, CARD_BYTES, CARD_BYTES);
    ck_assert_uint_eq(mpl_allocator_request(&a, 3 * MPL_MIB, 0), 0);
    ck_assert_uint_eq(a.now.ooms, 1);
    mpl_allocator_free(&a);
}

START_TEST(as_pytorch_reads_them)
{
    FILE *file = recorded_open("allocator-conf.jsonl");
    char line[1024];
    int rows = 0;

    for (; fgets(line, sizeof(line), file); rows++) {
        json_t *row = json_loads(line, 0, NULL);
        struct mpl_alloc_conf conf = {0};
        struct memplan_error err = {0};
        enum memplan_status status;

        ck_assert_ptr_nonnull(row);
        status = mpl_alloc_conf_parse(recorded_text(row, "conf"), (struct mpl_alloc_release){0},
                                      &conf, &err);
        if (json_is_true(json_object_get(row, "accepted"))) {
            ck_assert_msg(!status, "\"%s\": %s", recorded_text(row, "conf"), err.text);
            expect_taken(row, &conf);
        } else if (strstr(recorded_text(row, "error"), "OutOfMemoryError")) {
            ck_assert_int_eq(status, MEMPLAN_OK);
            expect_no_room(&conf);
        } else {
            expect_refused(row, status, &err);
        }
        json_decref(row);
    }
    fclose(file);
    ck_assert_int_eq(rows, ROWS_OF_FILE);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("recorded");

    tcase_add_test(tcase, as_pytorch_reads_them);
    return test_run("conf", tcase);
}
