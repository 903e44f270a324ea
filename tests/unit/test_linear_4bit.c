/* SPDX-License-Identifier: MIT */
/* Weights in 4 bits: what one takes, and what a product with it takes and keeps. */
#include "op/linear_4bit.h"

#include "tape_fixture.h"

static void end_weight(struct fixture *f, struct mpl_quantized *weight, struct mpl_tensor *table)
{
    mpl_drop(f->tape, weight->packed);
    mpl_drop(f->tape, weight->absmax);
    mpl_drop(f->tape, weight->code);
    mpl_drop(f->tape, weight->offset);
    mpl_drop(f->tape, weight->absmax2);
    mpl_drop(f->tape, weight->code2);
    mpl_drop(f->tape, table);
}

/* [256, 384]: 98304 weights, 49152 bytes, 1536 blocks; 6 blocks of these. */
START_TEST(what_stays_of_a_weight)
{
    struct mpl_quantized weight = {.out = 256, .in = 384, .dtype = MPL_BFLOAT16};
    struct mpl_tensor *table = NULL;
    struct fixture f;

    weight.is_double = _i;
    fixture_begin(&f);
    mpl_quantize_4bit(f.tape, &weight, &table);
    ck_assert_str_eq(fixture_log(&f),
                     _i ? "empty:6144 empty:49152 _to_copy:64 abs:64 max:4 ~abs:64 ~max:4 mean:4 "
                          "sub:6144 _to_copy:1024 empty:24 empty_like:1536 _to_copy:1024 ~sub:6144 "
                          "~empty:6144"
                        : "empty:6144 empty:49152 _to_copy:64 abs:64 max:4 ~abs:64 ~max:4");
    ck_assert_uint_eq(mpl_quantized_bytes(&weight),
                      _i ? 49152 + 1536 + 512 + 512 + 512 + 1024 : 49152 + 6144 + 512);
    end_weight(&f, &weight, table);
    fixture_end(&f);
}
END_TEST

/* Nothing of the input is kept; the weight is made again in forward (above 1536 rows) and in
 * backward. */
START_TEST(a_product_makes_the_weight_twice)
{
    struct mpl_quantized weight = {.out = 64, .in = 128, .dtype = MPL_BFLOAT16};
    struct mpl_tensor *table = NULL, *x, *y;
    struct fixture f;

    weight.is_double = _i;
    fixture_begin(&f);
    mpl_quantize_4bit(f.tape, &weight, &table);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(1, 2000, 128), true);
    fixture_log(&f);
    y = mpl_hold(mpl_op_linear_4bit(f.tape, x, &weight, NULL));
    ck_assert_str_eq(fixture_log(&f),
                     _i ? "empty_like:512 add:512 dequantize_4bit:16384 mm:256000 "
                          "~dequantize_4bit:16384 ~add:512 ~empty_like:512"
                        : "dequantize_4bit:16384 mm:256000 ~dequantize_4bit:16384");
    ck_assert_uint_eq(fixture_saved(y), 0);
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f),
                     _i ? "ones_like:256000 empty_like:512 dequantize_4bit:16384 ~empty_like:512 "
                          "mm:512000 ~dequantize_4bit:16384 ~ones_like:256000"
                        : "ones_like:256000 dequantize_4bit:16384 mm:512000 "
                          "~dequantize_4bit:16384 ~ones_like:256000");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    end_weight(&f, &weight, table);
    fixture_end(&f);
}
END_TEST

/* A float32 input is cast to the compute format and the result back. */
START_TEST(a_product_in_another_format)
{
    struct mpl_quantized weight = {
        .out = 64, .in = 128, .dtype = MPL_FLOAT16, .compute = MPL_FLOAT16};
    struct mpl_tensor *table = NULL, *x, *y;
    struct fixture f;

    fixture_begin(&f);
    mpl_quantize_4bit(f.tape, &weight, &table);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(4, 128), true);
    fixture_log(&f);
    y = mpl_hold(mpl_op_linear_4bit(f.tape, x, &weight, NULL));
    ck_assert_str_eq(fixture_log(&f),
                     "_to_copy:1024 gemm_4bit:512 _to_copy:1024 ~gemm_4bit:512 ~_to_copy:1024");
    mpl_backward(f.tape, y);
    ck_assert_str_eq(fixture_log(&f), "ones_like:1024 _to_copy:512 dequantize_4bit:16384 mm:1024 "
                                      "~dequantize_4bit:16384 ~_to_copy:512 _to_copy:2048 ~mm:1024 "
                                      "~ones_like:1024");
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    end_weight(&f, &weight, table);
    fixture_end(&f);
}
END_TEST

/* Answers of bitsandbytes 0.50.2, _gemm_4bit_use_custom_cuda and its dispatch. */
static const struct {
    double capability;
    int64_t multiprocessors, rows, out, in;
    bool is_fused;
} fuse_table[] = {
    {8.0, 108, 4, 4096, 4096, true},     {8.0, 108, 1537, 1024, 256, false},
    {8.0, 108, 1536, 1024, 256, true},   {8.0, 108, 2048, 4096, 4096, false},
    {8.0, 108, 128, 4096, 4096, false},  {8.0, 108, 128, 28672, 4096, true},
    {8.0, 108, 129, 28672, 4096, false}, {8.6, 82, 128, 14336, 4096, true},
    {8.9, 142, 512, 3584, 3584, false},  {8.9, 142, 256, 28672, 4096, true},
    {9.0, 132, 512, 4096, 4096, false},  {9.0, 132, 64, 28672, 4096, true},
    {9.0, 132, 65, 28672, 4096, false},  {10.0, 148, 5, 4096, 4096, false},
    {12.0, 188, 256, 45056, 4096, true}, {12.0, 188, 512, 9728, 2560, false},
    {12.0, 188, 8, 4096, 4100, false},   {8.7, 16, 8, 4096, 4096, false},
};

START_TEST(which_products_are_fused)
{
    struct fixture f;

    fixture_begin(&f);
    f.tape->compute_capability = fuse_table[_i].capability;
    f.tape->multiprocessors = fuse_table[_i].multiprocessors;
    ck_assert_int_eq(mpl_fuses_4bit(f.tape, MPL_BFLOAT16, fuse_table[_i].rows, fuse_table[_i].out,
                                    fuse_table[_i].in),
                     fuse_table[_i].is_fused);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("linear_4bit");

    tcase_add_loop_test(tcase, what_stays_of_a_weight, 0, 2);
    tcase_add_loop_test(tcase, a_product_makes_the_weight_twice, 0, 2);
    tcase_add_test(tcase, a_product_in_another_format);
    tcase_add_loop_test(tcase, which_products_are_fused, 0, ROWS(fuse_table));
    return test_run("linear_4bit", tcase);
}
