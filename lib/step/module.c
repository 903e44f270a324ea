/* SPDX-License-Identifier: MIT */
/* Calls of modules: where hooks and checkpointing sit. */
#include "step/module.h"

/* The caller's locals in the wrapper's dtype, for the time of the call; originals go to saved. */
static void cast_kwargs(struct mpl_tape *tape, struct mpl_module *module,
                        struct mpl_tensor *saved[MPL_MAX_KWARGS])
{
    for (int i = 0; i < MPL_MAX_KWARGS; i++) {
        struct mpl_tensor **name = module->kwargs[i];

        saved[i] = NULL;
        if (!name || !*name)
            continue;
        saved[i] = *name;
        *name = module->hooks->cast_input(tape, module->wrapper, mpl_hold(*name));
    }
}

static void restore_kwargs(struct mpl_tape *tape, struct mpl_module *module,
                           struct mpl_tensor *saved[MPL_MAX_KWARGS])
{
    for (int i = 0; i < MPL_MAX_KWARGS; i++) {
        if (!saved[i])
            continue;
        mpl_drop(tape, *module->kwargs[i]);
        *module->kwargs[i] = saved[i];
    }
}

static struct mpl_tensor *bare_call(struct mpl_tape *tape, void *context, struct mpl_tensor *input)
{
    struct mpl_module *module = context;

    return module->forward(tape, module->context, input);
}

static struct mpl_tensor *checkpointed_call(struct mpl_tape *tape, struct mpl_module *module,
                                            mpl_forward *call, struct mpl_tensor *input)
{
    return module->is_checkpointed && tape->is_grad_enabled
               ? mpl_checkpoint(tape, call, module, input, module->kwargs)
               : call(tape, module, input);
}

/* Heads are linear layers, which have their own. */
static bool has_scope(const struct mpl_tape *tape, const struct mpl_module *module)
{
    return tape->scopes &&
           (module->kind == MPL_MODULE_LAYER || module->kind == MPL_MODULE_EMBEDDING);
}

static uint64_t number_of(const struct mpl_module *module)
{
    return module->kind == MPL_MODULE_EMBEDDING
               ? mpl_module_of_weight(module->first_parameter, false)
               : mpl_module_around(module->first_parameter,
                                   module->first_parameter + module->parameter_count - 1);
}

static struct mpl_tensor *hooked_call(struct mpl_tape *tape, void *context,
                                      struct mpl_tensor *input)
{
    struct mpl_module *module = context;
    const struct mpl_hooks *hooks = module->hooks;
    struct mpl_tensor *argument = mpl_hold(input), *output, *saved[MPL_MAX_KWARGS];

    if (hooks) {
        argument = hooks->cast_input(tape, module->wrapper, argument);
        cast_kwargs(tape, module, saved);
        argument = hooks->pre_forward(tape, module->wrapper, argument);
    }
    if (has_scope(tape, module))
        mpl_rebind(tape, &argument, mpl_scope_enter(tape, number_of(module), argument));
    output = hooks && hooks->is_outside_checkpoint
                 ? checkpointed_call(tape, module, bare_call, argument)
                 : module->forward(tape, module->context, argument);
    if (module->grows_from_output && tape->is_grad_enabled && !output->is_void)
        output->requires_grad = true;
    if (has_scope(tape, module))
        output = mpl_scope_leave(tape, number_of(module), output);
    if (hooks) {
        hooks->post_forward(tape, module->wrapper, &output, 1);
        restore_kwargs(tape, module, saved);
    }
    mpl_drop(tape, argument);
    return output;
}

struct mpl_tensor *mpl_module_cast(struct mpl_tape *tape, const struct mpl_module *module,
                                   struct mpl_tensor *input)
{
    return module->hooks ? module->hooks->cast_input(tape, module->wrapper, input) : input;
}

struct mpl_tensor *mpl_module_call(struct mpl_tape *tape, struct mpl_module *module,
                                   struct mpl_tensor *input)
{
    struct mpl_tensor *argument = mpl_hold(input), *output;

    output = module->hooks && module->hooks->is_outside_checkpoint
                 ? hooked_call(tape, module, argument)
                 : checkpointed_call(tape, module, hooked_call, argument);
    mpl_drop(tape, argument);
    return output;
}

struct mpl_tensor *mpl_hook_pass(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *input)
{
    (void)tape;
    (void)wrapper;
    return input;
}
