# SPDX-License-Identifier: MIT
"""pytest -p tap: prints what became of each test in TAP, for Meson."""

import sys

_results = []


def _add(report, is_failed, is_skipped):
    text = "not ok" if is_failed else "ok"
    text += f" {len(_results) + 1} - {report.nodeid.split('/')[-1].replace('#', '')}"
    if is_skipped:
        text += " # SKIP " + str(report.longrepr[2]).replace("\n", " ")
    if is_failed:
        text += "".join("\n# " + line for line in report.longreprtext.splitlines())
    _results.append(text)


def pytest_collectreport(report):
    """A file that cannot be read, or is skipped as a whole."""
    if not report.passed:
        _add(report, report.failed, report.skipped)


def pytest_runtest_logreport(report):
    """Called for set-up, call and tear-down of each test."""
    if report.when != "call" and report.passed:
        return
    _add(report, report.failed, report.skipped)


def pytest_unconfigure():
    """The end of all tests."""
    print("\n".join(_results) + f"\n1..{len(_results)}", file=sys.__stdout__, flush=True)
