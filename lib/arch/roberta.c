/* SPDX-License-Identifier: MIT */
/* source: transformers/models/roberta/modeling_roberta.py, configuration_roberta.py; release 5.24.0
 */
#include "arch/arch.h"
#include "arch/bert.h"

static const struct mpl_bert_form form = {
    .head = "lm_head.",
    .head_dense = "dense",
    .head_norm = "layer_norm",
    .counts_positions = true,
    .has_types_first = true,
    .has_gelu_head = true,
    .pooler = "classifier.dense",
    .is_pooler_outside = true,
};

/* pad_token_id: positions of tokens are counted from the one after it */
#define PADDING_ID 1

static const struct mpl_lm_family family = {
    MPL_BERT_HOOKS,
    .past = {.first = 40, .sdpa = 45, .keeps_strides = true, .flash = MPL_PAST_FLASH_NONE},
    .base = "roberta",
    .head = "lm_head.decoder",
    .score = "classifier.out_proj",
};

static enum memplan_status build(struct mpl_network *network, struct memplan_error *err)
{
    return mpl_bert_build(network, &family, &form, err);
}

const struct mpl_arch mpl_arch_roberta = {
    .config = {.model_type = "roberta",
               .help = "RoBERTa, trained as a masked language model",
               .has_no_flex = true,
               .task = MPL_TASK_MASKED_LM,
               .has_position_table = true,
               .reserved_positions = PADDING_ID + 1,
               .keys = mpl_bert_keys},
    .build = build,
};
