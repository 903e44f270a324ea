/* SPDX-License-Identifier: MIT */
/* TABLE: finds a GPU by what a person calls it. */
#include "table/device.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"

#define MAX_WORDS  12
#define MAX_WORD   24
#define MAX_LISTED 4

/** A name in lower case, cut at punctuation, without words that tell no card from another. */
struct name {
    char words[MAX_WORDS][MAX_WORD];
    size_t word_count;
    char joined[96]; /* the words without spaces */
};

/** How closely a row answers to a name; higher is closer. */
enum level {
    LEVEL_NONE = 0,
    LEVEL_GLUED,  /* the letters occur in the row's, in one piece: "rtx6000ada" */
    LEVEL_PREFIX, /* each word begins a word of the row: "A100 SXM" */
    LEVEL_WORDS,  /* each word is one of the row's: "A100 80GB" */
    LEVEL_SAME,
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool is_all_digits(const char *word)
{
    while (is_digit(*word))
        word++;
    return *word == '\0';
}

/* Parts of a MIG profile that do not change its memory: "1c" is a compute instance, "me" has the
 * media engines. */
static bool is_profile_noise(const char *word)
{
    return !strcmp(word, "me") || (is_digit(word[0]) && !strcmp(word + 1, "c"));
}

static bool is_noise(const char *word)
{
    static const char *const noise[] = {"nvidia", "geforce",  "tesla", "quadro",
                                        "amd",    "instinct", "radeon"};

    for (size_t i = 0; i < sizeof(noise) / sizeof(noise[0]); i++)
        if (!strcmp(word, noise[i]))
            return true;
    return false;
}

/** "80 GB", "80GiB" and "80G" are the word "80gb"; "1g" stays: it is a slice's size. */
static void add_word(struct name *name, const char *word)
{
    char *previous = name->word_count ? name->words[name->word_count - 1] : NULL;
    size_t digits = strspn(word, "0123456789");
    bool is_size = !strcmp(word + digits, "gb") || !strcmp(word + digits, "gib") ||
                   (!strcmp(word + digits, "g") && digits >= 2);

    if (is_noise(word) || is_profile_noise(word))
        return;
    if (is_size && digits == 0 && previous && is_all_digits(previous) &&
        strlen(previous) + 3 <= MAX_WORD) {
        memcpy(previous + strlen(previous), "gb", 3);
        return;
    }
    if (name->word_count == MAX_WORDS)
        return;
    if (is_size && digits && digits + 3 <= MAX_WORD)
        snprintf(name->words[name->word_count++], MAX_WORD, "%.*sgb", (int)digits, word);
    else
        snprintf(name->words[name->word_count++], MAX_WORD, "%s", word);
}

/** Cuts len bytes of text into words. */
static void parse_name(struct name *name, const char *text, size_t len)
{
    char word[MAX_WORD];
    size_t used = 0, joined = 0;

    memset(name, 0, sizeof(*name));
    for (size_t i = 0; i <= len; i++) {
        char c = i < len ? lower(text[i]) : ' ';

        if (is_digit(c) || (c >= 'a' && c <= 'z')) {
            if (used + 1 < sizeof(word))
                word[used++] = c;
        } else if (used) {
            word[used] = '\0';
            add_word(name, word);
            used = 0;
        }
    }
    for (size_t i = 0; i < name->word_count; i++) {
        size_t word_len = strlen(name->words[i]);

        if (joined + word_len + 1 > sizeof(name->joined))
            return;
        memcpy(name->joined + joined, name->words[i], word_len + 1);
        joined += word_len;
    }
}

/** "mig", or the "1g" of a slice's profile. */
static bool names_slice(const struct name *name)
{
    for (size_t i = 0; i < name->word_count; i++) {
        const char *word = name->words[i];

        if (!strcmp(word, "mig") || (is_digit(word[0]) && !strcmp(word + 1, "g")))
            return true;
    }
    return false;
}

/** Whether each asked word is a word of the row's name, or begins one, or is its nominal memory. */
static bool has_words(const struct name *have, const struct name *asked, const char *nominal,
                      bool prefix_is_enough)
{
    for (size_t i = 0; i < asked->word_count; i++) {
        const char *word = asked->words[i];
        bool found = !strcmp(word, nominal);

        for (size_t j = 0; j < have->word_count && !found; j++)
            found = prefix_is_enough ? !strncmp(have->words[j], word, strlen(word))
                                     : !strcmp(have->words[j], word);
        if (!found)
            return false;
    }
    return true;
}

static enum level compare(const struct name *have, const struct name *asked, uint32_t nominal_gb)
{
    char nominal[16];

    snprintf(nominal, sizeof(nominal), "%ugb", nominal_gb);
    if (!strcmp(have->joined, asked->joined))
        return LEVEL_SAME;
    if (has_words(have, asked, nominal, false))
        return LEVEL_WORDS;
    if (has_words(have, asked, nominal, true))
        return LEVEL_PREFIX;
    return strstr(have->joined, asked->joined) ? LEVEL_GLUED : LEVEL_NONE;
}

/** Number of letters to insert, drop or change to turn one name into the other. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[sizeof(((struct name *)NULL)->joined) + 1];
    size_t len = strlen(b);

    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            row[j] = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            if (change < row[j])
                row[j] = change;
        }
    }
    return row[len];
}

/** Best level over a row's name and aliases, and where it is wanted the smallest distance. */
static enum level judge(const struct mpl_device_row *row, const struct name *asked,
                        bool wants_distance, size_t *distance_out)
{
    const char *text = row->name, *rest = row->aliases;
    enum level best = LEVEL_NONE;

    *distance_out = SIZE_MAX;
    while (text) {
        size_t len = strcspn(text, "|");
        struct name have;

        parse_name(&have, text, len);
        enum level level = compare(&have, asked, row->nominal_gb);
        size_t distance = wants_distance ? edit_distance(have.joined, asked->joined) : SIZE_MAX;

        if (level > best)
            best = level;
        if (distance < *distance_out)
            *distance_out = distance;
        text = rest;
        rest = text ? strchr(text, '|') : NULL;
        rest = rest ? rest + 1 : NULL;
    }
    return best;
}

/** The rows that answer best, in table order. */
struct candidates {
    const struct mpl_device_row *rows[MAX_LISTED]; /* the first ones */
    size_t count;
    bool have_equal_memory;
};

static void add_candidate(struct candidates *found, const struct mpl_device_row *row)
{
    if (found->count && row->total_bytes != found->rows[0]->total_bytes)
        found->have_equal_memory = false;
    if (found->count < MAX_LISTED)
        found->rows[found->count] = row;
    found->count++;
}

static void list_names(const struct candidates *found, char *remark, size_t remark_size)
{
    size_t used = 0;

    for (size_t i = 0; i < found->count && i <= MAX_LISTED && used < remark_size; i++) {
        const char *name = i < MAX_LISTED ? found->rows[i]->name : "...";
        int len = snprintf(remark + used, remark_size - used, "%s%s", i ? ", " : "", name);

        used += len > 0 ? (size_t)len : 0;
    }
}

/** Rows at the highest level; for a level of none, those within two fifths of the letters, where
 * distances are wanted. */
static enum level collect(const struct name *asked, bool wants_distance, struct candidates *found)
{
    size_t nearest = strlen(asked->joined) * 2 / 5;
    bool wants_slice = names_slice(asked);
    const struct mpl_device_row *row;
    enum level best = LEVEL_NONE;

    for (size_t i = 0; (row = mpl_device_at(i)); i++) {
        size_t distance;
        enum level level = judge(row, asked, wants_distance, &distance);

        if ((row->kind == MPL_DEVICE_SLICE) != wants_slice || level < best)
            continue;
        if (level == LEVEL_NONE && distance > nearest)
            continue;
        if (level > best || (level == LEVEL_NONE && distance < nearest))
            *found = (struct candidates){.have_equal_memory = true};
        if (level == LEVEL_NONE)
            nearest = distance;
        best = level;
        add_candidate(found, row);
    }
    return best;
}

const struct mpl_device_row *mpl_device_find(const char *name, enum mpl_device_match *match_out,
                                             char *remark, size_t remark_size)
{
    struct candidates found = {.have_equal_memory = true};
    enum level level = LEVEL_NONE;
    struct name asked;

    if (remark_size)
        remark[0] = '\0';
    parse_name(&asked, name, strlen(name));
    if (asked.word_count)
        level = collect(&asked, false, &found);
    if (asked.word_count && level == LEVEL_NONE) /* which takes most of the time */
        level = collect(&asked, true, &found);
    if (level == LEVEL_NONE || (level != LEVEL_SAME && !found.have_equal_memory)) {
        *match_out = level == LEVEL_NONE ? MPL_DEVICE_UNKNOWN : MPL_DEVICE_AMBIGUOUS;
        list_names(&found, remark, remark_size);
        return NULL;
    }
    *match_out = found.count == 1 ? MPL_DEVICE_ONE : MPL_DEVICE_SEVERAL;
    if (found.count > 1)
        snprintf(remark, remark_size,
                 "%s is taken, the first of %zu cards of that name with equal memory",
                 found.rows[0]->name, found.count);
    return found.rows[0];
}

enum memplan_status mpl_device_fail(const char *name, enum mpl_device_match match,
                                    const char *remark, struct memplan_error *err)
{
    const char *path = "/device/gpu";

    if (!remark[0])
        return mpl_fail(err, MEMPLAN_ERR_VALUE, path, "found \"%s\", expected a card of the table",
                        name);
    if (match == MPL_DEVICE_AMBIGUOUS)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, path, "found \"%s\", which names several cards: %s",
                        name, remark);
    return mpl_fail(err, MEMPLAN_ERR_VALUE, path, "found \"%s\", did you mean %s?", name, remark);
}
