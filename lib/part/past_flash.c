/* SPDX-License-Identifier: MIT */
/*
 * attn_implementation="flash_attention_2" of transformers 4.40 to 4.47.
 *
 * source: transformers/models/llama/modeling_llama.py (LlamaFlashAttention2),
 * mistral/modeling_mistral.py, modeling_flash_attention_utils.py (_flash_attention_forward),
 * releases 4.40.2 to 4.47.1; flash-attn 2.8.3, flash_attn/bert_padding.py (IndexFirstAxis)
 */
#include "op/op.h"
#include "part/attention.h"

void mpl_past_look_for_joined(struct mpl_tape *tape, const struct mpl_past_run *run,
                              struct mpl_dim s)
{
    const struct mpl_shape scalar = {0};
    struct mpl_shape line = mpl_shape2(mpl_dim(1), s);
    struct mpl_tensor *steps, *rises;

    if (!mpl_past_has(run, run->facts->flash_positions) || s.n < 2)
        return;
    line.dim[1].n--; /* (torch.diff(position_ids, dim=-1) >= 0).all(), read by the host */
    steps = mpl_hold_empty(tape, "sub.Tensor", MPL_INT64, line);
    rises = mpl_hold_empty(tape, "ge.Scalar", MPL_BOOL, line);
    mpl_drop(tape, steps);
    mpl_drop(tape, mpl_hold_empty(tape, "all.default", MPL_BOOL, scalar));
    mpl_drop(tape, rises);
}

struct mpl_tensor *mpl_past_flash(struct mpl_tape *tape, const struct mpl_plan *plan,
                                  struct mpl_attention_call *call)
{
    const enum mpl_dtype target =
        tape->autocast != MPL_DTYPE_NONE ? tape->autocast : plan->training.parameter_dtype;
    struct mpl_tensor **const names[3] = {&call->q, &call->k, &call->v};
    bool is_wide;

    if (call->q->is_void || call->k->is_void || call->v->is_void ||
        (call->mask && call->mask->is_void))
        return tape->void_tensor;
    is_wide = call->q->dtype == MPL_FLOAT32;
    if (call->past->facts->flash == MPL_PAST_FLASH_REPEATED) {
        const int64_t groups = call->q->shape.dim[1].n / call->k->shape.dim[1].n;

        mpl_rebind(tape, &call->k, mpl_repeat_kv(tape, call->k, groups));
        mpl_rebind(tape, &call->v, mpl_repeat_kv(tape, call->v, groups));
    }
    for (int i = 0; i < 3; i++)
        mpl_rebind(tape, names[i], mpl_op_transpose(tape, *names[i], 1, 2));
    for (int i = 0; i < 3 && is_wide; i++)
        mpl_rebind(tape, names[i], mpl_op_to(tape, *names[i], target));
    return mpl_flash_attention_rows(tape, plan, call,
                                    (struct mpl_tensor *[]){call->q, call->k, call->v});
}
