/* SPDX-License-Identifier: MIT */
/* Optimizers: states and temporaries of a step on three parameters, worked out by hand from
 * PyTorch's code; patterns of frozen parameters. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "optim/optim.h"
#include "step/frozen.h"
#include "test.h"

/* In float32, rounded up to 512: an embedding E, a matrix W [128, 64] and a norm N. */
#define E   8192
#define W   32768
#define N   512
#define ALL (E + W + N)

#define BF16 .dtype = MPL_BFLOAT16

static const struct {
    struct mpl_optimizer_spec spec;
    enum mpl_dtype dtype;           /* 0 is MPL_DTYPE_NONE: float32 */
    uint64_t created, states, peak; /* bytes after the constructor, after two steps; of step two */
    bool is_early;                  /* PyTorch 2.0 */
} step_table[] = {
    /* foreach: the roots of all; copies of gradients are gone by then */
    {{.name = MPL_ADAMW}, .states = 2 * ALL, .peak = ALL},
    {{.name = MPL_ADAMW, .weight_decay = 0.1}, .states = 2 * ALL, .peak = ALL},
    {{.name = MPL_ADAMW, .amsgrad = true}, .states = 3 * ALL, .peak = ALL},
    {{.name = MPL_ADAM, .weight_decay = 0.1}, .states = 2 * ALL, .peak = ALL},
    {{.name = MPL_ADAM, .maximize = true}, .states = 2 * ALL, .peak = ALL},
    /* PyTorch 2.0: a second list of roots, and copies of gradients keep their name */
    {{.name = MPL_ADAMW}, .states = 2 * ALL, .peak = 2 * ALL, .is_early = true},
    {{.name = MPL_ADAM, .maximize = true}, .states = 2 * ALL, .peak = 3 * ALL, .is_early = true},
    /* loop: root and quotient of W beside the quotient of E; L2 decay adds a gradient of W */
    {{.name = MPL_ADAMW, .foreach = MPL_FALSE}, .states = 2 * ALL, .peak = 2 * W + E},
    {{.name = MPL_ADAMW, .fused = MPL_FALSE}, .states = 2 * ALL, .peak = 2 * W + E},
    {{.name = MPL_ADAMW, .foreach = MPL_FALSE, .weight_decay = 0.1},
     .states = 2 * ALL,
     .peak = 2 * W + E},
    {{.name = MPL_ADAM, .foreach = MPL_FALSE, .weight_decay = 0.1},
     .states = 2 * ALL,
     .peak = 3 * W + E},
    /* fused: a step counter on the device for each */
    {{.name = MPL_ADAM, .fused = MPL_TRUE}, .states = 2 * ALL + 3 * 512, .peak = 0},
    {{.name = MPL_SGD, .weight_decay = 0.1}, .states = 0, .peak = ALL},
    {{.name = MPL_SGD, .momentum = 0.9}, .states = ALL, .peak = 0},
    {{.name = MPL_SGD, .momentum = 0.9, .nesterov = MPL_TRUE}, .states = ALL, .peak = 0},
    {{.name = MPL_SGD, .momentum = 0.9, .foreach = MPL_FALSE, .nesterov = MPL_TRUE},
     .states = ALL,
     .peak = W},
    {{.name = MPL_SGD,
      .momentum = 0.9,
      .weight_decay = 0.1,
      .foreach = MPL_FALSE,
      .nesterov = MPL_TRUE},
     .states = ALL,
     .peak = 2 * W},
    {{.name = MPL_SGD, .momentum = 0.9, .fused = MPL_TRUE, .weight_decay = 0.1},
     .states = ALL,
     .peak = 0},
    {{.name = MPL_RMSPROP}, .states = ALL, .peak = ALL},
    {{.name = MPL_RMSPROP, .weight_decay = 0.1}, .states = ALL, .peak = 2 * ALL},
    {{.name = MPL_RMSPROP, .momentum = 0.9, .centered = true}, .states = 3 * ALL, .peak = ALL},
    {{.name = MPL_RMSPROP, .foreach = MPL_FALSE}, .states = ALL, .peak = W + E},
    {{.name = MPL_RMSPROP, .foreach = MPL_FALSE, .weight_decay = 0.1},
     .states = ALL,
     .peak = 2 * W + E},
    /* the constructor makes the sums; roots and scaled gradients */
    {{.name = MPL_ADAGRAD}, .created = ALL, .states = ALL, .peak = 2 * ALL},
    {{.name = MPL_ADAGRAD, .weight_decay = 0.1}, .created = ALL, .states = ALL, .peak = 2 * ALL},
    {{.name = MPL_ADAGRAD, .foreach = MPL_FALSE}, .created = ALL, .states = ALL, .peak = W + E},
    {{.name = MPL_ADAGRAD, .fused = MPL_TRUE},
     .created = ALL + 3 * 512,
     .states = ALL + 3 * 512,
     .peak = 0},
    /* row and column of E and W, all of N; the estimate of W beside that of E, a row, a column and
     * the row's mean */
    {{.name = MPL_ADAFACTOR}, .states = 5 * 512, .peak = W + E + 3 * 512},
    {{.name = MPL_ADAFACTOR, .maximize = true}, .states = 5 * 512, .peak = 2 * W + E + 3 * 512},
    /* both estimates and both means of rows */
    {{.name = MPL_ADAFACTOR, .foreach = MPL_TRUE}, .states = 5 * 512, .peak = W + E + 2 * 512},
    /* W by Muon: mix W; in bfloat16 two factors of W / 2, two Gram matrices [64, 64] of W / 4 */
    {{.name = MPL_MUON, .ns_steps = 5}, .states = W + 2 * (E + N), .peak = W + W + W / 2},
    {{.name = MPL_MUON, .ns_steps = 5, .nesterov = MPL_FALSE},
     .states = W + 2 * (E + N),
     .peak = W + W / 2},
    /* root of the second moment beside its quotient */
    {{.name = MPL_NADAM}, .states = 2 * ALL, .peak = ALL},
    {{.name = MPL_NADAM, .weight_decay = 0.1}, .states = 2 * ALL, .peak = 2 * ALL},
    {{.name = MPL_NADAM, .weight_decay = 0.1, .decoupled_weight_decay = true},
     .states = 2 * ALL,
     .peak = ALL},
    {{.name = MPL_NADAM, .foreach = MPL_FALSE}, .states = 2 * ALL, .peak = 2 * W + E},
    /* average, product, root, its reciprocal, rate */
    {{.name = MPL_RADAM, .weight_decay = 0.1}, .states = 2 * ALL, .peak = ALL},
    {{.name = MPL_RADAM, .foreach = MPL_FALSE}, .states = 2 * ALL, .peak = 5 * W},
    {{.name = MPL_ADAMAX, .weight_decay = 0.1}, .states = 2 * ALL, .peak = ALL},
    {{.name = MPL_ADAMAX, .foreach = MPL_FALSE}, .states = 2 * ALL, .peak = W},
    {{.name = MPL_ADADELTA, .weight_decay = 0.1}, .states = 2 * ALL, .peak = 3 * ALL},
    /* std of W while std and delta of E live, then delta beside it */
    {{.name = MPL_ADADELTA, .foreach = MPL_FALSE}, .states = 2 * ALL, .peak = 2 * W + E},
    {{.name = MPL_ASGD}, .states = ALL + 9 * 512, .peak = ALL},
    {{.name = MPL_ASGD, .foreach = MPL_FALSE}, .states = ALL + 9 * 512, .peak = 0},
    /* signs of all, a gradient, a mask of a quarter of it, a zero */
    {{.name = MPL_RPROP}, .states = 2 * ALL, .peak = ALL + W + W / 4 + 512},
    {{.name = MPL_RPROP, .foreach = MPL_FALSE}, .states = 2 * ALL, .peak = 3 * W},
    /* W: row 128, column 64, norm; vectors whole; the update of E lives until square and sum of W
       are there */
    {{.name = MPL_ADAFACTOR_HF}, .states = 512 * (3 + 3 + 2), .peak = 2 * W + E},
    {{.name = MPL_LION}, .states = ALL, .peak = 2 * W},
    {{.name = MPL_LION, .foreach = MPL_TRUE}, .states = ALL, .peak = ALL},
    /* 8192 elements in 8 bits with 32 scales; 2048 and 64 elements in float32; two tables */
    {{.name = MPL_ADAMW_8BIT}, .states = 2 * (8192 + 512 + E + N + 1024), .peak = 0},
    {{.name = MPL_ADAMW_8BIT}, BF16, .states = 2 * (8192 + 512 + E + N + 1024), .peak = 0},
    {{.name = MPL_PAGED_ADAMW_8BIT}, .states = 2 * (8192 + 512 + E + N + 1024), .peak = 0},
    {{.name = MPL_LION_8BIT}, .states = 8192 + 512 + E + N + 1024, .peak = 0},
    {{.name = MPL_LION_32BIT}, BF16, .states = ALL, .peak = 0},
    {{.name = MPL_PAGED_LION}, BF16, .states = ALL, .peak = 0},
    /* small ones as they are; W in codes, 32 scales, a table; its rows are no whole blocks */
    {{.name = MPL_ADAMW_TORCHAO_8BIT},
     .states = 2 * (E + N + 8192 + 512 + 1024),
     .peak = 2 * W + 2 * 512},
    {{.name = MPL_ADAMW_TORCHAO_8BIT, .stochastic_rounding = true},
     BF16,
     .states = 2 * (E / 2 + N + 8192 + 512 + 1024),
     .peak = 2 * W + 3 * 512},
    /* 64 scales, and int64 numbers of 8192 codes */
    {{.name = MPL_ADAMW_TORCHAO_4BIT},
     .states = 2 * (E + N + 4096 + 512 + 512),
     .peak = 2 * (512 + W + 2 * W)},
    {{.name = MPL_ADAMW_TORCHAO_FP8}, .states = 2 * (E + N + 8192 + 512), .peak = 2 * W + 8192},
    /* only E and N are small: fused, with step counters */
    {{.name = MPL_ADAMW_CPU_OFFLOAD}, .states = 2 * (E + N + 512), .peak = 0},
    /* W: [128, 16] twice, Vh of 64 rows; projected gradient, root, quotient, product and its scale
     */
    {{.name = MPL_GALORE_ADAMW, .rank = 16},
     .states = 2 * (E + N + 8192) + 16384,
     .peak = 3 * 8192 + 2 * W},
    /* stacks of norms, then the mask, quotient, one and ratio beside them */
    {{.name = MPL_LAMB}, .states = 2 * ALL + 3 * 512, .peak = ALL + 6 * 512},
    {{.name = MPL_LAMB, .foreach = MPL_FALSE}, .states = 2 * ALL + 9 * 512, .peak = W + 4 * 512},
    /* sides 64 and 32 of E, 128 and 64 of W: two squares each, 128^2 is 65536 bytes; four locals
     * and a reordered moment of W, a product for each side, one with itself, QR's three, two lines
     */
    {{.name = MPL_SOAP, .max_precondition_dim = 10000},
     .states = 2 * ALL + 2 * (16384 + 4096 + 65536 + 16384),
     .peak = 5 * W + 2 * 16384 + 4 * 65536 + 512 + 1024},
    /* the same squares, and one side of N; a decomposition of side 128 */
    {{.name = MPL_SHAMPOO},
     .states = ALL + 2 * (16384 + 4096 + 65536 + 16384 + 16384),
     .peak = 4 * 65536 + 512},
    /* the ratio of E beside a size, a bound and its sum of W */
    {{.name = MPL_SOPHIA}, .states = 2 * ALL, .peak = 3 * W + E},
    /* no round: mix, its copy, two scalars */
    {{.name = MPL_MUON}, .states = W + 2 * (E + N), .peak = W + W / 2 + 1024},
    /* bfloat16: the mix is the first factor, and stays while two more live */
    {{.name = MPL_MUON, .ns_steps = 5}, BF16, .states = W / 2 + E + 2 * N, .peak = 2 * W},
};

/* Three parameters with gradients, on a tape of their own. */
struct bench {
    struct mpl_plan plan;
    struct mpl_timeline timeline;
    struct mpl_tape *tape;
    struct mpl_parameter parameters[3];
    struct mpl_network network;
    struct mpl_optim optim;
    size_t from; /* events seen */
};

static void set_up(struct bench *b, const struct mpl_optimizer_spec *spec, enum mpl_dtype dtype)
{
    static const char *const names[] = {"model.embed_tokens.weight", "model.layers.0.w.weight",
                                        "model.norm.weight"};
    const struct mpl_shape shapes[] = {mpl_shape2(mpl_dim(64), mpl_dim(32)),
                                       mpl_shape2(mpl_dim(128), mpl_dim(64)),
                                       mpl_shape1(mpl_dim(64))};

    memset(b, 0, sizeof(*b));
    b->plan.training.optimizer = *spec;
    b->plan.pytorch = (struct mpl_version){.major = 2, .minor = 13};
    b->plan.training.parameter_dtype = dtype == MPL_DTYPE_NONE ? MPL_FLOAT32 : dtype;
    b->tape = mpl_tape_new(&b->timeline);
    ck_assert_ptr_nonnull(b->tape);
    b->network.plan = &b->plan;
    b->network.arena = &b->tape->arena;
    b->network.parameters = b->parameters;
    b->network.parameter_cap = 3;
    for (int i = 0; i < 3; i++)
        mpl_network_add(&b->network, names[i], shapes[i]);
    ck_assert_int_eq(mpl_optim_init(&b->optim, &b->network, NULL), MEMPLAN_OK);
    mpl_network_materialize(b->tape, &b->network);
    for (int i = 0; i < 3; i++)
        b->parameters[i].tensor->grad =
            mpl_hold(mpl_empty(b->tape, "grad", b->plan.training.parameter_dtype, &shapes[i]));
}

static void tear_down(struct bench *b)
{
    mpl_tape_free(b->tape);
    mpl_timeline_free(&b->timeline);
}

/* Highest sum of bytes above the start in the events that came since the last call. */
static uint64_t peak_since(struct bench *b)
{
    uint64_t live = 0, peak = 0;
    const size_t from = b->from;

    for (size_t i = from; i < b->timeline.events.len; i++) {
        const mpl_event event = b->timeline.events.data[i];
        const struct mpl_request *request = &b->timeline.requests.data[mpl_event_id(event)];
        const uint64_t bytes = mpl_round_up(request->bytes, 512);

        if (mpl_event_kind(event) == MPL_EVENT_ALLOC)
            live += bytes;
        else if (mpl_event_kind(event) == MPL_EVENT_FREE)
            live -= bytes;
        peak = live > peak ? live : peak;
    }
    b->from = b->timeline.events.len;
    return peak;
}

START_TEST(states_and_temporaries)
{
    struct bench b;
    uint64_t before;

    set_up(&b, &step_table[_i].spec, step_table[_i].dtype);
    b.optim.is_early = step_table[_i].is_early;
    b.tape->workspace_bytes = 0; /* the products of a real step have taken it before */
    b.tape->has_workspace[0] = true;
    before = b.tape->live_bytes;
    mpl_optim_create(b.tape, &b.optim);
    ck_assert_uint_eq(b.tape->live_bytes - before, step_table[_i].created);
    mpl_optim_step(b.tape, &b.optim);
    ck_assert_uint_eq(b.tape->live_bytes - before, step_table[_i].states);
    peak_since(&b);
    mpl_optim_step(b.tape, &b.optim);
    ck_assert_uint_eq(peak_since(&b), step_table[_i].peak);
    ck_assert_uint_eq(b.tape->live_bytes - before, step_table[_i].states);
    mpl_optim_zero_grad(b.tape, &b.optim, false);
    ck_assert_uint_eq(b.tape->live_bytes - before, step_table[_i].states);
    ck_assert_int_eq(b.tape->err.status, MEMPLAN_OK);
    tear_down(&b);
}
END_TEST

/* A parameter without gradient has no state, except Adagrad's. */
START_TEST(no_gradient_no_state)
{
    static const struct mpl_optimizer_spec adamw = {.name = MPL_ADAMW},
                                           adagrad = {.name = MPL_ADAGRAD};
    struct bench b;
    uint64_t before;

    set_up(&b, &adamw, MPL_FLOAT32);
    mpl_optim_zero_grad(b.tape, &b.optim, true);
    before = b.tape->live_bytes;
    mpl_optim_create(b.tape, &b.optim);
    mpl_optim_step(b.tape, &b.optim);
    ck_assert_uint_eq(b.tape->live_bytes, before);
    tear_down(&b);
    set_up(&b, &adagrad, MPL_FLOAT32);
    mpl_optim_zero_grad(b.tape, &b.optim, true);
    before = b.tape->live_bytes;
    mpl_optim_create(b.tape, &b.optim);
    mpl_optim_step(b.tape, &b.optim);
    ck_assert_uint_eq(b.tape->live_bytes, before + ALL);
    tear_down(&b);
}
END_TEST

START_TEST(every_name_has_a_row)
{
    for (int name = MPL_ADAMW; name < MPL_OPTIMIZER_COUNT; name++) {
        ck_assert_ptr_nonnull(mpl_optim_find((enum mpl_optimizer_name)name));
        ck_assert_int_eq(mpl_optim_find((enum mpl_optimizer_name)name)->name, name);
    }
    ck_assert_ptr_null(mpl_optim_find(MPL_OPTIMIZER_COUNT));
}
END_TEST

/* ---- patterns: the answers are those of Python's fnmatch.fnmatchcase ---- */

static const struct {
    const char *pattern, *name;
    bool matches;
} pattern_table[] = {
    {"lm_head*", "lm_head.weight", true},
    {"lm_head*", "model.lm_head.weight", false},
    {"*norm*", "model.layers.0.input_layernorm.weight", true},
    {"*norm", "model.norm.weight", false},
    {"*", "", true},
    {"", "", true},
    {"", "a", false},
    {"?", "a", true},
    {"?", "", false},
    {"a**b", "ab", true},
    {"*.[vo]_proj.*", "x.v_proj.weight", true},
    {"*.[vo]_proj.*", "x.q_proj.weight", false},
    {"*.[!vo]_proj.*", "x.q_proj.weight", true},
    {"layers.[0-3].*", "layers.2.w", true},
    {"layers.[0-3].*", "layers.4.w", false},
    {"[z-a]", "m", false},
    {"[!z-a]", "m", true},
    {"[a-]", "-", true},
    {"[--0]", ".", true},
    {"[a-c-e]", "d", false},
    {"[a-c-e]", "-", true},
    {"[]]", "]", true},
    {"[!]]", "]", false},
    {"[]", "[]", true},
    {"[a", "[a", true},
    {"[!]", "[!]", true},
    {"a\\*", "a*", false},
    {"A*", "abc", false},
    {"*a*b", "aaaaaaaaab", true},
};

START_TEST(pattern)
{
    ck_assert_int_eq(mpl_pattern_matches(pattern_table[_i].pattern, pattern_table[_i].name),
                     pattern_table[_i].matches);
}
END_TEST

/* Backtracking over each star would take 2^40 tries. */
START_TEST(pattern_without_blow_up)
{
    char name[96], stars[96] = "";

    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 40; i++)
        strcat(stars, "*a");
    ck_assert(mpl_pattern_matches(stars, name));
    strcat(stars, "*b");
    ck_assert(!mpl_pattern_matches(stars, name));
}
END_TEST

START_TEST(frozen_parameters)
{
    static const struct mpl_optimizer_spec adamw = {.name = MPL_ADAMW};
    struct bench b;

    set_up(&b, &adamw, MPL_FLOAT32);
    strcpy(b.plan.training.frozen[0], "*norm*");
    strcpy(b.plan.training.frozen[1], "*.layers.[0-9].*");
    b.plan.training.frozen_count = 2;
    ck_assert_int_eq(mpl_network_freeze(&b.network, NULL), MEMPLAN_OK);
    ck_assert(b.parameters[0].is_trainable);
    ck_assert(!b.parameters[1].is_trainable);
    ck_assert(!b.parameters[2].is_trainable);
    ck_assert_int_eq(mpl_optim_init(&b.optim, &b.network, NULL), MEMPLAN_OK);
    ck_assert_uint_eq(b.optim.count, 1);
    tear_down(&b);
}
END_TEST

START_TEST(something_trains)
{
    static const struct mpl_optimizer_spec adamw = {.name = MPL_ADAMW};
    struct memplan_error err = {0};
    struct bench b;

    set_up(&b, &adamw, MPL_FLOAT32);
    strcpy(b.plan.training.frozen[0], "*");
    b.plan.training.frozen_count = 1;
    ck_assert_int_eq(mpl_network_freeze(&b.network, &err), MEMPLAN_ERR_VALUE);
    ck_assert_str_eq(err.path, "/training/frozen");
    tear_down(&b);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("optim");

    tcase_add_loop_test(tcase, states_and_temporaries, 0, ROWS(step_table));
    tcase_add_test(tcase, no_gradient_no_state);
    tcase_add_test(tcase, every_name_has_a_row);
    tcase_add_loop_test(tcase, pattern, 0, ROWS(pattern_table));
    tcase_add_test(tcase, pattern_without_blow_up);
    tcase_add_test(tcase, frozen_parameters);
    tcase_add_test(tcase, something_trains);
    return test_run("optim", tcase);
}
