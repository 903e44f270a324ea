/* SPDX-License-Identifier: MIT */
/* The table of packing rules: names, and where each was read. */
#include "pack/pack.h"

#include <string.h>

/* TABLE */
static const struct mpl_pack_rule rule_table[] = {
    {"speculators",
     "samples are dealt to the ranks until one more would overflow; each rank pads to the length",
     "speculators 0.9.0: train/distributed_batch_sampler.py (MultipackDistributedBatchSamplerV2), "
     "train/data.py (CollateFn)",
     mpl_pack_speculators, MPL_PACK_FIXED},
    {"trl-bfd",
     "best fit, longest first, within 1000 samples; longer ones are cut, and what is cut is lost",
     "trl 1.16.0: data_utils.py (_pack_bfd, truncate), packing_strategy=\"bfd\"", mpl_pack_trl_bfd,
     MPL_PACK_FLAT},
    {"trl-bfd-split", "the same, but longer samples are split into pieces of the length",
     "trl 1.16.0: data_utils.py (_pack_bfd, split), packing_strategy=\"bfd_split\"",
     mpl_pack_trl_bfd_split, MPL_PACK_FLAT},
    {"trl-wrapped",
     "samples one after the other, cut at the length, within 1000 samples; a rest is a short pack",
     "trl 1.16.0: data_utils.py (_pack_wrapped), packing_strategy=\"wrapped\"",
     mpl_pack_trl_wrapped, MPL_PACK_PADDED},
    {"trl-constant",
     "samples and an end token one after the other, cut at the length; each buffer's rest is lost",
     "trl 0.8.6: trainer/utils.py (ConstantLengthDataset)", mpl_pack_trl_constant, MPL_PACK_PADDED},
    {"torchtitan", "each rank cuts its documents, one after the other, at the length; a rest waits",
     "torchtitan 0.3.0: hf_datasets/text_datasets.py (HuggingFaceTextDataset)", mpl_pack_torchtitan,
     MPL_PACK_FIXED},
    {"torchtitan-chat",
     "each rank fills a pack with the next samples that fit, and pads it; longer ones are dropped",
     "torchtitan 0.3.0: hf_datasets/text_datasets.py (ChatDataset)", mpl_pack_torchtitan_chat,
     MPL_PACK_FIXED},
    {"none", "no packing: a sample a row, cut at the length, padded to the longest of its batch",
     "trl 1.16.0: trainer/sft_trainer.py (DataCollatorForLanguageModeling); transformers 5.24.0: "
     "data/data_collator.py",
     mpl_pack_none, MPL_PACK_PADDED},
    {"none-flat", "no packing: the samples of a batch one after the other in one row, not padded",
     "trl 1.16.0: trainer/sft_trainer.py (padding_free=True)", mpl_pack_none, MPL_PACK_FLAT},
};

const struct mpl_pack_rule *mpl_pack_rule_at(size_t i)
{
    return i < sizeof(rule_table) / sizeof(*rule_table) ? &rule_table[i] : NULL;
}

const struct mpl_pack_rule *mpl_pack_rule_find(const char *name)
{
    const struct mpl_pack_rule *rule;

    for (size_t i = 0; (rule = mpl_pack_rule_at(i)); i++)
        if (!strcmp(rule->name, name))
            return rule;
    return NULL;
}
