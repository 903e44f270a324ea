/* SPDX-License-Identifier: MIT */
/* Unit tests of stage "spec": the field table, values, names, alternatives, readings. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spec/fields.h"
#include "spec/suggest.h"
#include "spec/text.h"
#include "spec_fixture.h"

#define EAGLE3                                                                                     \
    "{\"model\": {\"model_type\": \"eagle3\", \"hidden_size\": 512, \"intermediate_size\": 1024, " \
    "\"num_attention_heads\": 8, \"vocab_size\": 1000, \"draft_vocab_size\": 500}, "               \
    "\"training\": {\"sequence_length\": 128, \"ttt_steps\": 3}, "                                 \
    "\"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 4}}"

#define EAGLE3_ON_ONE_CARD                                                                         \
    "{\"model\": {\"model_type\": \"eagle3\", \"hidden_size\": 512, \"intermediate_size\": 1024, " \
    "\"num_attention_heads\": 8, \"vocab_size\": 1000, \"draft_vocab_size\": 500}, "               \
    "\"training\": {\"sequence_length\": 128, \"ttt_steps\": 3}}"

/* Loads, sets, and checks; the status of the first that fails. */
static enum memplan_status try_set(const char *text, const char *assignment)
{
    struct mpl_spec *spec = load(text);
    enum memplan_status status = assignment ? mpl_spec_set(spec, assignment, &err) : MEMPLAN_OK;

    if (!status)
        status = mpl_spec_check(spec, &err);
    if (!status)
        status = mpl_spec_bind(spec, 0, &plan, &notes, &err);
    mpl_spec_free(spec);
    return status;
}

START_TEST(minimal_plan_gets_defaults)
{
    ck_assert_int_eq(try_set(PLAN, NULL), MEMPLAN_OK);
    ck_assert_int_eq(plan.model.head_dim, 64);
    ck_assert_int_eq(plan.training.micro_batch_size, 1);
    ck_assert_int_eq(plan.training.steps, 3);
    ck_assert_int_eq(plan.training.parameter_dtype, MPL_FLOAT32);
    ck_assert_int_eq(plan.training.attention, MPL_ATTENTION_SDPA);
    ck_assert_int_eq(plan.training.compile, MPL_COMPILE_NONE);
    ck_assert_int_eq(plan.training.zero_grad_set_to_none, true);
    ck_assert_int_eq(plan.device.context_bytes, -1);
    ck_assert_int_eq(plan.device.nccl_bytes, -1);
    ck_assert_str_eq(plan.pytorch.text, "2.14.1");
    ck_assert_double_eq(plan.training.optimizer.weight_decay, 0.01);
    ck_assert_int_eq(plan.training.ttt_steps, 0);
    ck_assert_uint_ge(notes.count, 4);
}
END_TEST

START_TEST(eagle3_has_its_own_defaults)
{
    ck_assert_int_eq(try_set(EAGLE3, NULL), MEMPLAN_OK);
    ck_assert_int_eq(plan.model.num_hidden_layers, 1);
    ck_assert_int_eq(plan.model.num_key_value_heads, 8);
    ck_assert_int_eq(plan.model.norm_before_residual, true);
    ck_assert_int_eq(plan.training.attention, MPL_ATTENTION_FLEX);
    ck_assert_int_eq(plan.training.compile, MPL_COMPILE_INDUCTOR);
    ck_assert_double_eq(plan.training.gradient_clipping, 1.0);
    ck_assert_int_eq(plan.training.documents, 4);
    ck_assert_int_eq(plan.training.batch_dtype, MPL_FLOAT32);
    ck_assert_int_eq(plan.parallelism.param_dtype, MPL_BFLOAT16);
    ck_assert_int_eq(plan.parallelism.root_dtype, MPL_FLOAT32);
    ck_assert_str_eq(plan.framework_name, "speculators");
    ck_assert_str_eq(plan.transformers.text, "4.57.6");
}
END_TEST

/* One assignment to the minimal plan, and what it must come to. */
static const struct {
    const char *assignment;
    enum memplan_status status;
    const char *path; /* pointer of the error */
    const char *says; /* part of its text */
} set_table[] = {
    {"training.sequence_length=4096", MEMPLAN_OK, NULL, NULL},
    {"training.sequence_length=4096.0", MEMPLAN_OK, NULL, NULL},
    {"training.sequence_length=1e9", MEMPLAN_OK, NULL, NULL},
    {"training.sequence_length=1073741824", MEMPLAN_OK, NULL, NULL},
    {"training.sequence_length=1073741825", MEMPLAN_ERR_VALUE, "/training/sequence_length",
     "1 .. 1073741824"},
    {"training.sequence_length=0", MEMPLAN_ERR_VALUE, "/training/sequence_length", "number 0"},
    {"training.sequence_length=-5", MEMPLAN_ERR_VALUE, "/training/sequence_length", "number -5"},
    {"training.sequence_length=4096.5", MEMPLAN_ERR_VALUE, NULL, "an integer"},
    {"training.sequence_length=\"4096\"", MEMPLAN_ERR_VALUE, NULL, "the text \"4096\""},
    {"training.sequence_length=true", MEMPLAN_ERR_VALUE, NULL, "found true"},
    {"training.sequence_length=[1]", MEMPLAN_ERR_VALUE, NULL, "a list"},
    {"training.sequence_length={\"x\":1}", MEMPLAN_ERR_VALUE, NULL, "an object"},
    {"training.sequence_length=9223372036854775807", MEMPLAN_ERR_VALUE, NULL, "1 .. "},
    {"training.sequence_length=99999999999999999999", MEMPLAN_ERR_VALUE, NULL, "an integer"},
    {"training.sequence_length=1e308", MEMPLAN_ERR_VALUE, NULL, "1 .. "},
    {"training.sequence_length=1e400", MEMPLAN_ERR_VALUE, NULL, "an integer"},
    {"training.sequence_length=null", MEMPLAN_ERR_VALUE, "/training/sequence_length", "not given"},
    {"training.sequence_lengths=[8, 0]", MEMPLAN_ERR_VALUE, "/training/sequence_lengths",
     "at most 256 numbers"},
    {"training.sequence_lengths=8", MEMPLAN_ERR_VALUE, "/training/sequence_lengths", "a list"},
    {"training.sequence_lengths=[\"8\"]", MEMPLAN_ERR_VALUE, "/training/sequence_lengths",
     "at most 256 numbers"},
    {"training.sequence_lenght=8", MEMPLAN_ERR_VALUE, "/training/sequence_lenght",
     "did you mean training.sequence_length?"},
    {"sequence_length=8", MEMPLAN_ERR_VALUE, "/sequence_length",
     "did you mean training.sequence_length?"},
    {"model.head_dmi=64", MEMPLAN_ERR_VALUE, "/model/head_dmi", "did you mean model.head_dim?"},
    {"zzzzzzzzzzzz=1", MEMPLAN_ERR_VALUE, NULL, "no such field"},
    {"=1", MEMPLAN_ERR_VALUE, NULL, "FIELD=VALUE"},
    {"training.steps", MEMPLAN_ERR_VALUE, NULL, "FIELD=VALUE"},
    {"training=5", MEMPLAN_ERR_VALUE, NULL, "an object"},
    {"training.optimizer.name=sgd", MEMPLAN_OK, NULL, NULL},
    {"training.optimizer.name=adamW", MEMPLAN_ERR_VALUE, NULL, "did you mean \"adamw\"?"},
    {"training.optimizer.name=muon", MEMPLAN_OK, NULL, NULL},
    {"training.optimizer={\"name\": \"muon\", \"ns_steps\": 3}", MEMPLAN_OK, NULL, NULL},
    {"training.optimizer.ns_steps=3", MEMPLAN_ERR_VALUE, "/training/optimizer/ns_steps",
     "adamw takes none"},
    {"training.optimizer={\"name\": \"muon\", \"foreach\": true}", MEMPLAN_ERR_VALUE,
     "/training/optimizer/foreach", "muon takes none"},
    {"training.optimizer.name=lars", MEMPLAN_ERR_UNSUPPORTED, "/training/optimizer/name",
     "\"lars\" is not modelled; modelled: adamw, sgd, adam"},
    {"training.optimizer.momentum=0.9", MEMPLAN_ERR_VALUE, NULL, "adamw takes none"},
    {"training.optimizer={\"name\": \"adamw_8bit\", \"foreach\": true}", MEMPLAN_ERR_VALUE,
     "/training/optimizer/foreach", "adamw_8bit takes none"},
    {"training.optimizer.stochastic_rounding=true", MEMPLAN_ERR_VALUE, NULL, "adamw takes none"},
    {"training.optimizer.rank=8", MEMPLAN_ERR_VALUE, NULL, "adamw takes none"},
    {"training.optimizer={\"name\": \"muon\", \"in_backward\": true}", MEMPLAN_ERR_UNSUPPORTED,
     "/training/optimizer/in_backward", "not modelled with muon"},
    {"training.optimizer={\"name\": \"muon\", \"master_weights\": true}", MEMPLAN_ERR_UNSUPPORTED,
     "/training/optimizer/master_weights", "not modelled with muon"},
    {"training.optimizer={\"name\": \"sophia_h\"}", MEMPLAN_ERR_UNSUPPORTED,
     "/training/optimizer/name", "not modelled"},
    {"training.optimizer.lr=1e-4", MEMPLAN_OK, NULL, NULL},
    {"training.optimizer.betas=[0.9, 0.95]", MEMPLAN_OK, NULL, NULL},
    {"training.optimizer.maximize=true", MEMPLAN_OK, NULL, NULL},
    {"training.optimizer.maximize=false", MEMPLAN_OK, NULL, NULL},
    {"training.optimizer={\"name\": \"sgd\", \"momentum\": 0.9, \"nesterov\": true}", MEMPLAN_OK,
     NULL, NULL},
    {"training.optimizer={\"fused\": true, \"foreach\": true}", MEMPLAN_ERR_VALUE, NULL, "both"},
    {"training.optimizer={\"nmae\": \"sgd\"}", MEMPLAN_ERR_VALUE, "/training/optimizer/nmae",
     "did you mean training.optimizer.name?"},
    {"training.attention=flash_attention_3", MEMPLAN_ERR_UNSUPPORTED, "/training/attention",
     "bfloat16 and float16 only"},
    {"training.attention=xformers", MEMPLAN_ERR_UNSUPPORTED, NULL, "flash_attention_2"},
    {"training.attention=flash_attention_2", MEMPLAN_ERR_UNSUPPORTED, "/training/attention",
     "bfloat16 and float16 only"},
    {"training.attention=flex_attention", MEMPLAN_OK, NULL, NULL},
    {"training.attention=spda", MEMPLAN_ERR_VALUE, NULL, "did you mean \"sdpa\"?"},
    {"training.parameter_dtype=bf16", MEMPLAN_ERR_VALUE, NULL, "did you mean \"bfloat16\"?"},
    {"training.parameter_dtype=bfloat16", MEMPLAN_OK, NULL, NULL},
    {"training.autocast=float16", MEMPLAN_OK, NULL, NULL},
    {"training.lora={\"r\": 16}", MEMPLAN_ERR_VALUE, "/training/lora/target_modules", "not given"},
    {"training.lora={\"r\": 16, \"target_modules\": [\"q_proj\"], \"alpha\": 32}", MEMPLAN_OK, NULL,
     NULL},
    {"training.lora={\"r\": 16, \"target_modules\": \"all-linear\"}", MEMPLAN_OK, NULL, NULL},
    {"training.lora={\"r\": 16, \"target_modules\": \"all-linaer\"}", MEMPLAN_ERR_VALUE,
     "/training/lora/target_modules", "did you mean \"all-linear\"?"},
    {"training.lora={\"r\": 16, \"target_modules\": [1]}", MEMPLAN_ERR_VALUE,
     "/training/lora/target_modules", "names of less than 64 bytes"},
    {"training.lora={\"target_modules\": [\"q_proj\"]}", MEMPLAN_ERR_VALUE, "/training/lora/r",
     "not given"},
    {"training.lora={\"r\": 16, \"target_modules\": [\"q_proj\"], \"bias\": \"all\"}",
     MEMPLAN_ERR_UNSUPPORTED, "/training/lora/bias", "modelled: none"},
    {"training.lora={\"r\": 8, \"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"x\": 4}}",
     MEMPLAN_ERR_UNSUPPORTED, "/training/lora/rank_pattern", NULL},
    {"training.lora=null", MEMPLAN_OK, NULL, NULL},
    {"training.padding=false", MEMPLAN_OK, NULL, NULL},
    {"training.padding=true", MEMPLAN_OK, NULL, NULL},
    {"training.frozen=[\"*norm*\"]", MEMPLAN_OK, NULL, NULL},
    {"training.frozen=\"*norm*\"", MEMPLAN_ERR_VALUE, "/training/frozen", "a list"},
    {"training.frozen=[1]", MEMPLAN_ERR_VALUE, "/training/frozen", "patterns"},
    {"training.frozen=[]", MEMPLAN_OK, NULL, NULL},
    {"training.use_cache=true", MEMPLAN_ERR_UNSUPPORTED, "/training/use_cache", NULL},
    {"training.quantization={\"name\": \"x\"}", MEMPLAN_ERR_VALUE, "/training/quantization/name",
     "none, bitsandbytes"},
    {"training.quantization={\"name\": \"gptq\"}", MEMPLAN_ERR_UNSUPPORTED,
     "/training/quantization/name", NULL},
    {"training.quantization={\"name\": \"bitsandbytes\"}", MEMPLAN_ERR_UNSUPPORTED,
     "/training/quantization", "with training.lora"},
    {"training.prepare_for_kbit=true", MEMPLAN_ERR_UNSUPPORTED, "/training/prepare_for_kbit", NULL},
    {"training.compile=inductor", MEMPLAN_ERR_UNSUPPORTED, NULL, "for eagle3 only"},
    {"training.ttt_steps=5", MEMPLAN_ERR_VALUE, "/training/ttt_steps", "eagle3"},
    {"training.gradient_clipping=true", MEMPLAN_OK, NULL, NULL},
    {"training.gradient_clipping=0", MEMPLAN_OK, NULL, NULL},
    {"training.gradient_clipping=-1", MEMPLAN_ERR_VALUE, NULL, "0 .. "},
    {"training.gradient_clipping=\"1\"", MEMPLAN_ERR_VALUE, NULL, "a number"},
    {"training.keep_outputs=1", MEMPLAN_ERR_VALUE, NULL, "true or false"},
    {"parallelism.strategy=megatron", MEMPLAN_ERR_UNSUPPORTED, "/parallelism/strategy", "ddp"},
    {"parallelism={\"strategy\":\"ddp\",\"world_size\":2,\"static_graph\":true}", MEMPLAN_OK, NULL,
     NULL},
    {"parallelism={\"strategy\":\"ddp\",\"world_size\":2,\"param_dtype\":\"bfloat16\"}",
     MEMPLAN_ERR_VALUE, "/parallelism/param_dtype", "strategy ddp, which has no such"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":2,\"bucket_cap_mb\":1}", MEMPLAN_ERR_VALUE,
     "/parallelism/bucket_cap_mb", "strategy fsdp2"},
    {"parallelism={\"strategy\":\"ddp\",\"world_size\":2,\"comm_hook\":\"fp16\"}",
     MEMPLAN_ERR_VALUE, "/parallelism/comm_hook", "fp16_compress_hook"},
    {"parallelism={\"strategy\":\"ddp\",\"world_size\":2,\"comm_hook\":\"powerSGD_hook\"}",
     MEMPLAN_ERR_UNSUPPORTED, "/parallelism/comm_hook", "bf16_compress_hook"},
    {"parallelism={\"strategy\":\"ddp\",\"world_size\":2,\"rank\":2}", MEMPLAN_ERR_VALUE,
     "/parallelism/rank", "less"},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"sharding_strategy\":\"NO_SHARD\"}",
     MEMPLAN_OK, NULL, NULL},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"sharding_strategy\":\"full_shard\"}",
     MEMPLAN_ERR_VALUE, "/parallelism/sharding_strategy", "FULL_SHARD"},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"sharding_strategy\":\"HYBRID_SHARD\"}",
     MEMPLAN_ERR_VALUE, "/parallelism/replicate", "more than 1"},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"replicate\":2}", MEMPLAN_ERR_VALUE,
     "/parallelism/replicate", "HYBRID_SHARD"},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"reduce_dtype\":\"float32\"}",
     MEMPLAN_ERR_UNSUPPORTED, "/parallelism/param_dtype", "needed"},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"limit_all_gathers\":false}",
     MEMPLAN_OK, NULL, NULL},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"activation_checkpointing\":true}",
     MEMPLAN_ERR_UNSUPPORTED, "/parallelism/activation_checkpointing", "full"},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"cpu_offload\":true,"
     "\"sharding_strategy\":\"NO_SHARD\"}",
     MEMPLAN_ERR_UNSUPPORTED, "/parallelism/cpu_offload", "one shard"},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"cpu_offload\":true,\"no_sync\":true}",
     MEMPLAN_ERR_UNSUPPORTED, "/parallelism/cpu_offload", "no_sync"},
    {"parallelism={\"strategy\":\"fsdp1\",\"world_size\":4,\"reshard_after_forward\":true}",
     MEMPLAN_ERR_VALUE, "/parallelism/reshard_after_forward", "strategy fsdp1"},
    {"parallelism={\"strategy\":\"zero2\",\"world_size\":4,\"overlap_comm\":true}", MEMPLAN_OK,
     NULL, NULL},
    {"parallelism={\"strategy\":\"zero3\",\"world_size\":4}", MEMPLAN_OK, NULL, NULL},
    {"parallelism={\"strategy\":\"zero3\",\"world_size\":4,\"sharding_strategy\":\"FULL_SHARD\"}",
     MEMPLAN_ERR_VALUE, "/parallelism/sharding_strategy", "strategy zero3"},
    {"parallelism={\"strategy\":\"zero3\",\"world_size\":4,\"replicate\":2}", MEMPLAN_ERR_VALUE,
     "/parallelism/replicate", "strategy zero3"},
    {"parallelism={\"strategy\":\"zero3\",\"world_size\":4,\"allgather_bucket_size\":1}",
     MEMPLAN_ERR_VALUE, "/parallelism/allgather_bucket_size", "strategy zero3"},
    {"parallelism={\"strategy\":\"zero3\",\"world_size\":4,\"offload_param\":\"disk\"}",
     MEMPLAN_ERR_VALUE, "/parallelism/offload_param", "nvme"},
    {"parallelism={\"strategy\":\"zero3\",\"world_size\":4,\"offload_param\":\"nvme\","
     "\"offload_param_buffer_count\":0}",
     MEMPLAN_ERR_VALUE, "/parallelism/offload_param_buffer_count", "1"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":4,\"decay_groups\":true}",
     MEMPLAN_ERR_VALUE, "/parallelism/decay_groups", "strategy fsdp2"},
    {"parallelism={\"strategy\":\"zero2\",\"offload_param_buffer_size\":5}", MEMPLAN_ERR_VALUE,
     "/parallelism/offload_param_buffer_size", "strategy zero2"},
    {"parallelism={\"strategy\":\"zero2\",\"offload_param_max_in_cpu\":5}", MEMPLAN_ERR_VALUE,
     "/parallelism/offload_param_max_in_cpu", "strategy zero2"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":4,\"sub_group_size\":1}",
     MEMPLAN_ERR_VALUE, "/parallelism/sub_group_size", "strategy fsdp2"},
    {"parallelism={\"strategy\":\"zero2\",\"offload_param\":\"cpu\"}", MEMPLAN_ERR_VALUE,
     "/parallelism/offload_param", "strategy zero2"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":8,\"reshard_after_forward\":4}",
     MEMPLAN_OK, NULL, NULL},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":8,\"reshard_after_forward\":3}",
     MEMPLAN_ERR_VALUE, "/parallelism/reshard_after_forward", "a divisor of the 8 shards"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":8,\"replicate\":2,"
     "\"root_reshard_after_forward\":8}",
     MEMPLAN_ERR_VALUE, "/parallelism/root_reshard_after_forward", "a divisor of the 4 shards"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":8,\"ignored_params\":[\"norm.weight\"]}",
     MEMPLAN_ERR_VALUE, "/parallelism/ignored_params", "foreach false"},
    {"parallelism={\"strategy\":\"zero2\",\"no_sync\":true}", MEMPLAN_ERR_VALUE,
     "/parallelism/no_sync", "strategy zero2"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":4,\"cpu_offload\":true}", MEMPLAN_OK, NULL,
     NULL},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":1,\"cpu_offload\":true}",
     MEMPLAN_ERR_UNSUPPORTED, "/parallelism/cpu_offload", "one shard"},
    {"parallelism={\"strategy\":\"ddp\",\"parameters_as_bucket_view\":true}", MEMPLAN_ERR_VALUE,
     NULL, "zero1"},
    {"parallelism.world_size=4", MEMPLAN_ERR_VALUE, "/parallelism/world_size", "strategy none"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":4,\"replicate\":3}", MEMPLAN_ERR_VALUE,
     "/parallelism/replicate", "divisor"},
    {"parallelism={\"strategy\":\"fsdp2\",\"world_size\":4,\"wrap\":\"root\"}", MEMPLAN_OK, NULL,
     NULL},
    {"parallelism.tensor_parallel_size=1", MEMPLAN_OK, NULL, NULL},
    {"parallelism.tensor_parallel_size=2", MEMPLAN_ERR_UNSUPPORTED, NULL, "Tensor"},
    {"parallelism.root_dtype=float32", MEMPLAN_ERR_VALUE, NULL, "eagle3"},
    {"model.num_key_value_heads=3", MEMPLAN_ERR_VALUE, "/model/num_key_value_heads", "divisor"},
    {"model.num_attention_heads=6", MEMPLAN_ERR_VALUE, "/model/hidden_size", "multiple"},
    {"model.head_dim=63", MEMPLAN_ERR_VALUE, "/model/head_dim", "even"},
    {"model.num_hidden_layers=4097", MEMPLAN_ERR_VALUE, NULL, "1 .. 4096"},
    {"model.vocab_size=2147483649", MEMPLAN_ERR_VALUE, NULL, "1 .. 2147483648"},
    {"model.attention_dropout=0", MEMPLAN_OK, NULL, NULL},
    {"model.attention_dropout=0.1", MEMPLAN_OK, NULL, NULL},
    {"model.pretraining_tp=1", MEMPLAN_OK, NULL, NULL},
    {"model.pretraining_tp=2", MEMPLAN_OK, NULL, NULL},
    {"model.quantization_config={\"bits\": 4}", MEMPLAN_ERR_UNSUPPORTED,
     "/model/quantization_config", "no quant_method"},
    {"model.quantization_config={\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true}",
     MEMPLAN_ERR_UNSUPPORTED, "/model/quantization_config/load_in_8bit", "8 bits"},
    {"model.quantization_config={\"load_in_4bit\": true}", MEMPLAN_ERR_UNSUPPORTED,
     "/training/quantization", "with training.lora"},
    {"model.hidden_act=gelu", MEMPLAN_OK, NULL, NULL},
    {"model.hidden_act=sigmoid", MEMPLAN_ERR_UNSUPPORTED, "/model/hidden_act", NULL},
    {"model.rope_scaling={\"rope_type\": \"dynamic\"}", MEMPLAN_OK, NULL, NULL},
    {"model.rope_scaling={\"rope_type\": \"llama3\", \"factor\": 8.0}", MEMPLAN_OK, NULL, NULL},
    {"model.model_type=mamba", MEMPLAN_ERR_UNSUPPORTED, "/model/model_type", "llama, "},
    {"model.model_type=lama", MEMPLAN_ERR_VALUE, "/model/model_type", "did you mean \"llama\"?"},
    {"model.model_type=lama", MEMPLAN_ERR_VALUE, "/model/model_type", "--assume"},
    {"model.model_type=mamba", MEMPLAN_ERR_UNSUPPORTED, "/model/model_type", "--assume"},
    {"model.assume=lama", MEMPLAN_ERR_VALUE, "/model/assume", "did you mean \"llama\"?"},
    {"model.assume=mamba", MEMPLAN_ERR_UNSUPPORTED, "/model/assume", "modelled: llama, "},
    {"model.assume=7", MEMPLAN_ERR_VALUE, "/model/assume", "the number 7"},
    {"model.assume=null", MEMPLAN_OK, NULL, NULL},
    {"training.loss.name=cross_entropy", MEMPLAN_OK, NULL, NULL},
    {"training.loss=kl_div", MEMPLAN_ERR_VALUE, NULL, "expected an object"},
    {"training.loss.name=kl_div", MEMPLAN_ERR_UNSUPPORTED, "/training/loss/name",
     "for eagle3 only"},
    {"training.loss.name=cut_cross_entropy", MEMPLAN_ERR_UNSUPPORTED, "/training/loss/name",
     "modelled: "},
    {"device.total_bytes=80 GB", MEMPLAN_OK, NULL, NULL},
    {"device.total_bytes=-1", MEMPLAN_ERR_VALUE, NULL, NULL},
    {"device.total_bytes=80 gigabytes", MEMPLAN_ERR_VALUE, NULL, "with a unit"},
    {"device.total_bytes=80", MEMPLAN_ERR_VALUE, NULL, "1048576 .. "},
    {"device.total_bytes=\"80\"", MEMPLAN_ERR_VALUE, NULL, "with a unit"},
    {"device.total_bytes=999999999999999 TB", MEMPLAN_ERR_VALUE, NULL, ".. "},
    {"device.compute_capability=12.0", MEMPLAN_OK, NULL, NULL},
    {"device.compute_capability=\"9.0\"", MEMPLAN_OK, NULL, NULL},
    {"device.compute_capability=\"nine\"", MEMPLAN_ERR_VALUE, NULL, "a number"},
    {"device.cudnn_attention=false", MEMPLAN_OK, NULL, NULL},
    {"device.allocator.conf=expandable_segments:True", MEMPLAN_OK, NULL, NULL},
    {"device.allocator.cnof=x", MEMPLAN_ERR_VALUE, NULL, "device.allocator.conf"},
    {"software.pytorch=2.10", MEMPLAN_OK, NULL, NULL},
    {"software.pytorch=nightly", MEMPLAN_ERR_VALUE, NULL, "a version"},
    {"software.pytorch=1.13.1", MEMPLAN_ERR_UNSUPPORTED, NULL, "before 2.0"},
    {"software.transformers=4.39.3", MEMPLAN_ERR_UNSUPPORTED, "/software/transformers", NULL},
    {"software.transformers=4.47.1", MEMPLAN_OK, NULL, NULL},
    {"software.transformers=4.48.3", MEMPLAN_OK, NULL, NULL},
    {"training.loss.reference=adapters_disabled", MEMPLAN_ERR_UNSUPPORTED,
     "/training/loss/reference", "needs training.lora"},
    {"training.activation_checkpointing=memory_budget", MEMPLAN_ERR_UNSUPPORTED,
     "/training/activation_checkpointing", NULL},
    {"training.activation_checkpointing=core_attention", MEMPLAN_OK, NULL, NULL},
    {"training.activation_checkpointing=selective", MEMPLAN_OK, NULL, NULL},
    {"training.float8.recipe_name=mxfp8", MEMPLAN_ERR_UNSUPPORTED, "/training/float8/recipe_name",
     NULL},
    {"training.float8={\"recipe_name\": \"tensorwise\", \"enable_fsdp_float8_all_gather\": "
     "true}",
     MEMPLAN_ERR_UNSUPPORTED, "/training/float8/enable_fsdp_float8_all_gather", NULL},
    {"training.float8.pad_inner_dim=true", MEMPLAN_ERR_UNSUPPORTED,
     "/training/float8/pad_inner_dim", NULL},
    {"training.transformer_engine.recipe=mxfp8", MEMPLAN_ERR_UNSUPPORTED,
     "/training/transformer_engine/recipe", NULL},
    {"training.transformer_engine.use_mxfp8_block_scaling=true", MEMPLAN_ERR_UNSUPPORTED,
     "/training/transformer_engine/use_mxfp8_block_scaling", NULL},
    {"training.float8={\"recipe_name\": \"tensorwise\"}", MEMPLAN_OK, NULL, NULL},
    {"framework={\"name\": \"trl-sft\", \"version\": \"main\"}", MEMPLAN_ERR_VALUE,
     "/framework/version", "such as 1.16.0"},
    {"framework={\"name\": \"trl-sft\", \"version\": \"0.8.6\"}", MEMPLAN_ERR_UNSUPPORTED,
     "/framework/version", "before 0.12"},
    {"framework={\"name\": \"transformers-trainer\", \"version\": \"5.24.0\"}", MEMPLAN_OK, NULL,
     NULL},
    {"framework.name=unsloth", MEMPLAN_ERR_UNSUPPORTED, "/framework/name", NULL},
    {"framework.name=speculators", MEMPLAN_ERR_UNSUPPORTED, "/framework/name", "eagle3"},
    {"name=a run", MEMPLAN_OK, NULL, NULL},
    {"training.micro_batch_size={\"any_of\": [1, 2]}", MEMPLAN_OK, NULL, NULL},
    {"training.micro_batch_size={\"any_of\": []}", MEMPLAN_ERR_VALUE, NULL, "at least one"},
    {"training.micro_batch_size={\"any_of\": 3}", MEMPLAN_ERR_VALUE, NULL, NULL},
    {"training.micro_batch_size={\"any_of\": [1, 1]}", MEMPLAN_ERR_VALUE, NULL, "twice"},
    {"training.micro_batch_size={\"any_of\": [1, [2]]}", MEMPLAN_ERR_VALUE, NULL, NULL},
    {"training.micro_batch_size={\"any_of\": [1, 0]}", MEMPLAN_ERR_VALUE,
     "/training/micro_batch_size/any_of/1", "1 .. "},
    {"training.micro_batch_size={\"any_of\": [1], \"x\": 2}", MEMPLAN_ERR_VALUE, NULL, "beside"},
    {"training.micro_batch_size={\"any_of\": [1,2", MEMPLAN_ERR_SYNTAX, NULL, "JSON"},
    {"observations=[{\"sequence_length\": 64, \"bytes\": \"1.5 GB\"}]", MEMPLAN_OK, NULL, NULL},
    {"observations=[{\"sequence_length\": 64, \"outcome\": \"oom\"}]", MEMPLAN_OK, NULL, NULL},
    {"observations=[{\"sequence_length\": 64}]", MEMPLAN_ERR_VALUE, "/observations/0", "nothing"},
    {"observations=[{\"outcome\": \"oom\"}]", MEMPLAN_ERR_VALUE, "/observations/0/sequence_length",
     "not given"},
    {"observations=[{\"sequence_length\": 64, \"outcome\": \"crashed\"}]", MEMPLAN_ERR_VALUE,
     "/observations/0/outcome", "ran, oom"},
    {"observations=[{\"sequence_length\": 64, \"bytes\": 5, \"outcome\": \"oom\"}]",
     MEMPLAN_ERR_VALUE, "/observations/0/bytes", NULL},
    {"observations=[{\"sequence_length\": 64, \"bytes\": -5}]", MEMPLAN_ERR_VALUE, NULL, NULL},
    {"observations=[{\"sequence_length\": 64, \"bytes\": \"9 XB\"}]", MEMPLAN_ERR_VALUE, NULL,
     NULL},
    {"observations=[{\"sequence_length\": 64, \"bytes\": \"5 GB\", \"unit\": \"GB\"}]",
     MEMPLAN_ERR_VALUE, "/observations/0/unit", NULL},
    {"observations=[{\"sequence_length\": 64, \"byte\": 5}]", MEMPLAN_ERR_VALUE,
     "/observations/0/byte", "observations[].bytes"},
    {"observations=[{\"sequence_length\": 64, \"bytes\": 5, \"set\": {\"x.y\": 1}}]",
     MEMPLAN_ERR_VALUE, "/observations/0/set/x.y", "no such field"},
    {"observations=[3]", MEMPLAN_ERR_VALUE, "/observations/0", NULL},
    {"observations=3", MEMPLAN_ERR_VALUE, "/observations", "a list"},
    {"observations[].bytes=3", MEMPLAN_ERR_VALUE, NULL, "as a whole"},
};

START_TEST(assignments)
{
    enum memplan_status status = try_set(PLAN, set_table[_i].assignment);
    const char *assignment = set_table[_i].assignment;

    ck_assert_msg(status == set_table[_i].status, "%s: status %d, %s", assignment, (int)status,
                  err.text);
    ck_assert_int_eq(err.status, status);
    if (set_table[_i].path)
        ck_assert_msg(strcmp(err.path, set_table[_i].path) == 0, "%s: %s", assignment, err.path);
    if (set_table[_i].says)
        ck_assert_msg(strstr(err.text, set_table[_i].says) != NULL, "%s: %s", assignment, err.text);
    if (status)
        ck_assert_str_eq(err.source, "test.json");
    ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

/* The same for a whole document. */
static const struct {
    const char *document;
    enum memplan_status status;
    const char *path, *says;
} document_table[] = {
    {"{}", MEMPLAN_ERR_VALUE, "/model/model_type", "not given"},
    {"{" LLAMA "}", MEMPLAN_ERR_VALUE, "/training/sequence_length", "not given"},
    {"{\"modle\": {}, " LLAMA "}", MEMPLAN_ERR_VALUE, "/modle", "no such field"},
    {"{\"model\": 3}", MEMPLAN_ERR_VALUE, "/model", "an object"},
    {"{" LLAMA ", \"training\": []}", MEMPLAN_ERR_VALUE, "/training", "an object"},
    {"{" LLAMA ", \"training\": {\"a/b~\": 1}}", MEMPLAN_ERR_VALUE, "/training/a~1b~0", NULL},
    {"{" LLAMA ", \"training\": {\"optimizer.name\": \"sgd\"}}", MEMPLAN_ERR_VALUE,
     "/training/optimizer.name", NULL},
    {"{" LLAMA ", \"about\": 3}", MEMPLAN_ERR_VALUE, "/about", "expected text"},
    {"{\"id\": 7, \"result\": {\"x\": [1]}, " LLAMA ", \"training\": {\"sequence_length\": 8, "
     "\"about\": \"x\"}}",
     MEMPLAN_OK, NULL, NULL},
    {"{\"card\": {\"cc\": \"12.0\"}, \"device\": {\"compute_capability\": 9.0}, " LLAMA "}",
     MEMPLAN_ERR_VALUE, "/card/cc", "say the same"},
    {"{\"card\": {\"total_mib\": \"x\"}, " LLAMA "}", MEMPLAN_ERR_VALUE, "/card/total_mib",
     "an integer"},
    {"{\"model_type\": \"llama\"}", MEMPLAN_ERR_VALUE, "/hidden_size", "not given"},
    {"{\"model_type\": 3}", MEMPLAN_ERR_VALUE, "/model_type", "llama, "},
    {"{" LLAMA ", \"training\": {\"sequence_length\": 8, \"autocast\": \"bfloat16\"}, "
     "\"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 2}}",
     MEMPLAN_OK, NULL, NULL},
};

START_TEST(documents)
{
    const char *text = document_table[_i].document;
    struct mpl_spec *spec = NULL;
    enum memplan_status status;

    memset(&err, 0, sizeof(err));
    status = mpl_spec_load(text, strlen(text), "d.json", &spec, &err);
    if (!status)
        status = mpl_spec_check(spec, &err);
    mpl_spec_free(spec);
    ck_assert_msg(status == document_table[_i].status, "%s: status %d, %s", text, (int)status,
                  err.text);
    if (document_table[_i].path)
        ck_assert_msg(strcmp(err.path, document_table[_i].path) == 0, "%s: %s", text, err.path);
    if (document_table[_i].says)
        ck_assert_msg(strstr(err.text, document_table[_i].says) != NULL, "%s: %s", text, err.text);
}
END_TEST

/* What the trainer of the drafter leaves no choice in. */
static const char *const eagle3_refusals[] = {
    "training.attention=sdpa",
    "training.optimizer.name=sgd",
    "training.micro_batch_size=2",
    "training.gradient_accumulation_steps=2",
    "training.activation_checkpointing=full",
    "training.autocast=bfloat16",
    "training.loss.name=cross_entropy",
    "training.packing=varying",
    "training.validation=true",
    "training.library_sees_torch=2.9.1",
    "parallelism.wrap=root",
    "parallelism.replicate=2",
    "model.num_hidden_layers=2",
    "framework.version=0.9.9",
    "framework.name=loop",
};

#define EAGLE3_CARD                                                                                \
    "{\"model\": {\"model_type\": \"eagle3\", \"hidden_size\": 512, \"intermediate_size\": 1024, " \
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"vocab_size\": 4096, "               \
    "\"draft_vocab_size\": 1024}, \"training\": {\"sequence_length\": 256, \"ttt_steps\": 2}, "    \
    "\"framework\": {\"name\": \"speculators\", \"version\": \"0.9.0\"}}"

/* From 0.7.0 on compiled code casts the weights on one card. */
START_TEST(eagle3_on_one_card_casts)
{
    static const char *const refused[] = {"model.num_key_value_heads=8", "software.pytorch=2.9.1",
                                          "training.python_gc=off", "training.autocast=float16"};

    ck_assert_msg(!try_set(EAGLE3_CARD, NULL), "%s", err.text);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        ck_assert_int_eq(try_set(EAGLE3_CARD, refused[i]), MEMPLAN_ERR_UNSUPPORTED);
    ck_assert_int_eq(try_set(EAGLE3_CARD, "parallelism={\"strategy\":\"ddp\",\"world_size\":2}"),
                     MEMPLAN_ERR_UNSUPPORTED);
}
END_TEST

#define DFLASH                                                                                     \
    "{\"model\": {\"model_type\": \"dflash\", \"hidden_size\": 512, \"intermediate_size\": 1024, " \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"vocab_size\": 4096, "                 \
    "\"draft_vocab_size\": 1024}, \"training\": {\"sequence_length\": 256, \"max_anchors\": 32}, " \
    "\"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 2}}"

/* What speculators' trainer leaves no choice in, or is not modelled. */
static const char *const dflash_refusals[] = {
    "parallelism.strategy=ddp",     "framework.version=0.6.0",
    "framework.name=specforge",     "training.loss.name=kl_div",
    "training.optimizer.name=muon", "training.activation_checkpointing=full",
    "training.attention=sdpa",      "training.python_gc=off",
    "model.sliding_window=128",     "model.attention_bias=true",
    "model.hidden_act=gelu",        "parallelism.root_dtype=float32",
};

START_TEST(dflash_refuses)
{
    enum memplan_status status = try_set(DFLASH, dflash_refusals[_i]);

    ck_assert_msg(status == MEMPLAN_ERR_UNSUPPORTED, "%s: status %d, %s", dflash_refusals[_i],
                  (int)status, err.text);
}
END_TEST

#define MTP                                                                                        \
    "{\"model\": {\"model_type\": \"mtp\", \"hidden_size\": 512, \"intermediate_size\": 1024, "    \
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"vocab_size\": 4096}, "              \
    "\"training\": {\"sequence_length\": 256}, "                                                   \
    "\"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 2}}"

static const char *const mtp_refusals[] = {
    "parallelism.strategy=ddp",    "framework.version=0.7.0",
    "framework.name=specforge",    "training.loss.name=kl_div",
    "training.attention=eager",    "training.python_gc=off",
    "model.num_key_value_heads=8", "model.layer_model_type=qwen3_next",
    "model.sliding_window=128",    "model.attention_bias=true",
    "model.hidden_act=gelu",       "training.optimizer.name=muon",
};

START_TEST(mtp_refuses)
{
    enum memplan_status status = try_set(MTP, mtp_refusals[_i]);

    ck_assert_msg(status == MEMPLAN_ERR_UNSUPPORTED, "%s: status %d, %s", mtp_refusals[_i],
                  (int)status, err.text);
}
END_TEST

START_TEST(mtp_has_fields_of_its_own)
{
    ck_assert_msg(!try_set(MTP, "training.num_speculative_steps=5"), "%s", err.text);
    ck_assert_int_eq(try_set(MTP, "training.max_anchors=3"), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(try_set(MTP, "training.sequence_length=4"), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(try_set(DFLASH, "training.num_speculative_steps=3"), MEMPLAN_ERR_VALUE);
}
END_TEST

START_TEST(dflash_has_fields_of_its_own)
{
    ck_assert_msg(!try_set(DFLASH, "model.block_size=16"), "%s", err.text);
    ck_assert_int_eq(try_set(DFLASH, "training.ttt_steps=3"), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(try_set(DFLASH, "training.sequence_length=8"), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(try_set(EAGLE3, "training.max_anchors=3"), MEMPLAN_ERR_VALUE);
}
END_TEST

/* From 0.7.0 on the trainer sets autocast and the formats; one card is not modelled. */
START_TEST(late_eagle3_is_sharded)
{
    ck_assert_msg(!try_set(EAGLE3, "framework.version=0.9.0"), "%s", err.text);
    ck_assert_int_eq(try_set(EAGLE3_ON_ONE_CARD, "framework.version=0.9.0"),
                     MEMPLAN_ERR_UNSUPPORTED);
}
END_TEST

START_TEST(eagle3_refuses)
{
    enum memplan_status status = try_set(EAGLE3, eagle3_refusals[_i]);

    ck_assert_msg(status == MEMPLAN_ERR_UNSUPPORTED, "%s: status %d, %s", eagle3_refusals[_i],
                  (int)status, err.text);
}
END_TEST

START_TEST(failed_set_changes_nothing)
{
    struct mpl_spec *spec = load(PLAN);
    char *before, *after;

    ck_assert_int_eq(mpl_spec_set(spec, "device.gpu={\"any_of\": [\"a\", \"b\"]}", &err), 0);
    ck_assert_int_eq(mpl_spec_to_json(spec, &before, &err), MEMPLAN_OK);
    ck_assert_int_eq(mpl_spec_set(spec, "training.steps=-1", NULL), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(mpl_spec_set(spec, "training.steps={\"any_of\": [1, 1]}", NULL),
                     MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(mpl_spec_to_json(spec, &after, &err), MEMPLAN_OK);
    ck_assert_str_eq(before, after);
    ck_assert_uint_eq(mpl_spec_combination_count(spec), 2);
    ck_assert_str_eq(mpl_spec_axis_path(spec, 0), "device.gpu");
    free(before);
    free(after);
    mpl_spec_free(spec);
}
END_TEST

START_TEST(combinations)
{
    struct mpl_spec *spec = load(PLAN);
    char text[128], *json;

    ck_assert_uint_eq(mpl_spec_combination_count(spec), 1);
    ck_assert_int_eq(
        mpl_spec_set(spec, "model.head_dim={\"any_of\": [64, 112, 128], \"why\": \"lost\"}", &err),
        MEMPLAN_OK);
    ck_assert_int_eq(
        mpl_spec_set(spec, "software.pytorch={\"any_of\":[\"2.9.1\",\"2.14.1\"]}", &err),
        MEMPLAN_OK);
    ck_assert_uint_eq(mpl_spec_axis_count(spec), 2);
    ck_assert_uint_eq(mpl_spec_combination_count(spec), 6);
    ck_assert_str_eq(mpl_spec_axis_why(spec, 0), "lost");
    ck_assert_ptr_null(mpl_spec_axis_why(spec, 1));
    for (size_t i = 0; i < 6; i++) {
        static const int64_t head_dims[] = {64, 112, 128};
        static const uint16_t minors[] = {9, 14};

        ck_assert_int_eq(mpl_spec_bind(spec, i, &plan, NULL, &err), MEMPLAN_OK);
        ck_assert_int_eq(plan.model.head_dim, head_dims[i / 2]);
        ck_assert_uint_eq(plan.pytorch.minor, minors[i % 2]);
        ck_assert_uint_eq(mpl_spec_choice(spec, i, 0), i / 2);
    }
    mpl_spec_describe(spec, 2, text, sizeof(text));
    ck_assert_str_eq(text, "model.head_dim = 112, software.pytorch = 2.9.1");
    mpl_spec_describe(spec, 2, text, 8);
    ck_assert_str_eq(text, "model.h");
    json = mpl_spec_choice_json(spec, 1, 0);
    ck_assert_str_eq(json, "\"2.9.1\"");
    free(json);
    ck_assert_int_eq(mpl_spec_bind(spec, 6, &plan, NULL, &err), MEMPLAN_ERR_ARG);
    mpl_spec_free(spec);
}
END_TEST

START_TEST(too_many_combinations)
{
    static const char *const paths[] = {"model.hidden_size", "model.vocab_size", "training.steps"};
    struct mpl_spec *spec = load(PLAN);
    char text[1024];

    for (size_t i = 0; i < 3; i++) {
        size_t used = (size_t)snprintf(text, sizeof(text), "%s={\"any_of\": [1", paths[i]);

        for (int j = 2; j <= 64; j++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, ",%d", j);
        snprintf(text + used, sizeof(text) - used, "]}");
        ck_assert_int_eq(mpl_spec_set(spec, text, &err), i < 2 ? MEMPLAN_OK : MEMPLAN_ERR_LIMIT);
    }
    ck_assert_uint_eq(mpl_spec_combination_count(spec), 4096);
    mpl_spec_free(spec);
}
END_TEST

START_TEST(readings)
{
    struct mpl_spec *spec =
        load("{" LLAMA ", \"training\": {\"sequence_length\": 128}, \"observations\": ["
             "{\"sequence_length\": 1, \"bytes\": \"28.5 GB\", \"metric\": \"reserved\"},"
             "{\"sequence_length\": 2, \"bytes\": \"39.80 GiB\"},"
             "{\"sequence_length\": 3, \"bytes\": 1234567},"
             "{\"sequence_length\": 4, \"bytes\": \"28.5\"},"
             "{\"sequence_length\": 5, \"bytes\": 28.5, \"unit\": {\"any_of\": [\"GB\", \"GiB\"]},"
             " \"metric\": {\"any_of\": [\"allocated\", \"device\"]}},"
             "{\"sequence_length\": 6, \"bytes\": 28, \"unit\": \"GiB\", \"outcome\": \"ran\"},"
             "{\"sequence_length\": 7, \"outcome\": \"oom\", \"source\": \"a log\","
             " \"set\": {\"training.micro_batch_size\": 4}},"
             "{\"sequence_length\": 8, \"bytes\": \"512 MiB\"},"
             "{\"sequence_length\": 9, \"bytes\": \"39800 MB\"}]}");
    const struct mpl_observation *o = plan.observations;

    ck_assert_msg(mpl_spec_bind(spec, 0, &plan, NULL, &err) == MEMPLAN_OK, "%s", err.text);
    ck_assert_uint_eq(plan.observation_count, 9);
    ck_assert_double_eq_tol(o[0].value, 28.5, 1e-12);
    ck_assert_double_eq_tol(o[0].resolution, 0.1, 1e-12);
    ck_assert_int_eq(o[0].unit, MPL_UNIT_GB);
    ck_assert_int_eq(o[0].metric, MPL_METRIC_RESERVED);
    ck_assert_uint_eq(o[0].metrics, 1U << MPL_METRIC_RESERVED);
    ck_assert_int_eq(o[1].unit, MPL_UNIT_GIB);
    ck_assert_double_eq_tol(o[1].resolution, 0.01, 1e-12);
    ck_assert_int_eq(o[1].metric, MPL_METRIC_UNKNOWN);
    ck_assert_uint_eq(o[1].metrics, 14);
    ck_assert_int_eq(o[2].unit, MPL_UNIT_BYTES);
    ck_assert_double_eq(o[2].value, 1234567);
    ck_assert_int_eq(o[3].unit, MPL_UNIT_UNKNOWN);
    ck_assert_uint_eq(o[3].units, 1U << MPL_UNIT_GB | 1U << MPL_UNIT_GIB);
    ck_assert_uint_eq(o[4].units, o[3].units);
    ck_assert_double_eq_tol(o[4].resolution, 0.1, 1e-12);
    ck_assert_uint_eq(o[4].metrics, 1U << MPL_METRIC_ALLOCATED | 1U << MPL_METRIC_DEVICE);
    ck_assert_int_eq(o[5].unit, MPL_UNIT_GIB);
    ck_assert_int_eq(o[5].outcome, MPL_OUTCOME_NUMBER);
    ck_assert_int_eq(o[6].outcome, MPL_OUTCOME_OOM);
    ck_assert_uint_eq(o[6].units, 0);
    ck_assert_str_eq(o[6].source, "a log");
    ck_assert(o[6].has_set);
    ck_assert_double_eq_tol(o[7].value, 0.5, 1e-12);
    ck_assert_double_eq_tol(o[8].value, 39.8, 1e-12);
    ck_assert_int_eq(mpl_spec_bind_reading(spec, 0, 6, &plan, &err), MEMPLAN_OK);
    ck_assert_int_eq(plan.training.sequence_length, 7);
    ck_assert_int_eq(plan.training.micro_batch_size, 4);
    ck_assert_int_eq(mpl_spec_bind_reading(spec, 0, 9, &plan, &err), MEMPLAN_ERR_ARG);
    mpl_spec_free(spec);
}
END_TEST

START_TEST(card_is_a_device)
{
    ck_assert_int_eq(
        try_set("{\"card\": {\"total_mib\": 97250, \"context_mib\": 600, \"nccl_mib\": 400, "
                "\"cc\": \"12.0\", \"sms\": 188, \"conf\": \"\"}, " LLAMA
                ", \"training\": {\"sequence_length\": 8}}",
                NULL),
        MEMPLAN_OK);
    ck_assert_int_eq(plan.device.total_bytes, INT64_C(97250) << 20);
    ck_assert_int_eq(plan.device.context_bytes, INT64_C(600) << 20);
    ck_assert_int_eq(plan.device.nccl_bytes, INT64_C(400) << 20);
    ck_assert_double_eq(plan.device.compute_capability, 12.0);
    ck_assert_int_eq(plan.device.multiprocessors, 188);
}
END_TEST

START_TEST(sizes)
{
    static const struct {
        const char *text;
        int64_t bytes; /* 0: refused, -1: no unit */
    } table[] = {
        {"1 B", 1},
        {"1 kB", 1000},
        {"28.5 GB", INT64_C(28500000000)},
        {"28.5GiB", INT64_C(30601641984)},
        {"1.000001 MB", 1000001},
        {"80 GB", INT64_C(80000000000)},
        {"2 TiB", INT64_C(2199023255552)},
        {"512", -1},
        {"0.5", -1},
        {"", 0},
        {"GB", 0},
        {"-1 GB", 0},
        {"+1 GB", 0},
        {"1e3 GB", 0},
        {"1,5 GB", 0},
        {"1. GB", 0},
        {"1.0000001 GB", 0},
        {"1 gb", 0},
        {"1 G", 0},
        {"1 GB ", 0},
        {"9999999999999999 B", 0},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct mpl_size size;
        int64_t bytes = 0;
        bool is_size = mpl_size_parse(table[i].text, &size);

        ck_assert_msg(is_size == (table[i].bytes != 0), "%s", table[i].text);
        if (table[i].bytes < 0)
            ck_assert_uint_eq(size.unit, 0);
        if (table[i].bytes > 0) {
            ck_assert(mpl_size_bytes(&size, &bytes));
            ck_assert_int_eq(bytes, table[i].bytes);
        }
    }
}
END_TEST

START_TEST(versions)
{
    struct mpl_version version;

    ck_assert(mpl_version_parse("2.14.1+cu130", &version));
    ck_assert(mpl_version_at_least(&version, 2, 14, 1) && mpl_version_at_least(&version, 2, 9, 9));
    ck_assert(!mpl_version_at_least(&version, 2, 14, 2) &&
              !mpl_version_at_least(&version, 3, 0, 0));
    ck_assert_str_eq(version.text, "2.14.1+cu130");
    ck_assert(mpl_version_parse("2.10", &version) && version.minor == 10 && version.patch == 0);
    ck_assert(mpl_version_parse("2.13.0a0+git1", &version));
    ck_assert(!mpl_version_parse("2", &version) && !mpl_version_parse("2.", &version) &&
              !mpl_version_parse("", &version) && !mpl_version_parse("v2.9", &version) &&
              !mpl_version_parse("2.99999", &version));
}
END_TEST

/* The table agrees with itself: defaults are accepted values, ranges name the accepted words. */
START_TEST(table_is_consistent)
{
    for (size_t i = 0; i < mpl_field_count(); i++) {
        const struct mpl_field *field = mpl_field_at(i);
        char list[1024];

        ck_assert_msg(mpl_field_find(field->path) == field, "%s stands twice", field->path);
        ck_assert_msg(field->help && field->help[strlen(field->help) - 1] == '.', "%s: help",
                      field->path);
        if (field->same_as)
            ck_assert_ptr_nonnull(mpl_field_find(field->same_as));
        if (field->words && field->type != MPL_FIELD_MODEL_TYPE &&
            field->type != MPL_FIELD_LAYER_WORDS && field->type != MPL_FIELD_NAMES) {
            mpl_word_list(field->words, list, sizeof(list));
            ck_assert_msg(strcmp(list, field->range) == 0, "%s: \"%s\" and \"%s\"", field->path,
                          list, field->range);
        }
        ck_assert_msg(!field->fallback || *field->fallback || field->range,
                      "%s: a field that is "
                      "needed has a range",
                      field->path);
    }
}
END_TEST

START_TEST(fields_are_listed)
{
    struct memplan_field field;
    size_t count = 0;

    while (mpl_spec_field(count, &field)) {
        ck_assert(field.path && field.type && field.range && field.fallback && field.help);
        count++;
    }
    ck_assert_uint_eq(count, mpl_field_count());
}
END_TEST

START_TEST(schema_names_every_section)
{
    static const char *const names[] = {"\"hidden_size\"", "\"any_of\"",    "\"world_size\"",
                                        "\"optimizer\"",   "\"allocator\"", "\"observations\"",
                                        "\"metric\"",      "\"required\""};
    struct mpl_spec *spec;
    char *schema;

    ck_assert_int_eq(mpl_spec_schema(&schema, &err), MEMPLAN_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_assert_msg(strstr(schema, names[i]) != NULL, "%s", names[i]);
    spec = load(schema); /* it is well-formed JSON */
    mpl_spec_free(spec);
    free(schema);
}
END_TEST

START_TEST(full_plan_binds_to_the_same)
{
    struct mpl_spec *spec = load(EAGLE3);
    static struct mpl_plan again;
    char *json;

    ck_assert_int_eq(mpl_spec_set(spec, "model.head_dim={\"any_of\": [64, 128]}", &err),
                     MEMPLAN_OK);
    ck_assert_int_eq(mpl_spec_bind(spec, 1, &plan, NULL, &err), MEMPLAN_OK);
    ck_assert_int_eq(plan.model.head_dim, 128);
    ck_assert_int_eq(mpl_spec_to_full_json(spec, 1, &json, &err), MEMPLAN_OK);
    mpl_spec_free(spec);
    spec = load(json);
    ck_assert_int_eq(mpl_spec_bind(spec, 0, &again, &notes, &err), MEMPLAN_OK);
    ck_assert_uint_eq(notes.count, 0);
    ck_assert_mem_eq(&plan, &again, sizeof(plan));
    free(json);
    mpl_spec_free(spec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spec");
    TCase *tcase = tcase_create("spec");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, minimal_plan_gets_defaults);
    tcase_add_test(tcase, eagle3_has_its_own_defaults);
    tcase_add_loop_test(tcase, assignments, 0, sizeof(set_table) / sizeof(set_table[0]));
    tcase_add_loop_test(tcase, documents, 0, sizeof(document_table) / sizeof(document_table[0]));
    tcase_add_test(tcase, late_eagle3_is_sharded);
    tcase_add_loop_test(tcase, dflash_refuses, 0,
                        sizeof(dflash_refusals) / sizeof(dflash_refusals[0]));
    tcase_add_test(tcase, dflash_has_fields_of_its_own);
    tcase_add_loop_test(tcase, mtp_refuses, 0, sizeof(mtp_refusals) / sizeof(mtp_refusals[0]));
    tcase_add_test(tcase, mtp_has_fields_of_its_own);
    tcase_add_test(tcase, eagle3_on_one_card_casts);
    tcase_add_loop_test(tcase, eagle3_refuses, 0,
                        sizeof(eagle3_refusals) / sizeof(eagle3_refusals[0]));
    tcase_add_test(tcase, failed_set_changes_nothing);
    tcase_add_test(tcase, combinations);
    tcase_add_test(tcase, too_many_combinations);
    tcase_add_test(tcase, readings);
    tcase_add_test(tcase, card_is_a_device);
    tcase_add_test(tcase, sizes);
    tcase_add_test(tcase, versions);
    tcase_add_test(tcase, table_is_consistent);
    tcase_add_test(tcase, fields_are_listed);
    tcase_add_test(tcase, schema_names_every_section);
    tcase_add_test(tcase, full_plan_binds_to_the_same);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
