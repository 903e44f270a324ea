/* SPDX-License-Identifier: MIT */
/* The ledger: a record is appended by one write under a lock, and synced before it counts. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ledger.h"
#include "message.h"
#include "text.h"

#define SLOTS        64    /* files of one host that are tried */
#define MOST_WAIT_MS 10000 /* for a lock on the only file there is */

/* A file that is open for appending. */
struct target {
    int fd;
    char *file; /* owned */
    bool is_new;
};

bool ledger_is_file(const char *path)
{
    const size_t len = strlen(path);
    struct stat info;

    if (stat(path, &info) == 0)
        return !S_ISDIR(info.st_mode);
    return len > 6 && strcmp(path + len - 6, ".jsonl") == 0;
}

static int fail(const char *file, const char *what)
{
    message_print("%s: %s%s%s", file, what ? what : "", what ? ": " : "", strerror(errno));
    return CLI_INTERNAL;
}

/* A new name must outlive a crash too. */
static void sync_folder(const char *file)
{
    const char *slash = strrchr(file, '/');
    char *folder = slash ? text_format("%.*s", (int)(slash - file + 1), file) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

/* The folder and those above it. */
static int make_folder(const char *path)
{
    char *copy = strdup(path);
    int failed = 0;

    if (!copy)
        return fail(path, NULL);
    for (char *at = strchr(copy + 1, '/');; at = strchr(at + 1, '/')) {
        if (at)
            *at = '\0';
        failed = mkdir(copy, 0777);
        if (!failed)
            sync_folder(copy);
        failed = failed && errno != EEXIST;
        if (!at || (failed && errno != EACCES && errno != EROFS))
            break;
        *at = '/';
    }
    free(copy);
    return failed ? message_invalid("%s: the ledger's folder cannot be made: %s", path,
                                    strerror(errno))
                  : 0;
}

/* This host's name and this boot of its kernel: a lock on a file holds between those that share
 * both, whatever the file system does between hosts. */
static void name_writer(char *text, size_t size)
{
    char host[65] = "host", boot[9] = "00000000";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (gethostname(host, sizeof(host)) == 0)
        host[sizeof(host) - 1] = '\0';
    for (char *at = host; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
              (*at >= '0' && *at <= '9') || (*at == '-' && at > host) || (*at == '.' && at > host)))
            *at = '_';
    if (fd < 0 || read(fd, boot, 8) != 8)
        snprintf(boot, sizeof(boot), "%08x", (unsigned)getpid());
    if (fd >= 0)
        close(fd);
    snprintf(text, size, "%s-%s", host, boot);
}

/* A regular file of ours, or one that may be appended to; -1 otherwise. */
static int open_target(const char *file, int extra)
{
    int fd =
        open(file, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | extra, 0666);
    struct stat info;

    if (fd >= 0 && (fstat(fd, &info) || !S_ISREG(info.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

/* Locks without waiting. 1: locked; 0: somebody else has it; -1: this file system has no locks. */
static int try_lock(int fd)
{
    struct stat info;

    if (flock(fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
    /* A file that was removed meanwhile has no readers. */
    return fstat(fd, &info) == 0 && info.st_nlink > 0;
}

/* In a folder: the first file of this host that nobody is writing to. Where there are no locks,
 * a file of this process alone. */
static int open_in_folder(const char *folder, struct target *target)
{
    char writer[80];
    int locked = 0;

    name_writer(writer, sizeof(writer));
    for (int slot = 0; slot < SLOTS && locked >= 0; slot++) {
        free(target->file);
        target->file = text_format("%s/%s-%d.jsonl", folder, writer, slot);
        target->fd = target->file ? open_target(target->file, O_NOFOLLOW) : -1;
        /* Somebody else's file, or no file at all: the next one. */
        if (target->fd < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EROFS))
            return fail(target->file, NULL);
        if (target->fd < 0)
            continue;
        if ((locked = try_lock(target->fd)) == 1)
            return 0;
        close(target->fd);
    }
    free(target->file);
    target->file = text_format("%s/%s-pid%ld-%lld.jsonl", folder, writer, (long)getpid(),
                               (long long)time(NULL));
    target->fd = target->file ? open_target(target->file, O_NOFOLLOW) : -1;
    return target->fd < 0 ? fail(target->file ? target->file : folder, NULL) : 0;
}

/* A single file: wait for the one who writes to it. */
static int open_single(const char *path, struct target *target)
{
    const struct timespec pause = {0, 5000000};
    int locked;

    target->file = strdup(path);
    for (int waited = 0; target->file && waited < MOST_WAIT_MS; waited += 5) {
        target->fd = open_target(path, 0);
        if (target->fd < 0)
            return message_invalid("%s: %s", path, strerror(errno));
        if ((locked = try_lock(target->fd)) == 1)
            return 0;
        if (locked < 0) {
            close(target->fd);
            return message_invalid("%s: cannot be locked (%s), and a file of many writers must be; "
                                   "name a folder",
                                   path, strerror(errno));
        }
        close(target->fd);
        nanosleep(&pause, NULL);
    }
    errno = target->file ? ETIMEDOUT : ENOMEM;
    return fail(path, "another process holds the ledger");
}

static int open_ledger(const char *path, struct target *target)
{
    int code = ledger_is_file(path) ? 0 : make_folder(path);

    *target = (struct target){.fd = -1};
    if (!code)
        code = ledger_is_file(path) ? open_single(path, target) : open_in_folder(path, target);
    if (code)
        free(target->file);
    return code;
}

static bool write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t done = write(fd, text, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            errno = done ? errno : ENOSPC;
            return false;
        }
        text += done;
        len -= (size_t)done;
    }
    return true;
}

/* line[-1] is a newline, for when somebody died in the middle of theirs. */
static int append(const struct target *target, const char *line, size_t len)
{
    struct stat info;
    char last = '\n';
    int why;

    if (fstat(target->fd, &info))
        return fail(target->file, NULL);
    if ((size_t)info.st_size + len > LEDGER_MOST_FILE)
        return message_invalid("%s: larger than %zu MiB, the most that a file of a ledger may have",
                               target->file, LEDGER_MOST_FILE >> 20);
    if (info.st_size && pread(target->fd, &last, 1, info.st_size - 1) != 1)
        return fail(target->file, NULL);
    if (last != '\n') {
        line--;
        len++;
    }
    if (write_all(target->fd, line, len) && (fsync(target->fd) == 0 || errno == EINVAL)) {
        if (info.st_size == 0)
            sync_folder(target->file);
        return 0;
    }
    /* Nothing half-written stays. Where it cannot be taken back, its checksum does not match. */
    why = errno;
    if (ftruncate(target->fd, info.st_size) == 0)
        fsync(target->fd);
    errno = why;
    return fail(target->file, "the record was not written");
}

int ledger_append(const char *path, const json_t *record, char **file_out)
{
    size_t len = 0;
    char *line = ledger_line_write(record, &len);
    char *framed = line ? text_format("\n%s", line) : NULL;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    struct target target;
    int code;

    free(line);
    if (!framed)
        return message_invalid("the record is larger than %zu MiB, or there is no memory for it",
                               LEDGER_MOST_LINE >> 20);
    code = open_ledger(path, &target);
    if (!code) {
        /* A file that may not grow is an error here, not the end. */
        sigaction(SIGXFSZ, &ignore, &before);
        code = append(&target, framed + 1, len);
        sigaction(SIGXFSZ, &before, NULL);
        close(target.fd);
        if (!code && file_out)
            *file_out = target.file;
        else
            free(target.file);
    }
    free(framed);
    return code;
}

int ledger_prepare(const char *path)
{
    struct target target;
    int code = open_ledger(path, &target);

    if (!code) {
        close(target.fd);
        free(target.file);
    }
    return code;
}
