/* SPDX-License-Identifier: MIT */
/* TABLE: the words that fields of a plan accept. Each list ends with a NULL word. */
#ifndef MPL_SPEC_WORDS_H
#define MPL_SPEC_WORDS_H

#include "spec/fields.h"

extern const struct mpl_word mpl_model_type_words[];
extern const struct mpl_word mpl_activation_words[];
extern const struct mpl_word mpl_layer_type_words[];
extern const struct mpl_word mpl_medusa_base_words[];
extern const struct mpl_word mpl_topk_method_words[];
extern const struct mpl_word mpl_rope_words[];
extern const struct mpl_word mpl_rope_static_words[];
extern const struct mpl_word mpl_weight_dtype_words[];
extern const struct mpl_word mpl_half_dtype_words[];
extern const struct mpl_word mpl_attention_words[];
extern const struct mpl_word mpl_experts_words[];
extern const struct mpl_word mpl_task_words[];
extern const struct mpl_word mpl_lora_target_words[];
extern const struct mpl_word mpl_lora_bias_words[];
extern const struct mpl_word mpl_adapter_code_words[];
extern const struct mpl_word mpl_quantization_words[];
extern const struct mpl_word mpl_quantization_type_words[];
extern const struct mpl_word mpl_float8_recipe_words[];
extern const struct mpl_word mpl_te_recipe_words[];
extern const struct mpl_word mpl_checkpointing_words[];
extern const struct mpl_word mpl_loss_words[];
extern const struct mpl_word mpl_reference_words[];
extern const struct mpl_word mpl_optimizer_words[];
extern const struct mpl_word mpl_metrics_words[];
extern const struct mpl_word mpl_zero_grad_words[];
extern const struct mpl_word mpl_compile_words[];
extern const struct mpl_word mpl_gc_words[];
extern const struct mpl_word mpl_mtp_layer_words[];
extern const struct mpl_word mpl_packing_words[];
extern const struct mpl_word mpl_strategy_words[];
extern const struct mpl_word mpl_wrap_words[];
extern const struct mpl_word mpl_sharding_words[];
extern const struct mpl_word mpl_comm_hook_words[];
extern const struct mpl_word mpl_prefetch_words[];
extern const struct mpl_word mpl_offload_words[];
extern const struct mpl_word mpl_framework_words[];
extern const struct mpl_word mpl_link_words[];
extern const struct mpl_word mpl_module_loading_words[];
extern const struct mpl_word mpl_resume_words[];
extern const struct mpl_word mpl_save_words[];
extern const struct mpl_word mpl_loading_words[];

/* Of observations. */
extern const struct mpl_word mpl_metric_words[];
extern const struct mpl_word mpl_unit_words[];
extern const struct mpl_word mpl_outcome_words[];

#endif
