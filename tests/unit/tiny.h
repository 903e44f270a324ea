/* SPDX-License-Identifier: MIT */
/* Small plans for tests of the later stages: quick to trace, with figures given for the card. */
#ifndef TINY_H
#define TINY_H

#define TINY_MODEL(vocab)                                                                          \
    "\"model\": {\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 176,"      \
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": " vocab "}"

#define TINY_TRAINING(tokens)                                                                      \
    "\"training\": {\"sequence_length\": " tokens ", \"optimizer\": {\"name\": \"sgd\"}}"

/* A card of `total` bytes of which nothing else takes anything. */
#define TINY_CARD(total)                                                                           \
    "\"device\": {\"total_bytes\": " total ", \"context_bytes\": 0, \"nccl_bytes\": 0}"

/* With the releases written, so that the verdict's margin is memplan's own error. */
#define TINY_SOFTWARE "\"software\": {\"pytorch\": \"2.14.1\", \"transformers\": \"5.24.0\"}"
#define TINY_PLAN(tokens, total)                                                                   \
    "{" TINY_MODEL("1000") ", " TINY_TRAINING(tokens) ", " TINY_CARD(total) ", " TINY_SOFTWARE "}"

#endif
