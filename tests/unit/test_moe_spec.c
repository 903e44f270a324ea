/* SPDX-License-Identifier: MIT */
/* What families with experts accept and refuse. */
#include <string.h>

#include "pipeline.h"
#include "spec/spec.h"
#include "test.h"

#define SIZES                                                                                      \
    "\"hidden_size\": 256, \"intermediate_size\": 320, \"num_hidden_layers\": 2, "                 \
    "\"num_attention_heads\": 8, \"vocab_size\": 1000"
#define TRAINING         "\"training\": {\"sequence_length\": 16, \"parameter_dtype\": \"bfloat16\"}"
#define PLAN(type, more) "{\"model\": {\"model_type\": \"" type "\", " SIZES more "}, " TRAINING "}"

#define MIXTRAL PLAN("mixtral", "")
#define QWEN3   PLAN("qwen3_moe", "")
#define QWEN2   PLAN("qwen2_moe", ", \"num_key_value_heads\": 8")
#define V2      PLAN("deepseek_v2", ", \"num_experts_per_tok\": 6, \"moe_intermediate_size\": 1408")
#define V3      PLAN("deepseek_v3", "")
#define OSS                                                                                        \
    "{\"model\": {\"model_type\": \"gpt_oss\", " SIZES                                             \
    "}, \"training\": {\"sequence_length\": 16, "                                                  \
    "\"parameter_dtype\": \"bfloat16\", \"attention\": \"eager\"}}"

static struct memplan_error err;

static const struct {
    const char *plan, *assignment; /* NULL: as it is */
    enum memplan_status status;
    const char *path;
} row_table[] = {
    {MIXTRAL, NULL, MEMPLAN_OK, NULL},
    {QWEN3, NULL, MEMPLAN_OK, NULL},
    {QWEN2, NULL, MEMPLAN_OK, NULL},
    {V2, NULL, MEMPLAN_OK, NULL},
    {V3, NULL, MEMPLAN_OK, NULL},
    {OSS, NULL, MEMPLAN_OK, NULL},
    {MIXTRAL, "training.experts=batched_mm", MEMPLAN_OK, NULL},
    {MIXTRAL, "training.experts=eager", MEMPLAN_OK, NULL},
    {MIXTRAL, "training.experts=deepgemm", MEMPLAN_ERR_UNSUPPORTED, "/training/experts"},
    {MIXTRAL, "software.transformers=\"4.57.0\"", MEMPLAN_ERR_UNSUPPORTED,
     "/software/transformers"},
    {MIXTRAL, "software.pytorch=\"2.8.0\"", MEMPLAN_ERR_UNSUPPORTED, "/software/pytorch"},
    {MIXTRAL, "device.compute_capability=7.5", MEMPLAN_ERR_UNSUPPORTED,
     "/device/compute_capability"},
    {MIXTRAL, "model.router_jitter_noise=0.1", MEMPLAN_ERR_UNSUPPORTED,
     "/model/router_jitter_noise"},
    {MIXTRAL, "model.num_experts_per_tok=9", MEMPLAN_ERR_VALUE, "/model/num_experts_per_tok"},
    {MIXTRAL, "model.intermediate_size=100", MEMPLAN_ERR_VALUE, "/training/experts"},
    {MIXTRAL, "model.quantization_config={\"quant_method\": \"fp8\"}", MEMPLAN_ERR_UNSUPPORTED,
     "/model/quantization_config"},
    {QWEN3, "model.decoder_sparse_step=null", MEMPLAN_ERR_VALUE, "/model/decoder_sparse_step"},
    {QWEN2, "model.shared_expert_intermediate_size=null", MEMPLAN_ERR_VALUE,
     "/model/shared_expert_intermediate_size"},
    {V2, "model.num_experts_per_tok=null", MEMPLAN_ERR_VALUE, "/model/num_experts_per_tok"},
    {V2, "model.topk_method=noaux_tc", MEMPLAN_ERR_VALUE, "/model/topk_method"},
    {V2, "model.topk_method=group_limited_greedy", MEMPLAN_ERR_VALUE, "/model/n_group"},
    {V3, "model.n_group=null", MEMPLAN_ERR_VALUE, "/model/n_group"},
    {V3, "model.n_group=7", MEMPLAN_ERR_VALUE, "/model/n_group"},
    {V3, "model.n_group=256", MEMPLAN_ERR_VALUE, "/model/n_group"},
    {V3, "model.topk_group=9", MEMPLAN_ERR_VALUE, "/model/n_group"},
    {V3, "model.num_key_value_heads=4", MEMPLAN_ERR_VALUE, "/model/num_key_value_heads"},
    {V3, "model.kv_lora_rank=null", MEMPLAN_ERR_VALUE, "/model/kv_lora_rank"},
    {V3, "model.q_lora_rank=null", MEMPLAN_OK, NULL},
    {OSS, "training.attention=sdpa", MEMPLAN_ERR_UNSUPPORTED, "/training/attention"},
    {OSS, "model.sliding_window=null", MEMPLAN_ERR_VALUE, "/model/sliding_window"},
};

START_TEST(plans)
{
    const char *text = row_table[_i].plan, *assignment = row_table[_i].assignment;
    struct mpl_spec *spec = NULL;
    enum memplan_status status;

    memset(&err, 0, sizeof(err));
    ck_assert_int_eq(mpl_spec_load(text, strlen(text), "test.json", &spec, &err), MEMPLAN_OK);
    status = assignment ? mpl_spec_set(spec, assignment, &err) : MEMPLAN_OK;
    if (!status)
        status = mpl_spec_check(spec, &err);
    ck_assert_msg(status == row_table[_i].status, "%s: status %d, %s", assignment, (int)status,
                  err.text);
    if (row_table[_i].path)
        ck_assert_msg(!strcmp(err.path, row_table[_i].path), "%s: %s", assignment, err.path);
    mpl_spec_free(spec);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("moe_spec");

    tcase_add_loop_test(tcase, plans, 0, ROWS(row_table));
    return test_run("moe_spec", tcase);
}
