# SPDX-License-Identifier: MIT
"""Model names of public readings: a preset of models/, or a family with the point's own sizes."""
import json
import os

# Name in a reading: preset in models/.
PRESETS = {
    "Mistral-7B-v0.1": "mistral-7b-v0.1",
    "Mistral-7B-v0.3": "mistral-7b-v0.3",
    "Llama-2-7B": "llama-2-7b",
    "Llama-2-70B": "llama-2-70b",
    "Llama-3-8B / 3.1-8B": "llama-3-8b",
    "Llama-3-70B / 3.1 / 3.3": "llama-3-70b",
    "Llama-3.2-3B": "llama-3.2-3b",
    "Gemma-7B": "gemma-7b",
    "Qwen2.5-32B": "qwen2.5-32b",
    "Qwen3-0.6B": "qwen3-0.6b",
    "Qwen3-8B": "qwen3-8b",
    "Qwen3-32B": "qwen3-32b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Mixtral-8x22B": "mixtral-8x22b",
    "GPT-J-6B": "gpt-j-6b",
    "gpt-oss-20b": "gpt-oss-20b",
}

# Name in a reading: family, for models without a preset; sizes are those of the reading.
FAMILIES = {
    "Vicuna-7B (LLaMA-7B architecture)": "llama",
    "LLaMA-7B": "llama",
    "LLaMA-13B": "llama",
    "LLaMA-65B": "llama",
    "DeepSeek-Coder-6.7B": "llama",
    "DeepSeek-Coder-33B": "llama",
    "DeepSeek-Prover-7B": "llama",
    "PowerLM-3B": "granite",
    "Qwen2-7B": "qwen2",
    "bert-large-uncased (encoder, sequence classification)": "bert",
}

SIZES = (("hidden", "hidden_size"), ("layers", "num_hidden_layers"),
         ("heads", "num_attention_heads"), ("kv_heads", "num_key_value_heads"),
         ("intermediate", "intermediate_size"), ("vocab", "vocab_size"),
         ("tied_embeddings", "tie_word_embeddings"))


def models_folder():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(here, "..", "..", "models")


def model_of(facts):
    """The model section of a plan, or None and the reason."""
    name = facts["name"]
    if name in PRESETS:
        path = os.path.join(models_folder(), PRESETS[name] + ".json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)["model"], ""
    if name not in FAMILIES:
        return None, "model that is no preset and of no family that is modelled: " + name
    section = {"model_type": FAMILIES[name]}
    for key, field in SIZES:
        if facts.get(key) is None:
            return None, "a size of the model is not stated: " + key
        section[field] = facts[key]
    if FAMILIES[name] == "bert":
        del section["num_key_value_heads"]
        section["hidden_act"] = "gelu"
        section["max_position_embeddings"] = 512
        section["hidden_dropout_prob"] = section["attention_probs_dropout_prob"] = 0.1
    return section, ""
