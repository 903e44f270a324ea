/* SPDX-License-Identifier: MIT */
/* The tape's memory, storages and tensors: who is alive, and the events of birth and death. */
#include "tape/tape.h"

#include <string.h>

#include "base/fail.h"

/* Limits that keep every sum of sizes inside 64 bits, and the timeline inside a login node. */
#define MAX_STORAGE_BYTES (UINT64_C(1) << 50)
#define MAX_LIVE_BYTES    (UINT64_C(1) << 58)
#define BLOCK_BYTES       512

struct mpl_tape *mpl_tape_new(struct mpl_timeline *timeline)
{
    struct mpl_tape *tape = calloc(1, sizeof(*tape));

    if (!tape)
        return NULL;
    tape->timeline = timeline;
    tape->is_grad_enabled = true;
    tape->compute_capability = 8.0;
    tape->multiprocessors = 108;
    tape->cudnn_attention = true;
    tape->void_tensor = &tape->void_storage;
    tape->void_tensor->is_void = true;
    tape->void_tensor->is_contiguous = true;
    tape->void_tensor->refs = 1;
    return tape;
}

void mpl_tape_free(struct mpl_tape *tape)
{
    if (!tape)
        return;
    mpl_vec_free(&tape->ready);
    mpl_vec_free(&tape->stack);
    mpl_vec_free(&tape->autocast_cache);
    mpl_vec_free(&tape->autocast_keys);
    mpl_arena_free(&tape->arena);
    free(tape);
}

void mpl_tape_fail(struct mpl_tape *tape, enum memplan_status status, const char *text)
{
    mpl_fail(&tape->err, status, NULL, "%s", text);
    tape->is_stopped = true;
}

static void book_mark(struct mpl_tape *tape, struct mpl_mark mark)
{
    struct mpl_timeline *t = tape->timeline;

    if (tape->is_stopped)
        return;
    if (mpl_vec_reserve(&t->events) || mpl_vec_reserve(&t->marks)) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    t->events.data[t->events.len++] = (UINT32_C(2) << 30) | (mpl_event)t->marks.len;
    t->marks.data[t->marks.len++] = mark;
    if (mark.step + UINT32_C(1) > t->step_count && mark.phase != MPL_PHASE_INIT)
        t->step_count = mark.step + UINT32_C(1);
}

void mpl_tape_mark(struct mpl_tape *tape, uint32_t step, uint32_t micro, enum mpl_phase phase)
{
    tape->phase = phase;
    book_mark(tape, (struct mpl_mark){(uint16_t)step, (uint16_t)micro, (uint8_t)phase, false});
}

void mpl_tape_empty_cache(struct mpl_tape *tape)
{
    const enum mpl_phase phase = mpl_phase_is_apart(tape->phase) ? tape->phase : MPL_PHASE_INIT;

    book_mark(tape, (struct mpl_mark){.phase = (uint8_t)phase, .empties_cache = true});
}

/* ---- pools: every object comes from the arena and goes back to a free list ----------------- */

struct free_item {
    struct free_item *next;
};

static void *pool_take(struct mpl_tape *tape, void **list, size_t size)
{
    struct free_item *item = *list;

    if (item) {
        *list = item->next;
        return item;
    }
    item = mpl_arena_alloc(&tape->arena, size);
    if (!item)
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
    return item;
}

static void pool_give(void **list, void *object)
{
    struct free_item *item = object;

    item->next = *list;
    *list = item;
}

/* ---- storages ------------------------------------------------------------------------------ */

static enum mpl_order order_of(const struct mpl_shape *shape)
{
    unsigned degree = 0;

    for (int i = 0; i < shape->ndim; i++)
        degree += shape->dim[i].degree;
    return degree >= MPL_QUADRATIC ? MPL_QUADRATIC : (enum mpl_order)degree;
}

static void note_info(struct mpl_request_info *info, const char *op, uint8_t dtype,
                      const struct mpl_shape *shape)
{
    info->op = op;
    info->dtype = dtype;
    info->ndim = shape->ndim;
    for (int i = 0; i < shape->ndim; i++)
        info->shape[i] = shape->dim[i].n;
}

/* Books the birth of bytes on the current stream; false when nothing can be booked. */
static bool book_alloc(struct mpl_tape *tape, struct mpl_storage *storage, enum mpl_order order,
                       const char *op, uint8_t dtype, const struct mpl_shape *shape)
{
    struct mpl_timeline *t = tape->timeline;

    if (storage->bytes > MAX_STORAGE_BYTES) {
        mpl_tape_fail(tape, MEMPLAN_ERR_OVERFLOW, "a single tensor would be larger than 1 PiB");
        return false;
    }
    if (t->requests.len >= MPL_TAPE_MAX_REQUESTS) {
        mpl_tape_fail(tape, MEMPLAN_ERR_LIMIT, MPL_TAPE_LIMIT_TEXT);
        return false;
    }
    if (mpl_vec_reserve(&t->events) || mpl_vec_reserve(&t->requests) ||
        (tape->has_infos && mpl_vec_reserve(&t->infos))) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return false;
    }
    storage->request = (uint32_t)t->requests.len;
    t->events.data[t->events.len++] = storage->request;
    t->requests.data[t->requests.len++] = (struct mpl_request){
        .bytes = storage->bytes,
        .stream = (uint8_t)tape->stream,
        .category = (uint8_t)tape->category,
        .order = (uint8_t)order,
        .phase = (uint8_t)tape->phase,
    };
    if (tape->has_infos)
        note_info(&t->infos.data[t->infos.len++], op, dtype, shape);
    tape->live_bytes += mpl_round_up(storage->bytes, BLOCK_BYTES);
    if (tape->live_bytes > tape->live_peak)
        tape->live_peak = tape->live_bytes;
    if (tape->live_bytes > MAX_LIVE_BYTES)
        mpl_tape_fail(tape, MEMPLAN_ERR_OVERFLOW, "the tensors together are larger than 256 PiB");
    return true;
}

static void book_free(struct mpl_tape *tape, struct mpl_storage *storage)
{
    struct mpl_timeline *t = tape->timeline;

    if (!storage->bytes)
        return;
    tape->live_bytes -= mpl_round_up(storage->bytes, BLOCK_BYTES);
    if (mpl_vec_reserve(&t->events)) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    t->events.data[t->events.len++] = (UINT32_C(1) << 30) | storage->request;
}

void mpl_storage_release(struct mpl_tape *tape, struct mpl_storage *storage)
{
    if (!storage)
        return;
    book_free(tape, storage);
    storage->bytes = 0;
}

void mpl_storage_refill(struct mpl_tape *tape, struct mpl_tensor *tensor, const char *op)
{
    struct mpl_storage *storage = tensor->storage;

    if (tape->is_stopped || !storage || storage->bytes)
        return;
    storage->bytes = mpl_dtype_bytes((enum mpl_dtype)tensor->dtype, (uint64_t)mpl_numel(tensor));
    if (storage->bytes &&
        !book_alloc(tape, storage, order_of(&tensor->shape), op, tensor->dtype, &tensor->shape))
        storage->bytes = 0;
}

void mpl_scratch(struct mpl_tape *tape, const char *op, uint64_t bytes)
{
    struct mpl_storage storage = {.refs = 1, .bytes = bytes};
    struct mpl_shape shape = {.ndim = 1, .dim = {{(int64_t)bytes, 0}}};

    if (tape->is_stopped || !bytes)
        return;
    if (book_alloc(tape, &storage, order_of(&shape), op, MPL_UINT8, &shape))
        book_free(tape, &storage);
}

static void storage_unref(struct mpl_tape *tape, struct mpl_storage *storage)
{
    if (!storage || --storage->refs)
        return;
    book_free(tape, storage);
    pool_give(&tape->free_storages, storage);
}

/* ---- tensors ------------------------------------------------------------------------------- */

struct mpl_shape mpl_shape1(struct mpl_dim a)
{
    return (struct mpl_shape){1, {a}};
}

struct mpl_shape mpl_shape2(struct mpl_dim a, struct mpl_dim b)
{
    return (struct mpl_shape){2, {a, b}};
}

struct mpl_shape mpl_shape3(struct mpl_dim a, struct mpl_dim b, struct mpl_dim c)
{
    return (struct mpl_shape){3, {a, b, c}};
}

struct mpl_shape mpl_shape4(struct mpl_dim a, struct mpl_dim b, struct mpl_dim c, struct mpl_dim d)
{
    return (struct mpl_shape){4, {a, b, c, d}};
}

int64_t mpl_numel(const struct mpl_tensor *tensor)
{
    uint64_t numel = 1;

    for (int i = 0; i < tensor->shape.ndim; i++)
        numel = mpl_mul(numel, (uint64_t)tensor->shape.dim[i].n);
    return numel > INT64_MAX ? INT64_MAX : (int64_t)numel;
}

bool mpl_shape_equal(const struct mpl_shape *a, const struct mpl_shape *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i].n != b->dim[i].n)
            return false;
    return true;
}

static void contiguous_strides(const struct mpl_shape *shape, int64_t *stride)
{
    int64_t step = 1;

    for (int i = shape->ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step = (int64_t)mpl_mul((uint64_t)step, (uint64_t)shape->dim[i].n);
    }
}

static struct mpl_tensor *tensor_new(struct mpl_tape *tape, enum mpl_dtype dtype,
                                     const struct mpl_shape *shape)
{
    struct mpl_tensor *tensor =
        tape->is_stopped ? NULL : pool_take(tape, &tape->free_tensors, sizeof(*tensor));

    if (!tensor)
        return NULL;
    memset(tensor, 0, offsetof(struct mpl_tensor, shape));
    tensor->refs = 1;
    tensor->is_floating = true;
    tensor->dtype = (uint8_t)dtype;
    tensor->shape = *shape;
    return tensor;
}

/* One walk over a new tensor's shape: strides, elements, and how they grow. */
static uint64_t lay_out(struct mpl_tensor *tensor, const int64_t *stride, enum mpl_order *order)
{
    uint64_t numel = 1;
    unsigned degree = 0;
    bool is_contiguous = true;

    for (int i = tensor->shape.ndim - 1; i >= 0; i--) {
        const struct mpl_dim dim = tensor->shape.dim[i];

        is_contiguous &= !stride || dim.n == 1 || stride[i] == (int64_t)numel;
        tensor->stride[i] = stride ? stride[i] : (int64_t)numel;
        numel = mpl_mul(numel, (uint64_t)dim.n);
        degree += dim.degree;
    }
    tensor->is_contiguous = is_contiguous;
    *order = degree >= MPL_QUADRATIC ? MPL_QUADRATIC : (enum mpl_order)degree;
    return numel;
}

struct mpl_tensor *mpl_empty_strided(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                                     const struct mpl_shape *shape, const int64_t *stride)
{
    const bool is_selective =
        tape->frame && tape->checkpoint.is_selective && !tape->is_booking_scratch;
    struct mpl_tensor *tensor = is_selective ? mpl_frame_recall(tape, op) : NULL;
    struct mpl_storage *storage;
    enum mpl_order order;

    if (tensor)
        return tensor;
    tensor = tensor_new(tape, dtype, shape);
    if (!tensor)
        return tape->void_tensor;
    storage = pool_take(tape, &tape->free_storages, sizeof(*storage));
    if (!storage) {
        pool_give(&tape->free_tensors, tensor);
        return tape->void_tensor;
    }
    tensor->storage = storage;
    storage->refs = 1;
    storage->bytes = mpl_dtype_bytes(dtype, lay_out(tensor, stride, &order));
    if (storage->bytes && !book_alloc(tape, storage, order, op, tensor->dtype, shape)) {
        pool_give(&tape->free_storages, storage);
        pool_give(&tape->free_tensors, tensor);
        return tape->void_tensor;
    }
    if (is_selective)
        mpl_frame_keep(tape, op, tensor);
    return tensor;
}

struct mpl_tensor *mpl_empty(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                             const struct mpl_shape *shape)
{
    return mpl_empty_strided(tape, op, dtype, shape, NULL);
}

/* Stride of an operand along dimension i of the result; 0 where it is broadcast. */
static int64_t stride_along(const struct mpl_tensor *t, int ndim, int i)
{
    int k = i - (ndim - t->shape.ndim);

    return k < 0 || (t->shape.dim[k].n == 1) ? 0 : t->stride[k];
}

/* TensorIterator's order of two dimensions: 1 when i must lie outside j, -1 inside, 0 no matter.
 * source: aten/src/ATen/TensorIterator.cpp, reorder_dimensions. */
static int compare_dims(const struct mpl_tensor *a, const struct mpl_tensor *b,
                        const struct mpl_shape *shape, int i, int j)
{
    const struct mpl_tensor *operands[2] = {a, b};

    for (int k = 0; k < 2 && operands[k]; k++) {
        int64_t si = stride_along(operands[k], shape->ndim, i);
        int64_t sj = stride_along(operands[k], shape->ndim, j);

        if (!si || !sj)
            continue;
        if (si != sj)
            return si < sj ? -1 : 1;
        if (shape->dim[i].n > shape->dim[j].n)
            return 1;
    }
    return 0;
}

/* True when broadcasting b to a changes nothing of a. */
static bool covers(const struct mpl_shape *a, const struct mpl_shape *b)
{
    const int more = a->ndim - b->ndim;

    if (more < 0)
        return false;
    for (int i = 0; i < b->ndim; i++)
        if (b->dim[i].n != 1 && b->dim[i].n != a->dim[more + i].n)
            return false;
    return true;
}

static void broadcast(const struct mpl_tensor *a, const struct mpl_tensor *b,
                      struct mpl_shape *shape)
{
    const struct mpl_shape *wide = &a->shape, *narrow = b ? &b->shape : NULL;

    if (b && b->shape.ndim > a->shape.ndim) {
        wide = &b->shape;
        narrow = &a->shape;
    }
    *shape = *wide;
    if (!narrow)
        return;
    for (int i = 0; i < narrow->ndim; i++) {
        struct mpl_dim *d = &shape->dim[wide->ndim - narrow->ndim + i];

        if (narrow->dim[i].n != 1)
            *d = narrow->dim[i];
    }
}

struct mpl_tensor *mpl_empty_like(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                                  const struct mpl_tensor *a, const struct mpl_tensor *b)
{
    const bool is_contiguous = a->is_contiguous && (!b || b->is_contiguous);
    struct mpl_shape shape;
    int64_t stride[MPL_MAX_DIMS] = {0}, step = 1;
    int order[MPL_MAX_DIMS]; /* innermost first */

    if (is_contiguous && (!b || covers(&a->shape, &b->shape)))
        return mpl_empty(tape, op, dtype, &a->shape);
    broadcast(a, b, &shape);
    if (is_contiguous)
        return mpl_empty(tape, op, dtype, &shape);
    for (int i = 0; i < shape.ndim; i++)
        order[i] = shape.ndim - 1 - i;
    for (int i = 1; i < shape.ndim; i++) {
        int moving = i;

        for (int j = i - 1; j >= 0; j--) {
            int c = compare_dims(a, b, &shape, order[j], order[moving]);

            if (c > 0) {
                int swap = order[j];

                order[j] = order[moving];
                order[moving] = swap;
                moving = j;
            } else if (c < 0) {
                break;
            }
        }
    }
    for (int i = 0; i < shape.ndim; i++) {
        stride[order[i]] = step;
        step = (int64_t)mpl_mul((uint64_t)step, (uint64_t)shape.dim[order[i]].n);
    }
    return mpl_empty_strided(tape, op, dtype, &shape, stride);
}

struct mpl_tensor *mpl_alias(struct mpl_tape *tape, const struct mpl_tensor *tensor)
{
    struct mpl_tensor *alias;

    if (tape->is_stopped || tensor->is_void)
        return tape->void_tensor;
    alias = tensor_new(tape, (enum mpl_dtype)tensor->dtype, &tensor->shape);
    if (!alias)
        return tape->void_tensor;
    memcpy(alias->stride, tensor->stride, sizeof(alias->stride));
    alias->is_contiguous = tensor->is_contiguous;
    alias->storage = tensor->storage;
    alias->storage->refs++;
    return alias;
}

struct mpl_tensor *mpl_alias_shaped(struct mpl_tape *tape, const struct mpl_tensor *tensor,
                                    const struct mpl_shape *shape)
{
    struct mpl_tensor *alias = mpl_alias(tape, tensor);

    if (alias->is_void)
        return alias;
    alias->shape = *shape;
    contiguous_strides(shape, alias->stride);
    alias->is_contiguous = true;
    return alias;
}

void mpl_set_data(struct mpl_tape *tape, struct mpl_tensor *tensor, const struct mpl_tensor *from)
{
    struct mpl_storage *old = tensor->storage;

    if (tape->is_stopped || tensor->is_void || from->is_void)
        return;
    tensor->storage = from->storage;
    tensor->storage->refs++;
    storage_unref(tape, old);
}

struct mpl_tensor *mpl_hold(struct mpl_tensor *tensor)
{
    if (tensor->is_void)
        return tensor;
    if (tensor->is_floating)
        tensor->is_floating = false;
    else
        tensor->refs++;
    return tensor;
}

void mpl_drop(struct mpl_tape *tape, struct mpl_tensor *tensor)
{
    if (!tensor || tensor->is_void || --tensor->refs)
        return;
    storage_unref(tape, tensor->storage);
    mpl_node_unref(tape, tensor->grad_fn);
    mpl_drop(tape, tensor->grad);
    pool_give(&tape->free_tensors, tensor);
}

struct mpl_tensor *mpl_return(struct mpl_tensor *tensor)
{
    tensor->is_floating = !tensor->is_void;
    return tensor;
}

void mpl_rebind(struct mpl_tape *tape, struct mpl_tensor **name, struct mpl_tensor *value)
{
    struct mpl_tensor *old = *name;

    *name = mpl_hold(value);
    mpl_drop(tape, old);
}

void mpl_consume(struct mpl_tape *tape, struct mpl_tensor *tensor)
{
    if (!tensor || !tensor->is_floating)
        return;
    tensor->is_floating = false;
    mpl_drop(tape, tensor);
}
