/* SPDX-License-Identifier: MIT */
/*
 * FSDP1 as peft wants it: every trained module without children is a unit of its own, so that no
 * flat parameter has frozen and trained parts.
 *
 * source: peft 0.21.2, utils/other.py (fsdp_auto_wrap_policy); torch/distributed/fsdp/wrap.py
 * (_recursive_wrap)
 */
#include "base/fail.h"
#include "parallel/fsdp1_unit.h"

static enum memplan_status check(const struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_training *t = &network->plan->training;
    const enum mpl_dtype compute = network->plan->parallelism.param_dtype;

    if (t->lora.use_dora)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/lora/use_dora",
                        "training.lora.use_dora: not modelled with parallelism.wrap "
                        "layer+adapters");
    if (compute != MPL_DTYPE_NONE && compute != t->lora.adapter_dtype &&
        t->autocast == MPL_DTYPE_NONE)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/lora/adapter_dtype",
                        "training.lora.adapter_dtype: peft casts inputs to %s, and the adapters "
                        "are gathered in %s: give training.autocast, or one format",
                        mpl_dtype_name(t->lora.adapter_dtype), mpl_dtype_name(compute));
    return MEMPLAN_OK;
}

enum memplan_status mpl_fsdp1_wrap_adapters(struct mpl_fsdp1 *fsdp, struct mpl_module *module,
                                            bool *owned, struct memplan_error *err)
{
    struct mpl_network *network = fsdp->network;
    const uint32_t first = module->first_parameter, count = module->parameter_count;
    enum memplan_status status = check(network, err);

    for (uint32_t i = first; i < first + count && !status; i++) {
        const struct mpl_parameter *p = &network->parameters[i];

        if (p->module)
            status = mpl_fsdp1_make_unit(fsdp, p->module, owned, err);
        else if (p->is_copy && module->kind != MPL_MODULE_LAYER && count == 1)
            status = mpl_fsdp1_make_unit(fsdp, module, owned, err);
        else if (p->is_copy)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/lora/modules_to_save",
                            "training.lora.modules_to_save: modelled with parallelism.wrap "
                            "layer+adapters for the embedding and a head without bias only");
    }
    return status;
}
