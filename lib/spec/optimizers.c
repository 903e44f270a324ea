/* SPDX-License-Identifier: MIT */
/* TABLE: the names of optimizers, what each is, and the keys that its constructor takes. */
#include "spec/optimizers.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "spec/check.h"
#include "spec/config_class.h"
#include "spec/text.h"
#include "spec/words.h"

/* Keys that only some constructors take. */
enum {
    TAKES_MOMENTUM = 1 << 0,
    TAKES_NESTEROV = 1 << 1,
    TAKES_AMSGRAD = 1 << 2,
    TAKES_CENTERED = 1 << 3,
    TAKES_FUSED = 1 << 4,
    TAKES_FOREACH = 1 << 5,
    TAKES_MAXIMIZE = 1 << 6,
    TAKES_NS_STEPS = 1 << 7,
    TAKES_DECOUPLED = 1 << 8,
    TAKES_OFFLOAD = 1 << 11,
    TAKES_ROUNDING = 1 << 12,
    TAKES_RANK = 1 << 13,
    TAKES_DIM = 1 << 14,
    TAKES_HESSIAN = 1 << 15,
};

#define TAKES_LISTS (TAKES_FOREACH | TAKES_MAXIMIZE)

static const struct {
    unsigned takes;
    double weight_decay; /* the constructor's default */
    bool is_whole;       /* over shards it gathers them, or was never tried */
} constructor_table[] = {
    [MPL_ADAMW] = {.takes = TAKES_AMSGRAD | TAKES_FUSED | TAKES_LISTS, .weight_decay = 0.01},
    [MPL_SGD] = {.takes = TAKES_MOMENTUM | TAKES_NESTEROV | TAKES_FUSED | TAKES_LISTS},
    [MPL_ADAM] = {.takes = TAKES_AMSGRAD | TAKES_FUSED | TAKES_LISTS},
    [MPL_RMSPROP] = {.takes = TAKES_MOMENTUM | TAKES_CENTERED | TAKES_LISTS},
    [MPL_ADAGRAD] = {.takes = TAKES_FUSED | TAKES_LISTS},
    [MPL_ADAFACTOR] = {.takes = TAKES_LISTS, .is_whole = true},
    [MPL_MUON] = {.takes = TAKES_MOMENTUM | TAKES_NESTEROV | TAKES_NS_STEPS, .is_whole = true},
    [MPL_NADAM] = {.takes = TAKES_DECOUPLED | TAKES_LISTS},
    [MPL_RADAM] = {.takes = TAKES_DECOUPLED | TAKES_LISTS},
    [MPL_ADAMAX] = {.takes = TAKES_LISTS},
    [MPL_ADADELTA] = {.takes = TAKES_LISTS},
    [MPL_ASGD] = {.takes = TAKES_LISTS},
    [MPL_RPROP] = {.takes = TAKES_LISTS},
    [MPL_ADAFACTOR_HF] = {.takes = 0, .is_whole = true},
    [MPL_LION] = {.takes = TAKES_FOREACH | TAKES_DECOUPLED, .is_whole = true},
    [MPL_ADAMW_8BIT] = {.takes = 0, .weight_decay = 0.01, .is_whole = true},
    [MPL_PAGED_ADAMW] = {.takes = 0, .weight_decay = 0.01, .is_whole = true},
    [MPL_PAGED_ADAMW_8BIT] = {.takes = 0, .weight_decay = 0.01, .is_whole = true},
    [MPL_LION_32BIT] = {.takes = 0, .is_whole = true},
    [MPL_LION_8BIT] = {.takes = 0, .is_whole = true},
    [MPL_PAGED_LION] = {.takes = 0, .is_whole = true},
    [MPL_PAGED_LION_8BIT] = {.takes = 0, .is_whole = true},
    [MPL_ADAMW_TORCHAO_8BIT] = {.takes = TAKES_ROUNDING, .weight_decay = 0.01, .is_whole = true},
    [MPL_ADAMW_TORCHAO_4BIT] = {.takes = 0, .weight_decay = 0.01, .is_whole = true},
    [MPL_ADAMW_TORCHAO_FP8] = {.takes = 0, .weight_decay = 0.01, .is_whole = true},
    [MPL_GALORE_ADAMW] = {.takes = TAKES_RANK, .is_whole = true},
    [MPL_LAMB] = {.takes = TAKES_FOREACH, .is_whole = true},
    [MPL_SOAP] = {.takes = TAKES_DIM, .weight_decay = 0.01, .is_whole = true},
    [MPL_SHAMPOO] = {.takes = 0, .is_whole = true},
    [MPL_SOPHIA] = {.takes = TAKES_MAXIMIZE | TAKES_HESSIAN, .weight_decay = 0.1, .is_whole = true},
    [MPL_ADAMW_CPU_OFFLOAD] = {.takes = TAKES_OFFLOAD, .weight_decay = 0.01, .is_whole = true},
};

#define YES(text, number, what)                                                                    \
    {                                                                                              \
        .word = (text), .value = (number), .help = (what)                                          \
    }
#define NOT(text)                                                                                  \
    {                                                                                              \
        .word = (text), .unsupported = true                                                        \
    }
#define HINT(text, other)                                                                          \
    {                                                                                              \
        .word = (text), .hint = (other)                                                            \
    }

const struct mpl_word mpl_optimizer_words[] = {
    YES("adamw", MPL_ADAMW, "AdamW (torch.optim): two moments"),
    YES("sgd", MPL_SGD, "SGD (torch.optim): no state, with momentum one buffer"),
    YES("adam", MPL_ADAM, "Adam (torch.optim): two moments"),
    YES("rmsprop", MPL_RMSPROP, "RMSprop (torch.optim): one to three averages"),
    YES("adagrad", MPL_ADAGRAD, "Adagrad (torch.optim): one sum, made by the constructor"),
    YES("adafactor", MPL_ADAFACTOR, "Adafactor (torch.optim): a row and a column of a matrix"),
    YES("muon", MPL_MUON, "Muon (torch.optim): one buffer for each matrix, AdamW for the rest"),
    YES("nadam", MPL_NADAM, "NAdam (torch.optim): two moments"),
    YES("radam", MPL_RADAM, "RAdam (torch.optim): two moments"),
    YES("adamax", MPL_ADAMAX, "Adamax (torch.optim): a moment and an infinity norm"),
    YES("adadelta", MPL_ADADELTA, "Adadelta (torch.optim): two averages"),
    YES("asgd", MPL_ASGD, "ASGD (torch.optim): one average and three scalars"),
    YES("rprop", MPL_RPROP, "Rprop (torch.optim): the last gradient and a step size"),
    YES("adafactor_hf", MPL_ADAFACTOR_HF,
        "Adafactor of transformers, as its Trainer makes it: float32 row and column"),
    YES("lion", MPL_LION, "Lion (lion-pytorch): one moment"),
    YES("adamw_8bit", MPL_ADAMW_8BIT, "AdamW (bitsandbytes): two moments of 8 bits"),
    YES("adamw_bnb_8bit", MPL_ADAMW_8BIT, "another name of adamw_8bit"),
    YES("paged_adamw", MPL_PAGED_ADAMW,
        "AdamW (bitsandbytes): two float32 moments in unified memory"),
    YES("paged_adamw_32bit", MPL_PAGED_ADAMW, "another name of paged_adamw"),
    YES("paged_adamw_8bit", MPL_PAGED_ADAMW_8BIT,
        "AdamW (bitsandbytes): two moments of 8 bits in unified memory"),
    YES("lion_32bit", MPL_LION_32BIT, "Lion (bitsandbytes): one float32 moment"),
    YES("lion_8bit", MPL_LION_8BIT, "Lion (bitsandbytes): one moment of 8 bits"),
    YES("paged_lion", MPL_PAGED_LION, "Lion (bitsandbytes): one float32 moment in unified memory"),
    YES("paged_lion_32bit", MPL_PAGED_LION, "another name of paged_lion"),
    YES("paged_lion_8bit", MPL_PAGED_LION_8BIT,
        "Lion (bitsandbytes): one moment of 8 bits in unified memory"),
    YES("adamw_cpu_offload", MPL_ADAMW_CPU_OFFLOAD,
        "AdamW (torchao CPUOffloadOptimizer): states in host memory"),
    YES("adamw_torchao_8bit", MPL_ADAMW_TORCHAO_8BIT, "AdamW (torchao): two moments of 8 bits"),
    YES("adamw_torchao_4bit", MPL_ADAMW_TORCHAO_4BIT, "AdamW (torchao): two moments of 4 bits"),
    YES("adamw_torchao_fp8", MPL_ADAMW_TORCHAO_FP8, "AdamW (torchao): two moments of float8"),
    YES("galore_adamw", MPL_GALORE_ADAMW,
        "AdamW of GaLore (galore-torch): matrices in a subspace, two moments of its rank"),
    YES("lamb", MPL_LAMB, "LAMB (pytorch_optimizer): two moments"),
    YES("soap", MPL_SOAP,
        "SOAP (pytorch_optimizer): two moments, squares of each side of a matrix"),
    YES("shampoo", MPL_SHAMPOO,
        "Shampoo (pytorch_optimizer): the last update, two squares of each side"),
    YES("sophia", MPL_SOPHIA, "SophiaG (Liuhong99/Sophia): a moment and the Hessian's diagonal"),
    NOT("lars"),
    HINT("sophiag", "sophia"),
    NOT("sophia_h"),
    NOT("sophiah"),
    NOT("distributed_shampoo"),
    NOT("galore_adafactor"),
    NOT("galore_adamw_8bit"),
    NOT("apollo_adamw"),
    NOT("ademamix"),
    NOT("ademamix_8bit"),
    NOT("rmsprop_bnb"),
    NOT("rmsprop_bnb_8bit"),
    NOT("lomo"),
    NOT("adalomo"),
    NOT("grokadamw"),
    NOT("stable_adamw"),
    HINT("adamw_torch_8bit", "adamw_torchao_8bit"),
    HINT("adamw_torch_4bit", "adamw_torchao_4bit"),
    NOT("schedule_free_adamw"),
    HINT("adamw_torch", "adamw"),
    HINT("adamw_torch_fused", "adamw, with fused: true"),
    {.word = NULL},
};

const char *mpl_optimizer_word(enum mpl_optimizer_name name)
{
    const struct mpl_word *word = mpl_optimizer_words;

    while (word->unsupported || word->hint || word->value != (int)name)
        word++;
    return word->word;
}

double mpl_optimizer_weight_decay(enum mpl_optimizer_name name)
{
    return constructor_table[name].weight_decay;
}

bool mpl_optimizer_is_local(enum mpl_optimizer_name name)
{
    return !constructor_table[name].is_whole;
}

void mpl_optimizer_note(const struct mpl_optimizer_spec *optimizer, struct mpl_notes *notes)
{
    switch (optimizer->name) {
    case MPL_GALORE_ADAMW:
    case MPL_SOAP:
    case MPL_SHAMPOO:
        mpl_note_add(notes, MPL_NOTE_UNTESTED, "training.optimizer.name",
                     "what cuSOLVER takes for %s's decompositions is not counted",
                     mpl_optimizer_word(optimizer->name));
        break;
    case MPL_ADAMW_TORCHAO_8BIT:
    case MPL_ADAMW_TORCHAO_4BIT:
    case MPL_ADAMW_TORCHAO_FP8:
        mpl_note_add(notes, MPL_NOTE_UNTESTED, "training.optimizer.name",
                     "what Triton takes to try kernels while the first step compiles, about the "
                     "size of the L2 cache, is not counted");
        break;
    default:
        break;
    }
}

/* A key that the constructor would refuse. */
static enum memplan_status check_keys(const struct mpl_optimizer_spec *o, struct memplan_error *err)
{
    const struct {
        const char *key;
        unsigned takes;
        bool is_given;
    } key_table[] = {
        {"momentum", TAKES_MOMENTUM, o->momentum > 0},
        {"nesterov", TAKES_NESTEROV, o->nesterov == MPL_TRUE},
        {"amsgrad", TAKES_AMSGRAD, o->amsgrad},
        {"centered", TAKES_CENTERED, o->centered},
        {"fused", TAKES_FUSED, o->fused != MPL_UNSET},
        {"foreach", TAKES_FOREACH, o->foreach != MPL_UNSET},
        {"maximize", TAKES_MAXIMIZE, o->maximize},
        {"ns_steps", TAKES_NS_STEPS, o->ns_steps != 5},
        {"decoupled_weight_decay", TAKES_DECOUPLED, o->decoupled_weight_decay},
        {"offload_gradients", TAKES_OFFLOAD, o->offload_gradients},
        {"stochastic_rounding", TAKES_ROUNDING, o->stochastic_rounding},
        {"rank", TAKES_RANK, o->rank != 128},
        {"max_precondition_dim", TAKES_DIM, o->max_precondition_dim != 10000},
        {"hessian_interval", TAKES_HESSIAN, o->hessian_interval != 10},
    };
    char pointer[64];

    for (size_t i = 0; i < sizeof(key_table) / sizeof(key_table[0]); i++)
        if (key_table[i].is_given && !(constructor_table[o->name].takes & key_table[i].takes)) {
            snprintf(pointer, sizeof(pointer), "/training/optimizer/%s", key_table[i].key);
            return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer, "training.optimizer.%s: %s takes none",
                            key_table[i].key, mpl_optimizer_word(o->name));
        }
    return MEMPLAN_OK;
}

/* What frees gradients in backward leaves nothing to accumulate, clip or share. */
static enum memplan_status check_in_backward(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const struct mpl_optimizer_spec *o = &t->optimizer;
    const char *option = o->in_backward ? "in_backward" : "offload_gradients";

    if (t->gradient_accumulation_steps > 1)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/gradient_accumulation_steps",
                        "training.gradient_accumulation_steps: found %lld with "
                        "training.optimizer.%s, which frees gradients in backward, expected 1",
                        (long long)t->gradient_accumulation_steps, option);
    if (t->gradient_clipping > 0)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/gradient_clipping",
                        "training.gradient_clipping: training.optimizer.%s frees gradients in "
                        "backward, expected no clipping",
                        option);
    if (!o->in_backward)
        return MEMPLAN_OK;
    if (o->master_weights || o->name == MPL_MUON || o->name == MPL_ADAMW_CPU_OFFLOAD ||
        !t->zero_grad_set_to_none || plan->parallelism.strategy != MPL_STRATEGY_NONE)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/in_backward",
                        "training.optimizer.in_backward: not modelled with muon, "
                        "adamw_cpu_offload, master weights, zeroed gradients or sharding");
    return MEMPLAN_OK;
}

/* The pass over sampled labels was compared in its example's loop only. */
static enum memplan_status check_sophia(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_training *t = &plan->training;
    const bool is_causal = mpl_family_of(plan->model.model_type) == MPL_FAMILY_CAUSAL;
    const struct mpl_config_class *config = mpl_config_class_find(plan->model.model_type);

    if (!is_causal || (config && config->task == MPL_TASK_MASKED_LM))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/name",
                        "training.optimizer.name: sophia is modelled for causal language models "
                        "only");
    if (plan->parallelism.strategy != MPL_STRATEGY_NONE)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/name",
                        "training.optimizer.name: sophia is modelled on one card only");
    if (t->loss.name != MPL_LOSS_CROSS_ENTROPY || t->loss.label_smoothing > 0 ||
        t->loss.logits_to_keep || t->loss.num_items_in_batch || plan->model.output_router_logits)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/loss",
                        "training.loss: sophia is modelled with plain cross_entropy only");
    if (t->optimizer.in_backward || t->optimizer.master_weights || t->loss_scaling)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/name",
                        "training.optimizer.name: sophia is not modelled with steps in backward, "
                        "master weights or loss scaling");
    return MEMPLAN_OK;
}

enum memplan_status mpl_optimizer_check(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_optimizer_spec *o = &plan->training.optimizer;

    if (o->fused == MPL_TRUE && o->foreach == MPL_TRUE)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/optimizer/fused",
                        "training.optimizer: fused and foreach are both true, expected at most "
                        "one");
    if (o->name == MPL_SGD && o->nesterov == MPL_TRUE && !(o->momentum > 0))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/optimizer/nesterov",
                        "training.optimizer.nesterov: needs a momentum above 0");
    if (plan->parallelism.strategy != MPL_STRATEGY_NONE &&
        plan->parallelism.strategy != MPL_STRATEGY_DDP && !mpl_optimizer_is_local(o->name))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/name",
                        "training.optimizer.name: %s over sharded weights is not modelled",
                        mpl_optimizer_word(o->name));
    if (o->master_weights &&
        (o->name == MPL_MUON || o->name == MPL_ADAMW_CPU_OFFLOAD ||
         (plan->parallelism.strategy != MPL_STRATEGY_NONE &&
          !(plan->parallelism.strategy == MPL_STRATEGY_FSDP1 && plan->parallelism.use_orig_params &&
            strcmp(plan->framework_name, "specforge") == 0))))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/master_weights",
                        "training.optimizer.master_weights: not modelled with muon, "
                        "adamw_cpu_offload or sharding");
    if ((o->name == MPL_SOAP || o->name == MPL_SHAMPOO) &&
        plan->training.parameter_dtype != MPL_FLOAT32)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/parameter_dtype",
                        "training.parameter_dtype: %s decomposes copies of other formats, not "
                        "modelled; expected float32",
                        mpl_optimizer_word(o->name));
    if (o->name == MPL_SOPHIA) {
        const enum memplan_status status = check_sophia(plan, err);

        if (status)
            return status;
    }
    if (o->in_backward || o->offload_gradients) {
        const enum memplan_status status = check_in_backward(plan, err);

        if (status)
            return status;
    }
    return check_keys(o, err);
}
