# SPDX-License-Identifier: MIT
"""A plan from live objects: a transformers model or Trainer, and TrainingArguments.

Their own JSON goes to the library's readers, as `memplan import` would read it from files; only
what no file says is taken from the objects here. Nothing of torch or transformers is imported.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import _card, _library
from ._errors import PlanError
from ._plan import Live, Plan, import_texts
from ._weights import Weights, adapter_document, base_model, not_modelled, plain_json

_DTYPES = {"torch.float32": "float32", "torch.bfloat16": "bfloat16", "torch.float16": "float16"}

# The head of a model by the end of its class's name, and the fields that say so.
_HEADS: List[Tuple[str, Dict[str, Any]]] = [
    ("ForCausalLM", {}),
    ("LMHeadModel", {}),
    ("ForConditionalGeneration", {}),
    ("ForMaskedLM", {"training.task": "masked_lm"}),
    ("ForSequenceClassification", {"training.loss.name": "sequence_classification"}),
]

# Counts of a configuration that a mixture has.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


# ---- the model ----


def _unwrap(model: Any) -> Tuple[Any, Optional[str]]:
    """The model itself, and what it was wrapped in."""
    wrapper = None
    while True:
        kind = type(model).__name__
        if kind == "OptimizedModule":
            raise not_modelled("torch.compile of a live model is not modelled", "/training/compile")
        if kind == "DataParallel":
            raise not_modelled("nn.DataParallel is not modelled, expected one process a card")
        if kind not in ("DistributedDataParallel", "FullyShardedDataParallel", "DeepSpeedEngine"):
            return model, wrapper
        wrapper, model = kind, model.module


def _check_devices(model: Any) -> None:
    devices = {str(device) for device in (getattr(model, "hf_device_map", None) or {}).values()}
    if len(devices) > 1:
        raise not_modelled(
            "a model that is spread over several devices (device_map) is not modelled: found "
            + ", ".join(sorted(devices))
        )


def _head(base: Any) -> Dict[str, Any]:
    name = type(base).__name__
    for end, values in _HEADS:
        if name.endswith(end):
            found = dict(values)
            if "training.loss.name" in found:
                found["training.loss.num_labels"] = int(base.config.num_labels)
            return found
    raise not_modelled(
        f"the head of {name} is not modelled, expected a class that ends in "
        + ", ".join(end for end, _ in _HEADS)
    )


def _config(base: Any) -> Dict[str, Any]:
    """config.json as save_pretrained writes it."""
    config = getattr(base, "config", None)
    if config is None:
        raise PlanError(f"{type(base).__name__} has no config: expected a transformers model")
    if hasattr(config, "to_json_string"):
        result: Dict[str, Any] = json.loads(config.to_json_string())
        return result
    return plain_json(config.to_dict())


# ---- TrainingArguments, Trainer ----


def _arguments(args: Any) -> Dict[str, Any]:
    document = plain_json(args if isinstance(args, Mapping) else args.to_dict())
    live = getattr(getattr(args, "hf_deepspeed_config", None), "config", None)
    if live and document.get("deepspeed"):
        document["deepspeed"] = plain_json(live)  # a path, which the reader would not open
    return document


def _fsdp_of(state: Any) -> Optional[Dict[str, Any]]:
    """FSDP that `accelerate launch` set up, as its configuration would say it."""
    plugin = getattr(state, "fsdp_plugin", None)
    if plugin is None:
        return None
    document: Dict[str, Any] = {"fsdp_version": int(getattr(plugin, "fsdp_version", 1) or 1)}
    names = {
        "fsdp_cpu_ram_efficient_loading": "cpu_ram_efficient_loading",
        "fsdp_activation_checkpointing": "activation_checkpointing",
        "fsdp_use_orig_params": "use_orig_params",
        "fsdp_sync_module_states": "sync_module_states",
        "fsdp_forward_prefetch": "forward_prefetch",
        "fsdp_transformer_layer_cls_to_wrap": "transformer_cls_names_to_wrap",
    }
    for key, name in names.items():
        value = getattr(plugin, name, None)
        if value is not None:
            document[key] = ",".join(value) if isinstance(value, (list, tuple, set)) else value
    document["fsdp_offload_params"] = bool(
        getattr(getattr(plugin, "cpu_offload", None), "offload_params", plugin.cpu_offload)
    )
    reshard = getattr(plugin, "reshard_after_forward", None)
    if document["fsdp_version"] == 1:
        strategy = getattr(plugin, "sharding_strategy", None)
        document["fsdp_sharding_strategy"] = getattr(strategy, "name", strategy)
    elif isinstance(reshard, (bool, int)):
        document["fsdp_reshard_after_forward"] = reshard
    return {key: value for key, value in document.items() if value is not None}


def _deepspeed_of(state: Any) -> Optional[Dict[str, Any]]:
    plugin = getattr(state, "deepspeed_plugin", None)
    config = getattr(plugin, "deepspeed_config", None)
    return plain_json(config) if config else None


def _accelerator_state() -> Optional[Any]:
    """accelerate's own, once a Trainer or a script has set it up."""
    found = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    return found() if found is not None and getattr(found, "_shared_state", None) else None


class _Run:
    """The model, its arguments, and whose loop it is."""

    def __init__(self, model: Any, args: Any) -> None:
        trainer = (
            model
            if hasattr(model, "args")
            and hasattr(model, "model")
            and hasattr(model, "train_dataset")
            else None
        )
        self.notes: List[str] = []
        self.strategy: Dict[str, Dict[str, Any]] = {}
        if trainer is not None:
            args = trainer.args if args is None else args
            model = trainer.model
            self._take_trainer(trainer)
        elif args is not None and not isinstance(args, Mapping):
            self._take_state(_accelerator_state(), args)
        self.model, self.wrapper = _unwrap(model)
        self.args = args
        _check_devices(self.model)

    def _take_trainer(self, trainer: Any) -> None:
        if getattr(trainer.args, "_n_gpu", 1) > 1:
            raise not_modelled(
                f"nn.DataParallel over {trainer.args._n_gpu} cards is not modelled, expected one "
                "process a card (torchrun)"
            )
        self._take_state(
            getattr(getattr(trainer, "accelerator", None), "state", None), trainer.args
        )
        if getattr(trainer, "optimizer", None) is not None:
            self.notes.append(
                f"the Trainer was given an optimizer ({type(trainer.optimizer).__name__}); the "
                "plan has the one of its arguments: give optimizer.name"
            )

    def _take_state(self, state: Any, args: Any) -> None:
        """What `accelerate launch` set up, where the arguments do not say it themselves."""
        fsdp = None if getattr(args, "fsdp", None) else _fsdp_of(state)
        deepspeed = None if getattr(args, "deepspeed", None) else _deepspeed_of(state)
        if fsdp:
            self.strategy["FSDP of accelerate"] = fsdp
        if deepspeed:
            self.strategy["DeepSpeed of accelerate"] = deepspeed

    def world(self) -> int:
        """Ranks: as the arguments say, else as torch.distributed does."""
        size = getattr(self.args, "world_size", None)
        torch = sys.modules.get("torch")
        distributed = getattr(torch, "distributed", None)
        if size is None and distributed is not None and distributed.is_available():
            size = distributed.get_world_size() if distributed.is_initialized() else None
        return int(size or 1)


# ---- what no file says ----


def _checkpointing(base: Any) -> Dict[str, Any]:
    """Layers that are computed again, where the model itself was told so already."""
    name = "is_activation_checkpointing"  # of transformers 5; the older one warns there
    if not getattr(base, name if hasattr(type(base), name) else "is_gradient_checkpointing", False):
        return {}
    values: Dict[str, Any] = {"training.activation_checkpointing": "full"}
    for module in base.modules():
        function = getattr(module, "_gradient_checkpointing_func", None)
        if function is not None:
            told = (getattr(function, "keywords", None) or {}).get("use_reentrant")
            # peft's prepare_model_for_kbit_training says nothing: torch.utils.checkpoint's default
            values["training.use_reentrant"] = told if isinstance(told, bool) else True
            break
    return values


def _switches_checkpointing(args: Any) -> bool:
    """The Trainer enables it anew when it trains, in its arguments' own way."""
    names = ("gradient_checkpointing", "activation_checkpointing")
    if isinstance(args, Mapping):
        return any(args.get(name) for name in names)
    return any(getattr(args, name, None) for name in names)


def _version(name: str) -> Optional[str]:
    """Version of a module that this process has loaded: "2.14.1", without "+cu130"."""
    text = getattr(sys.modules.get(name), "__version__", None)
    found = re.match(r"\d+(\.\d+)*", str(text)) if text else None
    return found.group(0) if found else None


def _software() -> Dict[str, Any]:
    names = {"torch": "pytorch", "transformers": "transformers", "accelerate": "accelerate",
             "peft": "peft", "trl": "trl", "deepspeed": "deepspeed"}  # fmt: skip
    values = {f"software.{field}": _version(name) for name, field in names.items()}
    values["software.cuda"] = getattr(
        getattr(sys.modules.get("torch"), "version", None), "cuda", None
    )
    return {path: value for path, value in values.items() if value}


def _weights_fields(weights: Weights, has_args: bool) -> Dict[str, Any]:
    values: Dict[str, Any] = {}
    if not has_args and weights.dtype:
        values["training.parameter_dtype"] = _DTYPES.get(weights.dtype, weights.dtype)
    if weights.adapter_dtype:
        values["training.lora.adapter_dtype"] = _DTYPES.get(
            weights.adapter_dtype, weights.adapter_dtype
        )
    if weights.prepared:
        values["training.prepare_for_kbit"] = True
    if weights.frozen:
        values["training.frozen"] = weights.frozen
    return values


def _launch(run: _Run) -> Optional[str]:
    """A launch line with the ranks that there are: the reader of job scripts takes it."""
    world = run.world()
    if world < 2:
        return None
    each = int(os.environ.get("LOCAL_WORLD_SIZE", 0) or 0)
    each = each if each and world % each == 0 else world
    return f"torchrun --nnodes={world // each} --nproc-per-node={each} train\n"


def _files(run: _Run, base: Any, weights: Weights) -> Dict[str, Any]:
    """The documents that would lie beside such a run."""
    files: Dict[str, Any] = {"config": _config(base)}
    adapter = adapter_document(run.model)
    if adapter:
        files["adapter_config"] = adapter
    if run.args is not None:
        arguments = _arguments(run.args)
        if weights.dtype and not weights.prepared:
            arguments["dtype"] = _DTYPES.get(weights.dtype, weights.dtype)
        attention = getattr(base.config, "_attn_implementation", None)
        if attention:
            arguments["attn_implementation"] = attention
        files["arguments"] = arguments
    files.update(run.strategy)
    launch = _launch(run)
    if launch and (run.args is not None or run.wrapper == "DistributedDataParallel"):
        files["ranks"] = launch
    return files


def _check_wrapper(run: _Run, fields: Mapping[str, Any]) -> None:
    named = any(_library.find_field(name)["path"] == "parallelism.strategy" for name in fields)
    if run.args is None and run.wrapper in ("FullyShardedDataParallel", "DeepSpeedEngine"):
        if not named:
            raise PlanError(
                f"the model is wrapped in {run.wrapper}, which does not say how: make the plan "
                "before, or give parallelism.strategy and its fields",
                pointer="/parallelism/strategy",
            )


def plan_of(model: Any, args: Any, fields: Mapping[str, Any]) -> Plan:
    """See Plan.from_model."""
    run = _Run(model, args)
    _check_wrapper(run, fields)
    base = base_model(run.model)
    weights = Weights(run.model, _config(base))
    values: Dict[str, Any] = {**_head(base), **_software()}
    if not _switches_checkpointing(run.args):
        values.update(_checkpointing(base))
    values.update(_weights_fields(weights, run.args is not None))
    attention = getattr(base.config, "_attn_implementation", None)
    if attention and run.args is None:
        values["training.attention"] = attention
    experts = getattr(base.config, "_experts_implementation", None)
    if experts and any(getattr(base.config, name, None) for name in _EXPERTS):
        values["training.experts"] = experts
    plan = import_texts(_files(run, base, weights))
    if plan.get("framework.name") == "trl-sft" and _version("trl"):
        values["framework.version"] = _version("trl")
    notes = (*plan.notes, *run.notes, *weights.notes)
    named = {_library.find_field(name)["path"] for name in fields}
    if "device.gpu" not in named:
        values.update(_card.fields())
    made = Plan(plan, **values)
    made = Plan(made, **fields) if fields else made
    if len(notes) > len(plan.notes):
        listed = made.to_dict()
        listed["imported"] = list(notes)[:64]
        made = Plan(listed)
    made.source = type(base).__name__
    made.notes = notes
    made.live = Live(weights.count, weights.trainable, weights.bytes)
    return made
