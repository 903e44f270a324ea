/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": toml++'s tree as the tree of the other formats. C++ ends here: no exceptions, no
 * types in the interface, no streams. Without memory for a text of at most 1 MiB C++ ends the
 * process.
 */
#include "import/toml.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#define TOML_EXCEPTIONS        0
#define TOML_HEADER_ONLY       1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 64
#define TOML_FLOAT_CHARCONV    1
#define TOML_INT_CHARCONV      1
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

namespace
{

constexpr size_t MOST_PATH = 256;

/* A table or list whose members are still to be copied. */
struct level {
    const toml::node *node;
    json_t *json; /* borrowed */
    std::string path;
    size_t depth;
    bool has_lines; /* keys inside of lists have no path */
};

struct member {
    const toml::key *key;
    const toml::node *node;
};

struct copy {
    json_t *lines;
    size_t most_depth;
    struct mpl_toml_error *error;
    std::vector<level> open;
};

enum mpl_toml_status fail(struct copy &copy, enum mpl_toml_status status,
                          const toml::source_region &where, std::string_view text)
{
    copy.error->line = where.begin.line;
    copy.error->column = where.begin.column;
    snprintf(copy.error->text, sizeof(copy.error->text), "%.*s", (int)text.size(), text.data());
    return status;
}

/* A value that is no table and no list; new. Dates change no memory, and are text. NaN and infinity
 * are text, too: JSON has neither. */
json_t *scalar(const toml::node &node)
{
    if (const auto *text = node.as_string())
        return json_stringn((*text)->data(), (*text)->size());
    if (const auto *number = node.as_integer())
        return json_integer(number->get());
    if (const auto *truth = node.as_boolean())
        return json_boolean(truth->get());
    if (const auto *real = node.as_floating_point())
        return std::isfinite(real->get()) ? json_real(real->get())
                                          : json_string("a number that is not finite");
    return json_string("a date or time");
}

/* Puts one value where it belongs; what has members waits in copy.open. */
enum mpl_toml_status add(struct copy &copy, const level &parent, const toml::key *key,
                         const toml::node &node)
{
    const bool is_table = node.is_table(), is_list = node.is_array();
    json_t *json = is_table ? json_object() : is_list ? json_array() : scalar(node);
    const std::string name = key ? std::string(key->str()) : std::string();
    /* Long paths have no line: each member would hold a copy. */
    const bool has_line = key && parent.has_lines && parent.path.size() + name.size() < MOST_PATH;
    const std::string path = !has_line             ? std::string()
                             : parent.path.empty() ? name
                                                   : parent.path + "." + name;

    if (!json)
        return fail(copy, MPL_TOML_MEMORY, node.source(), "out of memory");
    if (name.find('\0') != std::string::npos ||
        (json_is_string(json) && strlen(json_string_value(json)) != json_string_length(json))) {
        json_decref(json);
        return fail(copy, MPL_TOML_SYNTAX, node.source(), "the text holds a zero byte");
    }
    if ((is_table || is_list) && parent.depth + 1 >= copy.most_depth) {
        json_decref(json);
        return fail(copy, MPL_TOML_DEPTH, node.source(), "");
    }
    if (key ? json_object_set_new(parent.json, name.c_str(), json)
            : json_array_append_new(parent.json, json))
        return fail(copy, MPL_TOML_MEMORY, node.source(), "out of memory");
    if (has_line)
        json_object_set_new(copy.lines, path.c_str(), json_integer(key->source().begin.line));
    if (is_table || is_list)
        copy.open.push_back({&node, json, path, parent.depth + 1, has_line && is_table});
    return MPL_TOML_OK;
}

bool stands_before(const member &a, const member &b)
{
    const toml::source_position first = a.key->source().begin, second = b.key->source().begin;

    return first.line != second.line ? first.line < second.line : first.column < second.column;
}

/* toml++ keeps tables by name; messages follow the order of the text. */
std::vector<member> members_of(const toml::table &table)
{
    std::vector<member> members;

    for (auto &&[key, node] : table)
        members.push_back({&key, &node});
    std::sort(members.begin(), members.end(), stands_before);
    return members;
}

enum mpl_toml_status copy_members(struct copy &copy, const level &level)
{
    enum mpl_toml_status status = MPL_TOML_OK;

    if (const toml::table *table = level.node->as_table()) {
        for (const member &member : members_of(*table))
            if ((status = add(copy, level, member.key, *member.node)))
                break;
        return status;
    }
    for (const toml::node &node : *level.node->as_array())
        if ((status = add(copy, level, nullptr, node)))
            break;
    return status;
}

} // namespace

extern "C" enum mpl_toml_status mpl_toml_parse(const char *text, size_t len, size_t most_depth,
                                               json_t **root_out, json_t *lines,
                                               struct mpl_toml_error *error)
{
    struct copy copy = {lines, most_depth, error, {}};
    enum mpl_toml_status status = MPL_TOML_OK;
    const toml::parse_result parsed = toml::parse(std::string_view(text, len));

    if (!parsed)
        return fail(copy, MPL_TOML_SYNTAX, parsed.error().source(), parsed.error().description());
    *root_out = json_object();
    if (!*root_out)
        return MPL_TOML_MEMORY;
    copy.open.push_back({&parsed.table(), *root_out, "", 0, true});
    for (size_t i = 0; i < copy.open.size() && !status; i++) {
        const level level = copy.open[i];

        status = copy_members(copy, level);
    }
    return status;
}
