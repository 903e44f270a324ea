# SPDX-License-Identifier: MIT
"""Builds libmemplan and the command with Meson and puts them, with what they link, into the wheel.

MEMPLAN_BUILD names a Meson build folder to take them from instead.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sysconfig

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = ["include", "lib", "cli", "models", "meson.build", "meson_options.txt", "LICENSE"]
SONAME = "libmemplan.so.0"

# What every Linux with glibc has (PEP 600): all else is carried.
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux[-\w]*)\.so\.\d+$")


def root():
    """The sources of the library: in this folder of a source distribution, else above it."""
    packed = HERE / "source"
    return packed if packed.is_dir() else HERE.parents[1]


def version():
    text = (root() / "meson.build").read_text(encoding="utf-8")
    return re.search(r"^  version: '([^']+)'", text, re.MULTILINE).group(1)


def output(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def build_native(folder):
    """A Meson build folder that holds the library and the command."""
    named = os.environ.get("MEMPLAN_BUILD")
    if named:
        return pathlib.Path(named).resolve()
    folder = pathlib.Path(folder).resolve() / "native"
    if not (folder / "build.ninja").exists():
        options = ["--buildtype=release", "-Dtests=disabled", "-Dexamples=false", "-Dcli=enabled"]
        subprocess.run(["meson", "setup", str(folder), str(root()), *options], check=True)
    subprocess.run(["meson", "compile", "-C", str(folder)], check=True)
    return folder


def linked(path):
    """Libraries that a file links, directly or not, and that a system need not have."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", str(path)), re.MULTILINE)
    return {
        name: pathlib.Path(where)
        for name, where in found
        if not SYSTEM.match(name) and name != SONAME
    }


def copy_licence(library, folder):
    """The copyright file of the Debian package that a carried library is from."""
    if not shutil.which("dpkg-query"):
        return
    for path in (library, library.resolve(), pathlib.Path("/usr") / str(library).lstrip("/")):
        done = subprocess.run(["dpkg-query", "-S", str(path)], capture_output=True, text=True)
        if done.returncode == 0:
            package = done.stdout.split(":")[0]
            text = pathlib.Path("/usr/share/doc") / package / "copyright"
            if text.exists():
                folder.mkdir(exist_ok=True)
                shutil.copy(text, folder / package)
            return


def carry(native, folder):
    """Copies all of it into one folder, whose files find each other there."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {SONAME: native / "lib" / SONAME, "memplan": native / "cli" / "memplan"}
    for path in list(files.values()):
        if not path.exists():
            raise SystemExit(f"{path} is missing: the build has no {path.name}")
        files.update(linked(path))
    for name, path in files.items():
        target = folder / name
        shutil.copy(path.resolve(), target)
        target.chmod(0o755)
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", str(target)], check=True)
        if name not in (SONAME, "memplan"):
            copy_licence(path, folder / "licenses")
    shutil.copytree(root() / "models", folder / "models", dirs_exist_ok=True)


def least_glibc(folder):
    """The newest symbol version that any of the files asks for: 2.34 as (2, 34)."""
    found = {(2, 17)}
    for path in folder.iterdir():
        if path.is_file():
            text = output("readelf", "--version-info", "--wide", str(path))
            found.update(
                tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", text)
            )
    return max(found)


class BuildWithLibrary(build_py):
    """The package, and in its folder _lib the library and the command."""

    def run(self):
        super().run()
        if getattr(self, "editable_mode", False):
            return  # MEMPLAN_LIBRARY or the system's library then
        temporary = self.get_finalized_command("build").build_temp
        carry(build_native(temporary), pathlib.Path(self.build_lib) / "memplan" / "_lib")


class PlatformWheel(bdist_wheel):
    """Any Python 3, one kind of machine, and the oldest glibc that will do."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        folder = pathlib.Path(self.get_finalized_command("build").build_lib) / "memplan" / "_lib"
        machine = sysconfig.get_platform().replace("linux-", "").replace("-", "_").replace(".", "_")
        if not folder.is_dir():
            return "py3", "none", "linux_" + machine
        major, minor = least_glibc(folder)
        return "py3", "none", f"manylinux_{major}_{minor}_{machine}"


class SourceWithLibrary(sdist):
    """The package and the sources of the library."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in SOURCES:
            source, target = root() / name, pathlib.Path(base_dir) / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)


class BinaryDistribution(Distribution):
    """Not pure, though no module is compiled."""

    def has_ext_modules(self):
        return True


setup(
    version=version(),
    distclass=BinaryDistribution,
    cmdclass={
        "build_py": BuildWithLibrary,
        "bdist_wheel": PlatformWheel,
        "sdist": SourceWithLibrary,
    },
)
