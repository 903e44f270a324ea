#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns readings of public runs, one JSON object a line, into plans of memplan.

usage: convert.py [--reasons] POINTS.jsonl

Prints one plan a line for every point that memplan can express; with --reasons one line for every
other one: id, tab, reason. Nothing is chosen for the sake of a reading: what a point leaves open is
any_of, or absent, which is the framework's default.
"""
import json
import re
import sys

from presets import model_of

# Frameworks whose model code is not transformers', by the start of their name.
OWN_CODE = (
    ("torchtitan", "torchtitan has model code of its own"),
    ("torchtune", "torchtune has model code of its own"),
    ("litgpt", "litgpt has model code of its own"),
    ("lit-gpt", "litgpt has model code of its own"),
    ("lit-llama", "lit-llama has model code of its own"),
    ("lightning-thunder", "thunder's benchmark runs litgpt's model code"),
    ("Megatron", "Megatron has model code of its own"),
    ("NeMo Automodel", "Automodel has model code and a loss of its own"),
    ("NeMo", "NeMo runs Megatron's model code"),
    ("llm-foundry", "llm-foundry has model code of its own"),
    ("mistral-finetune", "mistral-finetune has model code of its own"),
    ("nanoGPT", "nanoGPT has model code of its own"),
    ("Qwen finetune.py", "Qwen's first models bring model code of their own"),
    ("TransformerEngine", "modules of Transformer Engine"),
    ("unsloth", "unsloth has kernels of its own"),
    ("AngelSlim", "AngelSlim's drafter"),
    ("EAGLE-1", "EAGLE-1's drafter"),
    ("dllm", "model code outside transformers"),
    ("starcoder", "weights in 8 bits"),
    ("fms-acceleration bench (moe)", "ScatterMoE's experts, and a length that varies"),
)

# Release of transformers that was current in a month, where a point gives a date and no release.
RELEASED = (
    ((2024, 4), "4.40.2"), ((2024, 6), "4.41.2"), ((2024, 7), "4.42.4"), ((2024, 8), "4.44.2"),
    ((2024, 10), "4.45.2"), ((2024, 12), "4.47.1"), ((2025, 1), "4.48.0"),
)
SINCE_TRL_0_14 = "4.48.0"  # both are of 2025-01

# Month of issues whose points do not say it, and the release of PyTorch in their traceback.
ISSUES = {
    "lm-sys/FastChat issue 1781": ("2023-06", "2.0.1"),
    "lm-sys/FastChat issue 2681": ("2023-11", None),  # between 2556, 2023-10, and 2701, 2023-12
}

# Card names of the points, and those of memplan's table.
CARDS = (
    ("A100 40GB", ["A100-SXM4-40GB", "A100-PCIE-40GB"]),
    ("A100 80GB", ["A100-SXM4-80GB", "A100 80GB PCIe"]),
    ("A100 (size not stated)", ["A100-SXM4-40GB", "A100-SXM4-80GB", "A100 80GB PCIe"]),
    ("A800 80GB", ["A100-SXM4-80GB", "A100 80GB PCIe"]),
    ("H100 80GB", ["H100 80GB HBM3", "H100 PCIe"]),
    ("H200", ["NVIDIA H200 NVL"]),
    ("A10G", ["NVIDIA A10G"]),
    ("A40", ["NVIDIA A40"]),
    ("L40S", ["NVIDIA L40S"]),
    ("L40 ", ["NVIDIA L40"]),
    ("L20", ["NVIDIA L20"]),
    ("L4 ", ["NVIDIA L4"]),
    ("T4", ["Tesla T4"]),
    ("V100 16GB", ["Tesla V100-SXM2-16GB", "Tesla V100-PCIE-16GB"]),
    ("V100 32GB", ["Tesla V100-SXM2-32GB", "Tesla V100-PCIE-32GB"]),
    ("RTX 3090", ["GeForce RTX 3090"]),
    ("RTX 4090", ["GeForce RTX 4090"]),
    ("A6000 Ada", ["RTX 6000 Ada Generation"]),
    ("A6000", ["RTX A6000"]),
    ("A5000", ["RTX A5000"]),
)

TARGETS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj",
           "gate": "gate_proj", "up": "up_proj", "down": "down_proj"}


class Cannot(Exception):
    """A point that memplan cannot express, and why."""


def left_open(values, why):
    """One value, or all of them where nobody wrote it down."""
    return values[0] if len(values) == 1 else {"any_of": values, "why": why}


def text(point, key):
    return str(point.get(key) or "")


def refuse_by_framework(point):
    name = text(point, "framework")
    for start, why in OWN_CODE:
        if name.startswith(start):
            raise Cannot(why)
    if point["completeness"] == 0:
        raise Cannot("completeness 0: not a reading of a step")
    if "component" in point["kind"]:
        raise Cannot("one operator or loss alone, no step")
    if not name:
        raise Cannot("framework not stated")
    if "foak" in point["id"]:
        raise Cannot("fms-acceleration's fused operators and kernels")
    if "unsloth" in name:
        raise Cannot("unsloth has kernels of its own")
    named = point["id"] + point["model"]["name"]
    if re.search(r"medusa|EAGLE|draft|MTP|DFlash|Domino", named, re.I):
        raise Cannot("a drafter whose vocabularies or kind the point leaves out")
    for way in ("tp", "pp", "cp", "ep"):
        size = point["parallelism"].get(way)
        if size not in (None, 1):
            raise Cannot("parallelism of a kind that is not modelled: " + way)


def refuse_by_facts(point):
    if "generation" in text(point, "notes"):
        raise Cannot("the reading may be of an evaluation that generates")
    for key, what in (("seq", "sequence length"), ("micro_batch", "micro-batch"), ("gpus", "GPUs"),
                      ("param_dtype", "number format of the weights")):
        if point.get(key) is None:
            raise Cannot(what + " not stated")
    if re.search("int8|GPTQ|AWQ|int4|hqq", text(point, "param_dtype"), re.I):
        raise Cannot("weights in 8 bits, GPTQ or AWQ")
    if point.get("compile") not in (None, False):
        raise Cannot("a compiled model")


def releases(point):
    """The software section, the framework's release, and what had to be replaced."""
    name = text(point, "framework")
    software, replaced = {}, []
    found = re.search(r"torch (\d+\.\d+(?:\.\d+)?)", name)
    if found:
        software["pytorch"] = found.group(1)
    found = re.search(r"transformers (\d+\.\d+\.\d+)", name)
    month, traced = ISSUES.get(text(point, "source"), ("", None))
    date = re.search(r"(20\d\d)-(\d\d)", name + " " + text(point, "source") + " " + month)
    if traced:
        software["pytorch"] = traced
    if found:
        software["transformers"] = found.group(1)
    elif "transformers 4.2x" in name:
        software["transformers"] = "4.57.0"  # the first one whose masks for BERT are modelled
        replaced.append("transformers 4.57.0 stands for 4.2x")
    elif name.startswith("fsdp_qlora"):
        software["transformers"] = "4.40.0"
        replaced.append("transformers 4.40.0 stands for an older one")
    elif "Liger-Kernel 0.1-0.2" in name and "fused" in text(point, "loss"):
        software["transformers"] = "4.48.0"  # the first one with which that loss is modelled
        replaced.append("transformers 4.48.0 stands for one of 2024-08")
    elif "Liger-Kernel 0.1-0.2" in name:
        software["transformers"] = "4.44.2"
    elif date:
        month = (int(date.group(1)), int(date.group(2)))
        current = [release for since, release in RELEASED if since <= month]
        if month < (2024, 4):
            replaced.append("transformers 4.40.0 stands for an older one")
        if month < (2025, 3):
            software["transformers"] = current[-1] if current else "4.40.0"
    return software, replaced


def framework(point, software):
    name = text(point, "framework")
    found = re.search(r"trl (\d+\.\d+\.\d+)", name)
    if name.startswith("fms-") or name.startswith("trl"):
        section = {"name": "trl-sft"}
        if found:
            section["version"] = found.group(1)
        elif software.get("transformers") == SINCE_TRL_0_14:
            section["version"] = "0.14.0"
        elif software.get("transformers", "").startswith("4.45."):
            section["version"] = "0.12.0"  # refs/requirements_granite.txt: 0.12 of 2024-09, not yet released
        return section
    if re.search(r"fsdp_qlora|llama-recipes|OpenRLHF|peft dev|peft method", name):
        return {"name": "loop"}
    if name.startswith("accelerate"):
        return {"name": "accelerate"}
    section = {"name": "transformers-trainer"}
    if "transformers" in software:
        section["version"] = software["transformers"]
    return section


def has_sdpa(point):
    """Whether the run's transformers is known to be 4.36 (2023-12) or newer."""
    named = text(point, "framework") + " " + text(point, "source")
    month = re.search(r"(20\d\d)-(\d\d)", named)
    return bool(re.search(r"transformers \d", named)
                or re.search(r"Llama-3|Qwen2|Gemma|Mixtral", point["model"]["name"])  # came after
                or (month and (int(month.group(1)), int(month.group(2))) > (2023, 12)))


def attention(point):
    name = text(point, "attention_impl").lower()
    if "flash-attn" in name:
        return "flash_attention_2"
    if "eager" in name and "sdpa" not in name:
        return "eager"
    if "sdpa" in name and "eager" not in name:
        return "sdpa"
    if not name:
        # transformers has sdpa since 4.36, and takes it; before, eager was all it had.
        return None if has_sdpa(point) else left_open(["sdpa", "eager"], "not stated")
    return left_open(["sdpa", "eager"], "the point says: " + name)


def checkpointing(point):
    name = text(point, "activation_checkpointing")
    if name.startswith("full"):
        return "full"
    if name.startswith("none"):
        return "none"
    return left_open(["none", "full"], "not stated")


def number_formats(point, plan, sharded):
    """parameter_dtype, autocast and, with FSDP, the policy of accelerate."""
    weights, mixed = text(point, "param_dtype"), text(point, "mixed_precision")
    training = plan["training"]
    half = None
    if not mixed.startswith("none") and mixed:
        half = "float16" if mixed.startswith("fp16") else "bfloat16"
    own_loop = plan["framework"]["name"] == "loop"
    if re.match(r"nf4|4-bit", weights, re.I):
        kept = half or ("float16" if "fp16" in weights else "bfloat16")
    elif weights.startswith("fp32"):
        kept = "float32"
    elif weights.startswith("fp16"):
        kept = "float16"
    elif weights.startswith("bf16"):
        kept = "bfloat16"
    else:
        raise Cannot("number format of the weights not stated")
    training["parameter_dtype"] = kept
    if "inferred" in weights:
        # With bf16 set, accelerate casts weights that train to float32 before FSDP1 shards them.
        training["parameter_dtype"] = left_open(["float32", "bfloat16"], weights)
    zero = plan["parallelism"]["strategy"].startswith("zero")
    if half and not zero and not own_loop:
        training["autocast"] = half
        if half == "float16":
            training["loss_scaling"] = True
    if half and sharded and not own_loop:
        for key in ("param_dtype", "reduce_dtype", "buffer_dtype"):
            plan["parallelism"][key] = half


def parallelism(point):
    how = point["parallelism"]
    gpus, stage = point["gpus"], how.get("zero_stage")
    offload = text(how, "offload") + text(how, "cpu_offload")
    section = {"strategy": "none", "world_size": gpus}
    impl = text(how, "impl") + text(point, "framework")
    if stage not in (None, 0):
        section["strategy"] = "zero%d" % int(str(stage)[0])
        if re.search("optim|cpu", offload):
            section["offload_optimizer"] = "cpu"
    elif "NO_SHARD" in impl:
        section.update(strategy="fsdp1", sharding_strategy="NO_SHARD")
    elif "FSDP2" in impl:
        section["strategy"] = "fsdp2"
    elif (how.get("fsdp") or 1) > 1:
        section["strategy"] = "fsdp1"  # also where the kind is not stated: accelerate's default
    elif gpus > 1:
        section["strategy"] = "ddp"
    if how.get("cpu_offload") is True or "Parameters offloaded" in text(point, "notes"):
        section["cpu_offload"] = True
    if point["id"].startswith("fms-") and section["strategy"] == "fsdp1":
        section["sync_module_states"] = True  # scripts/benchmarks/accelerate.yaml
    return section


def adapters(point, plan):
    lora = point.get("lora")
    if not lora:
        return
    method = text(lora, "method")
    if re.search("ia3|prefix|boft|layernorm|fa$|int8|gptq|awq", method, re.I):
        raise Cannot("adapters of a kind that is not modelled: " + method)
    if not lora.get("r"):
        raise Cannot("rank of the adapters not stated")
    named = text(lora, "targets").split(" (")[0].replace(" ", "")
    if named in ("alllinear", "all-linear"):
        targets = "all-linear"
    elif named:
        targets = [TARGETS.get(word, word) for word in named.split(",")]
    elif "LLaMA-Factory" in text(point, "framework"):
        targets = "all-linear"  # lora_target: all
    else:
        raise Cannot("targets of the adapters not stated")
    training = plan["training"]
    training["lora"] = {"r": lora["r"], "target_modules": targets}
    if lora.get("dropout"):
        training["lora"]["dropout"] = lora["dropout"]
    if method == "dora":
        training["lora"]["use_dora"] = True
    if point["id"].startswith("peft-metamath"):
        training["lora"]["adapter_dtype"] = "bfloat16"  # autocast_adapter_dtype: false
    if point["id"].startswith("fsdpqlora"):
        # train.py: lora_dropout, and a peft that gave adapters the format of what they adapt.
        training["lora"].update(dropout=0.1, adapter_dtype="bfloat16")
    if plan["parallelism"]["strategy"] == "fsdp1":
        # peft's fsdp_auto_wrap_policy, which the Trainer and llama-recipes take.
        plan["parallelism"]["wrap"] = "layer+adapters"
    if "qlora" in method:
        quantized(point, plan)


def quantized(point, plan):
    section = {"name": "bitsandbytes", "type": "nf4", "double": True,
               "compute_dtype": plan["training"]["parameter_dtype"]}
    if "fp4/nf4" in text(point["lora"], "method"):
        section["type"] = "nf4"
    elif not point["id"].startswith(("fms-", "fsdpqlora", "qlora-", "fastchat")):
        section["double"] = left_open([False, True], "not stated")
    if plan["parallelism"]["strategy"] in ("fsdp1", "fsdp2"):
        section["storage_dtype"] = plan["training"]["parameter_dtype"]
    plan["training"]["quantization"] = section
    trainer = plan["framework"]["name"] != "loop"
    if trainer and "accelerated" not in point["id"] and plan["parallelism"]["strategy"] == "none":
        plan["training"]["prepare_for_kbit"] = True


def optimizer(point, plan):
    opt = point.get("optimizer") or {}
    name, impl = text(opt, "name"), text(opt, "impl")
    section = {}
    if name == "AdamW":
        if "foreach" in impl:
            section = {"name": "adamw", "foreach": True}
        elif "loop" in impl:
            section = {"name": "adamw", "foreach": False}
        elif plan["framework"]["name"] == "loop":
            section = {"name": "adamw"}
    elif name == "Adafactor":
        section = {"name": "adafactor_hf"}
    elif name == "Adam8bit":
        section = {"name": "adamw_bnb_8bit"}
    elif name.startswith("paged_"):
        section = {"name": name}
    else:
        raise Cannot("optimizer that is not modelled: " + (name or "not stated"))
    if section:
        plan["training"]["optimizer"] = section


def loss(point, plan):
    name = text(point, "loss")
    if "2-class" in name:
        plan["training"]["loss"] = {"name": "sequence_classification", "num_labels": 2}
    elif re.search("liger fused|fused linear", name, re.I):
        plan["training"]["loss"] = {"name": "fused_linear_cross_entropy"}
    elif re.search("triton|mini-seq|chunk", name, re.I):
        raise Cannot("loss that is not modelled: " + name)
    elif name.startswith("HF") and plan["framework"]["name"] == "trl-sft":
        plan["training"]["loss"] = {"name": "cross_entropy"}


def accumulation(point, plan):
    """Where nobody wrote it down and gradients would be whole until the last micro-step, both."""
    steps, how = point.get("grad_accum"), plan["parallelism"]["strategy"]
    if isinstance(steps, int) and steps > 1:
        plan["training"]["gradient_accumulation_steps"] = steps
    elif point["id"].startswith("liger-"):
        return  # examples/huggingface/run_*.sh, benchmark/ set none
    elif steps is None and how in ("fsdp1", "fsdp2") and plan["framework"]["name"] != "loop":
        plan["training"]["gradient_accumulation_steps"] = left_open([1, 2], "not stated")


def device(point):
    name = text(point, "gpu_type")
    section = {}
    for start, cards in CARDS:
        if name.startswith(start):
            section["gpu"] = left_open(cards, "which card of that name is not stated")
            break
    stated = re.search(r"about (\d+) MiB of CUDA context", text(point, "notes"))
    if stated:
        section["context_bytes"] = stated.group(1) + " MiB"
    return section


def fsdp_checkpointing(point, plan):
    """FSDP's own option: checkpoint_wrapper, which accelerate makes without re-entrance."""
    if "FSDP activation checkpointing" not in text(point, "activation_checkpointing"):
        if not point["id"].startswith("fsdpqlora"):
            return
    if plan["parallelism"]["strategy"] == "fsdp1":
        plan["parallelism"]["activation_checkpointing"] = True
        plan["training"].setdefault("use_reentrant", False)


def fsdp_qlora(point, plan):
    """What its train.py sets."""
    if text(point, "framework").startswith("fsdp_qlora"):
        plan["training"]["gradient_clipping"] = 0.3
        plan["parallelism"]["use_orig_params"] = False


def old_pytorch(point, plan):
    """Before PyTorch 2.0 zero_grad kept zeroed gradients; the Trainer of 4.2x called it so."""
    if "transformers 4.2x" in text(point, "framework"):
        plan["training"]["zero_grad_set_to_none"] = False


def seq_is_bound(point):
    return bool(re.search("upper bound|varies|unpacked", text(point, "notes")))


def convert(point):
    """The plan of one point; raises Cannot."""
    refuse_by_framework(point)
    refuse_by_facts(point)
    software, replaced = releases(point)
    model, remark = model_of(point["model"])
    if model is None:
        raise Cannot(remark)
    plan = {"id": point["id"], "model": model, "training": {
        "sequence_length": point["seq"], "micro_batch_size": point["micro_batch"]},
        "framework": framework(point, software), "parallelism": parallelism(point)}
    accumulation(point, plan)
    strategy = plan["parallelism"]["strategy"]
    number_formats(point, plan, sharded=strategy not in ("none", "ddp") and "zero" not in strategy)
    kind = attention(point)
    if kind:
        plan["training"]["attention"] = kind
    plan["training"]["activation_checkpointing"] = checkpointing(point)
    if "reentrant" in text(point, "activation_checkpointing"):
        plan["training"]["use_reentrant"] = True
    optimizer(point, plan)
    loss(point, plan)
    adapters(point, plan)
    fsdp_checkpointing(point, plan)
    fsdp_qlora(point, plan)
    old_pytorch(point, plan)
    if software:
        plan["software"] = software
    card = device(point)
    if card:
        plan["device"] = card
    if "liger" in point["id"] and "-hf" not in point["id"]:
        replaced.append("Liger's norm, MLP and rotary kernels are not in the plan")
    plan["about"] = "; ".join(replaced)
    return plan


def read_points(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main():
    words = [word for word in sys.argv[1:] if word != "--reasons"]
    if len(words) != 1:
        sys.exit(__doc__)
    for point in read_points(words[0]):
        try:
            plan = convert(point)
        except Cannot as why:
            if "--reasons" in sys.argv:
                print("%s\t%s" % (point["id"], why))
            continue
        if "--reasons" not in sys.argv:
            print(json.dumps(plan))


if __name__ == "__main__":
    main()
