# SPDX-License-Identifier: MIT
"""The memplan command: it alone opens the ledger, which the library, that opens no file, cannot."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, NoReturn, Optional, Union

from ._errors import CommandError, PlanError
from ._estimate import CANNOT_TELL, DOES_NOT_FIT, FITS, INSIDE_MARGIN, Estimate
from ._plan import Plan, PlanLike

#: None: the usual ledger; False: none; else the path of one.
Ledger = Union[None, bool, str, "os.PathLike[str]"]

_OWN = pathlib.Path(__file__).parent / "_lib"
_TIMEOUT_S = 120  # of a command that waits for the lock of a ledger and estimates a plan


def command() -> Optional[str]:
    """Path of the command: MEMPLAN_BIN, the one that the wheel carries, that on PATH; or None."""
    named = os.environ.get("MEMPLAN_BIN")
    if named:
        return named
    own = _OWN / "memplan"
    return str(own) if own.exists() else shutil.which("memplan")


def _environment() -> Dict[str, str]:
    """The command's environment: a wheel has its presets beside it."""
    environment = dict(os.environ)
    if "MEMPLAN_MODELS" not in environment and (_OWN / "models").is_dir():
        environment["MEMPLAN_MODELS"] = str(_OWN / "models")
    return environment


def main() -> NoReturn:
    """`memplan` of the wheel: becomes the command."""
    path = command()
    if not path or not os.path.exists(path):
        sys.exit("memplan: the command is not found, expected it in the wheel or as MEMPLAN_BIN")
    os.execve(path, ["memplan", *sys.argv[1:]], _environment())


def _ledger_options(ledger: Ledger) -> List[str]:
    if ledger is False:
        return ["--no-ledger"]
    return [] if ledger is None or ledger is True else ["--ledger", os.fspath(ledger)]


def _run(words: List[str], plan: Plan) -> "subprocess.CompletedProcess[str]":
    path = command()
    if not path:
        raise CommandError("the command memplan is not found; set MEMPLAN_BIN to its path")
    try:
        return subprocess.run(
            [path, *words, "--model", "-"],
            input=plan.to_json(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=_environment(),
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{path}: {error}") from None


def _message(done: "subprocess.CompletedProcess[str]") -> str:
    lines = done.stderr.strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.returncode}, and no message"
    return last[len("memplan: ") :] if last.startswith("memplan: ") else last


def consult(plan: PlanLike, *, ledger: Ledger = None, risk: Optional[float] = None) -> Estimate:
    """The estimate by the command, which asks the ledger first: what became of such runs."""
    made = Plan(plan)
    words = ["estimate", "--json", "--no-suggestions", *_ledger_options(ledger)]
    if risk:
        words += ["--risk", str(risk)]
    done = _run(words, made)
    if done.returncode in (FITS, DOES_NOT_FIT, INSIDE_MARGIN, CANNOT_TELL) and done.stdout:
        return Estimate(json.loads(done.stdout), made)
    if done.returncode in (2, CANNOT_TELL):
        raise PlanError(_message(done))
    raise CommandError(_message(done))


def record(
    plan: PlanLike,
    *,
    bytes: Optional[int] = None,
    metric: Optional[str] = None,
    ran: bool = False,
    oom: bool = False,
    message: Optional[str] = None,
    ledger: Ledger = None,
) -> str:
    """Appends what became of a run to the ledger, as `memplan record`; returns what it says.

    One of: bytes with its metric ("allocated", "reserved"), ran, oom, or the text of an
    out-of-memory message. Raises CommandError where nothing was written.
    """
    words = ["record", *_ledger_options(ledger)]
    if bytes is not None:
        words += ["--bytes", str(int(bytes))]
    if metric:
        words += ["--metric", metric]
    words += ["--ran"] if ran else []
    words += ["--oom"] if oom else []
    if message is None:
        done = _run(words, Plan(plan))
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".log", encoding="utf-8") as log:
            log.write(message + "\n")
            log.flush()
            done = _run([*words, "--log", log.name], Plan(plan))
    if done.returncode:
        raise CommandError(_message(done))
    return done.stdout.strip()


def record_failure(plan: PlanLike, error: Any, *, ledger: Ledger = None) -> str:
    """Records that a run ran out of memory, with its message where that is one that is known."""
    try:
        return record(plan, message=str(error), ledger=ledger)
    except CommandError:
        return record(plan, oom=True, ledger=ledger)
