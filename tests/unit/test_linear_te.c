/* SPDX-License-Identifier: MIT */
/*
 * te.Linear, worked out by hand from the source of Transformer Engine 2.18, tensor by tensor; line
 * numbers are those of the release. It was not compared with a run.
 *
 * The layer: x [2, 16, 32], weight [64, 32]. So x has 1024 elements, the weight 2048, the output
 * and its gradient 32 rows of 64: 2048 elements.
 */
#include "op/linear_te.h"

#include "tape_fixture.h"

enum { DELAYED, CURRENT };

#define HISTORY 16

/* pytorch/quantization.py 1426..1432, forward with 3 tensors, backward with 2 (base.py 1073,
 * 1245..1248): scale, then history, 16 * 3 * 4 = 192 bytes and 16 * 2 * 4 = 128 bytes. */
#define STATES "ones:12 zeros:192 ones:8 zeros:128 "

/* pytorch/csrc/quantizer.cpp: delayed 329..364 the scale, the data, its transpose; current 660..682
 * the scale last, then quantize, 1017, with a buffer of two numbers. linear.py 392..400 casts the
 * input, 436..445 the weight, 492 multiplies; cpp_extensions/gemm.py 134 asks for the workspace
 * (38: 32 MiB + 1024 from 9.0 on; 40: 4 MiB) before csrc/extensions/gemm.cpp 203 makes the result
 * in bfloat16. linear.py 572 lets go of the input's rows, where 9.0 has a transpose; from 10.0
 * to 12.0 (utils.py 662) there is none, and the rows stay (float8_tensor_storage.py 245..250). */
static const struct {
    double cc;
    int recipe;
    const char *forward;
    uint64_t kept; /* linear.py 612..617: the input once, the weight both ways, two scales */
    const char *backward;
} layer_table[] = {
    {9.0, DELAYED,
     STATES "scale_inv:4 fp8_data:1024 fp8_transpose:1024 "
            "scale_inv:4 fp8_data:2048 fp8_transpose:2048 "
            "gemm_workspace:33555456 gemm:4096 ~fp8_data:1024",
     1024 + 4 + 2 * 2048 + 4,
     /* base.py 1718 casts the gradient; linear.py 1024 the input's gradient [32, 32], 1240 the
      * weight's, 1250 clears the input; at the function's end the gradient's codes go, then
      * quantization.py 666 joins 2 numbers of one layer, for this one came first (linear.py 1368,
      * 1393). The engine casts both results to the float32 of their inputs. */
     "scale_inv:4 fp8_data:2048 fp8_transpose:2048 gemm:2048 gemm:4096 ~fp8_transpose:1024 "
     "~fp8_data:2048 ~fp8_transpose:2048 ~scale_inv:4 cat:8 ~cat:8 "
     "_to_copy:8192 ~gemm:4096 _to_copy:4096 ~gemm:2048 "
     "~scale_inv:4 ~fp8_data:2048 ~fp8_transpose:2048 ~scale_inv:4 ~ones_like:4096"},
    {8.9, CURRENT,
     "fp8_data:1024 fp8_transpose:1024 scale_inv:4 amax_and_scale:8 ~amax_and_scale:8 "
     "fp8_data:2048 fp8_transpose:2048 scale_inv:4 amax_and_scale:8 ~amax_and_scale:8 "
     "gemm_workspace:4194304 gemm:4096 ~fp8_data:1024",
     1024 + 4 + 2 * 2048 + 4,
     "fp8_data:2048 fp8_transpose:2048 scale_inv:4 amax_and_scale:8 ~amax_and_scale:8 "
     "gemm:2048 gemm:4096 ~fp8_transpose:1024 ~fp8_data:2048 ~fp8_transpose:2048 ~scale_inv:4 "
     "_to_copy:8192 ~gemm:4096 _to_copy:4096 ~gemm:2048 "
     "~scale_inv:4 ~fp8_data:2048 ~fp8_transpose:2048 ~scale_inv:4 ~ones_like:4096"},
    {10.0, DELAYED,
     STATES "scale_inv:4 fp8_data:1024 scale_inv:4 fp8_data:2048 gemm_workspace:33555456 gemm:4096",
     1024 + 4 + 2048 + 4,
     "scale_inv:4 fp8_data:2048 gemm:2048 gemm:4096 ~fp8_data:1024 ~fp8_data:2048 ~scale_inv:4 "
     "cat:8 ~cat:8 _to_copy:8192 ~gemm:4096 _to_copy:4096 ~gemm:2048 "
     "~scale_inv:4 ~fp8_data:2048 ~scale_inv:4 ~ones_like:4096"},
};

static void begin(struct fixture *f, double cc)
{
    fixture_begin(f);
    f->tape->compute_capability = cc;
    f->tape->multiprocessors = 132;
    f->tape->autocast = MPL_BFLOAT16;
}

/* What lives with the process. */
static void forget(struct fixture *f, struct mpl_te_layer *layer)
{
    for (int i = 0; i < MPL_TE_STATES; i++)
        mpl_drop(f->tape, layer->states[i]);
    mpl_drop(f->tape, layer->config->gemm_workspace);
}

/* Weights and input in float32 under autocast, as accelerate has it. */
START_TEST(a_layer_keeps_its_codes)
{
    struct mpl_te_config config = {.is_delayed = layer_table[_i].recipe == DELAYED,
                                   .history_length = HISTORY};
    struct mpl_te_layer layer = {.config = &config};
    struct mpl_tensor *x, *weight, *y;
    struct fixture f;
    const char *log;

    begin(&f, layer_table[_i].cc);
    x = fixture_leaf(&f, MPL_FLOAT32, SHAPE(2, 16, 32), true);
    weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(64, 32), true);
    fixture_log(&f);
    y = mpl_hold(mpl_op_linear_te(f.tape, x, weight, NULL, &layer));
    ck_assert_str_eq(fixture_log(&f), layer_table[_i].forward);
    ck_assert_uint_eq(fixture_saved(y), layer_table[_i].kept);
    ck_assert_uint_eq(y->dtype, MPL_BFLOAT16);
    mpl_te_autocast_exit(f.tape, &config); /* quantization.py 769: 3 numbers of one layer */
    ck_assert_str_eq(fixture_log(&f), config.is_delayed ? "cat:12 ~cat:12" : "");
    mpl_backward(f.tape, y);
    log = fixture_log(&f);
    ck_assert_ptr_nonnull(strstr(log, "ones_like:4096 "));
    ck_assert_str_eq(strstr(log, " ") + 1, layer_table[_i].backward);
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, weight);
    forget(&f, &layer);
    fixture_end(&f);
}
END_TEST

/* base.py 1716, bias.cpp: the bias's gradient [64] first, then the cast and, delayed, the workspace
 * of its kernel: of 32 rows one tile of 32, [1, 64] in float32; on 10.0 one chunk of 128 rows. With
 * float8's own recipe it is a sum (76). linear.py 459: the bias is cast for the product. */
START_TEST(a_bias_is_added_by_the_product)
{
    static const struct {
        double cc;
        bool is_delayed;
        const char *gradient;
    } expected[] = {
        {9.0, true,
         "grad_bias:128 scale_inv:4 fp8_data:2048 fp8_transpose:2048 dbias_workspace:256 "
         "~dbias_workspace:256 gemm:2048 "},
        {10.0, true,
         "grad_bias:128 scale_inv:4 fp8_data:2048 dbias_workspace:256 ~dbias_workspace:256 "
         "gemm:2048 "},
        {9.0, false,
         "grad_bias:128 fp8_data:2048 fp8_transpose:2048 scale_inv:4 amax_and_scale:8 "
         "~amax_and_scale:8 gemm:2048 "},
    };
    struct mpl_te_config config = {.is_delayed = expected[_i].is_delayed,
                                   .history_length = HISTORY};
    struct mpl_te_layer layer = {.config = &config};
    struct mpl_tensor *x, *weight, *bias, *y;
    struct fixture f;

    begin(&f, expected[_i].cc);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 16, 32), true);
    weight = fixture_leaf(&f, MPL_FLOAT32, SHAPE(64, 32), true);
    bias = fixture_leaf(&f, MPL_FLOAT32, SHAPE(64), true);
    fixture_log(&f);
    y = mpl_hold(mpl_op_linear_te(f.tape, x, weight, bias, &layer));
    ck_assert_ptr_nonnull(
        strstr(fixture_log(&f), " _to_copy:128 gemm_workspace:33555456 gemm:4096"));
    ck_assert_ptr_nonnull(strstr(f.log, "~_to_copy:128"));
    mpl_backward(f.tape, y);
    ck_assert_ptr_nonnull(strstr(fixture_log(&f), expected[_i].gradient));
    ck_assert_ptr_nonnull(strstr(f.log, "_to_copy:256 ~grad_bias:128"));
    mpl_drop(f.tape, y);
    mpl_drop(f.tape, x);
    mpl_drop(f.tape, weight);
    mpl_drop(f.tape, bias);
    forget(&f, &layer);
    fixture_end(&f);
}
END_TEST

/* A second forward casts the weight again (is_first_microbatch is None: linear.py 1883), keeps no
 * workspace between, and asks for no state; of two layers only the first updates the scales. */
START_TEST(states_are_made_once)
{
    struct mpl_te_config config = {.is_delayed = true, .history_length = 1024};
    struct mpl_te_layer layers[2] = {{.config = &config}, {.config = &config}};
    struct mpl_tensor *x, *weights[2], *y;
    struct fixture f;
    uint64_t live = 0;

    begin(&f, 9.0);
    x = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(2, 16, 32), true);
    for (int i = 0; i < 2; i++)
        weights[i] = fixture_leaf(&f, MPL_BFLOAT16, SHAPE(32, 32), true);
    for (int step = 0; step < 3; step++) {
        y = mpl_op_linear_te(f.tape, x, weights[0], NULL, &layers[0]);
        y = mpl_hold(mpl_op_linear_te(f.tape, y, weights[1], NULL, &layers[1]));
        fixture_log(&f);
        mpl_te_autocast_exit(f.tape, &config);
        ck_assert_str_eq(fixture_log(&f), "cat:24 ~cat:24");
        mpl_backward(f.tape, y);
        ck_assert_ptr_nonnull(strstr(fixture_log(&f), "cat:16 ~cat:16"));
        ck_assert_ptr_null(strstr(strstr(f.log, "~cat:16") + 2, "cat:16"));
        mpl_drop(f.tape, y);
        ck_assert(step < 2 || live == fixture_live(&f));
        live = fixture_live(&f);
    }
    /* x and the weights with their gradients, the workspace, two times scales and histories */
    ck_assert_uint_eq(live, 2 * (2048 + 2 * 2048) + 33555456 + 2 * (12 + 8 + 1024 * 5 * 4));
    mpl_drop(f.tape, x);
    for (int i = 0; i < 2; i++)
        mpl_drop(f.tape, weights[i]);
    for (int i = 0; i < MPL_TE_STATES; i++)
        mpl_drop(f.tape, layers[1].states[i]);
    forget(&f, &layers[0]);
    fixture_end(&f);
}
END_TEST

/* cast_transpose_fusion.cu 568..626 by hand, 132 multiprocessors, bfloat16: (load, store) is (8, 8)
 * for the first, whose cost the next ones only equal; (4, 2) for the second: (1/64 + 1/64 + 1/64) /
 * 128; rows that only 32 divides leave a store of 1; rows that 32 does not divide take the kernel
 * that is compiled ahead, with a store of 8. On 10.0: 128 rows each (quantize_fp8.cuh 40). */
START_TEST(a_tile_is_the_cheapest)
{
    static const struct {
        double cc;
        int64_t rows, columns, expected;
    } tiles[] = {
        {9.0, 4096, 4096, 16}, {9.0, 2048, 512, 32}, {9.0, 4128, 4096, 129},
        {9.0, 528, 4096, 3},   {10.0, 528, 4096, 5}, {12.0, 4096, 4096, 16},
    };
    struct fixture f;

    begin(&f, tiles[_i].cc);
    ck_assert_int_eq(mpl_te_bias_rows(f.tape, tiles[_i].rows, tiles[_i].columns, 2),
                     tiles[_i].expected);
    fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("linear_te");

    tcase_add_loop_test(tcase, a_layer_keeps_its_codes, 0, ROWS(layer_table));
    tcase_add_loop_test(tcase, a_bias_is_added_by_the_product, 0, 3);
    tcase_add_test(tcase, states_are_made_once);
    tcase_add_loop_test(tcase, a_tile_is_the_cheapest, 0, 6);
    return test_run("linear_te", tcase);
}
