/* SPDX-License-Identifier: MIT */
/*
 * Which modules accelerate turns into Transformer Engine's.
 *
 * source: accelerate 1.15.0: utils/transformer_engine.py (convert_model, apply_fp8_autowrap),
 * accelerator.py (_prepare_te); Transformer Engine 2.18: pytorch/module/linear.py
 */
#include "part/te.h"

#include "base/fail.h"
#include "op/linear_te.h"

#define ALIGNMENT 16 /* of both sizes of a weight: convert_model */

struct mpl_te {
    struct mpl_te_config config;
    uint32_t layers;
    bool has_odd_layer; /* beside the head: convert_model leaves its whole module then */
    bool has_norm;
    bool has_head; /* the output head is converted */
};

static struct mpl_te *te_of(struct mpl_network *network)
{
    const struct mpl_te_spec *spec = &network->plan->training.te;

    if (network->te || spec->recipe == MPL_TE_NONE)
        return network->te;
    network->te = mpl_arena_zalloc(network->arena, sizeof(*network->te));
    if (network->te)
        network->te->config = (struct mpl_te_config){
            .is_delayed = spec->recipe == MPL_TE_DELAYED,
            .history_length = spec->amax_history_len,
        };
    return network->te;
}

void mpl_te_add(struct mpl_network *network, const struct mpl_linear *linear, int64_t out,
                int64_t in)
{
    struct mpl_te *te = te_of(network);
    struct mpl_te_layer *layer;

    if (!te || linear->weight == MPL_NO_PARAMETER)
        return;
    if (out % ALIGNMENT || in % ALIGNMENT) {
        te->has_odd_layer |= !network->is_in_head;
        return;
    }
    layer = mpl_arena_zalloc(network->arena, sizeof(*layer));
    if (!layer)
        return;
    layer->config = &te->config;
    network->parameters[linear->weight].te = layer;
    if (linear->bias != MPL_NO_PARAMETER)
        network->parameters[linear->bias].is_te_bias = true;
    te->layers++;
    te->has_head |= network->is_in_head;
}

void mpl_te_add_norm(struct mpl_network *network)
{
    struct mpl_te *te = te_of(network);

    if (te)
        te->has_norm = true;
}

struct mpl_tensor *mpl_te_call(struct mpl_tape *tape, const struct mpl_network *network,
                               const struct mpl_linear *linear, struct mpl_tensor *x)
{
    const struct mpl_parameter *weight = &network->parameters[linear->weight];

    return mpl_op_linear_te(tape, x, weight->tensor, mpl_parameter_of(network, linear->bias),
                            weight->te);
}

enum memplan_status mpl_te_check(struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_training *t = &network->plan->training;
    const struct mpl_te *te = network->te;

    if (t->te.recipe == MPL_TE_NONE)
        return MEMPLAN_OK;
    if (!te || !te->layers)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/transformer_engine/recipe",
                        "training.transformer_engine: no linear layer of the model has sizes that "
                        "16 divides");
    if (te->has_norm)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/transformer_engine/recipe",
                        "training.transformer_engine: nn.LayerNorm becomes te.LayerNorm, which is "
                        "not modelled; models with RMSNorm are");
    if (te->has_odd_layer)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/transformer_engine/recipe",
                        "training.transformer_engine: a linear layer has a size that 16 does not "
                        "divide; which layers of its block accelerate then converts is not "
                        "modelled");
    if (te->has_head && (t->loss.name != MPL_LOSS_CROSS_ENTROPY || t->loss.logits_to_keep))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/loss/name",
                        "training.transformer_engine: an output head that is te.Linear is modelled "
                        "with training.loss.name cross_entropy and all logits");
    return MEMPLAN_OK;
}

void mpl_te_leave(struct mpl_tape *tape, const struct mpl_network *network)
{
    if (network->te)
        mpl_te_autocast_exit(tape, &network->te->config);
}
