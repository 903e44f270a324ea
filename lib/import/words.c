/* SPDX-License-Identifier: MIT */
/* TABLE: words that several configurations share. */
#include "import/import.h"

const struct mpl_import_word mpl_import_dtypes[] = {
    {"fp32", "\"float32\"", NULL},
    {"float32", "\"float32\"", NULL},
    {"float", "\"float32\"", NULL},
    {"torch.float32", "\"float32\"", NULL},
    {"bf16", "\"bfloat16\"", NULL},
    {"bfp16", "\"bfloat16\"", NULL},
    {"bfloat16", "\"bfloat16\"", NULL},
    {"torch.bfloat16", "\"bfloat16\"", NULL},
    {"fp16", "\"float16\"", NULL},
    {"half", "\"float16\"", NULL},
    {"float16", "\"float16\"", NULL},
    {"torch.float16", "\"float16\"", NULL},
    {"auto", NULL, NULL},
    {NULL, NULL, NULL},
};

/* transformers/training_args.py: OptimizerNames; trainer_optimizer.py says whose each is. */
const struct mpl_import_word mpl_import_optimizers[] = {
    {"adamw_torch", "\"adamw\"", NULL},
    {"adamw_torch_fused", "\"adamw fused\"", NULL},
    {"adamw_hf", "\"adamw\"", "not modelled: transformers' own AdamW, taken as PyTorch's"},
    {"adafactor", "\"adafactor_hf\"", NULL},
    {"sgd", "\"sgd\"", NULL},
    {"adagrad", "\"adagrad\"", NULL},
    {"rmsprop", "\"rmsprop\"", NULL},
    {"adamw_bnb_8bit", "\"adamw_bnb_8bit\"", NULL},
    {"adamw_8bit", "\"adamw_bnb_8bit\"", NULL},
    {"adamw_torch_8bit", "\"adamw_torchao_8bit\"", NULL},
    {"adamw_torch_4bit", "\"adamw_torchao_4bit\"", NULL},
    {"paged_adamw", "\"paged_adamw_32bit\"", NULL},
    {"paged_adamw_32bit", "\"paged_adamw_32bit\"", NULL},
    {"paged_adamw_8bit", "\"paged_adamw_8bit\"", NULL},
    {"lion_32bit", "\"lion_32bit\"", NULL},
    {"lion_8bit", "\"lion_8bit\"", NULL},
    {"paged_lion_32bit", "\"paged_lion_32bit\"", NULL},
    {"paged_lion_8bit", "\"paged_lion_8bit\"", NULL},
    {"galore_adamw", "\"galore_adamw\"", NULL},
    {NULL, NULL, NULL},
};

const struct mpl_import_word mpl_import_checkpointing[] = {
    {"true", "\"full\"", NULL},
    {"1", "\"full\"", NULL},
    {"unsloth", "\"full\"", "not modelled: unsloth's checkpointing, taken as PyTorch's"},
    {"offload", "\"full\"", "not modelled: inputs of layers that wait on the host"},
    {"offload_disk", "\"full\"", "not modelled: inputs of layers that wait on disk"},
    {"false", "\"none\"", NULL},
    {"0", "\"none\"", NULL},
    {NULL, NULL, NULL},
};

const struct mpl_import_word mpl_import_liger[] = {
    {"true", "\"fused_linear_cross_entropy\"",
     "not modelled: Liger's norms, MLP and rotary kernels; its loss is"},
    {"false", NULL, NULL},
    {NULL, NULL, NULL},
};
