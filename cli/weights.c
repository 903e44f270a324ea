/* SPDX-License-Identifier: MIT */
/* Files: headers of .safetensors files, never their data. */
#include "weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"
#include "message.h"
#include "text.h"

static bool ends_with(const char *path, const char *ending)
{
    const size_t len = strlen(path), end = strlen(ending);

    return len > end && strcmp(path + len - end, ending) == 0;
}

bool weights_is_file(const char *path)
{
    return ends_with(path, ".safetensors");
}

bool weights_is_index(const char *path)
{
    return ends_with(path, ".safetensors.index.json");
}

/* len bytes from the beginning on; false where they cannot be read. */
static bool read_start(int fd, char *bytes, size_t len)
{
    size_t have = 0;

    while (have < len) {
        ssize_t got = pread(fd, bytes + have, len - have, (off_t)have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO; /* it has become shorter */
        if (got <= 0)
            return false;
        have += (size_t)got;
    }
    return true;
}

static int add_open(struct memplan_weights *weights, const char *path, int fd)
{
    struct memplan_error err = {0};
    size_t len = 8;
    struct stat info;
    char *bytes;
    int code = 0;

    if (fstat(fd, &info))
        return message_invalid("%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return message_invalid("%s: no regular file, expected weights", path);
    if ((uint64_t)info.st_size < len)
        len = (size_t)info.st_size;
    bytes = malloc(len + 1);
    if (bytes && read_start(fd, bytes, len) && len == 8) {
        char *grown;

        len = memplan_weights_header(bytes, (uint64_t)info.st_size);
        grown = realloc(bytes, len);
        if (!grown || !read_start(fd, grown, len))
            code = message_invalid("%s: %s", path, strerror(errno));
        bytes = grown ? grown : bytes;
    }
    if (!bytes || code) {
        free(bytes);
        return code ? code : message_invalid("%s: out of memory", path);
    }
    if (memplan_weights_add(weights, path, bytes, len, (uint64_t)info.st_size, &err))
        code = message_error(&err, path);
    free(bytes);
    return code;
}

/* Opens without waiting: what is no regular file is refused. may_miss: one that is not there is
 * passed over. */
static int add_path(struct memplan_weights *weights, const char *path, bool may_miss)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), code;

    if (fd < 0 && errno == ENOENT && may_miss)
        return 0;
    if (fd < 0)
        return message_invalid("%s: %s", path, strerror(errno));
    code = add_open(weights, path, fd);
    close(fd);
    return code;
}

int weights_add(struct memplan_weights *weights, const char *path)
{
    return add_path(weights, path, false);
}

/* "folder/model.safetensors.index.json" and a plain name: "folder/NAME". */
static char *beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return text_format("%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
}

int weights_add_index(struct memplan_weights *weights, const char *path)
{
    struct memplan_error err = {0};
    struct input input;
    const char *name;
    int code = input_read_file(path, INPUT_MOST_BYTES - 1, &input);

    if (code)
        return code;
    if (memplan_weights_add_index(weights, path, input.text, input.len, &err))
        code = message_error(&err, path);
    input_free(&input);
    for (size_t i = 0; !code && (name = memplan_weights_shard(weights, i)); i++) {
        char *shard = beside(path, name);

        code = shard ? add_path(weights, shard, true) : message_invalid("%s: out of memory", path);
        free(shard);
    }
    return code;
}
