/* SPDX-License-Identifier: MIT */
/* What the headers of .safetensors files say: names, formats and shapes, without any data. */
#ifndef MPL_IMPORT_WEIGHTS_H
#define MPL_IMPORT_WEIGHTS_H

#include <jansson.h>
#include <memplan.h>
#include <stdbool.h>

#include "base/vec.h"

/* source: safetensors 0.8, src/tensor.rs: MAX_HEADER_SIZE */
#define MPL_WEIGHTS_MOST_HEADER  UINT64_C(100000000)
#define MPL_WEIGHTS_MOST_TENSORS ((size_t)1 << 20)
#define MPL_WEIGHTS_MOST_FILES   16384
#define MPL_WEIGHTS_MOST_NAME    512
#define MPL_WEIGHTS_MOST_RANK    16

/** Formats of a file; what they hold is in weights_dtype.c. */
struct mpl_weights_dtype {
    const char *name; /* in the file: "BF16" */
    const char *json; /* PyTorch's: "bfloat16" */
    uint8_t bits;     /* of one element */
    bool is_floating; /* and weights are kept in it as they are */
};

/** NULL: no such format. */
const struct mpl_weights_dtype *mpl_weights_dtype(const char *name);

struct mpl_weight {
    char *name;                            /* owned */
    const struct mpl_weights_dtype *dtype; /* NULL: the index names it, its file was not read */
    uint64_t numel, begin, end;            /* elements; bytes behind the header */
    uint64_t dims[4];                      /* the first of them; 0 where there are fewer */
    uint32_t file;                         /* in files */
    uint32_t at;                           /* byte of the header at which its name begins */
    uint8_t rank;
};

/** All files of one set. */
struct memplan_weights {
    MPL_VEC(struct mpl_weight) tensors;
    MPL_VEC(char *) files;      /* that were read; owned */
    MPL_VEC(char *) shards;     /* that the index names; owned, sorted, each once */
    json_t *map;                /* of the index: name of a tensor to its file; NULL: none */
    char *index_name;           /* owned */
    uint64_t index_total_bytes; /* 0: the index does not say */
    uint64_t data_bytes;        /* of all tensors that were read */
    uint64_t header_bytes;      /* of all headers so far: they are bounded together, too */
};

/** One header: bytes are the 8 of its length and the header itself. (weights_header.c) */
enum memplan_status mpl_weights_add(struct memplan_weights *weights, const char *name,
                                    const void *bytes, size_t len, uint64_t file_bytes,
                                    struct memplan_error *err);

/** model.safetensors.index.json. (weights_index.c) */
enum memplan_status mpl_weights_add_index(struct memplan_weights *weights, const char *name,
                                          const void *text, size_t len, struct memplan_error *err);

/** What was found, for read_weights.c; *json_out is malloc'ed. (weights_tell.c) */
enum memplan_status mpl_weights_to_json(struct memplan_weights *weights, char **json_out,
                                        struct memplan_error *err);

void mpl_weights_free(struct memplan_weights *weights);

/** The tensor of that name, NULL where there is none; they are sorted. */
const struct mpl_weight *mpl_weights_find(const struct memplan_weights *weights, const char *name);

#endif
