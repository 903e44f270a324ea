/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target over files: the corpus as a test, and a crash again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One file through the target; false when it cannot be read. */
static int replay(const char *path)
{
    static uint8_t buffer[1 << 20];
    FILE *file = fopen(path, "rb");
    uint8_t *exact;
    size_t len;

    if (!file)
        return 0;
    len = fread(buffer, 1, sizeof(buffer), file);
    fclose(file);
    exact = malloc(len ? len : 1); /* of the input's own size: reading past it is seen */
    if (!exact)
        return 0;
    for (size_t i = 0; i < len; i++)
        exact[i] = buffer[i];
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++)
        if (!replay(argv[i])) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            failed = 1;
        }
    printf("%d inputs replayed\n", argc - 1);
    return failed || argc < 2;
}
