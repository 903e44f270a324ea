# SPDX-License-Identifier: MIT
"""memplan: how much GPU memory a training run will need, and whether it fits.

    import memplan

    answer = memplan.estimate("plan.json", sequence_length=24576)
    print(answer)                                   # the verdict in one line
    memplan.check(answer.plan)                      # raises memplan.DoesNotFit
    memplan.max_value("plan.json", "ttt_steps").value

Pure Python over the shared library libmemplan (ctypes); no GPU and no torch is needed.
"""

from ._command import command, record
from ._errors import (
    CommandError,
    DoesNotFit,
    InsideMargin,
    LibraryError,
    MemplanError,
    PlanError,
    Refused,
)
from ._estimate import Boundary, Estimate, Point, check, dump, estimate, max_value, min_value
from ._library import version
from ._plan import Live, Plan, import_files, import_texts
from ._watch import watch

__all__ = [
    "Boundary",
    "CommandError",
    "DoesNotFit",
    "Estimate",
    "InsideMargin",
    "LibraryError",
    "Live",
    "MemplanError",
    "Plan",
    "PlanError",
    "Point",
    "Refused",
    "check",
    "command",
    "dump",
    "estimate",
    "import_files",
    "import_texts",
    "max_value",
    "min_value",
    "record",
    "version",
    "watch",
]
