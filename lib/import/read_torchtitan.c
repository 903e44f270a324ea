/* SPDX-License-Identifier: MIT */
/*
 * TABLE: keys of torchtitan's job configuration.
 * source: torchtitan/config/job_config.py, tags v0.1.0 to v0.2.2
 */
#include <inttypes.h>
#include <string.h>

#include "import/import.h"

/* A degree of parallelism that no plan describes. */
static enum memplan_status take_degree(const struct mpl_import_at *at, const json_t *value,
                                       struct memplan_error *err)
{
    const json_int_t degree = json_integer_value(value);

    if (!json_is_integer(value) || degree < 1)
        return mpl_import_fail(&at->place, MEMPLAN_ERR_VALUE, err,
                               "expected a whole number from 1 on");
    return degree == 1 ? MEMPLAN_OK
                       : mpl_import_fail(&at->place, MEMPLAN_ERR_UNSUPPORTED, err,
                                         "found %" JSON_INTEGER_FORMAT
                                         ": this parallelism is not modelled, expected 1",
                                         degree);
}

/* The names of releases before 0.2: read as their successors, with a note. */
static enum memplan_status take_old(const struct mpl_import_at *at, const json_t *value,
                                    struct memplan_error *err)
{
    static const struct {
        const char *key, *path;
        enum mpl_import_kind kind;
    } names[] = {
        {"training.batch_size", "training.micro_batch_size", MPL_IMPORT_INTEGER},
        {"training.data_parallel_degree", "import.titan_shard", MPL_IMPORT_INTEGER},
        {"training.data_parallel_shard_degree", "import.titan_shard", MPL_IMPORT_INTEGER},
        {"training.data_parallel_replicate_degree", "import.titan_replicate", MPL_IMPORT_INTEGER},
        {"optimizer.fused", "import.titan_fused", MPL_IMPORT_BOOLEAN},
        {"checkpoint.enable_checkpoint", "import.titan_saves", MPL_IMPORT_BOOLEAN},
    };
    struct mpl_import_key row = {0};
    struct mpl_import_at own = *at;

    own.row = &row;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i].key, at->row->key) == 0) {
            row.path = names[i].path;
            row.kind = names[i].kind;
        }
    mpl_import_note(at->import, &at->place,
                    "a key of torchtitan before 0.2, whose steps are not modelled; read as 0.2");
    return mpl_import_convert(&own, value, err);
}

static const struct mpl_import_word optimizers[] = {
    {"adam", "\"adam\"", NULL},
    {"adamw", "\"adamw\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word implementations[] = {
    {"fused", "\"fused\"", NULL},
    {"foreach", "\"foreach\"", NULL},
    {"for-loop", "\"for-loop\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word reshards[] = {
    {"default", "true", NULL},
    {"always", "true", NULL},
    {"never", "false", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word modes[] = {
    {"none", "\"none\"", NULL},
    {"full", "\"full\"", NULL},
    {"selective", "\"selective\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word saves[] = {
    {"disabled", "\"sharded\"", NULL},
    {"async", "\"async\"", NULL},
    {"async_with_pinned_mem", "\"async\"", NULL},
    {NULL, NULL, NULL},
};

static const struct mpl_import_word recipes[] = {
    {"tensorwise", "\"tensorwise\"", NULL},
    {"rowwise", "\"rowwise\"", NULL},
    {"rowwise_with_gw_hp", "\"rowwise_with_gw_hp\"", NULL},
    {NULL, NULL, NULL},
};

/* "always" holds for the last norm with the head, too; else these stay gathered. */
static enum memplan_status take_reshard(const struct mpl_import_at *at, const json_t *value,
                                        struct memplan_error *err)
{
    const struct mpl_import_key row = {
        .path = "parallelism.reshard_after_forward", .kind = MPL_IMPORT_WORD, .words = reshards};
    struct mpl_import_at own = *at;
    enum memplan_status status;
    char text[16];

    own.row = &row;
    status = mpl_import_convert(&own, value, err);
    if (!status && strcmp(mpl_import_lower(value, text, sizeof(text)), "always") == 0)
        status = mpl_import_set_text(at->import, &at->place,
                                     "parallelism.root_reshard_after_forward", "true", err);
    return status;
}

#define DEGREE(key_)                                                                               \
    {                                                                                              \
        .key = (key_), .kind = MPL_IMPORT_CALL, .call = take_degree                                \
    }
#define OLD(key_)                                                                                  \
    {                                                                                              \
        .key = (key_), .kind = MPL_IMPORT_CALL, .call = take_old                                   \
    }
#define UNLESS(key_, why_)                                                                         \
    {                                                                                              \
        .key = (key_), .kind = MPL_IMPORT_UNLESS, .why = (why_)                                    \
    }
#define ROW(key_, path_, kind_)                                                                    \
    {                                                                                              \
        .key = (key_), .path = (path_), .kind = MPL_IMPORT_##kind_                                 \
    }
#define WORD(key_, path_, words_)                                                                  \
    {                                                                                              \
        .key = (key_), .path = (path_), .kind = MPL_IMPORT_WORD, .words = (words_)                 \
    }
#define FLOAT8 "quantize.linear.float8."

static const struct mpl_import_key keys[] = {
    ROW("model.name", "import.titan_model", TEXT),
    ROW("model.flavor", "import.titan_flavor", TEXT),
    ROW("model.converters", "import.titan_converters", NAMES),
    ROW("training.local_batch_size", "training.micro_batch_size", INTEGER),
    ROW("training.global_batch_size", "import.titan_global_batch", INTEGER),
    ROW("training.seq_len", "training.sequence_length", INTEGER),
    ROW("training.max_norm", "training.gradient_clipping", NUMBER),
    ROW("training.enable_cpu_offload", "parallelism.cpu_offload", BOOLEAN),
    WORD("training.dtype", "training.parameter_dtype", mpl_import_dtypes),
    WORD("training.mixed_precision_param", "parallelism.param_dtype", mpl_import_dtypes),
    WORD("training.mixed_precision_reduce", "parallelism.reduce_dtype", mpl_import_dtypes),
    ROW("parallelism.data_parallel_shard_degree", "import.titan_shard", INTEGER),
    ROW("parallelism.data_parallel_replicate_degree", "import.titan_replicate", INTEGER),
    {.key = "parallelism.fsdp_reshard_after_forward",
     .kind = MPL_IMPORT_CALL,
     .call = take_reshard},
    DEGREE("parallelism.tensor_parallel_degree"),
    DEGREE("parallelism.pipeline_parallel_degree"),
    DEGREE("parallelism.context_parallel_degree"),
    UNLESS("parallelism.enable_compiled_autograd", "torch.compile of backward"),
    WORD("optimizer.name", "training.optimizer.name", optimizers),
    WORD("optimizer.implementation", "import.titan_implementation", implementations),
    ROW("optimizer.early_step_in_backward", "training.optimizer.in_backward", BOOLEAN),
    ROW("optimizer.weight_decay", "training.optimizer.weight_decay", NUMBER),
    WORD("activation_checkpoint.mode", "import.titan_checkpointing", modes),
    ROW("activation_checkpoint.selective_ac_option", "import.titan_option", TEXT),
    ROW("activation_checkpoint.early_stop", "training.checkpoint_early_stop", BOOLEAN),
    UNLESS("compile.enable", "torch.compile of layers and loss; the figures are those without"),
    UNLESS("quantize.grouped_mm.float8.fqns", "products of experts in float8"),
    UNLESS("quantize.grouped_mm.mx.fqns", "products of experts in MX formats"),
    WORD(FLOAT8 "recipe_name", "training.float8.recipe_name", recipes),
    ROW(FLOAT8 "enable_fsdp_float8_all_gather", "training.float8.enable_fsdp_float8_all_gather",
        BOOLEAN),
    ROW(FLOAT8 "precompute_float8_dynamic_scale_for_fsdp",
        "training.float8.precompute_float8_dynamic_scale_for_fsdp", BOOLEAN),
    ROW(FLOAT8 "emulate", "training.float8.emulate", BOOLEAN),
    ROW(FLOAT8 "filter_fqns", "training.float8.filter_fqns", NAMES),
    ROW("checkpoint.enable", "import.titan_saves", BOOLEAN),
    WORD("checkpoint.async_mode", "import.titan_save", saves),
    UNLESS("checkpoint.initial_load_path",
           "weights that are loaded before the first step; give checkpoint.resume"),
    UNLESS("checkpoint.create_seed_checkpoint", "a run that saves and does not train"),
    UNLESS("validation.enable", "the validation; give training.evaluation.batches"),
    UNLESS("fault_tolerance.enable", "torchft's replicas"),
    UNLESS("job.custom_config_module", "a module of the job's own, which may change the model"),
    UNLESS("experimental.custom_import", "a module of the job's own, which may change the model"),
    UNLESS("experimental.custom_args_module",
           "a module of the job's own, which may change the model"),
    {.key = "comm.mode", .kind = MPL_IMPORT_UNLESS, .off = "default", .why = "no real ranks"},
    UNLESS("training.debug_moe_force_load_balance", "experts with the same number of tokens"),
    UNLESS("debug.moe_force_load_balance", "experts with the same number of tokens"),

    OLD("training.batch_size"),
    OLD("training.data_parallel_degree"),
    OLD("training.data_parallel_shard_degree"),
    OLD("training.data_parallel_replicate_degree"),
    OLD("optimizer.fused"),
    OLD("checkpoint.enable_checkpoint"),
    DEGREE("training.tensor_parallel_degree"),
    DEGREE("experimental.pipeline_parallel_degree"),
    DEGREE("experimental.context_parallel_degree"),
    UNLESS("training.compile", "torch.compile of layers and loss; the figures are those without"),
    UNLESS("float8.enable_float8_linear", "products in float8; give training.float8"),
};

/* What changes no tensor of a step. The degrees of experts are without effect in dense models, and
 * others are not modelled. */
static const char *const harmless[] = {
    "job.*",
    "profiling.*",
    "metrics.*",
    "comm.*",
    "memory_estimation.*",
    "debug.*",
    "lr_scheduler.*",
    "checkpoint.*",
    "validation.*",
    "fault_tolerance.*",
    "float8.*",
    "mx.*",
    "quantize.linear.mx.*",
    "quantize.grouped_mm.mx.*",
    "model.hf_assets_path",
    "model.tokenizer_path",
    "model.print_after_conversion",
    "model.norm_type",
    "optimizer.lr",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.eps",
    "training.steps",
    "training.warmup_steps",
    "training.dataset",
    "training.dataset_path",
    "training.dataloader.*",
    "training.gc_freq",
    "training.gc_debug",
    "training.seed",
    "training.deterministic",
    "parallelism.disable_loss_parallel",
    "parallelism.enable_async_tensor_parallel",
    "parallelism.pipeline_parallel_split_points",
    "parallelism.pipeline_parallel_schedule",
    "parallelism.pipeline_parallel_schedule_csv",
    "parallelism.pipeline_parallel_microbatch_size",
    "parallelism.pipeline_parallel_layers_per_stage",
    "parallelism.pipeline_parallel_first_stage_less_layers",
    "parallelism.pipeline_parallel_last_stage_less_layers",
    "parallelism.pipeline_parallel_expert_parallel_overlap",
    "parallelism.module_fqns_per_model_part",
    "parallelism.context_parallel_load_balancer",
    "parallelism.context_parallel_rotate_method",
    "parallelism.expert_parallel_degree",
    "parallelism.expert_tensor_parallel_degree",
    "parallelism.expert_parallel_comm_backend",
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
    "activation_checkpoint.memory_budget",
    "activation_checkpoint.visualize_memory_budget_pareto",
    "activation_checkpoint.preserve_rng_state",
    "activation_checkpoint.determinism_check",
    "activation_checkpoint.debug",
    "compile.components",
    "compile.backend",
    "experimental.pipeline_parallel_schedule",
    "experimental.pipeline_parallel_split_points",
    "experimental.enable_async_tensor_parallel",
    NULL,
};

const struct mpl_import_reader mpl_import_torchtitan = {
    .name = "torchtitan configuration",
    MPL_IMPORT_KEYS(keys),
    .harmless = harmless,
};
