# SPDX-License-Identifier: MIT
"""The wheel: built, installed where nothing else is, used."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import HERE, ROOT

NEEDS = """
import setuptools, pip  # in this order: setuptools brings its own distutils
try:
    import setuptools.command.bdist_wheel
except ImportError:  # before setuptools 70.1
    import wheel.bdist_wheel
"""
# A virtual environment need not have pip: the Python that it is made of has, or the system's.
PYTHONS = [str(pathlib.Path(sys.base_prefix) / "bin" / "python3"), "/usr/bin/python3"]
PROGRAMS = ("patchelf", "readelf", "ldd")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("MEMPLAN_", "LD_", "PYTHON"))}


def run(*words, code=0, **environment):
    done = subprocess.run(
        [str(word) for word in words], env={**CLEAN, **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", check=False, cwd="/",
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    return done.stdout


def can_build(python):
    return subprocess.run([python, "-c", NEEDS], stderr=subprocess.DEVNULL).returncode == 0


@pytest.fixture(scope="module")
def base():
    """A Python that can build wheels."""
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    found = [python for python in PYTHONS if os.path.exists(python) and can_build(python)]
    if lacking or not found:
        pytest.skip(f"{' '.join(lacking) or 'pip, setuptools or wheel'} is not installed")
    return found[0]


@pytest.fixture(scope="module")
def wheel(base, tmp_path_factory):
    """Built from a copy, so that nothing is written into the sources."""
    work = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(HERE.parent, work / "bindings/python", ignore=ignored)
    for name in ("models", "meson.build"):
        os.symlink(ROOT / name, work / name)
    build = pathlib.Path(os.environ["MEMPLAN_BIN"]).resolve().parents[1]
    run(base, "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "-w",
        work / "wheels", work / "bindings/python", MEMPLAN_BUILD=str(build))  # fmt: skip
    (found,) = (work / "wheels").iterdir()
    return found


@pytest.fixture(scope="module")
def python(base, wheel, tmp_path_factory):
    """A Python that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(base, "-m", "venv", "--without-pip", folder)
    run(base, "-m", "pip", "--python", folder / "bin/python", "install", "--no-index", "--no-deps",
        wheel)  # fmt: skip
    return folder / "bin/python"


def test_tag(wheel):
    assert re.fullmatch(r"memplan-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/WHEEL"))).decode()
    assert "Root-Is-Purelib: false" in metadata
    assert "memplan/py.typed" in names and "memplan/_lib/models/gpt2.json" in names
    assert not any(name.startswith("tests/") for name in names)


def test_it_carries_what_it_links(python):
    folder = next(python.parents[1].glob("lib/*/site-packages/memplan/_lib"))
    for path in folder.glob("*.so.*"):
        for name, where in re.findall(r"(\S+) => (\S+)", run("ldd", path)):
            assert where.startswith(str(folder)) or re.match(r"lib[cm]\.so", name), (path, name)


def test_library(python):
    told = run(python, "-c", "import memplan; print(memplan.estimate('gpt2')); "
               "print(memplan._library.load()._name)")  # fmt: skip
    assert told.startswith("fits: needs ") and "site-packages/memplan/_lib/libmemplan.so.0" in told


def test_command(python, tmp_path):
    memplan = python.parent / "memplan"
    state = {"XDG_STATE_HOME": str(tmp_path)}
    assert run(memplan, "check", "gpt2", **state).startswith("fits")
    run(memplan, "check", "llama-3.1-405b", "--seq", 4194304 // 32, "--gpus", 1, code=3, **state)
    assert run(memplan, "exec", "--model", "gpt2", "--", "echo", "started", **state) == "started\n"
    told = run(python, "-c", "import memplan; print(memplan.record('gpt2', ran=True))", **state)
    assert told.startswith("recorded ")
