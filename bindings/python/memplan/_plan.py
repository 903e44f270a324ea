# SPDX-License-Identifier: MIT
"""A plan: from a dict, JSON text, a file, a preset, trainers' configurations, or a live model."""

from __future__ import annotations

import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from . import _library
from ._errors import PlanError

#: What a plan can be made of. Text that begins with a brace is JSON, other text a path or a preset.
PlanLike = Union["Plan", Mapping[str, Any], str, "os.PathLike[str]"]

_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Live:
    """What was counted on a live model, to hold the plan to."""

    parameters: int
    trainable_parameters: int
    parameter_bytes: int


def _folders() -> List[pathlib.Path]:
    """Where presets lie: as the command looks, then beside this module."""
    named = os.environ.get("MEMPLAN_MODELS")
    if named:
        return [pathlib.Path(named)]
    return [
        pathlib.Path(__file__).parent / "_lib" / "models",
        pathlib.Path("/usr/local/share/memplan/models"),
        pathlib.Path("/usr/share/memplan/models"),
    ]


def _find_preset(name: str) -> Optional[pathlib.Path]:
    if "/" in name or name.startswith("."):
        return None
    for folder in _folders():
        for path in (folder / name, folder / (name + ".json")):
            if path.is_file():
                return path
    return None


def _read(path: "os.PathLike[str]") -> bytes:
    with open(path, "rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise PlanError("larger than 64 MiB", source=os.fspath(path))
    return content


def _read_named(name: str) -> Tuple[bytes, str]:
    path = pathlib.Path(name)
    if not path.is_file():
        preset = _find_preset(name)
        if not preset:
            raise PlanError("no such file, and no preset of that name", source=name)
        return _read(preset), preset.name
    return _read(path), name


def _dump(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise PlanError(f"not JSON: {error}") from None


def _import(files: List[Tuple[str, bytes]]) -> Tuple[str, List[str], Optional[str]]:
    """The plan as JSON, notes, and the model that is named without its config.json."""
    library = _library.load()
    with _library.import_object(files) as found:
        text = _library.call_text("import_to_json", found)
        notes: List[str] = []
        while (note := library.memplan_import_note(found, len(notes))) is not None:
            notes.append(note.decode("utf-8", "replace"))
        model = library.memplan_import_model(found)
    return text, notes, model.decode("utf-8", "replace") if model else None


def _import_all(files: List[Tuple[str, bytes]]) -> Tuple[str, List[str]]:
    """As `memplan import`: a model that is only named is a folder with its config.json."""
    text, notes, model = _import(files)
    if model:
        path = pathlib.Path(model) / "config.json"
        if path.is_file():
            text, notes, _ = _import([(str(path), _read(path)), *files])
        else:
            notes = [*notes, f"the model {model} is no folder with a config.json; give that, too"]
    return text, notes


def _assignment(path: str, value: Any) -> bytes:
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()  # numbers of numpy and torch
    return path.encode() + b"=" + _dump(value)


class Plan:
    """A description of a run. It does not change: ``set`` gives a new one.

    ``Plan(source)`` takes a dict, JSON text, a path or the name of a preset; a trainer's
    configuration is imported. ``notes`` are sentences on what an import could not say.
    """

    __slots__ = ("_text", "source", "notes", "live")
    _text: str

    def __init__(self, source: PlanLike, **fields: Any) -> None:
        self.notes: Tuple[str, ...] = ()
        self.live: Optional[Live] = None
        self.source = ""
        if isinstance(source, Plan):
            self._text = source._text
            self.source, self.notes, self.live = source.source, source.notes, source.live
        else:
            self._take(source)
        if fields:
            self._text = self._with(fields)

    def _take(self, source: Any) -> None:
        if isinstance(source, Mapping):
            content = _dump(source)
        elif isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("{"):
            content = source.encode()
        elif isinstance(source, os.PathLike):
            content, self.source = _read(source), os.fspath(source)
        elif isinstance(source, str):
            content, self.source = _read_named(source)
        else:
            raise TypeError(f"a plan cannot be made of {type(source).__name__}")
        kind = _library.load().memplan_import_format(content, len(content))
        if kind and kind not in (b"plan", b"config.json of a model"):
            text, notes = _import_all([(self.source or "configuration", content)])
            content, self.notes = text.encode(), tuple(notes)
        with _library.plan_object(content, self.source) as plan:
            self._text = _library.call_text("plan_to_json", plan)

    def _with(self, fields: Mapping[str, Any]) -> str:
        with self._object() as plan:
            for name, value in fields.items():
                path = _library.find_field(name)["path"]
                _library.call("plan_set", plan, _assignment(path, value))
            return _library.call_text("plan_to_json", plan)

    def _object(self) -> _library.Object:
        return _library.plan_object(self._text.encode(), self.source)

    def set(self, **fields: Any) -> "Plan":
        """A plan with other values: ``plan.set(sequence_length=8192, gpu="H100 80GB HBM3")``.

        A field is named by its path or the last names of it; ``**{"training.steps": 1}`` where a
        name has dots. None takes a value away.
        """
        return Plan(self, **fields)

    def get(self, path: str, default: Any = None) -> Any:
        """The value of a whole path in the document, as it is written there."""
        value: Any = self.to_dict()
        for name in path.split("."):
            if not isinstance(value, Mapping) or name not in value:
                return default
            value = value[name]
        return value

    def validate(self) -> None:
        """Checks every field as an estimate would. Raises PlanError."""
        with self._object() as plan:
            _library.call("plan_check", plan)

    def to_json(self) -> str:
        """The document, defaults not filled in."""
        return self._text

    def to_dict(self) -> Dict[str, Any]:
        """The document as a dict of its own."""
        result: Dict[str, Any] = json.loads(self._text)
        return result

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the document to a file, for the command."""
        pathlib.Path(path).write_text(self._text + "\n", encoding="utf-8")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def __repr__(self) -> str:
        model = self.get("model.model_type", "?")
        length = self.get("training.sequence_length", "?")
        return f"<memplan.Plan {self.source or model}, {length} tokens>"

    @classmethod
    def from_model(cls, model: Any, args: Any = None, **fields: Any) -> "Plan":
        """The plan of a live transformers model, or of a Trainer, with TrainingArguments.

        Nothing is computed and no tensor is read: a model on the meta device will do. See
        docs/python.md for what is taken from where. ``fields`` as in ``set``.
        """
        from ._live import plan_of

        return plan_of(model, args, fields)


def import_files(*paths: Union[str, "os.PathLike[str]"], **fields: Any) -> Plan:
    """One plan from configurations of trainers and launchers, as `memplan import` makes it."""
    if not paths:
        raise TypeError("import_files: expected at least one path")
    return import_texts({os.fspath(path): _read(pathlib.Path(path)) for path in paths}, **fields)


def import_texts(files: Mapping[str, Union[str, bytes, Mapping[str, Any]]], **fields: Any) -> Plan:
    """The same from texts or dicts, by the names that messages should give them."""
    listed: List[Tuple[str, bytes]] = []
    for name, content in files.items():
        if isinstance(content, Mapping):
            content = _dump(content)
        listed.append((name, content.encode() if isinstance(content, str) else bytes(content)))
    text, notes = _import_all(listed)
    plan = Plan(text)
    plan.notes = tuple(notes)
    return Plan(plan, **fields) if fields else plan
