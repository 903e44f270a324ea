/* SPDX-License-Identifier: MIT */
/* Optimizers: states, temporaries of a step, clipping. Adding one is a file and a row in
 * optim_table.c. */
#ifndef MPL_OPTIM_OPTIM_H
#define MPL_OPTIM_OPTIM_H

#include "step/network.h"

#define MPL_MAX_STATES 6

/** States of one parameter; NULL until they are made. */
struct mpl_optim_state {
    struct mpl_tensor *tensors[MPL_MAX_STATES];
    bool is_ready;
};

struct mpl_optim;

/** Books what one call takes: states (first time) and temporaries. */
typedef void mpl_optim_rule(struct mpl_tape *tape, struct mpl_optim *optim);

/** How PyTorch runs a step when neither foreach nor fused is given. */
enum mpl_optim_default { MPL_OPTIM_FOREACH = 0, MPL_OPTIM_LOOP };

struct mpl_optim_row {
    enum mpl_optimizer_name name;
    enum mpl_optim_default by_default;
    mpl_optim_rule *step;
    mpl_optim_rule *create; /* the constructor; NULL: it makes no state */
    uint8_t states, bits;   /* where one rule serves several: states of a parameter, their width */
    bool is_paged;          /* states of large parameters lie in unified memory */
    bool is_float8;         /* states are float8 */
};

struct mpl_optim {
    const struct mpl_optimizer_spec *spec;
    const struct mpl_optim_row *row;
    struct mpl_parameter **parameters; /* trainable ones, in order; muon: its own come first */
    struct mpl_optim_state *states;    /* one for each */
    uint32_t count;
    uint32_t muon_count;           /* muon: how many are its own, adamw has the others */
    bool is_foreach;               /* all tensors at once, the default on CUDA */
    bool is_early;                 /* PyTorch before 2.1: adam keeps more lists */
    struct mpl_parameter *masters; /* float32 copies, then they are the parameters; NULL: none */
    struct mpl_parameter **models; /* with masters: the network's own */
    struct mpl_tensor *last_norm;  /* that mpl_masters_step keeps */
};

/** The row of an optimizer; every name has one. */
const struct mpl_optim_row *mpl_optim_find(enum mpl_optimizer_name name);

/** Makes the plan's optimizer over the network's trainable parameters. Arena memory. */
enum memplan_status mpl_optim_init(struct mpl_optim *optim, struct mpl_network *network,
                                   struct memplan_error *err);

/** Runs the constructor: after the parameters have memory. */
void mpl_optim_create(struct mpl_tape *tape, struct mpl_optim *optim);

/** What comes before clipping: gradients of the float32 copies. */
void mpl_optim_begin(struct mpl_tape *tape, struct mpl_optim *optim);

void mpl_optim_step(struct mpl_tape *tape, struct mpl_optim *optim);

/** zero_grad(set_to_none) */
void mpl_optim_zero_grad(struct mpl_tape *tape, struct mpl_optim *optim, bool set_to_none);

/** torch.nn.utils.clip_grad_norm_ over the optimizer's parameters. */
void mpl_clip_grad_norm(struct mpl_tape *tape, struct mpl_optim *optim);

/* ---- rules ------------------------------------------------------------------------------------
 */

mpl_optim_rule mpl_adam_step; /* adamw too */
mpl_optim_rule mpl_sgd_step;
mpl_optim_rule mpl_rmsprop_step;
mpl_optim_rule mpl_adagrad_step, mpl_adagrad_create;
mpl_optim_rule mpl_adafactor_step;
mpl_optim_rule mpl_muon_step;
mpl_optim_rule mpl_nadam_step;
mpl_optim_rule mpl_radam_step;
mpl_optim_rule mpl_adamax_step;
mpl_optim_rule mpl_adadelta_step;
mpl_optim_rule mpl_asgd_step;
mpl_optim_rule mpl_rprop_step;
mpl_optim_rule mpl_adafactor_hf_step;
mpl_optim_rule mpl_lion_step;
mpl_optim_rule mpl_bitsandbytes_step;
mpl_optim_rule mpl_torchao_step;
mpl_optim_rule mpl_galore_step;
mpl_optim_rule mpl_lamb_step;
mpl_optim_rule mpl_soap_step;
mpl_optim_rule mpl_shampoo_step;
mpl_optim_rule mpl_sophia_step;
mpl_optim_rule mpl_cpu_offload_step, mpl_cpu_offload_create;

/** True when Muon takes the parameter: a matrix inside the blocks, no embedding and no head. */
bool mpl_muon_takes(const struct mpl_parameter *parameter);

/* ---- options ----------------------------------------------------------------------------------
 */

/** Float32 copies of the weights (optim/masters.c): room for them, and what surrounds a step. */
enum memplan_status mpl_masters_init(struct mpl_optim *optim, struct mpl_arena *arena,
                                     struct memplan_error *err);
mpl_optim_rule mpl_masters_create, mpl_masters_begin, mpl_masters_end;

/** A whole step of BF16Optimizer: clips by the gradients' own norm, updates, and leaves no
 * gradient. */
mpl_optim_rule mpl_masters_step;

/** Sum of the copies' bytes, each rounded up to 512; 0 without them. */
uint64_t mpl_masters_bytes(const struct mpl_optim *optim);

/** Hooks that run the step of each parameter in backward (optim/in_backward.c). */
mpl_optim_rule mpl_in_backward_create;

/* ---- for the rules ----------------------------------------------------------------------------
 */

/** True when all tensors go through one kernel. */
bool mpl_optim_is_fused(const struct mpl_optim *optim);

/** The leaf of parameter i, or NULL when it has no gradient in this step. */
struct mpl_tensor *mpl_optim_leaf(const struct mpl_optim *optim, uint32_t i);

/** A new state tensor like the parameter; held. */
struct mpl_tensor *mpl_optim_new_state(struct mpl_tape *tape, const char *op,
                                       const struct mpl_tensor *like);

/** The same with another shape. */
struct mpl_tensor *mpl_optim_new_state_shaped(struct mpl_tape *tape, const char *op,
                                              enum mpl_dtype dtype, const struct mpl_shape *shape);

/** Makes the first count states of each parameter that has a gradient and none yet: zeros_like. */
void mpl_optim_init_zeros(struct mpl_tape *tape, struct mpl_optim *optim, int count);

/** True once for each parameter: it has no state yet, and is said to have one from now on. */
bool mpl_optim_is_new(struct mpl_optim *optim, uint32_t i);

/** A floating temporary like the parameter. */
struct mpl_tensor *mpl_optim_like(struct mpl_tape *tape, const char *op,
                                  const struct mpl_tensor *like);

/** Ends a Python name: drops what it holds and forgets it. */
void mpl_optim_unbind(struct mpl_tape *tape, struct mpl_tensor **name);

/** Room for a list with one entry for each parameter, all NULL; on failure NULL, and the tape has
 * failed. */
struct mpl_tensor **mpl_optim_list(struct mpl_tape *tape, const struct mpl_optim *optim);

/** A list of temporaries, one for each parameter with a gradient: taken in order... */
void mpl_optim_take_list(struct mpl_tape *tape, const struct mpl_optim *optim, const char *op,
                         struct mpl_tensor **list);
/** ...and given back together. */
void mpl_optim_drop_list(struct mpl_tape *tape, const struct mpl_optim *optim,
                         struct mpl_tensor **list);

/** The list of gradients that a foreach step changes before it uses them, negated or with the
 * decayed weights added: taken into list. False when it uses the gradients as they are. */
bool mpl_optim_take_gradients(struct mpl_tape *tape, const struct mpl_optim *optim, bool decays,
                              struct mpl_tensor **list);

/** The same in a loop: grad = -grads[i], grad = grad.add(param). *grad is the Python name, NULL
 * when it means the gradient itself. */
void mpl_optim_bind_gradient(struct mpl_tape *tape, const struct mpl_optim *optim,
                             const struct mpl_tensor *leaf, bool decays, struct mpl_tensor **grad);

#endif
