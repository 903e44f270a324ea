# SPDX-License-Identifier: MIT
"""Where the library is found, and which one is taken."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import memplan
import pytest
from conftest import HERE, ROOT
from memplan import _library

LIBRARY = os.environ["MEMPLAN_LIBRARY"]
SHOW = "import memplan; print(memplan.version())"


def run(code, folder=HERE.parent, **environment):
    """A fresh Python with the package in a folder."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MEMPLAN_", "LD_LIBRARY"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,  # which comes before PYTHONPATH
        env={**clean, "PYTHONPATH": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )


def test_named():
    done = run(SHOW, MEMPLAN_LIBRARY=LIBRARY)
    assert done.stdout.strip() == memplan.version()


def test_beside_the_module(tmp_path):
    shutil.copytree(HERE.parent / "memplan", tmp_path / "memplan",
                    ignore=shutil.ignore_patterns("_lib", "__pycache__"))  # fmt: skip
    (tmp_path / "memplan/_lib").mkdir()
    os.symlink(LIBRARY, tmp_path / "memplan/_lib/libmemplan.so.0")
    assert run(SHOW, tmp_path).stdout.strip() == memplan.version()


def test_by_soname(tmp_path):
    os.symlink(LIBRARY, tmp_path / "libmemplan.so.0")
    assert run(SHOW, LD_LIBRARY_PATH=str(tmp_path)).stdout.strip() == memplan.version()


def test_none():
    done = run(SHOW, MEMPLAN_LIBRARY="/nowhere/libmemplan.so.0")
    assert "LibraryError: libmemplan is not found: /nowhere/" in done.stdout


def test_another_library():
    done = run(SHOW, MEMPLAN_LIBRARY="libm.so.6")
    assert "libm.so.6: no function memplan_version, expected libmemplan.so.0" in done.stdout


def test_another_version(monkeypatch):
    monkeypatch.setattr(_library, "LEAST", (0, 99))
    with pytest.raises(memplan.LibraryError, match=r"version 0\.\d+\.\d+, expected 0\.99 or newer"):
        _library._open(LIBRARY)
    monkeypatch.setattr(_library, "LEAST", (1, 0))
    with pytest.raises(memplan.LibraryError, match="expected 1.0 or newer"):
        _library._open(LIBRARY)


def members(text, name):
    """Names of the members of a struct of the header, in their order."""
    body = re.search(r"struct " + name + r" \{(.*?)\n\};", text, re.DOTALL).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    found = []
    for line in body.split(";"):
        line = re.sub(r"\[[^]]*\]", "", line.strip())
        for part in line.split(",") if line else []:
            found.append(re.search(r"(\w+)\s*$", part).group(1))
    return found


@pytest.mark.parametrize(
    "struct, ours",
    [
        ("memplan_error", _library.Error),
        ("memplan_options", _library.Options),
        ("memplan_field", _library.Field),
        ("memplan_summary", _library.Summary),
        ("memplan_search_options", _library.SearchOptions),
        ("memplan_search_result", _library.SearchResult),
        ("memplan_point", _library.Point),
        ("memplan_import_file", _library.ImportFile),
        ("memplan_gpu", _library.Gpu),
    ],
)
def test_structs_are_those_of_the_header(struct, ours):
    """Members are only ever added at the end, so a beginning of them is enough."""
    header = (ROOT / "include/memplan.h").read_text()
    mine = [name.rstrip("_") for name, _ in ours._fields_]
    assert members(header, struct)[: len(mine)] == mine


def test_structs_have_the_sizes_of_the_compiler(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    structs = {"error": _library.Error, "options": _library.Options, "point": _library.Point,
               "summary": _library.Summary, "search_options": _library.SearchOptions,
               "search_result": _library.SearchResult}  # fmt: skip
    lines = [f'printf("%zu\\n", sizeof(struct memplan_{name}));' for name in structs]
    source = tmp_path / "sizes.c"
    source.write_text("#include <memplan.h>\n#include <stdio.h>\nint main(void) {" + "".join(lines)
                      + "return 0; }\n")  # fmt: skip
    subprocess.run([compiler, "-I", str(ROOT / "include"), str(source), "-o", tmp_path / "sizes"],
                   check=True)  # fmt: skip
    sizes = subprocess.run([tmp_path / "sizes"], check=True, stdout=subprocess.PIPE).stdout.split()
    import ctypes

    assert [int(size) for size in sizes] == [ctypes.sizeof(s) for s in structs.values()]
    assert pathlib.Path(LIBRARY).exists()
