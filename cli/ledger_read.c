/* SPDX-License-Identifier: MIT */
/* The ledger: all files of a folder as one list of records; what is torn is named. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ledger.h"
#include "message.h"
#include "text.h"

static void lose(struct ledger_losses *losses, const char *file, size_t line, const char *reason)
{
    if (losses->count++ >= LEDGER_MOST_LOSSES)
        return;
    if (!losses->list)
        losses->list = json_array();
    json_array_append_new(losses->list, json_pack("{s:s+, s:I, s:s}", "file", file, "", "line",
                                                  (json_int_t)line, "reason", reason));
}

static int take_line(struct ledger_query *query, const char *file, size_t number, const char *line,
                     size_t len, bool has_end)
{
    const char *text = NULL;
    size_t text_len = 0;
    const char *reason = ledger_line_check(line, len, &text, &text_len);
    json_t *record;
    int code;

    if (reason) {
        lose(&query->losses, file, number,
             has_end ? reason : "without its end: it is being written, or its writer died");
        return 0;
    }
    if (query->needle && !memmem(text, text_len, query->needle, strlen(query->needle)))
        return 0;
    record = json_loadb(text, text_len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(record)) {
        lose(&query->losses, file, number, "not JSON");
        json_decref(record);
        return 0;
    }
    code = query->visit(query->data, record, &reason);
    if (reason)
        lose(&query->losses, file, number, reason);
    json_decref(record);
    return code;
}

/* The last line may lack its newline: it is being written, or its writer died. What has all of its
 * text counts. */
static int take_text(struct ledger_query *query, const char *file, const char *text, size_t len)
{
    const char *end = text + len;
    int code = 0;

    for (size_t number = 1; text < end && !code; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const size_t line = (size_t)((stop ? stop : end) - text);

        if (line)
            code = take_line(query, file, number, text, line, stop != NULL);
        text += line + 1;
    }
    return code;
}

/* As much as the file held when it was opened: who appends meanwhile is not waited for. */
static char *read_whole(int fd, size_t size, size_t *len_out)
{
    char *text = malloc(size + 1);
    size_t len = 0;
    ssize_t got = 1;

    while (text && len < size && got) {
        got = pread(fd, text + len, size - len, (off_t)len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(text);
            return NULL;
        }
        len += (size_t)got;
    }
    *len_out = len;
    return text;
}

static int read_file(struct ledger_query *query, int folder, const char *name, const char *file)
{
    int fd = openat(folder, name,
                    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                        (folder == AT_FDCWD ? 0 : O_NOFOLLOW));
    char *text = NULL;
    struct stat info;
    size_t len = 0;
    int code = 0;

    if (fd < 0 || fstat(fd, &info)) {
        lose(&query->losses, file, 0, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        lose(&query->losses, file, 0, "not a file");
    } else if ((uintmax_t)info.st_size > LEDGER_MOST_FILE) {
        lose(&query->losses, file, 0, "larger than a file of a ledger may be");
    } else if (!(text = read_whole(fd, (size_t)info.st_size, &len))) {
        lose(&query->losses, file, 0, strerror(errno));
    } else {
        code = take_text(query, file, text, len);
    }
    free(text);
    if (fd >= 0)
        close(fd);
    return code;
}

static int is_part(const struct dirent *entry)
{
    const size_t len = strlen(entry->d_name);

    return entry->d_name[0] != '.' && len > 6 && strcmp(entry->d_name + len - 6, ".jsonl") == 0;
}

static int read_folder(struct ledger_query *query, const char *path)
{
    struct dirent **list = NULL;
    int count = scandir(path, &list, is_part, alphasort), code = 0;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (count < 0 || folder < 0)
        code = message_invalid("%s: %s", path, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *file = text_format("%s/%s", path, list[i]->d_name);

        if (i == LEDGER_MOST_FILES && file)
            lose(&query->losses, file, 0, "more files than a ledger may have");
        if (i < LEDGER_MOST_FILES && file && !code)
            code = read_file(query, folder, list[i]->d_name, file);
        free(file);
        free(list[i]);
    }
    free(list);
    if (folder >= 0)
        close(folder);
    return code;
}

int ledger_read(const char *path, struct ledger_query *query)
{
    struct stat info;

    if (stat(path, &info))
        return errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : message_invalid("%s: %s", path, strerror(errno));
    return S_ISDIR(info.st_mode) ? read_folder(query, path)
                                 : read_file(query, AT_FDCWD, path, path);
}

void ledger_losses_print(const struct ledger_losses *losses)
{
    const json_t *first = json_array_get(losses->list, 0);

    if (!losses->count)
        return;
    message_print("%s:%lld: %s; skipped%s", json_string_value(json_object_get(first, "file")),
                  (long long)json_integer_value(json_object_get(first, "line")),
                  json_string_value(json_object_get(first, "reason")),
                  losses->count > 1 ? ", and more; see memplan history" : "");
}

void ledger_losses_free(struct ledger_losses *losses)
{
    json_decref(losses->list);
    *losses = (struct ledger_losses){0};
}
