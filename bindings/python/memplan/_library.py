# SPDX-License-Identifier: MIT
"""The shared library: where it is, its functions, its errors as exceptions."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._errors import LibraryError, MemplanError, PlanError

SONAME = "libmemplan.so.0"
LEAST = (0, 1)  # the oldest release that has all functions below

NOMEM, ARG, INTERNAL = 1, 2, 8  # enum memplan_status

_POINTER = ctypes.c_void_p
_OUT = ctypes.POINTER(ctypes.c_void_p)
_SIZE = ctypes.c_size_t


class Error(ctypes.Structure):
    """struct memplan_error; its layout is frozen."""

    _fields_ = [
        ("status", ctypes.c_int),
        ("line", ctypes.c_uint32),
        ("column", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("source", ctypes.c_char * 128),
        ("path", ctypes.c_char * 128),
        ("text", ctypes.c_char * 512),
    ]


class Options(ctypes.Structure):
    """struct memplan_options."""

    _fields_ = [
        ("size", _SIZE),
        ("risk", ctypes.c_double),
        ("ignore_readings", ctypes.c_uint32),
        ("no_suggestions", ctypes.c_uint32),
        ("dump_stages", ctypes.c_uint32),
        ("all_ranks", ctypes.c_uint32),
        ("peaks_only", ctypes.c_uint32),
        ("calibration", _POINTER),
        ("verdict_only", ctypes.c_uint32),
    ]


_FIELD = ("path", "type", "range", "fallback", "help")


class Field(ctypes.Structure):
    """struct memplan_field."""

    _fields_ = [(name, ctypes.c_char_p) for name in _FIELD]


class Summary(ctypes.Structure):
    """struct memplan_summary."""

    _fields_ = [
        ("size", _SIZE),
        ("verdict", ctypes.c_int),
        ("alternatives", ctypes.c_uint32),
        ("survival_probability", ctypes.c_double),
        ("live_bytes", ctypes.c_uint64),
        ("allocated_bytes", ctypes.c_uint64),
        ("reserved_bytes", ctypes.c_uint64),
        ("needs_low_bytes", ctypes.c_uint64),
        ("needs_high_bytes", ctypes.c_uint64),
        ("device_bytes", ctypes.c_uint64),
        ("usable_bytes", ctypes.c_uint64),
        ("parameters", ctypes.c_uint64),
        ("trainable_parameters", ctypes.c_uint64),
    ]


class SearchOptions(ctypes.Structure):
    """struct memplan_search_options."""

    _fields_ = [
        ("size", _SIZE),
        ("field", ctypes.c_char_p),
        ("from_", ctypes.c_int64),
        ("to", ctypes.c_int64),
        ("has_from", ctypes.c_uint32),
        ("has_to", ctypes.c_uint32),
        ("multiple_of", ctypes.c_int64),
        ("wants_least", ctypes.c_uint32),
        ("ignore_readings", ctypes.c_uint32),
        ("risk", ctypes.c_double),
    ]


class SearchResult(ctypes.Structure):
    """struct memplan_search_result."""

    _fields_ = [
        ("size", _SIZE),
        ("field", Field),
        ("from_", ctypes.c_int64),
        ("to", ctypes.c_int64),
        ("multiple_of", ctypes.c_int64),
        ("verdict", ctypes.c_int),
        ("trend", ctypes.c_int),
        ("value", ctypes.c_int64),
        ("beyond", ctypes.c_int64),
        ("cut_at", ctypes.c_int64),
        ("hole", ctypes.c_int64 * 3),
        ("turn", ctypes.c_int64 * 3),
        ("has_beyond", ctypes.c_uint32),
        ("is_cut", ctypes.c_uint32),
        ("is_spent", ctypes.c_uint32),
        ("has_hole", ctypes.c_uint32),
        ("points", ctypes.c_uint32),
        ("skipped", ctypes.c_uint32),
        ("skipped_value", ctypes.c_int64),
        ("skipped_text", ctypes.c_char * 256),
        ("reason", ctypes.c_char * 256),
    ]


class Point(ctypes.Structure):
    """struct memplan_point."""

    _fields_ = [
        ("size", _SIZE),
        ("value", ctypes.c_int64),
        ("text", ctypes.c_char * 256),
        ("summary", Summary),
    ]


class Gpu(ctypes.Structure):
    """struct memplan_gpu, up to the totals: the library writes no more than size says."""

    _fields_ = [
        ("size", _SIZE),
        ("name", ctypes.c_char_p),
        ("aliases", ctypes.c_char_p),
        ("arch", ctypes.c_char_p),
        ("is_mig_instance", ctypes.c_uint32),
        ("compute_capability", ctypes.c_uint32),
        ("multiprocessors", ctypes.c_uint32),
        ("nominal_gb", ctypes.c_uint32),
        ("total_bytes", ctypes.c_uint64),
        ("total_low_bytes", ctypes.c_uint64),
        ("total_high_bytes", ctypes.c_uint64),
    ]


class ImportFile(ctypes.Structure):
    """struct memplan_import_file."""

    _fields_ = [("name", ctypes.c_char_p), ("bytes", ctypes.c_char_p), ("len", _SIZE)]


_ERROR = ctypes.POINTER(Error)

# Every function has its types: ctypes takes a pointer that is returned for an int otherwise.
_FUNCTIONS: List[Tuple[str, Any, List[Any]]] = [
    ("version", ctypes.c_char_p, []),
    ("status_name", ctypes.c_char_p, [ctypes.c_int]),
    ("verdict_name", ctypes.c_char_p, [ctypes.c_int]),
    ("free", None, [_POINTER]),
    ("plan_load", ctypes.c_int, [ctypes.c_char_p, _SIZE, ctypes.c_char_p, _OUT, _ERROR]),
    ("plan_set", ctypes.c_int, [_POINTER, ctypes.c_char_p, _ERROR]),
    ("plan_check", ctypes.c_int, [_POINTER, _ERROR]),
    ("plan_to_json", ctypes.c_int, [_POINTER, _OUT, _ERROR]),
    ("plan_free", None, [_POINTER]),
    ("estimate", ctypes.c_int, [_POINTER, ctypes.POINTER(Options), _OUT, _ERROR]),
    ("report_to_json", ctypes.c_int, [_POINTER, _OUT, _ERROR]),
    ("report_dump", ctypes.c_int, [_POINTER, ctypes.c_int, _OUT, _ERROR]),
    ("report_free", None, [_POINTER]),
    ("field_find", ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(Field), _ERROR]),
    ("search", ctypes.c_int, [_POINTER, ctypes.POINTER(SearchOptions), _OUT, _ERROR]),
    ("search_describe", ctypes.c_int, [_POINTER, ctypes.POINTER(SearchResult), _ERROR]),
    ("search_point", ctypes.c_int, [_POINTER, _SIZE, ctypes.POINTER(Point)]),
    ("search_free", None, [_POINTER]),
    ("gpu_find", ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(Gpu), _ERROR]),
    ("gpu_entry", ctypes.c_int, [_SIZE, ctypes.POINTER(Gpu)]),
    ("import_format", ctypes.c_char_p, [ctypes.c_char_p, _SIZE]),
    ("import_read", ctypes.c_int, [ctypes.POINTER(ImportFile), _SIZE, _OUT, _ERROR]),
    ("import_to_json", ctypes.c_int, [_POINTER, _OUT, _ERROR]),
    ("import_note", ctypes.c_char_p, [_POINTER, _SIZE]),
    ("import_model", ctypes.c_char_p, [_POINTER]),
    ("import_free", None, [_POINTER]),
]


def _candidates() -> List[str]:
    """In order: what the user names, what the wheel carries, what the system has."""
    named = os.environ.get("MEMPLAN_LIBRARY")
    if named:
        return [named]  # somebody who names one does not want another in silence
    own = pathlib.Path(__file__).parent / "_lib" / SONAME
    return [str(own), SONAME] if own.exists() else [SONAME]


def _check_version(library: ctypes.CDLL, name: str) -> None:
    text = library.memplan_version().decode()
    parts = tuple(int(part) for part in text.split(".")[:2])
    if parts[0] != LEAST[0] or parts < LEAST:
        least = ".".join(map(str, LEAST))
        raise LibraryError(
            f"{name}: version {text}, expected {least} or newer with the interface {SONAME}"
        )


def _open(name: str) -> ctypes.CDLL:
    library = ctypes.CDLL(name)
    for function, result, arguments in _FUNCTIONS:
        try:
            pointer = getattr(library, "memplan_" + function)
        except AttributeError:
            missing = f"{name}: no function memplan_{function}, expected {SONAME}"
            raise LibraryError(missing) from None
        pointer.restype, pointer.argtypes = result, arguments
    _check_version(library, name)
    return library


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """The library, opened once. Raises LibraryError."""
    failures = []
    for name in _candidates():
        try:
            return _open(name)
        except OSError as error:
            failures.append(str(error))
    raise LibraryError(
        "libmemplan is not found: " + "; ".join(failures) + "; set MEMPLAN_LIBRARY to its file"
    )


def version() -> str:
    """Version of the loaded library."""
    return str(load().memplan_version().decode())


def _text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def _raise(library: ctypes.CDLL, error: Error) -> None:
    if error.status == NOMEM:
        raise MemoryError(_text(error.text))
    if error.status in (ARG, INTERNAL):
        raise MemplanError(_text(error.text))
    raise PlanError(
        _text(error.text),
        status=_text(library.memplan_status_name(error.status)),
        pointer=_text(error.path),
        source=_text(error.source),
        line=error.line,
        column=error.column,
    )


def call(function: str, *arguments: Any) -> None:
    """Calls a function that returns a status; the error comes as an exception."""
    library, error = load(), Error()
    if getattr(library, "memplan_" + function)(*arguments, ctypes.byref(error)):
        _raise(library, error)


def call_text(function: str, *arguments: Any) -> str:
    """Calls a function whose result is a new string."""
    out = ctypes.c_void_p()
    call(function, *arguments, ctypes.byref(out))
    try:
        return ctypes.string_at(out).decode()
    finally:
        load().memplan_free(out)


class Object:
    """An object of the library, freed at the end of a with block."""

    def __init__(self, make: Callable[[Any], None], free: str) -> None:
        self._pointer = ctypes.c_void_p()
        self._free = getattr(load(), "memplan_" + free)
        make(ctypes.byref(self._pointer))

    def __enter__(self) -> ctypes.c_void_p:
        return self._pointer

    def __exit__(self, *_: Any) -> None:
        self._free(self._pointer)
        self._pointer = ctypes.c_void_p()


def plan_object(text: bytes, source: str) -> Object:
    """A plan from its JSON."""
    name = source.encode("utf-8", "surrogateescape")
    return Object(lambda out: call("plan_load", text, len(text), name, out), "plan_free")


def import_object(files: List[Tuple[str, bytes]]) -> Object:
    """What is found in configurations. Their bytes must live as long as it."""
    array = (ImportFile * len(files))()
    for item, (name, content) in zip(array, files):
        item.name = name.encode("utf-8", "surrogateescape")
        item.bytes, item.len = content, len(content)
    made = Object(lambda out: call("import_read", array, len(files), out), "import_free")
    made.keeps = array  # type: ignore[attr-defined]
    return made


def find_field(name: str) -> Dict[str, str]:
    """The row of a field: path, type, range, fallback, help."""
    field = Field()
    call("field_find", name.encode(), ctypes.byref(field))
    return {key: _text(getattr(field, key)) for key in _FIELD}
