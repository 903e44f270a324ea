/* SPDX-License-Identifier: MIT */
/*
 * Memory of CUDA reductions: where few outputs are made from many inputs, several blocks share an
 * output and meet in a buffer in global memory.
 *
 * source: aten/src/ATen/native/cuda/Reduce.cuh (setReduceConfig, ReduceConfig::global_memory_size,
 * semaphore_size, gpu_reduce_kernel, AccumulationBuffer); aten/src/ATen/TensorIterator.cpp
 * (can_use_32bit_indexing, get_dim_to_split, split) for inputs of 2 GiB and more.
 */
#include "op/scratch.h"

enum {
    MAX_THREADS = 512,
    WARP = 32,
    MIN_VALUES = 16,
    MAX_VALUES = 256,
    INPUT_VECTOR = 4, /* 8 for some; where it matters blocks never meet */
    SUM_BYTES = 4,    /* half and float32 are summed in float32 */
};

/* The iterator: dimension 0 is the fastest of the reduced ones, when any is; strides in bytes. */
struct iterator {
    int dims, reduced;
    uint64_t size[2], in[2], out[2];
    uint32_t element;  /* of the input */
    uint32_t partial;  /* of a partial result */
    bool is_half_both; /* half in, half out: partial results cannot live in the output */
};

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Largest power of two that is at most n, at least 1 and at most limit. */
static uint64_t power_below(uint64_t n, uint64_t limit)
{
    uint64_t p = 1;

    while (p * 2 <= n && p * 2 <= limit)
        p *= 2;
    return p;
}

/* cudaDeviceProp::maxThreadsPerMultiProcessor */
static uint64_t threads_of_multiprocessor(double compute_capability)
{
    const int arch = (int)(compute_capability * 10.0 + 0.5);

    if (arch == 75)
        return 1024;
    return (arch >= 86 && arch <= 89) || arch >= 120 ? 1536 : 2048;
}

/* get_output_vec_size: neighbouring outputs that a thread makes at once; bases are aligned */
static uint64_t output_vector(const struct iterator *it)
{
    uint64_t vector = 4;

    while (it->size[it->reduced] % vector != 0)
        vector /= 2;
    for (int d = 0; d < it->dims; d++)
        while (d != it->reduced && it->in[d] / it->element % vector != 0)
            vector /= 2;
    return vector;
}

/* Bytes of the place where blocks meet and of its locks. */
struct meeting {
    uint64_t buffer, locks;
};

/* The launch: how many values a thread adds up before it stops to share. */
struct launch {
    uint64_t inputs, outputs, width, height, vector;
    uint64_t step_input, step_output;
    bool is_width_reduced, is_height_reduced;
};

static struct launch plan_launch(const struct iterator *it)
{
    struct launch l = {.inputs = 1, .outputs = 1, .vector = 1, .step_input = 1, .step_output = 1};
    uint64_t dim0, dim1, limit, width, height;
    bool is_contiguous;

    for (int d = 0; d < it->dims; d++)
        if (d < it->reduced)
            l.inputs = mpl_mul(l.inputs, it->size[d]);
        else
            l.outputs = mpl_mul(l.outputs, it->size[d]);
    l.is_width_reduced = it->reduced == it->dims || it->in[0] < it->in[it->reduced];
    dim0 = l.is_width_reduced ? l.inputs : l.outputs;
    dim1 = l.is_width_reduced ? l.outputs : l.inputs;
    is_contiguous = it->in[l.is_width_reduced ? 0 : it->reduced] == it->element;
    if (is_contiguous && l.is_width_reduced && dim0 >= 128 && it->reduced == 1)
        dim0 /= INPUT_VECTOR;
    else if (is_contiguous && !l.is_width_reduced)
        dim0 /= l.vector = output_vector(it);
    limit = MAX_THREADS / l.vector;
    width = power_below(dim0, limit);
    height = power_below(dim1, limit);
    l.height = min64(height, limit / min64(width, WARP));
    l.width = min64(width, limit / l.height);
    *(l.is_width_reduced ? &l.step_input : &l.step_output) *= l.width;
    l.is_height_reduced =
        mpl_ceil_div(l.inputs, l.step_input) >= min64(l.height * MIN_VALUES, MAX_VALUES);
    *(l.is_height_reduced ? &l.step_input : &l.step_output) *= l.height;
    return l;
}

/* False: each output is made by one block. */
static bool must_meet(const struct mpl_scratch_card *card, const struct iterator *it,
                      struct meeting *m)
{
    const struct launch l = plan_launch(it);
    const uint64_t values = mpl_ceil_div(l.inputs, l.step_input);
    const uint64_t grid = mpl_ceil_div(l.outputs / l.vector, l.step_output);
    const uint64_t resident =
        threads_of_multiprocessor(card->compute_capability) / (l.width * l.height);
    const uint64_t target = mpl_mul((uint64_t)card->multiprocessors, resident);
    const uint64_t most = mpl_ceil_div(values, MIN_VALUES),
                   least = mpl_ceil_div(values, MAX_VALUES);
    uint64_t blocks;

    if (!l.is_height_reduced || values < MAX_VALUES || grid > target)
        return false;
    blocks = min64(mpl_ceil_div(target, grid), most);
    blocks = blocks < least ? least : blocks;
    if (blocks <= 1)
        return false;
    m->buffer = mpl_mul(mpl_mul(l.outputs, it->partial), blocks);
    if (!l.is_width_reduced)
        m->buffer = mpl_mul(m->buffer, l.width * l.vector);
    m->locks = 4 * grid;
    return true;
}

/* ---- 32-bit halves ----------------------------------------------------------------------------
 */

static uint64_t extent(uint64_t size, uint64_t stride)
{
    return mpl_mul(size - 1, stride);
}

static bool fits_32_bits(const struct iterator *it)
{
    uint64_t numel = 1, last_in = 1, last_out = 1;

    for (int d = 0; d < it->dims; d++) {
        numel = mpl_mul(numel, it->size[d]);
        last_in = mpl_add(last_in, extent(it->size[d], it->in[d]));
        last_out = mpl_add(last_out, extent(it->size[d], it->out[d]));
    }
    return numel <= INT32_MAX && last_in <= INT32_MAX && last_out <= INT32_MAX;
}

/* get_dim_to_split: the dimension that reaches farthest in memory */
static int widest(const struct iterator *it)
{
    uint64_t most = 0;
    int dim = it->dims - 1;

    for (int d = it->dims - 1; d >= 0; d--) {
        const uint64_t out = extent(it->size[d], it->out[d]), in = extent(it->size[d], it->in[d]);

        if (out > most || in > most) {
            most = out > in ? out : in;
            dim = d;
        }
    }
    return dim;
}

/* A pair of buffers that is taken and given back once more leaves the allocator as it was, so each
 * pair needs one place in the list. */
static bool is_known(const struct mpl_scratch *list, const struct meeting *m)
{
    for (int i = 0; i + 1 < list->count; i++)
        if (list->steps[i].kind == MPL_SCRATCH_TAKE && list->steps[i].bytes == m->buffer &&
            list->steps[i + 1].kind == MPL_SCRATCH_TAKE && list->steps[i + 1].bytes == m->locks)
            return true;
    return false;
}

static void reduce_part(const struct mpl_scratch_card *card, const struct iterator *it,
                        struct mpl_scratch *out)
{
    struct meeting m;

    if (must_meet(card, it, &m) && !is_known(out, &m)) {
        const uint8_t buffer = mpl_scratch_take(out, m.buffer);
        const uint8_t locks = mpl_scratch_take(out, m.locks);

        mpl_scratch_give(out, locks);
        mpl_scratch_give(out, buffer);
    }
}

/* Parts that were cut; a level of halving has two sizes at most. */
struct parts {
    int count;
    uint64_t size[256][2];
};

static bool is_new(struct parts *seen, const struct iterator *it)
{
    for (int i = 0; i < seen->count; i++)
        if (seen->size[i][0] == it->size[0] && seen->size[i][1] == it->size[1])
            return false;
    if (seen->count < 256) {
        seen->size[seen->count][0] = it->size[0];
        seen->size[seen->count++][1] = it->size[1];
    }
    return true;
}

/* gpu_reduce_kernel over with_32bit_indexing(): the first half is cut on, then the second. */
static void reduce_halves(const struct mpl_scratch_card *card, const struct iterator *whole,
                          struct mpl_scratch *out)
{
    struct iterator stack[130]; /* each cut halves one of two sizes of 64 bits */
    struct parts seen = {0};
    int depth = 1;

    stack[0] = *whole;
    while (depth > 0) {
        struct iterator *top = &stack[depth - 1];

        if (fits_32_bits(top) || depth == 130) {
            reduce_part(card, top, out);
            depth--;
        } else if (!is_new(&seen, top)) {
            depth--;
        } else {
            const int dim = widest(top);

            stack[depth] = *top;
            stack[depth].size[dim] = top->size[dim] / 2;
            top->size[dim] -= stack[depth].size[dim];
            depth++;
        }
    }
}

static void reduce(const struct mpl_scratch_card *card, const struct iterator *it,
                   struct mpl_scratch *out)
{
    uint64_t outputs = 1;
    uint8_t sums;

    *out = (struct mpl_scratch){0};
    if (fits_32_bits(it)) {
        reduce_part(card, it, out);
    } else if (it->is_half_both) {
        for (int d = it->reduced; d < it->dims; d++)
            outputs = mpl_mul(outputs, it->size[d]);
        sums = mpl_scratch_take(out, mpl_mul(outputs, SUM_BYTES));
        reduce_halves(card, it, out);
        mpl_scratch_give(out, sums);
    } else {
        reduce_halves(card, it, out);
    }
}

/* ---- entry ------------------------------------------------------------------------------------
 */

static struct iterator start(enum mpl_dtype from, enum mpl_dtype to)
{
    const uint32_t in = mpl_dtype_size(from), out = mpl_dtype_size(to);

    return (struct iterator){
        .element = in,
        .partial = SUM_BYTES,
        .is_half_both = in == 2 && out == 2,
    };
}

/* A largest value is of the input's dtype all the way: partial results can live in the output. */
static struct iterator start_max(enum mpl_dtype dtype)
{
    return (struct iterator){
        .element = mpl_dtype_size(dtype),
        .partial = mpl_dtype_size(dtype),
    };
}

static void over_rows(const struct mpl_scratch_card *card, struct iterator *it, int64_t rows,
                      int64_t columns, struct mpl_scratch *out)
{
    *out = (struct mpl_scratch){0};
    if (rows == 1)
        return;
    it->dims = 2;
    it->reduced = 1;
    it->size[0] = (uint64_t)rows;
    it->in[0] = mpl_mul((uint64_t)columns, it->element);
    it->size[1] = (uint64_t)columns;
    it->in[1] = it->element;
    reduce(card, it, out);
}

static void over_columns(const struct mpl_scratch_card *card, struct iterator *it, int64_t rows,
                         int64_t columns, struct mpl_scratch *out)
{
    *out = (struct mpl_scratch){0};
    if (columns == 1)
        return;
    it->dims = rows > 1 ? 2 : 1;
    it->reduced = 1;
    it->size[0] = (uint64_t)columns;
    it->in[0] = it->element;
    it->size[1] = (uint64_t)rows;
    it->in[1] = mpl_mul((uint64_t)columns, it->element);
    reduce(card, it, out);
}

void mpl_scratch_reduce_rows(const struct mpl_scratch_card *card, enum mpl_dtype from,
                             enum mpl_dtype to, int64_t rows, int64_t columns,
                             struct mpl_scratch *out)
{
    struct iterator it = start(from, to);

    if (columns == 1) { /* the iterator drops dimensions of size 1 */
        mpl_scratch_reduce_columns(card, from, to, 1, rows, out);
        return;
    }
    it.out[1] = mpl_dtype_size(to);
    over_rows(card, &it, rows, columns, out);
}

void mpl_scratch_reduce_columns(const struct mpl_scratch_card *card, enum mpl_dtype from,
                                enum mpl_dtype to, int64_t rows, int64_t columns,
                                struct mpl_scratch *out)
{
    struct iterator it = start(from, to);

    it.out[1] = mpl_dtype_size(to);
    over_columns(card, &it, rows, columns, out);
}

void mpl_scratch_max_rows(const struct mpl_scratch_card *card, enum mpl_dtype dtype, int64_t rows,
                          int64_t columns, struct mpl_scratch *out)
{
    struct iterator it = start_max(dtype);

    if (columns == 1) {
        mpl_scratch_max_columns(card, dtype, 1, rows, out);
        return;
    }
    it.out[1] = it.element;
    over_rows(card, &it, rows, columns, out);
}

void mpl_scratch_max_columns(const struct mpl_scratch_card *card, enum mpl_dtype dtype,
                             int64_t rows, int64_t columns, struct mpl_scratch *out)
{
    struct iterator it = start_max(dtype);

    it.out[1] = it.element;
    over_columns(card, &it, rows, columns, out);
}
