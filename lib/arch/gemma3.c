/* SPDX-License-Identifier: MIT */
/* The text part of Gemma 3's files for text and pictures: Gemma3ForCausalLM over text_config.
 *
 * source: transformers/models/gemma3/configuration_gemma3.py; release 5.24.0 */
#include "arch/arch.h"
#include "arch/gemma.h"

static const struct mpl_config_key keys[] = {
    {"hidden_size", "text_config.hidden_size", NULL},
    {"intermediate_size", "text_config.intermediate_size", NULL},
    {"num_hidden_layers", "text_config.num_hidden_layers", NULL},
    {"num_attention_heads", "text_config.num_attention_heads", "8"},
    {"num_key_value_heads", "text_config.num_key_value_heads", "4"},
    {"head_dim", "text_config.head_dim", "256"},
    {"vocab_size", "text_config.vocab_size", "262208"},
    {"max_position_embeddings", "text_config.max_position_embeddings", "131072"},
    {"tie_word_embeddings", "text_config.tie_word_embeddings", "true"},
    {"attention_bias", "text_config.attention_bias", "false"},
    {"hidden_act", "text_config.hidden_activation", "\"gelu_pytorch_tanh\""},
    {"attention_dropout", "text_config.attention_dropout", "0.0"},
    {"final_logit_softcapping", "text_config.final_logit_softcapping", "null"},
    {"sliding_window", "text_config.sliding_window", "4096"},
    {"sliding_window_pattern", "text_config.sliding_window_pattern", "6"},
    {"layer_types", "text_config.layer_types", NULL},
    {"use_bidirectional_attention", "text_config.use_bidirectional_attention", NULL},
    {"rope_scaling.rope_type", "text_config.rope_scaling.rope_type", NULL},
    {"rope_scaling.type", "text_config.rope_scaling.type", NULL},
    {"rope_parameters.full_attention.rope_type",
     "text_config.rope_parameters.full_attention.rope_type", NULL},
    {"rope_parameters.sliding_attention.rope_type",
     "text_config.rope_parameters.sliding_attention.rope_type", NULL},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_gemma3 = {
    .config = {.model_type = "gemma3",
               .help = "Gemma 3, the text part",
               .note =
                   "gemma3 is taken as Gemma3ForCausalLM over its text_config; the vision tower "
                   "and its projector are not counted",
               .keys = keys,
               .derive = mpl_gemma3_derive,
               .check = mpl_gemma3_check},
    .family = &mpl_gemma3_family,
};
