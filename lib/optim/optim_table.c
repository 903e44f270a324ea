/* SPDX-License-Identifier: MIT */
/* TABLE: the optimizers, one row each. */
#include "optim/optim.h"

#define BITSANDBYTES(named, count, width, paged)                                                   \
    {                                                                                              \
        .name = (named), .by_default = MPL_OPTIM_LOOP, .step = mpl_bitsandbytes_step,              \
        .states = (count), .bits = (width), .is_paged = (paged)                                    \
    }

static const struct mpl_optim_row optim_table[] = {
    {.name = MPL_ADAMW, .by_default = MPL_OPTIM_FOREACH, .step = mpl_adam_step},
    {.name = MPL_SGD, .by_default = MPL_OPTIM_FOREACH, .step = mpl_sgd_step},
    {.name = MPL_ADAM, .by_default = MPL_OPTIM_FOREACH, .step = mpl_adam_step},
    {.name = MPL_RMSPROP, .by_default = MPL_OPTIM_FOREACH, .step = mpl_rmsprop_step},
    {.name = MPL_ADAGRAD,
     .by_default = MPL_OPTIM_FOREACH,
     .step = mpl_adagrad_step,
     .create = mpl_adagrad_create},
    {.name = MPL_ADAFACTOR, .by_default = MPL_OPTIM_LOOP, .step = mpl_adafactor_step},
    {.name = MPL_MUON, .by_default = MPL_OPTIM_LOOP, .step = mpl_muon_step},
    {.name = MPL_NADAM, .by_default = MPL_OPTIM_FOREACH, .step = mpl_nadam_step},
    {.name = MPL_RADAM, .by_default = MPL_OPTIM_FOREACH, .step = mpl_radam_step},
    {.name = MPL_ADAMAX, .by_default = MPL_OPTIM_FOREACH, .step = mpl_adamax_step},
    {.name = MPL_ADADELTA, .by_default = MPL_OPTIM_FOREACH, .step = mpl_adadelta_step},
    {.name = MPL_ASGD, .by_default = MPL_OPTIM_FOREACH, .step = mpl_asgd_step},
    {.name = MPL_RPROP, .by_default = MPL_OPTIM_FOREACH, .step = mpl_rprop_step},
    {.name = MPL_ADAFACTOR_HF, .by_default = MPL_OPTIM_LOOP, .step = mpl_adafactor_hf_step},
    {.name = MPL_LION, .by_default = MPL_OPTIM_LOOP, .step = mpl_lion_step},
    {.name = MPL_ADAMW_CPU_OFFLOAD,
     .by_default = MPL_OPTIM_LOOP,
     .step = mpl_cpu_offload_step,
     .create = mpl_cpu_offload_create},
    {.name = MPL_ADAMW_TORCHAO_8BIT,
     .by_default = MPL_OPTIM_LOOP,
     .step = mpl_torchao_step,
     .bits = 8},
    {.name = MPL_ADAMW_TORCHAO_4BIT,
     .by_default = MPL_OPTIM_LOOP,
     .step = mpl_torchao_step,
     .bits = 4},
    {.name = MPL_ADAMW_TORCHAO_FP8,
     .by_default = MPL_OPTIM_LOOP,
     .step = mpl_torchao_step,
     .bits = 8,
     .is_float8 = true},
    {.name = MPL_GALORE_ADAMW, .by_default = MPL_OPTIM_LOOP, .step = mpl_galore_step},
    {.name = MPL_LAMB, .by_default = MPL_OPTIM_FOREACH, .step = mpl_lamb_step},
    {.name = MPL_SHAMPOO, .by_default = MPL_OPTIM_LOOP, .step = mpl_shampoo_step},
    {.name = MPL_SOAP, .by_default = MPL_OPTIM_LOOP, .step = mpl_soap_step},
    {.name = MPL_SOPHIA, .by_default = MPL_OPTIM_LOOP, .step = mpl_sophia_step},
    BITSANDBYTES(MPL_ADAMW_8BIT, 2, 8, false),
    BITSANDBYTES(MPL_PAGED_ADAMW, 2, 32, true),
    BITSANDBYTES(MPL_PAGED_ADAMW_8BIT, 2, 8, true),
    BITSANDBYTES(MPL_LION_32BIT, 1, 32, false),
    BITSANDBYTES(MPL_LION_8BIT, 1, 8, false),
    BITSANDBYTES(MPL_PAGED_LION, 1, 32, true),
    BITSANDBYTES(MPL_PAGED_LION_8BIT, 1, 8, true),
};

const struct mpl_optim_row *mpl_optim_find(enum mpl_optimizer_name name)
{
    for (size_t i = 0; i < sizeof(optim_table) / sizeof(optim_table[0]); i++)
        if (optim_table[i].name == name)
            return &optim_table[i];
    return NULL;
}
