/* SPDX-License-Identifier: MIT */
/* Stage "import": a shell script as commands of words. Only what launch scripts do with words:
 * quotes, continued lines, variables the script sets, sums of them. Nothing is run. */
#include "import/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "import/shell_inside.h"

struct mpl_shell *mpl_shell_new(const char *file, const char *text, size_t len)
{
    struct mpl_shell *shell = calloc(1, sizeof(*shell));

    if (!shell)
        return NULL;
    shell->file = file;
    shell->text = shell->at = text;
    shell->end = text + len;
    shell->line = 1;
    return shell;
}

static void forget_words(struct mpl_shell *shell)
{
    while (shell->command.count)
        free(shell->command.words[--shell->command.count].text);
}

void mpl_shell_free(struct mpl_shell *shell)
{
    if (!shell)
        return;
    forget_words(shell);
    for (size_t i = 0; i < shell->variable_count; i++) {
        free(shell->variables[i].name);
        free(shell->variables[i].value);
    }
    free(shell);
}

const struct mpl_shell_command *mpl_shell_command(const struct mpl_shell *shell)
{
    return &shell->command;
}

/* ---- words ---- */

void mpl_shell_fail(struct mpl_shell *shell, const char *text)
{
    shell->has_failed = true;
    shell->failure = text;
}

static void begin_word(struct mpl_shell *shell)
{
    if (!shell->has_word)
        shell->word_line = shell->line;
    shell->has_word = true;
}

static void put(struct mpl_shell *shell, char c)
{
    begin_word(shell);
    if (++shell->bytes > MOST_BYTES)
        mpl_shell_fail(shell, "more than 16 MiB of words");
    else if (shell->len + 1 < MOST_WORD)
        shell->word[shell->len++] = c;
    else
        mpl_shell_fail(shell, "a word is longer than 8191 bytes");
}

void mpl_shell_end_word(struct mpl_shell *shell)
{
    struct mpl_shell_command *command = &shell->command;

    if (!shell->has_word)
        return;
    shell->word[shell->len] = '\0';
    if (command->count == MPL_SHELL_MOST_WORDS)
        mpl_shell_fail(shell, "a command has more than 1024 words");
    else if ((command->words[command->count].text = mpl_import_copy(shell->word, shell->len))) {
        command->words[command->count].line = shell->word_line;
        command->words[command->count++].is_open = shell->is_open;
    }
    shell->len = 0;
    shell->has_word = shell->is_open = false;
}

/* What a variable holds: split into words unless it stands in quotes, or in an assignment. */
static void put_value(struct mpl_shell *shell, const char *value, bool is_quoted)
{
    shell->word[shell->len] = '\0';
    is_quoted = is_quoted || mpl_shell_assignment(shell->word);
    if (is_quoted)
        begin_word(shell);
    for (; *value && !shell->has_failed; value++)
        if (!is_quoted && strchr(" \t\n", *value))
            mpl_shell_end_word(shell);
        else {
            put(shell, *value);
            shell->is_open |= *value == '$'; /* not known where the variable was set */
        }
}

static void put_unknown(struct mpl_shell *shell, const char *name, size_t len)
{
    put(shell, '$');
    for (size_t i = 0; i < len; i++)
        put(shell, name[i]);
    shell->is_open = true;
}

static size_t name_length(const char *text, const char *end)
{
    size_t len = 0;

    while (text + len < end && (isalnum((unsigned char)text[len]) || text[len] == '_'))
        len++;
    return len;
}

static const char *value_of(const struct mpl_shell *shell, const char *name, size_t len)
{
    char text[64];

    if (len >= sizeof(text))
        return NULL;
    memcpy(text, name, len);
    text[len] = '\0';
    return mpl_shell_get(shell, text);
}

/* ${NAME[@]}: one word for each value; without quotes they are split as any. */
static void put_array(struct mpl_shell *shell, const char *values, bool is_quoted)
{
    bool is_first = true;

    for (const char *stop; *values && !shell->has_failed; values = stop + (*stop != '\0')) {
        stop = strchr(values, MPL_SHELL_BETWEEN);
        stop = stop ? stop : values + strlen(values);
        if (!is_first)
            mpl_shell_end_word(shell);
        is_first = false;
        if (is_quoted)
            begin_word(shell);
        for (const char *c = values; c < stop && !shell->has_failed; c++) {
            if (!is_quoted && strchr(" \t\n", *c)) {
                mpl_shell_end_word(shell);
                continue;
            }
            put(shell, *c);
            shell->is_open |= *c == '$';
        }
    }
}

/* Length of the default's mark behind a name: ":-", ":=", "-" or "="; 0: there is none. */
static size_t default_mark(const char *text, const char *end)
{
    size_t len = text < end && *text == ':';

    return text + len < end && strchr("-=", text[len]) ? len + 1 : 0;
}

/* ${NAME}, ${NAME:-default}, ${NAME[@]}; the scan stands behind the brace afterwards. */
static void expand_braces(struct mpl_shell *shell, bool is_quoted)
{
    const char *name = shell->at, *stop = memchr(name, '}', (size_t)(shell->end - name));
    const char *value, *values;
    size_t len, mark;

    if (!stop) {
        mpl_shell_fail(shell, "${ without }");
        return;
    }
    len = name_length(name, stop);
    value = value_of(shell, name, len);
    values = mpl_shell_array(shell, name, len);
    mark = default_mark(name + len, stop);
    shell->at = stop + 1;
    if (values && stop - name == (long)len + 3 && strchr("@*", name[len + 1])) {
        put_array(shell, values, is_quoted);
    } else if (value && (name + len == stop || name[len] == ':' || name[len] == '-')) {
        put_value(shell, value, is_quoted);
    } else if (!value && mark && !memchr(name, '$', (size_t)(stop - name))) {
        begin_word(shell);
        for (const char *c = name + len + mark; c < stop; c++)
            if (!strchr("\"'", *c))
                put(shell, *c);
    } else {
        put_unknown(shell, name, len);
    }
}

/* A whole number of at most nine digits in len bytes; false: it is none. */
static bool read_number(const char *text, size_t len, long long *out)
{
    *out = 0;
    if (!len || len > 9)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        *out = *out * 10 + (text[i] - '0');
    }
    return true;
}

/* A number, or a variable that holds one. */
static bool read_term(const struct mpl_shell *shell, const char *text, size_t len, long long *out)
{
    const char *held;

    if (!len || isdigit((unsigned char)*text))
        return read_number(text, len, out);
    held = value_of(shell, text, len);
    return held && read_number(held, strlen(held), out);
}

/* $((A * B)): a product or sum of whole numbers and variables, from left to right. */
static void expand_sum(struct mpl_shell *shell)
{
    const char *at = shell->at, *stop = at;
    long long total = 0, value;
    char sign = '+', text[32];
    bool is_known = true;

    while (stop + 1 < shell->end && !(stop[0] == ')' && stop[1] == ')') && *stop != '\n')
        stop++;
    for (; at < stop && is_known; at++) {
        size_t len = name_length(at, stop);

        if (strchr(" ${}", *at))
            continue;
        if (strchr("+*-", *at)) {
            sign = *at;
            continue;
        }
        is_known = read_term(shell, at, len, &value) && llabs(total) < 1000000000;
        if (is_known)
            total = sign == '*' ? total * value : sign == '-' ? total - value : total + value;
        at += len ? len - 1 : 0;
    }
    shell->at = stop + 2 <= shell->end ? stop + 2 : shell->end;
    snprintf(text, sizeof(text), "%lld", total);
    if (is_known)
        put_value(shell, text, true);
    else
        put_unknown(shell, "((...))", 7);
}

/* $(...) and `...`: what a program would say is not known. */
static void skip_program(struct mpl_shell *shell, char close)
{
    int depth = 1;

    for (; shell->at < shell->end && depth; shell->at++) {
        shell->line += *shell->at == '\n';
        if (*shell->at == close)
            depth--;
        else if (close == ')' && *shell->at == '(')
            depth++;
    }
    put_unknown(shell, "(...)", 5);
}

static void expand(struct mpl_shell *shell, bool is_quoted)
{
    size_t len = name_length(shell->at, shell->end);
    const char *name = shell->at;

    if (shell->at < shell->end && *shell->at == '{') {
        shell->at++;
        expand_braces(shell, is_quoted);
    } else if (shell->end - shell->at > 1 && shell->at[0] == '(' && shell->at[1] == '(') {
        shell->at += 2;
        expand_sum(shell);
    } else if (shell->at < shell->end && *shell->at == '(') {
        shell->at++;
        skip_program(shell, ')');
    } else if (len) {
        const char *value = value_of(shell, name, len);

        shell->at += len;
        if (value)
            put_value(shell, value, is_quoted);
        else
            put_unknown(shell, name, len);
    } else if (shell->at < shell->end && strchr("@*", *shell->at) && mpl_shell_get(shell, "@")) {
        shell->at++;
        put_array(shell, mpl_shell_get(shell, "@"), is_quoted);
    } else { /* $@, $?, a lone $ */
        put(shell, '$');
        shell->is_open = true;
        if (shell->at < shell->end && strchr("@*#?!", *shell->at))
            shell->at++;
    }
}

static void quote_single(struct mpl_shell *shell)
{
    begin_word(shell);
    while (shell->at < shell->end && *shell->at != '\'' && !shell->has_failed) {
        shell->line += *shell->at == '\n';
        put(shell, *shell->at++);
    }
    shell->at += shell->at < shell->end;
}

static void quote_double(struct mpl_shell *shell)
{
    begin_word(shell);
    while (shell->at < shell->end && *shell->at != '"' && !shell->has_failed) {
        char c = *shell->at++;

        shell->line += c == '\n';
        if (c == '$') {
            expand(shell, true);
        } else if (c == '`') {
            skip_program(shell, '`');
        } else if (c == '\\' && shell->at < shell->end && strchr("\"\\$`\n", *shell->at)) {
            shell->line += *shell->at == '\n';
            if (*shell->at != '\n')
                put(shell, *shell->at);
            shell->at++;
        } else {
            put(shell, c);
        }
    }
    shell->at += shell->at < shell->end;
}

/* A backslash outside of quotes. */
static void escape(struct mpl_shell *shell)
{
    if (shell->at < shell->end && *shell->at == '\r')
        shell->at++;
    if (shell->at >= shell->end)
        return;
    if (*shell->at == '\n')
        shell->line++;
    else
        put(shell, *shell->at);
    shell->at++;
}

/* One character outside of quotes; true when it ends a command. */
static bool take(struct mpl_shell *shell, char c)
{
    switch (c) {
    case '\\':
        escape(shell);
        return false;
    case '\'':
        quote_single(shell);
        return false;
    case '"':
        quote_double(shell);
        return false;
    case '`':
        skip_program(shell, '`');
        return false;
    case '$':
        expand(shell, false);
        return false;
    case ' ':
    case '\t':
    case '\r':
        mpl_shell_end_word(shell);
        return false;
    case '#':
        if (shell->has_word) {
            put(shell, c);
            return false;
        }
        while (shell->at < shell->end && *shell->at != '\n')
            shell->at++;
        return false;
    case '\n':
        mpl_shell_end_word(shell);
        shell->line++;
        return !shell->in_array;
    case '(':
        if (mpl_shell_open_array(shell))
            return false;
        mpl_shell_end_word(shell);
        return true;
    case ')':
        mpl_shell_end_word(shell);
        if (shell->in_array)
            mpl_shell_close_array(shell);
        return true;
    case ';':
    case '&':
    case '|':
        mpl_shell_end_word(shell);
        return !shell->in_array;
    default:
        put(shell, c);
        return false;
    }
}

/* NAME=value alone, or after export, sets the variable for what follows. */
static void take_assignments(struct mpl_shell *shell)
{
    static const char *const before[] = {"export", "local", "declare", "readonly", "typeset"};
    struct mpl_shell_command *command = &shell->command;
    size_t first = 0;

    for (size_t i = 0; command->count && i < sizeof(before) / sizeof(before[0]); i++)
        first += strcmp(command->words[0].text, before[i]) == 0;
    while (first && first < command->count && *command->words[first].text == '-')
        first++;

    for (size_t i = first; i < command->count; i++)
        if (!mpl_shell_assignment(command->words[i].text))
            return;
    for (size_t i = first; i < command->count; i++) {
        char *word = command->words[i].text;
        size_t len = mpl_shell_assignment(word);

        word[len] = '\0';
        if (!mpl_shell_set(shell, word, word + len + 1))
            mpl_shell_fail(shell, "more than 1024 variables");
        word[len] = '=';
    }
}

bool mpl_shell_next(struct mpl_shell *shell, struct memplan_error *err)
{
    forget_words(shell);
    while (shell->at < shell->end && !shell->has_failed) {
        if (!take(shell, *shell->at++) || !shell->command.count)
            continue;
        if (++shell->commands > MOST_COMMANDS)
            mpl_shell_fail(shell, "more than 20000 commands");
        take_assignments(shell);
        return !shell->has_failed;
    }
    mpl_shell_end_word(shell);
    take_assignments(shell);
    if (shell->has_failed) {
        const struct mpl_import_place place = {shell->file, shell->line, "the script"};

        mpl_import_fail(&place, MEMPLAN_ERR_LIMIT, err, "%s", shell->failure);
        return false;
    }
    return shell->command.count > 0;
}
