/* SPDX-License-Identifier: MIT */
/* The YAML files of the integrations are well formed: no document is empty, no key stands twice in
 * a mapping, no alias is without its anchor. Prints TAP. usage: yaml FILE... */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

static void explain(const yaml_parser_t *parser)
{
    printf("# %zu:%zu: %s\n", parser->problem_mark.line + 1, parser->problem_mark.column + 1,
           parser->problem ? parser->problem : "?");
}

static bool is_same(const yaml_node_t *a, const yaml_node_t *b)
{
    return a->type == YAML_SCALAR_NODE && b->type == YAML_SCALAR_NODE &&
           a->data.scalar.length == b->data.scalar.length &&
           memcmp(a->data.scalar.value, b->data.scalar.value, a->data.scalar.length) == 0;
}

static bool has_twins(yaml_document_t *document, const yaml_node_t *node)
{
    for (yaml_node_pair_t *a = node->data.mapping.pairs.start; a < node->data.mapping.pairs.top;
         a++)
        for (yaml_node_pair_t *b = a + 1; b < node->data.mapping.pairs.top; b++)
            if (is_same(yaml_document_get_node(document, a->key),
                        yaml_document_get_node(document, b->key))) {
                printf("# %zu: a key that stands twice\n", node->start_mark.line + 1);
                return true;
            }
    return false;
}

static bool check_document(yaml_document_t *document)
{
    const yaml_node_t *node;

    for (int i = 1; (node = yaml_document_get_node(document, i)); i++)
        if (node->type == YAML_MAPPING_NODE && has_twins(document, node))
            return false;
    return true;
}

/* Documents of a file; -1: it is not well formed. */
static int check_file(FILE *file)
{
    yaml_parser_t parser;
    yaml_document_t document;
    int count = 0;

    if (!yaml_parser_initialize(&parser))
        return -1;
    yaml_parser_set_input_file(&parser, file);
    for (bool goes_on = true; goes_on;) {
        if (!yaml_parser_load(&parser, &document)) {
            explain(&parser);
            count = -1;
            break;
        }
        goes_on = yaml_document_get_root_node(&document) != NULL;
        count += goes_on;
        if (!check_document(&document)) {
            count = -1;
            goes_on = false;
        }
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return count;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        int count = file ? check_file(file) : -1;

        if (file)
            fclose(file);
        printf("%s %d - %s, %d documents\n", count > 0 ? "ok" : "not ok", i, argv[i], count);
        failed |= count <= 0;
    }
    printf("1..%d\n", argc - 1);
    return failed;
}
