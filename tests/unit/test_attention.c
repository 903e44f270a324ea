/* SPDX-License-Identifier: MIT */
/* Attention: which kernel the operator takes, what each keeps and allocates, in order; padding of
 * head sizes and masks; the eager composition. By hand from aten/src/ATen/native/transformers. */
#include "op/scratch.h"
#include "tape_fixture.h"

#define F32  MPL_FLOAT32
#define F16  MPL_FLOAT16
#define BF16 MPL_BFLOAT16

struct heads {
    struct mpl_tensor *q, *k, *v;
};

static struct heads make_heads(struct fixture *f, enum mpl_dtype dtype, int64_t heads,
                               int64_t kv_heads, int64_t tokens, int64_t size)
{
    return (struct heads){fixture_leaf(f, dtype, SHAPE(1, heads, tokens, size), true),
                          fixture_leaf(f, dtype, SHAPE(1, kv_heads, tokens, size), true),
                          fixture_leaf(f, dtype, SHAPE(1, kv_heads, tokens, size), true)};
}

static void drop_heads(struct fixture *f, const struct heads *h)
{
    mpl_drop(f->tape, h->q);
    mpl_drop(f->tape, h->k);
    mpl_drop(f->tape, h->v);
}

/* ---- choice -----------------------------------------------------------------------------------
 */

static const char flash_node[] = "ScaledDotProductFlashAttentionBackward0";
static const char efficient_node[] = "ScaledDotProductEfficientAttentionBackward0";
static const char cudnn_node[] = "ScaledDotProductCudnnAttentionBackward0";
static const char padded_flash_node[] = "SliceBackward0"; /* cuts the padding off */
static const char math_node[] = "ViewBackward0";          /* of a batched product */
static const char half_math_node[] = "ToCopyBackward0";   /* back from float32 */

static const struct {
    uint16_t minor; /* PyTorch 2.x */
    double capability;
    enum mpl_dtype dtype;
    int64_t heads, kv_heads, size;
    bool has_mask, no_cudnn;
    const char *node;
} choice_table[] = {
    {13, 8.0, BF16, 2, 2, 16, false, false, flash_node},
    {13, 8.0, F16, 4, 2, 16, false, false, flash_node},
    {13, 8.0, BF16, 2, 2, 20, false, false, padded_flash_node},
    {13, 8.0, BF16, 2, 2, 256, false, false, flash_node},
    {13, 8.0, BF16, 2, 2, 264, false, false, efficient_node},
    {13, 8.0, BF16, 2, 2, 16, true, false, efficient_node},
    {13, 8.0, BF16, 4, 2, 16, true, false, half_math_node},
    {14, 8.0, BF16, 4, 2, 16, true, false, efficient_node},
    {13, 8.0, BF16, 2, 2, 20, true, false, half_math_node},
    {13, 8.0, F32, 2, 2, 20, false, false, efficient_node},
    {13, 8.0, F32, 2, 2, 18, false, false, math_node},
    {13, 8.0, F32, 4, 2, 16, false, false, math_node},
    {13, 7.5, F16, 2, 2, 16, false, false, efficient_node},
    {13, 7.5, BF16, 2, 2, 16, false, false, half_math_node},
    {4, 7.5, BF16, 2, 2, 16, false, false, math_node},
    /* little shared memory: no backward for wide heads */
    {13, 8.6, BF16, 2, 2, 192, false, false, flash_node},
    {13, 8.6, BF16, 2, 2, 200, false, false, efficient_node},
    {13, 9.0, BF16, 4, 2, 16, false, false, cudnn_node},
    {13, 9.0, BF16, 4, 2, 16, false, true, flash_node},
    {10, 9.0, BF16, 4, 2, 16, false, false, flash_node},
    {13, 12.0, BF16, 4, 2, 16, false, false, flash_node},
};

START_TEST(kernel_is_chosen)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *mask = NULL, *y;

    fixture_begin(&f);
    f.tape->pytorch.major = 2;
    f.tape->pytorch.minor = choice_table[_i].minor;
    f.tape->compute_capability = choice_table[_i].capability;
    f.tape->cudnn_attention = !choice_table[_i].no_cudnn;
    h = make_heads(&f, choice_table[_i].dtype, choice_table[_i].heads, choice_table[_i].kv_heads, 5,
                   choice_table[_i].size);
    if (choice_table[_i].has_mask)
        mask = fixture_leaf(&f, MPL_BOOL, SHAPE(1, 1, 5, 5), false);
    y = mpl_hold(mpl_op_sdpa(f.tape, h.q, h.k, h.v, mask, !mask));
    ck_assert_str_eq(y->grad_fn->name, choice_table[_i].node);
    ck_assert(mpl_shape_equal(&y->shape, &h.q->shape));
    mpl_backward(f.tape, y);
    ck_assert(mpl_shape_equal(&h.q->grad->shape, &h.q->shape));
    ck_assert(mpl_shape_equal(&h.k->grad->shape, &h.k->shape));
    ck_assert(mpl_shape_equal(&h.v->grad->shape, &h.v->shape));
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, mask);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* ---- fused kernels ----------------------------------------------------------------------------
 */

#define FLASH "_scaled_dot_product_flash_attention"
#define EFF   "_scaled_dot_product_efficient_attention"

/* 4 query heads, 2 for keys and values, 5 tokens, size 16: output, log-sum-exp, seed, offset. */
START_TEST(flash_keeps_and_gives)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;

    fixture_begin(&f);
    h = make_heads(&f, BF16, 4, 2, 5, 16);
    fixture_log(&f);
    y = mpl_hold(mpl_op_sdpa(f.tape, h.q, h.k, h.v, NULL, true));
    ck_assert_str_eq(fixture_log(&f), FLASH ":640 " FLASH ":80 " FLASH ":16 " FLASH ":8");
    ck_assert_uint_eq(fixture_saved(y), 640 + 320 + 320 + 640 + 80 + 16 + 8);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f),
                     "ones_like:640 " FLASH "_backward:640 " FLASH "_backward:320 " FLASH
                     "_backward:320 ~" FLASH ":80 ~" FLASH ":16 ~" FLASH ":8 ~ones_like:640");
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* A query that does not train gets a gradient all the same, which goes at once. */
START_TEST(unwanted_gradients_are_made_and_dropped)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;

    fixture_begin(&f);
    h = make_heads(&f, BF16, 4, 2, 5, 16);
    h.q->requires_grad = false;
    y = mpl_hold(mpl_op_sdpa(f.tape, h.q, h.k, h.v, NULL, true));
    fixture_log(&f);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f),
                     "ones_like:640 " FLASH "_backward:640 " FLASH "_backward:320 " FLASH
                     "_backward:320 ~" FLASH "_backward:640 ~" FLASH ":80 ~" FLASH ":16 ~" FLASH
                     ":8 ~ones_like:640");
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* Size 20 is padded to 24: copies of q, k, v and an output of 480 bytes; the result is a slice. */
START_TEST(flash_pads_head_sizes)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;

    fixture_begin(&f);
    h = make_heads(&f, BF16, 2, 2, 5, 20);
    fixture_log(&f);
    y = mpl_hold(mpl_op_sdpa(f.tape, h.q, h.k, h.v, NULL, true));
    ck_assert_str_eq(fixture_log(&f),
                     "constant_pad_nd:480 constant_pad_nd:480 constant_pad_nd:480 " FLASH
                     ":480 " FLASH ":40 " FLASH ":16 " FLASH ":8");
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f),
                     "ones_like:400 slice_backward:480 " FLASH "_backward:480 " FLASH
                     "_backward:480 " FLASH "_backward:480 ~slice_backward:480 "
                     /* what was kept; the output is still named */
                     "~constant_pad_nd:480 ~constant_pad_nd:480 ~constant_pad_nd:480 ~" FLASH
                     ":40 ~" FLASH ":16 ~" FLASH ":8 "
                     /* v, k, q: cut back */
                     "constant_pad_nd:400 ~" FLASH "_backward:480 constant_pad_nd:400 ~" FLASH
                     "_backward:480 constant_pad_nd:400 ~" FLASH "_backward:480 ~ones_like:400");
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* A bool mask becomes numbers, which are kept; rows of the log-sum-exp are padded to 32; the result
 * has its heads inside. The mask's rows are padded to 8; on a card the kernel asks for its seeds
 * first. */
static const struct {
    bool is_card;
    const char *log;
} mask_table[] = {
    {false, "scalar_tensor:2 scalar_tensor:2 where:50 ~scalar_tensor:2 ~scalar_tensor:2 "
            "constant_pad_nd:80 ~where:50 " EFF ":320 " EFF ":256 " EFF ":8 " EFF ":8"},
    {true, "scalar_tensor:2 scalar_tensor:2 where:50 ~scalar_tensor:2 ~scalar_tensor:2 "
           "constant_pad_nd:80 ~where:50 " EFF ":8 " EFF ":8 " EFF ":320 " EFF ":256"},
};

START_TEST(efficient_attention_with_a_mask)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *mask, *y;

    fixture_begin(&f);
    h = make_heads(&f, BF16, 2, 2, 5, 16);
    mask = fixture_leaf(&f, MPL_BOOL, SHAPE(1, 1, 5, 5), false);
    f.tape->has_kernel_scratch = mask_table[_i].is_card;
    fixture_log(&f);
    y = mpl_hold(mpl_op_sdpa(f.tape, h.q, h.k, h.v, mask, false));
    ck_assert_str_eq(fixture_log(&f), mask_table[_i].log);
    ck_assert_uint_eq(fixture_saved(y), 3 * 320 + 320 + 256 + 8 + 8 + 80);
    ck_assert_int_eq(y->stride[0], 160);
    ck_assert_int_eq(y->stride[1], 16);
    ck_assert_int_eq(y->stride[2], 32);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, mask);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* float32 with grouped heads: scaled q, scaled and repeated k, repeated v, 4 bytes a score. One
 * head is copied for all as well, though a view could show it. */
static const int64_t kv_heads_table[] = {2, 1};

START_TEST(math_keeps_scores)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;
    uint64_t before;

    fixture_begin(&f);
    h = make_heads(&f, F32, 4, kv_heads_table[_i], 3, 8);
    before = fixture_live(&f);
    fixture_log(&f);
    y = mpl_hold(mpl_op_sdpa(f.tape, h.q, h.k, h.v, NULL, true));
    ck_assert_str_eq(fixture_log(&f),
                     "mul:384 "
                     /* the causal mask */
                     "ones:9 tril:9 ~ones:9 scalar_tensor:4 scalar_tensor:4 where:36 "
                     "~scalar_tensor:4 ~scalar_tensor:4 ~tril:9 "
                     /* repeated keys and values; scaled keys; scores */
                     "clone:384 clone:384 mul:384 bmm:144 "
                     "softmax:144 isneginf:36 all:12 scalar_tensor:4 ~scalar_tensor:4 ~all:12 "
                     "~isneginf:36 ~bmm:144 "
                     "bmm:384 ~clone:384 ~where:36");
    ck_assert_uint_eq(fixture_live(&f) - before, 384 + 384 + 144 + 384 + 384);
    mpl_backward(f.tape, y);
    ck_assert_uint_eq(fixture_live(&f) - before, /* y, gradients of q, k, v */
                      384 + 384 + 2 * 96 * (uint64_t)kv_heads_table[_i]);
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* Half operands: all is float32 inside, and the weights are cast back before the last product. */
START_TEST(math_in_half_is_float32)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;
    uint64_t before;

    fixture_begin(&f);
    f.tape->compute_capability = 7.5;
    f.tape->pytorch = (struct mpl_version){.major = 2, .minor = 5};
    h = make_heads(&f, BF16, 2, 2, 3, 8);
    before = fixture_live(&f);
    fixture_log(&f);
    y = mpl_hold(mpl_op_sdpa(f.tape, h.q, h.k, h.v, NULL, true));
    ck_assert_str_eq(fixture_log(&f),
                     "_to_copy:192 _to_copy:192 _to_copy:192 mul:192 "
                     "ones:9 tril:9 ~ones:9 scalar_tensor:4 scalar_tensor:4 where:36 "
                     "~scalar_tensor:4 ~scalar_tensor:4 ~tril:9 mul:192 bmm:72 "
                     "softmax:72 isneginf:18 all:6 scalar_tensor:4 ~scalar_tensor:4 ~all:6 "
                     "~isneginf:18 ~bmm:72 _to_copy:36 bmm:192 _to_copy:96 ~bmm:192 "
                     "~where:36 ~_to_copy:36 ~_to_copy:192 ~_to_copy:192");
    /* scaled q and k, v, weights, y */
    ck_assert_uint_eq(fixture_live(&f) - before, 3 * 192 + 72 + 96);
    mpl_backward(f.tape, y);
    ck_assert_uint_eq(fixture_live(&f) - before, 4 * 96);
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* float32 activations under bfloat16: v, k and q are cast, and the casts are what is kept. */
START_TEST(sdpa_casts_under_autocast)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;

    fixture_begin(&f);
    h = make_heads(&f, F32, 4, 2, 5, 16);
    h.q->requires_grad = h.k->requires_grad = false; /* their casts are not cached */
    fixture_log(&f);
    f.tape->autocast = BF16;
    y = mpl_hold(mpl_op_sdpa(f.tape, h.q, h.k, h.v, NULL, true));
    ck_assert_str_eq(fixture_log(&f), "_to_copy:320 _to_copy:320 _to_copy:640 " FLASH ":640 " FLASH
                                      ":80 " FLASH ":16 " FLASH ":8");
    ck_assert_int_eq(y->dtype, BF16);
    mpl_autocast_exit(f.tape);
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* ---- the eager composition --------------------------------------------------------------------
 */

/* matmul, scale, mask, softmax in float32, cast, matmul: 4 + 2 bytes a score are kept; at most 10
 * live at once in forward. */
START_TEST(eager_attention_keeps_6_bytes_a_score)
{
    enum { HEADS = 2, TOKENS = 64, SIZE = 4, SCORES = HEADS * TOKENS * TOKENS };
    struct fixture f;
    struct heads h;
    struct mpl_tensor *mask, *scores, *probs, *y;
    uint64_t before, live = 0, peak = 0;
    const uint64_t out = 2 * HEADS * TOKENS * SIZE;

    fixture_begin(&f);
    h = make_heads(&f, BF16, HEADS, HEADS, TOKENS, SIZE);
    mask = fixture_leaf(&f, BF16, SHAPE(1, 1, TOKENS, TOKENS), false);
    before = fixture_live(&f);
    scores = mpl_hold(
        mpl_op_mul_number(f.tape, mpl_op_matmul(f.tape, h.q, mpl_op_transpose(f.tape, h.k, 2, 3))));
    mpl_rebind(f.tape, &scores, mpl_op_add(f.tape, scores, mask));
    probs = mpl_hold(mpl_op_to(f.tape, mpl_op_softmax(f.tape, scores, F32), BF16));
    mpl_drop(f.tape, scores);
    y = mpl_hold(mpl_op_matmul(f.tape, probs, h.v));
    mpl_drop(f.tape, probs);
    ck_assert_uint_eq(fixture_live(&f) - before, 6 * SCORES + out);
    for (size_t i = 0; i < f.timeline.events.len; i++) {
        const mpl_event e = f.timeline.events.data[i];
        const uint64_t bytes = f.timeline.requests.data[mpl_event_id(e)].bytes;

        live = mpl_event_kind(e) == MPL_EVENT_ALLOC ? live + bytes : live - bytes;
        peak = live > peak ? live : peak;
    }
    ck_assert_uint_eq(peak - before, 10 * SCORES);
    mpl_backward(f.tape, y);
    ck_assert_uint_eq(fixture_live(&f) - before, 4 * out); /* result and three gradients */
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, mask);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* ---- the package flash-attn --------------------------------------------------------------------
 */

#define FA      "_flash_attn_forward"
#define FA_BACK "_flash_attn_backward"

/* 4 query heads, 2 for keys and values, 5 tokens, size 16; on a card softmax_d [4, 128] and
 * dq_accum [128, 4, 32] in float32, gradients of keys and values for every query head. */
static const struct {
    bool is_card;
    const char *backward;
} package_table[] = {
    {false, "ones_like:640 empty_like:640 empty_like:320 empty_like:320 ~" FA ":80 ~" FA
            ":16 ~ones_like:640"},
    {true, "ones_like:640 empty_like:640 empty_like:320 empty_like:320 " FA_BACK ":2048 " FA_BACK
           ":65536 " FA_BACK ":640 " FA_BACK ":640 ~" FA_BACK ":640 ~" FA_BACK ":640 ~" FA_BACK
           ":65536 ~" FA_BACK ":2048 ~" FA ":80 ~" FA ":16 ~ones_like:640"},
};

static struct heads make_rows(struct fixture *f, int64_t size)
{
    return (struct heads){fixture_leaf(f, BF16, SHAPE(1, 5, 4, size), true),
                          fixture_leaf(f, BF16, SHAPE(1, 5, 2, size), true),
                          fixture_leaf(f, BF16, SHAPE(1, 5, 2, size), true)};
}

START_TEST(package_keeps_and_gives)
{
    const struct mpl_flash_attn_options options = {.lengths = NULL};
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;

    fixture_begin(&f);
    f.tape->has_kernel_scratch = package_table[_i].is_card;
    h = make_rows(&f, 16);
    fixture_log(&f);
    y = mpl_hold(mpl_op_flash_attn(f.tape, h.q, h.k, h.v, &options));
    ck_assert_str_eq(fixture_log(&f), FA ":640 " FA ":80 " FA ":16");
    ck_assert_uint_eq(fixture_saved(y), 640 + 320 + 320 + 640 + 80 + 16);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), package_table[_i].backward);
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* Size 20 is padded to 24 inside the function: gradients are views of what is padded. */
START_TEST(package_pads_head_sizes)
{
    const struct mpl_flash_attn_options options = {.lengths = NULL};
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;

    fixture_begin(&f);
    h = make_rows(&f, 20);
    fixture_log(&f);
    y = mpl_hold(mpl_op_flash_attn(f.tape, h.q, h.k, h.v, &options));
    ck_assert_str_eq(fixture_log(&f),
                     "constant_pad_nd:960 constant_pad_nd:480 constant_pad_nd:480 " FA ":960 " FA
                     ":80 " FA ":16");
    ck_assert_int_eq(y->shape.dim[3].n, 20);
    ck_assert_int_eq(y->stride[2], 24);
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* Requests of the kernels by hand from mha_fwd, mha_bwd and their varlen forms: bytes of takes,
 * results as they come. 2 sequences of 300 tokens, 4 heads on 2, size 72 (96 inside), bfloat16, 8
 * multiprocessors: 2 * 4 * 5 blocks for 16 places, so keys are not cut. 1 sequence, 1 head, size
 * 16, 512 tokens: 8 blocks, keys in 2 parts. */
static const struct {
    struct mpl_scratch_attention call;
    bool is_backward;
    uint64_t bytes[5];
} package_scratch_table[] = {
    {{.batch = 2,
      .query_tokens = 300,
      .key_tokens = 300,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 72},
     false,
     {2 * 300 * 4 * 72 * 2, 2 * 4 * 300 * 4, 16}},
    {{.batch = 1,
      .query_tokens = 512,
      .key_tokens = 512,
      .heads = 1,
      .kv_heads = 1,
      .head_dim = 16},
     false,
     {512 * 16 * 2, 512 * 4, 2 * 512 * 4, 2 * 512 * 32 * 4, 16}},
    {{.batch = 2,
      .query_tokens = 300,
      .key_tokens = 300,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 72},
     true,
     {2 * 4 * 384 * 4, 2 * 384 * 4 * 96 * 4, 2 * 300 * 4 * 72 * 2, 2 * 300 * 4 * 72 * 2}},
    {{.batch = 1,
      .query_tokens = 600,
      .key_tokens = 600,
      .heads = 4,
      .kv_heads = 4,
      .head_dim = 136,
      .sequences = 2},
     true,
     {4 * (600 + 256) * 4, (600 + 256) * 4 * 192 * 4}},
    {{.batch = 1,
      .query_tokens = 512,
      .key_tokens = 512,
      .heads = 1,
      .kv_heads = 1,
      .head_dim = 16,
      .sequences = 4},
     false,
     {512 * 16 * 2, 512 * 4, 16}},
};

START_TEST(package_takes_scratch)
{
    const struct mpl_scratch_card card = {8.0, 8};
    struct mpl_scratch_attention call = package_scratch_table[_i].call;
    struct mpl_scratch list;
    int n = 0, given = 0;

    call.dtype = BF16;
    call.value_head_dim = call.head_dim;
    if (package_scratch_table[_i].is_backward)
        mpl_scratch_flash_attn_backward(&call, &list);
    else
        mpl_scratch_flash_attn_forward(&card, &call, &list);
    for (int i = 0; i < list.count; i++) {
        if (list.steps[i].kind == MPL_SCRATCH_GIVE) {
            given++;
            continue;
        }
        ck_assert_int_lt(n, 5);
        ck_assert_uint_eq(list.steps[i].bytes, package_scratch_table[_i].bytes[n++]);
    }
    ck_assert(n == 5 || package_scratch_table[_i].bytes[n] == 0);
    ck_assert_int_eq(given, list.takes);
}
END_TEST

/* The same of flash-attn-3, by hand from hopper/flash_api.cpp. Backward: sums of a row twice, the
 * query's gradient, those of key and value with grouped heads, semaphores. Size 72 is 96 inside,
 * 136 is 192. */
static const struct {
    struct mpl_scratch_attention call;
    double compute_capability;
    bool is_backward;
    uint64_t bytes[6];
} third_table[] = {
    {{.batch = 2,
      .query_tokens = 300,
      .key_tokens = 300,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 72,
      .is_causal = true},
     9.0,
     true,
     {2 * 4 * 320 * 4, 2 * 4 * 320 * 4, 2 * 4 * 320 * 96 * 4, 2 * 2 * 384 * 96 * 4,
      2 * 2 * 384 * 96 * 4, 5 * 2 * 4 * 4}},
    {{.batch = 1,
      .query_tokens = 600,
      .key_tokens = 600,
      .heads = 4,
      .kv_heads = 4,
      .head_dim = 128},
     9.0,
     true,
     {4 * 640 * 4, 4 * 640 * 4, 4 * 640 * 128 * 4, 8 * 4 * 4}},
    {{.batch = 1,
      .query_tokens = 600,
      .key_tokens = 600,
      .heads = 4,
      .kv_heads = 4,
      .head_dim = 64,
      .is_causal = true,
      .is_capped = true},
     9.0,
     true,
     {4 * 672 * 4, 4 * 672 * 4, 4 * 672 * 64 * 4, 7 * 4 * 4}},
    {{.batch = 1,
      .query_tokens = 600,
      .key_tokens = 600,
      .heads = 4,
      .kv_heads = 4,
      .head_dim = 136,
      .sequences = 2,
      .longest = 400,
      .is_causal = true},
     9.0,
     true,
     {4 * 768 * 4, 4 * 768 * 4, 4 * 768 * 192 * 4, 7 * 2 * 4 * 4}},
    {{.batch = 1,
      .query_tokens = 100,
      .key_tokens = 100,
      .heads = 2,
      .kv_heads = 1,
      .head_dim = 256,
      .is_causal = true},
     8.6,
     true,
     {2 * 128 * 4, 2 * 128 * 4, 2 * 128 * 256 * 4, 128 * 256 * 4, 128 * 256 * 4, 4 * 2 * 4}},
    {{.batch = 2,
      .query_tokens = 300,
      .key_tokens = 300,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 72,
      .is_causal = true},
     9.0,
     false,
     {2 * 300 * 4 * 72 * 2, 2 * 4 * 300 * 4, (1 + 4 * 2) * 4}},
    {{.batch = 2,
      .query_tokens = 300,
      .key_tokens = 300,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 72},
     9.0,
     false,
     {2 * 300 * 4 * 72 * 2, 2 * 4 * 300 * 4}},
    {{.batch = 1,
      .query_tokens = 600,
      .key_tokens = 600,
      .heads = 4,
      .kv_heads = 4,
      .head_dim = 64,
      .sequences = 3,
      .longest = 300,
      .is_local = true},
     9.0,
     false,
     {600 * 4 * 64 * 2, 4 * 600 * 4, (1 + 4 * 3) * 4}},
};

START_TEST(third_package_takes_scratch)
{
    const struct mpl_scratch_card card = {third_table[_i].compute_capability, 132};
    struct mpl_scratch_attention call = third_table[_i].call;
    struct mpl_scratch list;
    int n = 0, given = 0;

    call.dtype = BF16;
    if (third_table[_i].is_backward)
        mpl_scratch_flash_attn_3_backward(&card, &call, &list);
    else
        mpl_scratch_flash_attn_3_forward(&card, &call, &list);
    for (int i = 0; i < list.count; i++) {
        if (list.steps[i].kind == MPL_SCRATCH_GIVE) {
            given++;
            continue;
        }
        ck_assert_int_lt(n, 6);
        ck_assert_uint_eq(list.steps[i].bytes, third_table[_i].bytes[n++]);
    }
    ck_assert(n == 6 || third_table[_i].bytes[n] == 0);
    ck_assert_int_eq(given, list.takes);
}
END_TEST

/* 4 query heads, 2 for keys and values, 5 tokens, size 16: no seeds are kept. */
START_TEST(third_package_keeps_and_gives)
{
    const struct mpl_flash_attn_options options = {.is_causal = true};
    struct fixture f;
    struct heads h;
    struct mpl_tensor *y;

    fixture_begin(&f);
    h = make_rows(&f, 16);
    fixture_log(&f);
    y = mpl_hold(mpl_op_flash_attn_3(f.tape, h.q, h.k, h.v, &options));
    ck_assert_str_eq(fixture_log(&f), "flash_attn_3_fwd:640 flash_attn_3_fwd:80");
    ck_assert_uint_eq(fixture_saved(y), 640 + 320 + 320 + 640 + 80);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:640 empty_like:640 empty_like:320 empty_like:320 "
                                      "~flash_attn_3_fwd:80 ~ones_like:640");
    mpl_drop(f.tape, y);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* ---- compiled flex_attention ------------------------------------------------------------------
 */

#define FLEX "flex_attention"
#define BUF  "empty_strided_cuda"

/* 4 query heads, 2 for keys and values, 5 tokens, size 16: log-sum-exp, largest scores, output. In
 * backward zeros for the gradient of the log-sum-exp, a sum for each row, gradients of query,
 * value, key; what was kept goes at its last use. */
START_TEST(flex_keeps_and_gives)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *mask, *lse, *y;

    fixture_begin(&f);
    h = make_heads(&f, BF16, 4, 2, 5, 16);
    mask = fixture_leaf(&f, MPL_INT32, SHAPE(1), false);
    fixture_log(&f);
    y = mpl_hold(mpl_op_flex_attention(f.tape, h.q, h.k, h.v, mask, &lse));
    mpl_consume(f.tape, lse);
    ck_assert_str_eq(fixture_log(&f), FLEX ":80 " FLEX ":80 " FLEX ":640 ~" FLEX ":80");
    ck_assert_uint_eq(fixture_saved(y), 640 + 320 + 320 + 4 + 640 + 80);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:640 zeros:80 " BUF ":80 ~zeros:80 " BUF ":640 " BUF
                                      ":320 " BUF ":320 ~" BUF ":80 ~" FLEX ":80 ~ones_like:640");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, mask);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

/* float32 queries under bfloat16 are cast inside; their gradient is cast back. */
START_TEST(flex_casts_under_autocast)
{
    struct fixture f;
    struct heads h;
    struct mpl_tensor *mask, *lse, *y;

    fixture_begin(&f);
    h = make_heads(&f, BF16, 2, 2, 5, 16);
    mpl_drop(f.tape, h.q);
    h.q = fixture_leaf(&f, F32, SHAPE(1, 2, 5, 16), true);
    mask = fixture_leaf(&f, MPL_INT32, SHAPE(1), false);
    fixture_log(&f);
    f.tape->autocast = BF16;
    y = mpl_hold(mpl_op_flex_attention(f.tape, h.q, h.k, h.v, mask, &lse));
    f.tape->autocast = MPL_DTYPE_NONE;
    mpl_consume(f.tape, lse);
    ck_assert_int_eq(y->dtype, BF16);
    ck_assert_str_eq(fixture_log(&f), BUF ":320 " FLEX ":40 " FLEX ":40 " FLEX ":320 ~" FLEX ":40");
    mpl_backward(f.tape, y);
    ck_assert_int_eq(h.q->grad->dtype, F32);
    ck_assert_str_eq(fixture_log(&f), "ones_like:320 zeros:40 " BUF ":40 ~zeros:40 " BUF ":320 " BUF
                                      ":320 " BUF ":320 ~" BUF ":40 ~" FLEX ":40 ~" BUF ":320 " BUF
                                      ":640 ~" BUF ":320 ~ones_like:320");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, mask);
    drop_heads(&f, &h);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("attention");

    tcase_add_loop_test(tcase, kernel_is_chosen, 0, ROWS(choice_table));
    tcase_add_test(tcase, flash_keeps_and_gives);
    tcase_add_test(tcase, unwanted_gradients_are_made_and_dropped);
    tcase_add_test(tcase, flash_pads_head_sizes);
    tcase_add_loop_test(tcase, efficient_attention_with_a_mask, 0, ROWS(mask_table));
    tcase_add_loop_test(tcase, math_keeps_scores, 0, ROWS(kv_heads_table));
    tcase_add_test(tcase, math_in_half_is_float32);
    tcase_add_test(tcase, sdpa_casts_under_autocast);
    tcase_add_test(tcase, eager_attention_keeps_6_bytes_a_score);
    tcase_add_loop_test(tcase, package_keeps_and_gives, 0, ROWS(package_table));
    tcase_add_test(tcase, package_pads_head_sizes);
    tcase_add_loop_test(tcase, package_takes_scratch, 0, ROWS(package_scratch_table));
    tcase_add_loop_test(tcase, third_package_takes_scratch, 0, ROWS(third_table));
    tcase_add_test(tcase, third_package_keeps_and_gives);
    tcase_add_test(tcase, flex_keeps_and_gives);
    tcase_add_test(tcase, flex_casts_under_autocast);
    return test_run("attention", tcase);
}
