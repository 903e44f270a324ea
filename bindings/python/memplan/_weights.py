# SPDX-License-Identifier: MIT
"""What the parameters and adapters of a live model say."""

from __future__ import annotations

import enum
import json
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from ._errors import PlanError
from ._frozen import patterns

_FLOATS = ("torch.float", "torch.bfloat")


def not_modelled(text: str, pointer: str = "") -> PlanError:
    return PlanError(text, status="not modelled", pointer=pointer)


def _plain(value: Any) -> Any:
    """What json cannot write by itself."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return str(value)


def plain_json(value: Mapping[str, Any]) -> Dict[str, Any]:
    result: Dict[str, Any] = json.loads(json.dumps(value, default=_plain))
    return result


def base_model(model: Any) -> Any:
    """The model below PEFT's."""
    return (
        model.get_base_model()
        if hasattr(model, "peft_config") and hasattr(model, "get_base_model")
        else model
    )


def _is_quantized(parameter: Any) -> bool:
    return type(parameter).__name__ in ("Params4bit", "Int8Params")


def _count(parameter: Any) -> int:
    """Elements of a parameter as the model has it: not packed, not sharded."""
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        count = 1
        for size in state.shape:
            count *= int(size)
        return count
    if type(parameter).__name__ == "Params4bit":
        return int(parameter.numel()) * 2 * int(parameter.element_size())
    return int(getattr(parameter, "ds_numel", None) or parameter.numel())


def _parameters(model: Any) -> Iterator[Tuple[str, Any]]:
    seen = set()
    for name, parameter in model.named_parameters():
        if id(parameter) not in seen:
            seen.add(id(parameter))
            yield name, parameter


def _is_adapter(name: str) -> bool:
    return ".lora_" in name or ".modules_to_save." in name


def _size(parameter: Any) -> int:
    per_element = parameter.element_size()
    if _is_quantized(parameter):
        return int(parameter.numel()) * int(per_element)
    return _count(parameter) * int(per_element)


def _most(parameters: List[Any]) -> Tuple[Optional[str], List[str]]:
    """The format of most elements, and the others."""
    counts: Dict[str, int] = {}
    for parameter in parameters:
        dtype = str(parameter.dtype)
        counts[dtype] = counts.get(dtype, 0) + _count(parameter)
    if not counts:
        return None, []
    first = max(counts, key=lambda dtype: counts[dtype])
    return first, sorted(set(counts) - {first})


def _kept_in_float32(base: Any) -> List[str]:
    """Parts that the family keeps in float32, which the plan's model section implies."""
    names: List[str] = []
    for attribute in ("_keep_in_fp32_modules", "_keep_in_fp32_modules_strict"):
        names += list(getattr(base, attribute, None) or ())
    return names


class Weights:
    """What the parameters themselves say."""

    def __init__(self, model: Any, config: Mapping[str, Any]) -> None:
        base: List[Any] = []
        adapters: List[Any] = []
        train: List[str] = []
        frozen: List[str] = []
        known = _kept_in_float32(base_model(model))
        self.notes: List[str] = []
        self.count = self.trainable = self.bytes = 0
        self.is_quantized = self.is_adapted = False
        for name, parameter in _parameters(model):
            self.count += _count(parameter)
            self.bytes += _size(parameter)
            self.trainable += _count(parameter) if parameter.requires_grad else 0
            (train if parameter.requires_grad else frozen).append(name)
            self.is_quantized |= _is_quantized(parameter)
            self.is_adapted |= ".lora_" in name
            if _is_adapter(name):
                adapters.append(parameter)
            elif not _is_quantized(parameter) and str(parameter.dtype).startswith(_FLOATS):
                if not any(part in name for part in known):
                    base.append(parameter)
        self.dtype, others = _most(base)
        self.adapter_dtype, _ = _most(adapters)
        self.prepared = self._was_prepared(config)
        if self.prepared:
            self.dtype = "torch." + str(config.get("dtype") or config.get("torch_dtype"))
        elif others:
            self.notes.append(
                f"weights of several formats: all are taken as {self.dtype}, some are "
                + ", ".join(others)
            )
        self.frozen = [] if self.is_adapted or self.is_quantized else patterns(train, frozen)

    def _was_prepared(self, config: Mapping[str, Any]) -> bool:
        """peft's prepare_model_for_kbit_training: what is not quantised became float32."""
        half = str(config.get("dtype") or config.get("torch_dtype")) in ("bfloat16", "float16")
        return self.is_quantized and half and self.dtype == "torch.float32"


# ---- PEFT ----


def _has_adapter(module: Any) -> bool:
    adapters = (getattr(module, "lora_A", None), getattr(module, "lora_embedding_A", None))
    return any(held is not None and len(held) > 0 for held in adapters)


def _targets(model: Any) -> List[str]:
    """Layers with an adapter: by the last name, where all layers of that name have one.

    peft writes out what "all-linear" or a pattern stands for, layer by layer.
    """
    adapted: Dict[str, List[str]] = {}
    bare: Set[str] = set()
    for name, module in model.named_modules():
        last = name.rsplit(".", 1)[-1]
        if _has_adapter(module):
            adapted.setdefault(last, []).append(re.sub(r"^base_model\.model\.", "", name))
        elif hasattr(module, "weight"):
            bare.add(last)
    found: List[str] = []
    for last, names in adapted.items():
        found += names if last in bare else [last]
    return sorted(found)


def adapter_document(model: Any) -> Optional[Dict[str, Any]]:
    """adapter_config.json of the active adapter, with the targets that were found."""
    adapters = getattr(model, "peft_config", None)
    if not adapters:
        return None
    active = getattr(model, "active_adapter", None)
    active = active() if callable(active) else active  # transformers' own mixin has a method
    names = [active] if isinstance(active, str) else list(active or adapters)
    if len(adapters) > 1:
        raise not_modelled("several adapters on one model are not modelled: " + ", ".join(adapters))
    document = plain_json(adapters[names[0]].to_dict())
    document.pop("runtime_config", None)
    document["target_modules"] = _targets(model) or document.get("target_modules")
    return document
