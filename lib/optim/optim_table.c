/* SPDX-License-Identifier: MIT */
/* TABLE: the optimizers, one row each. */
#include "optim/optim.h"

static const struct mpl_optim_row optim_table[] = {
    {MPL_ADAMW, MPL_OPTIM_FOREACH, mpl_adam_step, NULL},
    {MPL_SGD, MPL_OPTIM_FOREACH, mpl_sgd_step, NULL},
    {MPL_ADAM, MPL_OPTIM_FOREACH, mpl_adam_step, NULL},
    {MPL_RMSPROP, MPL_OPTIM_FOREACH, mpl_rmsprop_step, NULL},
    {MPL_ADAGRAD, MPL_OPTIM_FOREACH, mpl_adagrad_step, mpl_adagrad_create},
    {MPL_ADAFACTOR, MPL_OPTIM_LOOP, mpl_adafactor_step, NULL},
    {MPL_MUON, MPL_OPTIM_LOOP, mpl_muon_step, NULL},
    {MPL_NADAM, MPL_OPTIM_FOREACH, mpl_nadam_step, NULL},
    {MPL_RADAM, MPL_OPTIM_FOREACH, mpl_radam_step, NULL},
    {MPL_ADAMAX, MPL_OPTIM_FOREACH, mpl_adamax_step, NULL},
    {MPL_ADADELTA, MPL_OPTIM_FOREACH, mpl_adadelta_step, NULL},
    {MPL_ASGD, MPL_OPTIM_FOREACH, mpl_asgd_step, NULL},
    {MPL_RPROP, MPL_OPTIM_FOREACH, mpl_rprop_step, NULL},
};

const struct mpl_optim_row *mpl_optim_find(enum mpl_optimizer_name name)
{
    for (size_t i = 0; i < sizeof(optim_table) / sizeof(optim_table[0]); i++)
        if (optim_table[i].name == name)
            return &optim_table[i];
    return NULL;
}
